"""Saving what an agent has not committed, before the place where it lies is taken away."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from remand.adapters.git.linked import Linked
from remand.adapters.git.working import Changed, OwnGit, changed, index_at, own_git, tidy

MAX_FILE = 64 << 20
MAX_TOTAL = 1 << 30
MAX_NAMED = 50
"""How many of the files that were left out are named."""


class Left(NamedTuple):
    """What is to be saved, and what is not."""

    paths: list[bytes]
    gone: list[bytes]
    too_large: list[bytes]


def saved(linked: Linked, parent: str, why: str) -> str:
    """A commit of all that is not committed, on top of another one; empty when there is nothing.

    What git ignores stays out, and so do files above 64 MiB, all beyond 1 GiB, and what cannot be read.
    """
    tidy(linked.folder)
    with index_at(linked, parent, linked.objects) as index:
        found = changed(linked, index, parent, linked.objects, every_file=True)
        if not found:
            return ""
        left = _sorted_out(linked.folder, found)
        with own_git(linked.folder, index, linked.objects, parent) as own:
            _stage(own, os.fsencode(linked.folder), left, len(parent))
            tree = own.ask("write-tree").decode().strip()
            message = _message(why, left.too_large)
            if not left.too_large and tree == own.ask("rev-parse", f"{parent}^{{tree}}").decode().strip():
                return ""
            own.set_time(_newest(linked.folder, left.paths))
            return own.ask("commit-tree", tree, "-p", parent, "-F", "-", stdin=message).decode().strip()


def _newest(folder: str, paths: list[bytes]) -> float:
    """When the work was last changed: the same work, saved twice, makes the same commit."""
    root = os.fsencode(folder)
    return max((os.lstat(os.path.join(root, path)).st_mtime for path in (b"", *paths)), default=0.0)


def _stage(own: OwnGit, root: bytes, left: Left, id_length: int) -> None:
    """Puts everything into the index, byte for byte where attributes have git choke on a file."""
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
        b"%s %s\t%s\0" % (_mode(os.path.join(root, path)), one, path)
        for one, path in zip(ids, files, strict=True)
    )
    own.ask("update-index", "--add", "--replace", "-z", "--index-info", stdin=b"".join(entries))


def _mode(path: bytes) -> bytes:
    return b"100755" if os.lstat(path).st_mode & stat.S_IXUSR else b"100644"


def _sorted_out(folder: str, found: list[Changed]) -> Left:
    root = os.fsencode(folder)
    left = Left([], [], [])
    total = 0
    for one in found:
        if one.how[1] == "D":
            left.gone.append(one.path)
            continue
        for path, size in _files(root, one.path):
            if size > MAX_FILE or total + size > MAX_TOTAL:
                left.too_large.append(path)
            else:
                total += size
                left.paths.append(path)
    return left


def _files(root: bytes, path: bytes) -> Iterator[tuple[bytes, int]]:
    """A file or link with its size; for a repository inside, which git would take for one thing, all in it."""
    pending = [path]
    while pending:
        one = pending.pop()
        place = os.path.join(root, one)
        with suppress(OSError):
            status = os.lstat(place)
            if stat.S_ISDIR(status.st_mode):
                names = (name for name in os.listdir(place) if name.lower() != b".git")
                pending += [os.path.join(one, name) for name in names]
            elif stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and os.access(place, os.R_OK)):
                yield one, status.st_size


def _message(why: str, too_large: list[bytes]) -> bytes:
    rows = [why]
    if too_large:
        rows += ["", f"Left out, as too large ({len(too_large)} in all):"]
        rows += [repr(os.fsdecode(path)) for path in too_large[:MAX_NAMED]]
    return "\n".join(rows).encode("utf-8", "replace")
