"""The scheduler's ports (worktrees, agent processes, agent sockets), and its status file, which anybody may read and nobody trusts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol

import msgspec

from remand.app.errors import RemandError
from remand.domain.access.team import Member
from remand.domain.decisions.runs import unstartable_members
from remand.domain.instant import Instant, is_instant
from remand.domain.record import Record


class CannotRun(RemandError):  # noqa: N818 - a state of affairs of the system, never an agent's fault
    """A run cannot start or continue because of the system: no disk space, no repository, a missing program."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        """The cause as a stable word: `disk`, `git`, `program`, `sandbox`, `socket`."""


class TaskWorktree(Record, kw_only=True):
    """The worktree in which a task's agent works, kept from run to run."""

    task_id: str
    folder: str
    """The linked worktree."""
    branch: str
    """The task's branch, checked out there."""
    common_dir: str
    """The repository's git folder, which confined agents do not see."""
    private_dir: str = ""
    """The git folder that a confined agent sees instead, with its own refs, objects and settings. Empty if it is not confined."""


class WorktreeState(NamedTuple):
    head: str = ""
    """The tip of the task's branch in the worktree; empty if there is none."""
    uncommitted: tuple[str, ...] = ()
    """Changed files outside `.got`."""


class TaskWorktrees(Protocol):
    """The worktrees of tasks. No program that an agent can configure runs in any of them."""

    def prepare(self, task_id: str, branch: str, start: str, *, is_confined: bool) -> TaskWorktree:
        """The worktree of a task; an existing one is reused with its uncommitted work.

        A new branch starts at the commit `start`. A worktree that is missing or unusable is recreated, and as much of
        it as possible is saved. Raises `CannotRun`.
        """

    def inspect(self, worktree: TaskWorktree) -> WorktreeState:
        """The current state of a worktree."""

    def import_commits(self, worktree: TaskWorktree) -> str:
        """Imports a confined agent's commits into the repository's branch and returns its tip.

        Commits that the agent removed are kept at `refs/remand/kept/ID`. Raises `CannotRun`.
        """

    def restore_git_links(self, worktree: TaskWorktree) -> None:
        """Restores the worktree's links to the repository after its agent has ended. Raises `CannotRun`.

        Otherwise, later git commands in the folder might use whatever the agent put in place of the repository.
        """

    def remove(self, task_id: str, *, is_kept: bool = True) -> None:
        """Removes the worktree of an ended task. Uncommitted work is kept at `refs/remand/kept/ID`."""


class WorktreeCleanup(Protocol):
    """Removes worktrees that are no longer needed."""

    def remove(self, task_id: str, *, is_kept: bool = True) -> None:
        """Removes the worktree of an ended task. Uncommitted work is kept at `refs/remand/kept/ID`."""

    def names(self) -> list[str]:
        """The ids of tasks that have a worktree, and any other names in the folder."""

    def remove_others(self, kept: Collection[str]) -> list[str]:
        """Removes all worktrees except those of the given tasks, and the remains of killed schedulers; returns their ids."""


class Bounds(Record, kw_only=True):
    """The resources that an agent's processes may use and reach."""

    seconds: float = 3600.0
    has_network: bool = True
    read: tuple[str, ...] = ()
    """Additional readable paths."""
    write: tuple[str, ...] = ()
    """Additional writable paths, such as the host's folder in the user's home."""
    hide: tuple[str, ...] = ()
    """Invisible paths: the repository, the ledger, keys, other worktrees."""


class AgentLaunch(Record, kw_only=True):
    """One run of an agent: its command, prompt and place."""

    run_id: str
    agent: str
    command: tuple[str, ...]
    prompt: str
    """Passed on standard input."""
    worktree: TaskWorktree
    socket: str
    """The socket that identifies this agent."""
    log: str
    """The file that receives the agent's output, only its start and end if it is long."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    """In addition to PATH, HOME and the like."""
    bounds: Bounds = Bounds()
    uncounted: Callable[[], float] = float
    """Seconds so far that do not count as run time, because its work was being measured."""


class RunEnd(NamedTuple):
    """How a run's processes ended."""

    how: str
    """`exited`, `signalled`, `timed_out` or `stopped`."""
    status: int
    """The exit status or signal number."""
    seconds: float
    output: str = ""
    """Its standard output; only start and end if it is long."""
    errors: str = ""


Wake = Callable[[], None]
"""Wakes the scheduler."""


class RunningAgent(Protocol):
    """The processes of one run."""

    def poll(self) -> RunEnd | None:
        """How they ended; None while they run. Does not block."""

    def notify_end(self, ended: Wake) -> None:
        """Calls `ended` from any thread as soon as they have ended; immediately if they already have."""

    def stop(self) -> None:
        """Asks them to end and kills them after a grace period. Does not block."""


class AgentLauncher(Protocol):
    """Starts agents. Everything that it started ends with this process, however that ends."""

    @property
    def tier(self) -> str:
        """The kind of confinement: `bubblewrap`, or `plain` if no sandbox is available."""

    @property
    def detail(self) -> str:
        """Why there is no better confinement; empty if it is the best."""

    def start(self, order: AgentLaunch) -> RunningAgent:
        """Starts a run. Raises `CannotRun`."""


CallResult = tuple[int, bytes, bytes]
"""Exit code, output and errors."""


class AgentCaller(NamedTuple):
    """The owner of a socket, which is fixed when the socket is opened and not by what is sent through it."""

    run_id: str
    agent: str
    task_id: str
    worktree: TaskWorktree

    @property
    def is_worker(self) -> bool:
        """True for the task's own agent. Reviewers and directors have worktrees of their own with others' code."""
        return self.worktree.task_id == self.task_id


class AgentCall(NamedTuple):
    """One call through an agent socket. Everything but the caller and the time is the agent's own word."""

    caller: AgentCaller
    at: float
    """The monotonic time of its arrival."""
    folder: str
    settings: list[str]
    arguments: list[str]
    given: bytes = b""
    """The standard input."""


class CallHandler(Protocol):
    """Answers calls in threads of its own. If it raises, only that call fails."""

    def is_long(self, call: AgentCall) -> bool:
        """True for a call that may take minutes. The check itself is fast."""

    def answer(self, call: AgentCall) -> CallResult:
        """Carries out a call."""

    def leave(self, caller: AgentCaller) -> None:
        """Ends the remaining work of a run whose socket has closed. Called once per run."""


class AgentSockets(Protocol):
    """The sockets of agents. Each socket identifies its agent."""

    def open(self, run_id: str, agent: str, task_id: str, worktree: TaskWorktree) -> str:
        """Opens a socket for a run and returns its path. Raises `CannotRun`."""

    def close(self, run_id: str) -> None:
        """Closes it after its calls in progress have finished."""

    def gate_seconds(self, run_id: str) -> float:
        """How long its calls have been measured, or waited for measurement, so far. Callable from any thread."""

    def end(self) -> None:
        """Closes all sockets and ends their calls in progress."""


MakeAgentSockets = Callable[
    [Callable[[TaskWorktree], str], Callable[[TaskWorktree], WorktreeState]], AgentSockets
]
"""Creates agent sockets, given how to import commits and inspect a worktree."""


class AgentLogs(Protocol):
    """The output of agents, run by run."""

    def path(self, run_id: str) -> str:
        """The file for a run's output."""

    def last_line(self, run_id: str) -> str:
        """The last line of a run's output, as far as it can be read quickly; empty if unknown."""

    def last_written(self, run_id: str) -> Instant:
        """The time of a run's last output; empty if there was none."""

    def thin_out(self) -> None:
        """Removes the logs of the oldest runs."""


class StateFile(Protocol):
    """A small file that is replaced as a whole. Errors with it do not stop the scheduler."""

    def read(self) -> bytes | None:
        """Its content; None if there is none that can be trusted."""

    def write(self, content: bytes) -> bool:
        """Replaces its content; False if it cannot be written."""


class LaunchConfig(Record, kw_only=True):
    """A command as started: with its host's hooks and tools, and what these need."""

    command: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    has_prompt: bool = False
    """Whether the command contains the prompt, so that standard input stays empty."""


class SessionResult(NamedTuple):
    """What a host reported about an ended session; 0 and empty if it reports nothing."""

    text: str = ""
    """The agent's last message."""
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    is_exhausted: bool = False
    """Whether the host ended it prematurely, as it had no turns left."""
    error: str = ""
    """The error as reported by the host."""


class Hosts(Protocol):
    """The agents' host programs: how to start each, and how to read its result."""

    def launch_config(self, command: tuple[str, ...], run_id: str, prompt: str) -> LaunchConfig:
        """The command of a run. Raises `CannotRun`."""

    def parse_result(self, command: tuple[str, ...], output: str, status: int = 0) -> SessionResult:
        """Parses its output and exit status; never raises."""

    def drop(self, run_id: str) -> None:
        """Removes what was created for a run."""


class ClaimAnswer(NamedTuple):
    """The answer to a done claim that the scheduler made for an agent."""

    refused: str = ""
    """The refusal code; empty if the work was submitted."""
    message: str = ""


class ClaimSubmitter(Protocol):
    """Makes done claims, including their measurement."""

    def submit(self, worktree: TaskWorktree, agent: str, commit: str) -> ClaimAnswer:
        """Claims that a task is done at a commit, for the agent that holds it. Raises `CannotRun`."""

    def close(self) -> None:
        """Stops all measurements; the claims are repeated after the next start."""


class Executor(Protocol):
    """Threads for long work."""

    def execute(self, work: Callable[[], None]) -> None:
        """Schedules a function; its exceptions are reported."""


MAX_SIZE = 1 << 20


class BreachStatus(Record, kw_only=True, omit_defaults=False):
    """A fault of the system that prevents starts, as shown to users."""

    cause: str
    """The cause as a stable word."""
    message: str
    since: Instant
    until: Instant = ""
    """When one trial run is permitted."""

    @property
    def member(self) -> str:
        """The only affected member; empty if it affects all users of the program, or everybody."""
        return self.cause.partition(" of ")[2]


class ActiveAgent(Record, kw_only=True, omit_defaults=False):
    """An agent's process that the scheduler has started."""

    run_id: str
    task_id: str
    agent: str
    purpose: str
    started_at: Instant
    last_line: str = ""
    """Its last output."""


class ActiveMeasurement(Record, kw_only=True, omit_defaults=False):
    """A done claim being measured by the scheduler."""

    task_id: str
    agent: str
    started_at: Instant
    commit: str = ""


class SchedulerStatus(Record, kw_only=True, omit_defaults=False):
    """The state of a scheduler."""

    pid: int
    started_at: Instant
    tick_at: Instant
    """When it last looked at the ledger."""
    tier: str = ""
    detail: str = ""
    """Why the confinement is no better."""
    breaker: tuple[BreachStatus, ...] = ()
    waiting: str = ""
    """Why nothing starts; empty if nothing prevents it."""
    forge: str = ""
    """The problem with the forge; empty if there is none."""
    agents: tuple[ActiveAgent, ...] = ()
    gates: tuple[ActiveMeasurement, ...] = ()


def unstartable_by_status(
    status: SchedulerStatus | None, members: Iterable[Member], missing: Collection[str] = ()
) -> dict[str, str]:
    """The members that cannot be started and why, from a running scheduler's status and from missing programs."""
    faults = {breach.cause: breach.message for breach in status.breaker} if status else {}
    return unstartable_members(members, faults, missing)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SchedulerStatus).decode


def encode_status(status: SchedulerStatus) -> bytes:
    """Serialises a status."""
    return _encode(status)


def decode_status(content: bytes) -> SchedulerStatus | None:
    """Parses a status; None if it is truncated, too large or invalid."""
    if len(content) > MAX_SIZE:
        return None
    try:
        status = _decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return status if _is_sound(status) else None


def _is_sound(status: SchedulerStatus) -> bool:
    """True if the process id and all times are valid, as calculations use them."""
    times = [status.started_at, status.tick_at]
    times += [breach.since for breach in status.breaker]
    times += [breach.until for breach in status.breaker if breach.until]
    times += [agent.started_at for agent in status.agents]
    times += [measurement.started_at for measurement in status.gates]
    return 1 < status.pid < 1 << 31 and all(map(is_instant, times))
