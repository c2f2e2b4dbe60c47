"""Holds that reviews, resubmissions, unlocks, retractions and merges come out right in whatever order they meet."""

import random
from collections.abc import Callable, Sequence

import pytest

from tests.properties.review_team import Play, Step, Terms, drawn, drawn_terms, merged_anew, play_out
from tests.properties.task_audit import Broken

Campaign = Callable[[int, int], int]
PARTS = 8
SMALL, FULL = 752, 100_000
STEPS = (6, 32)
ANEW = 4
"""Of so many plays, one is read by a third ledger in another order."""


def interleaving(seed: int) -> tuple[Terms, list[Step], Broken | None]:
    """Draws a script and plays it; returns what was played, and what it broke."""
    chance = random.Random(seed)
    terms = drawn_terms(chance)
    script: list[Step] = []
    play = Play(terms)
    try:
        for step in drawn(chance, play, chance.randint(*STEPS)):
            script.append(step)
            play.play(step)
        play_out(play)
        if seed % ANEW == 0:
            merged_anew(play, chance)
    except Broken as broken:
        return terms, script, broken
    return terms, script, None


def broken_by(terms: Terms, script: Sequence[Step]) -> Broken | None:
    """What a script breaks when it is played again."""
    play = Play(terms)
    try:
        for step in script:
            play.play(step)
        play_out(play)
        merged_anew(play, random.Random(0))
    except Broken as broken:
        return broken
    return None


def shortest(terms: Terms, script: list[Step]) -> list[Step]:
    """The script without every step that it breaks something without."""
    if broken_by(terms, script) is None:
        return script
    place = 0
    while place < len(script):
        without = script[:place] + script[place + 1 :]
        if broken_by(terms, without):
            script, place = without, 0
        else:
            place += 1
    return script


def told(seed: int, terms: Terms, script: list[Step], broken: Broken) -> str:
    """A failure as somebody needs it who wants to mend it."""
    short = shortest(terms, script)
    found = broken_by(terms, short) or broken
    steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(short, 1))
    team = ", ".join(one.name for one in terms.team.members)
    return f"seed {seed} ({team}; {terms.policy}; skew {terms.skew}):\n{steps}\n{str(found)[:4000]}"


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_slips_through_whatever_the_order_of_reviews_and_merges(
    part: int, campaign: Campaign, record_property: Callable[[str, object], None]
) -> None:
    """No approval counts for another commit, no lockout has a hole, and no task is without a way out."""
    count = campaign(SMALL, FULL) // PARTS
    record_property("interleavings", count)
    for seed in range(part * count, (part + 1) * count):
        terms, script, broken = interleaving(seed)
        if broken is not None:
            pytest.fail(told(seed, terms, script, broken))
