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
Words = tuple[str, ...]


def missing(scene: Scene) -> Iterator[Suspicion]:
    """What every gate of the comparison collected less of than on the base."""
    for collected in scene.comparison.collected:
        yield from ids_lost(collected.base, collected.head, scene)


def ids_lost(base: Sequence[TestOutcome], head: Sequence[TestOutcome], scene: Scene) -> Iterator[Suspicion]:
    """Tests of the base that the head does not collect, or skips, and that no honest change explains."""
    now = {test.id: test.outcome for test in head}
    gone = [test.id for test in base if test.id not in now]
    lost = list(_unexplained(gone, base, head, scene)) if gone else []
    quiet = [test.id for test in base if test.outcome in RAN and now.get(test.id, RAN[0]) not in RAN]
    yield from _told("tests_not_collected", "not collected", lost, scene)
    yield from _told("test_skipped", "skipped now", quiet, scene)


def plain(test_id: str) -> str:
    """A test's id without its parameters."""
    return _PARAMETERS.sub("", test_id)


def words(text: str) -> Words:
    """The words of an id or a name, whatever stands between them."""
    return tuple(part for part in _APART.split(text) if part)


def _unexplained(
    gone: Iterable[str], base: Sequence[TestOutcome], head: Sequence[TestOutcome], scene: Scene
) -> Iterator[str]:
    """Tests that do not go by another name or other parameters now, and whose subject is still there."""
    had = Counter(plain(test.id) for test in base)
    has = Counter(plain(test.id) for test in head)
    known = Names(_explained(scene))
    for test_id in gone:
        name = plain(test_id)
        if has[name] < had[name] and (has[name] or not known.end(name)):
            yield test_id


class Names:
    """Names of tests, found again at the end of ids."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_last: defaultdict[str, list[Words]] = defaultdict(list)
        for name in names:
            told = words(name)
            if told:
                self._by_last[told[-1]].append(told)

    def end(self, test_id: str) -> bool:
        """True when an id ends with one of the names."""
        told = words(test_id)
        return any(told[-len(name) :] == name for name in self._by_last.get(told[-1], ())) if told else False


def _explained(scene: Scene) -> Iterator[str]:
    """The names of tests that were renamed or moved, or went with what they tested."""
    for before, after in scene.matching.kept:
        if before.is_run and after.is_run and not after.case.is_skipped:
            yield before.case.name
    for placed in scene.matching.gone:
        if is_excused(scene, placed):
            yield placed.case.name


def _told(code: str, how: str, ids: Iterable[str], scene: Scene) -> Iterator[Suspicion]:
    """One suspicion for each file, as far as ids tell it."""
    files = Files(scene.comparison.changes)
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for test_id in ids:
        groups[files.of(test_id)].append(test_id)
    for path, names in groups.items():
        found = f"{len(names)} {'test' if len(names) == 1 else 'tests'} {how}: {listed(names)}"
        yield suspicion(code, path, 0, found, "\n".join((code, *sorted(names))))


class Files:
    """Changed files, found again in the ids of the tests in them."""

    def __init__(self, changes: Iterable[FileChange]) -> None:
        self._paths = {words(change.base_path.rpartition(".")[0]): change.base_path for change in changes}

    def of(self, test_id: str) -> str:
        """The changed file a test stands in; empty when it is in none of them."""
        told = words(test_id)[:40]
        for start in range(len(told)):
            for stop in range(len(told), start, -1):
                if told[start:stop] in self._paths:
                    return self._paths[told[start:stop]]
        return ""
