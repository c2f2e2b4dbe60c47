"""Holds the public Python names, and that the package itself loads none of what is behind them."""

import subprocess
import sys

import pytest

import remand

NAMES = {
    "DecisionType",
    "DirectorRejectionHandler",
    "EdgeType",
    "HandoffManager",
    "Issue",
    "NodeType",
    "ProjectManager",
    "Refused",
    "RejectionDecision",
    "RejectionReason",
    "RejectionValidator",
    "TaskRejection",
    "ThoughtGraph",
    "analyze_rejection_patterns",
    "log_rejection_to_got",
}


def test_the_public_names_are_these() -> None:
    assert set(remand.__all__) == set(dir(remand)) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_name_can_be_imported(name: str) -> None:
    found = getattr(remand, name)

    assert found.__name__ == name
    assert found.__doc__
    assert getattr(remand, name) is found


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Rejection'"):
        remand.Rejection  # noqa: B018 - asked for on purpose


def loaded_by(code: str) -> set[str]:
    """The modules a fresh interpreter has after some code."""
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path[:0] = {sys.path!r}; {code}; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return set(done.stdout.split())


def test_the_package_alone_loads_next_to_nothing() -> None:
    assert not loaded_by("import remand") & {"msgspec", "typing", "dataclasses", "re", "remand.domain"}


def test_the_records_load_no_store_and_no_command_line() -> None:
    loaded = loaded_by("from remand import TaskRejection, RejectionReason, DecisionType, RejectionDecision")

    assert not loaded & {"apsw", "argparse", "rich", "remand.app", "remand.adapters", "remand.interfaces"}
