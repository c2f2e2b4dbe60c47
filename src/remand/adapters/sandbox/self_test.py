"""Tests by attack what a sandbox prevents on this machine."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from remand.adapters.sandbox import attempts
from remand.adapters.sandbox.job_setup import STEADY, homes
from remand.adapters.sandbox.processes import has_argument
from remand.app.gates.ports import MIB, Job, JobLimits, JobResult, Sandbox

HUGE = 2048 * MIB
MANY = 200
LIMITS = JobLimits(seconds=20.0, memory=256 * MIB, processes=64, file_size=64 * MIB)
# The last one is set by Python itself.
KNOWN = (*STEADY, "PATH", "HOME", "TMPDIR", "PWD", "LC_CTYPE")


class SandboxAttackResult(NamedTuple):
    """One attack, and whether the sandbox held."""

    name: str
    held: bool
    detail: str


class _Target(NamedTuple):
    """What is there to be attacked."""

    folder: str
    """The job's own."""
    outside: str
    """Readable for the job, and not writable."""
    ledger: str
    """Hidden from it."""
    secret: str
    """A file in the user's home."""
    word: str
    """In the environment of a process that is not the job's."""
    victim: subprocess.Popen[bytes]
    port: int
    unix: str
    abstract: str


def self_test(sandbox: Sandbox) -> tuple[SandboxAttackResult, ...]:
    """Attacks a sandbox in every way it is to hold against."""
    with ExitStack() as stack:
        target = _target(stack)
        return (*_reach_attacks(sandbox, target), *_exhaustion_attacks(sandbox, target))


def _target(stack: ExitStack) -> _Target:
    root = stack.enter_context(tempfile.TemporaryDirectory(prefix="remand-probe-"))
    folders = {name: os.path.join(root, name) for name in ("folder", "outside", "ledger")}
    for folder in folders.values():
        os.mkdir(folder)
    Path(folders["outside"], "kept").write_text("kept", encoding="ascii")
    word = secrets.token_hex(16)
    victim = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            env={"REMAND_PROBE": word},
        )
    )
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    unix, abstract = os.path.join(folders["outside"], "s"), f"@remand-probe-{word}"
    for address in (unix, "\0" + abstract[1:]):
        stack.enter_context(_listen(address))
    return _Target(
        **folders,
        secret=_plant_secret(stack, root),
        word=word,
        victim=victim,
        port=server.getsockname()[1],
        unix=unix,
        abstract=abstract,
    )


def _listen(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    return listening


def _plant_secret(stack: ExitStack, root: str) -> str:
    """A secret in the user's home; elsewhere when that cannot be written."""
    place = next((home for home in homes() if os.access(home, os.W_OK)), root)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=".remand-probe-", dir=place))
    path = os.path.join(folder, "id_ed25519")
    Path(path).write_text("secret", encoding="ascii")
    return path


def _run(
    sandbox: Sandbox, target: _Target, tries: list[list[str]]
) -> tuple[JobResult, list[tuple[bool, str]]]:
    """Runs attempts inside; says how the job ended, and for each whether it succeeded and what it said."""
    script = Path(attempts.__file__).read_text(encoding="utf-8")
    ended = sandbox.run(
        Job(
            command=(sys.executable, "-I", "-S", "-c", script, json.dumps(tries)),
            folder=target.folder,
            path=(os.path.dirname(sys.executable),),
            read=(target.outside,),
            hide=(target.ledger,),
            limits=LIMITS,
        )
    )
    told = [msgspec.json.decode(line, type=tuple[bool, str]) for line in ended.output.splitlines()]
    return ended, told


def _reach_attacks(sandbox: Sandbox, target: _Target) -> list[SandboxAttackResult]:
    """What a job is to be kept away from."""
    written = [os.path.join(folder, "written") for folder in (target.outside, target.ledger)]
    remounted = os.path.join(target.outside, "remounted")
    tries = {
        "write outside": ["write", written[0]],
        "cut off a file outside": ["cut", os.path.join(target.outside, "kept")],
        "write to the ledger": ["write", written[1]],
        "read a secret in home": ["read", target.secret],
        "read the environment of others": ["find_in_environments", target.word],
        "inherit an environment": ["inherit", ",".join(KNOWN)],
        "reach the network": ["connect_out"],
        "reach a server on this machine": ["connect_loopback", str(target.port)],
        "reach a socket by its path": ["connect_unix", target.unix],
        "reach a socket by its name": ["connect_unix", target.abstract],
        "steer the kernel": ["steer_the_kernel", "/proc/sys/kernel/core_pattern"],
        "remount the disk": ["remount", remounted],
        "end another process": ["end", str(target.victim.pid)],
    }
    ended, told = _run(sandbox, target, list(tries.values()))
    if len(told) < len(tries):
        why = ended.detail or ended.errors.decode("utf-8", "replace")[-200:]
        return [SandboxAttackResult(name, False, f"It could not be tried: {why}") for name in tries]
    return [SandboxAttackResult(name, not done, text) for name, (done, text) in zip(tries, told, strict=True)]


def _exhaustion_attacks(sandbox: Sandbox, target: _Target) -> list[SandboxAttackResult]:
    """What a job is not to use, or leave behind."""
    word = secrets.token_hex(16)
    tries = {
        "start processes without end": ["multiply", str(MANY)],
        "take 2 GB of memory": ["allocate", str(HUGE)],
        "write a file of 2 GB": ["fill", os.path.join(target.folder, "huge"), str(HUGE)],
        "leave a process behind": ["stay", word],
    }
    probes = []
    for name, one in tries.items():
        ended, told = _run(sandbox, target, [one])
        has_run = ended.how in ("exited", "signalled")
        done, text = told[0] if told else (False, ended.detail)
        if name == "leave a process behind" and has_argument(word):
            done, text = True, "it lives on"
        probes.append(SandboxAttackResult(name, has_run and not done, text or ended.detail))
    return probes
