"""What a review comment says of itself: whether it blocks, and the commands in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from remand.domain.events.reviews import Finding
from remand.domain.feedback.markup import split_code
from remand.domain.feedback.sanitiser import sanitise
from remand.domain.text.words import word_set

BLOCKING_LABELS = word_set("blocking blocker must must-fix mustfix critical required")
"""Labels at the beginning of a comment that say that it blocks."""
LENIENT_LABELS = word_set(
    "nit nits nitpick suggestion suggest optional question praise thought minor polish quibble fyi "
    "non-blocking nonblocking not-blocking"
)
"""Labels at the beginning of a comment that say that it does not."""

_LABEL = r"[A-Za-z]+(?:[ \-](?:fix|blocking|blocker))?"
_PREFIX = re.compile(
    rf"(?:[-+*][ \t]+|\d+[.)][ \t]+|\#+[ \t]+)?[^\w\s>`(\[*]*\s*[*_`]*(?:"
    rf"(?P<open>[\[(])(?P<framed>{_LABEL})[\])][*_`]*(?=[\s:\-–—]|$)"
    rf"|(?P<label>{_LABEL})[*_`]*[ \t]*(?:\((?P<decoration>[^()\n]{{1,60}})\))?[*_`]*[ \t]*"
    rf"(?::|[ \t][-–—](?=[ \t])|(?<=\))[ \t]*$))"
)


def is_blocking(text: str, default: bool = True) -> bool:
    """True when a comment blocks: the label of one line says so, or that of its first line does not deny it.

    Labels in quoted lines and code do not count. A comment without one of the known labels is left at the default.
    """
    severities = [
        _line_severity(line)
        for piece in split_code(text)
        if not piece.is_code
        for line in map(str.strip, piece.lines)
        if line and not line.startswith(">")
    ]
    if True in severities:
        return True
    return severities[0] if severities and severities[0] is not None else default


def build_finding(text: str, path: str = "", line: int = 0, *, default: bool = True) -> Finding:
    """A comment as a finding; its text stays whole."""
    return Finding(text=text, path=path, line=max(line, 0), is_blocking=is_blocking(text, default))


def review_findings(body: str, comments: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of a review that requests changes: when no comment blocks, its text does.

    Beside comments that block, its text is a suggestion, unless its label says that it blocks.
    """
    if not body.strip():
        return tuple(comments)
    if any(comment.is_blocking for comment in comments):
        return (*comments, build_finding(body, default=False))
    return (replace(build_finding(body), is_blocking=True), *comments)


_MARK_LABELS = {True: word_set("blocking blocker"), False: word_set("suggestion")}
"""Labels that only repeat the mark that is shown with a finding."""


def remove_label(text: str, *, is_blocking: bool) -> str:
    """A finding's text without a label before it that only repeats its mark."""
    first, newline, rest = text.partition("\n")
    match = _PREFIX.match(first)
    if match is None or match["decoration"] or _severity_label(match) not in _MARK_LABELS[is_blocking]:
        return text
    left = first[match.end() :].lstrip(" \t:-–—*_`")
    return f"{left}{newline}{rest}" if left else text


def _line_severity(line: str) -> bool | None:
    """Whether the label of a line says that it blocks; None when it has none of the known labels."""
    match = _PREFIX.match(line)
    if match is None:
        return None
    decorations = {part.strip().lower() for part in (match["decoration"] or "").split(",")}
    if decorations & {"blocking", "blocker"}:
        return True
    if decorations & {"non-blocking", "nonblocking", "not blocking", "optional", "nit", "if-minor"}:
        return False
    label = _severity_label(match)
    return True if label in BLOCKING_LABELS else False if label in LENIENT_LABELS else None


def _severity_label(match: re.Match[str]) -> str:
    return "-".join((match["framed"] or match["label"]).lower().split())


MENTION = "@remand "
MAX_COMMANDS = 20
_OPENS = re.compile(r"^\s*(?:>|[-+*]\s|\d+[.)]\s|\|)|[`\[<]|~~")
_HIDING = frozenset({"HTML tags", "hidden elements"})


def parse_comment_commands(text: str, repository: str = "") -> tuple[str, ...]:
    """The commands in a comment: the rest of each line that begins with `@remand `.

    A line does not count when a quote, a list or code begins above it in its paragraph, which may include it. A comment
    with HTML tags has no command: they may quote, too.
    """
    clean = sanitise(text, repository, keeps_links=True)
    if MENTION not in clean.text or not _HIDING.isdisjoint(clean.removed):
        return ()
    found: list[str] = []
    for piece in split_code(clean.text):
        is_free = not piece.is_code
        for line in piece.lines if is_free else ():
            command = line.removeprefix(MENTION).strip() if is_free and line.startswith(MENTION) else ""
            found += [command] if command else []
            is_free = not line.strip() or (is_free and not _OPENS.search(line))
    return tuple(found[:MAX_COMMANDS])
