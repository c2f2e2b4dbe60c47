"""The tests of JavaScript and TypeScript, by their syntax trees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.text.words import word_list, word_set
from remand.integrity.readers.cases import (
    EXACT,
    LOOSE,
    NOTHING,
    Assertion,
    ParsedTest,
    SkipMarker,
    is_smoke_name,
)
from remand.integrity.readers.expected_values import discount_copies, is_same_result
from remand.integrity.readers.script_assertions import callee_names, chain_links, find_assertions
from remand.integrity.readers.tokens import NAME, NUMBER, STRING, BracketedCode, Node, unquote

_GROUPS = frozenset(("describe", "context", "suite", "xdescribe", "fdescribe", "xcontext", "xsuite"))
_TESTS = frozenset(("it", "test", "specify", "xit", "xtest", "fit", "ftest", "xspecify", "bench"))
_NAMES = _GROUPS | _TESTS
_SKIPS = frozenset(("skip", "todo", "fixme", "fails", "failing", "fail", "only"))
_NO_TESTS = word_set("macro before after beforeEach afterEach beforeAll afterAll")
"""What a runner's function has that defines no test, but what tests share."""
_TEST_HOLDERS = frozenset(("Deno", "QUnit", "t", "tap", "node", "mocha", "vitest"))
_LOOKS = word_list("getBy findBy getAllBy findAllBy assert expect verify check should waitFor fail")
_FUNCTIONS = ("function_declaration", "generator_function_declaration", "function_expression")
_CALLBACKS = ("arrow_function", "function_expression")
_TIMERS = frozenset(("setTimeout", "setInterval", "setImmediate"))
_WAITS = word_set("await Promise done advanceTimersByTime runAllTimers useFakeTimers resolve tick")
_FAILING = frozenset(("throw", "expect", "fail", "assert", "done", "reject", "t"))
_MAX_REPEATS = 1000
_MAX_SHOWN = 60
"""Tokens of a value or a condition that are looked at."""
_MAX_CALLBACK = 200
"""Tokens after a callback in which it may say that the test is done."""


_ELSEWHERE = re.compile(
    r"\(!(?:is|on)?_?(?:win(?:dows|32)?|mac(?:os)?|darwin)\)"
    r"|\((?:process\.)?platform(?:\(\))?!==?['\"](?:win32|darwin)['\"]\)",
    re.IGNORECASE,
)
"""Conditions that do not hold on other platforms than the gates'."""


class _RunnerCall(NamedTuple):
    """A call of `it`, `describe` and the like."""

    name: str
    node: Node
    start: int
    arguments: Node
    times: int
    skips: tuple[SkipMarker, ...]
    is_group: bool


def parse_script_tests(code: BracketedCode) -> tuple[ParsedTest, ...]:
    """Every test with the descriptions it stands in, and every other function that asserts."""
    found: dict[str, ParsedTest] = {}
    groups: list[_RunnerCall] = []
    definitions = code.nodes_of("variable_declarator", *_FUNCTIONS)
    own = frozenset(code.node_text(node.child("name")) for node in definitions)
    shared: set[str] = set()
    for call in _runner_calls(code):
        groups = [group for group in groups if group.node.stop > call.start]
        if call.is_group:
            groups.append(call)
            continue
        case = _define_where(code, call.node, _parse_test(code, call, groups, own))
        if call.name == _RULE and case.name in found:
            found[case.name] = _join_tables(found[case.name], case)
            continue
        name = case.name if case.name not in found else f"{case.name} ({len(found)})"
        found[name] = case._replace(name=name)
        shared.add(_shared_name(code, call.arguments.children[1:]))
    for helper in _helper_functions(code):
        if helper.name not in shared:
            found.setdefault(helper.name, helper)
    return tuple(found.values())


_RULE = "rows of a rule"


def _join_tables(one: ParsedTest, other: ParsedTest) -> ParsedTest:
    """The tables of a linter's rule as one test: rows move from one table to another."""
    first, second = one.assertions[-1:], other.assertions[-1:]
    rows = tuple(item._replace(times=item.times + sum(row.times for row in second)) for item in first)
    return one._replace(
        assertions=(*one.assertions[:-1], *(rows or second), *other.assertions[:-1]),
        words=one.words | other.words,
        body=one.body + other.body,
        act=one.act | other.act,
        calls=one.calls | other.calls,
        literals=one.literals | other.literals,
        is_empty=one.is_empty and other.is_empty,
    )


def _shared_name(code: BracketedCode, parts: list[Node]) -> str:
    """The name of the function that a test is given in place of a body of its own, as in AVA; empty for none."""
    return code.node_text(parts[0]) if parts and parts[0].kind == "identifier" else ""


def _shared_body(code: BracketedCode, name: str) -> Node | None:
    """The body of a function of the file."""
    node = code.definitions.get(name)
    value = node.child("value") if node is not None and node.kind == "variable_declarator" else node
    return value.child("body") if value is not None else None


def _define_where(code: BracketedCode, node: Node, case: ParsedTest) -> ParsedTest:
    """A test as often as loops around it define it, and only where a condition lets it be defined."""
    for above, below in reversed(list(node.ancestors())):
        rows = _written_rows(code, above, below)
        if above.kind == "if_statement" and below.field == "consequence":
            truth = _constant_truth(code, above)
            if truth is None:
                text = code.text_between(above.start, min(below.start, above.start + _MAX_SHOWN))
                condition = code.node_text(above.child("condition"))
                skip = SkipMarker(
                    "if",
                    code.line(above.start),
                    text,
                    is_conditional=True,
                    is_foreign=_ELSEWHERE.fullmatch(condition) is not None,
                )
                case = case._replace(skips=(*case.skips, skip))
            rows = 0 if truth is False else None
        if rows is not None:
            case = case._replace(
                assertions=tuple(_repeat(item, rows) for item in case.assertions),
                literals=case.literals | code.literals(above.start, below.start),
            )
    return case


def _repeat(item: Assertion, times: int) -> Assertion:
    return item._replace(times=min(item.times * times, _MAX_REPEATS))


def _written_rows(code: BracketedCode, above: Node, below: Node) -> int | None:
    """How often a loop runs what is below it, where its values are written out."""
    values: Node | None = None
    if above.kind == "for_in_statement" and below.field == "body":
        values = above.child("right")
    elif above.kind == "call_expression" and below.field == "arguments":
        function = above.child("function")
        name = function.child("property") if function else None
        if function and name and code.text(name.start) == "forEach":
            values = function.child("object")
    return len(values.children) if values is not None and values.kind == "array" else None


def _constant_truth(code: BracketedCode, branch: Node) -> bool | None:
    """What the condition of a branch is, where it is always the same."""
    condition = code.node_text(branch.child("condition")).removeprefix("(").removesuffix(")")
    return {**dict.fromkeys(("false", "0", "!1", "!true"), False), "true": True, "1": True}.get(condition)


def _runner_calls(code: BracketedCode) -> Iterator[_RunnerCall]:
    """Groups and tests in their order; what is inside a test belongs to it."""
    done = 0
    for node in code.nodes_of("call_expression"):
        call = _parse_call(code, node) if node.start >= done and node.field != "function" else None
        if call is not None:
            yield call
            done = done if call.is_group else node.stop


def _parse_call(code: BracketedCode, node: Node) -> _RunnerCall | None:
    arguments = node.child("arguments")
    links = chain_links(node.child("function"))
    if links and code.text(links[0].start) in _TEST_HOLDERS:
        links = links[1:]
    name, chosen = _chosen_runner(code, code.text(links[0].start) if links else "")
    if name not in _NAMES or arguments is None or arguments.kind != "arguments":
        return None
    if code.text(links[-1].start) in ("timeout", "retries", "slow"):
        return None  # What mocha's test, before the dot, is given.
    is_value = [item.kind in ("object", "call_expression") for item in arguments.children] == [True]
    if is_value and _rule_rows(code, arguments) is None:
        return None  # A function of that name that makes a row of a table.
    skips = [SkipMarker("skip" if name[0] == "x" else "only", code.line(links[0].start), name)]
    skips = [*(skips if name[0] in "xf" else []), *chosen]
    times = 1
    for place, link in enumerate(links[1:], 1):
        word = code.text(link.start)
        given = links[place + 1] if place + 1 < len(links) else None
        if word in _NO_TESTS and link.field == "property":
            return None
        if word in _SKIPS and link.field == "property":
            skips.append(SkipMarker(word, code.line(link.start), f"{name}.{word}"))
        elif word in ("skipIf", "runIf", "if"):
            shown = code.node_text(given)
            is_conditional = shown not in ("(true)", "(1)")
            skips.append(SkipMarker(word, code.line(link.start), f"{name}.{word}{shown}", is_conditional))
        elif word in ("each", "for", "table"):
            times *= _row_count(code, given)
    return _RunnerCall(
        _title(code, arguments) if not is_value else _RULE,
        node,
        links[0].start,
        arguments,
        times,
        (*skips, *_option_skips(code, arguments)),
        name in _GROUPS,
    )


def _chosen_runner(code: BracketedCode, name: str) -> tuple[str, tuple[SkipMarker, ...]]:
    """The runner's function behind a name that the file gives it, and the condition that skips what it defines."""
    node = code.definitions.get(name) if name not in _NAMES else None
    value = node.child("value") if node is not None else None
    if value is None or value.kind != "ternary_expression":
        return name, ()
    chosen = [code.node_text(value.child(field)) for field in ("consequence", "alternative")]
    runner = min(chosen, key=len)
    if runner not in _NAMES or f"{runner}.skip" not in chosen:
        return name, ()
    condition = code.node_text(value.child("condition"))
    if chosen[1] == runner:
        condition = condition.replace("==", "!=", 1) if "==" in condition else f"!{condition}"
    is_foreign = _ELSEWHERE.fullmatch(f"({condition})") is not None
    text = code.node_text(value)
    return runner, (
        SkipMarker("if", code.line(value.start), text, is_conditional=True, is_foreign=is_foreign),
    )


def _title(code: BracketedCode, arguments: Node) -> str:
    first = arguments.children[0] if arguments.children else None
    if first is None:
        return ""
    shown = code.text_between(first.start, min(first.stop, first.start + 12))
    return unquote(shown) if code.kind(first.start) == STRING and first.stop == first.start + 1 else shown


def _row_count(code: BracketedCode, given: Node | None) -> int:
    """How many cases a table has that is written out."""
    if given is not None and given.kind == "template_string":
        lines = code.text(given.start).split("\n")
        return max(1, sum(1 for line in lines if "|" in line or "${" in line) - 1)
    table = given.children[0] if given is not None and given.children else None
    return min(len(table.children), _MAX_REPEATS) if table is not None and table.kind == "array" else 1


def _option_skips(code: BracketedCode, arguments: Node) -> Iterator[SkipMarker]:
    """`{ skip: true }` and its like, given to the call itself."""
    for pair in (pair for item in arguments.children if item.kind == "object" for pair in item.children):
        key, value = code.node_text(pair.child("key")), pair.child("value")
        if key in ("skip", "todo", "fails") and value is not None and code.node_text(value) != "false":
            is_plain = value.kind in ("true", "string")
            yield SkipMarker(key, code.line(pair.start), code.node_text(pair), not is_plain)


def _parse_test(
    code: BracketedCode, call: _RunnerCall, groups: list[_RunnerCall], own: frozenset[str]
) -> ParsedTest:
    scope = "".join(f"{group.name} › " for group in groups)
    times = call.times
    for group in groups:
        times *= group.times
    outer = tuple(skip for group in groups for skip in group.skips)
    rule_rows = _rule_rows(code, call.arguments) or ()
    parts = call.arguments.children[1:] or (call.arguments.children if rule_rows else [])
    start, stop = (parts[0].start, call.arguments.stop - 1) if parts else (call.arguments.stop,) * 2
    given, values = code.words(start, stop), code.literals(start, stop)
    shared = _shared_name(code, parts)
    block = _shared_body(code, shared) if shared else None
    rows = code.text_between(start, stop) if block is not None and len(parts) > 1 else ""
    if block is not None:
        parts, start, stop = [block], block.start, block.stop
        if block.kind == "statement_block":
            start, stop = start + 1, stop - 1
    body = _parse_body(code, parts, start, stop)
    calls = code.calls(start, stop)
    return ParsedTest(
        name=f"{scope}{call.name}",
        line=code.line(call.start),
        is_collected=True,
        assertions=tuple(_repeat(item, times) for item in (*body.assertions, *rule_rows)),
        skips=(*call.skips, *outer, *body.skips),
        words=given | code.words(start, stop) if rows else code.words(start, stop),
        body=rows + code.text_between(start, stop),
        act=body.act,
        calls=calls,
        literals=code.literals(call.start, call.arguments.start) | code.literals(start, stop) | values,
        traps=body.traps,
        examples=_example_count(code, parts),
        is_smoke=is_smoke_name(call.name),
        is_plain=(not shared or block is not None)
        and not calls & own
        and not any(name.startswith(_LOOKS) for name in calls),
        is_empty=body.is_empty,
    )


def _rule_rows(code: BracketedCode, arguments: Node) -> tuple[Assertion, ...] | None:
    """What the tester of a linter's rule asserts: each row of `{valid: […], invalid: […]}`; None for anything else."""
    table = arguments.children[0] if arguments.children else None
    pairs = table.children if table is not None and table.kind == "object" else []
    lists = [
        value
        for pair in pairs
        if code.node_text(pair.child("key")) in ("valid", "invalid")
        and (value := pair.child("value")) is not None
    ]
    rows = [row for item in lists if item.kind == "array" for row in item.children]
    is_written = all(item.kind == "array" for item in lists) and all(
        row.kind != "spread_element" for row in rows
    )
    if len(lists) != 2:
        return None
    if is_written and not rows:
        return ()
    row = Assertion(code.line(arguments.start), "rows of a rule", "", EXACT, is_counted=is_written)
    return (_repeat(row, max(1, len(rows))),)


def _example_count(code: BracketedCode, parts: list[Node]) -> float:
    """`{ numRuns: 100 }` of a property."""
    for node in code.nodes_in(parts, "pair"):
        value = code.node_text(node.child("value"))
        if code.node_text(node.child("key")) == "numRuns" and value.isdecimal():
            return float(value[:9])
    return 0.0


def _helper_functions(code: BracketedCode) -> Iterator[ParsedTest]:
    """Functions of the file, which may assert for its tests."""
    done = 0
    for node in code.nodes_of("variable_declarator", *_FUNCTIONS):
        value = node.child("value") if node.kind == "variable_declarator" else node
        name, block = node.child("name"), value.child("body") if value is not None else None
        if node.start < done or name is None or block is None or block.kind != "statement_block":
            continue
        is_exported = any(above.kind == "export_statement" for above, _ in node.ancestors())
        if not is_exported and code.mentions[code.node_text(name)] < 2:
            continue  # without a second mention nobody calls it
        done = node.stop
        body = _parse_body(code, [block], block.start + 1, block.stop - 1)
        yield ParsedTest(
            name=code.node_text(name),
            line=code.line(node.start),
            is_collected=False,
            assertions=body.assertions,
            act=body.act,
            words=code.words(block.start, block.stop - 1),
            body=code.text_between(block.start, block.stop - 1),
        )


class _TestBody(NamedTuple):
    assertions: tuple[Assertion, ...]
    skips: tuple[SkipMarker, ...]
    act: frozenset[str]
    traps: tuple[tuple[str, int, str], ...]
    is_empty: bool


def _parse_body(code: BracketedCode, parts: list[Node], start: int, stop: int) -> _TestBody:
    surroundings = _Surroundings(code, parts, range(start, stop))
    made = find_assertions(code, parts)
    found = [surroundings.apply_to(item.assertion, item.node) for item in made]
    known = _assigned_texts(code, parts)
    found = [
        discount_copies(code, _resolve_assertion(item, known), (start, one.place), item.text)
        for item, one in zip(found, made, strict=True)
    ]
    reached = tuple(item for item in found if item.times > 0)
    act = _uncovered_places([(item.place, item.stop) for item in made], start, stop)
    words = frozenset(code.text(at) for at in act if code.kind(at) in (NAME, STRING, NUMBER))
    return _TestBody(
        assertions=reached or tuple(item._replace(times=1, strength=NOTHING) for item in found),
        skips=tuple(_inner_skips(code, parts)),
        act=words,
        traps=tuple(("assertion_swallowed", line, "catch") for line in surroundings.catch_lines),
        is_empty=not words - {"async", "done", "function"},
    )


def _assigned_texts(code: BracketedCode, parts: list[Node]) -> dict[str, str]:
    """What names were given in a body: `const order = await submit(cart);`"""
    found: dict[str, str] = {}
    for node in code.nodes_in(parts, "variable_declarator"):
        value = node.child("value")
        if value is not None and value.kind == "await_expression" and value.children:
            value = value.children[0]
        if value is not None and value.stop - value.start <= _MAX_SHOWN:
            found[code.node_text(node.child("name"))] = code.node_text(value)
    return found


def _resolve_assertion(item: Assertion, known: dict[str, str]) -> Assertion:
    """An assertion by what its names were given; what is compared with itself proves little."""
    name, dot, rest = item.subject.partition(".")
    subject = f"{known[name]}{dot}{rest}" if name in known else item.subject
    given = item.text.rpartition("(")[2].rstrip(")")
    expected = known.get(given, "") if given != item.subject else ""
    strength = min(item.strength, LOOSE) if expected == subject else item.strength
    return item._replace(subject=subject, strength=strength)


def _uncovered_places(covered: list[tuple[int, int]], start: int, stop: int) -> list[int]:
    """The places that no assertion covers."""
    found: list[int] = []
    for begin, end in (*covered, (stop, stop)):
        found += range(start, begin)
        start = max(start, end)
    return found


def _inner_skips(code: BracketedCode, parts: list[Node]) -> Iterator[SkipMarker]:
    for node in code.nodes_in(parts, "call_expression"):
        names, arguments = callee_names(code, node), node.child("arguments")
        name, owner = names[-1] if names else "", names[-2] if len(names) > 1 else ""
        if name == "pending" or (
            name in ("skip", "fixme", "todo") and owner in ("this", "t", "ctx", "test", "context", "it")
        ):
            is_asked = owner == "test" and arguments is not None and bool(arguments.children)
            is_asked = is_asked or any(
                above.kind == "if_statement"
                and below.field == "consequence"
                and _constant_truth(code, above) is None
                for above, below in node.ancestors(parts[0].parent)
            )
            yield SkipMarker("skip", code.line(node.start), f"{owner}.{name}()", is_asked)


class _Surroundings:
    """What stands around the assertions of one body, each part of it looked at once."""

    def __init__(self, code: BracketedCode, parts: list[Node], places: range) -> None:
        self._code = code
        self._top = parts[0].parent if parts else None
        self._known = _assigned_texts(code, parts)
        self._places = places
        self._times: dict[tuple[int, str], int] = {}
        self._returns: dict[int, tuple[int, int]] = {}
        self.catch_lines: list[int] = []
        """The lines of handlers that caught an assertion."""

    def apply_to(self, found: Assertion, node: Node) -> Assertion:
        """An assertion as it is run where it stands."""
        for above, below in node.ancestors(self._top):
            if above.kind == "if_statement" and below.field == "consequence":
                truth = _constant_truth(self._code, above)
                found = found._replace(is_conditional=True) if truth is None else _repeat(found, truth)
            elif above.kind == "catch_clause":
                found = found._replace(is_conditional=True)
            elif above.kind == "try_statement" and below.field == "body":
                found = self._apply_handler(found, above)
            elif above.kind in ("statement_block", "switch_case", "switch_default"):
                dead, conditional = self._first_returns(above)
                found = found._replace(is_conditional=True) if below.start > conditional else found
                found = _repeat(found, 0) if below.start > dead else found
            elif above is self._top and above.kind in _FUNCTIONS:
                continue  # a helper is judged where it is called
            elif above.kind in ("call_expression", "for_in_statement", "variable_declarator", *_FUNCTIONS):
                key = id(above), below.field
                if key not in self._times:
                    self._times[key] = self._run_count(above, below)
                found = _repeat(found, self._times[key])
                if self._is_chosen_by_result(found, above, below):
                    found = found._replace(strength=NOTHING)
            elif above.kind == "arguments" and below.kind in _CALLBACKS:
                found = found if self._is_called_back(above, below) else _repeat(found, 0)
        return found

    def _apply_handler(self, found: Assertion, node: Node) -> Assertion:
        code, handler, final = self._code, node.child("handler"), node.child("finalizer")
        is_left = final is not None and "return" in code.words(final.start, final.stop)
        block = handler.child("body") if handler is not None else None
        is_caught = block is not None and not code.words(block.start, block.stop) & _FAILING
        place = final if is_left and not is_caught else handler
        if place is None or not (is_left or is_caught):
            return found
        line = code.line(place.start)
        self.catch_lines += [line] if line not in self.catch_lines[-1:] else []
        return found._replace(strength=NOTHING)

    def _first_returns(self, block: Node) -> tuple[int, int]:
        """Where a block is left for good, and where it may be left: by a `return` without a value."""
        if id(block) not in self._returns:
            end = block.stop
            dead = next((item.start for item in block.children if _is_bare_return(item)), end)
            branches = (item for item in block.children if item.kind == "if_statement")
            left = next((item.start for item in branches if self._may_leave(item)), end)
            self._returns[id(block)] = dead, left
        return self._returns[id(block)]

    def _may_leave(self, branch: Node) -> bool:
        """True for a branch that only returns, and in a loop for one that passes over a row by its result."""
        inside = branch.child("consequence")
        if self._code.node_text(inside) in ("{continue;}", "continue;", "{continue}"):
            condition = branch.child("condition")
            names = self._code.words(condition.start, condition.stop) if condition else ()
            return any("(" in self._known.get(name, "") for name in names)
        return _leaves(inside)

    def _run_count(self, above: Node, below: Node) -> int:
        """How often a call, a loop or a function runs what is below it."""
        rows = _written_rows(self._code, above, below)
        if rows is not None:
            return rows
        if above.kind == "call_expression" and below.field == "arguments":
            return not self._is_after_the_end(above)
        if above.kind == "variable_declarator" and below.kind not in (
            "arrow_function",
            "function_expression",
        ):
            return 1
        name = above.child("name")
        is_written = above.kind in ("for_in_statement", "function_expression")  # It runs where it stands.
        return 1 if name is None or is_written else self._is_used(name)

    def _is_after_the_end(self, call: Node) -> bool:
        """True for what a timer or a promise runs that nobody waits for: the test is over before."""
        code, function = self._code, call.child("function")
        name = code.text(function.stop - 1) if function is not None else ""
        if name in _TIMERS:
            return not code.words(self._places.start, self._places.stop) & _WAITS
        if name != "then" or function is None or function.kind != "member_expression":
            return False
        top = call
        while top.parent is not None and (
            top.field in ("object", "function") or top.parent.kind == "unary_expression"
        ):
            top = top.parent
        is_dropped = top.parent is not None and top.parent.kind == "expression_statement"
        end = min(call.stop + _MAX_CALLBACK, len(code.tokens))
        return is_dropped and not code.words(function.stop, end) & {"done", "resolve", "end"}

    def _is_called_back(self, arguments: Node, given: Node) -> bool:
        """False for a callback that a function of the file is given and neither calls, hands on nor keeps."""
        code, call = self._code, arguments.parent
        function = call.child("function") if call is not None else None
        if call is None or function is None or function.kind != "identifier":
            return True
        maker = code.definitions.get(code.node_text(function))
        if maker is not None and maker.kind == "variable_declarator":
            maker = maker.child("value")
        names, body = (maker.child("parameters"), maker.child("body")) if maker is not None else (None, None)
        place = next(at for at, one in enumerate(arguments.children) if one is given)
        if names is None or body is None or place >= len(names.children):
            return True
        parameter = names.children[place]
        if parameter.stop > parameter.start + 1:
            return True
        is_dropped = call.parent is not None and call.parent.kind == "expression_statement"
        idle = ("void", ";", "=>", "return") if is_dropped else ("void", ";")
        uses = [at for at in range(body.start, body.stop) if code.text(at) == code.text(parameter.start)]
        return any(code.text(at - 1) not in idle or code.text(at + 1) in ("(", ".", "?.") for at in uses)

    def _is_chosen_by_result(self, found: Assertion, above: Node, below: Node) -> bool:
        """True in a loop over what a filter left that asks for the same result as the assertion."""
        rows: Node | None = None
        if above.kind == "for_in_statement" and below.field == "body":
            rows = above.child("right")
        elif above.kind == "call_expression" and below.field == "arguments":
            function = above.child("function")
            rows = function.child("object") if function else None
        shown = self._code.node_text(rows)
        if rows is not None and rows.kind == "identifier":
            shown = self._known.get(shown, "")
        return is_same_result(shown, found.text)

    def _is_used(self, name: Node) -> bool:
        """True when the body calls a function that it defines, or hands it on."""
        code, word = self._code, self._code.text(name.start)
        uses = (at for at in self._places if code.text(at) == word and at != name.start)
        return any(
            code.text(at - 1) != "void" and not (code.text(at - 1) == ";" and code.text(at + 1) == ";")
            for at in uses
        )


def _is_bare_return(node: Node | None) -> bool:
    return node is not None and node.kind == "return_statement" and not node.children


def _leaves(branch: Node | None) -> bool:
    """True when a branch ends the function without an answer."""
    inside = branch.children if branch is not None and branch.kind == "statement_block" else ()
    return _is_bare_return(branch) or any(map(_is_bare_return, inside))
