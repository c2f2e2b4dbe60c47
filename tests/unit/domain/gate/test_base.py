"""What work is compared with: pure, given where histories meet."""

from __future__ import annotations

import pytest

from remand.domain.gate.verdict import WorkBase

PARENTS = {"m1": "", "m2": "m1", "m3": "m2", "w1": "m1", "w2": "w1", "n1": "m3", "alien": ""}
"""A base m1–m2–m3, work w1–w2 that left it at m1, work n1 on its tip, and a history of its own."""


def ancestors(commit: str) -> list[str]:
    found = []
    while commit:
        found.append(commit)
        commit = PARENTS[commit]
    return found


def merge_base(commit: str, other: str) -> str:
    known = ancestors(other)
    return next((one for one in ancestors(commit) if one in known), "")


def base(tip: str = "m3", *, protected: bool = False, claim: str = "") -> WorkBase:
    return WorkBase(tip, tip if protected else "", claim, merge_base)


def test_work_is_compared_with_where_it_left_the_base() -> None:
    assert base().compared_with("w2") == "m1"


def test_without_a_base_there_is_nothing_to_compare_with() -> None:
    assert base("").compared_with("w2") == ""


def test_a_local_base_counts_as_it_was_at_the_claim() -> None:
    """Whoever works here could have committed m3 to it."""
    assert base(claim="m2").compared_with("n1") == "m2"


def test_a_protected_base_counts_as_it_is_now() -> None:
    assert base(protected=True, claim="m2").compared_with("n1") == "m3"


@pytest.mark.parametrize("claim", ["w1", "alien"])
def test_a_claim_that_names_a_commit_the_base_never_had_is_not_believed(claim: str) -> None:
    assert base(claim=claim).at_claim == ""
    assert base(claim=claim).compared_with("w2") == "m1"


def test_work_on_the_base_itself_is_compared_with_the_base_at_the_claim() -> None:
    assert base(claim="m1", protected=True).compared_with("m3") == "m1"


def test_a_commit_is_not_its_own_base() -> None:
    assert base(claim="m3").compared_with("m3") == ""


def test_a_history_of_its_own_is_compared_with_the_base() -> None:
    assert base().compared_with("alien") == "m3"


def test_work_on_the_base_itself_is_measured_by_the_rules_at_the_claim() -> None:
    assert base(claim="m1", protected=True).rules_commit("m3") == "m1"
    assert base(claim="m1").rules_commit("w2") == ""


def test_only_a_commit_beside_a_base_that_has_moved_may_have_its_new_rules() -> None:
    assert base().may_have_base_rules("w2")
    assert not base().may_have_base_rules("n1")
    assert not base().may_have_base_rules("m2")


def test_what_the_base_had_at_the_claim_is_no_work() -> None:
    assert not base(claim="m2").has_work("m2", is_on_own_branch=False)
    assert base(claim="m2").has_work("m3", is_on_own_branch=False)


def test_a_task_with_a_branch_of_its_own_does_no_work_on_the_base() -> None:
    assert not base(claim="m2").has_work("m3", is_on_own_branch=True)


def test_what_the_remote_has_is_no_work() -> None:
    assert not base(claim="m2", protected=True).has_work("m3", is_on_own_branch=False)
    assert base(claim="m2", protected=True).has_work("w2", is_on_own_branch=True)
