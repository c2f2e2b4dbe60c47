"""Python projects get the gates that their own files speak for."""

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
        *(
            "python",
            "-m",
            "pytest",
            "-q",
            "--continue-on-collection-errors",
            "-o",
            "pythonpath=src",
            "--junitxml={report}",
        ),
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
    assert prepare.key == ("pyproject.toml", "uv.lock")
    assert prepare.command == (
        *(
            "python3",
            "{scripts}/python_environment.py",
            "{cache}/venv",
            "--lock",
            "uv.lock",
            "--group",
            "dev",
        ),
        "--no-project",
    )
    assert found.gates[0].gate.command[0] == "{cache}/venv/bin/python"
    assert found.gates[1].gate.command[0] == "{cache}/venv/bin/ruff"


def arguments(files: dict[str, str], gate: str = "tests") -> str:
    """What the environment of a project is made from."""
    prepare = gates(files)[gate].prepare
    assert prepare is not None
    assert set(prepare.key) <= set(files)
    return " ".join(prepare.command[3:])


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"poetry.lock": ""}, "--lock poetry.lock"),
        ({"requirements.txt": "pytest==8\n"}, "--requirements requirements.txt"),
        ({"requirements/dev.txt": "pytest\n"}, "--requirements requirements/dev.txt"),
        (
            {"pyproject.toml": "[dependency-groups]\ntests = ['pytest']\ndocs = ['sphinx']\n"},
            "--group tests --no-project",
        ),
        ({"pyproject.toml": "[tool.poetry.group.test.dependencies]\npytest = '^8'\n"}, "--group test"),
        ({"pyproject.toml": "[tool.hatch.envs.default]\ndependencies = ['pytest']\n"}, "--group default"),
        ({"pyproject.toml": "[project.optional-dependencies]\ntest = []\n"}, "--extra test"),
        ({"setup.cfg": "[metadata]\n[options.extras_require]\ntesting = pytest\n"}, "--extra testing"),
        ({"setup.py": "setup(extras_require={'dev': ['pytest'], 'docs': []})\n"}, "--extra dev"),
        (
            {"tox.ini": "[testenv]\ndeps =\n  pytest>=7\n  -r test.txt\n  py38: old\n", "test.txt": ""},
            "--requirements test.txt --with pytest>=7",
        ),
        (
            {
                "noxfile.py": "def tests(session):\n    session.install('pytest', '-r', 'test.txt')\n",
                "test.txt": "",
            },
            "--requirements test.txt --with pytest",
        ),
        ({}, "--with pytest --no-project"),
        ({"setup.cfg": "[tool:pytest]\naddopts = --cov\n"}, "--with pytest --with pytest-cov"),
    ],
    ids=[
        "poetry",
        "list",
        "lists",
        "groups",
        "poetry group",
        "hatch",
        "extra",
        "cfg",
        "setup",
        "tox",
        "nox",
        "nothing",
        "plugin",
    ],
)
def test_an_environment_is_made_from_what_the_project_declares(files: dict[str, str], expected: str) -> None:
    assert expected in arguments({**TEST, **files})


def test_the_documentation_is_not_installed() -> None:
    files = {
        "pyproject.toml": "[dependency-groups]\ntests = []\ndocs = []\n",
        "requirements/docs.txt": "",
        **TEST,
    }

    assert "docs" not in arguments(files)


def test_a_configured_tool_that_nothing_installs_is_installed_in_the_version_of_pre_commit() -> None:
    hooks = "repos:\n  - repo: https://example.org/astral-sh/ruff-pre-commit\n    rev: v0.4.4\n    hooks:\n      - id: ruff\n"
    files = {"pyproject.toml": "[tool.ruff]\n"}

    assert "--with ruff==0.4.4" in arguments({**files, ".pre-commit-config.yaml": hooks}, "lint")
    assert "--with ruff " in arguments(files, "lint")
    assert "--with" not in arguments(
        {"pyproject.toml": "[tool.ruff]\n[dependency-groups]\nlint = ['ruff']\n"}, "lint"
    )


def test_a_package_is_installed_and_an_application_is_not() -> None:
    build = "[build-system]\nrequires = []\n"

    assert "--no-project" not in arguments({"pyproject.toml": build, **TEST})
    assert "--no-project" not in arguments({"setup.py": "", **TEST})
    assert "--no-project" in arguments(
        {"pyproject.toml": build + "[tool.poetry]\npackage-mode = false\n", **TEST}
    )


def test_odd_names_of_files_are_words_of_their_own() -> None:
    prepare = gates({"test-requirements'; reboot '.txt": "pytest\n", **TEST})["tests"].prepare

    assert prepare is not None
    assert "test-requirements'; reboot '.txt" in prepare.command


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
    assert gates({path: text, **TEST}).keys() == {"tests"}


def test_a_plain_folder_of_tests_gets_a_gate() -> None:
    gate = gates(TEST)["tests"]

    assert gate.command == (
        "{cache}/venv/bin/python",
        "-m",
        "pytest",
        "-q",
        "--continue-on-collection-errors",
        "--junitxml={report}",
    )


def test_pytest_without_a_test_is_not_proposed() -> None:
    assert "tests" not in gates({"pyproject.toml": "[tool.pytest]\n", "src/sums/__init__.py": ""})


def test_unittest_is_run_where_pytest_is_unknown() -> None:
    files = {"tests/test_a.py": "import unittest\n", "setup.py": ""}

    own = gates(files, ".venv/bin")["tests"]
    assert own.command == ("python", "-m", "unittest", "discover", "-s", "tests")
    assert own.parser == "exit"
    assert gates({**files, "tests/__init__.py": ""}, ".venv/bin")["tests"].command[-1] == "discover"
    assert gates({**files, "src/a/__init__.py": ""}, ".venv/bin")["tests"].command[:2] == (
        "env",
        "PYTHONPATH=src",
    )
    assert gates(files)["tests"].parser == "junit"  # an environment of ours has pytest, which counts them


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


def prepared(files: dict[str, str]) -> str:
    """What the tests' environment is made from, as one text."""
    prepare = gates(files | TEST)["tests"].prepare
    assert prepare is not None
    return " ".join(prepare.command)


def test_an_environment_that_lacks_a_tool_is_not_used() -> None:
    found = proposed(MODERN, ".venv/bin/python", ".venv/bin/pytest")

    assert found.path == ()
    assert found.gates[0].gate.command[0] == "{cache}/venv/bin/python"


def test_what_pre_commit_installs_beside_a_tool_is_installed_too() -> None:
    hooks = """
repos:
  - repo: https://github.com/pre-commit/mirrors-mypy
    rev: v1.2
    hooks:
      - id: mypy
        additional_dependencies: [pytest, "types-requests", attrs>=22]
"""
    text = prepared({".pre-commit-config.yaml": hooks, "pyproject.toml": "[tool.mypy]\n"})

    assert "--with pytest --with mypy==1.2 --with types-requests --with attrs>=22" in text


@pytest.mark.parametrize(
    "files",
    [
        {"setup.py": "extras = {'test': ['x']}\nsetup(extras_require=extras)\n"},
        {"tox.ini": "[testenv:tests]\ndeps = x\nextras = test\n", "setup.py": "setup()"},
        {"tox.toml": '[env_run_base]\nextras = ["test"]\n', "setup.py": "setup()"},
        {"pyproject.toml": '[tool.tox.env.tests]\nextras = ["test"]\n[build-system]\n'},
    ],
    ids=["variable", "environment", "tox.toml", "pyproject"],
)
def test_an_extra_for_tests_is_found(files: dict[str, str]) -> None:
    assert "--extra test" in prepared(files)


def test_a_file_of_requirements_counts_with_those_that_it_includes() -> None:
    files = {
        "requirements/dev.txt": "-r base.txt\n-c ../constraints.txt\npytest\n",
        "requirements/base.txt": "x\n",
        "constraints.txt": "x==1\n",
    }
    prepare = gates(files | TEST)["tests"].prepare

    assert prepare is not None
    assert prepare.key == ("requirements/dev.txt", "requirements/base.txt", "constraints.txt")


def test_a_pipfile_is_installed() -> None:
    files = {"Pipfile": '[packages]\nx = "*"\n[dev-packages]\npytest = "*"\n'}

    assert prepared(files).endswith("--group packages --group dev-packages --with pytest --no-project")


def test_well_known_packages_that_only_tests_import_are_installed() -> None:
    files = {
        "tests/conftest.py": "import trio\nimport yaml\nfrom click import x\nimport nobodys_package\n",
        "tests/test_b.py": "@pytest.mark.asyncio\nasync def test_b(mocker): ...\n",
        "click/__init__.py": "",
        "requirements.txt": "PyYAML\n",
    }
    text = prepared(files)

    assert "--with trio --with pytest-asyncio --with pytest-mock" in text
    assert not [name for name in ("nobodys", "--with click", "--with pyyaml") if name in text]


def test_what_a_lock_file_of_uv_lacks_is_not_guessed() -> None:
    assert "trio" not in prepared({**MODERN, "tests/conftest.py": "import trio\n"})


def test_django_is_tested_by_the_settings_of_its_own_runner() -> None:
    files = {
        "manage.py": 'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site.settings")\n',
        "requirements.txt": "django\n",
        "polls/tests.py": "from django.test import TestCase\n",
    }
    gate = gates(files)["tests"]

    assert gate.command[-4:-1] == ("--ds=site.settings", "-o", "python_files=test*.py")
    assert gate.prepare is not None
    assert "pytest-django" in gate.prepare.command


def test_mypy_looks_only_at_what_is_there() -> None:
    def targets(settings: str, name: str = "pyproject.toml") -> tuple[str, ...]:
        files = {name: settings, "a/__init__.py": "", "tests/test_a.py": ""}
        return gates(files)["types"].command[3:]

    assert targets('[tool.mypy]\nfiles = ["a", "noxfile.py"]\n') == ("a",)
    assert targets('[tool.mypy]\nfiles = ["nothing"]\n') == ("a",)
    assert targets('[tool.mypy]\nfiles = ["a", "tests/*.py"]\n') == ()
    assert targets("[mypy]\nfiles = a, tests\n", "setup.cfg") == ()
    assert targets("[mypy]\nfiles = a, gone\n", "mypy.ini") == ("a",)


def test_hatchs_own_file_is_read() -> None:
    files = {
        "pyproject.toml": '[project.optional-dependencies]\nhttp = ["x"]\n[build-system]\n',
        "hatch.toml": '[envs.default]\ndependencies = ["pytest"]\nfeatures = ["http"]\n[envs.docs]\nfeatures = ["d"]\n',
    }
    prepare = gates(files | TEST)["tests"].prepare

    assert prepare is not None
    assert "--group default --extra http" in " ".join(prepare.command)
    assert prepare.key == ("pyproject.toml", "hatch.toml")
