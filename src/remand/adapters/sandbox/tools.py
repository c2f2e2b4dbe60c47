"""What a job's programs need beside themselves: their prefix, their interpreter, what their links lead to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

from remand.adapters.sandbox.setting import SYSTEM_PATH
from remand.app.gates.ports import Job

SHIMS = "shims"
PROGRAM_FOLDERS = ("bin", ".bin", "sbin", SHIMS)
_WORKTREE = (".git", ".got")
_MAX_LINKS = 40
_MAX_FIRST_LINE = 256


class Trail(NamedTuple):
    """Where a path leads: the links on the way, and what is at its end."""

    links: tuple[tuple[str, str], ...]
    real: str


class Trails:
    """Follows links, one by one, and remembers those it has seen."""

    def __init__(self) -> None:
        self._targets: dict[str, str] = {}

    def follow(self, path: str) -> Trail:
        """Where an absolute path leads."""
        links: list[tuple[str, str]] = []
        done, rest = "", _parts(path)
        while rest:
            part = rest.pop()
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{part}"
            target = self._target(here) if len(links) < _MAX_LINKS else ""
            if not target:
                done = here
                continue
            links.append((here, target))
            rest += _parts(target)
            done = "" if target.startswith("/") else done
        return Trail(tuple(links), done or "/")

    def _target(self, path: str) -> str:
        """What a link leads to; empty for anything else."""
        if path not in self._targets:
            try:
                self._targets[path] = os.readlink(path)
            except (OSError, ValueError):
                self._targets[path] = ""
        return self._targets[path]


def _parts(path: str) -> list[str]:
    """The names in a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


class Needs:
    """Collects the paths that a job's programs cannot do without."""

    def __init__(self, trails: Trails, is_own: Callable[[str], bool]) -> None:
        self._trails = trails
        self._is_own = is_own
        """True for a folder that can be shown as a whole: nobody's home, no folder that many share."""
        self.paths: dict[str, None] = {}

    def of(self, job: Job, program: str, path: list[str]) -> list[str]:
        """The paths that are to be readable so that a program and those in the job's folders work.

        A program in the checkout needs nothing: where it links to is for whoever wrote it to say.
        """
        for folder in path:
            self._folder(folder)
        if not os.path.abspath(program).startswith(os.path.join(job.folder, "")):
            self._program(program, path)
        return list(self.paths)

    def _folder(self, folder: str) -> None:
        """A folder of programs, with its prefix and whatever its links lead to."""
        if folder in self.paths or folder in SYSTEM_PATH:
            return
        self.paths[folder] = None
        prefix = self._prefix(self._trails.follow(folder).real)
        self.paths[prefix] = None
        for target in _targets(folder):
            self._file(target)
        base = _base_interpreter(prefix)
        if base:
            self._folder(base)

    def _file(self, path: str) -> None:
        """A single program, by its path or a link's, with its prefix where it has one; nothing but a program."""
        real = self._trails.follow(path).real
        if not os.path.isfile(real) or not os.access(real, os.X_OK):
            return
        self.paths[path] = None
        prefix = self._prefix(os.path.dirname(real))
        self.paths[real if prefix == os.path.dirname(real) else prefix] = None

    def _program(self, program: str, path: list[str]) -> None:
        self._file(program)
        interpreter = interpreter_of(program)
        found = shutil.which(interpreter, path=os.pathsep.join(path)) if interpreter else None
        if found:
            self._file(found)

    def _prefix(self, folder: str) -> str:
        """`X` for `X/bin` where X belongs to these programs alone; else the folder itself."""
        above = os.path.dirname(folder)
        if os.path.basename(folder) not in PROGRAM_FOLDERS or not self._is_own(above):
            return folder
        is_worktree = any(os.path.lexists(os.path.join(above, name)) for name in _WORKTREE)
        # A folder of shims is a version manager's, which is often installed by a clone.
        return folder if is_worktree and os.path.basename(folder) != SHIMS else above


def _targets(folder: str) -> Iterator[str]:
    """The links in a folder of programs."""
    try:
        with os.scandir(folder) as entries:
            yield from [entry.path for entry in entries if entry.is_symlink()]
    except OSError:
        return


def _base_interpreter(prefix: str) -> str:
    """The folder of the interpreter that a Python environment was made from; empty for anything else."""
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8", errors="replace") as settings:
            pairs = [line.partition("=") for line in settings.read(1 << 16).splitlines()]
    except OSError:
        return ""
    folder = next((value.strip() for name, _, value in pairs if name.strip() == "home"), "")
    return folder if os.access(os.path.join(folder, "python3"), os.X_OK) else ""


def interpreter_of(program: str) -> str:
    """What a script's first line says it is run by; empty when it is no script."""
    try:
        with open(program, "rb") as file:
            line = file.readline(_MAX_FIRST_LINE)
    except OSError:
        return ""
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if not words:
        return ""
    if os.path.basename(words[0]) != "env":
        return words[0]
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
