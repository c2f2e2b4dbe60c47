"""Claude Code: hooks in `.claude/settings.local.json`."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.hook import SILENCE, HookAnswer, HookCall, Rendered, Setup
from remand.adapters.hosts.payload import CLAIMING, answer_text, parse, read_claude_call, render_claude_answer

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
EVENTS = hook.EventNames({**SETUP.events, hook.TEAMMATE_IDLE: "TeammateIdle", hook.SESSION_END: "SessionEnd"})
SPOKEN = frozenset({hook.TASK_COMPLETED, hook.TEAMMATE_IDLE})
"""The events whose no is heard on standard error only, with exit code 2."""


def read(event: str, data: bytes) -> HookCall:
    """What Claude Code says. Copilot and Cursor, which run these hooks too, say it in the same words."""
    return read_claude_call(NAME, EVENTS.our_name(event), parse(data), tells_failures=True)


def render(event: str, answer: HookAnswer) -> Rendered:
    """The answer as Claude Code reads it."""
    known = EVENTS.our_name(event)
    if known in SPOKEN:
        return ("", f"{answer_text(answer)}\n", 2) if answer.is_no else SILENCE
    return (
        render_claude_answer(EVENTS.host_name(known), known, answer) if known != hook.SESSION_END else SILENCE
    )
