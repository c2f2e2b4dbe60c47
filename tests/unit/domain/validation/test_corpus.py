"""Holds how well the validator tells earned rejections from lazy ones, so that no later change ruins it unseen."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from remand.domain.reasons import RejectionReason
from remand.domain.rejection import TaskRejection
from remand.domain.validation.catalogue import MEANINGS
from remand.domain.validation.validator import assess

CORPUS = Path(__file__).parents[3] / "corpus"
FILES = sorted(path.name for path in CORPUS.glob("*.jsonl"))
LEAST_F1 = 0.84
MOST_VALID_OVERRIDDEN = 0.08
LEAST_STUFFED = 0.75
LEAST_SUBTLE = 0.5
KINDS = {"valid/plain", "valid/natural", "valid/terse", "lazy/obvious", "lazy/stuffed", "lazy/subtle"}


@cache
def records(name: str) -> tuple[dict[str, Any], ...]:
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines if line.strip())


@cache
def verdicts(name: str) -> Counter[tuple[str, bool]]:
    """How many of each kind are accepted, and how many are not."""
    counted: Counter[tuple[str, bool]] = Counter()
    for record in records(name):
        assessment = assess(TaskRejection.from_dict(record["rejection"]), record["task_context"])
        counted[record["kind"].partition(":")[0], assessment.is_valid] += 1
    return counted


def total(name: str, label: str, *, is_accepted: bool) -> int:
    return sum(
        count
        for (kind, accepted), count in verdicts(name).items()
        if kind.startswith(label) and accepted == is_accepted
    )


def share_caught(name: str, kind: str) -> float:
    caught, missed = verdicts(name)[kind, False], verdicts(name)[kind, True]
    return caught / (caught + missed) if caught + missed else 1.0


@pytest.mark.parametrize("name", FILES)
def test_lazy_rejections_are_told_apart(name: str) -> None:
    caught = total(name, "lazy", is_accepted=False)
    missed = total(name, "lazy", is_accepted=True)
    overridden = total(name, "valid", is_accepted=False)

    assert 2 * caught / (2 * caught + missed + overridden) >= LEAST_F1


@pytest.mark.parametrize("name", FILES)
def test_few_earned_rejections_are_overridden(name: str) -> None:
    overridden = total(name, "valid", is_accepted=False)

    assert overridden / (overridden + total(name, "valid", is_accepted=True)) <= MOST_VALID_OVERRIDDEN


@pytest.mark.parametrize("name", FILES)
def test_empty_talk_and_stuffing_are_caught(name: str) -> None:
    assert share_caught(name, "lazy/obvious") == 1
    assert share_caught(name, "lazy/stuffed") >= LEAST_STUFFED


@pytest.mark.parametrize("name", FILES)
def test_most_subtle_flaws_are_caught(name: str) -> None:
    assert share_caught(name, "lazy/subtle") >= LEAST_SUBTLE


def test_records_have_one_id_each() -> None:
    names = [record["id"] for name in FILES for record in records(name)]

    assert len(names) == len(set(names))
    assert names


@pytest.mark.parametrize("name", FILES)
def test_labels_are_sound(name: str) -> None:
    for record in records(name):
        assert record["kind"].partition(":")[0] in KINDS
        assert record["kind"].startswith(record["label"])
        assert record["rejection"]["reason_type"] in RejectionReason.__members__
        assert record["task_context"]["title"]
        assert bool(record["issues_expected"]) == (record["label"] == "lazy")


@pytest.mark.parametrize("name", FILES)
def test_expected_issues_are_the_beginnings_of_codes(name: str) -> None:
    expected = {stem for record in records(name) for stem in record["issues_expected"]}

    assert {stem for stem in expected if not any(code.startswith(stem) for code in MEANINGS)} == set()
