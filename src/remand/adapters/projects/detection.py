"""The gates that a project's files speak for, ecosystem by ecosystem. Nothing is run."""

from __future__ import annotations

from msgspec.structs import replace

from remand.adapters.projects import go, javascript, python, rust
from remand.adapters.projects.project import Project, Propose, project_in
from remand.domain.gate.gate import GateProposal, GateProposals

ECOSYSTEMS: dict[str, Propose] = {
    "python": python.propose,
    "js": javascript.propose,
    "rust": rust.propose,
    "go": go.propose,
}


def propose_gates(root: str, paths: list[str], *, uses_lock: bool = True) -> GateProposals:
    """What the tracked files of a main worktree speak for; `uses_lock` False: without its lock files."""
    return propose_project_gates(project_in(root, paths, uses_lock=uses_lock))


def propose_project_gates(project: Project) -> GateProposals:
    """What a project's files speak for; gates of the same name get their ecosystem's name added."""
    gates: dict[str, GateProposal] = {}
    path: list[str] = []
    for ecosystem, propose in ECOSYSTEMS.items():
        found = propose(project)
        path += found.path
        for proposal in found.gates:
            name = proposal.name if proposal.name not in gates else f"{ecosystem}-{proposal.name}"
            gates[name] = replace(proposal, name=name, gate=replace(proposal.gate, name=name))
    return GateProposals(gates=tuple(gates.values()), path=tuple(path))
