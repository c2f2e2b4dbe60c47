"""The one way to run git: executes nothing that a repository or a user configures, and bounds every call's time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from remand.app.errors import EnvironmentFault
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

SECONDS = 60.0
PIPE = -1  # As in subprocess, which is imported only to run something.
SAFE = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
SETTINGS = (
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "protocol.allow=never"),
    *("-c", "core.commitGraph=false"),
)
OUR_IDENTITY = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "Remand"), ("EMAIL", "remand@localhost"))
}
MAX_COMPLAINT = 600


def git_version() -> str:
    """The version of git; empty if git is not installed."""
    try:
        answer = run_git("/", "--version")
    except (EnvironmentFault, OSError):
        return ""
    return os.fsdecode(answer.stdout).strip().removeprefix("git version ")


def run_git(
    folder: str,
    *arguments: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """Runs git in a folder without hooks, prompts, lazy fetches, or any configuration but the repository's."""
    process = start_git(folder, *arguments, environment=environment)
    return finish_process(process, f"git {arguments[0]} in {folder}", stdin, seconds)


def query_git(
    folder: str,
    *arguments: str,
    failure: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Runs git and returns its output; raises EnvironmentFault with the given message if it fails."""
    answer = run_git(folder, *arguments, stdin=stdin, environment=environment)
    if answer.returncode:
        raise EnvironmentFault(f"{failure}: {git_error(answer.stderr)}. Fix that, then repeat.")
    return answer.stdout


def start_git(
    folder: str, *arguments: str, environment: Mapping[str, str] | None = None, stderr: int = PIPE
) -> subprocess.Popen[bytes]:
    """Starts git as `run_git` does; `finish_process` returns the result."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return start_process(
        ["git", *SETTINGS, *arguments], folder, inherited | SAFE | dict(environment or {}), stderr=stderr
    )


def start_process(
    command: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    *,
    stdin: int | IO[bytes] = PIPE,
    stdout: int = PIPE,
    stderr: int | IO[bytes] = PIPE,
    has_own_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Starts git with exactly this environment. With a session of its own, its child processes end with it."""
    import subprocess

    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=has_own_session,
        )
    except FileNotFoundError as error:
        if error.filename != command[0]:
            raise EnvironmentFault(f"git cannot be started in {folder}: {error.strerror}.") from None
        raise EnvironmentFault("git is not installed, or not on PATH. Install it, then repeat.") from None
    except OSError as error:
        raise EnvironmentFault(f"git cannot be started in {folder}: {error.strerror}.") from None


def finish_process(
    process: subprocess.Popen[bytes], what: str, stdin: bytes = b"", seconds: float = SECONDS
) -> subprocess.CompletedProcess[bytes]:
    """Waits for a started git process and returns its result. The process never outlives this call."""
    import signal
    import subprocess

    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise EnvironmentFault(f"{what} did not answer within {seconds:.0f} s.") from None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    is_leader = os.getpgid(process.pid) == process.pid
                    (os.killpg if is_leader else os.kill)(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kills a long-running git process and closes its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def git_error(errors: bytes) -> str:
    """Git's error message, as one line without control characters."""
    text = re.sub(r"\s+", " ", errors[-MAX_COMPLAINT:].decode("utf-8", "replace")).strip()
    return "".join(letter if letter.isprintable() else "?" for letter in text) or "it gave no reason"


def user_identity(folder: str) -> tuple[str, str]:
    """The user's name and email address from git's configuration, or ours. Reading them executes nothing."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "config", "-z", "--get-regexp", r"^user\.(name|email)$"]
    answer = finish_process(start_process(command, folder, inherited), "git config")
    rows = (row.partition("\n") for row in answer.stdout.decode("utf-8", "replace").split("\0"))
    found = {key: value for key, _, value in rows if value}
    return found.get("user.name", "Remand"), found.get("user.email", "remand@localhost")


# ----------------------------------------------------------------------------------------- git's output


def parse_batch(output: bytes) -> Iterator[tuple[str, str, bytes]]:
    """The objects in the output of `cat-file --batch`: id, kind and content. Missing objects are left out."""
    start = 0
    while (end := output.find(b"\n", start)) >= 0:
        words = output[start:end].decode("ascii", "replace").split(" ")
        start = end + 1
        if len(words) == 3 and words[2].isdigit():
            size = int(words[2])
            yield words[0], words[1], output[start : start + size]
            start += size + 1


def parse_batch_check(output: bytes) -> Iterator[tuple[str, str, int]]:
    """The objects in the output of `cat-file --batch-check`: id, kind and size. Missing objects are left out."""
    for row in output.decode("ascii", "replace").splitlines():
        words = row.split(" ")
        if len(words) == 3 and words[2].isdigit():
            yield words[0], words[1], int(words[2])


def parse_tree_list(output: bytes) -> Iterator[tuple[str, list[str]]]:
    """The rows of `ls-tree -z`: a path, and its mode, kind, id and, with `-l`, size."""
    for row in output.decode("utf-8", "surrogateescape").split("\0"):
        facts, _, path = row.partition("\t")
        if path:
            yield path, facts.split()


def one_per_line(names: Sequence[str] | set[str]) -> bytes:
    """Names as git reads them from its standard input, one on each line."""
    return "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")


# -------------------------------------------------------------------------------- a private git folder

CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tfsmonitor = false
\thooksPath = /dev/null
\tautocrlf = false
[diff]
\tignoreSubmodules = dirty
[status]
\trenames = false
"""
"""The complete configuration of such a folder: it does not know the repository's filters, hooks and drivers."""
SHA256_CONFIG = CONFIG.replace("version = 0", "version = 1") + "[extensions]\n\tobjectformat = sha256\n"


@contextmanager
def temporary_git_folder(commit: str, excluded: str = "") -> Iterator[str]:
    """A temporary git folder with our configuration and the worktree's commit; removed afterwards."""
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"remand-look-{os.urandom(8).hex()}")  # noqa: S108 - private, with a random name
    folders = [folder, *(os.path.join(folder, name) for name in ("refs", "objects", "info"))]
    files = {
        os.path.join(folder, "HEAD"): f"{commit}\n",
        os.path.join(folder, "config"): SHA256_CONFIG if len(commit) == 64 else CONFIG,
        os.path.join(folder, "info", "exclude"): excluded,
    }
    for path in folders:
        os.mkdir(path, 0o700)
    try:
        for path, text in files.items():
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        yield folder
    finally:
        with suppress(OSError):
            for path in files:
                os.unlink(path)
            for path in reversed(folders):
                os.rmdir(path)
