"""What a director answers to a rejection: one JSON object, from the user's own command or in an agent's last words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec.structs import replace

from remand.domain.commands import AnswerRejection
from remand.domain.feedback.sanitise import sanitise
from remand.domain.reasons import DecisionType, decision_named
from remand.domain.record import Record
from remand.domain.reviewing.blocks import Answer, Block, Unclear, answer_of, blocks, once

KEYS = ("decision_type", "decision")
NOTHING = "It holds no decision: no JSON object with `decision_type`."
CONTRADICTS = "It holds decisions that contradict one another, or one that is none."
UNNAMED = "It decides beside other text without naming its run, so that it may be a quotation."


class Said(Record, kw_only=True):
    """What a director may answer."""

    decision_type: str
    rationale: str = ""
    message: str = ""
    override_message: str = ""
    reassign_to: str = ""
    created_tasks: tuple[str, ...] = ()

    def ask(self, handoff_id: str) -> AnswerRejection:
        """The answer to the last rejection of a handoff."""
        return AnswerRejection(
            handoff_id=handoff_id,
            decision=self.decision_type,
            rationale=self.rationale,
            message=self.message or self.override_message,
            reassign_to=self.reassign_to,
            created_tasks=self.created_tasks,
        )


def said(text: str) -> Said:
    """The decision of a command that prints nothing else; raises ValueError when it is none."""
    try:
        return _read(json.loads(text, object_pairs_hook=once))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def decision(text: str, run_id: str = "") -> Said | Unclear:
    """What the last words of a director come to, made safe to hand on."""
    answer = answer_of(text)
    found = blocks(answer, KEYS)
    found = [block for block in found if block.names(run_id)] or found
    if not found:
        return Unclear(why=NOTHING)
    last = found[-1]
    if last.values is None:
        return Unclear(why=f"Its last JSON object cannot be read: {last.fault}.")
    if len({_named(block.values) for block in found if block.values is not None}) > 1:
        return Unclear(why=CONTRADICTS)
    return _counted(answer, last, last.values, run_id)


def _counted(answer: Answer, block: Block, values: dict[str, Any], run_id: str) -> Said | Unclear:
    if not block.names(run_id) and not answer.is_nothing_but(block):
        return Unclear(why=UNNAMED)
    if _named(values) is None:
        names = ", ".join(DecisionType.__members__)
        return Unclear(why=f"Its decision is none of {names}.")
    try:
        read = _read(values)
    except ValueError as error:
        return Unclear(why=f"Its decision cannot be read: {error}.")
    clean = {name: sanitise(getattr(read, name), is_rendered=False).text for name in ("rationale", "message")}
    return replace(read, **clean, override_message=sanitise(read.override_message, is_rendered=False).text)


def _named(values: dict[str, Any]) -> DecisionType | None:
    """The decision that an object names, by either key; None when they differ."""
    found = {decision_named(values[key]) for key in KEYS if key in values}
    return found.pop() if len(found) == 1 else None


def _read(values: object) -> Said:
    if isinstance(values, dict) and "decision" in values:
        values = {"decision_type": values["decision"], **values}
    return msgspec.convert(values, Said)
