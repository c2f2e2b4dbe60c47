"""A review in plain lines: `VERDICT: REJECT`, then `path:line: text` with `BLOCKING:`, `nit:` or the like before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from remand.domain.feedback.code import pieces
from remand.domain.feedback.severity import is_blocking
from remand.domain.review_events import Finding
from remand.domain.reviewing.blocks import Answer
from remand.domain.reviewing.lines import weighed, without_bullet

APPROVE, REJECT = "approve", "reject"

_WORDS = {"approve": APPROVE, "approved": APPROVE, "reject": REJECT, "rejected": REJECT}
_VERDICT = re.compile(r"[^\w\"'{\[]*verdict[^\w\"':=]*[:=]\W*(?P<word>\w*)\W*(?P<rest>.*)", re.IGNORECASE)
_RUN = re.compile(r"(RUN-[\w-]{1,60})\W{0,8}")
_PLACE = re.compile(r"[^\s:]+:\d{1,9}:\s")


class VerdictLine(NamedTuple):
    """A line that is to be the verdict."""

    word: str
    """`approve`, `reject`, or empty when it says something else."""
    run_id: str = ""
    """The run that it names."""


class Row(NamedTuple):
    """A line about one place, or one that says whether it blocks."""

    finding: Finding
    is_said: bool
    """It says itself whether it blocks."""


class Plain(NamedTuple):
    """The lines of an answer that are the reviewer's own: no quotations, no code."""

    verdicts: tuple[VerdictLine, ...]
    rows: tuple[Row, ...]
    body: str
    """What else is said."""
    is_alone: bool
    """There is nothing but one verdict and lines about places."""


def verdict_named(value: object) -> str:
    """The verdict that a word stands for; empty when it is none."""
    return _WORDS.get(value.strip().lower(), "") if isinstance(value, str) else ""


def plain(answer: Answer) -> Plain:
    """What an answer says in plain lines."""
    verdicts: list[VerdictLine] = []
    rows: list[Row] = []
    body: list[str] = []
    is_in_row = False
    for line in _own_lines(answer.text):
        match = _VERDICT.fullmatch(line)
        row = None if match else _row(without_bullet(line))
        is_more = is_in_row and not match and row is None and line[:2].isspace() and bool(line.strip())
        if match:
            verdicts.append(_verdict(match))
        elif row is not None:
            rows.append(row)
        elif is_more:
            rows[-1] = _continued(rows[-1], line)
        else:
            body.append(line.strip())
        is_in_row = is_more or row is not None
    is_alone = answer.is_whole and len(verdicts) == 1 and not any(body) and _is_bare(answer.text)
    return Plain(tuple(verdicts), tuple(rows), "\n".join(body).strip(), is_alone)


def _verdict(match: re.Match[str]) -> VerdictLine:
    """A verdict is one word, and perhaps the run; more words may turn it into its opposite."""
    run = _RUN.fullmatch(match["rest"])
    if match["rest"] and run is None:
        return VerdictLine("")
    return VerdictLine(verdict_named(match["word"]), run[1] if run else "")


def _own_lines(text: str) -> Iterator[str]:
    for piece in pieces(text):
        if not piece.is_code:
            yield from (line for line in piece.lines if not line.lstrip().startswith(">"))


def _is_bare(text: str) -> bool:
    """True when nothing in a text is quoted or code."""
    return all(not piece.is_code for piece in pieces(text)) and not re.search(r"(?m)^[ \t]*>", text)


def _row(line: str) -> Row | None:
    found = weighed(line)
    is_said = is_blocking(line, default=True) == is_blocking(line, default=False) or (
        bool(found.path) and is_blocking(found.text, default=True) == is_blocking(found.text, default=False)
    )
    is_place = bool(found.path) and (is_said or _PLACE.match(line) is not None)
    return Row(found, is_said) if is_place or (is_said and not found.path) else None


def _continued(row: Row, line: str) -> Row:
    return row._replace(finding=replace(row.finding, text=f"{row.finding.text}\n{line.strip()}"))
