"""Foreign text: made visible, put on one line, truncated, counted, and split into words."""

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
    """Foreign text on one line, with `instead` for each invisible character."""
    return " ".join(remove_invisible(text, instead).split())


def shorten(text: str, limit: int) -> str:
    """The text, truncated to the limit with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


MAX_LINE = 200


def single_line(text: str, limit: int = MAX_LINE) -> str:
    """Foreign text on one line without invisible characters, truncated."""
    return shorten(flatten(text), limit)


def capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def times_text(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def format_count(number: int, noun: str) -> str:
    """`1 event` or `2 events`, for a noun whose plural ends in s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def word_set(text: str) -> frozenset[str]:
    """The words of a list separated by spaces or newlines."""
    return frozenset(text.split())


def word_list(text: str) -> tuple[str, ...]:
    """The same, in order."""
    return tuple(text.split())


def phrase_set(text: str) -> frozenset[str]:
    """The phrases of a list separated by commas or newlines."""
    return frozenset(
        phrase.strip() for line in text.splitlines() for phrase in line.split(",") if phrase.strip()
    )


def split_words(text: str) -> list[str]:
    """The runs of letters in a text of any script; digits and underscores separate them."""
    import re  # every hook that records a run imports this module and does not need it

    return re.findall(r"[^\W\d_]+", text)


def character_pairs(run: str) -> list[str]:
    """Replaces words in scripts without spaces: each two neighbouring characters."""
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]


def set_similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of common members, from 0 to 1; 0 for two empty sets."""
    return len(one & other) / len(one | other) if one and other else 0.0
