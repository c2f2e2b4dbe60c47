"""Python: pytest or unittest, ruff, mypy, and which of them a project uses."""

from __future__ import annotations

import ast
import configparser
import re
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

    @property
    def declared_packages(self) -> frozenset[str]:
        """The packages that the project's files depend on."""
        rows = (
            row
            for path in self._project.paths_matching(_LISTED)
            for row in self._project.text(path).splitlines()
        )
        listed = {_plain(match[1]) for row in rows if (match := _REQUIREMENT.match(row))}
        return frozenset(self._required | listed)

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


# What the tests and checkers need, wherever the project says it.

_WANTED = frozenset(
    [
        "test",
        "tests",
        "testing",
        "pytest",
        "unittest",
        "dev",
        "devel",
        "develop",
        "development",
        "lint",
        "linting",
        "linters",
        "type",
        "types",
        "typing",
        "typecheck",
        "typechecks",
        "typechecking",
        "mypy",
        "check",
        "checks",
        "ci",
        "qa",
    ]
)
_UNWANTED = frozenset(
    [
        "doc",
        "docs",
        "documentation",
        "release",
        "publish",
        "build",
        "bench",
        "benchmark",
        "benchmarks",
        "update",
    ]
)
_REQUIREMENT_FILES = re.compile(
    r"[^/]*requirements[^/]*\.txt|requirements/[^/]+\.txt|tests?/requirements[^/]*\.txt"
)
_NAME_END = re.compile(r"[^A-Za-z0-9._-]")
_PLUGINS = {
    "--cov": "pytest-cov",
    "--timeout": "pytest-timeout",
    "--benchmark": "pytest-benchmark",
    "asyncio_mode": "pytest-asyncio",
    "-n auto": "pytest-xdist",
    "--numprocesses": "pytest-xdist",
    "--randomly": "pytest-randomly",
}
"""Settings of pytest that only a plug-in understands."""
_HOOKS = {"ruff": "ruff-pre-commit", "mypy": "mirrors-mypy"}
"""The repositories from which pre-commit takes a tool."""
_INSTALLABLE = ("setup.py", "setup.cfg", "pyproject.toml")
MAX_PACKAGES = 60


def is_wanted(name: str) -> bool:
    """True for the name of a group, an extra or a file that is about tests or checkers."""
    parts = set(re.split(r"[-_.\s/]+", name.lower()))
    return bool(parts & _WANTED) and not parts & _UNWANTED


def requirement_name(requirement: str) -> str:
    """The package that a requirement names, as indexes compare it."""
    return re.sub(r"[-_.]+", "-", _NAME_END.split(requirement.strip(), maxsplit=1)[0]).lower()


class PythonRequirements:
    """What to install for the gates of a project, as arguments of `python_environment.py`."""

    def __init__(self, project: Project, settings: Mapping[str, Any]) -> None:
        self._project = project
        self._settings = settings
        self.lock = project.first("uv.lock", "poetry.lock", "pdm.lock")
        self.groups = [
            name for name in self._group_names() if is_wanted(name) or name in ("default", "hatch-test")
        ]
        self.extras = [name for name in self._extra_names() if is_wanted(name)]
        self.files = self._requirement_files()
        self.packages: list[str] = []
        self._add_from_tox()
        self._add_from_nox()
        self.extras = list(dict.fromkeys(self.extras))
        self.files = list(dict.fromkeys(path for path in self.files if path in project.paths))

    @property
    def key(self) -> tuple[str, ...]:
        """The files that decide what is installed."""
        named = (*_INSTALLABLE, self.lock, *self.files)
        return tuple(path for path in dict.fromkeys(named) if path in self._project.paths)

    def arguments(self, tools: list[str]) -> list[str]:
        """The script's arguments, with the tools of gates that nothing declares."""
        packages = [*self.packages[:MAX_PACKAGES], *tools]
        return [
            *(["--lock", self.lock] if self.lock else []),
            *(word for name in self.groups for word in ("--group", name)),
            *(word for name in self.extras for word in ("--extra", name)),
            *(word for path in self.files for word in ("--requirements", path)),
            *(word for package in dict.fromkeys(packages) for word in ("--with", package)),
            *([] if self.is_package else ["--no-project"]),
        ]

    @property
    def is_package(self) -> bool:
        """True when the project can be installed."""
        poetry = _at(self._settings, "tool", "poetry")
        if poetry and poetry.get("package-mode") is False:
            return False
        has_metadata = "[metadata]" in self._project.text("setup.cfg")
        return "build-system" in self._settings or "setup.py" in self._project.paths or has_metadata

    def tool(self, name: str, declared: frozenset[str]) -> list[str]:
        """A tool to install besides what is declared: in pre-commit's version where that names one."""
        if name in declared | {requirement_name(package) for package in self.packages}:
            return []
        rev, more = _pre_commit_hook(self._project.text(".pre-commit-config.yaml"), _HOOKS.get(name, "?"))
        return [f"{name}=={rev}" if rev else name, *more]

    def plugins(self, declared: frozenset[str]) -> list[str]:
        """Plug-ins of pytest that its settings need and nothing declares."""
        names = ("pytest.ini", "pytest.toml", "setup.cfg", "tox.ini")
        text = str(_at(self._settings, "tool", "pytest")) + "".join(map(self._project.text, names))
        found = [plugin for word, plugin in _PLUGINS.items() if word in text]
        return [plugin for plugin in dict.fromkeys(found) if plugin not in declared]

    def _group_names(self) -> Iterator[str]:
        settings = self._settings
        yield from _at(settings, "dependency-groups")
        yield from _at(settings, "tool", "pdm", "dev-dependencies")
        poetry = _at(settings, "tool", "poetry")
        yield from _at(poetry, "group")
        yield from ["dev"] if "dev-dependencies" in poetry else []
        yield from _at(settings, "tool", "hatch", "envs")

    def _extra_names(self) -> Iterator[str]:
        settings = self._settings
        yield from _at(settings, "project", "optional-dependencies")
        yield from _at(settings, "tool", "poetry", "extras")
        yield from _at(settings, "tool", "flit", "metadata", "requires-extra")
        yield from _ini(self._project.text("setup.cfg")).get("options.extras_require", {})
        for keyword in _setup_keywords(self._project.text("setup.py")):
            if keyword.arg == "extras_require" and isinstance(keyword.value, ast.Dict):
                yield from (str(key.value) for key in keyword.value.keys if isinstance(key, ast.Constant))

    def _requirement_files(self) -> list[str]:
        found = self._project.paths_matching(_REQUIREMENT_FILES)
        plain = [path for path in found if re.fullmatch(r"(?:requirements/)?requirements\.txt", path)]
        return plain + [
            path for path in found if is_wanted(path.removeprefix("requirements/").removesuffix(".txt"))
        ]

    def _add_from_tox(self) -> None:
        text = self._project.text("tox.ini") or str(
            _at(self._settings, "tool", "tox").get("legacy_tox_ini", "")
        )
        base = _ini(text).get("testenv", {})
        for row in base.get("deps", "").splitlines():
            self._add(row.strip())
        self.extras += [
            name for name in re.split(r"[\s,]+", base.get("extras", "")) if re.fullmatch(r"[\w-]+", name)
        ]
        known = set(_at(self._settings, "dependency-groups"))
        wanted = re.split(r"[\s,]+", base.get("dependency_groups", ""))
        self.groups += [name for name in wanted if name in known and name not in self.groups]

    def _add_from_nox(self) -> None:
        """What sessions about tests install, as far as it is written there word by word."""
        tree = _parse(self._project.text("noxfile.py"))
        sessions = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and is_wanted(node.name)
        ]
        calls = [node for session in sessions for node in ast.walk(session) if isinstance(node, ast.Call)]
        for call in calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr == "install":
                constants = [word.value for word in call.args if isinstance(word, ast.Constant)]
                words = [word for word in constants if isinstance(word, str)]
                for before, word in zip(["", *words], words, strict=False):
                    self._add(f"-r {word}" if before in ("-r", "--requirement") else word)

    def _add(self, requirement: str) -> None:
        """Takes one requirement of a tool's settings in; what holds for some environments alone is left out."""
        file = re.fullmatch(r"(?:-r|--requirement)[ =]?\s*(\S+)", requirement)
        own = re.fullmatch(r"(?:-e\s*)?\.\[([\w, -]+)\]", requirement)
        if file:
            self.files.append(file[1].removeprefix("./"))
        elif own:
            self.extras += [name.strip() for name in own[1].split(",")]
        elif re.fullmatch(r"[A-Za-z0-9][\w.-]*(?:\[[\w, -]+\])?(?:[<>=!~][^:{}]*)?", requirement):
            self.packages.append(requirement.replace(" ", ""))


def _at(settings: Any, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings if isinstance(settings, dict) else {}


def _ini(text: str) -> Mapping[str, Mapping[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    return {name: dict(parser.items(name)) for name in parser.sections()}


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _setup_keywords(text: str) -> Iterator[ast.keyword]:
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Call) and "setup" in (
            getattr(node.func, "id", ""),
            getattr(node.func, "attr", ""),
        ):
            yield from node.keywords


def _pre_commit_hook(text: str, repository: str) -> tuple[str, list[str]]:
    """The version of a tool that pre-commit runs, and the packages it installs beside it."""
    parts = re.split(r"^\s*-\s*repo:", text, flags=re.MULTILINE)
    for part in parts[1:]:
        rev = re.search(r"^\s*rev:\s*[\"']?v?([0-9][\w.]*)", part, re.MULTILINE)
        if rev and part.partition("\n")[0].strip().rstrip("\"'/").endswith(f"/{repository}"):
            rows = re.search(r"additional_dependencies:\s*(\[[^\]]*\]|(?:\n\s+-[^\n]*)+)", part)
            words = (
                re.findall(r"[\"']?([A-Za-z][\w.\[\]-]*(?:[<>=!~]=?[\w.*]+)?)[\"']?", rows[1]) if rows else []
            )
            return rev[1], words[:MAX_PACKAGES]
    return "", []


# The gates.

_TEST_FILE = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py")
_SOURCE_PACKAGE = re.compile(r"src/[^/]+/__init__\.py")
_PACKAGE = re.compile(r"[^/]+/__init__\.py")
_NO_CODE = re.compile(r"tests?|testing|docs?|examples?|benchmarks?|scripts?|tools?")
_ENVIRONMENTS = (".venv", "venv")
_MADE = "{cache}/venv"
_SCRIPT = "{scripts}/python_environment.py"
_READ_TESTS = 50


class _Environment:
    """Where a project's interpreter and tools are: in its own environment, or in one made from what it declares."""

    def __init__(self, project: Project, needs: PythonDependencies, tools: tuple[str, ...]) -> None:
        own = next((name for name in _ENVIRONMENTS if project.has_folder(f"{name}/bin")), "")
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
    """Gates for the tools that the project has configured or depends on."""
    needs = PythonDependencies(project)
    tests = project.paths_matching(_TEST_FILE)
    reasons = {
        "pytest": _pytest_reason(project, needs, tests) if tests else "",
        "ruff": needs.evidence("ruff", files=("ruff.toml", ".ruff.toml")),
        "mypy": needs.evidence("mypy", files=("mypy.ini", ".mypy.ini"), sections=("setup.cfg[mypy]",)),
    }
    tools = tuple(tool for tool, why in reasons.items() if why)
    environment = _Environment(project, needs, tools)
    found: list[GateProposal] = []
    if reasons["pytest"]:
        found.append(_tests(project, needs, environment, tests, reasons["pytest"]))
    if reasons["ruff"]:
        command = (environment.tool("ruff"), "check", "--output-format", "json", ".")
        found.append(_check("lint", command, "ruff", reasons["ruff"], environment))
    if reasons["mypy"]:
        targets = _type_targets(project, needs)
        typing = (environment.tool("mypy"), "--no-pretty", "--no-color-output", *targets)
        found.append(_check("types", typing, "mypy", reasons["mypy"], environment))
    return GateProposals(gates=tuple(found), path=environment.path if found else ())


def _check(
    name: str, command: tuple[str, ...], parser: str, why: str, environment: _Environment
) -> GateProposal:
    return proposal(name, command, parser, why, require={"max_errors": 0.0}, prepare=environment.prepare)


def _pytest_reason(project: Project, needs: PythonDependencies, tests: list[str]) -> str:
    """What speaks for pytest; it runs tests of unittest as well, and tells how many there are."""
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
    project: Project, needs: PythonDependencies, environment: _Environment, tests: list[str], why: str
) -> GateProposal:
    if environment.prepare is None and "uses unittest" in why:
        return _unittest(project, tests, environment, why)
    first = () if environment.prepare else _source_first(project, needs)
    command = (
        environment.python,
        "-m",
        "pytest",
        "-q",
        "--continue-on-collection-errors",
        *first,
        "--junitxml={report}",
    )
    return proposal(
        "tests", command, "junit", why, require={"max_failures": 0.0}, prepare=environment.prepare
    )


def _unittest(project: Project, tests: list[str], environment: _Environment, why: str) -> GateProposal:
    """Tests by the standard library alone, in an environment of the user's that may have no pytest."""
    folder = tests[0].rpartition("/")[0]
    is_package = not folder or f"{folder}/__init__.py" in project.paths
    where = () if is_package else ("-s", folder)
    command = (environment.python, "-m", "unittest", "discover", *where)
    if _has_source_folder(project):
        command = ("env", "PYTHONPATH=src", *command)
    return proposal("tests", command, "exit", why, require={"max_errors": 0.0})


def _source_first(project: Project, needs: PythonDependencies) -> tuple[str, ...]:
    """Makes tests import the code that lies beside them, and not what is installed from another worktree."""
    says = "pythonpath" in str(needs.table("tool", "pytest")) or any(
        "pythonpath" in project.text(name) for name in ("pytest.toml", "pytest.ini", "setup.cfg", "tox.ini")
    )
    return () if says or not _has_source_folder(project) else ("-o", "pythonpath=src")


def _has_source_folder(project: Project) -> bool:
    return bool(project.paths_matching(_SOURCE_PACKAGE))


def _type_targets(project: Project, needs: PythonDependencies) -> tuple[str, ...]:
    """What mypy checks where its settings do not say: the packages, as tests are seldom typed."""
    if needs.table("tool", "mypy").keys() & {"files", "packages", "modules"}:
        return ()
    if re.search(
        r"^(?:files|packages|modules)\s*=", project.text(project.first("mypy.ini", ".mypy.ini")), re.MULTILINE
    ):
        return ()
    if _has_source_folder(project):
        return ("src",)
    packages = [path.partition("/")[0] for path in project.paths_matching(_PACKAGE)]
    return tuple(name for name in packages if not _NO_CODE.fullmatch(name)) or (".",)


def _prepare(project: Project, needs: PythonDependencies, tools: tuple[str, ...]) -> GatePreparation:
    """How to make an environment from the lock file, or from whatever the project declares."""
    requirements = PythonRequirements(project, needs.settings)
    declared = needs.declared_packages
    missing = [package for tool in tools for package in requirements.tool(tool, declared)]
    if "pytest" in tools:
        missing += requirements.plugins(declared)
    command = ("python3", _SCRIPT, _MADE, *requirements.arguments(missing))
    return GatePreparation(command=command, key=requirements.key)
