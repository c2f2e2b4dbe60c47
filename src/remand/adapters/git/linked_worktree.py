"""A linked worktree: its entry in the repository, index, files and notes, and saving its uncommitted work."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from remand.adapters.git.bare_repository import new_hash
from remand.adapters.git.command import OUR_IDENTITY, git_error, run_git, temporary_git_folder
from remand.adapters.git.files import Trash, is_real_folder, read_below, read_line_below
from remand.adapters.system.files import atomic_write
from remand.app.errors import EnvironmentFault
from remand.domain.record import Record

_DRAFT = ".remand-"
_LOCKS = ("index.lock", "HEAD.lock")
_MAX_INDEX = 1 << 30
_OWNER_BITS = stat.S_IRWXU


class LinkedWorktree:
    """A worktree beside the main one, as in `git worktree list`. Its entry is created atomically."""

    def __init__(self, common_dir: str, folder: str, entry: str) -> None:
        self.common_dir = common_dir
        self.folder = folder
        self.name = entry
        self.entry = os.path.join(common_dir, "worktrees", entry)
        self.index = os.path.join(self.entry, "index")
        self._draft = os.path.join(common_dir, f"new-{entry}")
        """Where the entry is made before it counts."""
        self._former = os.path.join(common_dir, f"old-{entry}")
        """Where it is taken apart when it does not count any more."""

    @property
    def objects(self) -> str:
        return os.path.join(self.common_dir, "objects")

    def is_intact(self, branch: str) -> bool:
        """True if everything is in order, on the branch, with no lock left. Does not run git."""
        files = self._files(branch)
        return (
            self.has_folder()
            and read_line_below(self.folder, ".git") == self._pointer()
            and all(read_line_below(self.entry, name) == text for name, text in files.items())
            and not any(os.path.lexists(os.path.join(self.entry, name)) for name in _LOCKS)
            and self.has_index()
        )

    def has_folder(self) -> bool:
        """True if the folder exists; it is only ever created complete."""
        return is_real_folder(self.folder)

    def has_index(self) -> bool:
        """True if there is a complete index in a single file."""
        return not self._split_index_files() and is_complete_index(self.entry, "index")

    def remove_split_index(self) -> None:
        """Removes the second file of an index that was split in two."""
        for path in self._split_index_files():
            _remove(path)

    def last_moved_to(self) -> str:
        """The last commit checked out or created here, by git's own log; empty if the log does not say."""
        rows = (read_below(self.entry, "logs/HEAD", 64 << 20) or b"").rstrip(b"\n").rpartition(b"\n")[2]
        words = rows.split(b" ", 2)
        return words[1].decode("ascii", "replace") if len(words) > 1 else ""

    def register(self, branch: str, index: str) -> None:
        """Registers the folder with this index, replacing any earlier entry."""
        _remove(self._draft)
        try:
            os.mkdir(self._draft)
            for name, text in self._files(branch).items():
                _write(os.path.join(self._draft, name), text)
            # Keeps its time, by which git knows which files are so recent that it has to read them.
            shutil.copy2(index, os.path.join(self._draft, "index"))
            os.makedirs(os.path.dirname(self.entry), exist_ok=True)
            self._forget()
            os.rename(self._draft, self.entry)
        finally:
            _remove(self._draft)
        self._write_git_file()

    def repair(self, branch: str, trash: Trash) -> None:
        """Repairs everything except the index: where it points, its branch, and locks of killed processes."""
        for path in (*(os.path.join(self.entry, name) for name in _LOCKS), *self._drafts()):
            _remove(path)
        self._write_entry(self._files(branch))
        self.reconnect(trash)

    def reconnect(self, trash: Trash) -> None:
        """Makes folder and entry point to each other, whatever an agent put there."""
        if self.is_registered():
            self._write_entry(self._pointers())
        pointer = os.path.join(self.folder, ".git")
        if is_real_folder(pointer):
            trash.throw(pointer)
        self._write_git_file()

    def is_registered(self) -> bool:
        return is_real_folder(self.entry)

    def unregister(self) -> None:
        self._forget()
        _remove(self._draft)

    def _forget(self) -> None:
        """Removes the entry atomically."""
        _remove(self._former)
        with suppress(FileNotFoundError):
            os.rename(self.entry, self._former)
        _remove(self._former)

    def _split_index_files(self) -> list[str]:
        """The shared files of a split index; only the worktree's own git would find them."""
        try:
            names = os.listdir(self.entry)
        except OSError:
            return []
        return [os.path.join(self.entry, name) for name in names if name.startswith("sharedindex.")]

    def _drafts(self) -> list[str]:
        """The temporary files that killed writers left."""
        return [
            os.path.join(folder, name)
            for folder in (self.entry, self.folder)
            for name in os.listdir(folder)
            if _DRAFT in name and name.startswith((*self._files(""), "index", ".git"))
        ]

    def _write_entry(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            if read_line_below(self.entry, name) != text:
                _replace(os.path.join(self.entry, name), text)

    def _write_git_file(self) -> None:
        os.chmod(self.folder, os.lstat(self.folder).st_mode | _OWNER_BITS)
        if read_line_below(self.folder, ".git") != self._pointer():
            _replace(os.path.join(self.folder, ".git"), self._pointer())

    def _pointer(self) -> str:
        return f"gitdir: {self.entry}"

    def _files(self, branch: str) -> dict[str, str]:
        return self._pointers() | {"HEAD": f"ref: refs/heads/{branch}"}

    def _pointers(self) -> dict[str, str]:
        return {"gitdir": os.path.join(self.folder, ".git"), "commondir": "../.."}


def write_pointer(folder: str, entry: str) -> None:
    """Writes the `.git` file of a folder that is still being created."""
    _write(os.path.join(folder, ".git"), f"gitdir: {entry}")


def is_complete_index(folder: str, name: str) -> bool:
    """True if a file is a git index that ends with its own checksum."""
    content = read_below(folder, name, _MAX_INDEX) or b""
    if content[:4] != b"DIRC":
        return False
    for size in (20, 32):
        if content[-size:] in (bytes(size), new_hash(size * 2, content[:-size]).digest()):
            return True
    return False


def _draft_name(path: str) -> str:
    return f"{path}{_DRAFT}{os.urandom(6).hex()}"


def _write(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{text}\n")


def _replace(path: str, text: str) -> None:
    """Writes a file atomically, replacing whatever is there."""
    if is_real_folder(path):
        shutil.rmtree(path)
    atomic_write(path, f"{text}\n".encode("utf-8", "surrogateescape"), draft=_draft_name(path))


def _remove(path: str) -> None:
    if is_real_folder(path):
        shutil.rmtree(path)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)


SECONDS = 600.0
"""Time limit for writing or reading a whole worktree."""
LOOK_SECONDS = 60.0
"""Time limit for finding what has changed."""
NO_ROOM = "No space left on device"
_ROOM = 256 << 10
_UNWRITTEN = re.compile(rb"unable to write|write error|No space left|quota exceeded")
"""How git reports that it cannot write a file; it does not always mention a full disk."""
_STEERING = (b".gitignore", b".gitattributes", b".gitmodules")
"""Files that git reads wherever it finds them."""
_OWNER_ACCESS = stat.S_IRWXU
_STATUS = (
    *("status", "--porcelain=v1", "-z", "--no-renames"),
    "--ignore-submodules=all",  # Set here because `.gitmodules` overrides the configuration.
)
_MAX_EXCLUDED = 1 << 16


class ChangedPath(NamedTuple):
    """A path at which a worktree differs from a commit."""

    how: str
    """Git's two status letters for it."""
    path: bytes


class IsolatedGit:
    """Git with the files of one folder, its own index and an object folder, for as long as it is needed."""

    def __init__(self, look: str, folder: str, index: str, objects: str) -> None:
        self._folder = folder
        self._places = (folder, os.path.dirname(index), objects)
        self._environment = {
            "GIT_DIR": look,
            "GIT_WORK_TREE": folder,
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            **OUR_IDENTITY,
        }

    def set_time(self, seconds: float) -> None:
        date = f"@{max(0, int(seconds))} +0000"
        self._environment |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}

    def run(
        self, *arguments: str, stdin: bytes = b"", seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        return run_git(self._folder, *arguments, stdin=stdin, environment=self._environment, seconds=seconds)

    def ask(self, *arguments: str, stdin: bytes = b"", seconds: float = SECONDS) -> bytes:
        """Runs git and returns its output; raises EnvironmentFault on failure, naming a full disk as such."""
        answer = self.run(*arguments, stdin=stdin, seconds=seconds)
        if answer.returncode:
            is_full = any(map(_is_full, self._places)) or _UNWRITTEN.search(answer.stderr)
            reason = NO_ROOM if is_full else git_error(answer.stderr)
            raise EnvironmentFault(f"git {arguments[0]} failed in {self._folder}: {reason}")
        return answer.stdout


@contextmanager
def isolated_git(
    folder: str, index: str, objects: str, commit: str, excluded: str = ""
) -> Iterator[IsolatedGit]:
    """Runs git in a folder as if it were a worktree of a commit."""
    with temporary_git_folder(commit, excluded) as look:
        yield IsolatedGit(look, folder, index, objects)


def check_out_into(folder: str, index: str, objects: str, commit: str) -> None:
    """Checks a commit out into an empty folder, and writes an index that matches."""
    with isolated_git(folder, index, objects, commit) as own:
        own.ask("read-tree", "-u", "--reset", commit)


def reset_index(linked: LinkedWorktree, commit: str) -> None:
    """Resets a worktree's index to a commit; the files stay as they are."""
    with _next_index(linked) as index, isolated_git(linked.folder, index, linked.objects, commit) as own:
        _read_commit_into_index(own, index, commit)
        if not find_special_file(linked.folder):
            own.run("update-index", "-q", "--ignore-submodules", "--refresh")


def move_to_commit(linked: LinkedWorktree, before: str, after: str) -> bool:
    """Moves a worktree with its uncommitted work from one commit to another. False if that work is in the way."""
    with _next_index(linked) as index, isolated_git(linked.folder, index, linked.objects, after) as own:
        own.run("update-index", "-q", "--ignore-submodules", "--refresh")
        answer = own.run("read-tree", "-m", "-u", before, after)
        if answer.returncode and NO_ROOM.encode() in answer.stderr:
            raise EnvironmentFault(f"git read-tree failed in {linked.folder}: {NO_ROOM}")
        return not answer.returncode


def restore_files(linked: LinkedWorktree, commit: str, paths: list[bytes]) -> None:
    """Restores files from the index; ignores paths that it does not have."""
    with isolated_git(linked.folder, linked.index, linked.objects, commit) as own:
        own.run("checkout-index", "-q", "-f", "-z", "--stdin", stdin=b"".join(path + b"\0" for path in paths))


@contextmanager
def temporary_index(linked: LinkedWorktree, commit: str, objects: str) -> Iterator[str]:
    """A temporary index with a commit's content that keeps what is known of how the files look."""
    with tempfile.TemporaryDirectory(prefix="remand-index-") as place:
        index = os.path.join(place, "index")
        if linked.has_index():
            shutil.copy2(linked.index, index)
        with isolated_git(linked.folder, index, objects, commit) as own:
            _read_commit_into_index(own, index, commit)
        yield index


def changed_paths(
    linked: LinkedWorktree, index: str, commit: str, objects: str, *, every_file: bool = False
) -> list[ChangedPath]:
    """The paths outside `.got` at which the files, or the index, differ from a commit."""
    untracked = f"--untracked-files={'all' if every_file else 'normal'}"
    excluded = read_below(os.path.realpath(linked.common_dir), "info/exclude", _MAX_EXCLUDED) or b""
    with isolated_git(linked.folder, index, objects, commit, excluded.decode("utf-8", "replace")) as own:
        rows = own.ask(*_STATUS, untracked, seconds=LOOK_SECONDS).split(b"\0")
    return [
        ChangedPath(row[:2].decode("ascii", "replace"), row[3:])
        for row in rows
        if row and row[3:].split(b"/", 1)[0] != b".got"
    ]


def find_special_file(folder: str) -> bytes:
    """A special file in a folder that could block git for ever, such as a pipe; empty if there is none."""
    for path in _special_files(folder):
        inside = os.path.relpath(path, os.fsencode(folder))
        if os.path.basename(path) in _STEERING or b".git" in inside.split(b"/"):
            return inside
    return b""


def remove_special_files(folder: str, limit: int = 0) -> list[bytes]:
    """Removes pipes and other special files, and makes folders accessible to their owner; returns what it
    removed.

    With a limit, it checks at most that many entries.
    """
    removed = []
    for path in _special_files(folder, limit, opens=True):
        with suppress(OSError):
            os.unlink(path)
            removed.append(os.path.relpath(path, os.fsencode(folder)))
    return removed


def _special_files(folder: str, limit: int = 0, *, opens: bool = False) -> Iterator[bytes]:
    """Everything that is neither file, folder nor link."""
    pending = [os.fsencode(folder)]
    count = 0
    while pending and not (limit and count > limit):
        here = pending.pop()
        with suppress(OSError):
            if opens and os.lstat(here).st_mode & _OWNER_ACCESS != _OWNER_ACCESS:
                os.chmod(here, os.lstat(here).st_mode | _OWNER_ACCESS)
            with os.scandir(here) as found:
                for entry in found:
                    count += 1  # Most are files, so that is checked first.
                    if entry.is_file(follow_symlinks=False):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif not entry.is_symlink():
                        yield entry.path


def _read_commit_into_index(own: IsolatedGit, index: str, commit: str) -> None:
    """Reads a commit into an index. Recreates an index that git cannot use because its other half is missing."""
    if os.path.exists(index) and own.run("read-tree", "--reset", commit).returncode:
        os.unlink(index)
    if not os.path.exists(index):
        own.ask("read-tree", "--reset", commit)


@contextmanager
def _next_index(linked: LinkedWorktree) -> Iterator[str]:
    """A new index that replaces the worktree's own if the block succeeds."""
    index = os.path.join(linked.entry, _draft_name("index"))
    try:
        if linked.has_index():
            shutil.copy2(linked.index, index)
        yield index
        os.replace(index, linked.index)
    finally:
        for left in (index, f"{index}.lock"):
            with suppress(FileNotFoundError):
                os.unlink(left)


def _is_full(place: str) -> bool:
    try:
        status = os.statvfs(place)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _ROOM


MAX_FILE = 64 << 20
MAX_TOTAL = 1 << 30
MAX_NAMED = 50
"""How many of the omitted files are named."""


class UnsavedFiles(NamedTuple):
    """What to save, and what is left out."""

    paths: list[bytes]
    gone: list[bytes]
    too_large: list[bytes]


def save_uncommitted(linked: LinkedWorktree, parent: str, why: str) -> str:
    """Commits everything uncommitted on top of a parent; returns the commit, or an empty string if there is
    nothing.

    Leaves out ignored files, files above 64 MiB, everything beyond 1 GiB, and what cannot be read.
    """
    remove_special_files(linked.folder)
    with temporary_index(linked, parent, linked.objects) as index:
        paths = changed_paths(linked, index, parent, linked.objects, every_file=True)
        if not paths:
            return ""
        left = _select_files(linked.folder, paths)
        with isolated_git(linked.folder, index, linked.objects, parent) as own:
            _stage(own, os.fsencode(linked.folder), left, len(parent))
            tree = own.ask("write-tree").decode().strip()
            rows = [why]
            if left.too_large:
                rows += ["", f"Left out, as too large ({len(left.too_large)} in all):"]
                rows += [repr(os.fsdecode(path)) for path in left.too_large[:MAX_NAMED]]
            if not left.too_large and tree == own.ask("rev-parse", f"{parent}^{{tree}}").decode().strip():
                return ""
            own.set_time(_newest(linked.folder, left.paths))
            message = "\n".join(rows).encode("utf-8", "replace")
            return own.ask("commit-tree", tree, "-p", parent, "-F", "-", stdin=message).decode().strip()


def _newest(folder: str, paths: list[bytes]) -> float:
    """When the work was last changed, so that saving the same work twice makes the same commit."""
    root = os.fsencode(folder)
    return max((os.lstat(os.path.join(root, path)).st_mtime for path in (b"", *paths)), default=0.0)


def _stage(own: IsolatedGit, root: bytes, left: UnsavedFiles, id_length: int) -> None:
    """Adds everything to the index, byte for byte where attributes make git fail on a file."""
    rows = (b"0 %s\t%s\0" % (b"0" * id_length, path) for path in left.gone)
    own.ask("update-index", "-z", "--index-info", stdin=b"".join(rows))
    listed = b"".join(path + b"\0" for path in left.paths)
    if not own.run("update-index", "--add", "--replace", "-z", "--stdin", stdin=listed).returncode:
        return
    links = [path for path in left.paths if os.path.islink(os.path.join(root, path))]
    files = [path for path in left.paths if path not in set(links) and b"\n" not in path]
    own.run(
        "update-index", "--add", "--replace", "-z", "--stdin", stdin=b"".join(path + b"\0" for path in links)
    )
    names = b"".join(path + b"\n" for path in files)
    ids = own.ask("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names).split()
    entries = (
        b"%s %s\t%s\0" % (_mode(os.path.join(root, path)), blob, path)
        for blob, path in zip(ids, files, strict=True)
    )
    own.ask("update-index", "--add", "--replace", "-z", "--index-info", stdin=b"".join(entries))


def _mode(path: bytes) -> bytes:
    return b"100755" if os.lstat(path).st_mode & stat.S_IXUSR else b"100644"


def _select_files(folder: str, paths: list[ChangedPath]) -> UnsavedFiles:
    root = os.fsencode(folder)
    left = UnsavedFiles([], [], [])
    total = 0
    for how, changed in paths:
        if how[1] == "D":
            left.gone.append(changed)
            continue
        for path, size in _files(root, changed):
            if size > MAX_FILE or total + size > MAX_TOTAL:
                left.too_large.append(path)
            else:
                total += size
                left.paths.append(path)
    return left


def _files(root: bytes, path: bytes) -> Iterator[tuple[bytes, int]]:
    """Each file or link with its size. Lists the files of a nested repository, which git would take for one entry."""
    pending = [path]
    while pending:
        inner = pending.pop()
        place = os.path.join(root, inner)
        with suppress(OSError):
            status = os.lstat(place)
            if stat.S_ISDIR(status.st_mode):
                names = (name for name in os.listdir(place) if name.lower() != b".git")
                pending += [os.path.join(inner, name) for name in names]
            elif stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and os.access(place, os.R_OK)):
                yield inner, status.st_size


_MAX_NOTE = 1 << 16


class WorktreeNote(Record, kw_only=True):
    """What Remand noted when it last changed a worktree."""

    branch: str = ""
    tip: str = ""
    """The commit of the branch, and of the index, at that time."""
    moved: str = ""
    """The last commit that was checked out or made in the worktree, by git's own log."""
    begun: str = ""
    """The branch that Remand created, and the commit at which it did."""


def read_note(folder: str) -> WorktreeNote:
    """The note in a folder; an empty one if there is none, or it is unreadable."""
    try:
        return msgspec.json.decode(read_below(folder, "note", _MAX_NOTE) or b"", type=WorktreeNote)
    except msgspec.DecodeError:
        return WorktreeNote()


def write_note(folder: str, note: WorktreeNote) -> None:
    """Writes a folder's note atomically."""
    path = os.path.join(folder, "note")
    atomic_write(path, msgspec.json.encode(note), draft=f"{path}.new")
