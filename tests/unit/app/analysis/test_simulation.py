"""What another policy would have decided."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from remand.app.analysis.simulation import RULES, DecisionDifference, simulate
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.reviews import ReviewRejected
from remand.domain.events.tasks import HandoffRejected, HandoffRejectionInvalid
from remand.domain.policy import Policy
from remand.domain.task import Status
from tests.support.builders import LEAKS, FakeLedger, member, send_back
from tests.support.rejection_records import DEPENDENCY, LAZY, SCOPE, TITLE, a_rejection, with_dependency

AUTO, HUMAN = Policy(), Policy(director=("human",))


def a_world(**policy: Any) -> FakeLedger:
    return FakeLedger(rules=Rules(policy=Policy(**policy), gates=()))


def reject(world: FakeLedger, record: dict[str, Any], task: str = "", by: str = "Alice") -> str:
    """An agent claims a task and rejects it."""
    task = task or world.add(TITLE, scope=SCOPE)
    claim = world.task(task).claim or world.claim(task, by).claim
    assert claim is not None
    world.ask(c.RejectHandoff(handoff_id=claim.handoff_id, agent=by, rejection=record), by)
    return task


def differences(
    world: FakeLedger, policy: Policy, kind: str = "", since: str = ""
) -> list[DecisionDifference]:
    found = simulate(world.events(), policy, since).differences
    return [one for one in found if not kind or one.kind == kind]


def told(found: list[DecisionDifference]) -> list[tuple[str, str, str]]:
    return [(one.agent, one.recorded, one.simulated) for one in found]


def a_full_story(**policy: Any) -> FakeLedger:
    """A ledger in which every rule had something to decide."""
    world = a_world(**policy)
    for reason in ("BLOCKER", "SCOPE_CREEP", "INFEASIBLE", "UNCLEAR_REQUIREMENTS"):
        reject(world, a_rejection(reason))
    other = world.add("PDF export")
    reject(world, with_dependency(a_rejection("MISSING_DEPENDENCY"), other))
    lazy = reject(world, LAZY)
    reject(world, LAZY, lazy)
    reviewed = world.add("Mend the roof")
    for agent in ("Alice", "Bob"):
        send_back(world, reviewed, agent, f"{agent}'s work")
    world.ask(c.RejectReview(task_id=reviewed, commit="Bob's work", findings=(LEAKS,), source="forge:1"))
    world.ask(c.RetractReview(task_id=reviewed, reason="It was right"))
    send_back(world, reviewed, "Eve", "Eve's work")
    waiting = world.add("Paint the fence")
    world.claim(waiting, "Carol")
    world.clock.advance(7200)
    world.claim(waiting, "Dave")
    world.ask(c.FailTask(task_id=waiting, agent="Dave", reason="No paint"), "Dave")
    return world


class TestTheSamePolicy:
    def test_would_have_decided_nothing_differently(self) -> None:
        found = simulate(a_full_story().events(), AUTO)

        assert found.differences == ()
        assert {"director", "max_invalid_rejections", "lockout", "escalate_after_reviews", "lease"} == set(
            found.compared
        )

    def test_would_have_decided_nothing_differently_with_a_human_director(self) -> None:
        world = a_full_story(director=("human",), max_invalid_rejections=3, lockout_after=2)
        policy = Policy(director=("human",), max_invalid_rejections=3, lockout_after=2)

        assert differences(world, policy) == []

    def test_is_told_the_same_whatever_order_the_events_come_in(self) -> None:
        events = a_full_story().events()

        assert simulate(events, HUMAN) == simulate(reversed(events), HUMAN)


class TestDirector:
    def test_a_human_would_have_had_to_answer_what_was_answered_at_once(self) -> None:
        world = a_world()
        reject(world, a_rejection("SCOPE_CREEP"))

        assert told(differences(world, HUMAN)) == [("Alice", "ACCEPT_AND_DECOMPOSE", "waits for a director")]

    def test_auto_would_have_answered_at_once_what_waited_for_a_human(self) -> None:
        world = a_world(director=("human",))
        reject(world, a_rejection("BLOCKER"))

        assert told(differences(world, AUTO)) == [("Alice", "waits for a director", "ACCEPT_AND_DEFER")]

    def test_an_infeasible_task_waits_unless_it_may_be_reformulated_at_once(self) -> None:
        world = a_world()
        reject(world, a_rejection("INFEASIBLE"))

        assert differences(world, AUTO) == []
        assert told(differences(world, Policy(auto_reformulate=True))) == [
            ("Alice", "waits for a director", "ACCEPT_AND_REFORMULATE")
        ]

    def test_a_command_is_not_run(self) -> None:
        world = a_world()
        reject(world, a_rejection("BLOCKER"))
        (found,) = differences(world, Policy(director=("ask-a-model",)))

        assert found.simulated == "waits for a director"
        assert "does not run" in found.why

    def test_an_invalid_rejection_is_overridden_whoever_directs(self) -> None:
        world = a_world()
        reject(world, LAZY)

        assert differences(world, HUMAN) == []


class TestValidator:
    def test_a_rejection_that_todays_validator_finds_invalid_is_told_with_the_issues(self) -> None:
        world = a_world()
        reject(world, a_rejection("BLOCKER"))
        events = [
            replace(event, rejection=LAZY) if isinstance(event, HandoffRejected) else event
            for event in world.events()
        ]
        (found,) = simulate(events, AUTO).differences

        assert (found.kind, found.recorded, found.simulated) == ("validator", "ACCEPT_AND_DEFER", "OVERRIDE")
        assert "evidence" in found.why

    def test_a_rejection_is_judged_by_what_was_so_at_that_time(self) -> None:
        world = a_world()
        other = world.add("PDF export")
        reject(world, with_dependency(a_rejection("MISSING_DEPENDENCY"), other))
        world.finish(other, "Bob")

        assert differences(world, AUTO) == [], "the dependency was still open"

    def test_a_dependency_that_was_never_there_is_not_believed(self) -> None:
        world = a_world()
        reject(world, a_rejection("BLOCKER"))
        events = [
            replace(event, rejection=a_rejection("MISSING_DEPENDENCY"))
            if isinstance(event, HandoffRejected)
            else event
            for event in world.events()
        ]
        (found,) = simulate(events, AUTO).differences

        assert DEPENDENCY not in world.tasks()
        assert (found.kind, found.simulated) == ("validator", "OVERRIDE")


class TestMaxInvalidRejections:
    def test_an_agent_would_have_kept_the_task_longer(self) -> None:
        world = a_world()
        task = reject(world, LAZY)
        reject(world, LAZY, task)
        (found,) = differences(world, Policy(max_invalid_rejections=3))

        assert (found.recorded, found.simulated) == ("loses the task", "keeps the task")
        assert found.why.startswith("2 invalid rejections")

    def test_an_agent_would_have_lost_the_task_at_the_first(self) -> None:
        world = a_world()
        task = reject(world, LAZY)
        first = next(event for event in world.events() if isinstance(event, HandoffRejectionInvalid))
        (found,) = differences(world, Policy(max_invalid_rejections=1))

        assert (found.ts, found.task_id, found.agent) == (first.ts, task, "Alice")
        assert (found.recorded, found.simulated) == ("keeps the task", "loses the task")

    def test_giving_up_counts(self) -> None:
        world = a_world()
        task = world.add()
        world.claim(task)
        world.ask(c.FailTask(task_id=task, agent="Alice", reason="Too hard"), "Alice")

        (found,) = differences(world, Policy(max_invalid_rejections=1))
        assert found.simulated == "loses the task"


class TestReviews:
    def test_a_lenient_policy_would_have_set_fewer_lockouts(self) -> None:
        world = a_world()
        task = world.add()
        send_back(world, task, "Alice", "Alice's work")
        send_back(world, task, "Bob", "Bob's work")

        assert told(differences(world, Policy(lockout_after=2))) == [
            ("Alice", "locked out", "not locked out"),
            ("Bob", "locked out", "not locked out"),
        ], "what Alice handed in does not count against Bob"
        assert [one.agent for one in differences(world, Policy(lockout_after=0))] == ["Alice", "Bob"]

    def test_a_strict_policy_would_have_set_more(self) -> None:
        world = a_world(lockout_after=0)
        send_back(world, world.add(), "Alice", "work")

        assert told(differences(world, AUTO)) == [("Alice", "not locked out", "locked out")]

    def test_a_task_would_have_been_escalated(self) -> None:
        world = a_world()
        task = world.add()
        send_back(world, task, "Alice", "Alice's work")
        send_back(world, task, "Bob", "Bob's work")
        (found,) = differences(world, Policy(escalate_after_reviews=2))

        assert (found.kind, found.agent) == ("escalate_after_reviews", "Bob")
        assert (found.recorded, found.simulated) == ("not escalated", "escalated")

    def test_several_reviews_of_one_submission_are_one_decision(self) -> None:
        world = a_world()
        task = world.add()
        send_back(world, task, "Alice", "work")
        world.ask(c.RejectReview(task_id=task, commit="work", findings=(LEAKS,), source="forge:1"))
        found = simulate(world.events(), Policy(lockout_after=0))

        assert found.compared["lockout"] == found.compared["escalate_after_reviews"] == 1

    def test_the_same_review_of_a_forge_in_two_ledgers_is_one_decision(self) -> None:
        world = a_world()
        task = world.add()
        world.claim(task)
        world.submit(task)
        world.ask(c.RejectReview(task_id=task, commit="work", findings=(LEAKS,), source="forge:1"))
        world.ask(c.RetractReview(task_id=task, reason="It was right"))
        events = world.events()
        again = next(event for event in events if isinstance(event, ReviewRejected))
        meta = replace(again.meta, session="20261115-080000-0000000b", seq=1, id="other", more=0)
        same = replace(again, ts=world.clock.now(), meta=meta)

        assert simulate([*events, same], AUTO).compared["lockout"] == 1

    def test_a_retracted_rejection_does_not_count(self) -> None:
        world = a_world()
        task = world.add()
        send_back(world, task, "Alice", "work")
        world.ask(c.RetractReview(task_id=task, reason="It was right"))
        world.ask(c.RejectReview(task_id=task, commit="work", findings=(LEAKS,)))

        assert (
            differences(world, Policy(lockout_after=2, escalate_after_reviews=2), "escalate_after_reviews")
            == []
        )
        assert len(differences(world, Policy(lockout_after=2), "lockout")) == 2

    def test_a_retraction_would_have_let_the_author_back(self) -> None:
        world = a_world(lockout_after=2)
        task = world.add()
        for n in (1, 2):
            send_back(world, task, "Alice", f"work {n}")
        first = world.task(task).reviews.rounds[0].reviews[0].id
        world.ask(c.RetractReview(task_id=task, review_id=first, reason="It was right"))

        assert differences(world, Policy(lockout_after=2)) == []
        assert told(differences(world, Policy(lockout_after=1), "lockout"))[-1] == (
            "Alice",
            "let back",
            "stays locked out",
        )

    def test_a_question_for_another_reason_is_not_compared(self) -> None:
        world = a_world()
        world.rules = replace(world.rules, team=Team((member("Alice"), member("user", Role.USER))))
        task = world.add()
        send_back(world, task, "Alice", "work")

        assert world.task(task).status == Status.ESCALATED
        assert "escalate_after_reviews" not in simulate(world.events(), AUTO).compared

    def test_neither_the_users_own_fix_nor_who_is_locked_out_already_is_compared(self) -> None:
        world = a_world()
        world.rules = replace(world.rules, team=Team((member("Alice"), member("Lea", Role.LEAD))))
        task = world.add()
        world.claim(task)
        world.submit(task)
        world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not this one"))
        world.ask(c.RejectReview(task_id=task, commit="work", findings=(LEAKS,)), "Lea")
        world.ask(c.AnswerEscalation(task_id=task, option="fix"))
        world.submit(task, "user", "fixed")
        world.ask(c.RejectReview(task_id=task, commit="fixed", findings=(LEAKS,)), "Lea")

        assert "lockout" not in simulate(world.events(), Policy(lockout_after=0)).compared


class TestLease:
    def test_a_claim_would_have_expired(self) -> None:
        world = a_world()
        world.claim(world.add())
        world.clock.advance(1200)
        world.submit(next(iter(world.tasks())))
        (found,) = differences(world, Policy(lease_seconds=600))

        assert (found.kind, found.recorded) == ("lease", "held")
        assert found.simulated.startswith("expired at ")

    def test_a_heartbeat_keeps_it(self) -> None:
        world = a_world()
        task = world.claim(world.add()).id
        for _ in range(2):
            world.clock.advance(1000)
            world.ask(c.Heartbeat(task_id=task, agent="Alice"), "Alice")
        world.submit(task)

        assert differences(world, Policy(lease_seconds=1100)) == []
        assert len(differences(world, Policy(lease_seconds=900))) == 1, "told once"

    def test_a_longer_lease_would_still_have_held(self) -> None:
        world = a_world()
        task = world.claim(world.add()).id
        world.clock.advance(2000)
        world.claim(task, "Bob")

        (found,) = differences(world, Policy(lease_seconds=7200))
        assert (found.agent, found.recorded) == ("Alice", "expired")
        assert found.simulated.startswith("held until ")

    def test_an_offer_would_have_lapsed(self) -> None:
        world = a_world()
        offered = world.ask(c.InitiateHandoff(task_id=world.add(), target="Alice"))
        world.clock.advance(1000)
        handoff = offered.task.claims.offers[0].handoff_id
        world.ask(c.AcceptHandoff(handoff_id=handoff, agent="Alice"), "Alice")

        (found,) = differences(world, Policy(lease_seconds=900))
        assert found.simulated.startswith("lapsed at ")


class TestReach:
    def test_only_what_was_decided_since_is_told(self) -> None:
        world = a_world()
        send_back(world, world.add(), "Alice", "work")
        world.clock.advance(86400)
        since = world.clock.now()
        send_back(world, world.add("Paint the fence"), "Bob", "paint")
        found = simulate(world.events(), Policy(lockout_after=0), since)

        assert [one.agent for one in found.differences] == ["Bob"]
        assert found.compared["lockout"] == 1
        assert found.events == len(world.events())

    def test_the_summary_counts_decisions_and_differences_of_each_kind(self) -> None:
        world = a_world()
        send_back(world, world.add(), "Alice", "work")
        found = simulate(world.events(), Policy(lockout_after=0))

        assert found.summary["lockout"] == {"decisions": 1, "different": 1}
        assert found.decisions == sum(row["decisions"] for row in found.summary.values())

    def test_what_lost_a_merge_was_no_decision(self) -> None:
        world = a_world()
        send_back(world, world.add(), "Alice", "work")
        events = world.events()
        again = next(event for event in events if isinstance(event, ReviewRejected))
        meta = replace(again.meta, session="20261115-080000-0000000b", seq=1, id="other", more=0)
        late = replace(again, ts=world.clock.now(), meta=meta, commit="f" * 40, tree="another")

        assert simulate([*events, late], AUTO).compared["lockout"] == 1

    def test_every_event_that_is_decided_on_belongs_to_a_task(self) -> None:
        assert all("task_id" in kind.__struct_fields__ for kind in RULES)
