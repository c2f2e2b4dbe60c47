"""What a path says about a file (language, test, product, generated), and where symbolic links lead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from remand.domain.text.words import word_set

_LANGUAGES = {
    **dict.fromkeys(("py", "pyi", "pyw"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte"), "script"),
    **dict.fromkeys(("sh", "bash", "zsh", "bats"), "shell"),
    **dict.fromkeys(("yml", "yaml"), "yaml"),
    **dict.fromkeys(("kt", "kts"), "kotlin"),
    **dict.fromkeys(("c", "h", "cc", "cpp", "hpp", "cxx", "swift", "scala", "php", "dart"), "braced"),
    "rs": "rust",
    "go": "go",
    "java": "java",
    "cs": "csharp",
    "rb": "ruby",
    "toml": "toml",
    "json": "json",
    "ini": "ini",
    "cfg": "ini",
}
CODE = word_set("python script rust go java kotlin csharp ruby shell make braced")
_NAMED = {"makefile": "make", "gnumakefile": "make", "dockerfile": "docker", "justfile": "make"}

_TEST_FOLDERS = frozenset(("test", "tests", "__tests__", "spec", "specs", "e2e", "__snapshots__"))
_DATA_FOLDERS = frozenset(("testdata", "test_data", "__fixtures__"))
"""Folders with data that tests read."""
_TEST_NAMES = re.compile(
    r"test_.*\.py|.*_tests?\.py|tests\.py|conftest\.py|(.*[._-])?(test|spec)\.[cm]?[jt]sx?|.*[._-](cy|e2e)\.[cm]?[jt]sx?|.*_test\.go"
    r"|(Test.*|.*Tests?|.*TestCase|.*IT)\.(java|kt|cs)|.*_(spec|test)\.rb|.*\.bats|.*_test\.(rs|sh|exs?)"
)
_COLLECTED = re.compile(
    r"test.*\.py|.*_test\.py|(.*[._-])?(test|spec)\.[cm]?[jt]sx?|.*[._-](cy|e2e)\.[cm]?[jt]sx?|.*_test\.go|.*\.(rs|java|kt|cs|bats)"
    r"|.*_(spec|test)\.rb"
)
_FOREIGN = re.compile(
    r"[_.].*_test\.go|.*_(aix|android|darwin|dragonfly|freebsd|hurd|illumos|ios|js|nacl|netbsd|openbsd|plan9|solaris"
    r"|wasip1|windows|zos)(_\w+)?_test\.go"
)
"""Go tests that are never built on the gates' system."""
_GENERATED = re.compile(
    r"(^|/)(__generated__|generated|gen)/|_pb2(_grpc)?\.pyi?$|\.pb\.(go|cc|h)$|[._](generated|gen)\.[a-z]+$"
    r"|\.(designer|g)\.(cs|dart)$|(^|/)(package-lock\.json|npm-shrinkwrap\.json|.*\.lock|pnpm-lock\.yaml"
    r"|go\.sum|uv\.lock|.*requirements.*\.txt)$|\.snap$|\.map$"
)
_EXPECTATION = re.compile(
    r"(^|/)(__snapshots__|snapshots?|goldens?|expected|approved)/|\.(snap|ambr|golden|approved|expected)(\.[a-z]+)?$"
    r"|(^|[/._-])(golden|expected|approved|snapshot)\.[a-z]+$"
)
_SETS_UP = re.compile(
    r"(^|/)[\w.-]*(test|jest|vitest|mocha|e2e|spec)[\w.-]*setup[\w.-]*\.[cm]?[jt]sx?$"
    r"|(^|/)setup[\w.-]*(test|jest|vitest|mocha|e2e|spec)[\w.-]*\.[cm]?[jt]sx?$",
    re.IGNORECASE,
)
_NOT_PRODUCT = re.compile(
    r"(^|/)(docs?|examples?|scripts|tools|bin|benchmarks?|testing|\.github|ci|build|hack)/|(^|/)(setup|noxfile|manage"
    r"|__main__)\.py$|^tasks\.py$|(^|/)[\w.-]+\.(config|conf|setup)\.[cm]?[jt]s$|(^|/)(gulpfile|gruntfile|wscript)"
)


def language_of(path: str) -> str:
    """The language of a file; empty if no reader knows it."""
    name = path.rpartition("/")[2].lower()
    if name.startswith("dockerfile"):
        return "docker"
    return _NAMED.get(name) or _LANGUAGES.get(name.rpartition(".")[2] if "." in name else "", "")


def is_test_path(path: str, patterns: tuple[str, ...] = ()) -> bool:
    """True for tests and files beside them."""
    folders, _, name = path.rpartition("/")
    if any(folder in _TEST_FOLDERS | _DATA_FOLDERS for folder in folders.lower().split("/")):
        return True
    return bool(_TEST_NAMES.fullmatch(name)) or matches_any(path, patterns)


def is_source_path(path: str) -> bool:
    """True for the product's own code: neither test nor generated."""
    return language_of(path) in CODE - {"make"} and not is_test_path(path) and not is_generated_path(path)


def is_product_path(path: str) -> bool:
    """True for code that is neither test, script, build step nor configuration."""
    return is_source_path(path) and not _NOT_PRODUCT.search(path)


def is_collected_path(path: str, patterns: tuple[str, ...] = ()) -> bool:
    """True if runners collect tests in a file of that name."""
    folders, _, name = path.rpartition("/")
    if _FOREIGN.fullmatch(name):
        return False
    if matches_any(path, patterns) or _COLLECTED.fullmatch(name):
        return True
    return language_of(path) == "script" and any(
        folder in _TEST_FOLDERS - {"__snapshots__"} for folder in folders.split("/")
    )


def is_in_test_folder(path: str) -> bool:
    """True if a folder in the path is named as one for tests."""
    return any(folder in _TEST_FOLDERS for folder in path.lower().split("/")[:-1])


def is_test_setup_path(path: str) -> bool:
    """True for a script that a runner loads before its tests."""
    return bool(_SETS_UP.search(path))


def is_generated_path(path: str) -> bool:
    """True for generated files: lock files, generated code, snapshots."""
    return bool(_GENERATED.search(path))


def is_packed_path(path: str) -> bool:
    """True for a script without layout and names, made for browsers to load."""
    return re.search(r"\.min\.[cm]?js$", path) is not None


def is_benchmark_path(path: str) -> bool:
    """True for a file that only measures durations."""
    return re.search(r"(^|/)(bench\w*|perf)/|bench(marks?)?[._]|_bench\.|[._]bench\b", path) is not None


def is_expectation_path(path: str) -> bool:
    """True for a file of recorded results with which tests compare."""
    return bool(_EXPECTATION.search(path))


def matches_any(path: str, patterns: tuple[str, ...]) -> bool:
    """True if a pattern matches the path or its name."""
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path, pattern) or fnmatchcase(name, pattern) for pattern in patterns)


MAX_HOPS = 40
"""How many links Linux follows in one path."""
MAX_TARGET = 4096
MAX_DEPTH = 200
"""Depth of a tree below which nothing is looked up."""
MAX_PARTS = 1000
"""How many parts of paths are followed for one path, because links to links multiply."""
_ABSOLUTE = re.compile(r"/|~[^/]*/|~$|[A-Za-z]:")
OUTSIDE = "out of the repository"
CONTROL = "into a folder of git or of the ledger"
CIRCLE = "back to itself"
UNREADABLE = "nowhere that can be read"


class LinkDestination(NamedTuple):
    """Where a path leads once every link in it is followed."""

    path: str
    """Relative to the repository's root, which is empty; for a path outside, as far as it was followed."""
    problem: str = ""
    """Why a link must not lead there; empty for a path in the repository, whether or not it exists."""


def follow_links(path: str, links: Mapping[str, str]) -> LinkDestination:
    """Follows a path through links, given as the target of each by its path."""
    rest = _path_parts(path)
    place: list[str] = []
    hops = parts = 0
    while rest:
        part = rest.pop()
        parts += 1
        if parts > MAX_PARTS:
            return LinkDestination(path, UNREADABLE)
        if part == "..":
            if not place:
                return LinkDestination("/".join(("..", *reversed(rest))), OUTSIDE)
            place.pop()
            continue
        place.append(part)
        target = links.get("/".join(place)) if len(place) <= MAX_DEPTH else None
        if target is None:
            continue
        hops += 1
        problem = CIRCLE if hops > MAX_HOPS else _target_problem(target)
        if problem:
            return LinkDestination("/".join((target.rstrip("/"), *reversed(rest))), problem)
        place.pop()
        rest += _path_parts(target)
    is_control = any(part.lower() in (".git", "git~1") for part in place) or (
        bool(place) and place[0].lower() == ".got"
    )
    return LinkDestination("/".join(place), CONTROL if is_control else "")


def _path_parts(path: str) -> list[str]:
    """The parts of a path, last first, for slashes and backslashes."""
    return [part for part in reversed(path.replace("\\", "/").split("/")) if part not in ("", ".")]


def _target_problem(target: str) -> str:
    if not target.strip() or len(target) > MAX_TARGET or "\0" in target:
        return UNREADABLE
    return OUTSIDE if _ABSOLUTE.match(target.replace("\\", "/")) else ""
