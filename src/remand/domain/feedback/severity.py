"""Whether a comment blocks: by how it begins, and otherwise by the review it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from remand.domain.feedback.code import pieces
from remand.domain.feedback.vocabulary import words
from remand.domain.review_events import Finding

BLOCKING = words("blocking blocker must must-fix mustfix critical required")
"""Words before a comment that say it blocks."""
LENIENT = words(
    "nit nits nitpick suggestion suggest optional question praise thought minor polish quibble fyi "
    "non-blocking nonblocking not-blocking"
)
"""Words before a comment that say it does not."""

_LABEL = r"[A-Za-z]+(?:[ \-](?:fix|blocking|blocker))?"
_PREFIX = re.compile(
    rf"(?:[-+*][ \t]+|\d+[.)][ \t]+|\#+[ \t]+)?[^\w\s>`(\[*]*\s*[*_`]*(?:"
    rf"(?P<open>[\[(])(?P<framed>{_LABEL})[\])][*_`]*(?=[\s:\-–—]|$)"
    rf"|(?P<label>{_LABEL})[*_`]*[ \t]*(?:\((?P<decoration>[^()\n]{{1,60}})\))?[*_`]*[ \t]*"
    rf"(?::|[ \t][-–—](?=[ \t])|(?<=\))[ \t]*$))"
)


def is_blocking(text: str, default: bool = True) -> bool:
    """True when a comment blocks: one line of it says so, or its first line does not say that it does not.

    Quoted lines and code say nothing. What is said in other words or other letters leaves it at the default.
    """
    said = [_said(line) for line in _own_lines(text)]
    if True in said:
        return True
    return said[0] if said and said[0] is not None else default


def finding_of(text: str, path: str = "", line: int = 0, *, default: bool = True) -> Finding:
    """A comment as a finding; its text stays whole."""
    return Finding(text=text, path=path, line=max(line, 0), is_blocking=is_blocking(text, default))


def review_findings(body: str, comments: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of a review that requests changes: when no comment blocks, what it says as a whole does.

    Beside comments that block, its words are for the reader, unless they say themselves that they block.
    """
    if not body.strip():
        return tuple(comments)
    if any(comment.is_blocking for comment in comments):
        return (*comments, finding_of(body, default=False))
    return (replace(finding_of(body), is_blocking=True), *comments)


_MARKS = {True: words("blocking blocker"), False: words("suggestion")}
"""Labels that say no more than the mark that is shown with a finding."""


def without_label(text: str, *, is_blocking: bool) -> str:
    """A finding's text without a label before it that only repeats its mark."""
    first, newline, rest = text.partition("\n")
    match = _PREFIX.match(first)
    if match is None or match["decoration"] or _label(match) not in _MARKS[is_blocking]:
        return text
    left = first[match.end() :].lstrip(" \t:-–—*_`")
    return f"{left}{newline}{rest}" if left else text


def _own_lines(text: str) -> Iterator[str]:
    """The lines that are the writer's own: no quotes, no code, nothing empty."""
    for piece in pieces(text):
        if not piece.is_code:
            yield from (line for line in map(str.strip, piece.lines) if line and not line.startswith(">"))


def _said(line: str) -> bool | None:
    """What a line says of blocking by its first word; None when it says nothing."""
    match = _PREFIX.match(line)
    if match is None:
        return None
    decorations = {part.strip().lower() for part in (match["decoration"] or "").split(",")}
    if decorations & {"blocking", "blocker"}:
        return True
    if decorations & {"non-blocking", "nonblocking", "not blocking", "optional", "nit", "if-minor"}:
        return False
    label = _label(match)
    return True if label in BLOCKING else False if label in LENIENT else None


def _label(match: re.Match[str]) -> str:
    return "-".join((match["framed"] or match["label"]).lower().split())
