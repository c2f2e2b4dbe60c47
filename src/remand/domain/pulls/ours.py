"""How what was left on a forge is known again when it is read there."""

from __future__ import annotations

import re

from remand.domain.pulls.shapes import Review
from remand.domain.task import Task

LEFT = "Left here by remand"
"""Begins a line of everything that is left, so that it is not taken for somebody's word."""
_LEFT = re.compile(rf"^{LEFT}(?:: (\S+))?\.[ \t\r]*$", re.MULTILINE)


def is_left(text: str) -> bool:
    """True when a text says of itself that it was left by us. Nothing in it is obeyed."""
    return _LEFT.search(text) is not None


def names_left(text: str) -> list[str]:
    """The rejections of which a text says that we left them."""
    return [name for name in _LEFT.findall(text) if name]


def is_ours(review: Review, task: Task) -> bool:
    """True when everything in a review was left by us, of rejections that the task knows."""
    known = {given.id for one in task.rounds for given in one.reviews}
    texts = [text for text in (review.text, *(comment.text for comment in review.comments)) if text.strip()]
    return bool(texts) and all(known & set(names_left(text)) for text in texts)
