"""Checking the set-up."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from remand.app.clock_repair import find_ahead
from remand.app.errors import EnvironmentFault
from remand.app.people import lost_names
from remand.app.repairing import look_closely
from remand.app.verify import verify
from remand.bootstrap.crew import self_test
from remand.bootstrap.health import git_version, sqlite_version
from remand.bootstrap.quick import find_socket
from remand.interfaces.cli.checks import Check
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.doctor_agents import agent_checks, command_checks, tier_of
from remand.interfaces.cli.doctor_gates import gate_checks
from remand.interfaces.cli.output import Result, clean
from remand.ledger.signatures import Doubt
from remand.ledger.store import Unconfirmed

if TYPE_CHECKING:
    from rich.console import Console

SAFE_SQLITE = (3, 51, 3)
TIERS = {
    0: "Tier 0: agents run as the same user without a sandbox. What they tamper with is evident\n"
    "(chains, high-water mark, refusals at every door), not impossible.",
    1: "Tier 1: agents that `remand run` starts are held in a sandbox and speak through a socket of their own.\n"
    "One that you start yourself is not held: what it tampers with is evident, not impossible.",
}

HOW_TO_BE_TRUSTED = (
    "Run `remand keys request` here, and `remand keys trust TEXT --write` with what it prints in a clone whose key "
    "the base trusts; commit that on the base and push it, then `git fetch` here."
)


def _nothing(parser: ArgumentParser) -> None:
    """Takes no arguments."""


def _doctor(context: Context) -> Result:
    agents = self_test()
    is_off = _is_off(context)
    checks = [*_checks(context), *agent_checks(agents, is_off=is_off)]
    tier = 0 if is_off else tier_of(agents)
    is_ok = all(check.ok for check in checks)
    data = {
        "ok": is_ok,
        "tier": tier,
        "checks": [check._asdict() for check in checks],
        "agent_probes": [probe._asdict() for probe in agents.probes],
    }
    return Result(data, _page(checks, tier), code=0 if is_ok else 1)


def _checks(context: Context) -> Iterator[Check]:
    yield Check(
        "git", bool(git_version()), git_version() or "not found", "" if git_version() else "Install git."
    )
    version = sqlite_version()
    is_safe = tuple(int(part) for part in version.split(".")) >= SAFE_SQLITE
    yield Check("sqlite", is_safe, version, "" if is_safe else "Update the package apsw.")
    try:
        opened = context.opened
    except EnvironmentFault as fault:
        yield Check("ledger", False, str(fault), "Do what the message says, then repeat.")
        return
    yield Check("ledger", True, os.path.join(opened.place.got, "ledger.db"))
    yield _configuration(context)
    yield from _commands(context)
    look_closely(opened.ledger)
    with opened.store.read() as tx:
        ledger = opened.ledger
        found = verify(
            tx, ledger.exchange, ledger.marks, ledger.clock, ledger.verifier(tx), skew=ledger.clock_skew
        )
        conflicts = sum(len(task.conflicts) for task in tx.tasks.every())
    count = len(found.problems)
    yield Check(
        "log",
        found.ok,
        f"{found.events} events, {count} problems",
        "" if found.ok else "`remand log verify` names each by file and line.",
    )
    yield _clock(context)
    yield _keys(context, [one for one in found.unconfirmed if one.doubt is not Doubt.VOID])
    with suppress(EnvironmentFault):
        yield _names(context)
    yield Check(
        "conflicts",
        not conflicts,
        f"{conflicts} events could not apply after a merge" if conflicts else "none",
        "`remand task show ID` lists them; the first in order has won." if conflicts else "",
    )
    yield Check("ignored", *_ignored(context))
    yield from gate_checks(context)
    socket = find_socket(opened.place)
    yield Check("coordinator", True, f"running at {socket}" if socket else "not running (it is not needed)")


def _is_off(context: Context) -> bool:
    """True when the configuration has agents run without the sandbox that there may be."""
    try:
        return context.opened.settings.settings().run.sandbox == "off"
    except EnvironmentFault:
        return False


def _commands(context: Context) -> Iterator[Check]:
    with suppress(EnvironmentFault):
        yield from command_checks(context.opened.settings.settings().team)


def _configuration(context: Context) -> Check:
    try:
        settings = context.opened.settings.settings()
    except EnvironmentFault as fault:
        return Check("configuration", False, str(fault), "Do what the message says, then repeat.")
    if not settings.source:
        return Check(
            "configuration", True, "there is no remand.toml, so defaults hold", "`remand init` writes one."
        )
    if settings.source == "working tree":
        return Check("configuration", True, "read from the working tree, as the base branch has none yet")
    return Check("configuration", True, f"read from branch {settings.source}")


def _clock(context: Context) -> Check:
    found = find_ahead(context.opened.ledger)
    if found.is_repairable:
        detail = f"the latest event is from {found.clock}, and this machine's clock says {found.now}"
        fix = "If the clock is wrong, set it right; if it is right, `remand log repair` says what to do."
        return Check("clock", False, detail, fix)
    if found.held:
        count = "1 event is" if len(found.held) == 1 else f"{len(found.held)} events are"
        detail = (
            f"{count} held back, ahead of this machine's clock ({found.now}), from {found.held[0].event.ts}"
        )
        fix = "Run `remand log repair` on the machine that wrote it, or set this machine's clock right."
        return Check("clock", False, detail, fix)
    return Check("clock", True, "no event is ahead of this machine's clock")


def _keys(context: Context, unconfirmed: Sequence[Unconfirmed]) -> Check:
    try:
        settings, own = context.opened.settings.settings(), context.opened.ledger.keys.own()
    except EnvironmentFault as fault:
        return Check("keys", False, str(fault), "Do what the message says, then repeat.")
    count = _count(unconfirmed)
    rules = context.opened.settings.rules()
    if rules.untrusted(own) or (own is None and rules.has_keys and rules.has_remote):
        detail = (
            f"the base does not trust this machine's key {own.id}" if own else "this machine has no key yet"
        )
        return Check("keys", False, f"{detail}, {count}", HOW_TO_BE_TRUSTED)
    if any(found.doubt is Doubt.NOT_IMPORTED for found in unconfirmed):
        fix = "Lines of GoT tools count after `remand log import .got`; `remand keys` says whose the others are."
        return Check("keys", True, count, fix)
    if own is None:
        return Check(
            "keys", True, f"this machine has no key yet, {count}", "It is made with the first event."
        )
    if not settings.project or own.id not in {key.id for key in settings.trusted}:
        missing = (
            "the base branch names no project id" if not settings.project else "the base does not trust it"
        )
        return Check("keys", True, f"key {own.id}, {count}; {missing}", "`remand init` says what to add.")
    fix = "`remand keys` says whose they are." if unconfirmed else ""
    return Check("keys", True, f"key {own.id} is trusted, {count}", fix)


def _count(unconfirmed: Sequence[Unconfirmed]) -> str:
    if not unconfirmed:
        return "nothing unconfirmed"
    return "1 event unconfirmed" if len(unconfirmed) == 1 else f"{len(unconfirmed)} events unconfirmed"


def _names(context: Context) -> Check:
    """Names of the team that look alike, and locked-out names that the team has lost."""
    team = context.opened.settings.rules().team
    alike = [f"{one} looks like {other}" for one, other in team.look_alikes()]
    with context.opened.store.read() as view:
        lost = lost_names(view, team)
    gone = [f"{name} is locked out and not on the team any more" for name in lost]
    fixes = ["Rename one of those that look alike."] if alike else []
    fixes += [
        f"Say in remand.toml what became of {name}: `aliases` of a member if it was renamed, else `former` in [team]."
        for name in lost
    ]
    return Check(
        "names", True, "; ".join((*alike, *gone)) or "none to be mistaken for another", " ".join(fixes)
    )


def _ignored(context: Context) -> tuple[bool, str, str]:
    path = os.path.join(context.place.got, ".gitignore")
    if os.path.exists(path):
        return True, ".got keeps everything but events out of git", ""
    return False, ".got/.gitignore is missing", "Run `remand init`."


def _page(checks: list[Check], tier: int) -> Any:
    def show(out: Console) -> None:
        from rich.text import Text

        for check in checks:
            mark = Text("ok    ", style="green") if check.ok else Text("wrong ", style="bold red")
            out.print(mark + Text(clean(f"{check.name:<14} {check.detail}")))
            if check.fix:
                out.print(Text(clean(f"      {'':<14} {check.fix}"), style="dim"))
        out.print()
        out.print(TIERS[tier])

    return show


COMMANDS = {"doctor": Command(_nothing, _doctor)}
