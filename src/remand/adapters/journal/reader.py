"""Reads the journal of what agents ran, and the hosts' transcripts that can confirm it."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from glob import escape, iglob
from typing import Any, BinaryIO, NamedTuple

import msgspec

from remand.adapters.journal import writer
from remand.app.ports import SupportingRun
from remand.domain.access.team import Team
from remand.domain.evidence.attempts import RecordedCall, ToolUse, find_supporting_use, read_calls
from remand.domain.instant import Instant
from remand.domain.task import Task

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def open_plain(path: str) -> BinaryIO:
    """Opens a plain file for reading; raises `OSError` for a link, a pipe or a folder."""
    handle = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return open(handle, "rb")


def file_size(file: BinaryIO) -> int:
    """The size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


MAX_TRANSCRIPT = 64 << 20
MAX_TRANSCRIPT_LINE = 4 << 20
MAX_TRANSCRIPTS = 20
_EXIT = re.compile(r"(?:Exit code|exited with code):? ([0-9]{1,3})\b")
_TELLING = (b"tool_use", b"tool_result", b"call_id")
_decode_json = msgspec.json.Decoder().decode


class TranscriptRun(NamedTuple):
    """A run as a transcript records it."""

    tool_use_id: str
    tool: str
    command: str
    paths: tuple[str, ...] = ()
    exit_status: int | None = None
    """None if the transcript does not say, or the run has not ended."""
    has_failed: bool = False
    output: str = ""


class Transcripts:
    """The transcripts of a user's sessions. Each file is read once."""

    def __init__(self, claude_home: str = "", codex_home: str = "") -> None:
        home = os.path.expanduser("~")
        self._claude = claude_home or os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
        self._codex = codex_home or os.environ.get("CODEX_HOME") or os.path.join(home, ".codex")
        self._read: dict[str, dict[str, TranscriptRun]] = {}

    def find_run(self, run: ToolUse) -> TranscriptRun | None:
        """The transcript's record of the same run: same call, command and end; None if there is none."""
        if not run.tool_use_id:
            return None
        for path in self._files(run):
            if path not in self._read:
                self._read[path] = {run.tool_use_id: run for run in runs_in(path)}
            transcript_run = self._read[path].get(run.tool_use_id)
            if transcript_run is not None and _is_same(run, transcript_run):
                return transcript_run
        return None

    def _files(self, run: ToolUse) -> list[str]:
        """The files that may record the run's session: the one its hook named, and where hosts keep transcripts."""
        found = [run.transcript] if run.transcript.endswith(".jsonl") else []
        if writer.is_plain(run.session):
            found += iglob(os.path.join(escape(self._claude), "projects", "*", f"{run.session}.jsonl"))
            found += iglob(
                os.path.join(escape(self._codex), "sessions", "*", "*", "*", f"rollout-*-{run.session}.jsonl")
            )
        for path in found[:MAX_TRANSCRIPTS]:
            subagents = os.path.join(escape(path.removesuffix(".jsonl")), "subagents", "*.jsonl")
            found += list(iglob(subagents))[:MAX_TRANSCRIPTS]
        return list(dict.fromkeys(found))[: 2 * MAX_TRANSCRIPTS]


def runs_in(path: str) -> Iterator[TranscriptRun]:
    """The runs in a transcript of any known host; skips unknown lines."""
    begun: dict[str, TranscriptRun] = {}
    for line in _transcript_lines(path):
        for piece in _pieces(line):
            run = _started_run(piece)
            if run is not None:
                begun[run.tool_use_id] = run
            elif (ended := _finished_run(piece, begun)) is not None:
                del begun[ended.tool_use_id]
                yield ended
    yield from begun.values()


def _is_same(run: ToolUse, transcript_run: TranscriptRun) -> bool:
    """True if both agree on command, files and end, as far as each knows them."""
    is_status = (
        None in (run.exit_status, transcript_run.exit_status) or run.exit_status == transcript_run.exit_status
    )
    if run.command or transcript_run.command:
        return is_status and writer.shorten_command(transcript_run.command) == run.command
    return is_status and set(transcript_run.paths) >= set(run.paths)


def _transcript_lines(path: str) -> Iterator[bytes]:
    """The lines of a plain file, of limited size, that may concern a run."""
    try:
        opened = open_plain(path)
    except OSError:
        return
    with opened as file:
        if file_size(file) > MAX_TRANSCRIPT:
            return
        while line := file.readline(MAX_TRANSCRIPT_LINE):
            if any(mark in line for mark in _TELLING):
                yield line


def _pieces(line: bytes) -> list[Mapping[str, Any]]:
    """The parts of a line that may be a tool call or its result."""
    try:
        row = _decode_json(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    payload = _table(row, "payload")
    if payload:
        return [payload]
    content = _table(row, "message").get("content")
    if not isinstance(content, list):
        return []
    answer = row.get("toolUseResult")
    return [piece | {"toolUseResult": answer} for piece in content if isinstance(piece, dict)]


def _started_run(piece: Mapping[str, Any]) -> TranscriptRun | None:
    match piece.get("type"):
        case "tool_use":
            arguments = _table(piece, "input")
            return _new_run(piece.get("id"), piece.get("name"), arguments.get("command"), arguments)
        case "function_call" | "custom_tool_call":
            arguments = _arguments(piece)
            return _new_run(
                piece.get("call_id"),
                piece.get("name"),
                arguments.get("command", arguments.get("cmd")),
                arguments,
            )
        case "local_shell_call":
            return _new_run(piece.get("call_id"), "local_shell", _table(piece, "action").get("command"), {})
        case _:
            return None


def _new_run(use_id: object, tool: object, command: object, given: Mapping[str, Any]) -> TranscriptRun | None:
    if not isinstance(use_id, str) or not use_id:
        return None
    paths = (given.get(name) for name in ("file_path", "notebook_path", "path", "pattern", "url"))
    return TranscriptRun(
        use_id[:200],
        tool[:200] if isinstance(tool, str) else "",
        _command_line(command),
        tuple(path for path in paths if isinstance(path, str)),
    )


def _finished_run(piece: Mapping[str, Any], begun: Mapping[str, TranscriptRun]) -> TranscriptRun | None:
    match piece.get("type"):
        case "tool_result":
            run = begun.get(str(piece.get("tool_use_id")))
            return _claude_end(run, piece) if run is not None else None
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            run = begun.get(str(piece.get("call_id")))
            return _codex_end(run, piece) if run is not None else None
        case _:
            return None


def _claude_end(run: TranscriptRun, piece: Mapping[str, Any]) -> TranscriptRun:
    """The end of a run in Claude Code: the text has the exit code of a failed command, and none of a successful one."""
    output, answer = _text(piece.get("content")), _table(piece, "toolUseResult")
    has_failed = piece.get("is_error") is True
    is_open = any(answer.get(key) for key in ("interrupted", "backgroundTaskId", "returnCodeInterpretation"))
    status = _exit_status(output) if has_failed else None if is_open or not run.command else 0
    return run._replace(exit_status=status, has_failed=has_failed, output=output)


def _codex_end(run: TranscriptRun, piece: Mapping[str, Any]) -> TranscriptRun:
    """The end of a run in Codex: the exit code is part of the text, or of a table written as text."""
    output = _text(piece.get("output"))
    table = _json(output)
    status = _table(table, "metadata").get("exit_code")
    if not isinstance(status, int):
        status = _exit_status(output.partition("\nOutput:\n")[0] if "\nOutput:\n" in output else output[:200])
    said = table.get("output")
    return run._replace(
        exit_status=status, has_failed=bool(status), output=said if isinstance(said, str) else output
    )


def _exit_status(text: str) -> int | None:
    match = _EXIT.search(text[:400])
    return int(match[1]) if match else None


def _arguments(piece: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = piece.get("arguments", piece.get("input"))
    return (
        arguments if isinstance(arguments, dict) else _json(arguments if isinstance(arguments, str) else "")
    )


def _json(text: str) -> Mapping[str, Any]:
    try:
        found = _decode_json(text) if text.startswith("{") else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _command_line(command: object) -> str:
    """A command as one line, without the shell of `bash -lc …`."""
    if isinstance(command, str):
        return command
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return ""
    is_shell = len(command) == 3 and command[1] in ("-c", "-lc")
    return command[2] if is_shell else " ".join(command)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    found = (part.get("text", part.get("content")) for part in parts if isinstance(part, dict))
    return "\n".join(text for text in found if isinstance(text, str))


def _table(value: object, name: str) -> Mapping[str, Any]:
    """A table within another; an empty one if it is missing."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


MAX_RUNS = 5000
_decode_tool_use = msgspec.json.Decoder(ToolUse).decode


class TaskJournal(NamedTuple):
    """A task's journal: each tool call once, and the problems with the file."""

    uses: tuple[ToolUse, ...] = ()
    problems: tuple[str, ...] = ()
    is_chained: bool = True
    """False if a line was changed or removed."""


class JournalFile:
    """The journals of a ledger's tasks. A journal whose hash chain is broken is no evidence.

    A transcript can only confirm a journal entry, because the agent can write to the transcript's file.
    """

    def __init__(
        self,
        folder: str,
        transcripts: Transcripts | None = None,
        *,
        since: Instant = "",
        name_of: Callable[[str], str] = str,
    ) -> None:
        self._folder = folder
        self._transcripts = transcripts
        self._since = since
        """From when on a run without an agent's name is of whoever holds the task; empty for never."""
        self._name_of = name_of
        """An agent's own name, whatever alias it used."""
        self._kept: dict[str, TaskJournal] = {}
        self._calls: dict[tuple[str, str], list[RecordedCall]] = {}

    @classmethod
    def for_holder(cls, folder: str, team: Team, task: Task) -> JournalFile:
        """The journals for checking a rejection by the holder of a task."""
        since = task.claim.claimed_at if task.claim is not None else ""
        return cls(folder, Transcripts(), since=since, name_of=lambda name: team.actor(name).name)

    def read_task(self, task_id: str) -> TaskJournal:
        """All entries of a task's journal."""
        if task_id not in self._kept:
            path = writer.journal_path(self._folder, task_id)
            self._kept[task_id] = _read_journal(path, task_id) if path else TaskJournal()
        return self._kept[task_id]

    def find_supporting_run(self, task_id: str, agent: str, attempt: str) -> SupportingRun | None:
        """The journal entry that supports an attempt of the agent on the task; None if there is none."""
        run = find_supporting_use(attempt, self._calls_of(task_id, agent))
        if run is None:
            return None
        transcript_run = self.find_in_transcripts(run)
        status = (
            transcript_run.exit_status
            if transcript_run is not None and run.exit_status is None
            else run.exit_status
        )
        return SupportingRun(
            run.command or " ".join((run.tool, *run.paths)), status, transcript_run is not None
        )

    def find_in_transcripts(self, run: ToolUse) -> TranscriptRun | None:
        """The record of the same run in the host's transcript; None if there is none."""
        return self._transcripts.find_run(run) if self._transcripts is not None else None

    def _calls_of(self, task_id: str, agent: str) -> list[RecordedCall]:
        key = (task_id, agent)
        if key not in self._calls:
            journal = self.read_task(task_id)
            own = [run for run in journal.uses if self._is_of(run, agent)] if journal.is_chained else []
            self._calls[key] = read_calls(own[-MAX_RUNS:])
        return self._calls[key]

    def _is_of(self, run: ToolUse, agent: str) -> bool:
        if run.agent:
            return agent in (run.agent, self._name_of(run.agent))
        return bool(self._since) and run.ts >= self._since


def _read_journal(path: str, task_id: str) -> TaskJournal:
    uses: dict[object, ToolUse] = {}
    problems: list[str] = []
    is_chained, before = True, ""
    for number, line in enumerate(_journal_lines(path, problems), 1):
        try:
            run = _decode_tool_use(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            problems.append(f"line {number} is not a run: it is incomplete, or something else wrote it")
            before = writer.line_hash(line)
            continue
        if run.prev != before:
            problems.append(f"line {number} does not follow the line before it: something was changed")
            is_chained = False
        before = writer.line_hash(line)
        if run.task_id == task_id:
            key = (run.session, run.tool_use_id) if run.session and run.tool_use_id else number
            uses.setdefault(key, run)
    return TaskJournal(tuple(uses.values()), tuple(problems), is_chained)


def _journal_lines(path: str, problems: list[str]) -> Iterator[bytes]:
    """The lines of a journal. Reports a file that is not plain or too large, and does not read it."""
    try:
        opened = open_plain(path)
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(f"{path} cannot be read: {error.strerror}")
        return
    with opened as file:
        if file_size(file) > 2 * writer.MAX_FILE:
            problems.append(f"{path} has {file_size(file)} bytes, and is not read")
            return
        if file_size(file) > writer.MAX_FILE:
            problems.append("it is full: later runs are not in it")
        while line := file.readline(2 * writer.MAX_LINE):
            yield line.removesuffix(b"\n")
