"""A private bare repository with its own configuration, and reading and writing its objects by id."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, NamedTuple

from remand.adapters.git.command import SAFE, SECONDS, end_process, finish_process, git_error, start_process
from remand.adapters.system.files import atomic_write, read_start
from remand.app.errors import EnvironmentFault

COSMETIC = (
    *("badDate", "badEmail", "badName", "badTimezone", "missingAuthor", "missingEmail"),
    *("missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingTaggerEntry"),
    *("multipleAuthors", "nulInCommit", "zeroPaddedDate", "zeroPaddedFilemode"),
    *("gitmodulesBlob", "gitmodulesLarge", "gitmodulesMissing", "gitmodulesName", "gitmodulesParse"),
    *("gitmodulesPath", "gitmodulesSymlink", "gitmodulesUpdate", "gitmodulesUrl"),
)
"""Checks that `git fsck` skips: flaws in old commits that do no harm here (dates, names, submodules)."""
_ALONE = SAFE | {"GIT_ALLOC_LIMIT": "1g", "GIT_ATTR_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
_CONFIG = f"""\
[core]
	repositoryformatversion = 1
	bare = true
	attributesfile = {os.devnull}
	excludesfile = {os.devnull}
	hookspath = {os.devnull}
	fsmonitor = false
	usereplacerefs = false
	commitgraph = false
	multipackindex = false
	logallrefupdates = false
	bigfilethreshold = 16m
	fsync = none
[extensions]
	objectformat = {{algorithm}}
[gc]
	auto = 0
[maintenance]
	auto = false
[pack]
	usebitmaps = false
[protocol]
	allow = never
[submodule]
	recurse = false
[fsck]
{"".join(f"	{name} = ignore" + chr(10) for name in COSMETIC)}"""


class DamagedRepository(EnvironmentFault):
    """Objects are missing or unreadable. If the damaged repository is our own, recreating it helps."""


class BareRepository:
    """A private bare repository, created at first use. It may be deleted at any time."""

    def __init__(self, path: str) -> None:
        self.path = path

    def is_made(self, id_length: int) -> bool:
        """True if it exists with the expected configuration, for object ids of this length."""
        return read_start(os.path.join(self.path, "config"), 1 << 16) == _config(id_length).encode()

    def make(self, id_length: int) -> None:
        """Recreates it atomically: if this process is killed, no repository is left behind."""
        self.remove()
        draft = tempfile.mkdtemp(prefix="new-", dir=os.path.dirname(self.path))
        for name in ("objects/info", "objects/pack", "refs/heads"):
            os.makedirs(os.path.join(draft, name), mode=0o700)
        for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", _config(id_length))):
            with open(os.path.join(draft, name), "w", encoding="utf-8") as file:
                file.write(text)
        os.rename(draft, self.path)

    def remove(self) -> None:
        """Removes it, and what killed processes left of others."""
        folder, name = os.path.split(self.path)
        if os.path.lexists(self.path):
            os.rename(self.path, tempfile.mkdtemp(prefix="old-", dir=folder))
        for left in os.listdir(folder):
            if left != name and left.startswith(("new-", "old-")):
                shutil.rmtree(os.path.join(folder, left), ignore_errors=True)

    def is_sound(self) -> bool:
        """Reads all objects again; True if nothing is missing or damaged."""
        return not self.run("fsck", "--full", "--no-dangling", "--no-progress", seconds=600).returncode

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The complete environment for a git process in this repository."""
        own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": self.path, "GIT_DIR": self.path}
        return own | _ALONE | dict(more or {})

    def start(
        self,
        *arguments: str,
        stdin: int | IO[bytes],
        stdout: int,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        whole = self.environment(environment)
        return start_process(["git", *arguments], self.path, whole, stdin=stdin, stdout=stdout, stderr=stderr)

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> subprocess.CompletedProcess[bytes]:
        process = start_process(["git", *arguments], self.path, self.environment(environment))
        return finish_process(process, f"git {arguments[0]}", stdin, seconds)

    def ask(self, *arguments: str) -> bytes:
        """Runs git and returns its output; raises EnvironmentFault if it fails."""
        answer = self.run(*arguments)
        if answer.returncode:
            raise DamagedRepository(f"git {arguments[0]} failed: {git_error(answer.stderr)}")
        return answer.stdout


def _config(id_length: int) -> str:
    return _CONFIG.format(algorithm="sha256" if id_length == 64 else "sha1")


MAX_FILES = 1_000_000
MAX_DEPTH = 200


class TreeEntry(NamedTuple):
    """One entry of a tree."""

    mode: str
    id: str

    @property
    def is_tree(self) -> bool:
        """True for a folder. Old tools wrote its mode with a leading zero."""
        return self.mode in ("40000", "040000")

    @property
    def is_file(self) -> bool:
        return self.mode.startswith("100")

    @property
    def is_link(self) -> bool:
        return self.mode == "120000"


Tree = Mapping[bytes, TreeEntry]
_NOTHING: Tree = {}


class TreeDifference(NamedTuple):
    """A path at which two trees differ; an entry is None where that tree has nothing at the path."""

    path: bytes
    before: TreeEntry | None
    after: TreeEntry | None


def parse_tree(content: bytes, id_size: int) -> dict[bytes, TreeEntry]:
    found: dict[bytes, TreeEntry] = {}
    start = 0
    while start < len(content):
        space = content.index(b" ", start)
        end = content.index(b"\x00", space)
        mode = content[start:space].decode("ascii", "replace")
        object_id = content[end + 1 : end + 1 + id_size].hex()
        found[content[space + 1 : end]] = TreeEntry(mode, object_id)
        start = end + 1 + id_size
    return found


def write_tree(repository: BareRepository, entries: Tree, id_length: int) -> str:
    """Writes a tree into one of our own repositories and returns its id."""
    # Git sorts a folder as if its name ended with a slash.
    rows = sorted(entries.items(), key=lambda item: item[0] + b"/" if item[1].is_tree else item[0])
    content = b"".join(
        b"%s %s\x00%s" % (entry.mode.encode(), name, bytes.fromhex(entry.id)) for name, entry in rows
    )
    return write_object(repository, "tree", content, id_length)


def write_object(repository: BareRepository, kind: str, content: bytes, id_length: int) -> str:
    """Writes an object into one of our own repositories and returns its id."""
    whole = b"%s %d\x00" % (kind.encode(), len(content)) + content
    object_id = new_hash(id_length, whole).hexdigest()
    _write_once(
        os.path.join(repository.path, "objects", object_id[:2]), object_id[2:], zlib.compress(whole, 1)
    )
    return object_id


def new_hash(id_length: int, start: bytes) -> hashlib._Hash:
    """The hash function for object ids of this length."""
    return (hashlib.sha256 if id_length == 64 else hashlib.sha1)(start, usedforsecurity=False)


def entry_at(trees: Objects, tree_id: str, path: bytes) -> TreeEntry | None:
    """The entry of a tree at a path; None if there is none."""
    entry = TreeEntry("40000", tree_id)
    for name in path.split(b"/"):
        tree_entry = trees.tree(entry.id).get(name) if entry.is_tree else None
        if tree_entry is None:
            return None
        entry = tree_entry
    return entry


def differences(trees: Objects, before: str, after: str) -> Iterator[TreeDifference]:
    """The files and links that differ between two trees; an empty id means an empty tree."""
    pending = [(b"", before, after)]
    while pending:
        known = trees.trees(tree_id for _, *pair in pending for tree_id in pair if tree_id)
        below: list[tuple[bytes, str, str]] = []
        for folder, first, second in pending:
            old, new = known.get(first, _NOTHING), known.get(second, _NOTHING)
            for name in old.keys() | new.keys():
                first_entry, second_entry = old.get(name), new.get(name)
                if first_entry == second_entry:
                    continue
                path = folder + name
                trees_below = _tree_id(first_entry), _tree_id(second_entry)
                if any(trees_below):
                    below.append((path + b"/", *trees_below))
                leaves = _leaf(first_entry), _leaf(second_entry)
                if any(leaves):
                    yield TreeDifference(path, *leaves)
        pending = below


def require_bounded(trees: Objects, tree_id: str) -> None:
    """Raises EnvironmentFault if a tree has more files or deeper folders than any real project."""
    levels = _levels(trees, tree_id)
    files: dict[str, int] = {}
    for level in reversed(levels):
        for inner in level:
            entries = trees.tree(inner).values()
            files[inner] = sum(files.get(entry.id, 0) if entry.is_tree else 1 for entry in entries)
    if len(levels) > MAX_DEPTH or files[tree_id] > MAX_FILES:
        raise EnvironmentFault(
            f"Tree {tree_id[:12]} has over {MAX_FILES:,} files, or folders over {MAX_DEPTH} deep. "
            "It is not checked out."
        )


def _levels(trees: Objects, tree_id: str) -> list[set[str]]:
    """The subtrees of a tree, by depth; a subtree at several depths appears at each."""
    levels = [{tree_id}]
    while len(levels) <= MAX_DEPTH:
        known = trees.trees(levels[-1])
        below = {entry.id for tree in known.values() for entry in tree.values() if entry.is_tree}
        if not below:
            break
        levels.append(below)
    return levels


def _tree_id(entry: TreeEntry | None) -> str:
    return entry.id if entry is not None and entry.is_tree else ""


def _leaf(entry: TreeEntry | None) -> TreeEntry | None:
    return None if entry is None or entry.is_tree else entry


def _write_once(folder: str, name: str, content: bytes) -> None:
    """Writes a file named after its content. If it exists already, marks it as recently used."""
    path = os.path.join(folder, name)
    try:
        os.utime(path)
    except FileNotFoundError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # git deletes temporary files with this prefix when it cleans up.
        draft = os.path.join(folder, f"tmp_obj_{os.urandom(6).hex()}")
        atomic_write(path, content, mode=0o600, draft=draft)


MAX_TREE = 64 << 20
_ATTEMPTS = 2
"""How often a request is tried: a git process that was killed, or whose repository was recreated, is replaced once."""
_AT_ONCE = 128
"""How many requests are sent before the first answer is read; together they fit into a pipe's buffer."""
_CHUNK = 1 << 20
_KEPT_TREES = 32_768
_FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

Sink = Callable[[], IO[bytes]]
"""Opens the file into which an object's content is written."""


class TooLarge(EnvironmentFault):
    """An object is larger than the caller's limit."""


class _ProcessEnded(Exception):  # noqa: N818 - it says what is so
    """The git process has ended."""


class Objects:
    """Reads the objects of a repository through one git process, which is restarted if it has ended."""

    def __init__(self, repository: BareRepository) -> None:
        self._repository = repository
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ends: Callable[[], object] = lambda: None
        self._trees: dict[str, Tree] = {}

    def read(self, object_id: str, kind: str, limit: int) -> bytes | None:
        """The content of an object; None if it is missing or of another kind. Raises TooLarge above the limit."""
        return self._all([object_id], kind, limit)[0]

    def tree_of(self, commit: str) -> str:
        """The tree of a commit; empty if the commit does not exist."""
        content = self.read(commit, "commit", MAX_TREE) or b""
        return content[5 : 5 + len(commit)].decode("ascii", "replace")

    def tree(self, tree_id: str) -> Tree:
        """The entries of a tree; raises DamagedRepository if the tree is missing."""
        found = self._trees.get(tree_id)
        return self.trees([tree_id])[tree_id] if found is None else found

    def trees(self, tree_ids: Iterable[str]) -> dict[str, Tree]:
        wanted = set(tree_ids)
        found = {tree_id: self._trees[tree_id] for tree_id in wanted if tree_id in self._trees}
        missing = [tree_id for tree_id in wanted if tree_id not in found]
        for tree_id, content in zip(missing, self._all(missing, "tree", MAX_TREE), strict=True):
            if content is None:
                raise DamagedRepository(f"The mirror has no tree {tree_id[:12]}. Fetch its commit first.")
            found[tree_id] = parse_tree(content, len(tree_id) // 2)
        if len(self._trees) > _KEPT_TREES:
            self._trees = {}
        self._trees |= found
        return found

    def copy(self, wanted: Iterable[tuple[str, Sink]]) -> None:
        """Writes the contents of many files to their destinations."""
        rest = iter(wanted)
        while batch := list(islice(rest, _AT_ONCE)):
            with self._lock:
                self._copy(batch)

    def close(self) -> None:
        with self._lock:
            self._end()
            self._trees = {}

    def _all(self, object_ids: Sequence[str], kind: str, limit: int) -> list[bytes | None]:
        found: list[bytes | None] = []
        for start in range(0, len(object_ids), _AT_ONCE):
            with self._lock:
                found += self._batch(object_ids[start : start + _AT_ONCE], kind, limit)
        return found

    def _batch(self, object_ids: Sequence[str], kind: str, limit: int) -> list[bytes | None]:
        for _ in range(_ATTEMPTS):
            try:
                pipe = self._request(object_ids)
                return [_read_object(pipe, object_id, kind, limit) for object_id in object_ids]
            except (OSError, _ProcessEnded):
                self._end()
            except TooLarge:  # An unread rest would be taken for the start of the next answer.
                self._end()
                raise
        raise DamagedRepository(f"The mirror cannot read object {object_ids[0][:12]}.")

    def _copy(self, batch: Sequence[tuple[str, Sink]]) -> None:
        try:
            pipe = self._request([object_id for object_id, _ in batch])
            for object_id, sink in batch:
                kind, size = _header(pipe)
                if kind != "blob":
                    raise DamagedRepository(f"The mirror has no file {object_id[:12]}.")
                with sink() as file:
                    file.writelines(_content(pipe, size))
                    file.truncate()
        except _ProcessEnded:
            self._end()
            raise DamagedRepository(f"The mirror cannot read object {batch[0][0][:12]}.") from None
        except (OSError, EnvironmentFault):
            self._end()
            raise

    def _request(self, object_ids: Sequence[str]) -> IO[bytes]:
        """Requests objects and returns the pipe from which to read the answers."""
        if self._process is None:
            self._process = self._repository.start(
                "cat-file", "--batch", stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._ends = weakref.finalize(self, end_process, self._process)
        if self._process.stdin is None or self._process.stdout is None:
            raise _ProcessEnded
        self._process.stdin.write("".join(f"{object_id}\n" for object_id in object_ids).encode())
        self._process.stdin.flush()
        return self._process.stdout

    def _end(self) -> None:
        self._ends()
        self._process = None


def require_id(object_id: str) -> str:
    """Returns the id if it is a full object id, else raises: nothing else is ever passed to git."""
    if not _FULL_ID.fullmatch(object_id):
        raise EnvironmentFault(
            f"{object_id[:80]!r} is not a full commit or tree id. Pass all 40 digits of it."
        )
    return object_id


def _header(pipe: IO[bytes]) -> tuple[str, int]:
    """The kind and size of the next object; the kind is empty if it is missing."""
    words = pipe.readline().split()
    if words[1:] == [b"missing"]:
        return "", 0
    if len(words) != 3:
        raise _ProcessEnded
    return words[1].decode("ascii", "replace"), int(words[2])


def _read_object(pipe: IO[bytes], object_id: str, kind: str, limit: int) -> bytes | None:
    """The content of the next object; None if it is missing or of another kind."""
    found, size = _header(pipe)
    if size > limit:
        raise TooLarge(f"Object {object_id[:12]} has {size:,} bytes.")
    content = b"".join(_content(pipe, size)) if found else b""
    return content if found == kind else None


def _content(pipe: IO[bytes], size: int) -> Iterator[bytes]:
    """The content of an object in chunks, reading not one byte beyond it."""
    while size:
        chunk = pipe.read(min(size, _CHUNK))
        if not chunk:
            raise _ProcessEnded
        size -= len(chunk)
        yield chunk
    if pipe.read(1) != b"\n":
        raise _ProcessEnded
