"""Logs that releases wrote: each folds to the digest it had, once its ledgers have signed it. Logs are only ever added."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from remand.adapters.stores.sqlite import SqliteStore
from remand.app.events.event_files import cover_own_session
from remand.app.events.intake import judge_by_trust
from remand.app.events.signatures import ReadEvent, Signer, Verifier, judge
from remand.app.events.task_folds import rebuild_tables
from remand.app.log.verification import state_digest
from remand.domain.events.catalogue import event_task_id
from remand.ledger import codec, signatures
from remand.ledger.event_tables import EventEntry, SignedGroup
from remand.ledger.signatures import Doubt
from remand.ledger.store import LedgerHead, Store
from tests.golden.keys import PROJECT, TRUST, GoldenKeys

FOLDER = Path(__file__).parent
LOGS = sorted(FOLDER.glob("*.jsonl"))
SIGNED_SINGLY = frozenset(
    [
        "edge.delete",
        "escalation.acknowledge",
        "escalation.answer",
        "escalation.notify",
        "escalation.repeat",
        "feedback.fetch",
        "forge.done",
        "forge.fail",
        "forge.import",
        "forge.intend",
        "gate.accept",
        "gate.hold",
        "gate.override",
        "gate.pass",
        "handoff.complete",
        "handoff.reject.response",
        "handoff.resume",
        "lockout.clear",
        "node.update",
        "review.approve",
        "review.bypass",
        "review.note",
        "review.retract",
        "run.end",
        "task.cancel",
        "task.decompose",
        "task.defer",
        "task.infeasible",
        "task.reopen",
        "task.settle",
        "task.submit",
    ]
)
"""Before groups were signed, events of these names counted when each bore a signature of its own."""


def entries(log: Path) -> list[EventEntry]:
    return [_entry(line) for line in log.read_bytes().splitlines()]


def _entry(line: bytes) -> EventEntry:
    event = codec.decode_line(line)
    is_withheld = event.name in SIGNED_SINGLY and event.meta.signer != GoldenKeys().own().id
    return EventEntry(event, line, event_task_id(event), Doubt.UNSIGNED if is_withheld else Doubt.NONE)


def upgraded(log: Path) -> Store:
    """The log as its ledgers sign it when they are first opened by a version that signs groups."""
    signer = Signer(GoldenKeys(), PROJECT)
    groups: list[SignedGroup] = []
    for session in sorted({entry.event.meta.session for entry in entries(log)}):
        own = [entry for entry in entries(log) if entry.event.meta.session == session]
        with SqliteStore.in_memory(session).write() as tx:
            tx.events.add(own)
            tx.head = LedgerHead(session=session, seq=max(entry.event.meta.seq for entry in own))
            groups += [
                SignedGroup(group, signatures.encode_group(group)) for group in cover_own_session(tx, signer)
            ]
    store = SqliteStore.in_memory("golden")
    with store.write() as tx:
        tx.groups.add(groups)
        tx.events.add(
            judge(tx, [ReadEvent(entry.event, entry.line, entry.subject) for entry in entries(log)])
        )
        judge_by_trust(tx, Verifier(TRUST, GoldenKeys()))
        rebuild_tables(tx)
    return store


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_an_old_log_folds_to_the_state_it_had(log: Path) -> None:
    with upgraded(log).read() as view:
        text, count = state_digest(view)

    assert count == len(entries(log))
    assert text == log.with_suffix(".digest").read_text(encoding="ascii").strip()


@pytest.mark.parametrize(("log", "withheld"), [("0.1.0", 8), ("0.1.0-signed", 2)])
def test_what_had_no_effect_in_an_old_log_gets_none(log: str, withheld: int) -> None:
    with upgraded(FOLDER / f"{log}.jsonl").read() as view:
        assert [found.doubt for found in view.unconfirmed.every()] == [Doubt.VOID] * withheld


def test_an_old_log_that_nobody_signed_has_no_effect() -> None:
    store = SqliteStore.in_memory("golden")
    with store.write() as tx:
        found = [
            ReadEvent(entry.event, entry.line, entry.subject) for entry in entries(FOLDER / "0.1.0.jsonl")
        ]
        tx.events.add(judge(tx, found))
        rebuild_tables(tx)

        assert list(tx.tasks.every()) == []


def test_there_is_a_log_of_every_release() -> None:
    assert [log.stem for log in LOGS] == ["0.1.0-signed", "0.1.0"]


def test_what_is_signed_stays_the_same() -> None:
    """A signature is the same whenever it is made, so making it again shows whether it still stands for the same."""
    (group,) = Signer(GoldenKeys(), PROJECT).sign(
        "20261115-102120-88d67be0",
        1,
        signatures.chain_start("20261115-102120-88d67be0", GoldenKeys().own().id),
        [signatures.GroupedEvent("0262db1e1ffb244bb5cf295e47fb7b53", "T-20261115-102120-a8b8d711")],
        "2026-11-15T10:21:20.464296Z",
    )

    line = (FOLDER / "group.json").read_bytes().strip()
    assert signatures.encode_group(group) == line
    assert Verifier(TRUST, GoldenKeys()).doubts([signatures.decode_group(line)]) == {group: Doubt.NONE}
    assert Verifier(TRUST, GoldenKeys()).doubts([replace(group, first=2)]) != {group: Doubt.NONE}
