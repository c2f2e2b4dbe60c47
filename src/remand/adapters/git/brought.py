"""Which commits a mirror was asked for, kept as refs so that git keeps what they need."""

from __future__ import annotations

import os
import re
import shutil
import time

from remand.adapters.git.bare import BareRepository

_DAY = 86_400.0
_ID = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\n")


class Brought:
    """Two refs a commit: itself, and its code tree. Their time says when it was last asked for."""

    def __init__(self, repository: BareRepository) -> None:
        self._folder = os.path.join(repository.path, "refs", "brought")
        self._draft = os.path.join(repository.path, "brought.new")

    def tree(self, commit: str) -> str:
        """The code tree of a commit that was brought; empty for any other."""
        path = os.path.join(self._folder, commit, "tree")
        try:
            os.utime(path)
            with open(path, encoding="ascii", errors="replace") as file:
                found = _ID.fullmatch(file.read(100))
        except OSError:
            return ""
        return found[1] if found else ""

    def mark(self, commit: str, tree: str) -> None:
        """Remembers a commit with its code tree. The tree comes last, and makes it count."""
        os.makedirs(os.path.join(self._folder, commit), mode=0o700, exist_ok=True)
        for name, object_id in (("commit", commit), ("tree", tree)):
            with open(self._draft, "w", encoding="ascii") as file:
                file.write(f"{object_id}\n")
            os.replace(self._draft, os.path.join(self._folder, commit, name))

    def commits(self) -> list[str]:
        """All of them, latest first."""
        return [commit for _, commit in sorted(self._used(), reverse=True)]

    def forget(self, days: float) -> None:
        """Takes away those that nobody asked for in so many days."""
        for used, commit in self._used():
            if used < time.time() - days * _DAY:
                shutil.rmtree(os.path.join(self._folder, commit))

    def _used(self) -> list[tuple[float, str]]:
        found = []
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        for commit in names:
            try:
                found.append((os.stat(os.path.join(self._folder, commit, "tree")).st_mtime, commit))
            except FileNotFoundError:  # killed in between
                continue
        return found
