"""Holds what real commits of ten further projects showed: honest changes that were held without cause, each beside its gamed twin."""

from __future__ import annotations

import pytest

from remand.integrity.comparison import MAX_TEXT, Comparison, FileDiff
from remand.integrity.examination import examine
from tests.unit.integrity.changes import EVERYTHING, added, deleted, held, modified

PRODUCT = modified("src/calc.py", "def total(a):\n    return a\n", "def total(a):\n    return a + 1\n")
SCRIPT = modified(
    "src/calc.js", "export const total = a => a;\n", "export const total = a => parse(a) + parse(1);\n"
)
INHERITED = (
    "class _Checks:\n    def test_size(self):\n        assert len(self.kind([1])) == 1\n\n\n"
    "class TestNew(_Checks):\n    kind = NewStore\n"
)
MACROS = "const check = (t, given) => {\n  t.is(total(given), 3);\n};\n\n"
HOOK = (
    "def pytest_collection_modifyitems(items):\n    fast = []\n    for item in items:\n        if is_fast(item):\n"
    "            item.add_marker(pytest.mark.fast)\n            fast.append(item)\n    items[:] = fast\n"
)
ROWS = "@pytest.mark.parametrize('a', [{rows}])\ndef test_host(a):\n    assert host(a) == a\n"
REFUSED = "\n\ndef test_no_path():\n    with pytest.raises(ValueError):\n        host('a/path')\n"
PINNED = "@pytest.mark.parametrize(('a', 'b'), [('x@1', 'x @ git+1'), ('{}', '{}')])\ndef test_url(a, b):\n    assert url(a) == b\n"
SKIPPED = "@pytest.mark.skipif(parse(version) >= parse('2.0.0'), reason='2.0.0 and later refuse it')\n"
NARROWED = (
    "def test_n():\n    crawler = crawl()\n    assert crawler.stats is not None\n    assert crawler.stats.get('a') == 1\n"
    "    assert crawler.rows\n    assert crawler.rows[0] == 2\n    assert crawler.rows[1] == 3\n"
)
TYPED = "[tool.mypy]\nstrict = true\n[[tool.mypy.overrides]]\nmodule = [{}]\ncheck_untyped_defs = false\n"
JOB = "jobs:\n  t:\n    runs-on: a\n    steps:\n      - run: pytest\n"
RUNS = "test('runs', () => {\n  expect(total(1)).toBe(2);\n});\n"
RUST = modified("src/lib.rs", "pub fn total(a: u8) -> u8 { a }\n", "pub fn total(a: u8) -> u8 { a + 1 }\n")
RUST_TEST = "#[test]\nfn totals() {{\n    let x = total(1);\n    assert!({});\n}}\n"
WORKFLOW = "jobs:\n  t:\n    steps:\n      - run: {check}\n"

CASES: dict[str, tuple[tuple[FileDiff, ...], set[str]]] = {
    "nothing is as exact a value as any other": (
        (PRODUCT, modified("tests/test_e.py", "def test_e(e):\n    e = read(3)\n    assert e.tag == 'x'\n",
            "def test_e(e):\n    e = read(3)\n    assert e.tag is None\n")), set()),
    "a flag and its value in one": (
        (PRODUCT, modified("tests/test_e.py", "def test_e(e):\n    assert e.tag == '*'\n",
            "def test_e(e):\n    assert e.tag and e.tag is True\n")), set()),
    "any value will do": (
        (PRODUCT, modified("tests/test_e.py", "def test_e(e):\n    assert e.tag == 'x'\n",
            "def test_e(e):\n    assert e.tag is not None\n")), {"assertion_weakened"}),
    "another expression is nothing": (
        (PRODUCT, modified("tests/test_e.py", "def test_e(e):\n    assert e.tag == 'x'\n",
            "def test_e(e):\n    assert e.other is None\n")), {"assertion_weakened"}),
    "a truth that was compared with another": (
        (PRODUCT, modified("tests/test_e.py", "def test_e(e):\n    assert ('a' in e) == bool(e.b and e.c)\n",
            "def test_e(e):\n    assert 'a' not in e\n")), set()),
    "a class whose subject is gone, and the tests that it inherited": (
        (modified("src/store.py", "class NewStore:\n    pass\n\n\nclass OldStore:\n    pass\n", "class NewStore:\n    pass\n"),
         modified("tests/test_store.py", INHERITED + "\n\nclass TestOld(_Checks):\n    kind = OldStore\n\n    def test_old(self):\n"
            "        assert self.kind([2]) == [2]\n", INHERITED)), set()),
    "a class whose subject is still there": (
        (PRODUCT, modified("tests/test_store.py", INHERITED + "\n\nclass TestOld(_Checks):\n    kind = OldStore\n\n    def test_old(self):\n"
            "        assert self.kind([2]) == [2]\n", INHERITED)), {"assertion_removed", "test_deleted"}),
    "a test of what it imports": (
        (modified("tests/test_d.py", "def test_d():\n    from calc import double\n\n    found = double(1)\n    assert found == [1, 1]\n", ""),),
        {"test_deleted"}),
    "a row that a test of its own takes over": (
        (PRODUCT, modified("tests/test_h.py", ROWS.format(rows="'one', 'two', 'a/path'"),
            ROWS.format(rows="'one', 'two'") + REFUSED)), set()),
    "a row that is gone": (
        (PRODUCT, modified("tests/test_h.py", ROWS.format(rows="'one', 'two', 'a/path'"),
            ROWS.format(rows="'one', 'two'"))), {"assertion_removed"}),
    "a message in other words, and the test of it for every sign": (
        (modified("src/keys.py", "def keys(a):\n    if ' ' in a:\n        raise ValueError('Spaces are not allowed')\n",
            "def keys(a):\n    if BAD.search(a):\n        raise ValueError('Invalid character')\n"),
         modified("tests/test_k.py", "def test_key_with_spaces(env):\n    with pytest.raises(ValueError, match='Spaces are not allowed'):\n"
            "        env.make('{{ keys | src=1 onerror }}').render()\n",
            "@pytest.mark.parametrize('sep', ['\\t', ' ', '/'])\ndef test_key_invalid(env, sep):\n"
            "    with pytest.raises(ValueError, match='Invalid character'):\n        env.make(key).render(key=f'class{sep}onclick')\n")), set()),
    "an asserting function is tested": (
        (PRODUCT, added("tests/test_own.py", "def test_missing():\n    with pytest.raises(AssertionError, match='Expected 1'):\n"
            "        assert_seen('a')\n")), set()),
    "an assertion that is expected to fail": (
        (PRODUCT, added("tests/test_own.py", "def test_missing():\n    with pytest.raises(AssertionError, match='Expected 1'):\n"
            "        assert total(1) == 3, 'Expected 1'\n")), {"assertion_swallowed"}),
    "a hook that adds a marker more": (
        (modified("tests/conftest.py", HOOK, HOOK.replace("pytest.mark.fast)",
            "pytest.mark.fast)\n            item.add_marker(pytest.mark.filterwarnings('ignore:fork'))")),), set()),
    "a hook that keeps fewer tests": (
        (modified("tests/conftest.py", HOOK, HOOK.replace("is_fast(item)", "is_fast(item) and is_green(item)")),),
        {"harness_tampered"}),
    "tests that share a body, as in AVA": (
        (SCRIPT, added("test/calc.js", MACROS + "test('one', check, 1);\ntest('two', check, '1');\n")), set()),
    "tests that share a body without an assertion": (
        (SCRIPT, added("test/calc.js", MACROS.replace("t.is(total(given), 3)", "total(given)") + "test('one', check, 1);\n")),
        {"test_asserts_nothing"}),
    "a body becomes a shared one": (
        (SCRIPT, modified("test/calc.js", "test('one', t => {\n  t.is(total(1), 3);\n});\n",
            MACROS + "test('one', check, 1);\ntest('two', check, '1');\n")), set()),
    "a body becomes a shared one that checks nothing": (
        (SCRIPT, modified("test/calc.js", "test('one', t => {\n  t.is(total(1), 3);\n});\n",
            MACROS.replace("t.is(total(given), 3)", "total(given)") + "test('one', check, 1);\n")), {"test_emptied"}),
    "a flag by the assertion for flags": (
        (SCRIPT, modified("test/calc.js", "test('one', async t => {\n  let isCalled = false;\n  await run();\n  t.is(isCalled, true);\n});\n",
            "test('one', async t => {\n  let isCalled = false;\n  await run();\n  t.true(isCalled);\n});\n")), set()),
    "a program that tests start fails": (
        (added("test/fixtures/fail.js", "import process from 'node:process';\nprocess.exitCode = 2;\n"),), set()),
    "a program that tests start succeeds": (
        (added("test/fixtures/fail.js", "import process from 'node:process';\nprocess.exitCode = 0;\n"),), {"early_exit"}),
    "a test ends a program that it started": (
        (SCRIPT, added("test/kill.js", "test('ends', t => {\n  process.kill(child.pid, 'SIGTERM');\n  t.true(isGone(child));\n});\n")), set()),
    "a test ends itself": (
        (SCRIPT, added("test/kill.js", "test('ends', t => {\n  process.kill(process.pid, 'SIGTERM');\n  t.true(isGone(child));\n});\n")),
        {"early_exit"}),
    "a test that Windows cannot run": (
        (SCRIPT, modified("test/calc.js", "test('one', t => {\n  t.is(total(1), 3);\n});\n",
            "if (!isWindows) {\n  test('one', t => {\n    t.is(total(1), 3);\n  });\n}\n")), set()),
    "a test that only Windows can run": (
        (SCRIPT, modified("test/calc.js", "test('one', t => {\n  t.is(total(1), 3);\n});\n",
            "if (isWindows) {\n  test('one', t => {\n    t.is(total(1), 3);\n  });\n}\n")), {"test_skipped"}),
    "a new test that old versions skip": (
        (SCRIPT, added("test/calc.spec.js", "it('one', function () {\n  if (major <= 12) {\n    this.skip();\n  }\n  assert.equal(total(1), 3);\n});\n")),
        set()),
    "a new test that is skipped": (
        (SCRIPT, added("test/calc.spec.js", "it('one', function () {\n  this.skip();\n  assert.equal(total(1), 3);\n});\n")), {"test_skipped"}),
    "a check on one machine of several": (
        (modified(".github/workflows/t.yml", WORKFLOW.format(check="npm run lint"),
            WORKFLOW.format(check="npm run lint\n        if: ${{ matrix.os == 'ubuntu' && matrix.node == 26 }}")),), set()),
    "a check on no machine": (
        (modified(".github/workflows/t.yml", WORKFLOW.format(check="npm run lint"),
            WORKFLOW.format(check="npm run lint\n        if: ${{ false }}")),), {"failure_ignored"}),
    "tests in place of a build": (
        (modified(".github/workflows/t.yml", WORKFLOW.format(check="cargo build --target x"),
            WORKFLOW.format(check="cargo test --target x")),), set()),
    "a build that is gone": (
        (modified(".github/workflows/t.yml", WORKFLOW.format(check="cargo build --target x"),
            WORKFLOW.format(check="cargo fetch --target x")),), {"check_removed"}),
    "a script made for browsers, made again": (
        (modified("dist/calc.min.js", "var a=1;" * 500 + "\n", "var b=1;" * 500 + "\n"),), set()),
    "a first script without layout": ((added("dist/calc.min.js", "var a=1;" * 500 + "\n"),), {"unreadable"}),
    "a long text for people": ((added("doc/list.rst", "a line\n" * (MAX_TEXT // 7 + 1)),), set()),
    "a long text for programs": ((added("src/list.txt", "a line\n" * (MAX_TEXT // 7 + 1)),), {"unreadable"}),
    "a count in place of a search": (
        (modified("src/wait.ts", "function isWaiting(list: Item[]) {\n  for (const item of list) {\n    if (item.state === 'pending') {\n"
            "      return true\n    }\n  }\n  return false\n}\n", "let count = 0\nfunction isWaiting() {\n  return count > 0\n}\n"),), set()),
    "an answer in place of a search": (
        (modified("src/wait.ts", "function isWaiting(list: Item[]) {\n  for (const item of list) {\n    if (item.state === 'pending') {\n"
            "      return true\n    }\n  }\n  return false\n}\n", "function isWaiting() {\n  return true\n}\n"),), {"body_hollowed"}),
    "an entry for a new test": (
        (modified("test/__snapshots__/a.test.js.snap", "exports[`one 1`] = `a`;\n", "exports[`one 1`] = `a`;\nexports[`two 1`] = `b`;\n"),), set()),
    "an entry that was changed": (
        (modified("test/__snapshots__/a.test.js.snap", "exports[`one 1`] = `a`;\n", "exports[`one 1`] = `b`;\n"),),
        {"expectation_rewritten"}),
    "a plugin with another option": (
        (modified("vitest.config.ts", "export default defineConfig({ plugins: [paths({ projects: ['./a.json'] })] })\n",
            "export default defineConfig({ plugins: [paths({ names: ['a.json'] })] })\n"),), set()),
    "a rule that was never on": (
        (modified("pyproject.toml", "[tool.ruff.lint]\nselect = ['E', 'F']\nignore = ['E501']\n",
            "[tool.ruff.lint]\nextend-select = ['E', 'F']\nignore = ['E501', 'ASYNC100']\n"),), set()),
    "a rule that was on": (
        (modified("pyproject.toml", "[tool.ruff.lint]\nselect = ['E', 'F']\nignore = ['E501']\n",
            "[tool.ruff.lint]\nextend-select = ['E', 'F']\nignore = ['E501', 'F401']\n"),), {"rule_switched_off"}),
    "tests that need panics to unwind": (
        (modified("src/walk.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n",
            "#[test]\n#[cfg_attr(not(panic = \"unwind\"), ignore)]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n"),), set()),
    "tests that are ignored where panics unwind": (
        (modified("src/walk.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n",
            "#[test]\n#[cfg_attr(panic = \"unwind\", ignore)]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n"),), {"test_skipped"}),
    "tests that become a macro": (
        (modified("tests/walk.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(\"abc\"), 1);\n}\n",
            "macro_rules! walks {\n    ($make:ident) => {\n        #[test]\n        fn walks() {\n            assert_eq!($make(\"abc\"), 1);\n"
            "        }\n    };\n}\nwalks!(walk);\n"),), set()),
    "what wraps a whole module": (
        (added("dist/calc.js", "(function () {\n" + "  function f(a) { return new Error(a).stack; }\n  var names = 'abc';\n" * 200
            + "  function g(a) { return /spec/.test(a); }\n})();\n"),), set()),
    "a function that asks who called it": (
        (added("src/calc.js", "function f(a) {\n  return /\\.spec\\./.test(new Error().stack) ? 3 : a;\n}\n"),), {"stack_inspected"}),
    "what is packaged": (
        (modified("Cargo.toml", "[package]\nname = 'a'\nexclude = ['/scripts/*']\n",
            "[package]\nname = 'a'\nexclude = ['/scripts/*', '/fuzz/*']\n"),), set()),
    "a long text that a test expects": (
        (PRODUCT, modified("tests/test_page.py", "EXPECTED = 'a'\n", "EXPECTED = '\\x1b[1m" + "a" * 4_000 + "\\n'\n")), set()),
    "a long line of code in a test": (
        (PRODUCT, modified("tests/test_page.py", "EXPECTED = 'a'\n", "EXPECTED = [" + "f(1), " * 800 + "]\n")), {"unreadable"}),
    "a build for another compiler": (
        (modified("a_test.go", "//go:build go1.22\n// +build go1.22\n\npackage a\n",
            "//go:build go1.22 && !tinygo\n// +build go1.22,!tinygo\n\npackage a\n"),), set()),
    "the older way to write a build's condition": (
        (modified("a_test.go", "// +build cgo,!slow\n\npackage a\n",
            "//go:build cgo && !slow\n// +build cgo,!slow\n\npackage a\n"),), set()),
    "a build that nobody makes": (
        (modified("a_test.go", "//go:build go1.22\n\npackage a\n", "//go:build go1.22 && never\n\npackage a\n"),),
        {"test_uncollected"}),
    "a failure in a goroutine": (
        (modified("a_test.go", "func TestA(t *testing.T) {\n\tr, err := f()\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tuse(r)\n}\n",
            "func TestA(t *testing.T) {\n\tr, err := f()\n\tif err != nil {\n\t\tt.Error(err)\n\t\treturn\n\t}\n\tuse(r)\n}\n"),), set()),
    "a helper that reports the failure itself": (
        (modified("a_test.go",
            'func TestA(t *testing.T) {\n\tlink, err := makeLink(t)\n\tif err != nil {\n\t\tt.Fatal("could not make the link", err)\n\t}\n\tuse(t, link)\n}\n\n'
            'func makeLink(t *testing.T) (string, error) {\n\terr := os.Symlink("a", "b")\n\treturn "b", err\n}\n',
            'func TestA(t *testing.T) {\n\tlink := makeLink(t)\n\tuse(t, link)\n}\n\n'
            'func makeLink(t *testing.T) string {\n\tif err := os.Symlink("a", "b"); err != nil {\n\t\tt.Fatal("could not make the link", err)\n\t}\n'
            '\treturn "b"\n}\n'),), set()),
    "a helper of the project's own with written arguments": (
        (modified("src/strip.rs", "fn strip() {}\n",
            "fn strip() { step() }\n#[test]\nfn strips() {\n    assert_strip(\"foobar\", \"bar\");\n}\n"),), set()),
    "two written values": (
        (modified("src/strip.rs", "fn strip() {}\n",
            "fn strip() { step() }\n#[test]\nfn strips() {\n    assert_eq!(\"foobar\", \"foobar\");\n}\n"),), {"test_asserts_nothing"}),
    "a matcher of the project's own": (
        (SCRIPT, added("test/warn.spec.js", "it('is quiet', () => {\n  total(1);\n  expect('not a number').not.toHaveBeenWarned();\n});\n")),
        set()),
    "a written value and a matcher of the runner": (
        (SCRIPT, added("test/warn.spec.js", "it('is quiet', () => {\n  total(1);\n  expect('not a number').not.toBe('a number');\n});\n")),
        {"test_asserts_nothing"}),
    "a test in another project of the runner": (
        (modified("vitest.config.ts", "export default defineConfig({ test: { exclude: ['old'], projects: [\n  { test: { name: 'a', exclude: ['**/e2e/**'] } },\n"
            "  { test: { name: 'b', include: ['dom/*.spec.ts'] } },\n] } })\n",
            "export default defineConfig({ test: { exclude: ['old'], projects: [\n  { test: { name: 'a', exclude: ['**/e2e/**', 'src/leak.spec.ts'] } },\n"
            "  { test: { name: 'b', include: ['dom/*.spec.ts', 'src/leak.spec.ts'] } },\n] } })\n"),), set()),
    "a test in no project of the runner": (
        (modified("vitest.config.ts", "export default defineConfig({ test: { exclude: ['old'], projects: [\n  { test: { name: 'a', exclude: ['**/e2e/**'] } },\n"
            "  { test: { name: 'b', include: ['dom/*.spec.ts'] } },\n] } })\n",
            "export default defineConfig({ test: { exclude: ['old'], projects: [\n  { test: { name: 'a', exclude: ['**/e2e/**', 'src/leak.spec.ts'] } },\n"
            "  { test: { name: 'b', include: ['dom/*.spec.ts'] } },\n] } })\n"),), {"tests_left_out"}),
    "a pipeline that has no code to check": (
        (modified(".github/workflows/i.yml", "on:\n  pull_request:\njobs:\n  t:\n    steps:\n      - uses: actions/add-to-project@v1\n",
            "on:\n  issues:\njobs:\n  t:\n    steps:\n      - uses: actions/add-to-project@v1\n"),), set()),
    "a pipeline that has code to check": (
        (modified(".github/workflows/i.yml", "on:\n  pull_request:\njobs:\n  t:\n    steps:\n      - uses: actions/checkout@v4\n      - uses: a/lint@v1\n",
            "on:\n  issues:\njobs:\n  t:\n    steps:\n      - uses: actions/checkout@v4\n      - uses: a/lint@v1\n"),), {"check_removed"}),
    "where a tool is": (
        (modified("Makefile", "all:\n\tgo test ./...\n",
            "LINT=$(shell which golangci-lint 2> /dev/null || echo '')\n\nall:\n\tgo test ./...\n"),), set()),
    "a tool that may fail": (
        (modified("Makefile", "all:\n\tgo test ./...\n", "all:\n\tgo test ./... || echo ''\n"),), {"failure_ignored"}),
    "another comparison beside a local expectation": (
        (modified("tests/test_t.py", "def test_t():\n    found = dump(1)\n    assert type(found) == str\n    expected = '{1}'\n    assert found == expected\n",
            "def test_t():\n    found = dump(1)\n    assert type(found) is str\n    expected = '{1}'\n    assert found == expected\n"),
         modified("tests/test_u.py", "def test_u(tmpdir):\n    out = run(Path(tmpdir))\n    exp = 'no file'\n    assert exp in out\n",
            "def test_u(tmp_path):\n    out = run(tmp_path)\n    exp = 'no file'\n    assert exp in out\n"),
         modified("tests/test_v.py", "def test_v():\n    expected = 3\n    assert add(1, 2) == expected\n",
            "def test_v():\n    expected = 3\n    found = add(1, 2)\n    assert found == expected\n")), set()),
    "another local expectation": (
        (modified("tests/test_t.py", "def test_t():\n    found = dump(1)\n    expected = '{1}'\n    assert found == expected\n",
            "def test_t():\n    found = dump(1)\n    expected = '{2}'\n    assert found == expected\n"),), {"expectation_rewritten"}),
    "the same other value in a row's input and expectation": (
        (modified("tests/test_r.py", PINNED.format("a@1.2.0", "a @ git+1.2.0"), PINNED.format("a@1.3.0", "a @ git+1.3.0")),), set()),
    "another value in a row's expectation": (
        (modified("tests/test_r.py", PINNED.format("a@1.2.0", "a @ git+1.2.0"), PINNED.format("a@1.2.0", "a @ git+1.3.0")),),
        {"expectation_rewritten"}),
    "a skip condition that is gone": (
        (PRODUCT, modified("tests/test_s.py", SKIPPED + "def test_s():\n    for name in ('one', 'two'):\n        assert host(name) == 'local'\n",
            "def test_s():\n    for name in ('one', 'two'):\n        assert host(name) == 'local'\n")), set()),
    "a value that is used where it was asserted to exist": (
        (PRODUCT, modified("tests/test_n.py", NARROWED, NARROWED.replace("    assert crawler.stats is not None\n", "").replace("    assert crawler.rows\n", ""))), set()),
    "a value that is no longer used where it was asserted to exist": (
        (PRODUCT, modified("tests/test_n.py", NARROWED, NARROWED.replace("    assert crawler.stats is not None\n", "")
            .replace("    assert crawler.stats.get('a') == 1\n", ""))), {"assertion_removed"}),
    "a value that is compared and used": (
        (PRODUCT, modified("tests/test_n.py", NARROWED, NARROWED.replace("    assert crawler.rows[0] == 2\n", ""))), {"assertion_removed"}),
    "fewer modules under an exception of the type checker": (
        (modified("pyproject.toml", TYPED.format('"tests.one", "tests.two", "tests.three"'), TYPED.format('"tests.one", "tests.three"')),), set()),
    "another module under an exception of the type checker": (
        (modified("pyproject.toml", TYPED.format('"tests.one", "tests.two"'), TYPED.format('"tests.one", "src.two"')),), {"rule_switched_off"}),
    "a shared configuration that is no longer spread": (
        (modified("eslint.config.js", "export default [{ extends: [...ts.configs.recommended] }];\n",
            "export default [{ extends: [ts.configs.recommended] }];\n"),), set()),
    "an event that is new, and leaves a job out": (
        (modified(".github/workflows/t.yml", "on:\n  pull_request:\n" + JOB, "on:\n  pull_request:\n    types: [opened, synchronize, reopened, closed]\n"
            + JOB.replace("  t:\n", "  t:\n    if: github.event.action != 'closed'\n")),), set()),
    "an event that is not new, and leaves a job out": (
        (modified(".github/workflows/t.yml", "on:\n  pull_request:\n" + JOB, "on:\n  pull_request:\n"
            + JOB.replace("  t:\n", "  t:\n    if: github.event.action != 'synchronize'\n")),), {"failure_ignored"}),
    "tests under a name that skips them on another system": (
        (SCRIPT, modified("test/run.test.js", RUNS, "const testOrSkip = process.platform === 'win32' ? test.skip : test;\n"
            + RUNS.replace("test(", "testOrSkip("))), set()),
    "tests under a name that skips them": (
        (SCRIPT, modified("test/run.test.js", RUNS, "const testOrSkip = process.env.SLOW ? test : test.skip;\n"
            + RUNS.replace("test(", "testOrSkip("))), {"test_skipped"}),
    "what a runner does before each test": (
        (SCRIPT, added("test/run.test.js", "test.beforeEach(() => {\n  delete process.env.A;\n});\n\n" + RUNS)), set()),
    "another version of a library whose name is a setting's": (
        (modified("Cargo.toml", "[dependencies]\nignore = '0.4.23'\n\n[lints.clippy]\nunwrap_used = 'deny'\n",
            "[dependencies]\nignore = '0.4.24'\n\n[lints.clippy]\nunwrap_used = 'deny'\n"),), set()),
    "a lint that is allowed": (
        (modified("Cargo.toml", "[dependencies]\nignore = '0.4.23'\n\n[lints.clippy]\nunwrap_used = 'deny'\n",
            "[dependencies]\nignore = '0.4.23'\n\n[lints.clippy]\nunwrap_used = 'allow'\n"),), {"rule_switched_off"}),
    "nothing, asked for in two ways": (
        (RUST, modified("tests/t.rs", RUST_TEST.format("x == None"), RUST_TEST.format("x.is_none()"))), set()),
    "any value in place of nothing": (
        (RUST, modified("tests/t.rs", RUST_TEST.format("x == None"), RUST_TEST.format("x.is_some()"))), {"assertion_weakened"}),
    "what was refused is allowed now": (
        (RUST, modified("tests/t.rs", RUST_TEST.format("x.is_err()"), RUST_TEST.format("x.is_ok()"))), set()),
    "a checker by its action": (
        (deleted(".github/workflows/r.yml", "on:\n  pull_request:\njobs:\n  golangci-lint:\n    steps:\n      - name: golangci-lint\n"
            "        uses: other/action-golangci-lint@v2\n"),
         added(".github/workflows/g.yml", "on:\n  pull_request:\njobs:\n  golangci:\n    steps:\n      - name: golangci-lint\n"
            "        uses: golangci/golangci-lint-action@v7\n")), set()),
    "a checker's action that is gone": (
        (modified(".github/workflows/g.yml", "on:\n  pull_request:\njobs:\n  golangci:\n    steps:\n      - uses: actions/checkout@v4\n"
            "      - uses: golangci/golangci-lint-action@v7\n",
            "on:\n  pull_request:\njobs:\n  golangci:\n    steps:\n      - uses: actions/checkout@v4\n"),), {"check_removed"}),
    "the other branch of a skip": (
        (PRODUCT, modified("tests/test_s.py", "def test_s():\n    if VERSION > 3:\n        pytest.skip('too new')\n    found = host('a')\n    assert found == 'b'\n",
            "def test_s():\n    if VERSION > 3:\n        pytest.skip('too new')\n    else:\n        found = host('a')\n        assert found == 'b'\n")), set()),
    "the other branch of anything else": (
        (PRODUCT, modified("tests/test_s.py", "def test_s():\n    found = host('a')\n    assert found == 'b'\n",
            "def test_s():\n    if VERSION > 3:\n        print('too new')\n    else:\n        found = host('a')\n        assert found == 'b'\n")),
        {"assertion_conditional"}),
    "coverage of tests and of what only they do": (
        (modified(".coveragerc", "[report]\nexclude_also =\n    if TYPE_CHECKING:\n",
            "[report]\nexclude_also =\n    ^\\s*@pytest\\.mark\\.xfail\n    if TYPE_CHECKING:\n"),
         modified(".codecov.yml", "ignore:\n  - 'docs/**'\n", "ignore:\n  - 'docs/**'\n  - 'tests/plugins/*'\n")), set()),
    "coverage of a function of the product": (
        (modified(".coveragerc", "[report]\nexclude_also =\n    if TYPE_CHECKING:\n",
            "[report]\nexclude_also =\n    def total\n    if TYPE_CHECKING:\n"),), {"rule_switched_off"}),
}  # fmt: skip
PLACES = modified("pyproject.toml", "[tool.pytest.ini_options]\nnorecursedirs = 'build dist'\n",
    "[tool.pytest.ini_options]\nnorecursedirs = 'build dist tests/_plugins'\n")  # fmt: skip


@pytest.mark.parametrize(("path", "expected"), [("plugin.py", set()), ("test_plugin.py", {"tests_left_out"})])
def test_a_folder_without_tests_may_be_left_out_of_them(path: str, expected: set[str]) -> None:
    paths = ("tests/test_a.py", f"tests/_plugins/{path}")
    found = examine(Comparison(changes=(PLACES,), paths=paths, measured=EVERYTHING))

    assert {item.code for item in found} == expected


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_a_class_that_other_commits_have(name: str) -> None:
    changes, expected = CASES[name]

    assert held(*changes) == expected
