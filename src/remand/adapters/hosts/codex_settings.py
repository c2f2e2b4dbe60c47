"""Codex's own settings: which hooks the user trusts, which variables contain keys, and options for its command line."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import tomllib

from remand.adapters.hosts.host import SERVER_NAME, Setup, snake_case
from remand.adapters.hosts.launch import HostRun, hook_settings, mcp_server
from remand.adapters.hosts.settings import SECTION, HookEntry, find_hooks, load_settings
from remand.adapters.system.files import read_start
from remand.domain.text.toml import toml_value

DEFAULT_TIMEOUT = 600
WITHOUT_MATCHER = frozenset({"Stop", "UserPromptSubmit"})


def find_distrust(config: str, path: str, entries: list[HookEntry]) -> str:
    """Why Codex would skip one of our entries in a file; empty if it runs them all."""
    try:
        settings = tomllib.loads(config)
    except tomllib.TOMLDecodeError as error:
        return f"Codex's config.toml is not TOML ({error})"
    hooks = settings.get("hooks")
    states = hooks.get("state") if isinstance(hooks, dict) else None
    for entry in entries:
        state = states.get(trust_key(path, entry)) if isinstance(states, dict) else None
        problem = _problem(state if isinstance(state, dict) else {}, entry)
        if problem:
            return f"the hook for {entry.event} {problem}"
    return ""


def _problem(state: dict[str, object], entry: HookEntry) -> str:
    if state.get("enabled") is False:
        return "is switched off in Codex"
    trusted = state.get("trusted_hash")
    if not trusted:
        return "is not trusted in Codex"
    return "" if trusted == hook_identity(entry) else "has changed since it was trusted in Codex"


def trust_key(path: str, entry: HookEntry) -> str:
    """The key under which Codex stores the user's decision about a hook."""
    return f"{path}:{snake_case(entry.event)}:{entry.place}"


def hook_identity(entry: HookEntry) -> str:
    """The hash that Codex trusts: of the hook's event, matcher, command and timeout."""
    handler = {
        "type": "command",
        "command": entry.command,
        "timeout": entry.timeout if isinstance(entry.timeout, int) else DEFAULT_TIMEOUT,
        "async": False,
    }
    known: dict[str, object] = {"event_name": snake_case(entry.event), "hooks": [handler]}
    if isinstance(entry.matcher, str) and entry.event not in WITHOUT_MATCHER:
        known["matcher"] = entry.matcher
    canonical = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def codex_config() -> str:
    """The user's Codex settings; empty if there are none."""
    home = os.environ.get("CODEX_HOME", "") or os.path.join(os.path.expanduser("~"), ".codex")
    return read_start(os.path.join(home, "config.toml")).decode("utf-8", "replace")


MAX_CONFIG = 1 << 20
STARTUP_SECONDS = 60
LAYER = "/<session-flags>/config.toml"
"""The name under which Codex remembers the hooks from its command line."""


def launch_settings(run: HostRun, setup: Setup) -> list[tuple[str, str]]:
    """Our hooks, their trust entries and our tools, as settings on Codex's command line."""
    text = hook_settings(setup, run)
    table = load_settings(text)[SECTION]
    events = table.items() if isinstance(table, dict) else ()
    trusted = {
        trust_key(LAYER, entry): {"trusted_hash": hook_identity(entry)} for entry in find_hooks(setup, text)
    }
    tools = mcp_server(run, setup, startup_timeout_sec=STARTUP_SECONDS, default_tools_approval_mode="approve")
    return [
        *((f"{SECTION}.{event}", toml_value(groups)) for event, groups in events),
        (f"{SECTION}.state", toml_value(trusted)),
        (f"mcp_servers.{SERVER_NAME}", toml_value(tools)),
        # A login shell resets PATH. In the sandbox our program is found anyway, and the user's setting takes precedence.
        *(() if run.is_confined else (("allow_login_shell", "false"),)),
    ]


def key_variables(path: str) -> list[str]:
    """The variables that, according to the user's settings, contain keys."""
    try:
        settings = tomllib.loads(read_start(path, MAX_CONFIG).decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return []
    providers = settings.get("model_providers")
    rows = providers.values() if isinstance(providers, dict) else ()
    keys = [row.get("env_key") for row in rows if isinstance(row, dict)]
    return [key for key in keys if isinstance(key, str)]


def profiles(folder: str) -> list[str]:
    """The files of the user's profiles in Codex's folder."""
    return [os.path.basename(path) for path in glob.glob(os.path.join(glob.escape(folder), "*.config.toml"))]
