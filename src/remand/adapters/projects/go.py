"""Go: go vet and go test."""

from __future__ import annotations

import re

from remand.adapters.projects.project import Project, proposal
from remand.domain.gate.gate import GatePreparation, GateProposals

_TEST_FILE = re.compile(r"(?:.*/)?[^/]+_test\.go")
_CACHE = "GOMODCACHE={cache}"
_VENDORED = "vendor/modules.txt"


def propose(project: Project) -> GateProposals:
    """Gates for a module at the root."""
    if "go.mod" not in project.paths:
        return GateProposals()
    prepare = _prepare(project)
    start = ("env", _CACHE, "GOPROXY=off") if prepare else ()
    # Go uses the vendor folder by itself only if go.mod asks for 1.14 or later.
    vendored = ("-mod=vendor",) if _VENDORED in project.paths else ()
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
    if tests := project.paths_matching(_TEST_FILE):
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


def _prepare(project: Project) -> GatePreparation | None:
    """Downloads the modules in go.sum, unless the repository contains them."""
    if not project.text("go.sum").strip() or _VENDORED in project.paths:
        return None
    return GatePreparation(
        command=("env", _CACHE, "GOFLAGS=-modcacherw", "go", "mod", "download"), key=("go.sum", "go.mod")
    )
