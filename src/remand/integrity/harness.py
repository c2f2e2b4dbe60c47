"""The files that control gates: which of them a run takes from the base, and which from the head."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from remand.domain.text.words import word_list
from remand.integrity.comparison import Comparison
from remand.integrity.paths import is_test_path, language_of
from remand.integrity.readers.command_lines import is_pipeline_path
from remand.integrity.readers.configuration import configured_tool
from remand.integrity.suspicions import Suspicion, Weight

MIXED = ("pyproject.toml", "package.json", "setup.cfg", "tox.ini", "Cargo.toml")
"""Files that control tools and also describe the project and its dependencies."""
_STEERING_FILE = re.compile(
    r"(^|/)(conftest\.py|noxfile\.py|GNUmakefile|[Mm]akefile|[Jj]ustfile|\.pre-commit-config\.yaml|\.gitattributes"
    r"|\.gitmodules|remand\.toml|\.bandit|\.shellcheckrc|sitecustomize\.py|usercustomize\.py|[\w.-]+\.pth|\.env(\.test)?)$"
    r"|(^|/)\.(claude|codex|cursor|gemini|qwen|openhands|husky|githooks)/"
)
_NEVER_NEW = re.compile(r"(^|/)((site|user)customize\.py|[\w.-]+\.pth|\.?pytest\.(ini|toml)|\.env(\.test)?)$")
"""Control files that a run leaves out if the base has none."""
_TABLE = re.compile(r"^[ \t]*\[+[ \t]*([^\]\n]{1,200}?)[ \t]*\]+[ \t]*(?:#.*)?$", re.MULTILINE)
_TOOLS = re.compile(
    r"tool\.(pytest|ruff|mypy|coverage|pylint|flake8|pyright|basedpyright|black|isort|tox|nox|poe|pdm\.scripts|hatch\.envs"
    r"|taskipy|bandit|pyrefly|ty|importlinter)\b|tool:pytest|pytest|mypy(-.*)?|coverage:.*|flake8|pylint.*|testenv.*|tox"
    r"|lints\b.*|workspace\.lints\b.*"
)
_PACKAGE_KEYS = word_list("scripts jest eslintConfig vitest mocha nyc c8 ava lint-staged husky stylelint")


_SUPPORT_PATH = re.compile(
    r"(^|/)(__mocks__|test[-_]?(utils?|helpers?|support|kit))(/|(\.\w+)?\.([cm]?[jt]sx?|go|rs)$)",
    re.IGNORECASE,
)
_SUPPORT_TEXTS = {
    "script": re.compile(
        r"""(?:\bfrom|\bimport|\brequire\()\s*["'](?:vitest|@jest/globals|chai|node:test|@testing-library/[\w-]+)["']"""
        r"""|(?<![\w.$])expect\([^;\n]*\)\s*\.(?:not\.|resolves\.|rejects\.)?to[A-Z]\w+\("""
    ),
    "go": re.compile(r"\*testing\.[TBF]\b|\btesting\.TB\b"),
    "rust": re.compile(r"^\s*#!\[cfg\(test\)\]", re.MULTILINE),
}
_OWN_TESTS = "import.meta.vitest"
"""In a file of the product that holds its own tests."""


def supports_tests(path: str, text: str) -> bool:
    """True for a file of JavaScript, TypeScript, Go or Rust that serves tests alone, wherever it lies: it asserts for them, or says so."""
    pattern = _SUPPORT_TEXTS.get(language_of(path))
    if pattern is None or is_test_path(path):
        return False
    return bool(_SUPPORT_PATH.search(path)) or (_OWN_TESTS not in text and pattern.search(text) is not None)


def is_steering_path(path: str) -> bool:
    """True for a file that only controls how gates run and what they require."""
    if path.rpartition("/")[2] in MIXED:
        return False
    return bool(_STEERING_FILE.search(path)) or bool(configured_tool(path)) or is_pipeline_path(path)


def harness_paths(
    paths_base: Iterable[str], paths_head: Iterable[str], *, trusted: Collection[str] = ()
) -> tuple[str, ...]:
    """The control files that a run takes from the base; those that the base lacks are left out.

    New control files stay (such as a `conftest.py` in a new folder), except those that Python or pytest would
    prefer to the base's own. Trusted ones stay as in the head.
    """
    base, head = set(paths_base), set(paths_head)
    taken = {path for path in base if is_steering_path(path)}
    taken |= {path for path in head - base if _NEVER_NEW.search(path)}
    return tuple(sorted(taken - set(trusted)))


def trusted_paths(comparison: Comparison, suspicions: Iterable[Suspicion]) -> frozenset[str]:
    """Changed test harnesses without suspicions: new tests may need their new fixtures."""
    doubted = {item.path for item in suspicions if item.weight is Weight.HELD}
    changed = (change.path for change in comparison.changes if change.status != "D")
    return frozenset(path for path in changed if path.endswith("conftest.py") and path not in doubted)


def mixed_paths(paths_base: Iterable[str], paths_head: Iterable[str]) -> tuple[str, ...]:
    """The files of both sides that are merged."""
    both = set(paths_base) & set(paths_head)
    return tuple(sorted(path for path in both if path.rpartition("/")[2] in MIXED))


def merge_configuration(path: str, before: bytes, after: bytes) -> bytes | None:
    """The head's file with all control settings from the base; None if only the base's file is possible."""
    old, new = before.decode("utf-8", "replace"), after.decode("utf-8", "replace")
    if path.rpartition("/")[2] == "package.json":
        return _merge_package(old, new)
    if not _TABLE.search(new):
        return None
    kept = [block for name, block in _toml_tables(new) if not _TOOLS.match(name)]
    restored = [block for name, block in _toml_tables(old) if _TOOLS.match(name)]
    return "".join((*kept, *restored)).encode()


def _toml_tables(text: str) -> list[tuple[str, str]]:
    """The tables of a TOML or INI text with their names; the part before the first has an empty name."""
    text = text if text.endswith("\n") or not text else f"{text}\n"
    starts = [(match.start(), match[1].strip("\"' ")) for match in _TABLE.finditer(text)]
    places = [*(place for place, _ in starts), len(text)]
    head = [("", text[: places[0]])] if places[0] else []
    return head + [(name, text[place : places[at + 1]]) for at, (place, name) in enumerate(starts)]


def _merge_package(old: str, new: str) -> bytes | None:
    try:
        before, after = json.loads(old), json.loads(new)
    except (ValueError, RecursionError):
        return None
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None
    for key in _PACKAGE_KEYS:
        after.pop(key, None)
    after |= {key: before[key] for key in _PACKAGE_KEYS if key in before}
    return json.dumps(after, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
