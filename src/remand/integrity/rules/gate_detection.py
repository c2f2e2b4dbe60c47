"""Product code that detects whether it is being tested, who calls it, or whether it runs in a gate."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.text.words import word_set
from remand.integrity.changeset import Changeset
from remand.integrity.paths import is_product_path
from remand.integrity.readers.python_decisions import (
    DecisionScope,
    NodePredicate,
    branch_conditions,
    contains_source,
    decision_scopes,
    derived_names,
    is_from_source,
    is_question,
    returned_expressions,
)
from remand.integrity.readers.python_tree import (
    called_name,
    dotted_name,
    last_name,
    node_source,
    node_words,
    resolve_name,
    string_constants,
    walk_tree,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import STRING
from remand.integrity.suspicions import Suspicion, shorten, suspicion

FRAMES = word_set("""
inspect.stack inspect.currentframe sys._getframe traceback.extract_stack traceback.format_stack
inspect.getouterframes traceback.walk_stack sys._getframemodulename
""")
"""Calls that reveal the caller."""
_FRAME_HINT = re.compile(r"stack|currentframe|_getframe|getouterframes")
_FUNCTION = word_set("co_name co_qualname function name code_context co_firstlineno f_lineno lineno")
"""Attributes of a frame that reveal its function."""
_MODULE = frozenset(("co_filename", "filename", "f_globals"))
"""Attributes that reveal the module: honest code compares them with a whole name."""
_WHOLE_CALLS = frozenset(("traceback.format_stack", "sys._getframemodulename"))
"""Calls whose results reveal the module directly."""
_REPORTING_NAMES = re.compile(
    r"logg|warn|deprecat|caller|stack_?level|traceb|debug|profil|(?:^|[._])(?:log|trace|frames?)(?:[._]|$)",
    re.IGNORECASE,
)
"""Names of functions that find a caller in order to report it."""
_SELF = frozenset(("__file__", "__name__"))
_CONSTRUCTORS = re.compile(r"'__(?:init|new|post_init|setattr|init_subclass)__'")
"""Callers that create an object: classes check for them to be immutable afterwards."""


def caller_questions(source: SourceFile) -> Iterator[tuple[int, str]]:
    """The lines and conditions by which code behaves differently for different callers."""
    if not _FRAME_HINT.search(source.text):
        return
    frames = {
        id(call): resolve_name(call.func, source.imports)
        for call in source.nodes_of(ast.Call)
        if resolve_name(call.func, source.imports) in FRAMES
    }
    if not frames:
        return
    places = list(decision_scopes(source))
    for says in (_CallerQuestions(frames, _FUNCTION), _CallerQuestions(frames, _MODULE)):
        says.find_helpers(places)
        for scope in places:
            if not _REPORTING_NAMES.search(scope.name or source.path.rpartition("/")[2].partition(".")[0]):
                yield from says.questions(scope)


class _CallerQuestions:
    """What reveals the caller: expressions, names assigned from them, and functions that return them."""

    def __init__(self, frames: dict[int, str], attributes: frozenset[str]) -> None:
        self._frames = frames
        self._attributes = attributes
        self._helpers: frozenset[str] = frozenset()

    def find_helpers(self, places: list[DecisionScope]) -> None:
        """Finds the functions that return who calls."""
        self._helpers = frozenset(
            scope.name.rpartition(".")[2] for scope in places if self._returns_caller(scope)
        )

    def _returns_caller(self, scope: DecisionScope) -> bool:
        is_caller, names = self._caller_predicate(scope)
        values = (node.value for node in scope.nodes if isinstance(node, ast.Return) and node.value)
        return any(is_from_source(value, is_caller, names) for value in values)

    def questions(self, scope: DecisionScope) -> Iterator[tuple[int, str]]:
        """The conditions of one scope about its caller."""
        is_caller, names = self._caller_predicate(scope)
        for node in scope.nodes:
            if (
                isinstance(node, ast.expr)
                and self._is_asked(node)
                and contains_source(node, is_caller, names)
            ):
                yield node.lineno, node_source(node)

    def _is_asked(self, node: ast.expr) -> bool:
        return (
            is_question(node) and not _is_usual(node) and (self._attributes is _FUNCTION or _is_partial(node))
        )

    def _caller_predicate(self, scope: DecisionScope) -> tuple[NodePredicate, frozenset[str]]:
        frames = derived_names(scope.nodes, self._is_frame)

        def is_caller(node: ast.AST) -> bool:
            return self._names_caller(node, frames)

        return is_caller, derived_names(scope.nodes, is_caller)

    def _is_frame(self, node: ast.AST) -> bool:
        return id(node) in self._frames

    def _names_caller(self, node: ast.AST, names: frozenset[str]) -> bool:
        """True for `frame.f_code.co_name`, `stack()[1][3]`, `len(stack())`, and a function that returns one of them."""
        if isinstance(node, ast.Attribute):
            return node.attr in self._attributes and is_from_source(node.value, self._is_frame, names)
        if isinstance(node, ast.Subscript):
            return isinstance(node.value, ast.Subscript) and is_from_source(node.value, self._is_frame, names)
        if not isinstance(node, ast.Call):
            return False
        name = called_name(node)
        counts = name == "len" and any(is_from_source(part, self._is_frame, names) for part in node.args)
        is_whole = self._attributes is _MODULE and self._frames.get(id(node)) in _WHOLE_CALLS
        return counts or is_whole or (bool(name) and name.rpartition(".")[2] in self._helpers)


def _is_usual(question: ast.expr) -> bool:
    """True if a frame is compared with the module itself, or the condition is whether an object is being created."""
    if any(isinstance(part, ast.Name) and part.id in _SELF for part in walk_tree(question)):
        return True
    texts = [word for word in node_words(walk_tree(question)) if word.startswith("'")]
    return bool(texts) and all(_CONSTRUCTORS.fullmatch(text) for text in texts)


def _is_partial(question: ast.expr) -> bool:
    """True for a comparison with a part of a literal text."""
    if isinstance(question, ast.Compare):
        return isinstance(question.ops[0], ast.In | ast.NotIn) and _is_text(question.left)
    return isinstance(question, ast.Call) and any(
        _is_text(part) for argument in question.args for part in walk_tree(argument)
    )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


_VARIABLES = frozenset(("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"))
"""Variables that are set for every job."""
_FLAGS = word_set("sys.dont_write_bytecode sys.flags.dont_write_bytecode sys.flags.hash_randomization")
_COMPILES = re.compile(r"py_compile|compileall|\.pyc\b|__pycache__|cache_from_source")
_IDS = re.compile(r"(?:^|\.)(?:gete?[ug]id|getres[ug]id|getuser|getlogin|getpwuid)$")
_GATE_USERS = frozenset((65534, "nobody"))
"""The users as which jobs run."""
_PLACES = re.compile(r"(?:^|\.)(?:getcwdb?|cwd)$")
_CHECKOUT = "/remand/checkouts/"
MIN_PART = 4
"""The least length of a path's part by which a checkout can be recognised."""
_SOCKET_FOLDER = "/run/remand"
_FILE_ASKS = word_set("exists lexists isfile isdir access is_file is_dir is_socket stat")
_SETS = word_set("execv execve execvp execvpe setdefault warn warning run check_call")


def environment_questions(source: SourceFile) -> Iterator[tuple[int, str]]:
    """The lines and conditions by which code behaves differently where gates run."""
    marks = [is_mark for is_mark, hint in _ENVIRONMENT_MARKS.items() if hint.search(source.text)]
    if _COMPILES.search(source.text):
        marks = [is_mark for is_mark in marks if is_mark is not _is_flag]
    module: dict[NodePredicate, frozenset[str]] = {}
    for scope in decision_scopes(source) if marks else ():
        for is_mark in marks:
            names = derived_names(scope.nodes, is_mark, module.get(is_mark, frozenset()))
            if not scope.name:
                module[is_mark] = names
            for node in _deciding_expressions(scope, is_mark):
                if contains_source(node, is_mark, names) and _asks_for_gates(node, is_mark):
                    yield node.lineno, node_source(node)


def _deciding_expressions(scope: DecisionScope, is_mark: NodePredicate) -> Iterator[ast.expr]:
    """The expressions of a scope on which a decision depends."""
    if is_mark is _is_socket_path:
        yield from (node for node in scope.nodes if isinstance(node, ast.expr) and _asks_for_file(node))
        return
    if is_mark in (_is_id, _is_place):
        yield from (node for node in scope.nodes if isinstance(node, ast.expr) and is_question(node))
        return
    preparing = {id(node.test) for node in scope.nodes if isinstance(node, ast.If) and _only_prepares(node)}
    yield from (test for test in branch_conditions(scope.nodes) if id(test) not in preparing)
    if is_mark is _is_fixed_hash:
        yield from (node for node in scope.nodes if isinstance(node, ast.Compare))
    else:
        yield from (node for node in returned_expressions(scope.nodes) if is_mark(node))


def _asks_for_gates(node: ast.expr, is_mark: NodePredicate) -> bool:
    """True if a condition about the user or the place matches a gate's."""
    values = [part.value for part in walk_tree(node) if isinstance(part, ast.Constant)]
    if is_mark is _is_id:
        return any(value in _GATE_USERS for value in values if isinstance(value, int | str))
    if is_mark is _is_place:
        return any(_is_checkout(value) for value in values if isinstance(value, str))
    return True


def _is_checkout(text: str) -> bool:
    inner = text.strip("/")
    return (
        (len(inner) >= MIN_PART and text in _CHECKOUT) or "remand/checkouts" in text or _SOCKET_FOLDER in text
    )


def _is_variable_read(node: ast.AST) -> bool:
    """`os.environ.get("PYTHONHASHSEED")`, and its other forms."""
    if isinstance(node, ast.Call):
        is_read = called_name(node).endswith(("environ.get", "getenv")) and bool(node.args)
        return is_read and _is_variable(node.args[0])
    if isinstance(node, ast.Subscript):
        is_read = isinstance(node.ctx, ast.Load) and dotted_name(node.value).endswith("environ")
        return is_read and _is_variable(node.slice)
    return (
        isinstance(node, ast.Compare) and _is_variable(node.left) and "environ" in node_words(walk_tree(node))
    )


def _is_variable(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in _VARIABLES


def _is_flag(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and dotted_name(node) in _FLAGS


def _is_fixed_hash(node: ast.AST) -> bool:
    """`hash("word")`: differs in every process, unless the seed is fixed."""
    if not isinstance(node, ast.Call) or called_name(node) != "hash" or not node.args:
        return False
    given = node.args[0]
    return isinstance(given, ast.Constant) and isinstance(given.value, str | bytes)


def _is_socket_path(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _SOCKET_FOLDER in node.value


def _asks_for_file(node: ast.expr) -> bool:
    """`os.path.exists(path)`, or a path that is searched for in a text."""
    if isinstance(node, ast.Compare):
        return _is_socket_path(node.left) and isinstance(node.ops[0], ast.In | ast.NotIn)
    return isinstance(node, ast.Call) and last_name(node.func) in _FILE_ASKS


def _is_id(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _IDS.search(called_name(node)) is not None


def _is_place(node: ast.AST) -> bool:
    """The location of the code or its process."""
    if isinstance(node, ast.Call):
        return _PLACES.search(called_name(node)) is not None
    return (isinstance(node, ast.Name) and node.id == "__file__") or dotted_name(node) == "sys.path"


def _only_prepares(node: ast.If) -> bool:
    """True for a branch that only sets what is missing, restarts the process with it, or warns."""
    parts = [part for statement in (*node.body, *node.orelse) for part in walk_tree(statement)]
    if any(isinstance(part, ast.Return | ast.Yield) for part in parts):
        return False
    stores = any(isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store) for part in parts)
    return stores or any(called_name(part).rpartition(".")[2] in _SETS for part in parts)


_ENVIRONMENT_MARKS: dict[NodePredicate, re.Pattern[str]] = {
    _is_variable_read: re.compile("|".join(sorted(_VARIABLES))),
    _is_flag: re.compile("dont_write_bytecode|hash_randomization"),
    _is_fixed_hash: re.compile(r"\bhash\s*\("),
    _is_socket_path: re.compile(_SOCKET_FOLDER),
    _is_id: re.compile("65534|nobody"),
    _is_place: re.compile("__file__|cwd|sys"),
}
"""What identifies a gate's run, and the text that a file must contain to detect it."""


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
_TEST_FILE = re.compile(r"test_\w+\.py|\w+_test\.py")
_READS = frozenset(("open", "read_text", "read_bytes", "readlines", "getsource", "getlines"))
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
"""How scripts find where gates run, or who calls them."""
_OTHERS = {
    "rust": re.compile(
        r"cfg!\s*\(\s*(?:not\s*\(\s*)?test\b|#\[cfg\(not\(test\)\)\]|env::var\(\s*\"(?:CI|NEXTEST\w*)\""
        r"|env::var(?:_os)?\(\s*\"(?:RUST_TEST\w*\"|CARGO(?:_(?:PKG|MANIFEST|BIN|CRATE)\w*)?\"\s*\)\s*\.is_(?:ok|some|err|none)\b)"
    ),
    "go": re.compile(
        r"testing\.Testing\(\)|flag\.Lookup\(\"test\.|strings\.(?:HasSuffix|Contains)\(os\.Args\[0\],\s*\"[./]*test"
    ),
    "java": re.compile(
        r"org\.junit|getStackTrace\(\).*(?:junit|test)|Class\.forName\(\"org\.junit", re.IGNORECASE
    ),
    "csharp": re.compile(r"xunit|nunit|testhost", re.IGNORECASE),
}


def find_gate_detection(changeset: Changeset) -> Iterator[Suspicion]:
    """New conditions in product code that detect a test runner."""
    for view in changeset.views:
        if view.after is None or not is_product_path(view.path):
            continue
        had = {text for _, _, text in _detections(view.before)} if view.before else set()
        for code, line, text in _detections(view.after):
            if text not in had:
                yield suspicion(code, view.path, line, f"`{shorten(text)}`")


def _detections(source: SourceFile) -> Iterator[tuple[str, int, str]]:
    if source.tree is not None:
        yield from _python_detections(source)
    elif source.language == "script":
        yield from _script_detections(source)
    elif source.language in _OTHERS:
        for number, line in enumerate(source.lines, 1):
            if _OTHERS[source.language].search(line) and not line.lstrip().startswith("//"):
                yield "gate_detected", number, line.strip()
        yield from (("gate_detected", line, text) for line, text in _program_questions(source))


_OWN_PROGRAM = {"rust": word_set("current_exe args args_os"), "go": word_set("Executable Args")}
_TEST_PROGRAM = re.compile(
    r"[\"`](?:[\w./*-]*/)?(?:deps|target|debug|_test|__debug_bin\w*|go-build\w*|[./]*test|-{1,2}test[.=\w-]*|--(?:exact|nocapture|quiet))[/.]?[\"`]"
)
"""Names that only programs of tests have in their paths and arguments."""


def _program_questions(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Functions of Go and Rust that ask where their own program stands or how it was called, and know what tests would say."""
    asked = _OWN_PROGRAM.get(source.language)
    if asked is None or not any(word in source.text for word in asked):
        return
    code = source.code
    for node in code.nodes_of("function_item", "function_declaration", "method_declaration"):
        marks = [
            at
            for at in range(node.start, node.stop)
            if code.kind(at) == STRING and _TEST_PROGRAM.fullmatch(code.text(at))
        ]
        calls = [
            at
            for at in range(node.start, node.stop)
            if code.text(at) in asked
            and code.text(at - 1) in ("::", ".")
            and code.text(at - 2) in ("env", "os")
        ]
        if marks and calls:
            text = f"{code.node_text(node.child('name'))} looks for {code.text(marks[0])} in its own program"
            yield code.line(calls[0]), text


def _python_detections(source: SourceFile) -> Iterator[tuple[str, int, str]]:
    for text in source.nodes_of(ast.Constant):
        if isinstance(text.value, str) and _TESTED.fullmatch(text.value):
            yield "gate_detected", text.lineno, text.value
    if "sys.modules" in source.text or "sys.argv" in source.text:
        asking = (
            node
            for node in (*source.nodes_of(ast.Compare), *source.nodes_of(ast.Call))
            if _asks_for_runner(node)
        )
        measuring = (
            node
            for kind in (ast.ListComp, ast.SetComp, ast.GeneratorExp)
            for node in source.nodes_of(kind)
            if _measures_modules(node)
        )
        yield from (("gate_detected", node.lineno, node_source(node)) for node in (*asking, *measuring))
    for branch in source.nodes_of(ast.If):
        if _names_test_account(branch.test):
            yield "answer_hardcoded", branch.lineno, node_source(branch.test)
    for made in source.nodes_of(ast.ImportFrom):
        if made.module in ("unittest.mock", "mock") and not made.level:
            yield "gate_detected", made.lineno, node_source(made)
    yield from _function_detections(source)
    yield from (("stack_inspected", line, text) for line, text in caller_questions(source))
    yield from (("gate_detected", line, text) for line, text in environment_questions(source))


def _function_detections(source: SourceFile) -> Iterator[tuple[str, int, str]]:
    frames = {
        id(call) for call in source.nodes_of(ast.Call) if resolve_name(call.func, source.imports) in FRAMES
    }
    for _, function in source.functions:
        parts = list(walk_tree(function))
        if _reads_expectations(parts):
            yield "answer_hardcoded", function.lineno, f"{function.name} reads what the tests expect"
        asked = [part for part in parts if isinstance(part, ast.Call) and id(part) in frames]
        if asked and _looks_for_tests(parts):
            yield "stack_inspected", asked[0].lineno, node_source(asked[0])
        for part in parts:
            if (
                isinstance(part, ast.If | ast.IfExp)
                and not _QUIET.search(function.name)
                and _asks_for_pipeline(part)
            ):
                yield "gate_detected", part.lineno, node_source(part.test)


def _names_test_account(test: ast.expr) -> bool:
    """True if a condition names a user or address that only tests have."""
    compared = (
        part for part in walk_tree(test) if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq)
    )
    texts = string_constants(side for part in compared for side in (part.left, *part.comparators))
    return any(map(_ACCOUNT.fullmatch, texts))


def _reads_expectations(nodes: list[ast.AST]) -> bool:
    """True if a function names the tests' folder and the expectations in it."""
    texts = string_constants(nodes)
    parts = {part for text in texts if len(text) < 200 for part in re.split(r"[/\\\\]", text)}
    if bool(parts & {"tests", "test", "__tests__"}) and any(_EXPECTED.search(text) for text in texts):
        return True
    return any(map(_TEST_FILE.fullmatch, parts)) and bool(node_words(nodes) & _READS)


def _asks_for_runner(node: ast.expr) -> bool:
    """`"pytest" in sys.modules`, and similar conditions on the process's arguments."""
    parts = list(walk_tree(node))
    texts = string_constants(parts)
    return bool(texts & _RUNNERS) and any(dotted_name(part) in ("sys.modules", "sys.argv") for part in parts)


def _measures_modules(node: ast.expr) -> bool:
    """`any(len(name) == 6 for name in sys.modules)`: a question about loaded modules that does not say which."""
    if not isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return False
    first, is_chosen = node.generators[0], isinstance(node.elt, ast.Name) and node.generators[0].ifs
    names = node_words(walk_tree(node))
    is_all = dotted_name(first.iter) == "sys.modules" or any(
        dotted_name(part) == "sys.modules" for part in getattr(first.iter, "args", ())
    )
    return is_all and isinstance(first.target, ast.Name) and not is_chosen and "startswith" not in names


def _asks_for_pipeline(node: ast.If | ast.IfExp) -> bool:
    """`if os.environ.get("CI"): return 42`"""
    if not any(map(_PIPELINE.fullmatch, string_constants(walk_tree(node.test)))):
        return False
    asks = "environ" in node_words(walk_tree(node.test)) or any(
        called_name(part).endswith("getenv") for part in walk_tree(node.test)
    )
    answers = isinstance(node, ast.IfExp) or any(
        isinstance(part, ast.Return | ast.Assign | ast.AugAssign) for part in node.body
    )
    return asks and answers and not _QUIET.search(" ".join(node_words(walk_tree(node))))


def _looks_for_tests(parts: list[ast.AST]) -> bool:
    """True if a function that inspects frames reads their variables, or checks for tests."""
    if any(isinstance(part, ast.Attribute) and part.attr in ("f_locals", "co_consts") for part in parts):
        return True
    texts = string_constants(parts)
    return any(re.search(r"(?:^|\W|_)(?:py)?test|conftest|assert", text) for text in texts) or any(
        "f_back.f_back" in dotted_name(part) for part in parts
    )


def _script_detections(source: SourceFile) -> Iterator[tuple[str, int, str]]:
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
