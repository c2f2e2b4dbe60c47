"""Bounds on what a job uses: control groups over all of it where there are any, and limits on each process."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from remand.adapters.sandbox.cgroups import group
from remand.app.gates.ports import MIB, Limits

OPEN_FILES = 4096
MAX_SECONDS = 1e6
RESERVE = 512 * MIB
RESERVED_FILES = 10_000
"""Room that whoever writes has to leave on a disk."""
# Reserved and never used address space is normal for JavaScript and Go; only what is written counts as data.
ADDRESS_SPACE = 16


class Fence:
    """The bounds of one job, from before it starts until nothing of it is left."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._group = group(limits)
        self._reached = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._group:
            self._group.close()

    def of_each_process(self, *, has_own_users: bool) -> Mapping[int, int]:
        """The limits of each process. Where a group counts memory, none is needed for that."""
        limits = self.limits
        bounds = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: OPEN_FILES,
            resource.RLIMIT_FSIZE: limits.file_size,
            # The clock on the wall stops a job; this stops what should ever get away from it.
            resource.RLIMIT_CPU: math.ceil(min(limits.seconds, MAX_SECONDS) * (os.cpu_count() or 1)) + 1,
            # The kernel counts all that a user runs, unless the job has users of its own. Root is not counted.
            resource.RLIMIT_NPROC: limits.processes + (0 if has_own_users else _running()),
        }
        if not (self._group and self._group.bounds_memory):
            bounds |= {
                resource.RLIMIT_DATA: limits.memory,
                resource.RLIMIT_AS: limits.memory * ADDRESS_SPACE,
            }
        return {kind: _allowed(kind, value) for kind, value in bounds.items()}

    def hold(self, pid: int) -> None:
        """Puts a job's first process into its group, before it does anything."""
        if self._group:
            self._group.join(pid)

    def kill(self) -> None:
        """Ends whatever is in the group. To do so it lets nothing start there, which counts as a bound, too."""
        if self._group:
            self._reached = self._reached or self._group.reached()
            self._group.kill()

    def is_closed(self) -> bool:
        """Removes the group if nothing is left in it; False when that has to be tried again. Never waits."""
        return self._group is None or self._group.is_removed()

    def reached(self) -> str:
        """Which bound had been run into when the job was ended; empty when it cannot be told."""
        return self._reached


def set_limits(pid: int, limits: Mapping[int, int]) -> None:
    """Sets limits of a process that has yet to start its job."""
    for kind, value in limits.items():
        resource.prlimit(pid, kind, (value, value))


def _allowed(kind: int, value: int) -> int:
    """A limit can be lowered by anyone, and raised by none but root."""
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _running() -> int:
    """How many threads this user runs; 0 for root, whom the kernel does not count."""
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
    """True when hardly any room is left where something writes."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    has_room = state.f_bavail * state.f_frsize >= min(RESERVE, state.f_blocks * state.f_frsize // 20)
    return not has_room or state.f_favail < min(RESERVED_FILES, state.f_files // 20)


def allow_open_files(count: int) -> None:
    """Lets this process have so many files open, as far as it may say so itself: each agent takes a few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
