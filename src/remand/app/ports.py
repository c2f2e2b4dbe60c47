"""What the use cases ask of the world, each port in a handful of methods."""

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
    """What a commit changes since a base."""

    paths: tuple[str, ...]
    patch: str
    """A fingerprint of the changed lines, the same wherever they stand; empty when there are none."""


class Clock(Protocol):
    """The machine's clock."""

    def now(self) -> Instant:
        """What time it is."""


class Ids(Protocol):
    """The machine's random source."""

    def hex(self) -> str:
        """Eight random hex digits."""


class Repository(Protocol):
    """The git repository around the ledger."""

    def commit(self, name: str) -> Commit | None:
        """The commit behind a name; None when there is none."""

    def branch(self) -> str:
        """The branch checked out where we were called; empty when there is none."""

    def difference(self, base: str, commit: str) -> CommitDifference | None:
        """What a commit changes since it left a base; None when that cannot be told."""

    def has_commit(self, branch: str, commit: str) -> bool | None:
        """Whether a branch has a commit in its history; None when there is no such branch here, nor of a remote."""

    def is_ancestor(self, commit: str, of: str) -> bool:
        """True when a commit is another one, or in its history; false as well when one of them is not here."""


class Sources(Protocol):
    """The files of the repository as they are at a commit."""

    def commit(self, name: str) -> Commit | None:
        """The commit behind a name; None when there is none."""

    def file(self, commit: str, path: str) -> bytes | None:
        """A file's content at a commit; None when it is not there."""

    def paths(self, commit: str) -> list[str]:
        """Every file's path at a commit."""

    def is_merged(self, commit: str) -> bool:
        """True when a commit is part of the base branch."""

    def merged_commit_text(self, commit: str) -> str:
        """What a commit of the base branch says, and the paths it changes; empty for any other commit."""


class RejectionChecks(NamedTuple):
    """What the world says of a rejection: how evidence and attempts fare, and which commits it names are merged."""

    graded: tuple[EvidenceGrade, ...] = ()
    merged: tuple[str, ...] = ()
    attempts: tuple[EvidenceGrade, ...] = ()


class CommandOutcome(NamedTuple):
    """How a command ended, and what it printed."""

    exit_status: int
    output: str
    is_cut: bool = False
    """True when it printed more than is kept."""


class CommandProbes(Protocol):
    """Runs the command of a piece of evidence again, where nothing can come to harm."""

    def run(self, command: tuple[str, ...], commit: str) -> CommandOutcome | None:
        """What the command shows at a commit; None when it may not run, or could not."""


class Pages(Protocol):
    """Looks at addresses on the hosts that the policy allows."""

    def get(self, url: str) -> CommandOutcome | None:
        """The status an address answers with, 0 for none at all, and its text; None when it may not be asked."""


class SupportingRun(NamedTuple):
    """A run that bears an attempt out."""

    command: str
    exit_status: int | None
    """None when nobody tells."""
    is_seconded: bool
    """True when the host's own transcript tells the same."""


class Journal(Protocol):
    """What agents really ran, as the hooks of their hosts have seen it."""

    def find_supporting_run(self, task_id: str, agent: str, attempt: str) -> SupportingRun | None:
        """What the agent ran on the task that fits what it says it attempted; None when nothing does."""


class Commands(Protocol):
    """Runs commands of the user's: a director, an adviser."""

    def run(self, command: Sequence[str], given: bytes, seconds: float) -> CommandOutcome | None:
        """How the command answered what it was given; None when it could not be started or took too long."""


class TrackedFiles(Protocol):
    """What git tracks."""

    def file_stamp(self) -> object:
        """Changes when what is tracked may have changed."""

    def has(self, path: str) -> bool:
        """True when git tracks the file."""


class SessionMarks(Protocol):
    """How far each session was seen, remembered outside the repository."""

    folder: str
    """Where that is."""

    def raise_to(self, session: str, seq: int, tip: str) -> None:
        """Remembers that a session was seen that far."""

    def all(self) -> dict[str, tuple[int, str]]:
        """Every session's number and tip as last seen."""

    def close(self) -> None:
        """Lets go of the file that is held open."""


class SignedClaim(NamedTuple):
    """What is said to be signed: by which public key, what, and the signature."""

    key: bytes
    content: bytes
    signature: bytes


class Keys(Protocol):
    """The machine's key, and checking what others signed with theirs."""

    def own(self) -> PublicKey | None:
        """The machine's public key; None when it has no key yet."""

    def ensure_key(self) -> PublicKey:
        """The machine's public key; a key is made when there is none."""

    def load(self) -> None:
        """Gets ready to sign: the first time takes a while, and nobody should wait for it."""

    def sign(self, content: bytes) -> bytes:
        """The machine's signature; a key is made when there is none."""

    def verify(self, claims: Sequence[SignedClaim]) -> list[bool]:
        """Of each, True when the holder of the key signed exactly that."""


class SharedData(Protocol):
    """Bytes that every process of a ledger finds by a name for a while: sessions of browsers, packs of commits."""

    def put(
        self, kind: str, name: str, data: bytes, *, owner: str, until: Instant, now: Instant, most: int
    ) -> None:
        """Keeps data until a time. Of one owner no more than `most` are kept: the oldest go, and so does all that is over."""

    def get(self, kind: str, name: str, now: Instant) -> bytes | None:
        """What is kept by a name; None when there is nothing, or its time is over."""

    def drop(self, kind: str, name: str) -> None:
        """Forgets what is kept by a name."""

    def drop_of_ended_tasks(self, kind: str) -> None:
        """Forgets what tasks own that have ended."""


class Rewrite(NamedTuple):
    """A change of an event file that the base had: the commit, the file's name, and what it held before and after."""

    commit: str
    name: str
    before: bytes
    after: bytes


class History(Protocol):
    """What the base branch has had of event files, as far as it is known here."""

    def base(self) -> tuple[str, str]:
        """The ref of the base and its tip; empty when there is none."""

    def rewrites(self, since: str, tip: str, archived: Collection[str] = ()) -> list[Rewrite]:
        """Every change of an event file, in what is new since a commit, that was more than its addition.

        The deletion of a file that is archived is none.
        """

    def files(self, tip: str, without: Collection[str] = ()) -> dict[str, bytes]:
        """The event files at a commit without those of some names: name to content."""

    def differing_files(self, tip: str, paths: Collection[str]) -> dict[str, bytes]:
        """What a commit has of those event files here that are not as it has them: path to content."""


class Exchange(Protocol):
    """The event files that travel with git."""

    def path(self, segment: str) -> str:
        """Where a segment's file is, or would be."""

    def files(self) -> list[FileMark]:
        """Every event file there is."""

    def file_stamp(self) -> tuple[int, ...]:
        """Changes when files come or go."""

    def read(self, path: str) -> Iterator[tuple[int, bytes | str]]:
        """A file's lines with their numbers; a text in place of a line says why it cannot be read."""

    def content(self, path: str) -> bytes:
        """A file's bytes, as they are: of a packed one, packed."""


class SegmentWriter(Protocol):
    """Writes the event file that is ours: the open segment."""

    def append(self, head: LedgerHead, first: int, lines: Sequence[bytes]) -> LedgerHead:
        """Writes lines, whose first event has that number, to the open segment, or to a new one when it must not grow."""

    def shrink(self, segment: str, size: int) -> None:
        """Takes back what was appended by a change that did not come to be."""

    def sync(self, segment: str) -> None:
        """Returns when what a segment holds is on disk, whoever wrote it."""

    def close(self) -> None:
        """Lets go of the files that are held open."""


class Segment(Protocol):
    """The open segment, looked at after something went wrong."""

    def is_whole(self, head: LedgerHead) -> bool:
        """True when the file is as the head says."""

    def surplus(self, head: LedgerHead) -> list[bytes]:
        """Whole lines behind what the ledger knows of: written by a command that was killed."""

    def stamp_head(self, head: LedgerHead) -> LedgerHead:
        """The head with when the file was last changed: it was found to be as it should be."""

    def has_all(self, head: LedgerHead, lines: Iterable[bytes]) -> bool:
        """True when the file has lost none of these lines."""

    def cut_off(self, head: LedgerHead) -> str:
        """Moves what is behind the head to quarantine: it was never answered, or somebody else wrote it.

        Returns where it is now; empty when there is nothing behind the head.
        """


class Installation(NamedTuple):
    """The files that an installation is about."""

    hooks: list[str]
    """Those that hold our hooks now."""
    servers: list[str]
    """Those that name our MCP server now."""
    cleaned: list[str]
    """Tracked ones out of which entries with the path of a machine were taken. That is to be committed."""
    shared: list[str]
    """Those with entries of ours that the project shares. They are to be committed."""


class HookCheck(NamedTuple):
    """Whether a host's hook does what it is there for, and what to do when it does not."""

    host: str
    ok: bool
    detail: str
    fix: str = ""
