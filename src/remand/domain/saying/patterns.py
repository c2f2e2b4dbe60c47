"""Makes the table of sentences ready to be compared."""

from __future__ import annotations

import re
from functools import cached_property

from remand.domain.saying import table as t
from remand.domain.saying import wishes as w
from remand.domain.saying.words import TURNING

READING = (w.WhyWish, w.StatusWish, w.LockoutsWish, w.InboxWish)
"""Wishes that only look, and so are asked as questions."""

_SLOTS = {
    "{task}": r"(?:the |this |my |our )?(?P<task>#\d+) ",
    "{anyone}": r"@\d+ ",
    "{i}": r"(?P<agent>i) ",
    "{option}": r"(?P<option>fix|reopen|wontfix) ",
    "{person}": r"(?:he|she|they|it|@\d+) ",
}
_ELEMENT = re.compile(r"\[|\]|[^\s\[\]]+")
_CAPITALS = re.compile(r"[A-Z_]{2,}")
_EVERY_PATTERN: tuple[tuple[type[w.Wish], tuple[str, ...], bool], ...] = (
    (w.UnlockWish, t.UNLOCK, False),
    (w.UnlockWish, t.UNLOCK_PERHAPS, True),
    (w.ReviewWish, t.REVIEW, False),
    (w.ReviewWish, t.REVIEW_PERHAPS, True),
    (w.WhyWish, t.WHY, False),
    (w.ReassignWish, t.REASSIGN, False),
    (w.ReassignWish, t.REASSIGN_PERHAPS, True),
    (w.EscalateWish, t.ESCALATE, False),
    (w.StatusWish, t.STATUS, False),
    (w.LockoutsWish, t.LOCKOUTS, False),
    (w.InboxWish, t.INBOX, False),
    (w.AnswerWish, t.ANSWER, False),
)
_SLOT = re.compile(r"\{.*?\}")
_WORD = re.compile(r"[a-z][a-z'-]*")
_ROWS = (t.POLITE, t.THANKS, t.BECAUSE, *t.GUIDING, *t.SHORT.values())
WORDS = frozenset(
    word
    for row in (*_ROWS, *(row for _, rows, _ in _EVERY_PATTERN for row in rows))
    for word in _WORD.findall(_SLOT.sub("", row))
)
"""Every word that the table has."""


class Pattern:
    """One row of the table, made ready to be compared when it first is."""

    def __init__(self, wish: type[w.Wish], row: str, *, is_loose: bool) -> None:
        self.wish = wish
        self.row = row
        self.is_loose = is_loose

    @cached_property
    def whole(self) -> re.Pattern[str]:
        """A whole sentence, with what is polite around it. A name may be a word nobody has."""
        polite, thanks = compiled(t.POLITE), compiled(t.THANKS)
        return re.compile(f"{polite}{compiled(self.row)}{thanks}(?:[.?] )*")

    @cached_property
    def part(self) -> re.Pattern[str]:
        """The same anywhere in a sentence, with known names alone."""
        return re.compile(rf"(?<!\S){compiled(self.row, is_strict=True)}")


def compiled(row: str, *, is_strict: bool = False) -> str:
    """A row as a regular expression over the shapes of a sentence."""
    parts = []
    for element in _ELEMENT.findall(_CAPITALS.sub(lambda short: t.SHORT[short.group()], row)):
        if element in "[]":
            parts.append("(?:" if element == "[" else ")?")
        elif element in _SLOTS:
            parts.append(_SLOTS[element])
        elif element.startswith("{"):
            kinds = "@" if is_strict else "[@~]"
            parts.append(rf"(?:the )?(?:agent )?(?P<{element[1:-1]}>{kinds}\d+|me|myself) ")
        else:
            words = (re.escape(word).replace("_", " ") for word in element.split("|"))
            parts.append(f"(?:{'|'.join(words)}) ")
    return "".join(parts)


ORDINARY = WORDS | TURNING | {"agent", "fix", "reopen", "wontfix"}
"""Words that mean something here; any other may be the name of somebody unknown, which a sentence has as `~`."""
PATTERNS = tuple(
    Pattern(wish, row, is_loose=is_loose) for wish, rows, is_loose in _EVERY_PATTERN for row in rows
)
