"""What Remand leaves on a forge, put into words that fit there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from remand.domain.pulls.shapes import Comment

CONTEXT = "remand"
ASKED = "Changes are asked for."


def whole(text: str, comments: Iterable[Comment]) -> str:
    """A review's text with the comments that have no place of their own."""
    parts = (text, *(told(comment) for comment in comments))
    return "\n\n".join(part for part in parts if part) or ASKED


def told(comment: Comment) -> str:
    """A comment with its place in front."""
    line = f":{comment.line}" if comment.line else ""
    return f"`{comment.path}{line}`: {comment.text}" if comment.path else comment.text


def is_placed(comment: Comment) -> bool:
    """True when a comment is about a line."""
    return bool(comment.path) and comment.line > 0


def cut(text: str, most: int) -> str:
    """A text that is at most so long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def without_sign(title: str, sign: re.Pattern[str]) -> str:
    """A title without the signs that it begins with, however many."""
    while (found := sign.match(title)) is not None:
        title = title[found.end() :]
    return title
