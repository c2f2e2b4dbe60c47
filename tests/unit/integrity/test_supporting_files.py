"""Files that serve tests alone are read and run as tests are, wherever they lie."""

import pytest

from remand.domain.gate.gate import TestOutcome
from remand.integrity.comparison import Comparison
from remand.integrity.cross_runs import TestRuns, judge_base_tests, plan_cross_checks
from remand.integrity.harness import supports_tests
from tests.unit.integrity.changes import added, held, modified

SAME = """import { expect } from 'vitest';

export const expectCents = (found: number, wanted: number): void => {
  expect(found).toBe(wanted);
};
"""
NEAR = SAME.replace("expect(found).toBe(wanted)", "expect(Math.abs(found - wanted)).toBeLessThanOrEqual(1)")
GO = """package check

import "testing"

// Equal compares.
func Equal(t *testing.T, got, want int) {
	if got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
"""
LOOSE = GO.replace("if got != want", "if got-want > 1")


@pytest.mark.parametrize(
    ("path", "text", "is_support"),
    [
        ("src/same.ts", SAME, True),
        ("src/same.js", "export function same(a, b) {\n  expect(a).toEqual(b);\n}\n", True),
        ("internal/check/check.go", GO, True),
        ("src/test_util.rs", "pub fn same(a: u8, b: u8) {\n    assert_eq!(a, b);\n}\n", True),
        ("src/__mocks__/mail.ts", "export const send = () => true;\n", True),
        (
            "src/same.ts",
            "if (import.meta.vitest) {\n  const { expect } = await import('vitest');\n}\n",
            False,
        ),
        ("src/sum.ts", "import assert from 'node:assert';\nexport const sum = (a) => assert(a);\n", False),
        ("vite.config.ts", "import { defineConfig } from 'vitest/config';\n", False),
        ("parser.go", "package a\n\nfunc (p *parser) expect(t token) {}\n", False),
        ("src/parse.ts", "class P {\n  a() {\n    this.expect('x').toString();\n  }\n}\n", False),
        ("src/a.test.ts", SAME, False),
        ("src/testing.py", "import pytest\n", False),
    ],
)
def test_a_file_serves_tests_by_its_path_or_what_it_asserts_with(
    path: str, text: str, is_support: bool
) -> None:
    assert supports_tests(path, text) is is_support


@pytest.mark.parametrize(
    ("path", "text", "loose"), [("src/same.ts", SAME, NEAR), ("check/check.go", GO, LOOSE)]
)
def test_a_supporting_file_that_accepts_more_is_held(path: str, text: str, loose: str) -> None:
    assert held(modified(path, text, loose)) & {"assertion_weakened", "assertion_removed", "test_emptied"}


def test_base_tests_run_with_the_supporting_files_of_the_base() -> None:
    product = modified("src/tax.ts", "export const tax = 1;\n", "export const tax = 2;\n")
    support = modified("src/same.ts", SAME, NEAR)
    comparison = Comparison(changes=(product, support))
    assert plan_cross_checks(comparison, (), ()).from_base == ("src/same.ts",)
    assert plan_cross_checks(Comparison(changes=(product,)), (), ()).from_base == ()

    def ran(outcome: str) -> tuple[TestOutcome, ...]:
        return (TestOutcome(id="src/tax.test::rounds", outcome=outcome),)

    fitted = TestRuns(on_base=ran("failed"), on_head=ran("passed"), crossed=ran("failed"))
    assert [(one.code, one.path) for one in judge_base_tests(comparison, fitted)] == [
        ("expectation_fits_fault", "src/same.ts")
    ]


def test_a_new_supporting_file_makes_no_test_of_the_product() -> None:
    product = modified("src/same.ts", "export const same = (a, b) => a === b;\n", SAME)
    assert plan_cross_checks(Comparison(changes=(product,)), (), ()).from_base == ()
    assert plan_cross_checks(Comparison(changes=(added("src/same.ts", SAME),)), (), ()).from_base == (
        "src/same.ts",
    )


def test_a_failing_test_is_looked_for_in_files_of_tests_and_not_in_those_of_the_product_with_the_same_name() -> (
    None
):
    test = 'package tax\n\nimport "testing"\n\nfunc TestRounds(t *testing.T) {\n\tif Tax(100) != 19 {\n\t\tt.Fatal("no")\n\t}\n}\n'
    product = "package tax\n\nfunc Tax(n int) int {\n\treturn n * 19 / 100\n}\n"
    changes = (
        modified("tax.go", product, product.replace("n * 19", "n * 18")),
        modified("tax_test.go", test, test.replace("!= 19", "< 10")),
    )

    def ran(outcome: str) -> tuple[TestOutcome, ...]:
        return (TestOutcome(id="example.org/tax::TestRounds", outcome=outcome),)

    runs = TestRuns(on_base=ran("passed"), on_head=ran("passed"), crossed=ran("failed"))
    assert [(one.code, one.path) for one in judge_base_tests(Comparison(changes=changes), runs)] == [
        ("base_test_fails", "tax_test.go")
    ]
