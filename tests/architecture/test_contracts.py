"""Holds the import contracts of pyproject.toml."""

import tomllib
from pathlib import Path

import pytest
from importlinter import cli

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
CONTRACTS = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]


@pytest.mark.parametrize("contract", [contract["id"] for contract in CONTRACTS])
def test_every_import_respects(contract: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.lint_imports(
        config_filename=str(PYPROJECT), limit_to_contracts=(contract,), no_cache=True, no_logo=True
    )

    assert status == cli.EXIT_STATUS_SUCCESS, capsys.readouterr().out
