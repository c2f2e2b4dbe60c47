"""Which events release work, and why one that came in a file may have no effect.

What an agent may not do, a file may not do either: such an event counts when a known key has signed it.
"""

from __future__ import annotations

from enum import StrEnum

from remand.domain import events as e

RELEASING = frozenset(
    {
        "edge.delete",
        "escalation.acknowledge",
        "escalation.answer",
        "escalation.notify",
        "escalation.repeat",
        "feedback.fetch",
        "forge.done",
        "forge.fail",
        "forge.import",
        "forge.intend",
        "gate.accept",
        "gate.hold",
        "gate.override",
        "gate.pass",
        "gate.recover",
        "handoff.complete",
        "handoff.reject.response",
        "handoff.resume",
        "lockout.clear",
        "node.update",
        "review.approve",
        "review.bypass",
        "review.comment",
        "review.note",
        "review.retract",
        "run.end",
        "task.cancel",
        "task.decompose",
        "task.defer",
        "task.infeasible",
        "task.reopen",
        "task.settle",
        "task.submit",
    }
)
"""The events that release, by name. What restricts (a claim, a rejection, a lockout) is believed from anywhere.

A held verdict is among them: the reviewer who accepts its findings hands in what it says was measured.
"""

RELEASING_KINDS = frozenset(kind for kind in e.NATIVE if str(kind.__struct_config__.tag) in RELEASING)


class Doubt(StrEnum):
    """Why a releasing event is unconfirmed."""

    NONE = ""
    UNSIGNED = "unsigned"
    UNKNOWN_SIGNER = "unknown_signer"
    WRONG_SIGNATURE = "wrong_signature"


def is_releasing(event: e.Event) -> bool:
    """True when an event counts only if it is signed. Lines of GoT tools are none: they reach no lifecycle."""
    if type(event) is e.Unknown:
        return event.kind in RELEASING and event.meta.seq > 0
    return type(event) in RELEASING_KINDS and event.meta.seq > 0
