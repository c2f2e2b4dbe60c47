"""Infeasible tasks: the demands that are quoted as excluding each other are the task's own."""

from __future__ import annotations

import re

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.reading import Reading
from remand.domain.validation.tokens import quotations, read

_DENIED = re.compile(
    r"\b(?:no|not any|without any?) (?:real |actual )?(?:conflict|contradiction)s?\b(?! (?:free|with|resolution))"
    r"|\bkein(?:en|e)? (?:konflikt|widerspruch)|\b(?:no hay|sin) (?:ningún )?conflicto|\b(?:pas|aucun)\w* (?:de )?conflit"
    r"|没有冲突|無衝突|矛盾は?ない",
    re.IGNORECASE,
)
PAIR = 2
DEMAND = 3
"""How many telling words make a quotation a demand of its own."""
OWN = 0.5
"""How large a part of a quotation's words the task has, when it is the task's."""


def constraints_invented(reading: Reading) -> Issue | None:
    """A demand is quoted that is not the task's, or several short ones are."""
    if not reading.scope.stems:
        return None
    foreign = [stems for stems in _quoted(reading) if not _is_known(stems, reading)]
    if len(foreign) < PAIR and not any(len(stems) >= DEMAND for stems in foreign):
        return None
    return issue("infeasible_proof_invented")


def _quoted(reading: Reading) -> set[frozenset[str]]:
    """The words of what the detail quotes; what was seen when trying is no demand."""
    seen = "\n".join(
        text.raw for text in (*reading.attempts, *(item.data for item in reading.evidence))
    ).casefold()
    parts = (part for part in quotations(reading.detail.raw) if not part.startswith("`"))
    found = (read(part).stems for part in parts if part.strip("\"'“”„«»").casefold() not in seen)
    return {stems for stems in found if len(stems) >= PAIR}


def _is_known(stems: frozenset[str], reading: Reading) -> bool:
    return len(stems & (reading.title.stems | reading.scope.stems)) >= OWN * len(stems)


def denied(reading: Reading) -> Issue | None:
    """The record says that there is no conflict."""
    text = f"{reading.detail.raw}\n{reading.factor.raw}"
    return issue("infeasible_proof_denied") if _DENIED.search(text) else None


RULES = (constraints_invented, denied)
