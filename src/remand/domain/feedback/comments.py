"""What a review comment says by itself: whether it blocks, and the commands in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from remand.domain.events.reviews import Finding
from remand.domain.feedback.markup import split_code
from remand.domain.feedback.sanitiser import sanitise
from remand.domain.text.words import word_set

BLOCKING_LABELS = word_set("blocking blocker must must-fix mustfix critical required")
"""Words before a comment that say it blocks."""
LENIENT_LABELS = word_set(
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
    said = [_line_severity(line) for line in _own_lines(text)]
    if True in said:
        return True
    return said[0] if said and said[0] is not None else default


def build_finding(text: str, path: str = "", line: int = 0, *, default: bool = True) -> Finding:
    """A comment as a finding; its text stays whole."""
    return Finding(text=text, path=path, line=max(line, 0), is_blocking=is_blocking(text, default))


def review_findings(body: str, comments: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of a review that requests changes: when no comment blocks, what it says as a whole does.

    Beside comments that block, its words are for the reader, unless they say themselves that they block.
    """
    if not body.strip():
        return tuple(comments)
    if any(comment.is_blocking for comment in comments):
        return (*comments, build_finding(body, default=False))
    return (replace(build_finding(body), is_blocking=True), *comments)


_MARK_LABELS = {True: word_set("blocking blocker"), False: word_set("suggestion")}
"""Labels that say no more than the mark that is shown with a finding."""


def remove_label(text: str, *, is_blocking: bool) -> str:
    """A finding's text without a label before it that only repeats its mark."""
    first, newline, rest = text.partition("\n")
    match = _PREFIX.match(first)
    if match is None or match["decoration"] or _severity_label(match) not in _MARK_LABELS[is_blocking]:
        return text
    left = first[match.end() :].lstrip(" \t:-–—*_`")
    return f"{left}{newline}{rest}" if left else text


def _own_lines(text: str) -> Iterator[str]:
    """The lines that are the writer's own: no quotes, no code, nothing empty."""
    for piece in split_code(text):
        if not piece.is_code:
            yield from (line for line in map(str.strip, piece.lines) if line and not line.startswith(">"))


def _line_severity(line: str) -> bool | None:
    """What a line says of blocking by its first word; None when it says nothing."""
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
    """What a comment asks of us: the rest of each line that begins with `@remand `.

    What stands above such a line in its paragraph is plain words: a quote, a list or code that begins there may
    include it. A comment with HTML tags has no command: they may quote, too.
    """
    clean = sanitise(text, repository, keeps_links=True)
    if MENTION not in clean.text or any(removal.kind in _HIDING for removal in clean.removed):
        return ()
    found: list[str] = []
    for piece in split_code(clean.text):
        is_free = not piece.is_code
        for line in piece.lines if is_free else ():
            asked = line.removeprefix(MENTION).strip() if is_free and line.startswith(MENTION) else ""
            found += [asked] if asked else []
            is_free = not line.strip() or (is_free and not _OPENS.search(line))
    return tuple(found[:MAX_COMMANDS])
