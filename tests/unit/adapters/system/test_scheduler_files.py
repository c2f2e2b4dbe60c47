"""Holds that a member's program is looked for where agents find it, not where the caller is."""

from pathlib import Path

import pytest

from remand.adapters.system.scheduler_files import unstartable
from remand.domain.access.team import Member


def make_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_programs_are_looked_for_from_the_root_and_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "root" / "src"
    make_program(root / "agents" / "run.sh")
    make_program(root / ".venv" / "bin" / "own-agent")
    make_program(root / "node_modules" / ".bin" / "packaged-agent")
    (root / ".venv" / "pyvenv.cfg").touch()
    make_program(elsewhere / "agents" / "other.sh")
    monkeypatch.chdir(elsewhere)
    commands = ["agents/run.sh", "own-agent", "packaged-agent", "agents/other.sh", "no-such-agent"]
    members = [Member(name=command, command=(command,)) for command in commands]

    found = unstartable(str(tmp_path / "status"), members, str(root))

    assert list(found) == ["agents/other.sh", "no-such-agent"]
