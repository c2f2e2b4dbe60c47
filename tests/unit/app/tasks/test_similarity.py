"""Which tasks are alike, and how they are found."""

from __future__ import annotations

from hypothesis import given as for_all
from hypothesis import strategies as st

from remand.app.tasks.similarity import (
    MAX_SHARED,
    MAX_WORDS,
    THRESHOLD,
    TaskProfile,
    TaskWords,
    WordWeights,
    all_words_of,
    best_matches,
    similar_rejected,
    similarity,
    words_in,
    words_of,
)
from remand.domain import commands as c
from remand.domain.events.reviews import Finding
from remand.domain.task import LastRejection, Task
from remand.testing.builders import T1, T2, T3, a_task, task_id
from tests.support.builders import FakeLedger
from tests.unit.app.tasks.similar_pairs import PAIRS, Pair

FILED = LastRejection(rejection_id="R-1", handoff_id="H-1", agent="Bob", reason="BLOCKER")


def words(task: tuple[str, str]) -> TaskWords:
    return words_of(a_task(title=task[0], scope=task[1]))


def alike(pair: Pair, weights: WordWeights) -> float:
    return likeness(words(pair.one), words(pair.other), weights)


def likeness(one: TaskWords, other: TaskWords, weights: WordWeights) -> float:
    return similarity(TaskProfile(one, weights), TaskProfile(other, weights))


def rejected(number: int, title: str, scope: str = "", **fields: object) -> Task:
    return a_task(task_id(number), title=title, scope=scope, last_rejection=FILED, **fields)


def found(tasks: list[Task], task: Task) -> list[str]:
    world = FakeLedger()
    with world.store.write() as tx:
        for other in tasks:
            tx.tasks.put(other)
    with world.store.read() as view:
        return [match.task.id for match in similar_rejected(view, task, 5)]


class TestThreshold:
    """The threshold is set by pairs that a person judged: few of those apart pass, most of those alike do."""

    def test_nine_in_ten_of_the_pairs_called_alike_pass_in_a_ledger_without_rejections(self) -> None:
        weights = WordWeights(0, {})
        scores = [alike(pair, weights) for pair in PAIRS if pair.is_alike]

        assert sum(score >= THRESHOLD for score in scores) >= 0.9 * len(scores)

    def test_at_most_one_in_thirty_of_the_pairs_called_apart_passes(self) -> None:
        weights = WordWeights(0, {})
        scores = [alike(pair, weights) for pair in PAIRS if not pair.is_alike]

        assert sum(score >= THRESHOLD for score in scores) <= len(scores) / 30

    def test_the_threshold_holds_when_words_are_weighed_by_the_tasks_themselves(self) -> None:
        every = [words(task).both for pair in PAIRS for task in (pair.one, pair.other)]
        counts = {word: sum(word in both for both in every) for both in every for word in both}
        weights = WordWeights(len(every), counts)
        passed = [pair.is_alike for pair in PAIRS if alike(pair, weights) >= THRESHOLD]

        assert passed.count(True) >= 0.75 * sum(pair.is_alike for pair in PAIRS)
        assert passed.count(False) <= 1


class TestWords:
    def test_the_forms_of_a_word_meet(self) -> None:
        assert words_in("Migrating tables") == words_in("migration of the table")

    def test_ids_numbers_and_addresses_are_no_words(self) -> None:
        assert words_in("See task:T-20261115-090000-1a2b3c4d at https://x.org/roof, 404 of 17") == ["see"]

    def test_a_name_with_humps_or_underscores_is_several_words(self) -> None:
        assert words_in("getUserName") == words_in("get_user_name") == ["get", "user", "name"]

    def test_scripts_without_spaces_give_pairs_of_characters(self) -> None:
        assert words_in("登录页面") == ["登录", "录页", "页面"]

    def test_marks_stay_inside_their_words(self) -> None:
        assert len(words_in("हिन्दी अनुवाद")) == 2

    def test_a_very_long_task_has_not_too_many_words(self) -> None:
        task = a_task(title=" ".join(f"word{n}x" for n in range(500)), scope="tail " * 100_000)

        assert len(all_words_of(task)) <= MAX_WORDS
        assert words_of(task).both <= set(all_words_of(task))

    @for_all(st.text(max_size=80), st.text(max_size=80))
    def test_no_text_is_too_strange(self, title: str, scope: str) -> None:
        every = all_words_of(a_task(title=title, scope=scope))

        assert all(word and not set(word) & set(' "\0\n') for word in every)
        assert 0 <= likeness(words((title, scope)), words((scope, title)), WordWeights(3, {})) <= 1.0001


class TestSimilarity:
    def test_rare_words_count_more(self) -> None:
        common = {"roof": 900, "mend": 900, "kitche": 1}
        one, rare, usual = (
            words(("mend roof kitchen", "")),
            words(("kitchen roof", "")),
            words(("mend roof", "")),
        )
        weights = WordWeights(1000, common)

        assert likeness(one, rare, weights) > likeness(one, usual, weights)

    def test_words_that_all_kinds_of_tasks_have_make_no_two_alike(self) -> None:
        assert likeness(words(("Fix the bug", "")), words(("Fix bug", "")), WordWeights(0, {})) == 0

    def test_one_shared_word_makes_no_two_alike(self) -> None:
        assert likeness(words(("Kubernetes", "")), words(("Kubernetes", "")), WordWeights(0, {})) == 0

    def test_it_is_the_same_from_both_sides(self) -> None:
        weights = WordWeights(0, {})

        assert all(
            alike(pair, weights) == alike(Pair(pair.is_alike, pair.other, pair.one), weights)
            for pair in PAIRS
        )


class TestSearch:
    def test_a_similar_task_is_found_when_it_was_rejected(self) -> None:
        task = a_task(T3, title="Export all invoices as PDF")
        same = a_task(T2, title="Export invoices as PDF")

        assert found([rejected(1, "Export invoices as PDF")], task) == [task_id(1)]
        assert found([same], task) == []

    def test_a_task_that_a_reviewer_sent_back_was_rejected(self) -> None:
        task = a_task(T3, title="Export all invoices as PDF")

        assert found([a_task(T2, title="Export invoices as PDF", rejection_count=1)], task) == [T2]

    def test_the_likest_comes_first(self) -> None:
        task = a_task(T3, title="Export invoices as PDF with a logo")
        others = [
            rejected(1, "Export invoices as PDF"),
            rejected(2, "Export invoices as PDF with a logo"),
            rejected(3, "Paint the fence"),
        ]

        assert found(others, task) == [task_id(2), task_id(1)]

    def test_a_task_is_not_similar_to_itself_or_to_what_it_was_made_from_or_for(self) -> None:
        title = "Export invoices as PDF"
        task = a_task(T1, title=title, parent=task_id(1), depends_on=(task_id(2),), children=(task_id(3),))
        family = [
            rejected(1, title),
            rejected(2, title),
            rejected(3, title),
            rejected(4, title, waits_for=(T1,)),
            rejected(5, title, superseded_by=T1),
            a_task(T1, title=title, last_rejection=FILED),
        ]

        assert found(family, task) == []

    def test_what_a_task_says_now_counts(self) -> None:
        world = FakeLedger()
        task = world.add("Export invoices as PDF")
        world.claim(task)
        world.submit(task)
        world.ask(c.RejectReview(task_id=task, commit="work", findings=(Finding(text="It leaks"),)))
        world.ask(c.EditTask(task_id=task, title="Paint the garden fence green"))

        with world.store.read() as view:
            assert similar_rejected(view, a_task(T3, title="Export invoices as PDF"), 5) == []
            assert similar_rejected(view, a_task(T3, title="Paint the garden fence green"), 5)

    def test_a_search_looks_at_no_more_than_its_share(self) -> None:
        looked: list[int] = []

        def having(word: str, most: int) -> list[int]:
            assert most > 0, "no room means no end to a store"
            looked.append(min(most, counts[word]))
            return list(range(looked[-1]))

        counts = {"a": 9000, "b": 9000, "c": 9000, "rare": 3}
        best = best_matches(dict.fromkeys(counts, 1.0), counts, having, 50)

        assert len(best) == 50
        assert sum(looked) <= MAX_SHARED
