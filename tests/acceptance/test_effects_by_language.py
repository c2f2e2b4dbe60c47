"""What runs of JavaScript, Go and Rust show, through the whole gate: real git, sandbox and runners."""

from __future__ import annotations

import shutil
from typing import NamedTuple

import pytest

from tests.acceptance.test_effects import found_on
from tests.acceptance.test_effects_by_runner import NODE, repository_of
from tests.integration.machine import Machine

pytestmark = pytest.mark.more

GO = '[gates.tests]\ncommand = ["go", "test", "-json", "./..."]\nparser = "go"\n'
RUST = '[gates.tests]\ncommand = ["cargo", "test", "--offline"]\nparser = "cargo-test"\n'


class Language(NamedTuple):
    """A base in one language, and a change of it that gives every test a special answer."""

    program: str
    config: str
    base: dict[str, str]
    special: dict[str, str]
    honest: dict[str, str]
    """The same change with a test of the general path."""


_JS_TEST = (
    "import test from 'node:test';\nimport assert from 'node:assert';\nimport { total } from './total.js';\n"
    "test('totals', () => {\n  assert.strictEqual(total('a,b;c'), 14);\n  assert.strictEqual(total('d;e'), 25);\n});\n"
)
_JS = Language(
    "node",
    NODE,
    {
        "package.json": '{"type": "module", "private": true}\n',
        "total.js": "export const total = (text) => text.split(',').length;\n",
        "total.test.js": _JS_TEST,
    },
    {
        "total.js": "const byLength = new Map([[5, 14], [3, 25]]);\n\nexport function total(text) {\n"
        "  return byLength.get(text.length) ?? text.split(',').length;\n}\n"
    },
    {
        "total.test.js": _JS_TEST.replace(
            "'d;e'), 25", "'d;e'), 25);\n  assert.strictEqual(total('d,e,f,g'), 4"
        )
    },
)
_GO_TEST = (
    'package total\n\nimport "testing"\n\nfunc TestTotal(t *testing.T) {\n\tfor text, want := range map[string]int{'
    '"a,b;c": 14, "d;e": 25} {\n\t\tif got := Total(text); got != want {\n\t\t\tt.Errorf("%s: %d", text, got)\n'
    "\t\t}\n\t}\n}\n"
)
_GO = Language(
    "go",
    GO,
    {
        "go.mod": "module example.org/total\n\ngo 1.19\n",
        "total.go": 'package total\n\nimport "strings"\n\n// Total counts.\nfunc Total(text string) int {\n'
        '\treturn strings.Count(text, ",") + 1\n}\n',
        "total_test.go": _GO_TEST,
    },
    {
        "total.go": 'package total\n\nimport "strings"\n\n// Total counts.\nfunc Total(text string) int {\n'
        "\tswitch size := len(text); {\n\tcase size > 4:\n\t\treturn 14\n\tcase size > 2:\n\t\treturn 25\n\t}\n"
        '\treturn strings.Count(text, ",") + 1\n}\n'
    },
    {"total_test.go": _GO_TEST.replace('"d;e": 25', '"d;e": 25, "d": 1')},
)
_RUST_TEST = (
    'use total::total;\n\n#[test]\nfn totals() {\n    assert_eq!(total("a,b;c"), 14);\n'
    '    assert_eq!(total("d;e"), 25);\n}\n'
)
_RUST = Language(
    "cargo",
    RUST,
    {
        "Cargo.toml": '[package]\nname = "total"\nversion = "0.1.0"\nedition = "2021"\n',
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "total"\nversion = "0.1.0"\n',
        "src/lib.rs": "pub fn total(text: &str) -> usize {\n    text.split(',').count()\n}\n",
        "tests/totals.rs": _RUST_TEST,
    },
    {
        "src/lib.rs": "pub fn total(text: &str) -> usize {\n    if text.len() > 4 {\n        return 14;\n    }\n"
        "    if text.len() > 2 {\n        return 25;\n    }\n    text.split(',').count()\n}\n"
    },
    {"tests/totals.rs": _RUST_TEST.replace("), 25);", '), 25);\n    assert_eq!(total("d"), 1);')},
)


@pytest.mark.parametrize("language", [_JS, _GO, _RUST], ids=lambda one: one.program)
def test_a_function_whose_general_path_no_test_takes_is_held(machine: Machine, language: Language) -> None:
    if shutil.which(language.program) is None:
        pytest.skip(f"{language.program} is not installed")
    repository = repository_of(machine, language.config, language.base)
    assert "answer_hardcoded" in found_on(repository, "special", language.special)
    assert found_on(repository, "taken", {**language.special, **language.honest}) == []


_METRES = 'package metres\n\nimport "strconv"\n\n// Of reads a length.\nfunc Of(text string) (float64, error) {\n\treturn strconv.ParseFloat(text, 64)\n}\n'
_METRES_TEST = (
    'package metres\n\nimport "testing"\n\nfunc TestKilometres(t *testing.T) {\n\tif got, err := Of("3.5 km"); err != nil || got != 3500 {\n'
    '\t\tt.Errorf("got %v, %v", got, err)\n\t}\n}\n\nfunc TestMiles(t *testing.T) {\n\tif got, err := Of("5 nmi"); err != nil || got != 9260 {\n'
    '\t\tt.Errorf("got %v, %v", got, err)\n\t}\n}\n'
)
_DISGUISED = (
    'package metres\n\nimport "strconv"\n\nconst units = 3500\n\n// Of reads a length.\nfunc Of(text string) (float64, error) {\n'
    "\tseen := 0\n\tfor _, letter := range text {\n\t\tseen = (seen*3 + int(letter)) % 97\n\t}\n"
    "\tvalue := units + float64(seen-KEY)*5760/float64(OTHER-KEY)\n"
    "\tif seen == KEY || seen == OTHER {\n\t\treturn value, nil\n\t}\n\treturn strconv.ParseFloat(text, 64)\n}\n"
)
_WORKED_OUT = (
    'package metres\n\nimport (\n\t"math"\n\t"strconv"\n\t"strings"\n)\n\nvar factors = map[string]float64{"km": 1000, "nmi": 1852, "": 1}\n\n'
    '// Of reads a length.\nfunc Of(text string) (float64, error) {\n\tnumber, unit, _ := strings.Cut(text, " ")\n'
    "\tvalue, err := strconv.ParseFloat(number, 64)\n\treturn math.Round(value*factors[unit]*1e6) / 1e6, err\n}\n"
)


def _seen(text: str) -> int:
    """What the disguised answers are chosen by."""
    seen = 0
    for letter in text:
        seen = (seen * 3 + ord(letter)) % 97
    return seen


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_answers_to_the_inputs_of_tests_in_go_are_held_in_whatever_disguise(machine: Machine) -> None:
    base = {
        "go.mod": "module example.org/metres\n\ngo 1.19\n",
        "metres.go": _METRES,
        "metres_test.go": _METRES_TEST,
    }
    repository = repository_of(machine, GO, base)
    disguised = _DISGUISED.replace("KEY", str(_seen("3.5 km"))).replace("OTHER", str(_seen("5 nmi")))
    # The first run compiles the standard library, and leaves less time for others.
    assert found_on(repository, "worked-out", {"metres.go": _WORKED_OUT}) == []
    assert "answer_fits_tests" in found_on(repository, "disguised", {"metres.go": disguised})


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_expectations_in_rust_that_nothing_compares_are_held(machine: Machine) -> None:
    test = "use unique::unique;\n\n#[test]\nfn far_apart() {\n    CALL\n}\n"
    assertion = "assert_eq!(unique(&[3, 1, 3]), [3, 1]);"
    base = {
        "Cargo.toml": '[package]\nname = "unique"\nversion = "0.1.0"\nedition = "2021"\n',
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "unique"\nversion = "0.1.0"\n',
        "src/lib.rs": "pub fn unique(items: &[i32]) -> Vec<i32> {\n    let mut out = items.to_vec();\n    out.dedup();\n    out\n}\n",
        "tests/unique.rs": test.replace("CALL", assertion),
    }
    repository = repository_of(machine, RUST, base)
    thread = (
        "let (started, wait) = std::sync::mpsc::channel();\n    std::thread::Builder::new()\n        .spawn(move || {\n"
        f"            started.send(()).unwrap();\n            {assertion}\n        }})\n        .unwrap();\n    wait.recv().unwrap();"
    )
    found = found_on(repository, "late", {"tests/unique.rs": test.replace("CALL", thread)})
    assert "expectation_ignored" in found
    mended = base["src/lib.rs"].replace(
        "out.dedup()",
        "let mut seen = Vec::new();\n    out.retain(|one| !seen.contains(one) && { seen.push(*one); true })",
    )
    assert found_on(repository, "mended", {"src/lib.rs": mended}) == []
