"""Missing dependency: named by id or in words, and another task than this one."""

from __future__ import annotations

import re

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.lexicon import CLASSES
from remand.domain.validation.mentions import bare
from remand.domain.validation.phrases import says_easy
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import brings
from remand.domain.validation.tokens import Text, read

EXPLAINED = 3
_STATUS = re.compile(
    r"([A-Z][A-Z0-9]{0,9}-[A-Za-z0-9-]{1,60}|#[0-9]+)(?:\s?[:：=]|\s?->|,)?\s?"
    r"(?:(?:is|was|has been|ist|wurde|está|est|é|è|jest)\s)?([^\W\d_]{1,30})"
)


def unnamed(reading: Reading) -> Issue | None:
    """No task or decision named, by id or in words."""
    return None if reading.dependencies or reading.names_dependency else issue("dependency_unnamed")


def is_itself(reading: Reading) -> Issue | None:
    """The task waits for itself."""
    return issue("dependency_is_itself", name=bare(reading.task_id)) if reading.is_self_dependent else None


def said_done(reading: Reading) -> Issue | None:
    """The record itself says that what it waits for is done."""
    names = {bare(name) for name in reading.dependencies}
    for text in (*reading.attempts, *(item.data for item in reading.evidence)):
        if text.count("done") and not text.count("not") and not text.count("open"):
            for name, status in _STATUS.findall(text.raw):
                if name in names and "done" in CLASSES.get(status.lower(), ()):
                    return issue("dependency_done", name=name, status=status.lower())
    return None


def unexplained(reading: Reading) -> Issue | None:
    """A detail that could stand beside any dependency."""
    detail = reading.detail
    said = brings(detail, reading.title, _names(reading)) + len(detail.acronyms)
    return issue("hard_requirement_missing") if detail.raw and said < EXPLAINED else None


def trivial(reading: Reading) -> Issue | None:
    """The record itself says that the dependency is easily done, or could be done by the agent."""
    texts = (*reading.claim, *reading.attempts, *reading.shown)
    is_trivial = any(says_easy(text.raw) for text in texts) or says_easy(
        reading.alternative.raw, is_plan=True
    )
    return issue("dependency_trivial") if is_trivial else None


def _names(reading: Reading) -> Text:
    """The ids waited for, which explain nothing, with where they stand."""
    return read(" ".join((*reading.dependencies, *map(bare, reading.dependencies))))


RULES = (unnamed, is_itself, said_done, unexplained, trivial)
