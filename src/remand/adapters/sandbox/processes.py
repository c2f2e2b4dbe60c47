"""Runs a job to its end and says how it ended."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

from remand.adapters.sandbox.binding import CANNOT_RUN, NAME
from remand.adapters.sandbox.limits import Fence
from remand.adapters.sandbox.running import Launch, Running
from remand.adapters.sandbox.setting import CannotStart
from remand.app.gates.ports import MIB, Ended, Job

NOT_STARTED = 127
_MAX_COMPLAINT = 500
_KILLED = int(signal.SIGKILL)


def not_started(detail: str) -> Ended:
    """The answer for a job that never began."""
    return Ended("not_started", NOT_STARTED, detail=detail)


def run(launch: Launch, job: Job, fence: Fence) -> Ended:
    """Runs a job and ends all of it; raises CannotStart when it never began."""
    with ExitStack() as stack:
        try:
            running = Running(launch, job, fence, stack)
        except OSError as fault:
            raise CannotStart(f"The system cannot start a process: {fault}. Repeat when it can.") from None
        stack.callback(running.end)
        if not running.begin():
            running.end()
            raise CannotStart(_complaint(running))
        why = running.listen()
        seconds = time.monotonic() - running.began
        is_gone = running.end()
        how, status, detail = _outcome(running, launch, why, fence)
        if why == "timed_out":
            detail = f"It took longer than {job.limits.seconds:g} s."
    return Ended(
        how,
        status,
        output=running.output.content(),
        errors=running.errors.content(),
        is_cut=running.output.is_cut or running.errors.is_cut,
        seconds=seconds,
        detail=detail if is_gone else f"{detail} Something of it would not end.".strip(),
    )


def _outcome(running: Running, launch: Launch, why: str, fence: Fence) -> tuple[str, int, str]:
    """How it ended, with which number, and which bound it ran into."""
    said = running.status
    if said.fault:
        raise CannotStart(_complaint(running))
    if why == "timed_out":
        return "timed_out", _KILLED, ""
    if why == "full":
        return (
            "signalled",
            _KILLED,
            "It was stopped, as the disk it writes to is nearly full. Make room there.",
        )
    if said.signal is not None:
        return "signalled", said.signal, _reached(said.signal, fence)
    code = running.process.returncode
    if said.exit_code is not None:
        return "exited", said.exit_code, fence.reached()
    if code < 0:
        return "signalled", -code, "The process that watches over it was ended."
    if not launch.signal_base or _could_not_run(running, code):
        raise CannotStart(_complaint(running))
    number = code - launch.signal_base
    if 0 < number <= int(signal.SIGSYS):
        return "signalled", number, _reached(number, fence)
    return "exited", code, fence.reached()


def _could_not_run(running: Running, code: int) -> bool:
    """True when the first process inside bubblewrap says, before anything else is, that it cannot run the program."""
    return code in CANNOT_RUN and running.errors.content().startswith(f"{NAME}: ".encode())


def _reached(number: int, fence: Fence) -> str:
    """Which bound a job ran into, by the signal it ended with and what was counted."""
    if number == signal.SIGXFSZ:
        return f"It ran into the file size limit of {fence.limits.file_size // MIB} MiB."
    if number == signal.SIGXCPU:
        return "It used up its processor time."
    return fence.reached()


def _complaint(running: Running) -> str:
    """Why a job did not begin, in the launcher's words."""
    said = running.status.fault or running.errors.content().decode("utf-8", "replace").strip()
    reason = said[-_MAX_COMPLAINT:] or running.hindrance or "its launcher ended without a word"
    return (
        f"It could not be started: {reason}. Check that the program and what it is run by are there to read."
    )
