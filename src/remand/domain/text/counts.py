"""Counts in messages: a number with its noun in the singular or the plural."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """`1 event` or `2 events`, for a noun whose plural ends in s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
