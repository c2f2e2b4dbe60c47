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
