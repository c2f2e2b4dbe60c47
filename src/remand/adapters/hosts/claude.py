"""Claude Code: hooks in `.claude/settings.local.json`."""

from __future__ import annotations

import os

from remand.adapters.hosts import host, launch
from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, Payload
from remand.app.scheduler import ports

NAME = "claude"
WRITING = "Bash|Edit|Write|MultiEdit|NotebookEdit"
SETUP = host.Setup(
    NAME,
    programs=("claude",),
    server=host.McpEntry(
        ".mcp.json", {"type": "stdio"}, "Claude Code asks once whether .mcp.json may be used."
    ),
    path=".claude/settings.json",
    local=".claude/settings.local.json",
    elsewhere=("~/.claude/settings.json",),
    events=host.CLAUDE_NAMES,
    uninstalled_events={hook.TEAMMATE_IDLE: "TeammateIdle", hook.SESSION_END: "SessionEnd"},
    matchers={
        hook.PRE_TOOL: WRITING,
        # The tool names of a plugin's server include the plugin's name.
        hook.POST_TOOL: f"{WRITING}|{host.CLAIMING}|mcp__plugin_remand_remand__next_task",
        hook.POST_TOOL_FAILURE: WRITING,
    },
    extras={"type": "command"},
    project="CLAUDE_PROJECT_DIR",
    switch=("disableAllHooks",),
)
SPOKEN = frozenset({hook.TASK_COMPLETED, hook.TEAMMATE_IDLE})
"""The events whose refusal is read only from standard error, with exit code 2."""


def read(event: str, data: bytes) -> HookCall:
    """Reads Claude Code's format. Copilot and Cursor, which also run these hooks, use the same one."""
    return host.read_claude_call(SETUP, event, data, tells_failures=True)


def render(event: str, answer: HookAnswer) -> host.Rendered:
    known = SETUP.our_name(event)
    if known in SPOKEN:
        return ("", f"{host.answer_text(answer)}\n", 2) if answer.is_no else host.SILENCE
    return host.render_claude_answer(SETUP, event, answer) if known != hook.SESSION_END else host.SILENCE


FOLDER = "CLAUDE_CONFIG_DIR"
STREAM = ("--output-format", "stream-json", "--verbose")
READABLE = ("settings.json", "CLAUDE.md", "agents", "commands", "output-styles", "plugins", "rules", "skills")
LOGIN = (".credentials.json",)
STATE = ".claude.json"
WAIT = "MCP_CONNECT_TIMEOUT_MS"
WAIT_MILLISECONDS = "30000"
"""How long it waits for our MCP tools before it starts without them."""
VARIABLES = (
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
    "CLAUDE_CODE_EFFORT_LEVEL",
    "API_TIMEOUT_MS",
    "MAX_THINKING_TOKENS",
    "BASH_DEFAULT_TIMEOUT_MS",
    "BASH_MAX_TIMEOUT_MS",
)
PREFIXES = ("ANTHROPIC_", "CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_", "CLAUDE_CODE_DISABLE_", "DISABLE_")
CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "CLOUD_ML_", "VERTEX_", "GCLOUD_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}


def launch_config(run: launch.HostRun) -> launch.HostLaunchConfig:
    """The launch options of Claude Code. Options that take several values come before one that takes a single value."""
    clouds = [
        prefix for name, prefixes in CLOUDS.items() if run.surroundings.get(name) for prefix in prefixes
    ]
    tools = run.path("mcp.json")
    options = (
        "--mcp-config",
        tools,
        "--allowedTools",
        f"mcp__{host.SERVER_NAME}",
        "--plugin-dir",
        run.path("plugin"),
    )
    tells = run.has("--output-format") or not run.has("-p", "--print")
    own = launch.HostLaunchConfig(
        arguments=options if tells else (*options, *STREAM),
        environment={
            WAIT: WAIT_MILLISECONDS,
            **launch.passed_variables(run, (*VARIABLES, WAIT), (*PREFIXES, *clouds)),
        },
        files={
            **launch.plugin_files(run, SETUP, ".claude-plugin", "plugin.json"),
            tools: launch.dump_json(
                {"mcpServers": {host.SERVER_NAME: launch.mcp_server(run, SETUP, alwaysLoad=True)}}
            ),
        },
    )
    if not run.is_confined:
        return own.merge(launch.passed_folder(run, FOLDER))
    # Each run gets its own folder with a copy of the state file: the user's contains all projects and is written often.
    source = run.own_folder(FOLDER, ".claude")
    state = os.path.join(source if run.surroundings.get(FOLDER) else run.home, STATE)
    confined = launch.HostLaunchConfig(
        environment={FOLDER: run.state}, copies={os.path.join(run.state, STATE): state}
    )
    return own.merge(confined).merge(launch.link_host_folder(source, run.state, links=READABLE, logins=LOGIN))


def prints_json(words: list[str]) -> bool:
    return launch.has_option(words, "-p", "--print")


def read_output(lines: list[Payload]) -> ports.SessionResult:
    """Reads the session output: one line per message, and a result at the end."""
    return launch.read_claude(lines)
