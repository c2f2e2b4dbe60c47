"""Objects are read without git where that is certain, and then say what git says; all else is git's to answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.repository import (
    MAX_OBJECT,
    GitIndex,
    GitRepository,
    WorktreeStatus,
    read_commit_tree,
    read_top_file,
)
from remand.app.ports import Commit
from remand.domain.hosts import SetupFiles
from tests.integration.agents_repository import AgentsRepository, Link, Submodule

NAME = "remand.toml"


@pytest.fixture(params=["sha1", "sha256"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> AgentsRepository:
    return AgentsRepository(tmp_path / "repo", f"--object-format={request.param}")


def seen(repository: AgentsRepository) -> GitRepository:
    path, git = str(repository.path), repository.git_dir
    return GitRepository(LedgerLocation(root=path, worktree=path, git_dir=git, common_dir=git))


def without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


def test_a_commit_and_its_file_are_read_without_git_and_are_the_same_by_git(
    repository: AgentsRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = {"a": b"1", NAME: b"[gates]\n", "z/z": b"2"}
    plain = repository.tree(work)
    commit, other = repository.commit({**work, ".got/x": b"3"}), repository.commit({"a": b"1"})

    with monkeypatch.context() as patched:
        without_git(patched)
        assert seen(repository).commit(commit) == Commit(commit, plain)
        assert seen(repository).file(commit, NAME) == b"[gates]\n"
        assert seen(repository).file(other, NAME) is None

    for one in (commit, other):
        repository.git("branch", "-f", f"b{one[:4]}", one)
    repository.git("gc", "-q", "--prune=now")
    assert read_commit_tree(repository.git_dir, commit) is None
    assert seen(repository).commit(commit) == Commit(commit, plain)
    assert seen(repository).file(commit, NAME) == b"[gates]\n"
    assert seen(repository).file(other, NAME) is None


@pytest.mark.parametrize("forged", ["commit", "tree", "blob"])
def test_an_object_under_a_false_name_is_not_taken(repository: AgentsRepository, forged: str) -> None:
    commit = repository.commit({NAME: b"[gates]\n"})
    names = {
        "commit": commit,
        "tree": repository.git("rev-parse", f"{commit}^{{tree}}"),
        "blob": repository.git("rev-parse", f"{commit}:{NAME}"),
    }
    lie = repository.commit({NAME: b"[policy]\nenforce = false\n"})
    content = {
        "commit": repository.git("cat-file", "commit", lie).encode() + b"\n",
        "tree": read_commit_tree(repository.git_dir, lie) or b"",
        "blob": b"[policy]\nenforce = false\n",
    }
    assert read_top_file(repository.git_dir, commit, NAME) == (b"[gates]\n",)

    repository.write_object(forged, content[forged], names[forged])

    assert read_top_file(repository.git_dir, commit, NAME) is None


def test_what_is_no_plain_file_at_the_top_is_left_to_git(repository: AgentsRepository) -> None:
    commit = repository.commit({"a": b"1"})
    folder, module = repository.commit({f"{NAME}/x": b"1"}), repository.commit({NAME: Submodule(commit)})
    link, large = (
        repository.commit({NAME: Link("a")}),
        repository.commit({NAME: b"x" * (MAX_OBJECT + 1)}),
    )
    asked = [read_top_file(repository.git_dir, one, NAME) for one in (folder, module, large)]

    assert asked == [None, None, None]
    assert read_top_file(repository.git_dir, commit, "z/x") is None
    assert read_top_file(repository.git_dir, link, NAME) == (b"a",)
    assert seen(repository).file(large, NAME) == b"x" * (MAX_OBJECT + 1)


@pytest.mark.parametrize("name", ["HEAD", "main", "", "-x", "../../etc", "0" * 40, "g" * 40, "a/" * 20])
def test_what_is_no_id_of_a_loose_object_is_left_to_git(repository: AgentsRepository, name: str) -> None:
    repository.git("update-ref", "refs/heads/main", repository.commit({"a": b"1"}))

    assert read_commit_tree(repository.git_dir, name) is None


def test_an_object_that_is_a_pipe_or_a_link_does_not_hold_anyone_up(repository: AgentsRepository) -> None:
    commit = repository.commit({NAME: b"1"})
    path = Path(repository.git_dir, "objects", commit[:2], commit[2:])
    path.rename(path.with_name("kept"))

    path.symlink_to("kept")
    assert read_commit_tree(repository.git_dir, commit) is None
    path.unlink()
    os.mkfifo(path)
    assert read_commit_tree(repository.git_dir, commit) is None


@pytest.mark.parametrize("form", ["2", "3", "4", "split"])
def test_the_index_names_what_it_names_in_every_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    repository = AgentsRepository(tmp_path / "repo")
    names = [f".got/events/2026{number}.jsonl" for number in range(3)]
    for name in (*names, "new"):
        repository.file(name, "{}\n")
    repository.git("add", *names)
    if form == "split":
        repository.git("update-index", "--split-index")
    else:
        repository.git("update-index", "--index-version", form)
    if form == "3":
        repository.git("add", "-N", "new")
    path, git = str(repository.path), repository.git_dir
    index = GitIndex(LedgerLocation(root=path, worktree=path, git_dir=git, common_dir=git))

    assert all(index.has(os.path.join(path, name)) for name in names)
    assert not index.has(os.path.join(path, ".got/events/20269.jsonl"))
    if form in ("2", "3"):
        without_git(monkeypatch)
        assert not index.has(os.path.join(path, ".got/events/20269.jsonl"))


def test_a_look_whose_answer_nobody_wants_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = AgentsRepository(tmp_path / "repo")
    repository.file("a", "1\n")
    repository.git("add", "a")
    repository.git("commit", "-q", "-m", "a")
    repository.file("b", "1\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    path, git = str(repository.path), repository.git_dir
    place = LedgerLocation(root=path, worktree=path, git_dir=git, common_dir=git)

    look = WorktreeStatus(place)
    assert list(scratch.iterdir())
    look.close()
    assert not list(scratch.iterdir())
    assert WorktreeStatus(place).uncommitted_files() == ("b",)
    assert WorktreeStatus(place).uncommitted_files(lambda: SetupFiles({"b"})) == ()
    assert not list(scratch.iterdir())
