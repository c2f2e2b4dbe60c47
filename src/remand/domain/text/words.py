"""Words: counted in messages, listed, and split from a text."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """`1 event` or `2 events`, for a noun whose plural ends in s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def word_set(text: str) -> frozenset[str]:
    """The words of a list that are separated by spaces or lines."""
    return frozenset(text.split())


def phrase_set(text: str) -> frozenset[str]:
    """The phrases of a list that are separated by commas or lines."""
    return frozenset(
        phrase.strip() for line in text.splitlines() for phrase in line.split(",") if phrase.strip()
    )
