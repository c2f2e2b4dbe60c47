"""Judging one rejection, beside what a list of phrases would take and find."""

from __future__ import annotations

import json
import random
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.measure import interleaved, timed
from benchmarks.report import Report, micros
from remand.domain.rejection import TaskRejection
from remand.domain.validation.validator import RejectionValidator

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
PHRASES = (
    "looked at",
    "tried to",
    "too complex",
    "not sure",
    "unclear",
    "confusing",
    "ask someone",
    "get more context",
)


def run(report: Report) -> None:
    """Times the validator on every record there is, in random order."""
    records = [
        json.loads(line) for path in sorted(CORPUS.glob("*.jsonl")) for line in path.open(encoding="utf-8")
    ]
    random.Random(7).shuffle(records)
    given = [(TaskRejection.from_dict(one["rejection"]), one["task_context"]) for one in records]
    report.heading(f"Judging a rejection ({len(given)} records)")
    validator, ours, theirs = RejectionValidator(), cycle(given), cycle(given)
    times = interleaved(
        {
            "remand": timed(lambda: validator.validate(*next(ours))),
            "a list of phrases": timed(lambda: _by_phrases(next(theirs)[0])),
        },
        max(report.scale.rounds, 2 * len(given)),
    )
    lazy = [one["label"] == "lazy" for one in records]
    verdicts = {
        "remand": [not validator.validate(*one)[0] for one in given],
        "a list of phrases": [_by_phrases(one[0]) for one in given],
    }
    rows = [
        (name, micros(one.p50), micros(one.p99), f"{_f1(lazy, verdicts[name]):.2f}")
        for name, one in times.items()
    ]
    report.table(("judged by", "p50", "p99", "F1 of lazy (tuned on most of them)"), rows)
    report.goal("validate one record: median", times["remand"].p50 * 1e3, most=1, unit="ms")


def _by_phrases(rejection: TaskRejection) -> bool:
    """True when a record is called lazy for the words it uses."""
    texts: list[Any] = [*rejection.what_attempted, rejection.blocking_factor, rejection.suggested_alternative]
    said = " ".join(map(str, texts)).lower()
    return len(rejection.what_attempted) < 2 or any(phrase in said for phrase in PHRASES)


def _f1(truth: list[bool], called: list[bool]) -> float:
    right = sum(map(lambda one, other: one and other, truth, called))
    return 2 * right / (sum(truth) + sum(called))
