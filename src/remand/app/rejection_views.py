"""A task's rejections by agents, each with what was found, advised and decided, told from its events."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain import events as e
from remand.domain.record import Record
from remand.domain.validation.assessment import Issue
from remand.domain.validation.world import Graded


class RejectionView(Record, kw_only=True, omit_defaults=False):
    """A rejection as it stands."""

    rejection_id: str
    task_id: str
    handoff_id: str
    agent: str
    at: str
    is_valid: bool
    rejection: dict[str, Any]
    score: float = 0.0
    issues: tuple[Issue, ...] = ()
    graded: tuple[Graded, ...] = ()
    attempts: tuple[Graded, ...] = ()
    opinion: str = ""
    decision: e.Decision | None = None
    decided_by: str = ""
    decided_at: str = ""


def rejections(events: list[e.Event]) -> list[RejectionView]:
    """Every rejection of a task in its order, each with the answer that counts: the first that is no override."""
    found: dict[str, RejectionView] = {}
    for event in events:
        match event:
            case e.HandoffRejected() | e.HandoffRejectionInvalid() if event.rejection_id:
                found[event.rejection_id] = _view(event)
            case e.RejectionAnswered() if _is_open(found.get(event.rejection_id)):
                found[event.rejection_id] = msgspec.structs.replace(
                    found[event.rejection_id],
                    decision=event.decision,
                    decided_by=event.director or event.meta.actor,
                    decided_at=event.ts,
                )
            case e.OpinionGiven() if event.rejection_id in found:
                found[event.rejection_id] = msgspec.structs.replace(
                    found[event.rejection_id], opinion=event.opinion
                )
            case _:
                pass
    return list(found.values())


def _is_open(view: RejectionView | None) -> bool:
    """True when a rejection may be answered: it was not yet, or overridden so far."""
    return view is not None and (view.decision is None or view.decision.decision_type == "OVERRIDE")


def _view(event: e.HandoffRejected | e.HandoffRejectionInvalid) -> RejectionView:
    return RejectionView(
        rejection_id=event.rejection_id,
        task_id=event.task_id,
        handoff_id=event.handoff_id,
        agent=event.agent,
        at=event.ts,
        is_valid=isinstance(event, e.HandoffRejected),
        rejection=event.rejection,
        score=event.score,
        issues=event.issues if isinstance(event, e.HandoffRejectionInvalid) else (),
        graded=event.graded,
        attempts=event.attempts,
    )
