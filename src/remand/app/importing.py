"""Taking over the event files of another folder."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import NamedTuple

from remand.app.absorb import problems_in
from remand.app.ledger import Ledger
from remand.ledger.problems import Problem


class Imported(NamedTuple):
    """What an import brought."""

    files: int
    events: int
    unconfirmed: int
    """How many of the events have no effect, because nobody known has signed them."""
    problems: list[Problem]


def import_folder(ledger: Ledger, folder: str) -> Imported:
    """Copies event files that are not here yet, as they are, and reads them in."""
    source = next(
        (
            path
            for path in (os.path.join(folder, ".got", "events"), os.path.join(folder, "events"))
            if os.path.isdir(path)
        ),
        folder,
    )
    home = os.path.dirname(ledger.segment.path("x"))
    before = _counts(ledger)
    names = sorted(name for name in os.listdir(source) if name.endswith(".jsonl"))
    problems: list[Problem] = []
    for name in names:
        path = os.path.join(source, name)
        problems += problems_in(ledger.exchange, path, ledger.clock.now())
        lines = [line for _, line in ledger.exchange.read(path) if isinstance(line, bytes)]
        _place(home, name, b"".join(line + b"\n" for line in lines))
    ledger.refresh()
    after = _counts(ledger)
    return Imported(len(names), after[0] - before[0], after[1] - before[1], problems)


def _counts(ledger: Ledger) -> tuple[int, int]:
    """How many events there are, and how many of them are unconfirmed."""
    with ledger.store.read() as view:
        return view.events.count(), len(view.unconfirmed.every())


def _place(home: str, name: str, content: bytes) -> None:
    """Writes a file under its own name, or under one with a hash when another file has it."""
    path = os.path.join(home, name)
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == content:
                return
        path = os.path.join(home, f"{name.removesuffix('.jsonl')}-{sha256(content).hexdigest()[:8]}.jsonl")
    if content:
        with open(path, "wb") as file:
            file.write(content)
