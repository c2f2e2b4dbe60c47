"""Holds that a change is examined without a run and without a task, and past commits by kind of finding."""

import pytest

from tests.integration.machine import Machine, Repository

TEST = "def test_answer():\n    assert answer() == 42\n"


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    return near_machine


def test_a_change_is_examined_by_its_texts_and_past_commits_are_counted_by_kind(
    repository: Repository,
) -> None:
    first = repository.commit("tests/test_answer.py", TEST)
    honest = repository.commit("src/answer.py", "def answer():\n    return 6 * 7\n")
    gamed = repository.commit("tests/test_answer.py", "def test_answer():\n    assert answer()\n")

    one = repository.call("gate", "examine", honest, gamed)
    none = repository.call("gate", "examine", first, honest)
    each = repository.call("gate", "examine", "--each", f"{first}..{gamed}")
    audit = repository.ok("audit", f"{first}..{gamed}")

    assert (one.code, none.code, each.code) == (1, 0, 1)
    [finding] = one.data["findings"]
    assert (one.data["base"], one.data["head"]) == (honest, gamed)
    assert {name: finding[name] for name in ("kind", "path", "held", "rests_on")} == {
        "kind": "assertion_weakened",
        "path": "tests/test_answer.py",
        "held": True,
        "rests_on": "text",
    }
    assert {name: finding[name] for name in ("why", "settles", "accepted_before", "settled_before")} == {
        "why": "wrong results pass that failed before",
        "settles": "assert as exactly as before",
        "accepted_before": 0,
        "settled_before": 0,
    }
    assert finding["text"].startswith(f"{finding['found']} (")
    assert none.data["findings"] == []
    assert [(row["head"], len(row["findings"])) for row in each.data] == [(honest, 0), (gamed, 1)]
    assert (audit["commits"], audit["held"], audit["held_commits"]) == (2, 1, [gamed])
    assert [(row["kind"], row["language"]) for row in audit["kinds"]] == [("assertion_weakened", "python")]
    assert "1 of 2 commits would be held" in repository.people("audit", f"{first}..{gamed}").out
    for names in (f"{first} --all", "nowhere", " ", "a\\..b", "\udc9c"):
        refused = repository.call("gate", "examine", "--each", names)
        assert refused.code == 2, names
        assert "is not a range of commits" in refused.data["message"]


def test_a_project_may_bound_its_suppressions_and_the_bound_is_that_of_the_base(
    repository: Repository,
) -> None:
    repository.configure("[project]\nbase = 'main'\n\n[gates.integrity]\nmax_suppressions = 2\n")
    repository.commit("src/a.py", "x = f()  # noqa: E501\n")
    base = repository.commit("src/b.py", "x = 1\n")
    within = repository.commit("src/b.py", "x = f()  # noqa: E501\n")
    above = repository.commit("src/c.py", "x = f()  # noqa: E501\n")
    moved = repository.commit("src/c.py", "y = f()  # noqa: E501\n")

    found = {
        head: [one["kind"] for one in repository.call("gate", "examine", before, head).data["findings"]]
        for before, head in ((base, within), (within, above), (above, moved))
    }

    assert found[within] == ["suppression_noted"]
    assert sorted(found[above]) == ["suppression_noted", "suppressions_over_limit"]
    assert found[moved] == []
