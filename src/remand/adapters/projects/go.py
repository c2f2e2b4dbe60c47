"""Go: go vet and go test."""

from __future__ import annotations

import re

from remand.adapters.projects.project import Project, proposal
from remand.domain.gates.gate import Prepare
from remand.domain.gates.proposal import Proposed

_TEST_FILE = re.compile(r"(?:.*/)?[^/]+_test\.go")
_CACHE = "GOMODCACHE={cache}"


def propose(project: Project) -> Proposed:
    """Gates for a module at the root."""
    if "go.mod" not in project.paths:
        return Proposed()
    prepare = _prepare(project)
    start = ("env", _CACHE, "GOPROXY=off") if prepare else ()
    found = [
        proposal(
            "lint",
            (*start, "go", "vet", "-json", "./..."),
            "go",
            "go.mod is there",
            require={"max_errors": 0.0},
            prepare=prepare,
        )
    ]
    if tests := project.matching(_TEST_FILE):
        found.append(
            proposal(
                "tests",
                (*start, "go", "test", "-json", "./..."),
                "go",
                f"{tests[0]} is there",
                require={"max_failures": 0.0, "max_errors": 0.0},
                prepare=prepare,
            )
        )
    return Proposed(gates=tuple(found))


def _prepare(project: Project) -> Prepare | None:
    """Downloads the modules that go.sum names, unless they lie in the repository."""
    if not project.text("go.sum").strip() or "vendor/modules.txt" in project.paths:
        return None
    return Prepare(
        command=("env", _CACHE, "GOFLAGS=-modcacherw", "go", "mod", "download"), key=("go.sum", "go.mod")
    )
