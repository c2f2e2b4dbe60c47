"""Codex: hooks in `.codex/hooks.json`. It takes no answer with a key that it does not know."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.hook import HookAnswer, HookCall, Rendered, Setup
from remand.adapters.hosts.payload import CLAIMING, parse, read_claude_call, render_claude_answer

NAME = "codex"
WRITING = "Bash|apply_patch"
HINT = "Codex runs no hook before you have trusted it: start codex here, type /hooks and trust these."
SETUP = Setup(
    NAME,
    path=".codex/hooks.json",
    elsewhere=("~/.codex/hooks.json",),
    events={
        hook.STOP: "Stop",
        hook.SUBAGENT_STOP: "SubagentStop",
        hook.PRE_TOOL: "PreToolUse",
        hook.POST_TOOL: "PostToolUse",
        hook.SESSION_START: "SessionStart",
        hook.PROMPT: "UserPromptSubmit",
    },
    matchers={hook.PRE_TOOL: WRITING, hook.POST_TOOL: f"{WRITING}|{CLAIMING}"},
    extras={"type": "command"},
    hint=HINT,
)
EVENTS = hook.EventNames(SETUP.events)


def read(event: str, data: bytes) -> HookCall:
    """What Codex says. It tells of a failed command as of any other, and not how it failed."""
    return read_claude_call(NAME, EVENTS.our_name(event), parse(data), tells_failures=False)


def render(event: str, answer: HookAnswer) -> Rendered:
    """The answer as Codex reads it."""
    known = EVENTS.our_name(event)
    return render_claude_answer(EVENTS.host_name(known), known, answer)
