"""Every host's launch configuration: the user's command is kept, the worktree and the user's settings are left alone."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.hosts.host import Setup
from remand.adapters.hosts.launch import LONGEST
from remand.adapters.hosts.launcher import HostLauncher
from remand.app.scheduler.ports import CannotRun, LaunchConfig
from remand.domain.hosts import HOSTS
from remand.wiring.startup import load_host

PROGRAM = "/opt/remand/bin/remand"
PROMPT = "Do the task.\nAll of it, “rightly”."
COMMANDS: dict[str, tuple[str, ...]] = {
    "claude": ("claude", "-p", "--model", "opus"),
    "codex": ("codex", "-m", "gpt", "exec", "--sandbox", "workspace-write"),
    "copilot": ("copilot", "--allow-all-tools"),
    "cursor": ("cursor-agent", "-p", "--force"),
    "gemini": ("gemini", "--yolo"),
    "openhands": ("openhands", "--headless"),
    "qwen": ("qwen", "--yolo"),
}
LOGINS = {
    "claude": ".claude/.credentials.json",
    "codex": ".codex/auth.json",
    "cursor": ".config/cursor/auth.json",
    "gemini": ".gemini/oauth_creds.json",
    "qwen": ".qwen/oauth_creds.json",
}
SETTINGS = {
    "claude": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "copilot": ".copilot/settings.json",
    "cursor": ".cursor/cli-config.json",
    "gemini": ".gemini/settings.json",
    "openhands": ".openhands/agent_settings.json",
    "qwen": ".qwen/settings.json",
}
KEYS = {
    "claude": "ANTHROPIC_API_KEY",
    "codex": "OPENAI_API_KEY",
    "copilot": "COPILOT_GITHUB_TOKEN",
    "cursor": "CURSOR_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "openhands": "LLM_API_KEY",
    "qwen": "DASHSCOPE_API_KEY",
}
STDIN = ("claude", "codex", "copilot", "gemini", "qwen")
"""The hosts that were seen to take their prompt from standard input."""


class User:
    """A user with settings and a login of every host."""

    def __init__(self, folder: Path) -> None:
        self.home, self.runs = folder / "home", folder / "runs"
        for path in (*LOGINS.values(), *SETTINGS.values()):
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text("")

    def fitting(self, *, is_confined: bool, surroundings: dict[str, str] | None = None) -> HostLauncher:
        return HostLauncher(
            folder=str(self.runs),
            program=PROGRAM,
            home=str(self.home),
            surroundings=surroundings or {},
            is_confined=is_confined,
        )

    def fit(
        self, command: Sequence[str], *, is_confined: bool = True, prompt: str = PROMPT, **surroundings: str
    ) -> LaunchConfig:
        fitting = self.fitting(is_confined=is_confined, surroundings=surroundings)
        return fitting.launch_config(tuple(command), "RUN-1", prompt)

    def made(self) -> dict[str, str]:
        """What was written for the run."""
        return {str(path): path.read_text() for path in self.runs.rglob("*") if path.is_file()}


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def setup_of(name: str) -> Setup:
    module = load_host(name)
    assert module is not None
    return module.SETUP


def test_every_host_has_a_launch_configuration() -> None:
    assert set(HOSTS) == set(COMMANDS)


@pytest.mark.parametrize("is_confined", [False, True])
@pytest.mark.parametrize("name", HOSTS)
def test_the_users_words_stay_and_keep_their_order(name: str, is_confined: bool, user: User) -> None:
    words = list(user.fit(COMMANDS[name], is_confined=is_confined).command)
    places = []
    for word in COMMANDS[name]:
        places.append(words.index(word, places[-1] + 1 if places else 0))

    assert places[0] == 0
    assert name != "codex" or words[:4] == ["codex", "-m", "gpt", "exec"], "settings follow the subcommand"


@pytest.mark.parametrize("is_confined", [False, True])
@pytest.mark.parametrize("name", HOSTS)
def test_every_event_that_the_host_knows_calls_our_hook_by_its_path(
    name: str, is_confined: bool, user: User
) -> None:
    fitted = user.fit(COMMANDS[name], is_confined=is_confined)
    told = "\n".join([*fitted.command, *user.made().values()])
    called = [f"{PROGRAM} hook --host {name} {event}" for event in setup_of(name).events]
    is_left_to_the_project = name == "cursor" and not is_confined

    assert [line in told for line in called] == [not is_left_to_the_project] * len(called)


@pytest.mark.parametrize("is_confined", [True, False])
def test_codex_keeps_the_path_it_was_given_where_no_sandbox_has_our_program(
    user: User, is_confined: bool
) -> None:
    """A login shell resets PATH; in the sandbox every shell finds our program all the same."""
    given = user.fit(COMMANDS["codex"], is_confined=is_confined).command

    assert ("allow_login_shell=false" in given) == (not is_confined)
    own = (*COMMANDS["codex"], "-c", "allow_login_shell=true")
    words = user.fit(own, is_confined=False).command
    assert words.index("allow_login_shell=false") < words.index("allow_login_shell=true"), (
        "the last one counts"
    )


@pytest.mark.parametrize("name", [name for name in HOSTS if name != "openhands"])
def test_our_tools_are_served_by_our_own_program(name: str, user: User) -> None:
    fitted = user.fit(COMMANDS[name])
    if name == "codex":
        settings = tomllib.loads(next(word for word in fitted.command if word.startswith("mcp_servers.")))
        servers = settings["mcp_servers"]
    else:
        servers = next(found for text in user.made().values() for found in [_servers(text)] if found)

    assert list(servers) == ["remand"]
    assert (servers["remand"]["command"], servers["remand"]["args"]) == (PROGRAM, ["mcp"])


def _servers(text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text).get("mcpServers", {})
    except ValueError:
        return {}
    return found


@pytest.mark.parametrize("name", HOSTS)
def test_all_that_is_made_is_in_the_runs_folder_and_the_users_alone(name: str, user: User) -> None:
    before = sorted(user.home.rglob("*"))
    fitted = user.fit(COMMANDS[name])

    assert sorted(user.home.rglob("*")) == before
    assert (user.runs / "RUN-1").stat().st_mode & 0o777 == 0o700
    for path in user.runs.rglob("*"):
        assert path.is_symlink() or path.is_dir() or path.stat().st_mode & 0o777 == 0o600
    assert set(fitted.read) - {str(user.runs / "RUN-1")} <= {str(path) for path in before}


@pytest.mark.parametrize("name", HOSTS)
def test_a_confined_agent_may_write_its_own_state_and_its_login_and_none_of_the_users_settings(
    name: str, user: User
) -> None:
    fitted = user.fit(COMMANDS[name])
    state = str(user.runs / "RUN-1" / "state")
    login = [str(user.home / LOGINS[name])] if name in LOGINS else []

    assert list(fitted.write) == [state, *login]
    assert state in fitted.environment.values()
    linked = {os.readlink(path): path for path in user.runs.rglob("*") if path.is_symlink()}
    assert {str(user.home / SETTINGS[name]), *login} <= set(linked)
    assert set(linked) <= {*fitted.read, *fitted.write}, "it sees all that its links lead to"


@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "cursor", "qwen"])
def test_an_agent_that_is_not_confined_uses_the_users_own_folder(name: str, user: User) -> None:
    fitted = user.fit(COMMANDS[name], is_confined=False)

    assert not [path for path in user.runs.rglob("*") if path.is_symlink()]
    assert str(user.runs / "RUN-1" / "state") not in fitted.environment.values()


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_is_handed_its_own_keys_and_nobody_elses(name: str, user: User) -> None:
    given = {**dict.fromkeys(KEYS.values(), "x"), "HTTPS_PROXY": "p", "https_proxy": "p", "BANK_PIN": "1"}
    passed = user.fit(COMMANDS[name], **given).environment

    assert {KEYS[name], "HTTPS_PROXY", "https_proxy"} <= set(passed)
    shared = {"GEMINI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"} if name == "qwen" else set()
    assert set(passed) & {*KEYS.values(), "BANK_PIN"} <= {KEYS[name], *shared}


def test_a_key_that_codex_is_told_of_in_its_settings_is_handed_to_it(user: User) -> None:
    config = user.home / SETTINGS["codex"]
    config.write_text('[model_providers.own]\nenv_key = "MY_KEY"\n[model_providers.odd]\nenv_key = 7\n')
    assert user.fit(COMMANDS["codex"], MY_KEY="x", OTHER="y").environment.get("MY_KEY") == "x"
    config.write_text("= not TOML")

    assert "MY_KEY" not in user.fit(COMMANDS["codex"], MY_KEY="x").environment


def test_the_clouds_keys_are_handed_on_when_the_model_is_there(user: User) -> None:
    keys = {"AWS_SECRET_ACCESS_KEY": "x", "GOOGLE_APPLICATION_CREDENTIALS": "y"}
    assert not set(keys) & set(user.fit(COMMANDS["claude"], **keys).environment)
    passed = user.fit(COMMANDS["claude"], CLAUDE_CODE_USE_BEDROCK="1", **keys).environment

    assert set(keys) & set(passed) == {"AWS_SECRET_ACCESS_KEY"}


def test_an_agent_does_not_take_itself_for_a_part_of_the_session_that_started_the_scheduler(
    user: User,
) -> None:
    of_a_session = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SSE_PORT": "7"}

    assert not set(of_a_session) & set(user.fit(COMMANDS["claude"], **of_a_session).environment)


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_that_does_not_read_its_input_finds_the_prompt_elsewhere(name: str, user: User) -> None:
    fitted = user.fit(COMMANDS[name])
    file = str(user.runs / "RUN-1" / "prompt.md")

    assert fitted.has_prompt == (name not in STDIN)
    if fitted.has_prompt:
        assert user.made()[file] == PROMPT
        assert PROMPT in fitted.command or file in fitted.command


class TestPrompts:
    @pytest.mark.parametrize("name", [*HOSTS, ""])
    def test_a_prompt_goes_where_the_command_says_and_nowhere_else(self, name: str, user: User) -> None:
        command = (*COMMANDS.get(name, ("./work.sh",)), "--task", "{prompt}", "--in={prompt_file}")
        fitted = user.fit(command)
        file = str(user.runs / "RUN-1" / "prompt.md")

        assert fitted.has_prompt
        assert (*fitted.command[-2:], fitted.command.count(PROMPT)) == (PROMPT, f"--in={file}", 1)
        assert user.made()[file] == PROMPT
        assert str(user.runs / "RUN-1") in fitted.read

    def test_a_prompt_is_not_read_for_placeholders_itself(self, user: User) -> None:
        fitted = user.fit(("./work.sh", "{prompt} {prompt_file}"), prompt="see {prompt_file} {prompt}")

        assert fitted.command[1].startswith("see {prompt_file} {prompt} /")

    @pytest.mark.parametrize("command", [("./work.sh", "{prompt}"), COMMANDS["cursor"]])
    def test_one_that_is_too_long_for_a_command_is_pointed_to(
        self, command: tuple[str, ...], user: User
    ) -> None:
        long = "ü" * (LONGEST // 2 + 1)
        fitted = user.fit(command, prompt=long)
        file = str(user.runs / "RUN-1" / "prompt.md")

        assert fitted.command[-1] == f"Read {file}: it says what to do."
        assert user.made()[file] == long

    @pytest.mark.parametrize("prompt", ["", "-p", "--", "\ud800 half", "{prompt"])
    @pytest.mark.parametrize("name", HOSTS)
    def test_no_prompt_keeps_a_command_from_being_fitted_out(
        self, name: str, prompt: str, user: User
    ) -> None:
        assert user.fit(COMMANDS[name], prompt=prompt).command[0] == COMMANDS[name][0]


class TestOutputs:
    @pytest.mark.parametrize("name", HOSTS)
    def test_a_host_is_told_to_speak_json(self, name: str, user: User) -> None:
        assert set(user.fit(COMMANDS[name]).command) & {"stream-json", "json", "--json"}

    @pytest.mark.parametrize("name", [name for name in HOSTS if name not in {"codex", "openhands"}])
    @pytest.mark.parametrize("form", [("--output-format", "text"), ("--output-format=text",)])
    def test_unless_the_user_says_what_it_is_to_speak(
        self, name: str, form: tuple[str, ...], user: User
    ) -> None:
        fitted = user.fit((*COMMANDS[name], *form))

        assert [word for word in fitted.command if word.startswith("--output-format")] == [form[0]]

    def test_a_session_for_people_is_left_as_it_is(self, user: User) -> None:
        assert "--output-format" not in user.fit(("claude",)).command
        assert "--json" not in user.fit(("codex",)).command


def test_the_packages_of_a_script_that_an_interpreter_is_told_of_can_be_read(
    user: User, tmp_path: Path
) -> None:
    script = tmp_path / "lib" / "node_modules" / "@google" / "gemini-cli" / "bundle" / "gemini.js"
    script.parent.mkdir(parents=True)
    script.write_text("")
    alone = tmp_path / "gemini.js"
    alone.write_text("")

    assert str(tmp_path / "lib" / "node_modules") in user.fit(("node", str(script))).read
    assert str(alone) in user.fit(("env", "node", str(alone))).read


def test_a_plain_script_is_started_as_it_is(user: User) -> None:
    assert user.fit(("./work.sh", "--fast")) == LaunchConfig(command=("./work.sh", "--fast"))
    assert not user.runs.exists()


class TestFolders:
    def test_a_run_leaves_nothing_behind_whatever_the_agent_made_of_its_folder(
        self, user: User, tmp_path: Path
    ) -> None:
        user.fit(COMMANDS["claude"])
        state, kept = user.runs / "RUN-1" / "state", tmp_path / "kept"
        kept.mkdir(mode=0o750)
        (kept / "file").write_text("kept")
        (state / "deep" / "er").mkdir(parents=True)
        (state / "deep" / "er" / "file").write_text("x")
        (state / "out").symlink_to(kept)
        os.mkfifo(state / "pipe")
        (state / "deep" / "er").chmod(0)
        (state / "deep").chmod(0)
        user.fitting(is_confined=True).drop("RUN-1")

        assert list(user.runs.iterdir()) == []
        assert (kept / "file").read_text() == "kept"
        assert kept.stat().st_mode & 0o777 == 0o750

    def test_a_run_that_is_begun_again_starts_afresh(self, user: User) -> None:
        user.fit(COMMANDS["claude"])
        (user.runs / "RUN-1" / "state" / "left").write_text("x")
        user.fit(COMMANDS["claude"])

        assert not (user.runs / "RUN-1" / "state" / "left").exists()

    def test_what_a_killed_scheduler_left_is_taken_away(self, user: User) -> None:
        fitting = user.fitting(is_confined=True)
        fitting.sweep()
        fitting.launch_config(COMMANDS["claude"], "RUN-1", PROMPT)
        fitting.launch_config(COMMANDS["codex"], "RUN-2", PROMPT)
        fitting.sweep()

        assert list(user.runs.iterdir()) == []

    @pytest.mark.parametrize("run_id", ["", "..", ".", "../x", "a/b", "/etc", ".hidden"])
    def test_a_run_has_no_folder_elsewhere(self, run_id: str, user: User) -> None:
        fitting = user.fitting(is_confined=True)
        with pytest.raises(CannotRun):
            fitting.launch_config(COMMANDS["claude"], run_id, PROMPT)
        with pytest.raises(CannotRun):
            fitting.drop(run_id)

    def test_a_folder_that_cannot_be_written_is_the_systems_fault(self, user: User) -> None:
        user.runs.write_text("a file in its place")
        with pytest.raises(CannotRun) as caught:
            user.fit(COMMANDS["claude"])

        assert caught.value.cause == "disk"
