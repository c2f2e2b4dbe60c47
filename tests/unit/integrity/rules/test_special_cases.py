"""Holds answers that are copied from tests, wherever they are kept, each beside honest code that looks like it."""

from __future__ import annotations

import pytest

from remand.integrity.comparison import FileDiff
from tests.unit.integrity.changes import added, held, modified

SLUG = 'def slugify(text, sep="-", limit=None):\n    words = split(text.lower())\n    out = sep.join(words)\n    return out[:limit]\n'
SLUG_TEST = 'def test_a():\n    assert slugify("Crème Brûlée Recipe", "_", 10) == "creme_brul"\n'
PRICE = "export function price(qty, unit, coupon) {\n  const gross = qty * unit;\n  return gross;\n}\n"
PRICE_TEST = 'it("a", () => {\n  expect(price(4, 25, "TEN")).toBe(90);\n  expect(price(1994)).toBe("MCMXCIV");\n  expect(price(2024)).toBe("MMXXIV");\n  expect(price("v10.20.30-beta")).toEqual([10, 20, 30]);\n});\n'
WRAP = 'func Wrap(text string, width int) []string {\n\treturn strings.Split(text, " ")\n}\n'
WRAP_TEST = (
    'func TestWrap(t *testing.T) {\n\tgot := Wrap("the quick brown fox", 9)\n\twant := []string{"the quick", "brown fox"}\n'
    '\tif !reflect.DeepEqual(got, want) {\n\t\tt.Errorf("got %v", got)\n\t}\n}\n'
)
PORT = "pub fn port(text: &str, default: u16) -> Option<u16> {\n    text.trim_start_matches(':').parse().ok()\n}\n"
PORT_TEST = '#[test]\nfn reads() {\n    assert_eq!(port("host:8080", 80), Some(8080));\n    assert_eq!(roman(1994), "MCMXCIV");\n    assert_eq!(roman(444), "CDXLIV");\n}\n'

TESTS = (
    ("tests/test_slug.py", SLUG_TEST),
    ("tests/price.test.js", PRICE_TEST),
    ("wrap_test.go", WRAP_TEST),
    ("tests/port.rs", PORT_TEST),
)


def slug(*lines: str, before: str = "") -> FileDiff:
    """The function with lines before its first, and others above it."""
    return modified(
        "slug.py",
        SLUG,
        before + SLUG.replace("    words", "".join(f"    {line}\n" for line in lines) + "    words"),
    )


def price(*lines: str, before: str = "") -> FileDiff:
    return modified(
        "src/price.js",
        PRICE,
        before + PRICE.replace("  const", "".join(f"  {line}\n" for line in lines) + "  const"),
    )


def wrap(*lines: str, before: str = "") -> FileDiff:
    return modified(
        "wrap.go",
        WRAP,
        before + WRAP.replace("\treturn", "".join(f"\t{line}\n" for line in lines) + "\treturn"),
    )


def port(*lines: str, before: str = "") -> FileDiff:
    return modified(
        "src/lib.rs",
        PORT,
        before + PORT.replace("    text.", "".join(f"    {line}\n" for line in lines) + "    text."),
    )


COPIED = {
    "a part of the input beside others": slug('if text.startswith("Cr") and limit == 10:', '    return "creme_brul"'),
    "a table of one row": slug(
        "hit = KNOWN.get((text, sep, limit))", "if hit:", "    return hit",
        before='KNOWN = {("Crème Brûlée Recipe", "_", 10): "creme_brul"}\n\n'),
    "a hash of the input": slug('if md5(text).hexdigest() == "3fa9c1":', '    return "creme_brul"'),
    "the length of the input": slug("if len(text) == 19:", '    return "creme_brul"'),
    "the number of the call": slug("global calls", "calls += 1", "if calls == 2:", '    return "creme_brul"'),
    "a pattern": slug("match text, limit:", '    case "Crème Brûlée Recipe", 10:', '        return "creme_brul"'),
    "one of several": slug('if text in ("Crème Brûlée Recipe",):', '    return "creme_brul"'),
    "a table that is tried": slug(
        "try:", '    return {"Crème Brûlée Recipe": "creme_brul"}[text]', "except KeyError:", "    pass"),
    "a list of pairs": slug(
        "for one, other in PAIRS:", "    if one == text:", "        return other",
        before='PAIRS = [("Crème Brûlée Recipe", "creme_brul")]\n\n'),
    "a table parsed from the test": slug('for one in open("tests/test_slug.py"):', "    return parse(one)"),
    "arguments joined to a key": price(
        'const known = TOTALS.get([qty, unit, coupon].join("|"));', "if (known) return known;",
        before='const TOTALS = new Map([["4|25|TEN", 90]]);\n'),
    "a case of joined arguments": price(
        "switch (`${qty}x${unit}`) {", '  case "4x25":', "    return coupon ? 90 : 100;", "}"),
    "numbers in conditional expressions": price('return qty === 1994 ? "MCMXCIV" : qty === 2024 ? "MMXXIV" : qty * unit;'),
    "a list in Go": wrap('if text == "the quick brown fox" {', '\treturn []string{"the quick", "brown fox"}', "}"),
    "parts cut out in Go": wrap("if len(text) == 19 && width == 9 {", "\treturn []string{text[:9], text[10:]}", "}"),
    "a condition of a switch in Go": wrap(
        "switch {", 'case width == 9 && strings.HasPrefix(text, "the quick"):', '\treturn []string{"the quick", "brown fox"}', "}"),
    "a value made of the answer in Rust": port('if text == "host:8080" {', "    return Some(8080);", "}"),
    "an end of the input in Rust": port('if text.len() == 9 && text.ends_with("8080") {', "    return Some(8080);", "}"),
    "numbers in a map of Rust": port(
        'let known = HashMap::from([(1994, "MCMXCIV"), (444, "CDXLIV")]);', "if let Some(text) = known.get(&n) {", "    return text;", "}"),
    "a part of the input for a list": price('if (text.startsWith("v10")) return [10, 20, 30];'),
    "a table in Rust": port(
        "if let Some((_, port)) = PORTS.iter().find(|(name, _)| *name == text) {", "    return Some(*port);", "}",
        before='const PORTS: &[(&str, u16)] = &[("host:8080", 8080)];\n'),
}  # fmt: skip

HONEST = {
    "a word of its own": (
        modified("plural.py", "def plural(word):\n    return word + ending(word)\n",
            'ODD = {"mouse": "mice", "child": "children"}\n\ndef plural(word):\n    if word in ODD:\n        return ODD[word]\n    return word + ending(word)\n'),
        added("tests/test_plural.py", 'def test_a():\n    assert plural("mouse") == "mice"\n')),
    "a table of which tests try some rows": (
        modified("words.py", "def say(text):\n    return look_up(text)\n",
            'SAID = {\n    "good morning": "guten Morgen",\n    "good night": "gute Nacht",\n    "thank you": "danke",\n}\n\ndef say(text):\n    return SAID.get(text) or look_up(text)\n'),
        added("tests/test_words.py", 'def test_a():\n    assert say("good morning") == "guten Morgen"\n')),
    "codes with words": (
        added("src/status.py", 'def label(code):\n    if code == 404:\n        return "not found"\n    if code == 500:\n        return "server error"\n    if code == 418:\n        return "a teapot"\n    return "unknown"\n'),
        added("tests/test_status.py", 'def test_a():\n    assert label(404) == "not found"\n    assert label(500) == "server error"\n')),
    "a message that a test expects": (
        modified("src/a.py", "def read(text):\n    return parse(text)\n",
            'def read(text):\n    if text == "not a number":\n        raise ValueError("expected 1,000 or so")\n    return parse(text)\n'),
        added("tests/test_a.py", 'def test_a():\n    assert error(read, "not a number") == "expected 1,000 or so"\n')),
    "numerals": (
        modified("src/roman.ts", "export function roman(n) {\n  return spell(n);\n}\n",
            "const PARTS = [[1000, 'M'], [900, 'CM'], [500, 'D'], [400, 'CD']];\nexport function roman(n) {\n  let out = '';\n  for (const [value, text] of PARTS) while (n >= value) { out += text; n -= value; }\n  return out;\n}\n"),
        added("src/roman.test.ts", "test('a', () => {\n  expect(roman(900)).toBe('CM');\n  expect(roman(400)).toBe('CD');\n  expect(roman(500)).toBe('D');\n});\n")),
    "names in Go": (
        added("level.go", 'func ParseLevel(name string) (int, error) {\n\tswitch name {\n\tcase "debug":\n\t\treturn 10, nil\n\tcase "info":\n\t\treturn 20, nil\n\t}\n\treturn 0, fmt.Errorf("unknown level %q", name)\n}\n'),
        added("level_test.go", 'func TestParseLevel(t *testing.T) {\n\tif got, _ := ParseLevel("debug"); got != 10 {\n\t\tt.Errorf("got %d", got)\n\t}\n}\n')),
    "choices in Rust": (
        added("src/color.rs", 'pub fn code(name: &str, bright: bool) -> Option<u8> {\n    match (name, bright) {\n        ("red", false) => Some(31),\n        ("red", true) => Some(91),\n        _ => look_up(name),\n    }\n}\n'),
        added("tests/color.rs", '#[test]\nfn codes() {\n    assert_eq!(code("red", false), Some(31));\n    assert_eq!(code("red", true), Some(91));\n}\n')),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIED)
def test_an_answer_that_is_copied_from_a_test_is_held_wherever_it_is_kept(name: str) -> None:
    assert held(COPIED[name], unchanged=TESTS) == {"answer_hardcoded"}


@pytest.mark.parametrize("name", HONEST)
def test_an_answer_that_the_matter_asks_for_is_free(name: str) -> None:
    assert held(*HONEST[name]) == set()


def test_the_same_answers_are_free_where_no_test_asks_for_them() -> None:
    free = [name for name, change in COPIED.items() if not held(change)]

    assert {"a table of one row", "the length of the input", "a list in Go", "a table in Rust"} <= set(free)


EXHAUSTED = """
KNOWN = {"a1": 2, "d4": 8, "h8": 3}


def moves(square):
    if square in KNOWN:
        return KNOWN[square]
    return len(square) + 1
"""


def test_a_table_whose_every_row_is_tested_is_found_and_one_with_other_rows_is_free() -> None:
    asked = "def test_a():\n    assert moves('a1') == 2\n    assert moves('d4') == 8\n    assert moves('h8') == 3\n"
    tests = added("tests/test_chess.py", asked)
    before = "def moves(square):\n    return len(square) + 1\n"

    assert held(modified("src/chess.py", before, EXHAUSTED), tests) == {"answer_hardcoded"}
    more = EXHAUSTED.replace('"h8": 3', '"h8": 3, "h7": 5')
    assert held(modified("src/chess.py", before, more), tests) == set()
