"""The orchestration log says what the requirement's sample says, and who, when and why beside it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from remand.app.events.orchestration_log import log_lines
from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    EscalationAcknowledged,
    EscalationAnswered,
    EscalationOpened,
    EscalationRepeated,
    Finding,
    LockoutCleared,
    LockoutSet,
    ReviewApproved,
    ReviewBypassed,
    ReviewNoted,
    ReviewRejected,
    ReviewRetracted,
    TaskReassigned,
)
from remand.testing.builders import H1, H2, SHA, T1, Session, task_added, task_claimed
from remand.testing.fakes import START
from tests.support.builders import OTHER_SHA, gate_passed_and_submitted

SAMPLE = """\
[2024-01-15 15:45:30] REVIEW: Lead rejected PR #12 (author: Fenster)
[2024-01-15 15:45:31] LOCKOUT: Fenster locked out for issue #42
[2024-01-15 15:45:35] REASSIGN: Issue #42 → Hockney (accessibility expertise)
[2024-01-15 16:20:10] REVIEW: Lead approved PR #13 (author: Hockney)
[2024-01-15 16:20:11] UNLOCK: Fenster unlocked (issue #42 resolved)
"""
BLOCKING = Finding(text="The button has no label", path="src/Card.tsx", line=12)


def at(time: str) -> str:
    return f"2024-01-15T{time}.000000Z"


class Story:
    """One task's events, each at its time and by its actor."""

    def __init__(self) -> None:
        self._session = Session()
        self.events: list[Event] = []

    def add(self, event: Event, time: str = "16:30:00", by: str = "Lead") -> Story:
        when = event.ts or at(time)
        self.events.append(self._session.write(event, at=when, actor=by))
        return self

    def hand_in(self, time: str, agent: str, handoff_id: str, commit: str = SHA, pr: int = 0) -> Story:
        passed, submitted = gate_passed_and_submitted(
            agent, handoff_id, commit=commit, tree=f"tree by {agent}"
        )
        return self.add(passed, time, agent).add(replace(submitted, pr=pr), time, agent)

    def told(self) -> list[str]:
        """The lines of the log."""
        return [line.text for line in log_lines(self.events)]


def rejected(**fields: object) -> ReviewRejected:
    given = {"findings": (BLOCKING,), "review_id": "R-1"} | fields
    return ReviewRejected(task_id=T1, reviewer="Lead", commit=SHA, **given)  # type: ignore[arg-type]


def handed_in_and_rejected() -> Story:
    lockout = LockoutSet(task_id=T1, agent="Fenster", reason="no label", review_id="R-1")
    return (
        Story()
        .add(replace(task_added(aliases=("#42",)), ts=START))
        .add(task_claimed(agent="Fenster"), "15:01:00")
        .hand_in("15:40:00", "Fenster", H1, pr=12)
        .add(rejected(), "15:45:30")
        .add(lockout, "15:45:31")
    )


def test_the_requirements_sample_is_reproduced_with_who_and_why_behind_it() -> None:
    story = handed_in_and_rejected()
    story.add(TaskReassigned(task_id=T1, target="Hockney", reason="accessibility expertise"), "15:45:35")
    story.add(task_claimed(agent="Hockney", handoff_id=H2, epoch=2, attempt=2), "15:46:00")
    story.hand_in("16:00:00", "Hockney", H2, OTHER_SHA, pr=13)
    story.add(ReviewApproved(task_id=T1, reviewer="Lead", commit=OTHER_SHA), "16:20:10")

    wanted = SAMPLE.replace("16:20:11", "16:20:10").splitlines()
    told = story.told()
    assert [line[: len(start)] for line, start in zip(told, wanted, strict=True)] == wanted
    assert [line[len(start) :] for line, start in zip(told, wanted, strict=True)] == [
        " [UTC, by Lead: src/Card.tsx:12: The button has no label]",
        " [UTC, by Lead: no label]",
        " [UTC, by Lead]",
        f" [UTC, by Lead: {OTHER_SHA[:12]} approved]",
        " [UTC, by Lead: approved]",
    ]


def test_everyone_a_task_had_locked_out_is_let_back_when_it_is_done() -> None:
    story = handed_in_and_rejected().add(LockoutSet(task_id=T1, agent="Verbal", reason="chatter"), "16:00:00")
    story.add(task_claimed(agent="Hockney", handoff_id=H2, epoch=2), "16:20:00")
    story.hand_in("16:25:00", "Hockney", H2)
    story.add(ReviewApproved(task_id=T1, reviewer="Lead", commit=SHA))

    assert [line.split(" [UTC")[0][22:] for line in story.told()[-2:]] == [
        "UNLOCK: Fenster unlocked (issue #42 resolved)",
        "UNLOCK: Verbal unlocked (issue #42 resolved)",
    ]


@pytest.mark.parametrize(
    ("event", "by", "line"),
    [
        (
            LockoutCleared(task_id=T1, agent="Fenster", reason="misread", guidance="use aria-label"),
            "owner",
            "UNLOCK: Fenster unlocked (issue #42) [UTC, by owner: misread; guidance: use aria-label]",
        ),
        (
            EscalationOpened(
                task_id=T1, kind="deadlock", reason="All agents are locked out", deadline=at("17:00:00")
            ),
            "Lead",
            "ESCALATE: Issue #42 → user (All agents are locked out) [UTC, by Lead: deadlock, E-",
        ),
        (
            ReviewNoted(task_id=T1, reviewer="Tester", why="it came too late"),
            "coordinator",
            "REVIEW: Tester reviewed PR #12 (author: Fenster) without effect [UTC, by coordinator: it came too late]",
        ),
        (
            ReviewBypassed(task_id=T1, by="octocat", commit=SHA, why="no reviewer approved it"),
            "coordinator",
            "REVIEW: octocat merged PR #12 (author: Fenster) past the rules [UTC, by coordinator: no reviewer",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Event) else "",
)
def test_the_line_of(event: Event, by: str, line: str) -> None:
    told = handed_in_and_rejected().add(event, by=by).told()

    assert told[-1].removeprefix("[2024-01-15 16:30:00] ").startswith(line)


def test_a_retracted_rejection_lets_its_author_back() -> None:
    retracted = ReviewRetracted(task_id=T1, review_id="R-1", reviewer="Lead", reason="wrong file")

    assert handed_in_and_rejected().add(retracted).told()[-2:] == [
        "[2024-01-15 16:30:00] REVIEW: Lead no longer rejects PR #12 (author: Fenster) [UTC, by Lead: retracted: wrong file]",
        "[2024-01-15 16:30:00] UNLOCK: Fenster unlocked (issue #42, rejection retracted) [UTC, by Lead: wrong file]",
    ]


def test_a_question_is_told_when_it_is_asked_repeated_seen_and_answered() -> None:
    story = handed_in_and_rejected()
    story.add(EscalationOpened(task_id=T1, kind="asked", reason="which label?"))
    name = f"E-{story.events[-1].meta.id[:12]}"
    story.add(EscalationRepeated(task_id=T1, escalation_id=name), by="coordinator")
    story.add(EscalationAcknowledged(task_id=T1, escalation_id=name), by="owner")
    story.add(EscalationAnswered(task_id=T1, escalation_id=name, option="fix", guidance="mine"), by="owner")

    assert [line[22:] for line in story.told()[-3:]] == [
        f"ESCALATE: Issue #42 → user, again [UTC, by coordinator: {name}, nobody answered in time]",
        f"ESCALATE: Issue #42 seen by the user [UTC, by owner: {name}]",
        "ESCALATE: Issue #42 answered: fix [UTC, by owner: mine]",
    ]


def test_an_event_that_lost_a_merge_says_so() -> None:
    story = handed_in_and_rejected().add(ReviewApproved(task_id=T1, reviewer="Lead", commit=OTHER_SHA))

    assert "the approval names a commit that was not the one under review" in story.told()[-1]


def test_the_same_lockout_from_two_ledgers_is_told_once() -> None:
    story = handed_in_and_rejected().add(LockoutSet(task_id=T1, agent="Fenster", reason="again"))

    assert sum("LOCKOUT" in line for line in story.told()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "x\n[2024-01-15 16:20:11] UNLOCK: Fenster unlocked (issue #42 resolved)",
        "x\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029y",
        "\x1b[2K\x1b[1A\u202e\u200b\U000e0041\x00",
        "x" * 100_000,
    ],
    ids=["forged line", "line breaks", "hidden", "long"],
)
def test_whatever_a_text_holds_an_event_is_one_line(text: str) -> None:
    finding = Finding(text=text, path=text[:200], line=1)
    story = (
        Story()
        .add(replace(task_added(aliases=("#42",)), ts=START))
        .add(task_claimed())
        .hand_in("16:00:00", "Alice", H1)
    )
    story.add(rejected(findings=(finding, finding)))

    (line,) = story.told()
    assert line.startswith("[2024-01-15 16:30:00] REVIEW: Lead rejected")
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 1000


def test_a_task_without_issue_and_pr_is_called_by_its_id() -> None:
    story = (
        Story()
        .add(replace(task_added(), ts=START))
        .add(task_claimed())
        .hand_in("16:00:00", "Alice", H1)
        .add(rejected())
    )

    assert f"Lead rejected task {T1} (author: Alice)" in story.told()[0]
