"""The ports of the gates: what measuring needs from outside, in a few methods each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Protocol

import msgspec

from remand.domain.gate.gate import Measurement
from remand.domain.record import NamedTuple, Record
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from remand.integrity.result_records import ResultRecord

MIB = 1 << 20


class TreeChange(NamedTuple):
    """One file that differs between two trees."""

    status: str
    """`A` added, `M` modified, `D` deleted, `R` renamed, `T` changed in type."""
    path: str
    old_path: str = ""
    """The former path of a renamed file."""
    mode: str = ""
    """The file's present mode in git: 100644, 100755, 120000 (a link), 160000 (a submodule)."""


class TreeReader(Protocol):
    """Reads trees; a tree is named by its id."""

    def changes(self, base_tree: str, tree: str) -> list[TreeChange]:
        """The files that differ between two trees, with renames, without `.got`."""

    def file(self, tree: str, path: str) -> bytes | None:
        """A file's content in a tree; None if it is missing or not a plain file."""

    def paths(self, tree: str) -> list[str]:
        """Every file's path in a tree, without `.got`."""

    def links(self, tree: str) -> Mapping[str, bytes]:
        """The target of every symbolic link in a tree, by its path; empty if it was not read."""


class Mirror(TreeReader, Protocol):
    """Remand's own bare copy of the repository; nothing that an agent configures runs in it."""

    def fetch_commit(self, commit: str) -> str:
        """Fetches a commit, checking every object, and returns its code tree; raises EnvironmentFault."""

    def merge_base(self, commit: str, other: str) -> str:
        """The best common ancestor of two commits; empty if there is none."""

    def compose(self, tree: str, source: str, paths: Sequence[str]) -> str:
        """A tree like `tree` with the named paths taken from `source`; paths that it lacks are removed."""

    def with_files(self, tree: str, files: Mapping[str, bytes]) -> str:
        """A tree like `tree` with this content of the named files."""


class Checkouts(Protocol):
    """Folders that contain exactly one tree each while they are lent."""

    def lend(self, tree: str) -> AbstractContextManager[str]:
        """A writable folder that contains only the tree; what is written there is discarded afterwards."""


class JobLimits(Record, kw_only=True):
    """The resources that a command may use."""

    seconds: float = 600.0
    memory: int = 4096 * MIB
    processes: int = 512
    file_size: int = 1024 * MIB
    output: int = 32 * MIB
    """How many bytes of stdout and of stderr are kept; of longer output, the beginning and the end."""


class Job(Record, kw_only=True):
    """One command to run in a sandbox."""

    command: tuple[str, ...]
    folder: str
    """Its working folder; writable, with the same path inside the sandbox."""
    report: str = ""
    """A writable folder outside the checkout; empty for none."""
    cache: str = ""
    """A prepared folder, readable (writable when `may_write_cache`)."""
    may_write_cache: bool = False
    has_network: bool = False
    """Only for prepare steps."""
    read: tuple[str, ...] = ()
    """Further paths it may read."""
    hide: tuple[str, ...] = ()
    """Paths that are masked: the ledger, keys, sockets, other worktrees."""
    path: tuple[str, ...] = ()
    """The folders of its programs, as in PATH."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    """The whole environment besides PATH, HOME and the like, which the sandbox sets."""
    limits: JobLimits = JobLimits()


class JobResult(NamedTuple):
    """How a job ended."""

    how: str
    """`exited`, `signalled`, `timed_out` or `not_started`."""
    status: int
    """The exit status, or the signal's number."""
    output: bytes = b""
    errors: bytes = b""
    is_cut: bool = False
    """True if some output was not kept."""
    seconds: float = 0.0
    detail: str = ""
    """Why it did not start, or which limit it ran into."""


class Sandbox(Protocol):
    """Runs commands in isolation; when `run` returns, no process of the job is left."""

    @property
    def tier(self) -> str:
        """The kind of isolation: `bubblewrap`, `landlock` or `plain`."""

    def run(self, job: Job) -> JobResult:
        """Runs a job to its end. May be called from several threads at once."""


class AttackResult(NamedTuple):
    """One attack on a sandbox, and whether it was blocked."""

    name: str
    held: bool
    detail: str
    excuse: str = ""
    """What this machine lacks to block it."""


class SandboxReport(NamedTuple):
    """The sandbox in use, why no better one is, and the results of the attacks on it."""

    tier: str
    detail: str
    attacks: tuple[AttackResult, ...]

    @property
    def breaches(self) -> tuple[AttackResult, ...]:
        """The attacks that succeeded and should not have."""
        return tuple(attack for attack in self.attacks if not (attack.held or attack.excuse))


class ToolOutput(NamedTuple):
    """The output of a tool, for its parser."""

    status: int
    output: bytes = b""
    errors: bytes = b""
    report: bytes | None = None
    """The content of the report file; None if the command wrote none."""
    root: str = ""
    """The folder of the checkout, for making paths relative."""
    is_cut: bool = False


class ParseReport(Protocol):
    """Reads the report of a tool; raises `UnreadableReport` if it is not a report of that tool."""

    def __call__(self, ran: ToolOutput) -> Measurement:
        """The figures, findings and tests of one run."""


class ResultCache(Protocol):
    """Stored measurements and verdicts."""

    def get(self, key: str) -> bytes | None:
        """The value stored under a key."""

    def put(self, key: str, value: bytes) -> None:
        """Stores a value under a key."""


class Tools(Protocol):
    """The programs that gates run."""

    def digest(self, commands: Sequence[Sequence[str]], path: Sequence[str]) -> str:
        """A value that changes with the programs of the commands."""


class Programs(Tools, Protocol):
    """The same, and how to find them."""

    def missing_program(self, command: Sequence[str], path: Sequence[str]) -> str:
        """The program of a command if it is missing; empty if it exists, or if that is only known later."""

    def standard_path(self) -> tuple[str, ...]:
        """The folders in which programs are searched if the configuration names none."""

    def note_user(self, environment: Mapping[str, str], root: str) -> None:
        """Stores the PATH and the registry settings of the user, from this environment; folders below `root` are left out."""


class RegistrySettings(NamedTuple):
    """The user's settings for package registries, which prepare steps get and gates do not."""

    environment: Mapping[str, str] = MappingProxyType({})
    read: tuple[str, ...] = ()
    """Folders of certificates and packages."""


class RegistryAccess(Protocol):
    """Gives prepare steps the user's certificates, proxies and registries, as `remand init` stored them."""

    def __call__(self, folder: str, *, has_secrets: bool) -> RegistrySettings:
        """The settings, with copies of files in that folder; without secrets, they contain no password or token."""


class GateProgress(Protocol):
    """Receives the progress of gates; called from several threads at once."""

    def __call__(self, name: str, step: str, seconds: float | None = None) -> None:
        """A gate has begun a step (`prepare`, `run`), or has ended it after this many seconds."""


def ignore_progress(name: str, step: str, seconds: float | None = None) -> None:
    """For callers that show no progress."""


def no_registry_settings(folder: str, *, has_secrets: bool) -> RegistrySettings:  # noqa: ARG001 - as the port is called
    """For machines without such settings."""
    return RegistrySettings()


class StopRecords(Protocol):
    """Records which hook calls concern the same stop, and which stop was told to wait."""

    def occurrence(self, task_id: str, firing: str, host: str) -> int:
        """The number of this stop among those that look alike. One stop may fire the hooks of two hosts."""

    def note_answer(self, task_id: str, firing: str) -> None:
        """Records that such a stop was just answered."""

    def note_waiting(self, task_id: str, session: str, key: str) -> None:
        """Records that a stop was told to wait for its gates: the next stop gets its answer."""

    def awaited_key(self, task_id: str, session: str, key: str) -> str:
        """The key under which a stop is answered: its own, or that of the previous stop if that was told to wait."""


class SessionRecords(StopRecords, Protocol):
    """Records about host sessions."""

    def count(self, task_id: str, session: str, key: str = "") -> int:
        """Counts a stop that was sent back; returns the number of them."""

    def is_first(self, kind: str, task_id: str, session: str, key: str) -> bool:
        """True for the first stop of a kind, also if the same stop is reported again."""

    def is_due(self, kind: str, task_id: str, session: str, seconds: float) -> bool:
        """True if something was last done this long ago or never; records that it is done now."""


class BackgroundGateRuns(Protocol):
    """Gate runs that outlive the process that started them."""

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Starts a run, unless one of that name is in progress."""

    def wait(self, name: str, seconds: float) -> bool:
        """Waits for a run to end; False if it has not ended after that time."""

    def take(self, name: str) -> bytes | None:
        """The output of an ended run, returned once; None if there is none."""


class Reports(Protocol):
    """Report files outside the repository: those that gates' tools write, and the full reports of verdicts."""

    def folder(self) -> AbstractContextManager[str]:
        """An empty folder for one run of a tool, removed afterwards."""

    def read(self, path: str) -> bytes | None:
        """The content that a tool wrote there; None if it is not a plain file of acceptable size."""

    def write(self, name: str, content: str) -> str:
        """Stores a full report and returns its name; empty if that fails."""


class ReportParser(NamedTuple):
    """How a tool's output is read, and the thresholds that apply if the configuration names none."""

    parse: ParseReport
    figures: tuple[str, ...]
    defaults: Mapping[str, float]


class ResultWatch(NamedTuple):
    """A run whose runner reports each result as it happens."""

    command: tuple[str, ...]
    """The command to run: the gate's own, with the options that make its runner report them."""
    environment: Mapping[str, str]
    """The variables that the command needs for that."""
    records: Callable[[], Sequence[ResultRecord]]
    """Returns all reported results, after the command has ended."""


class WatchResults(Protocol):
    """Makes test runners report their results through a pipe, besides the report file that they write."""

    def __call__(
        self, command: Sequence[str], folder: str, files: Sequence[str] = ()
    ) -> AbstractContextManager[ResultWatch | None]:
        """Watches a run of a command, with what that needs in a folder the command may write to; None: it cannot.

        Of named files of tests the others are left out, where the runner can do that.
        """


def watch_nothing(
    command: Sequence[str],  # noqa: ARG001 - as the port is called
    folder: str,  # noqa: ARG001
    files: Sequence[str] = (),  # noqa: ARG001
) -> AbstractContextManager[ResultWatch | None]:
    """For callers that read only reports."""
    return nullcontext()


class GateEnvironment(NamedTuple):
    """The ports for measuring a ledger's gates, and the files that its gates may see."""

    mirror: Mirror
    tree: Callable[[str], str]
    """Returns the code tree of a commit, which is fetched into the mirror once."""
    checkouts: Checkouts
    sandbox: Sandbox
    parser: Callable[[str], ReportParser | None]
    cache: ResultCache
    tools: Tools
    reports: Reports
    prepared: str
    """The folder of prepared dependencies."""
    root: str
    """The main worktree, to which tool folders are relative."""
    path: tuple[str, ...]
    """The folders of programs if the configuration names none."""
    hide: tuple[str, ...] = ()
    """Paths that no gate may see: the ledger, keys, sockets."""
    scripts: str = ""
    """The folder of our own scripts for prepare steps."""
    registry: RegistryAccess = no_registry_settings
    progress: GateProgress = ignore_progress
    watch_results: WatchResults = watch_nothing
