"""Hostile comments come through a forge: at most the one rejection, and a prompt of the same structure, come of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from remand.app.prompts import RejectionContext, render_prompt
from remand.domain.events.reviews import ReviewRejected
from remand.domain.forge import Account, ForgeComment, ReviewState
from tests.corpus.comments import MARKER, Hostile, hostile_comments
from tests.support.forge_fakes import a_review
from tests.unit.app.forge.review_setup import LEAD, PR, STRANGER, Forged, a_remark
from tests.unit.domain.feedback.section_reader import headings, read

PLACES = ("body", "line", "discussion")
AUTHORS = ("member", "stranger", "own account")
HONEST = Hostile("honest", "Nothing of the kind.", is_hidden=False)
FINDING = ForgeComment(id="2", text="BLOCKING: Honest.", author=LEAD, path="b.py", line=4)


class Case(NamedTuple):
    """A comment, where it stands and whose it is."""

    comment: Hostile
    place: str
    author: str


class Came(NamedTuple):
    """What came of it."""

    events: list[str]
    obeyed: bool
    prompt: str


def came_of(case: Case) -> Came:
    """Puts a comment on a forge beside an honest review, and polls."""
    forged = Forged()
    account = STRANGER if case.author == "stranger" else LEAD
    opened_by = LEAD if case.author == "own account" else None
    forged.forge.writers.add(STRANGER.id)
    before = len(forged.events())
    forged.forge.put(PR, forged.head, author=opened_by)
    forged.forge.change(PR, **said(case, account, forged.head, is_own=opened_by is not None))
    forged.poll()
    events = forged.events()
    return Came(
        [event.name for event in events[before:]],
        bool(forged.obeyed),
        render_prompt(forged.task, events, RejectionContext()),
    )


def said(case: Case, account: Account, head: str, *, is_own: bool) -> dict[str, object]:
    """The review or the remark that a comment is part of."""
    text = case.comment.text
    if case.place == "discussion":
        return {"remarks": (a_remark(account, text),)}
    found = ForgeComment(id="3", text=text, author=account, path="a.py", line=3)
    comments = (FINDING, found) if case.place == "line" else (FINDING,)
    own = tuple(
        ForgeComment(id=one.id, text=one.text, author=account, path=one.path, line=one.line)
        for one in comments
    )
    state = ReviewState.COMMENTED if is_own else ReviewState.CHANGES_REQUESTED
    body = text if case.place == "body" else "See below."
    return {"reviews": (a_review(account, head, state, text=body, comments=own),)}


def cases(count: int) -> Iterator[Case]:
    """Every comment, in turn at every place and by everyone, or each of them everywhere."""
    everywhere = list(product(PLACES, AUTHORS))
    for number, comment in enumerate(hostile_comments()):
        for step in range(count):
            yield Case(comment, *everywhere[(number + step) % len(everywhere)])


def test_a_hostile_comment_leads_to_what_an_honest_one_does(campaign: Callable[[int, int], int]) -> None:
    honest = {
        (place, author): came_of(Case(HONEST, place, author)) for place, author in product(PLACES, AUTHORS)
    }
    wrong: list[tuple[str, str, str, str]] = []
    for case in cases(campaign(1, len(honest))):
        came, expected = came_of(case), honest[case.place, case.author]
        may_command = case.comment.may_command and (case.place, case.author) == ("discussion", "member")
        checks = {
            "events": came.events == expected.events,
            "obeyed": came.obeyed == may_command,
            "headings": headings(came.prompt) == headings(expected.prompt),
            "hidden": not (case.comment.is_hidden and MARKER in came.prompt.lower()),
            "findings": places(came) == places(expected) or case.place == "body",
        }
        wrong += [
            (case.comment.name, case.place, case.author, name) for name, holds in checks.items() if not holds
        ]

    assert wrong == []
    assert honest["body", "member"].events.count(ReviewRejected.__struct_config__.tag) == 1
    assert not any(came.events for (_, author), came in honest.items() if author == "stranger")


def places(came: Came) -> list[str]:
    if not came.prompt.startswith("## Review Feedback"):
        return []
    return [finding.place for source in read(came.prompt)[1] for finding in source.findings]
