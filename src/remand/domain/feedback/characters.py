"""Text down to characters that can be seen: no control, format or filler characters, no terminal commands."""

from __future__ import annotations

import re
from unicodedata import category, combining, normalize

MAX_MARKS = 8
"""How many marks may stand on one letter; no script needs more, and sorting very many takes for ever."""

_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
_BREAKS = re.compile("\r\n?|[\x85\u2028\u2029]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co"})
_FILLERS = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x2800, 0x3164, 0xFFA0, *range(0xFFF0, 0xFFF9)}
)
_SELECTORS = frozenset({*range(0x180B, 0x1810), *range(0xFE00, 0xFE10)})
_TAGS = range(0xE0000, 0xE1000)


class _Shown(dict[int, int | None]):
    """What becomes of each character: itself, a plain space, or nothing; looked up once."""

    def __missing__(self, code: int) -> int | None:
        kind = category(chr(code))
        shown: int | None = code
        if code in _FILLERS or code in _SELECTORS or code in _TAGS or kind in _HIDDEN:
            shown = None
        elif kind == "Zs":
            shown = 0x20
        self[code] = shown
        return shown


_SHOWN = _Shown({0x09: 0x09, 0x0A: 0x0A})


def seen(text: str) -> str:
    """The text as NFC, with only what can be seen of it; every line break is a plain one."""
    if text.isascii() and "\x1b" not in text and "\r" not in text:
        is_plain = text.replace("\n", "").replace("\t", "").isprintable()
        return text if is_plain else text.translate(_SHOWN)
    text = _BREAKS.sub("\n", _TERMINAL.sub("", text)).translate(_SHOWN)
    return text if text.isascii() else normalize("NFC", _thinned(text))


def _thinned(text: str) -> str:
    """The text without the marks that pile up on one letter."""
    kept: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if char > "\u02ff" and (combining(char) or category(char) == "Me") else 0
        if marks <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)
