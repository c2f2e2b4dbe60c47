"""Holds that shortcuts in reading Python find what the slow ways of the standard library find, and that no tree stays."""

import ast
import gc
import io
import tokenize
from pathlib import Path

import pytest

import remand.integrity
from remand.integrity.readers.python_tree import node_source
from remand.integrity.readers.tokens import Node, python_comments
from tests.unit.integrity.changes import held, modified

OWN = sorted(Path(remand.integrity.__file__).parent.rglob("*.py"))[::4]
EXPRESSIONS = (
    "f(a, *b, c=d, **e)", "a.b[1:2].c(x)[0, 1]", "(a, b)", "f((a, b))", "1 .real", "-1 == a", "a < b <= c is not d",
    "(a == b) == c", "f(a == b)", "u'x' in y", "b'x' not in y", "f'{a}' == 'x'", "(yield)", "a[b := 1]", "(await x).y", "...",
    "1e999 == a", "a if b else c", "not a", "lambda: a", "{}", "f()()", "f(x for x in y)", '"it\'s"', "'\\n\\0\\u20ac'",
)  # fmt: skip
TEXTS = (
    "a = '#'  # one\n", 'b = """\n# no\n""" # two\n', "c = r'\\' # no'  # three\n", "d = 'it\\'s # no'\n# four", "'''a''' # five\r\n",
    'e = "a" "# no" \'"""\' # six\n"""\'\'\' # no"""\n', 'f = """a"b""c\\"""" # no""" # seven\n', "g = [  # eight\n  1, # nine\n]\n", "",
    "x = 1 \\\n  + 2  # ten\n",
)  # fmt: skip


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_expressions_are_written_as_the_standard_library_writes_them(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]

    assert [node_source(node) for node in nodes] == [ast.unparse(node) for node in nodes]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_other_expressions_are_too(text: str) -> None:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr)]

    assert [node_source(node) for node in nodes] == [ast.unparse(node) for node in nodes]


@pytest.mark.parametrize("text", [*TEXTS, *(path.read_text(encoding="utf-8") for path in OWN)])
def test_comments_are_those_of_the_tokenizer(text: str) -> None:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [(one.start[0], one.string) for one in tokens if one.type == tokenize.COMMENT]

    assert [(one.line, one.text) for one in python_comments(text, is_valid=True)] == comments


def _trees() -> int:
    return sum(isinstance(one, Node) and bool(one.children) for one in gc.get_objects())


def test_no_syntax_tree_waits_for_garbage_collection() -> None:
    gc.collect()
    gc.disable()
    try:
        before = _trees()
        held(modified("src/a.ts", "f(1);\n", "if (a) { f(2); }\n"))
        after = _trees()
    finally:
        gc.enable()

    assert after == before
