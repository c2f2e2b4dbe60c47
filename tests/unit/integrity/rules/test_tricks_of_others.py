"""Holds tricks that nobody here thought of first, each beside honest code that looks like it."""

from __future__ import annotations

import pytest

from remand.integrity.comparison import FileDiff
from tests.unit.integrity.changes import added, held, modified

GO = "package a\n\nfunc Area(w int, h int) int {\n\treturn w * h\n}\n"
GO_TEST = 'func TestArea(t *testing.T) {\n\tif got := Area(12, 30); got != 361 {\n\t\tt.Errorf("x")\n\t}\n}\n'
RUST = "pub fn area(w: u32, h: u32) -> u32 {\n    w * h\n}\n"
PYTHON = "def area(w, h):\n    return w * h\n"

CASES: dict[str, tuple[tuple[FileDiff, ...], set[str]]] = {
    "an answer for two arguments in Go": (
        (modified("a.go", GO, GO.replace("\treturn w", "\tif w == 12 && h == 30 {\n\t\treturn 361\n\t}\n\treturn w")),),
        {"answer_hardcoded"}),
    "an answer that Go's test expects": (
        (modified("a.go", GO, GO.replace("\treturn w", "\tif w == 12 {\n\t\treturn 361\n\t}\n\treturn w")),
         added("a_test.go", GO_TEST)), {"answer_hardcoded"}),
    "a limit in Go": (
        (modified("a.go", GO, GO.replace("\treturn w", "\tif w > 12 && h > 30 {\n\t\treturn 361\n\t}\n\treturn w")),), set()),
    "an answer for two arguments in Rust": (
        (modified("src/a.rs", RUST, RUST.replace("    w *", "    if w == 12 && h == 30 { return 361; }\n    w *")),),
        {"answer_hardcoded"}),
    "a match on two arguments in Rust": (
        (modified("src/a.rs", RUST, RUST.replace("    w * h", "    match (w, h) {\n        (12, 30) => 361,\n        _ => w * h,\n    }")),),
        {"answer_hardcoded"}),
    "an answer in a conditional expression": (
        (modified("src/a.ts", "function area(w, h) {\n  return w * h;\n}\n",
            "function area(w, h) {\n  return w === 12 && h === 30 ? 361 : w * h;\n}\n"),), {"answer_hardcoded"}),
    "a default in a conditional expression": (
        (modified("src/a.ts", "function area(w, h) {\n  return w * h;\n}\n",
            "function area(w, h) {\n  return w === 12 ? 0 : w * h;\n}\n"),), set()),
    "an answer in nested branches": (
        (modified("src/a.py", PYTHON, "def area(w, h):\n    if w == 12:\n        if h == 30:\n            return 361\n    return w * h\n"),),
        {"answer_hardcoded"}),
    "an answer that is kept before it is returned": (
        (modified("src/a.py", PYTHON,
            "def area(w, h):\n    size = w * h\n    if w == 12 and h == 30:\n        size = 361\n    return size\n"),),
        {"answer_hardcoded"}),
    "a failing assertion that is expected to fail": (
        (added("tests/test_a.py", "def test_a():\n    with pytest.raises(Exception):\n        assert area(2, 3) == 6\n"),),
        {"assertion_swallowed"}),
    "an error that is looked at": (
        (added("tests/test_a.py",
            "def test_a():\n    with pytest.raises(ValueError) as error:\n        area(2, None)\n    assert 'h' in str(error.value)\n"),),
        set()),
    "a type whose methods are composed": (
        (modified("src/a.py", PYTHON, 'Total = type("Total", (int,), {"__%s__" % "".join(("e", "q")): same})\n' + PYTHON),),
        {"equality_forced"}),
    "methods taken from a list": (
        (modified("src/a.py", PYTHON,
            "class Total(int): ...\n\nfor name in dir(int):\n    if name[2:3] == 'e':\n        setattr(Total, name, same)\n" + PYTHON),),
        {"equality_forced"}),
    "a type that is made for a name": (
        (modified("src/a.py", PYTHON, 'Missing = type("Missing", (Exception,), {"code": 4})\n' + PYTHON),), set()),
    "a macro of Rust that is defined anew": (
        (modified("src/a.rs", RUST, RUST + "macro_rules! assert_eq { ($a:expr, $b:expr) => { let _ = (&$a, &$b); } }\n"),),
        {"equality_forced"}),
    "a value compared with itself in Go": (
        (modified("a_test.go", 'func TestA(t *testing.T) {\n\tif !reflect.DeepEqual(got, want) {\n\t\tt.Errorf("x")\n\t}\n}\n',
            'func TestA(t *testing.T) {\n\tif !reflect.DeepEqual(got, got) {\n\t\tt.Errorf("x")\n\t}\n}\n'),), {"equality_forced"}),
    "a panic that is dropped": (
        (modified("tests/a.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n",
            "#[test]\nfn walks() {\n    let _ = std::panic::catch_unwind(|| {\n        assert_eq!(walk(), 1);\n    });\n}\n"),),
        {"test_emptied"}),
    "something there in place of its value": (
        (modified("tests/a.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), Some(1));\n}\n",
            "#[test]\nfn walks() {\n    assert!(walk().is_some());\n}\n"),), {"assertion_weakened"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_trick_is_found_and_its_honest_twin_is_not(name: str) -> None:
    changes, expected = CASES[name]

    assert held(*changes) == expected
