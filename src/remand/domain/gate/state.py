"""How a task stands with its gates: its last verdict, alerts, and gates that cannot be measured."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from remand.domain.gate.verdict import RUNNER_GATE, GateResult, GateStatus, Verdict
from remand.domain.instant import Instant
from remand.domain.record import Record, update_parts
from remand.domain.text.redaction import redact
from remand.domain.text.words import remove_invisible, shorten

GATE_QUESTION = "gate"
"""The kind of question that a broken gate puts to the user. It is about the gate, whichever task carries it."""
RETRY = "retry"
"""The answer to it: agents continue, one at a time until the gate is measured."""
SAID_LAST = "It said last:"
"""What stands between our own words and the end of a command's output."""
SAME_CAUSE = 2
ANY_CAUSE = 3
MAX_GATES = 20
_MAX_NAME = 80
_MAX_CAUSE = 200
_MAX_TEXT = 300
_MAX_LAST = 180
_MAX_DETAIL = 4000

_VARYING: tuple[tuple[str, str], ...] = (
    (r"(?<![\w.~+@-])(?:[a-z]:)?[\w.~+@-]*(?:[\\/][\w.~+@%=-]+)+[\\/]?", "#"),
    (r"\bte?mp[\w.-]*", "#"),
    (r"(?<![\w.:+-])[\w.:+-]*\d[\w.:+-]*", "#"),
    (r"\b[0-9a-f]{7,}\b", "#"),
    (
        r"\b(?:mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|am|pm|utc|gmt)\b",
        "#",
    ),
    (r"[^\w#]+", " "),
    (r"#(?: ?#)+", "#"),
    (r"(# \w+?)s\b", r"\1"),
)
"""Paths, temporary names, words with digits, hashes and dates, and what stands for them; then punctuation and plurals.

Compiled when first used: most processes never need them. Those of long words begin where a word does, so that a word
is looked at once.
"""
_ADVICE: tuple[tuple[str, str], ...] = (
    (r"^timed_out$", "Raise its `timeout` in remand.toml on the base, or make the gate faster."),
    (r"no space left|disk quota|disk is full|errno 28", "Free space on the disk."),
    (r"prepare step", "Fix its `prepare` step in remand.toml on the base, or what that step needs."),
    (
        (
            r"no module named|not found|no such |not there|cannot find|not installed|is in none of"
            r"|a program could not be started"
        ),
        "Install what is missing, or add its folder to `[sandbox] path` in remand.toml on the base.",
    ),
    (r"sandbox|bubblewrap|bwrap|namespace|landlock|cgroup", "`remand doctor` tests the sandbox."),
    (r"\bbase\b|\bfetch\b", "Check that this repository has the base, and that the gate runs there."),
    (r"report|parser|figure|json|xml", "Check its `command` and `parser` in remand.toml on the base."),
)
"""What to change, by what the cause says; the first that fits."""
_DEFAULT_ADVICE = "Fix what the gate needs, or its entry in remand.toml on the base."


class Outage(Record, kw_only=True):
    """One time that a required gate could not be measured."""

    gate: str
    cause: str
    """Why, without what differs from time to time: the same text is the same cause."""
    text: str
    """Why, in one line for people."""
    policy: str = ""
    """The digest of the rules it was to be measured by."""
    commit: str = ""
    at: Instant = ""


def find_outages(verdict: Verdict, at: Instant = "") -> tuple[Outage, ...]:
    """The required gates of a verdict that could not be measured."""
    return tuple(
        Outage(
            gate=gate.name[:_MAX_NAME],
            cause=comparable_cause(gate),
            text=summarise_cause(gate),
            policy=verdict.policy,
            commit=verdict.commit,
            at=at,
        )
        for gate in verdict.gates
        if gate.is_required and gate.status in (GateStatus.ERRORED, GateStatus.TIMED_OUT)
    )


def find_measured_gates(verdict: Verdict) -> frozenset[str]:
    """The gates that were measured for this verdict, whatever they showed. What was known before says nothing of now."""
    measured = {gate.name[:_MAX_NAME] for gate in verdict.gates if gate.measured and not gate.is_known}
    has_run = any(gate.name != RUNNER_GATE for gate in verdict.gates)
    return frozenset({*measured, *([RUNNER_GATE] if has_run else [])})


def outages_after_verdict(
    known: Sequence[Outage], verdict: Verdict, at: Instant, *, is_stopped: bool = True
) -> tuple[Outage, ...]:
    """The outages of a task after one more verdict: of each gate the last few, none of a gate that was measured.

    A verdict that stops nothing (`enforce = false`) adds none.
    """
    left = without_gates(known, find_measured_gates(verdict))
    found = (*left, *find_outages(verdict, at)) if is_stopped else left
    kept: list[Outage] = []
    counts: Counter[str] = Counter()
    for outage in reversed(found):
        counts[outage.gate] += 1
        if counts[outage.gate] <= ANY_CAUSE and len(counts) <= MAX_GATES:
            kept.append(outage)
    return tuple(reversed(kept))


def without_gates(outages: Iterable[Outage], gates: Collection[str]) -> tuple[Outage, ...]:
    """The outages of other gates than these."""
    return tuple(outage for outage in outages if outage.gate not in gates)


def broken_gate_names(outages: Iterable[Outage], policy: str) -> frozenset[str]:
    """The gates that are broken by the rules of now; what could not be measured by other rules does not count."""
    current = [outage for outage in outages if outage.policy == policy]
    same = Counter((outage.gate, outage.cause) for outage in current)
    every = Counter(outage.gate for outage in current)
    return frozenset(
        {gate for (gate, _), count in same.items() if count >= SAME_CAUSE}
        | {gate for gate, count in every.items() if count >= ANY_CAUSE}
    )


# The cause.


def comparable_cause(gate: GateResult) -> str:
    """The cause as it is compared: our own words and the last line of the tool's, without what differs each time.

    A gate that runs out of time is cut off anywhere, so what it said last tells nothing.
    """
    if gate.status is GateStatus.TIMED_OUT:
        return str(GateStatus.TIMED_OUT)
    return normalise_cause(" ".join(_detail_parts(gate)))


def normalise_cause(text: str) -> str:
    """Text without paths, numbers, hashes, times and names of temporary files."""
    plain = " ".join(remove_invisible(text).lower().split())
    for pattern, instead in _VARYING:
        plain = re.sub(pattern, instead, plain)
    return " ".join(plain.split())[:_MAX_CAUSE]


def summarise_cause(gate: GateResult) -> str:
    """The cause in one line for people: the tool's last line, which mostly says it, and then our own words."""
    own, last = _detail_parts(gate)
    if gate.status is GateStatus.TIMED_OUT:
        own, last = last, own
    text = f"{last[:_MAX_LAST]} ({own})" if own and last else own or last
    text = " ".join(redact(remove_invisible(text)).split())
    return shorten(text, _MAX_TEXT)


def _detail_parts(gate: GateResult) -> tuple[str, str]:
    """Our own words about a gate, and the last line of what its tool said."""
    own, _, said = gate.detail[:_MAX_DETAIL].partition(SAID_LAST)
    lines = [line.strip() for line in own.splitlines() if line.strip()]
    rows = [line.strip() for line in said.splitlines() if line.strip()] or lines[1:]
    return (lines[0] if lines else "").rstrip(". "), rows[-1].rstrip(". ") if rows else ""


# The question.


def render_outage_question(broken: Sequence[Outage]) -> str:
    """What the user is asked: which gates, why, what to change, and how to try again."""
    commit = broken[-1].commit[:12]
    again = f"`remand gate run --fresh --commit {commit}`" if commit else "`remand gate run --fresh`"
    return (
        f"{' '.join(_render_causes(broken))} No agent is started until this is fixed. {' '.join(_render_advice(broken))} "
        f"Then test it: {again}; or answer `retry`, and one agent continues as a test"
    )


def _render_causes(broken: Sequence[Outage]) -> Iterator[str]:
    texts: dict[str, list[str]] = {}
    for outage in broken:
        texts.setdefault(outage.text, []).append(outage.gate)
    for text, gates in texts.items():
        yield f"{_render_subject(gates)} could not be measured several times in a row: {text or 'the cause is unknown'}."


def _render_subject(gates: Sequence[str]) -> str:
    if gates == [RUNNER_GATE]:
        return "The gates"
    names = [f"`{name}`" for name in gates]
    if len(names) == 1:
        return f"The gate {names[0]}"
    return f"The gates {', '.join(names[:-1])} and {names[-1]}"


def _render_advice(broken: Sequence[Outage]) -> dict[str, None]:
    """What to change, each advice once."""
    return dict.fromkeys(_advice_for(outage) for outage in broken)


def _advice_for(outage: Outage) -> str:
    is_slow = outage.cause == GateStatus.TIMED_OUT
    said = outage.cause if is_slow else outage.text.lower()
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, said)), _DEFAULT_ADVICE)


class GateAlert(Record, kw_only=True):
    """That one claim was rejected so often that the user should know."""

    id: str
    handoff_id: str
    """The claim."""
    agent: str
    number: int
    """How many rejections there were."""
    alert_after: int
    escalate_after: int
    at: Instant
    notified: tuple[str, ...] = ()
    """The channels that took the notice."""
    acknowledged_by: str = ""


class ClaimProgress(Record, kw_only=True):
    """How the current claim fares at its gates."""

    count: int = 0
    """How often they rejected it."""
    stalled: int = 0
    """How many of those rejections in a row showed no progress after the alert."""
    failing: int = 0
    excess: float = 0.0
    alert: GateAlert | None = None
    """The last alert about it."""


class FindingDecisions(Record, kw_only=True):
    """What reviewers and the user decided about the task's findings and gates."""

    accepted: tuple[str, ...] = ()
    """Findings that a reviewer accepted, for as long as the task lives."""
    refused: tuple[tuple[str, str], ...] = ()
    """Findings that a reviewer refused, each with the reviewer's reason: they fail until they are undone."""
    questioned: tuple[str, ...] = ()
    """Whose work had findings for a reviewer; none of them settles one."""
    overridden: tuple[tuple[str, str], ...] = ()
    """What the user let pass: a gate, and the code tree it is let pass for."""


class GateState(Record, kw_only=True):
    """How the last done claim fared at its gates, and what was decided about the task's findings."""

    status: GateStatus | None = None
    """The last verdict's; None before there was one."""
    handoff_id: str = ""
    """The claim it was measured under."""
    commit: str = ""
    tree: str = ""
    base: str = ""
    policy: str = ""
    tier: str = ""
    blocking: tuple[str, ...] = ()
    """The gates that stood in the way."""
    held: tuple[str, ...] = ()
    """The findings that wait for a reviewer."""
    places: tuple[tuple[str, str], ...] = ()
    """The file each of them is about."""
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0
    is_released: bool = False
    """Work with this code tree may be submitted."""
    rejection_count: int = 0
    """How often gates rejected the task, under whichever claim."""
    progress: ClaimProgress = ClaimProgress()
    decisions: FindingDecisions = FindingDecisions()
    outages: tuple[Outage, ...] = ()
    """When gates could not be measured for this task, and nothing was measured by them since."""


_PART_OF = dict.fromkeys(ClaimProgress.__struct_fields__, "progress") | dict.fromkeys(
    FindingDecisions.__struct_fields__, "decisions"
)


def update_gates(gates: GateState, **changes: Any) -> GateState:
    """The state with other values of its fields, each in the part that has it."""
    return update_parts(gates, _PART_OF, changes)
