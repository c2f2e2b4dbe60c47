"""Holds the import contracts of pyproject.toml."""

import logging.config
import tomllib
from pathlib import Path

import pytest
from importlinter import cli

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
CONTRACTS = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]


@pytest.mark.parametrize("contract", [contract["id"] for contract in CONTRACTS])
def test_every_import_respects(
    contract: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # It would switch off every logger that there is, also for the tests that follow.
    monkeypatch.setattr(logging.config, "dictConfig", lambda _: None)
    status = cli.lint_imports(
        config_filename=str(PYPROJECT), limit_to_contracts=(contract,), no_cache=True, no_logo=True
    )

    assert status == cli.EXIT_STATUS_SUCCESS, capsys.readouterr().out
