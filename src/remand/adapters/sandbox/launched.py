"""Jobs started by our own launcher: with rules about files and namespaces where they are to be had, or with neither."""

from __future__ import annotations

import marshal
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from remand.adapters.sandbox import launcher
from remand.adapters.sandbox.limits import Fence
from remand.adapters.sandbox.pipes import file_of, pipe_of
from remand.adapters.sandbox.processes import not_started, run
from remand.adapters.sandbox.running import Launch
from remand.adapters.sandbox.setting import SYSTEM_PATH, CannotStart, encoded, environment, program
from remand.adapters.sandbox.status import StatusPipe
from remand.app.gates.ports import Ended, Job

NOBODY = 65534
"""Whom root's jobs take themselves for: programs that believe to be root try what only root can."""

REMOVE = 'chmod -R u+rwX "$1"; rm -rf "$1"'
REMOVE_SECONDS = 60.0
UNHEEDED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python does not heed, and what it starts would not either."""


class Confinement(NamedTuple):
    """What a launcher is to do to a job."""

    has_namespaces: bool = False
    rules: tuple[tuple[str, bool], ...] | None = None
    """Paths, and whether they may be written; None for no rules."""
    sockets: tuple[str, ...] = ()
    """Sockets to be covered."""


class Private(NamedTuple):
    """The folders that a job has for itself."""

    root: str
    home: str
    temporary: str


@contextmanager
def private_folders() -> Iterator[Private]:
    """A home and a folder for temporary files, empty, and gone afterwards."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="remand-job-"))
    try:
        made = Private(root, os.path.join(root, "home"), os.path.join(root, "tmp"))
        os.mkdir(made.home, 0o700)
        os.mkdir(made.temporary, 0o700)
        yield made
    finally:
        _remove(root)


def _remove(root: str) -> None:
    """Removes a folder, even when the job has made it deeper than Python can go, or taken away our right to."""
    with suppress(RecursionError):
        shutil.rmtree(root, ignore_errors=True)
    if os.path.lexists(root):
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["/bin/sh", "-c", REMOVE, "sh", root],
                env={"PATH": os.pathsep.join(SYSTEM_PATH)},
                stderr=subprocess.DEVNULL,
                timeout=REMOVE_SECONDS,
                check=False,
            )


Confiner = Callable[[Job, str, Private], Confinement]


def run_launched(job: Job, confine: Confiner) -> Ended:
    """Runs a job by our own launcher, confined as `confine` says."""
    try:
        start = program(job)
        with Fence(job.limits) as fence, private_folders() as private:
            return run(_launch(job, start, private, confine(job, start, private), fence), job, fence)
    except CannotStart as fault:
        return not_started(str(fault))


def _launch(job: Job, start: str, private: Private, confinement: Confinement, fence: Fence) -> Launch:
    given = environment(job, home=private.home, temporary=private.temporary)
    plan = plan_of(job, start, given, confinement, fence)
    return Launch(
        line=lambda stack: LauncherLine(stack, plan),
        mark=private.root,
        limits={},
        has_own_processes=confinement.has_namespaces,
    )


class LauncherLine(StatusPipe):
    """Pipes to our own launcher: what it is to do, what it says, and its leave, which it needs as long as it is there."""

    stdin = subprocess.DEVNULL

    def __init__(self, stack: ExitStack, plan: bytes) -> None:
        told, self._says = pipe_of(stack)
        self._leave, self._to_leave = pipe_of(stack)
        super().__init__(told)
        self.given = (stack.enter_context(file_of(plan)), self._says.fileno(), self._leave.fileno())
        self.command = launcher_command(*self.given)

    def hand_over(self) -> None:
        """Leaves its ends to the launcher."""
        self._says.close()
        self._leave.close()

    def give_leave(self, process: subprocess.Popen[bytes]) -> None:  # noqa: ARG002 - the launcher looks after itself
        """Lets the job begin."""
        self._to_leave.write(b"\n")

    def give_up(self) -> None:
        """Lets the launcher go, and with it what waits for leave."""
        self._to_leave.close()

    let_go = give_up


def launcher_command(*ends: int) -> list[str]:
    """How our own launcher is run, given the descriptors of its plan, of what it says, and of the leave it waits for."""
    return [sys.executable, "-I", "-S", launcher.__file__, *map(str, ends)]


def plan_of(
    job: Job,
    start: str,
    given: Mapping[str, str],
    confinement: Confinement,
    fence: Fence,
    *,
    clears: bool = False,
) -> bytes:
    """What a launcher reads. One that clears ends everything below it with the job, or with whoever started it."""
    names, values = encoded(list(given)), encoded(list(given.values()))
    rules = confinement.rules
    plan = {
        "parent": os.getpid(),
        "program": os.fsencode(start),
        "arguments": encoded([start, *job.command[1:]]),
        "environment": dict(zip(names, values, strict=True)),
        "folder": os.fsencode(job.folder),
        "network": job.has_network,
        "namespaces": confinement.has_namespaces,
        "clears": clears,
        "user": os.geteuid() or NOBODY,
        "group": os.getegid() if os.geteuid() else NOBODY,
        "signals": [int(number) for number in UNHEEDED],
        "limits": dict(fence.of_each_process(has_own_users=confinement.has_namespaces)),
        "sockets": encoded(list(confinement.sockets)),
        "rules": None if rules is None else [(os.fsencode(path), may_write) for path, may_write in rules],
    }
    return marshal.dumps(plan)
