"""Breaks changed functions on purpose, in Python and languages with braces, and checks whether the tests that
execute them notice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from remand.domain.gate.gate import TestOutcome
from remand.domain.record import Record
from remand.domain.text.words import word_set
from remand.integrity.changeset import ChangedFile, Changeset, PlacedTest
from remand.integrity.comparison import Comparison
from remand.integrity.cross_runs import BAD_OUTCOMES, TestRuns, is_new_or_changed
from remand.integrity.paths import is_product_path, is_test_path, language_of
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import BracketedCode, Node, test_module_range
from remand.integrity.rules.missing_tests import ChangedPaths
from remand.integrity.suspicions import Suspicion, quote_names, suspicion
from remand.integrity.test_pairs import is_test_id_of

_KINDS = {
    "script": (
        "function_declaration",
        "generator_function_declaration",
        "method_definition",
        "variable_declarator",
    ),
    "go": ("function_declaration", "method_declaration"),
    "rust": ("function_item",),
}
_BRACED_CRASH = {
    "script": 'throw new Error("broken on purpose");',
    "go": 'panic("broken on purpose")',
    "rust": 'panic!("broken on purpose");',
}
_BLOCKS = ("statement_block", "block")
_COMMON_METHODS = word_set("""
len push pop get set insert remove new next iter add sub close open read write string error equal clone default from into
map filter run start stop contains is_empty clear take put update append parse fmt eq cmp hash drop deref index as_str
to_string join split find count first last size value key keys values name
Len Push Pop Get Set Insert Remove New Next Add Sub Close Open Read Write String Error Equal Run Start Stop Contains Clear
Put Update Append Parse Join Split Find Count First Last Size Value Key Keys Values Name
""")
"""Names of methods that many types have: a call of one says nothing without its type."""
_LEFT = frozenset(("constructor", "main", "init"))
"""Functions that everything calls, or whose effect no test could check."""
MAX_FUNCTIONS = 8
CRASH, _HOLLOW = 'raise RuntimeError("broken on purpose")', "return None"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Edit = tuple[int, int, bytes]
"""What to put in place of which bytes of a file."""


class BracedFunction(NamedTuple):
    """One function that does something."""

    name: str
    text: str
    """Its text in a normal layout."""
    line: int
    """The line on which its body begins."""
    node: Node
    crash: Edit
    hollow: Edit
    is_long: bool
    """True when its body has lines of its own."""


def find_braced_functions(source: SourceFile) -> Iterator[BracedFunction]:
    """The functions and methods of a file's product code, without nested functions."""
    language = source.language
    if language not in _KINDS:
        return
    code, done = source.code, 0
    tests = test_module_range(code) if language == "rust" else range(0)
    for node in code.nodes_of(*_KINDS[language]):
        function = node.child("value") if node.kind == "variable_declarator" else node
        block, name = function.child("body") if function else None, code.node_text(node.child("name"))
        if function is None or block is None or node.start < done or block.stop <= block.start:
            continue
        hollow = _hollow_statement(code, function, language)
        is_block = block.kind in _BLOCKS
        if not is_block and (language != "script" or function.kind != "arrow_function"):
            continue
        done = node.stop
        if not hollow or name in _LEFT or node.start in tests or (is_block and block.stop - block.start <= 2):
            continue
        crash, hollow_body = (_break_body(code, block, text) for text in (_BRACED_CRASH[language], hollow))
        is_long = code.line(block.start) < code.line(min(block.start + 1, block.stop - 1))
        line = code.line(block.start)
        yield BracedFunction(name, code.node_text(node), line, function, crash, hollow_body, is_long)


def _break_body(code: BracketedCode, block: Node, statement: str) -> Edit:
    """A statement before everything that a body does, or in place of the expression that it consists of."""
    start, stop = code.byte_range(block)
    if block.kind not in _BLOCKS:
        return start, stop, f"{{ {statement} }}".encode()
    is_long = code.line(block.start) < code.line(block.start + 1)
    return start + 1, start + 1, f"\n{statement}{'' if is_long else chr(10)}".encode()


def _hollow_statement(code: BracketedCode, function: Node, language: str) -> str:
    """The statement that returns nothing or a zero value; empty if that is what the function returns on success."""
    if language == "script":
        return "return;"
    if language == "go":
        return _zero_values(code, function.child("result"))
    returned = code.node_text(function.child("return_type"))
    if returned.startswith("Result<"):
        return "" if returned.startswith("Result<()") else "return Ok(Default::default());"
    return "return Default::default();"


def _zero_values(code: BracketedCode, result: Node | None) -> str:
    if result is None:
        return "return"
    if result.kind != "parameter_list":
        shown = code.node_text(result)
        return "" if shown == "error" else f"return *new({shown})"
    if any(part.child("name") for part in result.children):
        return "return"
    types = [code.node_text(part.child("type") or part) for part in result.children]
    return f"return {', '.join(f'*new({shown})' for shown in types)}"


def replace_parts(text: str, edits: Iterable[Edit]) -> bytes:
    """A file with parts of it replaced, the last first; a zero byte stands for what was there.

    What overlaps a part that is replaced already is left as it is.
    """
    content = text.encode()
    untouched = len(content)
    for start, stop, new in sorted(set(edits), reverse=True):
        if stop <= untouched:
            content = content[:start] + new.replace(b"\0", content[start:stop]) + content[stop:]
            untouched = start
    return content


class BrokenFiles(Record, kw_only=True):
    """The product's files with the changed functions broken in two ways."""

    names: tuple[str, ...] = ()
    crashing: dict[str, bytes] = msgspec.field(default_factory=dict)
    """They raise, so that tests that execute one of them fail."""
    hollow: dict[str, bytes] = msgspec.field(default_factory=dict)
    """They do nothing and return nothing, so that tests that check what they do fail."""
    are_old: bool = False
    """True if the base has all of them, so that a test that fails there notices the difference."""


def break_changed_functions(comparison: Comparison) -> BrokenFiles:
    """The changed and new functions of the product's files, broken; empty if there are too many."""
    names: list[str] = []
    crashing: dict[str, bytes] = {}
    hollow: dict[str, bytes] = {}
    are_old = True
    views = Changeset(comparison).views
    braced = {view.path: list(changed_braced_functions(view)) for view in views}
    if sum(map(len, braced.values())) > MAX_FUNCTIONS:
        braced = {path: [one for one in found if one.is_long] for path, found in braced.items()}
    for view in views:
        found = braced[view.path]
        if found and view.after is not None:
            names += (function.name for function in found)
            are_old &= {function.name for function in found} <= _braced_names(view.before)
            crashing[view.path] = replace_parts(view.after.text, (one.crash for one in found))
            hollow[view.path] = replace_parts(view.after.text, (one.hollow for one in found))
        functions = list(changed_functions(view))
        if functions and view.after is not None:
            names += (function.name for function in functions)
            old = _functions(view.before.tree) if view.before and view.before.tree else ()
            are_old &= {function.name for function in functions} <= {function.name for function in old}
            crashing[view.path] = insert_first_statements(view.after.text, functions, CRASH)
            hollow[view.path] = insert_first_statements(view.after.text, functions, _HOLLOW)
    if len(names) > MAX_FUNCTIONS:
        return BrokenFiles()
    return BrokenFiles(names=tuple(names), crashing=crashing, hollow=hollow, are_old=are_old)


def changed_braced_functions(view: ChangedFile) -> Iterator[BracedFunction]:
    """The new and changed functions of a product's file in a language with braces."""
    if view.after is None or view.is_test or not is_product_path(view.path):
        return
    known = {one.text for one in find_braced_functions(view.before)} if view.before else set()
    yield from (one for one in find_braced_functions(view.after) if one.text not in known)


def _braced_names(source: SourceFile | None) -> set[str]:
    return {one.name for one in find_braced_functions(source)} if source else set()


def changed_functions(view: ChangedFile) -> Iterator[Function]:
    if not view.path.endswith(".py") or not is_product_path(view.path):
        return
    if view.after is None or view.after.tree is None:
        return
    known = (
        {ast.dump(function) for function in _functions(view.before.tree)}
        if view.before and view.before.tree
        else set()
    )
    for function in _functions(view.after.tree):
        body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
        if ast.dump(function) not in known and _can_be_broken(function, body):
            yield function


def _functions(tree: ast.Module) -> Iterator[Function]:
    """The functions of a module and the methods of its classes, without nested functions."""
    for node in tree.body:
        parts = node.body if isinstance(node, ast.ClassDef) else [node]
        yield from (part for part in parts if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef))


def _can_be_broken(function: Function, body: Sequence[ast.stmt]) -> bool:
    """True for a function that does something on lines of its own; not for special methods, which everything calls."""
    is_special = function.name.startswith("__") and function.name.endswith("__")
    does_nothing = all(
        isinstance(part, ast.Pass | ast.Raise | ast.Expr) and not _is_call(part) for part in body
    )
    return not (is_special or does_nothing or body[0].lineno == function.lineno)


def _is_call(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and not isinstance(part.value, ast.Constant)


def insert_first_statements(text: str, functions: Sequence[Function], statement: str) -> bytes:
    """A module's text with a statement before the body of some functions."""
    lines = text.splitlines(keepends=True)
    for function in sorted(functions, key=lambda one: one.lineno, reverse=True):
        has_docstring = ast.get_docstring(function, clean=False) is not None
        first = function.body[1] if has_docstring else function.body[0]
        above = min([first.lineno, *(one.lineno for one in getattr(first, "decorator_list", ()))])
        lines.insert(above - 1, f"{' ' * first.col_offset}{statement}\n")
    return "".join(lines).encode()


def judge_broken_runs(
    comparison: Comparison,
    names: Sequence[str],
    runs: Mapping[str, Sequence[TestOutcome]],
) -> tuple[Suspicion, ...]:
    """Finds new and changed tests that execute what changed, assert something, and still pass if it does
    nothing.

    `runs` has the results on the base, on the head, and on the head with the functions crashing and hollow.
    One test that notices is enough; so is one that fails on the base's code (`crossed`) if the base has the
    functions, because returning nothing may be right. Tests that say they only run something are excepted.
    """
    changeset = Changeset(comparison)
    known = {test.id: test.outcome for test in runs["base"]}
    passed = [test.id for test in runs["head"] if test.outcome == "passed"]
    crashed = {test.id: test.outcome for test in runs["crashing"]}
    # A panic ends the run of a whole package: tests that did not run after it may execute what crashed, too.
    executing = [
        name for name in passed if crashed.get(name) != "passed" and _is_touched(changeset, name, known)
    ]
    outcomes = {test.id: test.outcome for test in runs["hollow"]}
    outcomes |= {test.id: test.outcome for test in runs.get("crossed", ()) if test.outcome == "failed"}
    if not any(crashed.get(name) in BAD_OUTCOMES for name in executing) or any(
        outcomes.get(name) != "passed" for name in executing
    ):
        return ()
    if any(not _asserts(changeset, name) for name in executing):
        return ()
    path = next(filter(None, map(ChangedPaths(comparison.changes).path_of, executing)), "")
    text = f"{quote_names(executing)} pass although {quote_names(list(names))} did nothing"
    return (suspicion("new_tests_prove_nothing", path, 0, text, "\n".join(executing)),)


def find_indifferent_tests(
    comparison: Comparison, runs: Mapping[str, Sequence[TestOutcome]], broken: Sequence[str] = ("hollow",)
) -> tuple[str, ...]:
    """New and changed tests of Go and Rust that call a changed function and pass in every run with it broken.

    A test that expects a panic fails in the hollow run, so in both runs only a test passes whose failures are caught,
    happen where nothing waits for them, or that does not reach the call.
    """
    changeset = Changeset(comparison)
    called = _called_functions(changeset)
    known = {test.id: test.outcome for test in runs["base"]}
    passed = [{test.id for test in runs[name] if test.outcome == "passed"} for name in ("head", *broken)]
    return tuple(
        test_id
        for test_id in sorted(set.intersection(*passed))
        if _is_touched(changeset, test_id, known)
        and _asserts(changeset, test_id)
        and any(_calls_one_of(placed, called) for placed in _tests_of(changeset, test_id))
    )


def judge_indifferent_tests(
    comparison: Comparison, runs: Mapping[str, Sequence[TestOutcome]]
) -> tuple[Suspicion, ...]:
    """What it says of a test that it passes although a changed function that it calls panics, or does nothing."""
    found = find_indifferent_tests(comparison, runs, ("hollow", "crashing"))
    path_of = ChangedPaths(comparison.changes).path_of
    return tuple(
        suspicion(
            "assertion_swallowed",
            path_of(test_id) or "",
            0,
            f"`{test_id}` passes although changed code that it calls panics",
            test_id,
        )
        for test_id in found
    )


def find_replaced_calls(
    comparison: Comparison, runs: TestRuns, product: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, bytes]]:
    """Tests of Go and Rust that pass in the head's version alone, and the product with all that they call panicking.

    Both are empty if no such test called the product on the base.
    """
    changeset = Changeset(comparison)
    failing = {test.id for test in runs.crossed if test.outcome in BAD_OUTCOMES}
    names = sorted({test.id for test in runs.on_head if test.outcome == "passed"} & failing)
    sources = [SourceFile(path, text) for path, text in product.items()]
    known = {one.name for source in sources for one in find_braced_functions(source)}
    found: list[str] = []
    called: set[str] = set()
    for test_id in names:
        for before, after in changeset.test_pairs.kept:
            if not before.is_run or not is_test_id_of(after, test_id):
                continue
            sides = [_calls_of(before, before.view.before), _calls_of(after, after.view.after)]
            if sides[0] & known and sides[0] != sides[1]:
                found.append(test_id)
                called |= sides[0] | sides[1]
    broken = {
        source.path: replace_parts(source.text, edits)
        for source in sources
        if (edits := [one.crash for one in find_braced_functions(source) if one.name in called])
    }
    return tuple(found), broken if found else {}


def _calls_of(placed: PlacedTest, source: SourceFile | None) -> set[str]:
    """What a test calls that its file does not define, by itself or in a function of its file."""
    helpers = {one.name: one for one in _helpers_in(source)} if source is not None else {}
    calls = set(placed.case.calls)
    inner = (one.calls for name, one in helpers.items() if name in calls and name != placed.case.short_name)
    own = set(helpers) if source is not None and source.is_test else set()
    return calls.union(*inner) - own


def judge_replaced_calls(
    comparison: Comparison, tests: Sequence[str], broken: Sequence[TestOutcome]
) -> tuple[Suspicion, ...]:
    """What it says of such tests that they pass although all of the product that they call panics."""
    path_of = ChangedPaths(comparison.changes).path_of
    passed = {test.id for test in broken if test.outcome == "passed"}
    return tuple(
        suspicion(
            "test_mocks_its_subject",
            path_of(test_id) or "",
            0,
            f"`{test_id}` failed with the base's text, and passes without the code that it called there",
            test_id,
        )
        for test_id in tests
        if test_id in passed
    )


class _CalledFunction(NamedTuple):
    name: str
    owner: str
    """The type that a method belongs to; empty for a function, and for a method by whose name no other is called."""


def _called_functions(changeset: Changeset) -> tuple[_CalledFunction, ...]:
    return tuple(
        _CalledFunction(one.name, _owner_of(view.after.code, one.node) if one.name in _COMMON_METHODS else "")
        for view in changeset.views
        if view.after is not None and view.after.language in ("go", "rust")
        for one in changed_braced_functions(view)
    )


def _owner_of(code: BracketedCode, function: Node) -> str:
    """The type of a method; a name that nothing has for a function."""
    receiver = function.child("receiver")
    if receiver is None:
        above = next((one for one, _ in function.ancestors() if one.kind == "impl_item"), None)
        receiver = above.child("type") if above is not None else None
    names = [code.text(at) for at in range(receiver.start, receiver.stop)] if receiver is not None else []
    words = [name for name in names if name[:1].isalpha()]
    return words[-1 if function.child("receiver") else 0] if words else ""


def _calls_one_of(placed: PlacedTest, functions: Iterable[_CalledFunction]) -> bool:
    calls, words = set(placed.case.calls), set(placed.case.words)
    for helper in _helpers_of(placed):
        calls |= helper.calls
        words |= helper.words
    # A double in the tests' file has its methods by the names of the product's.
    source = placed.view.after
    own = {one.name for one in _helpers_in(source)} if source is not None and source.is_test else set()
    return any(one.name in calls - own and (not one.owner or one.owner in words) for one in functions)


class _Helper(NamedTuple):
    """A function beside tests that a test calls."""

    name: str
    text: str
    calls: frozenset[str]
    words: frozenset[str]


def _helpers_of(placed: PlacedTest) -> Iterator[_Helper]:
    for one in _helpers_in(placed.view.after) if placed.view.after is not None else ():
        if one.name in placed.case.calls and one.name != placed.case.short_name:
            yield one


def _helpers_in(source: SourceFile) -> Iterator[_Helper]:
    code = source.code
    kinds = _KINDS.get(source.language, ()) if source.language in ("go", "rust") else ()
    for node in code.nodes_of(*kinds):
        yield _Helper(
            code.node_text(node.child("name")),
            code.node_text(node),
            code.calls(node.start, node.stop),
            code.words(node.start, node.stop),
        )


def _is_touched(changeset: Changeset, test_id: str, known: Mapping[str, str]) -> bool:
    """True for a test that is new, has another text, or calls a function beside tests that has another text."""
    if is_new_or_changed(changeset, test_id, known) or _reads_changed_data(changeset, test_id):
        return True
    for placed in _tests_of(changeset, test_id):
        before = placed.view.before
        had = {one.text for one in _helpers_in(before)} if before is not None else set()
        if any(one.text not in had for one in _helpers_of(placed)):
            return True
    return False


def _reads_changed_data(changeset: Changeset, test_id: str) -> bool:
    """True for a test of Go or Rust that names a changed file of test data."""
    names = {
        view.path.rpartition("/")[2]
        for view in changeset.views
        if is_test_path(view.path) and not language_of(view.path)
    }
    return bool(names) and any(
        any(name in value for value in placed.case.literals for name in names)
        for placed in _tests_of(changeset, test_id)
    )


def _tests_of(changeset: Changeset, test_id: str) -> list[PlacedTest]:
    """The parsed tests with an id's name."""
    pairs = changeset.test_pairs
    return [
        one
        for one in (*pairs.new, *(after for _, after in pairs.kept))
        if one.is_run and is_test_id_of(one, test_id)
    ]


def notices_broken_code(comparison: Comparison, runs: Mapping[str, Sequence[TestOutcome]]) -> bool:
    """True if a new or changed test that passes on the head fails when the changed functions do nothing."""
    changeset = Changeset(comparison)
    known = {test.id: test.outcome for test in runs["base"]}
    hollow = {test.id: test.outcome for test in runs["hollow"]}
    return any(
        test.outcome == "passed"
        and hollow.get(test.id) in BAD_OUTCOMES
        and (is_new_or_changed(changeset, test.id, known) or _reads_changed_data(changeset, test.id))
        for test in runs["head"]
    )


def _asserts(changeset: Changeset, test_id: str) -> bool:
    """True for a parsed test that asserts something and is no mere smoke test."""
    # A subtest is judged by the test that has it.
    names = [test_id, *(test_id.rpartition("/")[0] for _ in range("/" in test_id.partition("::")[2]))]
    placed = next((found for name in names if (found := _tests_of(changeset, name))), [])
    return bool(placed) and all(_proves(one) and not one.case.is_smoke for one in placed)


def _proves(placed: PlacedTest) -> bool:
    """True if a test asserts something, or a function of its file that it calls does."""
    return bool(placed.case.proofs) or any(
        word.startswith("assert") for helper in _helpers_of(placed) for word in helper.words
    )
