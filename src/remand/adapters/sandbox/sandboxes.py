"""The sandboxes for gates, best first (bubblewrap, Landlock, plain limits), and the choice of the best that works here."""

from __future__ import annotations

import marshal
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from remand.adapters.sandbox import launcher
from remand.adapters.sandbox.file_view import FileView, Visibility, job_file_view
from remand.adapters.sandbox.job_process import BubblewrapConnection, JobLaunch, not_started, run_job
from remand.adapters.sandbox.job_setup import (
    SYSTEM_PATH,
    CannotStart,
    encode_arguments,
    find_program,
    job_environment,
    listening_sockets,
)
from remand.adapters.sandbox.limits import ResourceLimits
from remand.adapters.sandbox.processes import StatusPipe, make_pipe, memory_file
from remand.app.gates.ports import Job, JobLimits, JobResult

HOME = "/tmp/home"  # noqa: S108 - in a /tmp of the job's own
TEMPORARY = "/tmp"  # noqa: S108
BUBBLEWRAP_NOBODY = "65534"
FLEETING = "Unable to apply mount flags"
TRIES = 3
"""How often it is tried once more to make a sandbox while mounts come and go."""
KERNEL = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"))
"""By which the kernel of the whole machine is steered."""
SIGNAL_BASE = 128
PLACES = (*SYSTEM_PATH, "/run/current-system/sw/bin")


def find_bubblewrap() -> str:
    """Where bubblewrap is: in the system's folders, as an agent may have put anything on PATH. Empty: nowhere."""
    return shutil.which("bwrap", path=os.pathsep.join(PLACES)) or ""


class BubblewrapArguments:
    """Words what bubblewrap is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._knows = _options(path)

    def arguments(
        self, view: FileView, *, has_network: bool, room: int, files: Mapping[str, int] = MappingProxyType({})
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
            yield from ("--uid", BUBBLEWRAP_NOBODY, "--gid", BUBBLEWRAP_NOBODY)
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        for part in KERNEL:
            # These go by the real user, who may be root, whatever the user inside is and may do.
            yield from ("--ro-bind-try", part, part)
        yield from self._mounts(view, room, files)

    def _mounts(self, view: FileView, room: int, files: Mapping[str, int]) -> Iterator[str]:
        """Masks and what is shown all the same, outer paths first; masks cannot be written once all is in place."""
        masks = []
        for path, sight in view.places():
            match sight:
                case Visibility.HIDDEN if os.path.isdir(path):
                    masks.append(path)
                    yield from ("--tmpfs", path)
                case Visibility.HIDDEN:
                    yield from ("--ro-bind", "/dev/null", path)
                case Visibility.FRESH:
                    yield from self._fresh(path, room)
                case Visibility.READ:
                    yield from ("--ro-bind-try", view.source(path), path)
                case Visibility.WRITE:
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


def is_temporary_failure(said: str, has_not_started: bool = True) -> bool:
    """True when bubblewrap met a mount that another was just taking down: nothing has run, and it may try again."""
    return has_not_started and FLEETING in said


def argument_list(arguments: list[str]) -> bytes:
    """Arguments as bubblewrap reads them from a file."""
    return b"".join(argument + b"\x00" for argument in encode_arguments(arguments))


def start_arguments(folder: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Where the program begins and its environment. Bubblewrap's own is empty: inside, that of process 1 can be read."""
    yield from ("--chdir", folder, "--clearenv")
    for name, value in environment.items():
        yield from ("--setenv", name, value)


class BubblewrapSandbox:
    """Runs jobs apart from everything else: files, processes, users, network."""

    tier = "bubblewrap"

    def __init__(self, path: str, *, detail: str = "") -> None:
        self.detail = detail
        self._wrapper = BubblewrapArguments(path)

    def run(self, job: Job) -> JobResult:
        """Runs a job to its end."""
        ended = self._run(job)
        for _ in range(TRIES):
            if not is_temporary_failure(
                f"{ended.detail} {ended.errors[-2000:]!r}", ended.how == "not_started"
            ):
                break
            ended = self._run(job)
        return ended

    def _run(self, job: Job) -> JobResult:
        try:
            start = find_program(job)
            with ResourceLimits(job.limits) as fence:
                return run_job(self._launch(job, start, fence), job, fence)
        except CannotStart as fault:
            return not_started(str(fault))

    def _launch(self, job: Job, start: str, fence: ResourceLimits) -> JobLaunch:
        plan = argument_list([*self._arguments(job, job_file_view(job, start, hide=listening_sockets()))])
        program = [start, *job.command[1:]]
        return JobLaunch(
            line=lambda stack: BubblewrapConnection(stack, self._wrapper.path, plan, os.devnull, program),
            mark="",
            limits=fence.of_each_process(has_own_users=True),
            has_own_processes=True,
            signal_base=SIGNAL_BASE,
        )

    def _arguments(self, job: Job, view: FileView) -> Iterator[str]:
        yield from self._wrapper.arguments(view, has_network=job.has_network, room=job.limits.file_size)
        yield from start_arguments(job.folder, job_environment(job, home=HOME, temporary=TEMPORARY))
        yield "--as-pid-1"


def _options(path: str) -> frozenset[str]:
    """The options that this bubblewrap has: older ones lack some."""
    try:
        told = subprocess.run([path, "--help"], capture_output=True, env={}, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(word for word in told.stdout.decode(errors="replace").split() if word.startswith("--"))


LAUNCHER_NOBODY = 65534
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


class PrivateFolders(NamedTuple):
    """The folders that a job has for itself."""

    root: str
    home: str
    temporary: str


@contextmanager
def private_folders() -> Iterator[PrivateFolders]:
    """A home and a folder for temporary files, empty, and gone afterwards."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="remand-job-"))
    try:
        made = PrivateFolders(root, os.path.join(root, "home"), os.path.join(root, "tmp"))
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


Confiner = Callable[[Job, str, PrivateFolders], Confinement]


def run_launched(job: Job, confine: Confiner) -> JobResult:
    """Runs a job by our own launcher, confined as `confine` says."""
    try:
        start = find_program(job)
        with ResourceLimits(job.limits) as fence, private_folders() as private:
            return run_job(_launch(job, start, private, confine(job, start, private), fence), job, fence)
    except CannotStart as fault:
        return not_started(str(fault))


def _launch(
    job: Job, start: str, private: PrivateFolders, confinement: Confinement, fence: ResourceLimits
) -> JobLaunch:
    given = job_environment(job, home=private.home, temporary=private.temporary)
    plan = launcher_plan(job, start, given, confinement, fence)
    return JobLaunch(
        line=lambda stack: LauncherConnection(stack, plan),
        mark=private.root,
        limits={},
        has_own_processes=confinement.has_namespaces,
    )


class LauncherConnection(StatusPipe):
    """Pipes to our own launcher: what it is to do, what it says, and its leave, which it needs as long as it is there."""

    stdin = subprocess.DEVNULL

    def __init__(self, stack: ExitStack, plan: bytes) -> None:
        told, self._says = make_pipe(stack)
        self._leave, self._to_leave = make_pipe(stack)
        super().__init__(told)
        self.descriptors = (stack.enter_context(memory_file(plan)), self._says.fileno(), self._leave.fileno())
        self.command = launcher_command(*self.descriptors)

    def close_child_ends(self) -> None:
        """Leaves its ends to the launcher."""
        self._says.close()
        self._leave.close()

    def permit_start(self, process: subprocess.Popen[bytes]) -> None:  # noqa: ARG002 - the launcher looks after itself
        """Lets the job begin."""
        self._to_leave.write(b"\n")

    def give_up(self) -> None:
        """Lets the launcher go, and with it what waits for leave."""
        self._to_leave.close()

    let_go = give_up


def launcher_command(*ends: int) -> list[str]:
    """How our own launcher is run, given the descriptors of its plan, of what it says, and of the leave it waits for."""
    return [sys.executable, "-I", "-S", launcher.__file__, *map(str, ends)]


def launcher_plan(
    job: Job,
    start: str,
    given: Mapping[str, str],
    confinement: Confinement,
    fence: ResourceLimits,
    *,
    clears: bool = False,
) -> bytes:
    """What a launcher reads. One that clears ends everything below it with the job, or with whoever started it."""
    names, values = encode_arguments(list(given)), encode_arguments(list(given.values()))
    rules = confinement.rules
    plan = {
        "parent": os.getpid(),
        "program": os.fsencode(start),
        "arguments": encode_arguments([start, *job.command[1:]]),
        "environment": dict(zip(names, values, strict=True)),
        "folder": os.fsencode(job.folder),
        "network": job.has_network,
        "namespaces": confinement.has_namespaces,
        "clears": clears,
        "user": os.geteuid() or LAUNCHER_NOBODY,
        "group": os.getegid() if os.geteuid() else LAUNCHER_NOBODY,
        "signals": [int(number) for number in UNHEEDED],
        "limits": dict(fence.of_each_process(has_own_users=confinement.has_namespaces)),
        "sockets": encode_arguments(list(confinement.sockets)),
        "rules": None if rules is None else [(os.fsencode(path), may_write) for path, may_write in rules],
    }
    return marshal.dumps(plan)


DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


class LandlockSandbox:
    """Runs jobs under rules about files; apart in processes and network too, where namespaces are to be had."""

    tier = "landlock"

    def __init__(self, *, has_namespaces: bool, detail: str = "") -> None:
        self.detail = detail
        self._has_namespaces = has_namespaces

    def run(self, job: Job) -> JobResult:
        """Runs a job to its end."""
        return run_launched(job, self._confine)

    def _confine(self, job: Job, program: str, private: PrivateFolders) -> Confinement:
        view = job_file_view(job, program, own=(private.home, private.temporary))
        # Whole disks are devices, and root may read them.
        view.show("/dev", Visibility.HIDDEN)
        for name in DEVICES:
            view.show(f"/dev/{name}", Visibility.WRITE)
        return Confinement(
            has_namespaces=self._has_namespaces,
            rules=tuple((path, sight is Visibility.WRITE) for path, sight in view.parts()),
            sockets=tuple(listening_sockets()) if self._has_namespaces else (),
        )


class PlainSandbox:
    """Runs jobs as what they are: programs of this user."""

    tier = "plain"

    def __init__(self, *, detail: str = "") -> None:
        self.detail = detail

    def run(self, job: Job) -> JobResult:
        """Runs a job to its end."""
        return run_launched(job, _no_confinement)


def _no_confinement(job: Job, program: str, private: PrivateFolders) -> Confinement:  # noqa: ARG001 - as Landlock's
    return Confinement()


AnySandbox = BubblewrapSandbox | LandlockSandbox | PlainSandbox

# Exits with 0 when it can write where it runs, and neither read nor write what is masked.
TRIAL = 'echo mine > own && ! cat "$1/secret" 2>/dev/null && ! (echo more > "$1/more") 2>/dev/null'
TRIAL_SECONDS = 20.0
_choosing = threading.Lock()


def best_sandbox() -> AnySandbox:
    """The best sandbox to be had; its `detail` says why no better one is. Tried out once in a process."""
    with _choosing:
        return _find_best_sandbox()


@cache
def _find_best_sandbox() -> AnySandbox:
    if sys.platform != "linux":
        return PlainSandbox(detail="Only Linux has a sandbox that Remand knows.")
    missing = []
    path = find_bubblewrap()
    fault = (
        find_sandbox_fault(BubblewrapSandbox(path))
        if path
        else "not installed (the package is called bubblewrap)"
    )
    if not fault:
        return BubblewrapSandbox(path)
    missing.append(f"bubblewrap: {fault}")
    for has_namespaces in (True, False):
        fault = find_sandbox_fault(LandlockSandbox(has_namespaces=has_namespaces))
        if not fault:
            return LandlockSandbox(has_namespaces=has_namespaces, detail="; ".join(missing))
        missing.append(f"{'namespaces' if has_namespaces else 'landlock'}: {fault}")
    return PlainSandbox(detail="; ".join(missing))


def find_sandbox_fault(sandbox: AnySandbox) -> str:
    """What keeps a sandbox from holding, found out with a small job; empty for nothing."""
    with tempfile.TemporaryDirectory(prefix="remand-trial-") as root:
        own, masked = os.path.join(root, "own"), os.path.join(root, "masked")
        os.mkdir(own)
        os.mkdir(masked)
        with open(os.path.join(masked, "secret"), "w", encoding="ascii") as file:
            file.write("secret")
        ended = sandbox.run(
            Job(
                command=("/bin/sh", "-c", TRIAL, "sh", masked),
                folder=own,
                read=(root,),
                hide=(masked,),
                limits=JobLimits(seconds=TRIAL_SECONDS),
            )
        )
        if ended.how == "exited" and ended.status == 0:
            return ""
        said = ended.errors.decode("utf-8", "replace").strip()
        return (
            " ".join(part for part in (ended.detail, said) if part)
            or "it does not keep a job from masked files"
        )
