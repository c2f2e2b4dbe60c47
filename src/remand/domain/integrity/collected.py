"""The tests gates collected, base and head side by side: what is missing, and what no longer runs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from remand.domain.gates.figures import TestOutcome
from remand.domain.integrity.catalogue import listed, suspicion
from remand.domain.integrity.comparison import FileChange, Suspicion
from remand.domain.integrity.rules.lost import is_excused
from remand.domain.integrity.scene import Scene

RAN = ("passed", "failed", "error")
_PARAMETERS = re.compile(r"\[.*\]$|#\d+$")
_APART = re.compile(r"[^\w]+")


def missing(scene: Scene) -> Iterator[Suspicion]:
    """What every gate of the comparison collected less of than on the base."""
    for collected in scene.comparison.collected:
        yield from test_ids_lost(collected.base, collected.head, scene)


def test_ids_lost(
    base: Sequence[TestOutcome], head: Sequence[TestOutcome], scene: Scene
) -> tuple[Suspicion, ...]:
    """Tests of the base that the head does not collect, or skips, and that no honest change explains."""
    now = {test.id: test for test in head}
    named = Counter(plain(test.id) for test in head)
    gone = [test.id for test in base if test.id not in now]
    known = _explained(scene)
    lost = [name for name in gone if not _is_explained(name, known, base, named)]
    quiet = [
        test.id for test in base if test.outcome in RAN and test.id in now and now[test.id].outcome not in RAN
    ]
    return (
        *_told("tests_not_collected", "not collected", lost, scene),
        *_told("test_skipped", "skipped now", quiet, scene),
    )


test_ids_lost.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test


def plain(test_id: str) -> str:
    """A test's id without its parameters."""
    return _PARAMETERS.sub("", test_id)


def _is_explained(
    test_id: str, known: frozenset[str], base: Sequence[TestOutcome], named: Counter[str]
) -> bool:
    """True for a test that goes by another name or parameters now, or whose subject is gone."""
    name = plain(test_id)
    if named[name]:
        return named[name] >= sum(plain(test.id) == name for test in base)
    return words(name)[-1:] != () and any(_ends_with(words(name), words(other)) for other in known)


def words(text: str) -> tuple[str, ...]:
    """The words of an id or a name, whatever stands between them."""
    return tuple(part for part in _APART.split(text) if part)


def _ends_with(whole: tuple[str, ...], end: tuple[str, ...]) -> bool:
    return bool(end) and whole[-len(end) :] == end


def _explained(scene: Scene) -> frozenset[str]:
    """The names of tests that were renamed or moved, or went with what they tested."""
    renamed = {
        before.case.name
        for before, after in scene.matching.kept
        if after.is_run and not after.case.is_skipped
    }
    return frozenset(
        renamed | {placed.case.name for placed in scene.matching.gone if is_excused(scene, placed)}
    )


def _told(code: str, how: str, ids: Iterable[str], scene: Scene) -> Iterator[Suspicion]:
    """One suspicion for each file, as far as ids tell it."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for test_id in ids:
        groups[path_of(test_id, scene.comparison.changes)].append(test_id)
    for path, names in groups.items():
        found = f"{len(names)} {'test' if len(names) == 1 else 'tests'} {how}: {listed(names)}"
        yield suspicion(code, path, 0, found, "\n".join((code, *sorted(names))))


def path_of(test_id: str, changes: Sequence[FileChange]) -> str:
    """The changed file a test stands in; empty when it is in none of them."""
    told = words(test_id)
    for change in changes:
        name = words(change.base_path.rpartition(".")[0])
        if name and any(told[at : at + len(name)] == name for at in range(len(told) - len(name) + 1)):
            return change.base_path
    return ""
