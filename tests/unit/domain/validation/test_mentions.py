"""Holds that ids are read whole, wherever they stand."""

import pytest

from remand.domain.rejection import TaskRejection
from remand.domain.validation.parsed_rejection import dependency_names, mentioned_names, names_in


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("task:T-20251220-153045-a1b2 first", ("task:T-20251220-153045-a1b2",)),
        ("T-79. (T-2404a), D-91;", ("T-79", "T-2404a", "D-91")),
        ("decision:D-20260101-080000-00ff", ("decision:D-20260101-080000-00ff",)),
        ("see #42 and owner/repo#42", ("#42", "owner/repo#42")),
        ("commit 4f1c2aa, then 9ab12ffe0b7d", ("4f1c2aa", "9ab12ffe0b7d")),
        ("a" * 20 + "1" * 20, ("a" * 20 + "1" * 20,)),
        ("依赖T-79完成之后", ("T-79",)),
        ("T-8's branch, T-8 again", ("T-8",)),
        ("Depends on task:T-SEARCH-PLATFORM", ("task:T-SEARCH-PLATFORM",)),
        ("a T-shirt, MT-79, x/T-9, 1234567, deadbeef, T-", ()),
    ],
)
def test_ids_are_read_whole(text: str, names: tuple[str, ...]) -> None:
    assert names_in(text) == names


def test_all_fields_are_searched_and_each_name_is_given_once() -> None:
    rejection = TaskRejection(
        reason_type="BLOCKER",
        reason_summary="T-1",
        reason_detail="T-2 and T-1",
        what_attempted=["T-3"],
        blocking_factor="T-4",
        evidence=[{"data": {"T-5": "open"}, "source": "T-6"}],
        suggested_alternative="T-7",
        alternative_tasks=[{"title": "T-8"}],
    )

    assert mentioned_names(rejection) == tuple(f"T-{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8))


def test_the_blocking_factor_names_the_dependency() -> None:
    rejection = TaskRejection(
        reason_type="MISSING_DEPENDENCY", reason_summary="T-1", blocking_factor="T-2 after D-3"
    )

    assert dependency_names(rejection) == ("T-2", "D-3")


def test_summary_and_detail_name_the_dependency_when_the_blocking_factor_does_not() -> None:
    rejection = TaskRejection(
        reason_type="MISSING_DEPENDENCY",
        reason_summary="Needs #12",
        reason_detail="and T-9; commit 4f1c2aa is no dependency",
        blocking_factor="secret store",
    )

    assert dependency_names(rejection) == ("#12", "T-9")


def test_keys_of_another_tracker_are_taken_where_no_own_id_is_named() -> None:
    foreign = TaskRejection(reason_type="MISSING_DEPENDENCY", blocking_factor="NET-2207 (firewall), SHA-256")
    both = TaskRejection(reason_type="MISSING_DEPENDENCY", blocking_factor="T-7 for NET-2207")

    single = TaskRejection(reason_type="MISSING_DEPENDENCY", blocking_factor="O-771b (uuid keys) before C-3")

    assert dependency_names(foreign) == ("NET-2207",)
    assert dependency_names(single) == ("O-771b",)
    assert dependency_names(both) == ("T-7",)


@pytest.mark.parametrize("value", [None, 7, float("nan"), [[["T-1"]]], {"a": {"b": "T-1"}}])
def test_fields_of_any_type_are_searched(value: object) -> None:
    rejection = TaskRejection(reason_type=None, blocking_factor=value, what_attempted=value)  # type: ignore[arg-type]

    assert mentioned_names(rejection) in {(), ("T-1",)}
