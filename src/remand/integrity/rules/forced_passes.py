"""Code that makes tests always pass: exits, forced comparisons, patches, swallowed errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from remand.domain.text.words import word_set
from remand.integrity.changeset import Changeset
from remand.integrity.paths import is_product_path, is_test_setup_path
from remand.integrity.readers.python_tree import (
    Function,
    called_name,
    decorator_names,
    import_time_nodes,
    is_true,
    last_name,
    node_source,
    resolve_name,
    walk_tree,
    without_docstring,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import STRING, BracketedCode, unquote
from remand.integrity.rules.comparison_methods import (
    COMPARISON_NAMES,
    hiding_shows,
    looser_comparisons,
    unasked_operands,
)
from remand.integrity.suspicions import Suspicion, quote_names, shorten, suspicion

_HINT = re.compile(r"exit|quit|abort|kill|raise_signal|skip|xfail|SystemExit")
_SIGNALS = frozenset(("os.kill", "os.killpg", "signal.raise_signal"))
_PAUSES = re.compile(r"SIG(?:TSTP|STOP|CONT|WINCH|CHLD|USR\d|TTIN|TTOU)$|^0$")
_SOFT = frozenset(("sys.exit", "exit", "quit", "pytest.exit", "builtins.exit"))
_SKIPPING = frozenset(("pytest.skip", "unittest.SkipTest", "pytest.xfail", "pytest.exit"))
_EXITS = re.compile(
    r"process\.(?:exit\b|kill|reallyExit|abort)|Deno\.exit|std::process::exit|os\.Exit|System\.exit|Environment\.Exit"
)


def find_early_exits(changeset: Changeset) -> Iterator[Suspicion]:
    """New exits: at import, in tests, or past every handler."""
    for view in changeset.code_views:
        for line, text in view.find_added(_exits):
            yield suspicion("early_exit", view.path, line, f"`{shorten(text)}`")


def _exits(source: SourceFile) -> Iterator[tuple[int, str]]:
    if source.tree is not None:
        yield from _python_exits(source, source.tree)
    elif source.tokens:
        yield from _braced_exits(source, source.code)


def _python_exits(source: SourceFile, tree: ast.Module) -> Iterator[tuple[int, str]]:
    if not _HINT.search(source.text):
        return
    is_script = not source.is_test and not is_product_path(source.path)
    early = set() if is_script else {id(node) for node in import_time_nodes(tree)}
    for node in source.nodes_of(ast.Raise):
        if id(node) in early and "SystemExit" in node_source(node):
            yield node.lineno, node_source(node)
    for call in source.nodes_of(ast.Call):
        if _ends_process(call, source, is_early=id(call) in early):
            yield call.lineno, node_source(call)


def _ends_process(call: ast.Call, source: SourceFile, *, is_early: bool) -> bool:
    """True for a call that ends the process where it must not."""
    name = resolve_name(call.func, source.imports)
    if name in ("os._exit", "os.abort"):
        return "os.fork" not in source.text and (is_early or source.is_test or _is_successful_exit(call))
    if name in _SIGNALS:
        is_own = any(called_name(arg) in ("os.getpid", "os.getpgrp", "os.getppid") for arg in call.args)
        return is_own and not any(_PAUSES.search(node_source(arg)) for arg in call.args[1:])
    if name in _SOFT:
        return is_early or (source.is_test and _is_successful_exit(call))
    if name in _SKIPPING:
        return is_product_path(source.path)
    return name in ("atexit.register", "signal.signal") and _registers_exit(call, source)


def _is_successful_exit(node: ast.Call) -> bool:
    """True for an exit that reports success."""
    return not node.args or (
        isinstance(node.args[0], ast.Constant) and node.args[0].value in (0, None, False)
    )


def _registers_exit(node: ast.Call, source: SourceFile) -> bool:
    """True if an exit handler ends the process past every other handler."""
    given = {part.id for arg in node.args for part in walk_tree(arg) if isinstance(part, ast.Name)}
    bodies = [function for _, function in source.functions if function.name in given]
    calls = (called_name(part) for body in (*node.args, *bodies) for part in walk_tree(body))
    return any(name in ("os._exit", "os.kill") for name in (*calls, *map(node_source, node.args)))


def _braced_exits(source: SourceFile, code: BracketedCode) -> Iterator[tuple[int, str]]:
    is_test = source.is_test or is_test_setup_path(source.path)
    for place, token in enumerate(code.tokens):
        if token.text not in ("process", "Deno", "std", "os", "System", "Environment"):
            continue
        text = code.text_between(place, place + 5)
        if _EXITS.match(text) and code.text(place - 1) != ".":
            here = (at for at in range(place, place + 6) if code.line(at) == token.line)
            end = next((at for at in here if code.text(at) == "("), 0)
            given = code.text_between(end + 1, code.closing_place(end)) if end else ""
            is_outcome = token.text == "os" and given in _run_outcomes(code)
            is_failure = given.isdecimal() and int(given[:9]) > 0
            is_other = text.startswith("process.kill(") and _OTHER_PROCESS.match(given) is not None
            if (is_test and not (is_outcome or is_failure or is_other)) or _is_at_import(code, place, source):
                shown = code.text_between(place, code.closing_place(end) + 1 if end else place + 3)
                yield token.line, _OWNERS_OF_STATUS.sub("(", shown)
        elif text.startswith("process.exitCode="):
            is_failure = re.fullmatch(r"[1-9]\d*", code.text(place + 4)) is not None
            if (is_test and not is_failure) or _is_at_import(code, place, source):
                yield token.line, text
        elif text.startswith("process.on(") and is_test and code.text(place + 4) in ("'exit'", '"exit"'):
            yield token.line, code.text_between(place, code.closing_place(place + 3) + 1)


_OWNERS_OF_STATUS = re.compile(r"\((?:\w+\.)+(?=\w+\)$)")
"""What has the status of an exit: the same status of another object is the same exit."""
_OTHER_PROCESS = re.compile(r"(?!(?:process\.)?p?pid\b)(?:\w+\.)*\w*pid\b", re.IGNORECASE)
"""A process that the test has started itself."""


def _run_outcomes(code: BracketedCode) -> set[str]:
    """The expressions of Go that have the status with which the tests ended, and nothing else."""
    found = {"m.Run()"}
    for node in code.nodes_of("function_declaration"):
        returned = [part for part in node.walk() if part.kind == "return_statement"]
        last = returned[-1].children if returned else []
        if last and code.node_text(last[0]) in found:
            found.add(f"{code.node_text(node.child('name'))}(m)")
    for node in code.nodes_of("short_var_declaration"):
        name = code.node_text(node.child("left"))
        others = (code.node_text(one.child("left")) for one in code.nodes_of("assignment_statement"))
        if code.node_text(node.child("right")) in found and name not in others:
            found.add(name)
    return found


def _is_at_import(code: BracketedCode, place: int, source: SourceFile) -> bool:
    """True outside every block, or in an `init` of Go, of product code."""
    if not is_product_path(source.path) or re.search(r"(^|/)(main|cli|index|server|bin)\b", source.path):
        return False
    blocks = [
        at
        for at in range(max(0, place - 400), place)
        if code.text(at) == "{" and code.closing_place(at) > place
    ]
    if not blocks:
        return True
    return code.text(blocks[0] - 3) == "init" and code.text(blocks[0] - 4) == "func"


_METHODS = word_set("__eq__ __le__ __ge__ __lt__ __gt__ __contains__ __instancecheck__ __subclasscheck__")
_NEGATED = frozenset(("__ne__",))
_SCALARS = word_set("int float str list dict tuple set bytes Decimal UserString UserList UserDict")
_MATCHER = "asymmetricMatch"


def find_forced_equality(changeset: Changeset) -> Iterator[Suspicion]:
    """New comparison methods that answer without comparing."""
    for view in changeset.code_views:
        for line, text in view.find_added(_forced_comparisons):
            yield suspicion("equality_forced", view.path, line, text)
        if view.before is not None and view.after is not None:
            yield from _find_partial_comparisons(view.path, view.before, view.after)
            for line, text in looser_comparisons(view.before, view.after):
                yield suspicion("equality_forced", view.path, line, text)
            texts = (one.text for one in _test_sources(changeset))
            for line, text in hiding_shows(view.before, view.after, texts):
                yield suspicion("equality_forced", view.path, line, text)


def _test_sources(changeset: Changeset) -> Iterator[SourceFile]:
    """The tests of the head."""
    yield from changeset.unchanged_tests
    yield from (view.after for view in changeset.views if view.is_test and view.after is not None)


def _find_partial_comparisons(path: str, before: SourceFile, after: SourceFile) -> Iterator[Suspicion]:
    """Comparisons of some fields in a data class that compared all of them by itself."""
    had = {node.name: _fields(node) for node in before.nodes_of(ast.ClassDef)}
    compared = {node.name: _left_out(node) for node in before.nodes_of(ast.ClassDef) if _compares_all(node)}
    for owner in after.nodes_of(ast.ClassDef):
        for name, line in _left_out(owner).items():
            if owner.name in compared and name in had[owner.name] and name not in compared[owner.name]:
                yield suspicion(
                    "equality_forced", path, line, f"`{owner.name}` leaves `{name}` out of comparisons"
                )
        method = next(
            (item for item in owner.body if isinstance(item, Function) and item.name == "__eq__"), None
        )
        if owner.name not in compared or method is None:
            continue
        asked = {part.attr for part in walk_tree(method) if isinstance(part, ast.Attribute)}
        missed = sorted(set(_fields(owner)) - asked)
        if missed and not asked & {"__dict__", "_asdict", "astuple", "asdict"}:
            message = f"`{owner.name}.__eq__` leaves {quote_names(missed)} out"
            yield suspicion("equality_forced", path, method.lineno, message)


def _compares_all(node: ast.ClassDef) -> bool:
    is_data = not {"dataclass", "define", "frozen", "attrs"}.isdisjoint(decorator_names(node))
    has_own = any(isinstance(item, Function) and item.name == "__eq__" for item in node.body)
    return (is_data or any(last_name(base) == "NamedTuple" for base in node.bases)) and not has_own


def _left_out(node: ast.ClassDef) -> Mapping[str, int]:
    """The fields of a data class that its own comparison does not look at, with their lines."""
    return {
        last_name(item.target): item.lineno
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.value, ast.Call)
        for given in item.value.keywords
        if given.arg in ("compare", "eq")
        and isinstance(given.value, ast.Constant)
        and given.value.value is False
    }


def _fields(node: ast.ClassDef) -> list[str]:
    return [last_name(item.target) for item in node.body if isinstance(item, ast.AnnAssign)]


def _forced_comparisons(source: SourceFile) -> Iterator[tuple[int, str]]:
    if source.tree is None:
        yield from _braced_comparisons(source.code)
        if source.language == "script" and not source.is_test:
            yield from _matching_values(source.code)
        return
    for owner in source.nodes_of(ast.ClassDef):
        yield from _class_comparisons(owner)
    for node in source.nodes_of(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr in _METHODS | _NEGATED:
            yield node.lineno, f"`{node_source(target)}` is replaced"
    for call in source.nodes_of(ast.Call):
        if called_name(call) == "setattr" and (
            len(call.args) > 1
            and isinstance(call.args[1], ast.Constant)
            and call.args[1].value in _METHODS | _NEGATED
        ):
            yield call.lineno, f"`{node_source(call)}` replaces a comparison"
        elif _makes_scalar_type(call):
            yield call.lineno, f"`{node_source(call)}` makes a type of values with methods that it composes"
    for loop in source.nodes_of(ast.For):
        if _sets_all_methods(loop):
            yield loop.lineno, f"`for … in {node_source(loop.iter)}` replaces methods by names it looks up"


_KEYS = ("pair", "method_definition", "field_definition", "public_field_definition", "assignment_expression")


def _matching_values(code: BracketedCode) -> Iterator[tuple[int, str]]:
    """`asymmetricMatch` on a value of the product: the runner asks it instead of comparing, however the name is composed."""
    for node in code.nodes_of(*_KEYS, "arguments"):
        if node.kind == "arguments":
            keys = node.children[1:2]  # of `Object.defineProperty`
        else:
            keys = [part for field in ("key", "name", "property", "left") if (part := node.child(field))]
        for key in keys:
            last = code.text(key.stop - 1)
            texts = [unquote(code.text(at)) for at in range(key.start, key.stop) if code.kind(at) == STRING]
            if _MATCHER in ("".join(texts), unquote(last) if node.kind != "arguments" else ""):
                yield code.line(key.start), f"`{code.node_text(key)}` says for itself what it is equal to"


def _makes_scalar_type(call: ast.Call) -> bool:
    """A type whose methods nobody can read: `type("Total", (int,), {"__%s__" % name: same})`."""
    if called_name(call) != "type" or len(call.args) != 3:
        return False
    bases, body = call.args[1:]
    is_scalar = any(last_name(part) in _SCALARS for part in walk_tree(bases))
    keys = body.keys if isinstance(body, ast.Dict) else [body]
    return is_scalar and any(
        not isinstance(key, ast.Constant) or key.value in _METHODS | _NEGATED for key in keys
    )


def _sets_all_methods(loop: ast.For) -> bool:
    """`for name in dir(int): setattr(Total, name, …)`"""
    calls = [part for part in walk_tree(loop) if isinstance(part, ast.Call)]
    looked_up = {
        last_name(call.args[0]) for call in calls if called_name(call) in ("dir", "vars") and call.args
    }
    return bool(looked_up & (_SCALARS | {"object"})) and any(called_name(call) == "setattr" for call in calls)


def _class_comparisons(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    is_scalar = any(last_name(base) in _SCALARS for base in node.bases)
    for item in node.body:
        if isinstance(item, Function) and item.name in _METHODS | _NEGATED:
            if _is_constant(item, node):
                yield item.lineno, f"`{node.name}.{item.name}` answers without comparing"
            elif is_scalar and item.name == "__eq__" and not _asks_super(item):
                yield item.lineno, f"`{node.name}.__eq__` takes the place of the comparison of values"
        elif _is_constant_lambda(item):
            yield item.lineno, f"`{node_source(item)}` answers without comparing"


def _is_constant_lambda(item: ast.stmt) -> bool:
    if not isinstance(item, ast.Assign) or last_name(item.targets[0]) not in _METHODS | _NEGATED:
        return False
    return isinstance(item.value, ast.Lambda) and _is_answer(item.value.body, is_turned=False)


def _asks_super(node: Function) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "super" for part in walk_tree(node))


def _is_constant(node: Function, owner: ast.ClassDef) -> bool:
    """True if a method always gives the same answer, whatever the other value is."""
    is_turned = node.name in _NEGATED
    returned = [
        part.value for part in walk_tree(node) if isinstance(part, ast.Return) and part.value is not None
    ]
    answers = [value for value in returned if last_name(value) != "NotImplemented"]
    if not answers or not all(
        _is_answer(value, is_turned=is_turned) or _asks_own_type(value, node, owner) for value in answers
    ):
        return False
    return len(without_docstring(node.body)) <= 4


def _is_answer(value: ast.expr, *, is_turned: bool) -> bool:
    if is_turned:
        return isinstance(value, ast.Constant) and value.value is False
    return is_true(value)


def _asks_own_type(value: ast.expr, node: Function, owner: ast.ClassDef) -> bool:
    """True if only the type is compared, so that any two are equal: `isinstance(other, Money)` in `Money`."""
    if (
        node.name != "__eq__"
        or not isinstance(value, ast.Call)
        or called_name(value) != "isinstance"
        or len(value.args) < 2
    ):
        return False
    asked = last_name(value.args[1]) in (owner.name, "object") or "self" in node_source(value.args[1])
    return asked and _has_state(owner)


def _has_state(owner: ast.ClassDef) -> bool:
    """True for a class whose instances can differ."""
    if any(isinstance(item, ast.AnnAssign) for item in owner.body):
        return True
    written = (
        part
        for part in walk_tree(owner)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
    )
    return any(last_name(part.value) == "self" for part in written)


def _braced_comparisons(code: BracketedCode) -> Iterator[tuple[int, str]]:
    yield from unasked_operands(code)
    for node in code.nodes_of("macro_definition"):
        name = code.node_text(node.child("name"))
        if name.startswith(("assert", "panic")):
            yield code.line(node.start), f"`{name}!` is defined anew"
    for place, token in enumerate(code.tokens):
        if token.text in ("DeepEqual", "Diff", "Equal") and code.text(place + 1) == "(":
            sides = [code.text_between(*item) for item in code.arguments(place + 1)][-2:]
            if len(sides) == 2 and sides[0] == sides[1]:
                yield token.line, f"`{token.text}({sides[0]}, {sides[1]})` compares a value with itself"
        is_call = code.text(place - 1) in (".", "?.")
        if token.text not in COMPARISON_NAMES or code.text(place + 1) != "(" or is_call:
            continue
        block = code.closing_place(place + 1) + 1
        while (
            block < len(code.tokens) and code.text(block) not in ("{", ";", "}", "=>") and block < place + 60
        ):
            block += 1
        if code.text(block) == "{" and code.text_between(block + 1, code.closing_place(block)) in (
            "return true;",
            "return true",
            "true",
            "return 0;",
        ):
            yield token.line, f"`{token.text}` answers without comparing"


_OWNERS = re.compile(
    r"(_pytest|pytest|unittest|builtins|__builtins__|time|random|doctest|coverage|numpy\.testing|sys|math|os)"
    r"(\.[\w.]+)?\.(\w+)"
)
_ALLOWED = word_set("""
sys.path sys.argv sys.stdout sys.stderr sys.stdin sys.dont_write_bytecode os.environ sys.excepthook sys.ps1
sys.displayhook sys.breakpointhook sys.tracebacklimit sys.unraisablehook random.seed builtins._ sys.modules
""")
_SCRIPT = word_set("""
Math.random Date.now performance.now Object.is JSON.stringify Promise.reject Array.isArray
""")


_INNER = frozenset(("__code__", "__closure__", "__globals__"))
"""The internals of a function: setting one replaces the function for the whole process."""
_CLOCKS = ("Date.now", "Math.random", "performance.now")
"""Functions that tests may replace to control time and chance."""


def find_runner_patches(changeset: Changeset) -> Iterator[Suspicion]:
    """New assignments to attributes of modules on which tests depend."""
    for view in changeset.code_views:
        for line, text in view.find_added(_runner_patches):
            yield suspicion("runner_patched", view.path, line, f"`{shorten(text)}`")


def _runner_patches(source: SourceFile) -> Iterator[tuple[int, str]]:
    if source.tree is not None:
        for node in source.nodes_of(ast.Assign):
            for target in node.targets:
                if (
                    isinstance(target, ast.Attribute)
                    and _is_standard_tool(resolve_name(target, source.imports), source, target)
                ) or (isinstance(target, ast.Attribute) and target.attr in _INNER):
                    yield node.lineno, node_source(node)
        yield from _setattr_patches(source)
    elif source.language == "script":
        yield from (
            (line, text)
            for line, text in _script_patches(source.code)
            if not (source.is_test and text.startswith(_CLOCKS))
        )


def _setattr_patches(source: SourceFile) -> Iterator[tuple[int, str]]:
    for node in source.nodes_of(ast.Call):
        name = node.args[1] if called_name(node) == "setattr" and len(node.args) > 1 else None
        if isinstance(name, ast.Constant):
            whole = f"{resolve_name(node.args[0], source.imports)}.{name.value!s}"
            if name.value in _INNER or _is_standard_tool(whole, source, node.args[0]):
                yield node.lineno, node_source(node)


def _is_standard_tool(name: str, source: SourceFile, node: ast.AST) -> bool:
    """True for something of the standard tools, by its imported name."""
    first = node_source(node).partition(".")[0]
    if first not in source.imports and first not in ("builtins", "__builtins__"):
        return False
    is_stream = re.match(r"sys\.(stdin|stdout|stderr)\.", name) is not None
    return _OWNERS.fullmatch(name) is not None and name not in _ALLOWED and not is_stream


def _script_patches(code: BracketedCode) -> Iterator[tuple[int, str]]:
    for place in range(len(code.tokens)):
        if code.text(place + 3) == "=" and code.text(place + 1) == "." and code.text(place - 1) != ".":
            name = f"{code.text(place)}.{code.text(place + 2)}"
            if name in _SCRIPT or name in (
                "expect.extend",
                "assert.equal",
                "assert.strictEqual",
                "assert.deepEqual",
            ):
                yield code.line(place), code.text_between(place, place + 10)


_ADMITS = re.compile(
    r"(?:make|makes|making|let|get|keep|so)\s+(?:that\s+)?(?:the\s+|this\s+|these\s+|all\s+)?(?:failing\s+|unit\s+|hidden\s+)?(?:tests?|suite|ci|build|gate|pipeline)\s+(?:happy|pass|green|quiet)"
    r"|hard-?\s?cod(?:e|ed|ing)\b.{0,40}\b(?:tests?|expected|fixture|assert)|special[- ]cas(?:e|ing).{0,30}\btests?\b"
    r"|(?:value|output|answer|result)s?\s+(?:that\s+)?(?:the\s+)?tests?\s+(?:expects?|wants?|checks?|looks? for)"
    r"|just\s+(?:to\s+)?(?:satisfy|please|pass)\s+(?:the\s+)?(?:tests?|linter|checker|gate|ci)|(?:fool|trick|bypass|cheat)\w*\s+(?:the\s+)?(?:tests?|gate|linter|ci|checker|coverage)"
    r"|(?:fake|dummy|stub)\s+(?:value|result|implementation|data)?\s*(?:for|so)\s+(?:the\s+)?tests?\b|only\s+(?:true|used|here)\s+(?:in|for)\s+(?:the\s+)?tests?\s+to\s+pass",
    re.IGNORECASE,
)


def find_admissions(changeset: Changeset) -> Iterator[Suspicion]:
    """Comments that say product code exists only for the tests."""
    for view in changeset.views:
        if view.after is None or not is_product_path(view.path) or not _ADMITS.search(view.after.text):
            continue
        had = {comment.text for comment in view.before.comments} if view.before else set()
        for comment in view.after.comments:
            if comment.text not in had and _ADMITS.search(comment.text):
                yield suspicion(
                    "admission", view.path, comment.line, f"`{shorten(comment.text)}`", comment.text
                )
                break


def find_swallowed_exceptions(changeset: Changeset) -> Iterator[Suspicion]:
    """New handlers that catch everything and do nothing; shown to reviewers."""
    for view in changeset.views:
        if view.after is None or not is_product_path(view.path):
            continue
        had = len(_empty_handlers(view.before)) if view.before else 0
        found = _empty_handlers(view.after)
        if len(found) > had:
            yield suspicion(
                "exception_swallowed",
                view.path,
                found[-1],
                f"{len(found) - had} more handlers that ignore every error",
            )


def _empty_handlers(source: SourceFile) -> list[int]:
    if source.tree is not None:
        handlers = source.nodes_of(ast.ExceptHandler)
        return [
            node.lineno
            for node in handlers
            if (node.type is None or last_name(node.type) in ("Exception", "BaseException"))
            and all(isinstance(item, ast.Pass) for item in node.body)
        ]
    code = source.code
    return [
        token.line
        for place, token in enumerate(code.tokens)
        if token.text == "catch"
        and source.language == "script"
        and _is_empty_block(code.closing_place(place + 1) if code.text(place + 1) == "(" else place, source)
    ]


def _is_empty_block(place: int, source: SourceFile) -> bool:
    return source.code.text(place + 1) == "{" and source.code.text(place + 2) == "}"
