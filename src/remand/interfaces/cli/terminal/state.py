"""The state of the live view: pressed keys, the selected question, typed text, and the effect of a key. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.inbox.questions import Question
from remand.domain.decisions.escalations import UNLOCK, WONTFIX, EscalationOption
from remand.domain.decisions.objections import DISMISS, DISMISS_ALL
from remand.domain.record import Record
from remand.domain.text.words import single_line

UP, DOWN, ENTER, BACKSPACE, ESCAPE = "up", "down", "enter", "backspace", "escape"
ERASE_LINE, ERASE_WORD = "erase line", "erase word"

_ESC = "\x1b"
_PASTE, _PASTED = f"{_ESC}[200~", f"{_ESC}[201~"
_NAMED = {
    "\r": ENTER,
    "\n": ENTER,
    "\x7f": BACKSPACE,
    "\x08": BACKSPACE,
    "\x15": ERASE_LINE,
    "\x17": ERASE_WORD,
}
_SEQUENCES = {"A": UP, "B": DOWN}
MAX_PENDING = 64 << 10


class KeyPress(NamedTuple):
    """A key by its name or character, or a pasted text."""

    key: str = ""
    pasted: str = ""


class Keyboard:
    """Parses terminal input, however it is split."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""

    @property
    def is_waiting(self) -> bool:
        """True inside a sequence: after an escape key, or the beginning of one."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[KeyPress]:
        """The key presses that are complete."""
        self._pending += self._decode(data)
        press: list[KeyPress] = []
        while self._pending:
            pressed, length = self._first()
            if not length:
                break
            self._pending = self._pending[length:]
            if pressed is not None:
                press.append(pressed)
        if len(self._pending) > MAX_PENDING:
            # Of a paste without end the beginning is dropped, and its end waited for: nothing of it is a key.
            self._pending = _PASTE + self._pending[-len(_PASTED) :]
        return press

    def rest(self) -> list[KeyPress]:
        """The key presses that remain after a pause without input: an escape key. An unfinished paste is kept."""
        if not self._pending or self._pending.startswith(_PASTE):
            return []
        is_escape, self._pending = self._pending == _ESC, ""
        return [KeyPress(ESCAPE)] if is_escape else []

    def _first(self) -> tuple[KeyPress | None, int]:
        """The first key press, and the number of its characters; 0 if it is incomplete."""
        text = self._pending
        if text[0] != _ESC:
            named = _NAMED.get(text[0], text[0] if text[0].isprintable() else "")
            return (KeyPress(named) if named else None), 1
        if _PASTE.startswith(text[: len(_PASTE)]) and len(text) > 2:
            return _read_paste(text)
        return _read_sequence(text)


def _read_paste(text: str) -> tuple[KeyPress | None, int]:
    if not text.startswith(_PASTE):
        return None, 0
    end = text.find(_PASTED)
    return (KeyPress(pasted=text[len(_PASTE) : end]), end + len(_PASTED)) if end >= 0 else (None, 0)


def _read_sequence(text: str) -> tuple[KeyPress | None, int]:
    """A control sequence: both kinds of arrow keys are known, all others are skipped."""
    if len(text) == 1:
        return None, 0
    if text[1] == "O":
        return (None, 0) if len(text) < 3 else (_arrow_key(text[2]), 3)
    if text[1] != "[":
        return None, 2
    for number, char in enumerate(text[2:], 3):
        if "@" <= char <= "~":
            return _arrow_key(char) if number == 3 else None, number
        if char == _ESC:
            return None, number - 1
    return None, 0


def _arrow_key(final: str) -> KeyPress | None:
    name = _SEQUENCES.get(final)
    return KeyPress(name) if name else None


OPTION_KEYS = "123456789abcdefhilmnopstuvwxyz"
"""One key for each option of a question, in order; without letters that have another meaning."""
STEADY_SECONDS = 1.0
"""How long answers are ignored after the question has changed by itself: they were meant for another."""
MAX_GUIDANCE = 4000


class ViewMode(StrEnum):
    LOOK = "look"
    HELP = "help"
    CONFIRM = "confirm"
    TYPE = "type"


class ViewRequest(NamedTuple):
    """What a key asks for outside the view: `quit`, `refresh`, or `answer` a question."""

    kind: str
    question: Question | None = None
    option: str = ""
    guidance: str = ""


class ViewState(Record, kw_only=True):
    selected: str = ""
    """The question's id."""
    mode: ViewMode = ViewMode.LOOK
    option: str = ""
    """The answer that is being confirmed, or for which guidance is typed; empty if none is chosen."""
    guidance: str = ""
    """The guidance typed for the selected question."""
    message: str = ""
    """The result of the last key."""
    steady_at: float = 0.0
    """From when on answers are accepted."""
    why_not: str = ""
    """Why this view cannot answer; empty if it can."""


def selected_question(state: ViewState, questions: Sequence[Question]) -> Question | None:
    return next((question for question in questions if question.escalation_id == state.selected), None)


def initial_state(questions: Sequence[Question], *, why_not: str = "") -> ViewState:
    """The initial state: the oldest question is selected."""
    first = questions[0].escalation_id if questions else ""
    return ViewState(selected=first, why_not=why_not, message=why_not)


def update_questions(
    state: ViewState, before: Sequence[Question], after: Sequence[Question], now: float
) -> ViewState:
    """The state after the questions have changed: the selection stays while its question exists.

    If the question is gone, or its options have changed, keys are ignored for a moment.
    """
    was, still = selected_question(state, before), selected_question(state, after)
    if still is not None:
        is_same = was is None or was.options == still.options
        return state if is_same else _interrupt(state, now, "The options have changed.")
    places = [question.escalation_id for question in before]
    place = places.index(state.selected) if state.selected in places else 0
    new = after[min(place, len(after) - 1)].escalation_id if after else ""
    moved = replace(state, selected=new, guidance="")
    return (
        moved
        if new == state.selected
        else _interrupt(moved, now, "That question was already settled." * bool(was))
    )


def _interrupt(state: ViewState, now: float, why: str) -> ViewState:
    """The state after the selected question has changed by itself: an unfinished answer is dropped."""
    is_busy = state.mode in (ViewMode.CONFIRM, ViewMode.TYPE)
    message = why if is_busy else state.message or why
    mode = ViewMode.LOOK if is_busy else state.mode
    return replace(state, mode=mode, option="", message=message, steady_at=now + STEADY_SECONDS)


def handle_key(
    state: ViewState, questions: Sequence[Question], press: KeyPress, now: float
) -> tuple[ViewState, ViewRequest | None]:
    """The effect of a key: the new state, and a request."""
    match state.mode:
        case ViewMode.TYPE:
            return _handle_typed_key(state, questions, press)
        case ViewMode.CONFIRM:
            return _handle_confirm_key(state, questions, press)
        case ViewMode.HELP:
            return replace(state, mode=ViewMode.LOOK), None
        case ViewMode.LOOK:
            return _handle_look_key(replace(state, message=""), questions, press, now)


def _handle_look_key(
    state: ViewState, questions: Sequence[Question], press: KeyPress, now: float
) -> tuple[ViewState, ViewRequest | None]:
    match press.key:
        case "q":
            return state, ViewRequest("quit")
        case "r":
            return state, ViewRequest("refresh")
        case "?":
            return replace(state, mode=ViewMode.HELP), None
        case key if key in (UP, "k"):
            return _move_selection(state, questions, -1), None
        case key if key in (DOWN, "j"):
            return _move_selection(state, questions, 1), None
        case key:
            return _handle_answer_key(state, selected_question(state, questions), key, now)


def _move_selection(state: ViewState, questions: Sequence[Question], by: int) -> ViewState:
    """Selects the previous or next question; typed text belongs to the one that is left."""
    names = [question.escalation_id for question in questions]
    if not names:
        return state
    place = names.index(state.selected) + by if state.selected in names else 0
    name = names[max(0, min(place, len(names) - 1))]
    return state if name == state.selected else replace(state, selected=name, guidance="", steady_at=0.0)


def _handle_answer_key(
    state: ViewState, question: Question | None, key: str, now: float
) -> tuple[ViewState, ViewRequest | None]:
    """An answer to the selected question, or the start of typing guidance."""
    option = option_of_key(question, key) if question else None
    if option is None and key != "g":
        return state, None
    if state.why_not:
        return replace(state, message=state.why_not), None
    if question is None:
        return replace(state, message="There is no open question."), None
    if now < state.steady_at:
        return replace(
            state, message="The question has just changed. Read it, then press the key again."
        ), None
    if option is None:
        return replace(state, mode=ViewMode.TYPE, option=""), None
    if option.key == WONTFIX:
        return replace(state, mode=ViewMode.CONFIRM, option=option.key), None
    wants_text = option.key.startswith(f"{UNLOCK}:") or option.key in (DISMISS, DISMISS_ALL)
    if wants_text and not state.guidance:
        return replace(state, mode=ViewMode.TYPE, option=option.key), None
    return _request_answer(state, question, option.key)


def option_of_key(question: Question, key: str) -> EscalationOption | None:
    place = OPTION_KEYS.find(key) if len(key) == 1 else -1
    return question.options[place] if 0 <= place < len(question.options) else None


def _request_answer(state: ViewState, question: Question, option: str) -> tuple[ViewState, ViewRequest]:
    request = ViewRequest("answer", question, option, state.guidance.strip())
    return replace(state, mode=ViewMode.LOOK, option="", guidance=""), request


def _handle_confirm_key(
    state: ViewState, questions: Sequence[Question], press: KeyPress
) -> tuple[ViewState, ViewRequest | None]:
    question = selected_question(state, questions)
    if press.key == "y" and question is not None:
        return _request_answer(state, question, state.option)
    return replace(state, mode=ViewMode.LOOK, option="", message="Nothing changed."), None


def _handle_typed_key(
    state: ViewState, questions: Sequence[Question], press: KeyPress
) -> tuple[ViewState, ViewRequest | None]:
    """The effect of typing: more text, its end, or the answer for which it was typed."""
    question = selected_question(state, questions)
    if press.key == ENTER and question is not None and state.option:
        return _request_answer(state, question, state.option)
    if press.key == ENTER:
        return replace(state, mode=ViewMode.LOOK), None
    if press.key == ESCAPE:
        return replace(state, mode=ViewMode.LOOK, option="", guidance="", message="Nothing changed."), None
    return replace(state, guidance=_edit_text(state.guidance, press)), None


def _edit_text(text: str, press: KeyPress) -> str:
    match press.key:
        case key if key == BACKSPACE:
            return text[:-1]
        case key if key == ERASE_LINE:
            return ""
        case key if key == ERASE_WORD:
            return text.rstrip().rpartition(" ")[0]
        case "":
            return f"{text}{single_line(press.pasted, MAX_GUIDANCE)}"[:MAX_GUIDANCE]
        case key:
            return f"{text}{key}"[:MAX_GUIDANCE] if len(key) == 1 else text
