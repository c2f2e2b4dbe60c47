"""Keys: what a terminal sends, taken apart into what was pressed, and what was pasted."""

from __future__ import annotations

import codecs
from typing import NamedTuple

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


class Pressed(NamedTuple):
    """A key by its name, or the character it stands for; or a text that was pasted."""

    key: str = ""
    pasted: str = ""


class Keyboard:
    """Takes what a terminal sends apart, however it is cut into pieces."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""

    @property
    def is_waiting(self) -> bool:
        """True in the middle of something: an escape key, or the beginning of a sequence."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[Pressed]:
        """What was pressed, as far as it is all there."""
        self._pending += self._decode(data)
        found: list[Pressed] = []
        while self._pending:
            pressed, length = self._first()
            if not length:
                break
            self._pending = self._pending[length:]
            if pressed is not None:
                found.append(pressed)
        if len(self._pending) > MAX_PENDING:
            # Of a paste without end the beginning is dropped, and its end waited for: nothing of it is a key.
            self._pending = _PASTE + self._pending[-len(_PASTED) :]
        return found

    def rest(self) -> list[Pressed]:
        """What is left once nothing more has come for a moment: an escape key. A paste goes on being waited for."""
        if not self._pending or self._pending.startswith(_PASTE):
            return []
        is_escape, self._pending = self._pending == _ESC, ""
        return [Pressed(ESCAPE)] if is_escape else []

    def _first(self) -> tuple[Pressed | None, int]:
        """The first thing that was pressed, and how many characters it took; 0 when it is not all there."""
        text = self._pending
        if text[0] != _ESC:
            named = _NAMED.get(text[0], text[0] if text[0].isprintable() else "")
            return (Pressed(named) if named else None), 1
        if _PASTE.startswith(text[: len(_PASTE)]) and len(text) > 2:
            return _pasted(text)
        return _sequence(text)


def _pasted(text: str) -> tuple[Pressed | None, int]:
    if not text.startswith(_PASTE):
        return None, 0
    end = text.find(_PASTED)
    return (Pressed(pasted=text[len(_PASTE) : end]), end + len(_PASTED)) if end >= 0 else (None, 0)


def _sequence(text: str) -> tuple[Pressed | None, int]:
    """A control sequence: the arrows of both kinds are known, every other is passed over whole."""
    if len(text) == 1:
        return None, 0
    if text[1] == "O":
        return (None, 0) if len(text) < 3 else (_named(text[2]), 3)
    if text[1] != "[":
        return None, 2
    for number, char in enumerate(text[2:], 3):
        if "@" <= char <= "~":
            return _named(char) if number == 3 else None, number
        if char == _ESC:
            return None, number - 1
    return None, 0


def _named(final: str) -> Pressed | None:
    name = _SEQUENCES.get(final)
    return Pressed(name) if name else None
