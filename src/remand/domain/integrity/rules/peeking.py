"""Product code that finds out whether, or by whom, it is tested."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_product_path
from remand.domain.integrity.reading.callers import FRAMES, asks_its_caller
from remand.domain.integrity.reading.python_tree import (
    called,
    dotted,
    resolved,
    shown,
    words,
)
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.reading.surroundings import recognises_gates
from remand.domain.integrity.scene import Scene

MAX_LINE = 2_000
_TESTED = re.compile(
    r"PYTEST_CURRENT_TEST|PYTEST_XDIST_WORKER|JEST_WORKER_ID|VITEST(?:_\w+)?|PYTEST_VERSION|_called_from_test|MOCHA_\w+|KARMA_\w+"
    r"|TOX_ENV_NAME|TOX_ENV_DIR|TOX_WORK_DIR|NOX_CURRENT_SESSION|COVERAGE_RUN|COV_CORE_SOURCE|UNITTEST_\w+"
)
_PIPELINE = re.compile(
    r"CI|GITHUB_ACTIONS|GITHUB_RUN_ID|GITLAB_CI|CONTINUOUS_INTEGRATION|BUILD_NUMBER|REMAND\w*|JENKINS_URL|TRAVIS|CIRCLECI"
    r"|BUILDKITE|TEAMCITY_VERSION|APPVEYOR|TF_BUILD"
)
_RUNNERS = frozenset(("pytest", "unittest", "_pytest", "nose", "py.test"))
_EXPECTED = re.compile(r"expected|golden|snapshot|fixtures?|answers?")
_ACCOUNT = re.compile(
    r"[\w.+-]*test[\w.+-]*@[\w.-]+|[\w.+-]+@example\.\w+|test[_-]?(user|account|customer|token|key)\w*",
    re.IGNORECASE,
)
_QUIET = re.compile(
    r"listen|morgan|log|console|color|colour|progress|spinner|tty|telemetry|analytics|interactive|banner|sentry",
    re.IGNORECASE,
)
_SCRIPT_TESTED = re.compile(
    r"process\.env(?:\.|\[['\"])(?:JEST_WORKER_ID|VITEST\w*|MOCHA\w*)|import\.meta\.env\.VITEST|typeof (?:jest|vi|it|describe|expect)\b"
    r"|globalThis\.(?:jest|vi|describe|it)\b|global\.(?:jest|it|describe)\b|process\.argv\.\w+\([^)]*(?:jest|mocha|vitest)"
)
_SCRIPT_NODE = re.compile(
    r"process\.env(?:\.NODE_ENV|\[['\"]NODE_ENV['\"]\])\s*(===|==|!==|!=)\s*['\"]test['\"]|['\"]test['\"]\s*(===|==|!==|!=)\s*process\.env\.NODE_ENV"
)
_SCRIPT_PIPELINE = re.compile(
    r"(?:if\s*\(|[=(:]\s*|return\s+)!{0,2}process\.env\.(?:CI|GITHUB_ACTIONS|GITLAB_CI|CIRCLECI|TRAVIS)\b"
)
_SCRIPT_SURROUNDINGS = re.compile(
    r"process\.env(?:\.|\[['\"])PYTHON(?:DONTWRITEBYTECODE|HASHSEED)|process\.gete?[ug]id\(\)\s*[!=]==?\s*65534"
    r"|(?:__dirname|__filename|process\.cwd\(\)|import\.meta\.(?:url|dirname|filename))\.\w+\(['\"`][^'\"`]*checkouts"
    r"|new Error\([^)]*\)\.stack!?\.(?:includes|indexOf)\("
)
"""By which scripts know where gates run, or who calls them."""
_OTHERS = {
    "rust": re.compile(
        r"cfg!\s*\(\s*(?:not\s*\(\s*)?test\b|#\[cfg\(not\(test\)\)\]|env::var\(\s*\"(?:CI|NEXTEST\w*)\""
    ),
    "go": re.compile(
        r"testing\.Testing\(\)|flag\.Lookup\(\"test\.|strings\.(?:HasSuffix|Contains)\(os\.Args\[0\],\s*\"[./]*test"
    ),
    "java": re.compile(
        r"org\.junit|getStackTrace\(\).*(?:junit|test)|Class\.forName\(\"org\.junit", re.IGNORECASE
    ),
    "csharp": re.compile(r"xunit|nunit|testhost", re.IGNORECASE),
}


def detected(scene: Scene) -> Iterator[Suspicion]:
    """Questions for the test runner in product code that the base does not ask."""
    for view in scene.views:
        if view.after is None or not is_product_path(view.path):
            continue
        had = {text for _, _, text in _found(view.before)} if view.before else set()
        for code, line, text in _found(view.after):
            if text not in had:
                yield suspicion(code, view.path, line, f"`{short(text)}`")


def _found(source: Source) -> Iterator[tuple[str, int, str]]:
    if source.tree is not None:
        yield from _python(source)
    elif source.language == "script":
        yield from _script(source)
    elif source.language in _OTHERS:
        for number, line in enumerate(source.lines, 1):
            if _OTHERS[source.language].search(line) and not line.lstrip().startswith("//"):
                yield "gate_detected", number, line.strip()


def _python(source: Source) -> Iterator[tuple[str, int, str]]:
    for text in source.every(ast.Constant):
        if isinstance(text.value, str) and _TESTED.fullmatch(text.value):
            yield "gate_detected", text.lineno, text.value
    if "sys.modules" in source.text or "sys.argv" in source.text:
        asking = (
            node for node in (*source.every(ast.Compare), *source.every(ast.Call)) if _asks_runner(node)
        )
        yield from (("gate_detected", node.lineno, shown(node)) for node in asking)
    for branch in source.every(ast.If):
        if _knows_account(branch.test):
            yield "answer_hardcoded", branch.lineno, shown(branch.test)
    for made in source.every(ast.ImportFrom):
        if made.module in ("unittest.mock", "mock"):
            yield "gate_detected", made.lineno, shown(made)
    yield from _functions(source)
    yield from (("stack_inspected", line, text) for line, text in asks_its_caller(source))
    yield from (("gate_detected", line, text) for line, text in recognises_gates(source))


def _functions(source: Source) -> Iterator[tuple[str, int, str]]:
    frames = {id(call) for call in source.every(ast.Call) if resolved(call.func, source.imports) in FRAMES}
    for _, function in source.functions:
        parts = list(ast.walk(function))
        if _reads_tests(parts):
            yield "answer_hardcoded", function.lineno, f"{function.name} reads what the tests expect"
        asked = [part for part in parts if isinstance(part, ast.Call) and id(part) in frames]
        if asked and _looks_for_test(parts):
            yield "stack_inspected", asked[0].lineno, shown(asked[0])
        for part in parts:
            if (
                isinstance(part, ast.If | ast.IfExp)
                and not _QUIET.search(function.name)
                and _asks_pipeline(part)
            ):
                yield "gate_detected", part.lineno, shown(part.test)


def _knows_account(test: ast.expr) -> bool:
    """True when a condition names a user or address that only tests have."""
    compared = (
        part for part in ast.walk(test) if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq)
    )
    told = (
        side.value
        for part in compared
        for side in (part.left, *part.comparators)
        if isinstance(side, ast.Constant)
    )
    return any(isinstance(text, str) and _ACCOUNT.fullmatch(text) is not None for text in told)


def _reads_tests(nodes: list[ast.AST]) -> bool:
    """True when a function names the tests' folder and the expectations in it."""
    told = {part.value for part in nodes if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    parts = {part for text in told if len(text) < 200 for part in re.split(r"[/\\\\]", text)}
    return bool(parts & {"tests", "test", "__tests__"}) and any(_EXPECTED.search(text) for text in told)


def _asks_runner(node: ast.expr) -> bool:
    """`"pytest" in sys.modules`, and the like for the arguments of the process."""
    parts = list(ast.walk(node))
    told = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return bool(told & _RUNNERS) and any(dotted(part) in ("sys.modules", "sys.argv") for part in parts)


def _asks_pipeline(node: ast.If | ast.IfExp) -> bool:
    """`if os.environ.get("CI"): return 42`"""
    told = (part.value for part in ast.walk(node.test) if isinstance(part, ast.Constant))
    if not any(isinstance(text, str) and _PIPELINE.fullmatch(text) for text in told):
        return False
    asks = "environ" in words(ast.walk(node.test)) or any(
        called(part).endswith("getenv") for part in ast.walk(node.test)
    )
    answers = isinstance(node, ast.IfExp) or any(
        isinstance(part, ast.Return | ast.Assign | ast.AugAssign) for part in node.body
    )
    return asks and answers and not _QUIET.search(" ".join(words(ast.walk(node))))


def _looks_for_test(parts: list[ast.AST]) -> bool:
    """True when a function that looks at frames reads their variables, or asks for tests."""
    if any(isinstance(part, ast.Attribute) and part.attr in ("f_locals", "co_consts") for part in parts):
        return True
    texts = (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return any(re.search(r"(?:^|\W|_)(?:py)?test|conftest|assert", text) for text in texts) or any(
        "f_back.f_back" in dotted(part) for part in parts
    )


def _script(source: Source) -> Iterator[tuple[str, int, str]]:
    lines = (line[:MAX_LINE].replace("?.", ".") for line in source.lines)
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("//", "*")):
            continue
        match = _SCRIPT_TESTED.search(line) or _SCRIPT_SURROUNDINGS.search(line)
        if match and "import.meta.vitest" not in line:
            yield "gate_detected", number, match[0]
        match = _SCRIPT_NODE.search(line) or _SCRIPT_PIPELINE.search(line)
        if match and not _QUIET.search("\n".join(source.lines[number - 1 : number + 3])):
            yield "gate_detected", number, match[0]
