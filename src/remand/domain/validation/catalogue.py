"""Every issue the validator can raise: its code, its field, what it means, and what would satisfy it."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.entries import ENTRIES

MEANINGS = {code: entry.meaning for code, entry in ENTRIES.items()}
"""What each code means, in one sentence."""


FORMAL = frozenset(code for code, entry in ENTRIES.items() if entry.is_formal)
"""The codes of formal slips: the answer to a record that has nothing worse asks for the missing part."""


def field_of(code: str) -> str:
    """The field an issue is about."""
    return ENTRIES[code].field


def issue(code: str, **details: str) -> Issue:
    """Makes the issue of a code, its message filled with the details."""
    entry = ENTRIES[code]
    return Issue(
        code=code, field=entry.field, message=entry.message.format(**details) if details else entry.message
    )


REMEDIES = {code: entry.message for code, entry in ENTRIES.items()}
"""What would satisfy each issue; braces stand for what the record brings."""
