"""Sessions that hold no task:

records what they do, and answers their stops with the gates' results for the working tree.
"""

from __future__ import annotations

import os
import sys
import time

from remand.app import hook_calls
from remand.app.hook_calls import HookAnswer, HookCall
from remand.config import NAME, ConfigError, inherited_environment, parse
from remand.domain import solo
from remand.domain.gate.verdict import GateStatus
from remand.domain.solo import SoloMeaning
from remand.interfaces.hook import solo_notes
from remand.wiring import startup
from remand.wiring.startup import LedgerLocation
from remand.wiring.startup import solo_sessions as notes

PAUSED = "paused"
HOSTS_DEAF_AT_PROMPTS = frozenset({"copilot", "cursor"})
"""Hosts that accept no text for the agent with a prompt: the agent gets it with the next tool result."""
MAX_TRANSCRIPT = 1 << 18
RELAY = "Tell the user this, from Remand, about the work so far:\n\n"


def answer(call: HookCall, place: LedgerLocation, deadline: float) -> HookAnswer:
    """The answer to a call of such a session; its first call is its start."""
    session = _SoloHook(call, place)
    if call.event in (hook_calls.PRE_TOOL, *hook_calls.TOOL_RESULT_EVENTS):
        return session.note_tool()
    if call.event in hook_calls.START_EVENTS:
        return session.begin_turn()
    return session.stop(deadline) if call.event == hook_calls.STOP else HookAnswer.allow()


def forget_old(sessions: notes.SoloSessions, store: startup.snapshots.SnapshotStore) -> None:
    """Removes records that were not used for a week, with their snapshots."""
    names = sessions.forget_old()
    store.prune([*names, *(f"{one}-end" for one in names)])


class _SoloHook:
    """One call of a solo session."""

    def __init__(self, call: HookCall, place: LedgerLocation) -> None:
        self._call = call
        self._place = place
        self._folder = startup.folders_of(place).solo
        self._sessions = notes.SoloSessions(self._folder)
        self._runs = startup.background_runs.BackgroundRuns(startup.folders_of(place).gate_runs)

    def note_tool(self) -> HookAnswer:
        """Records which files a tool writes, or when a command starts and ends."""
        record = self._find_or_start()
        solo_notes.note_tool(self._call, self._place, self._sessions, record)
        return (
            self._relay(record) if self._call.event in hook_calls.TOOL_RESULT_EVENTS else HookAnswer.allow()
        )

    def begin_turn(self) -> HookAnswer:
        """A prompt begins a turn: the count of blocks starts again, and pending messages are shown."""
        record = self._find_or_start()
        if self._call.event != hook_calls.PROMPT:
            self._sessions.note(record, "resume")
            return self._relay(record)
        self._sessions.note(record, "turn")
        record.title = record.title or solo.session_title(self._call.prompt)
        record.blocks = 0
        texts, agent = self._sessions.take_notices(record.name), ""
        result = self._last_result(record)
        if record.pending and result.get("tree") == record.pending:
            record.pending = ""
            is_news = result["status"] not in (GateStatus.PASSED, GateStatus.OVERRIDDEN, PAUSED)
            if is_news and record.shown_tree != result["tree"]:
                record.told_tree = record.shown_tree = result["tree"]
                agent = result["agent"]
                texts.append(result["user"])
        notice = self._speak(record, "\n\n".join(texts)) if texts else ""
        self._sessions.save(record)
        if self._call.host in solo_notes.HOSTS_WITHOUT_NOTICES:
            for text in filter(None, (agent, notice)):
                self._sessions.add_notice(record.name, text)
            return self._relay(record) if self._call.host not in HOSTS_DEAF_AT_PROMPTS else HookAnswer.allow()
        return HookAnswer.context(agent, notice) if agent else HookAnswer.allow(notice)

    def _relay(self, record: notes.SoloSession) -> HookAnswer:
        """Asks the agent to pass on messages that its host does not show."""
        is_needed = self._call.host in solo_notes.HOSTS_WITHOUT_NOTICES
        texts = self._sessions.take_notices(record.name) if is_needed else []
        return HookAnswer.context(RELAY + "\n\n".join(texts)) if texts else HookAnswer.allow()

    # -------------------------------------------------------------------------------------------- start

    def _find_or_start(self) -> notes.SoloSession:
        """The session's record. Its first call, and one after a checkout by others, starts it."""
        place = self._call.session, self._place.worktree
        record = self._sessions.find(*place)
        if record is not None and record.head_log == solo_notes.head_log_size(self._place):
            return record
        with self._sessions.hold(*place):
            return self._follow_or_start(self._sessions.find(*place))

    def _follow_or_start(self, record: notes.SoloSession | None) -> notes.SoloSession:
        if record is None:
            record = notes.SoloSession(self._call.session, self._place.worktree, self._call.host)
            record.started = self._sessions.now()
            return self._start(record)
        size = solo_notes.head_log_size(self._place)
        if size != record.head_log:
            moves = self._head_moves(record.head_log)
            record.head_log = size
            tool, event = self._call.tool, self._call.event
            is_foreign = solo.has_foreign_move(
                moves,
                self._trace(record.name),
                ends_command=event in hook_calls.TOOL_RESULT_EVENTS and bool(tool and tool.command),
                begins_turn=event in hook_calls.START_EVENTS,
            )
            if is_foreign:
                return self._start(record)
            self._sessions.save(record)
        return record

    def _start(self, record: notes.SoloSession) -> notes.SoloSession:
        """Takes the current working tree, and the rules in it, as the start."""
        store = self._store
        snapshot = store.take()
        store.keep(record.name, snapshot.commit)
        record.commit = record.last_commit = snapshot.commit
        record.tree = record.last_tree = record.told_tree = snapshot.tree
        record.left_out = snapshot.left_out
        record.config = self._config()
        record.head_log = solo_notes.head_log_size(self._place)
        record.pending = record.attempted = ""
        self._sessions.note(record, "start", self._call.event)
        self._sessions.save(record)
        forget_old(self._sessions, store)
        return record

    @property
    def _store(self) -> startup.snapshots.SnapshotStore:
        return startup.snapshots.SnapshotStore(self._folder, self._place)

    def _config(self) -> str:
        try:
            with open(os.path.join(self._place.root, NAME), encoding="utf-8", errors="replace") as file:
                return file.read(1 << 20)
        except OSError:
            return ""

    def _head_moves(self, begin: int) -> list[str]:
        """The changes of HEAD since then according to git; none if git's record was cut."""
        try:
            with open(solo_notes.head_log(self._place), "rb") as file:
                file.seek(begin)
                lines = file.read(1 << 20).decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return [what for _, tab, what in (line.partition("\t") for line in lines) if tab]

    # --------------------------------------------------------------------------------------------- stop

    def stop(self, deadline: float) -> HookAnswer:
        """The answer to a stop: nothing, the figures for the agent, or the findings for the user."""
        until = time.monotonic() + deadline
        record, call = self._find_or_start(), self._call
        is_excused = (
            bool(call.subagent)
            or call.is_aborted
            or call.is_planning
            or call.has_background_work
            or bool(call.is_broken)
        )
        texts = self._sessions.take_notices(record.name)
        said = HookAnswer.allow() if is_excused else self._judge(record, until)
        self._sessions.note(record, "stop")
        if texts:
            record.has_spoken = True
            said.notice = "\n\n".join(filter(None, [*texts, said.notice]))
        if said.notice and call.host in solo_notes.HOSTS_WITHOUT_NOTICES and not said.is_no:
            self._sessions.add_notice(record.name, said.notice)
        self._sessions.save(record)
        return said

    def _judge(self, record: notes.SoloSession, until: float) -> HookAnswer:
        store = self._store
        snapshot = store.take(startup.snapshots.TreeSnapshot(record.last_commit, record.last_tree))
        record.last_commit, record.last_tree, record.left_out = snapshot
        if snapshot.tree == record.tree:
            return HookAnswer.allow()
        store.keep(f"{record.name}-end", snapshot.commit)
        changed = store.changed_paths(record.commit, snapshot.commit)
        own = self._own_paths(record, changed)
        try:
            settings = parse(record.config)
        except ConfigError as error:
            is_news = self._sessions.is_first(f"config-{record.tree}")
            return HookAnswer.allow(self._speak(record, f"Remand cannot measure: {error}") if is_news else "")
        stop = solo.SoloStop(
            tree=snapshot.tree,
            start_tree=record.tree,
            touched=own,
            policy=settings.gate_policy,
            result=self._result(record),
            blocks=record.blocks,
            most_blocks=settings.policy.solo.blocks,
            is_question=solo.is_question(self._call.last_message or _last_message(self._call.transcript)),
        )
        meaning = solo.solo_stop_meaning(stop)
        if meaning is SoloMeaning.HINT:
            return (
                HookAnswer.allow(solo.NO_GATES) if self._sessions.is_first("no-gates") else HookAnswer.allow()
            )
        if meaning is SoloMeaning.MEASURE:
            foreign = tuple(path for path in changed if path not in own)
            stop = stop._replace(result=self._measure(record, foreign, until))
            meaning = solo.solo_stop_meaning(stop)
        return self._act(record, meaning, is_question=stop.is_question)

    def _act(self, record: notes.SoloSession, meaning: SoloMeaning, *, is_question: bool) -> HookAnswer:
        """Turns the meaning of a stop into an answer."""
        if meaning is SoloMeaning.MEASURE:
            record.pending = record.last_tree
            return HookAnswer.allow()
        record.pending = ""
        if meaning not in (SoloMeaning.SEND_BACK, SoloMeaning.SHOW):
            return HookAnswer.allow()
        result = self._sessions.result(record.name)
        if result["is_own"] == "no":
            self._notify_other_sessions(record, result["user"])
        if not is_question:  # the agent has it to fix when its question is answered
            record.told_tree = record.last_tree
        if meaning is SoloMeaning.SHOW:
            record.shown_tree = record.last_tree
            return HookAnswer.allow(self._speak(record, result["user"]))
        record.blocks += 1
        is_first = not record.has_spoken
        return HookAnswer.block(result["agent"], self._speak(record, "") if is_first else "")

    def _speak(self, record: notes.SoloSession, text: str) -> str:
        """A message to the user; the first of a session says how to switch this off."""
        parts = [text] if record.has_spoken else [text, solo.OFF]
        record.has_spoken = True
        return "\n\n".join(filter(None, parts))

    def _notify_other_sessions(self, record: notes.SoloSession, text: str) -> None:
        """Leaves a message for the other sessions that worked in this worktree since this one began."""
        for name in self._sessions.names(self._place.worktree):
            is_other = name != record.name and any(
                moment >= record.started for _, moment, _ in self._sessions.notes(name)
            )
            if is_other:
                self._sessions.add_notice(name, f"Seen from another session in this folder:\n{text}")

    def _result(self, record: notes.SoloSession) -> solo.SoloResult | None:
        result = self._last_result(record)
        if not result.get("tree"):
            return None
        is_paused = result["status"] == PAUSED
        return solo.SoloResult(
            tree=result["tree"],
            status=GateStatus.PASSED if is_paused else GateStatus(result["status"]),
            is_own=result["is_own"] != "no",
            is_reported=record.told_tree == result["tree"],
            is_shown=record.shown_tree == result["tree"],
        )

    def _measure(
        self, record: notes.SoloSession, foreign: tuple[str, ...], until: float
    ) -> solo.SoloResult | None:
        """Runs the gates in a process that continues if they take longer than the host waits."""
        record.title = record.title or "(a session without a prompt)"
        self._sessions.save(record)
        self._sessions.write_foreign(record.name, foreign)
        module = "remand.interfaces.hook.solo_run"
        command = [sys.executable, "-P", "-m", module, self._place.worktree, record.name]
        for _ in range(2):  # a run for an earlier tree may be going on; then it takes a second one
            if self._runs.start(_run_name(record), command, inherited_environment("REMAND_")):
                record.attempted = record.last_tree
                self._sessions.save(record)
            if not self._runs.wait(_run_name(record), until - time.monotonic()):
                return None
            result = self._result(record)
            if result is not None and result.tree == record.last_tree:
                return result
        return None

    def _last_result(self, record: notes.SoloSession) -> dict[str, str]:
        """The last result. A run that ended without a result counts as not measurable, and is not repeated."""
        result = self._sessions.result(record.name)
        if not record.attempted or result.get("tree") == record.attempted:
            return result
        if self._runs.is_running(_run_name(record)):
            return result
        result = self._sessions.result(record.name)  # it may have ended between the two
        if result.get("tree") == record.attempted:
            return result
        text = solo.lost_run_text(self._runs.errors(_run_name(record)))
        fields = {"tree": record.attempted, "status": GateStatus.ERRORED.value, "is_own": "yes"}
        fields |= {"agent": text, "user": text}
        self._sessions.write_result(record.name, dict(fields))
        return self._sessions.result(record.name)

    # ------------------------------------------------------------------------------------- whose it is

    def _own_paths(self, record: notes.SoloSession, changed: tuple[str, ...]) -> tuple[str, ...]:
        names = self._sessions.names(self._place.worktree)
        others = [self._trace(name, record.started) for name in names if name != record.name]
        files = [self._touched_file(path) for path in changed]
        return solo.own_paths(files, self._trace(record.name), others)

    def _touched_file(self, path: str) -> solo.TouchedFile:
        """When a file was last changed. For a deleted file, its folder's time is used."""
        top = self._place.worktree
        file = whole = os.path.join(top, path)
        while len(whole) >= len(top):
            try:
                return solo.TouchedFile(path, os.lstat(whole).st_ctime, is_gone=whole != file)
            except OSError:
                whole = os.path.dirname(whole)
        return solo.TouchedFile(path, 0.0, is_gone=True)

    def _trace(self, name: str, since: float = 0.0) -> solo.SessionTrace:
        return solo.read_trace(self._sessions.notes(name), self._sessions.now(), since)


def _run_name(record: notes.SoloSession) -> str:
    return f"solo {record.name}"


def _last_message(transcript: str) -> str:
    """The agent's last message from the transcript, for hosts that do not report it with a stop; empty if it cannot be read."""
    try:
        with open(transcript, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_TRANSCRIPT))
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return ""
    for line in reversed(lines):
        row = hook_calls.parse(line)
        if row.text("type").startswith("user"):
            return ""
        if row.text("type").startswith("assistant"):
            text = row.part("data").text("content") or row.part("message").text("content")
            if text:
                return text
    return ""
