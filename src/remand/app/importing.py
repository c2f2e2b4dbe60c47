"""Taking over the event files of another folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from remand.app.absorb import LegacyFile, imports, legacy_lines, problems_in
from remand.app.ledger import Ledger
from remand.domain.events import LinesImported
from remand.domain.roles import Actor
from remand.ledger.problems import Problem


class Imported(NamedTuple):
    """What an import brought."""

    files: int
    events: int
    """How many events were not here before."""
    imported: int
    """How many lines of GoT tools count from now on."""
    unconfirmed: int
    """How many of the new events have no effect, because no trusted key covers them."""
    problems: list[Problem]


def import_folder(ledger: Ledger, folder: str, actor: Actor) -> Imported:
    """Copies event files that are not here yet, as they are, and reads them in.

    Events of ours keep their own signatures. Lines of GoT tools have none: whoever imports them answers for them.
    """
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
    with ledger.store.read() as view:
        limit = ledger.limit(view)
    names = sorted(name for name in os.listdir(source) if name.endswith(".jsonl"))
    problems: list[Problem] = []
    legacy: list[LegacyFile] = []
    for name in names:
        path = os.path.join(source, name)
        found = legacy_lines(ledger.exchange, path)
        legacy += [found] if found.events else []
        problems += problems_in(ledger.exchange, path, limit)
        lines = [line for _, line in ledger.exchange.read(path) if isinstance(line, bytes)]
        _place(home, name, b"".join(line + b"\n" for line in lines))
    ledger.refresh()
    events = _counts(ledger)[0] - before[0]
    imported = import_lines(ledger, legacy, actor)
    unconfirmed = max(_counts(ledger)[1] - before[1], 0)
    return Imported(len(names), events, imported, unconfirmed, problems)


def import_lines(ledger: Ledger, files: Sequence[LegacyFile], actor: Actor) -> int:
    """Makes lines of GoT tools count: signs what each file holds, and records that. Returns how many are new."""
    recorded = ledger.vouch(partial(imports, files, ledger.clock.now()), actor)
    return sum(event.count for event in recorded if isinstance(event, LinesImported))


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
