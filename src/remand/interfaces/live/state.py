"""Where whoever looks is: which question is looked at, what is typed, and what a key leads to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.escalations import Question, line
from remand.domain.escalations import UNLOCK, WONTFIX, Option
from remand.domain.objections import DISMISS, DISMISS_ALL
from remand.domain.record import Record
from remand.interfaces.live import keys as k
from remand.interfaces.live.keys import Pressed

OPTION_KEYS = "123456789abcdefhilmnopstuvwxyz"
"""One key for each option of a question, in their order; without the letters that mean something else."""
STEADY_SECONDS = 1.0
"""So long after the question has changed by itself no answer is taken: it was meant for another."""
MAX_GUIDANCE = 4000


class Mode(StrEnum):
    """What keys mean now."""

    LOOK = "look"
    HELP = "help"
    CONFIRM = "confirm"
    TYPE = "type"


class Wish(NamedTuple):
    """What a key asks for beyond the view: `quit`, `refresh`, or `answer` a question."""

    kind: str
    question: Question | None = None
    option: str = ""
    guidance: str = ""


class State(Record, kw_only=True):
    """Where whoever looks is."""

    selected: str = ""
    """The question's id."""
    mode: Mode = Mode.LOOK
    option: str = ""
    """The answer that is confirmed, or guidance is typed for; empty when it is not chosen yet."""
    guidance: str = ""
    """What is typed, or was typed for the question that is looked at."""
    message: str = ""
    """What came of the last key."""
    steady_at: float = 0.0
    """From when on answers are taken."""
    why_not: str = ""
    """Why nothing can be answered from here; empty when it can."""


def selected(state: State, questions: Sequence[Question]) -> Question | None:
    """The question that is looked at."""
    return next((found for found in questions if found.escalation_id == state.selected), None)


def begun(questions: Sequence[Question], *, why_not: str = "") -> State:
    """The state to begin with: the oldest question is looked at."""
    first = questions[0].escalation_id if questions else ""
    return State(selected=first, why_not=why_not, message=why_not)


def followed(state: State, before: Sequence[Question], after: Sequence[Question], now: float) -> State:
    """The state when the questions have changed: the same one is looked at as long as it is there.

    Should it be gone, or its options be others, the keys rest for a moment.
    """
    was, still = selected(state, before), selected(state, after)
    if still is not None:
        is_same = was is None or was.options == still.options
        return state if is_same else _interrupted(state, now, "The options have changed.")
    places = [found.escalation_id for found in before]
    place = places.index(state.selected) if state.selected in places else 0
    new = after[min(place, len(after) - 1)].escalation_id if after else ""
    moved = replace(state, selected=new, guidance="")
    return (
        moved if new == state.selected else _interrupted(moved, now, "That question is settled." * bool(was))
    )


def _interrupted(state: State, now: float, why: str) -> State:
    """The state after the question has changed under whoever looks: what was begun is given up."""
    is_busy = state.mode in (Mode.CONFIRM, Mode.TYPE)
    message = why if is_busy else state.message or why
    mode = Mode.LOOK if is_busy else state.mode
    return replace(state, mode=mode, option="", message=message, steady_at=now + STEADY_SECONDS)


def pressed(
    state: State, questions: Sequence[Question], press: Pressed, now: float
) -> tuple[State, Wish | None]:
    """What a key leads to: another state, and what is asked for."""
    match state.mode:
        case Mode.TYPE:
            return _typed(state, questions, press)
        case Mode.CONFIRM:
            return _confirmed(state, questions, press)
        case Mode.HELP:
            return replace(state, mode=Mode.LOOK), None
        case Mode.LOOK:
            return _looked(replace(state, message=""), questions, press, now)


def _looked(
    state: State, questions: Sequence[Question], press: Pressed, now: float
) -> tuple[State, Wish | None]:
    match press.key:
        case "q":
            return state, Wish("quit")
        case "r":
            return state, Wish("refresh")
        case "?":
            return replace(state, mode=Mode.HELP), None
        case k.UP | "k":
            return _moved(state, questions, -1), None
        case k.DOWN | "j":
            return _moved(state, questions, 1), None
        case key:
            return _to_question(state, selected(state, questions), key, now)


def _moved(state: State, questions: Sequence[Question], by: int) -> State:
    """The question before or after; what was typed belongs to the one that is left."""
    names = [found.escalation_id for found in questions]
    if not names:
        return state
    place = names.index(state.selected) + by if state.selected in names else 0
    name = names[max(0, min(place, len(names) - 1))]
    return state if name == state.selected else replace(state, selected=name, guidance="", steady_at=0.0)


def _to_question(state: State, question: Question | None, key: str, now: float) -> tuple[State, Wish | None]:
    """An answer to the question that is looked at, or the wish to say more."""
    option = chosen(question, key) if question else None
    if option is None and key != "g":
        return state, None
    if state.why_not:
        return replace(state, message=state.why_not), None
    if question is None:
        return replace(state, message="Nothing waits for an answer."), None
    if now < state.steady_at:
        return replace(state, message="The question has just changed. Look at it, then press again."), None
    if option is None:
        return replace(state, mode=Mode.TYPE, option=""), None
    if option.key == WONTFIX:
        return replace(state, mode=Mode.CONFIRM, option=option.key), None
    wants_text = option.key.startswith(f"{UNLOCK}:") or option.key in (DISMISS, DISMISS_ALL)
    if wants_text and not state.guidance:
        return replace(state, mode=Mode.TYPE, option=option.key), None
    return _answering(state, question, option.key)


def chosen(question: Question, key: str) -> Option | None:
    """The option that a key stands for."""
    place = OPTION_KEYS.find(key) if len(key) == 1 else -1
    return question.options[place] if 0 <= place < len(question.options) else None


def _answering(state: State, question: Question, option: str) -> tuple[State, Wish]:
    wish = Wish("answer", question, option, state.guidance.strip())
    return replace(state, mode=Mode.LOOK, option="", guidance=""), wish


def _confirmed(state: State, questions: Sequence[Question], press: Pressed) -> tuple[State, Wish | None]:
    question = selected(state, questions)
    if press.key == "y" and question is not None:
        return _answering(state, question, state.option)
    return replace(state, mode=Mode.LOOK, option="", message="Left as it is."), None


def _typed(state: State, questions: Sequence[Question], press: Pressed) -> tuple[State, Wish | None]:
    """What typing leads to: more text, an end of it, or the answer that it was typed for."""
    question = selected(state, questions)
    if press.key == k.ENTER and question is not None and state.option:
        return _answering(state, question, state.option)
    if press.key == k.ENTER:
        return replace(state, mode=Mode.LOOK), None
    if press.key == k.ESCAPE:
        return replace(state, mode=Mode.LOOK, option="", guidance="", message="Left as it is."), None
    return replace(state, guidance=_edited(state.guidance, press)), None


def _edited(text: str, press: Pressed) -> str:
    match press.key:
        case k.BACKSPACE:
            return text[:-1]
        case k.ERASE_LINE:
            return ""
        case k.ERASE_WORD:
            return text.rstrip().rpartition(" ")[0]
        case "":
            return f"{text}{line(press.pasted, MAX_GUIDANCE)}"[:MAX_GUIDANCE]
        case key:
            return f"{text}{key}"[:MAX_GUIDANCE] if len(key) == 1 else text
