"""Qwen Code: hooks in `.qwen/settings.json`, in the words of Claude Code."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.dialect import rendered, told
from remand.adapters.hosts.hook import Answer, Call, Rendered
from remand.adapters.hosts.payload import parse
from remand.adapters.hosts.setup import Setup
from remand.adapters.hosts.tools import CLAIMING, worded_code

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
EVENTS = hook.Names(SETUP.events)


def read(event: str, data: bytes) -> Call:
    """What Qwen Code says. It tells the exit code of a command in words, whether the command failed or not."""
    call = told(NAME, EVENTS.known(event), parse(data), tells_failures=False)
    if call.tool and call.event in (hook.POST_TOOL, hook.POST_TOOL_FAILURE) and call.tool.command:
        call.tool.exit_code = worded_code(call.tool.output, "Exit Code: ")
        call.tool.has_failed = call.event == hook.POST_TOOL_FAILURE or bool(call.tool.exit_code)
    return call


def render(event: str, answer: Answer) -> Rendered:
    """The answer as Qwen Code reads it."""
    known = EVENTS.known(event)
    return rendered(EVENTS.own(known), known, answer)
