"""Languages whose own tool builds, checks and tests: Rust by cargo (build, clippy, test), Go by go (vet, test)."""

from __future__ import annotations

import re

from remand.adapters.projects.project import Project, proposal
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
