"""Tests of the base that are gone, or that no runner finds any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from remand.domain.integrity.catalogue import listed, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import in_test_folder
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.takeover import is_named_after, is_split, uses
from remand.domain.integrity.views import Placed


def deleted(scene: Scene) -> Iterator[Suspicion]:
    """Tests without a counterpart, unless what they tested is gone or other tests took them over."""
    gone = [placed for placed in scene.matching.gone if not is_excused(scene, placed)]
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
    for view in scene.views:
        if view.is_test and view.before and view.after:
            yield from _shadowed(view.path, view.before, view.after)


def _shadowed(path: str, before: Source, after: Source) -> Iterator[Suspicion]:
    """Tests of the base that a second one of their name takes the place of."""
    known = {case.name for case in before.cases} - set(before.shadowed)
    for name, line in after.shadowed.items():
        if name in known:
            yield suspicion("test_uncollected", path, line, f"a second `{name}` takes the place of the first")


def is_excused(scene: Scene, placed: Placed) -> bool:
    """True for a test that went with what it tested, or that others took over."""
    if uses(placed, scene.vanished) or scene.is_taken_over or is_split(placed, scene.matching):
        return True
    return is_named_after(placed, scene.removed) or placed.case.body in scene.bodies


def _is_found(before: Placed, after: Placed) -> bool:
    old, new = before.view.change.base_path, after.view.path
    has_left = (
        old != new and in_test_folder(old) and not in_test_folder(new) and not new.endswith((".rs", ".go"))
    )
    return after.is_run and not (has_left and new.endswith(".py"))


def _by_path(gone: Iterable[Placed]) -> Iterator[tuple[str, list[Placed]]]:
    groups: defaultdict[str, list[Placed]] = defaultdict(list)
    for placed in gone:
        groups[placed.view.change.base_path].append(placed)
    yield from groups.items()


def _counted(names: list[str]) -> str:
    return f"{len(names)} test{'s' if len(names) > 1 else ''}"
