"""What a Python project's tests and checkers need, wherever the project declares it."""

from __future__ import annotations

import ast
import configparser
import posixpath
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from remand.adapters.projects.project import Project

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
"""Pytest settings that only a plug-in understands."""
_HOOKS = {"ruff": "ruff-pre-commit", "mypy": "mirrors-mypy"}
"""The repositories from which pre-commit installs a tool."""
_HOOK_PACKAGE = re.compile(r"(?<![\w.=<>~!-])([A-Za-z][\w.-]*(?:\[[\w,-]+\])?(?:[<>=!~]=?[\w.*]+)?)")
_HATCH_PARTS = ("features", "dependency-groups")
PIPFILE_GROUPS = ("packages", "dev-packages")
_INSTALLABLE = ("setup.py", "setup.cfg", "pyproject.toml")
MAX_PACKAGES = 60
_WHOLE_EXTRAS = ("all", "full", "complete")
_INCLUDED_FILE = re.compile(r"^(?:-r|-c|--requirement|--constraint)[ =]?\s*(\S+)", re.MULTILINE)
_MAX_FILES = 40
_TEST_CODE = re.compile(
    r"(?:.*/)?(?:tests?|testing)/.*\.py|(?:.*/)?(?:conftest|tests?|test_[^/]*|[^/]*_test)\.py"
)
_READ_TESTS = 400
_IMPORT = re.compile(r"^(?:from|import) +([A-Za-z_]\w*)", re.MULTILINE)
_WARNING = re.compile(r"\b([a-z_]\w*)\.\w*(?:Warning|Error)\b")
_KNOWN_NAMES = """
aiohttp anyio boto3 brotli cbor2 cffi chardet click coverage cryptography ddt dirty-equals django
docutils ephemeral-port-reserve faker fastapi flask freezegun gevent greenlet h2 httpx hypothesis
inline-snapshot jinja2 jsonschema lxml markupsafe mock moto msgspec numpy orjson packaging pandas
parameterized pexpect pluggy pretend psutil pydantic pyfakefs pytest-asyncio pytest-httpserver
pytest-mock pytz requests requests-mock respx responses rich setuptools simplejson six socksio
sqlalchemy sure syrupy testfixtures testpath time-machine toml tomli tomli-w tornado trio trustme
twisted typing-extensions ujson uvicorn uvloop virtualenv webtest werkzeug wheel zstandard
"""
_KNOWN = {name.replace("-", "_"): name for name in _KNOWN_NAMES.split()} | {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "dateutil": "python-dateutil",
    "factory": "factory-boy",
    "PIL": "pillow",
    "xdist": "pytest-xdist",
    "yaml": "pyyaml",
}
"""By import name: packages that tests often use and that may be installed although nothing declares them.

This is limited to well-known packages: any other name could belong to anybody, so the user has to declare it.
"""
_FIXTURES = {
    r"@pytest\.mark\.asyncio\b": "pytest-asyncio",
    r"@pytest\.mark\.trio\b": "pytest-trio",
    r"@pytest\.mark\.timeout\b": "pytest-timeout",
    r"@pytest\.mark\.django_db\b": "pytest-django",
    r"\bdef \w+\([^)]*\bmocker\b": "pytest-mock",
    r"\bdef \w+\([^)]*\brequests_mock\b": "requests-mock",
    r"\bdef \w+\([^)]*\bhttpserver\b": "pytest-httpserver",
    r"\bdef \w+\([^)]*\bhttpbin\b": "pytest-httpbin",
}
"""Pytest plug-ins that tests use without an import."""


def is_wanted(name: str) -> bool:
    """True if the name of a group, an extra or a file is about tests or checkers."""
    parts = set(re.split(r"[-_.\s/]+", name.lower()))
    return bool(parts & _WANTED) and not parts & _UNWANTED


def is_unwanted(name: str) -> bool:
    """True if the name is about documentation, releases or the like."""
    return bool(set(re.split(r"[-_.\s/]+", name.lower())) & _UNWANTED)


def requirement_name(requirement: str) -> str:
    """The package that a requirement names, normalised as indexes do."""
    return re.sub(r"[-_.]+", "-", _NAME_END.split(requirement.strip(), maxsplit=1)[0]).lower()


class PythonRequirements:
    """What to install for a project's gates, as arguments of `python_environment.py`."""

    def __init__(self, project: Project, settings: Mapping[str, Any]) -> None:
        self._project = project
        self._settings = settings
        lock = project.first("uv.lock", "poetry.lock", "pdm.lock")
        self.lock = lock if project.uses_lock else ""
        self.groups = [
            name
            for name in self._group_names()
            if is_wanted(name) or name in ("default", "hatch-test", *PIPFILE_GROUPS)
        ]
        # With a lock file, install every extra; without, leave out those about documentation.
        has_all = bool(lock) and not self.lock
        self.extras = [
            name
            for name in self._extra_names()
            if is_wanted(name) or name in _WHOLE_EXTRAS or (has_all and not is_unwanted(name))
        ]
        self.files = self._requirement_files()
        self.packages: list[str] = []
        self._add_from_hatch()
        self._add_from_tox()
        self._add_from_nox()
        self.extras = list(dict.fromkeys(self.extras))
        self.files = list(dict.fromkeys(path for path in self.files if path in project.paths))

    @property
    def key(self) -> tuple[str, ...]:
        """The files that decide what is installed."""
        named = (*_INSTALLABLE, "hatch.toml", self.lock, "Pipfile", *self._with_includes(self.files))
        return tuple(path for path in dict.fromkeys(named) if path in self._project.paths)

    def arguments(self, tools: list[str]) -> list[str]:
        """The script's arguments, with tools of gates that nothing declares."""
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
        """True if the project can be installed."""
        poetry = _at(self._settings, "tool", "poetry")
        if poetry and poetry.get("package-mode") is False:
            return False
        has_metadata = "[metadata]" in self._project.text("setup.cfg")
        return "build-system" in self._settings or "setup.py" in self._project.paths or has_metadata

    def tool(self, name: str, declared: frozenset[str]) -> list[str]:
        """A tool to install that is not declared, in pre-commit's version if that names one."""
        if name in declared | {requirement_name(package) for package in self.packages}:
            return []
        rev, more = _pre_commit_hook(self._project.text(".pre-commit-config.yaml"), _HOOKS.get(name, "?"))
        return [f"{name}=={rev}" if rev else name, *more]

    def plugins(self, declared: frozenset[str]) -> list[str]:
        """Pytest plug-ins that the settings need and nothing declares."""
        names = ("pytest.ini", "pytest.toml", "setup.cfg", "tox.ini")
        text = str(_at(self._settings, "tool", "pytest")) + "".join(map(self._project.text, names))
        found = [plugin for word, plugin in _PLUGINS.items() if word in text]
        return [plugin for plugin in dict.fromkeys(found) if plugin not in declared]

    def undeclared_imports(self, declared: frozenset[str]) -> list[str]:
        """Well-known packages that the tests import and nothing declares."""
        if self.lock == "uv.lock":
            return []
        project = self._project
        texts = [project.text(path) for path in project.paths_matching(_TEST_CODE)[:_READ_TESTS]]
        names = {name for text in texts for name in _IMPORT.findall(text)}
        names |= set(_WARNING.findall(str(_at(self._settings, "tool", "pytest"))))
        own = {path.removeprefix("src/").partition("/")[0].removesuffix(".py") for path in project.paths}
        found = [_KNOWN[name] for name in sorted(names - own) if name in _KNOWN]
        found += [
            plugin for word, plugin in _FIXTURES.items() if any(re.search(word, text) for text in texts)
        ]
        has = declared | {requirement_name(package) for package in self.packages} | {self._own_name()}
        return [package for package in dict.fromkeys(found) if package not in has]

    def _own_name(self) -> str:
        return requirement_name(str(_at(self._settings, "project").get("name", "")))

    def _with_includes(self, files: Iterable[str]) -> list[str]:
        """Requirements files with all files that they include."""
        found: dict[str, None] = {}
        waiting = [*files]
        while waiting and len(found) < _MAX_FILES:
            path = waiting.pop(0)
            if path in found or path not in self._project.paths:
                continue
            found[path] = None
            folder = posixpath.dirname(path)
            names = _INCLUDED_FILE.findall(self._project.text(path))
            waiting += [posixpath.normpath(posixpath.join(folder, name)) for name in names]
        return [*found]

    def _group_names(self) -> Iterator[str]:
        settings = self._settings
        yield from _at(settings, "dependency-groups")
        yield from _at(settings, "tool", "pdm", "dev-dependencies")
        poetry = _at(settings, "tool", "poetry")
        yield from _at(poetry, "group")
        yield from ["dev"] if "dev-dependencies" in poetry else []
        yield from self._hatch_environments()
        pipfile = parse_toml(self._project.text("Pipfile"))
        yield from (name for name in PIPFILE_GROUPS if name in pipfile)

    def _hatch_environments(self) -> dict[str, Any]:
        own = _at(parse_toml(self._project.text("hatch.toml")), "envs")
        return {**_at(self._settings, "tool", "hatch", "envs"), **own}

    def _add_from_hatch(self) -> None:
        """Adds what Hatch's environments for tests and checkers take from the project. The rest is a group."""
        for name, table in self._hatch_environments().items():
            if name in self.groups:
                self._add_environment([], *(",".join(_strings(_at(table).get(key))) for key in _HATCH_PARTS))

    def _extra_names(self) -> Iterator[str]:
        settings = self._settings
        yield from _at(settings, "project", "optional-dependencies")
        yield from _at(settings, "tool", "poetry", "extras")
        yield from _at(settings, "tool", "flit", "metadata", "requires-extra")
        yield from ini_sections(self._project.text("setup.cfg")).get("options.extras_require", {})
        tree = _parse(self._project.text("setup.py"))
        tables = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for keyword in _setup_keywords(tree):
            value = keyword.value
            table = tables.get(value.id) if isinstance(value, ast.Name) else value
            if keyword.arg == "extras_require" and isinstance(table, ast.Dict):
                yield from (str(key.value) for key in table.keys if isinstance(key, ast.Constant))

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
        sections = ini_sections(text)
        for section, rows in sections.items():
            if section == "testenv" or (section.startswith("testenv:") and is_wanted(section[8:])):
                deps, extras = rows.get("deps", ""), rows.get("extras", "")
                self._add_environment(deps.splitlines(), extras, rows.get("dependency_groups", ""))
        native = parse_toml(self._project.text("tox.toml")) or _at(self._settings, "tool", "tox")
        named = _at(native, "env").items()
        for table in (_at(native, "env_run_base"), *(value for name, value in named if is_wanted(name))):
            if isinstance(table, dict):
                words = (_strings(table.get(key)) for key in ("deps", "extras", "dependency_groups"))
                deps_rows, extras_rows, groups = words
                self._add_environment(deps_rows, ",".join(extras_rows), ",".join(groups))

    def _add_environment(self, deps: Iterable[str], extras: str, groups: str) -> None:
        """Adds what a tox environment installs."""
        for row in deps:
            self._add(row.strip())
        self.extras += [name for name in re.split(r"[\s,]+", extras) if re.fullmatch(r"[\w-]+", name)]
        known = set(_at(self._settings, "dependency-groups"))
        wanted = re.split(r"[\s,]+", groups)
        self.groups += [name for name in wanted if name in known and name not in self.groups]

    def _add_from_nox(self) -> None:
        """Adds what nox sessions about tests install, as far as it is written literally."""
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
        """Adds one requirement from a tool's settings; skips those for some environments only."""
        file = re.fullmatch(r"(?:-r|--requirement)[ =]?\s*(\S+)", requirement)
        own = re.fullmatch(r"(?:-e\s*)?\.\[([\w, -]+)\]", requirement)
        if file:
            self.files.append(posixpath.normpath(re.sub(r"^\{(?:toxinidir|tox_root)\}/", "", file[1])))
        elif own:
            self.extras += [name.strip() for name in own[1].split(",")]
        elif re.fullmatch(r"[A-Za-z0-9][\w.-]*(?:\[[\w, -]+\])?(?:[<>=!~][^:{}]*)?", requirement):
            self.packages.append(requirement.replace(" ", ""))


def _at(settings: Any, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings if isinstance(settings, dict) else {}


def ini_sections(text: str) -> Mapping[str, Mapping[str, str]]:
    """The sections of a file in configparser's format; empty if it cannot be read."""
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


def _setup_keywords(tree: ast.Module) -> Iterator[ast.keyword]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "setup" in (
            getattr(node.func, "id", ""),
            getattr(node.func, "attr", ""),
        ):
            yield from node.keywords


def _pre_commit_hook(text: str, repository: str) -> tuple[str, list[str]]:
    """The version of a tool in pre-commit's configuration, and its additional packages."""
    parts = re.split(r"^\s*-\s*repo:", text, flags=re.MULTILINE)
    for part in parts[1:]:
        rev = re.search(r"^\s*rev:\s*[\"']?v?([0-9][\w.]*)", part, re.MULTILINE)
        if rev and part.partition("\n")[0].strip().rstrip("\"'/").endswith(f"/{repository}"):
            rows = re.search(r"additional_dependencies:\s*(\[[^\]]*\]|(?:\n\s+-[^\n]*)+)", part)
            words = _HOOK_PACKAGE.findall(rows[1]) if rows else []
            return rev[1], words[:MAX_PACKAGES]
    return "", []


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML file; empty if it is none."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
