"""The gates that suit a project, whatever it is written in."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from remand.adapters.projects import go, javascript, python, rendering, rust
from remand.adapters.projects.project import Project, Propose, project_in
from remand.domain.gates.proposal import Proposal, Proposed

_ECOSYSTEMS: dict[str, Propose] = {
    "python": python.propose,
    "js": javascript.propose,
    "rust": rust.propose,
    "go": go.propose,
}


def propose(root: str, paths: list[str]) -> Proposed:
    """What the tracked files of a main worktree speak for. Nothing is run."""
    return propose_for(project_in(root, paths))


def propose_for(project: Project) -> Proposed:
    """What a project's files speak for; gates of the same name get their ecosystem's name added."""
    gates: dict[str, Proposal] = {}
    path: list[str] = []
    for ecosystem, found in _found(project):
        path += found.path
        for one in found.gates:
            name = one.name if one.name not in gates else f"{ecosystem}-{one.name}"
            gates[name] = replace(one, name=name, gate=replace(one.gate, name=name))
    return Proposed(gates=tuple(gates.values()), path=tuple(path))


def as_toml(proposed: Proposed) -> str:
    """Proposed gates as tables of `remand.toml`."""
    return rendering.as_toml(proposed)


def _found(project: Project) -> Iterator[tuple[str, Proposed]]:
    for ecosystem, look in _ECOSYSTEMS.items():
        yield ecosystem, look(project)
