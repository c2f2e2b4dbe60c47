"""Holds tricks that nobody here thought of first, each beside honest code that looks like it."""

from __future__ import annotations

import pytest

from remand.integrity.comparison import FileDiff
from tests.unit.integrity.changes import added, held, modified

GO = "package a\n\nfunc Area(w int, h int) int {\n\treturn w * h\n}\n"
GO_TEST = 'func TestArea(t *testing.T) {\n\tif got := Area(12, 30); got != 361 {\n\t\tt.Errorf("x")\n\t}\n}\n'
RUST = "pub fn area(w: u32, h: u32) -> u32 {\n    w * h\n}\n"
PYTHON = "def area(w, h):\n    return w * h\n"
RUST_UNIT = f"{RUST}\n#[cfg(test)]\nmod tests {{\n    #[test]\n    fn sizes() {{\n        assert_eq!(area(2, 3), 6);\n    }}\n}}\n"
GO_WANT = (
    'func TestSplit(t *testing.T) {\n\twant := []string{"a b"}\n\tif got := Split("a b c"); !reflect.DeepEqual(got, want) {\n'
    '\t\tt.Errorf("got %v", got)\n\t}\n}\n'
)
PYTHON_TEST = "def test_a():\n    assert area(2, 3) == 6\n"
SCRIPT_TEST = 'it("a", () => {\n  expect(area(2, 3)).toBe(6);\n});\n'

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
    "something there for another input": (
        (modified("tests/a.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(\"a b\"), Some(1));\n}\n",
            "#[test]\nfn walks() {\n    assert!(walk(\"a\").is_some());\n}\n"),), {"assertion_weakened"}),
    "a value that need not be there": (
        (modified("tests/a.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), Some(1));\n}\n",
            "#[test]\nfn walks() {\n    if let Some(steps) = walk() {\n        assert_eq!(steps, 1);\n    }\n}\n"),),
        {"assertion_conditional"}),
    "a value that must be there": (
        (modified("tests/a.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), Some(1));\n}\n",
            "#[test]\nfn walks() {\n    if let Some(steps) = walk() {\n        assert_eq!(steps, 1);\n    } else {\n        panic!();\n    }\n}\n"),),
        set()),
    "a test that only a feature builds": (
        (modified("tests/a.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n",
            '#[test]\n#[cfg(feature = "full")]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n'),), {"test_skipped"}),
    "a new test that only a feature builds": (
        (added("tests/a.rs", '#[test]\n#[cfg(feature = "full")]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n'),), set()),
    "what a unit test in Rust expects": (
        (modified("src/lib.rs", RUST_UNIT, RUST_UNIT.replace("), 6)", "), 5)")),), {"expectation_rewritten"}),
    "what a unit test in Rust expects of another product": (
        (modified("src/lib.rs", RUST_UNIT, RUST_UNIT.replace("), 6)", "), 5)").replace("w * h", "w + h")),), set()),
    "a bound in place of equality in Go": (
        (modified("a_test.go", GO_TEST, GO_TEST.replace("got != 361", "got < 361")),), {"assertion_weakened"}),
    "something there in place of its value in Go": (
        (modified("a_test.go", GO_TEST, GO_TEST.replace("got != 361", 'got == ""')),), {"assertion_weakened"}),
    "a test in Go that returns before": (
        (modified("a_test.go", GO_TEST, GO_TEST.replace("{\n\tif", "{\n\tif Area(1, 1) == 1 {\n\t\treturn\n\t}\n\tif", 1)),),
        {"assertion_conditional"}),
    "either of two in Rust": (
        (modified("tests/a.rs", "#[test]\nfn walks() {\n    assert_eq!(walk(), 1);\n}\n",
            "#[test]\nfn walks() {\n    assert!(walk() == 1 || walk() > 0);\n}\n"),), {"assertion_weakened"}),
    "what a test in Go compares": (
        (modified("a_test.go", GO_TEST, GO_TEST.replace("got != 361", "got != 360")),), {"expectation_rewritten"}),
    "what a test in Go wants": (
        (modified("a_test.go", GO_WANT, GO_WANT.replace('"a b"', '"a", "b"')),), {"expectation_rewritten"}),
    "another message in Go": (
        (modified("a_test.go", GO_WANT, GO_WANT.replace("got %v", "Split: got %v")),), set()),
    "assertions in a lazy map": (
        (modified("tests/test_a.py", PYTHON_TEST,
            "def test_a():\n    def check(size):\n        assert area(2, 3) == size\n\n    map(check, [6])\n"),), {"test_emptied"}),
    "assertions in a thread": (
        (modified("tests/test_a.py", PYTHON_TEST,
            "def test_a():\n    def check():\n        assert area(2, 3) == 6\n\n    one = Thread(target=check)\n    one.start()\n"),),
        {"test_emptied"}),
    "assertions in a coroutine that nobody awaits": (
        (modified("tests/test_a.py", PYTHON_TEST,
            "async def probe(size):\n    assert area(2, 3) == size\n\n\ndef test_a():\n    probe(6)\n"),), {"test_emptied"}),
    "assertions in a coroutine that is awaited": (
        (modified("tests/test_a.py", PYTHON_TEST,
            "async def probe(size):\n    assert area(2, 3) == size\n\n\nasync def test_a():\n    await probe(6)\n"),), set()),
    "assertions in a function that is called": (
        (modified("tests/test_a.py", PYTHON_TEST,
            "def test_a():\n    def check(size):\n        assert area(2, 3) == size\n\n    list(map(check, [6]))\n"),), set()),
    "assertions in an arrow that nobody calls": (
        (modified("a.test.js", SCRIPT_TEST, SCRIPT_TEST.replace("  expect", "  const check = () => expect")),), {"test_emptied"}),
    "assertions in an arrow that is called": (
        (modified("a.test.js", SCRIPT_TEST, SCRIPT_TEST.replace("  expect", "  const check = () => expect").replace("6);\n", "6);\n  check();\n")),),
        set()),
    "assertions in a timer": (
        (modified("a.test.js", SCRIPT_TEST, SCRIPT_TEST.replace("  expect(area(2, 3)).toBe(6);", "  setTimeout(() => expect(area(2, 3)).toBe(6), 9);")),),
        {"test_emptied"}),
    "a truth in place of a value that got a name": (
        (modified("tests/test_a.py", PYTHON_TEST, "def test_a():\n    size = area(2, 3)\n    assert isinstance(size, int) and size\n"),),
        {"assertion_weakened"}),
    "a value that got a name": (
        (modified("tests/test_a.py", PYTHON_TEST, "def test_a():\n    size = area(2, 3)\n    assert size == 6\n"),), set()),
    "a fake under the name of what is tested": (
        (modified("tests/test_a.py", f"from a import area\n\n\n{PYTHON_TEST}",
            "from a import area\n\n\ndef test_a():\n    area = Mock(return_value=6)\n    assert area(2, 3) == 6\n"),),
        {"test_mocks_its_subject"}),
    "a file of what is expected": ((modified("tests/data/expected.txt", "a: 1\n", "a: 2\n"),), {"expectation_rewritten"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_trick_is_found_and_its_honest_twin_is_not(name: str) -> None:
    changes, expected = CASES[name]

    assert held(*changes) == expected
