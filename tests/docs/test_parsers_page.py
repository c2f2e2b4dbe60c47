"""The page on parsers says what the parsers are."""

import re
import tomllib
from pathlib import Path

import pytest

from remand.adapters.parsers.registry import PARSERS
from remand.config.gates import parse_gate_policy

PAGE = (Path(__file__).parents[2] / "docs" / "parsers.md").read_text(encoding="utf-8")
ROWS = {
    row[0].strip("` "): row
    for line in PAGE.splitlines()
    if line.startswith("| `") and len(row := line.strip("|").split("|")) == 4
}


def test_every_parser_is_documented_and_no_other() -> None:
    assert tuple(ROWS) == tuple(PARSERS)


@pytest.mark.parametrize("name", tuple(PARSERS))
def test_a_parsers_figures_and_thresholds_are_as_documented(name: str) -> None:
    _, _, figures, thresholds = ROWS[name]

    assert tuple(re.findall(r"`([a-z_]+)`", figures)) == PARSERS[name]().figures
    assert tomllib.loads("\n".join(re.findall(r"`([^`]+)`", thresholds))) == dict(PARSERS[name]().defaults)


def test_the_example_gates_are_valid() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    gates = parse_gate_policy(tomllib.loads(example)).gates or ()

    assert {gate.parser for gate in gates} <= set(PARSERS)
    assert all(name[4:] in PARSERS[gate.parser]().figures for gate in gates for name in gate.require)
