"""Python: pytest or unittest, ruff and mypy, as far as a project uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from remand.adapters.projects.project import Project, proposal
from remand.adapters.projects.python_requirements import PythonRequirements, ini_sections, parse_toml
from remand.domain.gate.gate import GatePreparation, GateProposal, GateProposals

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_LISTED = re.compile(r"(?:[^/]*requirements[^/]*\.txt|requirements/[^/]+\.(?:txt|in))")
SCRIPTS = ("setup.py", "setup.cfg", "tox.ini", "noxfile.py", "Pipfile", ".pre-commit-config.yaml")
_DEPTH = 12


class PythonDependencies:
    """What a project's files say about its tools."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.settings = parse_toml(project.text("pyproject.toml"))
        self._tools = self.table("tool")
        self._required = {_plain(name) for name in _dependency_names(self.settings, is_inside=False, depth=0)}

    @property
    def declared_packages(self) -> frozenset[str]:
        """The packages on which the project declares to depend."""
        rows = (
            row
            for path in self._project.paths_matching(_LISTED)
            for row in self._project.text(path).splitlines()
        )
        listed = {_plain(match[1]) for row in rows if (match := _REQUIREMENT.match(row))}
        return frozenset(self._required | listed)

    def table(self, *keys: str) -> Mapping[str, Any]:
        """A table of pyproject.toml; empty if it is missing."""
        found: Any = self.settings
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def evidence(self, tool: str, *, files: tuple[str, ...] = (), sections: tuple[str, ...] = ()) -> str:
        """Why the project seems to use a tool: its own file, a table, a section or a dependency; empty if it
        does not.

        A section is written `file[name]`.
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
        return next((f"{path} names {tool}" for path in SCRIPTS if word.search(self._project.text(path))), "")


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _dependency_names(value: object, *, is_inside: bool, depth: int) -> Iterator[str]:
    """The packages under any key about dependencies, whether lists or tables."""
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


# The gates.

_TEST_FILE = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py")
_DJANGO_TEST_FILE = re.compile(r"(?:.*/)?test[^/]*\.py")
_DJANGO_TEST = re.compile(r"^from django\.(?:test|urls|core|contrib)\b", re.MULTILINE)
_DJANGO_SETTINGS = re.compile(
    r"""DJANGO_SETTINGS_MODULE["']?\s*[,=]\s*["']?([A-Za-z_][\w.]*)|--settings[= ]([A-Za-z_][\w.]*)"""
)
_DJANGO_FILES = (
    "manage.py",
    "tox.ini",
    "pyproject.toml",
    "setup.cfg",
    "Makefile",
    "runtests.py",
    "noxfile.py",
    "conftest.py",
)
_TARGETS = ("files", "packages", "modules")
_SOURCE_PACKAGE = re.compile(r"src/[^/]+/__init__\.py")
_PACKAGE = re.compile(r"[^/]+/__init__\.py")
_NO_CODE = re.compile(r"tests?|testing|docs?|examples?|benchmarks?|scripts?|tools?")
_ENVIRONMENTS = (".venv", "venv")
_MADE = "{cache}/venv"
SCRIPT = "{scripts}/python_environment.py"
_READ_TESTS = 50


class _Environment:
    """A project's interpreter and tools: in its own environment, or in one made from its declarations."""

    def __init__(self, project: Project, needs: PythonDependencies, tools: tuple[str, ...]) -> None:
        # An environment without a tool could not run that tool's gate.
        needed = [f"bin/{tool}" for tool in ("python", *tools)]
        environments = (
            name for name in _ENVIRONMENTS if all(project.has_program(f"{name}/{path}") for path in needed)
        )
        own = next(environments, "")
        self.path = (f"{own}/bin",) if own else ()
        self.prepare = None if own or not tools else _prepare(project, needs, tools)

    @property
    def python(self) -> str:
        """The interpreter."""
        return f"{_MADE}/bin/python" if self.prepare else "python"

    def tool(self, name: str) -> str:
        """A program of the environment."""
        return f"{_MADE}/bin/{name}" if self.prepare else name


def propose(project: Project) -> GateProposals:
    """Proposes gates for the tools that the project configures or depends on."""
    needs = PythonDependencies(project)
    django = _django_settings(project, needs)
    tests = project.paths_matching(_DJANGO_TEST_FILE if django else _TEST_FILE)
    reasons = {
        "pytest": _pytest_reason(project, needs, tests) if tests else "",
        "ruff": needs.evidence("ruff", files=("ruff.toml", ".ruff.toml")),
        "mypy": needs.evidence("mypy", files=("mypy.ini", ".mypy.ini"), sections=("setup.cfg[mypy]",)),
    }
    tools = tuple(tool for tool, why in reasons.items() if why)
    environment = _Environment(project, needs, tools)
    proposals: list[GateProposal] = []
    if reasons["pytest"]:
        proposals.append(_tests(project, needs, environment, tests, reasons["pytest"]))
    if reasons["ruff"]:
        command = (environment.tool("ruff"), "check", "--output-format", "json", ".")
        proposals.append(_check("lint", command, "ruff", reasons["ruff"], environment))
    if reasons["mypy"]:
        targets = _type_targets(project, needs)
        typing = (environment.tool("mypy"), "--no-pretty", "--no-color-output", *targets)
        proposals.append(_check("types", typing, "mypy", reasons["mypy"], environment))
    return GateProposals(gates=tuple(proposals), path=environment.path if proposals else ())


def _check(
    name: str, command: tuple[str, ...], parser: str, why: str, environment: _Environment
) -> GateProposal:
    return proposal(name, command, parser, why, require={"max_errors": 0.0}, prepare=environment.prepare)


def _pytest_reason(project: Project, needs: PythonDependencies, tests: list[str]) -> str:
    """Why to use pytest; it runs unittest's tests as well, and reports their number."""
    own = needs.evidence(
        "pytest",
        files=("pytest.toml", "pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py"),
        sections=("setup.cfg[tool:pytest]", "tox.ini[pytest]"),
    )
    if own:
        return own
    uses = next((path for path in tests[:_READ_TESTS] if "unittest" in project.text(path)), "")
    return f"{uses} uses unittest" if uses else f"{tests[0]} is there"


def _tests(
    project: Project,
    needs: PythonDependencies,
    environment: _Environment,
    tests: list[str],
    why: str,
) -> GateProposal:
    if environment.prepare is None and "uses unittest" in why:
        return _unittest(project, tests, environment, why)
    first = () if environment.prepare else _source_first(project, needs)
    django = _django_settings(project, needs) if environment.prepare else ""
    command = (
        environment.python,
        "-m",
        "pytest",
        "-q",
        "--continue-on-collection-errors",
        *first,
        *((f"--ds={django}", "-o", "python_files=test*.py") if django else ()),
        "--junitxml={report}",
    )
    return proposal(
        "tests", command, "junit", why, require={"max_failures": 0.0}, prepare=environment.prepare
    )


def _django_settings(project: Project, needs: PythonDependencies) -> str:
    """The settings module for Django's own test runner. Empty if pytest knows it, or it is no Django project."""
    if "pytest-django" in needs.declared_packages or "DJANGO_SETTINGS_MODULE" in str(
        needs.table("tool", "pytest")
    ):
        return ""
    tests = project.paths_matching(_DJANGO_TEST_FILE)[:_READ_TESTS]
    if not any(_DJANGO_TEST.search(project.text(path)) for path in tests):
        return ""
    named = (match for name in _DJANGO_FILES if (match := _DJANGO_SETTINGS.search(project.text(name))))
    found = next((match[1] or match[2] for match in named), "")
    own = project.first("tests/settings.py", "test_settings.py", "settings.py")
    return found or own.removesuffix(".py").replace("/", ".")


def _unittest(project: Project, tests: list[str], environment: _Environment, why: str) -> GateProposal:
    """Tests with the standard library alone, in a user's environment that may lack pytest."""
    folder = tests[0].rpartition("/")[0]
    is_package = not folder or f"{folder}/__init__.py" in project.paths
    where = () if is_package else ("-s", folder)
    command = (environment.python, "-m", "unittest", "discover", *where)
    if _has_source_folder(project):
        command = ("env", "PYTHONPATH=src", *command)
    return proposal("tests", command, "exit", why, require={"max_errors": 0.0})


def _source_first(project: Project, needs: PythonDependencies) -> tuple[str, ...]:
    """Makes tests import the code beside them, not what is installed from another worktree."""
    says = "pythonpath" in str(needs.table("tool", "pytest")) or any(
        "pythonpath" in project.text(name) for name in ("pytest.toml", "pytest.ini", "setup.cfg", "tox.ini")
    )
    return () if says or not _has_source_folder(project) else ("-o", "pythonpath=src")


def _has_source_folder(project: Project) -> bool:
    return bool(project.paths_matching(_SOURCE_PACKAGE))


def _type_targets(project: Project, needs: PythonDependencies) -> tuple[str, ...]:
    """What mypy checks: the existing paths in its settings, else the packages, because tests are seldom typed."""
    configured = {key: value for key, value in _mypy_settings(project, needs).items() if key in _TARGETS}
    if configured:
        files = configured.get("files", "")
        names = files if isinstance(files, list) else re.split(r"\s*,\s*", str(files).strip(" ,\n"))
        here = [name for name in map(str, names) if name and _is_there(project, name)]
        if len(here) == len(names) or "files" not in configured:
            return ()
        if here:
            return tuple(here)
    if _has_source_folder(project):
        return ("src",)
    packages = [path.partition("/")[0] for path in project.paths_matching(_PACKAGE)]
    return tuple(name for name in packages if not _NO_CODE.fullmatch(name)) or (".",)


def _mypy_settings(project: Project, needs: PythonDependencies) -> Mapping[str, Any]:
    """Mypy's settings, from the first file that it would read."""
    own = project.first("mypy.ini", ".mypy.ini")
    if own:
        return ini_sections(project.text(own)).get("mypy", {})
    return needs.table("tool", "mypy") or ini_sections(project.text("setup.cfg")).get("mypy", {})


def _is_there(project: Project, name: str) -> bool:
    """True for a pattern, and for a tracked file or folder."""
    plain = name.strip().removeprefix("./").rstrip("/")
    is_pattern = bool(set(name) & set("*?[$")) or plain in ("", ".")
    return is_pattern or plain in project.paths or any(path.startswith(f"{plain}/") for path in project.paths)


def _prepare(project: Project, needs: PythonDependencies, tools: tuple[str, ...]) -> GatePreparation:
    """How to create an environment from the lock file, or from the project's declarations."""
    requirements = PythonRequirements(project, needs.settings)
    declared = needs.declared_packages
    missing = [package for tool in tools for package in requirements.tool(tool, declared)]
    if "pytest" in tools:
        missing += requirements.plugins(declared) + requirements.undeclared_imports(declared)
        missing += ["pytest-django"] if _django_settings(project, needs) else []
    command = ("python3", SCRIPT, _MADE, *requirements.arguments(missing))
    return GatePreparation(command=command, key=requirements.key)
