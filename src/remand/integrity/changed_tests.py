"""Changed files with both sides, the tests in them, and which test of the head is which of the base."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from remand.integrity.comparison import FileDiff
from remand.integrity.readers.cases import ParsedTest, word_similarity
from remand.integrity.readers.python_tree import all_nodes, fingerprint, without_docstring
from remand.integrity.readers.source import SourceFile


class ChangedFile(NamedTuple):
    """One changed file with its two sides; None where there is no text."""

    change: FileDiff
    before: SourceFile | None
    after: SourceFile | None

    @property
    def path(self) -> str:
        return self.change.path

    @property
    def is_test(self) -> bool:
        """True when it is, or was, a test or lies beside tests."""
        return any(side is not None and side.is_test for side in (self.before, self.after))

    @property
    def has_code_change(self) -> bool:
        """True when the code differs, and not its comments or layout alone."""
        if self.before is None or self.after is None:
            return True
        return _code_fingerprint(self.before) != _code_fingerprint(self.after)

    @property
    def added_lines(self) -> list[tuple[int, str]]:
        """The lines of the head that the base has not, with their numbers."""
        had = set(self.before.lines) if self.before else set()
        lines = self.after.lines if self.after else []
        return [(number, line) for number, line in enumerate(lines, 1) if line not in had]

    def find_added(self, read: Callable[[SourceFile], Iterable[tuple[int, str]]]) -> list[tuple[int, str]]:
        """The lines and texts that a reader finds on the head, without the texts it finds on the base."""
        had = {text for _, text in read(self.before)} if self.before else set()
        return [(line, text) for line, text in read(self.after) if text not in had] if self.after else []


class PlacedTest(NamedTuple):
    """A test with the file it stands in, on one side."""

    view: ChangedFile
    case: ParsedTest
    is_run: bool
    """True when a runner finds both the file and the test in it."""


def _code_fingerprint(source: SourceFile) -> object:
    if source.tree is not None:
        return fingerprint(all_nodes(without_docstring(source.tree.body)))
    if source.tokens:
        return tuple(token.text for token in source.code.tokens)
    return source.text


SIMILAR_TESTS = 0.6
MAX_PAIRS = 50_000


class PairedTests(NamedTuple):
    """The tests of both sides, sorted out."""

    kept: list[tuple[PlacedTest, PlacedTest]]
    """Those of the base that ran, and asserting functions beside them, each with its counterpart."""
    gone: list[PlacedTest]
    """Those of the base that ran and have none."""
    new: list[PlacedTest]
    """Those of the head that are no counterpart."""


_PAIR_KEYS: tuple[Callable[[PlacedTest], Hashable], ...] = (
    lambda placed: (placed.view.path, placed.case.name),
    lambda placed: placed.case.name if placed.is_run else None,
    lambda placed: placed.case.body if len(placed.case.words) > 2 else None,
    # The same test with other classes or descriptions around it.
    lambda placed: (placed.view.path, placed.case.short_name) if placed.is_run else None,
)
"""By what tests are paired, one after the other: file and name, name, body, short name. None pairs with nothing."""


def pair_tests(base_cases: Sequence[PlacedTest], head_cases: Sequence[PlacedTest]) -> PairedTests:
    """Pairs the tests of base and head: by file and name, by name, by body, by similarity."""
    base = list(base_cases)
    head = list(head_cases)
    kept: list[tuple[PlacedTest, PlacedTest]] = []
    for key in _PAIR_KEYS:
        base, head = _pair_by_key(base, head, key, kept)
    base, head = _pair_by_similarity(base, head, kept)
    return PairedTests(kept, [placed for placed in base if placed.is_run], head)


def _pair_by_key(
    base: list[PlacedTest],
    head: list[PlacedTest],
    key: Callable[[PlacedTest], Hashable],
    kept: list[tuple[PlacedTest, PlacedTest]],
) -> tuple[list[PlacedTest], list[PlacedTest]]:
    """Moves the pairs that share a key to the kept ones; returns what is left of both sides."""
    waiting: defaultdict[Hashable, list[PlacedTest]] = defaultdict(list)
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


def _pair_by_similarity(
    base: list[PlacedTest], head: list[PlacedTest], kept: list[tuple[PlacedTest, PlacedTest]]
) -> tuple[list[PlacedTest], list[PlacedTest]]:
    """As above, for tests that were renamed and rewritten: the most alike first, in one file before others."""
    if len(base) * len(head) > MAX_PAIRS:
        return base, head
    scored = [
        (word_similarity(one.case.words, other.case.words) + (one.view is other.view) * 0.1, at, place)
        for at, one in enumerate(base)
        for place, other in enumerate(head)
        if one.case.words
        and (other.is_run or not one.is_run or other.case.assertions)
        and one.view.change.base_path.rpartition(".")[2] == other.view.path.rpartition(".")[2]
    ]
    taken_base: set[int] = set()
    taken_head: set[int] = set()
    for score, at, place in sorted(scored, reverse=True):
        if score < SIMILAR_TESTS:
            break
        if at not in taken_base and place not in taken_head:
            taken_base.add(at)
            taken_head.add(place)
            kept.append((base[at], head[place]))
    return (
        [placed for at, placed in enumerate(base) if at not in taken_base],
        [placed for place, placed in enumerate(head) if place not in taken_head],
    )


COVERED_SHARE = 0.8
"""How many of the values a test asked for must be asked for elsewhere."""
SPLIT_SHARE = 0.5
"""The same for tests that carry its name on."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
MIN_WORD = 5


def mentions_any(placed: PlacedTest, names: frozenset[str]) -> bool:
    """True when a test mentions one of some names."""
    words = placed.case.words
    return bool(names) and any(word in names or word.strip("'\"`") in names for word in words)


def is_named_after(placed: PlacedTest, names: frozenset[str]) -> bool:
    """True when the name of a test has all the words of one of some names, each at least as a beginning."""
    name_words = _name_words(placed.case.name)
    for name in names:
        asked = _name_words(name)
        is_telling = any(len(word) >= MIN_WORD for word in asked)
        if is_telling and all(any(one.startswith(word) for one in name_words) for word in asked):
            return True
    return False


def _name_words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def is_split_up(placed: PlacedTest, matching: PairedTests) -> bool:
    """True when several new tests of the file carry the name of one that is gone, and prove as much together."""
    successors = [
        other.case
        for other in matching.new
        if other.is_run
        and not other.case.is_skipped
        and other.view is placed.view
        and other.case.short_name.startswith(placed.case.short_name)
    ]
    if len(successors) < 2 or sum(case.proofs for case in successors) < placed.case.proofs:
        return False
    values = frozenset(value for case in successors for value in case.literals)
    return _is_covered(
        placed, values, frozenset(name for case in successors for name in case.calls), SPLIT_SHARE
    )


def are_tests_replaced(matching: PairedTests, vanished: frozenset[str]) -> bool:
    """True when other tests gained at least as many proofs as are gone, about the same values."""
    gone = [placed for placed in matching.gone if not mentions_any(placed, vanished)]
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
    return all(_is_covered(placed, values, calls, COVERED_SHARE) for placed in gone)


def _is_covered(placed: PlacedTest, values: frozenset[str], calls: frozenset[str], share: float) -> bool:
    asked = frozenset(value for item in placed.case.assertions for value in item.literals)
    is_table = any(item.times > 1 for item in placed.case.assertions)
    literals = placed.case.literals if is_table or not asked else asked
    is_told = not literals or len(literals & values) >= share * len(literals)
    return is_told and (not placed.case.calls or bool(placed.case.calls & calls))
