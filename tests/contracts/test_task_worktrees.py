"""Holds worktrees to their contract, for agents that are confined and for those that are not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from remand.app.scheduler.ports import CannotRun
from tests.integration.worktree_agents import BRANCH, FILES, TASK, Site, Worker

HELD = {"a.py", "src/b.py", "src/deep/c.py", ".gitignore"}

LEGAL = (
    "-x",
    "--upload-pack=x",
    "\u00fcn\u00ef/\u00df",
    "a/b/c/d",
    "x.y",
    "@x",
    "x@",
    "1",
    "n" * 200,
    "';$x",
)
ILLEGAL = (
    *(
        "",
        " ",
        "a b",
        "a..b",
        "/a",
        "a/",
        "a//b",
        "a.lock",
        "a.lock/b",
        ".a",
        "a/.b",
        "a~",
        "a^",
        "a:b",
        "a?",
    ),
    *("a*", "a[", "a\\", "a@{b", "@", "HEAD", "a.", "\n", "a\x00", "a\x7f", "\udcff", "n" * 300, "../../x"),
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture(params=[False, True], ids=["open", "confined"])
def worker(site: Site, request: pytest.FixtureRequest) -> Worker:
    return site.prepare(is_confined=request.param)


def files(worker: Worker) -> set[str]:
    paths = (path for path in worker.folder.rglob("*") if path.is_file() and path.name != ".git")
    return {str(path.relative_to(worker.folder)) for path in paths}


class TestPrepare:
    def test_a_new_branch_begins_at_the_commit_that_is_given(self, site: Site, worker: Worker) -> None:
        assert site.tip() == site.start
        assert files(worker) == HELD
        assert (worker.folder / "src/b.py").read_bytes() == FILES["src/b.py"]
        assert worker.look() == (site.start, set())

    def test_it_is_a_worktree_as_git_itself_has_them(self, site: Site, worker: Worker) -> None:
        assert site.worktree_paths() == [str(worker.folder)]
        assert site.git("branch", "--show-current", folder=worker.folder) == BRANCH
        assert worker.status() == [""]
        assert site.git("worktree", "prune", "-v") == ""
        assert worker.git("status", "--porcelain") == ""
        assert worker.git("branch", "--show-current") == BRANCH

    def test_a_branch_that_is_there_is_taken_as_it_is(self, site: Site) -> None:
        ahead = site.repository.commit({"new.py": b"1\n"}, site.start)
        site.git("branch", BRANCH, ahead)
        worker = site.prepare()
        assert (site.tip(), worker.look()) == (ahead, (ahead, set()))
        assert (worker.folder / "new.py").exists()

    def test_the_same_place_comes_again_with_its_uncommitted_work(self, site: Site, worker: Worker) -> None:
        worker.write("new.py")
        worker.write("a.py", "a = 2\n")
        worker.write("build.log")
        (worker.folder / "src/b.py").unlink()
        again = worker.again()
        assert again.worktree == worker.worktree
        assert worker.look() == (site.start, {"new.py", "a.py", "src/b.py"})
        assert files(again) == (HELD | {"new.py", "build.log"}) - {"src/b.py"}
        assert site.kept() == []

    def test_commits_are_there_in_the_next_run_whoever_is_confined(self, site: Site, worker: Worker) -> None:
        for is_confined in (True, True, False):
            before = worker.commit(f"work-{len(site.git('log', '--format=%h', '--all'))}.py")
            worker.write("left.py", before)
            worker = worker.again(is_confined=is_confined)
            assert site.tip() == before
            assert worker.git("rev-parse", "HEAD") == before
            assert worker.look() == (before, {"left.py"})
            assert worker.status() == ["?? left.py"] == worker.git("status", "--porcelain").split("\n")
            (worker.folder / "left.py").unlink()

    def test_what_vanished_is_made_anew_at_the_tip(self, site: Site, worker: Worker) -> None:
        commit = worker.commit()
        worker.bring()
        shutil.rmtree(worker.folder)
        again = worker.again()
        assert files(again) == HELD | {"work.py"}
        assert again.look() == (commit, set())
        assert site.worktree_paths() == [str(again.folder)]

    @pytest.mark.parametrize("is_confined", [False, True], ids=["open", "confined"])
    def test_whatever_git_calls_a_branch_is_one(self, site: Site, is_confined: bool) -> None:
        for number, branch in enumerate(LEGAL):
            worker = site.prepare(task=f"T-{number}", branch=branch, is_confined=is_confined)
            assert worker.git("branch", "--show-current") == branch
            commit = worker.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", branch)
            worker.git("update-ref", "HEAD", commit)
            assert worker.bring() == commit == site.tip(branch)

    def test_anything_else_is_refused(self, site: Site) -> None:
        for branch in ILLEGAL:
            with pytest.raises(CannotRun, match="another one") as told:
                site.prepare(branch=branch)
            assert told.value.cause == "git"
        assert site.left() == []

    @pytest.mark.parametrize(("there", "wanted"), [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b")])
    def test_a_branch_whose_name_is_part_of_anothers_is_refused(
        self, site: Site, there: str, wanted: str
    ) -> None:
        site.git("branch", there, site.start)
        for _ in range(2):
            with pytest.raises(CannotRun, match=f"beside the branch {there}: ") as told:
                site.prepare(branch=wanted)
            site.git("pack-refs", "--all")
        assert told.value.cause == "git"
        assert site.worktree_paths() == []

    def test_a_branch_that_the_user_has_checked_out_is_refused(self, site: Site) -> None:
        site.git("switch", "-q", "-c", "here")
        with pytest.raises(CannotRun, match="git switch"):
            site.prepare(branch="here")
        site.git("worktree", "add", "-q", "-b", "mine", str(site.folder / "mine"))
        with pytest.raises(CannotRun, match=r"is checked out in .*mine"):
            site.prepare(branch="mine")
        shutil.rmtree(site.folder / "mine")
        with pytest.raises(CannotRun, match="git worktree prune"):
            site.prepare(branch="mine")
        site.git("worktree", "prune")
        assert site.prepare(branch="mine").look() == (site.start, set())

    def test_nobody_works_on_the_base(self, site: Site) -> None:
        site.git("switch", "-q", "-c", "here")
        with pytest.raises(CannotRun, match="a branch of its own"):
            site.prepare(branch="main")

    def test_a_branch_that_is_being_rebased_elsewhere_is_refused(self, site: Site) -> None:
        mine = site.folder / "mine"
        site.git("worktree", "add", "-q", "-b", "mine", str(mine))
        (mine / "a.py").write_text("mine\n")
        site.git("commit", "-q", "-a", "-m", "x", folder=mine)
        other = site.repository.commit({"a.py": b"other\n"}, site.start)
        site.git("rebase", "-q", other, folder=mine, check=False)
        assert site.git("branch", "--show-current", folder=mine) == ""
        with pytest.raises(CannotRun, match="is checked out in"):
            site.prepare(branch="mine")

    def test_two_tasks_do_not_share_a_branch(self, site: Site, worker: Worker) -> None:
        with pytest.raises(CannotRun, match=f"is checked out in {worker.folder}"):
            site.prepare(task="T-2")

    def test_a_task_is_called_by_its_id(self, site: Site) -> None:
        for task in ("", "..", "T-../x", "T-1/x", "-rf", "T-" + "x" * 100, ".own", "T-1\n"):
            with pytest.raises(CannotRun, match="not a task id"):
                site.prepare(task=task)
            with pytest.raises(CannotRun, match="not a task id"):
                site.worktrees.remove(task)

    def test_a_branch_needs_a_commit_to_begin_at(self, site: Site) -> None:
        for start in ("", "main", "0" * 40, "e" * 40, "-x"):
            with pytest.raises(CannotRun, match=r"no commit to create it from|cannot begin at") as told:
                site.worktrees.prepare(TASK, BRANCH, start, is_confined=False)
            assert told.value.cause == "git"
        assert site.left() == [".own/T-1"]
        assert site.worktrees.remove_others(()) == ["T-1"]


class TestLook:
    def test_files_that_differ_are_named_outside_got(self, site: Site, worker: Worker) -> None:
        worker.write("a.py", "a = 2\n")
        worker.write("new/x.py")
        worker.write("caf\u00e9.py")
        worker.write(".got/events/x.jsonl")
        worker.write("ours.toml")
        worker.write("x.log")
        (worker.folder / "src/b.py").unlink()
        (worker.folder / "link").symlink_to("/etc/passwd")
        assert worker.look() == (site.start, {"a.py", "new/", "caf\u00e9.py", "src/b.py", "link"})

    def test_what_is_committed_is_not_uncommitted(self, worker: Worker) -> None:
        commit = worker.commit("src/b.py")
        assert worker.look() == (commit, set())
        worker.write("src/b.py", "b = 3\n")
        assert worker.look() == (commit, {"src/b.py"})

    def test_looking_changes_nothing(self, site: Site, worker: Worker) -> None:
        worker.commit()
        worker.write("left.py")
        assert worker.look() == worker.look()
        assert site.tip() == (site.start if worker.worktree.private_dir else worker.look()[0])


class TestBring:
    def test_the_branch_is_where_the_agent_is(self, site: Site, worker: Worker) -> None:
        first = worker.commit()
        second = worker.commit("src/b.py", "b = 2\n")
        worker.write("left.py")
        assert worker.bring() == second == site.tip()
        assert site.git("log", "--format=%H", BRANCH).split() == [second, first, site.start]
        assert worker.status() == ["?? left.py"], "the user sees what there is to see"
        assert site.git("fsck", "--full", "--strict") == ""
        assert site.kept() == []

    def test_nothing_new_is_nothing_to_bring(self, site: Site, worker: Worker) -> None:
        assert worker.bring() == site.start
        assert worker.bring() == worker.bring() == site.tip()

    def test_other_branches_stay_where_they_are(self, site: Site, worker: Worker) -> None:
        worker.git("branch", "other")
        if worker.worktree.private_dir:
            worker.git("update-ref", "refs/heads/main", worker.commit())
            worker.git("tag", "v1")
        before = site.git("rev-parse", "main")
        worker.bring()
        assert site.git("rev-parse", "main") == before
        assert site.git("tag") == ""


class TestLeave:
    def test_whoever_uses_git_there_afterwards_finds_the_repository(self, site: Site, worker: Worker) -> None:
        worker.write("left.py")
        for planted in (lambda path: None, Path.mkdir, lambda path: path.write_text("gitdir: /tmp\n")):
            (worker.folder / ".git").unlink()
            planted(worker.folder / ".git")
            site.worktrees.restore_git_links(worker.worktree)
            assert site.git("rev-parse", "--git-common-dir", folder=worker.folder) == site.common_dir
            assert worker.status() == ["?? left.py"]

    def test_it_puts_nothing_else_right(self, site: Site) -> None:
        worker = site.prepare()
        worker.git("-c", "core.logAllRefUpdates=false", "checkout", "-q", "--detach")
        worker.git("config", "core.logAllRefUpdates", "false")
        worker.commit("detached.py")
        site.worktrees.restore_git_links(worker.worktree)
        worker.again()
        assert site.kept_file("detached.py") == "work"

    def test_where_there_is_nothing_there_is_nothing_to_do(self, site: Site, worker: Worker) -> None:
        site.worktrees.remove(TASK)
        site.worktrees.restore_git_links(worker.worktree)
        assert site.worktree_paths() == []


class TestRetire:
    def test_everything_is_taken_down_and_the_branch_stays(self, site: Site, worker: Worker) -> None:
        commit = worker.commit()
        worker.bring()
        site.worktrees.remove(TASK)
        assert site.left() == []
        assert site.worktree_paths() == []
        assert (site.tip(), site.kept()) == (commit, [])
        site.worktrees.remove(TASK)

    def test_a_branch_on_which_nothing_was_done_goes_too_if_it_was_made_for_the_task(
        self, site: Site, worker: Worker
    ) -> None:
        site.git("branch", "theirs", site.start)
        site.prepare(task="T-2", branch="theirs")
        ahead = site.repository.commit({"new.py": b"1\n"}, site.start)
        for task in (TASK, "T-2"):
            site.worktrees.remove(task)
        assert (site.tip(), site.tip("theirs")) == ("", site.start)
        again = site.worktrees.prepare(TASK, BRANCH, ahead, is_confined=bool(worker.worktree.private_dir))
        assert Worker(site, again).look() == (ahead, set())

    def test_uncommitted_work_is_kept(self, site: Site, worker: Worker) -> None:
        commit = worker.commit()
        worker.bring()
        worker.write("new/x.py", "new\n")
        worker.write("a.py", "a = 2\n")
        worker.write("x.log")
        worker.write(".got/x")
        (worker.folder / "src/b.py").unlink()
        (worker.folder / "link").symlink_to("/etc/passwd")
        (worker.folder / "run").write_text("#!/bin/sh\n")
        (worker.folder / "run").chmod(0o755)
        site.worktrees.remove(TASK)
        ref = f"refs/remand/kept/{TASK}"
        assert site.kept() == [ref]
        assert site.git("rev-parse", f"{ref}^") == commit
        assert set(site.git("diff", "--name-status", "--no-renames", commit, ref).split("\n")) == {
            *("A\tnew/x.py", "M\ta.py", "D\tsrc/b.py", "A\tlink", "A\trun")
        }
        assert site.git("ls-tree", ref, "link", "run").split()[0::4] == ["120000", "100755"]
        assert site.tip() == commit, "the branch is not touched"

    def test_commits_that_were_never_brought_are_kept(self, site: Site) -> None:
        worker = site.prepare(is_confined=True)
        commit = worker.commit()
        site.worktrees.remove(TASK)
        assert site.git("rev-parse", f"refs/remand/kept/{TASK}") == commit
        assert site.tip() == ""

    def test_what_was_kept_before_stays(self, site: Site) -> None:
        for text in ("one\n", "two\n", "three\n"):
            site.prepare().write("x.py", text)
            site.worktrees.remove(TASK)
        assert [site.git("cat-file", "blob", f"{ref}:x.py") for ref in site.kept()] == ["one", "two", "three"]

    def test_a_repository_inside_is_kept_with_its_files(self, site: Site, worker: Worker) -> None:
        for name in ("with", "without"):
            inner = worker.folder / name
            subprocess.run(["git", "init", "-q", str(inner)], check=True, env=site.repository.environment)
            (inner / "deep").mkdir()
            (inner / "deep/x.py").write_text("inner\n")
        site.git("add", "-A", folder=worker.folder / "with")
        site.git("commit", "-q", "-m", "x", folder=worker.folder / "with")
        site.worktrees.remove(TASK)
        assert site.kept_file("with/deep/x.py") == site.kept_file("without/deep/x.py") == "inner"


class TestSweep:
    def test_only_the_worktrees_of_these_tasks_stay(self, site: Site) -> None:
        for number in range(5):
            worker = site.prepare(task=f"T-{number}", branch=f"b{number}", is_confined=bool(number % 2))
            worker.write("x.py", f"{number}\n")
        assert site.worktrees.remove_others(["T-1", "T-3", "T-9"]) == ["T-0", "T-2", "T-4"]
        assert sorted(Path(path).name for path in site.worktree_paths()) == ["T-1", "T-3"]
        assert site.kept() == [f"refs/remand/kept/T-{number}" for number in (0, 2, 4)]
        assert site.worktrees.remove_others(()) == ["T-1", "T-3"]
        assert site.left() == []

    def test_the_users_own_worktrees_are_none_of_its_business(self, site: Site) -> None:
        for name in ("mine", "T-7", "remand-T-8"):
            site.git("worktree", "add", "-q", "-b", name, str(site.folder / name))
        other = site.opened(str(site.folder / "elsewhere"))
        other.prepare("T-9", "nine", site.start, is_confined=False)
        assert site.worktrees.remove_others(()) == []
        assert len(site.worktree_paths()) == 4

    def test_nothing_at_all_is_nothing_to_sweep(self, site: Site) -> None:
        assert site.worktrees.remove_others(()) == []
