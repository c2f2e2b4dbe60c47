"""Projects made of texts alone."""

from collections.abc import Mapping

from remand.adapters.projects.detection import propose_project_gates
from remand.adapters.projects.project import Project
from remand.domain.gate.gate import Gate, GateProposals


def project(files: Mapping[str, str], *folders: str) -> Project:
    """A project with these files, and programs of any name in these folders of its main worktree."""
    return Project(
        paths=frozenset(files),
        read=files.__getitem__,
        has_program=lambda path: path in folders or path.rpartition("/")[0] in folders,
    )


def proposed(files: Mapping[str, str], *folders: str) -> GateProposals:
    """What is proposed for such a project."""
    return propose_project_gates(project(files, *folders))


def gates(files: Mapping[str, str], *folders: str) -> dict[str, Gate]:
    """The gates that are proposed, by name."""
    return {one.name: one.gate for one in proposed(files, *folders).gates}
