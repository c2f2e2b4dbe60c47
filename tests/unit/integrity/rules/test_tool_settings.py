"""Settings that ask for less are found, whatever file they are kept in."""

import pytest

from tests.unit.integrity.changes import added, deleted, held, modified

LOWERED = [
    (
        "pyproject.toml",
        "[tool.coverage.report]\nfail_under = 90\n",
        "[tool.coverage.report]\nfail_under = 80\n",
    ),
    (
        "pyproject.toml",
        "[tool.coverage.report]\nfail_under = 90\n",
        "[tool.coverage.report]\nshow_missing = true\n",
    ),
    (".coveragerc", "[report]\nfail_under = 90\n", "[report]\nfail_under = 10\n"),
    ("setup.cfg", "[coverage:report]\nfail_under = 90\n", "[coverage:report]\nfail_under = 10\n"),
    (
        "package.json",
        '{"jest": {"coverageThreshold": {"global": {"lines": 90}}}}',
        '{"jest": {"coverageThreshold": {"global": {"lines": 9}}}}',
    ),
    (
        "jest.config.js",
        "module.exports = { coverageThreshold: { global: { lines: 90 } } };",
        "module.exports = { coverageThreshold: { global: { lines: 50 } } };",
    ),
    (".nycrc.json", '{"check-coverage": true, "lines": 90}', '{"check-coverage": true, "lines": 20}'),
    (
        "codecov.yml",
        "coverage:\n  status:\n    project:\n      default:\n        target: 90%\n",
        "coverage:\n  status:\n    project:\n      default:\n        target: 50%\n",
    ),
    (".pylintrc", "[MAIN]\nfail-under=9\n", "[MAIN]\nfail-under=3\n"),
    ("ruff.toml", "[lint.mccabe]\nmax-complexity = 10\n", "[lint.mccabe]\nmax-complexity = 40\n"),
    (".flake8", "[flake8]\nmax-line-length = 100\n", "[flake8]\nmax-line-length = 400\n"),
    ("pytest.ini", "[pytest]\naddopts = -q --cov-fail-under=90\n", "[pytest]\naddopts = -q\n"),
]
SWITCHED_OFF = [
    ("pyproject.toml", '[tool.ruff.lint]\nselect = ["E", "S"]\n', '[tool.ruff.lint]\nselect = ["E"]\n'),
    ("pyproject.toml", "[tool.ruff.lint]\nignore = []\n", '[tool.ruff.lint]\nignore = ["S608"]\n'),
    ("ruff.toml", "exclude = []\n", 'exclude = ["src/shop"]\n'),
    (
        "pyproject.toml",
        '[tool.ruff.lint.per-file-ignores]\n"tests/**" = ["S101"]\n',
        '[tool.ruff.lint.per-file-ignores]\n"tests/**" = ["S101"]\n"src/a.py" = ["F821"]\n',
    ),
    ("mypy.ini", "[mypy]\nstrict = true\n", "[mypy]\nstrict = false\n"),
    ("mypy.ini", "[mypy]\nwarn_return_any = true\n", "[mypy]\nfiles = src\n"),
    ("mypy.ini", "[mypy]\nfiles = src\n", "[mypy]\nfiles = src\n[mypy-shop.*]\nignore_errors = true\n"),
    ("setup.cfg", "[mypy]\nstrict = true\n", "[mypy]\nstrict = true\ndisable_error_code = arg-type\n"),
    (".coveragerc", "[run]\nsource = shop\n", "[run]\nsource = shop\nomit = shop/new.py\n"),
    (
        "pyproject.toml",
        '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n',
        "[tool.pytest.ini_options]\nfilterwarnings = []\n",
    ),
    ("tsconfig.json", '{"compilerOptions": {"strict": true}}', '{"compilerOptions": {"strict": false}}'),
    ("tsconfig.json", '{"compilerOptions": {"strict": true}} // x', '{"compilerOptions": {}} // x'),
    (".eslintrc.json", '{"rules": {"eqeqeq": "error"}}', '{"rules": {"eqeqeq": "warn"}}'),
    (".eslintrc.json", '{"rules": {"eqeqeq": "error"}}', '{"rules": {"eqeqeq": "error", "no-undef": "off"}}'),
    (".eslintrc.yml", "rules:\n  eqeqeq: error\n", "rules:\n  eqeqeq: off\n"),
    (
        "eslint.config.mjs",
        "export default [{ rules: { eqeqeq: ['error', 'smart'] } }];",
        "export default [{ rules: { eqeqeq: ['off'] } }];",
    ),
    ("biome.json", '{"linter": {"enabled": true}}', '{"linter": {"enabled": false}}'),
    ("Cargo.toml", '[lints.rust]\nunsafe_code = "forbid"\n', '[lints.rust]\nunsafe_code = "allow"\n'),
    (
        ".golangci.yml",
        "linters:\n  enable:\n    - govet\n    - errcheck\n",
        "linters:\n  enable:\n    - govet\n",
    ),
    (".eslintignore", "dist\n", "dist\nsrc/pay\n"),
    (
        "src/A/A.csproj",
        "<TreatWarningsAsErrors>true</TreatWarningsAsErrors>",
        "<TreatWarningsAsErrors>false</TreatWarningsAsErrors>",
    ),
    (".pre-commit-config.yaml", "repos:\n  - repo: x\n", "exclude: ^src/\nrepos:\n  - repo: x\n"),
]
LEFT_OUT = [
    ("pytest.ini", "[pytest]\naddopts = -q\n", "[pytest]\naddopts = -q --deselect tests/test_a.py::test_b\n"),
    ("pytest.ini", "[pytest]\naddopts = -q\n", "[pytest]\naddopts = -q -k 'not slow'\n"),
    ("tox.ini", "[pytest]\naddopts = -q\n", "[pytest]\naddopts = -q -p no:cacheprovider\n"),
    (
        "pyproject.toml",
        '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
        '[tool.pytest.ini_options]\ntestpaths = ["tests/unit"]\n',
    ),
    ("pytest.ini", "[pytest]\npython_files = test_*.py check_*.py\n", "[pytest]\npython_files = test_*.py\n"),
    ("pytest.ini", "[pytest]\nnorecursedirs = .git\n", "[pytest]\nnorecursedirs = .git tests/slow\n"),
    (
        "package.json",
        '{"jest": {"testPathIgnorePatterns": []}}',
        '{"jest": {"testPathIgnorePatterns": ["slow"]}}',
    ),
    (
        "vitest.config.ts",
        "export default { test: { include: ['src', 'e2e'] } };",
        "export default { test: { include: ['src'] } };",
    ),
]
HARMLESS = [
    ("pyproject.toml", '[project]\ndependencies = ["a>=1"]\n', '[project]\ndependencies = ["a>=2"]\n'),
    (
        "pyproject.toml",
        "[tool.coverage.report]\nfail_under = 80\n",
        "[tool.coverage.report]\nfail_under = 90\n",
    ),
    (
        "pyproject.toml",
        "[tool.ruff]\nexclude = []\n",
        '[tool.ruff]\nexclude = ["build", "docs/conf.py", "*_pb2.py"]\n',
    ),
    (
        "pyproject.toml",
        '[tool.ruff.lint]\nselect = ["E"]\n',
        '[tool.ruff.lint]\nselect = ["E", "D"]\nignore = ["D203"]\n',
    ),
    (
        "pyproject.toml",
        "[tool.ruff.lint.per-file-ignores]\n",
        '[tool.ruff.lint.per-file-ignores]\n"tests/**" = ["S101"]\n"src/a/__init__.py" = ["F401"]\n',
    ),
    ("pyproject.toml", "[tool.ruff]\nline-length = 88\n", "[tool.ruff]\nline-length = 100\n"),
    (
        "mypy.ini",
        "[mypy]\nstrict = true\n",
        "[mypy]\nstrict = true\n[mypy-geoip2.*]\nignore_missing_imports = true\n",
    ),
    ("mypy.ini", "[mypy]\nstrict = false\n", "[mypy]\nstrict = true\n"),
    ("pytest.ini", "[pytest]\naddopts = -q\n", "[pytest]\naddopts = -ra --strict-markers -n auto\n"),
    ("pytest.ini", "[pytest]\ntestpaths = tests/unit\n", "[pytest]\ntestpaths = tests\n"),
    (
        "pytest.ini",
        "[pytest]\nfilterwarnings =\n    error\n",
        "[pytest]\nfilterwarnings =\n    error\n    ignore:x is deprecated:DeprecationWarning:lib\n",
    ),
    (".eslintrc.json", '{"rules": {"eqeqeq": "warn"}}', '{"rules": {"eqeqeq": "error"}}'),
    (
        "playwright.config.ts",
        "export default { workers: 4 };",
        "export default { workers: process.env.CI ? 1 : 4 };",
    ),
    (
        ".coveragerc",
        "[report]\nexclude_lines =\n    pragma: no cover\n",
        "[report]\nexclude_lines =\n    pragma: no cover\n    if TYPE_CHECKING:\n",
    ),
]


@pytest.mark.parametrize(("path", "before", "after"), LOWERED, ids=range(len(LOWERED)))
def test_a_lower_threshold_is_found(path: str, before: str, after: str) -> None:
    assert held(modified(path, before, after)) == {"threshold_lowered"}


@pytest.mark.parametrize(("path", "before", "after"), SWITCHED_OFF, ids=range(len(SWITCHED_OFF)))
def test_a_rule_that_is_switched_off_is_found(path: str, before: str, after: str) -> None:
    assert held(modified(path, before, after)) == {"rule_switched_off"}


@pytest.mark.parametrize(("path", "before", "after"), LEFT_OUT, ids=range(len(LEFT_OUT)))
def test_tests_that_are_left_out_are_found(path: str, before: str, after: str) -> None:
    assert held(modified(path, before, after)) == {"tests_left_out"}


@pytest.mark.parametrize(("path", "before", "after"), HARMLESS, ids=range(len(HARMLESS)))
def test_a_setting_that_asks_for_as_much_is_none(path: str, before: str, after: str) -> None:
    assert held(modified(path, before, after)) == set()


def test_settings_may_move_to_another_file() -> None:
    old = modified("setup.cfg", "[metadata]\n[mypy]\nstrict = true\n", "[metadata]\n")
    new = modified("pyproject.toml", "[project]\n", "[project]\n[tool.mypy]\nstrict = true\n")

    assert held(old, new) == set()
    assert held(old) == {"rule_switched_off"}


def test_one_linter_may_take_another_ones_place() -> None:
    old = deleted(".flake8", "[flake8]\nselect = E,F\n")
    new = added("ruff.toml", '[lint]\nselect = ["E", "F"]\nignore = ["E501"]\n')

    assert held(old, new) == set()
    assert held(old) == {"rule_switched_off"}


def test_a_tool_that_is_set_up_anew_may_be_set_up_as_it_likes() -> None:
    assert held(added("ruff.toml", 'exclude = ["old"]\n[lint]\nignore = ["E501"]\n')) == set()
    assert held(added("pytest.ini", "[pytest]\naddopts = --deselect tests/test_a.py::test_b\n")) == {
        "tests_left_out"
    }


def test_a_lower_threshold_of_a_build_is_found() -> None:
    before = "jacocoTestCoverageVerification { rule { limit { minimum = 0.80 } } }\n"

    assert held(modified("build.gradle", before, before.replace("0.80", "0.20"))) == {"threshold_lowered"}


def test_a_pattern_of_names_that_a_script_writes_as_such_is_read() -> None:
    before = "export default defineConfig({ test: { include: ['a.test.js'] } });\n"
    after = before.replace("test: {", "test: { testNamePattern: /counts|reads/,")

    assert held(modified("vitest.config.js", before, after)) == {"tests_left_out"}
