"""A snapshot of a working tree at a session's stop, beside `git add -A` and `git write-tree` on the user's own index."""

from __future__ import annotations

import os
import random
import subprocess

from benchmarks.measure import Operation, interleaved, processor_time, timed
from benchmarks.report import Report, figure, millis
from benchmarks.scratch import repository
from remand.adapters.git.location import find_place
from remand.adapters.git.snapshots import SnapshotStore, TreeSnapshot

FILES, CHANGED, ROUNDS = 10_000, 100, 20
OWN, PEER, OWN_CPU = "snapshot", "git add -A, git write-tree", "snapshot, CPU"
MOST_SECONDS = 0.3


def run(report: Report) -> None:
    """Prints the table."""
    report.heading(
        f"Snapshot of a working tree of {FILES:,} files, {CHANGED} of them changed since the last one"
    )
    repo, paths = _made(os.path.join(report.folder, "snapshot"))
    store = SnapshotStore(os.path.join(report.folder, "private"), find_place(repo))
    operations = _operations(repo, paths, store)
    quiet = report.quiet()
    times = interleaved(operations, ROUNDS, quiet, warm_up=1)
    report.table(
        ("way", "p50 ms", "p95 ms", f"{PEER} / this"),
        [
            (name, millis(found.p50), millis(found.at(0.95)), figure(times[PEER].p50 / found.p50))
            for name, found in times.items()
        ],
    )
    report.goal("snapshot, p95, seconds", times[OWN].at(0.95), quiet, most=MOST_SECONDS, unit="s")


def _made(folder: str) -> tuple[str, list[str]]:
    repo = repository(folder)
    paths = [os.path.join(repo, f"pkg{n % 100}", f"f{n}.py") for n in range(FILES)]
    for number, path in enumerate(paths):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"value = {number}\n" * 20)
    _git(repo, "add", "-A")
    _git(repo, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "First")
    return repo, paths


def _operations(repo: str, paths: list[str], store: SnapshotStore) -> dict[str, Operation]:
    chance = random.Random(1)
    last: list[TreeSnapshot] = [store.take()]

    def change() -> None:
        for path in chance.sample(paths, CHANGED):
            with open(path, "a", encoding="ascii") as file:
                file.write(f"more = {chance.random()}\n")

    def take() -> None:
        last[0] = store.take(last[0])

    def take_with_git() -> None:
        _git(repo, "add", "-A")
        _git(repo, "write-tree")

    def after_change(operation: Operation) -> Operation:
        def changed() -> float:
            change()
            return operation()

        return changed

    return {
        OWN: after_change(timed(take)),
        OWN_CPU: after_change(processor_time(take)),
        PEER: after_change(timed(take_with_git)),
    }


def _git(repo: str, *arguments: str) -> None:
    subprocess.run(["git", "-C", repo, *arguments], capture_output=True, check=True)
