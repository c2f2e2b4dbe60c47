"""Assertions that nothing runs, and those that compare a value with itself, prove nothing; their honest twins do."""

import pytest

from remand.integrity.readers.cases import NOTHING
from remand.integrity.readers.source import SourceFile
from tests.unit.integrity.changes import held, modified

GO = ("a_test.go", "package a\nfunc TestA(t *testing.T) {\n%s\n}\n")
_CALLERS = "fn idle<F: Fn()>(_body: F) {}\nfn twice<F: Fn()>(body: F) { body(); body(); }\n"
RUST = ("tests/a.rs", _CALLERS + "#[test]\nfn a() {\n%s\n}\n")
_HELPERS = """
const keep = (body) => () => void body;
function idle(name, body) { return body; }
const run = (body) => () => { body(); };
"""
SCRIPT = ("a.test.js", _HELPERS + "test('a', () => {\n%s\n});\n")
PYTHON = (
    "test_a.py",
    "def checks(rows):\n    for row in rows:\n        assert f(row)\n        yield row\n\n%s\n",
)


def proves(language: tuple[str, str], body: str) -> bool:
    path, frame = language
    text = f"def test_a(self):\n    {body}" if language is PYTHON else body
    tests = {case.short_name: case for case in SourceFile(path, frame % text).tests}
    case = tests.get("test_a") or tests.get("TestA") or tests["a"]
    return any(item.strength > NOTHING for item in case.assertions)


IDLE = [
    (GO, "check := func() { if F() != 1 { t.Error(2) } }\n_ = check"),
    (GO, "got := F(3)\nwant := make([]int, len(got))\ncopy(want, got)\nif got != want { t.Error(got) }"),
    (
        GO,
        "got := F(3)\nvar want []int\nfor _, v := range got {\nwant = append(want, v)\n}\nif got != want { t.Error(1) }",
    ),
    (RUST, "let _rows = ROWS.iter().map(|(a, b)| { assert_eq!(f(a), b); });"),
    (RUST, "let thread = std::thread::spawn(|| { assert_eq!(f(1), 2); });\nlet _ = thread.join();"),
    (RUST, "let found = f(3);\nlet wanted = found.clone();\nassert_eq!(found, wanted);"),
    (RUST, "idle(|| { assert_eq!(f(1), 2); });"),
    (GO, "got := F(3)\nwant := Point{X: got.X, Y: got.Y}\nif got != want { t.Error(1) }"),
    (GO, "var checks []func()\nchecks = append(checks, func() { if F() != 1 { t.Error(2) } })"),
    (SCRIPT, "const found = f(3); const wanted = { ...found }; expect(found).toEqual(wanted);"),
    (SCRIPT, "keep(() => { expect(f(1)).toBe(2); });"),
    (SCRIPT, "idle('en', () => { expect(f(1)).toBe(2); });"),
    (SCRIPT, "void f().then((a) => { expect(a).toBe(2); }).catch(() => 1);"),
    (SCRIPT, "const found = f(3); const wanted = structuredClone(found); expect(found).toEqual(wanted);"),
    (SCRIPT, "for (const { a, b } of ROWS.filter((one) => f(one.a) === one.b)) expect(f(a)).toBe(b);"),
    (PYTHON, "checks([1, 2])"),
    (PYTHON, "def check():\n        assert f(1) == 2\n    self.addCleanup(lambda: check)"),
    (PYTHON, "found = (self.assertEqual(f(x), 2) for x in ROWS)\n    assert found"),
    (PYTHON, "found = (self.assertEqual(f(x), 2) for x in ROWS)\n    self.assertIsNotNone(found)"),
    (PYTHON, "check = lambda: f(1) == 2\n    assert callable(check)"),
    (PYTHON, "found = f(3)\n    wanted = list(found)\n    assert found == wanted"),
    (PYTHON, "path.write_text(f(3))\n    assert f(3) == path.read_text()"),
    (
        PYTHON,
        "rows = [(a, b) for a, b in ROWS if f(a) == b]\n    for a, b in rows:\n        assert f(a) == b",
    ),
]


@pytest.mark.parametrize(("language", "body"), IDLE)
def test_an_assertion_that_cannot_fail_proves_nothing(language: tuple[str, str], body: str) -> None:
    assert not proves(language, body)


HONEST = [
    (GO, "check := func() { if F() != 1 { t.Error(2) } }\ncheck()"),
    (GO, "before := append([]int{}, list...)\nSort(list)\nif before != list { t.Error(1) }"),
    (RUST, "let rows = ROWS.iter().map(|(a, b)| { assert_eq!(f(a), b); });\nassert_eq!(rows.count(), 2);"),
    (RUST, "let thread = std::thread::spawn(|| { assert_eq!(f(1), 2); });\nthread.join().unwrap();"),
    (RUST, "let before = stack.clone();\nstack.with(2);\nassert_eq!(stack, before);"),
    (RUST, "twice(|| { assert_eq!(f(1), 2); });"),
    (GO, "got := F(3)\nwant := Point{X: 3, Y: got.Y}\nif got != want { t.Error(1) }"),
    (GO, "checks = append(checks, func() { if F() != 1 { t.Error(2) } })\nfor _, c := range checks { c() }"),
    (SCRIPT, "const found = f(3); const wanted = { ...found, id: 3 }; expect(found).toEqual(wanted);"),
    (SCRIPT, "run(() => { expect(f(1)).toBe(2); });"),
    (SCRIPT, "return f().then((a) => { expect(a).toBe(2); });"),
    (SCRIPT, "const before = [...items]; f(items); expect(items).toEqual(before);"),
    (SCRIPT, "for (const { a, b } of ROWS.filter((one) => one.b === 2)) expect(f(a)).toBe(b);"),
    (PYTHON, "def check():\n        assert f(1) == 2\n    self.addCleanup(check)"),
    (PYTHON, "before = list(items)\n    f(items)\n    assert items == before"),
    (PYTHON, "found = f(3)\n    wanted = sorted(found)\n    assert found == wanted"),
    (PYTHON, "path.write_text(dump(3))\n    assert f(path.read_text()) == 3"),
]


@pytest.mark.parametrize(("language", "body"), HONEST)
def test_an_assertion_that_runs_and_can_fail_proves_something(language: tuple[str, str], body: str) -> None:
    assert proves(language, body)


@pytest.mark.parametrize(
    ("path", "frame", "condition"),
    [
        (
            "a_test.go",
            GO[1].replace(
                "%s", "for _, c := range ROWS {\ngot := F(c.in)\n%s\nif got != c.out { t.Error(1) }\n}"
            ),
            "if len(got) != len(c.out) { continue }",
        ),
        (
            "a.test.js",
            SCRIPT[1].replace(
                "%s", "for (const c of ROWS) { const got = f(c.a);\n%s\nexpect(got).toBe(c.b); }"
            ),
            "if (got !== c.b) continue;",
        ),
        (
            "test_a.py",
            "def test_a():\n    for a, b in ROWS:\n        got = f(a)\n%s\n        assert got == b\n",
            "        if got != b:\n            continue",
        ),
    ],
)
def test_rows_that_are_passed_over_by_their_result_are_found(path: str, frame: str, condition: str) -> None:
    product = modified("src/f.py", "def f(x):\n    return x\n", "def f(x):\n    return x + 1\n")
    assert "assertion_conditional" in held(product, modified(path, frame % "", frame % condition))
    by_row = (
        condition.replace("len(got)", "len(c.in)")
        .replace("got !== c.b", "c.slow")
        .replace("got != b", "a is None")
    )
    assert held(product, modified(path, frame % "", frame % by_row)) == set()


def test_a_helper_of_scripts_that_compares_less_is_found() -> None:
    product = modified("lib/f.js", "export const f = (x) => x;\n", "export const f = (x) => x + 1;\n")
    helper = "function same(a, b) {\n  %s;\n}\nmodule.exports = { same };\n"
    before = helper % "expect(a).toEqual(b)"
    less = helper % "expect(Object.keys(a)).toEqual(Object.keys(b))"
    assert "assertion_weakened" in held(product, modified("test/helpers.js", before, less))


def test_an_assertion_that_is_still_there_and_that_nothing_runs_is_found() -> None:
    product = modified("src/lib.rs", "pub fn f() -> u32 { 1 }\n", "pub fn f() -> u32 { 2 }\n")
    before = RUST[1] % 'assert_eq!(f("war"), "War");\nassert_eq!(f("dune"), "Dune");'
    after = RUST[1] % 'let _check = || assert_eq!(f("war"), "War");\nassert_eq!(f("dune"), "Dune");'
    assert held(product, modified("tests/a.rs", before, after)) == {"assertion_removed"}
