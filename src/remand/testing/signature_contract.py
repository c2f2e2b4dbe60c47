"""The contract of every key holder and store about signatures: keys, unconfirmed events and missing lines."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from remand.app.ports import Keys, SignedClaim
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.log import MissingLines
from remand.domain.events.reviews import ReviewApproved, ReviewRejected
from remand.domain.task import Status
from remand.ledger import codec, signatures
from remand.ledger.event_tables import EventEntry, RewrittenLine, SignedGroup
from remand.ledger.signatures import Doubt, GroupedEvent
from remand.ledger.store import Store
from remand.ledger.traces import ANSWERED, FILED
from remand.testing.builders import (
    H1,
    SHA,
    T1,
    T2,
    Session,
    a_task,
    assert_raises,
    rejection_answered,
    rejection_filed,
    task_added,
    task_claimed,
    task_id,
)


class KeysContract:
    """A machine has one key, and its signatures are distinguished from any other.

    A test class provides two fixtures: `keys` of one machine, and `others` of another.
    """

    def test_a_machine_has_one_key(self, keys: Keys) -> None:
        key = keys.ensure_key()

        assert keys.ensure_key() == keys.own() == key
        assert len(key.raw) == 32

    def test_two_machines_have_two_keys(self, keys: Keys, others: Keys) -> None:
        assert keys.ensure_key().id != others.ensure_key().id

    def test_what_a_key_signed_is_known_by_its_public_part(self, keys: Keys, others: Keys) -> None:
        keys.load()
        signature = keys.sign(b"content")

        assert len(signature) == 64
        assert others.verify([SignedClaim(keys.ensure_key().raw, b"content", signature)]) == [True]

    def test_anything_else_is_not(self, keys: Keys, others: Keys) -> None:
        key, signature = keys.ensure_key().raw, keys.sign(b"content")
        torn = bytes([signature[0] ^ 1]) + signature[1:]
        cases = {
            "content": (key, b"contents", signature),
            "key": (others.ensure_key().raw, b"content", signature),
            "signature": (key, b"content", torn),
            "no signature": (key, b"content", b""),
            "cut": (key, b"content", signature[:-1]),
            "empty key": (b"", b"content", signature),
        }

        for flaw, parts in cases.items():
            assert keys.verify([SignedClaim(*parts)]) == [False], flaw

    def test_of_many_each_has_its_own_answer(self, keys: Keys) -> None:
        key = keys.ensure_key().raw
        claims = [SignedClaim(key, b"%d" % n, keys.sign(b"%d" % (n - n % 7 // 6))) for n in range(200)]

        assert keys.verify(claims) == [n % 7 != 6 for n in range(200)]
        assert keys.verify([]) == []


def _approval(
    session: Session, task: str = T1, doubt: Doubt = Doubt.UNKNOWN_SIGNER, **options: str
) -> EventEntry:
    event = ReviewApproved(task_id=task, reviewer="Lead", commit=SHA)
    return session.entry(event, **options)._replace(doubt=doubt)


def _rejection(session: Session, tree: str, signer: str, task: str = T1) -> EventEntry:
    event = ReviewRejected(task_id=task, reviewer="Lead", commit=SHA if tree else "", tree=tree)
    return session.entry(event)._replace(doubt=Doubt.UNKNOWN_SIGNER, signer=signer)


def _got_tool_entry(task: str) -> EventEntry:
    """A GoT tool's line that adds a task."""
    fields = {"ts": "2025-12-20T00:00:00Z", "event": "node.create", "meta": {"session": "s"}, "id": task}
    line = json.dumps(fields | {"type": "TASK", "data": {"title": "Old"}}).encode()
    event = codec.decode_line(line)
    return EventEntry(event, line, event_task_id(event))


class UnconfirmedEventsContract:
    """A doubted event is stored, found and returned, and has no effect until it is confirmed."""

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

            (event,) = tx.unconfirmed.of_task(T1)
            meta = entry.event.meta
            assert event == (meta.id, T1, "", Doubt.UNKNOWN_SIGNER, entry.line)
            assert sorted(one.doubt for one in tx.unconfirmed.every()) == ["unknown_signer", "unsigned"]
            assert tx.unconfirmed.of_task("") == []
            assert (tx.unconfirmed.of_task(T1, 0), tx.unconfirmed.of_task(T1, 1)) == ([], [event])

    def test_a_doubted_answer_leaves_no_trace(self, store: Store) -> None:
        session = Session()
        entry = session.entry(rejection_answered("ACCEPT"))._replace(doubt=Doubt.UNSIGNED)

        with store.write() as tx:
            tx.events.add([session.entry(rejection_filed()), entry])

            assert list(tx.traces.every(ANSWERED)) == []

    def test_among_many_events_only_the_doubted_have_no_effect(self, store: Store) -> None:
        session = Session()
        entries = [session.entry(task_added(task_id(n))) for n in range(200)]
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

    def test_a_doubted_claim_names_no_handoff_before_it_counts(self, store: Store) -> None:
        claim, other = (
            Session(name).entry(task_claimed(task_id=task)) for name, task in (("a", T1), ("b", T2))
        )

        with store.write() as tx:
            tx.events.add([claim._replace(doubt=Doubt.UNSIGNED)])
            assert tx.names.find_task_id(H1) == ""
            tx.unconfirmed.judge([claim])
            assert tx.names.find_task_id(H1) == T1
            tx.events.add([other._replace(doubt=Doubt.UNSIGNED)])
            assert tx.names.find_task_id(H1) == T1

    def test_among_many_doubted_claims_none_names_its_handoff(self, store: Store) -> None:
        session = Session()
        claims = [session.entry(task_claimed(task_id=task_id(n), handoff_id=f"H-{n}")) for n in range(200)]

        with store.write() as tx:
            tx.events.add([entry._replace(doubt=Doubt.UNSIGNED) for entry in claims])

            assert {tx.names.find_task_id(f"H-{n}") for n in range(200)} == {""}

    def test_a_rejection_that_counts_after_all_leaves_its_trace(self, store: Store) -> None:
        entry = Session().entry(rejection_filed())

        with store.write() as tx:
            tx.events.add([entry._replace(doubt=Doubt.UNSIGNED)])
            tx.unconfirmed.judge([entry])

            assert len(list(tx.traces.every(FILED))) == 1

    def test_lines_of_got_tools_are_judged_one_by_one(self, store: Store) -> None:
        entries = [_got_tool_entry(task) for task in (T1, T2)]

        with store.write() as tx:
            tx.events.add([entry._replace(doubt=Doubt.NOT_IMPORTED) for entry in entries])
            tx.unconfirmed.judge(entries[1:])

            assert [tx.unconfirmed.verdict(entry) for entry in entries] == [Doubt.NOT_IMPORTED, Doubt.NONE]
            assert [event.task for event in tx.unconfirmed.every()] == [T1]
            assert [tx.events.of_task(task) for task in (T1, T2)] == [[], [entries[1].line]]

    def test_an_event_that_is_not_believed_any_more_loses_them(self, store: Store) -> None:
        entry = _approval(Session(), key="k", doubt=Doubt.NONE)

        with store.write() as tx:
            tx.events.add([entry])
            tx.unconfirmed.judge([entry._replace(doubt=Doubt.WRONG_SIGNATURE)])

            assert [event.doubt for event in tx.unconfirmed.of_task(T1)] == [Doubt.WRONG_SIGNATURE]
            assert tx.events.of_task(T1) == tx.events.of_key("k") == []

    def test_of_a_session_that_forked_each_event_has_its_own_verdict(self, store: Store) -> None:
        first, second = _approval(Session("s"), doubt=Doubt.NONE), _approval(Session("s"), T2)

        with store.write() as tx:
            tx.events.add([first])
            tx.events.add([second])
            tx.unconfirmed.judge([second._replace(doubt=Doubt.UNSIGNED)])

            assert tx.unconfirmed.verdict(first) == Doubt.NONE
            assert tx.unconfirmed.verdict(second) == Doubt.UNSIGNED

    def test_groups_are_known_by_their_lines_and_not_by_their_signatures(self, store: Store) -> None:
        session = Session()
        session.write(task_added(T1))
        true = signatures.decode_group(session.lines[0])
        false = replace(true, events=(GroupedEvent("0" * 32, T2),))
        wrong = SignedGroup(false, signatures.encode_group(false), Doubt.WRONG_SIGNATURE)

        with store.write() as tx:
            tx.groups.add([wrong])
            tx.groups.add([SignedGroup(true, session.lines[0])])

            both = [(true, session.lines[0]), (false, wrong.line)]
            assert tx.group_doubts.doubts(both) == {true: Doubt.NONE, false: Doubt.WRONG_SIGNATURE}
            assert len(tx.groups.of_session(session.name)) == 2
            assert tx.group_doubts.sound_spans(session.name) == [(1, 1)]
            assert tx.group_doubts.sound_spans(session.name, 1) == [(1, 1)]
            assert tx.group_doubts.sound_spans(session.name, 2) == []
            assert tx.group_doubts.wrongly_signed(session.name) == [wrong]
            assert tx.group_doubts.wrongly_signed("another") == []
            tx.groups.add([wrong._replace(doubt=Doubt.NONE)])
            assert tx.group_doubts.doubts(both)[false] is Doubt.NONE
            assert tx.group_doubts.wrongly_signed(session.name) == []

    def test_the_trust_that_was_judged_by_is_kept_with_the_change_alone(self, store: Store) -> None:
        def change(text: str, number: int) -> None:
            with store.write() as tx:
                tx.unconfirmed.trust = text
                assert 1 / number

        change("project:x", 1)
        with assert_raises(ZeroDivisionError):
            change("project:y", 0)
        with store.read() as view:
            assert view.unconfirmed.trust == "project:x"

    def test_the_key_that_signs_here_is_remembered_while_the_base_does_not_trust_it(
        self, store: Store
    ) -> None:
        with store.read() as view:
            assert view.unconfirmed.writer == ""
        for key in ("0123456789abcdef", "0123456789abcdef", ""):
            with store.write() as tx:
                tx.unconfirmed.writer = key
            with store.read() as view:
                assert view.unconfirmed.writer == key

    # Objections.

    def test_an_objection_is_kept_for_each_key_and_work_and_the_latest_comes_first(
        self, store: Store
    ) -> None:
        session = Session()
        entries = [
            _rejection(session, "tree one", "a"),
            _rejection(session, "tree two", "a"),
            _rejection(session, "tree one", "b"),
            _rejection(session, "tree one", "a"),
        ]
        with store.write() as tx:
            tx.events.add(entries)

            objections = tx.objections.of_task(T1, works=("tree one", "tree two"))
            assert [(one.signer, one.work, one.events) for one in objections] == [
                ("a", "tree one", 2),
                ("b", "tree one", 1),
                ("a", "tree two", 1),
            ]
            assert [one.at for one in objections] == [entries[n].event.ts for n in (3, 2, 1)]
            assert [tx.objections.line(one.place) for one in objections] == [
                entries[n].line for n in (0, 2, 1)
            ]
            assert objections[0].place < objections[2].place < objections[1].place

    def test_objections_are_found_by_what_they_are_about_and_by_their_key(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add([_rejection(session, work, key) for work in ("one", "two", "") for key in "ab"])

            about = tx.objections.of_task(T1, works=("", "two"))
            assert {(one.work, one.signer) for one in about} == {
                ("", "a"),
                ("", "b"),
                ("two", "a"),
                ("two", "b"),
            }
            assert {one.work for one in tx.objections.of_task(T1, signer="b")} == {"one", "two", ""}
            (both,) = tx.objections.of_task(T1, works=("two",), signer="b")
            assert (both.work, both.signer) == ("two", "b")
            assert [(one.signer, one.events) for one in tx.objections.keys(T1)] == [("b", 3), ("a", 3)]
            assert tx.objections.of_task(T2, signer="b") == tx.objections.keys(T2) == []

    def test_only_a_no_under_a_key_that_is_not_trusted_is_an_objection(self, store: Store) -> None:
        session = Session()
        others = (Doubt.UNSIGNED, Doubt.WRONG_SIGNATURE, Doubt.VOID, Doubt.NONE)
        with store.write() as tx:
            tx.events.add([_rejection(session, "tree", "a")._replace(doubt=doubt) for doubt in others])
            tx.events.add([_approval(session), session.entry(task_claimed("Alice", H1))])

            assert tx.objections.keys(T1) == []
            assert tx.objections.tasks() == []

    def test_an_objection_goes_when_its_event_counts_and_comes_when_it_counts_no_more(
        self, store: Store
    ) -> None:
        entry = _rejection(Session(), "tree", "a")
        with store.write() as tx:
            tx.events.add([entry])
            tx.unconfirmed.judge([entry._replace(doubt=Doubt.NONE, signer="")])
            assert tx.objections.keys(T1) == []

            tx.unconfirmed.judge([entry])
            assert [one.signer for one in tx.objections.keys(T1)] == ["a"]

            tx.unconfirmed.judge([entry._replace(doubt=Doubt.WRONG_SIGNATURE)])
            assert tx.objections.keys(T1) == []

    def test_the_tasks_with_objections_are_those_that_have_not_ended(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add([_rejection(session, "tree", "a", task) for task in (T2, T1, T1, "T-nowhere")])
            tx.tasks.put(a_task(id=T1))
            tx.tasks.put(a_task(id=T2))
            assert [task.id for task in tx.objections.tasks()] == sorted((T1, T2))

            tx.tasks.put(a_task(id=T2, status=Status.DONE))
            assert [task.id for task in tx.objections.tasks()] == [T1]


def _missing_lines(first: int, task: str = "", last: int = 0, **more: Any) -> MissingLines:
    return MissingLines(session="s", first=first, last=last or first, task=task, **more)


class MissingLinesContract:
    """Missing lines are known by session, task and id, and distinguished from those that are elsewhere."""

    def test_what_is_missing_is_found_by_session_and_task(self, store: Store) -> None:
        line, other, gap = (
            _missing_lines(2, T1, id="a"),
            _missing_lines(3, T2, id="b"),
            _missing_lines(5, last=7, until="2026"),
        )

        with store.write() as tx:
            tx.missing.replace({"s": [line, other, gap], "t": []})

            assert tx.missing.every() == tx.missing.every("s") == [line, other, gap]
            assert sorted(one.first for one in tx.missing.of_tasks([T1])) == [2, 5]
            tx.missing.drop(["b", ""])
            assert tx.missing.every() == [line, gap]
            tx.missing.replace({"s": [gap]})
            assert tx.missing.every() == [gap]

    def test_lines_of_tasks_that_are_not_here_are_no_faults(self, store: Store) -> None:
        with store.write() as tx:
            tx.events.add([Session().entry(task_added(T1))])
            lines = [
                _missing_lines(2, T1, id="a"),
                _missing_lines(3, T2, id="b"),
                _missing_lines(4, until="2026"),
            ]
            tx.missing.replace({"s": lines})

            assert [one.first for one in tx.missing.faults()] == [2, 4]

    def test_of_its_own_session_and_of_imported_lines_everything_is_a_fault(self, store: Store) -> None:
        with store.write() as tx:
            own = replace(_missing_lines(2, T2, id="a"), session=tx.head.session)
            imported = replace(_missing_lines(2, T2, id="b"), session="import-0123")
            tx.missing.replace({own.session: [own], imported.session: [imported]})

            assert len(tx.missing.faults()) == 2

    def test_a_line_that_is_gone_from_a_published_file_is_kept_until_it_is_back(self, store: Store) -> None:
        line, two = RewrittenLine("c", "a.jsonl", 1, "x"), RewrittenLine("c", "a.jsonl", 2, "y")
        with store.write() as tx:
            tx.rewritten.add([two, line, line])
            assert tx.rewritten.every() == [line, two]
            tx.rewritten.drop([line])
            assert tx.rewritten.every() == [two]
            assert tx.rewritten.looked_at == ""
            tx.rewritten.looked_at = "main 0123"
            assert tx.rewritten.looked_at == "main 0123"

    def test_the_lines_of_a_number_are_found_in_every_version_of_its_session(self, store: Store) -> None:
        first, second = Session("s").entry(task_added(T1)), Session("s").entry(task_added(T2))
        with store.write() as tx:
            tx.events.add([first, second])
            assert set(tx.events.lines("s", 1, 1)) == {first.line, second.line}
            assert list(tx.events.lines("s", 2, 9)) == list(tx.events.lines("t")) == []
