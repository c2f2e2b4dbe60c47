"""Logs that releases wrote: each replays to the digest it had. Logs are only ever added here."""

from __future__ import annotations

from pathlib import Path

import pytest

from remand.adapters.stores.memory import MemoryStore
from remand.app.absorb import absorb
from remand.app.believing import Judge
from remand.app.digest import digest
from remand.domain.events import subject
from remand.domain.releases import Doubt, is_releasing
from remand.ledger import codec
from remand.ledger.store import Entry
from tests.golden.keys import TRUST, GoldenKeys

FOLDER = Path(__file__).parent
LOGS = sorted(FOLDER.glob("*.jsonl"))
SIGNED = FOLDER / "0.1.0-signed.jsonl"


def entries(log: Path) -> list[Entry]:
    return [Entry(event := codec.read(line), line, subject(event)) for line in log.read_bytes().splitlines()]


def replayed(log: Path) -> tuple[str, int]:
    """The digest of a log, and how many of its events have no effect."""
    store = MemoryStore("golden")
    with store.write() as tx:
        absorb(tx, entries(log), Judge(TRUST, GoldenKeys()))
    with store.read() as view:
        text, count = digest(view)
        withheld = len(view.unconfirmed.every())
    assert count == len(entries(log))
    return text, withheld


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_an_old_log_replays_to_the_state_it_had(log: Path) -> None:
    assert replayed(log)[0] == log.with_suffix(".digest").read_text(encoding="ascii").strip()


def test_there_is_a_log_of_every_release() -> None:
    assert [log.stem for log in LOGS] == ["0.1.0-signed", "0.1.0"]


def test_of_the_first_log_no_release_counts_and_of_the_signed_one_those_of_its_key_do() -> None:
    assert replayed(FOLDER / "0.1.0.jsonl")[1] == 8
    assert replayed(SIGNED)[1] == 2


def test_what_is_signed_of_a_line_stays_the_same() -> None:
    """A signature is the same whenever it is made, so making it again shows whether it still stands for the same."""
    keys = GoldenKeys()
    signed = [entry for entry in entries(SIGNED) if entry.event.meta.signer == keys.own().id]

    assert len(signed) > 5
    assert all(is_releasing(entry.event) for entry in signed)
    assert set(Judge(TRUST, keys).doubts([(entry.event, entry.line) for entry in signed])) == {Doubt.NONE}
