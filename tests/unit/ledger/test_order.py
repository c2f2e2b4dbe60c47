"""Holds that events have one order, and that the clock never runs back."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remand.domain.events.event import Event, Meta
from remand.domain.events.tasks import TaskChanges, TaskEdited
from remand.domain.instant import add_seconds
from remand.ledger.order import next_time, order_key
from remand.testing.builders import NOW, task_added

times = st.floats(-1e6, 1e6).map(lambda seconds: add_seconds(NOW, seconds))
origins = st.builds(
    Meta, id=st.sampled_from("abc"), session=st.sampled_from(["one", "two"]), seq=st.integers(-3, 5)
)
events = st.builds(
    lambda ts, meta: TaskEdited(id="T-1", changes=TaskChanges(), ts=ts, meta=meta), times, origins
)


def at(ts: str, session: str, seq: int, event_id: str = "a") -> Event:
    return TaskEdited(
        id="T-1", changes=TaskChanges(), ts=ts, meta=Meta(id=event_id, session=session, seq=seq)
    )


def test_events_stand_by_time_then_session_then_number() -> None:
    later = add_seconds(NOW, 1)
    places = [(NOW, "a", 1), (NOW, "a", 2), (NOW, "a", 10), (NOW, "b", 1), (later, "a", 3)]

    for one, other in pairwise(places):
        assert order_key(at(*one)) < order_key(at(*other))


def test_a_fork_of_a_session_has_an_order_too() -> None:
    one, other = at(NOW, "a", 1, "x"), at(NOW, "a", 1, "y")

    assert sorted([other, one], key=order_key) == sorted([one, other], key=order_key)


@given(st.lists(events), st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_arrival(log: list[Event], random: st.DataObject) -> None:
    shuffled = log.copy()
    random.shuffle(shuffled)

    assert sorted(map(order_key, shuffled)) == sorted(map(order_key, log))
    assert [order_key(event) for event in sorted(shuffled, key=order_key)] == sorted(map(order_key, log))


@given(times, times)
def test_a_new_event_is_later_than_all_its_writer_has_seen(now: str, seen: str) -> None:
    ts = next_time(now, seen)

    assert ts > seen
    assert ts >= now
    assert ts in (now, add_seconds(seen, 0.000001))


def test_the_place_of_an_event_is_made_of_what_every_machine_knows() -> None:
    event = replace(task_added(), ts=NOW, meta=Meta(id="i", session="s", seq=3))

    assert order_key(event) == (NOW, "s", 3, "i")
