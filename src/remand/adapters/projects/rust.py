"""Rust: cargo build, clippy and test."""

from __future__ import annotations

import re

from remand.adapters.projects.project import Project, proposal
from remand.domain.gate.gate import GatePreparation, GateProposal, GateProposals

_SOURCE = re.compile(r"(?:.*/)?[^/]+\.rs")
_SCRIPTS = re.compile(
    r"\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|Makefile|justfile|\.pre-commit-config\.yaml"
)
_CLIPPY_FILES = ("clippy.toml", ".clippy.toml")
_TEST_MARK = re.compile(r"#\[(?:[a-z_]+::)?test\b")
_READ_SOURCES = 300
_TIMEOUT = 1200.0
_JSON = ("--message-format", "json")
_VENDOR = "{cache}/vendor"
_VENDORED = (
    "--config",
    'source.crates-io.replace-with="vendored"',
    "--config",
    f'source.vendored.directory="{_VENDOR}"',
    "--offline",
)


def propose(project: Project) -> GateProposals:
    """Proposes gates for the package or workspace at the root."""
    if "Cargo.toml" not in project.paths:
        return GateProposals()
    prepare = _prepare(project)
    commands: list[tuple[str, tuple[str, ...], str]] = [
        ("build", ("build", "--workspace", *_JSON), "Cargo.toml is there")
    ]
    if why := _clippy(project):
        commands.append(("lint", ("clippy", "--workspace", "--all-targets", *_JSON), why))
    if why := _test_evidence(project):
        commands.append(("tests", ("test", "--workspace", "--no-fail-fast"), why))
    return GateProposals(gates=tuple(_gate(*command, prepare) for command in commands))


def _gate(name: str, words: tuple[str, ...], why: str, prepare: GatePreparation | None) -> GateProposal:
    is_test = name == "tests"
    return proposal(
        name,
        ("cargo", *words, *(_VENDORED if prepare else ())),
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
    sources = sorted(project.paths_matching(_SOURCE), key=lambda path: "tests/" not in path)
    return next(
        (f"{path} has tests" for path in sources[:_READ_SOURCES] if _TEST_MARK.search(project.text(path))),
        "",
    )


def _prepare(project: Project) -> GatePreparation | None:
    """Fetches the packages in the lock file. Does nothing if it uses no registry, and leaves other sources to the user."""
    lock = project.text("Cargo.lock")
    if 'source = "registry+' not in lock or 'source = "git+' in lock:
        return None
    return GatePreparation(
        command=("cargo", "vendor", "--locked", "--versioned-dirs", _VENDOR), key=("Cargo.lock", "Cargo.toml")
    )
