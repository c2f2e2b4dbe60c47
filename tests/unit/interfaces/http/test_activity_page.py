"""Which events the page of the activity shows."""

from __future__ import annotations

from remand.interfaces.http.pages.activity import ON_PAGE, find_events
from tests.support.builders import FakeLedger


def test_pages_of_the_activity_show_every_event_once_and_filters_hold_on_each() -> None:
    world = FakeLedger()
    names = [world.add(f"Task {number}") for number in range(2 * ON_PAGE + 20)]
    world.claim(names[0])
    seen: list[str] = []
    before, is_more = "", True
    while is_more:
        with world.store.read() as view:
            found, _ = find_events(view, "task", "", before)
        shown = [event for event, _ in found[:ON_PAGE]]
        assert not any(event.name.startswith("handoff.") for event in shown)
        seen += [event.meta.id for event in shown]
        before, is_more = shown[-1].meta.id, len(found) > ON_PAGE

    with world.store.read() as view:
        by_agent, is_whole = find_events(view, "", "Alice", "")
        of_other, _ = find_events(view, "handoff", "Bob", "")
    assert len(seen) == len(set(seen)) == len(names) + 1
    assert ({event.meta.actor for event, _ in by_agent}, is_whole) == ({"Alice"}, True)
    assert not of_other
