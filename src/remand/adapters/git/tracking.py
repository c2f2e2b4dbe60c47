"""Which files of a worktree git tracks or ignores, and keeping a file out of it without changing a tracked one."""

from __future__ import annotations

import os
from collections.abc import Collection

from remand.adapters.git.place import Place
from remand.adapters.git.repository import git
from remand.app.errors import EnvironmentFault

NOTE = "# Settings of this machine alone, written by `remand init --hosts`."


class Tracking:
    """What git knows of the files in one worktree; nothing is tracked or ignored where there is no repository."""

    def __init__(self, place: Place, root: str) -> None:
        self._root = root
        self._has_git = bool(place.common_dir)
        self.exclude = os.path.join(place.common_dir, "info", "exclude") if place.common_dir else ""
        """The repository's own list of ignored files, which all of its worktrees share; empty without one."""

    def tracked(self, names: Collection[str]) -> set[str]:
        """Those of the files that the worktree's index names."""
        if not names or not self._has_git:
            return set()
        answer = git(self._root, "ls-files", "-z", "--", *(f":(top,literal){name}" for name in names))
        if answer.returncode:
            said = answer.stderr.decode(errors="replace").strip()
            raise EnvironmentFault(f"git cannot list the files of {self._root}: {said}.")
        return set(answer.stdout.decode("utf-8", "surrogateescape").split("\0")) & set(names)

    def ignored(self, names: Collection[str]) -> set[str]:
        """Those of the files that the repository has git ignore."""
        if not names or not self._has_git:
            return set()
        given = "\0".join(names).encode("utf-8", "surrogateescape")
        answer = git(self._root, "check-ignore", "--no-index", "-z", "--stdin", stdin=given)
        return set(answer.stdout.decode("utf-8", "surrogateescape").split("\0")) & set(names)

    def untrack(self, name: str) -> None:
        """Takes a file out of the index, to be committed; the file itself stays."""
        answer = git(self._root, "rm", "--cached", "--quiet", "--force", "--", f":(top,literal){name}")
        if answer.returncode:
            said = answer.stderr.decode(errors="replace").strip()
            raise EnvironmentFault(f"git cannot stop tracking {name}: {said}. Mend that, then repeat.")


def with_excluded(text: str, names: Collection[str]) -> str:
    """A list of ignored files with more of them, each once."""
    rows = text.splitlines()
    fresh = [f"/{name}" for name in names if f"/{name}" not in rows]
    if not fresh:
        return text
    gap = "" if not text or text.endswith("\n") else "\n"
    return text + gap + "\n".join([*([] if NOTE in rows else [NOTE]), *fresh, ""])


def without_excluded(text: str, names: Collection[str]) -> str:
    """A list of ignored files without those, and without our note once it is about nothing."""
    ours = {f"/{name}" for name in names}
    rows = text.split("\n")
    if NOTE not in rows:
        return text
    kept = [row for row in rows if row not in ours]
    at = kept.index(NOTE)
    if not kept[at + 1 : at + 2] or not kept[at + 1].startswith("/"):
        del kept[at]
    return "\n".join(kept)
