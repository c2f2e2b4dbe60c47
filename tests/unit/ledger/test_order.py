"""Holds that events have one order, and that the clock never runs back."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.instant import plus
from remand.ledger.order import place, tick
from remand.testing.builders import NOW, added

times = st.floats(-1e6, 1e6).map(lambda seconds: plus(NOW, seconds))
origins = st.builds(
    e.Meta, id=st.sampled_from("abc"), session=st.sampled_from(["one", "two"]), seq=st.integers(-3, 5)
)
events = st.builds(
    lambda ts, meta: e.TaskEdited(id="T-1", changes=e.TaskChanges(), ts=ts, meta=meta), times, origins
)


def at(ts: str, session: str, seq: int, event_id: str = "a") -> e.Event:
    return e.TaskEdited(
        id="T-1", changes=e.TaskChanges(), ts=ts, meta=e.Meta(id=event_id, session=session, seq=seq)
    )


def test_events_stand_by_time_then_session_then_number() -> None:
    later = plus(NOW, 1)
    places = [(NOW, "a", 1), (NOW, "a", 2), (NOW, "a", 10), (NOW, "b", 1), (later, "a", 3)]

    for one, other in pairwise(places):
        assert place(at(*one)) < place(at(*other))


def test_a_fork_of_a_session_has_an_order_too() -> None:
    one, other = at(NOW, "a", 1, "x"), at(NOW, "a", 1, "y")

    assert sorted([other, one], key=place) == sorted([one, other], key=place)


@given(st.lists(events), st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_arrival(log: list[e.Event], random: st.DataObject) -> None:
    shuffled = log.copy()
    random.shuffle(shuffled)

    assert sorted(map(place, shuffled)) == sorted(map(place, log))
    assert [place(event) for event in sorted(shuffled, key=place)] == sorted(map(place, log))


@given(times, times)
def test_a_new_event_is_later_than_all_its_writer_has_seen(now: str, seen: str) -> None:
    ts = tick(now, seen)

    assert ts > seen
    assert ts >= now
    assert ts in (now, plus(seen, 0.000001))


def test_the_place_of_an_event_is_made_of_what_every_machine_knows() -> None:
    event = replace(added(), ts=NOW, meta=e.Meta(id="i", session="s", seq=3))

    assert place(event) == (NOW, "s", 3, "i")
