"""Holds that the last words of a reviewer or director count once, by its own rights, and for what it was asked."""

import json
from typing import Any, cast

import pytest
from msgspec.structs import replace

from remand.app.ports import CommitDifference
from remand.app.requests import Acceptance, Request, Rules
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.review_runs import ReviewRuns, SubmittedChanges, request_from_answer
from remand.app.tasks.queue import Load
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role, Team
from remand.domain.events.reviews import Finding, LockoutSet, ReviewApproved, ReviewRejected
from remand.domain.events.tasks import RejectionAnswered
from remand.domain.events.work import Purpose
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.reviewer import UnclearAnswer
from remand.domain.run import Run
from remand.domain.task import Status, Task
from remand.testing.builders import Session
from remand.testing.fakes import FakeKeys
from tests.support.builders import FakeLedger, member
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

RUN = "RUN-20261115-090000-00000001"
LOOKED = {"path": "roof.py", "line": 3, "text": "The guard holds for an empty list"}
LEAKS = {"path": "roof.py", "line": 7, "text": "It leaks when it rains", "blocking": True}
TEAM = Team(
    (
        member("Alice", Role.AGENT, Role.LEAD, Role.DIRECTOR, aliases=("ali",)),
        member("Bob"),
        member("Rita", Role.LEAD, command=("rita",)),
        member("Tess", Role.TESTER),
        member("Dora", Role.DIRECTOR, command=("dora",)),
    )
)


def yes(**fields: Any) -> str:
    return json.dumps({"run": RUN, "verdict": "approve", "checked": [LOOKED], **fields})


def no(**fields: Any) -> str:
    return json.dumps({"run": RUN, "verdict": "reject", "findings": [LEAKS], **fields})


class Scene:
    """A task that waits for the word of an agent, which is at work on it."""

    def __init__(self, agent: str, purpose: Purpose, policy: Policy = Policy()) -> None:  # noqa: B008 - a frozen value
        self.world = FakeLedger(rules=Rules(gates=(), team=TEAM, policy=policy))
        self.task_id, self.handoff = self.world.add_and_claim(title=TITLE, scope=SCOPE)
        self._prepare(purpose)
        ask = c.StartRun(task_id=self.task_id, agent=agent, run_id=RUN, purpose=purpose)
        answer = self.world.ledger.ask_as(THE_COORDINATOR, ask)
        assert isinstance(answer, Acceptance), answer
        run = answer.task.find_run(RUN)
        assert run is not None
        self.run: Run = run

    def _prepare(self, purpose: Purpose) -> None:
        if purpose == Purpose.DIRECT:
            self.world.reject(self.handoff, a_rejection())
        else:
            sha = self.world.repository.add("work")
            self.world.repository.differences[sha] = CommitDifference(("roof.py",), "patch")
            self.world.rules = replace(self.world.rules, base="base")
            self.world.submit(self.task_id)

    @property
    def task(self) -> Task:
        return self.world.task(self.task_id)

    def says(self, text: str) -> Request | UnclearAnswer | None:
        return request_from_answer(self.run, self.task, text)

    def asks(self, text: str) -> Acceptance | Refused:
        request = self.says(text)
        assert isinstance(request, Request), request
        return self.world.ledger.ask(request)


def a_review(agent: str = "Rita") -> Scene:
    return Scene(agent, Purpose.REVIEW)


def a_question(agent: str = "Dora") -> Scene:
    return Scene(agent, Purpose.DIRECT, Policy(director=("human",)))


# Reviews.


def test_a_run_knows_the_commit_that_it_reviews() -> None:
    scene = a_review()

    assert scene.task.submission is not None
    assert scene.run.about == scene.task.submission.commit


def test_a_yes_is_the_reviewer_s_own_with_what_it_looked_at() -> None:
    scene = a_review()

    answer = scene.asks(yes())

    assert isinstance(answer, Acceptance), answer
    (event,) = answer.events
    assert isinstance(event, ReviewApproved)
    assert (event.reviewer, event.meta.actor, scene.task.status) == ("Rita", "Rita", Status.DONE)
    assert [(one.path, one.line) for one in event.checked] == [("roof.py", 3)]


def test_a_no_sends_the_work_back_with_its_findings() -> None:
    scene = a_review()

    answer = scene.asks(no())

    assert isinstance(answer, Acceptance)
    assert scene.task.status == Status.REJECTED
    assert scene.task.is_locked_out("Alice")
    assert isinstance(answer.events[0], ReviewRejected)
    assert answer.events[0].findings[0].text == "It leaks when it rains"


@pytest.mark.parametrize(
    "text",
    [
        yes(checked=[]),
        yes(checked=[{**LOOKED, "text": "LGTM"}]),
        yes(checked=[{**LOOKED, "path": "other.py"}]),
    ],
)
def test_a_yes_that_does_not_say_what_was_looked_at_is_refused(text: str) -> None:
    scene = a_review()

    answer = scene.asks(text)

    assert isinstance(answer, Refused)
    assert (answer.code, scene.task.status) == ("vacuous_approval", Status.PROVISIONAL)


def test_words_from_which_nothing_follows_ask_for_nothing() -> None:
    assert isinstance(a_review().says("Looks good to me"), UnclearAnswer)


def test_an_answer_counts_once() -> None:
    scene = a_review()
    request = scene.says(no())
    assert isinstance(request, Request)

    first, second = scene.world.ledger.ask(request), scene.world.ledger.ask(request)

    assert isinstance(first, Acceptance)
    assert isinstance(second, Acceptance)
    assert first.events == second.events
    assert scene.task.reviews.rejection_count == 1


@pytest.mark.parametrize("text", [yes(), no(), "nothing"])
def test_who_spoke_through_its_socket_is_not_heard_twice(text: str) -> None:
    for ask in (
        c.RejectReview(task_id="", commit="work", findings=(Finding(text="No"),)),
        c.ApproveReview(
            task_id="", commit="work", checked=(Finding(text="It holds for all input", path="roof.py"),)
        ),
    ):
        scene = a_review()
        scene.world.ask(replace(ask, task_id=scene.task_id), "Rita", confined=True)

        assert scene.says(text) is None


def test_what_it_found_goes_with_what_another_reviewer_found_meanwhile() -> None:
    scene = a_review()
    findings = (Finding(text="Also this"),)
    scene.world.ask(c.RejectReview(task_id=scene.task_id, commit="work", findings=findings), "user")

    assert scene.says(yes()) is None, "a yes adds nothing to a no"
    assert isinstance(scene.asks(no()), Acceptance)
    assert scene.task.reviews.rejection_count == 1
    assert [review.reviewer for review in scene.task.reviews.rounds[0].reviews] == ["user", "Rita"]


def test_nothing_is_said_of_work_that_it_was_not_shown() -> None:
    scene = a_review()
    scene.run = replace(scene.run, about="another")

    assert scene.says(yes()) is None
    assert scene.says(no()) is None


def test_a_branch_that_went_on_is_not_approved() -> None:
    scene = a_review()
    scene.world.ask(c.EditTask(task_id=scene.task_id, branch="roof"))
    scene.world.repository.add("refs/heads/roof", "another tree")

    answer = scene.asks(yes())

    assert isinstance(answer, Refused)
    assert answer.code == "head_moved"


@pytest.mark.parametrize("name", ["Alice", "ali"])
@pytest.mark.parametrize("text", [yes(), no()])
def test_nobody_reviews_its_own_work_under_any_name(name: str, text: str) -> None:
    scene = a_review()
    begun = scene.world.ledger.ask_as(
        THE_COORDINATOR,
        c.StartRun(task_id=scene.task_id, agent=name, run_id=RUN[:-1] + "2", purpose=Purpose.REVIEW),
    )
    scene.run = replace(scene.run, agent=name)

    answer = scene.asks(text)

    assert isinstance(begun, Refused)
    assert isinstance(answer, Refused)
    assert answer.code == "own_work"


@pytest.mark.parametrize(("name", "code"), [("Bob", "not_authorised"), ("Tess", "out_of_scope")])
def test_an_agent_has_no_more_rights_than_its_member(name: str, code: str) -> None:
    scene = a_review()
    scene.run = replace(scene.run, agent=name)

    answer = scene.asks(yes())

    assert isinstance(answer, Refused)
    assert answer.code == code


# Decisions.


def test_a_run_knows_the_rejection_that_it_decides() -> None:
    scene = a_question()

    assert scene.task.rejections.last_rejection is not None
    assert scene.run.about == scene.task.rejections.last_rejection.rejection_id


def test_a_decision_is_the_director_s_own() -> None:
    scene = a_question()

    answer = scene.asks(
        json.dumps({"run": RUN, "decision_type": "ACCEPT_AND_DEFER", "rationale": "True enough"})
    )

    assert isinstance(answer, Acceptance), answer
    assert isinstance(answer.events[0], RejectionAnswered)
    assert (answer.events[0].meta.actor, scene.task.status) == ("Dora", Status.DEFERRED)


def test_who_has_answered_is_not_heard_twice() -> None:
    scene = a_question()
    scene.world.ask(c.AnswerRejection(handoff_id=scene.handoff, decision="ACCEPT"), "Dora", confined=True)

    assert scene.says(json.dumps({"decision": "OVERRIDE"})) is None


def test_a_decision_is_not_taken_for_one_about_a_later_rejection() -> None:
    scene = a_question()
    scene.world.ask(c.AnswerRejection(handoff_id=scene.handoff, decision="OVERRIDE", message="Go on"))
    scene.world.reject(scene.handoff, a_rejection())

    assert scene.task.status == Status.BLOCKED
    assert scene.says(json.dumps({"decision": "ACCEPT"})) is None


@pytest.mark.parametrize("name", ["Alice", "ali"])
def test_nobody_answers_its_own_rejection_under_any_name(name: str) -> None:
    scene = a_question()
    scene.run = replace(scene.run, agent=name)

    answer = scene.asks(json.dumps({"decision": "ACCEPT"}))

    assert isinstance(answer, Refused)
    assert answer.code == "own_work"


def test_a_run_that_works_on_the_task_has_no_opinion() -> None:
    scene = a_review()

    assert request_from_answer(replace(scene.run, purpose=Purpose.WORK), scene.task, yes()) is None


def test_no_reviewer_is_started_while_an_approval_waits_for_the_users_answer() -> None:
    world = FakeLedger(rules=Rules(gates=(), team=TEAM))
    task_id, _ = world.add_and_claim(title=TITLE, scope=SCOPE)
    world.submit(task_id)
    ledger = LedgerClient(world.ledger, lambda: world.rules, lambda: "", world.ids.hex)
    session = Session("20261115-070000-000000ff", keys=FakeKeys("a stranger"))
    opinions = ReviewRuns(ledger, cast(SubmittedChanges, None), world.ids.hex)

    def chosen() -> str:
        found = opinions.choose(Purpose.REVIEW, world.task(task_id), Load({}))
        return found.name if found else ""

    assert chosen() == "Rita"
    session.write(LockoutSet(task_id=task_id, agent="Alice"))
    world.exchange.put("/events/theirs.jsonl", session.lines)
    world.ledger.refresh()
    assert chosen() == ""
    world.rules = replace(world.rules, policy=Policy(unconfirmed_no="ignore"))
    assert chosen() == "Rita"
    world.rules = replace(world.rules, policy=Policy())
    world.ask(c.DismissObjections(task_id=task_id, reason="A stranger"))
    assert chosen() == "Rita"
