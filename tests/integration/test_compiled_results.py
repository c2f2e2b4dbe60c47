"""What real runs of Go and Rust tell of their tests, and what of runs that end early or make results up."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from remand.adapters.gates.results import watch_results
from remand.adapters.parsers import cargo, go
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Irregularity
from remand.integrity.result_records import compare_with_records

pytestmark = pytest.mark.more
GO = pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
CARGO = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")

Irregularities = Sequence[Irregularity]


def irregularities_of(command: tuple[str, ...], folder: Path, files: dict[str, str]) -> Irregularities:
    """What does not agree in a run of a command on some files, which passes."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    with TemporaryDirectory() as place, watch_results(command, place) as watch:
        assert watch is not None
        done = subprocess.run(
            watch.command,
            cwd=folder,
            env={**os.environ, **watch.environment},
            capture_output=True,
            timeout=300,
            check=False,
        )
        records = watch.records()
    assert done.returncode == 0, (done.stdout, done.stderr)
    ran = ToolOutput(status=0, output=done.stdout, errors=done.stderr, report=None, root=str(folder))
    found = go.parse(ran) if "-json" in command else cargo.parse_test(ran)
    assert {test.outcome for test in found.tests} <= {"passed", "skipped"}
    return compare_with_records(
        found, records, 0, str(folder), lambda path: Path(path).read_bytes()
    ).irregularities


def texts_of(found: Irregularities) -> list[str]:
    return [f"{one.code}: {one.text}" for one in found]


GO_TEST = ("go", "test", "-json", "./...")
GO_FILES = {
    "go.mod": "module calc\n\ngo 1.19\n",
    "calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n",
    "calc_test.go": """package calc

import "testing"

const example = `
func TestInAString(t *testing.T) {}
`

func TestAdd(t *testing.T) {
	for _, name := range []string{"a", "b/c"} {
		t.Run(name, func(t *testing.T) {
			if Add(1, 2) != 3 {
				t.Fatal("not 3")
			}
		})
	}
}

func TestSkips(t *testing.T) { t.Skip("not here") }

func Testify(t *testing.T) { t.Fatal("no test") }
""",
    "calc_windows_test.go": 'package calc\n\nimport "testing"\n\nfunc TestElsewhere(t *testing.T) {}\n',
    "inner/inner_test.go": """package inner_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

func TestInner(t *testing.T) { _ = os.Getenv("HOME") }
""",
}


@GO
@pytest.mark.parametrize("command", [GO_TEST, ("go", "test", "-json", "-run", "Add", "-count=2", "./...")])
def test_an_honest_run_of_go_has_no_irregularities(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert texts_of(irregularities_of(command, tmp_path, GO_FILES)) == []


@GO
def test_a_run_of_go_that_ends_early_is_found(tmp_path: Path) -> None:
    early = """package calc

import (
	"fmt"
	"syscall"
	"testing"
)

func TestAaa(t *testing.T) {
	fmt.Print("--- PASS: TestAaa (0.00s)\\n=== RUN   TestAdd\\n--- PASS: TestAdd (0.00s)\\n")
	fmt.Print("=== RUN   TestMadeUp\\n--- PASS: TestMadeUp (0.00s)\\nPASS\\n")
	syscall.Exit(0)
}
"""
    inner = GO_FILES["inner/inner_test.go"].replace("os.Exit(m.Run())", "os.Exit(0)")
    files = {**GO_FILES, "aaa_test.go": early, "inner/inner_test.go": inner}
    assert texts_of(irregularities_of(GO_TEST, tmp_path, files)) == [
        "early_exit: the tests of `calc` ended before their closing record",
        "early_exit: `calc::TestSkips` was to run, and no result came",
        "harness_tampered: a result came for `calc::TestMadeUp`, which was not collected",
        "early_exit: the tests of `calc/inner` ended before their closing record",
        "early_exit: `calc/inner::TestInner` was to run, and no result came",
    ]


CARGO_TEST = ("cargo", "test", "--offline", "--no-fail-fast")
CARGO_FILES = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": """/// ```
/// assert_eq!(calc::add(1, 2), 3);
/// ```
pub fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
    }

    #[test]
    #[ignore = "slow"]
    fn is_slow() {}

    #[test]
    #[should_panic]
    fn panics() {
        panic!("as it must");
    }
}
""",
    "src/main.rs": "fn main() {}\n",
    "tests/whole.rs": "#[test]\nfn adds() {\n    assert_eq!(calc::add(1, 1), 2);\n}\n",
}
EARLY = """use std::io::Write;

#[test]
fn leaves() {
    let mut out = std::io::stdout();
    writeln!(out, "test leaves ... ok\\ntest other ... ok\\n").unwrap();
    writeln!(out, "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s").unwrap();
    std::process::exit(0);
}

#[test]
fn other() {
    assert!(false);
}
"""
SILENT = """#[used]
#[link_section = ".init_array"]
static LEAVE: extern "C" fn() = {
    extern "C" fn leave() {
        std::process::exit(0);
    }
    leave
};

#[test]
fn fails() {
    assert!(false);
}
"""
OWN = 'fn main() {\n    println!("a harness of its own");\n}\n'


@CARGO
def test_an_honest_run_of_cargo_has_no_irregularities(tmp_path: Path) -> None:
    assert texts_of(irregularities_of(CARGO_TEST, tmp_path, CARGO_FILES)) == []
    assert texts_of(irregularities_of((*CARGO_TEST, "adds", "--", "--test-threads=1"), tmp_path, {})) == []
    own = {"tests/own.rs": OWN, "Cargo.toml": CARGO_FILES["Cargo.toml"] + _own_harness("own")}
    assert texts_of(irregularities_of(CARGO_TEST, tmp_path, own)) == []


def _own_harness(name: str) -> str:
    return f'\n[[test]]\nname = "{name}"\nharness = false\n'


@CARGO
def test_a_run_of_cargo_that_ends_early_is_found(tmp_path: Path) -> None:
    files = {**CARGO_FILES, "tests/early.rs": EARLY, "tests/silent.rs": SILENT}
    assert texts_of(irregularities_of((*CARGO_TEST, "--", "--test-threads=1"), tmp_path, files)) == [
        "report_forged: 3 passed while running, and the report names 5",
        "early_exit: `silent` ended before it had named its tests",
        "early_exit: `early::leaves` was to run, and no result came",
        "early_exit: `early::other` was to run, and no result came",
    ]
