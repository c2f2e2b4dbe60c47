"""Hooks, fixtures and decorators that alter test results, and code that forges the reports that gates read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.text.words import word_list, word_set
from remand.integrity.changeset import Changeset
from remand.integrity.readers.python_tree import (
    Function,
    call_argument,
    called_name,
    constant_texts,
    decorator_names,
    fingerprint,
    is_false,
    last_name,
    node_source,
    node_words,
    resolve_name,
    walk_tree,
)
from remand.integrity.readers.source import MAX_LITERAL, SourceFile
from remand.integrity.readers.tokens import BracketedCode
from remand.integrity.suspicions import Suspicion, shorten, suspicion

_RESULTS = word_set("outcome longrepr exitstatus excinfo testsfailed passed failed wasxfail rep_call")
_RESULT_HOOKS = word_list("""
makereport sessionfinish runtest pyfunc_call exception logreport teststatus unconfigure
""")
_REPLACES = word_set("pytest_pyfunc_call pytest_runtest_protocol pytest_runtestloop pytest_runtest_call")
_OPTIONS = word_set("keyword markexpr deselect ignore ignore_glob args collectonly lf cov_fail_under no_cov")
"""Options that leave out tests, or lower what a run requires."""
_APPENDING_METHODS = frozenset(("append", "extend", "insert"))
_ASSERTS = re.compile(
    r"fail|assert(?:Not)?(?:Equal|True|False|Is|IsNot|IsNone|IsInstance|In|Raises|RaisesRegex|Regex|Greater\w*|Less\w*|Almost\w*"
    r"|Count\w*|List\w*|Dict\w*|Set\w*|Tuple\w*|Sequence\w*|MultiLine\w*)"
)
_BUILT_IN = word_set("toBe toEqual toStrictEqual toThrow toContain toMatch toHaveLength toBeTruthy")
_RUNNERS = frozenset(("it", "test", "describe", "expect", "assert", "fail"))


def find_altered_results(changeset: Changeset) -> Iterator[Suspicion]:
    """New result hooks, deselection, retries, focused fixtures and replaced matchers."""
    own = changeset.own_packages
    for view in changeset.views:
        if view.after is None:
            continue
        had = {content for _, _, _, content in _alterations(view.before, own)} if view.before else set()
        for code, line, text, content in _alterations(view.after, own):
            if content not in had:
                yield suspicion(code, view.path, line, text, content)


Alterations = Iterator[tuple[str, int, str, str]]
"""Code, line, what was found, and its content."""


def _alterations(source: SourceFile, own: frozenset[str]) -> Alterations:
    if source.tree is not None:
        for _, node in source.functions:
            if node.name.startswith("pytest_"):
                reason = _hook_reason(node)
                if reason:
                    yield (
                        "harness_tampered",
                        node.lineno,
                        f"`{node.name}` {reason}",
                        f"{node.name} {fingerprint(_telling_parts(node))}",
                    )
            elif _is_autouse(node) and source.is_test:
                yield from _autouse_alterations(node, source, own)
        if source.is_test:
            yield from _ignored_file_alterations(source.tree)
            yield from _load_tests_alterations(source)
            yield from _assertion_alterations(source)
            yield from _retry_alterations(source)
    elif source.language == "script" and (source.is_test or "setup" in source.path.lower()):
        yield from _script_alterations(source.code)


def _hook_reason(node: Function) -> str:
    """Why a hook of pytest is suspicious; empty if it is not."""
    if any(word in node.name for word in _RESULT_HOOKS):
        changed = _changes_result(node)
        if changed:
            return f"sets `{changed}`"
        if node.name in _REPLACES and _returns_truth(node):
            return "runs tests in the runner's place"
    if node.name == "pytest_collection_modifyitems":
        return _drops_items(node)
    if node.name == "pytest_ignore_collect" and _returns_truth(node):
        return "keeps files from being collected"
    if node.name == "pytest_configure" or node.name.startswith(("pytest_cmdline", "pytest_load_initial")):
        return _changes_options(node)
    exits = [
        called_name(part) for part in walk_tree(node) if called_name(part) in ("os._exit", "pytest.exit")
    ]
    return f"calls `{exits[0]}`" if exits else ""


def _telling_parts(node: Function) -> list[ast.AST]:
    """What a hook does, but for the markers that it adds to tests and that skip none."""
    if _marks_skip(node):
        return walk_tree(node)
    marking = {
        id(inner)
        for part in walk_tree(node)
        if isinstance(part, ast.Expr) and called_name(part.value).endswith(".add_marker")
        for inner in walk_tree(part)
    }
    return [part for part in walk_tree(node) if id(part) not in marking]


def _changes_options(node: Function) -> str:
    """Why setting options that select tests is suspicious; empty if it is not."""
    targets = (target for part in walk_tree(node) if isinstance(part, ast.Assign) for target in part.targets)
    for target in targets:
        inner = target.value if isinstance(target, ast.Subscript) else target
        if last_name(inner) in _OPTIONS and (
            isinstance(target, ast.Subscript) or isinstance(inner, ast.Attribute)
        ):
            return f"sets `{node_source(target)}`"
    calls = (
        part.func
        for part in walk_tree(node)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
    )
    grown = next(
        (
            func
            for func in calls
            if func.attr in _APPENDING_METHODS and last_name(func.value) in ("args", "deselect")
        ),
        None,
    )
    return f"calls `{node_source(grown)}`" if grown is not None else ""


def _changes_result(node: Function) -> str:
    for part in walk_tree(node):
        targets = (
            part.targets
            if isinstance(part, ast.Assign)
            else [part.target]
            if isinstance(part, ast.AugAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr in _RESULTS and target.attr != "rep_call":
                return node_source(target)
        if isinstance(part, ast.Call) and last_name(part.func) == "force_result":
            return "force_result"
        if isinstance(part, ast.Call) and called_name(part) == "setattr" and len(part.args) > 1:
            name = part.args[1]
            if isinstance(name, ast.Constant) and name.value in _RESULTS - {"rep_call"}:
                return str(name.value)
    return ""


def _returns_truth(node: Function) -> bool:
    returned = (part.value for part in walk_tree(node) if isinstance(part, ast.Return))
    return any(isinstance(value, ast.Constant) and value.value is True for value in returned)


def _drops_items(node: Function) -> str:
    """Why removing or marking collected tests is suspicious; empty if the user's own option does it."""
    if any(_removes_items(part, node) for part in walk_tree(node)):
        return "takes tests out of the collection"
    is_marking = any(
        isinstance(part, ast.Call) and last_name(part.func) == "add_marker" for part in walk_tree(node)
    )
    return "skips tests" if is_marking and _marks_skip(node) and not _asks_option(node) else ""


def _removes_items(part: ast.AST, node: Function) -> bool:
    if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Subscript):
        return _is_items(part.targets[0].value, node) and not (
            isinstance(part.value, ast.Call) and last_name(part.value.func) in ("sorted", "list", "reversed")
        )
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
        return _is_items(part.func.value, node) and part.func.attr in ("clear", "remove", "pop")
    return isinstance(part, ast.Delete) and any(
        isinstance(target, ast.Subscript) and _is_items(target.value, node) for target in part.targets
    )


def _is_items(target: ast.expr, node: Function) -> bool:
    return isinstance(target, ast.Name) and target.id == "items" and bool(node.args.args)


def _marks_skip(node: Function) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr in ("skip", "xfail", "skipif")
        for part in walk_tree(node)
    )


def _asks_option(node: Function) -> bool:
    return any(last_name(part) in ("getoption", "getvalue") for part in walk_tree(node))


def _is_autouse(node: Function) -> bool:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and last_name(decorator.func) == "fixture":
            flag = call_argument(decorator, "autouse")
            if flag is not None and not is_false(flag):
                return True
    return False


def _autouse_alterations(node: Function, source: SourceFile, own: frozenset[str]) -> Alterations:
    """Automatic fixtures that make the product answer with constants, or with what they write."""
    for part in walk_tree(node):
        if not isinstance(part, ast.Call) or last_name(part.func) not in ("setattr", "patch", "object"):
            continue
        fake = next((arg for arg in part.args if isinstance(arg, ast.Lambda)), None)
        value = fake.body if fake is not None else call_argument(part, "return_value")
        is_answer = isinstance(value, ast.Constant) and value.value is not None and value.value is not False
        is_written = (
            value is not None and bool(constant_texts(walk_tree(value))) and _is_own(part, source, own)
        )
        if (is_answer or is_written) and not _is_outside(part):
            yield (
                "harness_tampered",
                part.lineno,
                f"every test gets `{shorten(node_source(part))}`",
                fingerprint(walk_tree(part)),
            )


def _is_own(call: ast.Call, source: SourceFile, own: frozenset[str]) -> bool:
    """True if something of the project itself is replaced."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant):
        return str(first.value).partition(".")[0] in own
    return resolve_name(first, source.imports).partition(".")[0] in own


def _is_outside(call: ast.Call) -> bool:
    """True for what tests usually must not touch: network, clock, files, environment."""
    words = " ".join(sorted(node_words(walk_tree(call)))).lower()
    return bool(
        re.search(
            r"\b(time|sleep|datetime|now|requests|httpx|socket|urllib|environ|getenv|uuid|random|home|platform|boto|smtp|send)",
            words,
        )
    )


def _ignored_file_alterations(tree: ast.Module) -> Alterations:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if last_name(target) in ("collect_ignore", "collect_ignore_glob") and isinstance(
            node, ast.Assign | ast.AugAssign | ast.AnnAssign
        ):
            yield (
                "tests_left_out",
                node.lineno,
                f"`{shorten(node_source(node))}`",
                fingerprint(walk_tree(node)),
            )
        if isinstance(node, ast.If):
            yield from _ignored_file_alterations(ast.Module(body=node.body, type_ignores=[]))


def _load_tests_alterations(source: SourceFile) -> Alterations:
    """A `load_tests` that leaves out loaded tests."""
    for name, node in source.functions:
        found = node.args.args[1].arg if len(node.args.args) > 1 else ""
        if name == "load_tests" and found not in node_words(
            walk_tree(ast.Module(body=node.body, type_ignores=[]))
        ):
            yield (
                "tests_left_out",
                node.lineno,
                "`load_tests` picks tests of its own",
                fingerprint(walk_tree(node)),
            )


def _assertion_alterations(source: SourceFile) -> Alterations:
    """Assertions of unittest that a test class overrides without calling the original."""
    for owner in source.nodes_of(ast.ClassDef):
        if not any("TestCase" in last_name(base) for base in owner.bases):
            continue
        for item in owner.body:
            is_own = isinstance(item, Function) and _ASSERTS.fullmatch(item.name) is not None
            if is_own and isinstance(item, Function) and "super" not in node_words(walk_tree(item)):
                message = f"`{owner.name}.{item.name}` takes the place of the runner's own"
                yield "harness_tampered", item.lineno, message, fingerprint(walk_tree(item))


def _retry_alterations(source: SourceFile) -> Alterations:
    for _, node in source.functions if "flaky" in source.text else ():
        for item in node.decorator_list:
            if last_name(item.func if isinstance(item, ast.Call) else item) == "flaky":
                yield "test_retried", item.lineno, f"`{shorten(node_source(item))}`", f"{node.name} flaky"


def _script_alterations(code: BracketedCode) -> Alterations:
    for place, token in enumerate(code.tokens):
        name = token.text
        if name in ("retryTimes", "retries") and code.text(place + 1) == "(" and code.text(place - 1) == ".":
            yield (
                "test_retried",
                token.line,
                f"`{code.text_between(place - 2, code.closing_place(place + 1) + 1)}`",
                name,
            )
        elif name == "extend" and code.text(place - 2) == "expect" and code.text(place + 1) == "(":
            replaced = sorted(code.words(place, code.closing_place(place + 1)) & _BUILT_IN)
            if replaced:
                yield (
                    "harness_tampered",
                    token.line,
                    f"`expect.extend` replaces `{replaced[0]}`",
                    f"extend {replaced}",
                )
        elif (
            name in ("global", "globalThis", "window")
            and code.text(place + 2) in _RUNNERS
            and code.text(place + 3) == "="
        ):
            yield (
                "harness_tampered",
                token.line,
                f"`{code.text_between(place, place + 8)}`",
                code.text_between(place, place + 8),
            )


def find_hollow_decorators(changeset: Changeset) -> Iterator[Suspicion]:
    """Tests under a decorator that neither calls nor returns the decorated function."""
    for view in changeset.views:
        if view.after is None or view.after.tree is None or not view.is_test:
            continue
        names = _hollow_decorators(view.after.tree)
        had = _hollow_decorators(view.before.tree) if view.before and view.before.tree else set()
        for name, node in view.after.functions:
            for decorator in sorted((names - had).intersection(decorator_names(node))):
                found = f"`@{decorator}` never runs `{name}`"
                yield suspicion("harness_tampered", view.path, node.lineno, found)


def _hollow_decorators(tree: ast.Module) -> set[str]:
    takers = (node for node in tree.body if isinstance(node, Function) and len(node.args.args) == 1)
    return {node.name for node in takers if not _is_used(node, node.args.args[0].arg)}


def _is_used(node: Function, given: str) -> bool:
    """True if a name is used for anything but `functools.wraps`."""
    wrapped = {
        id(argument)
        for part in walk_tree(node)
        if isinstance(part, ast.Call) and last_name(part.func) == "wraps"
        for argument in part.args
    }
    names = (part for part in walk_tree(node) if isinstance(part, ast.Name) and part.id == given)
    return any(id(name) not in wrapped for name in names)


_ASKS_REPORT = re.compile(
    r"junit-?_?xml|xmlpath|--junit|--cov-report|--report\b|JEST_JUNIT|lcov\.info|coverage\.xml|--outputFile"
)
_IS_REPORT = re.compile(
    r"<testsuites?\b|<testcase\b|<coverage\b[^>]*line-rate|<!DOCTYPE coverage|^TAP version|SF:.*\nDA:"
)


def find_forged_reports(changeset: Changeset) -> Iterator[Suspicion]:
    """Reports written by tests, or found through the runner's arguments."""
    for view in changeset.code_views:
        if view.after is not None and view.after.language not in ("shell", "make"):
            for line, text in view.find_added(_forged_reports):
                yield suspicion("report_forged", view.path, line, f"`{shorten(text)}`")


def _forged_reports(source: SourceFile) -> Iterator[tuple[int, str]]:
    if source.tree is not None:
        yield from _forged_in_python(source)
        return
    if source.is_test and re.search(r"writeFile|createWriteStream|appendFile", source.text):
        for token in source.tokens:
            if token.kind == "string" and (
                _IS_REPORT.search(token.text[:MAX_LITERAL]) or _ASKS_REPORT.search(token.text[:MAX_LITERAL])
            ):
                yield token.line, token.text


def _forged_in_python(source: SourceFile) -> Iterator[tuple[int, str]]:
    reads_arguments = "sys.argv" in source.text or ".option." in source.text or "getoption" in source.text
    writes = re.search(r"\bopen\(|write_text|write_bytes|\.write\(", source.text) is not None
    if not writes:
        return
    for attribute in source.nodes_of(ast.Attribute):
        if attribute.attr == "xmlpath":
            yield attribute.lineno, node_source(attribute)
    for node in source.nodes_of(ast.Constant):
        if isinstance(node.value, str) and (
            (_ASKS_REPORT.search(node.value[:MAX_LITERAL]) and reads_arguments)
            or (_IS_REPORT.search(node.value[:MAX_LITERAL]) and source.is_test)
        ):
            yield node.lineno, node.value
