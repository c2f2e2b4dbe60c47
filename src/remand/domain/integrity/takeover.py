"""Whether tests that are gone were taken over by others."""

from __future__ import annotations

import re

from remand.domain.integrity.matching import Matching
from remand.domain.integrity.views import Placed

COVERED = 0.8
"""How many of the values a test asked for must be asked for elsewhere."""
HALF = 0.5
"""The same for tests that carry its name on."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
MIN_WORD = 5


def uses(placed: Placed, names: frozenset[str]) -> bool:
    """True when a test mentions one of some names."""
    words = placed.case.words
    return bool(names) and any(word in names or word.strip("'\"`") in names for word in words)


def is_named_after(placed: Placed, names: frozenset[str]) -> bool:
    """True when the name of a test has all the words of one of some names, each at least as a beginning."""
    told = _words(placed.case.name)
    for name in names:
        asked = _words(name)
        is_telling = any(len(word) >= MIN_WORD for word in asked)
        if is_telling and all(any(one.startswith(word) for one in told) for word in asked):
            return True
    return False


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def is_split(placed: Placed, matching: Matching) -> bool:
    """True when several new tests of the file carry the name of one that is gone, and prove as much together."""
    heirs = [
        other.case
        for other in matching.new
        if other.is_run
        and not other.case.is_skipped
        and other.view is placed.view
        and other.case.short_name.startswith(placed.case.short_name)
    ]
    if len(heirs) < 2 or sum(case.proofs for case in heirs) < placed.case.proofs:
        return False
    values = frozenset(value for case in heirs for value in case.literals)
    return _covers(placed, values, frozenset(name for case in heirs for name in case.calls), HALF)


def is_taken_over(matching: Matching, vanished: frozenset[str]) -> bool:
    """True when other tests gained at least as many proofs as are gone, about the same values."""
    gone = [placed for placed in matching.gone if not uses(placed, vanished)]
    gained = [placed for placed in matching.new if placed.is_run and not placed.case.is_skipped]
    proofs = sum(placed.case.proofs for placed in gained)
    for before, after in matching.kept:
        if after.is_run and after.case.proofs > before.case.proofs:
            proofs += after.case.proofs - before.case.proofs
            gained.append(after)
    if proofs < sum(placed.case.proofs for placed in gone):
        return False
    values = frozenset(value for placed in gained for value in placed.case.literals)
    calls = frozenset(name for placed in gained for name in placed.case.calls)
    for helper in (placed.case for placed in matching.new if not placed.is_run):
        if helper.short_name in calls:
            values |= helper.literals
            calls |= helper.calls
    return all(_covers(placed, values, calls, COVERED) for placed in gone)


def _covers(placed: Placed, values: frozenset[str], calls: frozenset[str], share: float) -> bool:
    asked = frozenset(value for item in placed.case.assertions for value in item.literals)
    is_table = any(item.times > 1 for item in placed.case.assertions)
    literals = placed.case.literals if is_table or not asked else asked
    is_told = not literals or len(literals & values) >= share * len(literals)
    return is_told and (not placed.case.calls or bool(placed.case.calls & calls))
