"""A machine of its own for a test: real git, real files, the real command line in real processes."""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from remand.app.errors import EnvironmentFault
from remand.interfaces.cli.context import CallOrigin
from remand.interfaces.cli.main import run
from remand.wiring.ledger import open_ledger
from tests.integration.call_server import CallServer
from tests.support.http_way import HttpWay
from tests.support.log_check import log_faults
from tests.support.mcp_way import McpWay

REMAND = os.path.join(os.path.dirname(sys.executable), "remand")
HERE = Path(__file__).parent
NO_GATES = "[gates]\n"
PATIENCE = 600.0
"""How long a busy machine may take for anything; what is there sooner is not waited for."""
_REMINDER = re.compile(
    r"remand: (\d+ (questions? waits? for you|events? (is|are) held back)|the log is incomplete"
    r"|the base branch does not trust this machine's key|[^\n]*\d s\)$)[^\n]*\n",
    re.MULTILINE,
)
"""What calls say beside their answers: of open questions, events held back, a damaged log, a key that nobody trusts, and
on a busy machine what they are at.
"""


class Said(NamedTuple):
    """What a call of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one JSON document on standard output; fails when there is anything else there."""
        assert self.out.endswith("\n"), f"not one whole document: {self.out!r}, errors: {self.err!r}"
        return json.loads(self.out)


class Machine:
    """Home, state and runtime folders that nothing else uses, and every process started in them.

    On a machine that is near, calls of the command line run inside this process, each on a ledger opened anew:
    files, git and SQLite are as real, and it takes a fifth of the time. The environment must be this machine's.
    """

    def __init__(self, folder: str = "/tmp", *, is_near: bool = False) -> None:
        self.is_near = is_near
        self.folder = Path(tempfile.mkdtemp(prefix="rmd-", dir=folder))
        self.home, self.state, self.runtime = (self.folder / name for name in ("home", "state", "run"))
        for made in (self.home, self.state, self.runtime):
            made.mkdir(mode=0o700)
        self.environment = _environment(self.home, self.state, self.runtime)
        self.way = ""
        """How calls of the command line are made where they can be: over `http`, over `mcp`, or as they are."""
        self._servers: dict[Path, HttpWay | McpWay] = {}
        self._processes: list[subprocess.Popen[str]] = []

    def repository(self, name: str = "repo", config: str | None = NO_GATES) -> Repository:
        """A new repository whose base branch has this configuration."""
        made = Repository(self, self.folder / name)
        shutil.copytree(_template(), made.path)
        if config != NO_GATES:
            made.configure(config)
        return made

    def clone(self, source: Repository, name: str, *options: str) -> Repository:
        """A clone made by git."""
        self.git(self.folder, "clone", "-q", *options, str(source.path), str(self.folder / name))
        return Repository(self, self.folder / name)

    def copy(self, source: Repository, name: str) -> Repository:
        """A copy of everything in a repository, ledger and all, made by `cp -r`."""
        subprocess.run(["cp", "-r", str(source.path), str(self.folder / name)], check=True, timeout=PATIENCE)
        return Repository(self, self.folder / name)

    def git(self, folder: Path, *arguments: str, check: bool = True) -> str:
        """Runs git; fails the test when git fails, unless told otherwise."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        said = done.stdout.decode(errors="replace")
        if check and done.returncode:
            raise AssertionError(
                f"git {' '.join(arguments)} in {folder} → {done.returncode}\n{said}\n{done.stderr.decode()}"
            )
        return said

    def remand(
        self,
        folder: Path | str,
        *arguments: str,
        stdin: str | bytes = "",
        env: Mapping[str, str] | None = None,
        timeout: float = PATIENCE,
        preexec: Callable[[], None] | None = None,
    ) -> Said:
        """Calls the command line."""
        given, environment = (
            stdin.encode() if isinstance(stdin, str) else stdin,
            self.environment | dict(env or {}),
        )
        calls = call_server()
        if calls is not None and preexec is None and calls.may_run(str(folder), environment):
            code, out, err = calls.run(arguments, str(folder), environment, given, timeout)
            return Said(code, out.decode(errors="replace"), err.decode(errors="replace"))
        done = subprocess.run(
            [REMAND, *arguments],
            cwd=folder,
            env=environment,
            input=given,
            capture_output=True,
            timeout=timeout,
            check=False,
            preexec_fn=preexec,
        )
        return Said(
            done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def start(self, folder: Path, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Starts a process that is ended with the test at the latest."""
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=self.environment | options.pop("env", {}),
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        self._processes.append(process)
        return process

    def script(self, name: str, *arguments: object, timeout: float = PATIENCE) -> str:
        """Runs a script that stands beside the tests; its errors fail the test."""
        process = self.start(self.folder, sys.executable, str(HERE / name), *map(str, arguments))
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            end(process)
            raise AssertionError(f"{name} did not end within {timeout:.0f} s") from None
        assert process.returncode == 0, f"{name} → {process.returncode}\n{out[-2000:]}\n{err[-4000:]}"
        return out

    def call_another_way(self, path: Path, arguments: tuple[str, ...]) -> Said | None:
        """A call over HTTP or MCP to a server of that repository inside this process; None when neither takes it."""
        if not self.way:
            return None
        if path not in self._servers:
            try:
                self._servers[path] = HttpWay(str(path)) if self.way == "http" else McpWay(path, near_call)
            except EnvironmentFault:
                return None
        answered = self._servers[path].call(arguments)
        return None if answered is None else Said(*answered)

    def close(self) -> None:
        """Ends what is still running and takes everything away."""
        for server in self._servers.values():
            server.close()
        for process in self._processes:
            end(process)
        shutil.rmtree(self.folder, ignore_errors=True)


@lru_cache(maxsize=1)
def call_server() -> CallServer | None:
    """Where calls run for all tests of this process; None on a system on which they cannot."""
    return CallServer(REMAND) if hasattr(os, "pidfd_open") else None


def _environment(home: Path, state: Path, runtime: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "REMAND_", "XDG_", "PYTEST_"))
        and name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    who = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "Somebody"), ("EMAIL", "somebody@example.org"))
    }
    return (
        kept
        | who
        | {
            "HOME": str(home),
            "XDG_STATE_HOME": str(state),
            "XDG_RUNTIME_DIR": str(runtime),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
            "LC_ALL": "C.UTF-8",
            "REMAND_COORDINATOR": "off",
        }
    )


@lru_cache(maxsize=1)
def _template() -> Path:
    """A repository whose base branch has a configuration without gates, made once and copied for every test."""
    folder = Path(tempfile.mkdtemp(prefix="rmd-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "template"
    path.mkdir()
    (path / "remand.toml").write_text(NO_GATES)
    environment = _environment(folder, folder, folder)
    for command in (("init", "-q", "-b", "main"), ("add", "remand.toml"), ("commit", "-q", "-m", "base")):
        subprocess.run(["git", *command], cwd=path, env=environment, check=True, timeout=PATIENCE)
    shutil.rmtree(path / ".git" / "hooks")
    return path


def end(process: subprocess.Popen[str]) -> None:
    """Kills a process with all that it started.

    The number of one that was waited for may be another's by now: numbers are soon used again where tests start thousands.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=10)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


class Repository:
    """A git repository with a ledger, on one machine."""

    def __init__(self, machine: Machine, path: Path) -> None:
        self.machine = machine
        self.path = path
        self.events = path / ".got" / "events"
        self.ledger = path / ".got" / "ledger.db"

    def git(self, *arguments: str, check: bool = True) -> str:
        """Runs git here."""
        return self.machine.git(self.path, *arguments, check=check)

    def configure(self, config: str | None) -> None:
        """Commits a configuration, or that there is none, on the branch that is checked out."""
        if config is None:
            self.git("rm", "-q", "remand.toml")
        else:
            (self.path / "remand.toml").write_text(config)
            self.git("add", "remand.toml")
        self.git("commit", "-q", "-m", "configure")

    def commit(self, name: str = "work.txt", text: str = "work\n") -> str:
        """Commits a file; returns the commit."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.git("add", name)
        self.git("commit", "-q", "-m", f"write {name}")
        return self.head()

    def head(self, name: str = "HEAD") -> str:
        """The commit behind a name."""
        return self.git("rev-parse", name).strip()

    def call(self, *arguments: str, **options: Any) -> Said:
        """Calls the command line here, asking for JSON."""
        return self.people(*arguments, "--json", **options)

    def people(self, *arguments: str, **options: Any) -> Said:
        """Calls the command line here as people do."""
        if self.machine.is_near and not options and not self.socket():
            answered = self.machine.call_another_way(self.path, arguments)
            return answered or near_call(self.path, arguments) or self.machine.remand(self.path, *arguments)
        return self.machine.remand(self.path, *arguments, **options)

    def ok(self, *arguments: str, **options: Any) -> Any:
        """What a call answered; fails the test when it was not done."""
        said = self.call(*arguments, **options)
        assert said.code == 0, f"remand {' '.join(arguments)} → {said.code}: {said.out} {said.err}"
        aside = _REMINDER.sub("", said.err)
        assert not aside, f"remand {' '.join(arguments)} said beside its answer: {aside}"
        return said.data

    def refused(self, *arguments: str, **options: Any) -> str:
        """The code a call was refused with; fails the test when it was not refused."""
        said = self.call(*arguments, **options)
        assert said.code == 1, f"remand {' '.join(arguments)} → {said.code}: {said.out} {said.err}"
        assert said.data["message"], "a refusal says why"
        return str(said.data["refused"])

    def add(self, title: str = "Mend the roof", *options: str) -> str:
        """Writes a task down; returns its id."""
        return str(self.ok("task", "add", title, *options)["task_id"])

    def digest(self) -> tuple[str, int]:
        """The digest of the state, and the number of events."""
        answer = self.ok("log", "digest")
        return answer["digest"], answer["events"]

    def verify(self) -> list[dict[str, Any]]:
        """What is wrong with the log."""
        said = self.call("log", "verify")
        assert said.code == (0 if said.data["ok"] else 1), said
        assert said.data["ok"] is (not said.data["problems"]), said
        problems: list[dict[str, Any]] = said.data["problems"]
        if not problems:
            self.check_log(is_merged=True, is_hostile=True)
        return problems

    def check_log(self, *, is_merged: bool = False, is_hostile: bool = False) -> None:
        """Fails the test when `scripts/check-log` finds a fault; without options, as in the log of one ledger alone."""
        key = Path(self.machine.environment["XDG_STATE_HOME"], "remand", "keys", "machine.key")
        own = key.read_text().splitlines()[1:] if key.exists() else []
        config = self.path / "remand.toml"
        trust = {"keys": own, "config": str(config) if config.exists() else ""}
        faults = log_faults(self.lines(), is_merged=is_merged, is_hostile=is_hostile, **trust)
        assert not faults, "\n".join(faults)

    def segments(self) -> list[Path]:
        """The event files."""
        return sorted(self.events.glob("*.jsonl"))

    def worktrees(self) -> list[str]:
        """The worktrees besides the user's own. Git cannot list them while one of them is being taken down."""

        def listed() -> list[str]:
            try:
                return self.git("worktree", "list", "--porcelain").splitlines()
            except AssertionError:
                return []

        rows = wait_for(listed, "git to list its worktrees")
        return [row.removeprefix("worktree ") for row in rows if row.startswith("worktree ")][1:]

    def lines(self) -> list[bytes]:
        """Every line of every event file, as plain bytes; of the database where a team's is the ledger."""
        if self.machine.is_near and self.machine.environment.get("REMAND_STORE"):
            opened = open_ledger(str(self.path))
            try:
                with opened.store.write() as tx:
                    return list(tx.events.lines())
            finally:
                opened.store.close()
                opened.ledger.close()
        return [line for path in self.segments() for line in path.read_bytes().split(b"\n") if line]

    def written(self) -> dict[str, dict[str, Any]]:
        """The events in the files by id, read without any of the product's own code."""
        found = (json.loads(line) for line in self.lines() if not line.startswith(b'{"event":"log.sign"'))
        return {event["meta"]["id"]: event for event in found}

    @contextmanager
    def history_in_files(self) -> Iterator[None]:
        """While this holds, the ledger is the one in the repository, which reads event files; then it moves where it belongs."""
        url, way = self.machine.environment.pop("REMAND_STORE", ""), self.machine.way
        os.environ.pop("REMAND_STORE", None)
        self.machine.way = ""
        yield
        if url:
            self.ok("log", "move", "--to", url)
            self.machine.environment["REMAND_STORE"] = os.environ["REMAND_STORE"] = url
        self.machine.way = way

    def forget_ledger(self) -> None:
        """Deletes the ledger and keeps the files."""
        for path in self.path.glob(".got/ledger.*"):
            path.unlink()

    @contextmanager
    def coordinator(self) -> Iterator[subprocess.Popen[str]]:
        """Runs a coordinator of this ledger."""
        process = self.start_coordinator()
        try:
            yield process
        finally:
            end(process)

    def start_coordinator(self) -> subprocess.Popen[str]:
        """Starts a coordinator and waits until it listens."""
        process = self.machine.start(self.path, REMAND, "serve", "--no-http")
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"no coordinator: {process.communicate(timeout=PATIENCE)}"
        wait_for(self.socket, "the coordinator's socket")
        return process

    def socket(self) -> str:
        """The socket of a running coordinator; empty when there is none."""
        name = self._ledger_id()
        found = sorted((self.machine.runtime / "remand").glob(f"{name}-*.sock")) if name else []
        return str(found[0]) if found else ""

    def _ledger_id(self) -> str:
        try:
            return (self.path / ".got" / "ledger.id").read_text()
        except (OSError, UnicodeDecodeError):
            return ""


def near_call(
    path: Path, arguments: tuple[str, ...], environment: Mapping[str, str] | None = None
) -> Said | None:
    """A call of the command line inside this process; None when its ledger cannot be opened."""
    try:
        opened = open_ledger(str(path))
    except EnvironmentFault:
        return None
    out, err = io.StringIO(), io.StringIO()
    try:
        code = run(list(arguments), CallOrigin(str(path), environment or {}, out, err, opened=opened))
    finally:
        opened.store.close()
        opened.ledger.close()
    return Said(code, out.getvalue(), err.getvalue())


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Waits until something is so; fails the test when it does not become so."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come within {seconds:.0f} s")
