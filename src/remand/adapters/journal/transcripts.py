"""Reads the transcripts that hosts keep of their sessions: a second witness to what the journal has.

A transcript lies in the agent's reach, which may have written it. So it never bears anything out by itself: it can
only tell the same run as the journal once more, or not tell it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from glob import escape, iglob
from typing import Any, NamedTuple

import msgspec

from remand.adapters.journal.append import is_plain, shortened
from remand.adapters.journal.files import open_plain, size
from remand.domain.tool_uses import ToolUse

MAX_FILE = 64 << 20
MAX_LINE = 4 << 20
MAX_FILES = 20
_EXIT = re.compile(r"(?:Exit code|exited with code):? ([0-9]{1,3})\b")
_TELLING = (b"tool_use", b"tool_result", b"call_id")
_decode = msgspec.json.Decoder().decode


class Told(NamedTuple):
    """One run as a transcript tells it."""

    tool_use_id: str
    tool: str
    command: str
    paths: tuple[str, ...] = ()
    exit_status: int | None = None
    """None when it is not told, or nothing has come of it yet."""
    has_failed: bool = False
    output: str = ""


class Transcripts:
    """The transcripts of a user's sessions. Each file is read once."""

    def __init__(self, claude_home: str = "", codex_home: str = "") -> None:
        home = os.path.expanduser("~")
        self._claude = claude_home or os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
        self._codex = codex_home or os.environ.get("CODEX_HOME") or os.path.join(home, ".codex")
        self._read: dict[str, dict[str, Told]] = {}

    def tells(self, run: ToolUse) -> Told | None:
        """The same run as a transcript of its session tells it: the same call, command and end; None when none does."""
        if not run.tool_use_id:
            return None
        for path in self._files(run):
            if path not in self._read:
                self._read[path] = {told.tool_use_id: told for told in runs_in(path)}
            told = self._read[path].get(run.tool_use_id)
            if told is not None and _is_same(run, told):
                return told
        return None

    def _files(self, run: ToolUse) -> list[str]:
        """Where the run's session may be told: where its hook said, or where hosts keep such files."""
        found = [run.transcript] if run.transcript.endswith(".jsonl") else []
        if is_plain(run.session):
            found += iglob(os.path.join(escape(self._claude), "projects", "*", f"{run.session}.jsonl"))
            found += iglob(
                os.path.join(escape(self._codex), "sessions", "*", "*", "*", f"rollout-*-{run.session}.jsonl")
            )
        for path in found[:MAX_FILES]:
            subagents = os.path.join(escape(path.removesuffix(".jsonl")), "subagents", "*.jsonl")
            found += list(iglob(subagents))[:MAX_FILES]
        return list(dict.fromkeys(found))[: 2 * MAX_FILES]


def runs_in(path: str) -> Iterator[Told]:
    """The runs that a transcript tells, whichever host wrote it; what it does not know is passed over."""
    begun: dict[str, Told] = {}
    for line in _lines(path):
        for piece in _pieces(line):
            told = _begun(piece)
            if told is not None:
                begun[told.tool_use_id] = told
            elif (ended := _ended(piece, begun)) is not None:
                del begun[ended.tool_use_id]
                yield ended
    yield from begun.values()


def _is_same(run: ToolUse, told: Told) -> bool:
    """True when both tell the same: command, files and end, as far as each of them knows."""
    is_status = None in (run.exit_status, told.exit_status) or run.exit_status == told.exit_status
    if run.command or told.command:
        return is_status and shortened(told.command) == run.command
    return is_status and set(told.paths) >= set(run.paths)


def _lines(path: str) -> Iterator[bytes]:
    """The lines that may tell of a run, of a plain file that is not too large."""
    try:
        opened = open_plain(path)
    except OSError:
        return
    with opened as file:
        if size(file) > MAX_FILE:
            return
        while line := file.readline(MAX_LINE):
            if any(mark in line for mark in _TELLING):
                yield line


def _pieces(line: bytes) -> list[Mapping[str, Any]]:
    """The parts of a line that may be a call of a tool, or its answer."""
    try:
        row = _decode(line)
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


def _begun(piece: Mapping[str, Any]) -> Told | None:
    match piece.get("type"):
        case "tool_use":
            given = _table(piece, "input")
            return _told(piece.get("id"), piece.get("name"), given.get("command"), given)
        case "function_call" | "custom_tool_call":
            given = _arguments(piece)
            return _told(
                piece.get("call_id"), piece.get("name"), given.get("command", given.get("cmd")), given
            )
        case "local_shell_call":
            return _told(piece.get("call_id"), "local_shell", _table(piece, "action").get("command"), {})
        case _:
            return None


def _told(use_id: object, tool: object, command: object, given: Mapping[str, Any]) -> Told | None:
    if not isinstance(use_id, str) or not use_id:
        return None
    paths = (given.get(name) for name in ("file_path", "notebook_path", "path", "pattern", "url"))
    return Told(
        use_id[:200],
        tool[:200] if isinstance(tool, str) else "",
        _command_line(command),
        tuple(path for path in paths if isinstance(path, str)),
    )


def _ended(piece: Mapping[str, Any], begun: Mapping[str, Told]) -> Told | None:
    match piece.get("type"):
        case "tool_result":
            told = begun.get(str(piece.get("tool_use_id")))
            return _claude_end(told, piece) if told is not None else None
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            told = begun.get(str(piece.get("call_id")))
            return _codex_end(told, piece) if told is not None else None
        case _:
            return None


def _claude_end(told: Told, piece: Mapping[str, Any]) -> Told:
    """Claude Code gives the exit code of a command that failed, in words; of one that did not it gives none."""
    output, answer = _text(piece.get("content")), _table(piece, "toolUseResult")
    has_failed = piece.get("is_error") is True
    is_open = any(answer.get(key) for key in ("interrupted", "backgroundTaskId", "returnCodeInterpretation"))
    status = _stated(output) if has_failed else None if is_open or not told.command else 0
    return told._replace(exit_status=status, has_failed=has_failed, output=output)


def _codex_end(told: Told, piece: Mapping[str, Any]) -> Told:
    """Codex gives the exit code in words, or in a table that is written as text."""
    output = _text(piece.get("output"))
    table = _json(output)
    status = _table(table, "metadata").get("exit_code")
    if not isinstance(status, int):
        status = _stated(output.partition("\nOutput:\n")[0] if "\nOutput:\n" in output else output[:200])
    said = table.get("output")
    return told._replace(
        exit_status=status, has_failed=bool(status), output=said if isinstance(said, str) else output
    )


def _stated(text: str) -> int | None:
    found = _EXIT.search(text[:400])
    return int(found[1]) if found else None


def _arguments(piece: Mapping[str, Any]) -> Mapping[str, Any]:
    given = piece.get("arguments", piece.get("input"))
    return given if isinstance(given, dict) else _json(given if isinstance(given, str) else "")


def _json(text: str) -> Mapping[str, Any]:
    try:
        found = _decode(text) if text.startswith("{") else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _command_line(command: object) -> str:
    """A command as one line: a shell's own is taken out of `bash -lc …`."""
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
    """A table within another; an empty one when there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
