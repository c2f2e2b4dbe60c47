"""Tests that a change mended, run with other figures and words than they have, on the code of both sides.

An answer that is worked out differs from the base's for other input, too. Code that knows the tests' own inputs, in
whatever disguise, answers all other input as before: then the altered tests fail on the head as they fail on the base,
with the same words.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from remand.domain.gate.gate import WatchedTest
from remand.integrity.changeset import Changeset
from remand.integrity.comparison import FileDiff
from remand.integrity.cross_runs import BAD_OUTCOMES
from remand.integrity.general_paths import line_starts, python_range
from remand.integrity.mutants import Edit, replace_parts
from remand.integrity.paths import is_collected_path, is_test_path
from remand.integrity.readers.compared_values import compared_values, silent_lines
from remand.integrity.readers.python_tree import child_nodes
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NAME, NUMBER, PATTERN, STRING, test_module_range
from remand.integrity.rules.missing_tests import ChangedPaths, without_parameters
from remand.integrity.suspicions import Suspicion, quote_names, suspicion

NEAR = (0, 1)
"""The ways in which tests are altered at first, one run on each side for each."""
FAR = (2, 3)
"""The ways in which they are altered then: single words and small numbers, too. More of what is said must be alike."""
LAST = (5,)
"""The way in which they are altered last, before that is said: numbers keep what they are beyond their hundreds."""
LONGER = (10,)
"""A further way for Go and Rust: texts of several words have their last one twice, and so another length and form."""
MIN_MENDED = 2
MAX_FILES = 5
WORD = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[Nu]\{[^}]*\}|.)|[A-Za-z]+|[0-9]+", re.DOTALL
)
_SPACED = re.compile(r"(?<![\\\w])[A-Za-z]{2,}(?=[^\w\\]*(?: |[\"`!?.,]))")
MIN_WORDS = 3
_INSERTED = re.compile(r"\$\{[^}]*[A-Za-z][^}]*\}|[A-Za-z]+")
_NEXT_PIECE = re.compile(r"[\"']\s+[A-Za-z]{1,2}(?=[\"'])")
"""Between the parts of a text that is written in several."""
_PREFIX = re.compile(r"[A-Za-z]*(?=[\"'`])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
ASSERTS = re.compile(r"assert\b|\w*AssertionError\b|\w+: expect\(")
_GO_FAILURE = re.compile(r"(\w+_test\.go):(\d+): ")
_RUST_FAILURE = re.compile(r"^assertion `left == right` failed", re.MULTILINE)
_ABSENT = re.compile(r"no such file|not found|NotFound|cannot find", re.IGNORECASE)
_MOVED = re.compile(r"(?<=\.rs):\d+:\d+|(?<=' )\(\d+\)")
"""Where a failure of Rust stands in a file that differs, and the number of its thread."""
_PLACEHOLDER = re.compile(r"%[-+# 0-9.*\[\]]*[a-zA-Z]|\{[a-z_0-9]*(?::[^{}\"]*)?\}|\.[A-Za-z]\w{0,4}[\"`]$|/")
"""In texts of Go and Rust that are formats or names of files."""
_MAX_VOCABULARY = 12
"""So many letters a text has that the product may know as a word of its own."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_SILENT = re.compile(
    r"(?:(?:assert|AssertionError:(?: expected)?)(?: not)? |Received: +)"
    r"(?:None|True|False|null|undefined|true|false|''|\"\"|\[\]|\{\}|\[Function|\[ Array\(|\{ …)"
)
"""What says nothing of an answer, or that there is none: code that knows more facts than before has none for others, too."""
_LABELS = frozenset(("id", "ids", "match", "reason", "msg", "encoding"))
_DISTINCT = 3
"""So many digits a number has that is no count, index, flag or limit; a round one may be a limit, too."""
_ANYWHERE = 9
"""Numbers up to this stand in any code, whatever they mean there."""
_TIMES, _PLUS, _HUNDRED = 3, 10, 100
"""At the further steps numbers are multiplied or become larger, so that they keep their order, their multiples or their distances."""
_SERIES = 3
"""So many numbers in a list are data, whatever they are."""

_WORDS = (re.compile(r"(?<=[\"'`])[A-Z]+(?=[\"'`])"), re.compile(r"(?<=[\"'`])[a-z]+(?=[\"'`])"))
_FEW_LETTERS = 8
"""With so few letters in all of their words, tests may ask for words in which no other letter has a meaning."""

"""What code does that answers by how often it was asked."""
Watched = Sequence[WatchedTest]


def find_altered_files(paths: Sequence[str], on_base: Watched, on_head: Watched) -> tuple[str, ...]:
    """The files of the tests that a change mended; none if these stand in too many files, or in Go and Rust if too few failed."""
    mended = find_mended(on_base, on_head)
    braced = {test_id: [path for path in paths if name_in_file(path, test_id)] for test_id in mended}
    if any(braced.values()):
        files = {path for found in braced.values() for path in found}
        failures = sum(
            max(1, len(_GO_FAILURE.findall(test.text))) for test in on_base if test.id in set(mended)
        )
        is_enough = failures >= MIN_MENDED and len(files) <= MAX_FILES and all(braced.values())
        return tuple(sorted(files)) if is_enough else ()
    tests = ChangedPaths(
        FileDiff(status="M", path=path) for path in paths if is_test_path(path) and is_collected_path(path)
    )
    files = {tests.path_of(name) for name in mended}
    return tuple(sorted(files)) if "" not in files and len(files) <= MAX_FILES else ()


def is_braced_path(path: str) -> bool:
    """True for a file of Go or Rust, whose tests go by the name of a package, or of a program of tests."""
    return path.endswith((".go", ".rs"))


def name_in_file(path: str, test_id: str) -> str:
    """The name of a test of Go or Rust in a file; empty if the test cannot be in it."""
    place, _, names = test_id.partition("::")
    folder = path.rpartition("/")[0]
    if path.endswith("_test.go"):
        is_here = not folder or place == folder or place.endswith(f"/{folder}")
        return names.partition("/")[0] if is_here and not place.endswith(".rs") else ""
    program, _, root = place.partition("/")
    if not path.endswith(".rs") or not root.endswith(".rs"):
        return ""
    *modules, name = names.split("::")
    if path == root or path.endswith(f"/{root}"):
        is_here = "src" not in root.split("/") or path == root or program in path.replace("-", "_").split("/")
    else:
        stem = folder.rpartition("/")[2] if path.endswith("/mod.rs") else path.rpartition("/")[2][:-3]
        is_here = stem in modules and "src" in folder.split("/")
    return name if is_here else ""


def find_mended(on_base: Watched, on_head: Watched) -> tuple[str, ...]:
    """The tests that failed on the base and pass on the head."""
    failed = {test.id for test in on_base if test.outcome in BAD_OUTCOMES}
    return tuple(test.id for test in on_head if test.outcome == "passed" and test.id in failed)


class Alteration:
    """One way to alter the values of tests."""

    def __init__(
        self, step: int, product: str = "", before: str = "", vocabulary: frozenset[str] = frozenset()
    ) -> None:
        """`product` is the text of the product: words that it has name facts and options, which stay.

        So do small numbers that its changed files had `before`: they may be limits. In Go and Rust
        the `vocabulary` stays: whole texts of the product.
        """
        self._step = step
        self._product = product
        self._known = frozenset(WORD.findall(product))
        self._limits = frozenset(WORD.findall(before))
        self._vocabulary = vocabulary
        self._alphabets: tuple[str, ...] = ()

    def alter_file(self, path: str, text: str) -> bytes:
        """A file of tests with other figures and words in its values; equal ones stay equal.

        Of a text with a figure in it the figure differs, of one with several words a word. Single words and numbers
        that may be counts and limits differ only when the tests are altered further: numbers keep their order then.
        """
        source = SourceFile(path, text)
        self._alphabets = tuple(filter(None, (_alphabet(text, form) for form in _WORDS)))
        return replace_parts(text, self._python_edits(source) if source.tree else self.braced_edits(source))

    def _python_edits(self, source: SourceFile) -> Iterator[Edit]:
        data, starts = source.text.encode(), line_starts(source.text)
        data_of_lists = {
            _item_at(one.elts, self._step) for one in source.nodes_of(ast.List) if _is_series(one)
        }
        for node in _values(source.tree) if source.tree else ():
            start, stop = python_range(starts, node)
            literal = data[start:stop].decode("utf-8", "replace")
            altered = self._alter_item(literal) if node in data_of_lists else self._alter(literal)
            if altered != literal:
                yield start, stop, altered.encode()

    def braced_edits(self, source: SourceFile) -> Iterator[Edit]:
        """What differs in a file of another language than Python."""
        code, is_compiled = source.code, is_braced_path(source.path)
        kept = [range(node.start, node.stop) for node in code.nodes_of(*_KEPT)]
        has_product = is_compiled and not is_test_path(source.path)
        tests = test_module_range(code) if has_product else range(len(code.tokens))
        series = (
            node.children
            for node in code.nodes_of("array")
            if (node.parent is None or node.parent.kind != "array")
            and len(node.children) >= _SERIES
            and all(one.kind == "number" and code.text(one.start).isdigit() for one in node.children)
        )
        data_of_lists = {_item_at(children, self._step) for children in series}
        leaves = (leaf for leaf in (code.root.walk() if code.root else ()) if leaf.stop == leaf.start + 1)
        for leaf in leaves:
            at, literal = leaf.start, code.text(leaf.start)
            if code.kind(at) not in (STRING, NUMBER) or at not in tests or any(at in one for one in kept):
                continue
            is_format = is_compiled and code.kind(at) == STRING and _PLACEHOLDER.search(literal)
            if is_format or literal in self._vocabulary:
                continue
            opening = code.text(at - 1)
            is_title = opening == "(" and (code.text(at - 2)[-1:] == "`" or code.text(at - 2) in _TITLED)
            is_index = opening == "[" and (code.kind(at - 2) == "name" or code.text(at - 2) in (")", "]"))
            if is_title or is_index or (code.text(at + 1) == ":" and not is_compiled):
                continue
            is_datum = leaf in data_of_lists
            altered = self._alter_item(literal) if is_datum else self._alter(literal)
            if altered != literal:
                start, stop = code.byte_range(leaf)
                yield start, stop, altered.encode()

    def _alter(self, literal: str) -> str:
        """A literal of the source with another number, figure or word, another one at each step."""
        if _NUMBER.fullmatch(literal):
            return self._alter_number(literal)
        prefix = _PREFIX.match(literal)
        if prefix is None:
            return literal
        if self._step in LONGER:
            return self._repeat_word(literal)
        start = prefix.end()
        body = literal[start:]
        left = list((_INSERTED if body[:1] == "`" else _NEXT_PIECE).finditer(body))
        words = [
            (start + found.start(), start + found.end())
            for found in WORD.finditer(body)
            if found[0][0] != "\\" and not any(one.start() <= found.start() < one.end() for one in left)
        ]
        figures = [one for one in words if literal[one[0]].isdigit()]
        if not figures and len(words) <= (0 if self._is_far else 1):
            return literal
        words = figures or words
        # Parts of a text that the product has as a whole are no facts by themselves.
        if self._is_far or (not figures and literal.strip("'\"`") not in self._product):
            words = [one for one in words if literal[slice(*one)] not in self._known]
        chosen = words if figures and body[:1] == "`" else words[-1:] if self._step % 2 == 0 else words[:1]
        for at, stop in reversed(chosen):
            literal = literal[:at] + self._alter_word(literal[at:stop]) + literal[stop:]
        return literal

    def _alter_word(self, word: str) -> str:
        """Another word of the same form; of the same letters, if all words have few, as numbers of Rome do."""
        letters = next((one for one in self._alphabets if set(word) <= set(one)), "")
        if not self._is_far or not letters:
            return alter_word(word, self._step % 2)
        at = len(word) - 1 if self._step == FAR[0] else 0
        return word[:at] + letters[(letters.index(word[at]) + 1) % len(letters)] + word[at + 1 :]

    def _repeat_word(self, literal: str) -> str:
        words = list(_SPACED.finditer(literal)) if not any(map(str.isdigit, literal)) else []
        if len(words) < MIN_WORDS:
            return literal
        place = words[-1]
        return f"{literal[: place.start()]}{place[0]} {literal[place.start() :]}"

    def _alter_number(self, literal: str) -> str:
        if self._is_far and literal.isdigit():
            number = int(literal)
            more = _PLUS if self._step == FAR[1] else _HUNDRED
            moved = number * _TIMES if self._step == FAR[0] else number + more * (number > 1)
            known = self._known if number > _ANYWHERE else self._limits
            return literal if literal in known else str(moved)
        is_round = literal[-1] in "05" if "." in literal else int(literal) % 10 == 0 or int(literal) % 25 == 0
        is_distinct = len(literal.replace(".", "")) >= _DISTINCT and not is_round and self._step not in LONGER
        return alter_word(literal, self._step % 2) if is_distinct else literal

    def _alter_item(self, literal: str) -> str:
        if self._step in LONGER:
            return literal
        return self._alter_number(literal) if self._is_far else alter_word(literal, self._step)

    @property
    def _is_far(self) -> bool:
        return self._step in FAR + LAST


def _alphabet(text: str, form: re.Pattern[str]) -> str:
    """The letters of all texts that are one word of a form, if these are few; else nothing."""
    words = set(form.findall(text))
    letters = "".join(sorted(set("".join(words))))
    return letters if len(words) >= _SERIES and 1 < len(letters) <= _FEW_LETTERS else ""


def alter_questions(
    path: str, text: str, step: int, known: frozenset[str] = frozenset()
) -> tuple[bytes, frozenset[str]]:
    """A file of tests of Go or Rust that ask for something else and expect the same, with those to which that matters.

    What they expect has figures of its own: a count, a truth or a name may be the same for other values.
    """
    source = SourceFile(path, text)
    code = source.code
    expected = compared_values(code, source.language)
    places = {code.byte_range(range(one.place, one.place + 1))[0] for one in expected}
    common = {one.function for one in expected if not _is_distinct(code.text(one.place))}
    alteration = Alteration(step, vocabulary=known)
    edits = [one for one in alteration.braced_edits(source) if one[0] not in places]
    asked = {
        code.node_text(node.child("name"))
        for node in code.nodes_of("function_declaration", "function_item")
        for start, stop in [code.byte_range(node)]
        if any(start <= at < stop for at, _, _ in edits)
    }
    return replace_parts(text, edits), frozenset(asked & {one.function for one in expected} - common)


def _is_distinct(literal: str) -> bool:
    """True for a figure or text that no other question would have for its answer by chance."""
    if _NUMBER.fullmatch(literal):
        return len(literal.replace(".", "")) >= _DISTINCT
    return any(letter.isdigit() for letter in literal) and len(literal) > _DISTINCT


def find_unasked(
    sides: tuple[Watched, Watched], names: Mapping[str, frozenset[str]], after: Watched
) -> set[str]:
    """The mended tests, of those that ask for something else in each file, that pass all the same."""
    passed = {test.id for test in after if test.outcome == "passed"}
    return {
        test_id
        for test_id in find_mended(*sides)
        if test_id in passed and any(name_in_file(path, test_id) in found for path, found in names.items())
    }


def judge_questions(path: str, unasked: Sequence[set[str]]) -> tuple[Suspicion, ...]:
    """What it says of a change that its mended tests pass whatever figures they ask about, one set for each step."""
    names = sorted(set.intersection(*unasked)) if len(unasked) == len(NEAR) else []
    if len(names) < MIN_MENDED:
        return ()
    text = f"{quote_names(names)} expect the same when they ask for anything else, and pass"
    return (suspicion("answer_fits_tests", path, 0, text, "\n".join(names)),)


def told_text(path: str, text: str) -> str:
    """The values and names of a file of the product that tests may ask for, without comments and names of its own."""
    source = SourceFile(path, text)
    if source.tree is not None:
        return "\n".join(_told_by_python(source))
    if source.language != "script":
        return text
    tokens = source.code.tokens
    around = zip(
        ("", *(one.text for one in tokens)), tokens, [*(one.text for one in tokens[1:]), ""], strict=False
    )
    return "\n".join(
        token.text
        for last, token, following in around
        if token.kind in (STRING, NUMBER, PATTERN)
        or (
            token.kind == NAME
            and (following == ":" or last in (".", "?.") or (last in "{," and following in ",}"))
        )
    )


def _told_by_python(source: SourceFile) -> Iterator[str]:
    described = {id(one.value) for one in source.nodes_of(ast.Expr) if isinstance(one.value, ast.Constant)}
    yield from (ast.unparse(one) for one in source.nodes_of(ast.Constant) if id(one) not in described)
    yield from (one.attr for one in source.nodes_of(ast.Attribute))
    yield from (one.arg or "" for one in source.nodes_of(ast.keyword))
    yield from (one.arg for one in source.nodes_of(ast.arg))
    yield from (name for name, _ in source.functions)
    for owner in (source.tree, *source.nodes_of(ast.ClassDef)):
        assigned = (one for one in owner.body if isinstance(one, ast.Assign | ast.AnnAssign)) if owner else ()
        for statement in assigned:
            yield ast.unparse(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target)


def known_words(changeset: Changeset) -> frozenset[str]:
    """The short texts of the changed product in Go and Rust, which may be a vocabulary: `utf-16` and `dark-blue`."""
    views = (view.after for view in changeset.views if is_braced_path(view.path) and not view.is_test)
    words = (token.text for source in views if source for token in source.code.tokens if token.kind == STRING)
    return frozenset(word for word in words if len(word) <= _MAX_VOCABULARY and " " not in word)


def _is_series(node: ast.List) -> bool:
    numbers = [one for one in node.elts if isinstance(one, ast.Constant) and type(one.value) is int]
    return len(numbers) == len(node.elts) >= _SERIES


_Item = TypeVar("_Item")


def _item_at(items: Sequence[_Item], step: int) -> _Item:
    return items[-1 if step == 0 else 0]


def _values(node: ast.AST) -> Iterator[ast.Constant]:
    """The figures and texts of a syntax tree that are no places, names, labels or documentation."""
    rest: Sequence[ast.AST] = tuple(child_nodes(node))
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.Subscript):
        rest = (node.value,)
    elif (isinstance(node, ast.keyword) and node.arg in _LABELS) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ):
        return
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".parametrize"):
        rest = (*node.args[1:], *node.keywords)
    for child in rest:
        if isinstance(child, ast.Constant):
            if isinstance(child.value, str | bytes | int | float) and not isinstance(child.value, bool):
                yield child
        else:
            yield from _values(child)


_KEPT = ("import_statement", "import_declaration", "attribute_item", "field_declaration", "array_type")
_TITLED = (
    "Run",
    "it",
    "test",
    "describe",
    "suite",
    "only",
    "concurrent",
    "require",
    "mock",
    "doMock",
    "import",
    ")",
)
"""What comes before a title, or the name of a module; a table of rows comes before the title of its rows."""


def alter_word(word: str, step: int) -> str:
    """Another word of the same form: its last character differs at the first step, its first one at the next."""
    at = len(word) - 1 if step == 0 else 0
    last = word[at]
    other = {"9": "8", "z": "y", "Z": "Y"}.get(last) or chr(ord(last) + 1)
    return word[:at] + other + word[at + 1 :]


def find_silent_lines(texts: Mapping[str, str]) -> Mapping[str, frozenset[int]]:
    """By file, the lines on which tests of Go fail without showing what they compared."""
    return {
        path: silent_lines(SourceFile(path, text).code)
        for path, text in texts.items()
        if path.endswith("_test.go")
    }


class AlteredRuns:
    """What altered tests say on both sides, over the steps that were run."""

    def __init__(
        self,
        on_base: Watched,
        on_head: Watched,
        steps: Sequence[int] = NEAR,
        texts: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`texts` are the files of the tests."""
        self._is_strict = steps is not NEAR
        self._is_far = steps in (FAR, LAST)
        self._left = len(steps)
        self._mended = find_mended(on_base, on_head)
        # Of Go and Rust, one test may be a whole table.
        self._least = 1 if any(map(is_braced_path, texts)) else MIN_MENDED
        self._silent = {
            (path.rpartition("/")[2], str(line))
            for path, lines in find_silent_lines(texts).items()
            for line in lines
        }
        # The values of a row are often part of its name.
        self._others = {_case_name(test.id) for test in on_base} - set(map(_case_name, self._mended))
        self._alike = self._different = self._count = self._done = 0

    def add(self, base: Watched, head: Watched) -> None:
        """One step: the same altered tests, as they ended on the base and on the head."""
        said = [
            Counter(_result_of(test) for test in side if _case_name(test.id) not in self._others)
            for side in (base, head)
        ]
        self._left -= 1
        self._done += 1
        both = (said[0] & said[1]).items()
        # What the base answers as well is none of the inputs that it had wrong.
        self._count += len(self._mended) - sum(count for one, count in both if one[0] == "passed")
        self._different += max((said[0] - said[1]).total(), (said[1] - said[0]).total())
        self._alike += sum(
            count for one, count in both if one[0] in BAD_OUTCOMES and self._shows_result(one[2])
        )

    def _shows_result(self, text: str) -> bool:
        """True for the failure of an assertion that says what it found."""
        places = set(_GO_FAILURE.findall(text))
        if places:
            return not places & self._silent and not _ABSENT.search(text)
        if self._is_far and _SILENT.search(text):
            return False
        return ASSERTS.match(text) is not None or _RUST_FAILURE.search(text) is not None

    @property
    def may_show(self) -> bool:
        """True as long as few of the tests that were mended tell the sides apart, and most fail alike."""
        is_enough = self._alike >= self._least * self._done
        if len(self._mended) < self._least or not is_enough:
            return False
        if self._is_strict:
            return 6 * self._different <= self._count and 4 * self._alike >= 3 * self._count
        return 3 * self._different <= self._count and 3 * self._alike >= 2 * self._count

    def judge(self, path: str) -> tuple[Suspicion, ...]:
        """What it says of a change that answers nothing but the tests' own inputs."""
        if self._left or not self.may_show:
            return ()
        text = (
            f"{quote_names(list(self._mended))} pass, and fail as on the base when they ask for anything else"
        )
        return (suspicion("answer_fits_tests", path, 0, text, "\n".join(self._mended)),)


def _result_of(test: WatchedTest) -> tuple[str, str, str]:
    text = _MOVED.sub("", _ADDRESS.sub("0x", test.text))
    if _GO_FAILURE.search(text):  # the rows of a map come in any order
        text = "\n".join(sorted(map(str.strip, text.splitlines())))
    return test.outcome, _case_name(test.id), text


_ROW = re.compile(r"(?<=::)((?:Test|Fuzz)\w*)/.*", re.DOTALL)


def _case_name(test_id: str) -> str:
    """A test's id without what follows from its values: parameters, and the name of a subtest of Go."""
    return _ROW.sub(r"\1", without_parameters(test_id))
