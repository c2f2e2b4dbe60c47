"""Resource limits of a job: control groups over all of its processes where available, and limits on each process."""

from __future__ import annotations

import math
import os
import resource
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Self

from remand.adapters.system.files import read_start
from remand.app.gates.ports import MIB, JobLimits

CONTROLLERS = ("memory", "pids")
CLOSE_SECONDS = 2.0
ORPHAN_SECONDS = 86_400.0
_PREFIX = "remand-"
_finding = threading.Lock()


class ControlGroup:
    """One job's control groups: one for both controllers in the unified tree, one for each in the old ones."""

    def __init__(self, places: Mapping[str, str], limits: JobLimits) -> None:
        name = f"{_PREFIX}{secrets.token_hex(8)}"
        self._limits = limits
        self._folders = {controller: os.path.join(folder, name) for controller, folder in places.items()}
        try:
            for folder in dict.fromkeys(self._folders.values()):
                os.mkdir(folder)
            for controller, folder in self._folders.items():
                for file, value in _bounds(controller, limits):
                    _write(folder, file, value)
        except OSError:
            self.close()
            raise

    @property
    def bounds_memory(self) -> bool:
        """True if memory is limited over all processes together."""
        return "memory" in self._folders

    def join(self, pid: int) -> None:
        """Adds a process, and with it everything it will start."""
        for folder in dict.fromkeys(self._folders.values()):
            with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))

    def kill(self) -> None:
        """Kills all processes in the groups, while none can be started."""
        for folder in dict.fromkeys(self._folders.values()):
            if not _write(folder, "cgroup.kill", "1"):
                _write(folder, "pids.max", "0")
                for pid in _members(folder):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)

    def reached_bound(self) -> str:
        """Which limit the job reached; empty for none."""
        if "memory" in self._folders and _count(self._folders["memory"], _OOM_FILES, "oom_kill"):
            return f"It ran into the memory limit of {self._limits.memory // MIB} MiB."
        if "pids" in self._folders and _count(self._folders["pids"], ("pids.events",), "max"):
            return f"It ran into the limit of {self._limits.processes} processes."
        return ""

    def try_remove(self) -> bool:
        """Removes the groups if they are empty; False if they are not."""
        return not [folder for folder in dict.fromkeys(self._folders.values()) if not _remove(folder)]

    def close(self) -> bool:
        """Removes the groups; False if a process in them does not end."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while left := [folder for folder in self._folders.values() if not _remove(folder)]:
            if time.monotonic() > deadline:
                return False
            if any(_members(folder) for folder in left):
                self.kill()
            time.sleep(0.002)
        return True


_OOM_FILES = ("memory.events", "memory.oom_control")


def _bounds(controller: str, limits: JobLimits) -> Iterator[tuple[str, str]]:
    """The files of both kinds of trees and their values; skips missing files."""
    if controller == "pids":
        yield "pids.max", str(limits.processes)
        return
    yield "memory.max", str(limits.memory)
    yield "memory.swap.max", "0"
    yield "memory.oom.group", "1"
    yield "memory.limit_in_bytes", str(limits.memory)
    yield "memory.memsw.limit_in_bytes", str(limits.memory)


def _write(folder: str, name: str, value: str) -> bool:
    """Writes to an existing file; False if it is missing or not writable."""
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
    return read_start(path).decode("utf-8", "replace")


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


def make_group(limits: JobLimits) -> ControlGroup | None:
    """A control group for one job; None if the system does not let us create any."""
    with _finding:
        places = _places()
    try:
        return ControlGroup(places, limits) if places else None
    except OSError:
        return None


@cache
def _places() -> dict[str, str]:
    """Where groups can be created and joined, by controller; found by trying."""
    found = {name: folder for name in CONTROLLERS if (folder := _place(name)) and _works(name, folder)}
    for folder in found.values():
        _remove_orphans(folder)
    return found


def _place(controller: str) -> str:
    """The nearest folder, from this process's group upwards, that supports a controller; empty if there is none."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return next(_group_folders("cgroup", controller, path), "")
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            for folder in _group_folders("cgroup2", "", line[3:]):
                if controller in _read(os.path.join(folder, "cgroup.subtree_control")).split():
                    return folder
    return ""


def _group_folders(kind: str, option: str, path: str) -> Iterator[str]:
    """A group's folder in a tree, and its parents."""
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
    """True if a process can be put into a group created there."""
    try:
        tried = ControlGroup({controller: folder}, JobLimits())
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
    """Removes old groups whose creator was killed; keeps those with running processes."""
    with suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name.startswith(_PREFIX) and os.stat(path).st_mtime < time.time() - ORPHAN_SECONDS:
                _remove(path)


OPEN_FILES = 4096
MAX_SECONDS = 1e6
RESERVE = 512 * MIB
RESERVED_FILES = 10_000
"""Free space that jobs must leave on a disk."""
# JavaScript and Go reserve much address space without using it; only written memory counts as data.
ADDRESS_SPACE = 16


class ResourceLimits:
    """The limits of one job, from before its start until all its processes have ended."""

    def __init__(self, limits: JobLimits) -> None:
        self.limits = limits
        self._group = make_group(limits)
        self._reached = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._group:
            self._group.close()

    def of_each_process(self, *, has_own_users: bool) -> Mapping[int, int]:
        """The limits of each process. If a group limits memory, none is needed for that."""
        limits = self.limits
        bounds = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: OPEN_FILES,
            resource.RLIMIT_FSIZE: limits.file_size,
            # The wall clock stops a job; this stops processes that escape it.
            resource.RLIMIT_CPU: math.ceil(min(limits.seconds, MAX_SECONDS) * (os.cpu_count() or 1)) + 1,
            # The kernel counts all processes of a user, unless the job has users of its own. It does not
            # count root's.
            resource.RLIMIT_NPROC: limits.processes + (0 if has_own_users else _count_user_threads()),
        }
        if not (self._group and self._group.bounds_memory):
            bounds |= {resource.RLIMIT_DATA: limits.memory, resource.RLIMIT_AS: limits.memory * ADDRESS_SPACE}
        # Anyone can lower a limit; only root can raise one.
        hard = {kind: resource.getrlimit(kind)[1] for kind in bounds}
        return {
            kind: value if hard[kind] == resource.RLIM_INFINITY else min(value, hard[kind])
            for kind, value in bounds.items()
        }

    def add_process(self, pid: int) -> None:
        """Puts a job's first process into its group before it runs."""
        if self._group:
            self._group.join(pid)

    def kill(self) -> None:
        """Kills everything in the group. Prevents new processes meanwhile, which counts as reaching a limit, too."""
        if self._group:
            self._reached = self._reached or self._group.reached_bound()
            self._group.kill()

    def try_close(self) -> bool:
        """Removes the group if it is empty; False if the caller has to try again. Never waits."""
        return self._group is None or self._group.try_remove()

    def reached_bound(self) -> str:
        """The limit that the job had reached when it ended; empty if that is unknown."""
        return self._reached


def set_limits(pid: int, limits: Mapping[int, int]) -> None:
    for kind, value in limits.items():
        resource.prlimit(pid, kind, (value, value))


def _count_user_threads() -> int:
    """The number of this user's threads; 0 for root, whom the kernel does not count."""
    total = 0
    own = os.getuid()
    if own == 0:
        return 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == own:
                    total += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return total


def is_full(folder: str) -> bool:
    """True if the disk of a folder is nearly full."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    has_room = state.f_bavail * state.f_frsize >= min(RESERVE, state.f_blocks * state.f_frsize // 20)
    return not has_room or state.f_favail < min(RESERVED_FILES, state.f_files // 20)


def allow_open_files(count: int) -> None:
    """Raises this process's limit of open files as far as it may: each agent needs a few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
