"""Tests that are there and collected, and do not run or may fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from remand.domain.integrity.catalogue import listed, short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.cases import Case, Skip
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import Placed


def skipped(scene: Scene) -> Iterator[Suspicion]:
    """A marker on a test that ran on the base, on a new one that so never runs, or in what sets tests up."""
    found = [
        (after, _added(before.case, after.case))
        for before, after in scene.matching.kept
        if before.is_run or before.case.sets_up
    ]
    found += [(placed, _never(placed.case)) for placed in scene.matching.new]
    groups: defaultdict[tuple[str, str], list[tuple[Placed, Skip]]] = defaultdict(list)
    for placed, skip in found:
        if skip is not None:
            groups[placed.view.path, skip.text].append((placed, skip))
    for (path, text), group in groups.items():
        names = [placed.case.name for placed, _ in group]
        told = f"`{short(text)}` keeps {listed(names)} from running or failing"
        yield suspicion("test_skipped", path, group[0][1].line, told, "\n".join((text, *sorted(names))))


def focused(scene: Scene) -> Iterator[Suspicion]:
    """`only`, where the base had none."""
    had = {placed.view.path for placed in scene.base_cases if _only(placed.case)}
    told: set[str] = set()
    for placed in scene.head_cases:
        only = _only(placed.case)
        if only is not None and placed.view.path not in had | told:
            told.add(placed.view.path)
            yield suspicion(
                "test_focused", placed.view.path, only.line, f"`{only.text}` at `{short(placed.case.name)}`"
            )


def _only(case: Case) -> Skip | None:
    return next((skip for skip in case.skips if skip.kind == "only"), None)


def _added(before: Case, after: Case) -> Skip | None:
    """The first marker a test gained that can keep it from running here."""
    if before.is_skipped:
        return None
    had = {skip.text for skip in before.skips}
    return next(
        (
            skip
            for skip in after.skips
            if skip.text not in had and skip.kind != "only" and not skip.is_foreign
        ),
        None,
    )


def _never(case: Case) -> Skip | None:
    """The marker by which a new test never runs; a mere placeholder is none."""
    if case.is_empty and all(skip.kind == "todo" for skip in case.skips):
        return None
    return next(
        (skip for skip in case.skips if not skip.is_conditional and skip.kind not in ("only", "todo")), None
    )
