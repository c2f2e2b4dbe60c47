"""Holds that a verdict is bound to the tools it was measured with: their files, and what is installed beside them."""

from __future__ import annotations

import json
import os
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


@pytest.mark.parametrize("shims", [".volta/bin", ".asdf/shims"])
def test_programs_are_found_behind_the_shims_of_a_version_manager(state: Path, shims: str) -> None:
    folder, real = state / "home" / shims, state / "home" / "versions" / "20" / "bin"
    for place in (folder, real):
        place.mkdir(parents=True)
    (real / "node").touch(mode=0o755)
    (folder / "node").write_text(f'#!/bin/sh\n[ "$1" = -p ] && echo {real}/node\n', encoding="utf-8")
    (folder / "go").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    for name in ("node", "go"):
        (folder / name).chmod(0o755)

    assert noted(state, PATH=f"{folder}:/usr/bin").path == (str(real), str(folder), "/usr/bin")


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


KEY = "-----BEGIN EC PRIVATE KEY-----\nsecret\n-----END EC PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def without_secrets(state: Path, **environment: str) -> dict[str, str]:
    """What a step gets that a branch steers: each variable with its value, or with the file's text."""
    noted(state, **environment)
    given = UserRegistries(str(state / "state"))(str(state), has_secrets=False).environment
    return {
        name: Path(value).read_text(encoding="utf-8") if os.path.isfile(value) else value
        for name, value in given.items()
        if name != "PIP_CONFIG_FILE"
    }


@pytest.mark.parametrize(
    "name", ["UV_ENV_FILE", "YARN_HTTPS_KEY_FILE_PATH", "PIP_CLIENT_CERT", "npm_config_key"]
)
def test_without_secrets_only_known_variables_are_handed_on(state: Path, name: str) -> None:
    (state / "file").write_text(KEY, encoding="utf-8")

    assert without_secrets(state, **{name: str(state / "file")}) == {}
    assert without_secrets(state, **{name: KEY}) == {}


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("HTTPS_PROXY", "bob:secret@proxy:3128", "proxy:3128"),
        ("https_proxy", "http://bob:s@cret@proxy:3128", "http://proxy:3128"),
        ("PIP_INDEX_URL", "https://bob:s@cret@host/simple", "https://host/simple"),
        ("PIP_EXTRA_INDEX_URL", "https://a/x https://b:secret@c/y", "https://a/x https://c/y"),
        ("GOPROXY", "https://a,https://b:secret@c,direct", "https://a,https://c,direct"),
        ("UV_INDEX", "own=https://b:secret@c/y", "own=https://c/y"),
        ("PIP_INDEX_URL", "https://bob:sec/ret@host/simple", None),
        ("npm_config_ca", CERTIFICATE, CERTIFICATE),
        ("npm_config_ca", CERTIFICATE + KEY, None),
    ],
)
def test_without_secrets_addresses_have_no_user(
    state: Path, name: str, value: str, given: str | None
) -> None:
    assert without_secrets(state, **{name: value}).get(name) == given


def test_without_secrets_a_certificate_file_is_its_certificates(state: Path) -> None:
    (state / "all.pem").write_text(f"token\n{CERTIFICATE}{KEY}{CERTIFICATE}", encoding="utf-8")

    assert without_secrets(state, PIP_CERT=str(state / "all.pem")) == {"PIP_CERT": CERTIFICATE * 2}


@pytest.mark.parametrize(
    ("place", "text", "given"),
    [
        (
            ".npmrc",
            (
                '//r/:_authToken=secret\nkey="-----BEGIN PRIVATE KEY-----\\nsecret"\nregistry=https://a\n'
                "@own:registry=https://b:secret@c/\nemail=x\n"
            ),
            "registry=https://a\n@own:registry=https://c/\n",
        ),
        (
            ".config/uv/uv.toml",
            (
                'extra-index-url = [\n  "https://a",\n  "https://b:secret@c",\n]\n[[index]]\n  url = "https://b:s@cret@c/d"\n'
                '  token = "secret"\n'
            ),
            'extra-index-url = [\n  "https://a",\n  "https://c",\n]\n[[index]]\n  url = "https://c/d"\n',
        ),
        (
            ".config/pip/pip.conf",
            (
                "[global]\n  extra-index-url =\n    https://a\n    https://b:secret@c\n  password: secret\n  word\n"
                f"  index_url = https://a # secret\n{KEY}"
            ),
            "[global]\n  extra-index-url =\n    https://a\n    https://c\n  index_url = https://a\n",
        ),
        (".config/go/env", "GOPROXY=https://b:secret@c\nGOAUTH=secret\n", "GOPROXY=https://c\n"),
    ],
)
def test_without_secrets_only_known_settings_of_a_file_pass(
    state: Path, place: str, text: str, given: str
) -> None:
    (state / "home/.config/pip/pip.conf").unlink()
    (state / "home" / place).parent.mkdir(parents=True, exist_ok=True)
    (state / "home" / place).write_text(text, encoding="utf-8")
    noted(state)
    (found,) = UserRegistries(str(state / "state"))(str(state), has_secrets=False).environment.values()

    assert Path(found).read_text(encoding="utf-8") == given


def test_where_the_user_keeps_things_is_never_handed_on(state: Path) -> None:
    names = (
        "UV_CACHE_DIR",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_USER",
        "UV_PROJECT_ENVIRONMENT",
        "UV_ENV_FILE",
        "npm_config_prefix",
    )
    noted(state, **dict.fromkeys(names, "1"), UV_INDEX_OWN_USERNAME="me")
    given = UserRegistries(str(state / "state"))(str(state), has_secrets=True).environment

    assert given.keys() == {"UV_INDEX_OWN_USERNAME", "PIP_CONFIG_FILE"}


def test_what_only_publishing_needs_is_neither_noted_nor_handed_on(state: Path) -> None:
    names = (
        "UV_PUBLISH_TOKEN",
        "UV_PUBLISH_PASSWORD",
        "YARN_NPM_PUBLISH_REGISTRY",
        "CARGO_REGISTRY_TOKEN",
        "CARGO_REGISTRIES_CRATES_IO_TOKEN",
        "npm_config_otp",
    )
    kept = {"UV_INDEX_OWN_PASSWORD", "NPM_TOKEN", "CARGO_REGISTRIES_OWN_TOKEN"}
    found = noted(state, **dict.fromkeys([*names, *kept], "secret"))
    assert found.variables.keys() == {*kept, "PIP_CONFIG_FILE"}

    # As an earlier version noted them.
    earlier = {"variables": dict.fromkeys([*names, *kept], "secret")}
    (state / "state/user.json").write_text(json.dumps(earlier), encoding="utf-8")
    given = UserRegistries(str(state / "state"))(str(state), has_secrets=True).environment
    assert given.keys() == kept


def test_a_program_is_found_behind_the_folder_that_it_runs_in(prefix: Path) -> None:
    missing = SystemTools().missing_program

    assert missing(("env", "-C", "backend", "A=1", "tool"), [str(prefix / "bin")]) == ""
    assert missing(("env", "-C", "backend", "other"), [str(prefix / "bin")]) == "other"
