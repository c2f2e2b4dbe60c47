"""Findings that come again, and findings that want the opposite, are told from those that only share words."""

import pytest

from remand.domain.events.reviews import Finding
from remand.domain.feedback.recurrence import EarlierFindings, read_gist
from tests.unit.domain.feedback.finding_pairs import FIRST, SECOND, THIRD, Pair


def told(pair: Pair) -> str:
    earlier = EarlierFindings([read_gist(Finding(text=pair.before, path=pair.path, line=3))])
    now = read_gist(Finding(text=pair.now, path=pair.other_path or pair.path, line=90))
    return (
        "opposite" if earlier.find_last_opposed(now) == 0 else "same" if earlier.find_same(now) else "neither"
    )


@pytest.mark.parametrize(("pairs", "share"), [(FIRST, 1.0), (SECOND, 0.9), (THIRD, 0.9)], ids=["1", "2", "3"])
def test_most_pairs_are_told_as_a_person_would(pairs: list[Pair], share: float) -> None:
    wrong = [(told(pair), pair) for pair in pairs if told(pair) != pair.label]

    assert len(wrong) <= (1 - share) * len(pairs), wrong


@pytest.mark.parametrize("pair", [pair for pair in FIRST + SECOND + THIRD if pair.label != "opposite"])
def test_no_finding_is_called_the_opposite_of_one_that_it_is_not(pair: Pair) -> None:
    assert told(pair) != "opposite"


@pytest.mark.parametrize("text", ["Use tabs", "We'use tabs", "\u00e9 use tabs"])
def test_a_word_that_says_what_is_preferred_is_found_whatever_stands_beside_it(text: str) -> None:
    (choice,) = read_gist(Finding(text=text)).preferences

    assert "tab" in choice.this
