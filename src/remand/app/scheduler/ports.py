"""What the scheduler needs of the world: worktrees, agent processes, and the sockets agents call."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

import msgspec

from remand.app.errors import RemandError
from remand.domain.instant import Instant
from remand.domain.record import Record


class CannotRun(RemandError):  # noqa: N818 - a state of affairs of the system, never an agent's fault
    """A run cannot start or continue because of the system: no space, no repository, no such program."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        """What is wrong, in one word that stays the same: `disk`, `git`, `program`, `sandbox`, `socket`."""


class TaskWorktree(Record, kw_only=True):
    """Where the agent of a task works: a worktree of its own, kept from run to run."""

    task_id: str
    folder: str
    """The linked worktree."""
    branch: str
    """The task's branch, checked out there."""
    common_dir: str
    """The repository's own git folder, which no confined agent sees."""
    private_dir: str = ""
    """What a confined agent sees in its place: refs, objects and settings of its own. Empty: it is not confined."""


class WorktreeState(NamedTuple):
    head: str = ""
    """The commit at the tip of the task's branch, as the worktree has it; empty when there is none."""
    uncommitted: tuple[str, ...] = ()
    """Files outside `.got` that differ from it."""


class TaskWorktrees(Protocol):
    """The worktrees of tasks. Nothing that an agent can configure is run in any of them."""

    def prepare(self, task_id: str, branch: str, start: str, *, is_confined: bool) -> TaskWorktree:
        """A task's worktree, the one it had if it is still there, its uncommitted work kept.

        A branch that is not there begins at the commit `start`. What vanished or cannot be used is made anew, and
        what can be saved of it is. Raises `CannotRun`.
        """

    def inspect(self, worktree: TaskWorktree) -> WorktreeState:
        """What is there now."""

    def import_commits(self, worktree: TaskWorktree) -> str:
        """Takes the commits of a confined agent into the repository's own branch; gives the commit at its tip.

        Commits that the agent took back are kept at `refs/remand/kept/ID`. Raises `CannotRun`.
        """

    def restore_git_links(self, worktree: TaskWorktree) -> None:
        """Puts right, once its agent has gone, what leads git from the folder to the repository. Raises `CannotRun`.

        Whoever uses git there afterwards is to find the repository, and not what the agent put in its place.
        """

    def remove(self, task_id: str, *, is_kept: bool = True) -> None:
        """Takes down the worktree of a task that has ended. Uncommitted work is kept at `refs/remand/kept/ID`."""


class WorktreeCleanup(Protocol):
    """The removal of worktrees that nobody needs any more."""

    def remove(self, task_id: str, *, is_kept: bool = True) -> None:
        """Removes the worktree of a task that has ended. Uncommitted work is kept at `refs/remand/kept/ID`."""

    def names(self) -> list[str]:
        """The tasks that have a worktree now; whatever else lies there is named as well."""

    def remove_others(self, kept: Collection[str]) -> list[str]:
        """Takes down every worktree of other tasks than these, and what a killed scheduler left; gives their ids."""


class Bounds(Record, kw_only=True):
    """What an agent's processes may use and reach."""

    seconds: float = 3600.0
    has_network: bool = True
    read: tuple[str, ...] = ()
    """Further paths it may read."""
    write: tuple[str, ...] = ()
    """Further paths it may write, such as its host's own folder in the user's home."""
    hide: tuple[str, ...] = ()
    """What it may not see: the repository, the ledger, keys, other worktrees."""


class AgentLaunch(Record, kw_only=True):
    """One run of an agent: the command, what it is told, and where."""

    run_id: str
    agent: str
    command: tuple[str, ...]
    prompt: str
    """Given on standard input."""
    worktree: TaskWorktree
    socket: str
    """The socket that is this agent's identity."""
    log: str
    """The file that what it says is written to, head and tail of it when it is long."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    """Besides PATH, HOME and the like."""
    bounds: Bounds = Bounds()
    uncounted: Callable[[], float] = float
    """How many seconds of its time so far do not count: its work was being measured. By default none."""


class RunEnd(NamedTuple):
    """How a run's processes ended."""

    how: str
    """`exited`, `signalled`, `timed_out` or `stopped`."""
    status: int
    """The exit status, or the signal's number."""
    seconds: float
    output: str = ""
    """What it wrote to standard output: head and tail when that was much."""
    errors: str = ""


Wake = Callable[[], None]
"""Tells the scheduler that there is something to look at."""


class RunningAgent(Protocol):
    """The processes of one run."""

    def poll(self) -> RunEnd | None:
        """How they ended; None while they run. Never waits."""

    def notify_end(self, ended: Wake) -> None:
        """Has something told, from whichever thread, as soon as they have ended; at once when they have already."""

    def stop(self) -> None:
        """Asks them to end, and makes them after a while. Does not wait."""


class AgentLauncher(Protocol):
    """Starts agents. Whatever it started ends when this process does, however that ends."""

    @property
    def tier(self) -> str:
        """What holds them: `bubblewrap`, or `plain` where no sandbox is to be had."""

    @property
    def detail(self) -> str:
        """Why it is no better; empty when it is the best there is."""

    def start(self, order: AgentLaunch) -> RunningAgent:
        """Starts a run. Raises `CannotRun`."""


CallResult = tuple[int, bytes, bytes]
"""Exit code, output and errors."""


class AgentCaller(NamedTuple):
    """Whose socket it is: settled when it was opened, and by nothing that is said there."""

    run_id: str
    agent: str
    task_id: str
    worktree: TaskWorktree

    @property
    def is_worker(self) -> bool:
        """True for the agent of the task itself. One that judges has a place of its own, with others' code in it."""
        return self.worktree.task_id == self.task_id


class AgentCall(NamedTuple):
    """One call through an agent socket. All but the caller and the time is the agent's own word."""

    caller: AgentCaller
    at: float
    """When it came, by the monotonic clock."""
    folder: str
    settings: list[str]
    arguments: list[str]
    given: bytes = b""
    """What would have been read from standard input."""


class CallHandler(Protocol):
    """Answers calls, in threads of its own. Should it raise, that call alone has failed."""

    def is_long(self, call: AgentCall) -> bool:
        """True for a call that may take minutes. This itself takes no time."""

    def answer(self, call: AgentCall) -> CallResult:
        """Carries a call out."""

    def leave(self, caller: AgentCaller) -> None:
        """Ends what still goes on for a run whose socket has closed. Called once for each."""


class AgentSockets(Protocol):
    """Sockets through which agents speak. Who speaks through one is settled by which one it is."""

    def open(self, run_id: str, agent: str, task_id: str, worktree: TaskWorktree) -> str:
        """A socket for one run; gives its path. Raises `CannotRun`."""

    def close(self, run_id: str) -> None:
        """Ends it. Calls that are under way are finished."""

    def gate_seconds(self, run_id: str) -> float:
        """How long the calls through it have been measured so far, or have waited for that. Any thread may ask."""

    def end(self) -> None:
        """Ends all of them, and what is still under way behind them."""


MakeAgentSockets = Callable[
    [Callable[[TaskWorktree], str], Callable[[TaskWorktree], WorktreeState]], AgentSockets
]
"""Makes agent sockets, given how commits are imported and how a worktree is inspected."""


class AgentLogs(Protocol):
    """What agents say, kept run by run."""

    def path(self, run_id: str) -> str:
        """The file that what a run says is written to."""

    def last_line(self, run_id: str) -> str:
        """What a run said last, as far as it can be told at a glance; empty when nothing is known."""

    def last_written(self, run_id: str) -> Instant:
        """When a run last said something; empty when it never did."""

    def thin_out(self) -> None:
        """Removes the logs of the oldest runs."""


class StateFile(Protocol):
    """A small file that is replaced whole. Whatever is wrong with it keeps nobody from working."""

    def read(self) -> bytes | None:
        """What stands there; None when there is nothing that can be believed."""

    def write(self, content: bytes) -> bool:
        """Puts something in its place; False when it cannot be written."""


class LaunchConfig(Record, kw_only=True):
    """A command as it is started: with its host's hooks and tools, and what these need."""

    command: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    has_prompt: bool = False
    """What the agent is told stands in the command: nothing is given on standard input."""


class SessionResult(NamedTuple):
    """What a host said of a session when it ended; 0 and empty where it does not tell."""

    text: str = ""
    """The agent's last words."""
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    is_exhausted: bool = False
    """The host ended it in the middle: no more turns."""
    error: str = ""
    """What went wrong, in the host's words."""


class Hosts(Protocol):
    """The programs that agents are: what each needs to be started with, and what each tells at its end."""

    def launch_config(self, command: tuple[str, ...], run_id: str, prompt: str) -> LaunchConfig:
        """The command of a run. Raises `CannotRun`."""

    def parse_result(self, command: tuple[str, ...], output: str, status: int = 0) -> SessionResult:
        """What its output and its exit status tell; never raises."""

    def drop(self, run_id: str) -> None:
        """Takes away what was made for a run."""


class ClaimAnswer(NamedTuple):
    """The answer to a done claim that the scheduler made for an agent."""

    refused: str = ""
    """The refusal's code; empty when the work was handed in."""
    message: str = ""


class ClaimSubmitter(Protocol):
    """Makes done claims and has them measured."""

    def submit(self, worktree: TaskWorktree, agent: str, commit: str) -> ClaimAnswer:
        """Claims that a task is done at a commit, for the agent that holds it. Raises `CannotRun`."""

    def close(self) -> None:
        """Ends what is being measured, and measures nothing more: it is claimed again after the next start."""


class Executor(Protocol):
    """Threads for what takes long."""

    def execute(self, work: Callable[[], None]) -> None:
        """Has it done soon; nothing it raises is lost."""
