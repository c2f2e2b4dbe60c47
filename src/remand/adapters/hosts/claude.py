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
        # A tool of a server that a plugin brings has the plugin's name in its own.
        hook.POST_TOOL: f"{WRITING}|{host.CLAIMING}|mcp__plugin_remand_remand__next_task",
        hook.POST_TOOL_FAILURE: WRITING,
    },
    extras={"type": "command"},
    project="CLAUDE_PROJECT_DIR",
    switch=("disableAllHooks",),
)
SPOKEN = frozenset({hook.TASK_COMPLETED, hook.TEAMMATE_IDLE})
"""The events whose no is heard on standard error only, with exit code 2."""


def read(event: str, data: bytes) -> HookCall:
    """What Claude Code says. Copilot and Cursor, which run these hooks too, say it in the same words."""
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
"""How long it waits for our tools before it begins; it goes on without them if they do not come."""
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
    """What Claude Code is started with. Options that take several values stand before one that takes one."""
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
    # A folder of its own. Its state it gets as a copy: the user's has all projects in it, and is written often.
    source = run.own_folder(FOLDER, ".claude")
    state = os.path.join(source if run.surroundings.get(FOLDER) else run.home, STATE)
    confined = launch.HostLaunchConfig(
        environment={FOLDER: run.state}, copies={os.path.join(run.state, STATE): state}
    )
    return own.merge(confined).merge(launch.link_host_folder(source, run.state, links=READABLE, logins=LOGIN))


def prints_json(words: list[str]) -> bool:
    return launch.has_option(words, "-p", "--print")


def read_output(lines: list[Payload]) -> ports.SessionResult:
    """A line for each message, and a result at the end."""
    return launch.read_claude(lines)
