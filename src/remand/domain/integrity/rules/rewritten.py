"""Expectations that were changed although the product was not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_expectation_path, is_test_path
from remand.domain.integrity.reading.cases import NOTHING, Assertion, Case
from remand.domain.integrity.reading.python_tree import last_name, shown
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.rules.weakened import compared
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import Placed

_CALLED = re.compile(r"(\w+)\(")
_EXPECTING = ("expect", "golden", "result", "want", "snapshot", "answer", "cases")


def rewritten(scene: Scene) -> Iterator[Suspicion]:
    """Other values expected of the same acts, in a change that leaves the product as it is."""
    if scene.has_product_change:
        return
    for before, after in scene.matching.kept:
        if before.is_run and after.is_run:
            yield from _of_test(before.case, after)
    for view in scene.views:
        if view.before and view.after and is_expectation_path(view.path) and is_test_path(view.path):
            yield suspicion(
                "expectation_rewritten", view.path, 0, "the recorded result was changed", view.after.text
            )
        elif view.before and view.after and view.is_test:
            yield from _of_constants(view.path, view.before, view.after)


def _of_test(before: Case, after: Placed) -> Iterator[Suspicion]:
    if before.act != after.case.act:
        return
    if before.body == after.case.body and len(before.literals) == len(after.case.literals):
        for value in sorted(after.case.literals - before.literals)[:1]:
            found = f"a case of `{after.case.name}` now has {short(value)}"
            yield suspicion("expectation_rewritten", after.view.path, after.case.line, found)
    old = [item for item in before.assertions if item.strength > NOTHING]
    new = [item for item in after.case.assertions if item.strength > NOTHING]
    for one, other in compared(old, new)[0]:
        if one.subject == other.subject and one.strength == other.strength and _is_rewritten(one, other):
            found = f"`{after.case.name}` expected `{short(one.text)}`, now `{short(other.text)}`"
            yield suspicion(
                "expectation_rewritten", after.view.path, other.line, found, f"{one.text}\n{other.text}"
            )


def _is_rewritten(one: Assertion, other: Assertion) -> bool:
    """True when another value is expected, and none that a snapshot file or a new helper keeps."""
    is_kept = "snapshot" in other.text.lower() and (
        "snapshot" not in one.text.lower() or "Inline" not in other.text
    )
    if _flat(one.literals) == _flat(other.literals) or is_kept:
        return False
    is_helped = set(_CALLED.findall(other.text)) - set(_CALLED.findall(one.text))
    return not (is_helped and other.literals and other.literals < one.literals)


def _flat(literals: frozenset[str]) -> frozenset[str]:
    """Values without their layout."""
    return frozenset("".join(value.split()) for value in literals)


def _of_constants(path: str, before: Source, after: Source) -> Iterator[Suspicion]:
    old, new = _expected(before), _expected(after)
    for name, (line, value) in new.items():
        if name in old and old[name][1] != value:
            yield suspicion("expectation_rewritten", path, line, f"`{name}` was changed", f"{name}={value}")


def _expected(source: Source) -> dict[str, tuple[int, str]]:
    """The values a test module writes out as what it expects."""
    found = {}
    for node in source.tree.body if source.tree else ():
        if isinstance(node, ast.Assign) and any(
            word in last_name(node.targets[0]).lower() for word in _EXPECTING
        ):
            found[last_name(node.targets[0])] = node.lineno, shown(node.value)
    return found
