"""Reading objects of our own repository by their ids, through one resident git process."""

from __future__ import annotations

import re
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO

from remand.adapters.git.bare import BareRepository, Damaged
from remand.adapters.git.trees import Tree, parsed
from remand.app.errors import EnvironmentFault

MAX_TREE = 64 << 20
_ATTEMPTS = 2
"""A process that was killed, or whose repository was made anew, is replaced once."""
_AT_ONCE = 128
"""How many questions are sent before the first answer is read; all fit into a pipe."""
_CHUNK = 1 << 20
_KEPT_TREES = 32_768
_FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

Sink = Callable[[], IO[bytes]]
"""Opens the file that an object's content is written over."""


class TooLarge(EnvironmentFault):
    """An object is larger than the caller wants to read."""


class _Ended(Exception):  # noqa: N818 - it says what is so
    """The process has ended."""


class Objects:
    """The objects of a repository. A process that has ended is started again with the next question."""

    def __init__(self, repository: BareRepository) -> None:
        self._repository = repository
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ends: Callable[[], object] = _nothing
        self._trees: dict[str, Tree] = {}

    def read(self, object_id: str, kind: str, limit: int) -> bytes | None:
        """An object's content, None when it is missing or of another kind; raises TooLarge above the limit."""
        return self._all([object_id], kind, limit)[0]

    def tree_of(self, commit: str) -> str:
        """The tree of a commit; empty when there is no such commit."""
        content = self.read(commit, "commit", MAX_TREE) or b""
        return content[5 : 5 + len(commit)].decode("ascii", "replace")

    def tree(self, tree_id: str) -> Tree:
        """What is in a tree; raises Damaged when there is no such tree."""
        found = self._trees.get(tree_id)
        return self.trees([tree_id])[tree_id] if found is None else found

    def trees(self, tree_ids: Iterable[str]) -> dict[str, Tree]:
        """What is in each of many trees."""
        wanted = set(tree_ids)
        found = {tree_id: self._trees[tree_id] for tree_id in wanted if tree_id in self._trees}
        missing = [tree_id for tree_id in wanted if tree_id not in found]
        for tree_id, content in zip(missing, self._all(missing, "tree", MAX_TREE), strict=True):
            if content is None:
                raise Damaged(f"The mirror has no tree {tree_id[:12]}. Bring its commit first.")
            found[tree_id] = parsed(content, len(tree_id) // 2)
        if len(self._trees) > _KEPT_TREES:
            self._trees = {}
        self._trees |= found
        return found

    def copy(self, wanted: Iterable[tuple[str, Sink]]) -> None:
        """Writes the content of each of many files to where it belongs."""
        rest = iter(wanted)
        while batch := list(islice(rest, _AT_ONCE)):
            with self._lock:
                self._copy(batch)

    def close(self) -> None:
        """Ends the process and forgets what was read."""
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
                return list(self._answers(object_ids, kind, limit))
            except (OSError, _Ended):
                self._end()
            except TooLarge:  # what is not read would stand in the way of the next answer
                self._end()
                raise
        raise Damaged(f"The mirror cannot read object {object_ids[0][:12]}.")

    def _answers(self, object_ids: Sequence[str], kind: str, limit: int) -> Iterator[bytes | None]:
        pipe = self._asked(object_ids)
        for object_id in object_ids:
            found, size = _header(pipe)
            if size > limit:
                raise TooLarge(f"Object {object_id[:12]} has {size:,} bytes.")
            content = b"".join(_content(pipe, size)) if found else b""
            yield content if found == kind else None

    def _copy(self, batch: Sequence[tuple[str, Sink]]) -> None:
        try:
            pipe = self._asked([object_id for object_id, _ in batch])
            for object_id, sink in batch:
                kind, size = _header(pipe)
                if kind != "blob":
                    raise Damaged(f"The mirror has no file {object_id[:12]}.")
                with sink() as file:
                    file.writelines(_content(pipe, size))
                    file.truncate()
        except _Ended:
            self._end()
            raise Damaged(f"The mirror cannot read object {batch[0][0][:12]}.") from None
        except (OSError, EnvironmentFault):
            self._end()
            raise

    def _asked(self, object_ids: Sequence[str]) -> IO[bytes]:
        """Asks for objects and returns the pipe that the answers come through."""
        if self._process is None:
            self._process = self._repository.start(
                "cat-file", "--batch", stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._ends = weakref.finalize(self, _end, self._process)
        if self._process.stdin is None or self._process.stdout is None:
            raise _Ended
        self._process.stdin.write("".join(f"{object_id}\n" for object_id in object_ids).encode())
        self._process.stdin.flush()
        return self._process.stdout

    def _end(self) -> None:
        self._ends()
        self._process = None


def require_id(object_id: str) -> str:
    """The id itself, when it is a full one; nothing else is ever passed to git."""
    if not _FULL_ID.fullmatch(object_id):
        raise EnvironmentFault(f"{object_id[:80]!r} is no full commit or tree id. Pass all 40 digits of it.")
    return object_id


def _header(pipe: IO[bytes]) -> tuple[str, int]:
    """The kind and size of the object that comes next; no kind when it is missing."""
    words = pipe.readline().split()
    if words[1:] == [b"missing"]:
        return "", 0
    if len(words) != 3:
        raise _Ended
    return words[1].decode("ascii", "replace"), int(words[2])


def _content(pipe: IO[bytes], size: int) -> Iterator[bytes]:
    """The content of an object, chunk by chunk, and no byte of what follows it."""
    while size:
        chunk = pipe.read(min(size, _CHUNK))
        if not chunk:
            raise _Ended
        size -= len(chunk)
        yield chunk
    if pipe.read(1) != b"\n":
        raise _Ended


def _nothing() -> None:
    """Ends nothing: no process was started yet."""


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue
