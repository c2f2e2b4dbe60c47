"""Reads the journal of what agents ran, and tells what it bears out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from remand.adapters.journal.append import MAX_FILE, MAX_LINE, journal_path, link
from remand.adapters.journal.files import open_plain, size
from remand.adapters.journal.transcripts import Told, Transcripts
from remand.app.ports import Borne
from remand.domain.corroboration.bearing import Ran, borne_out_by, read
from remand.domain.instant import Instant
from remand.domain.tool_uses import ToolUse

MAX_RUNS = 5000
_decode = msgspec.json.Decoder(ToolUse).decode


class Kept(NamedTuple):
    """A task's journal: its uses, each once, and what is wrong with the file."""

    uses: tuple[ToolUse, ...] = ()
    problems: tuple[str, ...] = ()
    is_chained: bool = True
    """False when a line was changed or taken out."""


class JournalFile:
    """The journals of a ledger's tasks. A journal whose chain is broken bears nothing out.

    A transcript can only second what the journal has: its file is the agent's own to write.
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
        self._kept: dict[str, Kept] = {}
        self._calls: dict[tuple[str, str], list[Ran]] = {}

    def kept(self, task_id: str) -> Kept:
        """Everything in the journal of a task."""
        if task_id not in self._kept:
            path = journal_path(self._folder, task_id)
            self._kept[task_id] = _kept(path, task_id) if path else Kept()
        return self._kept[task_id]

    def bears_out(self, task_id: str, agent: str, attempt: str) -> Borne | None:
        """What the agent ran on the task that fits an attempt; None when nothing does."""
        run = borne_out_by(attempt, self._calls_of(task_id, agent))
        if run is None:
            return None
        told = self.told(run)
        status = told.exit_status if told is not None and run.exit_status is None else run.exit_status
        return Borne(run.command or " ".join((run.tool, *run.paths)), status, told is not None)

    def told(self, run: ToolUse) -> Told | None:
        """The same run as the host's transcript tells it; None when it does not."""
        return self._transcripts.tells(run) if self._transcripts is not None else None

    def _calls_of(self, task_id: str, agent: str) -> list[Ran]:
        key = (task_id, agent)
        if key not in self._calls:
            kept = self.kept(task_id)
            own = [run for run in kept.uses if self._is_of(run, agent)] if kept.is_chained else []
            self._calls[key] = read(own[-MAX_RUNS:])
        return self._calls[key]

    def _is_of(self, run: ToolUse, agent: str) -> bool:
        if run.agent:
            return agent in (run.agent, self._name_of(run.agent))
        return bool(self._since) and run.ts >= self._since


def _kept(path: str, task_id: str) -> Kept:
    uses: dict[object, ToolUse] = {}
    problems: list[str] = []
    is_chained, before = True, ""
    for number, line in enumerate(_lines(path, problems), 1):
        try:
            run = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            problems.append(f"line {number} is no run: torn, or written by something else")
            before = link(line)
            continue
        if run.prev != before:
            problems.append(f"line {number} does not follow the line before it: something was changed")
            is_chained = False
        before = link(line)
        if run.task_id == task_id:
            key = (run.session, run.tool_use_id) if run.session and run.tool_use_id else number
            uses.setdefault(key, run)
    return Kept(tuple(uses.values()), tuple(problems), is_chained)


def _lines(path: str, problems: list[str]) -> Iterator[bytes]:
    """The lines of a journal. What is no plain file, or too large, is said and not read."""
    try:
        opened = open_plain(path)
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(f"{path} cannot be read: {error.strerror}")
        return
    with opened as file:
        if size(file) > 2 * MAX_FILE:
            problems.append(f"{path} has {size(file)} bytes, and is not read")
            return
        if size(file) > MAX_FILE:
            problems.append("it is full: what was run since is not in it")
        while line := file.readline(2 * MAX_LINE):
            yield line.removesuffix(b"\n")
