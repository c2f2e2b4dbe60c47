"""Gemini CLI: an extension with our hooks and tools, in a home folder of the run's own.

It takes no settings file by name from anybody but root, so its home is put in the run's folder, with links to the
user's own.
"""

from __future__ import annotations

import os

from remand.adapters.hosts.gemini import SETUP
from remand.adapters.hosts.mcp_entries import NAME
from remand.adapters.hosts.outfit import Outfit, Run, dumped, hooks, lent, passed, server

FOLDER = "GEMINI_CLI_HOME"
TRUST = "GEMINI_CLI_TRUST_WORKSPACE"
"""Without it no hook is run, and a session without a person at the keyboard does not begin."""
STREAM = ("--output-format", "stream-json")
READ = ("settings.json", "GEMINI.md", ".env", "installation_id", "agents", "commands", "policies", "skills")
LOGIN = ("oauth_creds.json", "google_accounts.json", "gemini-credentials.json", "mcp-oauth-tokens.json")
EXTENSIONS = "extensions"
PREFIXES = ("GEMINI_API_", "GEMINI_MODEL", "GEMINI_DEFAULT_", "GOOGLE_", "CLOUD_SHELL", "CLOUDSDK_")


def outfit(run: Run) -> Outfit:
    """What Gemini CLI is started with."""
    own, source = os.path.join(run.state, ".gemini"), os.path.join(run.own_folder(FOLDER), ".gemini")
    extension = os.path.join(own, EXTENSIONS, NAME)
    manifest = {"name": NAME, "version": "1.0.0", "mcpServers": {NAME: server(run, SETUP.host, trust=True)}}
    others = [f"{EXTENSIONS}/{name}" for name in _names(os.path.join(source, EXTENSIONS)) if name != NAME]
    return Outfit(
        arguments=() if run.has("-o", "--output-format") else STREAM,
        environment={**passed(run, (), PREFIXES), FOLDER: run.state, TRUST: "true"},
        files={
            os.path.join(extension, "gemini-extension.json"): dumped(manifest),
            os.path.join(extension, "hooks", "hooks.json"): hooks(SETUP, run),
        },
    ).joined(lent(source, own, links=(*READ, *others), logins=LOGIN))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
