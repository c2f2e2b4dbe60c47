"""Hundreds of hostile comments: what they hide is gone, what they show is text, and none of them commands."""

from remand.domain.events.reviews import Finding
from remand.domain.feedback.comments import parse_comment_commands
from remand.domain.feedback.rounds import (
    FeedbackFinding,
    FeedbackRound,
    RoundReview,
    TaskFeedback,
    render_section,
)
from remand.domain.feedback.sanitiser import MAX_COMMENT, sanitise
from remand.testing.builders import SHA, a_task
from tests.corpus.comments import MARKER, SEEN, hostile_comments
from tests.unit.domain.feedback.section_reader import headings, read

COMMENTS = list(hostile_comments())
FRAME = [
    "## Review Feedback (rejection #1)",
    "### From GitHub PR review (2026-02-06T16:30:00Z)",
    "### What you may do",
]


UNSEEN = {"\x1b", "\x9b", "\u202e", "\u200b", "\r", "\u2028", "\u00ad"}


def shown(text: str) -> str:
    findings = [Finding(text=text, path="a.py", line=3), Finding(text="Honest.", path="b.py", line=4)]
    review = RoundReview(
        reviewer="Lead",
        at="2026-02-06T16:30:00.000000Z",
        source="github:1@c",
        remarks=tuple(FeedbackFinding(finding=finding) for finding in findings),
    )
    one = FeedbackRound(number=1, commit=SHA, agent="Alice", reviews=(review,))
    return render_section(a_task(), TaskFeedback(rounds=(one,)))


def places(text: str) -> list[str]:
    return [finding.place for source in read(text)[1] for finding in source.findings]


def test_there_are_enough_of_them() -> None:
    assert len({comment.text for comment in COMMENTS}) >= 200


def test_what_is_hidden_is_gone_and_what_is_seen_stays() -> None:
    hiding = [(comment.name, sanitise(comment.text)) for comment in COMMENTS if comment.is_hidden]

    assert [name for name, clean in hiding if MARKER in clean.text.lower()] == []
    assert [name for name, clean in hiding if SEEN.rstrip(".") not in clean.text] == []
    assert [name for name, clean in hiding if not clean.removed] == []


def test_the_structure_stays_as_it_is() -> None:
    frames = {comment.name: shown(sanitise(comment.text).text) for comment in COMMENTS}

    assert [name for name, text in frames.items() if headings(text) != FRAME] == []
    assert [name for name, text in frames.items() if places(text) != ["a.py:3", "b.py:4"]] == []
    assert [name for name, text in frames.items() if UNSEEN & set(text) or "<|" in text] == []


def test_every_comment_has_its_size() -> None:
    long = [comment.name for comment in COMMENTS if len(sanitise(comment.text).text.encode()) > MAX_COMMENT]

    assert long == []


def test_only_a_plain_line_commands() -> None:
    wrong = [
        comment.name
        for comment in COMMENTS
        if bool(parse_comment_commands(comment.text)) != comment.may_command
    ]

    assert wrong == []
