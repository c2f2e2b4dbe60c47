"""Whatever an agent writes into its worktree and its git folder, nothing of it runs, and only true commits are taken."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from remand.adapters.git import commit_import, linked_worktree
from remand.adapters.git.location import locate
from remand.adapters.git.repository import uncommitted_files
from remand.app.scheduler.ports import CannotRun
from tests.integration.agents_repository import AgentsRepository
from tests.integration.test_mirror_hostile import HOOKS, plant
from tests.integration.worktree_agents import BRANCH, TASK, Site, Worker

ATTRIBUTES = "[attr]evil filter=evil diff=evil\n* filter=evil diff=evil merge=evil text ident\n*.py evil\n"
SECONDS = 300.0
"""How long a question about a hostile folder may take: git waits for pipes for ever."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def confined(site: Site) -> Worker:
    return site.prepare(is_confined=True)


class Canary:
    """A program that leaves a trace when it is run."""

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "canary"
        self.program = folder / "run"
        self.program.write_text(f"#!/bin/sh\ntouch {self.trace}\nexec cat\n")
        self.program.chmod(0o755)

    def require_alive(self, ask: Callable[[], object]) -> None:
        """It fires where git is asked in the usual way."""
        ask()
        assert self.trace.exists()
        self.trace.unlink()


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path)


def settings(run: str) -> str:
    """A configuration by which git runs a program for whatever it does."""
    return (
        f"[core]\n\tfsmonitor = {run}\n\teditor = {run}\n\tpager = {run}\n\tsshCommand = {run}\n"
        f'[filter "evil"]\n\tclean = {run}\n\tsmudge = {run}\n\trequired = true\n'
        f'[diff "evil"]\n\ttextconv = {run}\n\tcommand = {run}\n[merge "evil"]\n\tdriver = {run}\n'
        f"[alias]\n\tstatus = !{run}\n\tfsck = !{run}\n[gpg]\n\tprogram = {run}\n[commit]\n\tgpgsign = true\n"
    )


def life(worker: Worker) -> None:
    """All that is ever asked of a worktree."""
    site = worker.site
    worker.look()
    worker.bring()
    again = worker.again()
    again.look()
    worker.again(is_confined=not worker.worktree.private_dir)
    site.worktrees.remove(TASK)
    site.worktrees.remove_others(())


class TestPlantedPrograms:
    @pytest.mark.parametrize("is_confined", [False, True], ids=["open", "confined"])
    def test_nothing_the_repository_configures_is_run(
        self, site: Site, canary: Canary, is_confined: bool
    ) -> None:
        files = {".gitattributes": ATTRIBUTES.encode(), "x.py": b"1\n", "a.py": b"a = 1\n"}
        site.start = site.repository.commit(files, site.start)
        plant(site.repository, str(canary.program))
        canary.require_alive(lambda: site.git("status", check=False))
        worker = site.prepare(is_confined=is_confined)
        worker.write("x.py", "2\n")
        shutil.rmtree(worker.folder / "src")
        assert worker.look() == (site.start, {"x.py", "src/b.py", "src/deep/c.py"})
        ahead = site.repository.commit({"more.py": b"1\n"}, site.start)
        site.repository.git("update-ref", f"refs/heads/{BRANCH}", ahead, check=False)
        canary.trace.unlink(missing_ok=True)
        assert worker.again().look() == (ahead, {"x.py", "src/b.py", "src/deep/c.py"})
        (Path(site.common_dir) / "worktrees" / f"remand-{TASK}" / "index").unlink()
        life(worker.again())
        assert not canary.trace.exists()
        assert worker.site.left() == []

    def test_nothing_that_a_confined_agent_configures_is_run(self, confined: Worker, canary: Canary) -> None:
        run = str(canary.program)
        confined.write(".gitattributes", ATTRIBUTES)
        confined.commit("x.py")
        for folder in (confined.private, confined.git_dir):
            for name in ("config", "config.worktree"):
                (folder / name).write_text(
                    "[extensions]\n\tworktreeConfig = true\n" + settings(run), encoding="utf-8"
                )
            (folder / "hooks").mkdir(exist_ok=True)
            for hook in HOOKS:
                shutil.copy(run, folder / "hooks" / hook)
        (confined.private / "info" / "attributes").write_text(ATTRIBUTES)
        confined.write("x.py", "changed\n")
        canary.require_alive(lambda: confined.git("diff", check=False))
        life(confined)
        assert not canary.trace.exists()
        assert confined.site.kept_file("x.py") == "changed"

    def test_what_is_missing_is_not_fetched(self, site: Site, canary: Canary) -> None:
        for key, value in (
            ("core.repositoryformatversion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", f"ext::touch {canary.trace}"),
            ("remote.origin.uploadpack", f"touch {canary.trace};"),
            ("protocol.ext.allow", "always"),
        ):
            site.git("config", key, value)
        canary.require_alive(lambda: site.git("cat-file", "-t", "e" * 40, check=False))
        with pytest.raises(CannotRun, match="cannot begin at"):
            site.worktrees.prepare(TASK, BRANCH, "e" * 40, is_confined=True)
        worker = site.prepare(is_confined=True)
        (worker.private / "refs" / "heads" / BRANCH).write_text("e" * 40 + "\n")
        with pytest.raises(CannotRun):
            worker.bring()
        blob = site.git("rev-parse", f"{site.start}:a.py")
        Path(site.common_dir, "objects", blob[:2], blob[2:]).unlink()
        with pytest.raises(CannotRun, match="git read-tree failed"):
            site.prepare(task="T-2", branch="two")
        assert not canary.trace.exists()
        assert site.worktrees.remove_others(()) == ["T-1", "T-2"]

    @pytest.mark.parametrize("is_confined", [False, True], ids=["open", "confined"])
    def test_no_repository_inside_the_worktree_is_asked(
        self, site: Site, canary: Canary, is_confined: bool
    ) -> None:
        worker = site.prepare(is_confined=is_confined)
        inner = worker.folder / "inner"
        subprocess.run(["git", "init", "-q", str(inner)], check=True, env=site.repository.environment)
        (inner / ".gitattributes").write_text("* filter=evil\n")
        (inner / "x").write_text("1\n")
        site.git("add", "-A", folder=inner)
        site.git("commit", "-q", "-m", "x", folder=inner)
        modules = '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n'
        worker.write(".gitmodules", modules)
        worker.git("add", "-A")
        worker.git("commit", "-q", "-m", "a submodule")
        with (inner / ".git" / "config").open("a") as file:
            file.write(settings(str(canary.program)))
        (inner / "x").write_text("2\n")
        canary.require_alive(lambda: worker.git("status", check=False))
        place = locate(str(worker.folder))
        assert place is not None
        uncommitted_files(place)
        life(worker)
        assert not canary.trace.exists()


def refs_are_a_link(worker: Worker, secret: Path) -> None:
    shutil.rmtree(worker.private / "refs")
    (worker.private / "refs").symlink_to(secret)


def ref_is_a_link(worker: Worker, secret: Path) -> None:
    path = worker.private / "refs" / "heads" / BRANCH
    path.unlink()
    path.symlink_to("/dev/zero")


def ref_is_a_pipe(worker: Worker, secret: Path) -> None:
    path = worker.private / "refs" / "heads" / BRANCH
    path.unlink()
    os.mkfifo(path)


def ref_is_huge(worker: Worker, secret: Path) -> None:
    path = worker.private / "refs" / "heads" / BRANCH
    with path.open("wb") as file:
        file.truncate(1 << 40)


def ref_is_symbolic(worker: Worker, secret: Path) -> None:
    (worker.private / "refs" / "heads" / BRANCH).write_text("ref: refs/heads/main\n")


def packed_refs_are_huge(worker: Worker, secret: Path) -> None:
    (worker.private / "refs" / "heads" / BRANCH).unlink()
    with (worker.private / "packed-refs").open("wb") as file:
        file.truncate(1 << 40)


def ref_is_no_commit(worker: Worker, secret: Path) -> None:
    tree = worker.git("rev-parse", "HEAD^{tree}")
    (worker.private / "refs" / "heads" / BRANCH).write_text(f"{tree}\n")


def ref_is_nothing_there(worker: Worker, secret: Path) -> None:
    (worker.private / "refs" / "heads" / BRANCH).write_text("e" * 40 + "\n")


def ref_is_an_option(worker: Worker, secret: Path) -> None:
    (worker.private / "refs" / "heads" / BRANCH).write_text("--output=/tmp/x\n")


def head_leads_out(worker: Worker, secret: Path) -> None:
    (worker.git_dir / "HEAD").write_text("ref: refs/heads/../../../../../../etc/passwd\n")
    (worker.private / "refs" / "heads" / BRANCH).unlink()


def folder_of_the_worktree_is_a_link(worker: Worker, secret: Path) -> None:
    shutil.rmtree(worker.private / "worktrees")
    (worker.private / "worktrees").symlink_to(secret)
    (worker.private / "refs" / "heads" / BRANCH).unlink()


def everything_gone(worker: Worker, secret: Path) -> None:
    for path in worker.private.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def objects_are_a_link(worker: Worker, secret: Path) -> None:
    worker.commit()
    shutil.rmtree(worker.private / "objects")
    (worker.private / "objects").symlink_to(secret / ".git" / "objects")


def an_object_is_a_pipe(worker: Worker, secret: Path) -> None:
    path = loose(worker, worker.commit())
    path.unlink()
    os.mkfifo(path)


def an_object_is_a_link(worker: Worker, secret: Path) -> None:
    path = loose(worker, worker.commit())
    path.rename(worker.folder / "object")
    path.symlink_to(worker.folder / "object")


def an_object_is_another(worker: Worker, secret: Path) -> None:
    blob = worker.git("rev-parse", worker.commit() + ":work.py")
    other = worker.git("hash-object", "-w", "--stdin", stdin=b"evil\n")
    loose(worker, blob).unlink()
    shutil.copy(loose(worker, other), loose(worker, blob))


def an_object_is_cut_off(worker: Worker, secret: Path) -> None:
    path = loose(worker, worker.git("rev-parse", worker.commit() + "^{tree}"))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:10])


def an_object_is_missing(worker: Worker, secret: Path) -> None:
    loose(worker, worker.git("rev-parse", worker.commit() + ":work.py")).unlink()


def a_tree_has_a_git_folder(worker: Worker, secret: Path) -> None:
    blob = worker.git("hash-object", "-w", "--stdin", stdin=b"[core]\n")
    inner = b"100644 config\0" + bytes.fromhex(blob)
    tree = worker.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=inner)
    outer = b"40000 .git\0" + bytes.fromhex(tree)
    tree = worker.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=outer)
    worker.git("update-ref", f"refs/heads/{BRANCH}", worker.git("commit-tree", tree, "-p", "HEAD", "-m", "x"))


def modules_that_attack(worker: Worker, secret: Path) -> None:
    worker.commit(".gitmodules", '[submodule "x"]\n\tpath = x\n\turl = -u./payload\n')


def a_tree_that_unfolds_for_ever(worker: Worker, secret: Path) -> None:
    blob = worker.git("hash-object", "-w", "--stdin", stdin=b"1")
    rows = b"".join(b"100644 f%d\0%s" % (n, bytes.fromhex(blob)) for n in range(10))
    tree = worker.git("hash-object", "-t", "tree", "-w", "--stdin", stdin=rows)
    for _ in range(10):
        rows = b"".join(b"40000 d%d\0%s" % (n, bytes.fromhex(tree)) for n in range(10))
        tree = worker.git("hash-object", "-t", "tree", "-w", "--stdin", stdin=rows)
    worker.git("update-ref", f"refs/heads/{BRANCH}", worker.git("commit-tree", tree, "-p", "HEAD", "-m", "x"))


def objects_from_a_secret_place(worker: Worker, secret: Path) -> None:
    a_commit_with_the_key(worker, secret)
    for name in ("alternates", "http-alternates"):
        (worker.private / "objects" / "info" / name).write_text(f"{secret}/.git/objects\n")


def a_secret_object_by_a_link(worker: Worker, secret: Path) -> None:
    blob = a_commit_with_the_key(worker, secret)
    loose(worker, blob).parent.mkdir(exist_ok=True)
    loose(worker, blob).symlink_to(secret / ".git" / "objects" / blob[:2] / blob[2:])


def secret_objects_by_a_link(worker: Worker, secret: Path) -> None:
    blob = a_commit_with_the_key(worker, secret)
    loose(worker, blob).parent.symlink_to(secret / ".git" / "objects" / blob[:2])


def a_commit_with_the_key(worker: Worker, secret: Path) -> str:
    """Commits a file of a repository that the agent cannot read, but whose id it has heard of; gives that."""
    blob = worker.site.git("rev-parse", "main:key", folder=secret)
    tree = worker.git("mktree", "--missing", stdin=f"100644 blob {blob}\tkey\n".encode())
    worker.git("update-ref", f"refs/heads/{BRANCH}", worker.git("commit-tree", tree, "-p", "HEAD", "-m", "x"))
    return blob


def loose(worker: Worker, name: str) -> Path:
    return worker.private / "objects" / name[:2] / name[2:]


HOSTILE = (
    *(refs_are_a_link, ref_is_a_link, ref_is_a_pipe, ref_is_huge, ref_is_symbolic, packed_refs_are_huge),
    *(
        ref_is_no_commit,
        ref_is_nothing_there,
        ref_is_an_option,
        head_leads_out,
        folder_of_the_worktree_is_a_link,
    ),
    *(everything_gone, objects_are_a_link, an_object_is_a_pipe, an_object_is_a_link, an_object_is_another),
    *(an_object_is_cut_off, an_object_is_missing, a_tree_has_a_git_folder, modules_that_attack),
    *(a_tree_that_unfolds_for_ever, objects_from_a_secret_place, a_secret_object_by_a_link),
    secret_objects_by_a_link,
)


class TestHostileFolder:
    @pytest.fixture
    def secret(self, tmp_path: Path) -> Path:
        made = AgentsRepository(tmp_path / "secret")
        made.git("update-ref", "refs/heads/main", made.commit({"key": b"the key\n"}))
        return made.path

    @pytest.mark.timeout(900)
    @pytest.mark.parametrize("harm", HOSTILE)
    def test_nothing_of_it_is_taken_and_the_next_run_is_none_the_worse(
        self, site: Site, confined: Worker, secret: Path, harm: Callable[[Worker, Path], None]
    ) -> None:
        before = site.git("for-each-ref")
        harm(confined, secret)
        done = threading.Event()
        timer = threading.Timer(SECONDS, lambda: done.is_set() or os._exit(7))
        timer.start()
        try:
            with pytest.raises(CannotRun) as told:
                confined.bring()
            assert told.value.cause == "git"
            with suppress(CannotRun):
                confined.look()
            assert site.git("for-each-ref") == before
            again = confined.again()
        finally:
            done.set()
            timer.cancel()
        assert site.git("rev-parse", "main") == site.start
        key = site.git("rev-parse", "main:key", folder=secret)
        assert site.git("cat-file", "-t", key, check=False) == "", "no secret came along"
        assert again.git("rev-parse", "HEAD", BRANCH).split() == [site.tip()] * 2
        assert again.look()[0] == site.tip()

    def test_more_than_work_is_not_taken(
        self, site: Site, confined: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(commit_import, "MAX_NEWS", 1 << 20)
        confined.commit("zeros", "0" * (2 << 20))
        for ask in (confined.bring, confined.look):
            with pytest.raises(CannotRun, match="They are not imported"):
                ask()
        assert site.tip() == site.start
        again = confined.again()
        assert again.look() == (site.start, {"zeros"}), "it is still there as a file"

    @pytest.mark.parametrize(("limit", "most"), [("MAX_FILES", 3), ("MAX_BYTES", 300), ("MAX_OBJECTS", 3)])
    def test_neither_are_more_objects_than_anyone_makes(
        self, confined: Worker, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
    ) -> None:
        for number in range(3):
            confined.commit(f"{number}.py", f"{number}\n")
        monkeypatch.setattr(commit_import, limit, most)
        with pytest.raises(CannotRun, match=r"not imported|cannot be imported"):
            confined.bring()

    def test_what_the_base_has_does_not_count_as_news(
        self, site: Site, confined: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        large = site.repository.commit({"large": b"0" * (2 << 20)}, site.start)
        site.git("update-ref", "refs/heads/main", large)
        worker = confined.again()
        worker.git("merge", "-q", "main")
        monkeypatch.setattr(commit_import, "MAX_NEWS", 1 << 20)
        assert worker.commit() == worker.bring()

    def test_many_objects_come_as_a_pack(self, site: Site, confined: Worker) -> None:
        for number in range(commit_import.FEW + 10):
            confined.write(f"many/{number}.py", f"{number}\n")
        before = len(list(Path(site.common_dir, "objects").glob("??/*")))
        assert confined.commit() == confined.bring()
        assert len(list(Path(site.common_dir, "objects").glob("??/*"))) == before
        assert site.git("fsck", "--full", "--strict") == ""


class TestRaces:
    def test_a_branch_that_the_user_moved_is_not_moved_under_him(self, site: Site, confined: Worker) -> None:
        commit = confined.commit("mine.py")
        confined.write("left.py")
        theirs = site.repository.commit({"theirs.py": b"1\n"}, site.start)
        site.git("update-ref", f"refs/heads/{BRANCH}", theirs)
        with pytest.raises(CannotRun, match="Nothing is lost"):
            confined.bring()
        assert site.tip() == theirs
        assert confined.look() == (commit, {"left.py"})
        again = confined.again()
        assert again.look() == (theirs, set())
        assert site.kept_file("mine.py") == site.kept_file("left.py") == "work"

    def test_one_that_is_moved_at_the_last_moment_is_not_either(
        self, site: Site, confined: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        confined.commit("mine.py")
        theirs = site.repository.commit({"theirs.py": b"1\n"}, site.start)
        store_objects = commit_import.StagedCommit.store_objects

        def move(stage: commit_import.StagedCommit) -> None:
            store_objects(stage)
            site.git("update-ref", f"refs/heads/{BRANCH}", theirs)

        monkeypatch.setattr(commit_import.StagedCommit, "store_objects", move)
        with pytest.raises(CannotRun, match="Nothing is lost"):
            confined.bring()
        assert site.tip() == theirs

    def test_commits_that_an_agent_takes_back_are_kept(self, site: Site, confined: Worker) -> None:
        first = confined.commit("one.py")
        assert confined.bring() == first
        confined.git("commit", "-q", "--amend", "-m", "again")
        second = confined.git("rev-parse", "HEAD")
        assert confined.bring() == second == site.tip()
        confined.git("reset", "-q", "--hard", site.start)
        third = confined.commit("three.py")
        assert confined.bring() == third == site.tip()
        assert {site.git("rev-parse", ref) for ref in site.kept()} == {first, second}
        assert confined.status() == [""]

    def test_no_other_branch_is_moved_where_one_stands_for_it(self, site: Site, confined: Worker) -> None:
        commit = confined.commit()
        site.git("symbolic-ref", f"refs/heads/{BRANCH}", "refs/heads/main")
        assert confined.bring() == commit == site.tip()
        assert site.tip("main") == site.start

    def test_whoever_is_first_wins_and_nothing_is_lost(self, site: Site, confined: Worker) -> None:
        """The user moves the branch, over and over, while the agent's commits are brought."""
        over = threading.Event()
        moved: list[str] = []

        def push() -> None:
            while not over.is_set():
                tip = site.tip()
                commit = site.repository.git("commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "user")
                done = site.repository.git("update-ref", f"refs/heads/{BRANCH}", commit, tip, check=False)
                if not done and site.tip() == commit:
                    moved.append(commit)

        user = threading.Thread(target=push)
        user.start()
        brought = []
        worker = confined
        for number in range(4):
            commit = worker.commit(f"{number}.py")
            try:
                brought.append(worker.bring())
            except CannotRun:
                assert site.tip() != commit
            worker = worker.again()
        over.set()
        user.join()
        reachable = set(site.git("rev-list", "--all").split())
        assert reachable.issuperset(brought)
        assert reachable.issuperset(moved)

    def test_a_lock_that_a_killed_git_left_on_the_branch_is_taken_away(
        self, site: Site, confined: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("remand.adapters.git.refs.LOCK_SECONDS", 0.1)
        commit = confined.commit()
        Path(site.common_dir, "refs", "heads", f"{BRANCH}.lock").touch()
        assert confined.bring() == commit == site.tip()


class TestKept:
    def test_what_is_too_large_is_left_out_and_named(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(linked_worktree, "MAX_FILE", 1000)
        worker = site.prepare()
        worker.write("large.bin", "0" * 2000)
        worker.write("small.py", "small\n")
        site.worktrees.remove(TASK)
        (ref,) = site.kept()
        assert site.kept_file("small.py") == "small"
        assert site.kept_file("large.bin") == ""
        assert "'large.bin'" in site.git("log", "-1", "--format=%B", ref)

    def test_the_same_work_saved_twice_is_one(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        worker = site.prepare()
        worker.write("x.py")
        with monkeypatch.context() as patched:
            patched.setattr("remand.adapters.git.files.Trash.throw", _killed)
            with pytest.raises(KeyboardInterrupt):
                site.worktrees.remove(TASK)
        site.worktrees.remove(TASK)
        assert site.kept() == [f"refs/remand/kept/{TASK}"]


def _killed(*_: object) -> None:
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
