"""Snapshots of a working tree: everything as it is, and not a byte of the user's repository changed by them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from remand.adapters.git.location import find_place
from remand.adapters.git.snapshots import MIB, SnapshotStore, TreeSnapshot


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    names = ("-c", "user.name=U", "-c", "user.email=u@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *names, *arguments], cwd=folder, capture_output=True, text=True, check=check, timeout=600
    )
    return done.stdout.strip()


def fingerprint(folder: Path) -> str:
    """A hash of every file below a folder: its name, mode and content."""
    digest = hashlib.sha256()
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(root, name)
            digest.update(f"{path.relative_to(folder)} {path.lstat().st_mode}\0".encode())
            digest.update(path.read_bytes() if not path.is_symlink() else os.readlink(path).encode())
    return digest.hexdigest()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "kept.py").write_text("kept = 1\n")
    (folder / "changed.py").write_text("changed = 1\n")
    (folder / "gone.py").write_text("gone = 1\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def store_of(repo: Path) -> SnapshotStore:
    return SnapshotStore(str(repo.parent / "private"), find_place(str(repo)))


def content(store: SnapshotStore, taken: TreeSnapshot, path: str) -> str | None:
    found = store.file(taken.commit, path)
    return None if found is None else found.decode()


def make_work(repo: Path) -> None:
    """Every kind of uncommitted work there is: changed, staged, deleted, new, ignored."""
    (repo / "changed.py").write_text("changed = 2\n")
    (repo / "gone.py").unlink()
    (repo / "staged.py").write_text("staged = 1\n")
    git(repo, "add", "staged.py")
    (repo / "new").mkdir()
    (repo / "new" / "file.py").write_text("new = 1\n")
    (repo / "noise.log").write_text("noise\n")


def test_it_has_the_working_tree_as_it_is(repo: Path) -> None:
    store = store_of(repo)
    start = store.take()
    make_work(repo)
    end = store.take(start)
    assert store.changed_paths(start.commit, end.commit) == (
        "changed.py",
        "gone.py",
        "new/file.py",
        "staged.py",
    )
    assert content(store, end, "changed.py") == "changed = 2\n"
    assert content(store, end, "noise.log") is None, "what is ignored stays out"
    assert end.left_out == ()


def test_an_unchanged_tree_is_the_same_snapshot(repo: Path) -> None:
    store = store_of(repo)
    start = store.take()
    assert store.take(start) == start


@pytest.mark.parametrize("state", ["clean", "dirty", "stash", "conflict", "linked"])
def test_the_users_repository_is_untouched_byte_for_byte(repo: Path, state: str) -> None:
    worktree = repo
    if state == "stash":
        make_work(repo)
        git(repo, "stash", "-q")
    if state == "conflict":
        git(repo, "switch", "-q", "-c", "other")
        (repo / "kept.py").write_text("kept = 'other'\n")
        git(repo, "commit", "-q", "-am", "other")
        git(repo, "switch", "-q", "main")
        (repo / "kept.py").write_text("kept = 'main'\n")
        git(repo, "commit", "-q", "-am", "main")
        git(repo, "merge", "other", check=False)
    if state == "linked":
        worktree = repo.parent / "linked"
        git(repo, "worktree", "add", "-q", str(worktree), "-b", "side")
    if state in ("dirty", "linked"):
        make_work(worktree)
    before = fingerprint(repo / ".git")
    store = store_of(worktree)
    start = store.take()
    (worktree / "kept.py").write_text("kept = 3\n")
    end = store.take(start)
    assert fingerprint(repo / ".git") == before
    assert content(store, end, "kept.py") == "kept = 3\n"
    if state == "conflict":
        assert "<<<<<<<" in (content(store, start, "kept.py") or "")


def test_a_repository_without_commits_has_snapshots(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    git(folder, "init", "-q")
    store = store_of(folder)
    start = store.take()
    (folder / "first.py").write_text("first = 1\n")
    end = store.take(start)
    assert store.changed_paths(start.commit, end.commit) == ("first.py",)


def test_no_filter_hook_or_monitor_of_the_repository_runs(repo: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o700)
    for key in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor", "diff.external"):
        git(repo, "config", key, str(trap))
    git(repo, "config", "filter.evil.required", "true")
    hook = repo / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(trap.read_text())
    hook.chmod(0o700)
    (repo / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (repo / "changed.py").write_text("changed = 3\n")
    store = store_of(repo)
    assert content(store, store.take(), "changed.py") == "changed = 3\n"
    assert not (tmp_path / "sprung").exists()


def test_large_files_stay_out_and_are_named(repo: Path) -> None:
    store = store_of(repo)
    start = store.take()
    with (repo / "huge.bin").open("wb") as file:
        file.truncate(65 * MIB)
    (repo / "small.py").write_text("small = 1\n")
    end = store.take(start)
    assert end.left_out == ("huge.bin (65 MiB, over 64 MiB)",)
    assert store.changed_paths(start.commit, end.commit) == ("small.py",)


def test_all_beyond_the_bound_stays_out_and_the_small_files_are_in(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remand.adapters.git.snapshots.MAX_BYTES", 10 * MIB)
    data = repo / "data"
    data.mkdir()
    for number in range(6):
        with (data / f"{number}.bin").open("wb") as file:
            file.truncate(3 * MIB)
    (repo / "small.py").write_text("small = 1\n")
    store = store_of(repo)
    taken = store.take()
    assert len(taken.left_out) == 3
    assert content(store, taken, "small.py") == "small = 1\n"


def test_a_file_that_is_ignored_later_goes_out_again(repo: Path) -> None:
    store = store_of(repo)
    (repo / "build.out").write_text("built\n")
    start = store.take()
    assert content(store, start, "build.out") == "built\n"
    (repo / ".gitignore").write_text("*.log\n*.out\n")
    assert content(store, store.take(start), "build.out") is None


def test_a_submodule_with_uncommitted_work_is_named(repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "a.py").write_text("a = 1\n")
    git(other, "add", "-A")
    git(other, "commit", "-q", "-m", "first")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    git(repo, "commit", "-q", "-m", "sub")
    store = store_of(repo)
    assert store.take().left_out == ()
    (repo / "sub" / "a.py").write_text("a = 2\n")
    assert store.take().left_out == ("sub (a submodule with uncommitted changes)",)


def test_a_file_that_cannot_be_read_is_named(repo: Path) -> None:
    (repo / "kept.py").unlink()
    os.mkfifo(repo / "kept.py")
    store = store_of(repo)
    taken = store.take()
    assert taken.left_out == ("kept.py (cannot be read)",)
    assert content(store, taken, "kept.py") == "kept = 1\n", "it stays as it was committed"


def test_what_is_kept_is_private_and_goes_after_a_week(repo: Path) -> None:
    store = store_of(repo)
    start = store.take()
    store.keep("one", start.commit)
    folder = repo.parent / "private"
    assert folder.stat().st_mode & 0o077 == 0
    (repo / "changed.py").write_text("changed = 9\n")
    other = store.take(start)
    old = 0
    for root, _, names in os.walk(folder / "git" / "objects"):
        for name in names:
            os.utime(Path(root, name), (old, old))
    store.prune(["one"])
    assert content(store, start, "kept.py") == "kept = 1\n"
    assert content(store, other, "changed.py") is None, "nobody named it, and it is old"
    (folder / "pruned").unlink()
    store.prune([])
    assert not (folder / "git").exists()
    assert content(store, store.take(), "changed.py") == "changed = 9\n", "it is made again"


def test_a_file_that_is_ignored_and_was_added_by_force_is_in_the_next_snapshot(repo: Path) -> None:
    store = store_of(repo)
    (repo / "made.log").write_text("one\n")
    first = store.take()
    assert content(store, first, "made.log") is None
    git(repo, "add", "-f", "made.log")
    before = fingerprint(repo / ".git")
    second = store.take(first)
    assert content(store, second, "made.log") == "one\n"
    (repo / "made.log").write_text("two\n")
    assert content(store, store.take(second), "made.log") == "two\n"
    assert fingerprint(repo / ".git") == before
