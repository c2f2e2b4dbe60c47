"""Every host's adapter: what the host says is understood, and what we answer is heard."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from remand.adapters.hosts.host import Rendered
from remand.app import hook_calls as hook
from remand.app.hook_calls import MAX_PAYLOAD, HookAnswer, HookCall, compose
from remand.domain.hosts import HOSTS
from remand.wiring.startup import load_host
from tests.data_sets import data_sets

REASON = "REJECTED: Quality gates failed\n- Tests: 73 failures (requires 100% pass)\nContinue working."
DAY = 86_400_000
SESSION = "0b5f2a1c-7c9e-4a5d-8f57-3f2f7b8d2f10"
STOPS: dict[str, dict[str, Any]] = {
    "claude": {
        "session_id": SESSION,
        "transcript_path": "/home/a/.claude/projects/-work/0b5f.jsonl",
        "cwd": "/work",
        "prompt_id": "475fa354-3849-48c6-b67c-152628a93ce0",
        "permission_mode": "default",
        "effort": {"level": "high"},
        "hook_event_name": "Stop",
        "stop_hook_active": True,
        "last_assistant_message": "Done.",
        "background_tasks": [],
        "session_crons": [],
    },
    "codex": {
        "session_id": SESSION,
        "turn_id": "01a1e0d7-4504-7083-af58-b7d17cd4bb64",
        "transcript_path": None,
        "cwd": "/work",
        "hook_event_name": "Stop",
        "model": "a-model",
        "permission_mode": "bypassPermissions",
        "stop_hook_active": True,
        "last_assistant_message": "Done.",
    },
    "copilot": {
        "sessionId": SESSION,
        "timestamp": 1_794_000_000_123,
        "cwd": "/work",
        "transcriptPath": "/home/a/.copilot/0b5f.jsonl",
        "stopReason": "end_turn",
        "stop_hook_active": True,
    },
    "cursor": {
        "conversation_id": SESSION,
        "generation_id": "gen-456",
        "hook_event_name": "stop",
        "workspace_roots": ["/work"],
        "status": "completed",
        "loop_count": 1,
    },
    "gemini": {
        "session_id": SESSION,
        "transcript_path": "",
        "cwd": "/work",
        "hook_event_name": "AfterAgent",
        "timestamp": "2026-11-15T20:12:46.866Z",
        "prompt": "Do it",
        "prompt_response": "Done.",
        "stop_hook_active": True,
    },
    "qwen": {
        "session_id": SESSION,
        "cwd": "/work",
        "hook_event_name": "Stop",
        "timestamp": "2026-11-15T20:12:46.866Z",
        "stop_hook_active": True,
        "last_assistant_message": "Done.",
    },
    "openhands": {
        "event_type": "Stop",
        "session_id": SESSION,
        "working_dir": "/work",
        "metadata": {},
        "stop_hook_active": True,
    },
}


class Heard(NamedTuple):
    """What a host makes of an answer."""

    may_happen: bool
    agent_reads: str


def module(name: str) -> Any:
    found = load_host(name)
    assert found is not None
    return found


def read(name: str, event: str, payload: object) -> HookCall:
    call: HookCall = module(name).read(event, json.dumps(payload).encode())
    return call


def render(name: str, event: str, answer: HookAnswer) -> Rendered:
    rendered: Rendered = module(name).render(event, answer)
    return rendered


def heard(name: str, event: str, rendered: Rendered) -> Heard:
    """Reads an answer by the host's own published rules."""
    output, errors, code = rendered
    if name == "claude" and code == 2:
        return Heard(False, errors.strip())
    assert code == 0, "no other exit code is understood by every host"
    assert not errors, "some hosts take errors for an answer"
    if not output:
        return Heard(True, "")
    fields = json.loads(output)
    return HEARING[name](event, fields)


def _as_claude(event: str, fields: dict[str, Any]) -> Heard:
    specific = fields.get("hookSpecificOutput", {})
    if specific.get("permissionDecision") == "deny":
        return Heard(False, specific["permissionDecisionReason"])
    if fields.get("decision") == "block":
        return Heard(False, fields["reason"])
    return Heard(True, specific.get("additionalContext", ""))


def _as_copilot(event: str, fields: dict[str, Any]) -> Heard:
    if event == hook.PRE_TOOL:
        return Heard(fields["permissionDecision"] != "deny", fields["permissionDecisionReason"])
    if event in hook.ENDINGS:
        return Heard(fields["decision"] != "block", fields["reason"])
    return Heard(True, fields["additionalContext"])


def _as_cursor(event: str, fields: dict[str, Any]) -> Heard:
    if event in hook.ENDINGS:
        return Heard(not fields["followup_message"], fields["followup_message"])
    if event == hook.PRE_TOOL:
        return Heard(fields["permission"] != "deny", fields["agent_message"])
    return Heard(fields.get("continue", True), fields.get("additional_context", ""))


def _as_gemini(event: str, fields: dict[str, Any]) -> Heard:
    if fields.get("decision") in {"block", "deny"}:
        return Heard(False, fields["reason"])
    return Heard(True, fields.get("hookSpecificOutput", {}).get("additionalContext", ""))


def _as_openhands(event: str, fields: dict[str, Any]) -> Heard:
    if fields.get("decision") == "deny":
        return Heard(False, fields["reason"])
    return Heard(True, fields.get("additionalContext", ""))


HEARING: dict[str, Callable[[str, dict[str, Any]], Heard]] = {
    "claude": _as_claude,
    "codex": _as_claude,
    "qwen": _as_claude,
    "copilot": _as_copilot,
    "cursor": _as_cursor,
    "gemini": _as_gemini,
    "openhands": _as_openhands,
}


class TestWhatIsSaid:
    @pytest.mark.parametrize("name", HOSTS)
    def test_a_stop_tells_its_session_and_folder(self, name: str) -> None:
        call = read(name, hook.STOP, STOPS[name])

        assert (call.host, call.event, call.session, call.cwd) == (name, hook.STOP, SESSION, "/work")
        assert (call.is_continued, call.is_aborted, call.is_broken) == (True, False, "")
        assert call.tool is None

    @pytest.mark.parametrize("name", HOSTS)
    def test_an_event_is_known_by_the_hosts_own_name_too(self, name: str) -> None:
        for event, own_name in module(name).SETUP.events.items():
            assert read(name, own_name, STOPS[name]).event == event

    @pytest.mark.parametrize("name", HOSTS)
    def test_an_event_of_no_concern_is_told_as_such(self, name: str) -> None:
        assert read(name, "PreCompact", STOPS[name]).event == ""
        assert render(name, "PreCompact", HookAnswer.block(REASON)) == ("", "", 0)

    @pytest.mark.parametrize("name", HOSTS)
    def test_a_payload_may_start_with_a_byte_order_mark(self, name: str) -> None:
        data = b"\xef\xbb\xbf" + json.dumps(STOPS[name]).encode()

        assert module(name).read(hook.STOP, data).session == SESSION

    @pytest.mark.parametrize("status", ["aborted", "error"])
    def test_what_the_user_aborted_in_cursor_is_no_stop_to_judge(self, status: str) -> None:
        assert read("cursor", hook.STOP, STOPS["cursor"] | {"status": status}).is_aborted

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"background_tasks": [{"id": "1", "type": "bash", "status": "running"}]}, True),
            ({"background_tasks": [{"id": "1", "type": "bash", "status": "completed"}]}, False),
            ({"session_crons": [{"id": "1"}]}, True),
            ({"background_tasks": "running"}, False),
        ],
    )
    def test_claude_tells_of_work_in_the_background(self, fields: dict[str, Any], expected: bool) -> None:
        assert read("claude", hook.STOP, STOPS["claude"] | fields).has_background_work is expected

    def test_copilot_may_use_either_of_its_spellings(self) -> None:
        other = {
            "hook_event_name": "Stop",
            "session_id": SESSION,
            "timestamp": "2026-11-06T21:20:00.123Z",
            "cwd": "/work",
            "stop_reason": "end_turn",
            "stop_hook_active": True,
        }

        first, second = read("copilot", "agentStop", STOPS["copilot"]), read("copilot", "Stop", other)
        assert (first.session, first.event, first.is_continued) == (second.session, hook.STOP, True)

    def test_one_stop_that_fires_in_two_hosts_files_is_known_as_one(self) -> None:
        milliseconds = 20_000 * DAY + 20 * 3_600_000 + 123
        own = {"sessionId": SESSION, "timestamp": milliseconds}
        as_claude = {
            "session_id": SESSION,
            "timestamp": "2026-11-06T20:00:00.123Z",
            "hook_event_name": "Stop",
        }
        later = own | {"timestamp": milliseconds + 60_000}

        assert read("copilot", hook.STOP, own).firing_key == read("claude", hook.STOP, as_claude).firing_key
        assert read("copilot", hook.STOP, later).firing_key != read("copilot", hook.STOP, own).firing_key

    def test_a_stop_is_known_by_the_hosts_time_though_its_hooks_are_written_down_meanwhile(
        self, tmp_path: Path
    ) -> None:
        """Copilot notes in the transcript that it has called a hook, before it calls the next one."""
        transcript = tmp_path / "events.jsonl"
        transcript.write_text("{}\n")
        stop = {"sessionId": SESSION, "timestamp": 20_000 * DAY, "transcriptPath": str(transcript)}
        first = read("copilot", hook.STOP, stop)
        transcript.write_text('{}\n{"type": "hook.end"}\n')
        as_claude = {
            "session_id": SESSION,
            "timestamp": "2024-10-04T00:00:00.000Z",
            "transcript_path": str(transcript),
        }

        second = read("claude", hook.STOP, as_claude)
        assert second.firing_key == first.firing_key
        assert (first.is_timed, second.is_timed) == (True, True)
        assert not read("claude", hook.STOP, STOPS["claude"]).is_timed

    def test_a_count_of_rounds_is_no_time(self, tmp_path: Path) -> None:
        """Cursor counts what it was sent back; two stops of one generation may have the same count."""
        transcript = tmp_path / "events.jsonl"
        stop = STOPS["cursor"] | {"transcript_path": str(transcript)}
        transcript.write_text("{}\n")
        first = read("cursor", hook.STOP, stop)
        first_key = first.firing_key
        transcript.write_text("{}\n{}\n")

        assert not first.is_timed
        assert read("cursor", hook.STOP, stop).firing_key != first_key

    def test_a_tool_use_that_fires_in_two_hosts_files_is_known_as_one(self) -> None:
        said = "2 failed\n<shellId: 0 completed with exit code 3>"
        own = {
            "sessionId": SESSION,
            "timestamp": 20_000 * DAY + 5,
            "toolName": "bash",
            "toolArgs": {"command": "pytest"},
            "toolResult": {"resultType": "success", "textResultForLlm": said},
        }
        as_claude = {
            "session_id": SESSION,
            "timestamp": "2024-10-04T00:00:00.005Z",
            "tool_name": "Bash",
            "tool_input": {"command": "pytest"},
            "tool_result": {"result_type": "success", "text_result_for_llm": said},
        }
        first, second = (
            read("copilot", hook.POST_TOOL, own).tool,
            read("claude", hook.POST_TOOL, as_claude).tool,
        )

        assert first is not None
        assert second is not None
        assert first.use_id == second.use_id != ""
        assert [(tool.exit_code, tool.has_failed, tool.output) for tool in (first, second)] == [
            (3, True, said)
        ] * 2

    def test_an_agent_that_stops_again_with_the_same_words_stops_again(self, tmp_path: Path) -> None:
        transcript = tmp_path / "transcript.jsonl"
        payload = STOPS["codex"] | {"transcript_path": str(transcript)}
        transcript.write_text("{}\n")
        first = read("codex", hook.STOP, payload).firing_key
        assert read("codex", hook.STOP, payload).firing_key == first
        transcript.write_text("{}\n{}\n")

        assert read("codex", hook.STOP, payload).firing_key != first

    def test_two_stops_of_one_prompt_are_not_taken_for_one(self) -> None:
        second = STOPS["claude"] | {"last_assistant_message": "Now really done."}

        assert (
            read("claude", hook.STOP, STOPS["claude"]).firing_key
            != read("claude", hook.STOP, second).firing_key
        )

    @pytest.mark.parametrize(
        "session", ["", "../../x", "a/b", "a b", "a\nb", "ü", "x" * 201, "..", 7, None, ["a"]]
    )
    def test_a_session_that_could_be_no_name_is_none(self, session: object) -> None:
        assert read("claude", hook.STOP, STOPS["claude"] | {"session_id": session}).session == ""

    def test_a_changed_setting_tells_its_file(self) -> None:
        call = read(
            "claude",
            hook.CONFIG_CHANGE,
            {"session_id": SESSION, "source": "project_settings", "file_path": "/work/.claude/settings.json"},
        )

        assert (call.config_source, call.config_file) == ("project_settings", "/work/.claude/settings.json")


CLAUDE_TOOL = {"session_id": SESSION, "cwd": "/work", "tool_use_id": "toolu_1", "duration_ms": 1500}
PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch"
TOOLS: list[tuple[str, str, dict[str, Any], tuple[object, ...]]] = [
    (
        "claude",
        hook.POST_TOOL,
        CLAUDE_TOOL
        | {
            "tool_name": "Bash",
            "tool_input": {"command": "ls"},
            "tool_response": {"stdout": "Exit code 3", "stderr": "", "interrupted": False},
        },
        ("Bash", "ls", (), 0, False, "Exit code 3", 1.5),
    ),
    (
        "claude",
        hook.POST_TOOL_FAILURE,
        CLAUDE_TOOL | {"tool_name": "Bash", "tool_input": {"command": "false"}, "error": "Exit code 1\nhi"},
        ("Bash", "false", (), 1, True, "Exit code 1\nhi", 1.5),
    ),
    (
        "claude",
        hook.POST_TOOL,
        CLAUDE_TOOL
        | {
            "tool_name": "Bash",
            "tool_input": {"command": "grep x y"},
            "tool_response": {"stdout": "", "stderr": "", "returnCodeInterpretation": "No matches found"},
        },
        ("Bash", "grep x y", (), None, False, "", 1.5),
    ),
    (
        "claude",
        hook.POST_TOOL,
        CLAUDE_TOOL
        | {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_response": {"backgroundTaskId": "1"}},
        ("Bash", "x", (), None, False, "", 1.5),
    ),
    (
        "claude",
        hook.PRE_TOOL,
        CLAUDE_TOOL | {"tool_name": "Write", "tool_input": {"file_path": "/work/a.py", "content": "x"}},
        ("Write", "", ("/work/a.py",), None, False, "", 1.5),
    ),
    (
        "claude",
        hook.PRE_TOOL,
        CLAUDE_TOOL | {"tool_name": "Read", "tool_input": {"file_path": "/work/a.py"}},
        ("Read", "", (), None, False, "", 1.5),
    ),
    (
        "codex",
        hook.POST_TOOL,
        {"tool_name": "Bash", "tool_input": {"command": "false"}, "tool_response": "ho\n"},
        ("Bash", "false", (), None, False, "ho\n", None),
    ),
    (
        "codex",
        hook.PRE_TOOL,
        {"tool_name": "apply_patch", "tool_input": {"command": PATCH}},
        ("apply_patch", "", ("src/a.py", "b.py"), None, False, "", None),
    ),
    (
        "codex",
        hook.PRE_TOOL,
        {"tool_name": "Bash", "tool_input": {"command": f"apply_patch <<'E'\n{PATCH}\nE"}},
        ("Bash", f"apply_patch <<'E'\n{PATCH}\nE", ("src/a.py", "b.py"), None, False, "", None),
    ),
    (
        "copilot",
        hook.POST_TOOL,
        {
            "toolName": "bash",
            "toolArgs": '{"command": "pytest"}',
            "toolResult": {
                "resultType": "success",
                "textResultForLlm": "1 failed\n<exited with exit code 1>",
            },
        },
        ("bash", "pytest", (), 1, True, "1 failed\n<exited with exit code 1>", None),
    ),
    *(
        (
            "copilot",
            event,
            {
                "toolName": "bash",
                "toolArgs": '{"command": "pytest"}',
                "toolResult": {"resultType": "success", "textResultForLlm": text},
            },
            ("bash", "pytest", (), code, event == hook.POST_TOOL_FAILURE or bool(code), text, None),
        )
        for event in (hook.POST_TOOL, hook.POST_TOOL_FAILURE)
        for text, code in (
            ("3 passed\n<shellId: 0 completed with exit code 0>", 0),
            ("<shellId: build-2 completed with exit code 127>\n", 127),
            ("<command with shellId: 4 exited with exit code 2>", 2),
            ("<shellId: 0 completed with exit code 0>\nstill going", None),
            ("<command with shellId: 0 is still running>", None),
            ("the job completed with exit code 0", None),
            ("<shellId: 0 completed with exit code none>", None),
        )
    ),
    (
        "copilot",
        hook.PRE_TOOL,
        {"toolName": "edit", "toolArgs": {"path": "/work/a.py", "old_str": "x"}},
        ("edit", "", ("/work/a.py",), None, False, "", None),
    ),
    (
        "cursor",
        hook.POST_TOOL,
        {
            "tool_name": "Shell",
            "tool_input": {"command": "npm test"},
            "tool_output": '{"exitCode": 2, "stdout": "no"}',
            "tool_use_id": "1",
            "duration": 250,
        },
        ("Shell", "npm test", (), 2, True, "no", 0.25),
    ),
    (
        "gemini",
        hook.POST_TOOL,
        {
            "tool_name": "run_shell_command",
            "tool_input": {"command": "x"},
            "tool_response": {"llmContent": "Output: x\nExit Code: 0\nExit Code: 4\nProcess Group PGID: 7"},
        },
        (
            "run_shell_command",
            "x",
            (),
            4,
            True,
            "Output: x\nExit Code: 0\nExit Code: 4\nProcess Group PGID: 7",
            None,
        ),
    ),
    (
        "gemini",
        hook.POST_TOOL,
        {
            "tool_name": "run_shell_command",
            "tool_input": {"command": "x"},
            "tool_response": {"llmContent": "Output: fine"},
        },
        ("run_shell_command", "x", (), 0, False, "Output: fine", None),
    ),
    *(
        (
            "gemini",
            hook.POST_TOOL,
            {
                "tool_name": "run_shell_command",
                "tool_input": {"command": "x"},
                "tool_response": {"llmContent": text},
            },
            ("run_shell_command", "x", (), code, bool(code), text, None),
        )
        for text, code in (
            ("<untrusted_context>\nOutput: fine\nProcess Group PGID: 7\n</untrusted_context>", 0),
            ("<untrusted_context>\nOutput: hi\nExit Code: 3\nProcess Group PGID: 7\n</untrusted_context>", 3),
            ("<untrusted_context>\nOutput: (empty)\nSignal: 9\n</untrusted_context>", None),
        )
    ),
    (
        "qwen",
        hook.POST_TOOL,
        {
            "tool_name": "run_shell_command",
            "tool_input": {"command": "x"},
            "tool_response": {"llmContent": "Output: a\nError: (none)\nExit Code: 3\nSignal: (none)"},
        },
        (
            "run_shell_command",
            "x",
            (),
            3,
            True,
            "Output: a\nError: (none)\nExit Code: 3\nSignal: (none)",
            None,
        ),
    ),
    *(
        (
            "qwen",
            hook.POST_TOOL_FAILURE,
            {"tool_name": "run_shell_command", "tool_input": {"command": "x"}, "error": error},
            ("run_shell_command", "x", (), code, True, error, None),
        )
        for error, code in (
            ("Command: x\nOutput: a\nError: (none)\nExit Code: 1\nSignal: (none)\nProcess Group PGID: 7", 1),
            ("Output: Exit Code: 0\nExit Code: 128", 128),
            ("Command timed out after 5000ms.", None),
            ("Output: a\nExit Code: (none)\nSignal: 9", None),
        )
    ),
    (
        "openhands",
        hook.POST_TOOL,
        {
            "tool_name": "terminal",
            "tool_input": {"command": "ls"},
            "tool_response": {"content": [{"type": "text", "text": "a"}], "metadata": {"exit_code": 0}},
        },
        ("terminal", "ls", (), 0, False, "a", None),
    ),
    (
        "openhands",
        hook.POST_TOOL,
        {
            "tool_name": "terminal",
            "tool_input": {"command": "exit 3"},
            "tool_response": {
                "content": [{"type": "text", "text": "reset"}],
                "is_error": True,
                "exit_code": -1,
            },
        },
        ("terminal", "exit 3", (), None, True, "reset", None),
    ),
    (
        "openhands",
        hook.PRE_TOOL,
        {"tool_name": "file_editor", "tool_input": {"command": "view", "path": "/work/a.py"}},
        ("file_editor", "", (), None, False, "", None),
    ),
]


@pytest.mark.parametrize(
    ("name", "event", "payload", "expected"),
    TOOLS,
    ids=[f"{name}-{event}-{number}" for number, (name, event, _, _) in enumerate(TOOLS)],
)
def test_a_use_of_a_tool_tells_what_was_run_and_what_came_of_it(
    name: str, event: str, payload: dict[str, Any], expected: tuple[object, ...]
) -> None:
    tool = read(name, event, payload).tool

    assert tool is not None
    assert expected == (
        *(tool.name, tool.command, tool.paths, tool.exit_code, tool.has_failed, tool.output),
        tool.duration,
    )


class TestWhatIsAnswered:
    @pytest.mark.parametrize("name", HOSTS)
    def test_a_blocked_stop_reaches_the_agent_with_its_reason(self, name: str) -> None:
        assert heard(name, hook.STOP, render(name, hook.STOP, HookAnswer.block(REASON))) == Heard(
            False, REASON
        )

    @pytest.mark.parametrize("name", HOSTS)
    def test_an_agent_that_stops_is_told_something_only_by_going_on(self, name: str) -> None:
        rendered = render(name, hook.STOP, HookAnswer.context("The gates are still running."))

        assert heard(name, hook.STOP, rendered) == Heard(False, "The gates are still running.")

    @pytest.mark.parametrize("name", HOSTS)
    @pytest.mark.parametrize("event", hook.EVENTS)
    def test_what_is_allowed_is_answered_with_nothing(self, name: str, event: str) -> None:
        assert render(name, event, HookAnswer.allow()) == ("", "", 0)

    @pytest.mark.parametrize("name", HOSTS)
    def test_a_denied_tool_is_kept_from_being_used(self, name: str) -> None:
        rendered = render(name, hook.PRE_TOOL, HookAnswer.deny("Protected."))

        assert heard(name, hook.PRE_TOOL, rendered) == Heard(False, "Protected.")

    @pytest.mark.parametrize("name", sorted(set(HOSTS) - {"openhands"}))
    def test_a_new_session_is_given_its_context(self, name: str) -> None:
        rendered = render(name, hook.SESSION_START, HookAnswer.context("Feedback."))

        assert heard(name, hook.SESSION_START, rendered) == Heard(True, "Feedback.")

    @pytest.mark.parametrize("name", ["claude", "codex", "gemini", "qwen", "openhands"])
    def test_a_prompt_is_given_its_context(self, name: str) -> None:
        rendered = render(name, hook.PROMPT, HookAnswer.context("Feedback."))

        assert heard(name, hook.PROMPT, rendered) == Heard(True, "Feedback.")

    @pytest.mark.parametrize("event", [hook.TASK_COMPLETED, hook.TEAMMATE_IDLE])
    def test_a_task_of_claude_is_kept_open_by_the_one_way_there_is(self, event: str) -> None:
        assert render("claude", event, HookAnswer.block(REASON)) == ("", f"{REASON}\n", 2)

    def test_a_change_of_claudes_settings_is_kept_from_taking_hold(self) -> None:
        rendered = render("claude", hook.CONFIG_CHANGE, HookAnswer.block("No."))

        assert heard("claude", hook.CONFIG_CHANGE, rendered) == Heard(False, "No.")

    @pytest.mark.parametrize("name", HOSTS)
    @pytest.mark.parametrize("event", [hook.STOP, hook.PRE_TOOL])
    @pytest.mark.parametrize("text", ["", " \n"])
    def test_a_no_without_a_reason_is_a_no(self, name: str, event: str, text: str) -> None:
        said = heard(name, event, render(name, event, HookAnswer.block(text)))

        assert not said.may_happen
        assert said.agent_reads.strip()

    @pytest.mark.parametrize("name", HOSTS)
    @pytest.mark.parametrize("filling", ["x", "ü", "🙂", "\x00"])
    def test_no_host_cuts_a_long_reason(self, name: str, filling: str) -> None:
        text = f"REJECTED: first line\n{filling * 30_000}\nContinue working."
        said = heard(name, hook.STOP, render(name, hook.STOP, HookAnswer.block(text))).agent_reads

        assert len(said.encode("utf-16-le")) // 2 < 10_000
        assert said.startswith("REJECTED: first line")
        assert said.endswith("Continue working.")

    @pytest.mark.parametrize("name", HOSTS)
    def test_half_a_character_does_not_spoil_an_answer(self, name: str) -> None:
        output, _, _ = render(name, hook.STOP, HookAnswer.block("a\ud800b"))

        assert output.isascii()
        assert heard(name, hook.STOP, (output, "", 0)).agent_reads == "a?b"

    @pytest.mark.parametrize("name", ["claude", "codex", "gemini", "qwen"])
    def test_the_person_who_watches_is_told(self, name: str) -> None:
        output, _, _ = render(name, hook.STOP, HookAnswer.allow("Gates passed."))

        assert json.loads(output) == {"systemMessage": "Gates passed."}


class Codex:
    """What Codex takes as an answer and sends at a stop, as JSON Schemas: in our own words, or its published ones."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._table = json.loads(place.read_text()) if place.is_file() else None

    def answer(self, event: str) -> Draft202012Validator:
        if self._table is None:
            return self._published(f"{event}.command.output")
        return Draft202012Validator(keys_of(self._table["every answer"] | self._table["answers"][event]))

    def stop(self) -> Draft202012Validator:
        if self._table is None:
            return self._published("stop.command.input")
        keys = self._table["sent at a stop"]
        return Draft202012Validator({**keys_of(keys), "required": list(keys)})

    def _published(self, name: str) -> Draft202012Validator:
        return Draft202012Validator(json.loads((self._place / f"{name}.schema.json").read_text()))


def keys_of(keys: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with these keys and no others: each a type, a list of what it may be, or keys again."""
    known = {}
    for key, kind in keys.items():
        if isinstance(kind, dict):
            known[key] = keys_of(kind)
        else:
            known[key] = {"enum": kind} if isinstance(kind, list) else {"type": kind.split(" or ")}
    required = [key for key in keys if key == "hookEventName"]
    return {"type": "object", "properties": known, "required": required, "additionalProperties": False}


@pytest.fixture(params=data_sets("codex-hooks.json", "data/codex-hook-schemas"))
def codex(request: pytest.FixtureRequest) -> Codex:
    return Codex(request.param)


class TestCodexSchemas:
    """Codex takes no answer with a key that it does not know."""

    FILES = {  # noqa: RUF012 - a table
        hook.STOP: "stop",
        hook.SUBAGENT_STOP: "subagent-stop",
        hook.PRE_TOOL: "pre-tool-use",
        hook.POST_TOOL: "post-tool-use",
        hook.SESSION_START: "session-start",
        hook.PROMPT: "user-prompt-submit",
    }

    @pytest.mark.parametrize("event", FILES)
    @pytest.mark.parametrize("kind", [hook.ALLOW, hook.BLOCK, hook.CONTEXT, hook.DENY])
    def test_an_answer_has_no_key_that_codex_does_not_know(self, codex: Codex, event: str, kind: str) -> None:
        output, _, _ = render("codex", event, HookAnswer(kind, REASON, notice="Note."))

        codex.answer(self.FILES[event]).validate(json.loads(output))

    @pytest.mark.parametrize("event", FILES)
    @pytest.mark.parametrize(
        "wrong", [{"verdict": "no"}, {"decision": "no"}, {"hookSpecificOutput": {"a": 1}}]
    )
    def test_the_schema_would_tell(self, codex: Codex, event: str, wrong: dict[str, Any]) -> None:
        assert not codex.answer(self.FILES[event]).is_valid(wrong)

    def test_the_stop_we_test_with_is_one_that_codex_sends(self, codex: Codex) -> None:
        codex.stop().validate(STOPS["codex"])

        assert not codex.stop().is_valid({**STOPS["codex"], "cwd": None})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        *("session_id", "sessionId", "conversation_id", "cwd", "workspace_roots", "timestamp", "tool_name"),
        *("toolName", "tool_input", "toolArgs", "tool_response", "toolResult", "tool_output", "error"),
        *("background_tasks", "session_crons", "duration", "duration_ms", "loop_count", "status", "source"),
    ]
)


def check_harmless(call: HookCall) -> None:
    """Nothing of a call can hurt whoever uses it."""
    assert isinstance(call.session, str)
    assert "/" not in call.session
    assert "\0" not in call.cwd + call.transcript + call.config_file
    told = [call.last_message, call.subject, call.firing_key]
    if call.tool:
        assert all(isinstance(path, str) and "\0" not in path for path in call.tool.paths)
        assert isinstance(call.tool.exit_code, int | None)
        told += [call.tool.command, call.tool.output]
    for text in told:
        text.encode()


class TestHostilePayloads:
    PAYLOADS = (
        *(b"", b" ", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe{", b"\x00" * 100, b"{}{}", b"not JSON"),
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"tool_input": ' + b"9" * 10_000 + b"}",
        b'{"session_id": NaN, "duration_ms": 1e999, "cwd": "\\ud800\\u0000"}',
        b'{"tool_name": "Bash", "tool_input": "{{{", "tool_response": "' + b"x" * 10_000_000 + b'"}',
        b"x" * (MAX_PAYLOAD + 1),
    )

    @pytest.mark.parametrize("name", HOSTS)
    @pytest.mark.parametrize("number", range(len(PAYLOADS)))
    def test_nothing_that_a_host_sends_stops_the_hook(self, name: str, number: int) -> None:
        check_harmless(module(name).read(hook.STOP, self.PAYLOADS[number]))

    @pytest.mark.parametrize("number", range(11))
    def test_what_cannot_be_read_is_said_to_be_broken(self, number: int) -> None:
        assert module("claude").read(hook.STOP, self.PAYLOADS[number]).is_broken

    def test_ten_megabytes_of_output_are_read(self) -> None:
        call = module("claude").read(hook.POST_TOOL, self.PAYLOADS[15])

        assert not call.is_broken
        assert call.tool.output.startswith("xxx")

    @given(st.sampled_from(HOSTS), st.sampled_from(hook.EVENTS), st.binary(max_size=200))
    def test_no_bytes_stop_the_hook(self, name: str, event: str, data: bytes) -> None:
        check_harmless(module(name).read(event, data))

    @given(st.sampled_from(HOSTS), st.sampled_from(hook.EVENTS), st.dictionaries(FIELDS, JSON, max_size=8))
    def test_no_value_of_any_field_stops_the_hook(
        self, name: str, event: str, payload: dict[str, object]
    ) -> None:
        check_harmless(read(name, event, payload | {"tool_name": payload.get("tool_name", "Bash")}))


def test_what_is_composed_without_the_json_module_is_json() -> None:
    value = {"a": [1, 2.5, None, True, 'ü\n"'], "b": {"c": (), "d": -7}, "": False}

    assert json.loads(compose(value)) == json.loads(json.dumps(value))


def test_the_way_of_a_hook_call_loads_nothing_heavy() -> None:
    """Loading any one of these costs as much as all of ours."""
    code = (
        "import sys; from remand.wiring.startup import load_host as host; "
        f"[host(name).read('stop', b'{{}}') for name in {HOSTS!r}]; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    heavy = {"json", "re", "typing", "dataclasses", "collections", "subprocess", "msgspec", "apsw", "rich"}

    assert heavy & set(done.stdout.split()) == set()
