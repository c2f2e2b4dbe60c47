"""Holds that the tables made anew are the tables there were."""

import gc
import json
from operator import attrgetter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remand.app.events.task_folds import rebuild_tables, task_events
from remand.app.log.verification import state_digest
from remand.domain import commands as c
from remand.domain.events.event import Event, TaskEvent
from remand.domain.events.tasks import TaskAdded, TaskChanges, TaskDeleted, TaskEdited
from remand.domain.evolve import replay
from remand.domain.ids import task_node_id
from remand.domain.instant import add_seconds
from remand.testing.builders import H1, NOW, T1, T2, Session, task_added, task_claimed
from tests.support.builders import FakeLedger, dependency_created, gate_passed_and_submitted
from tests.support.strategies import native_events

_encode = msgspec.json.Encoder().encode


def tables(world: FakeLedger) -> tuple[object, ...]:
    with world.store.read() as view:
        tasks = [_encode(task) for task in view.tasks.every()]
        names = {alias: view.names.find_task_id(alias) for alias in ("#1", "#2", H1, "H-1")}
        return (
            tasks,
            names,
            view.queue.ready(),
            sorted(view.queue.due(add_seconds(NOW, 86400))),
            state_digest(view),
        )


def made_anew(world: FakeLedger) -> tuple[object, ...]:
    with world.store.write() as tx:
        rebuild_tables(tx)
    return tables(world)


def test_a_ledger_made_anew_is_the_ledger_it_was() -> None:
    world = FakeLedger()
    one, two = world.add("One", aliases=("#1",)), world.add("Two", aliases=("#2",), priority="high")
    three = world.add("Three", depends_on=(one, two))
    world.ask(c.DeferTask(task_id=two, waits_for=(one,)))
    world.claim(one)
    world.ask(c.EditTask(task_id=three, drop_depends_on=(two,), title="Third"))

    before = tables(world)

    assert made_anew(world) == before


def test_handoffs_are_found_again() -> None:
    world = FakeLedger()
    task = world.add("One")
    (offer,) = world.ask(c.InitiateHandoff(task_id=task, target="Alice")).task.claims.offers
    made_anew(world)

    ask = c.AcceptHandoff(handoff_id=offer.handoff_id, agent="Alice")

    assert world.ask(ask, "Alice").task.id == task


def test_a_task_several_sessions_wrote_to_is_folded_in_order() -> None:
    world = FakeLedger()
    sessions = [Session(name) for name in ("a", "b", "c")]
    sessions[2].write(task_added(), at=add_seconds(NOW, 1))
    sessions[0].write(task_claimed("Alice", H1), at=add_seconds(NOW, 2))
    for event in gate_passed_and_submitted("Alice", H1):
        sessions[1].write(event, at=add_seconds(NOW, 3))
    for session in sessions:
        world.exchange.put(f"/events/{session.name}.jsonl", session.lines)
    world.ledger.refresh()

    assert world.task(T1).status == "provisional"
    assert made_anew(world) == made_anew(world)
    assert world.task(T1).status == "provisional"


def test_the_times_in_a_session_decide_even_when_they_run_back() -> None:
    world, session = FakeLedger(), Session()
    session.write(task_added(), at=NOW)
    session.write(TaskEdited(id=task_node_id(T1), changes=TaskChanges(title="Late")), at=add_seconds(NOW, 9))
    session.write(TaskEdited(id=task_node_id(T1), changes=TaskChanges(title="Early")), at=add_seconds(NOW, 5))
    world.add("Own")
    world.exchange.put("/events/theirs.jsonl", session.lines)
    world.ledger.refresh()
    before = tables(world)

    assert world.task(T1).title == "Late"
    assert made_anew(world) == before


def test_old_events_of_one_time_have_one_order() -> None:
    def line(name: str, **fields: object) -> bytes:
        return json.dumps(
            {"ts": "2025-12-20T00:00:00Z", "event": name, "meta": {"session": "s"}, **fields}
        ).encode()

    titles = [line("node.update", id="T-1", changes={"title": title}) for title in "abcd"]
    created = line("node.create", id="T-1", type="TASK", data={"title": "x"})
    world, other = FakeLedger(), FakeLedger()
    world.exchange.put("/events/old.jsonl", [*titles, created])
    other.exchange.put("/events/old.jsonl", [created, *titles[::-1]])
    for one in (world, other):
        one.ledger.refresh()

    before = tables(world)

    assert before == tables(other)
    assert made_anew(world) == before


@pytest.mark.parametrize("is_on", [True, False])
def test_the_garbage_collector_is_left_as_it_was(is_on: bool) -> None:
    world = FakeLedger()
    world.add("One")
    if not is_on:
        gc.disable()
    try:
        made_anew(world)
        assert gc.isenabled() == is_on
    finally:
        gc.enable()


def test_a_story_is_told_in_order() -> None:
    world = FakeLedger()
    task = world.add("One")
    world.claim(task)
    world.submit(task)

    with world.store.read() as view:
        told = task_events(view, task)
        assert [event.name for event in told] == ["node.create", "task.claim", "gate.pass", "task.submit"]
        assert told == sorted(told, key=attrgetter("ts"))
        assert replay(task_events(view, task)) == view.tasks.get(task)
        assert task_events(view, "T-none") == []
        assert replay(task_events(view, "T-none")) is None


def about(event: Event, task: str) -> Event:
    """The same event about another task."""
    if isinstance(event, TaskEvent):
        return replace(event, task_id=task)
    if isinstance(event, TaskAdded | TaskEdited | TaskDeleted):
        return replace(event, id=task_node_id(task))
    return event


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([T1, T2]), native_events(), st.integers(0, 50))
    ),
    st.booleans(),
)
def test_whatever_others_wrote_the_tables_are_made_anew_alike(
    history: list[tuple[str, str, Event, int]], is_fresh: bool
) -> None:
    world = FakeLedger()
    if not is_fresh:
        world.add("Own")
    sessions = {name: Session(name) for name in "abc"}
    sessions["a"].write(task_added(T1), at=NOW)
    sessions["b"].write(task_added(T2), at=NOW)
    for name, task, event, seconds in history:
        sessions[name].write(about(event, task), at=add_seconds(NOW, seconds))
    for name, session in sessions.items():
        world.exchange.put(f"/events/{name}.jsonl", session.lines)
        world.ledger.refresh()
    before = tables(world)

    assert made_anew(world) == before


def test_a_dependency_stands_as_it_stood() -> None:
    world, session = FakeLedger(), Session()
    for event in (task_added(T1), task_added(T2), dependency_created(T1, T2), dependency_created(T2, T1)):
        session.write(event)
    world.exchange.put("/events/theirs.jsonl", session.lines)
    world.ledger.refresh()
    before = tables(world)

    assert made_anew(world) == before
