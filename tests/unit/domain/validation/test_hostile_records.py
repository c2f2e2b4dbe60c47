"""Holds that no record makes the validator fail, and that none passes without two attempts."""

import json
import math
import random
from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest

from remand.domain.reasons import RejectionReason
from remand.domain.rejection import FIELDS, TaskRejection
from remand.domain.validation.parsed_rejection import dependency_names, mentioned_names
from remand.domain.validation.validator import RejectionValidator
from tests.unit.domain.validation.records import HONEST, record

CORPUS = Path(__file__).parents[3] / "corpus" / "own.jsonl"
SEED = 20261115
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 10**400, math.nan, math.inf, -0.0, "", " \t\n", "x", "?", "T-1", "\x00\ud800\u202e", "(((((" * 900,
    "a-" * 2000, "'" * 4000, "1" * 4000, "1/" * 2000, "A-1:" * 1000, "9 h " * 1000, "要" * 5000, b"bytes", [], {}, [[]],
    [{}, {}], [[["deep"]]], {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}, {1: 2, None: 3}, object(), RejectionReason.BLOCKER,
    ["", None, " "], [None, None], [{"data": None}], {"title": []}, ("a", "b"), 3 + 4j,
)  # fmt: skip


def test_each_odd_value_in_each_field_gives_a_verdict() -> None:
    for (field, value), reason in zip(product(FIELDS, ODD), cycle(HONEST), strict=False):
        judge(record(reason, **{field: value}), HONEST[reason][1])


def test_odd_contexts_give_a_verdict() -> None:
    for value in ODD:
        judge(record("SCOPE_CREEP"), value)
        judge(record("UNCLEAR_REQUIREMENTS"), {"title": value, "scope": value, value_key(value): value})


def test_random_records_give_a_verdict_and_none_passes_without_two_attempts(
    campaign: Callable[[int, int], int],
) -> None:
    chance = random.Random(SEED)
    known = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    for number in range(campaign(600, 100_000)):
        rejection, context = mixed(chance, known)
        is_valid = judge(rejection, context)
        if is_valid and attempts_in(rejection) < 2:
            pytest.fail(f"seed {SEED}, record {number} passes without two attempts: {rejection}")


def judge(rejection: TaskRejection, context: Any) -> bool:
    is_valid, issues = RejectionValidator().validate(rejection, context)
    assert is_valid == (not issues)
    assert all(str(issue) and issue.code and issue.field in FIELDS for issue in issues)
    assert set(dependency_names(rejection)) >= set()
    assert set(mentioned_names(rejection)) >= set()
    return is_valid


def mixed(chance: random.Random, known: list[dict[str, Any]]) -> tuple[TaskRejection, Any]:
    """A record of which some fields are another record's, cut, doubled, odd or missing."""
    chosen = chance.choice(known)
    data = dict(chosen["rejection"])
    for field in chance.sample(FIELDS, chance.randrange(1, 6)):
        data[field] = spoilt(chance, data.get(field), chance.choice(known)["rejection"].get(field))
    context = chosen["task_context"] if chance.random() < 0.8 else chance.choice(ODD)
    return TaskRejection(**data), context


def spoilt(chance: random.Random, value: Any, other: Any) -> Any:
    way = chance.randrange(6)
    if way == 0:
        return chance.choice(ODD)
    if way == 1:
        return other
    if isinstance(value, str):
        return value[: chance.randrange(len(value) + 1)] if way < 4 else value * chance.randrange(3)
    if isinstance(value, list):
        return value[: chance.randrange(len(value) + 1)] if way < 4 else [*value, chance.choice(ODD)]
    return chance.choice(ODD)


def attempts_in(rejection: TaskRejection) -> int:
    attempts = rejection.what_attempted
    if not isinstance(attempts, list | tuple):
        return 0
    return sum(bool(attempt.strip() if isinstance(attempt, str) else attempt) for attempt in attempts)


def value_key(value: Any) -> str:
    return f"key {type(value).__name__}"
