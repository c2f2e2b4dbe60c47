"""Holds which sub-tasks wait for which, by what agents really write beside them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.decisions.director import SubtaskNeeds, resolve_dependencies
from tests.support.strategies import json_values

ID = "T-20251220-153045-a1b2"
REFACTOR, PLUGIN, PAGES, PYTHON, SCHEMA, LOGIN = range(6)
TITLES = [
    "Refactor auth module for plugin architecture",
    "Implement OAuth provider plugin",
    "Add OAuth UI and user flows",
    "Migrate to Python 3",
    "Datenbankschema anlegen",
    "用户登录接口",
]
SCOPES = [
    "Extract auth provider interface, migrate existing auth",
    "Add OAuth using new plugin interface",
    "Add login button, redirect flows, documentation",
    "",
    "Tabellen für Benutzer",
    "",
]


def needs(index: int, phrase: object) -> SubtaskNeeds:
    """What one of the sub-tasks waits for, when only it says so."""
    phrases: list[object] = [None] * len(TITLES)
    phrases[index] = phrase
    return resolve_dependencies(TITLES, SCOPES, phrases)[index]


@pytest.mark.parametrize(
    ("index", "phrase", "siblings"),
    [
        # As the requirements write them.
        (PLUGIN, "Requires auth refactor task", {REFACTOR}),
        (PAGES, "Requires OAuth plugin task", {PLUGIN}),
        (PAGES, "auth refactor", {REFACTOR}),
        (PLUGIN, "Requires refactor task above", {REFACTOR}),
        # By number.
        (PLUGIN, "after 1", {REFACTOR}),
        (PLUGIN, "1", {REFACTOR}),
        (PLUGIN, "1.", {REFACTOR}),
        (PLUGIN, "(1)", {REFACTOR}),
        (PLUGIN, 1, {REFACTOR}),
        (PLUGIN, "#1", {REFACTOR}),
        (PLUGIN, "No. 1", {REFACTOR}),
        (PLUGIN, "task1", {REFACTOR}),
        (PLUGIN, "T1", {REFACTOR}),
        (PLUGIN, "subtask-1", {REFACTOR}),
        (PLUGIN, "step 1 must be merged", {REFACTOR}),
        (PLUGIN, "blocked by 1", {REFACTOR}),
        (PAGES, "1, 2", {REFACTOR, PLUGIN}),
        (PAGES, "1,2", {REFACTOR, PLUGIN}),
        (PAGES, "1 and 2", {REFACTOR, PLUGIN}),
        (PAGES, "1/2", {REFACTOR, PLUGIN}),
        (PAGES, ["1", "2"], {REFACTOR, PLUGIN}),
        (PAGES, [1, 2], {REFACTOR, PLUGIN}),
        (PAGES, "Task #1 and Task #2", {REFACTOR, PLUGIN}),
        (SCHEMA, "1-3", {REFACTOR, PLUGIN, PAGES}),
        (SCHEMA, "2 to 4", {PLUGIN, PAGES, PYTHON}),
        (PAGES, "needs the refactor (1) and the plugin (2)", {REFACTOR, PLUGIN}),
        # By place.
        (PAGES, "previous", {PLUGIN}),
        (PAGES, "the task before", {PLUGIN}),
        (PAGES, "the first", {REFACTOR}),
        (PAGES, "second task", {PLUGIN}),
        (PYTHON, "all others", {REFACTOR, PLUGIN, PAGES}),
        # By title.
        (PLUGIN, "Refactor auth module for plugin architecture", {REFACTOR}),
        (PAGES, "OAuth plugin + auth refactor", {REFACTOR, PLUGIN}),
        (REFACTOR, "Requires Python 3 migration", {PYTHON}),
        # Not before is after.
        (PLUGIN, "not before 1", {REFACTOR}),
        (PLUGIN, "cannot start until 1 is done", {REFACTOR}),
        (PLUGIN, "nothing except task 1", {REFACTOR}),
        (PLUGIN, "Requires auth refactor task, no UI work", {REFACTOR}),
        # In other languages.
        (PLUGIN, "nach Aufgabe 1", {REFACTOR}),
        (PLUGIN, "nicht vor Aufgabe 1", {REFACTOR}),
        (PAGES, "benötigt das Auth-Modul", {REFACTOR}),
        (PAGES, "nach der vorherigen Aufgabe", {PLUGIN}),
        (REFACTOR, "braucht das Datenbankschema", {SCHEMA}),
        (PLUGIN, "después de la tarea 1", {REFACTOR}),
        (PAGES, "la tarea anterior", {PLUGIN}),
        (PAGES, "requiere el plugin OAuth", {PLUGIN}),
        (PLUGIN, "après la tâche 1", {REFACTOR}),
        (PLUGIN, "après la précédente", {REFACTOR}),
        (PAGES, "依赖任务1", {REFACTOR}),
        (PAGES, "任务1和任务2", {REFACTOR, PLUGIN}),
        (PAGES, "上一个任务", {PLUGIN}),
        (PAGES, "依赖用户登录接口", {LOGIN}),
        (PAGES, "タスク1の後", {REFACTOR}),
    ],
)
def test_a_sub_task_waits_for_the_sibling_it_names(index: int, phrase: object, siblings: set[int]) -> None:
    found = needs(index, phrase)

    assert set(found.siblings) == siblings
    assert (found.tasks, found.unresolved) == ((), "")


@pytest.mark.parametrize(
    "phrase",
    [
        None,
        "",
        "  ",
        "none",
        "None.",
        "n/a",
        "-",
        "No dependencies",
        "nothing depends on this",
        "independent of the others",
        "does not depend on 1",
        "no dependency on 1, 2 or 3",
        "keine",
        "hängt von nichts ab",
        "unabhängig von 1",
        "ninguna",
        "aucune",
        "无",
        "没有依赖",
        False,
        True,
        [],
        [None],
    ],
    ids=repr,
)
def test_a_sub_task_that_says_so_waits_for_nothing(phrase: object) -> None:
    assert needs(PAGES, phrase) == SubtaskNeeds()


@pytest.mark.parametrize(
    ("phrase", "tasks"),
    [
        (f"depends on task:{ID}", (ID,)),
        (ID, (ID,)),
        (f"{ID} and T-20251220-153045-ffffffff", (ID, "T-20251220-153045-ffffffff")),
        ("#42", ("#42",)),
        ("see owner/name#42", ("owner/name#42",)),
    ],
)
def test_a_sub_task_waits_for_tasks_that_exist_by_their_whole_id(phrase: str, tasks: tuple[str, ...]) -> None:
    assert needs(PAGES, phrase) == SubtaskNeeds(tasks=tasks)


def test_an_id_is_no_number_of_a_sibling_and_both_may_be_named() -> None:
    assert needs(PLUGIN, f"task:{ID}, then 1") == SubtaskNeeds(siblings=(REFACTOR,), tasks=(ID,))


@pytest.mark.parametrize("phrase", ["moon phase", "after 99", "takes 2 hours", "1.5 hours", "1,5 Stunden"])
def test_what_cannot_be_found_is_said_and_not_guessed(phrase: str) -> None:
    assert needs(PAGES, phrase) == SubtaskNeeds(unresolved=phrase)


@pytest.mark.parametrize(
    ("index", "phrase"), [(REFACTOR, "1"), (PLUGIN, "2"), (REFACTOR, "previous"), (LOGIN, "用户登录接口")]
)
def test_no_sub_task_waits_for_itself(index: int, phrase: str) -> None:
    assert needs(index, phrase).siblings == ()


def test_a_circle_is_cut_at_the_link_that_closes_it() -> None:
    one, two, three = resolve_dependencies(["Alpha", "Beta", "Gamma"], ["", "", ""], ["3", "1", "2"])

    assert (one.siblings, two.siblings, three.siblings) == ((2,), (0,), ())


def is_in_order(found: list[SubtaskNeeds]) -> bool:
    """True when some order serves every need."""
    done: set[int] = set()
    while len(done) < len(found):
        ready = {n for n, one in enumerate(found) if n not in done and set(one.siblings) <= done}
        if not ready:
            return False
        done |= ready
    return True


@given(
    st.lists(
        st.integers(0, 9) | st.sampled_from(["previous", "all", "1-5", "beta", "gamma and 1"]), max_size=8
    )
)
def test_there_is_always_an_order_in_which_the_sub_tasks_can_be_done(phrases: list[object]) -> None:
    titles = ["Alpha", "Beta", "Gamma", "Delta", "Epsilon", "Zeta", "Eta", "Theta"][: len(phrases)]

    found = resolve_dependencies(titles, [""] * len(titles), phrases)

    assert is_in_order(found)
    assert all(n not in one.siblings for n, one in enumerate(found))
    assert all(0 <= other < len(phrases) for one in found for other in one.siblings)


@given(st.lists(st.tuples(st.text(max_size=20), json_values()), max_size=6))
def test_no_phrase_whatever_it_is_fails(rows: list[tuple[str, object]]) -> None:
    found = resolve_dependencies(
        [title for title, _ in rows], [""] * len(rows), [phrase for _, phrase in rows]
    )

    assert is_in_order(found)


@pytest.mark.parametrize("unit", ["1", "a ", "1-", "#", "T-", "1, ", "not ", "(", "任"])
def test_a_phrase_without_end_is_read_in_time(unit: str) -> None:
    assert len(resolve_dependencies(["A", "B"], ["", ""], [unit * 100_000, [unit * 100_000] * 50])) == 2


@pytest.mark.parametrize(
    ("phrase", "found"),
    [
        ("Requires refactor task above", (0,)),
        ("all of the above", (0, 1)),
        ("the task above", (1,)),
        ("previous step", (1,)),
    ],
)
def test_a_title_counts_more_than_above_and_all_more_than_one(phrase: str, found: tuple[int, ...]) -> None:
    titles = ["Refactor auth module for extensibility", "Add OAuth login provider", "Add the button"]

    assert resolve_dependencies(titles, [""] * 3, ["none", "none", phrase])[2].siblings == found


def test_what_the_second_waits_for_can_only_be_the_first() -> None:
    found = resolve_dependencies(
        ["IConflictResolver and result type", "Three default resolvers"],
        ["", ""],
        ["none", "after interface"],
    )

    assert found[1].siblings == (0,)
    assert resolve_dependencies(["a", "b"], ["", ""], ["none", "after 2 days"])[1].siblings == ()
