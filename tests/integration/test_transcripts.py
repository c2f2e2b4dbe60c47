"""Reads transcripts as real hosts wrote them, and files that were made to do harm."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.journal.reader import JournalFile, TranscriptRun, Transcripts, runs_in
from remand.adapters.journal.writer import append
from remand.domain.evidence.attempts import ToolUse

RECORDED = Path(__file__).parent / "transcripts"
TASK = "T-20261115-090000-1a2b3c4d"
CLAUDE_SESSION = "d87eeb81-a045-48d6-9546-0f5d9e6a73c4"
FAILED = "toolu_000000000000000000000001"


def told_in(path: Path | str) -> list[tuple[str, str, int | None]]:
    return [(told.tool_use_id, told.command, told.exit_status) for told in runs_in(str(path))]


def test_claude_code_tells_its_commands_and_how_they_ended() -> None:
    found = list(runs_in(str(RECORDED / "claude.jsonl")))

    assert [(told.tool, told.command, told.exit_status) for told in found] == [
        ("Bash", "echo hi; false", 1),
        ("Write", "", None),
        ("Bash", "ls", 0),
    ]
    assert found[0].has_failed
    assert found[1].paths == ("/home/dev/repo/a.txt",)
    assert found[2].output == "a.txt"


def test_codex_tells_its_commands_and_how_they_ended() -> None:
    assert [one[1:] for one in told_in(RECORDED / "codex.jsonl")][1] == ("echo ho; false", 1)


def test_an_older_codex_tells_them_in_tables() -> None:
    assert told_in(RECORDED / "codex-older.jsonl") == [
        ("call_a", "pytest -q tests/test_login.py", 1),
        ("call_b", "git status", None),
        ("call_c", "", 0),
        ("call_d", "sleep 1000", None),
    ]


def claude_home(folder: Path, name: str = CLAUDE_SESSION) -> Path:
    """A home in which Claude Code keeps the recorded session."""
    kept = folder / "claude" / "projects" / "-home-dev-repo" / f"{name}.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_bytes((RECORDED / "claude.jsonl").read_bytes())
    return kept


def run(**changes: Any) -> ToolUse:
    given = {"session": CLAUDE_SESSION, "tool_use_id": FAILED, "command": "echo hi; false", "exit_status": 1}
    return ToolUse(ts="2026-11-15T09:00:00.000000Z", **(given | changes))


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, True),
        ({"exit_status": None}, True),
        ({"exit_status": 0}, False),
        ({"command": "echo ho; false"}, False),
        ({"tool_use_id": "toolu_other"}, False),
        ({"tool_use_id": ""}, False),
        ({"session": "another"}, False),
        ({"session": "../../../etc/passwd"}, False),
        ({"session": "*"}, False),
        ({"tool_use_id": "toolu_000000000000000000000002", "command": "", "paths": ("/home/dev/repo/a.txt",), "exit_status": None}, True),
        ({"tool_use_id": "toolu_000000000000000000000002", "command": "", "paths": ("/home/dev/b.txt",), "exit_status": None}, False),
    ],
    ids=str,
)  # fmt: skip
def test_a_transcript_tells_the_same_run_or_does_not(
    tmp_path: Path, changes: dict[str, Any], is_told: bool
) -> None:
    claude_home(tmp_path)

    assert (
        Transcripts(str(tmp_path / "claude"), str(tmp_path)).find_run(run(**changes)) is not None
    ) is is_told


def test_a_rollout_and_a_subagents_transcript_are_found_by_the_session(tmp_path: Path) -> None:
    rollout = (
        tmp_path / "codex" / "sessions" / "2026" / "11" / "15" / "rollout-2026-11-15T20-20-47-01a1.jsonl"
    )
    rollout.parent.mkdir(parents=True)
    rollout.write_bytes((RECORDED / "codex.jsonl").read_bytes())
    inner = tmp_path / "claude" / "projects" / "x" / "main" / "subagents" / "agent-1.jsonl"
    inner.parent.mkdir(parents=True)
    inner.write_bytes((RECORDED / "claude.jsonl").read_bytes())
    (tmp_path / "claude" / "projects" / "x" / "main.jsonl").touch()
    transcripts = Transcripts(str(tmp_path / "claude"), str(tmp_path / "codex"))

    of_codex = run(session="01a1", tool_use_id="call_2", command="echo ho; false", exit_status=None)

    assert transcripts.find_run(of_codex) == next(told for told in runs_in(str(rollout)) if told.exit_status)
    assert transcripts.find_run(run(session="main")) is not None


def test_a_transcript_seconds_the_journal_and_adds_how_a_run_ended(tmp_path: Path) -> None:
    folder, path = str(tmp_path / "journal"), RECORDED / "codex-older.jsonl"
    command, claimed = "pytest -q tests/test_login.py", "Ran pytest tests/test_login.py: 1 failed"
    append(
        folder, TASK, agent="Alice", session="s", tool_use_id="call_a", command=command, transcript=str(path)
    )

    seconded = JournalFile(folder, Transcripts(str(tmp_path), str(tmp_path))).find_supporting_run(
        TASK, "Alice", claimed
    )
    alone = JournalFile(folder).find_supporting_run(TASK, "Alice", claimed)

    assert seconded == (command, 1, True)
    assert alone == (command, None, False)


def test_a_transcript_alone_bears_nothing_out(tmp_path: Path) -> None:
    claude_home(tmp_path)
    journal = JournalFile(str(tmp_path / "journal"), Transcripts(str(tmp_path / "claude"), str(tmp_path)))

    assert journal.find_supporting_run(TASK, "Alice", "Ran `ls`: a.txt") is None


# Files made to do harm.


def test_a_link_a_pipe_and_a_folder_are_no_transcripts(tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(RECORDED / "claude.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()

    assert [told_in(path) for path in sorted(tmp_path.iterdir())] == [[], [], []]
    assert told_in("/dev/zero") == []


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    path.write_bytes((RECORDED / "claude.jsonl").read_bytes())
    os.truncate(path, 65 << 20)

    assert told_in(path) == []


USE = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}
ODD: list[Any] = [
    None, 3, [], "tool_use", {"tool_use": 1}, {"message": []}, {"message": {"content": "tool_use"}},
    {"message": {"content": [None, 3, "tool_use", {"type": "tool_use"}, {"type": "tool_use", "id": 5}]}},
    {"message": {"content": [{"type": "tool_use", "id": "x", "input": [1]}]}},
    {"message": {"content": [{"type": "tool_result", "tool_use_id": {"a": 1}, "content": 5}]}},
    {"payload": {"type": "function_call", "call_id": "c", "arguments": "{not json"}},
    {"payload": {"type": "function_call", "call_id": "d", "arguments": "[" * 100_000}},
    {"payload": {"type": "function_call_output", "call_id": "c", "output": [[], {"text": 5}]}},
    {"payload": {"type": "local_shell_call", "call_id": "e", "action": {"command": [1, None]}}},
]  # fmt: skip


def test_strange_lines_are_passed_over_and_the_good_ones_kept(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    lines = [json.dumps(row).encode() for row in ODD]
    lines += [
        b"\xff\xfe tool_use",
        b'{"tool_use": NaN',
        b'{"tool_use":' * 50_000,
        b"\x00" * 99,
        b"x" * 9_000_000,
    ]
    good = json.dumps({"message": {"content": [USE]}}).encode()
    path.write_bytes(b"\n".join([good, *lines, good.replace(b'"t"', b'"u"')]))

    found = {told.tool_use_id: told for told in runs_in(str(path))}

    assert found["t"] == TranscriptRun("t", "Bash", "ls")
    assert found["u"].command == "ls"
    assert all(isinstance(told, TranscriptRun) for told in found.values())


def test_an_answer_to_nothing_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    answer = {"type": "tool_result", "tool_use_id": "x", "content": "3 failed"}
    path.write_text(json.dumps({"message": {"content": [answer]}}))

    assert told_in(path) == []
