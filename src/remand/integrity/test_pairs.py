"""How a test of the base differs from the one of the head that takes its place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from remand.domain.text.words import word_set
from remand.integrity.changeset import Changeset, PlacedTest
from remand.integrity.comparison import FileDiff
from remand.integrity.paths import is_test_path
from remand.integrity.readers.cases import BOUNDED, EXACT, NOTHING, ParsedTest
from remand.integrity.readers.names import defined_names
from remand.integrity.readers.source import SourceFile
from remand.integrity.rules.missing_tests import (
    has_words,
    id_words,
    is_loss_explained,
    without_parameters,
)
from remand.integrity.rules.weakened_tests import is_weaker, pair_assertions

_LEVELLERS = word_set("""
sort sort_unstable sort_by sort_by_key sorted toSorted Sort SortFunc Strings Ints lower upper to_lowercase to_uppercase
to_ascii_lowercase toLowerCase toUpperCase ToLower ToUpper EqualFold eq_ignore_ascii_case strip trim TrimSpace dedup
casefold assertCountEqual
""")
"""What makes different values equal before they are compared."""
MAX_DATA = 200_000
"""Letters of a file of test data that is compared line by line."""


def leaves_out(before: str, after: str) -> bool:
    """True when the lines of a text are some of those that it had, with parts left out and nothing new in them."""
    had = [_without_spaces(line) for line in before.splitlines()]
    has = [_without_spaces(line) for line in after.splitlines()]
    if len(before) > MAX_DATA or list(filter(None, had)) == list(filter(None, has)):
        return False
    waiting = iter(filter(None, had))
    return all(any(_is_within(line, old) for old in waiting) for line in filter(None, has))


def _without_spaces(line: str) -> str:
    return "".join(line.split())


def _is_within(part: str, text: str) -> bool:
    """True when the letters of one text are in another in the same order."""
    letters = iter(text)
    return all(letter in letters for letter in part)


_VALUE = re.compile(r"""-?\b\d[\w.]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\b(?:true|false|True|False)\b""")


def is_expectation_changed(one: PlacedTest, other: PlacedTest, changes: Sequence[FileDiff]) -> bool:
    """True when a test expects something else or less; a test whose set-up alone was mended does not."""
    before, after = one.case, other.case
    if after.proofs < before.proofs or before.literals - after.literals or _has_way_past(before, after):
        return True
    if _levelling_calls(other) - before.calls or _compares_fewer_names(one, other):
        return True
    if _fails_in_fewer_places(one, other) or _gives_expectation(one, other):
        return True
    bodies = [_VALUE.sub("", case.body) for case in (before, after)]
    if not one.view.path.endswith(".py") and before.body != after.body and bodies[0] == bodies[1]:
        return True  # a row of a table whose small values, which are no literals, are others
    bounds = [item for item in after.assertions if item.strength == BOUNDED]
    if any(
        item.strength == BOUNDED and item.expectation not in {one.expectation for one in bounds}
        for item in before.assertions
    ):
        return True
    asked = {item.subject: item.text for item in before.assertions}
    if any(asked.get(item.subject, item.text) != item.text for item in after.assertions):
        return True
    if _has_values(one.view.before) and _expectations(before) - _expectations(after):
        return True
    old = {literal for item in before.assertions for literal in item.literals}
    if old - {literal for item in after.assertions for literal in item.literals}:
        return True
    return before.body != after.body and _loses_values(one, changes)


_NAME = re.compile(r"[^\W\d]\w*")
_EQUALLY_EXACT = re.compile(r"\bto(?:Be|Equal|StrictEqual)\(|\bassert(?:List|Dict)?Equal\(")


def _expectations(case: ParsedTest) -> frozenset[str]:
    """What the assertions of a test compare with, where their text says what they check."""
    items = [item for item in case.assertions if item.strength > NOTHING]
    if any(item.subject not in item.text for item in items):
        return frozenset()
    return frozenset(_EQUALLY_EXACT.sub("toEqual(", item.expectation) for item in items)


def _loses_values(one: PlacedTest, changes: Sequence[FileDiff]) -> bool:
    """True when a test had values, in its text or beside the tests of its file, that no changed file of tests has now."""
    kept = (change.content or "" for change in changes if is_test_path(change.path))
    return bool(_told_values(one, one.view.before) - _values("\n".join(kept)))


def _only_loses_values(one: PlacedTest, other: PlacedTest, changes: Sequence[FileDiff]) -> bool:
    """True when a test has less in it than it had, and values no more: it lost a row, or a field of what it compares."""
    had, has = (_own_words(one, one.view.before), _own_words(other, other.view.after))
    is_less = has <= had and _told_values(other, other.view.after) < _told_values(one, one.view.before)
    return is_less and _loses_values(one, changes)


def _has_values(source: SourceFile | None) -> bool:
    """True for the languages in which the values of tests are compared as data; runs show them in the others."""
    return source is not None and source.language in ("python", "script")


def _own_words(placed: PlacedTest, source: SourceFile | None) -> frozenset[str]:
    lines = source.lines if source else ()
    spans = source.test_spans if source and _has_values(source) else ()
    own = (
        (first, last) for _, is_test, first, last in spans if is_test and first <= placed.case.line <= last
    )
    first, last = next(own, (1, 0))
    return frozenset(_NAME.findall(_VALUE.sub("", "\n".join(lines[first - 1 : last]))))


def _told_values(placed: PlacedTest, source: SourceFile | None) -> frozenset[str]:
    """The values in a test of Python or a script, and in what belongs to no test of its file."""
    if source is None or not _has_values(source):
        return frozenset()
    others = {
        line
        for _, is_test, first, last in source.test_spans
        if is_test and not first <= placed.case.line <= last
        for line in range(first, last + 1)
    }
    lines = (line for number, line in enumerate(source.lines, start=1) if number not in others)
    return _values("\n".join(lines))


def _values(text: str) -> frozenset[str]:
    return frozenset(value.strip("'\"") for value in _VALUE.findall(text))


_NAMES = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|(\.?)\b([A-Za-z_]\w*)\b(?!\s*[(!])')
"""Texts, and the names in an expression that are not called; with a dot before those of members."""


def _compares_fewer_names(one: PlacedTest, other: PlacedTest) -> bool:
    """True for a test of Go or Rust that compared a field, a column or a variable exactly which it still has, or a field that it has no more."""
    if not one.view.path.endswith((".go", ".rs")):
        return False
    before, after = (
        {
            (bool(found[1]), found[2])
            for item in placed.case.assertions
            if item.strength >= EXACT
            for found in _NAMES.finditer(item.text)
            if found[2]
        }
        for placed in (one, other)
    )
    had = {name for _, name in after}
    return any(
        name not in had and (is_member or name in other.case.words)
        for is_member, name in before
        if after and name not in other.case.calls
    )


_FAILURES = {
    "go": re.compile(r"\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\("),
    "rust": re.compile(r"\bassert_eq!"),
}


def _fails_in_fewer_places(one: PlacedTest, other: PlacedTest) -> bool:
    """True for a test of Go or Rust that calls a function of its file which compares less than it did."""
    called = one.case.calls & other.case.calls
    before, after = (_failures_in(side) for side in (one.view.before, other.view.after))
    return any(after.get(name, before[name]) < before[name] for name in called & before.keys())


def _failures_in(source: SourceFile | None) -> dict[str, int]:
    """In how many places each function of a file of Go or Rust lets a test fail."""
    failure = _FAILURES.get(source.language) if source is not None else None
    if source is None or failure is None:
        return {}
    return {
        source.code.node_text(node.child("name")): len(failure.findall(source.code.node_text(node)))
        for node in source.code.nodes_of("function_declaration", "function_item")
    }


def _gives_expectation(one: PlacedTest, other: PlacedTest) -> bool:
    """True for a test of Go or Rust that gives a function what it expects of it, and did not."""
    given = [
        _given_names(placed, side) for placed, side in ((one, one.view.before), (other, other.view.after))
    ]
    called = {function for function, _ in given[0]}
    expected = {
        found[2]
        for item in one.case.assertions
        if item.strength >= EXACT
        for found in _NAMES.finditer(item.expectation)
    }
    return any(function in called and name in expected for function, name in given[1] - given[0])


def _given_names(placed: PlacedTest, source: SourceFile | None) -> set[tuple[str, str]]:
    """The functions that a test of Go or Rust calls, each with the names in its arguments."""
    if source is None or source.language not in ("go", "rust"):
        return set()
    code = source.code
    return {
        (code.node_text(call.child("function")), name)
        for node in code.nodes_of("function_declaration", "function_item")
        if code.node_text(node.child("name")) == placed.case.short_name
        for call in node.walk()
        if call.kind == "call_expression" and (given := call.child("arguments"))
        for name in code.words(given.start, given.stop)
    }


_LEAVES = re.compile(
    r"\b(?:continue|break|return|Skip|Skipf|SkipNow)\b|\[\w*:\w*\]|\.\.\w+\]|\.(?:take|skip|step_by|filter|\w+_while)\("
)


def _has_way_past(before: ParsedTest, after: ParsedTest) -> bool:
    """True for a test that asserts the same of fewer values: it leaves in more places, or takes a part of its rows."""
    leaves = [len(_LEAVES.findall(_VALUE.sub("", case.body))) for case in (before, after)]
    return leaves[1] > leaves[0] and before.literals == after.literals


def _levelling_calls(placed: PlacedTest) -> frozenset[str]:
    """The calls of a test that make different values equal, by themselves or in a function of its file."""
    source = placed.view.after
    if source is None or source.language not in ("go", "rust"):
        return placed.case.calls & _LEVELLERS
    code = source.code
    levelling = {
        code.node_text(node.child("name"))
        for node in code.nodes_of("function_declaration", "function_item")
        if code.calls(node.start, node.stop) & _LEVELLERS
    }
    return placed.case.calls & (_LEVELLERS | levelling)


def is_weakened(changeset: Changeset, path: str, test_id: str) -> bool:
    """True when the head's version of a test proves less, or is not there without a reason."""
    for before, after in changeset.test_pairs.kept:
        if before.is_run and before.view.change.base_path == path and is_test_id_of(before, test_id):
            return (
                not after.is_run
                or after.case.is_skipped
                or proves_less(before, after)
                or _asks_more_often(changeset, before.case, after.case)
                or _only_loses_values(before, after, changeset.comparison.changes)
                or bool((after.case.calls - before.case.calls) & _LEVELLERS)
                or _compares_fewer_names(before, after)
            )
    gone = [placed for placed in changeset.test_pairs.gone if is_test_id_of(placed, test_id)]
    return bool(gone) and not any(is_loss_explained(changeset, placed) for placed in gone)


def proves_less(before: PlacedTest, after: PlacedTest) -> bool:
    if after.case.proofs < before.case.proofs:
        return True
    old = [item for item in before.case.assertions if item.strength > NOTHING]
    new = [item for item in after.case.assertions if item.strength > NOTHING]
    return any(is_weaker(one, other) for one, other in pair_assertions(old, new)[0])


def _asks_more_often(changeset: Changeset, before: ParsedTest, after: ParsedTest) -> bool:
    """True for a test that has fewer values written out, and calls a changed product's function in more places."""
    if len(before.literals - after.literals) <= len(after.literals - before.literals):
        return False
    defined = defined_names(
        view.after
        for view in changeset.views
        if view.after is not None and view.after.tokens and not view.is_test
    )
    return any(
        after.body.count(f"{name}(") > before.body.count(f"{name}(")
        for name in before.calls & after.calls & defined
    )


def is_test_id_of(placed: PlacedTest, test_id: str) -> bool:
    """True when an id ends with the name of a test."""
    name, words = id_words(placed.case.name), id_words(without_parameters(test_id))
    return bool(name) and words[-len(name) :] == name


def is_named_in(placed: PlacedTest, test_id: str) -> bool:
    """True when an id has the name of a test in it, whatever follows: parameters, subtests, cases."""
    name = id_words(placed.case.name)
    return bool(name) and has_words(id_words(test_id), name)
