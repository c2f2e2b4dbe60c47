"""What a reviewer's last words say: a yes with what was looked at, a no with findings, or nothing that can be told.

Nothing is guessed, and a yes least of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from remand.domain.feedback.sanitise import sanitise_findings
from remand.domain.feedback.severity import finding_of, review_findings
from remand.domain.record import Record
from remand.domain.review_events import Finding
from remand.domain.reviewing.blocks import Answer, Block, Unclear, answer_of, blocks
from remand.domain.reviewing.lines import weighed
from remand.domain.reviewing.plain import REJECT, Plain, plain, verdict_named
from remand.domain.rules import MAX_FINDINGS

KEY = "verdict"
NOTHING = "It holds no verdict: neither a JSON object with `verdict` nor a line `VERDICT: APPROVE` or `VERDICT: REJECT`."
CONTRADICTS = "It holds verdicts that contradict one another, or one that is neither approve nor reject."
UNNAMED = "It approves beside other text without naming its run, so that it may be a quotation."
BLOCKED = "It approves and names what blocks."
NOTHING_BLOCKS = "It rejects without a blocking finding."
NO_LIST = "Its `checked` or `findings` is no list of objects with path, line and text."
REST = "{count} more are not handed on."


class Approved(Record, kw_only=True):
    """A yes."""

    checked: tuple[Finding, ...] = ()
    """What was looked at and found to hold, then what else might be done; nothing of it blocks."""


class Rejected(Record, kw_only=True):
    """A no; at least one finding blocks."""

    findings: tuple[Finding, ...]


Answered = Approved | Rejected | Unclear


def review(text: str, run_id: str = "", repository: str = "") -> Answered:
    """The review that an agent's last words are.

    `repository` is the address of the project's own repository: links into it stay in what is said.
    """
    answer = answer_of(text)
    said, typed = _counting(blocks(answer, (KEY,)), plain(answer), run_id)
    if said and said[-1].values is None:
        return Unclear(why=f"Its last JSON object cannot be read: {said[-1].fault}.")
    words = {verdict_named(block.values.get(KEY)) for block in said if block.values is not None}
    words |= {line.word for line in typed.verdicts}
    if not words:
        return Unclear(why=NOTHING)
    if len(words) > 1 or "" in words:
        return Unclear(why=CONTRADICTS)
    is_no = words == {REJECT}
    found = (
        _of_object(answer, said[-1], run_id, is_no=is_no) if said else _of_lines(typed, run_id, is_no=is_no)
    )
    return found if isinstance(found, Unclear) else _fit(found, repository)


def _counting(said: list[Block], typed: Plain, run_id: str) -> tuple[list[Block], Plain]:
    """Of all verdicts those that name the run, when there are any: the others are quotations."""
    named = [block for block in said if block.names(run_id)]
    lines = tuple(line for line in typed.verdicts if run_id and line.run_id == run_id)
    return (named, typed._replace(verdicts=lines)) if named or lines else (said, typed)


def _of_object(answer: Answer, block: Block, run_id: str, *, is_no: bool) -> Answered:
    values = block.values or {}
    checked, findings = values.get("checked", []), values.get("findings", [])
    if not isinstance(checked, list) or not isinstance(findings, list):
        return Unclear(why=NO_LIST)
    if is_no:
        return _no(tuple(_entries(findings)))
    if not block.names(run_id) and not answer.is_nothing_but(block):
        return Unclear(why=UNNAMED)
    suggested = tuple(_entries(findings))
    return _yes((*_entries(checked), *suggested), has_blocking=any(one.is_blocking for one in suggested))


def _of_lines(typed: Plain, run_id: str, *, is_no: bool) -> Answered:
    findings = tuple(row.finding for row in typed.rows)
    if is_no:
        return _no(review_findings(typed.body, findings))
    if not typed.is_alone and not (run_id and typed.verdicts[-1].run_id == run_id):
        return Unclear(why=UNNAMED)
    return _yes(findings, has_blocking=any(row.is_said and row.finding.is_blocking for row in typed.rows))


def _entries(rows: list[object]) -> Iterator[Finding]:
    """The findings of a list. One that does not say whether it blocks is taken by how it begins, and else blocks."""
    for row in rows:
        if isinstance(row, str) and row.strip():
            yield weighed(row)
        elif isinstance(row, dict) and isinstance(text := row.get("text"), str) and text.strip():
            found = finding_of(text, _path(row.get("path")), _line(row.get("line")))
            said = row.get("blocking")
            yield replace(found, is_blocking=said) if isinstance(said, bool) else found


def _path(value: object) -> str:
    return value.strip().strip("`").removeprefix("./") if isinstance(value, str) else ""


def _line(value: object) -> int:
    """A line's number; a range is where it begins, and what is no number is no line."""
    digits = str(value).partition("-")[0].strip() if isinstance(value, int | str) else ""
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 9
    return int(digits) if is_number and not isinstance(value, bool) else 0


def _no(findings: Sequence[Finding]) -> Answered:
    if not any(one.is_blocking for one in findings):
        return Unclear(why=NOTHING_BLOCKS)
    return Rejected(findings=tuple(findings))


def _yes(looked: Sequence[Finding], *, has_blocking: bool) -> Answered:
    if has_blocking:
        return Unclear(why=BLOCKED)
    return Approved(checked=tuple(replace(one, is_blocking=False) for one in looked))


def _fit(found: Approved | Rejected, repository: str) -> Answered:
    """The answer as it may be handed on: cleaned, and no more than a review takes."""
    if isinstance(found, Approved):
        return Approved(checked=_clean(found.checked, repository))
    return _no(_clean(found.findings, repository))


def _clean(findings: Sequence[Finding], repository: str) -> tuple[Finding, ...]:
    """Findings made safe to hand on: as many as a review takes, what blocks before what does not."""
    if len(findings) > MAX_FINDINGS:
        kept = sorted(range(len(findings)), key=lambda at: not findings[at].is_blocking)[: MAX_FINDINGS - 1]
        rest = Finding(text=REST.format(count=len(findings) - len(kept)), is_blocking=False)
        findings = (*(findings[at] for at in sorted(kept)), rest)
    clean = sanitise_findings(findings, repository, is_rendered=False).findings
    return tuple(one for one in clean if one.text.strip())
