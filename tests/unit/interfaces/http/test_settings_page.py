"""The patches that the page of the settings offers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from remand.app.errors import UsageError
from remand.config import ConfigError
from remand.config.changes import with_value
from remand.interfaces.http.pages.settings import SettingsChange, make_patch


def change(before: str, name: str, value: object) -> SettingsChange:
    return SettingsChange("Set it", with_value(before, ("policy", name), value), "set it")


@pytest.mark.parametrize(
    "before", ["", '[policy]\nlease = "1h"', '# \u2028 \x85\n[policy]\nlease = "1h"\n' + "# more\n" * 9]
)
def test_git_applies_the_patch_to_the_file_it_was_made_for(tmp_path: Path, before: str) -> None:
    wanted = change(before, "lease", "45m")
    if before:
        tmp_path.joinpath("remand.toml").write_bytes(before.encode())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)

    patch = make_patch(before, wanted)

    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=tmp_path, check=True)
    assert tmp_path.joinpath("remand.toml").read_bytes().decode() == wanted.text


def test_no_patch_makes_a_wrong_file_shows_a_secret_or_does_nothing() -> None:
    secret = f'# ghp_{"a1B2" * 9}\n[policy]\nlease = "1h"\n'
    with pytest.raises(ConfigError, match=r"policy\.lease"):
        make_patch("", change("", "lease", "45x"))
    with pytest.raises(UsageError, match="secret"):
        make_patch(secret, change(secret, "lease", "45m"))
    with pytest.raises(UsageError, match="already"):
        make_patch('[policy]\nlease = "1h"\n', change('[policy]\nlease = "1h"\n', "lease", "1h"))
    with pytest.raises(UsageError, match="yourself"):
        make_patch("", SettingsChange("Set it", None, "set it"))
