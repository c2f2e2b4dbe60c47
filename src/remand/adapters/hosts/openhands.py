"""OpenHands: hooks in `.openhands/hooks.json`."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.hook import SILENCE, HookAnswer, HookCall, HookToolUse, Rendered, Setup
from remand.adapters.hosts.payload import (
    Payload,
    answer_text,
    compose,
    exit_code_field,
    parse,
    stop_moment,
    tool_output,
    tool_use,
)

NAME = "openhands"
SETUP = Setup(
    NAME,
    path=".openhands/hooks.json",
    elsewhere=("~/.openhands/hooks.json",),
    events={
        hook.STOP: "Stop",
        hook.PRE_TOOL: "PreToolUse",
        hook.POST_TOOL: "PostToolUse",
        hook.SESSION_START: "SessionStart",
        hook.PROMPT: "UserPromptSubmit",
    },
    other_names={
        "Stop": "stop",
        "PreToolUse": "pre_tool_use",
        "PostToolUse": "post_tool_use",
        "SessionStart": "session_start",
        "UserPromptSubmit": "user_prompt_submit",
    },
    extras={"type": "command"},
    project="OPENHANDS_PROJECT_DIR",
)
EVENTS = hook.EventNames(SETUP.events)


def read(event: str, data: bytes) -> HookCall:
    """What OpenHands says."""
    given = parse(data)
    known = EVENTS.our_name(event)
    return HookCall(
        NAME,
        known,
        session=given.identifier("session_id"),
        moment=stop_moment(given, "message"),
        cwd=given.path("working_dir", "cwd"),
        is_continued=given.flag("stop_hook_active"),
        tool=_tool(known, given),
        last_message=given.text("message") if known == hook.STOP else "",
        is_broken=given.is_broken,
    )


def _tool(event: str, given: Payload) -> HookToolUse | None:
    answered = given.part("tool_response")
    output = tool_output(answered) or given.text("tool_output")
    return tool_use(
        given.text("tool_name"),
        given.part("tool_input"),
        exit_code=exit_code_field(answered) if event == hook.POST_TOOL else None,
        has_failed=answered.flag("is_error"),
        output=output,
    )


def render(event: str, answer: HookAnswer) -> Rendered:
    """The answer as OpenHands reads it."""
    fields = _fields(EVENTS.our_name(event), answer, answer_text(answer))
    return (compose(fields), "", 0) if fields else SILENCE


def _fields(event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if not text:
        return {}
    if event == hook.STOP or (answer.is_no and event in {hook.PRE_TOOL, hook.PROMPT}):
        return {"decision": "deny", "reason": text}
    return {"additionalContext": text} if event == hook.PROMPT else {}
