"""What measuring needs of the world, each port in a handful of methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Protocol

import msgspec

from remand.domain.gate.gate import Measurement
from remand.domain.record import NamedTuple, Record
from remand.integrity.result_records import ResultRecord

MIB = 1 << 20


class TreeChange(NamedTuple):
    """One file that differs between two trees."""

    status: str
    """A added, M modified, D deleted, R renamed, T another kind of file."""
    path: str
    old_path: str = ""
    """What a renamed file was called before."""
    mode: str = ""
    """git's mode of the file as it is now: 100644, 100755, 120000 (a link), 160000 (a submodule)."""


class TreeReader(Protocol):
    """What trees hold; a tree is named by its id."""

    def changes(self, base_tree: str, tree: str) -> list[TreeChange]:
        """The files that differ between two trees, renames recognised, `.got` left out."""

    def file(self, tree: str, path: str) -> bytes | None:
        """A file's content in a tree; None when it is not there or no plain file."""

    def paths(self, tree: str) -> list[str]:
        """Every file's path in a tree, `.got` left out."""

    def links(self, tree: str) -> Mapping[str, bytes]:
        """The target of every symbolic link in a tree by its path; empty for one that is not read."""


class Mirror(TreeReader, Protocol):
    """Remand's own bare copy of the repository; nothing an agent configures is run in it."""

    def fetch_commit(self, commit: str) -> str:
        """Fetches a commit, checking every object, and returns its code tree; raises EnvironmentFault."""

    def merge_base(self, commit: str, other: str) -> str:
        """The last commit two commits have in common; empty when they have none."""

    def compose(self, tree: str, source: str, paths: Sequence[str]) -> str:
        """A tree like `tree` in which the named paths are as in `source`: absent there, removed."""

    def with_files(self, tree: str, files: Mapping[str, bytes]) -> str:
        """A tree like `tree` in which the named files have this content."""


class Checkouts(Protocol):
    """Folders that hold exactly one tree each, for as long as they are lent."""

    def lend(self, tree: str) -> AbstractContextManager[str]:
        """A writable folder that holds the tree and nothing else; what is written there is gone afterwards."""


class JobLimits(Record, kw_only=True):
    """What a command may use."""

    seconds: float = 600.0
    memory: int = 4096 * MIB
    processes: int = 512
    file_size: int = 1024 * MIB
    output: int = 32 * MIB
    """Bytes of stdout, and of stderr, that are kept: of more, head and tail."""


class Job(Record, kw_only=True):
    """One command to be run where it can do no harm."""

    command: tuple[str, ...]
    folder: str
    """Where it runs; writable, under the same path inside."""
    report: str = ""
    """A writable folder outside the checkout; empty for none."""
    cache: str = ""
    """A prepared folder, readable (writable when `may_write_cache`)."""
    may_write_cache: bool = False
    has_network: bool = False
    """For prepare steps alone."""
    read: tuple[str, ...] = ()
    """Further paths it may read."""
    hide: tuple[str, ...] = ()
    """Paths that are masked: the ledger, keys, sockets, other worktrees."""
    path: tuple[str, ...] = ()
    """Folders in which its programs are found, as PATH."""
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
    """True when more was written than was kept."""
    seconds: float = 0.0
    detail: str = ""
    """Why it did not start, or which limit it ran into."""


class Sandbox(Protocol):
    """Runs commands apart from everything else; when run() returns, nothing of the job lives on."""

    @property
    def tier(self) -> str:
        """What holds: `bubblewrap`, `landlock` or `plain`."""

    def run(self, job: Job) -> JobResult:
        """Runs a job to its end. Called from several threads at once."""


class AttackResult(NamedTuple):
    """One attack on a sandbox, and whether it was blocked."""

    name: str
    held: bool
    detail: str
    excuse: str = ""
    """What this machine lacks for it to be blocked."""


class SandboxReport(NamedTuple):
    """Which sandbox is used here, why no better one is, and how it fares under attack."""

    tier: str
    detail: str
    attacks: tuple[AttackResult, ...]

    @property
    def breaches(self) -> tuple[AttackResult, ...]:
        """The attacks that got through although they should not."""
        return tuple(attack for attack in self.attacks if not (attack.held or attack.excuse))


class ToolOutput(NamedTuple):
    """What a parser gets to read."""

    status: int
    output: bytes = b""
    errors: bytes = b""
    report: bytes | None = None
    """The content of the report file; None when the command left none."""
    root: str = ""
    """Where the checkout was, so that paths can be made relative."""
    is_cut: bool = False


class ParseReport(Protocol):
    """Reads the report of a tool; raises `UnreadableReport` when it is none of that tool."""

    def __call__(self, ran: ToolOutput) -> Measurement:
        """The figures, findings and tests of one run."""


class ResultCache(Protocol):
    """Measurements and verdicts that need not be made again."""

    def get(self, key: str) -> bytes | None:
        """What was kept under a key."""

    def put(self, key: str, value: bytes) -> None:
        """Keeps something under a key."""


class Tools(Protocol):
    """The programs gates run."""

    def digest(self, commands: Sequence[Sequence[str]], path: Sequence[str]) -> str:
        """Changes when one of the commands' programs does."""


class Programs(Tools, Protocol):
    """The same, and where they are."""

    def missing_program(self, command: Sequence[str], path: Sequence[str]) -> str:
        """The program of a command that is nowhere to be found; empty if it exists, or only known later."""

    def standard_path(self) -> tuple[str, ...]:
        """Where programs are looked for when the configuration does not say."""

    def note_user(self, environment: Mapping[str, str], root: str) -> None:
        """Notes the PATH and the registry settings of the user, whose environment this is; nothing below `root` counts."""


class RegistrySettings(NamedTuple):
    """How the user reaches package registries: what a prepare step is given of it, and no gate."""

    environment: Mapping[str, str] = MappingProxyType({})
    read: tuple[str, ...] = ()
    """Folders of certificates and packages."""


class RegistryAccess(Protocol):
    """Gives prepare steps the user's certificates, proxies and registries, as `remand init` noted them."""

    def __call__(self, folder: str, *, has_secrets: bool) -> RegistrySettings:
        """The settings, with copies of files in that folder; without secrets, no password or token is in any of it."""


class GateProgress(Protocol):
    """Is told what takes its time while gates are measured; called from several threads at once."""

    def __call__(self, name: str, step: str, seconds: float | None = None) -> None:
        """A gate has begun a step (`prepare`, `run`), or has ended it after so many seconds."""


def ignore_progress(name: str, step: str, seconds: float | None = None) -> None:
    """For callers whom nobody watches."""


def no_registry_settings(folder: str, *, has_secrets: bool) -> RegistrySettings:  # noqa: ARG001 - as the port is called
    """For places where the user has set nothing."""
    return RegistrySettings()


class StopRecords(Protocol):
    """Which calls of hooks are about one stop, and which stop was told to wait."""

    def occurrence(self, task_id: str, firing: str, host: str) -> int:
        """The how-manieth stop this is of those that look alike. One may fire the hooks of two hosts."""

    def note_answer(self, task_id: str, firing: str) -> None:
        """Notes that such a stop was answered just now."""

    def note_waiting(self, task_id: str, session: str, key: str) -> None:
        """Notes that a stop was told to wait for its gates: whoever stops next gets the answer to it."""

    def awaited_key(self, task_id: str, session: str, key: str) -> str:
        """The key under which a stop is answered: its own, or that of the one before it that was told to wait."""


class SessionRecords(StopRecords, Protocol):
    """What is remembered of host sessions."""

    def count(self, task_id: str, session: str, key: str = "") -> int:
        """One more stop that was sent back, and how many that makes."""

    def is_first(self, kind: str, task_id: str, session: str, key: str) -> bool:
        """True for the first stop of a kind, and whenever that very stop is told again."""

    def is_due(self, kind: str, task_id: str, session: str, seconds: float) -> bool:
        """True when something was last done so long ago that it is to be done again; notes that it now is."""


class BackgroundGateRuns(Protocol):
    """Gate runs that outlast whoever started them."""

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Starts a run, unless one of that name is going on."""

    def wait(self, name: str, seconds: float) -> bool:
        """Waits for a run to end; False when it still continues after that time."""

    def take(self, name: str) -> bytes | None:
        """What a run that has ended said, given out once; None when there is nothing."""


class Reports(Protocol):
    """Report files: those the gates' tools write, and the full ones of verdicts; all outside the repository."""

    def folder(self) -> AbstractContextManager[str]:
        """An empty folder for one run of a tool, gone afterwards."""

    def read(self, path: str) -> bytes | None:
        """What a tool has written there: a plain file of a bearable size, else None."""

    def write(self, name: str, content: str) -> str:
        """Keeps a full report and returns its name; empty when it cannot be kept."""


class ReportParser(NamedTuple):
    """How a tool's words are read, and what is required where the configuration says nothing."""

    parse: ParseReport
    figures: tuple[str, ...]
    defaults: Mapping[str, float]


class ResultWatch(NamedTuple):
    """A run whose results are told as they happen."""

    command: tuple[str, ...]
    """The command to run: the gate's own, with what has its runner tell them."""
    environment: Mapping[str, str]
    """What the command is to be given for that."""
    records: Callable[[], Sequence[ResultRecord]]
    """Everything that was told, asked for once the command has ended."""


class WatchResults(Protocol):
    """Has test runners tell their results through a pipe, apart from the report that they leave behind."""

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
    """For places where reports alone are read."""
    return nullcontext()


class GateEnvironment(NamedTuple):
    """The ports of a place, and what its gates may see."""

    mirror: Mirror
    tree: Callable[[str], str]
    """The code tree of a commit, brought to the mirror once and remembered."""
    checkouts: Checkouts
    sandbox: Sandbox
    parser: Callable[[str], ReportParser | None]
    cache: ResultCache
    tools: Tools
    reports: Reports
    prepared: str
    """The folder in which prepared dependencies are kept."""
    root: str
    """The main worktree, in which relative tool folders lie."""
    path: tuple[str, ...]
    """Folders in which programs are found when the configuration names none."""
    hide: tuple[str, ...] = ()
    """What no gate may see: the ledger, keys, sockets."""
    scripts: str = ""
    """The folder of our own scripts for prepare steps."""
    registry: RegistryAccess = no_registry_settings
    progress: GateProgress = ignore_progress
    watch_results: WatchResults = watch_nothing
