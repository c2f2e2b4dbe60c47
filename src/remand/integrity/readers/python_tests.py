"""The tests in a Python file: by its syntax tree, or by its lines if this Python version cannot parse it."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator

from remand.integrity.readers import python_assertions as asserts
from remand.integrity.readers.cases import EXACT, NOTHING, Assertion, ParsedTest, SkipMarker, is_smoke_name
from remand.integrity.readers.expected_values import is_same_result
from remand.integrity.readers.python_collection import (
    MAX_REPEATS,
    FunctionScope,
    ModuleContext,
    collected_functions,
    conditional_skip,
    function_skips,
    length_of,
    list_lengths,
    module_skips,
)
from remand.integrity.readers.python_tree import (
    Function,
    all_nodes,
    call_argument,
    called_functions,
    called_name,
    constant_texts,
    decorator_names,
    dotted_name,
    fingerprint,
    is_false,
    is_true,
    last_name,
    node_source,
    node_words,
    parse_number,
    walk_tree,
    without_docstring,
)

_PROPERTY = 20
"""How many examples a property test counts as."""
_HELPER_NAMES = re.compile(r"^\.|test|conftest|helper|support|assert|check|verify|expect|approv|snapshot")
_SET_UP = frozenset(("setUp", "setUpClass", "setup_method", "setup_class", "setup_module", "asyncSetUp"))
_CATCH_ALL = frozenset(("AssertionError", "failureException", "Exception", "BaseException"))


def parse_python_tests(tree: ast.Module) -> tuple[ParsedTest, ...]:
    """All tests and other functions; of several with one name, the last, which is the one that runs."""
    outer = module_skips(tree)
    found: dict[str, ParsedTest] = {}
    for scope, node in collected_functions(tree):
        case = _parse_test(node, scope)
        is_gone = case.name in scope.module.gone
        found[case.name] = case._replace(
            is_collected=case.is_collected and not is_gone, skips=(*case.skips, *outer)
        )
    return tuple(found.values())


def find_shadowed_tests(tree: ast.Module) -> dict[str, int]:
    """Tests that a later one of the same name replaces, with the line of the later one."""
    found: dict[str, int] = {}
    for prefix, body in (
        ("", tree.body),
        *[(f"{node.name} › ", node.body) for node in tree.body if isinstance(node, ast.ClassDef)],
    ):
        seen: set[str] = set()
        for node in body:
            if isinstance(node, Function) and node.name.startswith("test"):
                if node.name in seen:
                    found[f"{prefix}{node.name}"] = node.lineno
                seen.add(node.name)
    return found


def _parse_test(node: Function, scope: FunctionScope) -> ParsedTest:
    body = without_docstring(node.body)
    parts = all_nodes(body)
    reader = _BodyReader(node, parts, scope.module)
    times = _parameter_count(node, scope)
    found = tuple(_multiply(item, times) for item in reader.assertions)
    act = [part for part in body if asserts.statement_assertion(part, {}) is None]
    is_test = node.name.startswith("test") and scope.is_collected
    return ParsedTest(
        name=f"{scope.prefix}{node.name}",
        line=node.lineno,
        is_collected=is_test and "fixture" not in decorator_names(node) and not reader.yields,
        assertions=found,
        skips=(*function_skips(_decorators(node, scope), body), *map(conditional_skip, scope.conditions)),
        words=node_words(parts),
        body=fingerprint(parts),
        act=node_words(all_nodes(act)),
        calls=called_functions(parts) - (_bare_calls(parts) & scope.module.coroutines),
        literals=constant_texts([*parts, *all_nodes(_parameter_values(node))]),
        uses=frozenset(
            dotted_name(part.value) for part in parts if isinstance(part, ast.Attribute | ast.Subscript)
        ),
        traps=tuple(reader.traps),
        examples=_example_count(node),
        is_smoke=is_smoke_name(node.name) or _relies_on_fixture(node),
        is_plain=_is_plain(node, parts, scope.module.names),
        class_words=scope.class_words,
        is_empty=all(isinstance(part, ast.Pass) or _is_bare(part) for part in body),
        sets_up="fixture" in decorator_names(node) or node.name in _SET_UP,
    )


def _decorators(node: Function, scope: FunctionScope) -> list[ast.expr]:
    """The decorators of a function and of the classes around it, with imported names resolved."""
    given = (*scope.decorators, *node.decorator_list)
    return [scope.module.aliases.get(item.id, item) if isinstance(item, ast.Name) else item for item in given]


def _parameter_values(node: Function) -> Iterator[ast.expr]:
    """A test's decorators, without those that skip it; only the values of one that gives it parameters."""
    for decorator in node.decorator_list:
        name = last_name(decorator.func) if isinstance(decorator, ast.Call) else ""
        if name == "parametrize" and isinstance(decorator, ast.Call):
            yield call_argument(decorator, "argvalues", 1) or decorator
        elif not name.startswith(("skip", "xfail")):
            yield decorator


def _multiply(found: Assertion, times: int | None) -> Assertion:
    if times is None:
        return found._replace(is_counted=False)
    return found._replace(times=min(found.times * times, MAX_REPEATS))


def _is_plain(node: Function, parts: list[ast.AST], names: dict[str, str]) -> bool:
    """True if a test calls only what it imported from the product, and methods of the results."""
    given = {argument.arg for argument in node.args.args}
    for part in parts:
        if not isinstance(part, ast.Call):
            continue
        root = part.func
        while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        name = root.id if isinstance(root, ast.Name) else ""
        is_unknown = name in given or (
            isinstance(part.func, ast.Name) and name not in names and not hasattr(builtins, name)
        )
        if is_unknown or _HELPER_NAMES.search(names.get(name, "")):
            return False
    return True


def _is_bare(node: ast.stmt) -> bool:
    is_return = isinstance(node, ast.Return) and (node.value is None or isinstance(node.value, ast.Constant))
    return is_return or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _relies_on_fixture(node: Function) -> bool:
    """True if a fixture asserts for the test: benchmarks, snapshots, recorded figures."""
    names = {argument.arg for argument in node.args.args}
    marks = {last_name(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list}
    return "benchmark" in marks or any(
        name.endswith(("benchmark", "snapshot", "regression", "image_compare")) for name in names
    )


def _parameter_count(node: Function, scope: FunctionScope) -> int | None:
    """The number of a test's cases by its parameters; None if these are not literal."""
    times = scope.times
    if any(isinstance(item, ast.Call) and last_name(item.func) == "given" for item in node.decorator_list):
        return _PROPERTY
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or not called_name(decorator).endswith(
            ("parametrize", "expand")
        ):
            continue
        given = call_argument(
            decorator, "argvalues", 1 if called_name(decorator).endswith("parametrize") else 0
        )
        length = length_of(given, scope.module.lists) if given is not None else None
        if length is None:
            return None
        times *= length
    return min(times, MAX_REPEATS)


def _example_count(node: Function) -> float:
    calls = (
        item
        for item in node.decorator_list
        if isinstance(item, ast.Call) and last_name(item.func) == "settings"
    )
    return next(
        (found for call in calls if (found := parse_number(call_argument(call, "max_examples"))) is not None),
        0.0,
    )


class _BodyReader:
    """Reads a test's body: the assertions that are reached, and what prevents them from failing."""

    def __init__(self, function: Function, parts: list[ast.AST], module: ModuleContext) -> None:
        self.assertions: list[Assertion] = []
        self.traps: list[tuple[str, int, str]] = []
        self.yields = False
        self._aliases, self._lazy = module.aliases, module.coroutines
        self._lists = module.lists | list_lengths(function.body)
        self._known = _assignments(parts)
        self._used = node_words(parts)
        self._unrun = _unrun_functions(parts)
        self._copies = asserts.Copies(parts)
        self._writes = asserts.written_values(parts)
        self._read_body(function.body, 1, is_conditional=False)

    def _read_body(self, body: list[ast.stmt], times: int, *, is_conditional: bool) -> None:
        for node in body:
            self._read_statement(node, times, is_conditional=is_conditional)
            if isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break):
                return
            is_conditional = is_conditional or _may_return(node) or self._passes_over(node)

    def _read_statement(self, node: ast.stmt, times: int, *, is_conditional: bool) -> None:
        found = asserts.statement_assertion(node, self._known)
        is_idle = bool(self._lazy and _bare_calls([node]) & self._lazy)
        if is_idle and found is None and isinstance(node, ast.Expr):
            found = Assertion(node.lineno, node_source(node.value), node_source(node.value), NOTHING)
        is_own = self._copies.are_compared(node) or asserts.is_read_back(node, self._writes)
        if found is not None and (is_idle or is_own):
            found = found._replace(strength=NOTHING)
        if found is not None:
            self._add_assertion(found, times, is_conditional=is_conditional)
        elif isinstance(node, ast.If):
            self._read_branch(node, times, is_conditional=is_conditional)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._read_loop(node, times, is_conditional=is_conditional)
        elif isinstance(node, ast.While):
            self._read_body(node.body, 0 if is_false(node.test) else times, is_conditional=is_conditional)
        elif isinstance(node, ast.With | ast.AsyncWith):
            self._read_with(node, times, is_conditional=is_conditional)
        elif isinstance(node, ast.Try | ast.TryStar):
            self._read_try(node, times, is_conditional=is_conditional)
        elif isinstance(node, Function) and node.name in self._used and node.name not in self._unrun:
            self._read_body(node.body, times, is_conditional=is_conditional)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
            self.yields = True

    def _passes_over(self, node: ast.stmt) -> bool:
        """True for a branch of a loop that skips a row by its result."""
        if not isinstance(node, ast.If) or not all(isinstance(part, ast.Continue) for part in node.body):
            return False
        names = (part.id for part in walk_tree(node.test) if isinstance(part, ast.Name))
        return any("(" in self._known.get(name, "") for name in names)

    def _add_assertion(self, found: Assertion, times: int, *, is_conditional: bool) -> None:
        if times > 0:
            self.assertions.append(found._replace(times=times, is_conditional=is_conditional))

    def _read_loop(self, node: ast.For | ast.AsyncFor, times: int, *, is_conditional: bool) -> None:
        start = len(self.assertions)
        length = length_of(node.iter, self._lists)
        self._read_body(node.body, times if length is None else times * length, is_conditional=is_conditional)
        if length is None:
            rows = node_source(node.iter)
            rows = self._known.get(rows, rows)
            self.assertions[start:] = [
                item._replace(
                    is_counted=False,
                    strength=NOTHING if is_same_result(rows, item.text) else item.strength,
                )
                for item in self.assertions[start:]
            ]

    def _read_branch(self, node: ast.If, times: int, *, is_conditional: bool) -> None:
        failing = asserts.branch_assertion(node)
        if failing is not None:
            self._add_assertion(failing, times, is_conditional=is_conditional)
            return
        is_certain = is_true(node.test)
        is_left = is_false(node.test) or any(map(asserts.is_skip, node.body))
        start = len(self.assertions)
        if not is_false(node.test):
            self._read_body(node.body, times, is_conditional=is_conditional or not is_certain)
        middle = len(self.assertions)
        if not is_certain:
            self._read_body(node.orelse, times, is_conditional=is_conditional or not is_left)
        if not is_conditional and start < middle < len(self.assertions):
            # Every branch asserts something.
            self.assertions[start:] = [
                item._replace(is_conditional=False) for item in self.assertions[start:]
            ]

    def _read_with(self, node: ast.With | ast.AsyncWith, times: int, *, is_conditional: bool) -> None:
        start = len(self.assertions)
        for item in node.items:
            found = asserts.with_assertion(item)
            if found is not None:
                self._add_assertion(found, times, is_conditional=is_conditional)
        self._read_body(node.body, times, is_conditional=is_conditional)
        raising = sum(asserts.with_assertion(item) is not None for item in node.items)
        for item in [self._look_up(item) for item in node.items]:
            is_any = _expects_any_error(item) and not _expects_message(item, node.body)
            if (is_any and len(self.assertions) > start + raising) or (
                _suppresses(item) and len(self.assertions) > start
            ):
                self._void_assertions(start, node.lineno, f"with {node_source(item)}")

    def _look_up(self, item: ast.withitem) -> ast.withitem:
        """The expression behind a name at the head of a `with`."""
        value = item.context_expr
        known = self._aliases.get(value.id) if isinstance(value, ast.Name) else None
        return ast.withitem(known) if known is not None else item

    def _read_try(self, node: ast.Try | ast.TryStar, times: int, *, is_conditional: bool) -> None:
        start = len(self.assertions)
        self._read_body(node.body, times, is_conditional=is_conditional)
        swallowing = [handler for handler in node.handlers if _swallows(handler)]
        if swallowing and len(self.assertions) > start:
            self._void_assertions(start, swallowing[0].lineno, _handler_text(swallowing[0]))
        if any(isinstance(part, ast.Return) for part in node.finalbody) and len(self.assertions) > start:
            self._void_assertions(start, node.finalbody[0].lineno, "finally: return")
        must_raise = any(map(asserts.is_outright_failure, (*node.body[-1:], *node.orelse)))
        for handler in node.handlers:
            self._read_body(handler.body, times, is_conditional=not must_raise)
        self._read_body(node.orelse, times, is_conditional=is_conditional)
        self._read_body(node.finalbody, times, is_conditional=is_conditional)

    def _void_assertions(self, start: int, line: int, text: str) -> None:
        self.traps.append(("assertion_swallowed", line, text))
        self.assertions[start:] = [item._replace(strength=NOTHING) for item in self.assertions[start:]]


def _unrun_functions(parts: list[ast.AST]) -> frozenset[str]:
    """Functions whose failures fail nothing: passed to a lazy `map` or a thread, or never awaited."""
    found = set(_bare_calls(parts) & {part.name for part in parts if isinstance(part, ast.AsyncFunctionDef)})
    statements = {id(part.value) for part in parts if isinstance(part, ast.Expr)}
    for part in parts:
        if isinstance(part, ast.Call):
            is_lazy = last_name(part.func) in ("map", "filter") and id(part) in statements
            given = call_argument(part, "target") if last_name(part.func) == "Thread" else None
            found |= {
                last_name(one) for one in (*(part.args[:1] if is_lazy else ()), given) if one is not None
            }
    called = (part for part in parts if isinstance(part, ast.Call) and id(part) not in statements)
    return frozenset(found - {""} - {last_name(part.func) for part in called}) | _named_functions(parts)


def _named_functions(parts: list[ast.AST]) -> frozenset[str]:
    """Functions that are named but neither called nor passed on: `lambda: check`, `_ = check`, `check`."""
    own = {part.name for part in parts if isinstance(part, Function)}
    values = [
        part.body if isinstance(part, ast.Lambda) else part.value
        for part in parts
        if isinstance(part, ast.Lambda | ast.Expr)
        or (isinstance(part, ast.Assign) and last_name(part.targets[0]) == "_")
    ]
    idle = {id(value) for value in values}
    used = {part.id for part in parts if isinstance(part, ast.Name) and id(part) not in idle}
    named = {part.id for part in parts if isinstance(part, ast.Name) and id(part) in idle}
    return frozenset(own & named - used)


def _bare_calls(parts: list[ast.AST]) -> frozenset[str]:
    """Functions called in statements of their own, without `await`."""
    values = [part.value for part in parts if isinstance(part, ast.Expr)]
    return frozenset(last_name(value.func) for value in values if isinstance(value, ast.Call))


def _may_return(node: ast.stmt) -> bool:
    """True for a branch that may end the test, so that what follows is reached only without it."""
    return isinstance(node, ast.If) and any(isinstance(part, ast.Return) for part in node.body)


def _handler_text(node: ast.ExceptHandler) -> str:
    return f"except {node_source(node.type)}" if node.type is not None else "except"


def _assignments(parts: list[ast.AST]) -> asserts.KnownValues:
    """The values of names, except lists and the like, which may have been filled since."""
    found: asserts.KnownValues = {}
    used = Counter(node.id for node in parts if isinstance(node, ast.Name))
    for node in parts:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if used[name] <= 2 or not isinstance(node.value, ast.List | ast.Dict | ast.Set):
                found[name] = node_source(node.value)
    return found


def _swallows(handler: ast.ExceptHandler) -> bool:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    is_broad = any(one is None or last_name(one) in _CATCH_ALL for one in types)
    return is_broad and not asserts.may_fail(handler.body)


def _expects_any_error(item: ast.withitem) -> bool:
    """True for `pytest.raises(Exception)`, which also expects a failing assertion inside."""
    call = item.context_expr
    is_raises = isinstance(call, ast.Call) and last_name(call.func) in ("raises", "assertRaises")
    return (
        is_raises
        and isinstance(call, ast.Call)
        and any(last_name(arg) in _CATCH_ALL for arg in call.args[:1])
    )


def _expects_message(item: ast.withitem, body: list[ast.stmt]) -> bool:
    """True for `pytest.raises(AssertionError, match=…)` around calls alone: an asserting function is tested."""
    call = item.context_expr
    if not isinstance(call, ast.Call) or last_name(call.args[0]) != "AssertionError":
        return False
    is_asked = call_argument(call, "match") is not None or all(map(_calls_own_assertion, body))
    return is_asked and not any(isinstance(part, ast.Assert) for node in body for part in walk_tree(node))


def _calls_own_assertion(node: ast.stmt) -> bool:
    """True for `xr.testing.assert_equal(a, b)`: a function that the product has for its users' tests."""
    call = node.value if isinstance(node, ast.Expr) else None
    place, _, name = node_source(call.func).rpartition(".") if isinstance(call, ast.Call) else ("", "", "")
    library = place.removesuffix(".testing")
    return (
        name.startswith("assert_")
        and library != place
        and library not in ("np", "numpy", "pd", "pandas", "pl", "torch")
    )


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call) or last_name(call.func) != "suppress":
        return False
    return any(last_name(arg) in _CATCH_ALL for arg in call.args)


_DEF = re.compile(r"([ \t]*)(?:async\s+)?def\s+(\w+)\s*\(")
_CLASS = re.compile(r"([ \t]*)class\s+(\w+)")
_ASSERTION = re.compile(r"\s*(?:await\s+)?(?:assert\b|self\.assert\w+\(|(?:with\s+)?pytest\.raises\()")
_EMPTY = re.compile(r"\s*(?:assert\s+(?:True|1|not\s+False)|self\.assertTrue\(True\))\s*(?:#.*)?$")
_SKIP = re.compile(r"\s*@?(?:pytest\.mark\.|unittest\.|pytest\.|self\.)?(skip\w*|xfail|expectedFailure)\b")
_WORD = re.compile(r"\w+")


def parse_python_lines(lines: list[str]) -> tuple[ParsedTest, ...]:
    """Every function with the name of a test."""
    found: dict[str, ParsedTest] = {}
    scope = ""
    for at, line in enumerate(lines):
        outer = _CLASS.match(line)
        if outer:
            scope = f"{outer[2]} › "
        start = _DEF.match(line)
        if start and start[2].startswith("test"):
            case = _parse_test_lines(lines, at, start, scope if start[1] else "")
            found[case.name] = case
    return tuple(found.values())


def _parse_test_lines(lines: list[str], at: int, start: re.Match[str], scope: str) -> ParsedTest:
    body = _indented_body(lines, at, len(start[1]))
    text = "\n".join(line.strip() for _, line in body)
    return ParsedTest(
        name=f"{scope}{start[2]}",
        line=at + 1,
        is_collected=True,
        assertions=tuple(_line_assertion(number, line) for number, line in body if _ASSERTION.match(line)),
        skips=tuple(_line_skips(lines, at, body)),
        words=frozenset(_WORD.findall(text)),
        body=text,
        act=frozenset(word for _, line in body if not _ASSERTION.match(line) for word in _WORD.findall(line)),
        calls=frozenset(re.findall(r"(\w+)\(", text)),
        is_smoke=is_smoke_name(start[2]),
        is_empty=text.strip() in ("", "pass", "..."),
    )


def _indented_body(lines: list[str], at: int, indent: int) -> list[tuple[int, str]]:
    found = []
    for number, line in enumerate(lines[at + 1 :], at + 2):
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        found.append((number, line))
    return found


def _line_assertion(number: int, line: str) -> Assertion:
    text = line.strip()
    return Assertion(number, text, text.partition("==")[0].strip(), NOTHING if _EMPTY.match(line) else EXACT)


def _line_skips(lines: list[str], at: int, body: list[tuple[int, str]]) -> list[SkipMarker]:
    above = at - 1
    marked: list[SkipMarker] = []
    while above >= 0 and lines[above].strip().startswith("@"):
        match = _SKIP.match(lines[above])
        if match:
            marked.append(SkipMarker(match[1], above + 1, lines[above].strip(), "skipif" in match[1].lower()))
        above -= 1
    inside = [(number, line, _SKIP.match(line)) for number, line in body]
    return marked + [
        SkipMarker(match[1], number, line.strip()) for number, line, match in inside if match and "(" in line
    ]
