"""Trees like another, but for some paths: harness files of the base on the new code, a file put in."""

from __future__ import annotations

from collections.abc import Mapping

from remand.adapters.git.bare import BareRepository
from remand.adapters.git.trees import MAX_DEPTH, Tree, TreeEntry, Trees, written_tree
from remand.app.errors import EnvironmentFault

Entries = Mapping[bytes, TreeEntry | None]
"""What stands at which path; None for nothing."""
FOLDER, FILE = "40000", "100644"
_NOTHING: Tree = {}


class Composing:
    """Makes trees. What no path leads to stays as it is."""

    def __init__(self, repository: BareRepository, objects: Trees) -> None:
        self._repository = repository
        self._objects = objects

    def composed(self, tree: str, entries: Entries) -> str:
        """The id of a tree in which the named paths are as given: None removes."""
        if any(path.count(b"/") >= MAX_DEPTH for path in entries):
            raise EnvironmentFault(f"A path is over {MAX_DEPTH} folders deep; it is not looked into.")
        found = self._changed(self._objects.tree(tree), entries, len(tree))
        return written_tree(self._repository, found, len(tree))

    def _changed(self, tree: Tree, entries: Entries, id_length: int) -> Tree:
        result = dict(tree)
        below: dict[bytes, dict[bytes, TreeEntry | None]] = {}
        for path, entry in entries.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = entry
            elif entry is not None:
                result[name] = entry
            else:
                result.pop(name, None)
        for name, inner in below.items():
            self._change_folder(result, name, inner, id_length)
        return result

    def _change_folder(
        self,
        result: dict[bytes, TreeEntry],
        name: bytes,
        entries: Entries,
        id_length: int,
    ) -> None:
        """Changes what is in a folder. One that becomes empty goes, and a file makes way for a folder."""
        current = result.get(name)
        inside = self._changed(self._inside(current), entries, id_length)
        if inside:
            result[name] = TreeEntry(FOLDER, written_tree(self._repository, inside, id_length))
        elif current is not None and current.is_tree:
            del result[name]

    def _inside(self, entry: TreeEntry | None) -> Tree:
        return self._objects.tree(entry.id) if entry is not None and entry.is_tree else _NOTHING
