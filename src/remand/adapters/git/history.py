"""What the base's history had of event files: those that a commit changed or deleted, and those at its tip."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Collection, Iterable

from remand.adapters.git.place import Place
from remand.adapters.git.repository import git
from remand.app.errors import EnvironmentFault
from remand.app.ports import Rewrite

_FOLDER = ".got/events"
_CHANGES = ("--no-renames", "--diff-filter=MDT", "--raw", "--no-abbrev", "-z")
_HASHES = (40, 64)
_CHUNK = 1 << 20


class GitHistory:
    """Reads the history of the base as far as this clone has it."""

    def __init__(self, place: Place, base: Callable[[], tuple[str, str]]) -> None:
        self._place = place
        self._base = base

    def base(self) -> tuple[str, str]:
        """The ref of the base and its tip; empty when there is none."""
        if not self._place.git_dir:
            return "", ""
        try:
            return self._base()
        except EnvironmentFault:
            return "", ""

    def rewrites(self, since: str, tip: str) -> list[Rewrite]:
        """Every change of an event file, in what is new since a commit, that was more than its addition."""
        is_known = bool(since) and not self._asked("cat-file", "-e", f"{since}^{{commit}}").returncode
        span = f"{since}..{tip}" if is_known else tip
        log = ("log", "--full-history", "-m", "--format=%x01%H", *_CHANGES, span, "--", f"{_FOLDER}/")
        found = list(_rows(self._text(*log)))
        if is_known and self._asked("merge-base", "--is-ancestor", since, tip).returncode:
            rows = self._text("diff-tree", "-r", *_CHANGES, since, tip, "--", f"{_FOLDER}/")
            found += _rows(f"\x01{tip}\0{rows}")
        blobs = self._blobs({blob for _, _, *both in found for blob in both})
        return [
            Rewrite(commit, name, blobs[before], blobs.get(after, b""))
            for commit, name, before, after in dict.fromkeys(found)
            if before in blobs
        ]

    def files(self, tip: str, without: Collection[str] = ()) -> dict[str, bytes]:
        """The event files at a commit without those of some names: name to content."""
        named = {name: blob for name, blob in self._named(tip).items() if name not in without}
        blobs = self._blobs(named.values())
        return {name: blobs[blob] for name, blob in named.items() if blob in blobs}

    def differing(self, tip: str, paths: Collection[str]) -> dict[str, bytes]:
        """What a commit has of those event files here that are not as it has them: path to content."""
        named = self._named(tip)
        there = {path: named[name] for path in paths if (name := os.path.basename(path)) in named}
        others = {path: blob for path, blob in there.items() if _blob_id(path, len(blob)) != blob}
        blobs = self._blobs(others.values())
        return {path: blobs[blob] for path, blob in others.items() if blob in blobs}

    def _named(self, tip: str) -> dict[str, str]:
        """The names of the event files at a commit, with the ids of their contents."""
        rows = self._text("ls-tree", "-z", tip, "--", f"{_FOLDER}/").split("\0")
        return {
            os.path.basename(path): facts.split()[2]
            for facts, _, path in (row.partition("\t") for row in rows)
            if path.endswith(".jsonl")
        }

    def _blobs(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of blobs, as far as this clone has them."""
        wanted = sorted({name for name in names if name.strip("0")})
        if not wanted:
            return {}
        answer = self._asked("cat-file", "--batch", stdin="".join(f"{name}\n" for name in wanted).encode())
        found: dict[str, bytes] = {}
        rest = answer.stdout
        while rest:
            header, _, rest = rest.partition(b"\n")
            name, kind, size = (*header.split(b" "), b"", b"")[:3]
            if kind != b"missing" and size.isdigit():
                found[name.decode()] = rest[: int(size)]
                rest = rest[int(size) + 1 :]
        return found

    def _text(self, *arguments: str) -> str:
        answer = self._asked(*arguments)
        return "" if answer.returncode else answer.stdout.decode("utf-8", "replace")

    def _asked(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return git(self._place.worktree, *arguments, stdin=stdin)


def _blob_id(path: str, length: int) -> str:
    """The id that git gives a file's content; empty when it cannot be read."""
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
    """The changes in a log: commit, file, and its content before and after."""
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
