"""Holds how a task stands in the queue, and that the queue and the rules agree on whom it suits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.app.tasks.queue import DUE_NOW, agent_pool, due_time, is_suitable, queue_rank, task_of_rank
from remand.domain.access.team import Actor, Role
from remand.domain.commands import ClaimTask
from remand.domain.instant import add_seconds
from remand.domain.preconditions import require_claimable
from remand.domain.refusals import Refused
from remand.domain.task import CLAIMABLE, Priority, Status, Task
from remand.testing.builders import (
    LATER,
    MUCH_LATER,
    NOW,
    T1,
    T2,
    T3,
    a_claim,
    a_lockout,
    a_task,
    actor,
    an_offer,
)
from tests.support.builders import command


def test_the_order_of_ranks_is_the_order_of_the_queue() -> None:
    ordered = [
        a_task(T3, status=Status.REJECTED, priority=Priority.LOW),
        a_task(T3, status=Status.NEEDS_CONTINUATION, priority=Priority.LOW),
        a_task(T3, priority=Priority.CRITICAL),
        a_task(T3, priority=Priority.HIGH),
        a_task(T3, priority=Priority.MEDIUM, created_at=add_seconds(NOW, -1)),
        a_task(T1, priority=Priority.MEDIUM),
        a_task(T2, priority=Priority.MEDIUM),
        a_task(T1, priority=Priority.LOW),
    ]
    ranks = [queue_rank(task, ()) for task in ordered]

    assert None not in ranks
    assert sorted(ranks) == ranks


def test_a_rank_names_its_task() -> None:
    assert task_of_rank(queue_rank(a_task(T2), ()) or "") == T2


@pytest.mark.parametrize("status", sorted(Status))
def test_only_a_task_in_a_queue_that_waits_for_nothing_has_a_rank(status: Status) -> None:
    task = a_task(status=status, depends_on=(T2,))

    assert (queue_rank(task, ()) is not None) == (status in CLAIMABLE)
    assert queue_rank(task, (T2,)) is None


ODD = ["Alice", "Bob", "", "a\x1eb", "a\x1fb", '"', "\\", "[]", ",", "Zoë", "\u2028"]
odd = st.sampled_from(ODD)
tasks = st.builds(
    a_task,
    skills=st.lists(odd, max_size=2).map(tuple),
    lockouts=st.lists(odd.map(a_lockout), max_size=2).map(tuple),
    reviewers=st.lists(odd, max_size=1).map(tuple),
    offers=st.lists(odd.map(lambda name: an_offer(name, until=LATER)), max_size=2).map(tuple),
)
agents = st.builds(
    Actor,
    name=odd,
    roles=st.sampled_from([frozenset({Role.AGENT}), frozenset(), frozenset({Role.LEAD})]),
    skills=st.frozensets(odd, max_size=3),
)


@given(tasks, agents, st.booleans())
def test_a_task_suits_exactly_those_whom_the_rules_let_claim_it(
    task: Task, agent: Actor, has_team: bool
) -> None:
    ask = command(ClaimTask(agent=agent.name, task_id=T1), agent, at=NOW, has_team=has_team)
    try:
        require_claimable(task, agent, ask)
    except Refused:
        may_claim = False
    else:
        may_claim = True

    assert is_suitable(agent_pool(task), agent, has_team) == may_claim


def test_tasks_for_the_same_agents_share_a_pool() -> None:
    one = a_task(T1, skills=("paint",), lockouts=(a_lockout("Alice"), a_lockout("Bob")))
    other = a_task(T2, skills=("paint",), lockouts=(a_lockout("Bob"), a_lockout("Alice")))

    assert agent_pool(one) == agent_pool(other)
    assert agent_pool(one) != agent_pool(a_task(T2, skills=("paint",)))
    assert agent_pool(one) != agent_pool(a_task(T2, lockouts=one.people.lockouts))


def test_without_a_team_skills_bind_nobody() -> None:
    task = a_task(skills=("paint",))

    assert is_suitable(agent_pool(task), actor("Alice"), False)
    assert not is_suitable(agent_pool(task), actor("Alice"), True)
    assert is_suitable(agent_pool(task), actor("Alice", skills=("paint",)), True)


@pytest.mark.parametrize(
    ("task", "open_blockers", "expected"),
    [
        (a_task(), (), None),
        (a_task(claim=a_claim(until=LATER), status=Status.CLAIMED), (), LATER),
        (a_task(offers=(an_offer(until=MUCH_LATER), an_offer(until=LATER))), (), LATER),
        (
            a_task(claim=a_claim(until=MUCH_LATER), status=Status.CLAIMED, offers=(an_offer(until=LATER),)),
            (),
            LATER,
        ),
        (a_task(status=Status.DEFERRED, waits_for=(T2,)), (T2,), None),
        (a_task(status=Status.DEFERRED, waits_for=(T2,)), (), DUE_NOW),
        (a_task(status=Status.DEFERRED, waits_for=(T2,), depends_on=(T3,)), (T3,), DUE_NOW),
        (a_task(status=Status.DEFERRED), (), None),
        (a_task(status=Status.DECOMPOSED, children=(T2,)), (T2,), None),
        (a_task(status=Status.DECOMPOSED, children=(T2,)), (), DUE_NOW),
        (a_task(status=Status.DECOMPOSED, children=(T2,), depends_on=(T3,)), (T3,), DUE_NOW),
    ],
    ids=[
        "free",
        "lease",
        "first offer",
        "offer before lease",
        "asleep",
        "can wake",
        "can wake though it depends on another",
        "asleep for nothing",
        "sub-task open",
        "sub-tasks ended",
        "sub-tasks ended though it depends on another",
    ],
)
def test_a_task_is_due_when_something_of_it_ends(
    task: Task, open_blockers: tuple[str, ...], expected: str | None
) -> None:
    assert due_time(task, open_blockers) == expected
