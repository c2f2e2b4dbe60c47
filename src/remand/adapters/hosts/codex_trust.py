"""Which hooks the user has trusted in Codex: it leaves out all others, and does not say so."""

from __future__ import annotations

import hashlib
import json
import tomllib

from remand.adapters.hosts.settings import Installed

DEFAULT_TIMEOUT = 600
LABELS = {
    "Stop": "stop",
    "SubagentStop": "subagent_stop",
    "PreToolUse": "pre_tool_use",
    "PostToolUse": "post_tool_use",
    "SessionStart": "session_start",
    "UserPromptSubmit": "user_prompt_submit",
}
WITHOUT_MATCHER = frozenset({"Stop", "UserPromptSubmit"})


def distrust(config: str, path: str, entries: list[Installed]) -> str:
    """Why Codex would leave out one of our entries in a file; empty when it runs them all."""
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


def _problem(state: dict[str, object], entry: Installed) -> str:
    if state.get("enabled") is False:
        return "is switched off in Codex"
    trusted = state.get("trusted_hash")
    if not trusted:
        return "is not trusted in Codex"
    return "" if trusted == identity(entry) else "has changed since it was trusted in Codex"


def trust_key(path: str, entry: Installed) -> str:
    """The name under which Codex remembers what the user said about a hook."""
    return f"{path}:{LABELS.get(entry.event, '')}:{entry.place}"


def identity(entry: Installed) -> str:
    """The hash that Codex trusts: of the hook's event, matcher, command and timeout."""
    handler = {
        "type": "command",
        "command": entry.command,
        "timeout": entry.timeout if isinstance(entry.timeout, int) else DEFAULT_TIMEOUT,
        "async": False,
    }
    known: dict[str, object] = {"event_name": LABELS.get(entry.event, ""), "hooks": [handler]}
    if isinstance(entry.matcher, str) and entry.event not in WITHOUT_MATCHER:
        known["matcher"] = entry.matcher
    canonical = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
