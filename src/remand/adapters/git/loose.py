"""Objects that lie in a repository as files of their own, read without starting git.

Only what has the very hash that was asked for is taken, so whoever can write files there is not believed. What is
packed, large or anything but plain is not found here: git has to be asked.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from contextlib import suppress

MAX_OBJECT = 1 << 20
_ID_LENGTHS = {40: hashlib.sha1, 64: hashlib.sha256}


def commit_tree(common_dir: str, commit: str) -> bytes | None:
    """The top tree of a commit, as it is stored; None when git has to be asked."""
    content = _read(common_dir, commit, b"commit")
    first = content.partition(b"\n")[0] if content else b""
    return _read(common_dir, first.removeprefix(b"tree ").decode("ascii", "replace"), b"tree")


def top_file(common_dir: str, commit: str, name: str) -> tuple[bytes | None] | None:
    """The content of a file at the top of a commit, None in it when there is no such file; None when git has to be asked."""
    tree = commit_tree(common_dir, commit)
    if tree is None or "/" in name:
        return None
    rest = tree
    while rest:
        entry, _, tail = rest.partition(b"\x00")
        if entry.partition(b" ")[2] == name.encode():
            blob = _read(common_dir, tail[: len(commit) // 2].hex(), b"blob")
            return None if blob is None else (blob,)
        rest = tail[len(commit) // 2 :]
    return (None,)


def _read(common_dir: str, object_id: str, kind: bytes) -> bytes | None:
    """What an object holds, if it is of that kind and its hash is its name."""
    algorithm = _ID_LENGTHS.get(len(object_id))
    if algorithm is None or not object_id.isalnum():
        return None
    stored = _stored(os.path.join(common_dir, "objects", object_id[:2], object_id[2:]))
    header, _, content = stored.partition(b"\x00")
    if header != b"%s %d" % (kind, len(content)):
        return None
    return content if algorithm(stored, usedforsecurity=False).hexdigest() == object_id else None


def _stored(path: str) -> bytes:
    """What is packed into a plain file of a bearable size; empty for any other."""
    with suppress(OSError, zlib.error):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_OBJECT:
                return zlib.decompressobj().decompress(file.read(MAX_OBJECT), MAX_OBJECT)
    return b""
