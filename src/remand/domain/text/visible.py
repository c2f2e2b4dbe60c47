"""Text without what a terminal could take for a command, or an eye for other text."""

from __future__ import annotations

import unicodedata

_KEPT = "\n\t"
_HIDDEN = ("Cc", "Cf", "Cs", "Co")


def remove_invisible(text: str, instead: str = "") -> str:
    """The text without control and invisible characters; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in _KEPT or unicodedata.category(char) not in _HIDDEN else instead for char in text
    )


def flatten(text: str, instead: str = "") -> str:
    """Text of others on one line, with `instead` for each character that is invisible."""
    return " ".join(remove_invisible(text, instead).split())


def shorten(text: str, limit: int) -> str:
    """The text, or as much of it as there is room for, with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
