"""Proposed gates are valid tables of `remand.toml`."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.adapters.projects.project import render_toml
from remand.config.gates import parse_gate_policy
from remand.domain.gate.gate import Gate, GatePreparation, GateProposal, GateProposals
from tests.unit.adapters.projects.project_trees import proposed
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
