"""Gemini CLI: hooks in `.gemini/settings.json`. Anything on standard output that is no JSON lets the agent go."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.hook import SILENCE, HookAnswer, HookCall, Rendered, Setup
from remand.adapters.hosts.payload import (
    answer_text,
    compose,
    exit_code_in_text,
    parse,
    shorten_text,
    stop_moment,
    tool_output,
    tool_use,
)

NAME = "gemini"
WRITING = "run_shell_command|write_file|replace"
SETUP = Setup(
    NAME,
    path=".gemini/settings.json",
    elsewhere=("~/.gemini/settings.json",),
    events={
        hook.STOP: "AfterAgent",
        hook.PRE_TOOL: "BeforeTool",
        hook.POST_TOOL: "AfterTool",
        hook.SESSION_START: "SessionStart",
        hook.PROMPT: "BeforeAgent",
    },
    matchers={hook.PRE_TOOL: WRITING, hook.POST_TOOL: f"{WRITING}|mcp_remand_next_task"},
    timeout_factor=1000,
    extras={"type": "command"},
    project="GEMINI_PROJECT_DIR",
    switch=("hooksConfig", "enabled"),
    is_on_switch=True,
    hint="Gemini CLI runs a project's hooks in a trusted folder only.",
)
EVENTS = hook.EventNames(SETUP.events)


def read(event: str, data: bytes) -> HookCall:
    """What Gemini CLI says."""
    given = parse(data)
    known = EVENTS.our_name(event)
    answered = given.part("tool_response")
    output = tool_output(answered)
    return HookCall(
        NAME,
        known,
        session=given.identifier("session_id"),
        moment=stop_moment(given, "prompt_response"),
        cwd=given.path("cwd"),
        is_continued=given.flag("stop_hook_active"),
        tool=tool_use(
            given.text("tool_name"),
            given.part("tool_input"),
            exit_code=gemini_exit_code(output) if known == hook.POST_TOOL else None,
            has_failed=answered.has("error"),
            output=output,
        ),
        last_message=given.text("prompt_response"),
        transcript=given.path("transcript_path"),
        is_broken=given.is_broken,
    )


def gemini_exit_code(output: str) -> int | None:
    """The exit code of a command, which is told only when it is not 0."""
    code = exit_code_in_text(output, "Exit Code: ")
    has_ended = output.startswith("Output: ") and "\nSignal: " not in output
    return 0 if code is None and has_ended else code


def render(event: str, answer: HookAnswer) -> Rendered:
    """The answer as Gemini CLI reads it."""
    known = EVENTS.our_name(event)
    fields = _fields(known, answer, answer_text(answer)) if known in SETUP.events else {}
    if answer.notice and known in SETUP.events:
        fields["systemMessage"] = shorten_text(answer.notice)
    return (compose(fields), "", 0) if fields else SILENCE


def _fields(event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if not text:
        return {}
    if event == hook.STOP or (answer.is_no and event != hook.SESSION_START):
        return {"decision": "deny", "reason": text}
    if event == hook.PRE_TOOL:
        return {}
    return {"hookSpecificOutput": {"hookEventName": EVENTS.host_name(event), "additionalContext": text}}
