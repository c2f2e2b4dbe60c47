"""Codex: hooks in `.codex/hooks.json`. It rejects answers with unknown keys."""

from __future__ import annotations

import os

from remand.adapters.hosts import codex_settings, host, launch
from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, Payload
from remand.app.scheduler import ports

NAME = "codex"
WRITING = "Bash|apply_patch"
HINT = "Codex runs no hook before you have trusted it: start codex here, type /hooks and trust these."
SETUP = host.Setup(
    NAME,
    programs=("codex",),
    server=host.McpEntry(
        ".codex/config.toml",
        {"env_vars": [*host.PASSED_VARIABLES, *host.FOLDER_VARIABLES], "tool_timeout_sec": host.TOOL_SECONDS},
        "Codex reads .codex/config.toml in a trusted project only.",
    ),
    path=".codex/hooks.json",
    elsewhere=("~/.codex/hooks.json",),
    events=host.claude_names(hook.TASK_COMPLETED, hook.POST_TOOL_FAILURE, hook.CONFIG_CHANGE),
    matchers={hook.PRE_TOOL: WRITING, hook.POST_TOOL: f"{WRITING}|{host.CLAIMING}"},
    extras={"type": "command"},
    hint=HINT,
)


def read(event: str, data: bytes) -> HookCall:
    """Reads Codex's format. It reports failed commands like successful ones, without the kind of failure."""
    return host.read_claude_call(SETUP, event, data, tells_failures=False)


def render(event: str, answer: HookAnswer) -> host.Rendered:
    return host.render_claude_answer(SETUP, event, answer)


FOLDER = "CODEX_HOME"
SUBCOMMANDS = ("exec", "e")
CONFIG = "config.toml"
READABLE = (CONFIG, "AGENTS.md", "AGENTS.override.md", "prompts", "rules")
LOGIN = ("auth.json",)
PREFIXES = ("OPENAI_", "AZURE_OPENAI_", "CODEX_API_", "CODEX_ACCESS_")


def launch_config(run: launch.HostRun) -> launch.HostLaunchConfig:
    source = run.own_folder(FOLDER, ".codex")
    settings = [
        word
        for name, value in codex_settings.launch_settings(run, SETUP)
        for word in ("-c", f"{name}={value}")
    ]
    prints_json = run.has("--json", "--experimental-json") or not set(SUBCOMMANDS) & set(run.words)
    own = launch.HostLaunchConfig(
        arguments=tuple(settings if prints_json else [*settings, "--json"]),
        after=SUBCOMMANDS,
        environment=launch.passed_variables(
            run, codex_settings.key_variables(os.path.join(source, CONFIG)), PREFIXES
        ),
    )
    if not run.is_confined:
        return own.merge(launch.passed_folder(run, FOLDER))
    readable = (*READABLE, *codex_settings.profiles(source))
    links = launch.link_host_folder(source, run.state, links=readable, logins=LOGIN)
    return own.merge(links).merge(launch.HostLaunchConfig(environment={FOLDER: run.state}))


ACTS = frozenset({"agent_message", "command_execution", "file_change", "mcp_tool_call", "web_search"})
"""The item types in Codex's output that count as one step of an agent."""


def prints_json(words: list[str]) -> bool:
    return not {*SUBCOMMANDS}.isdisjoint(words)


def read_output(lines: list[Payload]) -> ports.SessionResult:
    """Reads the session output: one line per item. Codex calls a whole session of items a turn."""
    items = [line.part("item") for line in lines if line.text("type") == "item.completed"]
    ends = [line.part("usage") for line in lines if line.text("type") == "turn.completed"]
    failed = [line.part("error").text("message") for line in lines if line.text("type") == "turn.failed"]
    errors = [line.text("message") for line in lines if line.text("type") == "error"]
    return ports.SessionResult(
        text=launch.last_text(item.text("text") for item in items if item.text("type") == "agent_message"),
        turns=sum(item.text("type") in ACTS for item in items),
        tokens=max(
            (launch.figure(one, "input_tokens") + launch.figure(one, "output_tokens") for one in ends),
            default=0,
        ),
        error=launch.error_text(launch.last_text(failed) or launch.last_text(errors) or "the turn failed")
        if failed or (not ends and errors)
        else "",
    )
