"""Where the data lies that tests read: our own, and recorded data of others where that lies beside the project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

OWN = Path(__file__).parent / "data"
RECORDED = Path(__file__).parents[2] / "shared"


def data_sets(own: str, recorded: str = "") -> list[ParameterSet]:
    """Our own data of a kind, and the recorded data, which is read by `make test-more` alone."""
    found = [pytest.param(OWN / own, id="own")]
    other = RECORDED / (recorded or f"data/{own}")
    if other.exists():
        found.append(pytest.param(other, id="recorded", marks=pytest.mark.more))
    return found


def files_of(name: str, pattern: str) -> list[ParameterSet]:
    """Every file of the data of a kind."""
    return [
        pytest.param(path, id=f"{sets.id}-{path.relative_to(folder)}", marks=sets.marks)
        for sets in data_sets(name)
        for folder in sets.values
        for path in sorted(folder.glob(pattern))
    ]
