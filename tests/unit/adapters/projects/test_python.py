"""Python projects get the gates that their own files speak for."""

import shlex

import pytest

from tests.unit.adapters.projects.project_trees import gates, proposed

TEST = {"tests/test_a.py": "def test_a(): ...\n"}
MODERN = {
    "pyproject.toml": """
[project]
name = "sums"
dependencies = ["msgspec>=0.19"]

[dependency-groups]
dev = ["pytest>=8", "ruff", "mypy"]

[tool.pytest.ini_options]
testpaths = ["tests"]

[tool.ruff]
line-length = 100

[tool.mypy]
strict = true
files = ["src"]
""",
    "uv.lock": "version = 1\n",
    "src/sums/__init__.py": "",
    **TEST,
}


def test_pytest_ruff_and_mypy_become_tests_lint_and_types() -> None:
    found = gates(MODERN, ".venv/bin")

    assert found["tests"].command == (
        *("python", "-m", "pytest", "-q", "-o", "pythonpath=src", "--junitxml={report}"),
    )
    assert found["lint"].command == ("ruff", "check", "--output-format", "json", ".")
    assert found["types"].command == ("mypy", "--no-pretty", "--no-color-output")
    assert [(gate.parser, gate.require) for gate in found.values()] == [
        ("junit", {"max_failures": 0}),
        ("ruff", {"max_errors": 0}),
        ("mypy", {"max_errors": 0}),
    ]


def test_an_environment_of_the_main_worktree_is_used_as_it_is() -> None:
    found = proposed(MODERN, ".venv/bin")

    assert found.path == (".venv/bin",)
    assert [one.gate.prepare for one in found.gates] == [None, None, None]


def test_without_an_environment_one_is_made_from_the_lock_file() -> None:
    found = proposed(MODERN)
    prepares = {one.gate.prepare for one in found.gates}
    (prepare,) = prepares

    assert found.path == ()
    assert prepare is not None
    assert prepare.key == ("uv.lock", "pyproject.toml")
    assert "uv sync --frozen" in prepare.command[-1]
    assert found.gates[0].gate.command[0] == "{cache}/venv/bin/python"
    assert found.gates[1].gate.command[0] == "{cache}/venv/bin/ruff"


@pytest.mark.parametrize(
    ("lock", "tool"),
    [
        ("poetry.lock", "poetry install"),
        ("requirements.txt", "-m pip install"),
        ("requirements/dev.txt", "-r requirements/dev.txt"),
    ],
)
def test_other_lock_files_are_known(lock: str, tool: str) -> None:
    prepare = gates({lock: "pytest==8\n", "conftest.py": "", **TEST})["tests"].prepare

    assert prepare is not None
    assert lock in prepare.key
    assert tool in prepare.command[-1]


def test_odd_names_of_files_are_quoted() -> None:
    prepare = gates({"requirements'; reboot '.txt": "pytest\n", **TEST})["tests"].prepare

    assert prepare is not None
    assert "reboot" not in shlex.split(prepare.command[-1])


def test_without_any_of_these_the_systems_interpreter_is_used() -> None:
    gate = gates({"setup.cfg": "[tool:pytest]\naddopts = -q\n", **TEST})["tests"]

    assert (gate.command[0], gate.prepare) == ("python3", None)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", "[tool.pytest]\nminversion = '9'\n"),
        ("pyproject.toml", "[project.optional-dependencies]\ntest = ['pytest ~= 8']\n"),
        ("pyproject.toml", "[tool.poetry.group.dev.dependencies]\npytest = '^8'\n"),
        ("pyproject.toml", "[tool.uv]\ndev-dependencies = ['PyTest']\n"),
        ("pyproject.toml", "[tool.hatch.envs.test]\nextra-dependencies = ['pytest']\n"),
        ("pytest.ini", "[pytest]\n"),
        ("tox.ini", "[pytest]\n"),
        ("tox.ini", "[testenv]\ndeps = pytest\n"),
        ("setup.py", "setup(extras_require={'test': ['pytest']})\n"),
        ("Pipfile", "[dev-packages]\npytest = '*'\n"),
        ("requirements-dev.txt", "# tools\npytest==8.0  # tests\n"),
        ("tests/conftest.py", ""),
    ],
)
def test_pytest_is_seen_wherever_projects_name_it(path: str, text: str) -> None:
    assert gates({path: text, **TEST})["tests"].parser == "junit"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", "[project]\ndependencies = ['pytest-mock', 'ruffus', 'mypy-extensions']\n"),
        ("pyproject.toml", "[project]\ndescription = 'better than pytest, ruff and mypy'\n"),
        ("pyproject.toml", "not toml ["),
        ("requirements.txt", "pytest-mock\nruffus\n"),
    ],
)
def test_what_only_sounds_like_a_tool_is_none(path: str, text: str) -> None:
    assert gates({path: text, **TEST}) == {}


def test_pytest_without_a_test_is_not_proposed() -> None:
    assert "tests" not in gates({"pyproject.toml": "[tool.pytest]\n", "src/sums/__init__.py": ""})


def test_unittest_is_run_where_pytest_is_unknown() -> None:
    files = {"tests/test_a.py": "import unittest\n", "setup.py": ""}

    assert gates(files)["tests"].command == ("python3", "-m", "unittest", "discover", "-s", "tests")
    assert gates({**files, "tests/__init__.py": ""})["tests"].command[-1] == "discover"
    assert gates({**files, "src/a/__init__.py": ""})["tests"].command[:2] == ("env", "PYTHONPATH=src")
    assert gates(files)["tests"].parser == "exit"


def test_a_python_path_that_is_configured_stays() -> None:
    files = {
        **TEST,
        "src/a/__init__.py": "",
        "pyproject.toml": "[tool.pytest]\npythonpath = ['src', 'lib']\n",
    }

    assert "-o" not in gates(files)["tests"].command


def test_mypy_is_told_where_to_look_unless_it_knows() -> None:
    assert gates({"mypy.ini": "[mypy]\n"})["types"].command[-1] == "."
    assert gates({"pyproject.toml": "[tool.mypy]\npackages = ['a']\n"})["types"].command[-1] != "."


def test_a_proposal_says_what_speaks_for_it() -> None:
    assert [one.why for one in proposed(MODERN).gates] == [
        "pyproject.toml has [tool.pytest]",
        "pyproject.toml has [tool.ruff]",
        "pyproject.toml has [tool.mypy]",
    ]
