"""Commands whose failure is lost, that look at less, or that are gone, are found."""

import pytest

from tests.unit.integrity.changes import added, held, modified

CI = ".github/workflows/ci.yml"


def steps(*commands: str) -> str:
    lines = "".join(f"      - run: {command}\n" for command in commands)
    return f"on: [push]\njobs:\n  test:\n    steps:\n{lines}"


IGNORED = [
    "pytest || true",
    "pytest || :",
    "pytest || exit 0",
    "pytest || echo failed",
    "pytest; true",
    "pytest; exit 0",
    "pytest --continue-on-collection-errors",
    "pytest --co",
    "ruff check --exit-zero .",
    "jest --passWithNoTests",
    "python -O -m pytest",
    "PYTHONOPTIMIZE=1 pytest",
    "pytest | tee log",
    "cargo test || true",
    "go vet ./... || true",
    "npx eslint . || true",
    "mypy src || /bin/true",
]
FAILING = [
    "pytest || exit 1",
    "pytest || { echo failed; exit 1; }",
    "pytest -q",
    "docker rm -f db || true",
    "rm -r build || true",
    "pip install pytest || true",
    "pytest && coverage report",
]


@pytest.mark.parametrize("command", IGNORED)
def test_a_lost_failure_is_found(command: str) -> None:
    name = command.split(maxsplit=1)[0] if command.split(maxsplit=1)[0] != "python" else "pytest"
    before = "pytest" if "PYTHON" in name else name

    assert "failure_ignored" in held(modified(CI, steps(before), steps(command)))


@pytest.mark.parametrize("command", FAILING)
def test_a_command_that_fails_is_none(command: str) -> None:
    assert held(modified(CI, steps("pytest"), steps("pytest", command))) == set()


@pytest.mark.parametrize(
    "line",
    ["continue-on-error: true", "if: false", "if: ${{ false }}"],
)
def test_a_step_that_may_fail_is_found_where_it_checks(line: str) -> None:
    before = "on: [push]\njobs:\n  t:\n    steps:\n      - name: Tests\n        run: pytest\n"
    after = before.replace("        run", f"        {line}\n        run")

    assert held(modified(CI, before, after)) == {"failure_ignored"}


def test_a_step_that_may_fail_is_none_where_it_does_not_check() -> None:
    before = steps("pytest")
    after = before + "      - name: Upload\n        uses: some/upload@v1\n        continue-on-error: true\n"

    assert held(modified(CI, before, after)) == set()


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("Makefile", "test:\n\tpytest\n", "test:\n\t-pytest\n"),
        ("Makefile", "PYTEST = pytest\ntest:\n\t$(PYTEST)\n", "PYTEST = true\ntest:\n\t$(PYTEST)\n"),
        ("Makefile", "test:\n\tpytest\n", ".IGNORE:\ntest:\n\tpytest\n"),
        ("check.sh", "set -e\npytest\n", "set +e\npytest\n"),
        ("check.sh", "pytest\n", "pytest\nexit 0\n"),
        ("check.sh", "pytest\n", "trap 'exit 0' EXIT\npytest\n"),
        ("check.sh", "pytest\n", "pytest() { :; }\npytest\n"),
        ("check.sh", "git commit -m x\n", "git commit --no-verify -m x\n"),
        ("tox.ini", "[testenv]\ncommands =\n    pytest\n", "[testenv]\ncommands =\n    - pytest\n"),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest || true"}}'),
        (
            ".gitlab-ci.yml",
            "unit:\n  script:\n    - pytest\n",
            "unit:\n  allow_failure: true\n  script:\n    - pytest\n",
        ),
        ("pom.xml", "<a></a>", "<a><skipTests>true</skipTests></a>"),
        ("build.gradle", "test { }", "test { ignoreFailures = true }"),
    ],
)
def test_a_lost_failure_is_found_wherever_it_is_written(path: str, before: str, after: str) -> None:
    assert "failure_ignored" in held(modified(path, before, after))


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("check.sh", "pytest\n", "set -o pipefail\npytest | tee log\n"),
        ("check.sh", "pytest\n", 'if [ -z "$1" ]; then\n  exit 0\nfi\npytest\n'),
        ("check.sh", "pytest\n", "status=0\npytest || status=$?\nexit $status\n"),
        ("tests/fixtures/bad.sh", "pytest\n", "pytest || true\n"),
        ("docs/guide.md", "pytest\n", "pytest || true\n"),
    ],
)
def test_a_status_that_is_kept_is_none(path: str, before: str, after: str) -> None:
    assert held(modified(path, before, after)) == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pytest", "pytest -k unit"),
        ("pytest", "pytest --ignore=tests/slow"),
        ("pytest", "pytest -m 'not slow'"),
        ("pytest", "pytest tests/unit/test_a.py"),
        ("pytest tests", "pytest tests/unit"),
        ("go test ./...", "go test ./internal/log"),
        ("jest", "jest --testNamePattern unit"),
        ("mvn verify", "mvn verify -DskipTests"),
    ],
)
def test_a_runner_that_looks_at_less_is_found(before: str, after: str) -> None:
    assert held(modified(CI, steps(before), steps(after))) == {"tests_left_out"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("eslint . --max-warnings 0", "eslint . --max-warnings 99"),
        ("eslint . --max-warnings 0", "eslint ."),
        ("pytest --cov-fail-under=90", "pytest --cov-fail-under=50"),
        ("mypy --strict src", "mypy src"),
        ("cargo clippy -- -D warnings", "cargo clippy"),
    ],
)
def test_a_check_that_asks_for_less_is_found(before: str, after: str) -> None:
    assert held(modified(CI, steps(before), steps(after))) == {"threshold_lowered"}


def test_options_by_environment_are_found() -> None:
    after = steps("pytest").replace("    steps", "    env:\n      PYTEST_ADDOPTS: -k unit\n    steps")

    assert held(modified(CI, steps("pytest"), after)) == {"tests_left_out"}


def test_one_job_may_be_split_in_two() -> None:
    before, after = steps("pytest tests"), steps("pytest tests/unit", "pytest tests/slow -x")

    assert held(modified(CI, before, after)) == set()


def test_a_check_that_is_gone_is_found() -> None:
    assert held(modified(CI, steps("ruff check .", "pytest"), steps("pytest"))) == {"check_removed"}
    assert held(
        modified("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "echo ok"}}')
    ) == {"check_removed"}


def test_a_check_that_another_takes_the_place_of_is_none() -> None:
    assert held(modified(CI, steps("flake8", "pytest"), steps("ruff check .", "pytest"))) == set()
    assert held(modified(CI, steps("ruff check .", "pytest"), steps("make check"))) == set()


def test_a_trigger_that_is_gone_is_found() -> None:
    before = steps("pytest").replace("[push]", "[push, pull_request]")

    assert held(modified(CI, before, steps("pytest"))) == {"check_removed"}
    assert held(modified(CI, steps("pytest"), before)) == set()


def test_sources_whose_changes_start_nothing_are_found() -> None:
    before = "on:\n  push:\njobs: {}\n"

    assert held(modified(CI, before, before.replace("push:", "push:\n    paths-ignore: ['src/**']"))) == {
        "check_removed"
    }
    assert (
        held(modified(CI, before, before.replace("push:", "push:\n    paths-ignore: ['docs/**']"))) == set()
    )


def test_a_new_pipeline_is_none() -> None:
    assert held(added(".github/workflows/docs.yml", steps("mkdocs build", "pytest -k docs"))) == set()
