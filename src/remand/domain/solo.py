"""Solo sessions, which hold no task: which changes are their own, what a stop means, and the messages about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from remand.domain.gate import message
from remand.domain.gate.gate import GatePolicy
from remand.domain.gate.verdict import GateStatus, Verdict
from remand.domain.record import NamedTuple
from remand.domain.text.path_patterns import PathPattern
from remand.domain.text.redaction import redact
from remand.domain.text.words import single_line

MAX_TITLE = 80
SLACK_SECONDS = 0.05
"""The clock that stamps files may be this much behind."""
MAX_NAMED = 5
MAX_ERRORS = 600


class SoloMeaning(StrEnum):
    """The meaning of a stop of a solo session."""

    SILENT = "silent"
    """The session ends without a message."""
    HINT = "hint"
    """There is no gate; the user is told that once."""
    MEASURE = "measure"
    """The gates must run first."""
    SEND_BACK = "send_back"
    SHOW = "show"
    """The session ends, and the user sees the findings."""


class SoloResult(NamedTuple):
    """The gates' result for a session's tree."""

    tree: str
    status: GateStatus
    is_own: bool = True
    """False if a failure does not involve the changes of this session."""
    is_reported: bool = False
    """True if it was sent to the agent."""
    is_shown: bool = False
    """True if it was shown to the user."""


class SoloStop(NamedTuple):
    """The facts about a stop on which its meaning depends."""

    tree: str
    """The current working tree."""
    start_tree: str
    touched: tuple[str, ...] = ()
    """The files that this session itself has changed since its start."""
    policy: GatePolicy = GatePolicy()
    result: SoloResult | None = None
    """The last measurement of this session."""
    blocks: int = 0
    """How many times it was sent back since the user's last prompt."""
    most_blocks: int = 3
    is_excused: bool = False
    """True for a plan, an interrupt, a sub-agent or background work: the turn is not over."""
    is_question: bool = False
    """True if the turn ends with a question: the user sees the findings, and the agent is not sent back."""
    has_hinted: bool = False


def solo_stop_meaning(stop: SoloStop) -> SoloMeaning:
    """The meaning of a stop: no message, a measurement, or its result for the agent or the user."""
    if stop.is_excused or stop.tree == stop.start_tree or not stop.touched:
        return SoloMeaning.SILENT
    if not stop.policy.gates:
        return SoloMeaning.SILENT if stop.has_hinted else SoloMeaning.HINT
    if not touches_gates(stop.policy, stop.touched):
        return SoloMeaning.SILENT
    result = stop.result
    if result is None or result.tree != stop.tree:
        return SoloMeaning.MEASURE
    if result.status in (GateStatus.PASSED, GateStatus.OVERRIDDEN):
        return SoloMeaning.SILENT
    is_agents = result.status is GateStatus.FAILED and result.is_own and stop.policy.enforce
    may_block = not stop.is_question and not result.is_reported and stop.blocks < stop.most_blocks
    if is_agents and may_block:
        return SoloMeaning.SEND_BACK
    return SoloMeaning.SILENT if result.is_shown else SoloMeaning.SHOW


def touches_gates(policy: GatePolicy, paths: Iterable[str]) -> bool:
    """True if a gate covers one of the files; a gate without patterns covers all."""
    patterns = [[PathPattern(text) for text in gate.paths] for gate in policy.gates or ()]
    changed = list(paths)
    return any(
        not own or any(one.matches(path) for one in own for path in changed) for own in patterns if changed
    )


# ------------------------------------------------------------------------------------------ whose a change is


class TimeSpan(NamedTuple):
    """The time from the begin to the end of something, in seconds."""

    begin: float
    end: float

    def has(self, moment: float) -> bool:
        """True if a time is within it; coarser clocks than ours may be behind, but never ahead."""
        return self.begin - SLACK_SECONDS <= moment <= self.end


class SessionTrace(NamedTuple):
    """The activity of a session as the hooks saw it."""

    paths: frozenset[str] = frozenset()
    """The files that its writing tools named."""
    commands: tuple[TimeSpan, ...] = ()
    """When its commands ran, which may write any file."""
    turns: tuple[TimeSpan, ...] = ()
    """The turns: from each prompt to the next stop."""
    after_commands: tuple[TimeSpan, ...] = ()
    """From the first command of each turn to the end of the turn: background processes of a command may write during it."""
    writes: tuple[TimeSpan, ...] = ()
    """When its tools wrote the files that they named."""
    is_running: bool = False
    """True if a command began and no hook reported its end."""
    has_run_in_turn: bool = False
    """True if it ran a command in the current turn."""

    def is_active(self, moment: float) -> bool:
        """True if the session was active at a time. If its host reports no tools, it counts as active in all of its turns."""
        spans = self.turns if self.is_without_tools else self.commands
        return any(span.has(moment) for span in spans)

    @property
    def is_without_tools(self) -> bool:
        """True if its host has reported no tool."""
        return not self.paths and not self.commands

    def may_have_written(self, file: TouchedFile) -> bool:
        """True when a file may be the work of a process that a command left behind, or was removed by one unseen.

        The folder of a file that is gone tells when it went, and only of the last change: a tool's write hides it.
        """
        if any(span.has(file.moment) for span in self.after_commands):
            return True
        return file.is_gone and any(
            write.has(file.moment) and any(command.begin <= write.begin for command in self.commands)
            for write in self.writes
        )


class TouchedFile(NamedTuple):
    """A file that differs from its state at the start, and when it changed."""

    path: str
    moment: float
    is_gone: bool = False


def own_paths(
    changed: Iterable[TouchedFile], own: SessionTrace, others: Sequence[SessionTrace]
) -> tuple[str, ...]:
    """The files that a session has changed itself: it named them, or they changed while it ran a command or after one.

    What another session named, what changed after a command while another session was at it, and what nobody is known
    to have changed (the user, in an editor), is not its own.
    """
    named = frozenset[str]().union(*(other.paths for other in others))

    def is_own(file: TouchedFile) -> bool:
        if file.path in own.paths or file.path in named:
            return file.path in own.paths
        is_others = any(other.is_active(file.moment) for other in others)
        return own.is_active(file.moment) or (not is_others and own.may_have_written(file))

    return tuple(file.path for file in changed if is_own(file))


def has_foreign_move(
    moves: Iterable[str], own: SessionTrace, *, ends_command: bool = False, begins_turn: bool = False
) -> bool:
    """True if git's reflog has a checkout, pull, rebase or reset that the session did not make.

    Whose it is depends on the call that sees the record grown, and never on the dates in it, which a session can choose.
    A commit changes no file.
    """
    is_at_it = own.has_run_in_turn or own.is_without_tools
    if ends_command or own.is_running or (is_at_it and not begins_turn):
        return False
    return any(not what.startswith("commit") for what in moves)


class _TraceReader:
    """Builds a session's trace from its notes in order."""

    def __init__(self, since: float) -> None:
        self._since = since
        self.paths: set[str] = set()
        self.commands: list[TimeSpan] = []
        self.turns: list[TimeSpan] = []
        self.after_commands: list[TimeSpan] = []
        self.writes: list[TimeSpan] = []
        self.open_commands: dict[str, float] = {}
        self._cut_off: dict[str, float] = {}
        self._open_writes: dict[str, float] = {}
        self.first_command = 0.0
        """When the first command of the turn began; 0 before it."""
        self.turn = 0.0
        self._before = 0.0

    def add(self, kind: str, moment: float, value: str) -> None:
        """Adds one note."""
        if kind == "path" and moment >= self._since:
            self._add_path(moment, value)
        elif kind in ("begin", "end"):
            self._add_command(kind, moment, *value.partition(" ")[::2])
        elif kind in ("turn", "resume", "stop"):
            self._end_turn(kind, moment)
        self._before = moment

    def _add_path(self, moment: float, path: str) -> None:
        """Adds a tool's file, which is noted before and after the tool writes."""
        self.paths.add(path)
        begin = self._open_writes.pop(path, None)
        if begin is None:
            self._open_writes[path] = moment
        else:
            self.writes.append(TimeSpan(begin, moment))

    def _add_command(self, kind: str, moment: float, use: str, seconds: str) -> None:
        begin = moment
        if kind == "begin":
            self._cut_off.pop(use, None)
            self.open_commands[use] = moment
        else:
            known = self.open_commands.pop(use, 0.0) or self._cut_off.pop(use, 0.0)
            begin = known or min(self._before or moment, moment - float(seconds or 0))
            self.commands.append(TimeSpan(begin, moment))
        self.first_command = self.first_command or begin

    def _end_turn(self, kind: str, moment: float) -> None:
        """Commands whose end was not reported are taken to end here, unless their end is reported later: a stop may be refused."""
        self.commands += [TimeSpan(begin, moment) for begin in self.open_commands.values()]
        self._cut_off.update((use, begin) for use, begin in self.open_commands.items() if use != "-")
        self.open_commands.clear()
        self._open_writes.clear()
        if self.first_command:
            self.after_commands.append(
                TimeSpan(self.first_command, moment if kind == "stop" else self._before)
            )
        if kind == "stop":
            self.turns.append(TimeSpan(self.turn, moment))
        else:
            self.first_command = 0.0
        self.turn = self.turn if kind == "resume" else moment


def read_trace(notes: Iterable[tuple[str, float, str]], now: float, since: float = 0.0) -> SessionTrace:
    """A session's trace from its notes. Named files count from a time on."""
    reader = _TraceReader(since)
    for kind, moment, value in notes:
        reader.add(kind, moment, value)
    running = [TimeSpan(begin, now) for begin in reader.open_commands.values()]
    lasting = [TimeSpan(reader.first_command, now)] if reader.first_command else []
    return SessionTrace(
        paths=frozenset(reader.paths),
        commands=(*reader.commands, *running),
        turns=(*reader.turns, TimeSpan(reader.turn, now)),
        after_commands=(*reader.after_commands, *lasting),
        writes=tuple(reader.writes),
        is_running=bool(running),
        has_run_in_turn=bool(lasting),
    )


# --------------------------------------------------------------------------------------------------- words


def is_question(text: str) -> bool:
    """True for a message that ends with a question."""
    return text.rstrip(" \t\r\n*_`\"'”’)»").endswith(("?", "？"))


def session_title(prompt: str) -> str:
    """A session's title: its first prompt in one line, without secrets."""
    return single_line(redact(prompt[:4000]), MAX_TITLE)


OFF = "Remand measures this session. To switch that off: `remand solo off`, or for a while: `remand solo off --for 2h`."
NO_GATES = (
    "Remand found no gates in this repository, so this session is not measured. Add one to remand.toml, for example "
    '`[gates.tests]` with `command = ["python", "-m", "pytest", "-q", "--junitxml={report}"]` and `parser = "junit"`, '
    "or run `remand solo off`."
)


def lost_run_text(errors: str) -> str:
    """The message about a run that ended without a result: the end of its output."""
    written = redact(errors).strip()[-MAX_ERRORS:].strip()
    output = f"It wrote:\n{written}" if written else "It wrote nothing."
    return f"Remand could not measure this session: the run of its gates ended without a result. {output}"


def partly_measured(left_out: Sequence[str]) -> str:
    """The message about files that are in no snapshot; empty if there are none."""
    if not left_out:
        return ""
    more = f", and {len(left_out) - MAX_NAMED} more" if len(left_out) > MAX_NAMED else ""
    names = ", ".join(single_line(name) for name in left_out[:MAX_NAMED])
    return f"Partly measured: without {names}{more}."


def agent_text(verdict: Verdict, number: int, before: Verdict | None, left_out: Sequence[str]) -> str:
    """The message to an agent that is sent back."""
    return message.render_session_rejection(verdict, number, before, partly_measured(left_out))


def user_text(verdict: Verdict, left_out: Sequence[str], *, is_own: bool, foreign: Sequence[str] = ()) -> str:
    """The message to the user about a session that ends with findings."""
    if verdict.status is GateStatus.FAILED and not is_own:
        names = ", ".join(single_line(name) for name in foreign[:MAX_NAMED])
        more = f" and {len(foreign) - MAX_NAMED} more" if len(foreign) > MAX_NAMED else ""
        head = f"Remand: gates fail, and not by what this session changed. Changed by others: {names}{more}."
    else:
        head = {
            GateStatus.FAILED: "Remand: this session ends with gates that fail.",
            GateStatus.HELD: "Remand: please look at this before you keep it.",
        }.get(verdict.status, "Remand could not measure this session.")
    return "\n\n".join(
        filter(None, (head, message.render_session_figures(verdict), partly_measured(left_out)))
    )
