"""Branches and tables of the product with a test's input and its expected value."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.changeset import ChangedFile
from remand.integrity.readers.python_tree import (
    Function,
    called_name,
    is_literal,
    last_name,
    node_source,
    walk_tree,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NAME, NUMBER, STRING, BracketedCode, test_module_range

SAME, LENGTH, PART, HIDDEN = "same", "length", "part", "hidden"
"""What a condition compares with: the input, its length, a part of it, its hash or the number of calls."""
LONG_TEXT = 8
WRITTEN_NUMBER = re.compile(r"\d+(?:\.\d+)?")
JOINT = 3
"""From this many values in one comparison on, the answer need not be literal."""
LONG = 5
"""From this length on, the length of an input identifies it."""
MAX_TOKENS = 60
MAX_ROWS = 100
MAX_NESTED = 16
SMALL_VALUES = frozenset(("0", "1", "2", "-1", "''", "None", "True", "False"))
_PLAIN = re.compile(r"[\w./:@+*-]*")
SEPARATORS = re.compile(r"[^A-Za-z0-9.]+|(?<=\d)[a-zA-Z](?=\d)")
_ABSENT = frozenset(("undefined", "null", "None", "true", "false", "nil", ""))
_HASHES = word_set("""
hexdigest digest hash crc32 adler32 md5 sha1 sha256 createHash Sum256 Sum Checksum ChecksumIEEE finish hashCode
""")
_PARTS = word_set("""
startswith endswith startsWith endsWith starts_with ends_with HasPrefix HasSuffix contains Contains includes
""")
_LENGTHS = frozenset(("len", "length", "size", "count", "RuneCountInString"))
_UNEQUAL = frozenset(("||", "!=", "!==", ">", "<", ">=", "<=", "!", "let"))
_MAKERS = word_set("""
return Some Ok vec String from to_string to_owned into string int int64 float64 byte rune uint nil null undefined None
new Map Set Array Vec str u8 u16 u32 u64 i32 i64 f64 usize bool true false interface
""")
_FAILURES = frozenset(("Errorf", "Err", "Error", "TypeError", "RangeError", "panic", "bail"))
_WORK = frozenset(("+", "-", "*", "/", "%", "for", "while"))


class Clue(NamedTuple):
    """One value that a condition compares with."""

    kind: str
    value: str


class SpecialCase(NamedTuple):
    """A branch, or a row of a table, with a literal answer."""

    function: str
    """The function or table that contains it."""
    line: int
    text: str
    clues: tuple[Clue, ...]
    answers: frozenset[str]


def added_special_cases(view: ChangedFile, functions: Sequence[Function] = ()) -> list[SpecialCase]:
    """The special cases that only the head has; `functions` are those that may use tables of any file."""
    cases = list(_special_cases(view.after, functions)) if view.after else []
    had = {case.text for case in _special_cases(view.before)} if view.before and cases else set()
    return [case for case in cases if case.text not in had]


def repeated_test(
    cases: list[SpecialCase], questions: list[frozenset[str]], constants: frozenset[str]
) -> SpecialCase | None:
    """The first case of a function or table of which at least half the cases repeat tests; None if there is none."""
    groups: defaultdict[str, list[SpecialCase]] = defaultdict(list)
    for case in cases:
        groups[case.function].append(case)
    for group in [group for group in groups.values() if len(group) <= MAX_ROWS]:
        known = [case for case in group if _repeats_test(case, questions, constants)]
        if known and len(known) * 2 >= len(group):
            return known[0]
    return None


def _repeats_test(case: SpecialCase, questions: list[frozenset[str]], constants: frozenset[str]) -> bool:
    """True if one test has both the input and the answer, and the input is not one that a rule would name."""
    answers = case.answers - SMALL_VALUES
    asked = [clue for clue in case.clues if clue.kind != HIDDEN and clue.value not in SMALL_VALUES]
    if len(asked) < len(case.clues) and any(clue.kind == HIDDEN for clue in case.clues):
        return any(map(is_long_answer, answers)) and any(answers <= question for question in questions)
    is_part = len(answers) > 1 and any(clue.kind == PART and len(clue.value) > LONG - 1 for clue in asked)
    if not asked or not (is_part or _is_telling(asked, is_joint=len(case.clues) > 1)):
        return False
    if not answers and not any(clue.kind == LENGTH for clue in asked) and len(asked) < JOINT:
        return False
    for question in questions:
        if len(answers - question) <= (len(answers) > 1) and all(
            _is_in(clue, question, is_joint=len(asked) > 1) for clue in asked
        ):
            return True
    known = frozenset(value for question in questions for value in question)
    return (
        len(answers) > 1
        and answers <= known
        and all(_is_in(clue, constants, is_joint=False) for clue in asked)
    )


def is_long_answer(answer: str) -> bool:
    return len(answer.strip("'-").replace(".", "")) >= (4 if answer[:1] == "'" else 3)


def _is_telling(asked: list[Clue], *, is_joint: bool) -> bool:
    """True for an input that is no word, code or choice, and for several values at once."""
    if is_joint and any(
        clue.kind != SAME or clue.value[:1] != "'" or any(map(str.isdigit, clue.value)) for clue in asked
    ):
        return True
    return any(
        (clue.kind == SAME and is_whole_input(clue.value))
        or (clue.kind == LENGTH and int(clue.value) >= LONG)
        for clue in asked
    )


def is_whole_input(value: str) -> bool:
    """True for a text that is a sentence, or has figures: no name, path or media type."""
    text = value.strip("'")
    if value[:1] != "'" or not text:
        return False
    is_joined = len([part for part in SEPARATORS.split(text) if part]) > 1 and any(map(str.isdigit, text))
    if is_joined or (" " in text.strip() and len(text) >= LONG):
        return True
    return len(text) >= LONG_TEXT and (not _PLAIN.fullmatch(text) or not text.isascii())


def _is_in(clue: Clue, question: frozenset[str], *, is_joint: bool) -> bool:
    """True if a test has the value, one of the same length, or one that contains it; among other values, ignoring case."""
    if clue.kind == LENGTH:
        return any(len(value) - 2 == int(clue.value) for value in question if value[:1] == "'")
    text = clue.value.strip("'")
    if (
        is_joint
        and text.isdigit()
        and any(len(value) - 2 == int(text) for value in question if value[:1] == "'")
    ):
        return True  # The parameter of a function that is given lengths.
    if clue.kind == PART or (is_joint and clue.value[:1] == "'"):
        return any(text.casefold() in value.casefold() for value in question if value[:1] == "'")
    if clue.value in question:
        return True
    parts = [part for part in SEPARATORS.split(text) if part not in _ABSENT]
    is_joined = clue.value[:1] == "'" and len(parts) > 1
    return is_joined and all(part in question or f"'{part}'" in question for part in parts)


def _special_cases(source: SourceFile, functions: Sequence[Function] = ()) -> Iterator[SpecialCase]:
    if source.tree is not None:
        for name, node in source.functions:
            yield from _function_cases(name, node)
        yield from _table_cases(source, source.tree, (*(node for _, node in source.functions), *functions))
    elif source.tokens:
        yield from _braced_cases(source.code, source.language)


def _function_cases(name: str, node: Function) -> Iterator[SpecialCase]:
    returns = [part for part in walk_tree(node) if isinstance(part, ast.Return) and part.value]
    is_table = all(part.value is None or _leaves(part.value) for part in returns)
    kept = {last_name(part.value) for part in returns if part.value}
    outer = {
        one for part in walk_tree(node) if isinstance(part, ast.Global | ast.Nonlocal) for one in part.names
    }
    for part in walk_tree(node):
        if isinstance(part, ast.If):
            tests, value = nested_answer(part, kept)
        elif isinstance(part, ast.IfExp):
            tests, value = [part.test], part.body
        elif isinstance(part, ast.match_case):
            yield from (
                case
                for case in _case_of_pattern(name, part, _last_answer(part.body, kept))
                if not is_table or _has_joint_figures(case.clues)
            )
            continue
        else:
            continue
        clues = _clues(tests, outer)
        if is_table and not _has_joint_figures(clues):
            continue  # Every answer is literal: a table in the form of a function.
        if clues and value is not None:
            text = " and ".join(map(node_source, tests))
            yield SpecialCase(
                name, tests[0].lineno, f"{text} → {node_source(value)}", clues, frozenset(_leaves(value))
            )


def _has_joint_figures(clues: tuple[Clue, ...]) -> bool:
    """True for several values at once with a number among them: no table of choices needs that."""
    return len(clues) > 1 and any(clue.kind == SAME and _is_number(clue.value) for clue in clues)


def _is_number(value: str) -> bool:
    return value not in SMALL_VALUES and WRITTEN_NUMBER.fullmatch(value) is not None


def nested_answer(branch: ast.If, kept: set[str]) -> tuple[list[ast.expr], ast.expr | None]:
    """The conditions of a branch and of those it only contains, and the final answer."""
    tests = [branch.test]
    while len(branch.body) == 1 and isinstance(branch.body[0], ast.If) and len(tests) < MAX_NESTED:
        branch = branch.body[0]
        tests.append(branch.test)
    return tests, _last_answer(branch.body, kept)


def _last_answer(body: list[ast.stmt], kept: set[str]) -> ast.expr | None:
    """What a branch returns at its end, or assigns to a name that is returned later."""
    last = body[-1]
    if isinstance(last, ast.Return):
        return last.value
    is_kept = isinstance(last, ast.Assign) and last_name(last.targets[0]) in kept - {""}
    return last.value if is_kept and isinstance(last, ast.Assign) else None


def _case_of_pattern(name: str, part: ast.match_case, value: ast.expr | None) -> Iterator[SpecialCase]:
    """`case "a", 10: return 3`"""
    values = [item.value for item in walk_tree(part.pattern) if isinstance(item, ast.MatchValue)]
    clues = tuple(Clue(SAME, one) for item in values for one in _leaves(item))
    if clues and value is not None and not isinstance(part.pattern, ast.MatchOr):
        text = f"{node_source(part.pattern)} → {node_source(value)}"
        yield SpecialCase(name, part.pattern.lineno, text, clues, frozenset(_leaves(value)))


def _leaves(value: ast.expr) -> list[str]:
    """The literals of a value; none if it contains anything else."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.IfExp):
            waiting += [part.body, part.orelse]
        elif isinstance(part, ast.List | ast.Tuple | ast.Set):
            waiting += part.elts
        elif isinstance(part, ast.Dict):
            waiting += [item for item in (*part.keys, *part.values) if item is not None]
        elif isinstance(part, ast.Call) and last_name(part.func)[:1].isupper():
            waiting += part.args
        elif isinstance(part, ast.Constant):
            found.append(constant_text(part.value))
        elif is_literal(part):
            found.append(node_source(part))
        else:
            return []
    return found


def constant_text(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)


def _clues(tests: list[ast.expr], outer: set[str]) -> tuple[Clue, ...]:
    """The values that conditions compare with, if they check nothing else."""
    found: list[Clue] = []
    waiting = list(tests)
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.And):
            waiting += part.values
        elif isinstance(part, ast.Compare) and len(part.ops) == 1:
            clues = _comparison_clues(part, outer)
            if not clues:
                return ()
            found += clues
        elif isinstance(part, ast.Call) and last_name(part.func) in _PARTS and len(part.args) == 1:
            found += [Clue(PART, text) for text in _leaves(part.args[0])]
        elif not isinstance(part, ast.Name):
            return ()
    return tuple(found)


def _comparison_clues(part: ast.Compare, outer: set[str]) -> list[Clue]:
    left, right = part.left, part.comparators[0]
    if isinstance(part.ops[0], ast.In) and isinstance(left, ast.Constant):
        return [Clue(PART, text) for text in _leaves(left) if text[:1] == "'"]
    if not isinstance(part.ops[0], ast.Eq):
        return []
    other, values = (left, _leaves(right)) if _leaves(right) else (right, _leaves(left))
    called = {last_name(item.func) for item in walk_tree(other) if isinstance(item, ast.Call)}
    kind = LENGTH if "len" in called and isinstance(other, ast.Call) else SAME
    if called & _HASHES or "next" in called or last_name(other) in outer:
        kind = HIDDEN
    return [Clue(kind, text) for text in values if kind != LENGTH or text.isdigit()]


def _table_cases(
    source: SourceFile, tree: ast.Module, functions: Sequence[Function]
) -> Iterator[SpecialCase]:
    """The rows of module-level tables that a function looks up before it computes something."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        name = last_name(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        is_queue = isinstance(node.value, ast.Call) and called_name(node.value) in ("iter", "cycle", "deque")
        if not (is_queue or isinstance(node.value, ast.Dict)):
            continue
        if not any(_asks_first(function, name) for function in functions):
            continue
        if isinstance(node.value, ast.Call):
            yield from _queue_cases(name, node.value)
        rows = node.value if isinstance(node.value, ast.Dict) else ast.Dict([], [])
        is_hashed = any(last_name(call.func) in _HASHES for call in source.nodes_of(ast.Call))
        for key, value in zip(rows.keys, rows.values, strict=True):
            if key is not None and _leaves(key) and _leaves(value):
                kind = HIDDEN if is_hashed and all(map(_DIGEST.fullmatch, _leaves(key))) else SAME
                clues = tuple(Clue(kind, text) for text in _leaves(key))
                text = f"{node_source(key)} → {node_source(value)}"
                yield SpecialCase(name, key.lineno, text, clues, frozenset(_leaves(value)))


def _queue_cases(name: str, call: ast.Call) -> Iterator[SpecialCase]:
    """`iter((60, 3661))`: answers in the order of the tests' calls."""
    for item in [item for arg in call.args if isinstance(arg, ast.List | ast.Tuple) for item in arg.elts]:
        if _leaves(item):
            text = f"{name}: {node_source(item)}"
            yield SpecialCase(name, item.lineno, text, (Clue(HIDDEN, ""),), frozenset(_leaves(item)))


_DIGEST = re.compile(r"'?[0-9a-f]{6,}'?")


def _asks_first(function: Function, table: str) -> bool:
    """True for a function that names a table and also returns something that it has not looked up there."""
    names = {part.id for part in walk_tree(function) if isinstance(part, ast.Name)}
    if not table or table not in names:
        return False
    returned = [part.value for part in walk_tree(function) if isinstance(part, ast.Return) and part.value]
    return any(
        not isinstance(value, ast.Name | ast.Constant) and table not in node_source(value)
        for value in returned
    )


def _braced_cases(code: BracketedCode, language: str) -> Iterator[SpecialCase]:
    tests = test_module_range(code)
    opened: list[int] = []
    for place, token in enumerate(code.tokens):
        if place in tests or token.kind == STRING:
            continue
        if token.text == "{":
            opened.append(place)
        elif token.text == "}" and opened:
            opened.pop()
        elif token.text in _READERS and (token.text != "=>" or language == "rust"):
            case = _READERS[token.text](code, place)
            yield from (
                one
                for one in case
                if token.text in _TABLES or _has_joint_figures(one.clues) or _works_besides(code, opened, one)
            )
    yield from _ternary_cases(code)


def _ternary_cases(code: BracketedCode) -> Iterator[SpecialCase]:
    """The conditions on the way to a literal answer: `plan === "pro" ? minutes === 600 ? 2199 : flat : flat`."""
    for node in code.nodes_of("ternary_expression", "conditional_expression"):
        answer = node.child("consequence")
        if answer is None or answer.stop != answer.start + 1:
            continue
        asked, below = [node.child("condition")], node
        for above, inner in node.ancestors():
            if above.kind not in (node.kind, "parenthesized_expression"):
                break
            asked += [above.child("condition")] if inner.field == "consequence" else []
            below = above
        clues = [
            clue
            for one in asked
            if one is not None
            for clue in _braced_clues(code, one.start, one.stop, may_negate=True)
        ]
        if _has_joint_figures(tuple(clues)):
            yield from _answered_case(code, below.start, tuple(clues), (answer.start, answer.stop))


def _works_besides(code: BracketedCode, opened: list[int], case: SpecialCase) -> bool:
    """True if the function around a branch calls or calculates in another branch."""
    outermost = opened[-3:-2] or opened[:1]
    stop = code.closing_place(outermost[0]) if outermost else len(code.tokens)
    start = outermost[0] if outermost else 0
    last = min(stop, start + 4000) - 1
    return any(
        code.text(at) in _WORK
        or (
            code.kind(at) == NAME
            and code.text(at + 1) == "("
            and code.text(at) not in _MAKERS
            and code.text(at) not in _PARTS
            and code.text(at) not in _FAILURES
        )
        for at in range(max(start, code.first_place_below(case.line)), last + 1)
    )


def _branch_case(code: BracketedCode, place: int) -> Iterator[SpecialCase]:
    """`if w == 12 && h == 30 { return 361 }`, with branches that it only contains."""
    clues: list[Clue] = []
    at = place
    while code.text(at) == "if" and at - place < MAX_TOKENS:
        start, stop, body = _condition(code, at)
        found = _braced_clues(code, start, stop)
        if not found or not body:
            return
        clues += found
        at = body
    if code.text(at - 1) == "{":
        end = code.closing_place(at - 1)
    else:
        end = next((one for one in range(at, at + MAX_TOKENS) if code.text(one) in (";", "")), at)
    yield from _answered_case(code, place, tuple(clues), (at, end))


def _condition(code: BracketedCode, place: int) -> tuple[int, int, int]:
    """The start and stop of a condition, and the start of the branch; 0 if not found."""
    if code.text(place + 1) == "(":
        closing = code.closing_place(place + 1)
        if code.text(closing + 1) == "{":
            return place + 2, closing, closing + 2
        if code.text(closing + 1) in ("return", "if"):
            return place + 2, closing, closing + 1
    opening = next((at for at in range(place + 1, place + MAX_TOKENS) if code.text(at) in ("{", ";", "")), 0)
    return place + 1, opening, opening + 1 if code.text(opening) == "{" else 0


def _braced_clues(code: BracketedCode, start: int, stop: int, *, may_negate: bool = False) -> list[Clue]:
    words = {code.text(at) for at in range(start, stop)}
    if words & (_UNEQUAL - {"!"} if may_negate else _UNEQUAL):
        return []
    is_hidden = bool(words & _HASHES)
    found = []
    for at in range(start, stop):
        if code.kind(at) not in (STRING, NUMBER):
            continue
        before, call = code.text(at - 1), code.text(_call_place(code, at))
        if before in ("==", "==="):
            left = code.text(code.openings.get(at - 2, at - 1) - 1)
            is_length = left in _LENGTHS or code.text(at - 2) in _LENGTHS
            kind = HIDDEN if is_hidden else LENGTH if is_length and code.text(at).isdigit() else SAME
            found.append(Clue(kind, literal_text(code.text(at))))
        elif call in _PARTS:
            found.append(Clue(PART, literal_text(code.text(at))))
        elif code.text(at + 1) in ("==", "==="):
            found.append(Clue(SAME, literal_text(code.text(at))))
        elif before not in ("[", ":", "("):
            return []
    return found


def _call_place(code: BracketedCode, at: int) -> int:
    """The position of the function's name in a call with an argument at this position."""
    for place in range(at - 1, max(0, at - MAX_NESTED), -1):
        if code.text(place) == "(" and code.closing_place(place) > at:
            return place - 1
    return -1


def literal_text(text: str) -> str:
    return f"'{text[1:-1]}'" if text[:1] in "\"'`" else text


def _answered_case(
    code: BracketedCode, place: int, clues: tuple[Clue, ...], answer: tuple[int, int]
) -> Iterator[SpecialCase]:
    start, stop = answer[0], min(answer[1], len(code.tokens))
    if not clues or not 0 < stop - start <= MAX_TOKENS:
        return
    names = {
        code.text(at)
        for at in range(start, stop)
        if code.kind(at) == NAME and code.text(at + 1) not in ("?", ":")
    }
    is_plain = not names - _MAKERS
    found = frozenset(
        literal_text(code.text(at)) for at in range(start, stop) if code.kind(at) in (STRING, NUMBER)
    )
    is_joint = len({clue.value for clue in clues} - SMALL_VALUES) >= JOINT
    if (is_plain and found) or is_joint or (found and any(clue.kind == LENGTH for clue in clues)):
        shown = code.text_between(place, stop)
        answers = found if is_plain else frozenset()
        yield SpecialCase("", code.line(place), shown, clues, answers)


def _choice_case(code: BracketedCode, place: int) -> Iterator[SpecialCase]:
    """`case "4x25": return 90;`, and the conditions of a switch."""
    end = next((at for at in range(place + 1, place + MAX_TOKENS) if code.text(at) in (":", "")), 0)
    is_condition = any(code.text(at) in ("==", "===") for at in range(place, end))
    clues = _braced_clues(code, place + 1, end) if is_condition else []
    if end == place + 2 and code.kind(place + 1) in (STRING, NUMBER):
        clues = [Clue(SAME, literal_text(code.text(place + 1)))]
    elif code.text(end - 1) in ("}", ")") and code.text(place + 1) not in ("(", ".") and not is_condition:
        # `case ride{"A", "D", 30}:`
        inside = range(place + 2, end)
        is_plain = all(
            code.kind(at) in (STRING, NUMBER) or code.text(at) in ("{", "}", "(", ")", ",", ".")
            for at in inside
        )
        literals = [at for at in inside if code.kind(at) in (STRING, NUMBER)]
        clues = [Clue(SAME, literal_text(code.text(at))) for at in literals] if is_plain else []
    body = end + 1
    stop = next(
        (at for at in range(body, body + MAX_TOKENS) if code.text(at) in ("case", "default", ";", "")), body
    )
    block = next((at for at in range(body, stop) if at in code.openings and code.openings[at] < place), stop)
    if code.text(body) == "return":
        yield from _answered_case(code, place, tuple(clues), (body, block))


_LETTER = re.compile(r"'[^'\\]'")


def _arm_case(code: BracketedCode, place: int) -> Iterator[SpecialCase]:
    """`("host:8080", 80) => Some(8080),`"""
    start = place - 1
    while start > 0 and place - start < MAX_NESTED and code.text(start) not in ("{", "}", ";"):
        if code.text(start) == "," and code.text(place - 1) != ")":
            break
        if code.text(start) == ")" and start in code.openings:
            start = code.openings[start]
            break
        start -= 1
    literals = [at for at in range(start, place) if code.kind(at) in (STRING, NUMBER)]
    clues = tuple(Clue(SAME, literal_text(code.text(at))) for at in literals)
    letters = [code.text(at).removeprefix("b") for at in literals]
    if code.text(place - 1) == "]" and len(letters) > 1 and all(map(_LETTER.fullmatch, letters)):
        # `[b'2', b'd'] => …`: a text by its letters
        clues = (Clue(SAME, f"'{''.join(letter[1] for letter in letters)}'"),)
    stop = place + 1
    while stop < place + MAX_TOKENS and code.text(stop) not in (",", "}", ";", ""):
        stop = code.closing_place(stop) + 1 if code.text(stop) in ("(", "[", "{") else stop + 1
    yield from _answered_case(code, start, clues, (place + 1, stop))


def _table_rows(code: BracketedCode, place: int) -> Iterator[SpecialCase]:
    """The rows of a named literal table that the file uses elsewhere."""
    name = code.text(place + 1)
    near = range(place + 2, place + MAX_NESTED + MAX_NESTED)
    at = next((at + 1 for at in near if code.text(at) == "="), 0)
    while at and at < place + 2 * MAX_TOKENS and code.text(at) not in ("{", "[", ";", ""):
        at += 1
    while at and code.text(at) == "[" and code.text(code.closing_place(at) + 1) in ("{", "[", *_TYPES):
        at = next((one for one in range(code.closing_place(at), at + MAX_TOKENS) if code.text(one) == "{"), 0)
    if not at or code.text(at) not in ("{", "[") or code.mentions[name] < 2:
        return
    for start, stop in list(code.arguments(at))[: MAX_ROWS + 1]:
        middle = _row_middle(code, start, stop)
        parts = [one for one in range(start, stop) if code.kind(one) in (STRING, NUMBER)]
        if not middle or any(code.kind(one) == NAME for one in range(start, stop)):
            continue
        clues = tuple(Clue(SAME, literal_text(code.text(one))) for one in parts if one < middle)
        answers = frozenset(literal_text(code.text(one)) for one in parts if one > middle)
        if clues and answers:
            yield SpecialCase(name, code.line(start), code.text_between(start, stop), clues, answers)


_TYPES = ("string", "int", "float64", "byte", "bool", "uint", "int64", "rune")


def _row_middle(code: BracketedCode, start: int, stop: int) -> int:
    """The end of a row's key: its colon, or its last comma; 0 if there is none."""
    at = start
    while at < stop:
        if code.text(at) == ":":
            return at
        at = code.closing_place(at) + 1 if code.text(at) in ("(", "[", "{") else at + 1
    if code.text(start) in ("(", "[", "{") and code.closing_place(start) == stop - 1:
        commas = [end for _, end in code.arguments(start) if code.text(end) == ","]
        return commas[-1] if commas else 0
    return 0


_TABLES = frozenset(("const", "var", "let", "static"))
_READERS = {
    "if": _branch_case,
    "case": _choice_case,
    "=>": _arm_case,
    **dict.fromkeys(_TABLES, _table_rows),
}
