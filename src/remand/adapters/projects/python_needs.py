"""Which tools a Python project has configured, or depends on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from remand.adapters.projects.project import Project

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_LISTED = re.compile(r"(?:[^/]*requirements[^/]*\.txt|requirements/[^/]+\.(?:txt|in))")
_SCRIPTS = ("setup.py", "setup.cfg", "tox.ini", "noxfile.py", "Pipfile", ".pre-commit-config.yaml")
_DEPTH = 12


class PythonNeeds:
    """What a project's files say about its tools."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.settings = _toml(project.text("pyproject.toml"))
        self._tools = self.table("tool")
        self._required = {_plain(name) for name in _named(self.settings, is_inside=False, depth=0)}

    def table(self, *keys: str) -> Mapping[str, Any]:
        """A table of pyproject.toml; empty when it has none."""
        found: Any = self.settings
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def evidence(self, tool: str, *, files: tuple[str, ...] = (), sections: tuple[str, ...] = ()) -> str:
        """What speaks for a tool: its own file, table or section, or that it is depended on; empty for nothing.

        A section is named as `file[name]`.
        """
        if own := self._project.first(*files):
            return f"{own} is there"
        if tool in self._tools:
            return f"pyproject.toml has [tool.{tool}]"
        for section in sections:
            file, _, name = section.rstrip("]").partition("[")
            if re.search(rf"^\[{re.escape(name)}\]", self._project.text(file), re.MULTILINE):
                return f"{file} has [{name}]"
        if tool in self._required:
            return f"pyproject.toml depends on {tool}"
        return self._listed(tool)

    def _listed(self, tool: str) -> str:
        for path in self._project.matching(_LISTED):
            rows = self._project.text(path).splitlines()
            if any((match := _REQUIREMENT.match(row)) and _plain(match[1]) == tool for row in rows):
                return f"{path} lists {tool}"
        word = re.compile(rf"(?<![\w-]){re.escape(tool)}(?![\w])")
        return next(
            (f"{path} names {tool}" for path in _SCRIPTS if word.search(self._project.text(path))), ""
        )


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _named(value: object, *, is_inside: bool, depth: int) -> Iterator[str]:
    """The packages that are named under any key that speaks of dependencies, as lists or as tables."""
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if is_inside and isinstance(item, str | dict):
                yield key
            yield from _named(item, is_inside=is_inside or "dependenc" in key, depth=depth + 1)
    elif isinstance(value, list) and is_inside:
        for item in value:
            match = _REQUIREMENT.match(item) if isinstance(item, str) else None
            if match:
                yield match[1]
