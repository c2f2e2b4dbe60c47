"""Checks of installed hooks: calls one as its host would, and reads whether Codex trusts it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tempfile
import tomllib
from contextlib import suppress

from remand.adapters.hosts.hook import Setup
from remand.adapters.hosts.settings import HookEntry

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


def find_distrust(config: str, path: str, entries: list[HookEntry]) -> str:
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


def _problem(state: dict[str, object], entry: HookEntry) -> str:
    if state.get("enabled") is False:
        return "is switched off in Codex"
    trusted = state.get("trusted_hash")
    if not trusted:
        return "is not trusted in Codex"
    return "" if trusted == hook_identity(entry) else "has changed since it was trusted in Codex"


def trust_key(path: str, entry: HookEntry) -> str:
    """The name under which Codex remembers what the user said about a hook."""
    return f"{path}:{LABELS.get(entry.event, '')}:{entry.place}"


def hook_identity(entry: HookEntry) -> str:
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


PROBE = "REMAND_HOOK_PROBE"
"""Set, it makes our hook answer with a block of its own and touch nothing."""
PROBE_TEXT = "remand hook probe"
PAYLOAD = (
    '{"hook_event_name": "Stop", "event_type": "Stop", "status": "completed", "stop_hook_active": false,'
    ' "session_id": "remand-probe", "sessionId": "remand-probe", "conversation_id": "remand-probe"}'
)
"""A stop in the words of every host."""
SECONDS = 30.0
MAX_OUTPUT = 64 * 1024


class HookCallResult:
    """How a called hook has answered."""

    __slots__ = ("code", "errors", "output")

    def __init__(self, code: int | None, output: str, errors: str) -> None:
        self.code = code
        """The exit code; None when the hook did not end in time."""
        self.output = output
        self.errors = errors


def call_hook(setup: Setup, command: str, folder: str, seconds: float = SECONDS) -> HookCallResult:
    """Calls a hook with a stop that is none."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REMAND_")}
    environment[PROBE] = "1"
    if setup.project:
        environment[setup.project] = folder
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        code = _wait_for_exit(process, seconds)
        return HookCallResult(code, _start_of(output.fileno()), _start_of(errors.fileno()))


def _wait_for_exit(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a hook that has been given its payload; whatever it left running is ended."""
    with process:
        try:
            process.communicate(PAYLOAD.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode


def _start_of(file: int) -> str:
    return os.pread(file, MAX_OUTPUT, 0).decode("utf-8", "replace")


def codex_config() -> str:
    """What Codex's own settings say; empty when there are none."""
    home = os.environ.get("CODEX_HOME", "") or os.path.join(os.path.expanduser("~"), ".codex")
    try:
        with open(os.path.join(home, "config.toml"), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
