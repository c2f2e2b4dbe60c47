"""Codex: hooks in `.codex/hooks.json`. It takes no answer with a key that it does not know."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.dialect import rendered, told
from remand.adapters.hosts.hook import Answer, Call, Rendered
from remand.adapters.hosts.payload import parse
from remand.adapters.hosts.setup import Setup
from remand.adapters.hosts.tools import CLAIMING

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
EVENTS = hook.Names(SETUP.events)


def read(event: str, data: bytes) -> Call:
    """What Codex says. It tells of a failed command as of any other, and not how it failed."""
    return told(NAME, EVENTS.known(event), parse(data), tells_failures=False)


def render(event: str, answer: Answer) -> Rendered:
    """The answer as Codex reads it."""
    known = EVENTS.known(event)
    return rendered(EVENTS.own(known), known, answer)
