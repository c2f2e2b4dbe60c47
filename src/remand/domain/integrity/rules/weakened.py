"""Tests that are still there and prove less than they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from remand.domain.integrity.catalogue import listed, short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.cases import NOTHING, Assertion, Case, likeness
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import Placed

SAME_ACT = 0.8
"""How alike the rest of a test must be for a missing assertion to be the whole change."""
KIN = 1.2
"""How alike two assertions must be to be one that changed, in a test that was rewritten."""
LOOSER = 5.0
MAX_PAIRS = 10_000
COARSE = 0.01
TABLE = 4
"""Values from which on parameters are a table."""
VARIED = 0.75
"""How many of its values a table must keep for its rows to differ as much as before."""
SLACK = 10.0
"""Units of the last digit that an assertion may be off where it was exact."""


def weakened(scene: Scene) -> Iterator[Suspicion]:
    """Every test, and function that asserts for tests, that proves less than on the base."""
    missing = _missing(scene)
    for before, after in scene.matching.kept:
        yield from _fewer_examples(before.case, after)
        if before.case.is_skipped or after.case.is_skipped or before.case.body == after.case.body:
            yield from _fewer_cases(before, after, scene.vanished)
            continue
        yield from _of_pair(before, after, scene, missing)


def _of_pair(before: Placed, after: Placed, scene: Scene, missing: Counter[str]) -> Iterator[Suspicion]:
    old, new = _live(before.case), _live(after.case)
    had = {text for _, _, text in before.case.traps}
    for code, line, text in after.case.traps:
        if text not in had:
            yield suspicion(
                code, after.view.path, line, f"`{short(text)}` around assertions of `{after.case.name}`"
            )
            return
    if old and not new and not _is_excused(before.case, old, after, scene, missing):
        yield suspicion(
            "test_emptied",
            after.view.path,
            after.case.line,
            f"`{after.case.name}` asserted {len(old)} things",
        )
        return
    changed, lost = compared(old, new)
    is_same_act = likeness(before.case.act, after.case.act) >= SAME_ACT
    kin = (pair for pair in changed if is_same_act or _kinship(*pair) >= KIN)
    yield from (_changed(after, one, other) for one, other in kin if is_weaker(one, other))
    yield from _conditional(after, old, new)
    removed = _unexcused(before.case, after, lost, scene, missing)
    if removed:
        texts = [item.text for item in removed]
        yield suspicion(
            "assertion_removed",
            after.view.path,
            after.case.line,
            f"`{after.case.name}` no longer asserts {listed(texts)}",
            "\n".join((after.case.name, *sorted(texts))),
        )
    else:
        yield from _fewer_cases(before, after, scene.vanished)


def _fewer_examples(before: Case, after: Placed) -> Iterator[Suspicion]:
    """A property that is tried far less often."""
    if 0 < after.case.examples * LOOSER <= before.examples:
        found = f"`{after.case.name}` is tried {after.case.examples:g} times, was {before.examples:g}"
        yield suspicion("assertion_weakened", after.view.path, after.case.line, found)


def _live(case: Case) -> list[Assertion]:
    return [item for item in case.assertions if item.strength > NOTHING]


def _missing(scene: Scene) -> Counter[str]:
    """What tests of the base assert more often than those of the head, over all changed files."""
    base = Counter(item.text for placed in scene.base_cases for item in _live(placed.case))
    head = (placed.case for placed in scene.head_cases if not placed.case.is_skipped)
    return base - Counter(item.text for case in head for item in _live(case))


def compared(
    old: list[Assertion], new: list[Assertion]
) -> tuple[list[tuple[Assertion, Assertion]], list[Assertion]]:
    """The assertions that changed, each with what became of it, and those nothing became of."""
    common = Counter(item.text for item in old) & Counter(item.text for item in new)
    lost, gained = _without(old, common), _without(new, common)
    if len(lost) * len(gained) > MAX_PAIRS:
        return list(zip(lost, gained, strict=False)), lost[len(gained) :]
    scored = [
        (_kinship(one, other), -at, -place)
        for at, one in enumerate(lost)
        for place, other in enumerate(gained)
    ]
    paired: dict[int, int] = {}
    taken: set[int] = set()
    for _, at, place in sorted(scored, reverse=True):
        if -at not in paired and -place not in taken:
            paired[-at] = -place
            taken.add(-place)
    changed = [(lost[at], gained[place]) for at, place in sorted(paired.items())]
    return changed, [item for at, item in enumerate(lost) if at not in paired]


def _without(items: list[Assertion], common: Counter[str]) -> list[Assertion]:
    left = common.copy()
    found = []
    for item in items:
        if left[item.text] > 0:
            left[item.text] -= 1
        else:
            found.append(item)
    return found


def _kinship(one: Assertion, other: Assertion) -> float:
    """How likely one assertion is what became of another."""
    same = 2.0 if one.subject == other.subject else 0.0
    same += 1.0 if _expectation(one) == _expectation(other) else 0.0
    values = likeness(one.literals, other.literals) if one.literals or other.literals else 0.0
    return same + values + likeness(_bag(one.subject), _bag(other.subject)) + 0.1 * other.strength


def _expectation(item: Assertion) -> str:
    """What is expected, without what is looked at."""
    return item.text.replace(item.subject, "", 1)


def _bag(text: str) -> frozenset[str]:
    return frozenset("".join(char if char.isalnum() else " " for char in text).split())


def is_weaker(one: Assertion, other: Assertion) -> bool:
    """True when the second assertion of a pair proves less than the first."""
    if other.strength < one.strength:
        return True
    if other.tolerance >= COARSE and other.tolerance >= LOOSER * one.tolerance:
        return True
    if not one.tolerance and other.slack >= SLACK:
        return True
    if one.bound is None or other.bound is None or one.bound[0] != other.bound[0]:
        return False
    (sign, old), (_, new) = one.bound, other.bound
    return new >= LOOSER * old > 0 if sign == "<" else old > 0 and new <= old / LOOSER


def _changed(after: Placed, one: Assertion, other: Assertion) -> Suspicion:
    found = f"`{after.case.name}` asserted `{short(one.text)}`, now `{short(other.text)}`"
    return suspicion("assertion_weakened", after.view.path, other.line, found, f"{one.text}\n{other.text}")


def _conditional(after: Placed, old: list[Assertion], new: list[Assertion]) -> Iterator[Suspicion]:
    """Assertions that moved under an `if`."""
    plain = sum(not item.is_conditional for item in old)
    bound = [item for item in new if item.is_conditional]
    if plain > sum(not item.is_conditional for item in new) and len(bound) > sum(
        item.is_conditional for item in old
    ):
        found = f"`{after.case.name}` asserts `{short(bound[0].text)}` under a condition only"
        yield suspicion("assertion_conditional", after.view.path, bound[0].line, found)


def _unexcused(
    before: Case, after: Placed, lost: list[Assertion], scene: Scene, missing: Counter[str]
) -> list[Assertion]:
    return [] if lost and _is_excused(before, lost, after, scene, missing) else lost


def _is_excused(
    before: Case, lost: list[Assertion], after: Placed, scene: Scene, missing: Counter[str]
) -> bool:
    """True when what is no longer asserted is asserted elsewhere, in another form, or cannot be any more."""
    left = [item for item in lost if missing[item.text] > 0 and not _bag(item.text) & scene.vanished]
    if not left:
        return True
    new = _live(after.case)
    known = {item.text for item in before.assertions}
    parts = sum(item.parts - 1 for item in new if item.text not in known)
    if after.case.proofs + parts + _helped(after, scene) >= before.proofs:
        return True
    is_rewritten = likeness(before.act, after.case.act) < SAME_ACT
    return is_rewritten and len(new) * 2 >= len(_live(before)) and bool(new)


def _helped(after: Placed, scene: Scene) -> int:
    """The proofs of new functions the test calls."""
    return sum(
        placed.case.proofs
        for placed in scene.matching.new
        if not placed.is_run and placed.case.short_name in after.case.calls
    )


def _fewer_cases(before: Placed, after: Placed, vanished: frozenset[str]) -> Iterator[Suspicion]:
    """The same assertion over fewer parameters, or over parameters that say the same."""
    if after.case.is_skipped or before.case.is_skipped:
        return
    dropped = before.case.literals - after.case.literals
    if any(value.strip("'\"`") in vanished for value in dropped):
        return
    if after.case.proofs >= before.case.proofs:
        yield from _alike_cases(before.case, after)
        return
    new = {item.text: item for item in after.case.assertions}
    for item in before.case.assertions:
        other = new.get(item.text)
        if other and other.times < item.times and item.is_counted and other.is_counted:
            found = f"`{after.case.name}` has {other.times} cases, had {item.times}"
            yield suspicion(
                "assertion_removed",
                after.view.path,
                after.case.line,
                found,
                "\n".join(sorted(dropped) or [found]),
            )
            return


def _alike_cases(before: Case, after: Placed) -> Iterator[Suspicion]:
    """As many parameters, of which fewer differ."""
    is_table = any(item.times > 1 for item in before.assertions) and len(before.literals) >= TABLE
    if (
        is_table
        and before.body == after.case.body
        and len(after.case.literals) < VARIED * len(before.literals)
    ):
        found = f"the cases of `{after.case.name}` have {len(after.case.literals)} values, had {len(before.literals)}"
        yield suspicion("assertion_removed", after.view.path, after.case.line, found)
