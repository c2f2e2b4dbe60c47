"""What the ledger knows of the names in a rejection, and what checking its evidence gave."""

from __future__ import annotations

from collections.abc import Iterator

from remand.domain.reasons import RejectionReason
from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.mentions import bare
from remand.domain.validation.reading import Reading
from remand.domain.validation.world import Named, World

DISPROVED = "disproved"


def against_ledger(reading: Reading, world: World) -> Iterator[Issue]:
    """What the ledger holds against the names, and the checks against the evidence."""
    if reading.reason is RejectionReason.MISSING_DEPENDENCY:
        yield from _dependencies(reading, world)
    for graded in world.graded:
        if graded.grade == DISPROVED:
            detail = f" ({graded.detail})" if graded.detail else ""
            yield issue("evidence_disproved", number=str(graded.index + 1), detail=detail)


def _dependencies(reading: Reading, world: World) -> Iterator[Issue]:
    """Silent as long as one of the names may rightly be waited for."""
    found = [
        _dependency(name, world.named_as(name) or world.named_as(bare(name))) for name in reading.dependencies
    ]
    if found and None not in found:
        yield from (item for item in found if item)


def _dependency(name: str, known: Named | None) -> Issue | None:
    if known is None or (not known.task_id and _is_decision(name)):
        return None
    if not known.task_id:
        return issue("dependency_unknown", name=known.name)
    if known.is_self:
        return issue("dependency_is_itself", name=known.name)
    if known.is_descendant:
        return issue("dependency_circular", name=known.name)
    return (
        None if known.is_open else issue("dependency_done", name=known.name, status=known.status or "closed")
    )


def _is_decision(name: str) -> bool:
    """The ledger keeps tasks; a decision it does not know may have been taken elsewhere."""
    return bare(name).startswith("D-")
