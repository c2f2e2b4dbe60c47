"""Python: pytest or unittest, ruff, mypy, and which of them a project uses."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from remand.adapters.projects.project import Project, proposal
from remand.domain.gate.gate import GatePreparation, GateProposal, GateProposals

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_LISTED = re.compile(r"(?:[^/]*requirements[^/]*\.txt|requirements/[^/]+\.(?:txt|in))")
_SCRIPTS = ("setup.py", "setup.cfg", "tox.ini", "noxfile.py", "Pipfile", ".pre-commit-config.yaml")
_DEPTH = 12


class PythonDependencies:
    """What a project's files say about its tools."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.settings = _toml(project.text("pyproject.toml"))
        self._tools = self.table("tool")
        self._required = {_plain(name) for name in _dependency_names(self.settings, is_inside=False, depth=0)}

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
        return self._requirement_evidence(tool)

    def _requirement_evidence(self, tool: str) -> str:
        for path in self._project.paths_matching(_LISTED):
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


def _dependency_names(value: object, *, is_inside: bool, depth: int) -> Iterator[str]:
    """The packages that are named under any key that speaks of dependencies, as lists or as tables."""
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if is_inside and isinstance(item, str | dict):
                yield key
            yield from _dependency_names(item, is_inside=is_inside or "dependenc" in key, depth=depth + 1)
    elif isinstance(value, list) and is_inside:
        for item in value:
            match = _REQUIREMENT.match(item) if isinstance(item, str) else None
            if match:
                yield match[1]


_TEST_FILE = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py")
_SOURCE_PACKAGE = re.compile(r"src/[^/]+/__init__\.py")
_LISTS = re.compile(r"[^/]*requirements[^/]*\.txt|requirements/[^/]+\.txt")
_ENVIRONMENTS = (".venv", "venv")
_MADE = "{cache}/venv"
_READ_TESTS = 50


class _Environment:
    """Where a project's interpreter and tools are: in its own environment, or in one made from its lock file."""

    def __init__(self, project: Project) -> None:
        own = next((name for name in _ENVIRONMENTS if project.has_folder(f"{name}/bin")), "")
        self.path = (f"{own}/bin",) if own else ()
        self.prepare = None if own else _prepare(project)

    @property
    def python(self) -> str:
        """The interpreter."""
        return f"{_MADE}/bin/python" if self.prepare else "python" if self.path else "python3"

    def tool(self, name: str) -> str:
        """A program of the environment."""
        return f"{_MADE}/bin/{name}" if self.prepare else name


def propose(project: Project) -> GateProposals:
    """Gates for the tools that the project has configured or depends on."""
    environment = _Environment(project)
    needs = PythonDependencies(project)
    found = [
        made
        for made in (
            _tests(project, needs, environment),
            _lint(needs, environment),
            _types(needs, environment),
        )
        if made is not None
    ]
    return GateProposals(gates=tuple(found), path=environment.path if found else ())


def _tests(project: Project, needs: PythonDependencies, environment: _Environment) -> GateProposal | None:
    tests = project.paths_matching(_TEST_FILE)
    if not tests:
        return None
    why = needs.evidence(
        "pytest",
        files=("pytest.toml", "pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py"),
        sections=("setup.cfg[tool:pytest]", "tox.ini[pytest]"),
    )
    if not why:
        return _unittest(project, tests, environment)
    command = (
        environment.python,
        "-m",
        "pytest",
        "-q",
        *_source_first(project, needs),
        "--junitxml={report}",
    )
    return proposal(
        "tests", command, "junit", why, require={"max_failures": 0.0}, prepare=environment.prepare
    )


def _unittest(project: Project, tests: list[str], environment: _Environment) -> GateProposal | None:
    if not any("unittest" in project.text(path) for path in tests[:_READ_TESTS]):
        return None
    folder = tests[0].rpartition("/")[0]
    is_package = not folder or f"{folder}/__init__.py" in project.paths
    where = () if is_package else ("-s", folder)
    command = (environment.python, "-m", "unittest", "discover", *where)
    if _has_source_folder(project):
        command = ("env", "PYTHONPATH=src", *command)
    why = f"{tests[0]} uses unittest"
    return proposal("tests", command, "exit", why, require={"max_errors": 0.0}, prepare=environment.prepare)


def _source_first(project: Project, needs: PythonDependencies) -> tuple[str, ...]:
    """Makes tests import the code that lies beside them, and not what is installed from another worktree."""
    says = "pythonpath" in str(needs.table("tool", "pytest")) or any(
        "pythonpath" in project.text(name) for name in ("pytest.toml", "pytest.ini", "setup.cfg", "tox.ini")
    )
    return () if says or not _has_source_folder(project) else ("-o", "pythonpath=src")


def _has_source_folder(project: Project) -> bool:
    return bool(project.paths_matching(_SOURCE_PACKAGE))


def _lint(needs: PythonDependencies, environment: _Environment) -> GateProposal | None:
    why = needs.evidence("ruff", files=("ruff.toml", ".ruff.toml"))
    if not why:
        return None
    command = (environment.tool("ruff"), "check", "--output-format", "json", ".")
    return proposal("lint", command, "ruff", why, require={"max_errors": 0.0}, prepare=environment.prepare)


def _types(needs: PythonDependencies, environment: _Environment) -> GateProposal | None:
    why = needs.evidence("mypy", files=("mypy.ini", ".mypy.ini"), sections=("setup.cfg[mypy]",))
    if not why:
        return None
    settings = needs.table("tool", "mypy")
    targets = () if settings.keys() & {"files", "packages", "modules"} else (".",)
    command = (environment.tool("mypy"), "--no-pretty", "--no-color-output", *targets)
    return proposal("types", command, "mypy", why, require={"max_errors": 0.0}, prepare=environment.prepare)


def _prepare(project: Project) -> GatePreparation | None:
    """How to make an environment from the lock file; the project itself is not installed into it."""
    if "uv.lock" in project.paths:
        line = f"UV_PROJECT_ENVIRONMENT='{_MADE}' uv sync --frozen --no-install-project --all-extras --all-groups"
        return GatePreparation(command=("sh", "-c", line), key=("uv.lock", "pyproject.toml"))
    make = f"python3 -m venv '{_MADE}'"
    if "poetry.lock" in project.paths:
        install = (
            f"VIRTUAL_ENV='{_MADE}' PATH='{_MADE}/bin':\"$PATH\" poetry install --no-root --no-interaction"
        )
        return GatePreparation(
            command=("sh", "-c", f"{make} && {install}"), key=("poetry.lock", "pyproject.toml")
        )
    listed = project.paths_matching(_LISTS)
    if not listed:
        return None
    wanted = " ".join(f"-r {shlex.quote(path)}" for path in listed)
    line = f"{make} && '{_MADE}/bin/python' -m pip install --disable-pip-version-check {wanted}"
    return GatePreparation(command=("sh", "-c", line), key=tuple(listed))
