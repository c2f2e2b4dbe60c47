"""Tests are run with other expected values: one that passes all the same compares nothing, or less."""

import ast

import pytest

from remand.domain.gate.gate import WatchedTest
from remand.integrity.altered_expectations import (
    HALVES,
    alter_expectations,
    alter_file,
    alter_halves,
    judge_altered_functions,
    judge_altered_tests,
)
from remand.integrity.altered_inputs import FAR, NEAR, Alteration
from remand.integrity.comparison import Comparison
from remand.integrity.readers.source import SourceFile
from remand.integrity.reversed_tests import reverse_rows, reverse_tests
from tests.corpus.gaming.cases import corpus
from tests.unit.integrity.changes import added

PYTHON = {
    "assert f(2) == 3": "assert f(2) == 4",
    "assert 'a-b' == f('x')": "assert 'a-c' == f('x')",
    "assert f(2) is True": "assert f(2) is False",
    "assert f(2) == 3 or late()": "assert f(2) == 4 or late()",
    "assert f() == [1, {'a': -2}]": "assert f() == [2, {'b': -3}]",
    "assert f() == 12.345": "assert f() == 13.345",
    "assert f() == ''": "assert f() == 'x'",
    "self.assertEqual(f(2), 3)": "self.assertEqual(f(2), 4)",
    "check(f(2), 'a: 1.5')": "check(f(2), 'a: 1.6')",
    "assert f(2) > 3": "",
    "assert f(2) != 3": "",
    "assert f(2) == approx(3)": "",
    "self.assertGreater(f(2), 3)": "",
    "store.add(make(), 3)": "",
    "add(make(), 3)": "",
}
SCRIPT = {
    "expect(f(2)).toBe(3)": "expect(f(2)).toBe(4)",
    "expect(f(2)).toEqual({ a: true, b: ['x'] })": "expect(f(2)).toEqual({ a: false, b: ['y'] })",
    "await expect(f(2)).resolves.toBe('a')": "await expect(f(2)).resolves.toBe('b')",
    "expectCents(f(2), 19)": "expectCents(f(2), 18)",
    "expect(f(2)).not.toBe(3)": "",
    "expect(f(2)).toEqual(expect.any(Number))": "",
    "expect(f(2)).toBeGreaterThan(3)": "",
    "fill(f(2), 3)": "",
}


GO = {
    "if got := F(2); got != 3 {\n\t\tt.Fatal(got)\n\t}": "if got := F(2); got != 4 {\n\t\tt.Fatal(got)\n\t}",
    'if err != nil || got != "a b" {\n\t\tt.Error(got)\n\t}': 'if err != nil || got != "a c" {\n\t\tt.Error(got)\n\t}',
    'want := []T{{A: "x"}}\n\tif !reflect.DeepEqual(F(1), want) {\n\t\tt.Fail()\n\t}': (
        'want := []T{{A: "y"}}\n\tif !reflect.DeepEqual(F(1), want) {\n\t\tt.Fail()\n\t}'
    ),
    'assert.Equal(t, 3, F(2), "of 2")': 'assert.Equal(t, 4, F(2), "of 2")',
    "sameRows(t, F(2), []int{7})": "sameRows(t, F(2), []int{8})",
    'sameRows(t, "case 1", F(2), wanted(3))': "",
    'for in, want := range map[string]bool{"a": true} {\n\t\tif F(in) != want {\n\t\t\tt.Error(in)\n\t\t}\n\t}': (
        'for in, want := range map[string]bool{"a": false} {\n\t\tif F(in) != want {\n\t\t\tt.Error(in)\n\t\t}\n\t}'
    ),
    'for _, c := range []struct {\n\t\tin   string\n\t\twant int\n\t}{{"a", 1}, {in: "b", want: 2}} {\n'
    "\t\tif F(c.in) != c.want {\n\t\t\tt.Error(c)\n\t\t}\n\t}": (
        'for _, c := range []struct {\n\t\tin   string\n\t\twant int\n\t}{{"a", 2}, {in: "b", want: 3}} {\n'
        "\t\tif F(c.in) != c.want {\n\t\t\tt.Error(c)\n\t\t}\n\t}"
    ),
    "if got == 3 {\n\t\tt.Error(got)\n\t}": "",
    "if got != 3 && got != 4 {\n\t\tt.Error(got)\n\t}": "",
    'if runtime.GOOS != "linux" {\n\t\tt.Skip()\n\t}': "",
    "write(t, F(2), 3)": "",
    'text := "a b"\n\tif got := F(G(text)); got != text {\n\t\tt.Error(got)\n\t}': "",
    "if F(2) != G(3) {\n\t\tt.Error()\n\t}": "",
}
RUST = {
    "assert_eq!(f(2), 3u8);": "assert_eq!(f(2), 4u8);",
    'assert_eq!(f("a"), Some("b".to_string()), "of {}", 3);': 'assert_eq!(f("a"), Some("c".to_string()), "of {}", 3);',
    "assert!(f(2) == true);": "assert!(f(2) == false);",
    'for (given, want) in [("a", 1), ("b", -2)] {\n        assert_eq!(f(given), want);\n    }': (
        'for (given, want) in [("a", 2), ("b", -3)] {\n        assert_eq!(f(given), want);\n    }'
    ),
    "let want = vec![1.5];\n    assert_eq!(f(2), want);": "let want = vec![2.5];\n    assert_eq!(f(2), want);",
    "assert_eq!(f(2), Part { size: 0x1f });": "assert_eq!(f(2), Part { size: 0x18 });",
    "assert_ne!(f(2), 3);": "",
    "assert!(f(2) > 3);": "",
    "assert_eq!(f(2), g(3));": "",
    'let text = "a b";\n    assert_eq!(f(&g(text)), text);': "",
    'let text = "a b";\n    store.put(text);\n    assert_eq!(store.take(), text);': "",
    "assert_eq!(Part::new(3), Part::new(3));": "",
}


def altered(path: str, text: str) -> str:
    found = alter_file(SourceFile(path, text))
    return found.tests.decode() if found else ""


@pytest.mark.parametrize("statement", PYTHON)
def test_values_that_python_compares_exactly_are_altered(statement: str) -> None:
    text = "def test_a(self):\n    {}\n"
    after = PYTHON[statement]
    assert altered("tests/test_a.py", text.format(statement)) == (text.format(after) if after else "")


@pytest.mark.parametrize("statement", SCRIPT)
def test_values_that_scripts_compare_exactly_are_altered(statement: str) -> None:
    text = "it('a', async () => {{\n  {};\n}});\n"
    after = SCRIPT[statement]
    assert altered("src/a.test.ts", text.format(statement)) == (text.format(after) if after else "")


@pytest.mark.parametrize("statement", GO)
def test_values_that_go_compares_exactly_are_altered(statement: str) -> None:
    text = 'package a\n\nimport "testing"\n\nfunc TestA(t *testing.T) {\n\tSTATEMENT\n}\n'
    after = GO[statement]
    assert altered("a_test.go", text.replace("STATEMENT", statement)) == (
        text.replace("STATEMENT", after) if after else ""
    )


@pytest.mark.parametrize("statement", RUST)
def test_values_that_rust_compares_exactly_are_altered(statement: str) -> None:
    text = "fn quiet() {\n    assert_eq!(1, 2);\n}\n\n#[test]\nfn a() {\n    STATEMENT\n}\n"
    after = RUST[statement]
    assert altered("tests/a.rs", text.replace("STATEMENT", statement)) == (
        text.replace("STATEMENT", after) if after else ""
    )


def test_what_a_helper_of_the_file_compares_is_altered_where_it_is_given() -> None:
    go = (
        'package a\n\nimport "testing"\n\nfunc near(t *testing.T, in, want int) {\n\tif F(in) != want {\n\t\tt.Error(in)\n'
        "\t}\n}\n\nfunc TestA(t *testing.T) { near(t, 1, 5) }\n"
    )
    assert altered("a_test.go", go) == go.replace("1, 5", "1, 6")
    rust = (
        'const ROWS: &[(&str, u32)] = &[("a", 3)];\n\nfn check(given: &str, want: u32) {\n    assert_eq!(f(given), want);\n}\n\n'
        '#[test]\nfn a() {\n    check("b", 5);\n}\n\n#[test]\nfn b() {\n    for (given, want) in ROWS {\n'
        "        assert_eq!(f(given), *want);\n    }\n}\n"
    )
    assert altered("tests/a.rs", rust) == rust.replace('"b", 5', '"b", 6').replace('"a", 3', '"a", 4')


def test_of_a_file_of_the_product_in_rust_its_tests_alone_are_altered() -> None:
    text = (
        "pub fn f(n: u8) -> u8 {\n    assert_eq!(n, 3);\n    n\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n"
        "    #[test]\n    fn same() {\n        assert_eq!(f(3), 3);\n    }\n}\n"
    )
    comparison = Comparison(changes=(added("src/lib.rs", text),))
    assert [one.tests.decode() for one in alter_expectations(comparison)] == [
        text.replace("f(3), 3", "f(3), 4")
    ]


def test_tests_of_go_and_rust_are_found_by_package_and_program() -> None:
    go = added(
        "sub/a_test.go",
        'package a\n\nimport "testing"\n\nfunc TestA(t *testing.T) {\n\tif F() != 1 {\n\t\tt.Log(1)\n\t\tt.Fail()\n\t}\n}\n',
    )
    rust = added("tests/b.rs", "#[test]\nfn b() {\n    assert_eq!(f(), 1);\n}\n")
    tests = tuple(
        WatchedTest(id=name, outcome="passed")
        for name in ("example.com/m/sub::TestA/x", "example.com/m/other::TestA", "b/tests/b.rs::b")
    )
    comparison = Comparison(changes=(go, rust))
    found = judge_altered_tests(comparison, alter_expectations(comparison), ((), tests), tests)
    assert [(one.code, one.path) for one in found] == [
        ("expectation_ignored", "sub/a_test.go"),
        ("expectation_ignored", "tests/b.rs"),
    ]
    ended = tuple(WatchedTest(id=one.id, outcome="failed") for one in tests)
    assert judge_altered_tests(comparison, alter_expectations(comparison), ((), tests), ended) == ()
    assert judge_altered_tests(comparison, alter_expectations(comparison), ((), tests), ()) == ()


def test_what_a_function_of_the_file_is_given_on_the_last_side_is_altered() -> None:
    python = "def stable(x):\n    return str(x)\n\n\ndef test_a():\n    assert stable(f(1)) == stable('a 2')\n    assert f(3) == g(4)\n"
    assert altered("tests/test_a.py", python) == python.replace("a 2", "a 3")
    script = "const stable = (x) => x;\nit('a', () => {\n  expect(stable(f(1))).toBe(stable({ a: 2 }));\n  expect(f(3)).toBe(g(4));\n});\n"
    assert altered("src/a.test.ts", script) == script.replace("a: 2", "a: 3")


def test_a_helper_of_the_file_that_asserts_is_known_whatever_its_name() -> None:
    python = (
        "def near(a, b):\n    assert abs(a - b) < 9\n\n\ndef test_a():\n    near(f(1), 2)\n    far(f(3), 4)\n"
    )
    assert altered("tests/test_a.py", python) == python.replace("f(1), 2", "f(1), 3")
    script = "const near = (a, b) => {\n  expect(a - b).toBeLessThan(9);\n};\nit('a', () => {\n  near(f(1), 2);\n  far(f(3), 4);\n});\n"
    assert altered("src/a.test.ts", script) == script.replace("f(1), 2", "f(1), 3")


def test_a_function_of_the_product_asserts_nothing_for_a_test() -> None:
    body = "def test_a():\n    check(f(1), 2)\n"
    assert altered("tests/test_a.py", f"from shop import check\n{body}") == ""
    assert altered("tests/test_a.py", f"from tests.same import check\n{body}") != ""
    script = "import { check } from './PLACE';\nit('a', () => {\n  check(f(1), 2);\n});\n"
    assert altered("src/a.test.ts", script.replace("PLACE", "shop")) == ""
    assert altered("src/a.test.ts", script.replace("PLACE", "testing/same")) != ""


def test_columns_of_tables_that_end_in_a_comparison_are_altered() -> None:
    python = (
        "@pytest.mark.parametrize('given, wanted', [(1, 2), pytest.param(3, 4, id='5')])\n"
        "def test_a(given, wanted):\n"
        "    assert f(given) == wanted\n"
        "    for text, size in [('a', 1)]:\n"
        "        check(len(text), size)\n"
    )
    after = python.replace("(1, 2)", "(1, 3)").replace("(3, 4", "(3, 5").replace("('a', 1)", "('a', 2)")
    assert altered("tests/test_a.py", python) == after
    script = (
        "const rows = [[1, false]];\n"
        "it('a', () => {\n  for (const [n, wanted] of [[7, true]]) when(f(n) === wanted, () => expect(f(n)).toBe(wanted));\n});\n"
        "it.each(rows)('b %i', (n, wanted) => {\n  expect(f(n)).toEqual(wanted);\n});\n"
    )
    assert "[[7, false]]" in altered("src/a.test.ts", script)


def test_every_file_of_the_corpus_can_be_altered_and_stays_a_program() -> None:
    texts = {(change.path, change.content) for case in corpus() for change in case.comparison.changes}
    for path, text in texts:
        if text is None or not path.endswith((".py", ".js", ".ts", ".tsx", ".mjs", ".go", ".rs")):
            continue
        for content in (text, text[: len(text) // 2]):
            source = SourceFile(path, content)
            found = alter_file(source)
            after = [found.tests, found.beside] if found else []
            after += [
                *(Alteration(step).alter_file(path, content) for step in (*NEAR, *FAR)),
                reverse_rows(path, content),
                reverse_tests(path, content),
            ]
            assert source.tree is None or all(ast.parse(one) for one in after), path


def ran(outcome: str = "passed", name: str = "test_a") -> tuple[WatchedTest, ...]:
    return (WatchedTest(id=f"tests/test_a::{name}", outcome=outcome),)


TEST = added("tests/test_a.py", "def test_a():\n    quietly(lambda: check(f(1), 2))\n    assert f(1) == 2\n")
RESEND = added(
    "tests/test_a.py",
    "class Fake:\n    def resend(self, text):\n        assert text == 'a1'\n\n\ndef test_a():\n    f(Fake())\n",
)


def test_a_new_test_that_passes_with_other_expected_values_is_found() -> None:
    comparison = Comparison(changes=(TEST,))
    files = alter_expectations(comparison)

    def codes(
        base: tuple[WatchedTest, ...], head: tuple[WatchedTest, ...], after: tuple[WatchedTest, ...]
    ) -> list[str]:
        return [one.code for one in judge_altered_tests(comparison, files, (base, head), after)]

    assert codes((), ran(), ran()) == ["expectation_ignored"]
    assert codes(ran("failed"), ran(), ran()) == ["expectation_ignored"], "the change mended it"
    assert codes((), ran(), ran("failed")) == []
    assert codes((), ran("failed"), ran()) == []
    assert codes(ran(), ran(), ran()) == [], "it is as it was"
    assert codes((), ran(), ()) == [], "it did not run"


def test_a_mended_test_of_an_unchanged_file_that_passes_with_other_expected_values_is_found() -> None:
    product = Comparison(
        changes=(added("a.py", "class Near:\n    def __eq__(self, other):\n        return f(other)\n"),)
    )
    text = "def test_a():\n    assert f(1) == 2\n\n\ndef test_b():\n    assert f(2) == 3\n"
    files = alter_expectations(product, {"tests/test_a.py": text})
    before, after = (*ran("failed"), *ran(name="test_b")), (*ran(), *ran(name="test_b"))
    found = judge_altered_tests(product, files, (before, after), after)
    assert [one.text.partition(" pass")[0] for one in found] == ["`test_a`"], "the other one was green before"
    assert judge_altered_tests(product, files, (before, after), ran("failed")) == ()


def test_a_value_that_the_other_side_is_made_of_is_not_altered() -> None:
    python = "@mark.parametrize('a, b', [(1, 2)])\ndef test_a(a, b):\n    assert read(write(a, b)) == b\n"
    assert altered("tests/test_a.py", python) == ""
    script = "it.each([[1, 2]])('a', (a, b) => {\n  expect(read(write(a, b))).toBe(b);\n});\n"
    assert altered("src/a.test.ts", script) == ""


def test_a_new_function_beside_tests_whose_expected_values_no_test_notices_is_found() -> None:
    files = alter_expectations(Comparison(changes=(RESEND,)))
    assert [(one.names, one.functions) for one in files] == [(frozenset(), ("Fake.resend",))]
    assert [one.code for one in judge_altered_functions(files, ran(), ran())] == ["expectation_ignored"]
    assert judge_altered_functions(files, ran(), ran("failed")) == ()
    assert judge_altered_functions(files, ran(), ()) == ()


HALF = """package size

func TestFormat(t *testing.T) {
	for _, tt := range []struct {
		n    int
		want string
	}{
		{1, "1 B"},
		{2, "2 B"},
		{3, "3 B"},
		{4, ""},
		{5, "5 B", "5 B"},
	} {
		if got := Format(tt.n); got != tt.want {
			t.Error(got)
		}
	}
}

func TestOne(t *testing.T) {
	if got := Format(5); got != "5 B" {
		t.Error(got)
	}
}
"""


def test_the_halves_of_a_test_are_altered_one_by_one() -> None:
    altered = alter_expectations(Comparison(changes=(added("size_test.go", HALF),)))
    found = [alter_halves(altered, {"size_test.go": HALF}, half) for half in HALVES]
    assert [one.names for half in found for one in half] == [frozenset({"TestFormat"})] * 2
    assert [one.tests.decode() for half in found for one in half] == [
        HALF.replace('"1 B"', '"1 C"'),
        HALF.replace('"2 B"', '"2 C"').replace('"3 B"', '"3 C"'),
    ]


def test_what_a_branch_compares_may_hold_elsewhere_and_is_not_altered_by_itself() -> None:
    text = (
        "#[test]\nfn sizes() {\n    if cfg!(windows) {\n        assert_eq!(size(1), 12);\n    }\n"
        "    assert_eq!(size(2), 13);\n    assert_eq!(size(3), 14);\n}\n"
    )
    altered = alter_expectations(Comparison(changes=(added("tests/a.rs", text),)))
    found = [alter_halves(altered, {"tests/a.rs": text}, half)[0].tests.decode() for half in HALVES]
    assert found == [text.replace("13", "14"), text.replace("3), 14", "3), 15")]
