"""Holds what real commits of twelve more projects showed: honest changes that were held without cause, each beside its gamed twin."""

from __future__ import annotations

import pytest

from remand.integrity.comparison import Comparison, FileDiff
from remand.integrity.examination import examine
from remand.integrity.paths import is_collected_path, is_product_path, is_test_path
from tests.unit.integrity.changes import EVERYTHING, added, deleted, held, modified, renamed

PRODUCT = modified("src/calc.py", "def total(a):\n    return a\n", "def total(a):\n    return a + 1\n")
SCRIPT = modified(
    "src/calc.js", "export const total = a => a;\n", "export const total = a => parse(a) + parse(1);\n"
)
WORKFLOW = "jobs:\n  t:\n    steps:\n      - run: pytest\n"
SHIM = "def total(a):\n    return a\n\n\nOLD = {{'TOTAL_OF_ALL': 1}}\n"
GO = modified(
    "calc.go",
    "package calc\n\nfunc total(a int) int { return a }\n",
    "package calc\n\nfunc total(a int) int { return a + 1 }\n",
)
GO_TEST = "package calc\n\nfunc TestTotal(t *testing.T) {{\n\t_, err := parse(1)\n{}\n}}\n"
FILE_TEST = "package calc\n\nfunc TestFile(t *testing.T) {{\n{}\n\tgot, err := load(dir)\n\trequire.NoError(t, err)\n\tassert.Equal(t, 3, got)\n}}\n"
TEMPORARY = '\tdir, err := os.MkdirTemp("", "x")\n\trequire.NoError(t, err)'
OLD_TEST = "package calc\n\nfunc TestTotal(t *testing.T) {\n\tassert.Equal(t, 3, total(2))\n}\n"
NEW_TEST = OLD_TEST.replace("3, total(2)", "8, total(7)")
RUST = (
    "{}pub enum Server {{ A }}\n\n#[cfg(test)]\nmod tests {{\n    use super::*;\n\n    {}#[test]\n    fn parses() {{\n"
    "        assert_eq!(Server::A.parse(), 3);\n    }}\n}}\n"
)
GATE = '#[cfg(feature = "server")]\n'
HOOKS = "repos:\n  - repo: x\n    hooks:\n      - id: flake8\n{}"
TYPED = "from calc import Middleware\n\n\ndef test_handlers_{}():\n    def handle(a):\n        raise NotImplementedError\n\n    Middleware(handle)\n"
CARGO = (
    '[package]\nname = "x"\n\n[lints.rust]\nunused = "warn"\n\n[lints.clippy]\n{}as_conversions = "allow"\n'
)
SERVER = "test('warns', (t, done) => {{\n  const spy = spyWarning(CODE);\n  const app = Server();\n{}  app.listen({{ port: 0 }}, {});\n}});\n"
ASSERTS = "    t.assert.strictEqual(spy.calls, 1);\n"
TESTER = "const {{ test }} = getTester(import.meta);\n\ntest({{\n  valid: [{}],\n  invalid: [{}],\n}});\n"

CASES: dict[str, tuple[tuple[FileDiff, ...], set[str]]] = {
    "rows of a linter's rule": (
        (SCRIPT, added("test/rule.js", TESTER.format("'array.sort()', 'a.b(c)'", "{code: 'x', errors: 1}"))), set()),
    "a row of a linter's rule in a table of its own": (
        (SCRIPT, modified("test/rule.js", TESTER.format("'a', 'b'", "'c', 'd'"),
            TESTER.format("'b'", "'c', 'd'") + "\ntest({\n  valid: ['a'],\n  invalid: [],\n});\n")), set()),
    "a function that is called test makes rows": (
        (SCRIPT, added("test/rule.js", "ruleTester.run('x', rule, {\n  valid: [test({ code: 'import a' })],\n  invalid: [],\n});\n")), set()),
    "a row takes the place of a test": (
        (SCRIPT, modified("test/rule.js", "test('adds', () => {\n  expect(total(1)).toBe(2);\n});\n", "test({ code: 'import a' });\n")),
        {"test_deleted"}),
    "no rows of a linter's rule": (
        (SCRIPT, added("test/rule.js", TESTER.format("", ""))), {"test_asserts_nothing"}),
    "fewer rows of a linter's rule": (
        (SCRIPT, modified("test/rule.js", TESTER.format("'a', 'b'", "'c', 'd'"), TESTER.format("'a'", "'c', 'd'"))),
        {"assertion_removed"}),
    "a condition of several lines that waits for another job": (
        (modified(".github/workflows/ci.yml", WORKFLOW, WORKFLOW.replace("    steps",
            "    if: |\n      always() && needs.cache.result == 'success'\n    steps")),), set()),
    "a condition of several lines that leaves a check out": (
        (modified(".github/workflows/ci.yml", WORKFLOW, WORKFLOW.replace("    steps",
            "    if: |\n      github.actor == 'me'\n    steps")),), {"failure_ignored"}),
    "a name in quotes is gone with its test": (
        (modified("src/calc.py", SHIM.format(), "def total(a):\n    return a\n"),
         deleted("tests/test_old.py", "def test_old():\n    assert calc.OLD['TOTAL_OF_ALL'] == 1\n")), set()),
    "a name in quotes got another form": (
        (modified("src/calc.py", SHIM.format(), SHIM.format().replace("TOTAL_OF_ALL", "TOTALS")),
         deleted("tests/test_old.py", "def test_old():\n    assert find('TOTAL_OF_ALL') == 1\n")), {"test_deleted"}),
    "a warning is gone with its test": (
        (modified("src/calc.py", "def total(a=None):\n    if a is None:\n        warn('later', FutureWarning)\n    return a\n",
            "def total(a=None):\n    if a is None:\n        a = 1\n    return a\n"),
         modified("tests/test_c.py", "def test_warns():\n    with pytest.warns(FutureWarning, match='later'):\n        run()\n", "")), set()),
    "an error is gone with its test": (
        (modified("src/calc.py", "def total(a):\n    if a < 0:\n        raise NegativeError('it is below zero')\n    return a\n",
            "def total(a):\n    return a\n"),
         modified("tests/test_c.py", "def test_fails():\n    with pytest.raises(NegativeError, match='it is below zero'):\n        run()\n", "")),
        {"test_deleted", "body_hollowed"}),
    "an asserting function of the project without a message": (
        (PRODUCT, added("tests/test_t.py", "def test_order():\n    with pytest.raises(AssertionError):\n"
            "        xr.testing.assert_equal(a, b)\n")), set()),
    "an asserting function of a library": (
        (PRODUCT, added("tests/test_t.py", "def test_order():\n    with pytest.raises(AssertionError):\n"
            "        np.testing.assert_equal(total(a), b)\n")), {"assertion_swallowed"}),
    "the text of an error in one assertion": (
        (modified("calc_test.go", GO_TEST.format('\trequire.Error(t, err)\n\tassert.Contains(t, err.Error(), "bad", "says why")'),
            GO_TEST.format('\tassert.ErrorContains(t, err, "bad")')),), set()),
    "the text of an error is not asked for": (
        (GO, modified("calc_test.go", GO_TEST.format('\trequire.Error(t, err)\n\tassert.Contains(t, err.Error(), "bad")'),
            GO_TEST.format("\trequire.Error(t, err)"))), {"assertion_removed"}),
    "another message of an assertion": (
        (modified("calc_test.go", GO_TEST.format('\trequire.Nil(t, err, "should never be nil")'),
            GO_TEST.format('\trequire.Nil(t, err, "should be nil")')),), set()),
    "a folder that the test gets": (
        (modified("calc_test.go", FILE_TEST.format(TEMPORARY), FILE_TEST.format("\tdir := t.TempDir()")),), set()),
    "a folder that the test gets, and an error less": (
        (modified("calc_test.go", FILE_TEST.format(TEMPORARY),
            FILE_TEST.format("\tdir := t.TempDir()").replace("\tassert.Equal(t, 3, got)\n", "")),), {"assertion_removed"}),
    "a test for older versions of Go is gone": (
        (GO, deleted("old_test.go", "//go:build !go1.21\n\n" + OLD_TEST), modified("new_test.go", NEW_TEST, NEW_TEST + "\n// More.\n")), set()),
    "a test for every version of Go is gone": (
        (GO, deleted("old_test.go", "//go:build !windows\n\n" + OLD_TEST), modified("new_test.go", NEW_TEST, NEW_TEST + "\n// More.\n")),
        {"test_deleted"}),
    "a test for older versions of Go, and its twin": (
        (GO, renamed("x_test.go", "old_test.go", OLD_TEST, "//go:build !go1.21\n\n" + OLD_TEST),
         added("new_test.go", "//go:build go1.21\n\n" + OLD_TEST)), set()),
    "a test for older versions of Go alone": (
        (GO, modified("x_test.go", OLD_TEST, "//go:build !go1.21\n\n" + OLD_TEST)), {"test_uncollected"}),
    "a test of Go is skipped on Windows": (
        (GO, modified("x_test.go", OLD_TEST, OLD_TEST.replace("{\n", "{\n\tif runtime.GOOS == \"windows\" {\n\t\tt.Skip(\"paths\")\n\t}\n", 1))), set()),
    "a test of Go is skipped on Linux": (
        (GO, modified("x_test.go", OLD_TEST, OLD_TEST.replace("{\n", "{\n\tif runtime.GOOS != \"windows\" {\n\t\tt.Skip(\"paths\")\n\t}\n", 1))),
        {"test_skipped"}),
    "a test that gets more time": (
        (modified("test/c.test.js", "it('adds', () => {\n  expect(run('a')).to.equal(3);\n}).timeout(100000);\n",
            "it('adds', () => {\n  expect(run('\"a\"')).to.equal(3);\n}).timeout(100000);\n"),), set()),
    "a test that gets more time and asks nothing": (
        (SCRIPT, modified("test/c.test.js", "it('adds', () => {\n  expect(run('a')).to.equal(3);\n}).timeout(100000);\n",
            "it('adds', () => {\n  run('a');\n}).timeout(100000);\n")), {"test_emptied"}),
    "a comparison asked for": (
        (modified("calc.go", "package calc\n\nfunc add(a Attr) bool {\n\treturn keep(a)\n}\n",
            "package calc\n\nfunc add(a Attr) bool {\n\tif a.Equal(Attr{}) {\n\t\treturn true\n\t}\n\treturn keep(a)\n}\n"),), set()),
    "a comparison that is always true": (
        (modified("calc.go", "package calc\n\nfunc (a Attr) Equal(b Attr) bool {\n\treturn a.x == b.x\n}\n",
            "package calc\n\nfunc (a Attr) Equal(b Attr) bool {\n\treturn true\n}\n"),), {"equality_forced"}),
    "what follows the name of an exit": (
        (modified("exit.go", "package exit\n\nvar _exit = os.Exit\n\nfunc Exit() {\n\tWith(1)\n}\n\nfunc With(code int) {\n\t_exit(code)\n}\n",
            "package exit\n\nvar _exit = os.Exit\n\nfunc With(code int) {\n\t_exit(code)\n}\n"),), set()),
    "the status of the same run": (
        (modified("test/run.js", "const { exitCode } = await $`bun test`;\nif (exitCode) process.exit(exitCode);\n",
            "try {\n  await $`bun test`;\n} catch (err) {\n  process.exit(err.exitCode);\n}\n"),), set()),
    "another status": (
        (modified("test/run.js", "const { exitCode } = await $`bun test`;\nif (exitCode) process.exit(exitCode);\n",
            "try {\n  await $`bun test`;\n} catch (err) {\n  process.exit(0);\n}\n"),), {"early_exit"}),
    "a formula's letter in a name": ((added("src/calc.py", "ΔN = 3\n"),), set()),
    "a letter in a name that looks like another": ((added("src/calc.py", "tοtal = 3\n"),), {"confusable_name"}),
    "characters that a border is made of": (
        (modified("tui.go", "package tui\n", "package tui\n\nvar line = Border{top: '▀', left: '▌', right: '▐', corner: '▛'}\n"),
         added("tui_test.go", "package tui\n\nfunc TestBorder(t *testing.T) {\n\tassert.Equal(t, \"a b; c\", draw())\n}\n")), set()),
    "the value of a flag is plain": (
        (SCRIPT, modified("test/c.test.js", "it('has a flag', () => {\n  const c = make();\n  expect(c.flag).to.deep.equal({});\n});\n",
            "it('has a flag', () => {\n  const c = make();\n  expect(c.flag).to.deep.equal(true);\n});\n")), set()),
    "another flag is true": (
        (SCRIPT, modified("test/c.test.js", "it('has a flag', () => {\n  const c = make();\n  expect(c.flag).to.deep.equal({});\n});\n",
            "it('has a flag', () => {\n  const c = make();\n  expect(!!c).to.be.true;\n});\n")), {"assertion_weakened"}),
    "another way to build": (
        (modified("package.json", '{"scripts": {"build": "bundle --all", "test": "vitest run"}}',
            '{"scripts": {"build": "node ./scripts/build.mjs", "test": "vitest run"}}'),), set()),
    "another way to test": (
        (modified("package.json", '{"scripts": {"build": "bundle --all", "test": "vitest run"}}',
            '{"scripts": {"build": "bundle --all", "test": "vitest run ./test/some.test.js"}}'),), {"tests_left_out"}),
    "a linter's rule is spelt as it is": (
        (modified(".golangci.yml", "linters-settings:\n  govet:\n    enable:\n      - niliness\n      - sortslice\n",
            "linters-settings:\n  govet:\n    enable:\n      - nilness\n      - sortslice\n"),), set()),
    "a linter's rule is another": (
        (modified(".golangci.yml", "linters-settings:\n  govet:\n    enable:\n      - nilness\n      - sortslice\n",
            "linters-settings:\n  govet:\n    enable:\n      - shadow\n      - sortslice\n"),), {"rule_switched_off"}),
    "a test that needs what a feature gives": (
        (modified("src/lib.rs", RUST.format(GATE, ""), RUST.format(GATE, GATE)),), set()),
    "a test that needs no feature": (
        (modified("src/lib.rs", RUST.format("", ""), RUST.format("", GATE)),), {"test_skipped"}),
    "one arm of a match, as before": (
        (modified("tests/a.rs", "#[test]\nfn reads() {\n    match read(1) {\n        Ok(n) => assert_ne!(n, 0),\n        Err(_) => (),\n    }\n}\n",
            "#[test]\nfn reads() {\n    if let Ok(n) = read(1) {\n        assert_ne!(n, 0);\n    }\n}\n"),), set()),
    "one arm of a match, where there was none": (
        (modified("tests/a.rs", "#[test]\nfn reads() {\n    let n = read(1).unwrap();\n    assert_ne!(n, 0);\n}\n",
            "#[test]\nfn reads() {\n    match read(1) {\n        Ok(n) => assert_ne!(n, 0),\n        Err(_) => (),\n    }\n}\n"),),
        {"assertion_conditional"}),
    "restrictions come in, but for some": (
        (modified("Cargo.toml", CARGO.format("").rpartition("[lints.clippy]")[0],
            CARGO.format('restriction = { level = "warn", priority = -1 }\n')),), set()),
    "a restriction goes": (
        (modified("Cargo.toml", CARGO.format("").replace("allow", "deny"), CARGO.format("")),), {"rule_switched_off"}),
    "a new hook leaves data of tests out": (
        (modified(".pre-commit-config.yaml", HOOKS.format("").replace("flake8", "black"),
            HOOKS.format("").replace("flake8", "black") + "      - id: flake8\n        exclude: ^tests/b.*\n"),), set()),
    "a hook leaves tests out": (
        (modified(".pre-commit-config.yaml", HOOKS.format(""), HOOKS.format("        exclude: ^tests/b.*\n")),), {"check_removed"}),
    "the same test chosen by the same name": (
        (modified("tox.ini", "[testenv]\ncommands =\n    coverage run tests/test_a.py\n[testenv:b]\ncommands =\n    coverage run tests/test_a.py -k b902\n",
            "[testenv]\ncommands =\n    coverage run -m pytest tests/test_a.py\n[testenv:b]\ncommands =\n    coverage run -m pytest tests/test_a.py -k b902\n"),),
        set()),
    "one test chosen by its name": (
        (modified("tox.ini", "[testenv]\ncommands =\n    coverage run tests/test_a.py\n",
            "[testenv]\ncommands =\n    coverage run -m pytest tests/test_a.py -k b902\n"),), {"tests_left_out"}),
    "handlers that a type checker accepts": ((PRODUCT, added("tests/test_e.py", TYPED.format("annotations"))), set()),
    "handlers that nothing asks": ((PRODUCT, added("tests/test_e.py", TYPED.format("run"))), {"test_asserts_nothing"}),
    "a named function is called back": (
        (SCRIPT, modified("test/w.test.js", SERVER.format("  function seen () {\n" + ASSERTS + "  }\n  process.on('warning', seen);\n", "done"),
            SERVER.format("", "async function listening () {\n" + ASSERTS + "    done();\n  }"))), set()),
    "a named function is never called": (
        (SCRIPT, modified("test/w.test.js", SERVER.format("  function seen () {\n" + ASSERTS + "  }\n  process.on('warning', seen);\n", "done"),
            SERVER.format("  function seen () {\n" + ASSERTS + "  }\n", "done"))), {"test_emptied"}),
    "a ruby test skips itself where a program is missing": (
        (SCRIPT, modified("test/test_t.rb", "class T\n  def test_a\n    assert true\n  end\nend\n",
            "class T\n  def test_a\n    assert true\n  end\n  def setup\n    skip('not supported') unless supported\n  end\nend\n")), set()),
    "a ruby test always skips itself": (
        (SCRIPT, modified("test/test_t.rb", "class T\n  def test_a\n    assert true\n  end\nend\n",
            "class T\n  def test_a\n    skip('later') unless false\n    assert true\n  end\nend\n")), {"test_skipped"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_a_class_that_further_commits_have(name: str) -> None:
    changes, expected = CASES[name]

    assert held(*changes) == expected


@pytest.mark.parametrize(("paths", "expected"), [((), {"tool_shadowed"}), (("tests/__init__.py",), set())])
def test_a_module_of_a_package_shadows_nothing(paths: tuple[str, ...], expected: set[str]) -> None:
    change = added("tests/types.py", "Name = str\n")
    found = examine(Comparison(changes=(change,), paths=(*paths, "tests/types.py"), measured=EVERYTHING))

    assert {item.code for item in found} == expected


def test_a_package_does_not_lie_in_itself() -> None:
    change = added("pandas/__init__.py", "DataFrame = dict\n")
    found = examine(Comparison(changes=(change,), paths=(change.path,), measured=EVERYTHING))

    assert {item.code for item in found} == {"tool_shadowed"}


def test_a_hook_leaves_out_the_moved_data_of_tests() -> None:
    change = modified(
        ".pre-commit-config.yaml",
        HOOKS.format("        exclude: ^tests/b.*\n"),
        HOOKS.format("        exclude: ^tests/eval_files/.*\n"),
    )
    moved = renamed("tests/b1.py", "tests/eval_files/b1.py", "a = 1\n")
    found = [examine(Comparison(changes=(change, moved), paths=paths, measured=EVERYTHING))
             for paths in (("tests/eval_files/b1.py",), ("tests/eval_files/b1.py", "tests/eval_files/c.py"))]  # fmt: skip

    assert [{item.code for item in items} for items in found] == [set(), {"check_removed"}]


@pytest.mark.parametrize("name", ["src/day/test.ts", "src/day/spec.js", "src/day.test.ts"])
def test_a_file_that_is_called_test_is_a_test(name: str) -> None:
    assert is_test_path(name)
    assert is_collected_path(name)
    assert not is_product_path(name)
