"""What an agent says in the end, found in its last words: JSON objects, in fenced blocks or bare.

Others' text may be quoted there, the author's code among it. So only the last block counts, none that contradicts
another, and what releases counts only where it cannot be a quotation: it names the run, which nobody knew before, or
there is nothing else in the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from remand.domain.feedback.characters import seen
from remand.domain.feedback.code import Piece, pieces
from remand.domain.record import Record

MAX_ANSWER = 128 * 1024
"""How much of the last words is read: the end of them."""
MAX_BARE = 64
"""How many bare objects are looked at: the last ones."""
RUN = "run"
"""The field in which an answer names its run."""

_JSON = ("", "json")
_BARE = re.compile(r"(?m)^ {0,3}(?=\{)")


class Unclear(Record, kw_only=True):
    """An answer from which nothing follows, and why."""

    why: str


class Block(NamedTuple):
    """One object that says something; None when it cannot be read."""

    values: dict[str, Any] | None
    raw: str
    fault: str = ""

    def names(self, run_id: str) -> bool:
        """True when it names the run it was asked in."""
        if not run_id:
            return False
        return run_id in self.raw if self.values is None else self.values.get(RUN) == run_id


class Answer(NamedTuple):
    """The last words of a run, as they are read."""

    text: str
    is_whole: bool
    """Nothing of it was cut."""

    def is_nothing_but(self, block: Block) -> bool:
        """True when there is nothing besides a block, except the fence around it."""
        inside = list(pieces(self.text.strip()))
        lines = inside[0].lines if len(inside) == 1 else []
        return self.is_whole and "\n".join(lines).strip() == block.raw


def answer_of(text: str) -> Answer:
    """The end of an agent's last words, with only what can be seen of it."""
    return Answer(seen(text[-MAX_ANSWER:]), is_whole=len(text) <= MAX_ANSWER)


def blocks(answer: Answer, keys: Collection[str]) -> list[Block]:
    """Every object with one of the keys, in order; those that cannot be read among them."""
    return [block for piece in pieces(answer.text) for block in _objects(piece, keys)]


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no key stands twice."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _objects(piece: Piece, keys: Collection[str]) -> Iterator[Block]:
    text = "\n".join(piece.lines)
    if not any(f'"{key}"' in text for key in keys):
        return
    if piece.is_code:
        raw = text.strip()
        if piece.label.lower() in _JSON and raw.startswith("{"):
            yield from _told(_fenced(raw), keys)
        return
    starts = [match.end() for match in _BARE.finditer(text)][-MAX_BARE:]
    end = 0
    for start in starts:
        if start >= end:
            block = _bare(text[start:])
            end = start + len(block.raw) if block.values is not None else end
            yield from _told(block, keys)


def _told(block: Block, keys: Collection[str]) -> Iterator[Block]:
    """The block, if it is one that has to do with the keys."""
    is_about = (
        any(f'"{key}"' in block.raw for key in keys)
        if block.values is None
        else any(key in block.values for key in keys)
    )
    if is_about:
        yield block


def _fenced(raw: str) -> Block:
    try:
        return Block(json.loads(raw, object_pairs_hook=once), raw)
    except (ValueError, RecursionError) as error:
        return Block(None, raw, str(error))


def _bare(text: str) -> Block:
    try:
        values, end = json.JSONDecoder(object_pairs_hook=once).raw_decode(text)
    except (ValueError, RecursionError) as error:
        return Block(None, text, str(error))
    return Block(values, text[:end])
