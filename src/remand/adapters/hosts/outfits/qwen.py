"""Qwen Code: hooks and tools in the file of defaults that every other settings file adds to."""

from __future__ import annotations

from remand.adapters.hosts.mcp_entries import NAME
from remand.adapters.hosts.outfit import Outfit, Run, dumped, hooks, lent, passed, server
from remand.adapters.hosts.qwen import SETUP
from remand.adapters.hosts.settings import load

FOLDER = "QWEN_HOME"
DEFAULTS = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
STREAM = ("--output-format", "stream-json")
READ = ("settings.json", "QWEN.md", ".env", "agents", "commands", "extensions", "skills")
LOGIN = ("oauth_creds.json", "mcp-oauth-tokens.json")
VARIABLES = ("QWEN_MODEL", "QWEN_CUSTOM_API_KEY", "QWEN_CODE_API_TIMEOUT_MS")
PREFIXES = (
    "OPENAI_",
    "DASHSCOPE_",
    "BAILIAN_",
    "ANTHROPIC_",
    "GEMINI_API_",
    "GOOGLE_",
    "OPENROUTER_",
    "MODELSCOPE_",
)


def outfit(run: Run) -> Outfit:
    """What Qwen Code is started with."""
    settings = run.path("settings.json")
    own = Outfit(
        arguments=() if run.has("-o", "--output-format") else STREAM,
        environment={**passed(run, VARIABLES, PREFIXES), DEFAULTS: settings},
        files={
            settings: dumped(
                {**load(hooks(SETUP, run)), "mcpServers": {NAME: server(run, SETUP.host, trust=True)}}
            )
        },
    )
    source = run.own_folder(FOLDER, ".qwen")
    if not run.is_confined:
        return own.joined(Outfit(environment={FOLDER: source} if run.surroundings.get(FOLDER) else {}))
    lending = lent(source, run.state, links=READ, logins=LOGIN)
    return own.joined(lending).joined(Outfit(environment={FOLDER: run.state}))
