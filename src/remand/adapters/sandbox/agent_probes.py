"""Tries on this machine, from inside an agent that was really started, what an agent can reach."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from remand.adapters.sandbox import attempts, scope
from remand.adapters.sandbox.agent_stand import Stand
from remand.adapters.sandbox.cgroups import group
from remand.adapters.sandbox.ending import has_argument
from remand.app.gates.ports import Limits
from remand.app.scheduling.ports import CannotRun, Crew, Ended, Order

PROCESSES = 64
MANY = 200
STEP = 0.005
MAX_COMPLAINT = 300
LEAVE_BEHIND = "leave a process behind"
MULTIPLY = "start processes without end"
# Exits with 0 when an agent can do its work and reach its door, and not read what is hidden.
TRIAL = 'echo mine > own && git add own && git commit -q -m own && test -S "$REMAND_SOCKET" && ! cat "$1" 2>/dev/null'
KNOWN = (
    "LANG",
    "HOME",
    "TMPDIR",
    "PATH",
    "PWD",
    "REMAND_SOCKET",
    "REMAND_MARK",
    "LC_CTYPE",
    "OLDPWD",
    "SHLVL",
    "_",
)


class Probe(NamedTuple):
    """One attack, and whether it was held off."""

    name: str
    held: bool
    detail: str
    excuse: str = ""
    """What this machine lacks for it to be held off."""


def run(crew: Crew, order: Order) -> Ended:
    """Runs an agent to its end."""
    running = crew.start(order)
    while (ended := running.ended()) is None:
        time.sleep(STEP)
    return ended


def fault_of(crew: Crew) -> str:
    """What keeps a crew from being used, found out with a small agent; empty for nothing."""
    with ExitStack() as stack:
        try:
            stand = Stand(stack)
            ended = run(crew, stand.order("/bin/sh", "-c", TRIAL, "sh", stand.key))
        except (CannotRun, OSError, subprocess.SubprocessError) as fault:
            return str(fault)
    if (ended.how, ended.status) == ("exited", 0):
        return ""
    return ended.errors.strip() or "it does not keep an agent from what is hidden"


def attack(crew: Crew) -> tuple[Probe, ...]:
    """Attacks what holds the agents of a crew, which is to let each start no more than `PROCESSES`."""
    daemon, named = secrets.token_hex(16), "reach a socket by its name, with a network"
    with ExitStack() as stack:
        stand = Stand(stack)
        tries = {
            **_reading(stand),
            **_writing(stand),
            **_reaching(stand),
            "inherit an environment": ["inherit", ",".join(KNOWN)],
            "steer the kernel": ["steer_the_kernel", "/proc/sys/kernel/core_pattern"],
            "remount the disk": ["remount", stand.path("remounted")],
            "make itself other users": ["become_root"],
            LEAVE_BEHIND: ["stay", daemon],
            MULTIPLY: ["multiply", str(MANY)],
        }
        probes = _tried(crew, stand, tries, has_network=False)
        if has_argument(daemon):
            probes[LEAVE_BEHIND] = Probe(LEAVE_BEHIND, False, "it lives on")
        probes |= _tried(crew, stand, {named: ["connect_unix", stand.named_socket]}, has_network=True)
    return tuple(probe._replace(excuse=_excuse(probe, named)) for probe in probes.values())


def _reading(stand: Stand) -> dict[str, list[str]]:
    """Nothing of this is to be read."""
    common = stand.workplace.common_dir
    paths = {
        "read a key": stand.key,
        "read the ledger": stand.ledger,
        "read another worktree": stand.other,
        "read the repository's files": stand.source,
        "read the repository's settings": os.path.join(common, "config"),
        "read a secret in home": stand.secret,
    }
    return {name: ["find", path, stand.word] for name, path in paths.items()}


def _writing(stand: Stand) -> dict[str, list[str]]:
    """Nothing of this is to be changed. What an agent has in the repository's place it may write to."""
    common = stand.workplace.common_dir
    paths = {
        "write to the ledger": stand.ledger,
        "write to another worktree": stand.other,
        "write to the repository": stand.source,
        "change the repository's settings": os.path.join(common, "config"),
        "plant a hook": os.path.join(common, "hooks", "post-commit"),
        "move a branch": os.path.join(common, "refs", "heads", "main"),
    }
    return {name: ["write", path] for name, path in paths.items()}


def _reaching(stand: Stand) -> dict[str, list[str]]:
    """None of these is to be reached."""
    pid = str(stand.coordinator.pid)
    return {
        "read the coordinator's environment": ["find_in_environments", stand.word],
        "look into the coordinator's memory": ["trace", pid],
        "end the coordinator": ["end", pid],
        "reach the coordinator's socket": ["connect_unix", stand.socket],
        "reach another agent's door": ["connect_unix", stand.other_door],
        "reach a server on this machine": ["connect_loopback", str(stand.port)],
        "reach the network": ["connect_out"],
    }


def _tried(
    crew: Crew, stand: Stand, tries: Mapping[str, list[str]], *, has_network: bool
) -> dict[str, Probe]:
    """How each of some attacks went."""
    script = Path(attempts.__file__).read_text(encoding="utf-8")
    command = (sys.executable, "-I", "-S", "-c", script)
    prompt = json.dumps(list(tries.values()))
    try:
        ended = run(crew, stand.order(*command, prompt=prompt, has_network=has_network))
        told = [msgspec.json.decode(line, type=tuple[bool, str]) for line in ended.output.splitlines()]
        why = ended.errors[-MAX_COMPLAINT:]
    except CannotRun as fault:
        told, why = [], str(fault)
    if len(told) < len(tries):
        return {name: Probe(name, False, f"It could not be tried: {why}") for name in tries}
    return {
        name: Probe(name, not _is_done(tried, done), text)
        for (name, tried), (done, text) in zip(tries.items(), told, strict=True)
    }


def _is_done(tried: list[str], done: bool) -> bool:
    """True for an attack that got through. Whether something was written is seen from outside alone."""
    if tried[0] != "write":
        return done
    try:
        return Path(tried[1]).read_text(encoding="utf-8") == attempts.WRITTEN
    except OSError:
        return False


def _excuse(probe: Probe, named: str) -> str:
    if probe.held:
        return ""
    if probe.name == named and scope.version() < scope.FIRST_VERSION:
        return "Linux 6.12 is needed."
    if probe.name == MULTIPLY and not _has_groups():
        return "Control groups are needed."
    return ""


def _has_groups() -> bool:
    made = group(Limits())
    return made is not None and made.close()
