"""How GitHub's words become ours, whichever of its two APIs they come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.forges.ports import ForgeFault, Trouble
from remand.domain.instant import Instant, parse
from remand.domain.pulls.shapes import Account, Comment, PullState, Review, ReviewState

KIND = "github:"
BOT = "[bot]"


class Said(NamedTuple):
    """A line comment, and the review it belongs to; empty when it belongs to none."""

    comment: Comment
    review: str


def account(id: int | None, login: str, *, is_bot: bool) -> Account:  # noqa: A002 - what it is called there
    """An account; without an id it is nobody who could be authorised."""
    name = login if not is_bot or login.endswith(BOT) else login + BOT
    return Account(id=f"{KIND}{id}" if id is not None else "", login=f"{KIND}{name}", is_bot=is_bot)


def at(text: str | None) -> Instant:
    """A time as told; empty when none is, or it is none."""
    return (parse(text) or "") if text else ""


def line_of(subject: str, line: int | None, original_line: int | None) -> int:
    """The line a comment is about, or was when it is gone; 0 for a comment on the file."""
    return 0 if subject.lower() == "file" else line or original_line or 0


def review_state(text: str) -> ReviewState:
    """What a review says, in upper or lower case; what GitHub may say one day is a comment."""
    try:
        return ReviewState(text.lower())
    except ValueError:
        return ReviewState.COMMENTED


def pull_state(text: str, *, is_merged: bool) -> PullState:
    """Where a pull request is."""
    if is_merged:
        return PullState.MERGED
    try:
        return PullState(text.lower())
    except ValueError:
        raise ForgeFault(Trouble.GARBLED, "GitHub tells an unknown state of a pull request.") from None


def with_comments(reviews: Iterable[Review], said: Iterable[Said]) -> tuple[Review, ...]:
    """Reviews that were submitted, each with its own line comments."""
    own: dict[str, list[Comment]] = defaultdict(list)
    for one in said:
        own[one.review].append(one.comment)
    return tuple(
        replace(review, comments=tuple(own[review.id]))
        for review in reviews
        if review.state is not ReviewState.PENDING
    )


def without_review(said: Iterable[Said]) -> tuple[Comment, ...]:
    """Line comments that belong to no review."""
    return tuple(one.comment for one in said if not one.review)
