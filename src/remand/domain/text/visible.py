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
