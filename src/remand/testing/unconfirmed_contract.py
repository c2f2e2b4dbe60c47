"""How a store keeps releasing events that are not believed. A part of `store_contract`."""

from __future__ import annotations

import pytest

from remand.domain import events as e
from remand.domain.releases import Doubt
from remand.ledger.store import Entry, Store
from remand.ledger.traces import ANSWERED
from remand.testing.builders import SHA, T1, T2, Session, added, task_id
from remand.testing.rejection_events import answered, filed


def _approval(session: Session, task: str = T1, doubt: Doubt = Doubt.UNKNOWN_SIGNER, **options: str) -> Entry:
    event = e.ReviewApproved(task_id=task, reviewer="Lead", commit=SHA)
    return session.entry(event, **options)._replace(doubt=doubt)


class UnconfirmedContract:
    """A doubted event is kept, found and given back, and has no effect until it is believed."""

    def test_a_doubted_event_is_kept_and_belongs_to_no_task_and_no_key(self, store: Store) -> None:
        entry = _approval(Session(), key="k")

        with store.write() as tx:
            tx.events.add([entry])

            assert list(tx.events.lines()) == [entry.line]
            assert tx.events.of_task(T1) == tx.events.of_key("k") == []

    def test_a_doubted_event_is_told_with_its_task_its_signer_and_why(self, store: Store) -> None:
        session = Session()
        entry, other = _approval(session), _approval(session, T2, Doubt.UNSIGNED)

        with store.write() as tx:
            tx.events.add([entry, other])

            (found,) = tx.unconfirmed.of_task(T1)
            meta = entry.event.meta
            assert found == (meta.id, T1, meta.signer, Doubt.UNKNOWN_SIGNER, entry.line)
            assert sorted(one.doubt for one in tx.unconfirmed.every()) == ["unknown_signer", "unsigned"]
            assert tx.unconfirmed.of_task("") == []

    def test_a_doubted_answer_leaves_no_trace(self, store: Store) -> None:
        session = Session()
        entry = session.entry(answered("ACCEPT"))._replace(doubt=Doubt.UNSIGNED)

        with store.write() as tx:
            tx.events.add([session.entry(filed()), entry])

            assert list(tx.traces.every(ANSWERED)) == []

    def test_among_many_events_only_the_doubted_have_no_effect(self, store: Store) -> None:
        session = Session()
        entries = [session.entry(added(task_id(n))) for n in range(200)]
        entries += [_approval(session, task_id(n)) for n in range(0, 200, 2)]

        with store.write() as tx:
            tx.events.add(entries)

            assert len(tx.unconfirmed.every()) == 100
            assert all(len(tx.events.of_task(task_id(n))) == 1 for n in range(200))

    def test_what_is_doubted_about_a_kept_event_is_known(self, store: Store) -> None:
        session = Session()
        doubted, believed, new = _approval(session), _approval(session, doubt=Doubt.NONE), _approval(session)

        with store.write() as tx:
            tx.events.add([doubted, believed])

            assert tx.unconfirmed.verdict(doubted) == Doubt.UNKNOWN_SIGNER
            assert tx.unconfirmed.verdict(believed) == Doubt.NONE
            assert tx.unconfirmed.verdict(new) is None

    def test_an_event_keeps_its_verdict_however_often_it_comes(self, store: Store) -> None:
        entry = _approval(Session())

        with store.write() as tx:
            tx.events.add([entry])
            tx.events.add([entry._replace(doubt=Doubt.NONE)])

            assert tx.unconfirmed.verdict(entry) == Doubt.UNKNOWN_SIGNER
            assert tx.events.of_task(T1) == []

    def test_an_event_that_is_believed_after_all_has_its_task_and_its_key(self, store: Store) -> None:
        entry = _approval(Session(), key="k")

        with store.write() as tx:
            tx.events.add([entry])
            tx.unconfirmed.judge([entry._replace(doubt=Doubt.NONE)])

            assert tx.unconfirmed.every() == tx.unconfirmed.of_task(T1) == []
            assert tx.events.of_task(T1) == tx.events.of_key("k") == [entry.line]

    def test_an_event_that_is_not_believed_any_more_loses_them(self, store: Store) -> None:
        entry = _approval(Session(), key="k", doubt=Doubt.NONE)

        with store.write() as tx:
            tx.events.add([entry])
            tx.unconfirmed.judge([entry._replace(doubt=Doubt.WRONG_SIGNATURE)])

            assert [found.doubt for found in tx.unconfirmed.of_task(T1)] == [Doubt.WRONG_SIGNATURE]
            assert tx.events.of_task(T1) == tx.events.of_key("k") == []

    def test_of_a_session_that_forked_each_event_has_its_own_verdict(self, store: Store) -> None:
        first, second = _approval(Session("s"), doubt=Doubt.NONE), _approval(Session("s"), T2)

        with store.write() as tx:
            tx.events.add([first])
            tx.events.add([second])
            tx.unconfirmed.judge([second._replace(doubt=Doubt.UNSIGNED)])

            assert tx.unconfirmed.verdict(first) == Doubt.NONE
            assert tx.unconfirmed.verdict(second) == Doubt.UNSIGNED

    def test_the_trust_that_was_judged_by_is_kept_with_the_change_alone(self, store: Store) -> None:
        def change(text: str, number: int) -> None:
            with store.write() as tx:
                tx.unconfirmed.trust = text
                assert 1 / number

        change("project:x", 1)
        with pytest.raises(ZeroDivisionError):
            change("project:y", 0)
        with store.read() as view:
            assert view.unconfirmed.trust == "project:x"
