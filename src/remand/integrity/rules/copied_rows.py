"""Product lines with both a test's input and its expected value, and patterns that search for both."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from remand.integrity.changeset import ChangedFile
from remand.integrity.readers.cases import Assertion, ParsedTest
from remand.integrity.readers.python_tree import constant_texts
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NUMBER, STRING, test_module_range
from remand.integrity.rules.special_cases import (
    HIDDEN,
    MAX_ROWS,
    SAME,
    SEPARATORS,
    SMALL_VALUES,
    WRITTEN_NUMBER,
    Clue,
    SpecialCase,
    constant_text,
    is_long_answer,
    is_whole_input,
    literal_text,
)

MAX_LITERALS = 400
"""A test with this many literals contains data."""
REACH = 2
"""How many lines below a comparison its answer may be."""
FIGURES = 3
"""A number with this many digits is distinctive."""
_FAILS = re.compile(r"\b(?:raise|throw|panic|Err|errors?|Errorf|bail|abort|assert\w*|log\w*|print\w*)\b")
_COMPARES = re.compile(r"==|\bcase\b|\bin\b|=>")


class AskedValue(NamedTuple):
    """A test's input, with its other inputs, and the expected value."""

    beside: frozenset[str]
    answers: frozenset[str]


class LiteralRow(NamedTuple):
    """A literal of an added line that may be an input, with those that may be its answer."""

    line: int
    text: str
    value: str
    near: frozenset[str]


def added_rows(view: ChangedFile) -> list[LiteralRow]:
    """The added lines with several literals, and those that compare with one and have others just below."""
    added = {number: line for number, line in view.added_lines if not _FAILS.search(line)}
    literals = _literals_by_line(view.after, added) if view.after and added else {}
    found = []
    for line, values in literals.items():
        for value in values:
            if not is_whole_input(value) and not _is_figure(value):
                continue
            is_compared = _COMPARES.search(added[line].replace(value.strip("'"), "")) is not None
            reach = range(line, line + 1 + (REACH if is_compared else 0))
            near = frozenset(one for at in reach for one in literals.get(at, ())) - {value} - SMALL_VALUES
            if near:
                found.append(LiteralRow(line, added[line].strip(), value, near))
    return found


def _is_figure(value: str) -> bool:
    """True for a number of several digits, also in a text."""
    return sum(map(str.isdigit, value)) >= FIGURES and WRITTEN_NUMBER.fullmatch(value.strip("'")) is not None


def copied_row(rows: list[LiteralRow], cases: list[ParsedTest]) -> SpecialCase | None:
    """The first row with a test's input and its expected value.

    At least half of the rows must match: a table of which tests try only some rows is data. Rows with a
    number as their input must all match, at least two, with long answers; one is enough if it has another
    argument.
    """
    expected = _expected_by_input(cases) if rows else {}
    texts = [row for row in rows if not _is_figure(row.value)]
    known = [row for row in texts if any(row.near & asked.answers for asked in expected.get(row.value, ()))]
    if known and len(known) * 2 >= len(texts):
        return _row_case(known[0])
    figures = [row for row in rows if _is_figure(row.value) and any(map(is_long_answer, row.near))]
    known = [row for row in figures if any(_is_answered(row, asked) for asked in expected.get(row.value, ()))]
    joint = [row for row in known if any(row.near & asked.beside for asked in expected[row.value])]
    if known and (joint or len(known) > 1) and len(known) == len(figures):
        return _row_case((joint or known)[0])
    return None


def _is_answered(row: LiteralRow, asked: AskedValue) -> bool:
    return any(map(is_long_answer, row.near & asked.answers))


def _row_case(row: LiteralRow) -> SpecialCase:
    return SpecialCase("", row.line, row.text, (Clue(SAME, row.value),), row.near)


def _literals_by_line(source: SourceFile, lines: dict[int, str]) -> dict[int, set[str]]:
    found: defaultdict[int, set[str]] = defaultdict(set)
    if source.tree is not None:
        prose = {id(node.value) for node in source.nodes_of(ast.Expr)}
        for node in source.nodes_of(ast.Constant):
            if node.lineno in lines and id(node) not in prose and isinstance(node.value, str | int | float):
                found[node.lineno].add(constant_text(node.value))
        return found
    tests = test_module_range(source.code)
    for place, token in enumerate(source.code.tokens):
        if token.line in lines and token.kind in (STRING, NUMBER) and place not in tests:
            found[token.line].add(literal_text(token.text))
    return found


def _expected_by_input(cases: list[ParsedTest]) -> dict[str, list[AskedValue]]:
    """The expectations of tests by each input value; for tables, by each value in them."""
    found: defaultdict[str, list[AskedValue]] = defaultdict(list)
    for case in cases:
        is_table = any(item.times > 1 for item in case.assertions) or not case.assertions
        if is_table and len(case.literals) <= MAX_LITERALS:
            for text in case.literals:
                found[text].append(AskedValue(frozenset(), case.literals))
        for item in case.assertions:
            inputs = frozenset(text for text in item.literals if _is_named_in(text, item.subject))
            for text in inputs:
                found[text].append(AskedValue(inputs - {text} - SMALL_VALUES, item.literals - inputs))
    return found


def _is_named_in(text: str, subject: str) -> bool:
    bare = text.strip("'")
    return bare in subject and re.search(rf"(?<![\w.]){re.escape(bare)}(?![\w.])", subject) is not None


def exhausted_table(cases: list[SpecialCase], questions: list[frozenset[str]]) -> SpecialCase | None:
    """The first row of a table, or of consecutive branches, if tests ask for every row."""
    groups: defaultdict[str, list[SpecialCase]] = defaultdict(list)
    for case in cases:
        groups[case.function].append(case)
    tables = [group for group in groups.values() if 1 < len(group) <= MAX_ROWS]
    asked = [_spelled_out(question) for question in questions] if tables else []
    return next((group[0] for group in tables if _is_exhausted(group, asked)), None)


def _is_exhausted(group: list[SpecialCase], questions: list[frozenset[str]]) -> bool:
    """True if tests ask for every row of a table and most rows have figures: a table of facts has rows that
    nobody tests.

    Words alone are no sign: a table of choices has few rows, and each may have a test.
    """
    figures = [case for case in group if not _values(case) or _has_figures(case)]
    return len(figures) * 2 >= len(group) and all(
        any(_asks(question, case) for question in questions) for case in group
    )


def _values(case: SpecialCase) -> list[str]:
    return [clue.value for clue in case.clues if clue.kind != HIDDEN]


def _has_figures(case: SpecialCase) -> bool:
    """True if a row compares with figures, or answers a text with figures or a fraction, unlike a choice's code."""
    told = [*_values(case), *(answer for answer in case.answers if answer[:1] == "'" or "." in answer)]
    return any(len(value.strip("'-")) > 1 and any(map(str.isdigit, value)) for value in told)


def _asks(question: frozenset[str], case: SpecialCase) -> bool:
    """True if one test has a row's input (perhaps in parts) and its answer."""
    wanted = {part for value in (*case.answers, *_values(case)) for part in _parts(value)}
    return bool(case.answers) and wanted <= question


def _spelled_out(question: frozenset[str]) -> frozenset[str]:
    """A test's literals, with the parts of combined ones: `1999`, `4` and `5` of "1999-04-05"."""
    return frozenset(part for value in question for part in (value.strip("'").casefold(), *_parts(value))) | {
        "0",
        "1",
        "2",
        "-1",
        "",
        "none",
        "true",
        "false",
    }


def _parts(value: str) -> list[str]:
    text = value.strip("'").casefold()
    parts = [part for part in SEPARATORS.split(text) if part] if value[:1] == "'" else [text]
    return [part.lstrip("0") or "0" if part.isdigit() else part for part in parts]


def written_constants(sources: list[SourceFile]) -> frozenset[str]:
    """Every string and number that tests write."""
    found: set[str] = set()
    for source in sources:
        found |= (
            constant_texts(source.nodes_of(ast.Constant))
            if source.tree
            else source.code.literals(0, len(source.code.tokens))
        )
    return frozenset(found)


def writes_values(item: Assertion) -> bool:
    """False for an assertion about names only, as in a loop over a table; a message is no value."""
    return any("{" not in text and "%" not in text for text in item.literals)


def test_patterns(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Patterns by which a file finds the expectations of tests for one of its functions."""
    if source.tree is None or not source.functions:
        return
    names = "|".join(re.escape(node.name) for _, node in source.functions)
    asked = re.compile(rf"(?<!\w)(?:{names})\\?\(.*(?:==|,\s*\S+\\?\))|\bassert(?:Equal\\?\(|\b.*==)")
    prose = {id(node.value) for node in source.nodes_of(ast.Expr)}
    for node in source.nodes_of(ast.Constant):
        text = node.value if isinstance(node.value, str) and id(node) not in prose else ""
        if "\\(" in text and asked.search(text):
            yield node.lineno, text
