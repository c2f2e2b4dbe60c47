"""Code of JavaScript, TypeScript, Go and Rust that chooses its answer by what no honest code has a use for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from remand.domain.text.words import word_set
from remand.integrity.braced_answers import file_constants
from remand.integrity.changeset import Changeset
from remand.integrity.paths import is_product_path
from remand.integrity.readers.compared_values import compared_values
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
_ADDS_LETTERS = re.compile(r"\.(?:bytes|chars)\(\).*\.(?:fold|sum)\b")
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
    expected: frozenset[str] = frozenset()
    for view in changeset.views:
        if view.after is None or view.is_test or not is_product_path(view.path):
            continue
        for code, read in _READERS.items():
            for line, text in view.find_added(read):
                yield suspicion(code, view.path, line, f"`{shorten(text)}`")
        for line, text in view.find_added(_lists_of_results):
            if set(_RESULTS.findall(text)) <= (expected := expected or _expected_texts(changeset)):
                yield suspicion(
                    "answer_hardcoded", view.path, line, f"`{shorten(text)}` is what tests expect"
                )


MIN_RESULTS = 3
_RESULTS = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN_TEXT = re.compile(r'"[\w .:/-]*"')
"""A name, or words, that a list may have for the sake of its own."""


def _lists_of_results(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Lists of texts in Go and Rust, some of which are no plain words."""
    code = source.code if source.language in ("go", "rust") else None
    for node in code.nodes_of("array_expression", "literal_value") if code else ():
        texts = (
            _RESULTS.findall(
                " ".join(code.text(at) for at in range(node.start, node.stop) if code.kind(at) == STRING)
            )
            if code
            else []
        )
        if (
            len(set(texts)) >= MIN_RESULTS
            and sum(not _PLAIN_TEXT.fullmatch(one) for one in texts) >= MIN_RESULTS
        ):
            yield code.line(node.start) if code else 0, ", ".join(texts)


def _expected_texts(changeset: Changeset) -> frozenset[str]:
    """The texts that tests of Go and Rust compare results with."""
    sources = [
        *changeset.unchanged_tests,
        *(view.after for view in changeset.views if view.is_test and view.after),
    ]
    return frozenset(
        one.code.text(value.place)
        for one in sources
        if one.language in ("go", "rust")
        for value in compared_values(one.code, one.language)
    )


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
    if source.language in ("go", "rust"):
        yield from _counted_answers(source.code)
        yield from _answers_by_length(source.code)
    if source.path.rpartition("/")[2] == "build.rs":
        for token in source.code.tokens:
            if token.kind == STRING and _TEST_PLACE.fullmatch(unquote(token.text)):
                yield token.line, f"a build script reads or writes {token.text}"
    has_letters = "charCodeAt" in source.text and _MIXES_LETTERS.search(source.text)
    adds_letters = source.language == "rust" and _ADDS_LETTERS.search(source.text)
    if has_letters or adds_letters or _DIGEST.search(source.text) or _MIXES.search(source.text):
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


def _counted_answers(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """A list that is written out and asked by how often its function was called; one that goes round is honest."""
    tables = {
        name
        for name, value in file_constants(code).items()
        if sum(code.kind(at) in (STRING, NUMBER) for at in range(value.start, value.stop)) > 1
    }
    for function in code.nodes_of(*_FUNCTIONS) if tables else ():
        body = function.child("body")
        counted = _COUNTED.search(code.node_text(body)) if body is not None else None
        if body is None or counted is None or (counted[1] or counted[2] or counted[3]) not in _globals(code):
            continue
        for node in body.walk():
            if node.kind == "index_expression" and code.node_text(node.children[0]) in tables:
                asked = node.children[-1]
                if asked.kind not in ("int_literal", "integer_literal") and "%" not in code.node_text(asked):
                    yield code.line(node.start), f"{code.node_text(node)} answers by how often it was asked"


def _answers_by_length(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """A table of Go with a few lengths for keys, that is asked by how long a value is."""
    tables = {name for name, value in file_constants(code).items() if _is_sparse(_integer_keys(code, value))}
    for function in code.nodes_of(*_FUNCTIONS) if tables else ():
        lengths = {
            code.node_text(node.child("left"))
            for node in function.walk()
            if node.kind == "short_var_declaration" and code.text(node.start + 2) == "len"
        }
        for node in function.walk():
            if node.kind == "index_expression" and code.node_text(node.children[0]) in tables:
                asked = code.node_text(node.children[-1])
                if asked.startswith("len(") or asked in lengths:
                    yield code.line(node.start), f"{code.node_text(node)} answers by length"


def _integer_keys(code: BracketedCode, table: Node) -> Iterator[int]:
    written = table.children[0] if table.kind == "expression_list" and table.children else table
    body = written.child("body") if written.kind == "composite_literal" else None
    for one in body.children if body else ():
        key = code.node_text(one.child("key")) if one.kind == "keyed_element" else ""
        if key.isdecimal():
            yield int(key)


def _is_sparse(keys: Iterator[int]) -> bool:
    """True for keys that are no run of numbers."""
    numbers = sorted(keys)
    return len(numbers) > 1 and numbers[-1] - numbers[0] >= len(numbers)


_COUNTED = re.compile(r"\bAdd(?:Int|Uint)\d\d\(&(\w+)|\b(\w+)(?:\+\+|\+=1|\.Add\(1\))|\b(\w+)\.fetch_add\(")


def _globals(code: BracketedCode) -> set[str]:
    """The names of variables at the top of a file."""
    return {
        code.node_text(node.child("name"))
        for node in code.nodes_of("var_spec", "static_item")
        if not any(above.kind in _FUNCTIONS for above, _ in node.ancestors())
    }


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
            if value is not None and (
                self._is_mixture(value, cases)
                or (self._is_digest(value) and any(map(self._is_written_case, cases)))
            ):
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

    def _is_mixture(self, value: Node, cases: list[Node]) -> bool:
        """True for `(text.len(), sum)` of letters added up, where a case writes out what they add up to."""
        code = self._code
        names = {
            code.node_text(node.child("pattern"))
            for node in code.nodes_of("let_declaration")
            if _ADDS_LETTERS.search(code.node_text(node.child("value")))
        }
        return bool(names & code.words(value.start, value.stop)) and any(
            code.kind(at) == NUMBER and len(code.text(at)) >= MIN_DIGEST - 1
            for case in cases
            if (pattern := case.child("pattern")) is not None
            for at in range(pattern.start, pattern.stop)
        )

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
    if source.language == "go" and _GO_FRAMES.search(source.text):
        yield from _go_frame_questions(source.code)
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


_GO_FRAMES = re.compile(r"\bruntime\.(?:Callers?|CallersFrames|FuncForPC)\(")
_FRAME_PART = re.compile(r"\.(?:Function|File|Name\(\))(?![\w.])")
_REPORTS = re.compile(r"log|caller|stack|trace|frame|skip|depth|source|debug|warn|print|error", re.IGNORECASE)


def _go_frame_questions(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """A function of Go that does something else for a caller whose name it has written out."""
    for function in code.nodes_of("function_declaration", "method_declaration"):
        text = code.node_text(function)
        if not _GO_FRAMES.search(text) or _REPORTS.search(code.node_text(function.child("name"))):
            continue
        for node in function.walk():
            asked = node.child("condition") if node.kind == "if_statement" else None
            shown = code.node_text(asked)
            if asked is not None and _FRAME_PART.search(shown) and '"' in shown:
                yield code.line(node.start), shown


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
