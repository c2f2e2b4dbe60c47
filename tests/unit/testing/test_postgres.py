"""Where the programs of a private PostgreSQL server come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from remand.testing import postgres


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs in a package as the wheel has it, on a machine with no PostgreSQL."""
    package = tmp_path / "wheel_of_postgres"
    programs = package / "pginstall" / "bin"
    programs.mkdir(parents=True)
    (programs / "initdb").touch()
    (package / "__init__.py").write_text("raise AssertionError('it is only looked for')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(postgres, "WHEEL", package.name)
    monkeypatch.setattr(postgres, "INSTALLED", str(tmp_path / "*" / "bin" / "initdb"))
    monkeypatch.setenv("PATH", "")
    return programs


def test_a_wheel_brings_the_programs_where_none_are_installed(wheel: Path) -> None:
    assert postgres.find_programs() == str(wheel)


def test_installed_programs_come_first(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "16" / "bin"
    installed.mkdir(parents=True)
    (installed / "initdb").touch()

    assert postgres.find_programs() == str(installed)


def test_there_are_none_without_either(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wheel / "initdb").unlink()
    assert postgres.find_programs() == ""
    monkeypatch.setattr(postgres, "WHEEL", "no_such_package")
    assert postgres.find_programs() == ""
