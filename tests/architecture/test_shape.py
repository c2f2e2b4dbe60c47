"""Holds the shape of the source: figures that tell a kept codebase from one grown wild, and names that say what a thing is.

A number called a ceiling is today's: it may fall and never rise. Lower it in the change that lowers the figure. A list of
exceptions may only shrink: an entry that is no longer needed fails here, too.
"""

import ast
import gc
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "remand"

LONG_FUNCTION = 50
LONG_FUNCTIONS_SHARE = 0.03
NINETIETH_PERCENTILE = 31
LONG_MODULE = 600
BROAD_HANDLERS = 5
FILES_IN_A_PACKAGE = 20
PROTOCOL_METHODS = 5
RECORD_FIELDS = 20
SMALL_MODULE = 60
SMALL_MODULES_SHARE = 0.05

MODULES_CEILING = 479
LINES_CEILING = 131_915
WIRING_LINES_CEILING = 836

LARGE_PACKAGES: Mapping[str, int] = {}
"""Packages with more than 20 files, and how many they have."""
WIDE_PROTOCOLS: Mapping[str, int] = {}
"""Protocols with more than five methods, and how many they have."""
WIDE_RECORDS: dict[str, int] = {}
"""Records with more than 20 fields, and how many they have."""

NOT_BARE_PARTICIPLES = {
    "Finding": "a noun: what a reviewer or a tool found",
    "Refused": "the documented refusal, which callers catch by this name",
    "feed": "a verb in the imperative",
    "finding": "a noun: what a reviewer or a tool found",
    "heading": "a noun: the line above a section",
    "succeeded": "the name of a weight of the validator, which was fitted under it",
    "testing": "the package of fakes and contract suites, as in other libraries",
    "waiting": "the name of a tool of the MCP server, which clients call",
    "wiring": "a noun: the objects and how they are connected",
}

_IRREGULAR = (
    "begun broken brought built caught chosen done drawn driven forgotten found frozen given gone grown heard held hidden "
    "kept known led left lost made meant met paid said seen sent shown sold spent spoken stood taken taught thought thrown "
    "told torn understood unheard unseen withdrawn woken worn written"
)
BARE_PARTICIPLE = re.compile(rf"_*(?:[a-z]+(?:ed|ing)|{'|'.join(_IRREGULAR.split())})")
ONE_WORD_CLASS = re.compile(r"_*[A-Z][a-z]+")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    place: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    path: Path
    name: str
    lines: int
    tree: ast.Module
    functions: list[FunctionNode] = field(default_factory=list)
    classes: list[ast.ClassDef] = field(default_factory=list)
    calls: list[ast.Call] = field(default_factory=list)
    handlers: list[ast.ExceptHandler] = field(default_factory=list)
    imports: list[tuple[ast.Import | ast.ImportFrom, bool]] = field(default_factory=list)
    """Import statements, and whether each stands inside a function."""

    def __post_init__(self) -> None:
        waiting: list[tuple[ast.AST, bool]] = [(self.tree, False)]
        while waiting:
            node, is_inside = waiting.pop()
            self._note(node, is_inside=is_inside)
            is_inside = is_inside or isinstance(node, FunctionNode)
            waiting += [(child, is_inside) for child in ast.iter_child_nodes(node)]

    def _note(self, node: ast.AST, *, is_inside: bool) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.append(node)
            case ast.ClassDef():
                self.classes.append(node)
            case ast.Call():
                self.calls.append(node)
            case ast.ExceptHandler():
                self.handlers.append(node)
            case ast.Import() | ast.ImportFrom():
                self.imports.append((node, is_inside))

    @property
    def short(self) -> str:
        return str(self.path.relative_to(SOURCE))

    @property
    def package(self) -> str:
        return self.name.rpartition(".")[0]

    def place(self, node: ast.stmt | ast.expr | ast.ExceptHandler) -> str:
        return f"{self.short}:{node.lineno}"


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Keeps what was read of the modules until the last test here."""
    yield
    modules.cache_clear()


@cache
def modules() -> list[Module]:
    # The trees have a million nodes, none of them garbage: looking for some would take longer than all the rest.
    gc.disable()
    try:
        return [read(path) for path in sorted(SOURCE.rglob("*.py"))]
    finally:
        gc.enable()


def read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    parts = ["remand", *path.relative_to(SOURCE).with_suffix("").parts]
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(
        path=path,
        name=name,
        lines=len(text.splitlines()),
        tree=ast.parse(text, filename=str(path)),
    )


def line_count(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def length_without_docstring(function: FunctionNode) -> int:
    docstring = line_count(function.body[0]) if ast.get_docstring(function, clean=False) is not None else 0
    return line_count(function) - docstring


def functions() -> list[Function]:
    return [
        Function(place=f"{module.place(node)} {node.name}", length=length_without_docstring(node))
        for module in modules()
        for node in module.functions
    ]


def is_own(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == "remand"


def is_own_import(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or is_own(node.module or "")
    return any(is_own(name.name) for name in node.names)


def string_imports(module: Module) -> Iterator[tuple[str, ast.Call]]:
    """Own modules that a call of `import_module` names in a string; of an f-string its fixed beginning."""
    for call in module.calls:
        words = (call.func, *call.args)
        if not any(isinstance(word, ast.Name) and word.id == "import_module" for word in words):
            continue
        for node in ast.walk(call):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_own(node.value):
                yield node.value, call


def importers() -> dict[str, set[str]]:
    """Which modules import each module. An f-string may mean every module whose name begins like it."""
    names = [module.name for module in modules()]
    known = set(names)
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        imported = {
            name
            for node, _ in module.imports
            for alias in node.names
            for name in (
                (node.module, f"{node.module}.{alias.name}")
                if isinstance(node, ast.ImportFrom)
                else (alias.name,)
            )
            if name in known
        }
        for text, _ in string_imports(module):
            imported |= {
                name for name in names if name == text or (text[-1] == "." and name.startswith(text))
            }
        for name in imported - {module.name}:
            found[name].add(module.name)
    return found


def is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    types = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        one is None or (isinstance(one, ast.Name) and one.id in {"Exception", "BaseException"})
        for one in types
    )


def base_names(node: ast.ClassDef) -> list[str]:
    """The names of a class's bases, without their modules and parameters."""
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return [
        base.attr if isinstance(base, ast.Attribute) else base.id
        for base in plain
        if isinstance(base, ast.Attribute | ast.Name)
    ]


def called_name(call: ast.Call) -> str:
    """The name of what is called, without its module."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def own_field_count(node: ast.ClassDef) -> int:
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    return sum("ClassVar" not in ast.unparse(one.annotation) for one in fields)


def too_large(found: Mapping[str, int], most: int, exceptions: Mapping[str, int]) -> list[str]:
    """What is larger than it may be, and exceptions that are needed no longer."""
    large = [
        f"{name}: {count}, and at most {max(most, exceptions.get(name, 0))} may be"
        for name, count in found.items()
        if count > max(most, exceptions.get(name, 0))
    ]
    stale = [
        f"{name}: {found.get(name, 0)}; lower its exception of {count}, or take it out"
        for name, count in exceptions.items()
        if found.get(name, 0) < count
    ]
    return large + stale


def listed(places: list[str]) -> str:
    return "".join(f"\n  {place}" for place in places)


def by_length(found: list[Function]) -> list[str]:
    ordered = sorted(found, key=lambda function: -function.length)
    return [f"{function.length} lines: {function.place}" for function in ordered]


def test_hardly_a_function_is_longer_than_fifty_lines() -> None:
    every = functions()
    long = [function for function in every if function.length > LONG_FUNCTION]

    assert len(long) <= LONG_FUNCTIONS_SHARE * len(every), (
        f"{len(long)} of {len(every)} functions are over {LONG_FUNCTION} lines, at most"
        f" {LONG_FUNCTIONS_SHARE:.0%} may be; split them:{listed(by_length(long))}"
    )


def test_nine_functions_in_ten_are_short() -> None:
    every = sorted(functions(), key=lambda function: function.length)
    assert every, f"no function found under {SOURCE}"
    percentile = every[math.ceil(0.9 * len(every)) - 1].length
    over = [function for function in every if function.length > NINETIETH_PERCENTILE]

    assert percentile <= NINETIETH_PERCENTILE, (
        f"the 90th percentile of function length is {percentile} lines, at most {NINETIETH_PERCENTILE}"
        f" is allowed; split some of these:{listed(by_length(over))}"
    )


def test_own_modules_are_imported_at_the_top_and_by_a_statement() -> None:
    inside = [
        module.place(node)
        for module in modules()
        for node, is_inside in module.imports
        if is_inside and is_own_import(node)
    ]
    by_string = [
        f"{module.place(call)} {text}" for module in modules() for text, call in string_imports(module)
    ]

    assert not inside + by_string, (
        f"{len(inside)} imports of own modules stand inside functions and {len(by_string)} are strings, which no"
        f" contract sees:{listed(sorted(inside + by_string))}"
    )


def test_no_module_is_longer_than_six_hundred_lines() -> None:
    long = [f"{module.lines} lines: {module.short}" for module in modules() if module.lines > LONG_MODULE]

    assert not long, f"modules over {LONG_MODULE} lines; split them by noun:{listed(long)}"


def test_the_source_does_not_grow_unnoticed() -> None:
    lines = sum(module.lines for module in modules())

    assert len(modules()) <= MODULES_CEILING, f"there are {len(modules())} modules, up from {MODULES_CEILING}"
    assert lines <= LINES_CEILING, f"there are {lines} lines, up from {LINES_CEILING}"


def test_wiring_does_not_grow() -> None:
    lines = sum(module.lines for module in modules() if module.short.startswith("wiring/"))

    assert lines <= WIRING_LINES_CEILING, (
        f"wiring has {lines} lines, up from {WIRING_LINES_CEILING}; it makes objects, rules live in the domain"
    )


def test_a_package_has_at_most_twenty_files() -> None:
    found = Counter(
        str(module.path.parent.relative_to(SOURCE))
        for module in modules()
        if module.path.name != "__init__.py"
    )

    wrong = too_large(found, FILES_IN_A_PACKAGE, LARGE_PACKAGES)

    assert not wrong, f"packages with too many files; make sub-packages by noun:{listed(wrong)}"


def test_hardly_a_small_module_is_used_by_its_neighbour_alone() -> None:
    importing = importers()
    pieces = [
        f"{module.lines} lines: {module.short}, used by {users[0]}"
        for module in modules()
        if module.lines < SMALL_MODULE and module.path.name != "__init__.py"
        if len(users := sorted(importing[module.name])) == 1 and users[0].rpartition(".")[0] == module.package
    ]

    assert len(pieces) <= SMALL_MODULES_SHARE * len(modules()), (
        f"{len(pieces)} modules under {SMALL_MODULE} lines have one importer, in the same package; at most"
        f" {SMALL_MODULES_SHARE:.0%} may; join them to it:{listed(pieces)}"
    )


def test_a_public_class_name_means_one_thing() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module.place(node))
    twice = [f"{name}: {', '.join(places)}" for name, places in found.items() if len(places) > 1]

    assert not twice, f"class names that mean several things; name each after its own thing:{listed(twice)}"


def test_no_name_is_a_bare_participle_or_gerund() -> None:
    named = [
        *((node.name, module.place(node)) for module in modules() for node in module.functions),
        *(
            (node.name, module.place(node))
            for module in modules()
            for node in module.classes
            if ONE_WORD_CLASS.fullmatch(node.name)
        ),
        *((module.name.rpartition(".")[2], module.short) for module in modules()),
    ]
    bare = [(name, place) for name, place in named if BARE_PARTICIPLE.fullmatch(name.lower())]
    wrong = [f"{place} {name}" for name, place in bare if name not in NOT_BARE_PARTICIPLES]
    stale = sorted(NOT_BARE_PARTICIPLES.keys() - {name for name, _ in bare})

    assert not wrong, (
        "names that do not say whether they ask or act; a function that acts is a verb, one that answers a noun, a"
        f" class or module a noun:{listed(wrong)}"
    )
    assert not stale, f"exceptions that are needed no longer: {stale}"


def test_a_protocol_has_at_most_five_methods() -> None:
    found = {
        node.name: sum(isinstance(one, FunctionNode) for one in node.body)
        for module in modules()
        for node in module.classes
        if "Protocol" in base_names(node)
    }

    wrong = too_large(found, PROTOCOL_METHODS, WIDE_PROTOCOLS)

    assert not wrong, f"protocols with too many methods; split them by who calls them:{listed(wrong)}"


def test_a_record_has_at_most_twenty_fields() -> None:
    nodes = {node.name: node for module in modules() for node in module.classes}

    def field_count(node: ast.ClassDef) -> int:
        bases = [nodes[name] for name in base_names(node) if name in nodes and name != node.name]
        return own_field_count(node) + sum(map(field_count, bases))

    wrong = too_large({name: field_count(node) for name, node in nodes.items()}, RECORD_FIELDS, WIDE_RECORDS)

    assert not wrong, f"records with too many fields; compose them of records by concern:{listed(wrong)}"


def test_refusals_are_made_in_the_domain() -> None:
    outside = [
        module.place(call)
        for module in modules()
        if not module.short.startswith("domain/")
        for call in module.calls
        if called_name(call) == "Refused"
    ]
    outside += [
        f"{module.place(node)} by another name"
        for module in modules()
        for node, _ in module.imports
        for alias in node.names
        if alias.name == "Refused" and alias.asname
    ]

    assert not outside, (
        "refusals made outside the domain; raise a UsageError or an EnvironmentFault, or have the domain refuse:"
        f"{listed(outside)}"
    )


def test_only_outermost_loops_catch_every_exception() -> None:
    broad = [module.place(node) for module in modules() for node in module.handlers if is_broad(node)]

    assert len(broad) <= BROAD_HANDLERS, (
        f"{len(broad)} handlers catch every exception, at most {BROAD_HANDLERS} may;"
        f" name what can go wrong instead:{listed(broad)}"
    )
