"""Obsolete tasks: what made them so is named, shown, and is not the task itself."""

from __future__ import annotations

import re
from itertools import islice

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.mentions import bare, names_in
from remand.domain.validation.reading import Reading

_PATH = re.compile(r"(?<![\w./-])[\w./-]{1,200}+(?::[0-9]+)?")
_PLACE = re.compile(r".*\w\.\w{1,8}:[0-9]+|[\w.-]+/.*\.\w{1,8}")
MAX_PATHS = 500


def unnamed(reading: Reading) -> Issue | None:
    """Neither commit nor task nor place in a file is named."""
    return None if _named(reading) or names_place(reading) else issue("obsolete_unnamed")


def is_itself(reading: Reading) -> Issue | None:
    """The only thing named is the task itself."""
    if not _named(reading) or others(reading) or names_place(reading):
        return None
    return issue("obsolete_itself", name=bare(reading.task_id))


def others(reading: Reading) -> tuple[str, ...]:
    """The commits and tasks named besides the task itself."""
    return tuple(name for name in _named(reading) if bare(name) != bare(reading.task_id))


def names_place(reading: Reading) -> bool:
    """True when a file is named that shows it."""
    paths = islice(_PATH.finditer(_text(reading)), MAX_PATHS)
    return any(_PLACE.fullmatch(path[0].rstrip(".")) for path in paths)


def _named(reading: Reading) -> tuple[str, ...]:
    return names_in(_text(reading))


def _text(reading: Reading) -> str:
    shown = (text for item in reading.evidence for text in (item.data, item.source))
    told = (reading.factor, reading.summary, reading.detail, *reading.attempts)
    return "\n".join(text.raw for text in (*told, *shown))


RULES = (unnamed, is_itself)
