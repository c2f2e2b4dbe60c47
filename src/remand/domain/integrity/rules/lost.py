"""Tests of the base that are gone, or that no runner finds any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from remand.domain.integrity.catalogue import listed, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import in_test_folder
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import Placed

COVERED = 0.8


def deleted(scene: Scene) -> Iterator[Suspicion]:
    """Tests without a counterpart, unless what they tested is gone or other tests took them over."""
    gone = [placed for placed in scene.matching.gone if not uses(placed, scene.vanished)]
    if _are_taken_over(scene, gone):
        return
    for path, group in _by_path(gone):
        names = [placed.case.name for placed in group]
        yield suspicion(
            "test_deleted",
            path,
            group[0].case.line,
            f"{_counted(names)} deleted: {listed(names)}",
            "\n".join(sorted(names)),
        )


def uncollected(scene: Scene) -> Iterator[Suspicion]:
    """Tests that are still there, under a name or in a place where no runner looks."""
    lost = [
        (before, after)
        for before, after in scene.matching.kept
        if before.is_run and not _is_found(before, after)
    ]
    groups: defaultdict[str, list[Placed]] = defaultdict(list)
    for _, after in lost:
        groups[after.view.path].append(after)
    for path, group in groups.items():
        names = [placed.case.name for placed in group]
        found = f"{_counted(names)} no longer collected: {listed(names)}"
        yield suspicion("test_uncollected", path, group[0].case.line, found, "\n".join(sorted(names)))


def uses(placed: Placed, names: frozenset[str]) -> bool:
    """True when a test mentions one of some names."""
    return bool(names) and any(word.strip("'\"`") in names for word in placed.case.words)


def _is_found(before: Placed, after: Placed) -> bool:
    old, new = before.view.change.base_path, after.view.path
    has_left = (
        old != new and in_test_folder(old) and not in_test_folder(new) and not new.endswith((".rs", ".go"))
    )
    return after.is_run and not (has_left and new.endswith(".py"))


def _are_taken_over(scene: Scene, gone: list[Placed]) -> bool:
    """True when other tests gained at least as many proofs, about the same values."""
    gained = [placed for placed in scene.matching.new if placed.is_run and not placed.case.is_skipped]
    proofs = sum(placed.case.proofs for placed in gained)
    for before, after in scene.matching.kept:
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


def _by_path(gone: Iterable[Placed]) -> Iterator[tuple[str, list[Placed]]]:
    groups: defaultdict[str, list[Placed]] = defaultdict(list)
    for placed in gone:
        groups[placed.view.change.base_path].append(placed)
    yield from groups.items()


def _counted(names: list[str]) -> str:
    return f"{len(names)} test{'s' if len(names) > 1 else ''}"
