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
    with ledger.store.read() as view:
        before = view.events.count()
    names = sorted(name for name in os.listdir(source) if name.endswith(".jsonl"))
    problems: list[Problem] = []
    for name in names:
        path = os.path.join(source, name)
        problems += problems_in(ledger.exchange, path, ledger.clock.now())
        lines = [line for _, line in ledger.exchange.read(path) if isinstance(line, bytes)]
        _place(home, name, b"".join(line + b"\n" for line in lines))
    ledger.refresh()
    with ledger.store.read() as view:
        after = view.events.count()
    return Imported(len(names), after - before, problems)


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
