"""Holds how far a reviewer's word reaches."""

import pytest

from remand.domain.access.team import TEST_PATTERNS, Actor, Role, paths_outside_scope, review_scope
from remand.testing.builders import actor
from tests.support.builders import LEAD, THE_USER

OWN = ("paint/**",)


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (LEAD, ()),
        (THE_USER, ()),
        (actor("Tess", Role.TESTER), TEST_PATTERNS),
        (actor("Tess", Role.TESTER, Role.LEAD), ()),
        (actor("Tess", Role.TESTER, paths=OWN), OWN),
        (actor("Lea", Role.LEAD, paths=OWN), OWN),
        (actor("Una", Role.USER, paths=OWN), ()),
        (actor("Una", Role.USER, Role.TESTER), ()),
        (actor("Una", Role.USER, Role.TESTER, confined=True), TEST_PATTERNS),
        (actor("Una", Role.USER, Role.LEAD, paths=OWN, confined=True), OWN),
    ],
    ids=[
        *(
            "lead",
            "user",
            "tester",
            "tester and lead",
            "tester with paths",
            "lead with paths",
            "user with paths",
        ),
        *("user and tester", "confined user and tester", "confined user and lead with paths"),
    ],
)
def test_a_word_reaches_as_far_as_role_and_paths_say(who: Actor, expected: tuple[str, ...]) -> None:
    assert review_scope(who) == expected


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/a.py", True),
        ("test/a.rb", True),
        ("src/tests/data/b.json", True),
        ("web/test/b.js", True),
        ("web/__tests__/b.tsx", True),
        ("test_a.py", True),
        ("src/test_a.py", True),
        ("pkg/a_test.go", True),
        ("web/a.test.ts", True),
        ("web/a.spec.ts", True),
        ("src/conftest.py", True),
        ("src/contest.py", False),
        ("src/latest.py", False),
        ("src/attests/a.py", False),
        ("src/a.py", False),
        ("", False),
    ],
)
def test_a_tester_reviews_what_has_to_do_with_tests(path: str, is_test: bool) -> None:
    assert paths_outside_scope(actor("Tess", Role.TESTER), [path]) == ([] if is_test else [path])


def test_what_lies_outside_is_told_in_the_order_it_came() -> None:
    assert paths_outside_scope(actor("Pat", Role.LEAD, paths=OWN), ["b", "paint/c", "a"]) == ["b", "a"]
    assert paths_outside_scope(LEAD, ["b", "a"]) == []
