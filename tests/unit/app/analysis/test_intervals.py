"""Holds that intervals are the known ones, and hold what they promise."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.app.analysis.statistics import quantile, wilson_share


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        # Newcombe, Two-sided confidence intervals for the single proportion (1998), method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_of_a_share_is_wilsons(count: int, of: int, low: float, high: float) -> None:
    found = wilson_share(count, of)

    assert found.rate == count / of
    assert found.interval == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_without_any_there_is_no_rate() -> None:
    assert (wilson_share(0, 0).rate, wilson_share(0, 0).interval) == (None, None)


@given(st.integers(1, 5000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_a_share_lies_in_its_interval_and_that_between_none_and_all(case: tuple[int, int]) -> None:
    count, of = case
    found = wilson_share(count, of)

    assert found.interval is not None
    assert 0.0 <= found.interval[0] <= count / of + 1e-6
    assert count / of - 1e-6 <= found.interval[1] <= 1.0


def test_the_median_of_few_values_has_no_interval() -> None:
    assert quantile([], 0.5).value is None
    assert quantile([1.0, 2.0, 4.0, 9.0], 0.5).value == 3.0
    assert quantile([1, 2, 3, 4, 5], 0.5).interval is None
    assert quantile([1, 2, 3, 4, 5, 6], 0.5).interval == (1, 6)


def test_the_interval_of_a_median_is_the_one_of_the_tables() -> None:
    # For 20 values the 6th and the 15th: 95.9 % (Conover, Practical Nonparametric Statistics).
    assert quantile(range(1, 21), 0.5).interval == (6, 15)


@pytest.mark.parametrize(("count", "at"), [(30, 0.5), (150, 0.9), (1000, 0.5), (1000, 0.9)])
def test_the_true_quantile_lies_in_the_interval_about_95_times_in_a_hundred(count: int, at: float) -> None:
    rng = random.Random(3)
    times = 400
    hits = 0
    for _ in range(times):
        low, high = quantile([rng.random() for _ in range(count)], at).interval or (0.0, 1.0)
        hits += low <= at <= high

    assert 0.92 <= hits / times <= 0.995


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300), st.sampled_from([0.1, 0.5, 0.9]))
def test_a_quantile_lies_in_its_interval(values: list[float], at: float) -> None:
    found = quantile(values, at)

    assert found.value is not None
    assert min(values) - 0.001 <= found.value <= max(values) + 0.001
    if found.interval is not None:
        assert found.interval[0] <= found.interval[1]
