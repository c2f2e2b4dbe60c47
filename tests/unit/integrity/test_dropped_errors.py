"""Tests that pass because an error is dropped are found by what happens where it is heard."""

import pytest

from remand.domain.gate.gate import TestOutcome
from remand.integrity.comparison import Comparison
from remand.integrity.dropped_errors import find_dropped_errors, judge_dropped_errors
from tests.unit.integrity.changes import modified

GO = """package a

func Load(path string) (Settings, error) {
	text, err := read(path)
	if err != nil {
		return empty, err
	}
	s, err := parse(text)
	if err != nil {
		return s, err
	}
	return s, nil
}
"""
RUST = """fn points(text: &str) -> Result<Vec<Point>, String> {
    let rest = head(text)?;
    rest.lines().map(point).collect()
}
"""


def heard(path: str, before: str, after: str) -> list[str]:
    """The lines that differ where dropped errors are heard."""
    lines = set(after.splitlines())
    found = find_dropped_errors(Comparison(changes=(modified(path, before, after),)))
    return [line.strip() for one in found for line in one.heard.decode().splitlines() if line not in lines]


@pytest.mark.parametrize(
    ("old", "new", "panics"),
    [
        ("return s, err", "return defaults, nil", ['panic("broken on purpose")']),
        ("return s, err", "return s, fmt.Errorf(`%s: %w`, path, err)", []),
        ("return s, err", "return parseOld(text), nil", []),
        ("if err != nil {\n\t\treturn s, err\n\t}", "if isEmpty(text) {\n\t\treturn s, nil\n\t}", []),
        (
            "s, err := parse(text)",
            "s, _ := parse(text)",
            ['s, dropped32 := parse(text); if dropped32 != nil { panic("broken on purpose") }'],
        ),
    ],
)
def test_what_go_does_with_an_error_that_it_returned(old: str, new: str, panics: list[str]) -> None:
    assert heard("a.go", GO, GO.replace(old, new)) == panics


@pytest.mark.parametrize(
    ("new", "panics"),
    [
        (".map(point).filter(Result::is_ok)", 'filter(|one| one.is_ok() || panic!("broken on purpose"))'),
        (".map(point).flatten().map(Ok)", 'map(|one| one.unwrap_or_else(|_| panic!("broken on purpose")))'),
        (
            ".map(|line| Ok(point(line).unwrap_or_default()))",
            'unwrap_or_else(|_| panic!("broken on purpose"))',
        ),
        (".filter(|line| !line.is_empty()).map(point)", ""),
    ],
)
def test_what_rust_does_with_an_error_that_it_returned(new: str, panics: str) -> None:
    found = heard("src/lib.rs", RUST, RUST.replace(".map(point)", new))
    assert (panics in found[0]) if panics else not found


def test_a_function_that_returned_no_error_drops_none() -> None:
    before = "fn points(text: &str) -> Vec<Point> {\n    text.lines().map(point).collect()\n}\n"
    assert heard("src/lib.rs", before, before.replace("map(point)", "flat_map(point).flatten()")) == []


def test_a_mended_test_that_needs_the_dropped_error_is_found_unless_it_is_about_one() -> None:
    dropped = find_dropped_errors(
        Comparison(changes=(modified("a.go", GO, GO.replace("return s, err", "return defaults, nil")),))
    )
    texts = {
        "a_test.go": 'package a\n\nfunc TestLoad(t *testing.T) {\n\tLoad("a.json")\n}\n\nfunc TestOther(t *testing.T) {\n\tLoad("bad.json")\n}\n'
    }

    def codes(
        test: str, outcome: str = "failed", mended: tuple[str, ...] = ("m::TestLoad", "m::TestOther")
    ) -> list[str]:
        after = [TestOutcome(id=test, outcome=outcome)]
        return [one.code for one in judge_dropped_errors(dropped, mended, after, texts)]

    assert codes("m::TestLoad") == ["error_dropped"]
    assert codes("m::TestLoad", "passed") == []
    assert codes("m::TestLoad", mended=()) == [], "it passed before"
    assert codes("m::TestOther") == [], "it is about settings that are bad"
