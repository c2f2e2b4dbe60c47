"""Errors that a changed function of Go or Rust returned on the base and drops now: tests that pass by that alone.

What a dropped error led to panics instead. A test that the change mended and that fails then asked for work that still
does not succeed, unless it says itself that something is missing or wrong there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from remand.domain.gate.gate import TestOutcome
from remand.integrity.altered_inputs import name_in_file
from remand.integrity.changeset import Changeset
from remand.integrity.comparison import Comparison
from remand.integrity.cross_runs import BAD_OUTCOMES
from remand.integrity.mutants import Edit, changed_braced_functions, find_braced_functions, replace_parts
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import BracketedCode, Node
from remand.integrity.suspicions import Suspicion, suspicion

_PANIC = {"go": 'panic("broken on purpose")', "rust": 'panic!("broken on purpose")'}
_RETURNS_ERROR = {"go": re.compile(r"\berror\b"), "rust": re.compile(r"\bResult\b")}
_DROPS = (
    (
        r"\.filter\(\s*(?:Result::is_ok|\|\w+\|\s*\w+\.is_ok\(\))\s*\)",
        ".filter(|one| one.is_ok() || {panic})",
    ),
    (
        r"\.(?:filter_map|flat_map)\(\s*(?:Result::ok|\|(\w+)\|\s*\1(?:\.ok\(\))?)\s*\)|\.flatten\(\)",
        ".map(|one| one.unwrap_or_else(|_| {panic}))",
    ),
    (r"\.unwrap_or_default\(\)|\.unwrap_or\([^()]*\)", ".unwrap_or_else(|_| {panic})"),
    (r"\.ok\(\)", ".map_err(|_| -> () {{ {panic} }}).ok()"),
)
"""What drops errors in Rust, and what panics in its place; what does not compile shows nothing."""
_TELLS = re.compile(
    r"skip|ignor|toler|lenien|missing|absent|invalid|malform|bad|broken|corrupt|garbage|wrong|unknown|unread|fall_?back|default"
    r"|empty|partial|recover|not_?found|no_?such|junk|damage|trunc|without|strange|unparse|unsupported",
    re.IGNORECASE,
)
"""Words of a test that is about input for which there is no answer."""


class DroppedErrors(NamedTuple):
    """A file whose functions drop errors that they returned on the base."""

    path: str
    line: int
    names: tuple[str, ...]
    heard: bytes
    """It panics where they are dropped."""


def find_dropped_errors(comparison: Comparison) -> tuple[DroppedErrors, ...]:
    """The changed files of Go and Rust with functions that returned an error on the base and drop one now."""
    found = []
    for view in Changeset(comparison).views:
        before, after = view.before, view.after
        if before is None or after is None or after.language not in _PANIC:
            continue
        known = {one.name: one.text for one in find_braced_functions(before)}
        edits: list[Edit] = []
        names, lines = [], []
        for one in changed_braced_functions(view):
            old = known.get(one.name, "")
            returned = old.partition("{")[0]
            new = (
                list(_drops(after, one.node, old)) if _RETURNS_ERROR[after.language].search(returned) else []
            )
            if new:
                names.append(one.name)
                lines.append(one.line)
                edits += new
        if edits:
            found.append(DroppedErrors(view.path, lines[0], tuple(names), replace_parts(after.text, edits)))
    return tuple(found)


def _drops(source: SourceFile, function: Node, old: str) -> Iterator[Edit]:
    """What to put where a function drops an error and did not on the base."""
    code, panic = source.code, _PANIC[source.language]
    if source.language == "go":
        for node in function.walk():
            if node.kind == "if_statement" and code.node_text(node) not in old:
                yield from _dropping_branch(code, node, panic)
            elif node.kind in ("short_var_declaration", "assignment_statement"):
                yield from _blank_error(code, node, panic, old)
        return
    start, stop = code.byte_range(function)
    text = source.text.encode()[start:stop].decode()
    for pattern, heard in _DROPS:
        for match in re.finditer(pattern, text):
            if match[0].replace(" ", "") not in old.replace(" ", ""):
                begin = start + len(text[: match.start()].encode())
                yield begin, begin + len(match[0].encode()), heard.format(panic=panic).encode()
    for node in function.walk():
        asked, value = node.child("pattern"), node.child("value")
        is_error = node.kind == "match_arm" and code.node_text(asked).startswith("Err(_")
        if is_error and value and not code.words(value.start, value.stop) & {"Err", "panic", "return"}:
            yield (*code.byte_range(value), panic.encode())


def _dropping_branch(code: BracketedCode, node: Node, panic: str) -> Iterator[Edit]:
    """`if err != nil { return fallback, nil }`: a branch for any error that neither reports nor repairs it."""
    condition, then = node.child("condition"), node.child("consequence")
    asked = code.node_text(condition).removesuffix("!=nil")
    is_any = code.node_text(condition).endswith("!=nil") and (asked.endswith(")") or "err" in asked.lower())
    if condition is None or then is None or not is_any:
        return
    is_repaired = any(part.kind == "call_expression" for part in then.walk())
    words = code.words(then.start, then.stop)
    if not is_repaired and asked not in words and not any("err" in word.lower() for word in words):
        start, _ = code.byte_range(then)
        yield start + 1, start + 1, f"\n{panic}\n".encode()


def _blank_error(code: BracketedCode, node: Node, panic: str, old: str) -> Iterator[Edit]:
    """`value, _ := call()` in place of `value, err := call()`."""
    left, right = node.child("left"), node.child("right")
    called = code.node_text(right)
    was_heard = called.endswith(")") and re.search(rf"err:?={re.escape(called)}", old)
    if left is None or code.text(left.stop - 1) != "_" or not was_heard:
        return
    start, _ = code.byte_range(node)
    blank, stop = code.byte_range(range(left.stop - 1, left.stop))
    name = f"dropped{node.start}"
    if node.kind == "assignment_statement":
        yield start, start, f"var {name} error; ".encode()
    yield blank, stop, name.encode()
    end = code.byte_range(node)[1]
    yield end, end, f"; if {name} != nil {{ {panic} }}".encode()


def judge_dropped_errors(
    dropped: Sequence[DroppedErrors],
    mended: Sequence[str],
    heard: Sequence[TestOutcome],
    texts: Mapping[str, str],
) -> tuple[Suspicion, ...]:
    """What it says of a change that a test which it mended fails where a dropped error is heard; `texts` are the tests' files."""
    failing = {test.id for test in heard if test.outcome in BAD_OUTCOMES}
    tests = [
        test_id for test_id in mended if test_id in failing and not _TELLS.search(_texts_in(test_id, texts))
    ]
    if not tests:
        return ()
    one = dropped[0]
    text = f"`{tests[0]}` passes because `{one.names[0]}` drops an error that it returned on the base"
    return (suspicion("error_dropped", one.path, one.line, text, "\n".join((*one.names, *tests))),)


def _texts_in(test_id: str, texts: Mapping[str, str]) -> str:
    """The name of a test with the texts that are written out in it."""
    for path, text in texts.items():
        name = name_in_file(path, test_id)
        code = SourceFile(path, text).code
        for node in code.nodes_of("function_declaration", "function_item") if name else ():
            if code.node_text(node.child("name")) == name:
                return " ".join((test_id, *code.literals(node.start, node.stop)))
    return test_id
