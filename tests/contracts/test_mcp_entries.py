"""Our MCP server in hosts' settings: every host's entry, whatever else is in the file."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.adapters.hosts.host import PASSED_VARIABLES, McpEntry
from remand.adapters.hosts.settings import (
    UnusableSettings,
    install_server,
    installed_programs,
    uninstall_server,
)
from remand.adapters.hosts.table import HOSTS as HOST_TABLE
from remand.domain.hosts import HOSTS
from tests.integration.conftest import near_machine, repository
from tests.integration.machine import Machine, Repository

__all__ = ["near_machine", "repository"]

PROGRAM = "/project/.venv/bin/remand"
ENTRIES = {name: host.SETUP.server for name, host in HOST_TABLE.items()}
WITH_FILE = [entry for entry in ENTRIES.values() if entry.path]
JSON_OTHERS = {
    "mcpServers": {"other": {"command": "npx", "args": ["mcp"]}},
    "model": "m",
    "hooks": {"Stop": []},
}
TOML_OTHERS = """# My own settings
model = "gpt"   # the large one

[mcp_servers.other]
command = "npx"
args = [
  "mcp",   # [mcp_servers.remand]
]

# What remand did before
[profiles.fast]
effort = \"\"\"
[low]
\"\"\"
"""
every_host = pytest.mark.parametrize("entry", WITH_FILE, ids=lambda entry: entry.path)


def read(entry: McpEntry, text: str | None) -> dict[str, Any]:
    """What a settings file says."""
    if text is None:
        return {}
    found: dict[str, Any] = tomllib.loads(text) if entry.is_toml else json.loads(text)
    return found


def servers(entry: McpEntry, text: str) -> dict[str, Any]:
    """The servers that a settings file names."""
    found: dict[str, Any] = read(entry, text)["mcp_servers" if entry.is_toml else "mcpServers"]
    return found


def others(entry: McpEntry) -> str:
    """A file with settings of somebody else's."""
    return TOML_OTHERS if entry.is_toml else json.dumps(JSON_OTHERS, indent=4)


def test_every_host_is_told_or_its_user_is() -> None:
    assert set(ENTRIES) == set(HOSTS)
    assert all(entry.path or entry.hint for entry in ENTRIES.values())


@every_host
def test_an_entry_starts_our_program_and_whom_it_speaks_for_comes_through(entry: McpEntry) -> None:
    own = servers(entry, install_server(entry, None, PROGRAM))["remand"]

    assert (own["command"], own["args"][0]) == (PROGRAM, "mcp")
    assert own["args"][1:] in ([], ["-C", "${workspaceFolder}"])
    handed = own.get("env_vars") or list(own.get("env", {}))
    assert not handed or set(PASSED_VARIABLES) <= set(handed)


@every_host
@pytest.mark.parametrize("before", [None, "", "\n", "others"])
def test_it_is_put_in_once_and_taken_out_without_a_trace(entry: McpEntry, before: str | None) -> None:
    text = others(entry) if before == "others" else before
    once = install_server(entry, text, PROGRAM)

    assert installed_programs(entry, once) == [PROGRAM]
    assert install_server(entry, once, PROGRAM) == once
    left = uninstall_server(entry, once)
    assert left == (text if before == "others" else None) or read(entry, left) == JSON_OTHERS
    assert left is None or not installed_programs(entry, left)


@every_host
def test_what_others_have_set_stays(entry: McpEntry) -> None:
    text = others(entry)
    once = install_server(entry, text, PROGRAM)

    before, after = read(entry, text), read(entry, once)
    servers(entry, once).pop("remand")
    section = "mcp_servers" if entry.is_toml else "mcpServers"
    after[section].pop("remand")
    assert after == before
    if entry.is_toml:
        assert once.startswith(text), "every line of it, comments too"


@every_host
def test_what_a_user_has_added_to_our_entry_stays_when_the_program_moves(entry: McpEntry) -> None:
    text = install_server(entry, others(entry), PROGRAM)
    named = text.replace('"mcp"]', '"mcp", "--as", "Fenster"]') if entry.is_toml else _named(text)
    moved = install_server(entry, named, "/elsewhere/bin/remand")

    own = servers(entry, moved)["remand"]
    assert (own["command"], own["args"][-2:]) == ("/elsewhere/bin/remand", ["--as", "Fenster"])
    assert servers(entry, moved)["other"] == servers(entry, text)["other"]
    assert read(entry, uninstall_server(entry, moved)) == read(entry, others(entry))


def _named(text: str) -> str:
    found = json.loads(text)
    found["mcpServers"]["remand"]["args"] += ["--as", "Fenster"]
    return json.dumps(found)


@every_host
def test_another_server_of_our_name_is_left_alone_and_said(entry: McpEntry) -> None:
    text = (
        '[mcp_servers.remand]\ncommand = "node"\n'
        if entry.is_toml
        else '{"mcpServers": {"remand": {"command": "node", "args": ["x"]}}}'
    )

    with pytest.raises(UnusableSettings, match="another name"):
        install_server(entry, text, PROGRAM)
    assert not installed_programs(entry, text)
    assert uninstall_server(entry, text) == text


UNREADABLE = ["{", "[]", '{"a": 1, "a": 2}', '{"mcpServers": []}', "// a comment\n{}", "\x00"]
UNREADABLE_TOML = [
    "= 1",
    "mcp_servers = 1",
    'mcp_servers = {other = {command = "x"}}',
    "a = 1\na = 2",
    "\x00",
]


@every_host
def test_what_cannot_be_read_or_kept_is_not_written(entry: McpEntry) -> None:
    for text in UNREADABLE_TOML if entry.is_toml else UNREADABLE:
        with pytest.raises(UnusableSettings):
            install_server(entry, text, PROGRAM)


@given(
    before=st.lists(
        st.sampled_from([*TOML_OTHERS.splitlines()[:2], "", "[a]", "x = [", "]", "# c", '"[b]" = 1', "'''"])
    ),
    after=st.lists(
        st.sampled_from(["", "[mcp_servers.z]", "[[list]]", "# own", "y = 1", "  [c]", "'''", '"""'])
    ),
)
def test_a_file_of_any_shape_says_the_same_besides_or_is_left_alone(
    before: list[str], after: list[str]
) -> None:
    entry = ENTRIES["codex"]
    text = "\n".join([*before, ""])
    try:
        once = install_server(entry, text, PROGRAM)
        grown = "\n".join([once.rstrip("\n"), *after, ""])
        left = uninstall_server(entry, grown)
    except UnusableSettings:
        return
    whole, without = tomllib.loads(grown), tomllib.loads(left or "")
    del whole["mcp_servers"]["remand"]
    assert {"mcp_servers": {}} | without == {"mcp_servers": {}} | whole
    assert (left or "").count("# c") >= before.count("# c"), "no comment of others is lost"


def test_what_stands_behind_our_table_stays_with_its_comments() -> None:
    entry = ENTRIES["codex"]
    text = install_server(entry, None, PROGRAM) + TOML_OTHERS.replace('model = "gpt"   # the large one\n', "")

    assert uninstall_server(entry, text) == TOML_OTHERS.replace('model = "gpt"   # the large one\n', "")


class TestInit:
    def test_writes_every_hosts_entry_beside_its_hooks_and_takes_both_out(self, machine: Machine) -> None:
        repository = machine.repository()
        written = repository.ok("init", "--hosts", ",".join(HOSTS))
        again = repository.ok("init", "--hosts", ",".join(HOSTS))

        assert written["mcp"] == again["mcp"] == [str(repository.path / entry.path) for entry in WITH_FILE]
        for entry in WITH_FILE:
            own = servers(entry, (repository.path / entry.path).read_text())["remand"]
            assert own["command"].startswith("/")
            assert own["command"].endswith("/bin/remand")
        removed = repository.ok("init", "--remove")
        assert set(removed["mcp"]) == set(written["mcp"])
        assert repository.git("status", "--short", "--untracked-files=all").count("mcp") == 0
        assert not any((repository.path / entry.path).exists() for entry in WITH_FILE)

    def test_a_host_without_a_file_for_it_is_told_how(self, repository: Repository) -> None:
        said = repository.people("init", "--hosts", "openhands")

        assert "openhands mcp add remand --transport stdio /" in said.out
        assert "-- mcp" in said.out

    def test_writes_nothing_at_all_when_one_file_cannot_be_changed(self, repository: Repository) -> None:
        (repository.path / ".cursor").mkdir()
        (repository.path / ".cursor" / "mcp.json").write_text("{ // mine\n}")
        said = repository.call("init", "--hosts", "claude,cursor")

        assert said.code == 3
        assert ".cursor/mcp.json was not changed" in said.data["message"]
        assert not (repository.path / ".mcp.json").exists()
        assert not (repository.path / ".claude").exists()

    def test_follows_no_link_out_of_the_repository(self, repository: Repository, machine: Machine) -> None:
        outside = machine.folder / "outside.json"
        (repository.path / ".mcp.json").symlink_to(outside)
        said = repository.call("init", "--hosts", "claude")

        assert (said.code, outside.exists()) == (3, False)


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    return near_machine
