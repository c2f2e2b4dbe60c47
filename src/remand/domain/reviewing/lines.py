"""Findings as reviewers write them: one a line, `path:line: text`, with a word before it that says whether it blocks."""

from __future__ import annotations

import re

from remand.domain.feedback.severity import finding_of
from remand.domain.review_events import Finding

_FINDING = re.compile(r"(?P<path>[^\s:][^:]*):(?P<line>\d{1,9}):\s*(?P<text>.+)", re.DOTALL)
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s+")


def finding(text: str, *, is_blocking: bool) -> Finding:
    """A finding from `path:line: text`, or from text alone."""
    match = _FINDING.fullmatch(text.strip())
    if match is None:
        return Finding(text=text.strip(), is_blocking=is_blocking)
    return Finding(text=match["text"], path=match["path"], line=int(match["line"]), is_blocking=is_blocking)


def findings_in(text: str) -> tuple[Finding, ...]:
    """The findings of a text, one a line. Each blocks unless it begins as one that does not: `nit:`, `optional:`."""
    rows = (without_bullet(row) for row in text.splitlines())
    return tuple(weighed(row) for row in rows if any(map(str.isalnum, row)))


def without_bullet(row: str) -> str:
    """A line without what makes it an entry of a list."""
    return _BULLET.sub("", row.strip(), count=1)


def weighed(row: str) -> Finding:
    """One line as a finding; its place may stand before or after the word that says whether it blocks."""
    label, _, rest = row.partition(": ")
    after = finding(rest, is_blocking=True)
    if after.path and label.isalpha():
        return finding_of(f"{label}: {after.text}", after.path, after.line)
    found = finding(row, is_blocking=True)
    return finding_of(found.text, found.path, found.line)
