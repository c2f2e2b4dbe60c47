"""Whether tests that are gone were taken over by others."""

from __future__ import annotations

from remand.domain.integrity.matching import Matching
from remand.domain.integrity.views import Placed

COVERED = 0.8
"""How many of the values a test asked for must be asked for elsewhere."""


def uses(placed: Placed, names: frozenset[str]) -> bool:
    """True when a test mentions one of some names."""
    return bool(names) and any(word.strip("'\"`") in names for word in placed.case.words)


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
    return all(_covers(placed, values, calls) for placed in gone)


def _covers(placed: Placed, values: frozenset[str], calls: frozenset[str]) -> bool:
    literals = (
        frozenset(value for item in placed.case.assertions for value in item.literals) or placed.case.literals
    )
    is_told = not literals or len(literals & values) >= COVERED * len(literals)
    return is_told and (not placed.case.calls or bool(placed.case.calls & calls))
