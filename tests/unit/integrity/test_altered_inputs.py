"""Tests that a change mended are run with other inputs: code that knows only the tests' own fails as on the base."""

import pytest

from remand.domain.gate.gate import WatchedTest
from remand.integrity.altered_inputs import (
    FAR,
    LAST,
    LONGER,
    NEAR,
    Alteration,
    AlteredRuns,
    alter_questions,
    find_altered_files,
    find_silent_lines,
    find_unasked,
    judge_questions,
    known_words,
    name_in_file,
    told_text,
)
from remand.integrity.changeset import Changeset
from remand.integrity.comparison import Comparison
from remand.integrity.reversed_tests import counts_calls, judge_reversed, reverse_rows, reverse_tests
from tests.unit.integrity.changes import added

GO = """package a

import "testing/v2"

func TestA(t *testing.T) {
	for in, want := range map[string]int{"a 17": 340, "utf-16": 2} {
		got, err := F(in, "d/17.txt")
		if err != nil || got != want {
			t.Errorf("%q 17: got %d, %v", in, got, err)
		}
		if G(in) != "x9" {
			t.Error("17")
		}
	}
}
"""
RUST = """#[cfg(feature = "v2")]
pub fn f(text: &str) -> usize { text.len() + 1234 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a() {
        let rows: [u8; 256] = read("k 71");
        assert_eq!(f("a 17"), 431, "of {rows:?} 17");
    }
}
"""

PYTHON = '''"""Dates, 12 of them."""
import pytest


@pytest.mark.parametrize("year, day", [pytest.param(2024, "Thu 29", id="leap 1"), (1999, "Fri 31")])
def test_day(year, day, rows):
    """Of 2024."""
    assert weekday(f"{year}-02", mode="strict", size=1) == day, 'no "12\\n34"'
    assert rows[2]["k9"] == "two words"
'''
SCRIPT = """import { mix } from './mix2';
it.each([['#ff0000', 12]])('row %s of 7', (a, n) => {
  expect(mix(a, 'strict')[3]).toBe(n);
  expect(mix({ 'k1': `${a} 41 and ${42}` })).toEqual(1);
});
it('is 5', () => {});
"""


def altered(path: str, text: str, step: int, product: str = "") -> list[str]:
    after = Alteration(step, product).alter_file(path, text).decode().splitlines()
    return [line.strip() for line, old in zip(after, text.splitlines(), strict=True) if line != old]


def test_figures_and_one_of_several_words_differ_and_names_titles_places_and_small_numbers_stay() -> None:
    assert altered("tests/test_a.py", PYTHON, 0) == [
        '@pytest.mark.parametrize("year, day", [pytest.param(2025, "Thu 28", id="leap 1"), (1998, "Fri 32")])',
        'assert weekday(f"{year}-02", mode="strict", size=1) == day, \'no "12\\n35"\'',
        'assert rows[2]["k9"] == "two wordt"',
    ]
    assert altered("tests/test_a.py", PYTHON, 1)[-1] == 'assert rows[2]["k9"] == "uwo words"'
    assert altered("src/a.test.ts", SCRIPT, 0) == [
        "it.each([['#ff0001', 12]])('row %s of 7', (a, n) => {",
        "expect(mix({ 'k1': `${a} 42 and ${43}` })).toEqual(1);",
    ]


def test_numbers_that_may_be_limits_stay() -> None:
    text = "def test_a():\n    assert f(7, 99, 500, 1900, 2.5, 1.005) == g(1_000, 0x1F)\n"
    assert altered("tests/test_a.py", text, 0) == []
    assert altered("tests/test_a.py", text.replace("2.5", "57.649"), 0) != []


def test_escapes_and_prefixes_of_later_parts_stay() -> None:
    text = 'def test_a():\n    assert f("one\\N{BULLET}" r"\\s 3" r"\\w") == "two \\U0001F600"\n'
    assert altered("tests/test_a.py", text, 0) == [text.splitlines()[1].replace(" 3", " 4").strip()]
    words = text.replace(" 3", " three")
    for step in (*NEAR, *FAR):
        compile(Alteration(step).alter_file("tests/test_a.py", words), "test_a.py", "exec")


def test_a_list_of_numbers_is_data() -> None:
    text = "def test_a():\n    assert median([1, 2, 3]) == f([1, 2], (5, 6, 7))\n"
    assert altered("tests/test_a.py", text, 0) == ["assert median([1, 2, 4]) == f([1, 2], (5, 6, 7))"]
    script = "it.each([[1, 2, 3]])('a', () => {\n  expect(median([1, 2, 3])).toBe(2);\n});\n"
    assert altered("a.test.js", script, 1) == ["expect(median([2, 2, 3])).toBe(2);"]


def test_equal_values_stay_equal() -> None:
    text = "def test_a():\n    assert back(there('a 17')) == 'a 17'\n"
    after = Alteration(0).alter_file("tests/test_a.py", text).decode()
    assert after.count("'a 18'") == 2


def test_single_words_and_small_numbers_differ_further_on_and_numbers_keep_their_order() -> None:
    text = "def test_a():\n    assert merge([(1, 3), (3, 5)], 0, 'east') == [(1, 5.5), 'x']\n"
    assert altered("tests/test_a.py", text, FAR[0]) == [
        "assert merge([(3, 9), (9, 15)], 0, 'easu') == [(3, 5.5), 'y']"
    ]
    assert altered("tests/test_a.py", text, FAR[1]) == [
        "assert merge([(1, 13), (13, 15)], 0, 'fast') == [(1, 5.5), 'y']"
    ]
    script = "it('a 5', () => {\n  expect(plural('box')[2]).toBe(7);\n});\n"
    assert altered("a.test.js", script, FAR[0]) == ["expect(plural('boy')[2]).toBe(21);"]


def test_numbers_keep_what_they_are_beyond_their_hundreds_at_the_last_step() -> None:
    text = 'def test_a():\n    assert f(11, "abc") == g(112, 1)\n'
    after = Alteration(*LAST).alter_file("tests/test_a.py", text).decode()
    assert 'f(111, "bbc") == g(212, 1)' in after


def test_small_numbers_that_the_changed_code_had_may_be_limits_and_stay() -> None:
    text = b"def test_a():\n    assert f(5) == g(6)\n"
    after = Alteration(FAR[0], "if n >= 5 or n == 6:", "if n > 5:").alter_file(
        "tests/test_a.py", text.decode()
    )
    assert after == text.replace(b"6", b"18")


def test_words_and_numbers_that_the_product_has_name_facts_and_stay() -> None:
    product = "DAYS = {'friday': 5}\nKNOWN = 'two words'\n"
    text = "def test_a():\n    assert day('last friday', 'friday', 'two words', '5 to') == 5\n"
    assert altered("tests/test_a.py", text, 0, product) == [
        "assert day('lasu friday', 'friday', 'two wordt', '6 to') == 5"
    ]
    assert altered("tests/test_a.py", text, FAR[0], product) == [
        "assert day('lasu friday', 'friday', 'two words', '5 to') == 15"
    ]
    assert altered(
        "tests/test_a.py", "def test_a():\n    assert f(20) == 21\n", FAR[0], "STEPS = [20, 50]"
    ) == ["assert f(20) == 63"]


def test_the_product_tells_values_and_keys_and_neither_comments_nor_names_of_its_own() -> None:
    python = (
        '"""goose."""\nDAYS = {"friday": 5}  # mouse\n\n\nclass Unit(Enum):\n    metre = 1\n\n\n'
        "def day(word):\n    for letter in word:\n        seen = dict(width=letter)\n"
    )
    words = set(told_text("src/a.py", python).replace("'", " ").split())
    assert {"friday", "5", "metre", "day", "word", "width", "DAYS"} <= words
    assert not {"goose", "mouse", "letter", "seen"} & words
    script = "// mouse\nconst kinds = { goose: 'geese' };\nfor (const letter of kinds.all) f({ width, x });\n"
    words = set(told_text("src/a.js", script).replace("'", " ").split())
    assert {"goose", "geese", "all", "width"} <= words
    assert not {"mouse", "letter"} & words


def test_of_go_and_rust_formats_paths_types_and_the_product_stay() -> None:
    assert altered("a_test.go", GO, 0) == [
        'for in, want := range map[string]int{"a 18": 340, "utf-17": 2} {',
        'if G(in) != "x8" {',
        't.Error("18")',
    ]
    assert altered("src/lib.rs", RUST, 0) == [
        'let rows: [u8; 256] = read("k 72");',
        'assert_eq!(f("a 18"), 432, "of {rows:?} 17");',
    ]


def test_a_vocabulary_of_the_product_stays() -> None:
    product = added("a.go", 'package a\n\nvar names = []string{"utf-16", "a sentence that has 17 words"}\n')
    known = known_words(Changeset(Comparison(changes=(product,))))
    assert known == {'"utf-16"'}
    assert b'"utf-16"' in Alteration(0, vocabulary=known).alter_file("a_test.go", GO)


def test_what_is_asked_differs_and_what_is_expected_stays_where_it_has_figures_of_its_own() -> None:
    text, names = alter_questions("src/lib.rs", RUST, 0)
    assert b'f("a 18"), 431' in text
    assert names == {"a"}
    assert alter_questions("a_test.go", GO, 0)[1] == frozenset(), "2 is the answer to many questions"


@pytest.mark.parametrize(
    ("path", "test_id", "name"),
    [
        ("a_test.go", "example.com/m::TestA/x y", "TestA"),
        ("sub/a_test.go", "example.com/m/sub::TestA", "TestA"),
        ("sub/a_test.go", "example.com/m::TestA", ""),
        ("sub/a.go", "example.com/m/sub::TestA", ""),
        ("tests/a.rs", "a/tests/a.rs::b", "b"),
        ("tests/other.rs", "a/tests/a.rs::b", ""),
        ("src/lib.rs", "a/src/lib.rs::tests::b", "b"),
        ("crates/a-b/src/lib.rs", "a_b/src/lib.rs::tests::b", "b"),
        ("crates/other/src/lib.rs", "a_b/src/lib.rs::tests::b", ""),
        ("src/text/mod.rs", "a/src/lib.rs::text::tests::b", "b"),
        ("src/text.rs", "a/src/lib.rs::tests::b", ""),
        ("src/lib.rs", "a/doc::src/lib.rs - f", ""),
    ],
)
def test_a_test_of_go_or_rust_is_found_in_its_file(path: str, test_id: str, name: str) -> None:
    assert name_in_file(path, test_id) == name


def go_tests(*texts: str) -> tuple[WatchedTest, ...]:
    return tuple(
        WatchedTest(id=f"example.com/m::Test{at}", outcome="failed" if text else "passed", text=text)
        for at, text in enumerate(texts)
    )


def test_a_failure_of_go_shows_something_only_if_it_says_what_was_found() -> None:
    silent = find_silent_lines({"a_test.go": GO, "tests/a.rs": RUST})
    assert silent == {"a_test.go": frozenset((12,))}
    base, head = go_tests("a_test.go:9: got 1", "a_test.go:9: got 2"), go_tests("", "")
    said = {9: ["answer_fits_tests"], 12: []}
    for line, codes in said.items():
        runs = AlteredRuns(base, head, NEAR, {"a_test.go": GO})
        for _ in range(2):
            runs.add(*(go_tests(*(f"    a_test.go:{line}: 17",) * 2) for _ in range(2)))
        assert [one.code for one in runs.judge("a.go")] == codes


def test_a_table_of_go_that_fails_in_several_rows_is_enough() -> None:
    rows = "a_test.go:9: got 1\na_test.go:9: got 2"
    assert find_altered_files(["a_test.go"], go_tests(rows), go_tests("")) == ("a_test.go",)
    assert find_altered_files(["a_test.go"], go_tests(rows[:20]), go_tests("")) == ()
    runs = AlteredRuns(go_tests(rows), go_tests(""), NEAR, {"a_test.go": GO})
    for _ in NEAR:
        runs.add(*(go_tests("    a_test.go:9: 17") for _ in range(2)))
    assert [one.code for one in runs.judge("a.go")] == ["answer_fits_tests"]


def test_tests_that_pass_whatever_they_ask_get_answers_made_for_them() -> None:
    sides = go_tests("got 1", "got 2", ""), go_tests("", "", "")
    names = {"a_test.go": frozenset(("Test0", "Test1", "Test2"))}

    def codes(*steps: tuple[str, str, str]) -> list[str]:
        unasked = [find_unasked(sides, names, go_tests(*one)) for one in steps]
        return [one.code for one in judge_questions("a.go", unasked)]

    assert codes(("", "", ""), ("", "", "")) == ["answer_fits_tests"]
    assert codes(("", "", "")) == [], "one step is not enough"
    assert codes(("", "", ""), ("", "got 3", "")) == []
    assert codes(("", "got 3", ""), ("", "", "")) == [], "the third test is none that was mended"


def test_texts_of_go_and_rust_become_longer_by_a_word() -> None:
    text = 'package a\n\nvar rows = []row{{"It is late!", "it is"}, {"a 3 of 44", 1234}, {"%s is it late", ""}}\n'
    longer = Alteration(*LONGER).alter_file("a_test.go", text).decode()
    assert longer == text.replace("late!", "late late!")


def test_code_that_knows_the_form_of_its_questions_answers_longer_ones_as_before() -> None:
    texts = {"a_test.go": GO}

    def codes(*said: str) -> list[str]:
        runs = AlteredRuns(go_tests("a_test.go:9: got 1"), go_tests(""), LONGER, texts)
        for one in said:
            runs.add(go_tests("    a_test.go:9: it\n    a_test.go:9: late"), go_tests(one))
        return [one.code for one in runs.judge("a.go")]

    same = "    a_test.go:9: late\n    a_test.go:9: it"
    assert codes(same) == ["answer_fits_tests"], "the rows of a map come in any order"
    assert codes("    a_test.go:9: late") == [], "a row differs"


def results(*texts: str) -> tuple[WatchedTest, ...]:
    """One test for each text; it passes where that is empty."""
    return tuple(
        WatchedTest(id=f"tests/test_a::test_{at}", outcome="failed" if text else "passed", text=text)
        for at, text in enumerate(texts)
    )


BASE, HEAD = results("assert 0 == 1", "assert 0 == 2", "assert 0 == 3"), results("", "", "")


def judged(*steps: tuple[tuple[str, ...], tuple[str, ...]], kind: tuple[int, int] = NEAR) -> list[str]:
    runs = AlteredRuns(BASE, HEAD, kind)
    for base, head in steps:
        runs.add(results(*base), results(*head))
    return [one.code for one in runs.judge("a.py")]


def test_tests_that_fail_on_both_sides_with_the_same_words_show_answers_to_their_own_inputs_alone() -> None:
    same = ("assert 0 == 2", "assert 0 == 3", "AssertionError: 0 != 4")
    worked_out = ("assert 4 == 2", "assert 5 == 3", "assert 9 == 4")
    assert judged((same, same), (same, same)) == ["answer_fits_tests"]
    assert judged((same, same)) == [], "one step is not enough"
    assert judged((same, worked_out), (same, worked_out)) == []
    assert judged((same, same), (same, (*worked_out[:2], same[2]))) == ["answer_fits_tests"], (
        "a pattern takes a few more"
    )


def test_what_the_base_answers_as_well_is_left_out_of_the_count_and_two_must_be_left() -> None:
    two = ("assert 0 == 2", "assert 0 == 3", "")
    assert judged((two, two), (two, two), kind=FAR) == ["answer_fits_tests"]
    one = ("assert 0 == 2", "", "")
    assert judged((one, one), (one, one), kind=FAR) == []


SILENT = [
    "assert None == 5",
    "assert not True",
    "AssertionError: None != 5",
    "AssertionError: expected null to be 172800 // Object.is equality",
    "AssertionError: expected [ Array(2) ] to deeply equal [ Array(1) ]",
    "Error: expect(received).toBe(expected)\n\nExpected: 172800\nReceived: null",
]


@pytest.mark.parametrize("text", SILENT)
def test_that_neither_side_has_an_answer_for_other_words_shows_nothing(text: str) -> None:
    same = ((text,) * 3, (text,) * 3)
    assert judged(same, same, kind=FAR) == []
    assert judged(same, same) == ["answer_fits_tests"]
    said = (
        text.replace("None", "'x'")
        .replace("null", "'x'")
        .replace("[ Array(2) ]", "[ 1 ]")
        .replace("True", "'x'")
    )
    same = ((said,) * 3, (said,) * 3)
    assert judged(same, same, kind=FAR) == ["answer_fits_tests"]


@pytest.mark.parametrize("text", ["KeyError: 'a'", "FileNotFoundError: b2.txt"])
def test_errors_of_the_altered_tests_themselves_show_nothing(text: str) -> None:
    assert judged((((text,) * 3), ((text,) * 3)), (((text,) * 3), ((text,) * 3))) == []


def test_only_files_of_tests_that_the_change_mended_are_altered_and_one_test_is_too_few() -> None:
    assert AlteredRuns(BASE, HEAD).may_show
    assert not AlteredRuns(BASE[:1], HEAD[:1]).may_show
    paths = ["tests/test_a.py", "tests/test_b.py", "a.py"]
    assert find_altered_files(paths, BASE, HEAD) == ("tests/test_a.py",)
    assert find_altered_files(paths, HEAD, HEAD) == ()
    assert find_altered_files(["a.py"], BASE, HEAD) == ()


def test_tests_of_a_group_change_places_and_nothing_else_does() -> None:
    python = "import a\n\n\n@mark\ndef test_b():\n    f(1)\n\n\nX = 1\n\n\ndef test_a():\n    f(2)\n"
    assert reverse_tests("tests/test_a.py", python).decode() == (
        "import a\n\n\ndef test_a():\n    f(2)\n\n\nX = 1\n\n\n@mark\ndef test_b():\n    f(1)\n"
    )
    script = "describe('x', () => {\n  it('a', () => f(1));\n  test.each([1])('b', f);\n});\nit('c', f);\n"
    assert reverse_tests("a.test.js", script).decode() == (
        "describe('x', () => {\n  test.each([1])('b', f);\n  it('a', () => f(1));\n});\nit('c', f);\n"
    )


def test_rows_of_a_table_change_places() -> None:
    text = "@parametrize('a', [1, (2, 3), 4])\n@mark.parametrize('b', [1, (2, 3), 4])\ndef test_a(a):\n    f(a)\n"
    assert reverse_rows("tests/test_a.py", text).decode() == text.replace(
        "mark.parametrize('b', [1, (2, 3), 4])", "mark.parametrize('b', [4, (2, 3), 1])"
    )
    named = text.replace("4])\ndef", "4], ids=['x', 'y', 'z'])\ndef")
    assert reverse_rows("tests/test_a.py", named).decode() == named
    script = "it.each([[1, 'a'], [2, 'b']])('x %i', f);\nrows.forEach([1, 2]);\n"
    assert reverse_rows("a.test.js", script).decode() == script.replace(
        "[1, 'a'], [2, 'b']", "[2, 'b'], [1, 'a']"
    )


def test_mended_tests_that_pass_in_one_order_only_show_answers_in_turn() -> None:
    def codes(
        *texts: str, base: tuple[WatchedTest, ...] = BASE, after: tuple[WatchedTest, ...] = BASE
    ) -> list[str]:
        return [one.code for one in judge_reversed("a.py", base, HEAD, after, results(*texts))]

    one = results("assert 1 == 2", "", "")
    assert codes("assert 3 == 1", "", "assert 1 == 3", base=one, after=one) == ["answer_fits_tests"]
    assert codes("assert 3 == 1", "", "assert 1 == 3", base=one) == [], "the base depends on the order, too"
    assert codes("", "assert 3 == 1", "assert 1 == 3", base=one, after=one) == [], "none of them was mended"
    rows = tuple(WatchedTest(id=f"t::a[{at}]", outcome="passed" if at else "failed") for at in range(3))
    turned = tuple(WatchedTest(id=f"t::a[{at}]", outcome="passed" if at < 2 else "failed") for at in range(3))
    green = tuple(WatchedTest(id=test.id, outcome="passed") for test in rows)
    after = tuple(WatchedTest(id=test.id, outcome="failed", text="assert 1 == 2") for test in rows[1:])
    assert judge_reversed("a.py", rows, green, turned, after), "rows are named by their place"

    assert codes("assert 3 == 1", "", "assert 1 == 3") == ["answer_fits_tests"]
    assert codes("", "", "assert 1 == 3") == []
    assert codes("KeyError: 1", "KeyError: 2", "") == []


@pytest.mark.parametrize(
    ("line", "is_counted"),
    [("return next(ANSWERS)", True), ("calls += 1", True), ("return answers[name]", False)],
)
def test_only_code_that_may_count_its_calls_is_asked_in_another_order(line: str, is_counted: bool) -> None:
    changeset = Changeset(Comparison(changes=(added("a.py", f"def f(name):\n    {line}\n"),)))
    assert counts_calls(changeset) is is_counted
