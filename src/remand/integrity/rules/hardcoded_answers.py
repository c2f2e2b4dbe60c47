"""Product code that returns the constants that tests expect, instead of computing them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.changeset import ChangedFile, Changeset
from remand.integrity.paths import is_product_path
from remand.integrity.readers.cases import ParsedTest
from remand.integrity.readers.python_tree import (
    Function,
    child_nodes,
    has_computation,
    is_literal,
    last_name,
    node_source,
    parse_number,
    walk_tree,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NAME, NUMBER, STRING, BracketedCode
from remand.integrity.rules.copied_rows import (
    LiteralRow,
    added_rows,
    copied_row,
    exhausted_table,
    test_patterns,
    writes_values,
    written_constants,
)
from remand.integrity.rules.special_cases import (
    LENGTH,
    Clue,
    SpecialCase,
    added_special_cases,
    nested_answer,
    repeated_test,
)
from remand.integrity.suspicions import Suspicion, shorten, suspicion

LONG_TEXT = 8
MAX_LOOKAHEAD = 16
"""Limit of tokens read for the value of a name."""
_NAMED = re.compile(r"[a-z][\w.-]*|[A-Z][A-Z0-9_]*")
_TYPES = word_set("Decimal Fraction date datetime time timedelta Path UUID frozenset int float")
"""Types whose literal values are written as calls."""
_FIGURE = re.compile(r"-?\d{1,50}(?:\.\d{1,50})?")
_BRACED = frozenset(("go", "rust", "java", "kotlin", "csharp"))
_FUNCTIONS = frozenset(("function", "func", "fn", "fun"))
_WORK = frozenset(("for", "while", "*", "/", "%", "reduce", "map", "filter", "push", "+", "-"))


class ConstantAnswer(NamedTuple):
    function: str
    line: int
    text: str
    asked: frozenset[str]
    """The literals of the input."""
    answer: str
    is_whole: bool
    """True if the input is a number, a list or a long text, unlike a key in a table of words."""
    is_joint: bool
    """True if several numbers, or a list, are compared at once."""
    works: bool
    """True if the function also computes something."""


def constant_answers(source: SourceFile) -> tuple[ConstantAnswer, ...]:
    """All constant answers of a file."""
    if source.tree is not None:
        return tuple(
            answer for name, node in source.functions for answer in _function_answers(name, node)
        ) + tuple(_module_table_answers(source.tree))
    if source.language == "script":
        return (*_script_answers(source.code), *_script_table_answers(source.code))
    return tuple(_script_answers(source.code)) if source.language in _BRACED else ()


def _function_answers(name: str, node: Function) -> Iterator[ConstantAnswer]:
    works = has_computation(node)
    returned = {
        last_name(part.value) for part in walk_tree(node) if isinstance(part, ast.Return) and part.value
    }
    for part in walk_tree(node):
        if isinstance(part, ast.If) and part.body:
            test, value = _nested_answer(part, returned)
            yield from _branch_answers(name, test, value, works=works)
        elif isinstance(part, ast.IfExp):
            yield from _branch_answers(name, part.test, part.body, works=works)
        elif isinstance(part, ast.match_case) and isinstance(part.pattern, ast.MatchValue) and part.body:
            last = part.body[-1]
            if isinstance(last, ast.Return) and is_literal(last.value) and is_literal(part.pattern.value):
                yield _build_answer(name, part.pattern.value, [part.pattern.value], last.value, works=works)
        elif isinstance(part, ast.Dict):
            yield from _dict_answers(name, part, works=works)


def _nested_answer(branch: ast.If, returned: set[str]) -> tuple[ast.expr, ast.expr | None]:
    """The combined condition of a branch and those nested in it, and their final answer."""
    tests, value = nested_answer(branch, returned)
    test = tests[0] if len(tests) == 1 else ast.copy_location(ast.BoolOp(ast.And(), _flat(tests)), tests[0])
    return test, value


def _flat(tests: list[ast.expr]) -> list[ast.expr]:
    """The conditions that all have to hold."""
    found: list[ast.expr] = []
    for test in tests:
        found += test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return found


def _module_table_answers(tree: ast.Module) -> Iterator[ConstantAnswer]:
    """The literal tables at a module's top level."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield from _dict_answers(node_source(target), node.value, works=False)


def _branch_answers(
    name: str, test: ast.expr, value: ast.expr | None, *, works: bool
) -> Iterator[ConstantAnswer]:
    compared = _compared_literals(test)
    if compared and value is not None and (_is_written_out(value) or _is_composed(value)):
        yield _build_answer(name, test, compared, value, works=works)


def _compared_literals(test: ast.expr) -> list[ast.expr]:
    """The literals in a comparison, if it has no other operands."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    found: list[ast.expr] = []
    for part in parts:
        if not isinstance(part, ast.Compare) or len(part.ops) != 1 or not isinstance(part.ops[0], ast.Eq):
            return []
        literal = part.comparators[0] if _is_written_out(part.comparators[0]) else part.left
        if not _is_written_out(literal):
            return []
        found.append(literal)
    return found


def _dict_answers(name: str, node: ast.Dict, *, works: bool) -> Iterator[ConstantAnswer]:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None and _is_written_out(key) and _is_written_out(value):
            yield _build_answer(name, key, [key], value, works=works)


def _build_answer(
    name: str, test: ast.AST, asked: list[ast.expr], value: ast.expr | None, *, works: bool
) -> ConstantAnswer:
    literals = [part for item in asked for part in walk_tree(item) if isinstance(part, ast.Constant)]
    shapes = [isinstance(item, ast.Tuple | ast.List | ast.Dict | ast.Set) for item in asked]
    numbers = [found for item in asked if (found := _figure_value(item)) is not None]
    is_telling = any(not _is_small(part.value) for part in literals)
    is_several = len(literals) > 1 and any(shapes)
    is_whole = is_telling and (bool(numbers) or is_several or any(_is_long(part.value) for part in literals))
    is_joint = is_whole and (len(numbers) > 1 or (is_several and _has_figures(literals)))
    answer = _answer_text(value) if value is not None and not _is_empty_answer(value) else ""
    text = f"{node_source(test)} → {answer}"
    return ConstantAnswer(
        name,
        getattr(test, "lineno", 0),
        text,
        frozenset(repr(part.value) for part in literals),
        answer,
        is_whole,
        is_joint,
        works,
    )


def _is_written_out(node: ast.expr) -> bool:
    """True for a literal value, also as a call of a type: `Decimal("1.005")`, `date(2024, 2, 29)`."""
    waiting: list[ast.expr] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Call) and last_name(part.func) in _TYPES and not part.keywords:
            waiting += part.args
        elif isinstance(part, ast.Dict):
            waiting += [item for item in (*part.keys, *part.values) if item is not None]
        elif isinstance(part, ast.List | ast.Tuple | ast.Set):
            waiting += part.elts
        elif not is_literal(part):
            return False
    return True


def _is_composed(node: ast.expr) -> bool:
    """True for an object made from a literal figure: `Money(Decimal("597.51"), self.currency)`."""
    is_made = isinstance(node, ast.Call) and last_name(node.func)[:1].isupper()
    return is_made and isinstance(node, ast.Call) and any(_figure_value(arg) is not None for arg in node.args)


def _answer_text(value: ast.expr) -> str:
    """The answer, or the figure from which it is made."""
    if isinstance(value, ast.Call) and not _is_written_out(value):
        value = next(arg for arg in value.args if _figure_value(arg) is not None)
    return node_source(_inner_value(value))


def _inner_value(node: ast.expr) -> ast.expr:
    """The argument from which a type makes a value."""
    return node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node


def _figure_value(node: ast.expr) -> float | None:
    inner = _inner_value(node)
    if inner is not node and isinstance(inner, ast.Constant) and isinstance(inner.value, str):
        return float(inner.value) if _FIGURE.fullmatch(inner.value) else None
    return parse_number(inner)


def _has_figures(literals: list[ast.Constant]) -> bool:
    """True for a list of numbers, or of more than two of anything."""
    return len(literals) > 2 or any(type(part.value) in (int, float) for part in literals)


def _is_small(value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int | float):
        return abs(value) <= 2 and value == int(value)
    return isinstance(value, str | bytes) and len(value) < 4


def _is_empty_answer(node: ast.expr) -> bool:
    """True for an answer that many inputs have: a truth value, nothing, or an empty value."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool) or not (node.value or node.value == 0)
    return isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set) and not list(child_nodes(node))


def _is_long(value: object) -> bool:
    """True for a long text that is no name of a field or choice."""
    return isinstance(value, str | bytes) and len(value) >= LONG_TEXT and not _NAMED.fullmatch(str(value))


def _script_answers(code: BracketedCode) -> Iterator[ConstantAnswer]:
    name, works = "", False
    for place, token in enumerate(code.tokens):
        if token.kind == NAME and _opens_function(code, place):
            name = token.text
            works = _computes_here(code, place)
        if token.text == "if":
            yield from _script_branch_answers(code, place, name, works=works)
        elif token.text == "?" and code.text(place + 2) == ":":
            yield from _ternary_answers(code, place, name, works=works)
        elif token.text == "=>" and code.text(place - 1) == ")":
            yield from _match_answers(code, place, name, works=works)
        elif (
            token.text == "case"
            and code.text(place + 3) == "return"
            and code.kind(place + 1) in (STRING, NUMBER)
        ):
            yield from _script_case_answers(code, place, [place + 1], place + 4, (name, works))


def computing_functions(code: BracketedCode) -> frozenset[str]:
    """The functions of a script that loop or calculate."""
    places = (
        place
        for place, token in enumerate(code.tokens)
        if token.kind == NAME and _opens_function(code, place)
    )
    return frozenset(code.text(place) for place in places if _computes_here(code, place))


def _opens_function(code: BracketedCode, place: int) -> bool:
    before, after = code.text(place - 1), code.text(place + 1)
    if before in ("const", "let", "var") and after == "=":
        return True
    if after not in ("(", "<") or code.text(place) in _KEYWORDS:
        return False
    is_method = before == ")" and code.text(code.openings.get(place - 1, 0) - 1) == "func"
    if before in _FUNCTIONS or is_method:
        return True
    return (
        after == "(" and code.text(code.closing_place(place + 1) + 1) == "{" and code.kind(place - 1) == NAME
    )


_KEYWORDS = frozenset(
    ("if", "for", "while", "switch", "match", "catch", "return", "new", "function", "await")
)


def _computes_here(code: BracketedCode, place: int) -> bool:
    stop = min(place + 400, len(code.tokens))
    block = next((at for at in range(place, stop) if code.text(at) == "{"), stop)
    return any(code.text(at) in _WORK for at in range(block, code.closing_place(block)))


def _script_branch_answers(
    code: BracketedCode, place: int, name: str, *, works: bool
) -> Iterator[ConstantAnswer]:
    start, closing = place + 2, code.closing_place(place + 1)
    if code.text(place + 1) != "(":  # Go and Rust have no brackets around a condition.
        start = place + 1
        stop = min(place + MAX_CONDITION, len(code.tokens))
        closing = next((at for at in range(start, stop) if code.text(at) == "{"), 0) - 1
    literals = _compared_places(code, start, closing + (start == place + 1))
    after = closing + 2 if code.text(closing + 1) == "{" else closing + 1
    if not literals or closing < start:
        return
    if code.text(after) == "return":
        yield from _script_case_answers(code, place, literals, after + 1, (name, works))
    elif code.text(after + 1) == "}" and code.text(after - 1) == "{":
        yield from _script_case_answers(code, place, literals, after, (name, works))


MAX_CONDITION = 60
"""Limit of tokens read of a condition."""


def _compared_places(code: BracketedCode, start: int, stop: int) -> list[int]:
    """The positions of the literals in a comparison, if it has no other operands."""
    signs = {code.text(at) for at in range(start, stop)}
    if not signs & {"===", "=="} or signs & {"||", "!==", "!=", ">", "<", "!", ">=", "<="}:
        return []
    return [
        at
        for at in range(start, stop)
        if code.kind(at) in (STRING, NUMBER) and code.text(at - 1) in ("===", "==")
    ]


def _ternary_answers(code: BracketedCode, place: int, name: str, *, works: bool) -> Iterator[ConstantAnswer]:
    """`return a === 2 && b === 30 ? 60 : …`"""
    start = place
    while (
        start > 0
        and place - start < MAX_CONDITION
        and code.text(start - 1) not in ("return", "=", ":", "(", ";", "{", "?")
    ):
        start -= 1
    literals = _compared_places(code, start, place)
    if len(literals) > 1 and code.kind(place + 1) in (STRING, NUMBER):
        answer = _normalise_quotes(code.text(place + 1))
        yield _literal_answer(code, start, literals, answer, (name, works))


def _match_answers(code: BracketedCode, place: int, name: str, *, works: bool) -> Iterator[ConstantAnswer]:
    """`(2, 30) => 60,` of a match in Rust."""
    opening = code.openings.get(place - 1, place)
    parts = [at for at in range(opening + 1, place - 1) if code.text(at) != ","]
    is_plain = len(parts) > 1 and all(code.kind(at) in (STRING, NUMBER) for at in parts)
    if is_plain and code.kind(place + 1) in (STRING, NUMBER) and code.text(place + 2) in (",", "}"):
        yield _literal_answer(code, opening, parts, _normalise_quotes(code.text(place + 1)), (name, works))


def _literal_answer(
    code: BracketedCode, place: int, literals: list[int], answer: str, function: tuple[str, bool]
) -> ConstantAnswer:
    numbers = [at for at in literals if code.kind(at) == NUMBER and code.text(at) not in ("0", "1", "2")]
    texts = frozenset(_normalise_quotes(code.text(at)) for at in literals)
    is_whole = bool(numbers) or any(len(text) >= LONG_TEXT + 2 for text in texts)
    shown = f"{code.text_between(place, literals[-1] + 1)} → {answer}"
    name, works = function
    return ConstantAnswer(name, code.line(place), shown, texts, answer, is_whole, bool(numbers), works)


def _script_case_answers(
    code: BracketedCode, place: int, literals: list[int], at: int, function: tuple[str, bool]
) -> Iterator[ConstantAnswer]:
    answer, rest = _script_value(code, at)
    if not answer:
        return
    texts = [*(_normalise_quotes(code.text(item)) for item in literals), *rest]
    numbers = [
        item for item in literals if code.kind(item) == NUMBER and code.text(item) not in ("0", "1", "2")
    ]
    is_whole = bool(numbers) or any(len(text) >= LONG_TEXT + 2 for text in texts)
    is_joint = len(numbers) > 0 and len(literals) > 1
    text = f"{code.text_between(place, at)} {code.text(at)}"
    yield ConstantAnswer(
        function[0], code.line(place), text, frozenset(texts), answer, is_whole, is_joint, function[1]
    )


def _script_value(code: BracketedCode, at: int) -> tuple[str, list[str]]:
    """A literal value: its first literal, and the others of an object or list; empty for anything else."""
    if code.kind(at) in (STRING, NUMBER):
        return (_normalise_quotes(code.text(at)), []) if code.text(at + 1) in (";", "}") else ("", [])
    if code.text(at) not in ("{", "["):
        return "", []
    inside = range(at + 1, code.closing_place(at))
    is_plain = all(
        code.kind(part) in (STRING, NUMBER)
        or code.text(part) in (",", ":", "[", "]", "{", "}", "-")
        or code.text(part + 1) == ":"
        for part in inside
    )
    found = sorted(code.literals(at, code.closing_place(at))) if is_plain else []
    return (found[0], found[1:]) if found else ("", [])


def _script_table_answers(code: BracketedCode) -> Iterator[ConstantAnswer]:
    """Named objects and maps whose keys are whole texts or numbers."""
    for place, token in enumerate(code.tokens):
        if token.text not in ("const", "let", "var") or code.kind(place + 1) != NAME:
            continue
        at = next((at + 1 for at in range(place + 2, place + MAX_LOOKAHEAD) if code.text(at) == "="), 0)
        for key, value in _table_rows(code, at):
            asked, answer = code.text(key), _normalise_quotes(code.text(value))
            is_figure = code.kind(key) == NUMBER and ("." in asked or len(asked) > 3)
            is_whole = is_figure or any(char.isspace() for char in asked)
            text = f"{asked} → {answer}"
            name = code.text(place + 1)
            yield ConstantAnswer(
                name,
                code.line(key),
                text,
                frozenset((_normalise_quotes(asked),)),
                answer,
                is_whole,
                is_joint=False,
                works=False,
            )


def _table_rows(code: BracketedCode, at: int) -> Iterator[tuple[int, int]]:
    """The positions of each key of a literal table and its value."""
    is_map = code.text(at) == "new" and code.text(at + 1) == "Map" and code.text(at + 3) == "["
    opening = at + 3 if is_map else at
    if not at or (not is_map and code.text(at) != "{"):
        return
    for start, stop in code.arguments(opening):
        key = start + 1 if is_map else start
        is_row = stop == start + (5 if is_map else 3) and code.text(key + 1) == ("," if is_map else ":")
        if is_row and all(code.kind(part) in (STRING, NUMBER) for part in (key, key + 2)):
            yield key, key + 2


def _normalise_quotes(text: str) -> str:
    return f"'{text[1:-1]}'" if text[:1] in "\"'`" else text


MAX_QUESTIONS = 20_000
MAX_ANSWERS = 100
"""A function with more answers contains data; nobody writes that many tests."""
FIGURES = 3
"""A number with this many digits is no coincidence."""
_WORD = re.compile(r"[^\W_]+")
_SMALL = frozenset(("0", "1", "2", "-1", "0n", "1n", "''"))
_FAILURE = re.compile(r"(?:^|\s)(?:Error|Fatal)")
"""How a Go test fails; the comparison is above it."""


def find_hardcoded_answers(changeset: Changeset) -> Iterator[Suspicion]:
    """New constant answers that match the tests, or that answer several inputs at once."""
    views = [view for view in changeset.code_views if is_product_path(view.path)]
    views = [view for view in views if not all(side and side.is_made for side in (view.before, view.after))]
    functions = [node for view in views if view.after for _, node in view.after.functions]
    added = [
        (view, _added_answers(view), added_special_cases(view, functions), added_rows(view)) for view in views
    ]
    sources = changeset.tests_with(set().union(*(_searched_words(*found[1:]) for found in added)))
    tests = [case for source in sources for case in source.tests]
    questions = _asserted_literals(tests)
    known = written_constants(sources)
    for view, answers, cases, rows in added:
        given: list[ConstantAnswer | SpecialCase] = list(_given_away(view, answers, questions, known))
        case = None if given else repeated_test(cases, questions, known) or copied_row(rows, tests)
        case = case or (None if given else exhausted_table(cases, questions))
        for item in (*given, *([case] if case else ())):
            shown = (
                f"`{item.function}`: `{shorten(item.text)}`" if item.function else f"`{shorten(item.text)}`"
            )
            yield suspicion("answer_hardcoded", view.path, item.line, shown, item.text)
        for line, text in view.find_added(test_patterns):
            yield suspicion(
                "answer_hardcoded", view.path, line, f"`{shorten(text)}` looks for assertions of tests"
            )


def _given_away(
    view: ChangedFile, answers: list[ConstantAnswer], questions: list[frozenset[str]], known: frozenset[str]
) -> Iterator[ConstantAnswer]:
    """The first suspicious answer of each function."""
    groups: defaultdict[str, list[ConstantAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.answer and answer.is_whole:
            groups[answer.function].append(answer)
    for group in [group for group in groups.values() if len(group) <= MAX_ANSWERS]:
        found = _revealing_answer(group, questions, view) or _copied_answer(group, questions, known)
        if found is not None:
            yield found


def _added_answers(view: ChangedFile) -> list[ConstantAnswer]:
    had = {answer.text for answer in constant_answers(view.before)} if view.before else set()
    return [answer for answer in constant_answers(view.after) if answer.text not in had] if view.after else []


def _searched_words(
    answers: list[ConstantAnswer], cases: list[SpecialCase], rows: list[LiteralRow]
) -> set[str]:
    """A word for each new answer: a test file without any of them expects none of these answers."""
    values = {text for row in rows for text in row.near}
    asked = [({answer.answer}, answer.asked) for answer in answers]
    asked += [(set(case.answers), frozenset(map(_searched_value, case.clues))) for case in cases]
    # If the answer is not distinctive, one of the inputs has to occur in the tests.
    values |= {value for given, inputs in asked for value in (given - _SMALL or inputs - _SMALL)}
    return {max(_WORD.findall(value), key=len, default=value.strip("'")) for value in values}


def _searched_value(clue: Clue) -> str:
    """What a test must contain for this to match; empty for a length, which any text may have."""
    return "" if clue.kind == LENGTH and clue.value not in _SMALL else clue.value


def _copied_answer(
    group: list[ConstantAnswer], questions: list[frozenset[str]], known: frozenset[str]
) -> ConstantAnswer | None:
    """A figure that a test expects, returned for inputs in tests by a function that computes others."""
    for answer in group:
        figure = answer.answer.strip("'")
        is_telling = answer.works and len(figure.strip("-").replace(".", "").strip("0")) >= FIGURES
        asked = answer.asked - _SMALL
        if is_telling and _FIGURE.fullmatch(figure) and asked <= known and _is_answered(answer, questions):
            return answer
    return None


def _asserted_literals(tests: list[ParsedTest]) -> list[frozenset[str]]:
    found: list[frozenset[str]] = []
    for case in tests:
        found += (item.literals for item in case.assertions if item.literals)
        if not case.assertions or any(
            item.times > 1 or _FAILURE.search(item.text) or not writes_values(item)
            for item in case.assertions
        ):
            found.append(case.literals)
    return found[:MAX_QUESTIONS]


def _revealing_answer(
    group: list[ConstantAnswer], questions: list[frozenset[str]], view: ChangedFile
) -> ConstantAnswer | None:
    """The first suspicious answer of a function."""
    joint = next((answer for answer in group if answer.is_joint and answer.works), None)
    if joint is not None:
        return joint
    known = [answer for answer in group if _is_asked(answer, questions)]
    worked = _did_compute(view, group[0].function)
    if known and len(known) == len(group) and (group[0].works or worked or len(known) > 1):
        return known[0]
    is_bare = worked and not group[0].works and len(group) > 1
    return group[0] if is_bare and any(_is_answered(answer, questions) for answer in group) else None


def _is_answered(answer: ConstantAnswer, questions: list[frozenset[str]]) -> bool:
    return any(answer.answer in question for question in questions)


def _is_asked(answer: ConstantAnswer, questions: list[frozenset[str]]) -> bool:
    asked = answer.asked - _SMALL
    values = asked | ({answer.answer} - _SMALL)
    return bool(asked) and any(_has_values(question, values) for question in questions)


def _has_values(question: frozenset[str], values: frozenset[str]) -> bool:
    """True if a question has all the values, lists by their items."""
    return all(text in question or (text[:1] in "[({" and _has_all_items(text, question)) for text in values)


def _has_all_items(text: str, question: frozenset[str]) -> bool:
    """True if all parts of a literal list are among the literals."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    parts = {repr(part.value) for part in walk_tree(tree) if isinstance(part, ast.Constant)}
    return bool(parts) and parts - {"0", "1", "2"} <= question


def _did_compute(view: ChangedFile, function: str) -> bool:
    """True if the function computed something on the base."""
    if view.before is None:
        return False
    return _had_computation(view, function) or any(
        answer.works for answer in constant_answers(view.before) if answer.function == function
    )


def _had_computation(view: ChangedFile, function: str) -> bool:
    if view.before is None:
        return False
    if view.before.language == "script":
        return function in computing_functions(view.before.code)
    return any(has_computation(node) for name, node in view.before.functions if name == function)
