"""The doctor's look at gates: their configuration, the sandbox, and each host's hook."""

from __future__ import annotations

from collections.abc import Iterator

from remand.app.errors import EnvironmentFault
from remand.app.gates.outages import find_broken_gates
from remand.bootstrap import hooking, parsers
from remand.bootstrap.sandbox import self_test
from remand.domain.gates.gate import Gate
from remand.interfaces.cli.checks import Check
from remand.interfaces.cli.context import Context
from remand.interfaces.cli.output import one_line

MANY = 5


def gate_checks(context: Context) -> Iterator[Check]:
    """Everything about gates."""
    try:
        policy = context.opened.settings.settings().gate_policy
    except EnvironmentFault:
        return
    if policy.gates is None:
        fix = (
            "Add the line `[gates]` to remand.toml (empty: no gates), or run `remand init` in a new project."
        )
        yield Check("gates", False, "remand.toml has no [gates] table, so nothing can be handed in", fix)
    else:
        yield from (_gate(gate, context.gates.missing_program(gate, policy)) for gate in policy.gates)
    yield from _broken(context)
    if not policy.enforce:
        yield Check("enforcement", True, "off: everything is judged and recorded, and nothing is stopped")
    pause = context.gates.current_pause
    if pause is not None:
        told = f"sessions may stop unmeasured until {pause.until[:19]}Z, says {pause.actor}: {one_line(pause.reason, 200)}"
        yield Check("pause", True, told, "`remand resume` ends it.")
    yield from _bases(context)
    yield from _sandbox()
    yield from _hosts(context)


def _gate(gate: Gate, missing: str) -> Check:
    name = f"gate {gate.name}"
    fault = parsers.fault(gate)
    if fault:
        return Check(name, False, fault, "Mend remand.toml on the base branch.")
    if missing:
        return Check(
            name,
            False,
            f"there is no program `{missing}`",
            "Install it, or name its folder in `[sandbox] path`.",
        )
    return Check(name, True, f"{' '.join(gate.command)[:80]} ({gate.parser})")


def _broken(context: Context) -> Iterator[Check]:
    """The gates that could not be measured, for which nothing is started."""
    with context.opened.store.read() as view:
        found = find_broken_gates(view, context.opened.settings.rules().gates_digest)
    for task in found.asked:
        escalation = task.open_escalation
        name, why = ", ".join(task.gates_asked_about), escalation.reason if escalation else ""
        fix = f"Then `remand inbox answer {escalation.id if escalation else task.id} retry`."
        yield Check(f"broken gate {name}", False, one_line(why, 2000), fix)


def _bases(context: Context) -> Iterator[Check]:
    """Whether the base has every commit that work was held against: a ref in this clone can be moved by anyone here."""
    with context.opened.store.read() as view:
        measured = [task for task in view.tasks.every() if task.submission is not None and task.gating.base]
    tip = context.opened.settings.tip()
    try:
        lost = context.gateway.repository.outside(tip, (task.gating.base for task in measured))
    except EnvironmentFault as fault:
        yield Check("bases", False, str(fault), "Do what the message says, then repeat.")
        return
    found = [f"{task.id} at {task.gating.base[:12]}" for task in measured if task.gating.base in lost]
    if not found:
        yield Check("bases", True, f"the base has all that work was held against (tasks: {len(measured)})")
        return
    more = f" and {len(found) - MANY} more" if len(found) > MANY else ""
    yield Check(
        "bases",
        False,
        f"held against a commit that the base does not have: {', '.join(found[:MANY])}{more}",
        "Fetch the base. What is named then was measured against another one: reject it, or look at all it changes.",
    )


def _sandbox() -> Iterator[Check]:
    tier, why, probes = self_test()
    fix = "" if tier == "bubblewrap" else f"Install bubblewrap for the strongest sandbox ({why})."
    yield Check("sandbox", True, f"gates are kept apart by: {tier}", fix)
    broken = [probe for probe in probes if not probe.held]
    detail = f"{len(probes) - len(broken)} of {len(probes)} attacks on it were held"
    lost = "; ".join(f"{probe.name}: {probe.detail}" for probe in broken[:6])
    yield Check(
        "sandbox probes", not broken or tier != "bubblewrap", detail, f"Not held: {lost}." if broken else ""
    )


def _hosts(context: Context) -> Iterator[Check]:
    """Every host that the project names or that has a hook of ours here."""
    place = context.place
    named = context.opened.settings.settings().hosts
    for name in dict.fromkeys([*named, *hooking.installed_hosts(place.worktree)]):
        proof = hooking.prove(name, place)
        yield Check(f"host {name}", proof.ok, proof.detail, proof.fix)
