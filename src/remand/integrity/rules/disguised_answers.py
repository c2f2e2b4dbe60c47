"""Code of JavaScript, TypeScript, Go and Rust that chooses its answer by what no honest code has a use for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from remand.domain.text.words import word_set
from remand.integrity.braced_answers import file_constants
from remand.integrity.changeset import Changeset
from remand.integrity.paths import is_product_path
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NUMBER, STRING, BracketedCode, Node, unquote
from remand.integrity.suspicions import Suspicion, shorten, suspicion

_DIGEST = re.compile(
    r"hash(?:code)?|\w*(?:fingerprint|checksum|digest)\w*|crc\d*|adler\d*|fnv\w*|md5|sha\d+|sum(?:16|32|64|\d{3})"
    r"|\w*_?hash(?:_of|ed)?",
    re.IGNORECASE,
)
_MIXES = re.compile(r"Math\.imul|createHash|wrapping_mul|Default(?:Hasher)\b|0x811c9dc5", re.IGNORECASE)
_MIXES_LETTERS = re.compile(r"charCodeAt\W[^;]*[\^*]|[\^*][^;]*charCodeAt")
"""What a function does that works a digest out."""
_SWITCHES = ("switch_statement", "expression_switch_statement", "match_expression")
_CASES = ("switch_case", "expression_case", "match_arm")
_FUNCTIONS = (
    "function_declaration",
    "method_declaration",
    "method_definition",
    "function_item",
    "variable_declarator",
)
_LOOKUPS = frozenset(("get", "has", "at"))
MIN_DIGEST = 4
"""Letters of a digest that is written out."""
_READS = word_set("""
read_dir read_to_string read readFileSync readdirSync readFile readdir ReadFile ReadDir Open Glob glob WalkDir include_str
include_bytes globSync existsSync
""")
_TEST_PLACE = re.compile(
    r"(?:\.{0,2}/)*(?:tests?|__tests__|specs?|testdata)(?:/.*)?|.*(?:[._](?:test|spec)\.[cm]?[jt]sx?|_test\.go)"
)
_TESTED_FRAME = re.compile(r"\btests?\b|spec|node_modules|jest|vitest|mocha")
_PROGRAM = re.compile(r"\bos\.Args\[0\]|\bos\.Executable\(")
_TEST_PROGRAM = re.compile(r"\.test(?:\.exe)?|/?_test/?|go-build.*")
_DEBUG = re.compile(r"cfg\(debug_assertions\)")
_ASKS_DEBUG = re.compile(r"!?cfg!\(debug_assertions\)")
_THREAD_NAME = re.compile(r"\bcurrent\(\)\s*\.name\(\)")
_THREAD_CHOICES = re.compile(
    r"==|!=|\b(?:is_some_and|is_none_or|contains|starts_with)\(|\bmap_or\((?:true|false)|\bSome\(\s*\""
)
_NOT_DEBUG = re.compile(r"cfg\(not\(debug_assertions\)\)")


def find_disguised_answers(changeset: Changeset) -> Iterator[Suspicion]:
    """Questions of new product code that only an answer made for tests needs."""
    for view in changeset.views:
        if view.after is None or view.is_test or not is_product_path(view.path):
            continue
        for code, read in _READERS.items():
            for line, text in view.find_added(read):
                yield suspicion(code, view.path, line, f"`{shorten(text)}`")


def _hardcoded_answers(source: SourceFile) -> Iterator[tuple[int, str]]:
    if source.language not in ("script", "go", "rust"):
        return
    if source.language == "go":
        for comment in source.comments:
            words = comment.text.split()
            if words[:1] == ["//go:embed"] and any(map(_TEST_PLACE.fullmatch, words[1:])):
                yield comment.line, comment.text
    if source.language != "script" or "import" in source.text or "require" in source.text:
        yield from _read_tests(source.code)
    has_letters = "charCodeAt" in source.text and _MIXES_LETTERS.search(source.text)
    if has_letters or _DIGEST.search(source.text) or _MIXES.search(source.text):
        yield from _Digests(source.code).decisions()


def _read_tests(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """`read_dir("tests")` in the product or its build: what the tests expect is no source of answers."""
    for node in code.nodes_of("call_expression", "macro_invocation"):
        called = node.child("function") or node.child("macro")
        arguments = node.child("arguments") or (node.children[-1] if node.children else None)
        if called is None or arguments is None or code.text(called.stop - 1) not in _READS:
            continue
        texts = [
            unquote(code.text(at)) for at in range(arguments.start, arguments.stop) if code.kind(at) == STRING
        ]
        # What a path is put together of may begin anywhere: `join(root, "..", "test")`.
        if any(map(_TEST_PLACE.fullmatch, texts[:1])) or any(_is_test_file(text) for text in texts):
            yield code.line(node.start), code.node_text(node)


def _is_test_file(text: str) -> bool:
    """True for a path of a test file, or of a folder of tests that is written with its parents."""
    return "/" in text and _TEST_PLACE.fullmatch(text.lstrip("/")) is not None and text.strip("./") != "test"


class _Digests:
    """Where a file decides something by a digest that is written out."""

    def __init__(self, code: BracketedCode) -> None:
        self._code = code
        self._constants = file_constants(code)
        self._functions = {
            code.node_text(node.child("name")) for node in code.nodes_of(*_FUNCTIONS) if self._mixes(node)
        }
        self._names: set[str] = set()
        for node in code.nodes_of(
            "variable_declarator", "short_var_declaration", "let_declaration", "var_spec"
        ):
            target = node.child("name") or node.child("left") or node.child("pattern")
            value = node.child("value") or node.child("right")
            if target is not None and value is not None and self._is_digest(value):
                self._names.add(code.node_text(target))

    def _mixes(self, node: Node) -> bool:
        value = node.child("value") if node.kind == "variable_declarator" else node
        is_function = value is not None and value.child("body") is not None
        return is_function and _MIXES.search(self._code.node_text(value)) is not None

    def decisions(self) -> Iterator[tuple[int, str]]:
        """The decisions, each with its line."""
        code = self._code
        for node in code.nodes_of(*_SWITCHES):
            value = node.child("value")
            cases = [one for one in node.walk() if one.kind in _CASES]
            if value is not None and self._is_digest(value) and any(map(self._is_written_case, cases)):
                yield (
                    code.line(node.start),
                    f"{code.node_text(value)} decides by a digest that is written out",
                )
        for node in code.nodes_of("binary_expression"):
            if code.text(node.children[0].stop) in ("==", "===") and len(node.children) > 1:
                sides = node.children[:2]
                if any(map(self._is_digest, sides)) and any(map(self._is_written, sides)):
                    yield code.line(node.start), code.node_text(node)
        for node in code.nodes_of("subscript_expression", "index_expression", "call_expression"):
            table, key = self._lookup(node)
            if table is not None and key is not None and self._is_digest(key) and self._is_table(table):
                yield code.line(node.start), code.node_text(node)

    def _lookup(self, node: Node) -> tuple[Node | None, Node | None]:
        if node.kind != "call_expression":
            return node.children[0], node.child("index") or node.children[-1]
        called = node.child("function")
        if called is None or not called.children or self._code.text(called.stop - 1) not in _LOOKUPS:
            return None, None
        return called.children[0], node.child("arguments")

    def _is_digest(self, node: Node) -> bool:
        for one in node.walk():
            if one.kind == "identifier" and self._code.node_text(one) in self._names:
                return True
            called = one.child("function") if one.kind == "call_expression" else None
            name = self._code.text(called.stop - 1) if called is not None else ""
            if name and (name in self._functions or _DIGEST.fullmatch(name)):
                return True
        return False

    def _is_written(self, node: Node) -> bool:
        text = self._code.node_text(node)
        is_literal = node.stop - node.start == 1 and self._code.kind(node.start) in (STRING, NUMBER)
        return is_literal and len(unquote(text)) >= MIN_DIGEST

    def _is_written_case(self, case: Node) -> bool:
        asked = case.child("value") if case.kind != "match_arm" else case.child("pattern")
        return asked is not None and any(
            self._code.kind(at) in (STRING, NUMBER) and len(unquote(self._code.text(at))) >= MIN_DIGEST
            for at in range(asked.start, asked.stop)
        )

    def _is_table(self, node: Node) -> bool:
        """True for a table that is written out in the file, or in a file of data that it imports."""
        named = next((one for one in node.walk() if one.kind == "identifier"), None)
        name = self._code.node_text(named)
        if not name:
            return any(self._code.kind(at) == STRING for at in range(node.start, node.stop))
        value = self._constants.get(name)
        if value is not None:
            kinds = [self._code.kind(at) for at in range(value.start, value.stop)]
            return kinds.count(STRING) + kinds.count(NUMBER) > 1 or ".json" in self._code.node_text(value)
        return any(
            name in self._code.words(one.start, one.stop) and ".json" in self._code.node_text(one)
            for one in self._code.nodes_of("import_statement")
        )


MAX_FUNCTION = 2_000
"""Limit of tokens of a function that is read as one."""


def _frame_questions(source: SourceFile) -> Iterator[tuple[int, str]]:
    """`new Error().stack` in a function that looks for tests in it."""
    if source.language != "script" or ".stack" not in source.text:
        return
    code = source.code
    for node in code.nodes_of(
        "function_declaration", "method_definition", "arrow_function", "function_expression"
    ):
        body = node.child("body")
        if body is None:
            continue
        if body.stop - body.start > MAX_FUNCTION:
            continue  # What wraps a whole module asks for what any of its functions does.
        texts = [code.text(at) for at in range(body.start, body.stop)]
        is_asked = "stack" in texts and "Error" in texts
        if is_asked and any(text[:1] in "\"'`/" and _TESTED_FRAME.search(text) for text in texts):
            yield code.line(body.start), code.node_text(body)


def _run_questions(source: SourceFile) -> Iterator[tuple[int, str]]:
    """What tells the program of the tests, or their build, from the product's."""
    if source.language == "go" and _PROGRAM.search(source.text):
        for token in source.tokens:
            if token.kind == STRING and _TEST_PROGRAM.fullmatch(unquote(token.text)):
                yield token.line, f"os.Args[0] … {token.text}"
    if source.language == "rust" and "debug_assertions" in source.text:
        yield from _build_questions(source.code)
        yield from _profile_branches(source.code)
    if source.language == "rust" and "current()" in source.text:
        yield from _thread_questions(source.code)


def _build_questions(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """A function that is another one in debug builds, and a condition that a debug build alone fulfils."""
    sides: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for node in code.nodes_of("attribute_item"):
        text = code.node_text(node)
        siblings = node.parent.children if node.parent is not None else []
        after = next(
            (one for one in siblings if one.start >= node.stop and one.kind != "attribute_item"), None
        )
        if after is not None and after.kind == "function_item" and after.child("return_type") is not None:
            name = code.node_text(after.child("name"))
            if _DEBUG.search(text) or _NOT_DEBUG.search(text):
                sides[_DEBUG.search(text) is not None][name] = code.line(after.start)
    for name in sides[True].keys() & sides[False].keys():
        yield sides[True][name], f"fn {name} is another one in debug builds"
    for node in code.nodes_of("binary_expression"):
        parts = node.children[:2]
        if code.text(node.children[0].stop) in ("&&", "||") and any(
            code.node_text(one) in ("cfg!(debug_assertions)", "!cfg!(debug_assertions)") for one in parts
        ):
            yield code.line(node.start), code.node_text(node)


def _profile_branches(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """A function that works its result out otherwise in debug builds; checks without a result are honest."""
    for node in code.nodes_of("if_expression"):
        condition, block = node.child("condition"), node.child("consequence")
        if condition is None or block is None or not _ASKS_DEBUG.fullmatch(code.node_text(condition)):
            continue
        other = node.child("alternative")
        function = next((above for above, _ in node.ancestors() if above.kind == "function_item"), None)
        names = function.child("parameters") if function is not None else None
        given = {
            code.text(at)
            for at in (range(names.start, names.stop) if names is not None else ())
            if code.text(at + 1) == ":" or code.text(at) == "self"
        }
        is_left = any(one.kind == "return_expression" for one in block.walk())
        is_value = other is not None and ";" not in (code.text(block.stop - 2), code.text(other.stop - 2))
        parts = [block] if is_left else [block, other] if is_value and other is not None else []
        if parts and all(given & code.words(part.start, part.stop) for part in parts):
            yield code.line(node.start), f"{code.node_text(condition)} decides what a function returns"


def _thread_questions(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """`thread::current().name() == Some("main")`: tests run in threads that have their names."""
    for node in code.nodes_of("if_expression", "match_expression", "binary_expression", "call_expression"):
        asked = node.child("condition") or node.child("value") or node
        shown = code.node_text(node if node.kind == "match_expression" else asked)
        if _THREAD_NAME.search(code.node_text(asked)) and _THREAD_CHOICES.search(shown):
            yield code.line(node.start), code.node_text(asked)


_READERS = {
    "answer_hardcoded": _hardcoded_answers,
    "stack_inspected": _frame_questions,
    "gate_detected": _run_questions,
}
