"""Where things are kept: never in the folder that somebody happens to be in."""

from __future__ import annotations

from pathlib import Path

import pytest

from remand.adapters.system.folders import runtime_folder, state_folder


@pytest.mark.parametrize("relative", ["", "state", "./state", "../state"])
def test_a_relative_folder_of_the_environment_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, relative: str
) -> None:
    (tmp_path / "state").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_STATE_HOME", relative)
    monkeypatch.setenv("XDG_RUNTIME_DIR", relative)

    assert state_folder() == "/home/somebody/.local/state/remand"
    assert runtime_folder().startswith("/tmp/remand-")
