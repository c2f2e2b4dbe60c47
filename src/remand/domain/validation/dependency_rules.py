"""Rules on what a rejection names: dependencies, what made a task obsolete, what the ledger knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from remand.domain.reasons import RejectionReason
from remand.domain.validation.assessment import Feature, Issue, NamedTask, ValidationFacts, issue
from remand.domain.validation.lexicon import CLASSES, says_easy
from remand.domain.validation.parsed_rejection import ParsedRejection, bare_name, is_task_name, names_in
from remand.domain.validation.tokens import Text, new_thing_count, tokenise_text

EXPLAINING_WORDS = 3
_STATUS = re.compile(
    r"([A-Z][A-Z0-9]{0,9}-[A-Za-z0-9-]{1,60}|#[0-9]+)(?:\s?[:：=]|\s?->|,)?\s?"
    r"(?:(?:is|was|has been|ist|wurde|está|est|é|è|jest)\s)?([^\W\d_]{1,30})"
)


def check_unnamed_dependency(reading: ParsedRejection) -> Issue | None:
    """No task or decision is named, by id or in words."""
    return None if reading.dependencies or reading.names_dependency else issue("dependency_unnamed")


def check_self_dependency(reading: ParsedRejection) -> Issue | None:
    """The task depends on itself."""
    return (
        issue("dependency_is_itself", name=bare_name(reading.task_id)) if reading.is_self_dependent else None
    )


def check_finished_dependency(reading: ParsedRejection) -> Issue | None:
    """The record itself says that the dependency is done."""
    names = {bare_name(name) for name in reading.dependencies}
    for text in (*reading.attempts, *(item.data for item in reading.evidence)):
        if text.count("done") and not text.count("not") and not text.count("open"):
            for name, status in _STATUS.findall(text.raw):
                if name in names and "done" in CLASSES.get(status.lower(), ()):
                    return issue("dependency_done", name=name, status=status.lower())
    return None


def check_unexplained_dependency(reading: ParsedRejection) -> Issue | None:
    """A detail that would fit any dependency."""
    detail = reading.detail
    count = new_thing_count(detail, reading.title, _dependency_text(reading)) + len(detail.acronyms)
    return issue("hard_requirement_missing") if detail.raw and count < EXPLAINING_WORDS else None


def check_trivial_dependency(reading: ParsedRejection) -> Issue | None:
    """The record itself says that the dependency is easy, or could be done by the agent."""
    texts = (*reading.claim, *reading.attempts, *reading.evidence_and_sources)
    is_trivial = any(says_easy(text.raw) for text in texts) or says_easy(
        reading.alternative.raw, is_plan=True
    )
    return issue("dependency_trivial") if is_trivial else None


def _dependency_text(reading: ParsedRejection) -> Text:
    """The ids of dependencies, which explain nothing, with their places."""
    return tokenise_text(" ".join((*reading.dependencies, *map(bare_name, reading.dependencies))))


DEPENDENCY_RULES = (
    check_unnamed_dependency,
    check_self_dependency,
    check_finished_dependency,
    check_unexplained_dependency,
    check_trivial_dependency,
)


_PATH = re.compile(r"(?<![\w./-])[\w./-]{1,200}+(?::[0-9]+)?")
_PLACE = re.compile(r".*\w\.\w{1,8}:[0-9]+|[\w.-]+/.*\.\w{1,8}")
MAX_PATHS = 500


def check_unnamed_successor(reading: ParsedRejection) -> Issue | None:
    """No commit, task or place in a file is named."""
    return None if _named_ids(reading) or has_file_place(reading) else issue("obsolete_unnamed")


def check_self_successor(reading: ParsedRejection) -> Issue | None:
    """The only thing named is the task itself."""
    if not _named_ids(reading) or superseding_names(reading) or has_file_place(reading):
        return None
    return issue("obsolete_itself", name=bare_name(reading.task_id))


def superseding_names(reading: ParsedRejection) -> tuple[str, ...]:
    """The commits and tasks named besides the task itself."""
    return tuple(name for name in _named_ids(reading) if bare_name(name) != bare_name(reading.task_id))


def has_file_place(reading: ParsedRejection) -> bool:
    """True if a file is named that shows it."""
    paths = islice(_PATH.finditer(_named_text(reading)), MAX_PATHS)
    return any(_PLACE.fullmatch(path[0].rstrip(".")) for path in paths)


def _named_ids(reading: ParsedRejection) -> tuple[str, ...]:
    return names_in(_named_text(reading))


def _named_text(reading: ParsedRejection) -> str:
    texts = (text for item in reading.evidence for text in (item.data, item.source))
    statements = (reading.factor, reading.summary, reading.detail, *reading.attempts)
    return "\n".join(text.raw for text in (*statements, *texts))


OBSOLETE_RULES = (check_unnamed_successor, check_self_successor)


DISPROVED = "disproved"
CONFIRMED = ("corroborated", "reproduced")
CONFIRMATION = 1.5


def check_against_ledger(reading: ParsedRejection, facts: ValidationFacts) -> Iterator[Issue]:
    """Issues from the ledger about the names, and from the checks of evidence."""
    if reading.reason is RejectionReason.MISSING_DEPENDENCY:
        yield from _check_dependencies(reading, facts)
    if reading.reason is RejectionReason.OBSOLETE:
        yield from _check_superseding(reading, facts)
    for graded in facts.graded:
        if graded.grade == DISPROVED:
            detail = f" ({graded.detail})" if graded.detail else ""
            yield issue("evidence_disproved", number=str(graded.index + 1), detail=detail)


def confirmed_features(reading: ParsedRejection, facts: ValidationFacts) -> Iterator[Feature]:
    """What the ledger and the repository confirm: it supports a rejection, however it is written."""
    if reading.reason is RejectionReason.MISSING_DEPENDENCY:
        known = (facts.find_task(name) or facts.find_task(bare_name(name)) for name in reading.dependencies)
        if any(
            item and item.task_id and _check_dependency(item.name, item, reading.agent) is None
            for item in known
        ):
            note = "The ledger knows the dependency, and it is open."
            yield Feature(
                name="dependency_confirmed",
                field="blocking_factor",
                value=1.0,
                weight=CONFIRMATION,
                note=note,
            )
    if any(graded.grade in CONFIRMED for graded in facts.graded):
        note = "A piece of evidence was checked and holds."
        yield Feature(name="evidence_confirmed", field="evidence", value=1.0, weight=CONFIRMATION, note=note)


def _check_dependencies(reading: ParsedRejection, facts: ValidationFacts) -> Iterator[Issue]:
    """Silent while one of the names may rightly be waited for."""
    found = [
        _check_dependency(name, facts.find_task(name) or facts.find_task(bare_name(name)), reading.agent)
        for name in reading.dependencies
    ]
    if found and None not in found:
        yield from (item for item in found if item)


def _check_superseding(reading: ParsedRejection, facts: ValidationFacts) -> Iterator[Issue]:
    """Something named must exist: another task that was not given up, a commit on the base branch, or a file."""
    names = superseding_names(reading)
    known = [facts.find_task(name) or facts.find_task(bare_name(name)) for name in names]
    tasks = [item for item in known if item and item.task_id]
    if any(map(_may_supersede, tasks)):
        return
    if any(name in facts.merged for name in names):
        return
    if has_file_place(reading) and any(graded.grade in CONFIRMED for graded in facts.graded):
        return
    if tasks and all(item.is_self for item in tasks):
        yield issue("obsolete_itself", name=tasks[0].name)
    elif facts.has_repository:
        yield issue("obsolete_unknown")
    elif known and all(item and is_task_name(item.name) and not item.task_id for item in known):
        yield issue("dependency_unknown", name=names[0])


def _may_supersede(other: NamedTask) -> bool:
    return not other.is_self and not other.is_descendant and other.status != "cancelled" and other.is_related


def _check_dependency(name: str, known: NamedTask | None, agent: str) -> Issue | None:
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
    """The ledger stores tasks; a decision that it does not know may have been made elsewhere."""
    return bare_name(name).startswith("D-")
