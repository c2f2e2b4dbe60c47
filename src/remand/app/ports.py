"""The ports: what the use cases need from outside, in a few methods each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from remand.domain.access.keys import PublicKey
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.validation.assessment import EvidenceGrade
from remand.ledger.event_tables import FileMark
from remand.ledger.store import LedgerHead


class Commit(NamedTuple):
    """A commit and its code tree: the tree without `.got`."""

    sha: str
    tree: str


class CommitDifference(NamedTuple):
    """The changes of a commit relative to a base."""

    paths: tuple[str, ...]
    patch: str
    """A fingerprint of the changed lines, independent of their position; empty if there are none."""


class Clock(Protocol):
    """The machine's clock."""

    def now(self) -> Instant:
        """The current time."""


class Ids(Protocol):
    """The machine's random source."""

    def hex(self) -> str:
        """Eight random hex digits."""


class Repository(Protocol):
    """The git repository around the ledger."""

    def commit(self, name: str) -> Commit | None:
        """The commit for a name; None if there is none."""

    def branch(self) -> str:
        """The branch checked out in the caller's worktree; empty if there is none."""

    def difference(self, base: str, commit: str) -> CommitDifference | None:
        """The changes of a commit since it left a base; None if that cannot be determined."""

    def has_commit(self, branch: str, commit: str) -> bool | None:
        """Whether a branch contains a commit; None if the branch exists neither locally nor on a remote."""

    def is_ancestor(self, commit: str, of: str) -> bool:
        """True if a commit equals another one or is its ancestor; also false if one of them is unknown."""


class Sources(Protocol):
    """The repository's files at a commit."""

    def commit(self, name: str) -> Commit | None:
        """The commit for a name; None if there is none."""

    def file(self, commit: str, path: str) -> bytes | None:
        """A file's content at a commit; None if it does not exist."""

    def paths(self, commit: str) -> list[str]:
        """Every file's path at a commit."""

    def is_merged(self, commit: str) -> bool:
        """True if a commit is part of the base branch."""

    def merged_commit_text(self, commit: str) -> str:
        """The message and changed paths of a commit on the base branch; empty for any other commit."""


class RejectionChecks(NamedTuple):
    """The result of checking a rejection: grades of evidence and attempts, and which of the named commits are merged."""

    graded: tuple[EvidenceGrade, ...] = ()
    merged: tuple[str, ...] = ()
    attempts: tuple[EvidenceGrade, ...] = ()


class CommandOutcome(NamedTuple):
    """How a command ended, and what it printed."""

    exit_status: int
    output: str
    is_cut: bool = False
    """True if the output was truncated."""


class CommandProbes(Protocol):
    """Reruns the command of a piece of evidence in isolation."""

    def run(self, command: tuple[str, ...], commit: str) -> CommandOutcome | None:
        """The result of the command at a commit; None if it may not or could not run."""


class Pages(Protocol):
    """Fetches URLs from the hosts that the policy allows."""

    def get(self, url: str) -> CommandOutcome | None:
        """The status (0 if there is no response) and text of a URL; None if it may not be fetched."""


class SupportingRun(NamedTuple):
    """A recorded run that supports an attempt."""

    command: str
    exit_status: int | None
    """None if unknown."""
    is_seconded: bool
    """True if the host's own transcript confirms it."""


class Journal(Protocol):
    """The commands that agents ran, as observed by the hooks."""

    def find_supporting_run(self, task_id: str, agent: str, attempt: str) -> SupportingRun | None:
        """A run by the agent on the task that matches a claimed attempt; None if there is none."""


class Commands(Protocol):
    """Runs the user's own commands, such as a director or an adviser."""

    def run(self, command: Sequence[str], given: bytes, seconds: float) -> CommandOutcome | None:
        """The command's result for the given input; None if it could not start or took too long."""


class TrackedFiles(Protocol):
    """The files that git tracks."""

    def file_stamp(self) -> object:
        """Changes when the set of tracked files may have changed."""

    def has(self, path: str) -> bool:
        """True if git tracks the file."""


class SessionMarks(Protocol):
    """The last known position of each session, stored outside the repository."""

    folder: str
    """The folder where they are stored."""

    def raise_to(self, session: str, seq: int, tip: str) -> None:
        """Records that a session was seen up to this position."""

    def all(self) -> dict[str, tuple[int, str]]:
        """The last known number and tip of every session."""

    def close(self) -> None:
        """Closes the open file."""


class SignedClaim(NamedTuple):
    """A signature to check: the public key, the content and the signature."""

    key: bytes
    content: bytes
    signature: bytes


class Keys(Protocol):
    """The machine's key, and verification of others' signatures."""

    def own(self) -> PublicKey | None:
        """The machine's public key; None if it has none yet."""

    def ensure_key(self) -> PublicKey:
        """The machine's public key, created if necessary."""

    def load(self) -> None:
        """Prepares for signing in advance, as the first signature is slow."""

    def sign(self, content: bytes) -> bytes:
        """The machine's signature; creates a key if necessary."""

    def verify(self, claims: Sequence[SignedClaim]) -> list[bool]:
        """For each claim, whether its signature is valid."""


class SharedData(Protocol):
    """Temporary data that all processes of a ledger share by name: browser sessions and packs of commits."""

    def put(
        self, kind: str, name: str, data: bytes, *, owner: str, until: Instant, now: Instant, most: int
    ) -> None:
        """Stores data until a time. An owner may have at most `most` entries: the oldest and all expired ones are removed."""

    def get(self, kind: str, name: str, now: Instant) -> bytes | None:
        """The data under a name; None if there is none or it has expired."""

    def drop(self, kind: str, name: str) -> None:
        """Removes the data under a name."""

    def drop_of_ended_tasks(self, kind: str) -> None:
        """Removes the data of ended tasks."""


class Rewrite(NamedTuple):
    """A changed event file on the base: the commit, the file's name, and its content before and after."""

    commit: str
    name: str
    before: bytes
    after: bytes


class History(Protocol):
    """The history of event files on the base branch, as far as it is known here."""

    def base(self) -> tuple[str, str]:
        """The ref of the base and its tip; empty if there is none."""

    def rewrites(self, since: str, tip: str, archived: Collection[str] = ()) -> list[Rewrite]:
        """Every change of an event file since a commit other than its addition.

        Deleting a file that is archived does not count.
        """

    def files(self, tip: str, without: Collection[str] = ()) -> dict[str, bytes]:
        """The event files at a commit, except those named: name to content."""

    def differing_files(self, tip: str, paths: Collection[str]) -> dict[str, bytes]:
        """The content at a commit of those event files that differ here: path to content."""


class Exchange(Protocol):
    """The event files that git distributes."""

    def path(self, segment: str) -> str:
        """The path of a segment's file, whether or not it exists."""

    def files(self) -> list[FileMark]:
        """All event files."""

    def file_stamp(self) -> tuple[int, ...]:
        """Changes when files are added or removed."""

    def read(self, path: str) -> Iterator[tuple[int, bytes | str]]:
        """A file's numbered lines; a text instead of a line says why it is unreadable."""

    def content(self, path: str) -> bytes:
        """A file's raw bytes; those of a compressed file are compressed."""


class SegmentWriter(Protocol):
    """Writes our own event file, the open segment."""

    def append(self, head: LedgerHead, first: int, lines: Sequence[bytes]) -> LedgerHead:
        """Appends lines, starting with the given event number, to the open segment, or to a new one if it must not grow."""

    def shrink(self, segment: str, size: int) -> None:
        """Removes what a failed change appended."""

    def sync(self, segment: str) -> None:
        """Returns when a segment's content is on disk, whoever wrote it."""

    def close(self) -> None:
        """Closes the open files."""


class Segment(Protocol):
    """The open segment, inspected after a failure."""

    def is_whole(self, head: LedgerHead) -> bool:
        """True if the file matches the head."""

    def surplus(self, head: LedgerHead) -> list[bytes]:
        """Complete lines beyond the head, written by a command that was killed."""

    def stamp_head(self, head: LedgerHead) -> LedgerHead:
        """The head with the file's modification time, after the file was found intact."""

    def has_all(self, head: LedgerHead, lines: Iterable[bytes]) -> bool:
        """True if the file contains all of these lines."""

    def cut_off(self, head: LedgerHead) -> str:
        """Moves everything beyond the head to quarantine: it was never answered, or somebody else wrote it.

        Returns the new path; empty if there was nothing beyond the head.
        """


class Installation(NamedTuple):
    """The files that an installation concerns."""

    hooks: list[str]
    """Files that contain our hooks now."""
    servers: list[str]
    """Files that contain our MCP server now."""
    cleaned: list[str]
    """Tracked files from which entries with machine-specific paths were removed; the user should commit them."""
    shared: list[str]
    """Files with our entries that the project shares; the user should commit them."""


class HookCheck(NamedTuple):
    """Whether a host's hook works, and what to do if it does not."""

    host: str
    ok: bool
    detail: str
    fix: str = ""
