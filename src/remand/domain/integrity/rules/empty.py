"""New tests that cannot fail."""

from __future__ import annotations

from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.cases import NOTHING, Case
from remand.domain.integrity.scene import Scene


def asserts_nothing(scene: Scene) -> Iterator[Suspicion]:
    """A new test that is empty or asserts only what is always true; or that only calls, when none asserts more."""
    proves_more = _proves_more(scene)
    for placed in scene.matching.new:
        if not placed.is_run:
            continue
        if not placed.case.skips and (
            _is_void(placed.case) or (_only_calls(placed.case) and not proves_more)
        ):
            found = f"`{short(placed.case.name)}` asserts nothing"
            yield suspicion("test_asserts_nothing", placed.view.path, placed.case.line, found)
        for code, line, text in placed.case.traps:
            found = f"`{short(text)}` around assertions of `{placed.case.name}`"
            yield suspicion(code, placed.view.path, line, found)


def _proves_more(scene: Scene) -> bool:
    """True when some test of the change proves something that the base did not."""
    if any(placed.is_run and placed.case.proofs for placed in scene.matching.new):
        return True
    return any(after.case.proofs > before.case.proofs for before, after in scene.matching.kept)


def _is_void(case: Case) -> bool:
    if any(item.strength > NOTHING for item in case.assertions):
        return False
    return case.is_empty or (bool(case.assertions) and not case.traps)


def _only_calls(case: Case) -> bool:
    return not case.assertions and not case.is_smoke and case.is_plain
