"""Qwen Code: hooks in `.qwen/settings.json`, in the words of Claude Code."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.hook import HookAnswer, HookCall, Rendered, Setup
from remand.adapters.hosts.payload import (
    CLAIMING,
    exit_code_in_text,
    parse,
    read_claude_call,
    render_claude_answer,
)

NAME = "qwen"
WRITING = "run_shell_command|write_file|edit|Bash|Write|Edit"
SETUP = Setup(
    NAME,
    path=".qwen/settings.json",
    elsewhere=("~/.qwen/settings.json",),
    events={
        hook.STOP: "Stop",
        hook.SUBAGENT_STOP: "SubagentStop",
        hook.PRE_TOOL: "PreToolUse",
        hook.POST_TOOL: "PostToolUse",
        hook.POST_TOOL_FAILURE: "PostToolUseFailure",
        hook.SESSION_START: "SessionStart",
        hook.PROMPT: "UserPromptSubmit",
    },
    matchers={
        hook.PRE_TOOL: WRITING,
        hook.POST_TOOL: f"{WRITING}|{CLAIMING}",
        hook.POST_TOOL_FAILURE: WRITING,
    },
    # Older versions take the figure for milliseconds, newer ones do so from a thousand on.
    timeout_factor=1000,
    extras={"type": "command"},
    project="QWEN_PROJECT_DIR",
    switch=("disableAllHooks",),
    host_keys=("$version",),
    hint="Qwen Code reads its hooks when it starts, and again on /hooks.",
)
EVENTS = hook.EventNames(SETUP.events)


def read(event: str, data: bytes) -> HookCall:
    """What Qwen Code says. It tells the exit code of a command in words, whether the command failed or not."""
    call = read_claude_call(NAME, EVENTS.our_name(event), parse(data), tells_failures=False)
    if call.tool and call.event in (hook.POST_TOOL, hook.POST_TOOL_FAILURE) and call.tool.command:
        call.tool.exit_code = exit_code_in_text(call.tool.output, "Exit Code: ")
        call.tool.has_failed = call.event == hook.POST_TOOL_FAILURE or bool(call.tool.exit_code)
    return call


def render(event: str, answer: HookAnswer) -> Rendered:
    """The answer as Qwen Code reads it."""
    known = EVENTS.our_name(event)
    return render_claude_answer(EVENTS.host_name(known), known, answer)
