"""Our entries in every host's settings file: put in once, found again, taken out without a trace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from remand.adapters.hosts import settings
from remand.adapters.hosts.host import Setup
from remand.app import hook_calls as hook
from remand.app.hook_calls import SECONDS, deadline
from remand.domain.hosts import HOSTS
from remand.wiring.startup import load_host

PROGRAM = ["/opt/remand/bin/remand"]


def setup_of(name: str) -> Setup:
    found = load_host(name)
    assert found is not None
    return found.SETUP


FOREIGN: dict[str, dict[str, Any]] = {
    "grouped": {
        "model": "a-model",
        "hooks": {
            "Stop": [{"hooks": [{"type": "command", "command": "./other.sh"}]}],
            "AfterAgent": [{"hooks": [{"type": "command", "command": "./other.sh"}]}],
            "Notification": [{"matcher": "", "hooks": [{"type": "command", "command": "notify ümläut"}]}],
        },
        "permissions": {"allow": ["Bash(ls)"]},
    },
    "flat": {
        "version": 1,
        "hooks": {
            "agentStop": [{"type": "command", "bash": "./other.sh"}],
            "stop": [{"command": "./other.sh", "loop_limit": 3}],
        },
    },
}


def foreign(name: str) -> dict[str, Any]:
    return FOREIGN["grouped" if setup_of(name).is_grouped else "flat"]


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("before", ["", "foreign", "empty"])
def test_installing_twice_is_installing_once(name: str, before: str) -> None:
    setup = setup_of(name)
    text = {"": None, "foreign": json.dumps(foreign(name), indent=4), "empty": "{}"}[before]
    once = settings.install_hooks(setup, text, PROGRAM)

    assert settings.install_hooks(setup, once, PROGRAM) == once


@pytest.mark.parametrize("name", HOSTS)
def test_every_event_is_installed_once_with_time_enough(name: str) -> None:
    setup = setup_of(name)
    found = settings.find_hooks(setup, settings.install_hooks(setup, None, PROGRAM))

    assert [entry.event for entry in found] == list(setup.events.values())
    for event, entry in zip(setup.events, found, strict=True):
        assert entry.command == f"/opt/remand/bin/remand hook --host {name} {event}"
        assert entry.timeout == SECONDS[event] * setup.timeout_factor
        assert deadline(event) < SECONDS[event]


@pytest.mark.parametrize(
    ("name", "key", "unit"),
    [
        ("claude", "timeout", 1),
        ("codex", "timeout", 1),
        ("copilot", "timeoutSec", 1),
        ("cursor", "timeout", 1),
        ("gemini", "timeout", 1000),
        ("qwen", "timeout", 1000),
        ("openhands", "timeout", 1),
    ],
)
def test_a_host_is_told_to_wait_in_its_own_unit(name: str, key: str, unit: int) -> None:
    text = settings.install_hooks(setup_of(name), None, PROGRAM)

    assert f'"{key}": {SECONDS[hook.STOP] * unit}' in text


@pytest.mark.parametrize("name", HOSTS)
def test_what_others_have_in_the_file_stays_as_it_is(name: str) -> None:
    setup = setup_of(name)
    text = settings.install_hooks(setup, json.dumps(foreign(name), indent=4), PROGRAM)
    settings_now = json.loads(text)

    assert list(settings_now) == list(foreign(name))
    for event, groups in foreign(name)["hooks"].items():
        assert settings_now["hooks"][event][: len(groups)] == groups
    assert text.splitlines()[1].startswith('    "'), "the file's own indentation is kept"
    assert "\\u" not in text


@pytest.mark.parametrize("name", HOSTS)
def test_taking_out_gives_back_what_was_there(name: str) -> None:
    setup = setup_of(name)
    before = json.dumps(foreign(name), indent=2, ensure_ascii=False) + "\n"

    assert settings.uninstall_hooks(setup, settings.install_hooks(setup, before, PROGRAM)) == before
    assert settings.uninstall_hooks(setup, settings.install_hooks(setup, None, PROGRAM)) is None


@pytest.mark.parametrize("name", HOSTS)
def test_an_older_entry_is_replaced_where_it_stands(name: str) -> None:
    setup = setup_of(name)
    old = settings.install_hooks(setup, None, ["/old place/remand"])
    own_name = setup.events[hook.STOP]
    more = json.loads(old)
    more["hooks"][own_name].append(foreign(name)["hooks"].get(own_name, [{"hooks": []}])[0])
    new = settings.install_hooks(setup, json.dumps(more), PROGRAM)

    assert "/old place" not in new
    assert [entry.place for entry in settings.find_hooks(setup, new) if entry.event == own_name] == ["0:0"]
    assert len(json.loads(new)["hooks"][own_name]) == 2


def test_an_entry_of_ours_in_a_group_of_others_leaves_the_group() -> None:
    setup = setup_of("claude")
    ours = {"type": "command", "command": "/old/remand hook --host claude stop"}
    other = {"type": "command", "command": "./other.sh"}
    text = json.dumps({"hooks": {"Stop": [{"hooks": [other, ours, ours]}]}})
    groups = json.loads(settings.install_hooks(setup, text, PROGRAM))["hooks"]["Stop"]

    assert groups[0] == {"hooks": [other]}
    assert len(groups) == 2


def test_an_entry_in_the_form_without_a_shell_is_known_as_ours() -> None:
    text = json.dumps(
        {
            "hooks": {
                "Stop": [
                    {"hooks": [{"command": "/a b/remand", "args": ["hook", "--host", "claude", "stop"]}]}
                ]
            }
        }
    )
    setup = setup_of("claude")

    assert [entry.command for entry in settings.find_hooks(setup, text)] == [
        "'/a b/remand' hook --host claude stop"
    ]
    assert settings.uninstall_hooks(setup, text) is None


@pytest.mark.parametrize(
    "command",
    ["./other.sh hook --host claude stop", "remand hook --host codex stop", "echo remand", "remand hook"],
)
def test_what_is_not_ours_is_left_alone(command: str) -> None:
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}})

    assert settings.find_hooks(setup_of("claude"), text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("// note\n{}", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"hooks": []}', "'hooks' is not an object"),
        ('{"hooks": {"Stop": {}}}', "'Stop' is not a list"),
        ('{"hooks": {}, "hooks": {}}', "twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_would_lose_something_is_not_written(text: str, problem: str) -> None:
    with pytest.raises(settings.UnusableSettings, match=problem):
        settings.install_hooks(setup_of("claude"), text, PROGRAM)


@pytest.mark.parametrize("rows", [[], [None, 7, "x", {"hooks": 7}, {"hooks": ["x", None, 7]}]])
def test_odd_rows_of_others_are_no_obstacle(rows: list[Any]) -> None:
    setup = setup_of("claude")
    text = settings.install_hooks(setup, json.dumps({"hooks": {"Stop": rows}}), PROGRAM)

    assert json.loads(text)["hooks"]["Stop"][:-1] == rows


def test_a_program_in_the_project_is_found_through_the_hosts_variable() -> None:
    assert settings.hook_command(setup_of("claude"), [".venv/bin/remand"], hook.STOP) == (
        '"${CLAUDE_PROJECT_DIR}"/.venv/bin/remand hook --host claude stop'
    )


def test_a_path_that_a_shell_would_split_is_quoted() -> None:
    assert settings.hook_command(setup_of("claude"), ["/a b/$x/remand"], hook.STOP) == (
        "'/a b/$x/remand' hook --host claude stop"
    )


@pytest.mark.parametrize("spelling", ["stop", "Stop"])
def test_openhands_files_keep_their_own_spelling(spelling: str) -> None:
    row = {"matcher": "*", "hooks": [{"command": "./other.sh", "timeout": 120}]}
    setup = setup_of("openhands")
    now = json.loads(settings.install_hooks(setup, json.dumps({spelling: [row]}), PROGRAM))

    assert [len(now[spelling]), "hooks" in now] == [2, False]
    assert json.loads(settings.uninstall_hooks(setup, json.dumps(now)) or "") == {spelling: [row]}
