"""What may be decided about gates that cannot be measured: the user is asked once, until they can be again."""

from __future__ import annotations

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.gates.outages import (
    GATE_QUESTION,
    RETRY,
    broken_gates,
    measured_gates,
    outages_of,
    question,
    without,
)
from remand.domain.gates.verdict import Verdict
from remand.domain.questions import opened
from remand.domain.task import Task

Events = tuple[e.Event, ...]


def ask_about_gates(task: Task, verdict: Verdict, command: c.Command) -> Events:
    """The question to the user about gates that this verdict shows to be broken, unless it was put already."""
    facts, found = command.facts, outages_of(verdict)
    known = (*task.gating.outages, *facts.outages)
    broken = broken_gates((*without(known, measured_gates(verdict)), *found), facts.policy)
    new = tuple(one for one in found if one.gate in broken and one.gate not in facts.asked_gates)
    if not new:
        return ()
    asked = opened(task, GATE_QUESTION, question(new), command)
    return (replace(asked, gates=tuple(one.gate for one in new)),)


def note_measured(task: Task, ask: c.NoteGatesMeasured, command: c.Command) -> Events:
    """What follows for a task once gates were measured, or have other rules: a question about them is closed."""
    facts = command.facts
    gates = tuple(dict.fromkeys(one.gate for one in task.gating.outages if one.gate in ask.gates))
    recovered = (e.GateRecovered(task_id=task.id, gates=gates),) if gates else ()
    left = without((*task.gating.outages, *facts.outages), ask.gates)
    escalation = task.open_escalation
    if escalation is None or escalation.kind != GATE_QUESTION:
        return recovered
    if broken_gates(left, facts.policy) & set(escalation.gates):
        return recovered
    answered = e.EscalationAnswered(task_id=task.id, escalation_id=escalation.id, option=RETRY)
    return (*recovered, answered)
