"""Every sandbox that this machine has, and what tests ask about what was run in one."""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest

from remand.adapters.sandbox.limits import make_group
from remand.adapters.sandbox.sandboxes import (
    AnySandbox,
    BubblewrapSandbox,
    LandlockSandbox,
    PlainSandbox,
    find_bubblewrap,
)
from remand.app.gates.ports import Job, JobLimits, JobResult

KINDS = ("bubblewrap", "landlock", "plain")
CONFINED = KINDS[:2]
NAMESPACED = KINDS[:1]
ATTEMPTS = 10


@cache
def made(kind: str) -> tuple[AnySandbox | None, str]:
    """A sandbox of a kind, or why there is none here: what is missing is asked of the system, not of the sandbox."""
    match kind:
        case "bubblewrap":
            if not find_bubblewrap():
                return None, "bubblewrap is not installed"
            if not _does(find_bubblewrap(), "--unshare-all", "--ro-bind", "/", "/", "true"):
                return None, "bubblewrap may make no namespaces here"
            return BubblewrapSandbox(find_bubblewrap()), ""
        case "landlock":
            if ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 1:
                return None, "this kernel has no Landlock"
            return LandlockSandbox(), ""
    return PlainSandbox(), ""


def _does(*command: str) -> bool:
    """True when a command works; one that makes mounts fails now and then while another is taken down."""
    try:
        return any(
            subprocess.run(command, capture_output=True, check=False).returncode == 0 for _ in range(ATTEMPTS)
        )
    except OSError:
        return False


def sandbox_of(kind: str) -> AnySandbox:
    """A sandbox of a kind; skips the test where there is none."""
    sandbox, fault = made(kind)
    if sandbox is None:
        pytest.skip(f"{kind}: {fault}")
    return sandbox


@cache
def has_groups() -> bool:
    """True when control groups bound what jobs use together."""
    tried = make_group(JobLimits())
    return tried is not None and tried.bounds_memory and tried.close()


class Bench:
    """A sandbox, a folder to run in, and a mark by which everything of a job is found again."""

    def __init__(self, sandbox: AnySandbox, root: Path) -> None:
        self.sandbox = sandbox
        self.root = root
        self.folder = root / "checkout"
        self.folder.mkdir()
        self.mark = secrets.token_hex(16)

    def job(self, *command: str, seconds: float = 600.0, **more: object) -> Job:
        """A job that carries the mark."""
        job = Job(
            command=command,
            folder=str(self.folder),
            environment={"MARK": self.mark},
            path=(str(Path(sys.executable).parent),),
            limits=JobLimits(seconds=seconds),
        )
        return msgspec.structs.replace(job, **more)

    def shell(self, script: str, *arguments: str, seconds: float = 600.0, **more: object) -> JobResult:
        """Runs a shell script to its end."""
        return self.sandbox.run(
            self.job("/bin/sh", "-c", script, self.mark, *arguments, seconds=seconds, **more)
        )

    def python(self, script: str, *arguments: str, seconds: float = 600.0, **more: object) -> JobResult:
        """Runs a Python script to its end."""
        command = (sys.executable, "-I", "-S", "-c", script, self.mark, *arguments)
        return self.sandbox.run(self.job(*command, seconds=seconds, **more))

    def survivors(self) -> list[str]:
        """What runs that carries the mark, in its environment or on its command line."""
        return marked(self.mark)


def marked(mark: str) -> list[str]:
    """The command lines of processes that carry a mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                told = [(entry / name).read_bytes() for name in ("cmdline", "environ")]
            except OSError:
                continue
            if any(mark.encode() in text for text in told):
                found.append(told[0].decode(errors="replace"))
    return found
