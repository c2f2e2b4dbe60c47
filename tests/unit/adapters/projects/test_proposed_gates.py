"""Proposed gates are valid tables of `remand.toml`."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.adapters.projects.project import render_toml
from remand.config.gates import parse_gate_policy
from remand.domain.gate.gate import Gate, GatePreparation, GateProposal, GateProposals
from tests.unit.adapters.projects.project_trees import gates, proposed
from tests.unit.adapters.projects.test_javascript import MODERN as JAVASCRIPT
from tests.unit.adapters.projects.test_python import MODERN as PYTHON
from tests.unit.adapters.projects.test_rust_and_go import CRATE, MODULE

LOCKED = {"Cargo.lock": 'source = "registry+x"', "go.sum": "x", "calc_test.go": ""}


@pytest.mark.parametrize(
    "found",
    [
        proposed(PYTHON),
        proposed(PYTHON, ".venv/bin"),
        proposed(JAVASCRIPT),
        proposed({**CRATE, **MODULE, **LOCKED, **PYTHON, **JAVASCRIPT}, "venv/bin"),
    ],
    ids=["made", "own", "js", "all"],
)
def test_the_configuration_reads_back_what_was_proposed(found: GateProposals) -> None:
    policy = parse_gate_policy(tomllib.loads(render_toml(found)))

    assert policy.gates == tuple(one.gate for one in found.gates)
    assert policy.path == found.path


def test_nothing_proposed_is_nothing_written() -> None:
    assert render_toml(GateProposals()) == ""


def test_every_gate_stands_under_what_speaks_for_it() -> None:
    text = render_toml(proposed(PYTHON, ".venv/bin"))

    assert '[sandbox]\npath = [".venv/bin"]\n' in text
    assert "# pyproject.toml has [tool.ruff]\n[gates.lint]\n" in text
    assert "require = {max_errors = 0}\n" in text


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(command=st.lists(words, min_size=1, max_size=4), why=words, key=st.lists(words, max_size=2))
def test_any_words_survive(command: list[str], why: str, key: list[str]) -> None:
    prepare = GatePreparation(command=tuple(command), key=tuple(key))
    gate = Gate(name="tests", command=tuple(command), prepare=prepare, timeout=90.0)
    row = tomllib.loads(render_toml(GateProposals(gates=(GateProposal(name="tests", gate=gate, why=why),))))[
        "gates"
    ]["tests"]

    assert (row["command"], row["prepare"]["key"], row["timeout"]) == (command, key, "90s")


def test_projects_in_folders_of_a_repository_get_gates_of_their_own() -> None:
    files = {
        "README.md": "",
        "backend/requirements.txt": "flask\npytest\n",
        "backend/tests/test_a.py": "",
        "frontend/package.json": '{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "*"}}',
        "frontend/package-lock.json": "{}",
        "examples/app/package.json": '{"scripts": {"test": "mocha"}}',
    }
    found = gates(files)

    assert [*found] == ["tests", "frontend-tests"]
    assert found["tests"].command[:4] == ("env", "-C", "backend", "{cache}/venv/bin/python")
    python, js = found["tests"].prepare, found["frontend-tests"].prepare
    assert python is not None
    assert python.command[:4] == ("env", "-C", "backend", "python3")
    assert python.command[-2:] == ("--folder", "backend")
    assert python.key == ("backend/requirements.txt",)
    assert js is not None
    assert js.command[:3] == ("env", "-C", "frontend")
    assert js.key == ("frontend/package.json", "frontend/package-lock.json")


def test_a_project_at_the_root_speaks_for_the_whole_repository() -> None:
    files = {
        "pyproject.toml": "",
        "tests/test_a.py": "",
        "tools/x/pyproject.toml": "",
        "tools/x/test_b.py": "",
    }

    assert [gate.command[0] for gate in gates(files).values()] == ["{cache}/venv/bin/python"]


def test_a_root_without_a_gate_leaves_the_word_to_its_folders() -> None:
    web = {"web/package.json": '{"scripts": {"test": "node --test"}}'}

    assert gates({"package.json": '{"devDependencies": {"husky": "*"}}', **web})["tests"].command[:3] == (
        "env",
        "-C",
        "web",
    )
    assert gates({"package.json": '{"workspaces": ["web"]}', **web}) == {}
