"""Runs `scripts/check-log` inside a test: the checker that shares no code with the package."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

SCRIPT = Path(__file__).parents[2] / "scripts" / "check-log"


@cache
def _checker() -> ModuleType:
    loader = SourceFileLoader("check_log", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def log_faults(
    lines: Iterable[bytes],
    *,
    is_merged: bool = False,
    is_hostile: bool = False,
    keys: Iterable[str] = (),
    project: str = "",
    config: str = "",
) -> list[str]:
    """What is wrong with a log of these lines. Without keys or a configuration no signature is verified."""
    checker = _checker()
    report = checker.Report(is_merged=is_merged, is_hostile=is_hostile)
    numbered = ((f"line {number}", line) for number, line in enumerate(lines, 1))
    trust = checker.read_trust(config, project, list(keys))
    faults: list[str] = checker.check(numbered, report, trust).faults
    return faults


def run_script(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the script as a person does, with nothing but the standard library on its path."""
    command = [sys.executable, "-I", "-S", str(SCRIPT), *(str(one) for one in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
