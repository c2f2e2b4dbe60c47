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
    "two assertions that became one": (
        (PRODUCT, modified("test/n.test.ts", "test('n', t => {\n  t.true(n() >= 2);\n  t.true(n() < 30);\n});\n",
            "test('n', t => {\n  t.true(n() >= 2 && n() < 30, 'between');\n});\n")), set()),
    "one of two assertions": (
        (PRODUCT, modified("test/n.test.ts", "test('n', t => {\n  t.true(n() >= 2);\n  t.true(n() < 30);\n});\n",
            "test('n', t => {\n  t.true(n() < 30, 'below');\n});\n")), {"assertion_removed"}),
    "assertions that became a snapshot in its place": (
        (PRODUCT, modified("test/i.test.ts",
            "test('i', () => {\n  expect(run().code).toBe('x');\n  expect(run().open).toBe(false);\n});\n",
            "test('i', () => {\n  expect(run()).toMatchInlineSnapshot(`\n{\n  \"code\": \"x\",\n  \"open\": false,\n}\n`);\n});\n")),
        set()),
    "a member as a part of its object": (
        (PRODUCT, modified("test/r.test.ts", "test('r', () => {\n  expect(res.status).toBe('404');\n});\n",
            "test('r', () => {\n  expect(res).toMatchObject({ status: '404' });\n});\n")), set()),
    "a part of what was compared as a whole": (
        (PRODUCT, modified("test/r.test.ts", "test('r', () => {\n  expect(res).toEqual({ status: '404', body: 'x' });\n});\n",
            "test('r', () => {\n  expect(res).toMatchObject({ status: '404' });\n});\n")), {"assertion_weakened"}),
    "no header is expected any more": (
        (PRODUCT, modified("test/h.test.ts", "test('h', () => {\n  expect(res.get('Vary')).toBe('Origin');\n});\n",
            "test('h', () => {\n  expect(res.get('Vary')).toBeNull();\n});\n")), set()),
    "any header will do": (
        (PRODUCT, modified("test/h.test.ts", "test('h', () => {\n  expect(res.get('Vary')).toBe('Origin');\n});\n",
            "test('h', () => {\n  expect(res.get('Vary')).not.toBeNull();\n});\n")), {"assertion_weakened"}),
    "an option by another name": (
        (modified("source/options.ts", "export interface Options {\n  prefixUrl?: string;\n}\n",
            "export interface Options {\n  prefix?: string;\n}\n"),
         deleted("test/prefix-url.ts", "test('prefixUrl', async t => {\n  t.is(await get('a', {prefixUrl: '/b'}), 'rainbow');\n});\n")),
        set()),
    "an option that is still there": (
        (modified("source/options.ts", "export interface Options {\n  prefixUrl?: string;\n  a: string;\n}\n",
            "export interface Options {\n  prefixUrl?: string;\n}\n"),
         deleted("test/prefix-url.ts", "test('prefixUrl', async t => {\n  t.is(await get('a', {prefixUrl: '/b'}), 'rainbow');\n});\n")),
        {"test_deleted"}),
    "what refuses moved to another call, and the test of it": (
        (PRODUCT, modified("test/router.test.ts",
            "describe('paths', () => {\n  it('GET /entry/entries', () => {\n    expect(() => router.match('GET', '/entry/entries')).toThrow(PathError);\n  });\n});\n",
            "describe('paths', () => {\n  it('GET /:name', () => {\n    const router = new Router();\n    router.add('GET', '/:user/entries');\n"
            "    expect(() => router.add('GET', '/entry/:name')).toThrow(PathError);\n  });\n});\n")), set()),
    "another test in the group, about something else": (
        (PRODUCT, modified("test/router.test.ts",
            "describe('paths', () => {\n  it('GET /entry/entries', () => {\n    expect(() => router.match('GET', '/entry/entries')).toThrow(PathError);\n  });\n});\n",
            "describe('paths', () => {\n  it('is fine', () => {\n    expect(() => fail()).toThrow(PathError);\n  });\n});\n")),
        {"test_deleted"}),
    "the same values the other way round, and tidying up by the runner": (
        (modified("a_test.go",
            'func TestMode(t *testing.T) {\n\trequire.NoError(t, save("x", mode))\n\tt.Cleanup(func() {\n\t\tassert.NoError(t, os.Remove("x"))\n\t})\n'
            '\tassert.Equal(t, info.Mode().Perm(), mode)\n}\n',
            'func TestMode(t *testing.T) {\n\tpath := filepath.Join(t.TempDir(), "x")\n\trequire.NoError(t, save(path, mode))\n'
            '\tassert.Equal(t, mode, info.Mode().Perm())\n}\n'),), set()),
    "an assertion of testify that is gone": (
        (modified("a_test.go",
            'func TestMode(t *testing.T) {\n\trequire.NoError(t, save("x", mode))\n\tassert.Equal(t, info.Mode().Perm(), mode)\n}\n',
            'func TestMode(t *testing.T) {\n\trequire.NoError(t, save("x", mode))\n}\n'),), {"assertion_removed"}),
    "a word spelled right in what is written and expected": (
        (modified("a_test.go",
            'func TestLog(t *testing.T) {\n\tpanics("Oupps")\n\tassert.Contains(t, buffer.String(), "Oupps")\n\tassert.Equal(t, strings.Repeat("Oupps", 2), errors.String())\n}\n',
            'func TestLog(t *testing.T) {\n\tpanics("Oops")\n\tassert.Contains(t, buffer.String(), "Oops")\n\tassert.Equal(t, strings.Repeat("Oops", 2), errors.String())\n}\n'),
         modified("a.go", "package a\n", "package a\n\nconst spelled = 1\n")), set()),
    "a value compared with itself": (
        (modified("a.go", "package a\n", "package a\n\nconst two = 2\n"),
         modified("a_test.go", 'func TestTwo(t *testing.T) {\n\tassert.Equal(t, 2, run())\n}\n',
            'func TestTwo(t *testing.T) {\n\tgot := run()\n\tassert.Equal(t, got, got)\n}\n')), {"test_emptied", "equality_forced"}),
    "a panic that is an error now": (
        (modified("a.go", "package a\n", "package a\n\nconst kind = 1\n"),
         modified("a_test.go", 'func TestHijack(t *testing.T) {\n\tassert.Panics(t, func() { w.Hijack() })\n\tassert.True(t, w.Written())\n}\n',
            'func TestHijack(t *testing.T) {\n\t_, err := w.Hijack()\n\trequire.ErrorIs(t, err, http.ErrNotSupported)\n\tassert.False(t, w.Written())\n}\n')),
        set()),
    "a test that was put before others with expected values": (
        (modified("tests/regression.rs", 'rgtest!(r2, |dir: Dir| {\n    let expected = "b";\n    eqnice!(expected, run());\n});\n',
            'rgtest!(r1, |dir: Dir| {\n    let expected = "a";\n    eqnice!(expected, run());\n});\n'
            'rgtest!(r2, |dir: Dir| {\n    let expected = "b";\n    eqnice!(expected, run());\n});\n'),), set()),
    "an expected value of a macro that was changed": (
        (modified("tests/regression.rs", 'rgtest!(r2, |dir: Dir| {\n    let expected = "b";\n    eqnice!(expected, run());\n});\n',
            'rgtest!(r2, |dir: Dir| {\n    let expected = "c";\n    eqnice!(expected, run());\n});\n'),), {"expectation_rewritten"}),
    "a test that carries on another's name": (
        (PRODUCT, modified("tests/test_web.py",
            "def test_session(client):\n    client.post('/set', value='42')\n    assert flask.session.accessed\n    assert client.get('/get').data == b'42'\n",
            "def test_session_accessed(app, client):\n    with client:\n        rv = client.post(value='42')\n        assert rv.text == 'set'\n"
            "        assert request_ctx.session.accessed\n    with client:\n        rv = client.get('/get')\n        assert rv.text == '42'\n")),
        set()),
    "text from right to left in the data of tests": (
        (added("tests/urls.json", '{"input": "http://a\u202eb"}\n'),), set()),
    "text from right to left in the data of the product": (
        (added("src/urls.json", '{"input": "http://a\u202eb"}\n'),), {"invisible_characters"}),
    "a package that passes on names": (
        (modified("pyproject.toml", "[tool.ruff.lint]\nselect = ['E', 'F']\n",
            "[tool.ruff.lint]\nselect = ['E', 'F']\n[tool.ruff.lint.per-file-ignores]\n'__init__.py' = ['F403', 'F405']\n"),), set()),
    "a package that leaves out what is undefined": (
        (modified("pyproject.toml", "[tool.ruff.lint]\nselect = ['E', 'F']\n",
            "[tool.ruff.lint]\nselect = ['E', 'F']\n[tool.ruff.lint.per-file-ignores]\n'__init__.py' = ['F821']\n"),),
        {"rule_switched_off"}),
    "a rule on exceptions in tests": (
        (modified("pyproject.toml", "[tool.ruff.lint.extend-per-file-ignores]\n'testing/*.py' = ['ANN001']\n",
            "[tool.ruff.lint.extend-per-file-ignores]\n'testing/*.py' = ['ANN001', 'TRY002']\n"),), set()),
    "stubs are left out of coverage": (
        (modified("pyproject.toml", "[tool.coverage.run]\nbranch = true\n",
            "[tool.coverage.run]\nbranch = true\n[tool.coverage.report]\nexclude_also = ['if t.TYPE_CHECKING', ': \\.{3}']\n"),), set()),
    "a rule off in a whole benchmark": (
        (added("benchmarks/fetch/bench.mts", "/* eslint-disable no-explicit-any */\nrun()\n"),), set()),
    "a rule off in a whole file of the product": (
        (added("src/fetch.mts", "/* eslint-disable no-explicit-any */\nrun()\n"),), {"suppression_added"}),
    "nothing is shown as nothing": (
        (modified("src/ip.ts", "export const show = (ip: bigint): string => {\n  return parts(ip).join(':')\n}\n",
            "export const show = (ip: bigint): string => {\n  if (ip === 0n) {\n    return '::'\n  }\n  return parts(ip).join(':')\n}\n"),
         modified("src/ip.test.ts", "test('a', () => {\n  expect(show(9n)).toBe('::9')\n})\n",
            "test('a', () => {\n  expect(show(9n)).toBe('::9')\n  expect(show(0n)).toBe('::')\n})\n")), set()),
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


def test_an_exit_that_says_that_something_failed_keeps_no_failure_quiet() -> None:
    text = "main().catch((error) => {\n  console.error(error);\n  process.exit(1);\n});\n"
    assert held(added("test/playground.ts", text)) == set()
    assert "early_exit" in held(added("test/playground.ts", text.replace("(1)", "(0)")))


def test_how_many_arguments_a_function_takes_chooses_no_answer() -> None:
    text = "export function wrap(setCookie, value) {\n  if (setCookie.length === 4 && value.length === 0) {\n    return promisify(setCookie.bind(value));\n  }\n  return setCookie;\n}\n"
    test = "import test from 'ava';\ntest('four', t => {\n  t.is(wrap(jar, 4).length, 4);\n});\n"
    assert held(added("source/options.ts", text), added("test/options.ts", test)) == set()
