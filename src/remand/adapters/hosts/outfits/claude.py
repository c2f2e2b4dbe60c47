"""Claude Code: hooks in a plugin for one session, tools by `--mcp-config`, a stream of JSON for an output."""

from __future__ import annotations

import os

from remand.adapters.hosts.claude import SETUP
from remand.adapters.hosts.mcp_entries import NAME
from remand.adapters.hosts.outfit import Outfit, Run, dumped, lent, passed, plugin, server

FOLDER = "CLAUDE_CONFIG_DIR"
STREAM = ("--output-format", "stream-json", "--verbose")
READ = ("settings.json", "CLAUDE.md", "agents", "commands", "output-styles", "plugins", "rules", "skills")
LOGIN = (".credentials.json",)
STATE = ".claude.json"
WAIT = "MCP_CONNECT_TIMEOUT_MS"
MILLISECONDS = "30000"
"""How long it waits for our tools before it begins; it goes on without them if they do not come."""
VARIABLES = (
    *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_SUBAGENT_MODEL"),
    *(
        "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
        "CLAUDE_CODE_EFFORT_LEVEL",
        "API_TIMEOUT_MS",
        "MAX_THINKING_TOKENS",
    ),
    *("BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_TIMEOUT_MS"),
)
PREFIXES = ("ANTHROPIC_", "CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_", "CLAUDE_CODE_DISABLE_", "DISABLE_")
CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "CLOUD_ML_", "VERTEX_", "GCLOUD_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}


def outfit(run: Run) -> Outfit:
    """What Claude Code is started with. Options that take several values stand before one that takes one."""
    clouds = [
        prefix for name, prefixes in CLOUDS.items() if run.surroundings.get(name) for prefix in prefixes
    ]
    tools = run.path("mcp.json")
    options = ("--mcp-config", tools, "--allowedTools", f"mcp__{NAME}", "--plugin-dir", run.path("plugin"))
    tells = run.has("--output-format") or not run.has("-p", "--print")
    own = Outfit(
        arguments=options if tells else (*options, *STREAM),
        environment={WAIT: MILLISECONDS, **passed(run, (*VARIABLES, WAIT), (*PREFIXES, *clouds))},
        files={
            **plugin(run, SETUP, ".claude-plugin", "plugin.json"),
            tools: dumped({"mcpServers": {NAME: server(run, SETUP.host, alwaysLoad=True)}}),
        },
    )
    return own.joined(_confined(run) if run.is_confined else _free(run))


def _free(run: Run) -> Outfit:
    return Outfit(environment={FOLDER: run.surroundings[FOLDER]} if run.surroundings.get(FOLDER) else {})


def _confined(run: Run) -> Outfit:
    """A folder of its own. Its state it gets as a copy: the user's has all projects in it, and is written often."""
    source = run.own_folder(FOLDER, ".claude")
    state = os.path.join(source if run.surroundings.get(FOLDER) else run.home, STATE)
    own = Outfit(environment={FOLDER: run.state}, copies={os.path.join(run.state, STATE): state})
    return own.joined(lent(source, run.state, links=READ, logins=LOGIN))
