"""A task's gate state: its last verdict, alerts, and gates that cannot run."""

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
"""The kind of question about a broken gate. It concerns the gate, whichever task carries it."""
RETRY = "retry"
"""Its answer: agents continue one at a time until the gate runs."""
SAID_LAST = "It said last:"
"""Separates our text from the end of a command's output."""
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
"""Patterns for paths, temporary names, words with digits, hashes and dates with replacements; then punctuation and plurals.

Compiled on first use, as most processes do not need them. Patterns for long words start at word boundaries, so that
each word is examined once.
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
"""What to change, by pattern of the cause; the first match counts."""
_DEFAULT_ADVICE = "Fix what the gate needs, or its entry in remand.toml on the base."


class Outage(Record, kw_only=True):
    """One time when a required gate could not run."""

    gate: str
    cause: str
    """The cause without varying parts: equal texts mean the same cause."""
    text: str
    """The cause in one line for people."""
    policy: str = ""
    """The digest of the rules in effect."""
    commit: str = ""
    at: Instant = ""


def find_outages(verdict: Verdict, at: Instant = "") -> tuple[Outage, ...]:
    """The required gates of a verdict that could not run."""
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
    """The gates that ran for this verdict, with any result; cached results do not count."""
    measured = {gate.name[:_MAX_NAME] for gate in verdict.gates if gate.measured and not gate.is_known}
    has_run = any(gate.name != RUNNER_GATE for gate in verdict.gates)
    return frozenset({*measured, *([RUNNER_GATE] if has_run else [])})


def outages_after_verdict(
    known: Sequence[Outage], verdict: Verdict, at: Instant, *, is_stopped: bool = True
) -> tuple[Outage, ...]:
    """A task's outages after another verdict: the last few of each gate, none of a gate that ran.

    A verdict without enforcement (`enforce = false`) adds none.
    """
    left = without_gates(known, find_measured_gates(verdict)) if known else ()
    outages = (*left, *find_outages(verdict, at)) if is_stopped else left
    if not outages:
        return ()
    kept: list[Outage] = []
    counts: Counter[str] = Counter()
    for outage in reversed(outages):
        counts[outage.gate] += 1
        if counts[outage.gate] <= ANY_CAUSE and len(counts) <= MAX_GATES:
            kept.append(outage)
    return tuple(reversed(kept))


def without_gates(outages: Iterable[Outage], gates: Collection[str]) -> tuple[Outage, ...]:
    """The outages of all other gates."""
    return tuple(outage for outage in outages if outage.gate not in gates)


def broken_gate_names(outages: Iterable[Outage], policy: str) -> frozenset[str]:
    """The gates that are broken under the current rules; outages under other rules do not count."""
    current = [outage for outage in outages if outage.policy == policy]
    same = Counter((outage.gate, outage.cause) for outage in current)
    every = Counter(outage.gate for outage in current)
    return frozenset(
        {gate for (gate, _), count in same.items() if count >= SAME_CAUSE}
        | {gate for gate, count in every.items() if count >= ANY_CAUSE}
    )


# The cause.


def comparable_cause(gate: GateResult) -> str:
    """The cause for comparison: our text and the last line of the tool's, without varying parts.

    A gate that times out is cut off anywhere, so its last output means nothing.
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
    """The cause in one line for people: the tool's last line, which usually names it, and then our text."""
    own, last = _detail_parts(gate)
    if gate.status is GateStatus.TIMED_OUT:
        own, last = last, own
    text = f"{last[:_MAX_LAST]} ({own})" if own and last else own or last
    text = " ".join(redact(remove_invisible(text)).split())
    return shorten(text, _MAX_TEXT)


def _detail_parts(gate: GateResult) -> tuple[str, str]:
    """Our text about a gate, and the last line of its tool's output."""
    own, _, said = gate.detail[:_MAX_DETAIL].partition(SAID_LAST)
    lines = [line.strip() for line in own.splitlines() if line.strip()]
    rows = [line.strip() for line in said.splitlines() if line.strip()] or lines[1:]
    return (lines[0] if lines else "").rstrip(". "), rows[-1].rstrip(". ") if rows else ""


# The question.


def render_outage_question(broken: Sequence[Outage]) -> str:
    """The question to the user: the gates, the causes, what to change, and how to retry."""
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
    """What to change, without repetition."""
    return dict.fromkeys(_advice_for(outage) for outage in broken)


def _advice_for(outage: Outage) -> str:
    is_slow = outage.cause == GateStatus.TIMED_OUT
    said = outage.cause if is_slow else outage.text.lower()
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, said)), _DEFAULT_ADVICE)


class GateAlert(Record, kw_only=True):
    """A claim was rejected so often that the user should know."""

    id: str
    handoff_id: str
    """The claim."""
    agent: str
    number: int
    """The number of rejections."""
    alert_after: int
    escalate_after: int
    at: Instant
    notified: tuple[str, ...] = ()
    """The channels that delivered the notice."""
    acknowledged_by: str = ""


class ClaimProgress(Record, kw_only=True):
    """The gate results of the current claim."""

    count: int = 0
    """The number of rejections."""
    stalled: int = 0
    """The number of consecutive rejections without progress after the alert."""
    failing: int = 0
    excess: float = 0.0
    alert: GateAlert | None = None
    """The last alert about it."""


class FindingDecisions(Record, kw_only=True):
    """Decisions of reviewers and the user on the task's findings and gates."""

    accepted: tuple[str, ...] = ()
    """Findings accepted by a reviewer, for the life of the task."""
    refused: tuple[tuple[str, str], ...] = ()
    """Findings refused by a reviewer with the reason; they fail until they are fixed."""
    questioned: tuple[str, ...] = ()
    """Authors whose work had findings for a reviewer; they may not settle any."""
    overridden: tuple[tuple[str, str], ...] = ()
    """Overrides by the user: a gate, and the code tree for which it is overridden."""


class GateState(Record, kw_only=True):
    """The result of the last done claim, and the decisions on the task's findings."""

    status: GateStatus | None = None
    """The status of the last verdict; None before the first."""
    handoff_id: str = ""
    """The claim under which it was measured."""
    commit: str = ""
    tree: str = ""
    base: str = ""
    policy: str = ""
    tier: str = ""
    blocking: tuple[str, ...] = ()
    """The blocking gates."""
    held: tuple[str, ...] = ()
    """The findings that wait for a reviewer."""
    places: tuple[tuple[str, str], ...] = ()
    """The file of each of them."""
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0
    is_released: bool = False
    """Whether work with this code tree may be submitted."""
    rejection_count: int = 0
    """The number of gate rejections of the task under all claims."""
    progress: ClaimProgress = ClaimProgress()
    decisions: FindingDecisions = FindingDecisions()
    outages: tuple[Outage, ...] = ()
    """The times when gates could not run for this task, since they last ran."""


_PART_OF = dict.fromkeys(ClaimProgress.__struct_fields__, "progress") | dict.fromkeys(
    FindingDecisions.__struct_fields__, "decisions"
)


def update_gates(gates: GateState, **changes: Any) -> GateState:
    """The state with changed fields, each in the part that contains it."""
    return update_parts(gates, _PART_OF, changes)
