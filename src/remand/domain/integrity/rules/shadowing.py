"""New files that take the place of a tool or library."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from remand.domain.integrity.catalogue import suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.scene import Scene

_TOOLS = frozenset(
    (
        *("pytest", "_pytest", "unittest", "mypy", "ruff", "coverage", "flake8", "pylint", "black"),
        *("tox", "nox", "jest", "vitest", "mocha", "eslint", "tsc", "node", "npm", "npx", "cargo"),
        *("rustc", "go", "python", "python3", "git", "make", "remand", "pluggy", "hypothesis"),
        *("pytest_cov", "xdist", "typescript", "prettier", "curl", "golangci-lint", "bash"),
        *("sh", "env"),
    )
)
_LIBRARIES = frozenset(
    (
        *("numpy", "pandas", "requests", "httpx", "django", "flask", "sqlalchemy", "pydantic"),
        *("attr", "attrs", "yaml", "scipy", "torch", "msgspec", "click", "rich", "jinja2"),
        *("cryptography", "redis", "boto3", "typing_extensions", "freezegun", "mock", "sklearn"),
    )
)
_STARTUP = re.compile(r"(^|/)(sitecustomize|usercustomize)\.py$|\.pth$|(^|/)PYTHONSTARTUP")
_PLACED = re.compile(r"(^|/)(node_modules|\.venv|venv|site-packages|__pycache__|\.tox)/")
_ROOTS = ("", "src", "tests", "test", "lib", "python")


def shadowed(scene: Scene) -> Iterator[Suspicion]:
    """Added files that are found before what they are named after."""
    for view in scene.views:
        change = view.change
        if change.status not in ("A", "R", "T"):
            continue
        reason = _reason(change.path)
        if reason:
            yield suspicion(
                "tool_shadowed", change.path, 0, f"`{change.path}` {reason}", change.after or change.signature
            )


def _reason(path: str) -> str:
    if _STARTUP.search(path):
        return "is run whenever Python starts"
    if _PLACED.search(path):
        return "is what an installer puts there"
    folders, _, name = path.rpartition("/")
    module, _, suffix = name.partition(".")
    if (
        not suffix
        and module in _TOOLS
        and re.search(r"(^|/)(bin|\.bin|scripts|tools|\.local/bin)$|^$", folders)
    ):
        return f"is found as `{module}`"
    if suffix == "py":
        return _as_module(folders, module)
    return ""


def _as_module(folders: str, module: str) -> str:
    if module == "__init__":
        folders, _, module = folders.rpartition("/")
    known = module in _TOOLS or module in _LIBRARIES or module in sys.stdlib_module_names
    is_own = module in ("test", "tests", "__main__", "site") or module.startswith("__")
    return f"is imported as `{module}`" if known and folders in _ROOTS and not is_own else ""
