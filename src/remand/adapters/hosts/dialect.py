"""The words of Claude Code's hooks, which several hosts have taken over."""

from __future__ import annotations

from remand.adapters.hosts import hook
from remand.adapters.hosts.hook import SILENCE, Answer, Call, Rendered, ToolUse
from remand.adapters.hosts.payload import Payload, compose, shortened, wording
from remand.adapters.hosts.tools import printed, told_code, tool_use, worded_code

FINISHED = frozenset({"completed", "failed", "killed", "cancelled", "stopped"})
ENOUGH = 300
WITH_CONTEXT = frozenset(
    {hook.PRE_TOOL, hook.POST_TOOL, hook.POST_TOOL_FAILURE, hook.SESSION_START, hook.PROMPT}
)
"""The events whose text can be put before the agent without keeping anything from happening."""


def told(host: str, event: str, given: Payload, *, tells_failures: bool) -> Call:
    """A call in these words. Hosts that tell failures apart mean success when they tell of none."""
    return Call(
        host,
        event,
        session=given.identifier("session_id"),
        turn=given.identifier("prompt_id", "turn_id"),
        moment=moment(given),
        cwd=given.path("cwd"),
        subagent=given.identifier("agent_id"),
        is_continued=given.flag("stop_hook_active"),
        has_background_work=_has_background_work(given),
        tool=_tool(event, given, tells_failures=tells_failures),
        last_message=given.text("last_assistant_message"),
        subject=given.text("task_subject"),
        transcript=given.path("agent_transcript_path", "transcript_path"),
        config_source=given.text("source") if event == hook.CONFIG_CHANGE else "",
        config_file=given.path("file_path"),
        is_broken=given.is_broken,
    )


def moment(given: Payload, *names: str) -> str:
    """Tells the stops of one turn apart: by the host's time, or else by what the agent said last."""
    milliseconds = given.number("timestamp")
    if milliseconds is not None:
        return str(int(milliseconds) % 86_400_000)
    stamp = given.text("timestamp")
    if len(stamp) >= 19 and stamp[10] == "T":
        digits = [stamp[11:13], stamp[14:16], stamp[17:19], stamp[20:23].rstrip("Z+-").ljust(3, "0")]
        if all(part.isascii() and part.isdigit() for part in digits):
            hours, minutes, seconds, rest = map(int, digits)
            return str(((hours * 60 + minutes) * 60 + seconds) * 1000 + rest)
    said = given.text("last_assistant_message", *names)
    return f"{len(said)} {said[-ENOUGH:]}"


def _has_background_work(given: Payload) -> bool:
    running = [task for task in given.parts("background_tasks") if task.text("status") not in FINISHED]
    return bool(running or given.parts("session_crons"))


def _tool(event: str, given: Payload, *, tells_failures: bool) -> ToolUse | None:
    answered = given.part("tool_response", "tool_result")
    return tool_use(
        given.text("tool_name"),
        given.part("tool_input"),
        use_id=given.identifier("tool_use_id"),
        exit_code=_exit_code(event, given, answered, tells_failures=tells_failures),
        has_failed=event == hook.POST_TOOL_FAILURE,
        output=given.text("error") or given.text("tool_response") or printed(answered) or _listed(given),
        milliseconds=given.number("duration_ms"),
    )


def _listed(given: Payload) -> str:
    """What a tool of an MCP server has answered, part by part."""
    return "\n".join(part.text("text") for part in given.parts("tool_response", "tool_result"))


def _exit_code(event: str, given: Payload, answered: Payload, *, tells_failures: bool) -> int | None:
    if event == hook.POST_TOOL_FAILURE:
        return worded_code(given.text("error").partition("\n")[0], "Exit code ")
    if event != hook.POST_TOOL:
        return None
    code = told_code(answered)
    return 0 if code is None and tells_failures and _has_ended_well(answered) else code


def _has_ended_well(answered: Payload) -> bool:
    """Whether a command has ended, and not with a code that has a meaning of its own (grep finds nothing)."""
    return not (
        answered.flag("interrupted")
        or answered.has("backgroundTaskId")
        or answered.has("returnCodeInterpretation")
    )


def rendered(own_name: str, event: str, answer: Answer) -> Rendered:
    """An answer in these words: JSON, exit code 0. An event without a name of the host's is not answered."""
    text = wording(answer)
    fields = _fields(own_name, event, answer, text) if own_name and text else {}
    if answer.notice and own_name:
        fields["systemMessage"] = shortened(answer.notice)
    return (compose(fields), "", 0) if fields else SILENCE


def _fields(own_name: str, event: str, answer: Answer, text: str) -> dict[str, object]:
    if event == hook.PRE_TOOL and answer.is_no:
        return specific(own_name, permissionDecision="deny", permissionDecisionReason=text)
    if event in hook.ENDINGS or (answer.is_no and event != hook.SESSION_START):
        return {"decision": "block", "reason": text}
    return specific(own_name, additionalContext=text) if event in WITH_CONTEXT else {}


def specific(own_name: str, **fields: str) -> dict[str, object]:
    """What is said about one event only."""
    return {"hookSpecificOutput": {"hookEventName": own_name, **fields}}
