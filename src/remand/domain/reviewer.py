"""Reviews by agents: the change as a reviewer sees it, and the verdict or decision in a reviewer's or director's final message."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from unicodedata import category

import msgspec
from msgspec.structs import replace

from remand.domain.commands import AnswerRejection
from remand.domain.events.reviews import Finding
from remand.domain.feedback.comments import build_finding, is_blocking, review_findings
from remand.domain.feedback.markup import split_code
from remand.domain.feedback.sanitiser import sanitise, sanitise_findings, visible_characters
from remand.domain.preconditions import MAX_FINDINGS
from remand.domain.reasons import DecisionType, parse_decision_type
from remand.domain.record import Record
from remand.domain.text.words import format_count

MAX_LINE = 4_000
"""How many characters of a line are shown."""
MIN_SHOWN = 2_000
"""The least number of characters of a file that is worth showing when not all of it fits."""
_LIKE_OTHERS = ("Cc", "Zs", "Zl", "Zp")


class OmittedPart(Record, kw_only=True):
    """A part of a change that is not shown, and why."""

    path: str
    why: str


class FilePatch(Record, kw_only=True):
    """The change of one file, as git prints it."""

    path: str
    text: str


class SubmittedChange(Record, kw_only=True):
    """What a submission changes since its merge base."""

    commit: str
    since: str
    """The commit it is compared with."""
    paths: tuple[str, ...] = ()
    """Every file that it changes."""
    text: str = ""
    unshown: tuple[OmittedPart, ...] = ()
    event_files: int = 0
    """How many event files of trusted keys it adds, which are not shown."""
    control: str = ""
    """The other changes of the ledger's own files; empty if there are none."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on changes of the ledger's own files."""
        files = f"{self.event_files} event file{'' if self.event_files == 1 else 's'} of trusted keys"
        added = f"Below .got/ it adds {files}, not shown here." if self.event_files else ""
        warned = f"WARNING: {self.control}." if self.control else ""
        return tuple(filter(None, (added, warned)))

    @property
    def is_cut(self) -> bool:
        return bool(self.unshown)


class RenderedChange(Record, kw_only=True):
    text: str
    unshown: tuple[OmittedPart, ...] = ()


def render_change(files: Sequence[FilePatch], longest: int) -> RenderedChange:
    """As many files as fit, the shortest first, in the order of `files`.

    So one long file hides no short ones, wherever it is. Of the first that does not fit, the beginning is shown.
    """
    rendered = [_render_file(file) for file in files]
    unshown = [part for file in rendered for part in file.unshown]
    left, kept = longest, [file.text for file in rendered]
    for at in sorted(range(len(kept)), key=lambda at: len(kept[at])):
        whole = kept[at]
        if len(whole) <= left:
            left -= len(whole)
            continue
        # Whole lines only.
        kept[at] = whole[: whole.rfind("\n", 0, left) + 1] if left >= MIN_SHOWN else ""
        more = whole.count("\n") - kept[at].count("\n")
        why = f"cut: {more:,} more lines of change" if kept[at] else f"omitted: {more:,} lines of change"
        unshown.append(_omit_file(files[at], why))
        left = 0
    return RenderedChange(text="".join(kept), unshown=tuple(sorted(unshown, key=lambda part: part.path)))


def _render_file(file: FilePatch) -> RenderedChange:
    """The change of one file, without binary content and the ends of very long lines."""
    if "\0" in file.text:
        head = file.text.partition("\n@@ ")[0]
        size = len(file.text) - len(head)
        why = f"binary: {size:,} characters of change"
        return RenderedChange(
            text=f"{mark_invisible(head)}\n[{why}, not shown]\n", unshown=(_omit_file(file, why),)
        )
    lines = mark_invisible(file.text).split("\n")
    long = [at for at, line in enumerate(lines) if len(line) > MAX_LINE]
    for at in long:
        lines[at] = f"{lines[at][:MAX_LINE]}[cut: {len(lines[at]) - MAX_LINE:,} more characters]"
    why = f"cut: {format_count(len(long), 'line')} longer than {MAX_LINE:,} characters"
    return RenderedChange(text="\n".join(lines), unshown=(_omit_file(file, why),) if long else ())


def _omit_file(file: FilePatch, why: str) -> OmittedPart:
    return OmittedPart(path=mark_invisible(file.path), why=why)


def render_omissions(rows: Iterable[OmittedPart], most: int = 100) -> list[str]:
    """The parts that are not shown, a line each, at most so many."""
    lines = [f"- {row.path}: {row.why}" for row in rows]
    return [*lines[:most], f"- and {len(lines) - most} more"] if len(lines) > most else lines


class _CharacterMarks(dict[int, int | str]):
    """The form in which each character is shown: itself, or its number if it is invisible or looks like another."""

    def __missing__(self, code: int) -> int | str:
        char = chr(code)
        is_plain = char == " " or (bool(visible_characters(char)) and category(char) not in _LIKE_OTHERS)
        marked: int | str = code if is_plain else f"⟦U+{code:04X}⟧"
        self[code] = marked
        return marked


_CHARACTER_MARKS = _CharacterMarks({0x09: 0x09, 0x0A: 0x0A})


def mark_invisible(text: str) -> str:
    """The text with a number instead of every invisible character; line ends are plain."""
    text = text.replace("\r\n", "␍\n")
    return (
        text if text.isascii() and text.replace("\n", " ").isprintable() else text.translate(_CHARACTER_MARKS)
    )


MAX_ANSWER = 128 * 1024
"""How many characters of the final message are read: the last ones."""
MAX_BARE = 64
"""How many objects outside of fences are read: the last ones."""
RUN_FIELD = "run"
"""The field in which an answer names its run."""

_JSON = ("", "json")
_BARE = re.compile(r"(?m)^ {0,3}(?=\{)")


class UnclearAnswer(Record, kw_only=True):
    """An answer without effect, and why it has none."""

    why: str


class AnswerBlock(NamedTuple):
    """A JSON object of the message."""

    values: dict[str, Any] | None
    """None if it cannot be parsed."""
    raw: str
    fault: str = ""

    def names_run(self, run_id: str) -> bool:
        if not run_id:
            return False
        return run_id in self.raw if self.values is None else self.values.get(RUN_FIELD) == run_id

    def has_key(self, keys: Collection[str]) -> bool:
        """True if it has one of the keys, or mentions one and cannot be parsed."""
        if self.values is None:
            return any(f'"{key}"' in self.raw for key in keys)
        return any(key in self.values for key in keys)


class FinalMessage(NamedTuple):
    """The final message of a run."""

    text: str
    is_whole: bool
    """True if nothing was cut off."""

    def contains_only(self, block: AnswerBlock) -> bool:
        """True if there is nothing but a block and the fence around it."""
        inside = list(split_code(self.text.strip()))
        lines = inside[0].lines if len(inside) == 1 else []
        return self.is_whole and "\n".join(lines).strip() == block.raw


def read_final_message(text: str) -> FinalMessage:
    """The end of an agent's final message, its visible characters alone."""
    return FinalMessage(visible_characters(text[-MAX_ANSWER:]), is_whole=len(text) <= MAX_ANSWER)


def find_blocks(answer: FinalMessage, keys: Collection[str]) -> list[AnswerBlock]:
    """Every JSON object with one of the keys, in order: fenced ones, and those that begin a line outside of fences.

    Objects that cannot be read are among them.
    """
    blocks: list[AnswerBlock] = []
    for piece in split_code(answer.text):
        text = "\n".join(piece.lines)
        if not any(f'"{key}"' in text for key in keys):
            continue
        if piece.is_code:
            raw = text.strip()
            if piece.label.lower() in _JSON and raw.startswith("{"):
                blocks.append(_parse_object(raw, is_whole=True))
            continue
        end = 0
        for start in [match.end() for match in _BARE.finditer(text)][-MAX_BARE:]:
            if start >= end:
                block = _parse_object(text[start:], is_whole=False)
                end = start + len(block.raw) if block.values is not None else end
                blocks.append(block)
    return [block for block in blocks if block.has_key(keys)]


def require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no key occurs twice."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _parse_object(text: str, *, is_whole: bool) -> AnswerBlock:
    """The object that a text begins with; `is_whole`: nothing may follow it."""
    try:
        values, end = json.JSONDecoder(object_pairs_hook=require_unique_keys).raw_decode(text)
    except (ValueError, RecursionError) as error:
        return AnswerBlock(None, text, str(error))
    if is_whole and end < len(text):
        return AnswerBlock(None, text, f"Extra data: char {end}")
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
    """A line without the bullet or number of a list entry."""
    return _BULLET.sub("", row.strip(), count=1)


def parse_labelled_finding(row: str) -> Finding:
    """One line as a finding; its place may come before or after the label that says whether it blocks."""
    label, _, rest = row.partition(": ")
    after = parse_finding(rest, is_blocking=True)
    if after.path and label.isalpha():
        return build_finding(f"{label}: {after.text}", after.path, after.line)
    finding = parse_finding(row, is_blocking=True)
    return build_finding(finding.text, finding.path, finding.line)


APPROVE, REJECT = "approve", "reject"

_VERDICT_WORDS = {"approve": APPROVE, "approved": APPROVE, "reject": REJECT, "rejected": REJECT}
_VERDICT = re.compile(r"[^\w\"'{\[]*verdict[^\w\"':=]*[:=]\W*(?P<word>\w*)\W*(?P<rest>.*)", re.IGNORECASE)
_RUN = re.compile(r"(RUN-[\w-]{1,60})\W{0,8}")
_PLACE = re.compile(r"[^\s:]+:\d{1,9}:\s")


class VerdictLine(NamedTuple):
    """A line that begins with `verdict`."""

    word: str
    """`approve`, `reject`, or empty for anything else."""
    run_id: str = ""


class FindingRow(NamedTuple):
    """A line about one place, or with a label that says whether it blocks."""

    finding: Finding
    has_label: bool


class PlainReview(NamedTuple):
    """The content of an answer in lines that are neither quoted nor code."""

    verdicts: tuple[VerdictLine, ...]
    rows: tuple[FindingRow, ...]
    body: str
    """The other lines."""
    is_alone: bool
    """True if there is only one verdict and lines about places."""


def parse_verdict_word(value: object) -> str:
    """`approve` or `reject`; empty for any other word."""
    return _VERDICT_WORDS.get(value.strip().lower(), "") if isinstance(value, str) else ""


def parse_plain_review(answer: FinalMessage) -> PlainReview:
    verdicts: list[VerdictLine] = []
    rows: list[FindingRow] = []
    body: list[str] = []
    pieces = list(split_code(answer.text))
    lines = [line for piece in pieces if not piece.is_code for line in piece.lines]
    own = [line for line in lines if not line.lstrip().startswith(">")]
    is_in_row = False
    for line in own:
        match = _VERDICT.fullmatch(line)
        row = None if match else _parse_row(without_bullet(line))
        is_more = is_in_row and not match and row is None and line[:2].isspace() and bool(line.strip())
        if match:
            # A verdict is one word, and perhaps the run; more words may turn it into its opposite.
            run = _RUN.fullmatch(match["rest"])
            is_clear = run is not None or not match["rest"]
            word = parse_verdict_word(match["word"]) if is_clear else ""
            verdicts.append(VerdictLine(word, run[1] if run else ""))
        elif row is not None:
            rows.append(row)
        elif is_more:
            last = rows[-1].finding
            rows[-1] = rows[-1]._replace(finding=replace(last, text=f"{last.text}\n{line.strip()}"))
        else:
            body.append(line.strip())
        is_in_row = is_more or row is not None
    is_unquoted = len(own) == len(lines) and not any(piece.is_code for piece in pieces)
    is_alone = answer.is_whole and len(verdicts) == 1 and not any(body) and is_unquoted
    return PlainReview(tuple(verdicts), tuple(rows), "\n".join(body).strip(), is_alone)


def _parse_row(line: str) -> FindingRow | None:
    finding = parse_labelled_finding(line)
    has_label = _has_blocking_word(line) or (bool(finding.path) and _has_blocking_word(finding.text))
    is_place = bool(finding.path) and (has_label or _PLACE.match(line) is not None)
    return FindingRow(finding, has_label) if is_place or (has_label and not finding.path) else None


def _has_blocking_word(text: str) -> bool:
    return is_blocking(text, default=True) == is_blocking(text, default=False)


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
    checked: tuple[Finding, ...] = ()
    """What was checked and found right, then suggestions; nothing of it blocks."""


class RejectionAnswer(Record, kw_only=True):
    """A rejection; at least one finding blocks."""

    findings: tuple[Finding, ...]


ReviewAnswer = ApprovalAnswer | RejectionAnswer | UnclearAnswer


def parse_review(text: str, run_id: str = "", repository: str = "") -> ReviewAnswer:
    """The review in an agent's final message.

    `repository` is the address of the project's own repository: links into it stay in the findings.
    """
    answer = read_final_message(text)
    blocks, plain = find_blocks(answer, (VERDICT_KEY,)), parse_plain_review(answer)
    named = [block for block in blocks if block.names_run(run_id)]
    lines = tuple(line for line in plain.verdicts if run_id and line.run_id == run_id)
    if named or lines:
        # Verdicts that do not name the run are quotations.
        blocks, plain = named, plain._replace(verdicts=lines)
    if blocks and blocks[-1].values is None:
        return UnclearAnswer(why=f"Its last JSON object cannot be read: {blocks[-1].fault}.")
    words = {
        parse_verdict_word(block.values.get(VERDICT_KEY)) for block in blocks if block.values is not None
    }
    words |= {line.word for line in plain.verdicts}
    if not words:
        return UnclearAnswer(why=NO_VERDICT)
    if len(words) > 1 or "" in words:
        return UnclearAnswer(why=CONTRADICTORY_VERDICTS)
    is_rejection = words == {REJECT}
    found = (
        _read_object(answer, blocks[-1], run_id, is_rejection=is_rejection)
        if blocks
        else _read_lines(plain, run_id, is_rejection=is_rejection)
    )
    match found:
        case ApprovalAnswer():
            return ApprovalAnswer(checked=_clean_findings(found.checked, repository))
        case RejectionAnswer():
            return _make_rejection(_clean_findings(found.findings, repository))
        case UnclearAnswer():
            return found


def _read_object(
    answer: FinalMessage, block: AnswerBlock, run_id: str, *, is_rejection: bool
) -> ReviewAnswer:
    values = block.values or {}
    checked, findings = values.get("checked", []), values.get("findings", [])
    if not isinstance(checked, list) or not isinstance(findings, list):
        return UnclearAnswer(why=NOT_A_LIST)
    found = tuple(_parse_entries(findings))
    if is_rejection:
        return _make_rejection(found)
    if not block.names_run(run_id) and not answer.contains_only(block):
        return UnclearAnswer(why=UNNAMED_APPROVAL)
    has_blocking = any(finding.is_blocking for finding in found)
    return _make_approval((*_parse_entries(checked), *found), has_blocking=has_blocking)


def _read_lines(plain: PlainReview, run_id: str, *, is_rejection: bool) -> ReviewAnswer:
    findings = tuple(row.finding for row in plain.rows)
    if is_rejection:
        return _make_rejection(review_findings(plain.body, findings))
    if not plain.is_alone and not (run_id and plain.verdicts[-1].run_id == run_id):
        return UnclearAnswer(why=UNNAMED_APPROVAL)
    has_blocking = any(row.has_label and row.finding.is_blocking for row in plain.rows)
    return _make_approval(findings, has_blocking=has_blocking)


def _parse_entries(rows: list[object]) -> Iterator[Finding]:
    """The findings of a list. One without `blocking` blocks unless its label says that it does not."""
    for row in rows:
        if isinstance(row, str) and row.strip():
            yield parse_labelled_finding(row)
        elif isinstance(row, dict) and isinstance(text := row.get("text"), str) and text.strip():
            path, blocks = row.get("path"), row.get("blocking")
            path = path.strip().strip("`").removeprefix("./") if isinstance(path, str) else ""
            finding = build_finding(text, path, _parse_line(row.get("line")))
            yield replace(finding, is_blocking=blocks) if isinstance(blocks, bool) else finding


def _parse_line(value: object) -> int:
    """A line number, or the first of a range; 0 for anything else."""
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


def _clean_findings(findings: Sequence[Finding], repository: str) -> tuple[Finding, ...]:
    """Findings, sanitised: as many as fit a review, those that block first."""
    if len(findings) > MAX_FINDINGS:
        kept = sorted(range(len(findings)), key=lambda at: not findings[at].is_blocking)[: MAX_FINDINGS - 1]
        rest = Finding(text=REST_TEXT.format(count=len(findings) - len(kept)), is_blocking=False)
        findings = (*(findings[at] for at in sorted(kept)), rest)
    clean = sanitise_findings(findings, repository, is_rendered=False)
    return tuple(one for one in clean if one.text.strip())


DECISION_KEYS = ("decision_type", "decision")
NO_DECISION = "It has no decision: no JSON object with `decision_type`."
CONTRADICTORY_DECISIONS = "It has decisions that contradict one another, or an unknown one."
UNNAMED_DECISION = "It decides among other text without naming its run, so it may be a quotation."


class DirectorAnswer(Record, kw_only=True):
    """A director's decision."""

    decision_type: str
    rationale: str = ""
    message: str = ""
    override_message: str = ""
    reassign_to: str = ""
    created_tasks: tuple[str, ...] = ()

    def to_command(self, handoff_id: str) -> AnswerRejection:
        return AnswerRejection(
            handoff_id=handoff_id,
            decision=self.decision_type,
            rationale=self.rationale,
            message=self.message or self.override_message,
            reassign_to=self.reassign_to,
            created_tasks=self.created_tasks,
        )


def parse_command_answer(text: str) -> DirectorAnswer:
    """The decision of a command that prints only that; raises ValueError if it is not a decision."""
    try:
        return _convert_answer(json.loads(text, object_pairs_hook=require_unique_keys))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def parse_director_message(text: str, run_id: str = "") -> DirectorAnswer | UnclearAnswer:
    """The decision in a director's final message, sanitised."""
    answer = read_final_message(text)
    blocks = find_blocks(answer, DECISION_KEYS)
    blocks = [block for block in blocks if block.names_run(run_id)] or blocks
    if not blocks:
        return UnclearAnswer(why=NO_DECISION)
    last = blocks[-1]
    if last.values is None:
        return UnclearAnswer(why=f"Its last JSON object cannot be read: {last.fault}.")
    if len({_find_decision_type(block.values) for block in blocks if block.values is not None}) > 1:
        return UnclearAnswer(why=CONTRADICTORY_DECISIONS)
    if not last.names_run(run_id) and not answer.contains_only(last):
        return UnclearAnswer(why=UNNAMED_DECISION)
    if _find_decision_type(last.values) is None:
        names = ", ".join(DecisionType.__members__)
        return UnclearAnswer(why=f"Its decision is not one of {names}.")
    try:
        decision = _convert_answer(last.values)
    except ValueError as error:
        return UnclearAnswer(why=f"Its decision cannot be read: {error}.")
    texts = ("rationale", "message", "override_message")
    return replace(
        decision, **{name: sanitise(getattr(decision, name), is_rendered=False).text for name in texts}
    )


def _find_decision_type(values: dict[str, Any]) -> DecisionType | None:
    """The decision that an object names by either key; None if they differ."""
    found = {parse_decision_type(values[key]) for key in DECISION_KEYS if key in values}
    return found.pop() if len(found) == 1 else None


def _convert_answer(values: object) -> DirectorAnswer:
    if isinstance(values, dict) and "decision" in values:
        values = {"decision_type": values["decision"], **values}
    return msgspec.convert(values, DirectorAnswer)
