"""A clean folder with one commit's files, as each gate gets it, beside the ways git and cp have to make one."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from itertools import count, cycle

from benchmarks.measure import Operation, Times, interleaved, timed
from benchmarks.report import Report, figure, millis
from benchmarks.scratch import repository
from remand.adapters.git.checkouts import OverlayCheckouts, PooledCheckouts, overlay_options
from remand.adapters.git.mirror import GitMirror

FILES, CHANGED, COMMITS, LINES = 5000, 40, 20, 1000
ROUNDS, CYCLES, EDGE = 5, 50, 5
WORKTREE, CLONE, LINKS = "git worktree add", "git clone --local", "cp -al of a kept checkout"
POOLED, OVERLAY, AGAIN = "pooled, next commit", "overlay, next commit", "overlay, same commit"
LEFT = ("report.xml", "build/out.o", "pkg1/__pycache__/f1.pyc", ".cache/a/b/c")
"""What a gate leaves behind."""


def run(report: Report) -> None:
    """Prints the tables."""
    report.heading(f"Isolated checkout of a {FILES:,}-file commit, {CHANGED} files differ from the last one")
    repo, commits = _made(os.path.join(report.folder, "checkout"))
    mirror = GitMirror(os.path.join(report.folder, "mirror"), os.path.join(repo, ".git"))
    trees = [mirror.fetch_commit(commit) for commit in commits]
    operations = _peers(report.folder, repo, commits) | _own(report.folder, mirror, trees)
    quiet = report.quiet()
    times = interleaved(operations, ROUNDS, quiet, warm_up=1)
    base = times[WORKTREE].p50
    report.table(
        ("way", "p50 ms", "p90 ms", f"{WORKTREE} / this"),
        [
            (name, millis(found.p50), millis(found.at(0.9)), figure(base / found.p50))
            for name, found in times.items()
        ],
    )
    _print_cycles(report, {name: operations[name] for name in (POOLED, OVERLAY) if name in operations})
    report.goal(f"{POOLED}, {WORKTREE} / this", base / times[POOLED].p50, quiet, least=6)
    for name in (OVERLAY, AGAIN):
        if name in times:
            report.goal(f"{name}, {WORKTREE} / this", base / times[name].p50, quiet, least=20)
    mirror.close()


def _print_cycles(report: Report, operations: dict[str, Operation]) -> None:
    """Checks out again and again, and compares the last few times with the first few."""
    rows = []
    for name, operation in operations.items():
        found = [operation() for _ in range(CYCLES)]
        first, last = Times.of(found[:EDGE]).p50, Times.of(found[-EDGE:]).p50
        rows.append((name, millis(first), millis(last), figure(last / first)))
        report.goal(f"{name}: {CYCLES} in a row, last / first", last / first, most=1.5)
    report.table((f"{CYCLES} in a row", f"first {EDGE}, ms", f"last {EDGE}, ms", "last / first"), rows)


def _made(folder: str) -> tuple[str, list[str]]:
    """A repository of many files, and commits that change some of them each."""
    chance = random.Random(1)
    repo = repository(folder)
    _git(repo, "config", "gc.auto", "0")
    paths = [os.path.join(repo, f"pkg{n % 50}", f"part{n // 50 % 6}", f"f{n}.py") for n in range(FILES)]
    commits = [_committed(repo, paths, chance)]
    commits += [_committed(repo, chance.sample(paths, CHANGED), chance) for _ in range(COMMITS)]
    _git(repo, "repack", "-a", "-d", "-q", "--window=0")
    return repo, commits


def _committed(repo: str, paths: list[str], chance: random.Random) -> str:
    """Writes files anew and commits them."""
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"value_{n} = {chance.random()}\n" for n in range(chance.randrange(LINES)))
    _git(repo, "add", "-A")
    _git(repo, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "More")
    return _git(repo, "rev-parse", "HEAD")


def _git(repo: str, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", repo, *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def _peers(folder: str, repo: str, commits: list[str]) -> dict[str, Operation]:
    """What else one can do. Nothing is removed meanwhile: that would slow down whatever comes next."""
    places = (os.path.join(folder, f"peer-{number}") for number in count())
    following = cycle(commits)
    kept = next(places)
    _git(repo, "worktree", "add", "-q", "--detach", kept, commits[0])

    def cloning() -> None:
        place = next(places)
        _git(repo, "clone", "-q", "--local", "--no-checkout", repo, place)
        _git(place, "checkout", "-q", "--detach", next(following))

    return {
        WORKTREE: timed(
            lambda: _git(repo, "worktree", "add", "-q", "--detach", next(places), next(following))
        ),
        CLONE: timed(cloning),
        LINKS: timed(lambda: subprocess.run(["cp", "-al", kept, next(places)], check=True)),
    }


def _own(folder: str, mirror: GitMirror, trees: list[str]) -> dict[str, Operation]:
    place = os.path.join(folder, "checkouts")
    found = {POOLED: _lending(PooledCheckouts(mirror, place), cycle(trees))}
    options = overlay_options(place)
    if options is None:
        print("(overlays are not to be had here)\n")
        return found
    overlay = OverlayCheckouts(mirror, place, options)
    apart = OverlayCheckouts(mirror, os.path.join(folder, "apart"), options)
    return found | {OVERLAY: _lending(overlay, cycle(trees)), AGAIN: _lending(apart, cycle(trees[:1]))}


def _lending(checkouts: PooledCheckouts | OverlayCheckouts, trees: Iterator[str]) -> Operation:
    """Lends the next tree and takes it back; what the gate itself does in between does not count."""

    def operation() -> float:
        start = time.perf_counter()
        with checkouts.lend(next(trees)) as folder:
            lent = time.perf_counter()
            _leave_behind(folder)
            ended = time.perf_counter()
        return lent - start + time.perf_counter() - ended

    return operation


def _leave_behind(folder: str) -> None:
    for name in LEFT:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write("left\n")
