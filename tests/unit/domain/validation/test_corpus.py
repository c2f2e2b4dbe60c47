"""Holds how well the validator tells earned rejections from lazy ones, so that no later change ruins it unseen."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from remand.domain.reasons import RejectionReason
from remand.domain.rejection import TaskRejection
from remand.domain.validation.assessment import MEANINGS
from remand.domain.validation.validator import assess
from tests.data_sets import RECORDED as RECORDED_DATA

CORPUS = Path(__file__).parents[3] / "corpus"
OWN = sorted(CORPUS.glob("*.jsonl"))
RECORDED = RECORDED_DATA / "corpus" / "rejections.jsonl"
FILES = [
    *(pytest.param(path, id=path.name) for path in OWN),
    *(pytest.param(path, id="recorded", marks=pytest.mark.more) for path in (RECORDED,) if path.exists()),
]
LEAST_F1 = 0.87
MOST_VALID_OVERRIDDEN = 0.02
LEAST_STUFFED = 0.75
LEAST_SUBTLE = 0.5
KINDS = {"valid/plain", "valid/natural", "valid/terse", "lazy/obvious", "lazy/stuffed", "lazy/subtle"}


@cache
def records(file: Path) -> tuple[dict[str, Any], ...]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines if line.strip())


@cache
def verdicts(file: Path) -> Counter[tuple[str, bool]]:
    """How many of each kind are accepted, and how many are not."""
    counted: Counter[tuple[str, bool]] = Counter()
    for record in records(file):
        assessment = assess(TaskRejection.from_dict(record["rejection"]), record["task_context"])
        counted[record["kind"].partition(":")[0], assessment.is_valid] += 1
    return counted


def total(file: Path, label: str, *, is_accepted: bool) -> int:
    return sum(
        count
        for (kind, accepted), count in verdicts(file).items()
        if kind.startswith(label) and accepted == is_accepted
    )


def share_caught(file: Path, kind: str) -> float:
    caught, missed = verdicts(file)[kind, False], verdicts(file)[kind, True]
    return caught / (caught + missed) if caught + missed else 1.0


@pytest.mark.parametrize("file", FILES)
def test_lazy_rejections_are_told_apart(file: Path) -> None:
    caught = total(file, "lazy", is_accepted=False)
    missed = total(file, "lazy", is_accepted=True)
    overridden = total(file, "valid", is_accepted=False)

    assert 2 * caught / (2 * caught + missed + overridden) >= LEAST_F1


@pytest.mark.parametrize("file", FILES)
def test_few_earned_rejections_are_overridden(file: Path) -> None:
    overridden = total(file, "valid", is_accepted=False)

    assert overridden / (overridden + total(file, "valid", is_accepted=True)) <= MOST_VALID_OVERRIDDEN


@pytest.mark.parametrize("file", FILES)
def test_empty_talk_and_stuffing_are_caught(file: Path) -> None:
    assert share_caught(file, "lazy/obvious") == 1
    assert share_caught(file, "lazy/stuffed") >= LEAST_STUFFED


@pytest.mark.parametrize("file", FILES)
def test_most_subtle_flaws_are_caught(file: Path) -> None:
    assert share_caught(file, "lazy/subtle") >= LEAST_SUBTLE


def test_records_have_one_id_each() -> None:
    names = [record["id"] for file in OWN for record in records(file)]

    assert len(names) == len(set(names))
    assert names


@pytest.mark.parametrize("file", FILES)
def test_labels_are_sound(file: Path) -> None:
    for record in records(file):
        assert record["kind"].partition(":")[0] in KINDS
        assert record["kind"].startswith(record["label"])
        assert record["rejection"]["reason_type"] in RejectionReason.__members__
        assert record["task_context"]["title"]
        assert bool(record["issues_expected"]) == (record["label"] == "lazy")


@pytest.mark.parametrize("file", FILES)
def test_expected_issues_are_the_beginnings_of_codes(file: Path) -> None:
    expected = {stem for record in records(file) for stem in record["issues_expected"]}

    assert {stem for stem in expected if not any(code.startswith(stem) for code in MEANINGS)} == set()
