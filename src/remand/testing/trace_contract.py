"""What every store must hold to about rejections: the traces of events, and what is known of each rejection."""

from __future__ import annotations

import pytest

from remand.app.rebuild import rebuild
from remand.domain.instant import Instant, plus
from remand.domain.task import Status
from remand.ledger.filings import Filing
from remand.ledger.store import Store
from remand.ledger.traces import ANSWERED, FILED, INVALID, NAMES, WOKEN
from remand.testing.builders import H1, NOW, T1, T2, T3, Session, a_task, added, claimed
from remand.testing.rejection_events import answered, filed, filed_invalid, of_got, woken


class TraceContract:
    """Events about rejections leave traces, others none, and each rejection is known with its answer."""

    def test_an_event_leaves_its_trace_once_however_often_it_comes(self, store: Store) -> None:
        session = Session()
        entries = [
            session.entry(event) for event in (added(), claimed(), filed(), answered("ACCEPT"), woken())
        ]

        with store.write() as tx:
            tx.events.add(entries)
            tx.events.add(entries)
        with store.write() as tx:
            tx.events.add(entries[2:3])

            assert sorted(trace.event for trace in tx.traces.every(*NAMES)) == [FILED, ANSWERED, WOKEN]
            assert [trace.rejection for trace in tx.traces.every(FILED)] == ["R-1"]
            assert list(tx.traces.every(INVALID)) == []

    def test_a_long_run_of_events_leaves_the_same_traces(self, store: Store) -> None:
        session = Session()
        events = [filed(number=n) if n % 3 else added(T2) for n in range(200)]

        with store.write() as tx:
            tx.events.add([session.entry(event) for event in events])

            names = {trace.rejection for trace in tx.traces.every(FILED)}
            assert names == {f"R-{n}" for n in range(200) if n % 3}

    def test_what_a_copied_ledger_wrote_differently_leaves_its_own_trace(self, store: Store) -> None:
        first, second = Session("s").entry(filed(number=1)), Session("s").entry(filed(number=2))

        with store.write() as tx:
            tx.events.add([first])
            tx.events.add([second])
            tx.events.add([second, first])

            assert sorted(trace.rejection for trace in tx.traces.every(FILED)) == ["R-1", "R-2"]

    def test_a_change_that_fails_leaves_no_trace(self, store: Store) -> None:
        def fail() -> None:
            with store.write() as tx:
                tx.events.add([Session().entry(filed())])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with store.read() as view:
            assert list(view.traces.every(*NAMES)) == []

    def test_making_everything_anew_makes_the_traces_anew(self, store: Store) -> None:
        session = Session()
        events = (added(), claimed(), filed(), answered("OVERRIDE"), filed_invalid(number=2))
        with store.write() as tx:
            tx.events.add([*map(session.entry, events), of_got(FILED, handoff_id=H1, agent="Bob")])
            before = sorted(tx.traces.every(*NAMES))
            tx.traces.replace_all([])
            assert list(tx.traces.every(*NAMES)) == []
            rebuild(tx)

            assert sorted(tx.traces.every(*NAMES)) == before

    def test_a_rejection_is_known_with_the_answer_that_counts(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add([session.entry(filed()), session.entry(filed(T2, 2))])
            tx.events.add(
                [session.entry(answered("OVERRIDE")), session.entry(answered("ACCEPT", created=(T3,)))]
            )

            one, other = sorted(tx.traces.filings(""))
            assert one[4:] == (
                T1, "Alice", "BLOCKER", "The ladder is gone", "ACCEPT", one.answered_at, T3, "",
            )  # fmt: skip
            assert one.answered_at > other.ts
            assert other[8:] == ("", "", "", "")

    def test_the_first_answer_that_accepts_counts_whatever_came_when(self, store: Store) -> None:
        session = Session()
        decisions = ("OVERRIDE", "ACCEPT", "ACCEPT_AND_DEFER", "OVERRIDE")
        entries = [session.entry(event) for event in (filed(), *map(answered, decisions))]
        with store.write() as tx:
            for entry in reversed(entries):
                tx.events.add([entry])

            (found,) = tx.traces.filings("")
            assert (found.decision, found.answered_at) == ("ACCEPT", entries[2].event.ts)

    def test_a_deferred_task_woke_when_it_first_did_after_the_answer(self, store: Store) -> None:
        session = Session()
        events = (woken(), filed(), answered("ACCEPT_AND_DEFER"), woken(T2), woken(), woken())
        with store.write() as tx:
            tx.events.add([session.entry(event, at=plus(NOW, n)) for n, event in enumerate(events)])

            assert [one.woken_at for one in tx.traces.filings("")] == [plus(NOW, 4)]

    def test_what_wakes_after_another_answer_than_a_deferral_did_not_wait(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add([session.entry(event) for event in (filed(), answered("ACCEPT"), woken())])

            assert [one.woken_at for one in tx.traces.filings("")] == [""]

    @pytest.mark.parametrize("many", [0, 20_000], ids=["few", "many"])
    def test_the_statuses_of_tasks_can_be_had_by_their_ids(self, store: Store, many: int) -> None:
        names = [T1, T2, "T-nowhere", *(f"T-{number}" for number in range(many))]
        with store.write() as tx:
            tx.tasks.put(a_task(T1, status=Status.DONE))
            tx.tasks.put(a_task(T2, status=Status.PROVISIONAL))

            found = tx.tasks.statuses(names)
            assert [found.get(name, "") for name in names[:3]] == ["done", "provisional", ""]

    def test_rejections_can_be_had_from_a_time_on(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add([session.entry(filed(number=n), at=plus(NOW, n)) for n in range(4)])

            assert _times(list(tx.traces.filings(plus(NOW, 2)))) == [plus(NOW, 2), plus(NOW, 3)]

    def test_a_rejection_of_a_got_tool_is_found_with_its_task_and_its_answer(self, store: Store) -> None:
        with store.write() as tx:
            tx.events.add([Session().entry(claimed(handoff_id=H1))])
            tx.events.add(
                [of_got(FILED, handoff_id=f"handoff:{H1}", agent="Bob", reason="no", suggestion="")]
            )
            tx.events.add(
                [
                    of_got(
                        ANSWERED,
                        "2025-12-20T11:00:00Z",
                        handoff_id=H1,
                        decision={"decision_type": "OVERRIDE"},
                    )
                ]
            )

            (one,) = tx.traces.filings("")
            assert (one.task, one.agent, one.reason, one.decision) == (T1, "Bob", "", "OVERRIDE")

    def test_without_a_handoff_a_rejection_of_a_got_tool_has_no_answer(self, store: Store) -> None:
        with store.write() as tx:
            tx.events.add([of_got(FILED, agent="Bob")])
            tx.events.add([of_got(ANSWERED, "2025-12-20T11:00:00Z", decision={"decision_type": "OVERRIDE"})])

            assert [(one.task, one.decision) for one in tx.traces.filings("")] == [("", "")]


def _times(found: list[Filing]) -> list[Instant]:
    return sorted(one.ts for one in found)
