"""Logs that releases wrote: each replays to the digest it had. Logs are only ever added here."""

from __future__ import annotations

from pathlib import Path

import pytest

from remand.adapters.stores.memory import MemoryStore
from remand.app.absorb import absorb
from remand.app.digest import digest
from remand.domain.events import subject
from remand.ledger import codec
from remand.ledger.store import Entry

LOGS = sorted(Path(__file__).parent.glob("*.jsonl"))


def replayed(log: Path) -> str:
    entries = [
        Entry(event := codec.read(line), line, subject(event)) for line in log.read_bytes().splitlines()
    ]
    store = MemoryStore("golden")
    with store.write() as tx:
        absorb(tx, entries)
    with store.read() as view:
        text, count = digest(view)
    assert count == len(entries)
    return text


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_an_old_log_replays_to_the_state_it_had(log: Path) -> None:
    assert replayed(log) == log.with_suffix(".digest").read_text(encoding="ascii").strip()


def test_there_is_a_log_of_every_release() -> None:
    assert [log.stem for log in LOGS] == ["0.1.0"]
