"""Claude Code: hooks in `.claude/settings.local.json`."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.dialect import rendered, told
from remand.adapters.hosts.hook import SILENCE, Answer, Call, Rendered
from remand.adapters.hosts.payload import parse, wording
from remand.adapters.hosts.setup import Setup
from remand.adapters.hosts.tools import CLAIMING

NAME = "claude"
WRITING = "Bash|Edit|Write|MultiEdit|NotebookEdit"
SETUP = Setup(
    NAME,
    path=".claude/settings.json",
    local=".claude/settings.local.json",
    elsewhere=("~/.claude/settings.json",),
    events={
        hook.STOP: "Stop",
        hook.SUBAGENT_STOP: "SubagentStop",
        hook.TASK_COMPLETED: "TaskCompleted",
        hook.PRE_TOOL: "PreToolUse",
        hook.POST_TOOL: "PostToolUse",
        hook.POST_TOOL_FAILURE: "PostToolUseFailure",
        hook.SESSION_START: "SessionStart",
        hook.PROMPT: "UserPromptSubmit",
        hook.CONFIG_CHANGE: "ConfigChange",
    },
    matchers={
        hook.PRE_TOOL: WRITING,
        hook.POST_TOOL: f"{WRITING}|{CLAIMING}",
        hook.POST_TOOL_FAILURE: WRITING,
    },
    extras={"type": "command"},
    project="CLAUDE_PROJECT_DIR",
    switch=("disableAllHooks",),
)
EVENTS = hook.Names({**SETUP.events, hook.TEAMMATE_IDLE: "TeammateIdle", hook.SESSION_END: "SessionEnd"})
SPOKEN = frozenset({hook.TASK_COMPLETED, hook.TEAMMATE_IDLE})
"""The events whose no is heard on standard error only, with exit code 2."""


def read(event: str, data: bytes) -> Call:
    """What Claude Code says. Copilot and Cursor, which run these hooks too, say it in the same words."""
    return told(NAME, EVENTS.known(event), parse(data), tells_failures=True)


def render(event: str, answer: Answer) -> Rendered:
    """The answer as Claude Code reads it."""
    known = EVENTS.known(event)
    if known in SPOKEN:
        return ("", f"{wording(answer)}\n", 2) if answer.is_no else SILENCE
    return rendered(EVENTS.own(known), known, answer) if known != hook.SESSION_END else SILENCE
