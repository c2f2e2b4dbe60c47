"""The sandboxes for gates, best first (bubblewrap, Landlock, plain limits), and the choice of the best that works here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import MappingProxyType

from remand.adapters.sandbox import connections, job_setup, supervisor
from remand.adapters.sandbox.limits import ResourceLimits
from remand.app.gates.ports import Job, JobLimits, JobResult

HOME = "/tmp/home"  # noqa: S108 - in a /tmp of the job's own
TEMPORARY = "/tmp"  # noqa: S108
NOBODY = "65534"
KERNEL = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"))
"""The files that control the kernel of the whole machine."""
PLACES = (*job_setup.SYSTEM_PATH, "/run/current-system/sw/bin")
DISK_CHECK_SECONDS = 0.25
KILLED = 9
NOT_STARTED = 127
CANNOT_RUN = (126, 127)
LAUNCH_FAILED = (
    "It could not be started: {}. Check that the program and its interpreter exist and can be read."
)


def find_bubblewrap() -> str:
    """The path of bubblewrap in the system folders, because an agent may change PATH; empty if it is missing."""
    return shutil.which("bwrap", path=os.pathsep.join(PLACES)) or ""


class BubblewrapArguments:
    """The arguments that the installed bubblewrap supports: older ones lack some."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            help_text = subprocess.run([path, "--help"], capture_output=True, env={}, timeout=10, check=False)
            self._options = frozenset(help_text.stdout.decode(errors="replace").split())
        except (OSError, subprocess.TimeoutExpired):
            self._options = frozenset()

    def arguments(
        self,
        view: job_setup.FileView,
        environment: Mapping[str, str],
        folder: str,
        *,
        has_network: bool,
        fresh_size: int,
        files: Mapping[str, int] = MappingProxyType({}),
    ) -> bytes:
        """The arguments that bubblewrap reads from a file: namespaces, mounts, and the program with its
        folder and environment.

        `fresh_size` limits each folder of the job's own; `files` maps paths in a masked folder to the
        descriptors that hold their contents. Bubblewrap's own environment is empty, because inside, that of
        process 1 can be read.
        """
        arguments = [*self._namespaces(has_network), *self._mounts(view, fresh_size, files)]
        arguments += ("--chdir", folder, "--clearenv")
        for name, value in environment.items():
            arguments += ("--setenv", name, value)
        arguments.append("--as-pid-1")
        return b"".join(argument + b"\x00" for argument in job_setup.encode_arguments(arguments))

    def _namespaces(self, has_network: bool) -> Iterator[str]:
        yield from ("--unshare-all", "--unshare-user", "--cap-drop", "ALL")
        yield from ("--die-with-parent", "--new-session", "--hostname", "localhost")
        if "--disable-userns" in self._options:
            yield "--disable-userns"
        if has_network:
            yield "--share-net"
        if os.geteuid() == 0:
            # Root may still write root's files, yet no program inside considers itself root.
            yield from ("--uid", NOBODY, "--gid", NOBODY)
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        for part in KERNEL:
            # Their permissions depend on the real user, who may be root, whatever the user inside is.
            yield from ("--ro-bind-try", part, part)

    def _mounts(self, view: job_setup.FileView, fresh_size: int, files: Mapping[str, int]) -> Iterator[str]:
        """The mounts of masks and visible paths, outer paths first; masks become read-only once everything is in place."""
        masks = [
            path
            for path, visibility in view.places()
            if visibility is job_setup.Visibility.HIDDEN and os.path.isdir(path)
        ]
        for path, visibility in view.places():
            if path in masks:
                yield from ("--tmpfs", path)
            elif visibility is job_setup.Visibility.HIDDEN:
                yield from ("--ro-bind", os.devnull, path)
            elif visibility is job_setup.Visibility.FRESH:
                yield from ("--size", str(fresh_size)) if "--size" in self._options else ()
                yield from ("--tmpfs", path)
            elif visibility is job_setup.Visibility.READ:
                yield from ("--ro-bind-try", view.source(path), path)
            else:
                yield from ("--bind", view.source(path), path)
        for path, target in view.links():
            yield from ("--symlink", target, path)
        for path, descriptor in files.items():
            yield from ("--ro-bind-data", str(descriptor), path)
        yield from ("--dir", HOME)
        for path in masks:
            yield from ("--remount-ro", path)


Connect = Callable[[str, ResourceLimits], connections.LaunchConnection]
"""Connects to the program that launches a job, given the job's program and its limits."""


def _run_job(job: Job, connect: Connect) -> JobResult:
    """Runs a job to its end; none of its processes remains."""
    try:
        program = job_setup.find_program(job)
        with ResourceLimits(job.limits) as limits:
            return supervisor.supervise(
                lambda: connect(program, limits),
                limits,
                supervisor.StopRules(job.limits.seconds, job.folder, DISK_CHECK_SECONDS),
                supervisor.OutputBounds(job.limits.output, job.limits.output),
                partial(_job_result, job),
            ).wait()
    except job_setup.CannotStart as fault:
        return _not_started(str(fault))
    except supervisor.LaunchFailed as fault:
        return _not_started(LAUNCH_FAILED.format(fault))
    except OSError as fault:
        return _not_started(f"The system cannot start a process: {fault}. Try again later.")


def _not_started(detail: str) -> JobResult:
    return JobResult("not_started", NOT_STARTED, detail=detail)


def _job_result(job: Job, end: supervisor.ProcessEnd) -> JobResult:
    # The first process inside bubblewrap reports, before any other output, that it cannot run the program.
    errors = end.errors.content()
    could_not_run = end.status in CANNOT_RUN and errors.startswith(f"{connections.FIRST_NAME}: ".encode())
    if end.fault or (could_not_run and not end.stopped_for):
        return _not_started(LAUNCH_FAILED.format(end.fault or end.errors.text().strip()[-500:]))
    how, status, detail = end.how, end.status, end.note
    if end.stopped_for == "timed_out":
        how, status, detail = "timed_out", KILLED, f"It took longer than {job.limits.seconds:g} s."
    elif end.stopped_for == "disk":
        how, status = "signalled", KILLED
        detail = "It was stopped, because the disk it writes to is nearly full. Free some space there."
    return JobResult(
        how,
        status,
        output=end.output.content(),
        errors=errors,
        is_cut=end.output.is_cut or end.errors.is_cut,
        seconds=end.seconds,
        detail=detail,
    )


class BubblewrapSandbox:
    """Runs jobs with separate files, processes, users and network."""

    tier = "bubblewrap"

    def __init__(self, path: str, *, detail: str = "") -> None:
        self.detail = detail
        self._bubblewrap = BubblewrapArguments(path)

    def run(self, job: Job) -> JobResult:
        return _run_job(job, partial(self._connect, job))

    def _connect(self, job: Job, program: str, limits: ResourceLimits) -> connections.LaunchConnection:
        plan = self._bubblewrap.arguments(
            job_setup.job_file_view(job, program, hide=job_setup.listening_sockets()),
            job_setup.job_environment(job, home=HOME, temporary=TEMPORARY),
            job.folder,
            has_network=job.has_network,
            fresh_size=job.limits.file_size,
        )
        each_process = limits.of_each_process(has_own_users=True)
        command = [program, *job.command[1:]]
        return connections.BubblewrapConnection(
            self._bubblewrap.path, plan, os.devnull, command, each_process
        )


REMOVE = 'chmod -R u+rwX "$1"; rm -rf "$1"'
REMOVE_SECONDS = 60.0

Rules = Sequence[tuple[str, bool]] | None


@contextmanager
def _private_folder() -> Iterator[str]:
    """A folder with an empty `home` and `tmp`, removed afterwards."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="remand-job-"))
    try:
        for name in ("home", "tmp"):
            os.mkdir(os.path.join(root, name), 0o700)
        yield root
    finally:
        # The job may have made it deeper than Python can handle, or removed our permissions.
        with suppress(RecursionError):
            shutil.rmtree(root, ignore_errors=True)
        if os.path.lexists(root):
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    ["/bin/sh", "-c", REMOVE, "sh", root],
                    env={"PATH": os.pathsep.join(job_setup.SYSTEM_PATH)},
                    stderr=subprocess.DEVNULL,
                    timeout=REMOVE_SECONDS,
                    check=False,
                )


def _run_launched(job: Job, rules: Callable[[str, tuple[str, str]], Rules]) -> JobResult:
    """Runs a job by our own launcher, with rules for its program and its private folders."""
    with _private_folder() as root:
        home, temporary = os.path.join(root, "home"), os.path.join(root, "tmp")

        def connect(program: str, limits: ResourceLimits) -> connections.LaunchConnection:
            environment = job_setup.job_environment(job, home=home, temporary=temporary)
            each_process = limits.of_each_process(has_own_users=False)
            plan = connections.launcher_plan(
                job, program, environment, each_process, rules(program, (home, temporary))
            )
            return connections.LauncherConnection(plan, mark=root)

        return _run_job(job, connect)


DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


class LandlockSandbox:
    """Runs jobs under Landlock's rules about files, where bubblewrap cannot create namespaces."""

    tier = "landlock"

    def __init__(self, *, detail: str = "") -> None:
        self.detail = detail

    def run(self, job: Job) -> JobResult:
        return _run_launched(job, partial(self._rules, job))

    def _rules(self, job: Job, program: str, private: tuple[str, str]) -> Rules:
        view = job_setup.job_file_view(job, program, own=private)
        # Devices include whole disks, which root may read.
        view.show("/dev", job_setup.Visibility.HIDDEN)
        for name in DEVICES:
            view.show(f"/dev/{name}", job_setup.Visibility.WRITE)
        return tuple((path, visibility is job_setup.Visibility.WRITE) for path, visibility in view.parts())


class PlainSandbox:
    """Runs jobs as ordinary programs of this user."""

    tier = "plain"

    def __init__(self, *, detail: str = "") -> None:
        self.detail = detail

    def run(self, job: Job) -> JobResult:
        return _run_launched(job, lambda *_: None)


AnySandbox = BubblewrapSandbox | LandlockSandbox | PlainSandbox

# Exits with 0 if it can write in its folder, and neither read nor write what is masked.
TRIAL = 'echo mine > own && ! cat "$1/secret" 2>/dev/null && ! (echo more > "$1/more") 2>/dev/null'
TRIAL_SECONDS = 20.0
_choosing = threading.Lock()


def best_sandbox() -> AnySandbox:
    """The best sandbox that works here; its `detail` says why no better one does. Determined once per process."""
    with _choosing:
        return _find_best_sandbox()


@cache
def _find_best_sandbox() -> AnySandbox:
    if sys.platform != "linux":
        return PlainSandbox(detail="Remand has a sandbox only on Linux.")
    path = find_bubblewrap()
    fault = "not installed (the package is called bubblewrap)"
    if path:
        fault = find_sandbox_fault(BubblewrapSandbox(path))
        if not fault:
            return BubblewrapSandbox(path)
    detail = f"bubblewrap: {fault}"
    fault = find_sandbox_fault(LandlockSandbox())
    return PlainSandbox(detail=f"{detail}; landlock: {fault}") if fault else LandlockSandbox(detail=detail)


def find_sandbox_fault(sandbox: AnySandbox) -> str:
    """Why a sandbox does not protect, found by running a small job; empty if it does."""
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
        errors = ended.errors.decode("utf-8", "replace").strip()
        return (
            " ".join(part for part in (ended.detail, errors) if part)
            or "it does not keep a job from masked files"
        )
