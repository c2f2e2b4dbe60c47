"""Which test of the head is which test of the base, whatever it is called now and wherever it went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from remand.domain.integrity.reading.cases import likeness
from remand.domain.integrity.views import Placed

ALIKE = 0.6
MAX_PAIRS = 50_000


class Matching(NamedTuple):
    """The tests of both sides, sorted out."""

    kept: list[tuple[Placed, Placed]]
    """Those of the base that ran, and asserting functions beside them, each with its counterpart."""
    gone: list[Placed]
    """Those of the base that ran and have none."""
    new: list[Placed]
    """Those of the head that are no counterpart."""


def matched(base_cases: Sequence[Placed], head_cases: Sequence[Placed]) -> Matching:
    """Pairs the tests of base and head: by file and name, by name, by body, by likeness."""
    base = list(base_cases)
    head = list(head_cases)
    kept: list[tuple[Placed, Placed]] = []
    for key in (_by_place, _by_name, _by_body, _by_short_name):
        base, head = _paired(base, head, key, kept)
    base, head = _paired_by_likeness(base, head, kept)
    return Matching(kept, [placed for placed in base if placed.is_run], head)


def _by_place(placed: Placed) -> Hashable:
    return placed.view.path, placed.case.name


def _by_name(placed: Placed) -> Hashable:
    return placed.case.name if placed.is_run else None


def _by_short_name(placed: Placed) -> Hashable:
    """The same test with other classes or descriptions around it."""
    return (placed.view.path, placed.case.short_name) if placed.is_run else None


def _by_body(placed: Placed) -> Hashable:
    return placed.case.body if len(placed.case.words) > 2 else None


def _paired(
    base: list[Placed],
    head: list[Placed],
    key: Callable[[Placed], Hashable],
    kept: list[tuple[Placed, Placed]],
) -> tuple[list[Placed], list[Placed]]:
    """Moves the pairs that share a key to the kept ones; returns what is left of both sides."""
    waiting: defaultdict[Hashable, list[Placed]] = defaultdict(list)
    for placed in reversed(head):
        waiting[key(placed)].append(placed)
    waiting.pop(None, None)
    left, used = [], set()
    for placed in base:
        found = waiting.get(key(placed))
        if found:
            other = found.pop()
            used.add(id(other))
            kept.append((placed, other))
        else:
            left.append(placed)
    return left, [placed for placed in head if id(placed) not in used]


def _paired_by_likeness(
    base: list[Placed], head: list[Placed], kept: list[tuple[Placed, Placed]]
) -> tuple[list[Placed], list[Placed]]:
    """As above, for tests that were renamed and rewritten: the most alike first, in one file before others."""
    if len(base) * len(head) > MAX_PAIRS:
        return base, head
    scored = [
        (likeness(one.case.words, other.case.words) + (one.view is other.view) * 0.1, at, place)
        for at, one in enumerate(base)
        for place, other in enumerate(head)
        if one.case.words
        and (other.is_run or not one.is_run or other.case.assertions)
        and one.view.change.base_path.rpartition(".")[2] == other.view.path.rpartition(".")[2]
    ]
    taken_base: set[int] = set()
    taken_head: set[int] = set()
    for score, at, place in sorted(scored, reverse=True):
        if score < ALIKE:
            break
        if at not in taken_base and place not in taken_head:
            taken_base.add(at)
            taken_head.add(place)
            kept.append((base[at], head[place]))
    return (
        [placed for at, placed in enumerate(base) if at not in taken_base],
        [placed for place, placed in enumerate(head) if place not in taken_head],
    )
