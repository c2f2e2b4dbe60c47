"""What a Python assertion proves."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable

from remand.domain.text.words import word_set
from remand.integrity.readers.cases import BOUNDED, COUNTED, EXACT, LOOSE, NARROW, NOTHING, Assertion
from remand.integrity.readers.python_tree import (
    call_argument,
    called_name,
    constant_texts,
    is_literal,
    is_true,
    last_name,
    node_source,
    parse_number,
    walk_tree,
)

_UNITTEST = {
    **dict.fromkeys(
        (
            "assertEqual",
            "assertEquals",
            "assertListEqual",
            "assertDictEqual",
            "assertTupleEqual",
            "assertSetEqual",
        ),
        EXACT,
    ),
    **dict.fromkeys(
        ("assertMultiLineEqual", "assertSequenceEqual", "assertCountEqual", "assertAlmostEqual"), EXACT
    ),
    **dict.fromkeys(
        ("assertIs", "assertJSONEqual", "assertQuerySetEqual", "assertHTMLEqual", "assertRedirects"), EXACT
    ),
    **dict.fromkeys(("assertRaisesRegex", "assertWarnsRegex"), NARROW),
    **dict.fromkeys(("assertRaises", "assertWarns", "assertLogs", "assertNumQueries"), EXACT),
    **dict.fromkeys(("assertIsNotNone", "assertIsInstance", "assertNotIsInstance"), LOOSE),
}
_CALLED = {
    "assert_called_once_with": EXACT,
    "assert_called_with": EXACT,
    "assert_has_calls": EXACT,
    "assert_awaited_once_with": EXACT,
    "assert_any_call": BOUNDED,
    "assert_called_once": BOUNDED,
    "assert_not_called": BOUNDED,
    "assert_called": LOOSE,
}
_MISTAKEN = word_set("called_with called_once_with has_calls not_called called_once any_call awaited_with")
"""Names that a mock accepts like any other call, though they read like an assertion."""
_LOOSE_CALLS = frozenset(("isinstance", "hasattr", "callable", "issubclass", "any", "bool", "len"))
_BROAD = frozenset(("Exception", "BaseException"))
_HELPER = re.compile(r"_*(assert|check|verify|expect|ensure|should)(_\w+|[A-Z]\w*)")
_FAILS = frozenset(("fail", "AssertionError"))

KnownValues = dict[str, str]
"""The simple names assigned in a function, with their values as text."""


def statement_assertion(node: ast.stmt, known: KnownValues) -> Assertion | None:
    """The assertion that a statement is; None if it is none."""
    if isinstance(node, ast.Assert):
        return _assert_statement(node, node.test, known)
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Await):
        value = value.value
    return call_assertion(value, known) if isinstance(value, ast.Call) else None


def call_assertion(call: ast.Call, known: KnownValues) -> Assertion | None:
    """The assertion that a call is: of unittest, of a mock, or a helper with such a name; None if it is none."""
    name = last_name(call.func)
    if name in ("assertTrue", "assertFalse") and call.args:
        if name == "assertTrue":
            return _assert_statement(call, call.args[0], known)
        is_nothing = isinstance(call.args[0], ast.Constant) and not call.args[0].value
        return _build_assertion(call, node_source(call.args[0]), NOTHING if is_nothing else BOUNDED)
    if name in _UNITTEST or (name.startswith("assert") and name[6:7].isupper()):
        return _unittest_assertion(call, name, known)
    if name in _CALLED or (name in _MISTAKEN and isinstance(call.func, ast.Attribute)):
        return _build_assertion(call, node_source(call.func).rpartition(".")[0], _CALLED.get(name, NOTHING))
    if _HELPER.fullmatch(name) and not called_name(call).startswith("subprocess."):
        return _build_assertion(call, name, EXACT)._replace(
            tolerance=_allowed_tolerance(call) if "close" in name else 0.0
        )
    return None


_WRITERS = word_set("write_text write_bytes write dump writelines")
_READERS = word_set("read_text read_bytes read load readlines")


def written_values(parts: Iterable[ast.AST]) -> frozenset[str]:
    """The values that a test writes into files, if they come from a call."""
    calls = (part for part in parts if isinstance(part, ast.Call) and last_name(part.func) in _WRITERS)
    return frozenset(node_source(arg) for call in calls for arg in call.args[:1] if isinstance(arg, ast.Call))


def is_read_back(node: ast.stmt, written: frozenset[str]) -> bool:
    """True if a value of the product is compared with a file into which the test wrote the same value."""
    test = node.test if isinstance(node, ast.Assert) else None
    sides: list[ast.expr] = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        sides = node.value.args[:2]
    return any(node_source(side) in written for side in sides) and any(
        isinstance(part, ast.Call) and last_name(part.func) in _READERS
        for side in sides
        for part in walk_tree(side)
    )


def _is_generator(node: ast.expr, known: KnownValues) -> bool:
    """True for a generator expression, or a name for one: it is always true, whatever it would yield."""
    text = known.get(node.id, "") if isinstance(node, ast.Name) else node_source(node)
    if " for " not in text or not text.startswith("("):
        return False
    try:
        return isinstance(ast.parse(text, mode="eval").body, ast.GeneratorExp)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


_PLAIN_COPIES = word_set("list tuple dict set copy deepcopy str bytes")
_COPY = re.compile(r"(\w+)\((\w+)\)|(\w+)\.copy\(\)|(\w+)\[:\]|[\[({]\*+(\w+),?[\])}]|(\w+)")


class Copies:
    """The names in a body that are copies of another name's value."""

    def __init__(self, parts: list[ast.AST]) -> None:
        self._lines: defaultdict[str, list[int]] = defaultdict(list)
        self._origins: dict[str, tuple[str, int]] = {}
        for part in parts:
            if isinstance(part, ast.Name):
                self._lines[part.id].append(part.lineno)
            elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
                name, last = part.targets[0].id, part.end_lineno or part.lineno
                origin = _copied_name(node_source(part.value))
                self._origins.pop(name, None)
                if origin:
                    self._origins[name] = origin, last

    def are_compared(self, node: ast.stmt) -> bool:
        """True if a value is compared with its copy, and neither was used in between."""
        test = node.test if isinstance(node, ast.Assert) else None
        sides: list[ast.expr] = []
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            sides = [test.left, *test.comparators]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            sides = node.value.args[:2] if last_name(node.value.func) in _UNITTEST else []
        names = [side.id for side in sides if isinstance(side, ast.Name)]
        for name, other in (names, names[::-1]) if len(names) == 2 else ():
            origin, line = self._origins.get(name, ("", 0))
            used = (*self._lines[name], *self._lines[other])
            if origin == other and not any(line < one < node.lineno for one in used):
                return True
        return False


def _copied_name(text: str) -> str:
    """The name that an expression copies: `list(found)`, `found.copy()`, `copy.deepcopy(found)`; empty for none."""
    match = _COPY.fullmatch(text.removeprefix("copy."))
    if match is None or (match[1] and match[1] not in _PLAIN_COPIES):
        return ""
    return next((group for group in match.groups()[1:] if group), "")


def with_assertion(item: ast.withitem) -> Assertion | None:
    """The assertion of a `with` block: that something raises, warns or logs; None for any other block."""
    call = item.context_expr
    if not isinstance(call, ast.Call):
        return None
    name = last_name(call.func)
    if name in ("raises", "warns", "assertRaises", "assertRaisesRegex", "assertWarns", "RaisesGroup"):
        return _build_assertion(call, "raises", _raises_strength(call, name))
    if name in ("assertLogs", "assertNumQueries", "assertNoLogs", "deprecated_call", "subTest"):
        return None if name == "subTest" else _build_assertion(call, name, EXACT)
    return None


def branch_assertion(node: ast.If) -> Assertion | None:
    """The assertion in `if …: pytest.fail()` or `if …: raise AssertionError`, with the condition inverted."""
    if not node.body or not is_outright_failure(node.body[-1]):
        return None
    strength = EXACT if any(isinstance(part, ast.NotEq) for part in walk_tree(node.test)) else BOUNDED
    return Assertion(
        node.lineno,
        f"not {node_source(node.test)}",
        node_source(node.test),
        strength,
        constant_texts(walk_tree(node.test)),
    )


def is_outright_failure(node: ast.stmt) -> bool:
    """True for a statement that always fails the test."""
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return last_name(raised) in _FAILS
    return isinstance(node, ast.Expr) and called_name(node.value).endswith(("pytest.fail", "self.fail"))


def is_skip(node: ast.stmt) -> bool:
    """True for a statement that skips the test."""
    return isinstance(node, ast.Expr) and called_name(node.value) in ("pytest.skip", "self.skipTest")


def may_fail(nodes: list[ast.stmt]) -> bool:
    """True if some statements raise, fail or assert."""
    for node in nodes:
        for part in walk_tree(node):
            if isinstance(part, ast.Raise | ast.Assert):
                return True
            if isinstance(part, ast.Call) and last_name(part.func).startswith(("fail", "assert", "exit")):
                return True
    return False


def _raises_strength(call: ast.Call, name: str) -> int:
    expected = call.args[0] if call.args else call_argument(call, "expected_exception")
    if last_name(expected) in _BROAD:
        return LOOSE
    has_words = call_argument(call, "match") is not None or name.endswith("Regex")
    return NARROW if has_words else EXACT


def _unittest_assertion(call: ast.Call, name: str, known: KnownValues) -> Assertion:
    args = call.args
    strength = _UNITTEST.get(name, BOUNDED)
    if name.startswith(("assertRaises", "assertWarns")):
        return _build_assertion(call, "raises", _raises_strength(call, name))
    if len(args) >= 2 and name in _UNITTEST:
        if is_literal(args[0]) and is_literal(args[1]):
            strength = NOTHING
        elif _is_same_expression(args[0], args[1], known):
            strength = _self_comparison_strength(args[0], args[1], known)
        elif any(_is_flag(arg) for arg in args[:2]):
            strength = min(strength, BOUNDED)
        elif _is_count(args[0], args[1]):
            strength = min(strength, COUNTED)
    if args and _is_generator(args[0], known) and len(args) == 1:
        strength = NOTHING
    subject = next((arg for arg in args if not is_literal(arg)), args[0] if args else call)
    tolerance = _almost_equal_tolerance(call) if name == "assertAlmostEqual" else 0.0
    return _build_assertion(call, _look_up_subject(subject, known), strength)._replace(
        tolerance=tolerance, parts=_value_count(args[1:2])
    )


def _look_up_subject(node: ast.expr, known: KnownValues) -> str:
    """What an assertion checks, with a name replaced by its value."""
    text = node_source(node)
    name, dot, rest = text.partition(".")
    return f"{known[name]}{dot}{rest}" if name in known else text


def _almost_equal_tolerance(call: ast.Call) -> float:
    scale = abs(next((found for arg in call.args[:2] if (found := parse_number(arg))), 1.0)) or 1.0
    delta = parse_number(call_argument(call, "delta"))
    if delta is not None:
        return abs(delta) / scale
    places = parse_number(call_argument(call, "places", 2))
    digits = min(max(7.0 if places is None else places, -300.0), 300.0)
    return float(10.0**-digits) / scale


def _assert_statement(node: ast.Assert | ast.Call, test: ast.expr, known: KnownValues) -> Assertion:
    text = node_source(node.test if isinstance(node, ast.Assert) else node)
    subject = test.left if isinstance(test, ast.Compare) else test
    if isinstance(test, ast.Compare) and is_literal(test.left):
        subject = test.comparators[0]
    return Assertion(
        node.lineno,
        text,
        _look_up_subject(subject, known),
        strength_of(test, known),
        constant_texts(walk_tree(test)),
        parts=_value_count(test.comparators)
        if isinstance(test, ast.Compare)
        else (len(test.values) if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else 1),
        tolerance=_tolerance(test),
        slack=_slack(test),
        bound=_bound(test),
    )


def _build_assertion(call: ast.Call, subject: str, strength: int) -> Assertion:
    return Assertion(call.lineno, node_source(call), subject, strength, constant_texts(walk_tree(call)))


def strength_of(test: ast.expr, known: KnownValues) -> int:
    """How much it proves that an expression is true."""
    if isinstance(test, ast.NamedExpr):
        test = test.value
    if isinstance(test, ast.Name) and _is_generator(test, known):
        return NOTHING
    if is_true(test) or isinstance(test, ast.Lambda | ast.GeneratorExp | ast.JoinedStr):
        return NOTHING
    if isinstance(test, ast.BoolOp):
        found = [strength_of(value, known) for value in test.values]
        return max(found) if isinstance(test.op, ast.And) else min(BOUNDED, *found)
    if isinstance(test, ast.Compare):
        return _comparison_strength(test, known)
    if isinstance(test, ast.Call):
        name = last_name(test.func)
        if name == "callable" and known.get(node_source(test)[9:-1], "").startswith("lambda"):
            return NOTHING
        if name in ("allclose", "isclose", "array_equal", "equals", "assert_frame_equal"):
            return EXACT
        return LOOSE if name in _LOOSE_CALLS else BOUNDED
    return BOUNDED


def _comparison_strength(test: ast.Compare, known: KnownValues) -> int:
    left, right, operator = test.left, test.comparators[0], test.ops[0]
    if len(test.ops) > 1:
        # `a == b == "x"` proves of each pair what the pair alone would.
        sides = [test.left, *test.comparators]
        pairs = zip(sides, test.ops, sides[1:], strict=False)
        return max(
            _comparison_strength(ast.Compare(one, [sign], [other]), known) for one, sign, other in pairs
        )
    if is_literal(left) and is_literal(right):
        return NOTHING
    if isinstance(operator, ast.Eq | ast.Is | ast.GtE | ast.LtE) and _is_same_expression(left, right, known):
        return _self_comparison_strength(left, right, known)
    if isinstance(operator, ast.Eq | ast.Is):
        return _equality_strength(left, right)
    if isinstance(operator, ast.IsNot | ast.NotEq) and (
        isinstance(right, ast.Constant) and right.value is None
    ):
        return LOOSE
    if isinstance(operator, ast.Gt | ast.GtE) and parse_number(right) in (0.0, -1.0):
        is_length = isinstance(left, ast.Call) and last_name(left.func) == "len"
        return NOTHING if is_length and isinstance(operator, ast.GtE) else LOOSE
    return BOUNDED


def _equality_strength(left: ast.expr, right: ast.expr) -> int:
    if any(last_name(side) == "ANY" for side in (left, right)):
        return LOOSE
    if any(last_name(part) == "ANY" for side in (left, right) for part in walk_tree(side)):
        return BOUNDED
    if _is_count(left, right):
        return COUNTED
    if any(called_name(side) == "type" for side in (left, right)):
        return LOOSE
    if all(last_name(side.func) == "keys" for side in (left, right) if isinstance(side, ast.Call)) and (
        isinstance(left, ast.Call) and isinstance(right, ast.Call)
    ):
        return BOUNDED
    is_truth = any(isinstance(side, ast.Compare) for side in (left, right))
    return BOUNDED if is_truth or _is_flag(left) or _is_flag(right) else EXACT


def _is_count(one: ast.expr, other: ast.expr) -> bool:
    """True for a comparison of counts, unless the expected count is zero, which is exact."""
    return "len" in (called_name(one), called_name(other)) and 0.0 not in (
        parse_number(one),
        parse_number(other),
    )


def _is_flag(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is flag for flag in (True, False, None))


def _self_comparison_strength(left: ast.expr, right: ast.expr, known: KnownValues) -> int:
    """How much a comparison of equal expressions proves: a name always equals itself, but two calls may differ."""
    one, other = node_source(left), node_source(right)
    if "(" not in known.get(one, one):
        return NOTHING
    return BOUNDED if one != other and one in known and other in known else LOOSE


def _is_same_expression(left: ast.expr, right: ast.expr, known: KnownValues) -> bool:
    """True if both sides are the same expression, with names replaced by their assigned values once."""
    one, other = node_source(left), node_source(right)
    return known.get(one, one) == known.get(other, other)


def _value_count(nodes: list[ast.expr]) -> int:
    """How many values a literal value has."""
    for node in nodes:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return max(1, len(node.elts))
        if isinstance(node, ast.Dict):
            return max(1, len(node.values))
        if isinstance(node, ast.Call):
            return max(1, len(node.args) + len(node.keywords))
    return 1


def _tolerance(test: ast.expr) -> float:
    """The relative tolerance of a comparison."""
    for part in walk_tree(test):
        if isinstance(part, ast.Call) and last_name(part.func) in ("approx", "isclose", "allclose"):
            return _allowed_tolerance(part)
    return 0.0


def _slack(test: ast.expr) -> float:
    for part in walk_tree(test):
        if isinstance(part, ast.Call) and last_name(part.func) in ("approx", "isclose"):
            given = next(
                (
                    parse_number(call_argument(part, name))
                    for name in ("abs", "abs_tol")
                    if call_argument(part, name)
                ),
                None,
            )
            expected = next((arg for arg in part.args[:2] if parse_number(arg) is not None), None)
            if given is not None and expected is not None:
                digits = node_source(expected).partition(".")[2].partition("e")[0]
                return abs(given) * float(10 ** min(len(digits), 15))
    return 0.0


def _allowed_tolerance(call: ast.Call) -> float:
    scale = abs(next((found for arg in call.args[:2] if (found := parse_number(arg))), 1.0)) or 1.0
    relative = [parse_number(call_argument(call, name)) for name in ("rel", "rtol", "rel_tol")]
    absolute = [parse_number(call_argument(call, name)) for name in ("abs", "atol", "abs_tol")]
    allowed = [value for value in relative if value is not None]
    allowed += [value / scale for value in absolute if value is not None]
    return max(allowed, default=1e-6)


def _bound(test: ast.expr) -> tuple[str, float] | None:
    if not isinstance(test, ast.Compare) or len(test.ops) > 1:
        return None
    limit = parse_number(test.comparators[0])
    if limit is None:
        return None
    if isinstance(test.ops[0], ast.Lt | ast.LtE):
        return "<", limit
    return (">", limit) if isinstance(test.ops[0], ast.Gt | ast.GtE) else None
