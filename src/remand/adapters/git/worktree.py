"""What a worktree holds that is not committed, asked so that nothing the repository configures is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from remand.adapters.git.place import Place, current_branch, read_ref
from remand.adapters.git.repository import ended, started
from remand.domain.own_files import OwnFiles

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
"""The whole configuration of the look: filters, hooks and drivers of the repository's own are unknown to it."""
SHA256_CONFIG = CONFIG.replace("version = 0", "version = 1") + "[extensions]\n\tobjectformat = sha256\n"


def head(place: Place) -> str:
    """The commit checked out in a worktree; empty when there is none."""
    branch = current_branch(place.git_dir)
    if branch:
        return read_ref(place.common_dir, f"refs/heads/{branch}")
    try:
        with open(os.path.join(place.git_dir, "HEAD"), encoding="ascii") as file:
            return file.read(80).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def uncommitted(place: Place, ours: Callable[[], OwnFiles] = OwnFiles) -> tuple[str, ...]:
    """The files that a `Look` finds."""
    return Look(place).uncommitted(ours)


class Look:
    """A look at what a worktree holds that is not committed. Git begins with it at once; the answer can wait."""

    def __init__(self, place: Place) -> None:
        self._what = f"git status in {place.worktree}"
        self._kept = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        commit = head(place)
        index = os.path.join(place.git_dir, "index")
        if commit and os.path.exists(index):
            try:
                self._begin(place, commit, index)
            except BaseException:
                self._kept.close()
                raise

    def _begin(self, place: Place, commit: str, index: str) -> None:
        folder = self._kept.enter_context(bare_look(commit, _excluded(place)))
        self._process = started(
            place.worktree,
            *("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames"),
            "--ignore-submodules=dirty",  # said here: what `.gitmodules` says of it outranks the configuration
            environment={
                "GIT_DIR": folder,
                "GIT_WORK_TREE": place.worktree,
                "GIT_INDEX_FILE": index,
                "GIT_OBJECT_DIRECTORY": os.path.join(place.common_dir, "objects"),
                "GIT_NO_REPLACE_OBJECTS": "1",
            },
        )

    def uncommitted(self, ours: Callable[[], OwnFiles] = OwnFiles) -> tuple[str, ...]:
        """The files outside `.got` that differ from the commit checked out; none when that cannot be told.

        Files of the set-up are nobody's unfinished work. Which these are is asked only when something has changed.
        """
        try:
            answer = ended(self._process, self._what) if self._process else None
        finally:
            self.close()
        if answer is None or answer.returncode:
            return ()
        rows = [row.decode("utf-8", "replace") for row in answer.stdout.split(b"\0") if row]
        found = [row for row in rows if row[3:].split("/", 1)[0] != ".got"]
        own = ours() if found else OwnFiles()
        return tuple(row[3:] for row in found if own.is_work(row[3:], is_tracked=not row.startswith("??")))

    def close(self) -> None:
        """Ends the look, whether or not its answer was wanted."""
        if self._process is not None:
            with self._process:
                self._process.kill()
        self._kept.close()


def _excluded(place: Place) -> str:
    """What the repository leaves out for itself, which is a list of patterns and nothing that runs."""
    try:
        with open(
            os.path.join(place.common_dir, "info", "exclude"), encoding="utf-8", errors="replace"
        ) as file:
            return file.read(1 << 16)
    except OSError:
        return ""


@contextmanager
def bare_look(commit: str, excluded: str) -> Iterator[str]:
    """A git folder with our own configuration and the worktree's commit, and nothing else; gone afterwards."""
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"remand-look-{os.urandom(8).hex()}")  # noqa: S108 - made private, under a name nobody knows
    made = [folder, *(os.path.join(folder, name) for name in ("refs", "objects", "info"))]
    files = {
        os.path.join(folder, "HEAD"): f"{commit}\n",
        os.path.join(folder, "config"): SHA256_CONFIG if len(commit) == 64 else CONFIG,
        os.path.join(folder, "info", "exclude"): excluded,
    }
    for path in made:
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
            for path in reversed(made):
                os.rmdir(path)
