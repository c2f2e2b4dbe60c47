"""The folder `.got` in git: the files Remand puts there, what commits change in it, and the base's history of event files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from remand.adapters.git.command import (
    one_per_line,
    parse_batch,
    parse_batch_check,
    parse_tree_list,
    query_git,
    run_git,
)
from remand.adapters.git.location import ROOT_NOTE, LedgerLocation
from remand.adapters.system.files import atomic_write
from remand.app.errors import EnvironmentFault
from remand.app.events.control_files import MAX_FILE, MAX_READ
from remand.app.ports import Rewrite
from remand.domain.gate.control_files import ControlFile, is_control_path, is_event_file
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

OWN_FILES = {
    ".got/.gitignore": b"# Everything here is made from the events, and can be made again.\n*\n!.gitignore\n"
    b"!.gitattributes\n!events/\n!events/**\n",
    ".got/.gitattributes": b"# Event files keep their bytes, whatever the platform.\nevents/*.jsonl -text\n",
}
"""The files that Remand writes into its folder for git to track, besides events."""


@contextmanager
def report_unwritable_folder(place: LedgerLocation) -> Iterator[None]:
    """Turns a failure to use the ledger's folder into a refusal that says what to do."""
    try:
        yield
    except OSError as error:
        path = error.filename or place.got
        raise EnvironmentFault(
            f"The ledger in {place.got} cannot be opened: {path} cannot be written ({error.strerror}). "
            "Make it writable (chmod -R u+w), move away what is in its place, or mount the disk for writing; then repeat."
        ) from error


def prepare_got(place: LedgerLocation) -> None:
    """Creates `.got` and the files that keep git from tracking anything but events."""
    os.makedirs(place.events, exist_ok=True)
    lies_apart = place.common_dir == place.git_dir != os.path.join(place.root, ".git")
    if place.git_dir and lies_apart and place.root != place.git_dir:
        note = os.path.join(place.git_dir, ROOT_NOTE)
        if not os.path.exists(note):
            _write_atomically(note, place.root.encode())
    for name, content in OWN_FILES.items():
        path = os.path.join(place.root, name)
        if not os.path.exists(path) or not os.path.getsize(path):
            _write_atomically(path, content)


def _write_atomically(path: str, content: bytes) -> None:
    """Writes a small file atomically, whatever happens to the disk or the process."""
    try:
        atomic_write(path, content)
    except OSError as error:
        raise EnvironmentFault(
            f"{path} cannot be written ({error.strerror}). Fix that, then repeat."
        ) from None


def note_ledger_id(place: LedgerLocation, ledger_id: str) -> None:
    """Writes the ledger's id to a small file, so that callers can read it without opening the ledger."""
    path = os.path.join(place.got, "ledger.id")
    try:
        with open(path, encoding="utf-8") as file:
            known = file.read(4096)
    except (OSError, UnicodeDecodeError):
        known = ""
    if known != ledger_id:
        _write_atomically(path, ledger_id.encode())


_PLAIN = {"GIT_NO_REPLACE_OBJECTS": "1"}
_DIFFERENT = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames")
_NOTHING = "000000"


class GitControl:
    """Finds changes to the ledger's own folder in commits."""

    def __init__(self, place: LedgerLocation) -> None:
        self._folder = place.worktree

    def changes(self, tip: str, before: str, commit: str) -> list[ControlFile]:
        """The paths below `.got` that a commit changed since it left the base and that differ from the base
        now.

        A commit that is already in the base is compared only with the base as it was before.
        """
        met = self._merge_bases(tip, commit) if tip else []
        if commit in met or not tip:
            compared = self._merge_bases(before, commit)[:1] if before else []
        else:
            compared = [*met, tip]
        found: dict[str, ControlFile] | None = None
        for side in compared:
            rows = {file.path: file for file in self._between(side, commit)}
            found = rows if found is None else {path: file for path, file in found.items() if path in rows}
            if not found:
                break
        return sorted((found or {}).values())

    def contents(
        self, files: Iterable[ControlFile], most: int, in_all: int
    ) -> Iterator[tuple[ControlFile, bytes | None]]:
        ids = [(file, file.after.partition(" ")[2]) for file in files]
        if not ids:
            return
        listed = self._run_git("cat-file", "--batch-check", stdin=one_per_line([name for _, name in ids]))
        sizes = {name: size for name, _, size in parse_batch_check(listed)}
        for file, name in ids:
            size = sizes.get(name, most + 1)
            is_read = size <= min(most, in_all)
            in_all -= size if is_read else 0
            yield file, self._run_git("cat-file", "blob", name) if is_read else None

    def event_files(self, commit: str) -> list[ControlFile]:
        listed = self._run_git("ls-tree", "-r", "-z", "--full-tree", commit, "--", ".got/events/")
        return [
            ControlFile(path, "", f"{mode} {name}")
            for path, (mode, _, name) in parse_tree_list(listed)
            if is_event_file(path)
        ]

    def _merge_bases(self, one: str, other: str) -> list[str]:
        """The best common ancestors of two histories; none if they are unrelated."""
        process = run_git(self._folder, "merge-base", "--all", one, other, environment=_PLAIN)
        return process.stdout.decode("ascii", "replace").split() if not process.returncode else []

    def _between(self, one: str, other: str) -> Iterator[ControlFile]:
        fields = iter(self._run_git(*_DIFFERENT, one, other).split(b"\0"))
        for facts in fields:
            path = next(fields, b"").decode("utf-8", "surrogateescape")
            if path and is_control_path(path):
                old_mode, mode, old, new, _ = facts.decode("ascii").removeprefix(":").split(" ")
                yield ControlFile(path, _side(old_mode, old), _side(mode, new))

    def _run_git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        failure = "git cannot tell what was changed below .got"
        return query_git(self._folder, *arguments, stdin=stdin, environment=_PLAIN, failure=failure)


def _side(mode: str, name: str) -> str:
    return "" if mode == _NOTHING else f"{mode} {name}"


_FOLDER = ".got/events"
_CHANGES = ("--no-renames", "--diff-filter=MDT", "--raw", "--no-abbrev", "-z")
_HASHES = (40, 64)
_CHUNK = 1 << 20


class GitHistory:
    """Reads the base's history as far as this clone has it."""

    def __init__(self, place: LedgerLocation, base: Callable[[], tuple[str, str]]) -> None:
        self._place = place
        self._base = base

    def base(self) -> tuple[str, str]:
        if not self._place.git_dir:
            return "", ""
        try:
            return self._base()
        except EnvironmentFault:
            return "", ""

    def rewrites(self, since: str, tip: str, archived: Collection[str] = ()) -> list[Rewrite]:
        is_known = bool(since) and not self._run_git("cat-file", "-e", f"{since}^{{commit}}").returncode
        span = f"{since}..{tip}" if is_known else tip
        log = ("log", "--full-history", "-m", "--format=%x01%H", *_CHANGES, span, "--", f"{_FOLDER}/")
        found = list(_rows(self._text(*log)))
        if is_known and self._run_git("merge-base", "--is-ancestor", since, tip).returncode:
            rows = self._text("diff-tree", "-r", *_CHANGES, since, tip, "--", f"{_FOLDER}/")
            found += _rows(f"\x01{tip}\0{rows}")
        found = [row for row in found if row[1] not in archived or row[3].strip("0")]
        blobs = self._blobs({blob for _, _, *both in found for blob in both})
        return [
            Rewrite(commit, name, blobs[before], blobs.get(after, b""))
            for commit, name, before, after in dict.fromkeys(found)
            if before in blobs
        ]

    def files(self, tip: str, without: Collection[str] = ()) -> dict[str, bytes]:
        named = {name: blob for name, blob in self._event_blobs(tip).items() if name not in without}
        blobs = self._blobs(named.values())
        return {name: blobs[blob] for name, blob in named.items() if blob in blobs}

    def differing_files(self, tip: str, paths: Collection[str]) -> dict[str, bytes]:
        named = self._event_blobs(tip)
        there = {path: named[name] for path in paths if (name := os.path.basename(path)) in named}
        others = {path: blob for path, blob in there.items() if _blob_id(path, len(blob)) != blob}
        blobs = self._blobs(others.values())
        return {path: blobs[blob] for path, blob in others.items() if blob in blobs}

    def _event_blobs(self, tip: str) -> dict[str, str]:
        """The event files at a commit, by name, with the ids of their contents."""
        listed = self._run_git("ls-tree", "-z", tip, "--", f"{_FOLDER}/")
        rows = () if listed.returncode else parse_tree_list(listed.stdout)
        return {os.path.basename(path): blob for path, (_, _, blob) in rows if path.endswith(".jsonl")}

    def _blobs(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of blobs, as far as this clone has them."""
        wanted = sorted({name for name in names if name.strip("0")})
        if not wanted:
            return {}
        answer = self._run_git("cat-file", "--batch", stdin=one_per_line(wanted))
        return {name: content for name, _, content in parse_batch(answer.stdout)}

    def _text(self, *arguments: str) -> str:
        answer = self._run_git(*arguments)
        return "" if answer.returncode else answer.stdout.decode("utf-8", "replace")

    def _run_git(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return run_git(self._place.worktree, *arguments, stdin=stdin)


def _blob_id(path: str, length: int) -> str:
    """The id that git gives a file's content; empty if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            whole = hashlib.sha1(usedforsecurity=False) if length == _HASHES[0] else hashlib.sha256()
            whole.update(b"blob %d\0" % size)
            while chunk := file.read(_CHUNK):
                whole.update(chunk)
    except OSError:
        return ""
    return whole.hexdigest()


def _rows(text: str) -> Iterable[tuple[str, str, str, str]]:
    """The changes in a log: commit, file, and the file's content before and after."""
    commit, facts = "", []
    for part in text.split("\0"):
        row = part.lstrip("\n")
        if row.startswith("\x01"):
            commit, _, row = row[1:].partition("\n")
            row = row.lstrip("\n")
        if row.startswith(":"):
            facts = row.split()
        elif row and facts:
            if row.endswith(".jsonl") and len(facts[2]) in _HASHES:
                yield commit.strip(), os.path.basename(row), facts[2], facts[3]
            facts = []


@contextmanager
def log_copy(
    place: LedgerLocation, branch: str, base: str, commit: str
) -> Iterator[tuple[LedgerLocation, str]]:
    """A temporary copy of the log as a base and a commit have it, with an empty folder beside it."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="remand-check-") as folder:
        copy = os.path.join(folder, "copy")
        os.mkdir(copy)
        yield _make_log_copy(place, copy, branch, base, commit), os.path.join(folder, "state")


def _make_log_copy(place: LedgerLocation, folder: str, branch: str, base: str, commit: str) -> LedgerLocation:
    """Makes a repository whose only branch is the base, with the event files of the base and of a commit.

    It shares nothing with the place but its objects: it reads no worktree, configuration or ledger there.
    """
    failure = f"The log of {commit[:12]} cannot be read"
    object_format = "sha256" if len(base) > 40 else "sha1"
    query_git(
        folder, "init", "-q", "--template=", f"--object-format={object_format}", folder, failure=failure
    )
    git_dir = os.path.join(folder, ".git")
    os.makedirs(os.path.join(git_dir, "objects", "info"), exist_ok=True)
    atomic_write(
        os.path.join(git_dir, "objects", "info", "alternates"),
        os.fsencode(os.path.join(place.common_dir, "objects")) + b"\n",
    )
    shallow = os.path.join(place.common_dir, "shallow")
    if os.path.exists(shallow):
        with open(shallow, "rb") as kept:
            atomic_write(os.path.join(git_dir, "shallow"), kept.read())
    query_git(folder, "update-ref", f"refs/heads/{branch}", base, failure=failure)
    query_git(folder, "symbolic-ref", "HEAD", f"refs/heads/{branch}", failure=failure)
    location = LedgerLocation(root=folder, worktree=folder, git_dir=git_dir, common_dir=git_dir)
    os.makedirs(location.events)
    control = GitControl(location)
    files = {file.after: file for name in (base, commit) for file in control.event_files(name)}
    for file, content in control.contents(files.values(), MAX_FILE, MAX_READ):
        if content is None:
            raise EnvironmentFault(f"{failure}: {file.path} is too large.")
        atomic_write(os.path.join(location.events, f"{file.after.partition(' ')[2]}.jsonl"), content)
    return location
