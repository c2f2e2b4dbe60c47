"""Solo sessions: whose a change is, what the stop of a session means that holds no task, and what is shown of it."""

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
"""File systems date a change by a clock that lags a little."""
WHOLE_SECOND = 1.0
"""Git notes when a branch moved by whole seconds."""
MAX_NAMED = 5


class SoloMeaning(StrEnum):
    """What the stop of a solo session is taken for."""

    SILENT = "silent"
    """The session ends without a word."""
    HINT = "hint"
    """There is no gate; the user is told so once."""
    MEASURE = "measure"
    """The gates have to be run before there is an answer."""
    SEND_BACK = "send_back"
    SHOW = "show"
    """The session ends, and the user is shown what was found."""


class SoloResult(NamedTuple):
    """What the gates said of a session's tree."""

    tree: str
    status: GateStatus
    is_own: bool = True
    """False when a failure does not involve what this session has changed."""
    is_told: bool = False
    """The session, or the user, has been told of it."""


class SoloStop(NamedTuple):
    """A stop of a solo session, as far as its meaning depends on it."""

    tree: str
    """The working tree as it is."""
    start_tree: str
    touched: tuple[str, ...] = ()
    """What this session itself has changed since its start."""
    policy: GatePolicy = GatePolicy()
    result: SoloResult | None = None
    """What was measured last in this session."""
    blocks: int = 0
    """How often it was sent back since the user's last prompt."""
    most_blocks: int = 3
    is_excused: bool = False
    """A question, a plan, an interrupt, a sub-agent, work in the background, or switched off: nobody is sent back."""
    has_hinted: bool = False


def solo_stop_meaning(stop: SoloStop) -> SoloMeaning:
    """What a stop means: silence, a measurement, or its result for the agent or the user."""
    if stop.is_excused or stop.tree == stop.start_tree or not stop.touched:
        return SoloMeaning.SILENT
    if not stop.policy.gates:
        return SoloMeaning.SILENT if stop.has_hinted else SoloMeaning.HINT
    if not touches_gates(stop.policy, stop.touched):
        return SoloMeaning.SILENT
    result = stop.result
    if result is None or result.tree != stop.tree:
        return SoloMeaning.MEASURE
    if result.is_told or result.status in (GateStatus.PASSED, GateStatus.OVERRIDDEN):
        return SoloMeaning.SILENT
    may_block = result.status is GateStatus.FAILED and result.is_own and stop.policy.enforce
    return SoloMeaning.SEND_BACK if may_block and stop.blocks < stop.most_blocks else SoloMeaning.SHOW


def touches_gates(policy: GatePolicy, paths: Iterable[str]) -> bool:
    """True when one of the files is one that a gate is about; a gate without patterns is about all of them."""
    patterns = [[PathPattern(text) for text in gate.paths] for gate in policy.gates or ()]
    changed = list(paths)
    return any(
        not own or any(one.matches(path) for one in own for path in changed) for own in patterns if changed
    )


# ------------------------------------------------------------------------------------------ whose a change is


class TimeSpan(NamedTuple):
    """From when to when something ran, in seconds."""

    begin: float
    end: float

    def has(self, moment: float, slack: float = SLACK_SECONDS) -> bool:
        """True when it ran then; clocks that are coarser than ours lag behind, and never ahead."""
        return self.begin - slack <= moment <= self.end


class SessionTrace(NamedTuple):
    """What the hooks have seen a session do."""

    paths: frozenset[str] = frozenset()
    """The files that its tools named when they wrote."""
    commands: tuple[TimeSpan, ...] = ()
    """When its commands ran, which may write anything."""
    turns: tuple[TimeSpan, ...] = ()
    """From each prompt to the stop after it."""

    def is_active(self, moment: float, slack: float = SLACK_SECONDS) -> bool:
        """True when the session was at it then. One whose host tells of no tool is taken to be so in all of its turns."""
        spans = self.commands if self.paths or self.commands else self.turns
        return any(span.has(moment, slack) for span in spans)


class TouchedFile(NamedTuple):
    """A file that is not as it was at the start, and when that came about."""

    path: str
    moment: float


def own_paths(
    changed: Iterable[TouchedFile], own: SessionTrace, others: Sequence[SessionTrace]
) -> tuple[str, ...]:
    """The files that a session has changed itself: it named them, or they changed while it ran a command.

    What another session named, and what nobody is known to have changed (the user, in an editor), is not its own.
    """
    named = frozenset[str]().union(*(other.paths for other in others))
    return tuple(
        file.path
        for file in changed
        if file.path in own.paths or (file.path not in named and own.is_active(file.moment))
    )


class HeadMove(NamedTuple):
    """One line of git's own record of what was checked out."""

    moment: float
    what: str


def has_foreign_move(moves: Iterable[HeadMove], own: SessionTrace) -> bool:
    """True after a checkout, pull, rebase or reset that the session did not make. A commit changes no file."""
    return any(
        not move.what.startswith("commit") and not own.is_active(move.moment, WHOLE_SECOND) for move in moves
    )


# --------------------------------------------------------------------------------------------------- words


def is_question(text: str) -> bool:
    """True for a message that ends with a question."""
    return text.rstrip(" \t\r\n*_`\"'”’)»").endswith(("?", "？"))


def session_title(prompt: str) -> str:
    """A session's name: its first prompt, without secrets, on one line."""
    return single_line(redact(prompt[:4000]), MAX_TITLE)


OFF = "Remand measures this session. To switch that off: `remand solo off`, or for a while: `remand solo off --for 2h`."
NO_GATES = (
    "Remand found no gates in this repository, so this session is not measured. Add one to remand.toml, for example "
    '`[gates.tests]` with `command = ["python", "-m", "pytest", "-q", "--junitxml={report}"]` and `parser = "junit"`, '
    "or run `remand solo off`."
)


def partly_measured(left_out: Sequence[str]) -> str:
    """What is said of files that no snapshot has; empty when there are none."""
    if not left_out:
        return ""
    more = f", and {len(left_out) - MAX_NAMED} more" if len(left_out) > MAX_NAMED else ""
    names = ", ".join(single_line(name) for name in left_out[:MAX_NAMED])
    return f"Partly measured: without {names}{more}."


def agent_text(verdict: Verdict, number: int, before: Verdict | None, left_out: Sequence[str]) -> str:
    """What an agent reads that is sent back."""
    return message.render_session_rejection(verdict, number, before, partly_measured(left_out))


def user_text(verdict: Verdict, left_out: Sequence[str], *, is_own: bool, foreign: Sequence[str] = ()) -> str:
    """What the user is shown when a session ends with something found."""
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
