"""What is told of what happens in the story: the three kinds of no stand out, and what says nothing is left out."""

from __future__ import annotations

import pytest

from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened, FeedbackFetched, Finding, ReviewApproved
from remand.domain.events.tasks import LeaseRenewed, TaskCancelled, TaskSettled, TaskSubmitted
from remand.domain.events.work import GateHeld, GateRejected, Purpose, RunEnded, RunStarted
from remand.domain.gate.state import update_gates
from remand.domain.task import Status, update_task
from remand.interfaces.demo.environment import DemoLine, Narrator, ObservedEvent
from remand.testing.builders import (
    H1,
    LATER,
    T1,
    a_task,
    invalid_rejection_filed,
    rejection_answered,
    rejection_filed,
    task_claimed,
)
from tests.support.builders import a_result, a_verdict, review_rejected

RUN = "RUN-20261115-090000-00000001"
TITLE = "Mend the roof"


def told(event: Event, log: str = "", status: Status = Status.CLAIMED) -> list[DemoLine]:
    return list(Narrator(lambda _: log).lines(ObservedEvent(event, a_task(status=status))))


def ended(**fields: object) -> RunEnded:
    return RunEnded(**{"task_id": T1, "run_id": RUN, "agent": "Alice", "how": "exited", **fields})


@pytest.mark.parametrize(
    ("event", "kind", "who"),
    [
        (rejection_filed(), "agent", "Alice"),
        (invalid_rejection_filed(), "agent", "Alice"),
        (
            GateRejected(task_id=T1, handoff_id=H1, agent="Alice", verdict=a_verdict(a_result())),
            "gate",
            "the gates",
        ),
        (
            GateHeld(task_id=T1, handoff_id=H1, agent="Alice", verdict=a_verdict(a_result())),
            "gate",
            "the gates",
        ),
        (review_rejected(), "reviewer", "Lead"),
        (EscalationOpened(task_id=T1, reason="Who?"), "asked", ""),
        (TaskCancelled(task_id=T1, reason="No"), "cancelled", ""),
        (TaskSettled(task_id=T1, status="done"), "done", ""),
    ],
)
def test_noes_questions_and_ends_are_marked(event: Event, kind: str, who: str) -> None:
    (line,) = told(event)

    assert (line.kind, line.title, line.who) == (kind, TITLE, who)


def test_an_approval_is_told_with_what_was_looked_at_and_is_an_end_when_it_ends_the_task() -> None:
    checked = (Finding(path="roof.py", line=7, text="holds"), Finding(text="more"))
    event = ReviewApproved(task_id=T1, reviewer="Lead", commit="c", checked=checked)

    assert told(event, status=Status.DONE) == [
        DemoLine("done", TITLE, "Lead", "approved by Lead: roof.py:7: holds")
    ]
    assert told(event, status=Status.PROVISIONAL)[0].kind == ""


@pytest.mark.parametrize(
    ("tier", "text"), [("none", "there are no gates"), ("bubblewrap", "the gates pass it")]
)
def test_a_submission_without_gates_is_not_said_to_have_passed_any(tier: str, text: str) -> None:
    task = a_task(status=Status.PROVISIONAL)
    event = TaskSubmitted(task_id=T1, handoff_id=H1, agent="Alice", commit="0123456789")
    observed = ObservedEvent(event, update_task(task, gates=update_gates(task.gates, tier=tier)))

    (line,) = Narrator(lambda _: "").lines(observed)

    assert line.text == f"submitted 01234567: {text}"


def test_an_answer_says_what_was_decided_and_why() -> None:
    assert told(rejection_answered("ACCEPT"))[0].text == "ACCEPT: So it is."


def test_who_begins_again_goes_on() -> None:
    narrator = Narrator(lambda _: "")
    start = RunStarted(task_id=T1, run_id=RUN, agent="Alice", handoff_id=H1)
    seen = ObservedEvent(start, a_task())

    assert [line.text for _ in range(2) for line in narrator.lines(seen)] == [
        "begins",
        "continues with the guidance",
    ]
    review = RunStarted(task_id=T1, run_id=RUN, agent="Lead", purpose=Purpose.REVIEW)
    assert told(review) == []


def test_an_agent_s_words_are_told_when_its_session_has_ended_and_its_figures_are_not() -> None:
    lines = told(ended(), "I go on.\n| REJECTED: no\n\n" + '{"type": "result"}\n')

    assert [line.text for line in lines] == ["“I go on.”", "| REJECTED: no"]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ended(is_fault=True, status=1, detail="it broke"), "failed: it broke"),
        (ended(how="lost"), "was lost with the scheduler"),
    ],
)
def test_a_run_that_failed_or_was_lost_is_nobody_s_blame(event: RunEnded, text: str) -> None:
    (line,) = told(event, "Traceback\n")

    assert line.text == f"{text} (nobody is to blame; it will be retried)"


@pytest.mark.parametrize(
    "event",
    [
        task_claimed(),
        LeaseRenewed(task_id=T1, handoff_id=H1, agent="Alice", lease_expires_at=LATER),
        FeedbackFetched(task_id=T1, handoff_id=H1, agent="Alice", count=1),
    ],
)
def test_what_says_nothing_new_is_left_out(event: Event) -> None:
    assert told(event) == []
