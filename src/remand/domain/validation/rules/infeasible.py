"""Infeasible tasks: the demands that are quoted as excluding each other are the task's own."""

from __future__ import annotations

import re

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.lexicon import GENERIC_STEMS
from remand.domain.validation.phrases import clauses, says_impossible, says_possible
from remand.domain.validation.reading import Reading
from remand.domain.validation.tokens import Text, quotations, read

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


def constraints_missing(reading: Reading) -> Issue | None:
    """Nothing is set against a demand of the task: neither another demand, nor a figure, nor what forbids it."""
    demands = [read(clause) for clause in clauses(reading.scope.raw)]
    touched = [
        clause for clause in demands if any(_touches(text, clause, reading.title) for text in reading.claim)
    ]
    is_titled = any(text.telling & reading.title.telling for text in reading.claim)
    figures = {figure for text in reading.claim for figure in text.figures}
    is_measured = len(figures) >= PAIR and bool(figures - set(reading.title.figures))
    is_opposed = any(text.count("opposes") for text in reading.claim)
    quoted = {part for text in reading.claim for part in quotations(text.raw)}
    if (
        len(touched) + is_titled >= PAIR
        or is_measured
        or len(quoted) >= PAIR
        or (is_opposed and (touched or is_titled))
    ):
        return None
    return issue("constraints_missing") if reading.is_readable and demands else None


def _touches(text: Text, clause: Text, title: Text) -> bool:
    """True when a text speaks of a demand by more than the title's words."""
    words = (text.telling & clause.telling) - title.telling - GENERIC_STEMS
    return bool(words) or bool(set(text.figures) & set(clause.figures) - set(title.figures))


def preference(reading: Reading) -> Issue | None:
    """What is given is a preference: nothing is said to be impossible, or it is said to be possible."""
    is_preferred = any(text.count("prefers") for text in reading.claim)
    claim = "\n".join(text.raw for text in (reading.detail, reading.factor))
    if says_possible(claim) or (is_preferred and not says_impossible(claim)):
        return issue("infeasible_preference")
    return None


RULES = (constraints_invented, denied, constraints_missing, preference)
