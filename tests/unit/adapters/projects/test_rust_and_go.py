"""Rust and Go projects get the gates that their own files speak for."""

import pytest

from tests.unit.adapters.projects.project_trees import gates, proposed

CRATE = {"Cargo.toml": '[package]\nname = "sums"\n', "src/lib.rs": "#[test]\nfn adds() {}\n"}
MODULE = {"go.mod": "module example.test/calc\n", "calc.go": "package calc\n"}


def test_a_crate_is_built_and_tested() -> None:
    found = gates(CRATE)

    assert found["build"].command == ("cargo", "build", "--workspace", "--message-format", "json")
    assert found["tests"].command == ("cargo", "test", "--workspace", "--no-fail-fast")
    assert [gate.parser for gate in found.values()] == ["cargo", "cargo-test"]
    assert found["tests"].require == {"max_failures": 0, "max_errors": 0}


@pytest.mark.parametrize(
    "files",
    [
        {"clippy.toml": ""},
        {"Cargo.toml": "[workspace.lints.clippy]\nall = 'deny'\n"},
        {".github/workflows/ci.yml": "run: cargo clippy -- -D warnings\n"},
    ],
    ids=["file", "lints", "script"],
)
def test_clippy_is_run_where_the_project_speaks_of_it(files: dict[str, str]) -> None:
    assert "clippy" in gates({**CRATE, **files})["lint"].command
    assert "lint" not in gates(CRATE)


def test_crates_of_a_registry_are_fetched_beforehand() -> None:
    gate = gates({**CRATE, "Cargo.lock": 'source = "registry+https://example.test/index"\n'})["build"]

    assert gate.prepare is not None
    assert gate.prepare.command[:2] == ("cargo", "vendor")
    assert 'source.vendored.directory="{cache}/vendor"' in gate.command
    assert gate.command[-1] == "--offline"


@pytest.mark.parametrize("lock", ["", 'source = "registry+x"\nsource = "git+y"\n'])
def test_nothing_is_fetched_that_is_not_needed_or_cannot_be(lock: str) -> None:
    assert gates({**CRATE, "Cargo.lock": lock})["build"].prepare is None


def test_a_crate_without_tests_gets_no_gate_for_them() -> None:
    assert "tests" not in gates({**CRATE, "src/lib.rs": "// #[testing]\n"})


def test_tests_of_other_harnesses_are_tests() -> None:
    assert "tests" in gates({**CRATE, "src/lib.rs": "#[tokio::test]\nasync fn a() {}\n"})


def test_a_module_is_vetted_and_tested() -> None:
    found = gates({**MODULE, "calc_test.go": ""})

    assert found["lint"].command == ("go", "vet", "-json", "./...")
    assert found["tests"].command == ("go", "test", "-json", "./...")
    assert [gate.parser for gate in found.values()] == ["go", "go"]


def test_a_module_without_tests_gets_no_gate_for_them() -> None:
    assert list(gates(MODULE)) == ["lint"]


def test_modules_are_downloaded_beforehand_unless_they_lie_in_the_repository() -> None:
    summed = {**MODULE, "go.sum": "example.test/x v1.0.0 h1:x\n"}
    gate = gates(summed)["lint"]

    assert gate.prepare is not None
    assert gate.prepare.key == ("go.sum", "go.mod")
    assert gate.command[:3] == ("env", "GOMODCACHE={cache}", "GOPROXY=off")
    assert gates({**summed, "vendor/modules.txt": ""})["lint"].prepare is None


def test_gates_of_several_languages_do_not_hide_one_another() -> None:
    python = {"tests/test_a.py": "", "pytest.ini": "", "ruff.toml": ""}
    found = proposed({**CRATE, **MODULE, **python})

    assert [one.name for one in found.gates] == ["tests", "lint", "build", "rust-tests", "go-lint"]
    assert [one.gate.name for one in found.gates] == [one.name for one in found.gates]


def test_a_project_of_nothing_known_gets_nothing() -> None:
    assert proposed({"README.md": "# Sums\n"}).gates == ()


def test_modules_that_lie_in_the_repository_are_used_whatever_version_go_mod_asks_for() -> None:
    found = gates({**MODULE, "vendor/modules.txt": "", "calc_test.go": ""})

    assert found["tests"].command == ("go", "test", "-mod=vendor", "-json", "./...")
    assert found["lint"].command == ("go", "vet", "-mod=vendor", "-json", "./...")
