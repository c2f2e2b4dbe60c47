"""Holds what real commits of well-known projects showed: honest changes that were held without cause, each beside its gamed twin."""

from __future__ import annotations

import pytest

from remand.integrity.comparison import Comparison, FileDiff, FileText
from remand.integrity.examination import examine
from remand.integrity.suspicions import Weight
from tests.unit.integrity.changes import added, deleted, held, modified

PRODUCT = modified("src/calc.py", "def total(a):\n    return a\n", "def total(a):\n    return a + 1\n")
TEST = "from calc import total\n\n\ndef test_total():\n    assert total(1) == 2\n"

CASES: dict[str, tuple[tuple[FileDiff, ...], set[str]]] = {
    "a comparison in a chain is as strong as its pairs": (
        (PRODUCT, modified("tests/test_e.py", "def test_e(e):\n    assert e.args[0] == 'x'\n",
            "def test_e(e):\n    assert e.msg == e.args[0] == 'x'\n")), set()),
    "a chain of bounds is weaker than a value": (
        (PRODUCT, modified("tests/test_e.py", "def test_e(e):\n    assert e.size() == 3\n",
            "def test_e(e):\n    assert 0 < e.size() < 9\n")), {"assertion_weakened"}),
    "both ways of a branch assert": (
        (PRODUCT, modified("tests/test_v.py", "def test_v(r):\n    assert r.text == 'a'\n",
            "def test_v(r):\n    if NEW:\n        assert r.text == 'b'\n    else:\n        assert r.text == 'a'\n")), set()),
    "one way of a branch asserts": (
        (PRODUCT, modified("tests/test_v.py", "def test_v(r):\n    assert r.text == 'a'\n",
            "def test_v(r):\n    if NEW:\n        assert r.text == 'a'\n")), {"assertion_conditional"}),
    "a skip for another platform by the project's own name": (
        (PRODUCT, modified("tests/test_w.py", "def test_w():\n    assert f() == 1\n",
            "@pytest.mark.skipif(WIN and OLD, reason='no sed')\ndef test_w():\n    assert f() == 1\n")), set()),
    "a skip by a name that says nothing": (
        (PRODUCT, modified("tests/test_w.py", "def test_w():\n    assert f() == 1\n",
            "@pytest.mark.skipif(FLAKY, reason='later')\ndef test_w():\n    assert f() == 1\n")), {"test_skipped"}),
    "a skip condition in other words": (
        (modified("tests/test_p.py",
            "@pytest.mark.skipif(platform.system() == 'Linux2', reason='x')\ndef test_p():\n    assert f() == 1\n",
            "@pytest.mark.skipif(ODD, reason='x')\ndef test_p():\n    assert f() == 1\n"),), set()),
    "a skip condition that always holds": (
        (modified("tests/test_p.py",
            "@pytest.mark.skipif(platform.system() == 'Linux2', reason='x')\ndef test_p():\n    assert f() == 1\n",
            "@pytest.mark.skipif(True, reason='x')\ndef test_p():\n    assert f() == 1\n"),), {"test_skipped"}),
    "more is expected than before": (
        (modified("test/a.test.ts", "test('a', async t => {\n  await t.throwsAsync(p, {code: 'E'});\n});\n",
            "test('a', async t => {\n  await t.throwsAsync(p, {name: 'N', code: 'E'});\n});\n"),), set()),
    "another value is expected": (
        (modified("test/a.test.ts", "test('a', async t => {\n  await t.throwsAsync(p, {code: 'E'});\n});\n",
            "test('a', async t => {\n  await t.throwsAsync(p, {code: 'F'});\n});\n"),), {"expectation_rewritten"}),
    "nothing is as exact a value as any": (
        (PRODUCT, modified("test/a.test.ts", "test('a', t => {\n  t.is(f(), '');\n});\n",
            "test('a', t => {\n  t.is(f(), undefined);\n});\n")), set()),
    "types are asserted by the type checker": (
        (PRODUCT, added("src/a.test.ts", "test('a', () => {\n  expectTypeOf<A>().toEqualTypeOf<B>();\n});\n")), set()),
    "a macro of AVA is no test": (
        (PRODUCT, added("test/m.test.ts", "const same = test.macro(async (t, {url}: {url: string}) => {\n  run(url);\n});\n")),
        set()),
    "an expression of a pipeline is no shell": (
        (modified(".github/workflows/t.yml", "jobs:\n  t:\n    steps:\n      - run: tox run -e py\n",
            "jobs:\n  t:\n    steps:\n      - run: tox run -e ${{ matrix.tox || format('py{0}', matrix.p) }}\n"),), set()),
    "a failure that a shell ignores": (
        (modified(".github/workflows/t.yml", "jobs:\n  t:\n    steps:\n      - run: tox run -e py\n",
            "jobs:\n  t:\n    steps:\n      - run: tox run -e ${{ matrix.tox }} || true\n"),), {"failure_ignored"}),
    "a version is no threshold": (
        (modified("tox.ini", "[tox]\nmin_version = 4\n", "[tox]\nmin_version = 4.25.0\n"),), set()),
    "a list of what is packaged is no checker's": (
        (modified("pyproject.toml", "[tool.flit.sdist]\ninclude = ['docs/', 'CHANGES.rst']\n",
            "[tool.flit.sdist]\ninclude = ['docs/', 'CHANGES.md']\n"),), set()),
    "a hook by its new name": (
        (modified(".pre-commit-config.yaml", "repos:\n- repo: r\n  hooks:\n  - id: ruff\n  - id: ruff-format\n",
            "repos:\n- repo: r\n  hooks:\n  - id: ruff-check\n  - id: ruff-format\n"),), set()),
    "a hook that is gone": (
        (modified(".pre-commit-config.yaml", "repos:\n- repo: r\n  hooks:\n  - id: ruff\n  - id: mypy\n",
            "repos:\n- repo: r\n  hooks:\n  - id: mypy\n"),), {"check_removed"}),
    "rules selected besides the usual ones": (
        (modified("pyproject.toml", "[tool.ruff.lint]\nselect = ['E', 'F']\n",
            "[tool.ruff.lint]\nextend-select = ['E', 'F', 'B']\n"),), set()),
    "linters that are no more": (
        (modified(".golangci.yml", "linters:\n  enable:\n    - deadcode\n    - govet\n    - unused\n",
            "linters:\n  enable:\n    - govet\n    - unused\n"),), set()),
    "a linter that is still there": (
        (modified(".golangci.yml", "linters:\n  enable:\n    - errcheck\n    - govet\n",
            "linters:\n  enable:\n    - govet\n"),), {"rule_switched_off"}),
    "a test that panics as it should": (
        (modified("src/walk.rs", "fn walk() {}\n",
            "fn walk() { step() }\n#[test]\n#[should_panic]\nfn panics() {\n    walk();\n}\n"),), set()),
    "a test of the base that may panic now": (
        (modified("src/walk.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n",
            "#[test]\n#[should_panic]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n"),), {"test_skipped"}),
    "assertions of Go in a helper": (
        (modified("a_test.go", 'func TestHooks(t *testing.T) {\n\tif run() != 1 {\n\t\tt.Errorf("x")\n\t}\n}\n',
            'func TestHooks(t *testing.T) {\n\tcheckHooks(t, 1)\n}\n\n'
            'func checkHooks(t *testing.T, n int) {\n\tif run() != n {\n\t\tt.Errorf("x")\n\t}\n}\n'), ), set()),
    "a deleted test that never ran": (
        (PRODUCT, modified("tests/test_s.py", "@pytest.mark.skip\ndef test_s():\n    assert f() == 1\n", "")), set()),
    "a mark of byte order in data": ((added("tests/urls.json", '{"in": "a\\ufeffb", "raw": "a\ufeffb"}\n'),), set()),
    "an attribute of a stream": (
        (modified("src/run.py", "import sys\n", "import sys\n\nsys.stdout._original_fd = 3\n"),), set()),
    "a mock of the product's own": (
        (modified("src/transports/__init__.py", "from .base import *\n", "from .base import *\nfrom .mock import *\n"),), set()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_a_class_that_real_commits_have(name: str) -> None:
    changes, expected = CASES[name]

    assert held(*changes) == expected


def _suppressed(line: str, path: str = "src/calc.py", measured: tuple[str, ...] = ()) -> dict[str, Weight]:
    change = modified(path, "x = 1\n", f"x = 1\n{line}\n")
    return {item.code: item.weight for item in examine(Comparison(changes=(change,), measured=measured))}


@pytest.mark.parametrize(
    ("line", "path", "measured", "is_held"),
    [
        ("y = f()  # type: ignore[misc]", "src/calc.py", (), False),
        ("y = f()  # type: ignore[misc]", "src/calc.py", ("lint",), False),
        ("y = f()  # type: ignore[misc]", "src/calc.py", ("types",), True),
        ("y = f()  # type: ignore[misc]", "tests/test_calc.py", ("types",), False),
        ("y = f()  # type: ignore", "src/calc.py", (), True),
        ("y = f()  # type: ignore", "tests/test_calc.py", (), False),
        ("# ruff: noqa", "tests/test_calc.py", (), True),
        ("if TYPE_CHECKING:  # pragma: no cover", "src/calc.py", ("coverage",), False),
        ("if y:  # pragma: no cover", "src/calc.py", ("coverage",), True),
        ("// @ts-expect-error the argument is missing", "test/calc.ts", ("types",), False),
        ("x(); // @ts-ignore", "src/calc.ts", (), True),
        ("x() // nolint: errcheck", "calc.go", (), False),
        ("x() //nolint", "calc.go", (), True),
        ("x() // #nosec G602", "calc.go", (), False),
        ("#![allow(warnings)]", "src/lib.rs", (), True),
    ],
)
def test_a_suppression_is_held_when_it_is_blanket_or_silences_what_a_gate_measures(
    line: str, path: str, measured: tuple[str, ...], is_held: bool
) -> None:
    found = _suppressed(line, path, measured)

    code = "suppression_added" if is_held else "suppression_noted"
    assert found == {code: Weight.HELD if is_held else Weight.NOTE}


def test_a_test_that_another_file_has_as_well_is_not_lost() -> None:
    gone = deleted("tests/test_old.py", TEST)
    same = FileText(path="tests/test_calc.py", text=TEST)
    other = FileText(
        path="tests/test_calc.py", text=TEST.replace("== 2", "> 0").replace("total(1)", "len('a')")
    )

    def codes(kept: FileText) -> set[str]:
        return {item.code for item in examine(Comparison(changes=(gone,), unchanged=(kept,)))}

    assert codes(same) == set()
    assert codes(other) == {"test_deleted"}


def test_places_that_were_renamed_are_still_checked() -> None:
    before, after = (
        f"[tool.pyright]\ninclude = ['src', '{place}']\n" for place in ("typing-examples", "typing_tests")
    )
    change = modified("pyproject.toml", before, after)

    def codes(*paths: str) -> set[str]:
        return {item.code for item in examine(Comparison(changes=(change,), paths=paths))}

    assert codes("src/a.py", "typing_tests/a.py") == set()
    assert codes("src/a.py", "typing_tests/a.py", "typing-examples/a.py") == {"rule_switched_off"}
