"""Holds that a verdict is bound to the tools it was measured with: their files, and what is installed beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from remand.adapters.gates.tools import SystemTools, UserRegistries, UserSettings, note_user_settings


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    for name in ("bin", "lib/python3.11/site-packages", "lib/python3/site-packages", "lib/other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "bin" / "tool").chmod(0o755)
    return tmp_path


def digest(prefix: Path) -> str:
    return SystemTools().digest([("env", "A=1", "tool", "x")], [str(prefix / "bin")])


def test_the_same_tools_are_the_same(prefix: Path) -> None:
    (prefix / "lib" / "other" / "x").write_text("1", encoding="utf-8")
    assert digest(prefix) == digest(prefix) != digest(prefix / "elsewhere")


@pytest.mark.parametrize(
    "changed",
    [
        "bin/tool",
        "lib/python3.11/site-packages/plugin",
        "lib/python3/site-packages/plugin",
        "lib/python3.13/site-packages/plugin",
    ],
)
def test_other_tools_or_packages_are_told_apart(prefix: Path, changed: str) -> None:
    before = digest(prefix)

    (prefix / changed).parent.mkdir(parents=True, exist_ok=True)
    (prefix / changed).write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")

    assert digest(prefix) != before


# What `remand init` notes of the user.


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("home/.nvm/bin", "home/.config/pip", "project/node_modules/.bin", "open", "certificates"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "home/.config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://me:secret@example.org/simple\npassword = secret\ntimeout = 9\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def noted(state: Path, **environment: str) -> UserSettings:
    return note_user_settings(str(state / "state"), environment, str(state / "project"))


def test_programs_are_found_where_the_users_own_path_had_them_at_init(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvm = str(state / "home/.nvm/bin")
    (state / "shell").symlink_to(nvm)  # as fnm's folder, which ends with its shell
    noted(state, PATH=f"{state}/shell:relative:{state}/gone:/usr/bin")
    monkeypatch.setenv("PATH", str(state / "certificates"))
    path = SystemTools(str(state / "state")).standard_path()

    assert path[:2] == (nvm, "/usr/bin")
    assert str(state / "certificates") not in path  # whoever calls now may be an agent


def test_what_agents_or_everybody_could_write_is_not_noted(state: Path) -> None:
    assert noted(state, PATH=f"{state}/project/node_modules/.bin:{state}/open").path == ()


def test_without_a_note_the_standard_folders_count() -> None:
    assert SystemTools("/nowhere").standard_path() == SystemTools().standard_path()


def test_certificates_proxies_and_registries_are_handed_on_and_nothing_else(state: Path) -> None:
    noted(
        state,
        HTTPS_PROXY="http://me:secret@proxy",
        SSL_CERT_DIR=f"{state}/certificates",
        AWS_SECRET_KEY="x",
        PATH="",
    )
    given = UserRegistries(str(state / "state"))(str(state), has_secrets=True)

    assert given.environment.keys() == {"HTTPS_PROXY", "SSL_CERT_DIR", "PIP_CONFIG_FILE"}
    assert given.read == (f"{state}/certificates",)
    assert "secret" in Path(given.environment["PIP_CONFIG_FILE"]).read_text(encoding="utf-8")


def test_without_secrets_no_password_is_handed_on(state: Path) -> None:
    noted(state, HTTPS_PROXY="http://me:secret@proxy", NPM_TOKEN="secret")
    given = UserRegistries(str(state / "state"))(str(state), has_secrets=False)
    text = Path(given.environment["PIP_CONFIG_FILE"]).read_text(encoding="utf-8")

    assert given.environment["HTTPS_PROXY"] == "http://proxy"
    assert "NPM_TOKEN" not in given.environment
    assert text == "[global]\nindex-url = https://example.org/simple\ntimeout = 9\n"
