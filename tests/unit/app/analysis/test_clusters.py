"""Holds which texts are taken for the same, and which are not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.app.analysis.statistics import MOST_TASKS, Cluster, cluster_texts


def merged(*texts: str) -> list[tuple[int, str]]:
    found = cluster_texts([(text, f"T-{n}") for n, text in enumerate(texts)], 100)
    assert found.in_all == len(found.largest)
    return [(one.count, one.example) for one in found.largest]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("API key missing", "api KEY missing."),
        ("Registry answers 403 for foo-1.2", "Registry answers 502 for foo-1.3"),
        ("The build needs gcc 12 on runner 7", "the build needs gcc 13 on the runner 9!"),
        ("Cannot read /etc/app/prod.toml", "cannot read ~/app/test.toml"),
        ("No such file: src/app.py", "No such file: src/app/page.ts"),
        ("https://a.example/x times out", "https://b.example times out"),
        ("T-20260101-000000-abcd is in the way", "T-20261231-235959-0f0f is in the way"),
        ("Commit 1a2b3c4 breaks the build", "Commit 99 breaks the build."),
        ("Нет ключа к базе №1", "нет ключа к базе №2"),
        ("ステージングの鍵がありません。", "ステージングの鍵がありません"),
    ],
)
def test_case_figures_ids_paths_articles_and_punctuation_make_no_difference(one: str, other: str) -> None:
    assert [count for count, _ in merged(one, other, one)] == [3]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("API key missing", "Disk full"),
        ("The registry is down", "The database is down"),
        ("Nobody has the key of the shed", "The ladder was stolen in Basel"),
        ("ステージングの鍵がありません", "ビルドサーバーが停止しています"),
        ("!!!", "???"),
        ("The registry can be reached", "The registry cannot be reached"),
        ("Nothing within a 3-day limit", "Nothing within a 5-minute limit"),
        ("Registry answers 403 for foo-1.2", "Registry answers 403 for bar-1.2"),
        ("No read/write access", "No client/server access"),
        (
            "The credentials for the staging database are not in the vault",
            "Credentials for the staging database are still not in the vault",
        ),
        ("ステージングのデータベースの鍵がありません", "ステージングのデータベースの鍵がない"),
        ("Нет ключа к базе данных на сервере", "Нет ключа к базе данных на этом сервере"),
    ],
)
def test_what_says_something_else_stays_apart(one: str, other: str) -> None:
    assert sorted(merged(one, other)) == sorted([(1, one), (1, other)])


def test_the_most_frequent_wording_is_the_example() -> None:
    texts = ["Registry down for 2 h", "registry down for 3 h", "registry down for 3 h"]

    assert merged(*texts) == [(3, "registry down for 3 h")]


def test_the_most_frequent_comes_first() -> None:
    assert [count for count, _ in merged("Disk full", "Key missing", "key missing", "No ladder")] == [2, 1, 1]


def test_every_task_is_counted_once_and_the_first_of_them_are_named() -> None:
    said = [("Disk full", f"T-{n % 150:03d}") for n in range(300)]
    (found,) = cluster_texts([*said, ("disk full", "")], 10).largest

    assert (found.count, found.tasks_in_all, len(found.tasks)) == (301, 150, MOST_TASKS)
    assert found.tasks[:2] == ("T-000", "T-001")


def test_of_many_clusters_the_largest_are_given_and_all_are_counted() -> None:
    words = [
        f"{first}{second}{third}" for first in "abcdefgh" for second in "klmnopqr" for third in "stuvwxyz"
    ]
    rng = random.Random(5)
    texts = [" ".join(rng.sample(words, 6)) for _ in range(40)]
    found = cluster_texts([(text, "T") for n, text in enumerate(texts) for _ in range(n + 1)], 5)

    assert found.in_all == 40
    assert [one.count for one in found.largest] == [40, 39, 38, 37, 36]


@given(st.lists(st.text(max_size=30), max_size=20), st.randoms(use_true_random=False))
def test_the_order_in_which_texts_come_does_not_matter(texts: list[str], rng: random.Random) -> None:
    def found() -> list[Cluster]:
        return cluster_texts([(text, f"T-{text[:3]}") for text in texts], 100).largest

    before = found()
    rng.shuffle(texts)

    assert found() == before
    assert sum(one.count for one in before) == len(texts)
