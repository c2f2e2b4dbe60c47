"""Proposes gates from a project's files, ecosystem by ecosystem. Runs nothing.

Rust and Go have their proposals here, as their own tools build, check and test: cargo (build, clippy, test) and go (vet, test).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from remand.adapters.projects import javascript, python
from remand.adapters.projects.project import Project, Propose, project_in, proposal
from remand.domain.gate.gate import GatePreparation, GateProposal, GateProposals

_RUST_SOURCE = re.compile(r"(?:.*/)?[^/]+\.rs")
_SCRIPTS = re.compile(
    r"\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|Makefile|justfile|\.pre-commit-config\.yaml"
)
_CLIPPY_FILES = ("clippy.toml", ".clippy.toml")
_TEST_MARK = re.compile(r"#\[(?:[a-z_]+::)?test\b")
_READ_SOURCES = 300
_TIMEOUT = 1200.0
_JSON = ("--message-format", "json")
_CARGO_VENDOR = "{cache}/vendor"
_CARGO_VENDORED = (
    "--config",
    'source.crates-io.replace-with="vendored"',
    "--config",
    f'source.vendored.directory="{_CARGO_VENDOR}"',
    "--offline",
)


def propose_rust(project: Project) -> GateProposals:
    """Proposes gates for the package or workspace at the root."""
    if "Cargo.toml" not in project.paths:
        return GateProposals()
    prepare = _fetch_crates(project)
    commands: list[tuple[str, tuple[str, ...], str]] = [
        ("build", ("build", "--workspace", *_JSON), "Cargo.toml is there")
    ]
    if why := _clippy(project):
        commands.append(("lint", ("clippy", "--workspace", "--all-targets", *_JSON), why))
    if why := _test_evidence(project):
        commands.append(("tests", ("test", "--workspace", "--no-fail-fast"), why))
    return GateProposals(gates=tuple(_cargo_gate(*command, prepare) for command in commands))


def _cargo_gate(name: str, words: tuple[str, ...], why: str, prepare: GatePreparation | None) -> GateProposal:
    is_test = name == "tests"
    return proposal(
        name,
        ("cargo", *words, *(_CARGO_VENDORED if prepare else ())),
        "cargo-test" if is_test else "cargo",
        why,
        require={"max_failures": 0.0, "max_errors": 0.0} if is_test else {"max_errors": 0.0},
        prepare=prepare,
        timeout=_TIMEOUT,
    )


def _clippy(project: Project) -> str:
    """Why to use clippy: its own file, lints in the manifest, or a script that runs it."""
    if own := project.first(*_CLIPPY_FILES):
        return f"{own} is there"
    if re.search(r"^\[(?:workspace\.)?lints\.clippy\]", project.text("Cargo.toml"), re.MULTILINE):
        return "Cargo.toml has lints for clippy"
    return next(
        (
            f"{path} runs cargo clippy"
            for path in project.paths_matching(_SCRIPTS)
            if "cargo clippy" in project.text(path)
        ),
        "",
    )


def _test_evidence(project: Project) -> str:
    """The first file that has a test; empty if no file looked at has one."""
    sources = sorted(project.paths_matching(_RUST_SOURCE), key=lambda path: "tests/" not in path)
    return next(
        (f"{path} has tests" for path in sources[:_READ_SOURCES] if _TEST_MARK.search(project.text(path))),
        "",
    )


def _fetch_crates(project: Project) -> GatePreparation | None:
    """Fetches the packages in the lock file. Does nothing if it uses no registry, and leaves other sources to the user."""
    lock = project.text("Cargo.lock")
    if 'source = "registry+' not in lock or 'source = "git+' in lock:
        return None
    return GatePreparation(
        command=("cargo", "vendor", "--locked", "--versioned-dirs", _CARGO_VENDOR),
        key=("Cargo.lock", "Cargo.toml"),
    )


_GO_TEST = re.compile(r"(?:.*/)?[^/]+_test\.go")
_GO_CACHE = "GOMODCACHE={cache}"
_GO_VENDORED = "vendor/modules.txt"


def propose_go(project: Project) -> GateProposals:
    """Gates for a module at the root."""
    if "go.mod" not in project.paths:
        return GateProposals()
    prepare = _download_modules(project)
    start = ("env", _GO_CACHE, "GOPROXY=off") if prepare else ()
    # Go uses the vendor folder by itself only if go.mod asks for 1.14 or later.
    vendored = ("-mod=vendor",) if _GO_VENDORED in project.paths else ()
    found = [
        proposal(
            "lint",
            (*start, "go", "vet", *vendored, "-json", "./..."),
            "go",
            "go.mod is there",
            require={"max_errors": 0.0},
            prepare=prepare,
        )
    ]
    if tests := project.paths_matching(_GO_TEST):
        found.append(
            proposal(
                "tests",
                (*start, "go", "test", *vendored, "-json", "./..."),
                "go",
                f"{tests[0]} is there",
                require={"max_failures": 0.0, "max_errors": 0.0},
                prepare=prepare,
            )
        )
    return GateProposals(gates=tuple(found))


def _download_modules(project: Project) -> GatePreparation | None:
    """Downloads the modules in go.sum, unless the repository contains them."""
    if not project.text("go.sum").strip() or _GO_VENDORED in project.paths:
        return None
    return GatePreparation(
        command=("env", _GO_CACHE, "GOFLAGS=-modcacherw", "go", "mod", "download"), key=("go.sum", "go.mod")
    )


ECOSYSTEMS: dict[str, Propose] = {
    "python": python.propose,
    "js": javascript.propose,
    "rust": propose_rust,
    "go": propose_go,
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
        for found in proposals.gates:
            name = found.name
            if name in gates:
                name = f"{re.sub(r'[^A-Za-z0-9]+', '-', folder).strip('-') or ecosystem}-{name}"
            gates.setdefault(name, replace(found, name=name, gate=replace(found.gate, name=name)))
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
