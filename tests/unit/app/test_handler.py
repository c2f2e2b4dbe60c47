"""Holds how an ask becomes its answer: by which names, once per key, and with what follows by itself."""

from typing import get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remand.app.requests import Acceptance, Request, Rules, require_valid_request
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.decide import REQUESTS
from remand.domain.events.reviews import Finding
from remand.domain.events.tasks import LeaseExpired, TaskAdded, TaskDecomposed, TaskWoken
from remand.domain.ids import task_node_id
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import Status
from remand.testing.builders import T1, T2, T3, Session, task_added
from tests.support.builders import FakeLedger, dependency_created, member
from tests.support.strategies import records

FINDINGS = (Finding(text="It leaks"),)
TEAM = Team(
    (
        member("Alice", aliases=("al",), skills=("paint",)),
        member("Bob"),
        member("Lea", Role.LEAD, Role.AGENT),
        member("Boss", Role.USER),
    )
)


def with_team(policy: Policy = Policy()) -> FakeLedger:  # noqa: B008 - a frozen value
    return FakeLedger(rules=Rules(gates=(), team=TEAM, policy=policy))


def rejected_by(world: FakeLedger, task: str, reviewer: str = "user") -> None:
    world.ask(c.RejectReview(task_id=task, commit="work", findings=FINDINGS), reviewer)


# What is written.


def test_events_carry_who_asked_where_and_the_one_before() -> None:
    world = FakeLedger()
    world.repository.current = "topic"

    world.ask(c.AddTask(title="One"), "Alice")
    world.ask(c.AddTask(title="Two"), "Bob")

    one, two = world.events()
    assert (one.meta.actor, one.meta.branch, one.meta.seq, one.meta.prev) == ("Alice", "topic", 1, "")
    assert (two.meta.actor, two.meta.seq, two.meta.prev) == ("Bob", 2, one.meta.id)
    assert two.ts > one.ts


def test_an_ask_that_is_refused_writes_nothing() -> None:
    world = FakeLedger()

    assert world.refusal(c.CancelTask(task_id="T-1")).code == "unknown_task"
    assert world.events() == []
    assert world.exchange.files() == []


def test_ids_are_made_for_their_second_and_never_twice() -> None:
    world = FakeLedger()
    world.ids.hex = iter(["aaaaaaaa", "seg00000", "aaaaaaaa", "bbbbbbbb", "bbbbbbbb", "cccccccc"]).__next__

    first, second, third = world.add("One"), world.add("Two"), world.add("Three")

    assert first.startswith("T-20261115-0900")
    assert [name[-8:] for name in (first, second, third)] == ["aaaaaaaa", "bbbbbbbb", "cccccccc"]


def test_ledgers_that_hand_out_in_the_same_second_do_not_hand_out_the_same_id() -> None:
    handoffs = set()
    for digits in ("abc00000", "abc00001", "abc10000", "abd00000"):
        world = FakeLedger()
        world.ids.hex = lambda digits=digits: digits
        world.add("One")
        claim = world.claim().claim
        assert claim is not None
        handoffs.add(claim.handoff_id)

    assert len(handoffs) == 4


# By which names.


@pytest.mark.parametrize("form", ["{}", "task:{}", "#42"])
def test_a_task_answers_to_its_id_and_its_alias(form: str) -> None:
    world = FakeLedger()
    task = world.add(aliases=("#42",))

    assert world.ask(c.EditTask(task_id=form.format(task), title="New")).task.title == "New"


@pytest.mark.parametrize("form", ["{}", "task:{}", "#42"])
def test_the_tasks_an_ask_names_answer_to_every_name_too(form: str) -> None:
    world = FakeLedger()
    blocker = world.add(aliases=("#42",))
    name = form.format(blocker)

    task = world.add("Later", depends_on=(name,))
    assert world.task(task).links.depends_on == (blocker,)

    assert world.ask(c.EditTask(task_id=task, drop_depends_on=(name,))).task.links.depends_on == ()
    assert world.ask(c.DeferTask(task_id=task, waits_for=(name,))).task.links.waits_for == (blocker,)


def test_an_alias_is_one_tasks() -> None:
    world = FakeLedger()
    task = world.add(aliases=("#42",))

    assert world.refusal(c.AddTask(title="Other", aliases=("#42",))).code == "taken"
    assert world.ask(c.EditTask(task_id=task, aliases=("#42", "#43"))).task.details.aliases == ("#42", "#43")


def test_an_agent_acts_under_its_own_name_whatever_alias_it_used() -> None:
    world = with_team()
    task = world.add()

    world.claim(task, "al")

    claim = world.task(task).claim
    assert claim is not None
    assert claim.agent == "Alice"
    assert world.ask(c.Heartbeat(task_id=task, agent="whoever"), "Alice").events == ()
    assert world.refusal(c.Heartbeat(task_id=task, agent="Alice"), "Bob").code == "not_yours"


def test_lockouts_know_an_agent_by_every_name() -> None:
    world = with_team()
    task = world.add()
    world.ask(c.LockOut(task_id=task, agent="al", reason="It leaks"), "Boss")

    assert world.refusal(c.ClaimTask(task_id=task, agent="Alice"), "Alice").code == "locked_out"
    assert world.ask(c.Unlock(task_id=task, agent="al", reason="Taught"), "Boss").task.people.lockouts == ()


def test_a_handoff_answers_to_its_id_with_and_without_prefix() -> None:
    world = FakeLedger()
    task = world.add()
    (offer,) = world.ask(c.InitiateHandoff(task_id=task, target="Alice")).task.claims.offers

    accepted = world.ask(c.AcceptHandoff(handoff_id=f"handoff:{offer.handoff_id}", agent="Alice"), "Alice")

    assert accepted.task.claim is not None
    assert accepted.task.claim.handoff_id == offer.handoff_id
    assert (
        world.refusal(c.AcceptHandoff(handoff_id="H-none", agent="Alice"), "Alice").code == "unknown_handoff"
    )


def test_a_claim_is_asked_for_by_the_handoff_it_was_given_and_no_other() -> None:
    world = FakeLedger()
    task = world.add()
    claim = world.claim(task).claim
    assert claim is not None

    for name in (claim.handoff_id, f"handoff:{claim.handoff_id}"):
        assert world.ask(c.Heartbeat(task_id=task, agent="Alice", handoff_id=name), "Alice").events == ()
    for name in ("H-other", "nonsense"):
        ask = c.Heartbeat(task_id=task, agent="Alice", handoff_id=name)
        assert world.refusal(ask, "Alice").code == "lease_lost"


def test_the_user_is_not_the_user_inside_an_agents_place() -> None:
    world = FakeLedger()
    task = world.add()
    ask = c.CancelTask(task_id=task)

    assert world.refusal(ask, confined=True).code == "user_only"
    assert world.ask(ask).task.status == Status.CANCELLED


# Which task is next.


def test_without_an_id_the_next_task_that_suits_is_claimed() -> None:
    world = with_team()
    world.add("Welding", skills=("weld",), priority="critical")
    painting = world.add("Painting", skills=("paint",), priority="low")
    anything = world.add("Anything", priority="low")

    assert world.claim(by="Bob").id == anything
    assert world.claim(by="Alice").id == painting
    assert world.refusal(c.ClaimTask(agent="Bob"), "Bob").code == "nothing_to_claim"


def test_a_circle_that_a_merge_brought_does_not_keep_others_from_their_work() -> None:
    world = FakeLedger()
    other = Session()
    for event in (task_added(T1), task_added(T2), dependency_created(T1, T2), dependency_created(T2, T1)):
        other.write(event)
    world.exchange.put("/events/theirs.jsonl", other.lines)
    free = world.add("Free", priority="low")

    claimed = {world.claim(by=agent).id for agent in ("Alice", "Bob")}

    assert free in claimed
    assert claimed <= {free, T1, T2}


def test_a_task_that_waits_is_next_when_its_blocker_is_done() -> None:
    world = FakeLedger()
    blocker = world.add("First", priority="low")
    task = world.add("Second", depends_on=(blocker,), priority="critical")

    assert world.refusal(c.ClaimTask(task_id=task, agent="Alice"), "Alice").code == "waits_on_other"
    world.finish(blocker)
    assert world.claim().id == task


def test_a_dependency_that_closes_a_circle_is_refused_with_the_circle() -> None:
    world = FakeLedger()
    one = world.add("One")
    two = world.add("Two", depends_on=(one,))
    three = world.add("Three", depends_on=(two,))

    for ask in (c.EditTask(task_id=one, depends_on=(three,)), c.DeferTask(task_id=one, waits_for=(three,))):
        refusal = world.refusal(ask)
        assert refusal.code == "closes_cycle"
        assert f"{one} → {three} → {two} → {one}" in refusal.message
    assert world.refusal(c.EditTask(task_id=one, depends_on=(one,))).code == "closes_cycle"


# Once per key.


def test_an_ask_repeated_under_its_key_gets_its_answer_again() -> None:
    world = FakeLedger()
    first = world.ask(c.AddTask(title="One"), key="k")

    again = world.ask(c.AddTask(title="One"), key="k")

    assert again == first
    assert len(world.events()) == 1


def test_a_claim_repeated_under_its_key_is_the_same_claim() -> None:
    world = FakeLedger()
    world.add("One")
    world.add("Two")
    first = world.ask(c.ClaimTask(agent="Alice"), "Alice", key="k")

    again = world.ask(c.ClaimTask(agent="Alice"), "Alice", key="k")

    assert again.events == first.events
    assert [task.status for task in world.tasks().values()].count(Status.CLAIMED) == 1


def test_a_claim_that_comes_twice_in_one_group_is_one_claim() -> None:
    world = FakeLedger()
    world.add("One")
    world.add("Two")
    request = Request(command=c.ClaimTask(agent="Alice"), actor="Alice", key="k")

    first, again = world.ledger.ask_all([request, request])

    assert isinstance(first, Acceptance)
    assert again == first
    assert [task.status for task in world.tasks().values()].count(Status.CLAIMED) == 1


def test_all_events_of_an_ask_are_given_again_in_their_order() -> None:
    world = FakeLedger()
    one, two = world.add("One"), world.add("Two")
    ask = c.AddTask(title="Three", depends_on=(one, two))

    first = world.ask(ask, key="k")

    assert [event.name for event in first.events] == ["node.create", "edge.create", "edge.create"]
    assert world.ask(ask, key="k").events == first.events


@pytest.mark.parametrize(
    ("ask", "by"),
    [(c.AddTask(title="Other"), "user"), (c.AddTask(title="One"), "Alice"), (c.ClaimTask(agent="x"), "user")],
    ids=["other title", "other actor", "other ask"],
)
def test_a_key_is_one_asks_own(ask: c.Command, by: str) -> None:
    world = FakeLedger()
    world.ask(c.AddTask(title="One"), key="k")

    assert world.refusal(ask, by, key="k").code == "key_reused"


def test_the_branch_one_stands_on_is_no_part_of_what_is_asked() -> None:
    world = FakeLedger()
    task = world.add()
    world.claim(task)
    world.repository.add("work")
    here, there = (
        c.SubmitTask(task_id=task, agent="Alice", commit="work", branch=branch)
        for branch in ("here", "there")
    )
    first = world.ask(here, "Alice", key="k")

    assert world.ask(there, "Alice", key="k").events == first.events


def test_an_ask_that_was_refused_may_be_tried_again_under_its_key() -> None:
    world = FakeLedger()
    ask = c.ClaimTask(agent="Alice")
    assert world.refusal(ask, "Alice", key="k").code == "nothing_to_claim"
    task = world.add()

    assert world.ask(ask, "Alice", key="k").task.id == task


@pytest.mark.parametrize("key", ["a b", "a\n", "x" * 129, "\ud800", "é"])
def test_a_key_that_could_not_be_kept_is_refused(key: str) -> None:
    assert FakeLedger().refusal(c.AddTask(title="One"), key=key).code == "bad_value"


# What follows by itself.


def test_a_sleeping_task_wakes_by_an_event_of_its_own_when_its_blocker_is_done() -> None:
    world = FakeLedger()
    blocker, task = world.add("First"), world.add("Second")
    world.ask(c.DeferTask(task_id=task, waits_for=(blocker,)))

    world.finish(blocker)

    assert world.task(task).status == Status.INCOMING
    woken = world.events()[-1]
    assert isinstance(woken, TaskWoken)
    assert (woken.task_id, woken.because, woken.meta.actor) == (task, (blocker,), "coordinator")


def test_a_sleeping_task_wakes_when_its_blocker_is_cancelled() -> None:
    world = FakeLedger()
    blocker, task = world.add("First"), world.add("Second")
    world.ask(c.DeferTask(task_id=task, waits_for=(blocker,)))

    world.ask(c.CancelTask(task_id=blocker))

    assert world.task(task).status == Status.INCOMING


def test_a_sleeping_task_wakes_when_all_of_its_blockers_are_done() -> None:
    world = FakeLedger()
    one, two, task = world.add("One"), world.add("Two"), world.add("Three")
    world.ask(c.DeferTask(task_id=task, waits_for=(one, two)))

    world.finish(one)
    assert world.task(task).status == Status.DEFERRED
    world.finish(two)
    assert world.task(task).status == Status.INCOMING


def test_a_sleeping_task_returns_to_the_queue_it_came_from() -> None:
    world = FakeLedger()
    blocker, task = world.add("First"), world.add("Second")
    world.claim(task)
    world.submit(task)
    rejected_by(world, task)
    world.ask(c.DeferTask(task_id=task, waits_for=(blocker,)))

    world.claim(blocker, "Bob")
    world.submit(blocker, "Bob", "other work")
    world.ask(c.ApproveReview(task_id=blocker, commit="other work"))

    assert world.task(task).status == Status.REJECTED


def test_a_sleeping_task_that_depends_on_another_too_wakes_and_then_waits() -> None:
    world = FakeLedger()
    base, blocker = world.add("Base"), world.add("Blocker")
    task = world.add("Task", depends_on=(base,))
    world.ask(c.DeferTask(task_id=task, waits_for=(blocker,)))

    world.finish(blocker)

    assert world.task(task).status == Status.INCOMING
    assert task not in world.ready()


def test_a_reopened_sleeper_can_be_claimed() -> None:
    world = FakeLedger()
    blocker, task = world.add("First"), world.add("Second")
    world.ask(c.DeferTask(task_id=task, waits_for=(blocker,)))
    world.ask(c.ReopenTask(task_id=task))

    assert world.claim(task).id == task


def decomposed(world: FakeLedger) -> None:
    """T1 was cut into T2 and T3 elsewhere."""
    other = Session()
    for event in (
        task_added(T1),
        task_added(T2),
        task_added(T3),
        TaskDecomposed(task_id=T1, children=(T2, T3)),
    ):
        other.write(event)
    world.exchange.put("/events/theirs.jsonl", other.lines)
    world.ledger.refresh()


def test_a_decomposed_task_is_done_when_its_sub_tasks_are() -> None:
    world = FakeLedger()
    decomposed(world)

    world.finish(T2)
    assert world.task(T1).status == Status.DECOMPOSED
    world.finish(T3)
    assert world.task(T1).status == Status.DONE


def test_a_decomposed_task_is_cancelled_when_all_its_sub_tasks_are() -> None:
    world = FakeLedger()
    decomposed(world)

    for task in (T2, T3):
        world.ask(c.CancelTask(task_id=task))

    assert world.task(T1).status == Status.CANCELLED


def test_what_follows_from_what_follows_happens_at_once() -> None:
    world = FakeLedger()
    decomposed(world)
    sleeper = world.add("Sleeper")
    world.ask(c.DeferTask(task_id=sleeper, waits_for=(T1,)))

    for task in (T2, T3):
        world.finish(task)

    assert world.task(T1).status == Status.DONE
    assert world.task(sleeper).status == Status.INCOMING


@pytest.mark.parametrize("queue", ["incoming", "needs_continuation", "rejected"])
def test_an_expired_lease_returns_the_task_to_the_queue_it_came_from(queue: str) -> None:
    world = FakeLedger()
    task = world.add()
    if queue != "incoming":
        world.claim(task)
    if queue == "needs_continuation":
        world.ask(c.ContinueTask(task_id=task, agent="Alice"), "Alice")
    if queue == "rejected":
        world.submit(task)
        rejected_by(world, task)
    world.claim(task, "Bob")

    world.clock.advance(1801)
    world.add("Anything")

    assert world.task(task).status == queue
    assert not world.task(task).is_locked_out("Bob")
    assert isinstance(world.events()[-2], LeaseExpired)


def test_a_heartbeat_in_time_keeps_the_task() -> None:
    world = FakeLedger()
    task = world.add()
    world.claim(task)
    for _ in range(5):
        world.clock.advance(1700)
        world.ask(c.Heartbeat(task_id=task, agent="Alice"), "Alice")

    assert world.task(task).status == Status.CLAIMED


def test_a_late_submit_is_refused_though_nobody_took_over() -> None:
    world = FakeLedger()
    task = world.add()
    handoff = world.claim(task).claim
    assert handoff is not None
    world.repository.add("work")
    world.clock.advance(1801)

    ask = c.SubmitTask(task_id=task, agent="Alice", commit="work", handoff_id=handoff.handoff_id)

    assert world.refusal(ask, "Alice").code == "lease_lost"
    assert world.task(task).status == Status.INCOMING


def test_an_offer_nobody_took_lapses_and_the_task_is_free() -> None:
    world = FakeLedger()
    task = world.add()
    world.ask(c.InitiateHandoff(task_id=task, target="Alice"))
    assert world.refusal(c.ClaimTask(agent="Bob"), "Bob").code == "nothing_to_claim"

    world.clock.advance(1801)

    assert world.claim(by="Bob").id == task


def test_a_hundred_and_more_leases_end_together() -> None:
    world = FakeLedger()
    tasks = [world.add(f"Task {n}") for n in range(250)]
    for n in range(250):
        world.claim(by=f"Agent {n}")

    world.clock.advance(1801)
    world.add("Anything")

    assert {world.task(task).status for task in tasks} == {Status.INCOMING}


# What the policy says.


def test_the_lease_lasts_as_long_as_the_policy_says() -> None:
    world = FakeLedger(rules=Rules(gates=(), policy=Policy(lease_seconds=60)))
    task = world.add()
    world.claim(task)

    world.clock.advance(61)

    assert world.claim(task, "Bob").claim is not None


@pytest.mark.parametrize(("after", "locked_after"), [(0, []), (1, [1]), (2, [2]), (3, [3])], ids=str)
def test_an_author_is_locked_out_after_as_many_rejections_as_the_policy_says(
    after: int, locked_after: list[int]
) -> None:
    world = FakeLedger(rules=Rules(gates=(), policy=Policy(lockout_after=after, escalate_after_reviews=9)))
    task = world.add()
    found = []
    for agent, rejection in (("Bob", 1), ("Alice", 1), ("Alice", 2), ("Alice", 3)):
        if world.task(task).is_locked_out(agent):
            continue
        world.claim(task, agent)
        world.submit(task, agent, commit=f"{agent}'s work {rejection}")
        world.ask(c.RejectReview(task_id=task, commit=f"{agent}'s work {rejection}", findings=FINDINGS))
        if agent == "Alice" and world.task(task).is_locked_out(agent):
            found.append(rejection)

    assert found == locked_after, "what others handed in is not counted against an agent"


def test_whoever_rejected_a_task_is_not_given_it() -> None:
    world = with_team()
    task = world.add()
    world.claim(task, "Alice")
    world.submit(task, "Alice")
    rejected_by(world, task, "Lea")

    assert world.refusal(c.ClaimTask(agent="Lea"), "Lea").code == "nothing_to_claim"
    assert world.refusal(c.ClaimTask(task_id=task, agent="Lea"), "Lea").code == "not_eligible"
    assert world.claim(by="Bob").id == task


def test_nothing_is_handed_in_unmeasured_or_where_it_is_not_decided_what_to_measure() -> None:
    world = FakeLedger(rules=Rules(gates=("tests",)))
    task = world.add()
    world.claim(task)
    world.repository.add("work")

    ask = c.SubmitTask(task_id=task, agent="Alice", commit="work")

    assert world.refusal(ask, "Alice").code == "not_measured"
    world.rules = Rules()
    assert world.refusal(ask, "Alice").code == "no_gates"


def test_a_commit_is_known_by_what_the_repository_says() -> None:
    world = FakeLedger()
    task = world.add()
    world.claim(task)
    sha = world.repository.add("work", tree="the tree")
    assert (
        world.refusal(c.SubmitTask(task_id=task, agent="Alice", commit="other"), "Alice").code
        == "unknown_commit"
    )

    submission = world.ask(c.SubmitTask(task_id=task, agent="Alice", commit="work"), "Alice").task.submission

    assert submission is not None
    assert (submission.commit, submission.tree) == (sha, "the tree")


def test_a_nul_is_refused_in_a_name_and_what_json_writes_for_one_is_not() -> None:
    require_valid_request(Request(command=c.ClaimTask(agent=r"\u0000"), actor="Alice"))
    require_valid_request(Request(command=c.AddTask(title="a\0b"), actor="Alice"))  # refused by the decision
    for command in (c.ClaimTask(agent="a\0b"), c.AddTask(title="a", aliases=("#1\0",))):
        with pytest.raises(Refused, match="NUL"):
            require_valid_request(Request(command=command, actor="Alice"))
    with pytest.raises(Refused, match="NUL"):
        require_valid_request(Request(command=c.ClaimTask(agent="Alice"), actor="a\0b"))


# Whatever is asked.

NASTY = st.sampled_from(
    ["", " ", "\ud800", "\x00", "a\nb", "\x1e", "\u202e", "x" * 70_000, "T-1", "#1", "Alice", "work", "H-1"]
)
NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**63, 10**30])


@st.composite
def nasty_asks(draw: st.DrawFn, known: str) -> c.Command:
    """An ask of any kind about a task there is, with nonsense in its other fields."""
    kind = draw(st.sampled_from(REQUESTS))
    fields: dict[str, object] = {}
    for name, hint in get_type_hints(kind).items():
        if name == "task_id":
            fields[name] = known
        elif name == "findings":
            fields[name] = tuple(draw(st.lists(records(Finding) | nasty_findings(), max_size=3)))
        elif "tuple" in str(hint):
            fields[name] = tuple(draw(st.lists(NASTY, max_size=2)))
        elif "int" in str(hint):
            fields[name] = draw(NUMBERS)
        elif name in kind.__struct_fields__:
            fields[name] = draw(NASTY)
    return kind(**fields)


def nasty_findings() -> st.SearchStrategy[Finding]:
    return st.builds(Finding, text=NASTY, path=NASTY, line=NUMBERS)


@settings(max_examples=150)
@given(data=st.data())
def test_whatever_is_asked_is_answered(data: st.DataObject) -> None:
    world = FakeLedger()
    task = world.add("Known", aliases=("#1",))
    world.repository.add("work")
    world.claim(task)
    if data.draw(st.booleans(), label="handed in"):
        world.submit(task)
    ask = data.draw(nasty_asks(task), label="ask")
    actor = data.draw(NASTY | st.just("user"), label="actor")
    key = data.draw(NASTY, label="key")

    answer = world.ledger.ask(Request(command=ask, actor=actor, key=key))

    assert isinstance(answer, Acceptance | Refused)
    if isinstance(answer, Acceptance):
        assert not answer.task.inbox.conflicts
    else:
        assert answer.message
    assert world.add("The ledger goes on")


def test_a_node_in_the_graph_is_named_as_everywhere() -> None:
    world = FakeLedger()
    (event,) = world.ask(c.AddTask(title="One")).events

    assert isinstance(event, TaskAdded)
    assert event.id == task_node_id(world.task(event.id.removeprefix("task:")).id)
