"""Git's trees: what stands in one, how one is written, and where two differ."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from remand.adapters.git.bare import BareRepository
from remand.app.errors import EnvironmentFault

MAX_FILES = 1_000_000
MAX_DEPTH = 200


class TreeEntry(NamedTuple):
    """What a name stands for in a tree."""

    mode: str
    id: str

    @property
    def is_tree(self) -> bool:
        """True for a folder; old tools wrote its mode with a nought in front."""
        return self.mode in ("40000", "040000")

    @property
    def is_file(self) -> bool:
        """True for a plain file, executable or not."""
        return self.mode.startswith("100")

    @property
    def is_link(self) -> bool:
        """True for a symbolic link."""
        return self.mode == "120000"


Tree = Mapping[bytes, TreeEntry]
_NOTHING: Tree = {}


class Trees(Protocol):
    """Where trees are read from."""

    def tree(self, tree_id: str) -> Tree:
        """What is in a tree."""

    def trees(self, tree_ids: Iterable[str]) -> dict[str, Tree]:
        """What is in each of many trees."""


class Difference(NamedTuple):
    """A path at which two trees have different files; None where one has none."""

    path: bytes
    before: TreeEntry | None
    after: TreeEntry | None


def parsed(content: bytes, id_size: int) -> dict[bytes, TreeEntry]:
    """The entries of a tree object."""
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


def written_tree(repository: BareRepository, entries: Tree, id_length: int) -> str:
    """Writes a tree into a repository of ours and returns its id."""
    rows = sorted(entries.items(), key=_place)
    content = b"".join(
        b"%s %s\x00%s" % (entry.mode.encode(), name, bytes.fromhex(entry.id)) for name, entry in rows
    )
    return written(repository, "tree", content, id_length)


def written(repository: BareRepository, kind: str, content: bytes, id_length: int) -> str:
    """Writes an object into a repository of ours and returns its id."""
    whole = b"%s %d\x00" % (kind.encode(), len(content)) + content
    object_id = new_hash(id_length, whole).hexdigest()
    _keep(os.path.join(repository.path, "objects", object_id[:2]), object_id[2:], zlib.compress(whole, 1))
    return object_id


def new_hash(id_length: int, start: bytes) -> hashlib._Hash:
    """What makes ids of that length."""
    return (hashlib.sha256 if id_length == 64 else hashlib.sha1)(start, usedforsecurity=False)


def entry_at(trees: Trees, tree_id: str, path: bytes) -> TreeEntry | None:
    """What a path stands for in a tree; None when it is not there."""
    entry = TreeEntry("40000", tree_id)
    for name in path.split(b"/"):
        found = trees.tree(entry.id).get(name) if entry.is_tree else None
        if found is None:
            return None
        entry = found
    return entry


def differences(trees: Trees, before: str, after: str) -> Iterator[Difference]:
    """Where two trees differ, files and links alike; an empty id stands for nothing at all."""
    pending = [(b"", before, after)]
    while pending:
        known = trees.trees(one for _, *pair in pending for one in pair if one)
        below: list[tuple[bytes, str, str]] = []
        for folder, first, second in pending:
            old, new = known.get(first, _NOTHING), known.get(second, _NOTHING)
            for name in old.keys() | new.keys():
                one, other = old.get(name), new.get(name)
                if one == other:
                    continue
                path = folder + name
                if _tree_id(one) or _tree_id(other):
                    below.append((path + b"/", _tree_id(one), _tree_id(other)))
                if _leaf(one) or _leaf(other):
                    yield Difference(path, _leaf(one), _leaf(other))
        pending = below


def require_bounded(trees: Trees, tree_id: str) -> None:
    """Raises EnvironmentFault when a tree has more files, or deeper folders, than anyone keeps on purpose."""
    levels = _levels(trees, tree_id)
    files: dict[str, int] = {}
    for level in reversed(levels):
        for one in level:
            inside = trees.tree(one).values()
            files[one] = sum(files.get(_tree_id(entry), 0) if entry.is_tree else 1 for entry in inside)
    if len(levels) > MAX_DEPTH or files[tree_id] > MAX_FILES:
        raise EnvironmentFault(
            f"Tree {tree_id[:12]} has over {MAX_FILES:,} files, or folders over {MAX_DEPTH} deep. "
            "It is not checked out."
        )


def _levels(trees: Trees, tree_id: str) -> list[set[str]]:
    """The trees inside a tree, by how deep they are; those at several depths count at each."""
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


def _place(item: tuple[bytes, TreeEntry]) -> bytes:
    """Where git puts a name in a tree: a folder as if it ended in a slash."""
    name, entry = item
    return name + b"/" if entry.is_tree else name


def _keep(folder: str, name: str, content: bytes) -> None:
    """Writes a file under the name of what it holds; one that is there is marked as used."""
    path = os.path.join(folder, name)
    try:
        os.utime(path)
    except FileNotFoundError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="tmp_obj_", delete=False) as draft:
            draft.write(content)
        os.replace(draft.name, path)
