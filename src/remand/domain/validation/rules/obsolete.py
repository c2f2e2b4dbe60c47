"""Obsolete tasks: what made them so is named, shown, and is not the task itself."""

from __future__ import annotations

import re

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.mentions import bare, names_in
from remand.domain.validation.reading import Reading

_PLACE = re.compile(r"[\w./-]*\w\.\w{1,8}:[0-9]+|[\w.-]+/[\w./-]+\.\w{1,8}\b")


def unnamed(reading: Reading) -> Issue | None:
    """Neither commit nor task nor place in a file is named."""
    return None if _others(reading) or _PLACE.search(_text(reading)) else issue("obsolete_unnamed")


def is_itself(reading: Reading) -> Issue | None:
    """The only thing named is the task itself."""
    named = names_in(_text(reading))
    if not named or _others(reading):
        return None
    return issue("obsolete_itself", name=bare(reading.task_id))


def _others(reading: Reading) -> tuple[str, ...]:
    return tuple(name for name in names_in(_text(reading)) if bare(name) != bare(reading.task_id))


def _text(reading: Reading) -> str:
    texts = (
        reading.factor,
        reading.summary,
        reading.detail,
        *reading.attempts,
        *(item.data for item in reading.evidence),
    )
    return "\n".join(text.raw for text in texts)


RULES = (unnamed, is_itself)
