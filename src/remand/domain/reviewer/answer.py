"""The final message of a reviewer or director: a verdict with findings, a decision, or nothing that is clear."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from remand.domain.commands import AnswerRejection
from remand.domain.events.reviews import Finding
from remand.domain.feedback.comments import build_finding, is_blocking, review_findings
from remand.domain.feedback.markup import Piece, split_code
from remand.domain.feedback.sanitiser import sanitise, sanitise_findings, visible_characters
from remand.domain.preconditions import MAX_FINDINGS
from remand.domain.reasons import DecisionType, parse_decision_type
from remand.domain.record import Record

MAX_ANSWER = 128 * 1024
"""How much of the last words is read: the end of them."""
MAX_BARE = 64
"""How many bare objects are looked at: the last ones."""
RUN_FIELD = "run"
"""The field in which an answer names its run."""

_JSON = ("", "json")
_BARE = re.compile(r"(?m)^ {0,3}(?=\{)")


class UnclearAnswer(Record, kw_only=True):
    """An answer from which nothing follows, and why."""

    why: str


class AnswerBlock(NamedTuple):
    """One object that says something; None when it cannot be read."""

    values: dict[str, Any] | None
    raw: str
    fault: str = ""

    def names_run(self, run_id: str) -> bool:
        """True when it names the run it was asked in."""
        if not run_id:
            return False
        return run_id in self.raw if self.values is None else self.values.get(RUN_FIELD) == run_id


class FinalMessage(NamedTuple):
    """The last words of a run, as they are read."""

    text: str
    is_whole: bool
    """Nothing of it was cut."""

    def contains_only(self, block: AnswerBlock) -> bool:
        """True when there is nothing besides a block, except the fence around it."""
        inside = list(split_code(self.text.strip()))
        lines = inside[0].lines if len(inside) == 1 else []
        return self.is_whole and "\n".join(lines).strip() == block.raw


def read_final_message(text: str) -> FinalMessage:
    """The end of an agent's last words, with only what can be seen of it."""
    return FinalMessage(visible_characters(text[-MAX_ANSWER:]), is_whole=len(text) <= MAX_ANSWER)


def find_blocks(answer: FinalMessage, keys: Collection[str]) -> list[AnswerBlock]:
    """Every object with one of the keys, in order; those that cannot be read among them."""
    return [block for piece in split_code(answer.text) for block in _find_objects(piece, keys)]


def require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no key stands twice."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _find_objects(piece: Piece, keys: Collection[str]) -> Iterator[AnswerBlock]:
    text = "\n".join(piece.lines)
    if not any(f'"{key}"' in text for key in keys):
        return
    if piece.is_code:
        raw = text.strip()
        if piece.label.lower() in _JSON and raw.startswith("{"):
            yield from _relevant_blocks(_parse_fenced(raw), keys)
        return
    starts = [match.end() for match in _BARE.finditer(text)][-MAX_BARE:]
    end = 0
    for start in starts:
        if start >= end:
            block = _parse_bare(text[start:])
            end = start + len(block.raw) if block.values is not None else end
            yield from _relevant_blocks(block, keys)


def _relevant_blocks(block: AnswerBlock, keys: Collection[str]) -> Iterator[AnswerBlock]:
    """The block, if it is one that has to do with the keys."""
    is_about = (
        any(f'"{key}"' in block.raw for key in keys)
        if block.values is None
        else any(key in block.values for key in keys)
    )
    if is_about:
        yield block


def _parse_fenced(raw: str) -> AnswerBlock:
    try:
        return AnswerBlock(json.loads(raw, object_pairs_hook=require_unique_keys), raw)
    except (ValueError, RecursionError) as error:
        return AnswerBlock(None, raw, str(error))


def _parse_bare(text: str) -> AnswerBlock:
    try:
        values, end = json.JSONDecoder(object_pairs_hook=require_unique_keys).raw_decode(text)
    except (ValueError, RecursionError) as error:
        return AnswerBlock(None, text, str(error))
    return AnswerBlock(values, text[:end])


_FINDING = re.compile(r"(?P<path>[^\s:][^:]*):(?P<line>\d{1,9}):\s*(?P<text>.+)", re.DOTALL)
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s+")


def parse_finding(text: str, *, is_blocking: bool) -> Finding:
    """A finding from `path:line: text`, or from text alone."""
    match = _FINDING.fullmatch(text.strip())
    if match is None:
        return Finding(text=text.strip(), is_blocking=is_blocking)
    return Finding(text=match["text"], path=match["path"], line=int(match["line"]), is_blocking=is_blocking)


def parse_findings(text: str) -> tuple[Finding, ...]:
    """The findings of a text, one a line. Each blocks unless it begins as one that does not: `nit:`, `optional:`."""
    rows = (without_bullet(row) for row in text.splitlines())
    return tuple(parse_labelled_finding(row) for row in rows if any(map(str.isalnum, row)))


def without_bullet(row: str) -> str:
    """A line without what makes it an entry of a list."""
    return _BULLET.sub("", row.strip(), count=1)


def parse_labelled_finding(row: str) -> Finding:
    """One line as a finding; its place may stand before or after the word that says whether it blocks."""
    label, _, rest = row.partition(": ")
    after = parse_finding(rest, is_blocking=True)
    if after.path and label.isalpha():
        return build_finding(f"{label}: {after.text}", after.path, after.line)
    found = parse_finding(row, is_blocking=True)
    return build_finding(found.text, found.path, found.line)


APPROVE, REJECT = "approve", "reject"

_VERDICT_WORDS = {"approve": APPROVE, "approved": APPROVE, "reject": REJECT, "rejected": REJECT}
_VERDICT = re.compile(r"[^\w\"'{\[]*verdict[^\w\"':=]*[:=]\W*(?P<word>\w*)\W*(?P<rest>.*)", re.IGNORECASE)
_RUN = re.compile(r"(RUN-[\w-]{1,60})\W{0,8}")
_PLACE = re.compile(r"[^\s:]+:\d{1,9}:\s")


class VerdictLine(NamedTuple):
    """A line that is to be the verdict."""

    word: str
    """`approve`, `reject`, or empty when it says something else."""
    run_id: str = ""
    """The run that it names."""


class FindingRow(NamedTuple):
    """A line about one place, or one that says whether it blocks."""

    finding: Finding
    is_said: bool
    """It says itself whether it blocks."""


class PlainReview(NamedTuple):
    """The lines of an answer that are the reviewer's own: no quotations, no code."""

    verdicts: tuple[VerdictLine, ...]
    rows: tuple[FindingRow, ...]
    body: str
    """What else is said."""
    is_alone: bool
    """There is nothing but one verdict and lines about places."""


def parse_verdict_word(value: object) -> str:
    """The verdict that a word stands for; empty when it is none."""
    return _VERDICT_WORDS.get(value.strip().lower(), "") if isinstance(value, str) else ""


def parse_plain_review(answer: FinalMessage) -> PlainReview:
    """What an answer says in plain lines."""
    verdicts: list[VerdictLine] = []
    rows: list[FindingRow] = []
    body: list[str] = []
    is_in_row = False
    for line in _own_lines(answer.text):
        match = _VERDICT.fullmatch(line)
        row = None if match else _parse_row(without_bullet(line))
        is_more = is_in_row and not match and row is None and line[:2].isspace() and bool(line.strip())
        if match:
            verdicts.append(_parse_verdict_line(match))
        elif row is not None:
            rows.append(row)
        elif is_more:
            rows[-1] = _extend_row(rows[-1], line)
        else:
            body.append(line.strip())
        is_in_row = is_more or row is not None
    is_alone = answer.is_whole and len(verdicts) == 1 and not any(body) and _is_bare(answer.text)
    return PlainReview(tuple(verdicts), tuple(rows), "\n".join(body).strip(), is_alone)


def _parse_verdict_line(match: re.Match[str]) -> VerdictLine:
    """A verdict is one word, and perhaps the run; more words may turn it into its opposite."""
    run = _RUN.fullmatch(match["rest"])
    if match["rest"] and run is None:
        return VerdictLine("")
    return VerdictLine(parse_verdict_word(match["word"]), run[1] if run else "")


def _own_lines(text: str) -> Iterator[str]:
    for piece in split_code(text):
        if not piece.is_code:
            yield from (line for line in piece.lines if not line.lstrip().startswith(">"))


def _is_bare(text: str) -> bool:
    """True when nothing in a text is quoted or code."""
    return all(not piece.is_code for piece in split_code(text)) and not re.search(r"(?m)^[ \t]*>", text)


def _parse_row(line: str) -> FindingRow | None:
    found = parse_labelled_finding(line)
    is_said = is_blocking(line, default=True) == is_blocking(line, default=False) or (
        bool(found.path) and is_blocking(found.text, default=True) == is_blocking(found.text, default=False)
    )
    is_place = bool(found.path) and (is_said or _PLACE.match(line) is not None)
    return FindingRow(found, is_said) if is_place or (is_said and not found.path) else None


def _extend_row(row: FindingRow, line: str) -> FindingRow:
    return row._replace(finding=replace(row.finding, text=f"{row.finding.text}\n{line.strip()}"))


VERDICT_KEY = "verdict"
NO_VERDICT = "It has no verdict: neither a JSON object with `verdict` nor a line `VERDICT: APPROVE` or `VERDICT: REJECT`."
CONTRADICTORY_VERDICTS = (
    "It has verdicts that contradict one another, or one that is neither approve nor reject."
)
UNNAMED_APPROVAL = "It approves among other text without naming its run, so it may be a quotation."
BLOCKED_APPROVAL = "It approves and has blocking findings."
NO_BLOCKING_FINDING = "It rejects without a blocking finding."
NOT_A_LIST = "Its `checked` or `findings` is not a list of objects with path, line and text."
REST_TEXT = "{count} more are omitted."


class ApprovalAnswer(Record, kw_only=True):
    """A yes."""

    checked: tuple[Finding, ...] = ()
    """What was looked at and found to hold, then what else might be done; nothing of it blocks."""


class RejectionAnswer(Record, kw_only=True):
    """A no; at least one finding blocks."""

    findings: tuple[Finding, ...]


ReviewAnswer = ApprovalAnswer | RejectionAnswer | UnclearAnswer


def parse_review(text: str, run_id: str = "", repository: str = "") -> ReviewAnswer:
    """The review that an agent's last words are.

    `repository` is the address of the project's own repository: links into it stay in what is said.
    """
    answer = read_final_message(text)
    said, typed = _own_verdicts(find_blocks(answer, (VERDICT_KEY,)), parse_plain_review(answer), run_id)
    if said and said[-1].values is None:
        return UnclearAnswer(why=f"Its last JSON object cannot be read: {said[-1].fault}.")
    words = {parse_verdict_word(block.values.get(VERDICT_KEY)) for block in said if block.values is not None}
    words |= {line.word for line in typed.verdicts}
    if not words:
        return UnclearAnswer(why=NO_VERDICT)
    if len(words) > 1 or "" in words:
        return UnclearAnswer(why=CONTRADICTORY_VERDICTS)
    is_no = words == {REJECT}
    found = (
        _read_object(answer, said[-1], run_id, is_no=is_no)
        if said
        else _read_lines(typed, run_id, is_no=is_no)
    )
    return found if isinstance(found, UnclearAnswer) else _limit_answer(found, repository)


def _own_verdicts(
    said: list[AnswerBlock], typed: PlainReview, run_id: str
) -> tuple[list[AnswerBlock], PlainReview]:
    """Of all verdicts those that name the run, when there are any: the others are quotations."""
    named = [block for block in said if block.names_run(run_id)]
    lines = tuple(line for line in typed.verdicts if run_id and line.run_id == run_id)
    return (named, typed._replace(verdicts=lines)) if named or lines else (said, typed)


def _read_object(answer: FinalMessage, block: AnswerBlock, run_id: str, *, is_no: bool) -> ReviewAnswer:
    values = block.values or {}
    checked, findings = values.get("checked", []), values.get("findings", [])
    if not isinstance(checked, list) or not isinstance(findings, list):
        return UnclearAnswer(why=NOT_A_LIST)
    if is_no:
        return _make_rejection(tuple(_parse_entries(findings)))
    if not block.names_run(run_id) and not answer.contains_only(block):
        return UnclearAnswer(why=UNNAMED_APPROVAL)
    suggested = tuple(_parse_entries(findings))
    return _make_approval(
        (*_parse_entries(checked), *suggested), has_blocking=any(one.is_blocking for one in suggested)
    )


def _read_lines(typed: PlainReview, run_id: str, *, is_no: bool) -> ReviewAnswer:
    findings = tuple(row.finding for row in typed.rows)
    if is_no:
        return _make_rejection(review_findings(typed.body, findings))
    if not typed.is_alone and not (run_id and typed.verdicts[-1].run_id == run_id):
        return UnclearAnswer(why=UNNAMED_APPROVAL)
    return _make_approval(
        findings, has_blocking=any(row.is_said and row.finding.is_blocking for row in typed.rows)
    )


def _parse_entries(rows: list[object]) -> Iterator[Finding]:
    """The findings of a list. One that does not say whether it blocks is taken by how it begins, and else blocks."""
    for row in rows:
        if isinstance(row, str) and row.strip():
            yield parse_labelled_finding(row)
        elif isinstance(row, dict) and isinstance(text := row.get("text"), str) and text.strip():
            found = build_finding(text, _parse_path(row.get("path")), _parse_line(row.get("line")))
            said = row.get("blocking")
            yield replace(found, is_blocking=said) if isinstance(said, bool) else found


def _parse_path(value: object) -> str:
    return value.strip().strip("`").removeprefix("./") if isinstance(value, str) else ""


def _parse_line(value: object) -> int:
    """A line's number; a range is where it begins, and what is no number is no line."""
    digits = str(value).partition("-")[0].strip() if isinstance(value, int | str) else ""
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 9
    return int(digits) if is_number and not isinstance(value, bool) else 0


def _make_rejection(findings: Sequence[Finding]) -> ReviewAnswer:
    if not any(one.is_blocking for one in findings):
        return UnclearAnswer(why=NO_BLOCKING_FINDING)
    return RejectionAnswer(findings=tuple(findings))


def _make_approval(looked: Sequence[Finding], *, has_blocking: bool) -> ReviewAnswer:
    if has_blocking:
        return UnclearAnswer(why=BLOCKED_APPROVAL)
    return ApprovalAnswer(checked=tuple(replace(one, is_blocking=False) for one in looked))


def _limit_answer(found: ApprovalAnswer | RejectionAnswer, repository: str) -> ReviewAnswer:
    """The answer as it may be handed on: cleaned, and no more than a review takes."""
    if isinstance(found, ApprovalAnswer):
        return ApprovalAnswer(checked=_clean_findings(found.checked, repository))
    return _make_rejection(_clean_findings(found.findings, repository))


def _clean_findings(findings: Sequence[Finding], repository: str) -> tuple[Finding, ...]:
    """Findings made safe to hand on: as many as a review takes, what blocks before what does not."""
    if len(findings) > MAX_FINDINGS:
        kept = sorted(range(len(findings)), key=lambda at: not findings[at].is_blocking)[: MAX_FINDINGS - 1]
        rest = Finding(text=REST_TEXT.format(count=len(findings) - len(kept)), is_blocking=False)
        findings = (*(findings[at] for at in sorted(kept)), rest)
    clean = sanitise_findings(findings, repository, is_rendered=False).findings
    return tuple(one for one in clean if one.text.strip())


DECISION_KEYS = ("decision_type", "decision")
NO_DECISION = "It has no decision: no JSON object with `decision_type`."
CONTRADICTORY_DECISIONS = "It has decisions that contradict one another, or an unknown one."
UNNAMED_DECISION = "It decides among other text without naming its run, so it may be a quotation."


class DirectorAnswer(Record, kw_only=True):
    """What a director may answer."""

    decision_type: str
    rationale: str = ""
    message: str = ""
    override_message: str = ""
    reassign_to: str = ""
    created_tasks: tuple[str, ...] = ()

    def to_command(self, handoff_id: str) -> AnswerRejection:
        """The answer to the last rejection of a handoff."""
        return AnswerRejection(
            handoff_id=handoff_id,
            decision=self.decision_type,
            rationale=self.rationale,
            message=self.message or self.override_message,
            reassign_to=self.reassign_to,
            created_tasks=self.created_tasks,
        )


def parse_command_answer(text: str) -> DirectorAnswer:
    """The decision of a command that prints nothing else; raises ValueError when it is none."""
    try:
        return _convert_answer(json.loads(text, object_pairs_hook=require_unique_keys))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def parse_director_message(text: str, run_id: str = "") -> DirectorAnswer | UnclearAnswer:
    """What the last words of a director come to, made safe to hand on."""
    answer = read_final_message(text)
    found = find_blocks(answer, DECISION_KEYS)
    found = [block for block in found if block.names_run(run_id)] or found
    if not found:
        return UnclearAnswer(why=NO_DECISION)
    last = found[-1]
    if last.values is None:
        return UnclearAnswer(why=f"Its last JSON object cannot be read: {last.fault}.")
    if len({_find_decision_type(block.values) for block in found if block.values is not None}) > 1:
        return UnclearAnswer(why=CONTRADICTORY_DECISIONS)
    return _read_decision(answer, last, last.values, run_id)


def _read_decision(
    answer: FinalMessage, block: AnswerBlock, values: dict[str, Any], run_id: str
) -> DirectorAnswer | UnclearAnswer:
    if not block.names_run(run_id) and not answer.contains_only(block):
        return UnclearAnswer(why=UNNAMED_DECISION)
    if _find_decision_type(values) is None:
        names = ", ".join(DecisionType.__members__)
        return UnclearAnswer(why=f"Its decision is not one of {names}.")
    try:
        read = _convert_answer(values)
    except ValueError as error:
        return UnclearAnswer(why=f"Its decision cannot be read: {error}.")
    clean = {name: sanitise(getattr(read, name), is_rendered=False).text for name in ("rationale", "message")}
    return replace(read, **clean, override_message=sanitise(read.override_message, is_rendered=False).text)


def _find_decision_type(values: dict[str, Any]) -> DecisionType | None:
    """The decision that an object names, by either key; None when they differ."""
    found = {parse_decision_type(values[key]) for key in DECISION_KEYS if key in values}
    return found.pop() if len(found) == 1 else None


def _convert_answer(values: object) -> DirectorAnswer:
    if isinstance(values, dict) and "decision" in values:
        values = {"decision_type": values["decision"], **values}
    return msgspec.convert(values, DirectorAnswer)
