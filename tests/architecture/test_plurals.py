"""Holds that a message never says `1 files`: a number before a plural goes through `format_count`, or is known not to be one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "remand"
NOUNS = [
    "agents",
    "approvals",
    "attempts",
    "attacks",
    "cases",
    "checks",
    "claims",
    "comments",
    "commits",
    "errors",
    "events",
    "failures",
    "files",
    "findings",
    "gates",
    "handoffs",
    "keys",
    "lines",
    "lockouts",
    "members",
    "messages",
    "minutes",
    "names",
    "notices",
    "overrides",
    "patterns",
    "places",
    "problems",
    "pull",
    "questions",
    "rejections",
    "repairs",
    "requests",
    "reviews",
    "rounds",
    "rows",
    "rules",
    "runs",
    "sessions",
    "steps",
    "submissions",
    "tasks",
    "tests",
    "texts",
    "things",
    "times",
    "tools",
    "turns",
    "values",
    "verdicts",
    "warnings",
    "words",
    "workers",
]
PLURAL = re.compile(rf" (?:[a-z]+ )?(?:{'|'.join(NOUNS)})\b")

AFTER_VALUE = re.compile(r"\}" + PLURAL.pattern)


def is_count(node: ast.expr) -> bool:
    """True for an expression that is a number of things: a length, a sum, or something called a count."""
    match node:
        case ast.Call(func=ast.Name(id="len" | "sum")):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return not name.isupper() and bool(re.search(r"(?:^|_)(?:count|number|total|many|n)$", name))
        case ast.BinOp(left=left):
            return is_count(left)
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return bool(re.search(r"(?:^|_)(?:count|total|events|files|rejections)", name))
        case _:
            return False


def unsafe_plurals(tree: ast.AST) -> Iterator[int]:
    """The lines on which a number stands before a plural, where nothing has seen to it that it is not 1."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, is_safe = waiting.pop()
        if isinstance(node, ast.IfExp | ast.If):
            is_safe = is_safe or "1" in ast.unparse(node.test)
        if isinstance(node, ast.JoinedStr) and not is_safe and has_unsafe_plural(node):
            yield node.lineno
        waiting += [(child, is_safe) for child in ast.iter_child_nodes(node)]


def has_unsafe_plural(text: ast.JoinedStr) -> bool:
    before = ""
    for part, after in zip(text.values, [*text.values[1:], None], strict=True):
        if (
            isinstance(part, ast.FormattedValue)
            and isinstance(after, ast.Constant)
            and is_count(part.value)
            # `3 of 1 tests` is a share: its noun is in the plural whatever the number.
            and not before.endswith((" of ", " of the ", " of the last "))
            and PLURAL.match(str(after.value))
        ):
            return True
        before = str(part.value) if isinstance(part, ast.Constant) else before + "…"
    return False


def test_the_check_finds_a_plural_that_may_be_one_and_no_other() -> None:
    found = 'f"{len(x)} files"\nf"{x.count} new events were"\nf"{n} tasks" if n != 1 else ""\nf"1 of {len(x)} tests"\n'
    safe = 'f"{format_count(n, \'file\')}"\nf"{name} tasks"\nf"{MAX_COUNT} tasks"\nf"{len(x)} bytewise"\n'

    assert sorted(unsafe_plurals(ast.parse(found))) == [1, 2]
    assert not list(unsafe_plurals(ast.parse(safe)))


def test_no_message_says_one_files() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        # A suspicion's words are part of its id, by which accepted findings are known.
        if path.parent.name != "rules"
        if AFTER_VALUE.search(text := path.read_text(encoding="utf-8"))  # parsing all takes long
        for line in unsafe_plurals(ast.parse(text))
    ]

    assert not found, "`format_count` says `1 file` and `2 files`"
