"""Control groups: what all processes of a job use together, counted and bounded by the kernel."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from remand.app.gates.ports import MIB, Limits

CONTROLLERS = ("memory", "pids")
CLOSE_SECONDS = 2.0
_PREFIX = "remand-"
_numbers = itertools.count(1)
_finding = threading.Lock()


class Place(NamedTuple):
    """Where groups can be made that have a controller."""

    folder: str
    is_unified: bool


class Group:
    """One job's groups: one for both controllers in the unified tree, one for each in the old ones."""

    def __init__(self, places: Mapping[str, Place], limits: Limits) -> None:
        self._name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        self._limits = limits
        self._folders = {name: os.path.join(place.folder, self._name) for name, place in places.items()}
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def _make(self) -> None:
        for name, folder in self._folders.items():
            with suppress(FileExistsError):
                os.mkdir(folder)
            for file, value in _bounds(name, self._limits):
                _write(folder, file, value)

    @property
    def bounds_memory(self) -> bool:
        """True when memory is counted over all processes together."""
        return "memory" in self._folders

    def join(self, pid: int) -> None:
        """Puts a process in, and with it all that it will start."""
        for folder in dict.fromkeys(self._folders.values()):
            with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))

    def kill(self) -> None:
        """Ends every process in the groups; none can be started meanwhile."""
        for folder in dict.fromkeys(self._folders.values()):
            if not _write(folder, "cgroup.kill", "1"):
                _write(folder, "pids.max", "0")
                for pid in _members(folder):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)

    def reached(self) -> str:
        """Which bound the job ran into; empty for none."""
        if "memory" in self._folders and _count(self._folders["memory"], _OOM_FILES, "oom_kill"):
            return f"It ran into the memory limit of {self._limits.memory // MIB} MiB."
        if "pids" in self._folders and _count(self._folders["pids"], ("pids.events",), "max"):
            return f"It ran into the limit of {self._limits.processes} processes."
        return ""

    def close(self) -> bool:
        """Removes the groups; False when something in them would not end."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while left := [folder for folder in self._folders.values() if not _remove(folder)]:
            if time.monotonic() > deadline:
                return False
            if any(_members(folder) for folder in left):
                self.kill()
            time.sleep(0.002)
        return True


_OOM_FILES = ("memory.events", "memory.oom_control")


def _bounds(controller: str, limits: Limits) -> Iterator[tuple[str, str]]:
    """Files of both kinds of trees and what is written to them; those that are not there are passed over."""
    if controller == "pids":
        yield "pids.max", str(limits.processes)
        return
    yield "memory.max", str(limits.memory)
    yield "memory.swap.max", "0"
    yield "memory.oom.group", "1"
    yield "memory.limit_in_bytes", str(limits.memory)
    yield "memory.memsw.limit_in_bytes", str(limits.memory)


def _write(folder: str, name: str, value: str) -> bool:
    """Writes to a file that is there; False when it is not, or may not be written."""
    try:
        descriptor = os.open(os.path.join(folder, name), os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(descriptor, value.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _members(folder: str) -> list[int]:
    return [int(pid) for pid in _read(os.path.join(folder, "cgroup.procs")).split()]


def _count(folder: str, names: tuple[str, ...], key: str) -> int:
    for name in names:
        for line in _read(os.path.join(folder, name)).splitlines():
            word, _, number = line.partition(" ")
            if word == key:
                return int(number)
    return 0


def _remove(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def group(limits: Limits) -> Group | None:
    """A group for one job; None where the system lets us make none."""
    with _finding:
        places = _places()
    try:
        return Group(places, limits) if places else None
    except OSError:
        return None


@cache
def _places() -> dict[str, Place]:
    """Where groups can be made and joined, by controller; found out by doing it."""
    found = {name: place for name in CONTROLLERS if (place := _place(name)) and _works(name, place)}
    for place in found.values():
        _remove_orphans(place.folder)
    return found


def _place(controller: str) -> Place | None:
    """The nearest folder of this process's own group, or above it, whose groups have a controller."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return next((Place(folder, False) for folder in _mounted("cgroup", controller, path)), None)
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            for folder in _mounted("cgroup2", "", line[3:]):
                if controller in _read(os.path.join(folder, "cgroup.subtree_control")).split():
                    return Place(folder, True)
    return None


def _mounted(kind: str, option: str, path: str) -> Iterator[str]:
    """A group's folder in the tree of a kind, and those above it."""
    for line in _read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        filesystem, _, options = after.split()[:3]
        if filesystem != kind or (option and option not in options.split(",")):
            continue
        inside = os.path.relpath(path, root) if path.startswith(root) else "."
        folder = os.path.normpath(os.path.join(point, inside))
        while True:
            yield folder
            if folder == point:
                return
            folder = os.path.dirname(folder)


def _works(controller: str, place: Place) -> bool:
    """True when a process can be put into a group made there."""
    try:
        tried = Group({controller: place}, Limits())
    except OSError:
        return False
    waits = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    try:
        with subprocess.Popen(waits, stdin=subprocess.PIPE) as waiting:
            tried.join(waiting.pid)
    except OSError:
        return False
    finally:
        tried.close()
    return True


def _remove_orphans(folder: str) -> None:
    """Removes groups whose maker was killed; one that still holds a process stays."""
    with suppress(OSError):
        for name in os.listdir(folder):
            maker = name.removeprefix(_PREFIX).split("-")[0]
            if name.startswith(_PREFIX) and maker.isdigit() and not os.path.exists(f"/proc/{maker}"):
                _remove(os.path.join(folder, name))
