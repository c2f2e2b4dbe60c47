"""Tests whose expected values differ from what they were: one that passes all the same compares nothing, or less.

Only values that are written out and compared exactly are altered: beside `==`, in `assertEqual` and in `toBe` and the like,
in what helpers of the tests are given beside a result, and in rows of tables that end there.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from remand.domain.gate.gate import WatchedTest
from remand.domain.text.words import word_set
from remand.integrity.altered_inputs import (
    WORD,
    Watched,
    alter_word,
    find_mended,
    is_braced_path,
    name_in_file,
)
from remand.integrity.changeset import ChangedFile, Changeset
from remand.integrity.comparison import Comparison
from remand.integrity.cross_runs import is_new_or_changed
from remand.integrity.general_paths import line_starts, python_range
from remand.integrity.mutants import Edit, replace_parts
from remand.integrity.paths import is_collected_path, is_test_path
from remand.integrity.readers.compared_values import HELPER_NAME, compared_values
from remand.integrity.readers.python_tree import child_nodes, walk_tree
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import BracketedCode, Node, test_module_range
from remand.integrity.rules.missing_tests import id_words, without_parameters
from remand.integrity.suspicions import Suspicion, quote_names, suspicion

_EXACT = word_set(
    "toBe toEqual toStrictEqual toHaveLength assertEqual assertListEqual assertDictEqual assertIs"
)
_SERVES_TESTS = re.compile(r"test|spec|helper|support|util|fixture|mock|expect|assert", re.IGNORECASE)
"""The modules that helpers of tests come from; a function of the product that a test calls asserts nothing for it."""
_OWN = re.compile(r"assert(?!Equal|ListEqual|DictEqual|Is$)[A-Z]\w*|expect|assertRaises\w*|check_\w*")
"""Assertions of the runners that are not exact, and programs that are called."""
_SUFFIX = r"(?:_?[iuf](?:\d+|size))?"
"""What tells the type of a number in Rust."""
_NUMBER = re.compile(rf"([\d_]*)(\d)((?:\.\d*)?{_SUFFIX})")
_HEX = re.compile(rf"(0x[\da-f_]*)([\da-f])({_SUFFIX})", re.IGNORECASE)
_TRUTHS = {"True": "False", "False": "True", "true": "false", "false": "true"}
_OPAQUE = (
    "call_expression",
    "new_expression",
    "member_expression",
    "subscript_expression",
    "template_string",
)
_FUNCTIONS = ("arrow_function", "function_expression", "function_declaration", "method_definition")
_BRANCHES = ("if_statement", "if_expression")
_LISTS = ("literal_value", "array_expression", "token_tree")
_CASES = ("expression_case", "type_case", "communication_case", "default_case", "match_arm")
_NOTHING = word_set('"" `` 0 false')
"""What rows of tables have where they expect an error."""
_LITERALS = ("string", "number", "true", "false")


class AlteredFile(NamedTuple):
    """A file of tests with other expected values."""

    path: str
    tests: bytes
    """Its tests expect something else."""
    names: frozenset[str]
    """The tests that do."""
    beside: bytes
    """New functions beside its tests expect something else; empty if none do."""
    functions: tuple[str, ...]


class _Place(NamedTuple):
    start: int
    stop: int
    line: int
    text: str
    owner: str = ""
    """The test it belongs to, where its line does not say that."""


HALVES = (0, 1)
"""In Go and Rust the first half of a test's lines with expected values is altered by itself, and the second."""


def alter_expectations(
    comparison: Comparison, unchanged: Mapping[str, str] | None = None
) -> tuple[AlteredFile, ...]:
    """The changed files of tests with other expected values, and unchanged ones whose tests the change mended."""
    found = [_alter_file(view) for view in Changeset(comparison).views]
    for path, text in (unchanged or {}).items():
        source = SourceFile(path, text)
        found.append(alter_file(source, source))
    return tuple(one for one in found if one is not None)


def alter_halves(
    altered: Sequence[AlteredFile], texts: Mapping[str, str], half: int
) -> tuple[AlteredFile, ...]:
    """The files of Go and Rust among some with one half of each test altered; `texts` are these files as they are."""
    found = []
    for file in altered:
        source = SourceFile(file.path, texts.get(file.path, ""))
        if not is_braced_path(file.path):
            continue
        edits, names = [], set()
        for name, places in _rows(source).items():
            lines = sorted({place.line for place in places})
            chosen = set(lines[: len(lines) // 2] if half == HALVES[0] else lines[len(lines) // 2 :])
            if name in file.names and len(lines) > 1:
                edits += [_edit(place) for place in places if place.line in chosen]
                names.add(name)
        if edits:
            tests = replace_parts(source.text, edits)
            found.append(AlteredFile(source.path, tests, frozenset(names), b"", ()))
    return tuple(found)


def _rows(source: SourceFile) -> Mapping[str, list[_Place]]:
    """The values that each test compares with, other than those of rows that may expect nothing and of branches."""
    code, found = source.code, defaultdict(list)
    for value in compared_values(code, source.language) if source.language in ("go", "rust") else ():
        if code.text(value.place) in _NOTHING or not _stands_alone(code, value.place):
            continue
        start, stop = code.byte_range(range(value.place, value.place + 1))
        found[value.function].append(
            _Place(start, stop, code.line(value.place), code.text(value.place), value.function)
        )
    return found


def _stands_alone(code: BracketedCode, at: int) -> bool:
    """True for a value outside of branches that some machines alone take, and that its row has only once."""
    around = list(code.root.find(at).ancestors()) if code.root else []
    if any(
        above.kind in _CASES or (above.kind in _BRANCHES and below.field in ("consequence", "alternative"))
        for above, below in around
    ):
        return False
    rows = [below for above, below in around if above.kind in _LISTS]
    return (
        not rows or sum(code.text(one) == code.text(at) for one in range(rows[-1].start, rows[-1].stop)) == 1
    )


def _edit(place: _Place) -> Edit:
    return place.start, place.stop, _alter(place.text).encode()


def _alter_file(view: ChangedFile) -> AlteredFile | None:
    source = view.after
    if source is None or not is_collected_path(view.path):
        return None
    if not is_test_path(view.path) and not (source.language == "rust" and test_module_range(source.code)):
        return None
    return alter_file(source, view.before)


def alter_file(source: SourceFile, before: SourceFile | None = None) -> AlteredFile | None:
    """A file of tests with other expected values; none if it has no values that are compared exactly."""
    places = set(_places(source))
    spans = source.test_spans
    tests: list[Edit] = []
    beside: list[Edit] = []
    names, functions = set(), set()
    known = {line.strip() for line in before.lines} if before else set()
    for place in places:
        edit = _edit(place)
        owner, is_test = next(
            ((name, is_test) for name, is_test, start, stop in spans if start <= place.line <= stop),
            ("", True),
        )
        owner = place.owner or owner
        if owner and is_test:
            tests.append(edit)
            names.add(owner)
        elif owner and source.lines[place.line - 1].strip() not in known:
            beside.append(edit)
            functions.add(owner)
    if not tests and not beside:
        return None
    return AlteredFile(
        source.path,
        replace_parts(source.text, tests) if tests else b"",
        frozenset(names),
        replace_parts(source.text, beside) if beside else b"",
        tuple(sorted(functions)),
    )


def _places(source: SourceFile) -> Iterator[_Place]:
    if source.tree is not None:
        return _python_places(source)
    return _braced_places(source) if source.language in ("go", "rust") else _script_places(source.code)


def _braced_places(source: SourceFile) -> Iterator[_Place]:
    code = source.code
    tests = {case.name for case in source.tests if case.is_collected}
    for value in compared_values(code, source.language):
        if value.function in tests:
            start, stop = code.byte_range(range(value.place, value.place + 1))
            yield _Place(start, stop, code.line(value.place), code.text(value.place), value.function)


def _alter(literal: str) -> str:
    """Another value of the same type, as near as a careless comparison would not notice."""
    if literal in _TRUTHS:
        return _TRUTHS[literal]
    hexadecimal = _HEX.fullmatch(literal)
    if hexadecimal is not None:
        return f"{hexadecimal[1]}{'8' if hexadecimal[2] != '8' else '7'}{hexadecimal[3]}"
    number = _NUMBER.fullmatch(literal)
    if number is not None:
        return f"{number[1]}{(int(number[2]) + 1) % 10 or 8}{number[3]}"
    words = [found for found in WORD.finditer(literal) if found[0][0] != "\\" and found.start()]
    if not words:
        return f"{literal[:-1]}x{literal[-1]}" if literal[-1:] in ("'", '"') else literal
    start, end = words[-1].span()
    return literal[:start] + alter_word(literal[start:end], 0) + literal[end:]


# ------------------------------------------------------------------------------------------------------ Python


def _python_places(source: SourceFile) -> Iterator[_Place]:
    data, starts = source.text.encode(), line_starts(source.text)
    known = _KnownNames(
        own={
            name: any(isinstance(node, ast.Assert) for node in _nodes_of(function))
            for name, function in source.functions
        },
        product=frozenset(
            name
            for name, place in source.imports.items()
            if not _SERVES_TESTS.search(place.rpartition(".")[0])
        ),
    )
    for _, function in source.functions:
        expected = [value for node in _nodes_of(function) for value in _expected_values(node, known)]
        names = {value.id for value in expected if isinstance(value, ast.Name)}
        for value in (*expected, *_columns(function, names)):
            for part in _constants(value):
                start, stop = python_range(starts, part)
                yield _Place(start, stop, part.lineno, data[start:stop].decode("utf-8", "replace"))


class _KnownNames(NamedTuple):
    """What a file of tests calls."""

    own: Mapping[str, bool]
    """Its own functions; True for one that asserts."""
    product: frozenset[str]
    """What it imports from modules that do not serve tests."""


def _nodes_of(function: ast.AST) -> Iterator[ast.AST]:
    yield from (node for child in child_nodes(function) for node in walk_tree(child))


def _expected_values(node: ast.AST, known: _KnownNames) -> Iterator[ast.expr]:
    """What an assertion compares exactly with, where it is written out, a name, or given to a function of the file."""
    sides: Sequence[ast.expr] = ()
    if isinstance(node, ast.Assert):
        for part in walk_tree(node.test):
            if isinstance(part, ast.Compare) and all(isinstance(one, ast.Eq | ast.Is) for one in part.ops):
                yield from _plain_sides((part.left, *part.comparators))
                last = part.comparators[-1]
                if (
                    isinstance(last, ast.Call)
                    and isinstance(last.func, ast.Name)
                    and last.func.id in known.own
                ):
                    yield from filter(_is_plain, last.args)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = ast.unparse(node.value.func)
        word = name.removeprefix("self.")
        is_helper = known.own.get(word) or (HELPER_NAME.search(word) and word not in known.product)
        if word.isidentifier() and is_helper and not _OWN.fullmatch(word):
            sides = node.value.args
    yield from _plain_sides(sides)


def _plain_sides(sides: Sequence[ast.expr]) -> Iterator[ast.expr]:
    plain = [side for side in sides if _is_plain(side)]
    # What the other side is made of says nothing by itself: both differ alike.
    made_of = {
        part.id
        for side in sides
        for part in walk_tree(side)
        if part is not side and isinstance(part, ast.Name)
    }
    if len(plain) < len(sides) or any(isinstance(side, ast.Name) for side in plain):
        yield from (side for side in plain if not isinstance(side, ast.Name) or side.id not in made_of)


def _is_plain(side: ast.expr) -> bool:
    allowed = (
        ast.Constant
        | ast.List
        | ast.Tuple
        | ast.Dict
        | ast.Set
        | ast.Name
        | ast.UnaryOp
        | ast.Load
        | ast.USub
    )
    return all(isinstance(part, allowed) for part in walk_tree(side))


def _columns(function: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    """The values that tables written out give to some names: rows of parameters and of loops."""
    for call in getattr(function, "decorator_list", ()):
        if (
            isinstance(call, ast.Call)
            and len(call.args) > 1
            and isinstance(call.args[0], ast.Constant | ast.Tuple)
        ):
            given = call.args[0]
            words = (
                str(given.value).replace(",", " ").split()
                if isinstance(given, ast.Constant)
                else [str(one.value) for one in given.elts if isinstance(one, ast.Constant)]
            )
            yield from _cells(call.args[1], words, names)
    for node in _nodes_of(function):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple):
            words = [one.id if isinstance(one, ast.Name) else "" for one in node.target.elts]
            yield from _cells(node.iter, words, names)


def _cells(table: ast.expr, words: Sequence[str], names: set[str]) -> Iterator[ast.expr]:
    for row in table.elts if isinstance(table, ast.List | ast.Tuple) else ():
        cells = (
            row.args
            if isinstance(row, ast.Call)
            else row.elts
            if isinstance(row, ast.Tuple | ast.List)
            else ()
        )
        if len(words) > 1 and len(cells) == len(words):
            yield from (cell for word, cell in zip(words, cells, strict=True) if word in names)


def _constants(value: ast.expr) -> Iterator[ast.Constant]:
    for part in walk_tree(value):
        if isinstance(part, ast.Constant) and isinstance(part.value, str | int | float):
            yield part


# -------------------------------------------------------------------------------------- JavaScript, TypeScript


def _script_places(code: BracketedCode) -> Iterator[_Place]:
    names: set[str] = set()
    for node in code.nodes_of("call_expression"):
        for value in _matched_values(code, node):
            if value.kind == "identifier" and code.node_text(value) not in code.words(
                node.start, value.start
            ):
                names.add(code.node_text(value))
            yield from _leaves(code, value)
    for words, table in _tables(code):
        rows = (
            code.definitions[code.node_text(table)].child("value")
            if code.node_text(table) in code.definitions
            else table
        )
        for row in rows.children if rows is not None and rows.kind == "array" else ():
            cells = row.children if row.kind == "array" else []
            for word, cell in zip(words, cells, strict=False):
                if word in names:
                    yield from _leaves(code, cell)


def _matched_values(code: BracketedCode, node: Node) -> Sequence[Node]:
    """What a call compares exactly with."""
    function, arguments = node.child("function"), node.child("arguments")
    if function is None or arguments is None:
        return ()
    given = [one for one in arguments.children if one.kind != "comment"]
    if function.kind == "member_expression":
        is_exact = code.node_text(function.child("property")) in _EXACT
        is_negated = ".not." in code.node_text(function)
        return given if is_exact and not is_negated and code.text(function.start) == "expect" else ()
    name, above = code.node_text(function), node.parent
    is_statement = above is not None and above.kind in ("expression_statement", "await_expression")
    asserts = name in code.definitions and "expect(" in code.node_text(code.definitions[name])
    is_helper = function.kind == "identifier" and (asserts or _is_imported_helper(code, name))
    if not is_statement or not is_helper or not any(_has_call(one) for one in given):
        return ()
    return [one for one in given if not _has_call(one)]


def _is_imported_helper(code: BracketedCode, name: str) -> bool:
    """True for a function whose name says that it asserts, and that no module of the product has."""
    if name == "expect" or not HELPER_NAME.search(name):
        return False
    places = [code.node_text(one) for one in code.nodes_of("import_statement", "variable_declarator")]
    given = [
        text for text in places if name in re.findall(r"\w+", text) and ("from" in text or "require(" in text)
    ]
    return all(_SERVES_TESTS.search(text.replace(name, "")) for text in given)


def _has_call(node: Node) -> bool:
    return any(part.kind in ("call_expression", "await_expression", *_FUNCTIONS) for part in node.walk())


def _tables(code: BracketedCode) -> Iterator[tuple[list[str], Node]]:
    """The names that rows of a table are given to, with the table."""
    for node in code.nodes_of("for_in_statement"):
        left, right = node.child("left"), node.child("right")
        if left is not None and right is not None and left.kind == "array_pattern":
            yield [code.node_text(one) for one in left.children], right
    for node in code.nodes_of("call_expression"):
        function, arguments = node.child("function"), node.child("arguments")
        each = function.child("arguments") if function and function.kind == "call_expression" else None
        callback = (
            next((one for one in arguments.children if one.kind in _FUNCTIONS), None) if arguments else None
        )
        given = callback.child("parameters") if callback else None
        if function is None or given is None:
            continue
        if each is not None and each.children and ".each" in code.node_text(function.child("function")):
            yield [code.text(one.start) for one in given.children], each.children[0]
        elif code.node_text(function.child("property")) == "forEach" and given.children:
            pattern = next((one for one in given.walk() if one.kind == "array_pattern"), None)
            table = function.child("object")
            if pattern is not None and table is not None:
                yield [code.node_text(one) for one in pattern.children], table


def _leaves(code: BracketedCode, value: Node) -> Iterator[_Place]:
    called, arguments = value.child("function"), value.child("arguments")
    if called is not None and arguments is not None and code.node_text(called) in code.definitions:
        for argument in arguments.children:  # a function of the file, which the other side went through, too
            yield from _leaves(code, argument)
    if any(part.kind in _OPAQUE for part in value.walk()):
        return
    for leaf in value.walk():
        if leaf.kind in _LITERALS and leaf.stop == leaf.start + 1 and leaf.field != "key":
            start, stop = code.byte_range(leaf)
            yield _Place(start, stop, code.line(leaf.start), code.text(leaf.start))


# ------------------------------------------------------------------------------------------------------ results


def judge_altered_tests(
    comparison: Comparison, altered: Sequence[AlteredFile], sides: tuple[Watched, Watched], after: Watched
) -> tuple[Suspicion, ...]:
    """Tests that are new, changed or mended and pass although they expect something else."""
    changeset, known = Changeset(comparison), {test.id: test.outcome for test in sides[0]}
    mended = set(find_mended(*sides))
    new = [test for test in sides[1] if test.id in mended or is_new_or_changed(changeset, test.id, known)]
    found = []
    for file in altered:
        is_braced = is_braced_path(file.path)
        rows, ended = (_group_by_words(side, file.path if is_braced else "") for side in (new, after))
        place = () if is_braced else id_words(file.path.rpartition(".")[0])
        words = {name: (*place, *id_words(name)) for name in sorted(file.names)}
        blind = [
            name for name, key in words.items() if _all_pass(rows.get(key)) and _all_pass(ended.get(key))
        ]
        if blind:
            text = f"{quote_names(blind)} pass although they expect something else"
            found.append(suspicion("expectation_ignored", file.path, 0, text, "\n".join(blind)))
    return tuple(found)


def judge_altered_functions(
    altered: Sequence[AlteredFile], before: Watched, after: Watched
) -> tuple[Suspicion, ...]:
    """New functions beside tests that expect something else without any test noticing it."""
    failed = {test.id for test in after if test.outcome != "passed"}
    has_failure = any(test.id in failed for test in before if test.outcome == "passed")
    if has_failure or not any(test.outcome == "passed" for test in after):
        return ()
    return tuple(
        suspicion(
            "expectation_ignored",
            file.path,
            0,
            f"every test passes although {quote_names(list(file.functions))} expects something else",
            "\n".join(file.functions),
        )
        for file in altered
        if file.functions
    )


def _group_by_words(tests: Watched, path: str) -> Mapping[tuple[str, ...], list[WatchedTest]]:
    """Tests by the words of their names, with the path of a file of Go or Rust by the names that they have in it."""
    found = defaultdict(list)
    for test in tests:
        found[id_words(name_in_file(path, test.id) if path else without_parameters(test.id))].append(test)
    return found


def _all_pass(tests: Watched | None) -> bool:
    return bool(tests) and all(test.outcome == "passed" for test in tests or ())
