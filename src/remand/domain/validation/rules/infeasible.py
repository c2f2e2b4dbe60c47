"""Infeasible tasks: the demands that are quoted as excluding each other are the task's own."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.reading import Reading
from remand.domain.validation.tokens import quotations, read

PAIR = 2


def constraints_invented(reading: Reading) -> Issue | None:
    """Two or more demands are quoted, and the task holds none of their words."""
    known = reading.title.stems | reading.scope.stems
    quoted = [stems for part in quotations(reading.detail.raw) if (stems := read(part).stems)]
    if not reading.scope.stems or len(quoted) < PAIR or any(stems & known for stems in quoted):
        return None
    return issue("infeasible_proof_invented")


RULES = (constraints_invented,)
