"""The tutorial as a newcomer follows it: the wheel alone, every call as printed, and what each prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.pages import Reader, blocks, check
from tests.acceptance.wheel import ROOT, serve_registry
from tests.integration.machine import Machine


@pytest.mark.more
def test_the_tutorial_goes_as_it_is_printed(machine: Machine, installed: Path, tmp_path: Path) -> None:
    reader = Reader(machine, installed)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    with serve_registry(tmp_path) as registry:
        registry.add_python("pytest")
        reader.environment.update(registry.variables)
        told = [reader.follows(block) for block in blocks("console", page)]

    assert len(told) == 8
    for answers in told:
        check(answers)
