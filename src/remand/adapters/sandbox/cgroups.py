"""Control groups: what all processes of a job use together, counted and bounded by the kernel."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache

from remand.app.gates.ports import MIB, Limits

CONTROLLERS = ("memory", "pids")
CLOSE_SECONDS = 2.0
ORPHAN_SECONDS = 86_400.0
_PREFIX = "remand-"
_finding = threading.Lock()


class Group:
    """One job's groups: one for both controllers in the unified tree, one for each in the old ones."""

    def __init__(self, places: Mapping[str, str], limits: Limits) -> None:
        name = f"{_PREFIX}{secrets.token_hex(8)}"
        self._limits = limits
        self._folders = {controller: os.path.join(folder, name) for controller, folder in places.items()}
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def _make(self) -> None:
        for folder in dict.fromkeys(self._folders.values()):
            os.mkdir(folder)
        for controller, folder in self._folders.items():
            for file, value in _bounds(controller, self._limits):
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

    def is_removed(self) -> bool:
        """Removes the groups as far as nothing is left in them; False when something is."""
        return not [folder for folder in dict.fromkeys(self._folders.values()) if not _remove(folder)]

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
def _places() -> dict[str, str]:
    """Where groups can be made and joined, by controller; found out by doing it."""
    found = {name: folder for name in CONTROLLERS if (folder := _place(name)) and _works(name, folder)}
    for folder in found.values():
        _remove_orphans(folder)
    return found


def _place(controller: str) -> str:
    """The nearest folder, this process's own group or one above it, whose groups have a controller; or none."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return next(_mounted("cgroup", controller, path), "")
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            for folder in _mounted("cgroup2", "", line[3:]):
                if controller in _read(os.path.join(folder, "cgroup.subtree_control")).split():
                    return folder
    return ""


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


def _works(controller: str, folder: str) -> bool:
    """True when a process can be put into a group made there."""
    try:
        tried = Group({controller: folder}, Limits())
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
    """Removes old groups whose maker was killed; one that still holds a process stays."""
    with suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name.startswith(_PREFIX) and os.stat(path).st_mtime < time.time() - ORPHAN_SECONDS:
                _remove(path)
