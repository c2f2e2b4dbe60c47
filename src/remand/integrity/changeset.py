"""A comparison prepared for the rules: files parsed, tests paired, and names that the product lost."""

from __future__ import annotations

import ast
import glob
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from remand.integrity.comparison import LINK, Comparison, FileDiff
from remand.integrity.harness import is_steering_path, supports_tests
from remand.integrity.paths import (
    follow_links,
    is_collected_path,
    is_generated_path,
    is_product_path,
    is_test_path,
    language_of,
)
from remand.integrity.readers.cases import NOTHING, ParsedTest, word_similarity
from remand.integrity.readers.names import (
    defined_names,
    dropped_parameters,
    dropped_texts,
    is_vanished_text,
    name_words,
    removed_names,
    renamed_names,
    word_pattern,
)
from remand.integrity.readers.python_tree import (
    all_nodes,
    fingerprint,
    without_docstring,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NAME, BracketedCode, test_module_range
from remand.integrity.suspicions import Suspicion


class ChangedFile(NamedTuple):
    """One changed file with its two sides; a side is None if it has no text."""

    change: FileDiff
    before: SourceFile | None
    after: SourceFile | None

    @property
    def path(self) -> str:
        return self.change.path

    @property
    def is_test(self) -> bool:
        """True if it is, or was, a test, or lies beside tests."""
        return any(side is not None and side.is_test for side in (self.before, self.after))

    @property
    def has_code_change(self) -> bool:
        """True if the code differs, not only comments or layout."""
        if self.before is None or self.after is None:
            return True
        return _code_fingerprint(self.before) != _code_fingerprint(self.after)

    @property
    def has_product_change(self) -> bool:
        """True if the code differs outside the tests that Rust keeps in the same file."""
        if self.before is None or self.after is None or not self.after.is_code:
            return self.has_code_change
        return self.has_code_change and _product_fingerprint(self.before) != _product_fingerprint(self.after)

    @property
    def added_lines(self) -> list[tuple[int, str]]:
        """The lines of the head that the base does not have, with their numbers."""
        had = set(self.before.lines) if self.before else set()
        lines = self.after.lines if self.after else []
        return [(number, line) for number, line in enumerate(lines, 1) if line not in had]

    def find_added(self, read: Callable[[SourceFile], Iterable[tuple[int, str]]]) -> list[tuple[int, str]]:
        """What a reader finds on the head, as line and text, without texts that it finds on the base."""
        found = list(read(self.after)) if self.after else []
        had = {text for _, text in read(self.before)} if self.before and found else set()
        return [(line, text) for line, text in found if text not in had]


class PlacedTest(NamedTuple):
    """A test with its file, on one side."""

    view: ChangedFile
    case: ParsedTest
    is_run: bool
    """True if a runner collects the file and the test in it."""


def _code_fingerprint(source: SourceFile) -> object:
    if source.tree is not None:
        return fingerprint(all_nodes(without_docstring(source.tree.body)))
    if source.tokens:
        return tuple(token.text for token in source.code.tokens)
    return source.text


def _product_fingerprint(source: SourceFile) -> object:
    """Equal for code that does the same under other variable names and docstrings.

    A decorator may read the docstring of the function that it decorates, and a name beside a dot or a colon
    may be visible outside, so these are kept.
    """
    if source.tree is not None:
        return _canonical_python(source)
    return _canonical_tokens(source.code) if source.tokens else source.text


def _canonical_python(source: SourceFile) -> list[str]:
    parts = all_nodes(without_docstring(source.tree.body)) if source.tree else []
    bodies = [node.body for _, node in source.functions if not node.decorator_list]
    prose = {id(body[0]) for body in bodies if len(without_docstring(body)) < len(body)}
    texts = {id(node.value) for node in source.nodes_of(ast.Expr) if id(node) in prose}
    given = {node.id for node in source.nodes_of(ast.Name) if isinstance(node.ctx, ast.Store)}
    inner = {
        part.id for _, node in source.functions for part in all_nodes(node.body) if isinstance(part, ast.Name)
    }
    order: dict[str, str] = {}
    return [
        order.setdefault(part.id, f"_{len(order)}")
        if isinstance(part, ast.Name) and part.id in given & inner
        else fingerprint([part])
        for part in parts
        if id(part) not in prose | texts
    ]


def _canonical_tokens(code: BracketedCode) -> list[str]:
    tests = test_module_range(code)
    places = [place for place in range(len(code.tokens)) if place not in tests]
    order: dict[str, str] = {}

    def rename(text: str) -> str:
        return order.setdefault(text, f"_{len(order)}")

    found = []
    for place in places:
        text = code.text(place)
        if text[:1] == "`":
            text = _INSERTED.sub(lambda match: "${" + rename(match[1]), text)
        found.append(rename(text) if _is_variable(code, place) else text)
    return found


_INSERTED = re.compile(r"\$\{(\w+)(?=\})")


def _is_variable(code: BracketedCode, place: int) -> bool:
    """True for a name that is invisible outside: not of a member, key, type or call."""
    is_word = code.kind(place) == NAME and code.text(place)[:1].islower()
    is_inner = code.text(place - 1) not in (".", "?.", "::", "{", ",")
    return is_word and is_inner and code.text(place + 1) not in (":", "(", "!", "::", "}")


SIMILAR_TESTS = 0.6
SAME_TEST = 0.8
"""The least similarity of a renamed test in another file."""
SAME_GROUP = 0.25
"""The least similarity of a test in the same group with the same expectation."""
MAX_TEST_PAIRS = 50_000


class PairedTests(NamedTuple):
    """The tests of both sides, paired."""

    kept: list[tuple[PlacedTest, PlacedTest]]
    """Tests that ran on the base, and asserting functions beside tests, each with its counterpart."""
    gone: list[PlacedTest]
    """Tests that ran on the base and have no counterpart."""
    new: list[PlacedTest]
    """Tests of the head that are no counterpart."""


_PAIR_KEYS: tuple[Callable[[PlacedTest], Hashable], ...] = (
    lambda placed: (placed.view.path, placed.case.name),
    lambda placed: placed.case.name if placed.is_run else None,
    lambda placed: placed.case.body if len(placed.case.words) > 2 else None,
    # The same test inside other classes or descriptions.
    lambda placed: (placed.view.path, placed.case.short_name) if placed.is_run else None,
)
"""The keys by which tests are paired, in this order: file and name, name, body, short name. A key of None matches nothing."""


def pair_tests(base_cases: Sequence[PlacedTest], head_cases: Sequence[PlacedTest]) -> PairedTests:
    """Pairs the tests of base and head: by file and name, by name, by body, by similarity."""
    base = list(base_cases)
    head = list(head_cases)
    kept: list[tuple[PlacedTest, PlacedTest]] = []
    for key in _PAIR_KEYS:
        base, head = _pair_by_key(base, head, key, kept)
    base, head = _pair_by_similarity(base, head, kept)
    base, head = _pair_by_expectation(base, head, kept)
    return PairedTests(kept, [placed for placed in base if placed.is_run], head)


def _pair_by_key(
    base: list[PlacedTest],
    head: list[PlacedTest],
    key: Callable[[PlacedTest], Hashable],
    kept: list[tuple[PlacedTest, PlacedTest]],
) -> tuple[list[PlacedTest], list[PlacedTest]]:
    """Pairs tests with the same key; returns what is left of both sides."""
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
    """Pairs renamed and rewritten tests: most similar first, same file first."""
    if len(base) * len(head) > MAX_TEST_PAIRS:
        return base, head
    heirs = _heirs(base, head)
    scored = [
        (
            word_similarity(one.case.words, other.case.words)
            + (one.view is other.view) * 0.1
            + (heirs.get(at) == place) * 0.1,
            at,
            place,
        )
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


def _heirs(base: list[PlacedTest], head: list[PlacedTest]) -> dict[int, int]:
    """For each test of the base, by index, the only new test of its file whose name continues its name.

    Several are a split.
    """
    found: dict[int, int] = {}
    for at, one in enumerate(base):
        starts = (f"{one.case.short_name}_", f"{one.case.short_name} ")
        heirs = [
            place
            for place, other in enumerate(head)
            if other.view is one.view and other.case.short_name.startswith(starts)
        ]
        if len(heirs) == 1:
            found[at] = heirs[0]
    return found


def _pair_by_expectation(
    base: list[PlacedTest], head: list[PlacedTest], kept: list[tuple[PlacedTest, PlacedTest]]
) -> tuple[list[PlacedTest], list[PlacedTest]]:
    """Pairs tests of one group that were rewritten for another interface and expect the same values."""
    left, taken = [], set()
    for one in base:
        group = one.case.name.rpartition(" › ")[0]
        found = [
            (word_similarity(one.case.words, other.case.words), -place)
            for place, other in enumerate(head)
            if one.is_run
            and group
            and place not in taken
            and other.is_run
            and not other.case.is_skipped
            and other.view is one.view
            and other.case.name.rpartition(" › ")[0] == group
            and _expects_as_much(one.case, other.case)
        ]
        score, place = max(found, default=(0.0, 0))
        if score >= SAME_GROUP:
            taken.add(-place)
            kept.append((one, head[-place]))
        else:
            left.append(one)
    return left, [placed for place, placed in enumerate(head) if place not in taken]


def _expects_as_much(one: ParsedTest, other: ParsedTest) -> bool:
    """True if a test expects all that another does, from something that both call by the same name."""
    old, new = (
        Counter(item.expectation for item in case.assertions if item.strength > NOTHING)
        for case in (one, other)
    )
    subjects = (
        set(re.findall(r"[A-Za-z_]\w*", " ".join(item.subject for item in case.assertions)))
        for case in (one, other)
    )
    return bool(old) and old <= new and bool(set.intersection(*subjects))


COVERED_SHARE = 0.8
"""The share of a test's expected values that other tests must expect."""
SPLIT_SHARE = 0.5
"""The same share for tests whose names continue its name."""
MIN_WORD = 5
MIN_MERGED = 4
"""The least number of values by which a table is known to have taken other tests over."""


def mentions_any(placed: PlacedTest, names: frozenset[str]) -> bool:
    """True if a test mentions one of the names."""
    words = placed.case.words | placed.case.class_words
    return bool(names) and any(word in names or word.strip("'\"`") in names for word in words)


def is_named_after(placed: PlacedTest, names: frozenset[str]) -> bool:
    """True if a test's name contains all words of one of the names, at least as beginnings of its words."""
    words = name_words(placed.case.name)
    for name in names:
        asked = name_words(name)
        is_telling = any(len(word) >= MIN_WORD for word in asked)
        if is_telling and all(any(one.startswith(word) for one in words) for word in asked):
            return True
    return False


def is_split_up(placed: PlacedTest, matching: PairedTests) -> bool:
    """True if several new tests of the file continue a removed test's name, or their class has it, and prove as much."""
    asked = name_words(placed.case.short_name)[1:]
    successors = [
        other.case
        for other in matching.new
        if other.is_run
        and not other.case.is_skipped
        and other.view is placed.view
        and (
            other.case.short_name.startswith(placed.case.short_name)
            or (len(asked) > 1 and name_words(other.case.name.rpartition(" › ")[0])[1:] == asked)
        )
    ]
    if len(successors) < 2 or sum(case.proofs for case in successors) < placed.case.proofs:
        return False
    values = frozenset(value for case in successors for value in case.literals)
    return _is_covered(
        placed, values, frozenset(name for case in successors for name in case.calls), SPLIT_SHARE
    )


def are_tests_replaced(
    matching: PairedTests, vanished: frozenset[str], is_vanished_text: Callable[[str], bool]
) -> bool:
    """True if other tests gained at least as many proofs as were removed, about the same values."""
    gone = [placed for placed in matching.gone if not mentions_any(placed, vanished)]
    gained = [placed for placed in matching.new if placed.is_run and not placed.case.is_skipped]
    proofs = sum(placed.case.proofs for placed in gained)
    for before, after in matching.kept:
        if after.is_run and after.case.proofs > before.case.proofs:
            proofs += after.case.proofs - before.case.proofs
            gained.append(after)
    if proofs < sum(placed.case.proofs for placed in gone):
        cases = [placed.case for placed in gone]
        tables = [(one.case, cases) for one in gained]
        tables += [(after.case, [before.case, *cases]) for before, after in matching.kept if after.is_run]
        return any(_is_merger(table, rows) for table, rows in tables)
    values = frozenset(value for placed in gained for value in placed.case.literals)
    calls = frozenset(name for placed in gained for name in placed.case.calls)
    for helper in (placed.case for placed in matching.new if not placed.is_run):
        if helper.short_name in calls:
            values |= helper.literals
            calls |= helper.calls
    values |= {value for placed in gone for value in placed.case.literals if is_vanished_text(value)}
    return all(_is_covered(placed, values, calls, COVERED_SHARE) for placed in gone)


def _is_merger(table: ParsedTest, rows: Sequence[ParsedTest]) -> bool:
    """True if a test asks for every value of several others by the same calls, as in a table of what each of them looped over."""
    values = frozenset(value for case in rows for value in case.literals if "%" not in value)
    return (
        len(values) >= MIN_MERGED
        and not table.is_skipped
        and values <= table.literals
        and table.proofs >= max(case.proofs for case in rows)
        and all(case.calls <= table.calls for case in rows)
    )


def _is_covered(placed: PlacedTest, values: frozenset[str], calls: frozenset[str], share: float) -> bool:
    asked = frozenset(value for item in placed.case.assertions for value in item.literals)
    is_table = any(item.times > 1 for item in placed.case.assertions)
    literals = placed.case.literals if is_table or not asked else asked
    has_literals = not literals or len(literals & values) >= share * len(literals)
    return has_literals and (not placed.case.calls or bool(placed.case.calls & calls))


_DATA = (".html", ".css", ".scss", ".sql", ".csv", ".xml", ".txt", ".j2", ".tmpl", ".graphql", ".proto")
MAX_READ = 8 << 20
"""Limit of characters read for one change, both sides together."""
MAX_PARSED = 30
"""How many unchanged test files are parsed for what they expect."""


def _support_patterns(comparison: Comparison) -> Iterator[str]:
    """The changed files that serve tests alone on both sides: one of the product does not become one of its tests."""
    for change in comparison.changes:
        sides = [(change.base_path, change.before), (change.path, change.content)]
        known = [(path, text) for path, text in sides if text is not None]
        if known and all(supports_tests(path, text) for path, text in known):
            yield from (glob.escape(path) for path, _ in known)


class Changeset:
    """All changes of a comparison, and what follows from all of them together."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.views: list[ChangedFile] = []
        self.unread = 0
        """How many files were left unread because the change is too large."""
        self.links = dict(comparison.links) | {
            change.path: change.after or "" for change in comparison.changes if change.mode == LINK
        }
        """The target of every link of the head by its path."""
        self.test_patterns = (*comparison.test_patterns, *_support_patterns(comparison))
        """The comparison's own, and the files that serve tests outside of their folders."""
        left = MAX_READ
        for change in comparison.changes:
            left -= len(change.before or "") + len(change.content or "")
            self.unread += left < 0
            is_read = left >= 0
            patterns = self.test_patterns
            sides = (change.base_path, change.before), (change.path, change.content)
            before, after = (
                SourceFile(path, text, patterns)
                if is_read and text is not None and not self._is_alias(change)
                else None
                for path, text in sides
            )
            self.views.append(ChangedFile(change, before, after))

    def _is_alias(self, change: FileDiff) -> bool:
        """True for a new link to a file that the same rules read under its own path."""
        if change.mode != LINK or change.before is not None:
            return False
        patterns = self.test_patterns
        here, there = (
            (language_of(path), is_test_path(path, patterns), is_steering_path(path))
            for path in (change.path, follow_links(change.path, self.links).path)
        )
        return here == there

    @cached_property
    def code_views(self) -> list[ChangedFile]:
        """The changed files that are code on the head."""
        return [view for view in self.views if view.after is not None and view.after.is_code]

    @cached_property
    def base_tests(self) -> tuple[PlacedTest, ...]:
        """All tests of the base in changed files."""
        return tuple(self._placed_tests(lambda view: view.before))

    @cached_property
    def head_tests(self) -> tuple[PlacedTest, ...]:
        """All tests of the head in changed files."""
        return tuple(self._placed_tests(lambda view: view.after))

    def _placed_tests(self, side: Callable[[ChangedFile], SourceFile | None]) -> Iterator[PlacedTest]:
        patterns = self.comparison.test_patterns
        for view in self.views:
            source = side(view)
            if source is None or not (view.is_test or source.language == "rust"):
                continue
            is_found = is_collected_path(source.path, patterns)
            for case in source.tests:
                yield PlacedTest(view, case, is_found and case.is_collected)

    @cached_property
    def test_pairs(self) -> PairedTests:
        """The tests of both sides, paired."""
        return pair_tests(self.base_tests, self.head_tests)

    @cached_property
    def running_bodies(self) -> frozenset[str]:
        """The bodies of all tests that run on the head."""
        return frozenset(
            placed.case.body for placed in self.head_tests if placed.is_run and placed.case.proofs
        )

    @cached_property
    def unchanged_tests(self) -> tuple[SourceFile, ...]:
        """Unchanged test files, as far as they were read; each is parsed at first use."""
        patterns = self.comparison.test_patterns
        return tuple(SourceFile(one.path, one.text, patterns) for one in self.comparison.unchanged)

    def tests_with(self, words: set[str]) -> list[SourceFile]:
        """The changed test files of both sides, and the unchanged ones that contain most of the words.

        Without words, only changed ones.
        """
        if not words:
            return []
        sources = [side for view in self.views for side in (view.before, view.after) if side]
        searched = re.compile("|".join(map(word_pattern, words)))
        # Digits may be grouped.
        counted = [
            (len(set(searched.findall(one.text.replace("_", "")))), one) for one in self.unchanged_tests
        ]
        kin = sorted((pair for pair in counted if pair[0]), key=lambda pair: -pair[0])
        sources += (one for _, one in kin[:MAX_PARSED])
        return [source for source in sources if source.is_test or source.language == "rust"]

    def is_said_elsewhere(self, case: ParsedTest) -> bool:
        """True if an unchanged file has the same test."""
        return any(
            other.name == case.name
            and other.is_collected
            and not other.is_skipped
            and other.proofs >= case.proofs
            and (other.body == case.body or word_similarity(other.words, case.words) >= SAME_TEST)
            for source in self.unchanged_tests
            if case.short_name in source.text
            and is_collected_path(source.path, self.comparison.test_patterns)
            for other in source.tests
        )

    @cached_property
    def are_lost_tests_replaced(self) -> bool:
        """True if other tests prove what the removed tests proved."""
        sources = self._product_sources
        return are_tests_replaced(
            self.test_pairs, self.vanished_names, lambda text: is_vanished_text(text, *sources)
        )

    @cached_property
    def has_product_change(self) -> bool:
        """True if anything but tests, comments and prose differs."""
        return any(self._is_product(view) and view.has_product_change for view in self.views)

    def _is_product(self, view: ChangedFile) -> bool:
        if is_test_path(view.path, self.test_patterns) or is_generated_path(view.path):
            return False
        return language_of(view.path) != "" or view.path.endswith(_DATA) or view.change.is_binary

    @cached_property
    def vanished_names(self) -> frozenset[str]:
        """The names that the product defined on the base and no longer defines, not even renamed."""
        before, after = self._product_sources
        gone = defined_names(before) - defined_names(after)
        names = gone - renamed_names(gone, before, after) if gone else frozenset()
        pairs = [(view.before, view.after) for view in self.views if is_product_path(view.change.base_path)]
        return names | dropped_parameters(before, after) | dropped_texts(pairs)

    @cached_property
    def fully_removed_names(self) -> frozenset[str]:
        """Vanished names of which no trace is left, and parameters that no function takes any more."""
        before, after = self._product_sources
        return removed_names(self.vanished_names, before, after) | dropped_parameters(before, after)

    @cached_property
    def _product_sources(self) -> tuple[list[SourceFile], list[SourceFile]]:
        """The product's own files among the changed ones, on the base and on the head."""
        return (
            [view.before for view in self.views if view.before and is_product_path(view.before.path)],
            [view.after for view in self.views if view.after and is_product_path(view.after.path)],
        )

    @cached_property
    def own_packages(self) -> frozenset[str]:
        """The names under which the project's own modules are imported."""
        paths = self.comparison.paths or tuple(view.path for view in self.views)
        found: set[str] = set()
        for path in paths:
            if path.endswith(".py") and not is_test_path(path):
                parts = path.removesuffix(".py").split("/")
                found.add(parts[1] if parts[0] in ("src", "lib", "python") and len(parts) > 1 else parts[0])
        return frozenset(found - {"setup", "docs", "scripts", "conftest"})


Rule = Callable[[Changeset], Iterator[Suspicion]]
"""Searches the whole change for one kind of suspicion."""
