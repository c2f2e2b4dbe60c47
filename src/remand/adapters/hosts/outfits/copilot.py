"""GitHub Copilot in the terminal: hooks in a plugin for one session, tools by `--additional-mcp-config`."""

from __future__ import annotations

from remand.adapters.hosts.copilot import SETUP
from remand.adapters.hosts.mcp_entries import NAME
from remand.adapters.hosts.outfit import Outfit, Run, dumped, lent, passed, plugin, server

FOLDER = "COPILOT_HOME"
STREAM = ("--output-format", "json")
READ = (
    "mcp-config.json",
    "settings.json",
    "copilot-instructions.md",
    "agents",
    "skills",
    "installed-plugins",
)
STATE = "config.json"
VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST")
PREFIX = "COPILOT_"


def outfit(run: Run) -> Outfit:
    """What Copilot is started with."""
    source, tools = run.own_folder(FOLDER, ".copilot"), run.path("mcp.json")
    options = (
        *("--additional-mcp-config", f"@{tools}", f"--allow-tool={NAME}"),
        *("--plugin-dir", run.path("plugin")),
    )
    own = Outfit(
        arguments=options if run.has("--output-format") else (*options, *STREAM),
        environment=passed(run, VARIABLES, (PREFIX,)),
        files={
            **plugin(run, SETUP, "plugin.json"),
            tools: dumped({"mcpServers": {NAME: server(run, SETUP.host)}}),
        },
    )
    if not run.is_confined:
        return own
    state = Outfit(environment={FOLDER: run.state}, copies={f"{run.state}/{STATE}": f"{source}/{STATE}"})
    return own.joined(lent(source, run.state, links=READ)).joined(state)
