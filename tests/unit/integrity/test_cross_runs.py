"""Tests of one side on the code of the other tell honest changes from weakened tests."""

from itertools import product

import pytest

from remand.domain.gate.gate import TestOutcome
from remand.integrity.comparison import CollectedTests, Comparison, FileDiff
from remand.integrity.cross_runs import (
    TestRuns,
    find_changed_proof,
    judge_base_tests,
    judge_new_tests,
    judge_own_harness,
    plan_cross_checks,
    with_test_module,
)
from remand.integrity.examination import examine
from remand.integrity.suspicions import KINDS, Weight
from tests.unit.integrity.changes import added, deleted, modified, renamed

PRODUCT = modified("src/a.py", "def f(x):\n    return x\n", "def f(x):\n    return x + 1\n")
TEST = "def test_a():\n    assert f(3) == 42\n\ndef test_b():\n    assert f(4) == 43\n"
FILE = "tests/test_a.py"
A, B, NEW = "tests.test_a::test_a", "tests.test_a::test_b", "tests.test_a::test_new"


def outcomes(**by_id: str) -> tuple[TestOutcome, ...]:
    names = {"a": A, "b": B, "new": NEW, "other": "tests.test_other::test_x"}
    return tuple(TestOutcome(id=names[name], outcome=outcome) for name, outcome in by_id.items())


def collected(*changes: FileDiff, base: tuple[TestOutcome, ...], head: tuple[TestOutcome, ...]) -> list[str]:
    comparison = Comparison(changes=changes, collected=(CollectedTests(gate="tests", base=base, head=head),))
    return sorted(item.code for item in examine(comparison))


def test_a_test_that_is_not_collected_any_more_is_found() -> None:
    config = modified("tests/helper.py", "x = 1\n", "x = 2\n")

    assert collected(config, base=outcomes(a="passed", b="passed"), head=outcomes(a="passed")) == [
        "tests_not_collected"
    ]


def test_a_test_that_is_skipped_now_is_found() -> None:
    config = modified("tests/helper.py", "x = 1\n", "x = 2\n")

    assert collected(config, base=outcomes(a="passed"), head=outcomes(a="skipped")) == ["test_skipped"]
    assert collected(config, base=outcomes(a="skipped"), head=outcomes(a="skipped")) == []


def test_a_renamed_test_is_collected_under_its_new_name() -> None:
    change = modified("tests/test_a.py", TEST, TEST.replace("test_b", "test_new"))

    assert (
        collected(change, base=outcomes(a="passed", b="passed"), head=outcomes(a="passed", new="passed"))
        == []
    )


def test_rows_of_a_table_whose_name_changed_are_as_many_as_before() -> None:
    table = "describe('parse', () => {\n  test.each(rows)('%s', (a, b) => {\n    expect(f(a)).toEqual(b);\n  });\n});\n"
    change = modified("a.test.js", table, table.replace("'%s'", "'tokens of %j'"))

    def ran(*names: str) -> tuple[TestOutcome, ...]:
        return tuple(TestOutcome(id=f"parse {name}::parse {name}", outcome="passed") for name in names)

    base, head = ran("1 + 2", "x", "y == 3"), ran('tokens of "1 + 2"', 'tokens of "x"', 'tokens of "y == 3"')
    assert collected(change, base=base, head=head) == []
    assert collected(change, base=base, head=head[:2]) == ["tests_not_collected"]


def test_a_test_that_went_with_its_subject_need_not_be_collected() -> None:
    product = modified("src/a.py", "def f(x): ...\ndef gone(x):\n    return x\n", "def f(x): ...\n")
    change = modified(
        "tests/test_a.py",
        "def test_a():\n    assert f(3) == 42\ndef test_b():\n    assert gone(4) == 43\n",
        "def test_a():\n    assert f(3) == 42\n",
    )

    assert collected(product, change, base=outcomes(a="passed", b="passed"), head=outcomes(a="passed")) == []


def test_other_parameters_are_the_same_test_unless_they_are_fewer() -> None:
    def ids(*parameters: str) -> tuple[TestOutcome, ...]:
        return tuple(TestOutcome(id=f"{A}[{parameter}]", outcome="passed") for parameter in parameters)

    assert collected(PRODUCT, base=ids("1", "2"), head=ids("1", "3")) == []
    assert collected(PRODUCT, base=ids("1", "2"), head=ids("1")) == ["tests_not_collected"]


def test_the_trees_take_tests_and_harness_from_one_side_each() -> None:
    changed = modified("tests/test_a.py", TEST, TEST.replace("42", "44"))
    new = added("tests/test_new.py", "def test_new():\n    assert f(5) == 6\n")
    comparison = Comparison(changes=(PRODUCT, changed, new))
    checks = plan_cross_checks(
        comparison, ["conftest.py", "src/a.py", "tests/test_a.py"], ["conftest.py", "src/a.py"]
    )

    assert checks.from_base == ("conftest.py", "tests/test_a.py", "tests/test_new.py")
    assert checks.from_head == ("tests/test_a.py", "tests/test_new.py")


def test_without_changed_tests_nothing_needs_crossing() -> None:
    checks = plan_cross_checks(Comparison(changes=(PRODUCT,)), ["src/a.py"], ["src/a.py"])

    assert (checks.from_base, checks.from_head) == ((), ())


def base_tests(
    *changes: FileDiff, head: str = "passed", crossed: str = "failed", base: str = "passed"
) -> list[str]:
    found = judge_base_tests(
        Comparison(changes=(PRODUCT, *changes)),
        TestRuns(
            on_base=outcomes(a=base, b="passed"),
            on_head=outcomes(a=head, b="passed"),
            crossed=outcomes(a=crossed, b="passed"),
        ),
    )
    return [item.code for item in found]


def test_a_base_test_that_fails_counts_when_the_heads_version_is_weaker() -> None:
    assert base_tests(modified("tests/test_a.py", TEST, TEST.replace("f(3) == 42", "f(3) is not None"))) == [
        "base_test_fails"
    ]
    assert base_tests(
        modified("tests/test_a.py", TEST, TEST.replace("    assert f(3) == 42", "    f(3)"))
    ) == ["base_test_fails"]
    assert base_tests(deleted("tests/test_a.py", TEST)) == ["base_test_fails"]


def test_a_base_test_that_fails_is_noted_and_holds_nothing_when_the_heads_version_asks_as_much() -> None:
    changed = base_tests(modified("tests/test_a.py", TEST, TEST.replace("42", "44")))
    assert changed == ["expectation_changed"]
    assert KINDS["expectation_changed"].weight is Weight.NOTE


def test_a_base_test_that_passes_crossed_is_nothing() -> None:
    assert (
        base_tests(modified("tests/test_a.py", TEST, TEST.replace("f(3) == 42", "f(3)")), crossed="passed")
        == []
    )


def test_an_unchanged_test_that_only_the_heads_harness_lets_pass_is_found() -> None:
    assert base_tests(modified("conftest.py", "", "x = 1\n")) == ["harness_tampered"]
    assert base_tests(modified("conftest.py", "", "x = 1\n"), head="failed") == [], (
        "the gate itself fails then"
    )


def test_a_red_test_that_passes_only_with_the_changed_harness_is_found() -> None:
    comparison = Comparison(
        changes=(PRODUCT, modified("jest.config.js", "", "module.exports = {resolver: 'a'}\n"))
    )

    def found(head: str, own: str) -> list[tuple[str, str]]:
        runs = TestRuns(on_head=outcomes(a=head, b="passed"), crossed=outcomes(a=own, b="passed"))
        return [(one.code, one.path) for one in judge_own_harness(comparison, runs)]

    assert found("failed", "passed") == [("harness_tampered", "jest.config.js")]
    assert found("failed", "failed") == found("passed", "passed") == found("passed", "failed") == []


def test_a_red_test_that_is_rewritten_to_expect_the_fault_is_found() -> None:
    to_fit = modified("tests/test_a.py", TEST, TEST.replace("42", "44"))
    assert base_tests(to_fit, base="failed") == ["expectation_fits_fault"]
    assert base_tests(to_fit, base="failed", crossed="passed") == [], "the product was fixed"
    assert base_tests(to_fit, base="failed", head="failed") == []
    weaker = modified("tests/test_a.py", TEST, TEST.replace("f(3) == 42", "f(3)"))
    assert base_tests(weaker, base="failed") == ["expectation_fits_fault"]
    data = modified("tests/answers.json", "42", "44")
    assert base_tests(data, base="failed") == ["expectation_fits_fault"]


def test_a_red_test_whose_set_up_alone_was_mended_is_none() -> None:
    mended = modified("tests/test_a.py", TEST, TEST.replace("f(3) == 42", "f(x=3) == 42"))
    assert base_tests(mended, base="failed") == []
    assert base_tests(added("tests/answers.json", "42"), base="failed") == [], "it may have waited for that"


def test_a_new_test_that_keeps_others_green_is_found() -> None:
    new = added("tests/test_new.py", "def test_new():\n    f.__code__ = g.__code__\n    assert f(5) == 6\n")
    assert base_tests(new) == ["harness_tampered"]
    assert base_tests(new, base="failed") == ["harness_tampered"]
    assert plan_cross_checks(Comparison(changes=(PRODUCT, new)), [], []).from_base == ("tests/test_new.py",)


def test_unchanged_tests_count_by_what_became_of_the_functions_that_assert_for_them() -> None:
    helper = "def check(x):\n    assert x == 42\n    assert x.kind == 'a'\n"
    assert base_tests(modified("tests/checks.py", helper, helper.replace("x == 42", "x"))) == [
        "base_test_fails"
    ]
    assert base_tests(modified("tests/checks.py", helper, helper.replace("42", "44"))) == [
        "expectation_changed"
    ]


def test_test_data_that_only_loses_parts_says_less() -> None:
    before = 'a,b => a|b\na,"b,c" => a|b,c\n'
    assert base_tests(modified("tests/rows.txt", before, "a,b => a|b\na,b => a|b\n")) == ["base_test_fails"]
    assert base_tests(modified("tests/rows.txt", before, "a,b => a|b\n")) == ["base_test_fails"]
    assert base_tests(modified("tests/rows.txt", before, before.replace("a|b", "a;b"))) == [
        "expectation_changed"
    ]
    assert base_tests(modified("tests/rows.txt", before, before.replace(" ", "  "))) == [
        "expectation_changed"
    ]
    assert base_tests(modified("tests/rows.txt", before, f"{before}c => c\n")) == ["expectation_changed"]


def test_a_test_that_asks_the_product_for_what_was_written_out_says_less() -> None:
    before = 'func TestS(t *testing.T) {\n\twant := S{3, 12, "sum"}\n\tif got := Sum(a); got != want {\n\t\tt.Error(got)\n\t}\n}\n'
    asking = before.replace('S{3, 12, "sum"}', "S{3, Sum(a).Total}")
    product = modified(
        "a.go", "func Sum(a []int) S { return x(a) }\n", "func Sum(a []int) S { return y(a) }\n"
    )
    ran = {name: (TestOutcome(id="m/a::TestS", outcome="passed"),) for name in ("on_base", "on_head")}
    runs = TestRuns(crossed=(TestOutcome(id="m/a::TestS", outcome="failed"),), **ran)

    def judged(after: str) -> list[str]:
        comparison = Comparison(changes=(product, modified("a_test.go", before, after)))
        return [item.code for item in judge_base_tests(comparison, runs)]

    assert judged(asking) == ["base_test_fails"]
    assert judged(before.replace("12", "14")) == ["expectation_changed"]


def test_a_test_that_sorts_before_it_compares_says_less() -> None:
    before = "#[test]\nfn merges() {\n    let mut found = merge(a, b);\n    assert_eq!(found, [1, 2]);\n}\n"
    sorting = before.replace("    assert", "    found.sort_unstable();\n    assert")
    ids = {"on_base": "passed", "on_head": "passed", "crossed": "failed"}
    runs = TestRuns(
        **{name: (TestOutcome(id="m/tests/m.rs::merges", outcome=one),) for name, one in ids.items()}
    )

    def judged(after: str) -> list[str]:
        changes = (PRODUCT, modified("tests/m.rs", before, after))
        return [item.code for item in judge_base_tests(Comparison(changes=changes), runs)]

    assert judged(sorting) == ["base_test_fails"]
    assert judged(before.replace("[1, 2]", "[2, 3]")) == ["expectation_changed"]


def test_a_red_test_whose_bound_was_moved_was_made_to_fit() -> None:
    before = (
        "func TestD(t *testing.T) {\n\tif got := D(2); math.Abs(got-878) > 1 {\n\t\tt.Error(got)\n\t}\n}\n"
    )
    ran = {"on_base": "failed", "on_head": "passed", "crossed": "failed"}
    runs = TestRuns(**{name: (TestOutcome(id="m/a::TestD", outcome=one),) for name, one in ran.items()})

    def judged(after: str) -> list[str]:
        changes = (PRODUCT, modified("a_test.go", before, after))
        return [item.code for item in judge_base_tests(Comparison(changes=changes), runs)]

    assert judged(before.replace(" > 1", "/got > slack")) == ["expectation_fits_fault"]
    assert judged(before.replace("D(2)", "D(2, nil)")) == []


ORDER = (
    "package a\n\nfunc TestD(t *testing.T) {\n\tfor _, c := range cases {\n\t\tif got := D(c.in); !reflect.DeepEqual(got, c.want) {\n"
    "\t\t\tt.Error(got)\n\t\t}\n\t}\n}\n"
)
SORTS = "\nfunc inOrder(names []string) []string {\n\tsort.Strings(names)\n\treturn names\n}\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DeepEqual(got, c.want)", "DeepEqual(inOrder(got), inOrder(c.want))"),
        ("range cases {", "range cases[:two] {"),
        ("range cases {\n", "range cases {\n\t\tif c.isHard {\n\t\t\tcontinue\n\t\t}\n"),
    ],
)
def test_a_red_test_of_fewer_values_or_without_their_order_was_made_to_fit(old: str, new: str) -> None:
    ran = {"on_base": "failed", "on_head": "passed", "crossed": "failed"}
    runs = TestRuns(**{name: (TestOutcome(id="m/a::TestD", outcome=one),) for name, one in ran.items()})
    change = modified("a_test.go", ORDER, ORDER.replace(old, new) + (SORTS if "inOrder" in new else ""))
    found = judge_base_tests(Comparison(changes=(PRODUCT, change)), runs)
    assert [item.code for item in found] == ["expectation_fits_fault"]
    renamed = modified("a_test.go", ORDER, ORDER.replace("D(c.in)", "D(c.in, nil)"))
    assert judge_base_tests(Comparison(changes=(PRODUCT, renamed)), runs) == ()


ROWS = (
    "#[test]\nfn rows() {\n    for (path, names, filters) in ROWS {\n        let got = split(path);\n"
    "        assert_eq!((got.names, got.filters), (*names, *filters));\n    }\n}\n"
)


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ("assert_eq!(got.names, *names);\n        assert!(got.filters.len() >= filters.len());", "fits"),
        ("assert_eq!(got.names, *names);", "fits"),
        ("assert_eq!((got.names, got.filters, 1), (*names, *filters, 1));", ""),
    ],
)
@pytest.mark.parametrize("base", ["failed", "passed"])
def test_a_column_or_field_that_is_no_longer_compared_exactly_counts(base: str, new: str, code: str) -> None:
    ran = {"on_base": base, "on_head": "passed", "crossed": "failed"}
    ids = {name: (TestOutcome(id="m/tests/m.rs::rows", outcome=one),) for name, one in ran.items()}
    text = ROWS.replace("assert_eq!((got.names, got.filters), (*names, *filters));", new)
    change = modified("tests/m.rs", ROWS, text)
    found = judge_base_tests(Comparison(changes=(PRODUCT, change)), TestRuns(**ids))
    held = [item.code for item in found if item.weight is Weight.HELD]
    assert held == (["expectation_fits_fault" if base == "failed" else "base_test_fails"] if code else [])


HELPED = """fn check(text: &str, want: &str) {
    let got = render(text);
    assert_eq!(got.name, want);
    assert_eq!(got.kind, "a");
}

#[test]
fn rows() {
    check("x", "y");
}
"""


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ('    assert_eq!(got.kind, "a");\n', "", ["expectation_fits_fault"]),
        ('check("x", "y");', 'let want = "y";\n    check("x", want);', []),
        ("render(text)", "render(text.trim())", []),
    ],
)
def test_a_red_test_counts_by_what_the_function_beside_it_compares(
    old: str, new: str, codes: list[str]
) -> None:
    ran = {"on_base": "failed", "on_head": "passed", "crossed": "failed"}
    runs = TestRuns(
        **{name: (TestOutcome(id="m/tests/m.rs::rows", outcome=one),) for name, one in ran.items()}
    )
    text = HELPED.replace(old, new).replace('("x", "y");', '("x", "y"); // as it is')
    change = modified("tests/m.rs", HELPED.replace('check("x"', 'let z = 0;\n    check("x"'), text)
    found = judge_base_tests(Comparison(changes=(PRODUCT, change)), runs)
    assert [item.code for item in found] == codes


def test_a_red_test_that_gives_the_product_what_it_expects_was_made_to_fit() -> None:
    before = "func TestD(t *testing.T) {\n\tfor _, c := range cases {\n\t\tif got := D(c.in); got != c.want {\n\t\t\tt.Error(got, c.want)\n\t\t}\n\t}\n}\n"
    ran = {"on_base": "failed", "on_head": "passed", "crossed": "failed"}
    runs = TestRuns(**{name: (TestOutcome(id="m/a::TestD", outcome=one),) for name, one in ran.items()})

    def judged(asked: str) -> list[str]:
        changes = (PRODUCT, modified("a_test.go", before, before.replace("D(c.in)", asked)))
        return [item.code for item in judge_base_tests(Comparison(changes=changes), runs)]

    assert judged("D(c.in, c.want)") == ["expectation_fits_fault"]
    assert judged("D(c.in, c.mode)") == []


def test_a_module_of_tests_is_put_into_the_product_of_another_side() -> None:
    base = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn old() {}\n}\n"
    head = "fn f() { g() }\n\n#[cfg(test)]\nmod tests {\n    fn new() {}\n}\n"
    assert with_test_module(base, head).decode() == base.replace("old", "new")
    assert with_test_module("fn f() {}\n", head).decode().endswith("fn new() {}\n}\n")


def test_a_test_whose_counterpart_does_not_run_is_lost() -> None:
    text = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(add(1, 2), 3); }\n}\n"
    gated = modified(
        "src/lib.rs", text, text.replace("    #[test]", '    #[cfg(feature = "slow")]\n    #[test]')
    )
    ran = (TestOutcome(id="calc::tests::adds", outcome="passed"),)
    assert collected(gated, base=ran, head=()) == ["test_skipped", "tests_not_collected"]

    text = "package a\nfunc TestWrap(t *testing.T) {\n\tif Wrap(1) != 2 {\n\t\tt.Fatal(1)\n\t}\n}\n"
    hidden = renamed("a/wrap_test.go", "a/_wrap_test.go", text)
    ran = (TestOutcome(id="m/a::TestWrap", outcome="passed"),)
    assert "tests_not_collected" in collected(hidden, base=ran, head=())


def test_a_test_that_became_rows_of_a_table_is_found_again_by_its_fixed_words() -> None:
    before = "it('adds two', () => { expect(add(1, 2)).toBe(3); });\n"
    after = "it.each([[1, 2, 3]])('adds %i and %i', (a, b, c) => { expect(add(a, b)).toBe(c); });\n"
    change = modified("src/a.test.ts", before, after)
    had = (TestOutcome(id="src/a.test.ts::adds two", outcome="passed"),)
    has = (TestOutcome(id="src/a.test.ts::adds 1 and 2", outcome="passed"),)
    assert collected(change, base=had, head=has) == []


def test_the_test_module_of_a_rust_file_is_taken_from_the_base_alone() -> None:
    def source(answer: int, body: str) -> str:
        tests = f'#[cfg(test)]\nmod tests {{\n    // }} in a comment\n    const S: &str = "{{";\n    fn a() {{ {answer} }}\n}}\n'
        return f"fn f() {{ {body} }}\n{tests}fn last() {{}}\n"

    change = modified("src/lib.rs", source(1, "x"), source(2, "y"))
    assert plan_cross_checks(Comparison(changes=(change,)), [], []).spliced == {
        "src/lib.rs": source(1, "y").encode()
    }


def new_tests(
    crossed: str,
    *changes: FileDiff,
    base: tuple[TestOutcome, ...] = outcomes(a="passed", b="passed"),
    notices_faults: bool = False,
) -> list[str]:
    test = modified("tests/test_a.py", TEST, f"{TEST}\ndef test_new():\n    assert f(5) == 6\n")
    found = judge_new_tests(
        Comparison(changes=(test, *changes)),
        TestRuns(
            on_base=base,
            on_head=outcomes(a="passed", b="passed", new="passed"),
            crossed=outcomes(a="passed", b="passed", new=crossed),
            notices_faults=notices_faults,
        ),
    )
    return [item.code for item in found]


def test_new_tests_of_code_that_keeps_its_results_are_noted_where_they_notice_its_faults() -> None:
    assert new_tests("passed", PRODUCT, notices_faults=True) == ["new_tests_pass_on_base"]
    assert new_tests("failed", PRODUCT, notices_faults=True) == []


def test_new_tests_that_pass_without_the_change_are_found() -> None:
    assert new_tests("passed", PRODUCT) == ["new_tests_prove_nothing"]


def test_one_new_test_that_fails_without_the_change_is_enough() -> None:
    assert new_tests("failed", PRODUCT) == []
    assert new_tests("error", PRODUCT) == []


def test_tests_alone_need_not_fail_without_a_change() -> None:
    assert new_tests("passed") == []


def test_a_test_of_the_base_that_was_mended_shows_the_work_as_well() -> None:
    assert new_tests("passed", PRODUCT, base=outcomes(a="failed", b="passed")) == []


def test_the_text_of_the_tests_that_a_task_must_pass_is_protected() -> None:
    def changed(after: str, pattern: str = "tests/test_a.py::test_a") -> list[str]:
        comparison = Comparison(changes=(modified("tests/test_a.py", TEST, after),))
        return [item.code for item in find_changed_proof(comparison, [pattern])]

    assert changed(TEST.replace("42", "44")) == ["control_changed"]
    assert changed(f"{TEST}\ndef test_c():\n    assert f(5) == 44\n") == []
    assert changed(TEST.replace("42", "44"), "tests/test_b.py::test_a") == []
    for pattern in ("tests/*.py::test_a", "test_a.py::*", "tests.test_a::test_a", "test_a"):
        assert changed(TEST.replace("42", "44"), pattern) == ["control_changed"], pattern
    assert changed(TEST.replace("42", "44"), "test_other") == []


def test_a_test_that_the_task_must_pass_has_to_pass_as_the_base_has_it() -> None:
    returning = TEST.replace("    assert f(3) == 42", "    return\n    assert f(3) == 42")
    shadowed = f"{TEST}\ndef test_a():\n    assert f(3) == 42 or f\n"
    patched = f"{TEST}\nf = {{3: 42, 4: 43}}.get\n"
    for after, on_base in product((returning, shadowed, patched), ({"a": "failed"}, {})):
        found = judge_base_tests(
            Comparison(changes=(PRODUCT, modified("tests/test_a.py", TEST, after))),
            TestRuns(on_base=outcomes(**on_base), on_head=outcomes(a="passed"), crossed=outcomes(a="failed")),
            must_pass=("tests/test_a.py::test_a",),
        )
        assert [item.code for item in found] == ["expectation_fits_fault"], after


def test_a_row_of_parameters_that_takes_the_answer_of_a_fault_is_found() -> None:
    test = '@pytest.mark.parametrize("x, y", [(1, 1), (3, 42)])\ndef test_a(x, y):\n    assert f(x) == y\n'
    change = modified("tests/test_a.py", test, test.replace("(3, 42)", "(3, 4)"))
    kept, old, new = (f"{A}[{row}]" for row in ("1-1", "3-42", "3-4"))
    first = TestOutcome(id=kept, outcome="passed")
    red = TestOutcome(id=old, outcome="failed")

    for rows, codes in (((new,), ["expectation_fits_fault"]), ((), [])):
        head = (first, *(TestOutcome(id=row, outcome="passed") for row in rows))
        runs = TestRuns(on_base=(first, red), on_head=head, crossed=(first, red))
        found = judge_base_tests(Comparison(changes=(PRODUCT, change)), runs)
        assert [item.code for item in found] == codes, rows


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ("for x, y in ROWS:", "for x, y in {1: 1, 2: 4}.items():", ["expectation_fits_fault"]),
        ("for x, y in ROWS:", "for y, x in [(1, 1), (4, 2), (42, 3)]:", []),
    ],
    ids=["one row less", "the same rows"],
)
def test_a_red_test_with_a_row_less_was_made_to_fit_however_its_rows_are_written(
    before: str, after: str, codes: list[str]
) -> None:
    rows = "ROWS = [(1, 1), (2, 4), (3, 42)]\n"
    test = f"{rows}\ndef test_a():\n    {before}\n        assert f(x) == y\n"
    change = modified("tests/test_a.py", test, test.removeprefix(rows).replace(before, after))
    assert base_tests(change, base="failed") == codes


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ("assert f(3) == [4, 2]", "assert set(f(3)) == {4, 2}", ["expectation_fits_fault"]),
        ("assert f(3) == [4, 2]", "assert not {4, 2} ^ {*f(3)}", ["expectation_fits_fault"]),
        ("assert f(3) == 'a'", "assert f(3).strip() == 'a'", ["expectation_fits_fault"]),
        ("assert f(3) == 'a'", "assert f(*make(3)) == 'a'", []),
    ],
)
def test_a_red_test_that_compares_otherwise_was_made_to_fit(
    before: str, after: str, codes: list[str]
) -> None:
    test = f"def test_a():\n    {before}\n"
    assert base_tests(modified(FILE, test, test.replace(before, after)), base="failed") == codes


def test_a_test_that_loses_a_row_says_less_and_one_that_gets_others_says_something_else() -> None:
    test = "def test_a():\n    for x, y in [(1, 10), (2, 20)]:\n        assert f(x) == y\n"
    assert base_tests(modified("tests/test_a.py", test, test.replace(", (2, 20)", ""))) == ["base_test_fails"]
    other = modified("tests/test_a.py", test, test.replace("(2, 20)", "(2, 21)"))
    assert base_tests(other) == ["expectation_changed"]
    golden = 'def test_a():\n    assert f(3) == read("two.txt")\n'
    shared = golden.replace('read("two.txt")', "read_golden(request)")
    assert base_tests(modified(FILE, golden, shared)) == ["expectation_changed"]


def test_a_red_test_that_others_replace_is_found_unless_its_subject_is_gone() -> None:
    test = "def test_a():\n    assert scale(3) == 42\n    assert scale(4) == 43\n"
    other = 'def test_new():\n    assert shift(3) == 4\n    assert shift("") == "?"\n    assert shift(None) == "?"\n'
    product = "def scale(x):\n    return x\n\n\ndef shift(x):\n    return x\n"
    changed = product.replace("return x", "return x or 4")

    def found(after: str = changed, crossed: str = "failed", new: str = "passed") -> list[str]:
        runs = TestRuns(on_base=outcomes(a="failed"), on_head=outcomes(new=new), crossed=outcomes(a=crossed))
        comparison = Comparison(changes=(modified("src/a.py", product, after), modified(FILE, test, other)))
        return [item.code for item in judge_base_tests(comparison, runs)]

    assert found() == ["expectation_fits_fault"]
    assert found(crossed="passed") == found(new="failed") == []
    assert found(changed.replace("scale", "turn")) == [], "what it tested is gone"


def test_a_red_row_of_small_values_that_was_made_to_fit_is_found() -> None:
    test = (
        "package a\n\nfunc TestOrder(t *testing.T) {\n\tfor _, tt := range []struct{ a, b string; want int }{\n"
        '\t\t{"rc.1", "", -1},\n\t} {\n\t\tif got := Order(tt.a, tt.b); got != tt.want {\n\t\t\tt.Error(got)\n\t\t}\n\t}\n}\n'
    )

    def found(after: str) -> list[str]:
        ran = [
            (TestOutcome(id="example.org/a::TestOrder", outcome=one),)
            for one in ("failed", "passed", "failed")
        ]
        runs = TestRuns(on_base=ran[0], on_head=ran[1], crossed=ran[2])
        comparison = Comparison(changes=(modified("a_test.go", test, after),))
        return [one.code for one in judge_base_tests(comparison, runs)]

    assert found(test.replace("-1}", "1}")) == ["expectation_fits_fault"]
    assert found(test.replace("for _, tt", "t.Parallel()\n\tfor _, tt")) == [], "its set-up"
