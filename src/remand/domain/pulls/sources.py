"""What a review on a forge is known by in the ledger, so that it is taken in once."""

from __future__ import annotations

from remand.domain.pulls.shapes import Review
from remand.domain.task import Task

AGAIN = "?"
"""Ends what a review is known by that is kept and judged again."""


def review_source(kind: str, review: Review) -> str:
    """Where a review was given, with the commit that it is bound to."""
    return f"{kind}:{review.id}@{review.commit}"


def source_for_now(kind: str, review: Review) -> str:
    """What a review is known by while it does not count and may count later."""
    return f"{kind}:{review.id}{AGAIN}"


def review_of(source: str) -> str:
    """The forge and the id of a review, whichever commit it was bound to and whether it may count later."""
    return source.partition("@")[0].removesuffix(AGAIN)


def is_known(task: Task, kind: str, review: Review) -> bool:
    """True when the review was taken in before, whatever it says and whatever commit the forge binds it to now."""
    own = f"{kind}:{review.id}"
    return any(source.partition("@")[0] == own for source in task.sources)
