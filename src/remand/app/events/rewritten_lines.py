"""Published lines that are gone: what the base's files held before they were changed, and what files here lack of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice

from remand.app.events.missing_lines import archived_files, given_up_repairs
from remand.app.ports import Exchange, History, Rewrite
from remand.ledger import codec
from remand.ledger.event_tables import RewrittenLine
from remand.ledger.problems import Problem
from remand.ledger.store import Transaction

EVENT_FOLDER = ".got/events"
_MOST_LOST = 10_000
"""How many lines of one file are named as gone."""
_ADDED = "+"
"""How the hash of a line begins that was added to a published file."""


def is_base_read(tx: Transaction, tip: str) -> bool:
    """True when the base's history was looked at up to its tip."""
    return not tip or tx.rewritten.looked_at.endswith(f" {tip}")


def read_base_history(tx: Transaction, history: History) -> list[bytes]:
    """Looks at what is new in the base's history; what its files held before they were changed, to be read in again."""
    ref, tip = history.base()
    before, _, since = tx.rewritten.looked_at.partition(" ")
    if not tip or (before, since) == (ref, tip):
        return []
    archived = archived_files(tx)
    tx.rewritten.drop([one for one in tx.rewritten.every() if os.path.basename(one.file) in archived])
    rewrites = history.rewrites(since if before == ref else "", tip, archived)
    given = {one.lines.id for one in given_up_repairs(tx)} if rewrites else set()
    tx.rewritten.add(line for one in rewrites for line in _lost_lines(one) if line.hash not in given)
    tx.rewritten.looked_at = f"{ref} {tip}"
    forget_restored(tx, history, tip)
    return [one.before for one in rewrites]


def forget_restored(tx: Transaction, history: History, tip: str) -> None:
    """Forgets lines that the base has again, in whichever file, and additions that are gone."""
    found = [one for one in tx.rewritten.every() if one.commit]
    if not found:
        return
    files = history.files(tip)
    lines = {_hash(line) for content in files.values() for line in codec.split_lines(content)}
    tx.rewritten.drop(one for one in found if _is_restored(one, files, lines))


def _is_restored(one: RewrittenLine, files: Mapping[str, bytes], lines: Collection[str]) -> bool:
    if not one.hash.startswith(_ADDED):
        return one.hash in lines
    content = files.get(os.path.basename(one.file), b"")
    return all(f"{_ADDED}{_hash(line)}" != one.hash for line in codec.split_lines(content))


def compare_files(
    tx: Transaction, history: History, exchange: Exchange, paths: Collection[str]
) -> list[bytes]:
    """Compares event files here with what the base has of them. What the base has and they lack is read in again.

    A file that is not here at all is on another branch.
    """
    _, tip = history.base()
    if not tip or not paths:
        return []
    known = [one for one in tx.rewritten.every() if not one.commit and one.file in paths]
    tx.rewritten.drop(known)
    recovered: list[bytes] = []
    for path, published in history.differing_files(tip, paths).items():
        here = {line.rstrip(b"\r") for _, line in exchange.read(path) if isinstance(line, bytes)}
        gone = ((n, line) for n, line in _number_lines(published) if line not in here)
        lost = list(islice(gone, _MOST_LOST))
        tx.rewritten.add(RewrittenLine("", path, n, _hash(line)) for n, line in lost)
        recovered += [published] if lost else []
    return recovered


def files_only_on_base(history: History, exchange: Exchange) -> list[bytes]:
    """The event files that the base has and that are not here."""
    _, tip = history.base()
    here = {os.path.basename(mark.path) for mark in exchange.files()}
    return list(history.files(tip, here).values()) if tip else []


def rewritten_problems(lines: Iterable[RewrittenLine]) -> Iterator[Problem]:
    """Published lines that are gone, by file and line."""
    for one in lines:
        yield Problem(file=one.file, line=one.line, problem=describe_rewritten(one))


def describe_rewritten(one: RewrittenLine) -> str:
    """What happened to a published line, and what to do."""
    if not one.commit:
        return (
            "is no longer in the file as on the base. It stays in the ledger. "
            "Restore the file: git checkout -- FILE"
        )
    if one.hash.startswith(_ADDED):
        return f"was added to a published file by commit {one.commit} on the base; such files never change"
    return (
        f"was changed in, or removed from, a published file by commit {one.commit} on the base. "
        "It stays in the ledger. Restore it: remand log publish"
    )


def _lost_lines(rewrite: Rewrite) -> Iterator[RewrittenLine]:
    """The lines that a change took out of a file; where it took none, the first that it added."""
    file, left = f"{EVENT_FOLDER}/{rewrite.name}", set(codec.split_lines(rewrite.after))
    gone = ((n, _hash(line)) for n, line in _number_lines(rewrite.before) if line not in left)
    lost = list(islice(gone, _MOST_LOST))
    if not lost:
        known = set(codec.split_lines(rewrite.before))
        new = ((n, _ADDED + _hash(line)) for n, line in _number_lines(rewrite.after) if line not in known)
        lost = list(islice(new, 1))
    yield from (RewrittenLine(rewrite.commit, file, n, digest) for n, digest in lost)


def _number_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate(codec.split_lines(content), 1)


def _hash(line: bytes) -> str:
    return sha256(line).hexdigest()[:32]
