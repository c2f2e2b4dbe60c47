"""`remand doctor`: checks the set-up, the gates, the sandboxes and the hosts' hooks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import apsw

from remand.app.errors import EnvironmentFault
from remand.app.gates.known_results import read_broken_gates
from remand.app.gates.ports import SandboxReport
from remand.app.gates.queued_work import worker_options
from remand.app.log.archive import ARCHIVE_FROM, event_bytes
from remand.app.log.repair import find_events_ahead, verify_ledger
from remand.app.tasks.lookup import lost_names
from remand.domain.access.team import Member
from remand.domain.gate.gate import GatePolicy
from remand.domain.text.words import format_count
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, clean, one_line
from remand.interfaces.cli.serve import describe_coordinator
from remand.ledger.event_tables import UnconfirmedEvent
from remand.ledger.signatures import Doubt
from remand.wiring import setup

if TYPE_CHECKING:
    from rich.console import Console


class Check(NamedTuple):
    """The result of one check, and what to do if it failed."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


PLAIN = "plain"
UNCONFINED = "nothing: agents run as this user, without a sandbox"


def command_checks(members: Iterable[Member]) -> Iterator[Check]:
    """Whether the programs of members' commands exist."""
    named = [member for member in members if member.command]
    lost = [member for member in named if shutil.which(member.command[0]) is None]
    programs = ", ".join(f"{member.command[0]} ({member.name})" for member in lost)
    if named:
        yield Check(
            "agent commands",
            not lost,
            f"{len(named) - len(lost)} of {len(named)} members with a command can be started",
            f"Install {programs}, or fix the command in remand.toml." if lost else "",
        )


def agent_checks(tested: SandboxReport, *, is_off: bool = False, is_verbose: bool = True) -> Iterator[Check]:
    """The sandbox of agents and its self-test; on request with the name of each attack."""
    if is_off:
        yield Check(
            "agents", True, f"agents are confined by: {UNCONFINED}", "`run.sandbox` in remand.toml is off."
        )
        return
    is_confined = tested.tier != PLAIN
    yield Check(
        "agents",
        True,
        f"agents are confined by: {tested.tier if is_confined else UNCONFINED}",
        "" if is_confined else f"Install bubblewrap to confine them ({tested.detail}).",
    )
    blocked = [probe.name for probe in tested.attacks if probe.held]
    attacks = [probe for probe in tested.attacks if not probe.held]
    names = [
        f"{probe.name} ({probe.excuse or probe.detail})" if is_confined else probe.name for probe in attacks
    ]
    yield Check(
        "agent probes",
        not (is_confined and tested.breaches),
        f"{len(blocked)} of {len(tested.attacks)} attacks by an agent were blocked"
        + (f": {', '.join(blocked)}" if is_verbose and blocked else ""),
        f"Not blocked: {', '.join(names)}." if attacks else "",
    )


MAX_NAMED_TASKS = 5


def gate_checks(context: Context) -> Iterator[Check]:
    try:
        policy = context.opened_ledger.settings.settings().gate_policy
    except EnvironmentFault:
        return
    if policy.gates is None:
        fix = (
            "Add the line `[gates]` to remand.toml (empty: no gates), or run `remand init` in a new project."
        )
        yield Check("gates", False, "remand.toml has no [gates] table, so nothing can be submitted", fix)
    else:
        yield from _gates(context, policy)
    with context.opened_ledger.store.read() as view:
        broken = read_broken_gates(view, context.opened_ledger.settings.rules().gates_digest)
    for task in broken.open_questions:
        escalation = task.open_escalation
        name, why = ", ".join(task.gates_asked_about), escalation.reason if escalation else ""
        fix = f"Then `remand inbox answer {escalation.id if escalation else task.id} retry`."
        yield Check(f"broken gate {name}", False, one_line(why, 2000), fix)
    if not policy.enforce:
        yield Check("enforcement", True, "off: gates and rules are evaluated and recorded, but block nothing")
    pause = context.gates.current_pause
    if pause is not None:
        text = f"{pause.actor} lets sessions stop without gates until {pause.until[:19]}Z: {one_line(pause.reason, 200)}"
        yield Check("pause", True, text, "`remand resume` ends it.")
    yield from _bases(context)
    yield from _sandbox(context)
    named = context.opened_ledger.settings.settings().hosts
    worktree = context.place.worktree
    for host in dict.fromkeys([*named, *setup.host_checks.installed_hosts(worktree)]):
        context.progress.show(f"calling the hook of {host}")
        proof = setup.host_checks.check_hook(host, worktree, setup.host_worktrees(context.place)[worktree])
        yield Check(f"host {host}", proof.ok, proof.detail, proof.fix)


def _gates(context: Context, policy: GatePolicy) -> Iterator[Check]:
    """Whether each gate could run on the base: prepare step, program, and the module after `python -m`."""
    with context.gate_progress():
        tip, is_trusted = context.opened_ledger.settings.tip(), context.arguments.credentials
        ready = context.gates.readiness(policy, tip, may_have_secrets=is_trusted)
    found = {one.gate.name: one for one in ready}
    for gate in policy.gates or ():
        name, fault = f"gate {gate.name}", context.gates.gate_fault(gate)
        if fault:
            yield Check(name, False, fault, "Fix remand.toml on the base branch.")
        elif found[gate.name].fault:
            yield Check(name, False, one_line(found[gate.name].fault, 700), found[gate.name].fix)
        else:
            yield Check(name, True, f"{' '.join(gate.command)[:80]} ({gate.parser})")


def _bases(context: Context) -> Iterator[Check]:
    """Whether the base has every commit with which work was compared: anyone here can move a ref in this clone."""
    with context.opened_ledger.store.read() as view:
        measured = [task for task in view.tasks.every() if task.submission is not None and task.gates.base]
    tip = context.opened_ledger.settings.tip()
    try:
        lost = context.gateway.repository.commits_outside(tip, (task.gates.base for task in measured))
    except EnvironmentFault as fault:
        yield Check("bases", False, str(fault), "Follow the message, then run `remand doctor` again.")
        return
    found = [f"{task.id} at {task.gates.base[:12]}" for task in measured if task.gates.base in lost]
    if not found:
        yield Check(
            "bases",
            True,
            f"the base contains every commit that work was compared with (tasks: {len(measured)})",
        )
        return
    more = f" and {len(found) - MAX_NAMED_TASKS} more" if len(found) > MAX_NAMED_TASKS else ""
    yield Check(
        "bases",
        False,
        f"compared with a commit that the base does not contain: {', '.join(found[:MAX_NAMED_TASKS])}{more}",
        "Fetch the base. Tasks that are still named were compared with another base: reject them, or review everything they change.",
    )


def _sandbox(context: Context) -> Iterator[Check]:
    context.progress.show("trying the sandbox of gates")
    tier, why, attacks = setup.self_test.report_on_gates()
    fix = "" if tier == "bubblewrap" else f"Install bubblewrap for the strongest sandbox ({why})."
    yield Check("sandbox", True, f"gates are isolated by: {tier}", fix)
    broken = [probe for probe in attacks if not probe.held]
    detail = f"{len(attacks) - len(broken)} of {len(attacks)} attacks on the gate sandbox were blocked"
    lost = "; ".join(f"{probe.name}: {probe.detail}" for probe in broken[:6])
    yield Check(
        "sandbox probes",
        not broken or tier != "bubblewrap",
        detail,
        f"Not blocked: {lost}." if broken else "",
    )


SAFE_SQLITE = (3, 51, 3)
TIERS = {
    0: "Tier 0: agents run as the same user without a sandbox. Tampering is evident\n(chains, high-water mark, refusals at every interface), not impossible.",
    1: "Tier 1: agents that `remand run` starts are confined to a sandbox and call Remand through their own agent socket.\nAn agent that you start yourself is not confined: its tampering is evident, not impossible.",
}

TRUST_INSTRUCTIONS = (
    "Run `remand keys request` here, and `remand keys trust TEXT --write` with what it prints in a clone whose key "
    "the base trusts; commit that on the base and push it, then `git fetch` here."
)


@command(
    "doctor",
    argument("--verbose", action="store_true", help="name every attack that was tried"),
    argument(
        "--credentials",
        action="store_true",
        help="also pass your passwords for package registries to prepare steps that are not on the base branch",
    ),
)
def _doctor(context: Context) -> Result:
    context.progress.show("trying the sandbox of agents")
    agents = setup.self_test.report_on_agents()
    try:
        is_off = context.opened_ledger.settings.settings().run.sandbox == "off"
    except EnvironmentFault:
        is_off = False
    is_verbose = context.arguments.verbose or context.call.is_json
    checks = [*_checks(context), *agent_checks(agents, is_off=is_off, is_verbose=is_verbose)]
    tier = 1 if not is_off and agents.tier != PLAIN and not agents.breaches else 0
    is_ok = all(check.ok for check in checks)
    data = {
        "ok": is_ok,
        "tier": tier,
        "checks": [check._asdict() for check in checks],
        "agent_probes": [probe._asdict() for probe in agents.attacks],
    }

    def show(out: Console) -> None:
        from rich.text import Text

        for check in checks:
            mark = Text("ok    ", style="green") if check.ok else Text("wrong ", style="bold red")
            out.print(mark + Text(clean(f"{check.name:<14} {check.detail}")))
            if check.fix:
                out.print(Text(clean(f"      {'':<14} {check.fix}"), style="dim"))
        out.print()
        out.print(TIERS[tier])

    return Result(data, show, code=0 if is_ok else 1)


def _checks(context: Context) -> Iterator[Check]:
    yield Check(
        "git",
        bool(setup.git_version()),
        setup.git_version() or "not found",
        "" if setup.git_version() else "Install git.",
    )
    version = apsw.sqlite_lib_version()
    is_safe = tuple(int(part) for part in version.split(".")) >= SAFE_SQLITE
    yield Check("sqlite", is_safe, version, "" if is_safe else "Update the package apsw.")
    try:
        opened = context.opened_ledger
    except EnvironmentFault as fault:
        yield Check("ledger", False, str(fault), "Follow the message, then run `remand doctor` again.")
        return
    yield Check("ledger", True, os.path.join(opened.place.got, "ledger.db"))
    yield _configuration(context)
    with suppress(EnvironmentFault):
        yield from command_checks(opened.settings.settings().team)
    report = verify_ledger(opened.ledger)
    with opened.store.read() as tx:
        conflicts = sum(len(task.inbox.conflicts) for task in tx.tasks.every())
    count = len(report.problems)
    yield Check(
        "log",
        report.ok,
        f"{format_count(report.events, 'event')}, {format_count(count, 'problem')}",
        "" if report.ok else "`remand log verify` names each by file and line.",
    )
    yield size_check(event_bytes(opened.ledger))
    yield _clock(context)
    yield _keys(context, [event for event in report.unconfirmed if event.doubt is not Doubt.VOID])
    with suppress(EnvironmentFault):
        yield _names(context)
    yield Check(
        "conflicts",
        not conflicts,
        f"{format_count(conflicts, 'event')} could not be applied after a merge" if conflicts else "none",
        "`remand task show ID` lists them; the first in order took effect." if conflicts else "",
    )
    if os.path.exists(os.path.join(context.place.got, ".gitignore")):
        yield Check("ignored", True, ".got/.gitignore keeps everything but events out of git")
    else:
        yield Check("ignored", False, ".got/.gitignore is missing", "Run `remand init`.")
    yield from gate_checks(context)
    with suppress(EnvironmentFault):
        yield from _workers(context)
    with suppress(EnvironmentFault):
        yield Check("coordinator", True, describe_coordinator(context)[1])


def _workers(context: Context) -> Iterator[Check]:
    """Whether there is a worker for every waiting gate run, if workers run the gates."""
    waiting = context.gates.unclaimed_runs()
    if waiting is None:
        return
    wanted = sorted({job.labels for job in waiting})
    named = "; ".join(", ".join(labels) or "none" for labels in wanted)
    fix = "Start one: " + " or ".join(f"`remand worker{worker_options(labels)}`" for labels in wanted) + "."
    yield Check(
        "workers",
        not waiting,
        f"{format_count(len(waiting), 'gate run')} waiting for a worker with the labels: {named}"
        if waiting
        else "every waiting gate run has a worker",
        fix if waiting else "",
    )


def _configuration(context: Context) -> Check:
    try:
        settings = context.opened_ledger.settings.settings()
    except EnvironmentFault as fault:
        return Check(
            "configuration", False, str(fault), "Follow the message, then run `remand doctor` again."
        )
    if not settings.source:
        return Check(
            "configuration",
            True,
            "there is no remand.toml, so the defaults apply",
            "`remand init` writes one.",
        )
    if settings.source == "working tree":
        return Check("configuration", True, "read from the working tree, as the base branch has none yet")
    return Check("configuration", True, f"read from branch {settings.source}")


def size_check(size: int) -> Check:
    """Whether the event files are so large that the user should archive them."""
    return Check(
        "log size",
        True,
        f"event files take {size / (1 << 20):.1f} MB; archive them from {ARCHIVE_FROM >> 20} MB on",
        ""
        if size < ARCHIVE_FROM
        else "`remand log archive --before DATE` archives tasks that ended before that day; after the first time, `remand log publish` on the base does so automatically.",
    )


def _clock(context: Context) -> Check:
    findings = find_events_ahead(context.opened_ledger.ledger)
    if findings.is_repairable:
        detail = f"the latest event is from {findings.clock}, and this machine's clock says {findings.now}"
        fix = "If the clock is wrong, correct it; otherwise `remand log repair` says what to do."
        return Check("clock", False, detail, fix)
    if findings.held:
        count = "1 event is" if len(findings.held) == 1 else f"{len(findings.held)} events are"
        detail = f"{count} held back, ahead of this machine's clock ({findings.now}), from {findings.held[0].event.ts}"
        fix = "Run `remand log repair` on the machine that wrote it, or correct this machine's clock."
        return Check("clock", False, detail, fix)
    return Check("clock", True, "no event is ahead of this machine's clock")


def _keys(context: Context, unconfirmed: Sequence[UnconfirmedEvent]) -> Check:
    try:
        settings, own = context.opened_ledger.settings.settings(), context.opened_ledger.ledger.keys.own()
    except EnvironmentFault as fault:
        return Check("keys", False, str(fault), "Follow the message, then run `remand doctor` again.")
    count = f"{format_count(len(unconfirmed), 'event')} unconfirmed" if unconfirmed else "nothing unconfirmed"
    rules = context.opened_ledger.settings.rules()
    if rules.untrusted_key_id(own) or (own is None and rules.has_keys and rules.has_remote):
        detail = (
            f"the base does not trust this machine's key {own.id}" if own else "this machine has no key yet"
        )
        return Check("keys", False, f"{detail}, {count}", TRUST_INSTRUCTIONS)
    if any(event.doubt is Doubt.NOT_IMPORTED for event in unconfirmed):
        fix = "Lines of GoT tools count after `remand log import .got`; `remand keys` shows whose the others are."
        return Check("keys", True, count, fix)
    if own is None:
        return Check(
            "keys", True, f"this machine has no key yet, {count}", "Remand creates it with the first event."
        )
    if not settings.project or own.id not in {key.id for key in settings.trusted}:
        missing = (
            "the base branch names no project id" if not settings.project else "the base does not trust it"
        )
        return Check("keys", True, f"key {own.id}, {count}; {missing}", "`remand init` says what to add.")
    fix = "`remand keys` shows whose they are." if unconfirmed else ""
    return Check("keys", True, f"key {own.id} is trusted, {count}", fix)


def _names(context: Context) -> Check:
    """Names of the team that look alike, and locked-out names that are no longer on the team."""
    team = context.opened_ledger.settings.rules().team
    alike = [f"{one} looks like {other}" for one, other in team.look_alikes()]
    with context.opened_ledger.store.read() as view:
        lost = lost_names(view, team)
    gone = [f"{name} is locked out and no longer on the team" for name in lost]
    fixes = ["Rename one of the names that look alike."] if alike else []
    fixes += [
        f"Record in remand.toml what happened to {name}: `aliases` of a member if it was renamed, otherwise `former` in [team]."
        for name in lost
    ]
    return Check("names", True, "; ".join((*alike, *gone)) or "no names look alike", " ".join(fixes))
