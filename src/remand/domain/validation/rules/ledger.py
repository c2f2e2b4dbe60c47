"""What the ledger knows of the names in a rejection, and what checking its evidence gave."""

from __future__ import annotations

from collections.abc import Iterator

from remand.domain.reasons import RejectionReason
from remand.domain.validation.assessment import Feature, Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.mentions import bare, is_task_name
from remand.domain.validation.reading import Reading
from remand.domain.validation.rules.obsolete import names_place, others
from remand.domain.validation.world import Named, World

DISPROVED = "disproved"
CONFIRMED = ("corroborated", "reproduced")
CONFIRMATION = 1.5


def against_ledger(reading: Reading, world: World) -> Iterator[Issue]:
    """What the ledger holds against the names, and the checks against the evidence."""
    if reading.reason is RejectionReason.MISSING_DEPENDENCY:
        yield from _dependencies(reading, world)
    if reading.reason is RejectionReason.OBSOLETE:
        yield from _superseding(reading, world)
    for graded in world.graded:
        if graded.grade == DISPROVED:
            detail = f" ({graded.detail})" if graded.detail else ""
            yield issue("evidence_disproved", number=str(graded.index + 1), detail=detail)


def confirmed(reading: Reading, world: World) -> Iterator[Feature]:
    """What the ledger and the repository bear out: it counts for a rejection, however it is written."""
    if reading.reason is RejectionReason.MISSING_DEPENDENCY:
        known = (world.named_as(name) or world.named_as(bare(name)) for name in reading.dependencies)
        if any(
            item and item.task_id and _dependency(item.name, item, reading.agent) is None for item in known
        ):
            note = "The ledger knows the dependency, and it is open."
            yield Feature(
                name="dependency_confirmed",
                field="blocking_factor",
                value=1.0,
                weight=CONFIRMATION,
                note=note,
            )
    if any(graded.grade in CONFIRMED for graded in world.graded):
        note = "A piece of evidence was checked and holds."
        yield Feature(name="evidence_confirmed", field="evidence", value=1.0, weight=CONFIRMATION, note=note)


def _dependencies(reading: Reading, world: World) -> Iterator[Issue]:
    """Silent as long as one of the names may rightly be waited for."""
    found = [
        _dependency(name, world.named_as(name) or world.named_as(bare(name)), reading.agent)
        for name in reading.dependencies
    ]
    if found and None not in found:
        yield from (item for item in found if item)


def _superseding(reading: Reading, world: World) -> Iterator[Issue]:
    """Something named must be found: another task that is not given up, a commit on the base branch, or a file."""
    names = others(reading)
    known = [world.named_as(name) or world.named_as(bare(name)) for name in names]
    tasks = [item for item in known if item and item.task_id]
    if any(map(_may_supersede, tasks)):
        return
    if any(name in world.merged for name in names):
        return
    if names_place(reading) and any(graded.grade in CONFIRMED for graded in world.graded):
        return
    if tasks and all(item.is_self for item in tasks):
        yield issue("obsolete_itself", name=tasks[0].name)
    elif world.has_repository:
        yield issue("obsolete_unknown")
    elif known and all(item and is_task_name(item.name) and not item.task_id for item in known):
        yield issue("dependency_unknown", name=names[0])


def _may_supersede(other: Named) -> bool:
    return not other.is_self and not other.is_descendant and other.status != "cancelled" and other.is_related


def _dependency(name: str, known: Named | None, agent: str) -> Issue | None:
    if known is None or (not known.task_id and _is_decision(name)):
        return None
    if not known.task_id:
        return issue("dependency_unknown", name=known.name)
    if known.is_self:
        return issue("dependency_is_itself", name=known.name)
    if agent and known.created_by == agent:
        return issue("dependency_own", name=known.name)
    if known.is_descendant:
        return issue("dependency_circular", name=known.name)
    return (
        None if known.is_open else issue("dependency_done", name=known.name, status=known.status or "closed")
    )


def _is_decision(name: str) -> bool:
    """The ledger keeps tasks; a decision it does not know may have been taken elsewhere."""
    return bare(name).startswith("D-")
