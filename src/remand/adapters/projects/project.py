"""What may be looked at to tell which gates suit a project."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from remand.adapters.projects import worktree
from remand.domain.gates.gate import Gate, Prepare
from remand.domain.gates.proposal import Proposal, Proposed


class Project(NamedTuple):
    """A repository's files. Nothing of it is run."""

    paths: frozenset[str]
    """Every tracked file, from the repository's root."""
    read: Callable[[str], str]
    """A tracked file's text; empty when there is none, or none that can be read."""
    has_folder: Callable[[str], bool]
    """Whether the main worktree has such a folder, tracked or not."""

    def text(self, path: str) -> str:
        """A file's text; empty when it is not tracked."""
        return self.read(path) if path in self.paths else ""

    def first(self, *names: str) -> str:
        """The first of these files that is tracked; empty when none is."""
        return next((name for name in names if name in self.paths), "")

    def matching(self, pattern: re.Pattern[str]) -> list[str]:
        """The tracked files whose whole path matches, in order."""
        return sorted(path for path in self.paths if pattern.fullmatch(path))


class Propose(Protocol):
    """Tells which gates suit a project, as far as one ecosystem is concerned."""

    def __call__(self, project: Project) -> Proposed:
        """The gates that the project's own files speak for; none when it is no such project."""


def project_in(root: str, paths: list[str]) -> Project:
    """The project whose main worktree is that folder."""
    return Project(
        paths=frozenset(paths),
        read=partial(worktree.text, root),
        has_folder=partial(worktree.has_folder, root),
    )


def proposal(
    name: str,
    command: tuple[str, ...],
    parser: str,
    why: str,
    *,
    require: dict[str, float] | None = None,
    prepare: Prepare | None = None,
    timeout: float = 600.0,
) -> Proposal:
    """A gate of that name, with what speaks for it."""
    gate = Gate(
        name=name, command=command, parser=parser, require=require or {}, prepare=prepare, timeout=timeout
    )
    return Proposal(name=name, gate=gate, why=why)
