"""The best sandbox: namespaces of the job's own, made by bubblewrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from remand.adapters.sandbox.binding import Binding
from remand.adapters.sandbox.limits import Fence
from remand.adapters.sandbox.masks import sockets
from remand.adapters.sandbox.processes import not_started, run
from remand.adapters.sandbox.running import Launch
from remand.adapters.sandbox.setting import SYSTEM_PATH, CannotStart, encoded, environment, program
from remand.adapters.sandbox.view import Sight, View, view_of
from remand.app.gates.ports import Ended, Job

HOME = "/tmp/home"  # noqa: S108 - in a /tmp of the job's own
TEMPORARY = "/tmp"  # noqa: S108
NOBODY = "65534"
FLEETING = "Unable to apply mount flags"
TRIES = 3
"""How often it is tried once more to make a sandbox while mounts come and go."""
KERNEL = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"))
"""By which the kernel of the whole machine is steered."""
SIGNAL_BASE = 128
PLACES = (*SYSTEM_PATH, "/run/current-system/sw/bin")


def find() -> str:
    """Where bubblewrap is: in the system's folders, as an agent may have put anything on PATH. Empty: nowhere."""
    return shutil.which("bwrap", path=os.pathsep.join(PLACES)) or ""


class Wrapper:
    """Words what bubblewrap is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._knows = _options(path)

    def arguments(
        self, view: View, *, has_network: bool, room: int, files: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[str]:
        """Namespaces and mounts. `room` is how much each folder that is seen fresh can hold.

        `files` are paths in a masked folder, each with the descriptor that its content is read from.
        """
        yield from ("--unshare-all", "--unshare-user", "--cap-drop", "ALL")
        yield from ("--die-with-parent", "--new-session", "--hostname", "localhost")
        if "--disable-userns" in self._knows:
            yield "--disable-userns"
        if has_network:
            yield "--share-net"
        if os.geteuid() == 0:
            # Root's files stay root's own to write, yet no program inside takes itself for root.
            yield from ("--uid", NOBODY, "--gid", NOBODY)
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        for part in KERNEL:
            # These go by the real user, who may be root, whatever the user inside is and may do.
            yield from ("--ro-bind-try", part, part)
        yield from self._mounts(view, room, files)

    def _mounts(self, view: View, room: int, files: Mapping[str, int]) -> Iterator[str]:
        """Masks and what is shown all the same, outer paths first; masks cannot be written once all is in place."""
        masks = []
        for path, sight in view.places():
            match sight:
                case Sight.HIDDEN if os.path.isdir(path):
                    masks.append(path)
                    yield from ("--tmpfs", path)
                case Sight.HIDDEN:
                    yield from ("--ro-bind", "/dev/null", path)
                case Sight.FRESH:
                    yield from self._fresh(path, room)
                case Sight.READ:
                    yield from ("--ro-bind-try", view.source(path), path)
                case Sight.WRITE:
                    yield from ("--bind", view.source(path), path)
        for path, target in view.links():
            yield from ("--symlink", target, path)
        for path, descriptor in files.items():
            yield from ("--ro-bind-data", str(descriptor), path)
        yield from ("--dir", HOME)
        for path in masks:
            yield from ("--remount-ro", path)

    def _fresh(self, path: str, room: int) -> Iterator[str]:
        if "--size" in self._knows:
            yield from ("--size", str(room))
        yield from ("--tmpfs", path)


def is_fleeting(said: str, has_not_started: bool = True) -> bool:
    """True when bubblewrap met a mount that another was just taking down: nothing has run, and it may try again."""
    return has_not_started and FLEETING in said


def listed(arguments: list[str]) -> bytes:
    """Arguments as bubblewrap reads them from a file."""
    return b"".join(argument + b"\x00" for argument in encoded(arguments))


def setting(folder: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Where the program begins and its environment. Bubblewrap's own is empty: inside, that of process 1 can be read."""
    yield from ("--chdir", folder, "--clearenv")
    for name, value in environment.items():
        yield from ("--setenv", name, value)


class Bubblewrap:
    """Runs jobs apart from everything else: files, processes, users, network."""

    tier = "bubblewrap"

    def __init__(self, path: str, *, detail: str = "") -> None:
        self.detail = detail
        self._wrapper = Wrapper(path)

    def run(self, job: Job) -> Ended:
        """Runs a job to its end."""
        ended = self._run(job)
        for _ in range(TRIES):
            if not is_fleeting(f"{ended.detail} {ended.errors[-2000:]!r}", ended.how == "not_started"):
                break
            ended = self._run(job)
        return ended

    def _run(self, job: Job) -> Ended:
        try:
            start = program(job)
            with Fence(job.limits) as fence:
                return run(self._launch(job, start, fence), job, fence)
        except CannotStart as fault:
            return not_started(str(fault))

    def _launch(self, job: Job, start: str, fence: Fence) -> Launch:
        plan = listed([*self._arguments(job, view_of(job, start, hide=sockets()))])
        program = [start, *job.command[1:]]
        return Launch(
            line=lambda stack: Binding(stack, self._wrapper.path, plan, os.devnull, program),
            mark="",
            limits=fence.of_each_process(has_own_users=True),
            has_own_processes=True,
            signal_base=SIGNAL_BASE,
        )

    def _arguments(self, job: Job, view: View) -> Iterator[str]:
        yield from self._wrapper.arguments(view, has_network=job.has_network, room=job.limits.file_size)
        yield from setting(job.folder, environment(job, home=HOME, temporary=TEMPORARY))
        yield "--as-pid-1"


def _options(path: str) -> frozenset[str]:
    """The options that this bubblewrap has: older ones lack some."""
    try:
        told = subprocess.run([path, "--help"], capture_output=True, env={}, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(word for word in told.stdout.decode(errors="replace").split() if word.startswith("--"))
