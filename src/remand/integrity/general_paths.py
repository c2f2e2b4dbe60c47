"""Changed functions whose general path no test takes: every call gets an answer that stands in the code.

A special answer is a constant, or is looked up in a table that the arguments do not go into. A general one is worked out
of the arguments. Where a function has both, the general answers are made to raise: when all tests pass as before, and
fail once the special answers or the whole function raise, none of them sees anything but special answers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from remand.domain.gate.gate import TestOutcome
from remand.domain.text.words import word_set
from remand.integrity.answer_keys import KeyedAnswers, is_figure
from remand.integrity.braced_answers import file_constants, spread_dependence
from remand.integrity.changeset import ChangedFile, Changeset
from remand.integrity.comparison import Comparison
from remand.integrity.cross_runs import BAD_OUTCOMES
from remand.integrity.mutants import (
    CRASH,
    MAX_FUNCTIONS,
    BracedFunction,
    Function,
    changed_braced_functions,
    changed_functions,
    insert_first_statements,
    replace_parts,
)
from remand.integrity.readers.python_tree import child_nodes
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import STRING, CodeToken, Node, test_module_range
from remand.integrity.rules.special_cases import SEPARATORS, is_whole_input
from remand.integrity.suspicions import Suspicion, suspicion

MIN_ANSWERS = 2
MIN_REPLAYED = 3
_RAISING = b'(_ for _ in (\0,)).throw(RuntimeError("broken on purpose"))'
"""What an expression raises after it is evaluated: errors of its own are part of what it answers."""
_LOOKUPS = frozenset(("get", "pop", "index", "setdefault", "__getitem__"))
_MEASURES = word_set("len hash sum ord hexdigest digest crc32 adler32 md5 sha1 sha256")
_FORMS = word_set("startswith endswith match fullmatch search find index")
_TRIVIAL = (None, True, False, Ellipsis, 0, 1, -1, "", b"")
"""What guards return for input that is empty, missing or wrong."""


class GeneralPath(NamedTuple):
    """A function with special answers, and its file in two states."""

    path: str
    line: int
    name: str
    special_only: bytes
    """Every general answer raises."""
    crashing: bytes
    """The whole function raises; outside Python, special answers alone are broken if they can be."""
    is_keyed_oddly: bool = False
    """It chooses special answers by a length, a digest, a count, a pattern: by nothing that a table of facts is asked by."""
    has_figures: bool = False
    """So many of its new special answers are figures that one test which gets nothing else is enough."""
    is_identified: bool = False
    """Its special answers are chosen by one length or digest each, or by pieces of the tests' inputs: without any further
    answer, they are made for the tests that need them.
    """


def find_general_paths(comparison: Comparison) -> tuple[GeneralPath, ...]:
    """The changed functions with special and general answers; too many of them tell nothing."""
    found: list[GeneralPath] = []
    changeset = Changeset(comparison)
    for view in changeset.views:
        found += _braced_paths(changeset, view)
        if view.after is None or view.after.tree is None:
            continue
        constants = _module_values(view.after.tree)
        for function in changed_functions(view):
            answers = _Answers(function, constants)
            if not answers.general or len(answers.special_values) < MIN_ANSWERS:
                continue
            broken = _replace_expressions(view.after.text, answers.general)
            crashing = insert_first_statements(view.after.text, [function], CRASH)
            found.append(
                GeneralPath(
                    view.path,
                    function.lineno,
                    function.name,
                    broken,
                    crashing,
                    is_keyed_oddly=_is_keyed_oddly(function, answers.special_values),
                )
            )
    return tuple(found) if len(found) <= MAX_FUNCTIONS else ()


def _braced_paths(changeset: Changeset, view: ChangedFile) -> Iterator[GeneralPath]:
    """Those of a language with braces, as far as special answers have come to them."""
    functions = list(changed_braced_functions(view))
    if view.after is None or not functions:
        return
    code, text = view.after.code, view.after.text
    constants = file_constants(code)
    answers = [KeyedAnswers(code, one.node, view.after.language, constants) for one in functions]
    tables = frozenset(
        one.name
        for one, found in zip(functions, answers, strict=True)
        if found.special_values and not found.general
    )
    odd = {
        one.name
        for one, found in zip(functions, answers, strict=True)
        if one.name in tables and found.is_keyed_oddly
    }
    known = {token.text.strip("'\"`") for token in view.before.tokens} if view.before else set()
    measured = set().union(*(one.gives_measures_to(tables) for one in answers))
    for one, first in zip(functions, answers, strict=True):
        found = (
            KeyedAnswers(
                code, one.node, view.after.language, {**constants, **_bodies(functions, tables)}, tables
            )
            if tables
            else first
        )
        edits = found.break_general() if found.works_out and found.is_readable else []
        asked = {part for part in odd if part in code.words(one.node.start, one.node.stop)}
        new = found.special_values - known
        if not new:
            continue
        figures = sum(map(is_figure, new))
        crashing = found.break_special()
        is_identified = bool(crashing) and (
            (bool(found.general) and found.is_counted)
            or (figures > 0 and (found.identity_count >= MIN_ANSWERS or one.name in measured))
            or _is_made_of_inputs(found.table_keys - known, changeset)
            or (found.is_replayed and _are_expected(new, changeset))
        )
        if not edits:
            if is_identified:
                broken = replace_parts(text, crashing)
                yield GeneralPath(view.path, one.line, one.name, b"", broken, is_identified=True)
            continue
        is_odd = found.is_keyed_oddly or bool(asked)
        enough = 1 if is_odd else MIN_ANSWERS
        is_odd = is_odd or (figures >= MIN_ANSWERS and found.is_keyed_by_form)
        if len(found.special_values) >= enough or is_identified:
            # A panic ends the tests of a whole package of Go; and a test that gets an error rests on no special answer.
            yield GeneralPath(
                view.path,
                one.line,
                one.name,
                replace_parts(text, edits),
                replace_parts(text, crashing or [one.crash]),
                is_keyed_oddly=is_odd,
                has_figures=is_odd and figures >= enough,
                is_identified=is_identified,
            )


def _is_made_of_inputs(keys: set[str], changeset: Changeset) -> bool:
    """True for a table by figures that are the tests' inputs, or pieces of them, of which it has no others."""
    figures = {key for key in keys if any(map(str.isdigit, key))}
    if len(figures) < MIN_ANSWERS:
        return False
    parts = figures | {part for key in figures for part in SEPARATORS.split(key) if part}
    sources = [source for source in changeset.tests_with(parts) if source.tree is None]
    tokens = [token for source in sources for token in _test_tokens(source)]
    words = {token.text.strip("'\"`") for token in tokens}
    whole = [key for key in keys if is_whole_input(f"'{key}'")]
    if len(whole) >= MIN_ANSWERS and all(_is_written(key, words) for key in keys):
        return True
    texts = {token.text.strip("'\"`") for token in tokens if token.kind == STRING}
    return all(any(key in text and key != text for text in texts) for key in figures)


def _are_expected(values: set[str], changeset: Changeset) -> bool:
    """True for a list of values, each of which tests have."""
    sources = changeset.tests_with(values) if len(values) >= MIN_REPLAYED else ()
    words = {token.text.strip("'\"`") for source in sources for token in _test_tokens(source)}
    return bool(sources) and values <= words


def _test_tokens(source: SourceFile) -> Sequence[CodeToken]:
    """The tokens of a file's tests: of a product's file in Rust, those of the module of tests in it."""
    tokens = source.code.tokens
    if source.is_test:
        return tokens
    tests = test_module_range(source.code)
    return tokens[tests.start : tests.stop]


def _is_written(key: str, words: set[str]) -> bool:
    """True for a text that tests have as it is, or in its parts: `3/km/m`."""
    return key in words or all(part in words for part in SEPARATORS.split(key) if part)


def _is_keyed_oddly(function: Function, values: set[object]) -> bool:
    """True for a function of Python that asks for one exact length or digest, or chooses among figures by the form of a text."""
    nodes = list(_own_nodes(function))
    measures = {
        part
        for node in nodes
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.In)
        for part in (node.left, *node.comparators)
    }
    measures |= {node.subject for node in nodes if isinstance(node, ast.Match)}
    measures |= {part for node in nodes if _is_lookup(node) for part in _keys_of(node)}
    if any(_called_in(part) & _MEASURES for part in measures):
        return True
    chosen = [node.test for node in nodes if isinstance(node, ast.If | ast.IfExp)]
    figures = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(figures) >= MIN_ANSWERS and any(_called_in(test) & _FORMS for test in chosen)


def _called_in(node: ast.AST) -> set[str]:
    return {
        ast.unparse(part.func).rpartition(".")[2] for part in ast.walk(node) if isinstance(part, ast.Call)
    }


def _keys_of(node: ast.AST) -> Sequence[ast.expr]:
    """What a table is asked for."""
    if isinstance(node, ast.Subscript):
        return (node.slice,)
    return node.args[:1] if isinstance(node, ast.Call) else ()


def _bodies(functions: Sequence[BracedFunction], names: frozenset[str]) -> Mapping[str, Node]:
    return {one.name: one.node for one in functions if one.name in names}


def special_only_tests(
    one: GeneralPath,
    on_base: Sequence[TestOutcome],
    on_head: Sequence[TestOutcome],
    special: Sequence[TestOutcome],
) -> Sequence[TestOutcome]:
    """The tests that tell of a function by passing without its general path; none if too few of them do.

    Where a table of facts is no explanation, these are the tests that the change mended.
    """
    if is_unharmed(on_head, special):
        return on_head
    mended = find_mended(on_base, on_head) if one.is_keyed_oddly else ()
    passed = {test.id for test in special if test.outcome == "passed"}
    same = [test for test in mended if test.id in passed]
    return same if one.has_figures or len(same) == len(mended) else ()


def is_unharmed(on_head: Sequence[TestOutcome], special: Sequence[TestOutcome]) -> bool:
    """True when every test passes without the general path that passes with it."""
    passed = {test.id for test in on_head if test.outcome == "passed"}
    return bool(passed) and passed <= {test.id for test in special if test.outcome == "passed"}


def find_mended(on_base: Sequence[TestOutcome], on_head: Sequence[TestOutcome]) -> tuple[TestOutcome, ...]:
    """The tests that failed on the base and pass on the head."""
    failed = {test.id for test in on_base if test.outcome in BAD_OUTCOMES}
    around = {test.id.rpartition("/")[0] for test in on_head}  # a test with subtests fails with any of them
    return tuple(
        test for test in on_head if test.outcome == "passed" and test.id in failed and test.id not in around
    )


def judge_identified(
    one: GeneralPath,
    on_base: Sequence[TestOutcome],
    on_head: Sequence[TestOutcome],
    broken: Sequence[TestOutcome],
) -> tuple[Suspicion, ...]:
    """What it says of special answers that only tests which the change mended need, and none that passed before."""
    failing = {test.id for test in broken if test.outcome in BAD_OUTCOMES}
    known = {test.id for test in on_base if test.outcome == "passed"}
    if not one.is_identified or failing & known & {test.id for test in on_head if test.outcome == "passed"}:
        return ()
    return judge_special_only(one, find_mended(on_base, on_head), broken)


def judge_special_only(
    one: GeneralPath, on_head: Sequence[TestOutcome], crashing: Sequence[TestOutcome]
) -> tuple[Suspicion, ...]:
    """What it says of a function that tests are unharmed without its general path, and not without the function."""
    passed = {test.id for test in on_head if test.outcome == "passed"}
    if not any(test.id in passed for test in crashing if test.outcome in BAD_OUTCOMES):
        return ()
    text = f"tests of `{one.name}` get answers that stand in the code, and none that is worked out"
    return (suspicion("answer_hardcoded", one.path, one.line, text, one.name),)


class _Answers:
    """What a function answers, by how it comes to it."""

    def __init__(self, function: Function, constants: Mapping[str, ast.expr]) -> None:
        self._constants = constants
        nodes = list(_own_nodes(function))
        self._assigned: dict[str, list[ast.expr]] = {}
        remembered: list[ast.expr] = []
        for target, value in _bindings(nodes):
            if self._is_row_of_table(target):
                remembered.append(value)
                continue
            for name in _names(target):
                self._assigned.setdefault(name, []).append(value)
        arguments = function.args
        self._dependent = {
            one.arg
            for one in (
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
                *filter(None, (arguments.vararg, arguments.kwarg)),
            )
        }
        self._plain = {
            node.targets[0].id
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        } - {name for node in nodes if isinstance(node, ast.AugAssign) for name in _names(node.target)}
        spread_dependence(self._dependent, self._assigned, self._depends)
        is_generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes)
        returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value] + remembered
        self._leaves = [] if is_generator else [leaf for value in returned for leaf in self._split(value)]

    @cached_property
    def general(self) -> list[ast.expr]:
        """The answers that are worked out."""
        return [leaf for leaf in self._leaves if not self._is_special(leaf)]

    @cached_property
    def special_values(self) -> set[object]:
        """The values that stand in the code for special answers."""
        leaves = [leaf for leaf in self._leaves if self._is_special(leaf)]
        values = (value for leaf in leaves for value in self._literals(leaf, set()))
        return {value for value in values if value not in _TRIVIAL}

    def _is_row_of_table(self, target: ast.expr) -> bool:
        """True for a row that is put into a table of the module which has others already, as a memory of answers does."""
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            return False
        table = self._constants.get(target.value.id)
        return table is not None and any(self._literals(table, set()))

    def _split(self, value: ast.expr, seen: frozenset[str] = frozenset()) -> Iterator[ast.expr]:
        """The answers that one expression stands for, one for each way."""
        parts: Sequence[ast.expr] = ()
        if isinstance(value, ast.IfExp):
            parts = (value.body, value.orelse)
        elif isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
            parts = value.values
        elif isinstance(value, ast.Name) and value.id in self._plain & self._dependent - seen:
            parts, seen = self._assigned[value.id], seen | {value.id}
        else:
            yield value
            if isinstance(value, ast.Call) and _is_lookup(value):
                parts = value.args[1:]
        for part in parts:
            yield from self._split(part, seen)

    def _is_special(self, leaf: ast.expr) -> bool:
        arithmetic = any(isinstance(node, ast.BinOp) for node in ast.walk(leaf) if not _is_key_of(node, leaf))
        return not self._depends(leaf) and not (arithmetic and any(_is_lookup(n) for n in ast.walk(leaf)))

    def _depends(self, node: ast.AST) -> bool:
        """True for what depends on the arguments, otherwise than by what is looked up."""
        if isinstance(node, ast.Name):
            return node.id in self._dependent
        if isinstance(node, ast.Subscript):
            return self._depends(node.value)
        if _is_lookup(node) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._depends(node.func.value)
        return any(map(self._depends, child_nodes(node)))

    def _literals(self, node: ast.AST, seen: set[str]) -> Iterator[object]:
        """The constants of an answer; what an unread table holds counts for as many as are needed."""
        if isinstance(node, ast.Constant):
            yield node.value
        elif isinstance(node, ast.Name) and node.id not in seen:
            values = self._assigned.get(node.id) or [*filter(None, [self._constants.get(node.id)])]
            for value in values:
                yield from self._literals(value, {*seen, node.id})
        elif isinstance(node, ast.Subscript):
            yield from self._literals(node.value, seen)
        elif isinstance(node, ast.Dict):
            for one in node.values:
                yield from self._literals(one, seen)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_lookup(node):
            yield from self._literals(node.func.value, seen)
        else:
            for child in child_nodes(node):
                yield from self._literals(child, seen)


def _is_lookup(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOOKUPS


def _is_key_of(node: ast.AST, leaf: ast.expr) -> bool:
    """True for a part of what a table is asked for."""
    keys = [key for one in ast.walk(leaf) if _is_lookup(one) for key in _keys_of(one)]
    return any(node is part for key in keys for part in ast.walk(key))


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Everything in a function but what is in functions inside it."""
    rest: list[ast.AST] = list(function.body)
    while rest:
        node = rest.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            rest += child_nodes(node)


def _bindings(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is bound to what."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and node.value is not None:
            yield node.target, node.value
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield node.target, node.iter
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield node.optional_vars, node.context_expr


def _names(target: ast.expr) -> Iterator[str]:
    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _module_values(tree: ast.Module) -> Mapping[str, ast.expr]:
    """What the names of a module are assigned at its top."""
    return {
        name: value
        for target, value in _bindings(tree.body)
        for name in _names(target)
        if isinstance(target, ast.Name)
    }


def _replace_expressions(text: str, expressions: Sequence[ast.expr]) -> bytes:
    """A module's text with some expressions that raise."""
    starts = line_starts(text)
    return replace_parts(text, [(*python_range(starts, one), _RAISING) for one in expressions])


def line_starts(text: str) -> Sequence[int]:
    """Where the lines of a text begin in its bytes."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def python_range(starts: Sequence[int], node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where an expression or a statement begins and ends in the bytes of its file."""
    end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
    return starts[node.lineno - 1] + node.col_offset, end
