"""Codex: hooks and tools by `--config`, trusted for this one run, in a stream of JSON.

Codex leaves out every hook that nobody has trusted. What is given on the command line is a layer of its settings with a
name, so our hooks are trusted there by their hash, and no others are.
"""

from __future__ import annotations

import glob
import json
import os
import tomllib

from remand.adapters.hosts.codex import SETUP
from remand.adapters.hosts.codex_trust import identity, trust_key
from remand.adapters.hosts.mcp_entries import NAME
from remand.adapters.hosts.outfit import Outfit, Run, hooks, lent, passed, server
from remand.adapters.hosts.settings import SECTION, find, load

FOLDER = "CODEX_HOME"
LAYER = "/<session-flags>/config.toml"
"""By what name Codex remembers the hooks of its command line."""
STARTUP_SECONDS = 60
SUBCOMMANDS = ("exec", "e")
CONFIG = "config.toml"
READ = (CONFIG, "AGENTS.md", "AGENTS.override.md", "prompts", "rules")
PROFILES = "*.config.toml"
LOGIN = ("auth.json",)
PREFIXES = ("OPENAI_", "AZURE_OPENAI_", "CODEX_API_", "CODEX_ACCESS_")
MAX_CONFIG = 1 << 20


def outfit(run: Run) -> Outfit:
    """What Codex is started with."""
    source = run.own_folder(FOLDER, ".codex")
    settings = [word for name, value in _settings(run) for word in ("-c", f"{name}={value}")]
    is_told = run.has("--json", "--experimental-json") or not set(SUBCOMMANDS) & set(run.words)
    own = Outfit(
        arguments=tuple(settings if is_told else [*settings, "--json"]),
        after=SUBCOMMANDS,
        environment=passed(run, _keys(os.path.join(source, CONFIG)), PREFIXES),
    )
    if not run.is_confined:
        return own.joined(Outfit(environment={FOLDER: source} if run.surroundings.get(FOLDER) else {}))
    profiles = map(os.path.basename, glob.glob(os.path.join(glob.escape(source), PROFILES)))
    lending = lent(source, run.state, links=(*READ, *profiles), logins=LOGIN)
    return own.joined(lending).joined(Outfit(environment={FOLDER: run.state}))


def _settings(run: Run) -> list[tuple[str, str]]:
    """Our hooks, the trust in them, and our tools, as Codex takes settings on its command line."""
    text = hooks(SETUP, run)
    table = load(text)[SECTION]
    events = table.items() if isinstance(table, dict) else ()
    trusted = {trust_key(LAYER, entry): {"trusted_hash": identity(entry)} for entry in find(SETUP, text)}
    tools = server(
        run, SETUP.host, startup_timeout_sec=STARTUP_SECONDS, default_tools_approval_mode="approve"
    )
    return [
        *((f"{SECTION}.{event}", toml(groups)) for event, groups in events),
        (f"{SECTION}.state", toml(trusted)),
        (f"mcp_servers.{NAME}", toml(tools)),
        # A login shell resets PATH. In the sandbox our program is found all the same, and the user's choice stands.
        *(() if run.is_confined else (("allow_login_shell", "false"),)),
    ]


def toml(value: object) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(key))} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _keys(path: str) -> list[str]:
    """The variables in which the user's settings say that keys are."""
    try:
        with open(path, "rb") as file:
            settings = tomllib.loads(file.read(MAX_CONFIG).decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return []
    providers = settings.get("model_providers")
    rows = providers.values() if isinstance(providers, dict) else ()
    keys = [row.get("env_key") for row in rows if isinstance(row, dict)]
    return [key for key in keys if isinstance(key, str)]
