"""Python: pytest or unittest, ruff, mypy."""

from __future__ import annotations

import re
import shlex

from remand.adapters.projects.project import Project, proposal
from remand.adapters.projects.python_needs import PythonNeeds
from remand.domain.gates.gate import Prepare
from remand.domain.gates.proposal import Proposal, Proposed

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


def propose(project: Project) -> Proposed:
    """Gates for the tools that the project has configured or depends on."""
    environment = _Environment(project)
    needs = PythonNeeds(project)
    found = [
        made
        for made in (
            _tests(project, needs, environment),
            _lint(needs, environment),
            _types(needs, environment),
        )
        if made is not None
    ]
    return Proposed(gates=tuple(found), path=environment.path if found else ())


def _tests(project: Project, needs: PythonNeeds, environment: _Environment) -> Proposal | None:
    tests = project.matching(_TEST_FILE)
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


def _unittest(project: Project, tests: list[str], environment: _Environment) -> Proposal | None:
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


def _source_first(project: Project, needs: PythonNeeds) -> tuple[str, ...]:
    """Makes tests import the code that lies beside them, and not what is installed from another worktree."""
    says = "pythonpath" in str(needs.table("tool", "pytest")) or any(
        "pythonpath" in project.text(name) for name in ("pytest.toml", "pytest.ini", "setup.cfg", "tox.ini")
    )
    return () if says or not _has_source_folder(project) else ("-o", "pythonpath=src")


def _has_source_folder(project: Project) -> bool:
    return bool(project.matching(_SOURCE_PACKAGE))


def _lint(needs: PythonNeeds, environment: _Environment) -> Proposal | None:
    why = needs.evidence("ruff", files=("ruff.toml", ".ruff.toml"))
    if not why:
        return None
    command = (environment.tool("ruff"), "check", "--output-format", "json", ".")
    return proposal("lint", command, "ruff", why, require={"max_errors": 0.0}, prepare=environment.prepare)


def _types(needs: PythonNeeds, environment: _Environment) -> Proposal | None:
    why = needs.evidence("mypy", files=("mypy.ini", ".mypy.ini"), sections=("setup.cfg[mypy]",))
    if not why:
        return None
    settings = needs.table("tool", "mypy")
    targets = () if settings.keys() & {"files", "packages", "modules"} else (".",)
    command = (environment.tool("mypy"), "--no-pretty", "--no-color-output", *targets)
    return proposal("types", command, "mypy", why, require={"max_errors": 0.0}, prepare=environment.prepare)


def _prepare(project: Project) -> Prepare | None:
    """How to make an environment from the lock file; the project itself is not installed into it."""
    if "uv.lock" in project.paths:
        line = f"UV_PROJECT_ENVIRONMENT='{_MADE}' uv sync --frozen --no-install-project --all-extras --all-groups"
        return Prepare(command=("sh", "-c", line), key=("uv.lock", "pyproject.toml"))
    make = f"python3 -m venv '{_MADE}'"
    if "poetry.lock" in project.paths:
        install = (
            f"VIRTUAL_ENV='{_MADE}' PATH='{_MADE}/bin':\"$PATH\" poetry install --no-root --no-interaction"
        )
        return Prepare(command=("sh", "-c", f"{make} && {install}"), key=("poetry.lock", "pyproject.toml"))
    listed = project.matching(_LISTS)
    if not listed:
        return None
    wanted = " ".join(f"-r {shlex.quote(path)}" for path in listed)
    line = f"{make} && '{_MADE}/bin/python' -m pip install --disable-pip-version-check {wanted}"
    return Prepare(command=("sh", "-c", line), key=tuple(listed))
