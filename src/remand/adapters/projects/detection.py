"""Proposes gates from a project's files, ecosystem by ecosystem. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from remand.adapters.projects import javascript, python, toolchains
from remand.adapters.projects.project import Project, Propose, project_in
from remand.domain.gate.gate import GatePreparation, GateProposal, GateProposals

ECOSYSTEMS: dict[str, Propose] = {
    "python": python.propose,
    "js": javascript.propose,
    "rust": toolchains.propose_rust,
    "go": toolchains.propose_go,
}
_MANIFESTS = {
    "python": re.compile(r"pyproject\.toml|setup\.(?:py|cfg)|[^/]*requirements[^/]*\.txt|Pipfile|manage\.py"),
    "js": re.compile(r"package\.json"),
    "rust": re.compile(r"Cargo\.toml"),
    "go": re.compile(r"go\.mod"),
}
_NO_PROJECT = re.compile(
    r"examples?|samples?|fixtures?|docs?|tests?|testdata|templates?|vendor|third_party|node_modules|bench\w*|\..*"
)
_MAX_FOLDERS = 4


def propose_gates(root: str, paths: list[str], *, uses_lock: bool = True) -> GateProposals:
    """Proposes gates from the tracked files of a main worktree. With `uses_lock=False`, ignores its lock files."""
    return propose_project_gates(project_in(root, paths, uses_lock=uses_lock))


def propose_project_gates(project: Project) -> GateProposals:
    """Proposes gates for a project; adds the ecosystem or folder to names that occur twice."""
    gates: dict[str, GateProposal] = {}
    path: list[str] = []
    for ecosystem, folder, proposals in _proposals(project):
        path += proposals.path
        for proposal in proposals.gates:
            name = proposal.name
            if name in gates:
                name = f"{re.sub(r'[^A-Za-z0-9]+', '-', folder).strip('-') or ecosystem}-{name}"
            gates.setdefault(name, replace(proposal, name=name, gate=replace(proposal.gate, name=name)))
    return GateProposals(gates=tuple(gates.values()), path=tuple(path))


def _proposals(project: Project) -> Iterator[tuple[str, str, GateProposals]]:
    """Each ecosystem's proposals with their folder: for the root, or if it has no manifest, for folders in it."""
    is_workspace = "pnpm-workspace.yaml" in project.paths or '"workspaces"' in project.text("package.json")
    for ecosystem, propose in ECOSYSTEMS.items():
        manifest = _MANIFESTS[ecosystem]
        is_at_root = any(map(manifest.fullmatch, project.paths))
        proposals = propose(project) if is_at_root else GateProposals()
        is_whole = bool(proposals.gates) or (is_workspace and ecosystem == "js")
        folders = [] if is_whole else _folders(project, manifest)
        below = [(folder, propose(project.below(folder))) for folder in folders]
        if any(some.gates for _, some in below):
            yield from ((ecosystem, folder, _in_folder(some, folder)) for folder, some in below)
        else:
            yield ecosystem, "", proposals if is_at_root else propose(project)


def _folders(project: Project, manifest: re.Pattern[str]) -> list[str]:
    """The folders, up to two levels deep, that contain a manifest; not those inside another one."""
    holding = {
        path.rpartition("/")[0]
        for path in project.paths
        if 1 <= path.count("/") <= 2 and manifest.fullmatch(path.rpartition("/")[2])
    }
    outer = sorted(folder for folder in holding if folder.partition("/")[0] not in holding - {folder})
    return [folder for folder in outer if not any(map(_NO_PROJECT.fullmatch, folder.split("/")))][
        :_MAX_FOLDERS
    ]


def _in_folder(proposals: GateProposals, folder: str) -> GateProposals:
    """The same gates, run in a folder of the checkout."""
    if not folder:
        return proposals
    gates = (
        replace(
            one,
            why=f"{folder}: {one.why}",
            gate=replace(
                one.gate,
                command=_in_folder_command(one.gate.command, folder),
                prepare=_in_folder_prepare(one.gate.prepare, folder) if one.gate.prepare else None,
            ),
        )
        for one in proposals.gates
    )
    return GateProposals(gates=tuple(gates), path=tuple(f"{folder}/{name}" for name in proposals.path))


def _in_folder_command(command: tuple[str, ...], folder: str) -> tuple[str, ...]:
    return ("env", "-C", folder, *(command[1:] if command[0] == "env" else command))


def _in_folder_prepare(prepare: GatePreparation, folder: str) -> GatePreparation:
    own = ("--folder", folder) if python.SCRIPT in prepare.command else ()
    return replace(
        prepare,
        command=(*_in_folder_command(prepare.command, folder), *own),
        key=tuple(f"{folder}/{path}" for path in prepare.key),
    )
