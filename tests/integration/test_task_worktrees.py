"""Whatever becomes of a worktree, the next run finds it whole, and no work is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remand.adapters.git.location import REPOSITORY_NOTE, locate
from remand.adapters.git.refs import Branches
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import CannotRun
from remand.wiring.scheduler import make_worktrees
from remand.wiring.startup import ledger_id
from tests.integration.machine import PATIENCE, Machine
from tests.integration.sandboxes import sandbox_of
from tests.integration.worktree_agents import BRANCH, TASK, Site, Worker, template

PRECIOUS = "precious.txt"
NOBODY = 65534


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def entry_gone(worker: Worker) -> None:
    shutil.rmtree(worker.site.common_dir + f"/worktrees/remand-{TASK}")


def pointer_gone(worker: Worker) -> None:
    (worker.folder / ".git").unlink()


def pointer_elsewhere(worker: Worker) -> None:
    (worker.folder / ".git").write_text("gitdir: /nowhere\n")


def pointer_is_a_repository(worker: Worker) -> None:
    (worker.folder / ".git").unlink()
    subprocess.run(
        ["git", "init", "-q", str(worker.folder)], check=True, env=worker.site.repository.environment
    )


def pointer_is_a_link(worker: Worker) -> None:
    (worker.folder / ".git").unlink()
    (worker.folder / ".git").symlink_to("/dev/zero")


def pointer_is_a_pipe(worker: Worker) -> None:
    (worker.folder / ".git").unlink()
    os.mkfifo(worker.folder / ".git")


def head_is_nonsense(worker: Worker) -> None:
    (worker.git_dir / "HEAD").write_text("ref: ../../../etc/passwd\n")


def head_on_another_branch(worker: Worker) -> None:
    worker.git("checkout", "-q", "-b", "elsewhere")
    worker.commit("elsewhere.py")


def head_detached(worker: Worker) -> None:
    worker.git("checkout", "-q", "--detach")
    worker.commit("detached.py")


def head_detached_where_the_branch_is(worker: Worker) -> None:
    worker.git("checkout", "-q", "--detach")


def locks_left(worker: Worker) -> None:
    for name in ("index.lock", "HEAD.lock"):
        (worker.git_dir / name).write_text("")


def merge_left(worker: Worker) -> None:
    worker.git("stash", "-q", "-u")
    worker.git("checkout", "-q", "-b", "side")
    worker.commit("a.py", "side\n")
    worker.git("checkout", "-q", worker.worktree.branch)
    worker.commit("a.py", "here\n")
    worker.bring()
    worker.git("merge", "side", check=False)
    worker.git("checkout", "stash@{0}^3", "--", PRECIOUS)
    assert (worker.git_dir / "MERGE_HEAD").exists()


def rebase_left(worker: Worker) -> None:
    worker.git("stash", "-q", "-u")
    worker.git("branch", "side")
    worker.commit("a.py", "here\n")
    worker.git("checkout", "-q", "side")
    worker.commit("a.py", "side\n")
    worker.git("checkout", "-q", worker.worktree.branch)
    worker.git("rebase", "side", check=False)
    worker.git("checkout", "stash@{0}^3", "--", PRECIOUS)
    assert (worker.git_dir / "rebase-merge").exists()


def index_cut_off(worker: Worker) -> None:
    index = worker.git_dir / "index"
    index.write_bytes(index.read_bytes()[:100])


def index_gone(worker: Worker) -> None:
    (worker.git_dir / "index").unlink()


def index_is_a_link(worker: Worker) -> None:
    (worker.git_dir / "index").unlink()
    (worker.git_dir / "index").symlink_to("/dev/zero")


def index_split(worker: Worker) -> None:
    worker.site.git("update-index", "--split-index", folder=worker.folder)
    assert list(Path(worker.site.common_dir, "worktrees", f"remand-{TASK}").glob("sharedindex.*"))


def pipes_in_the_place_of_files(worker: Worker) -> None:
    for name in ("a.py", ".gitignore"):
        (worker.folder / name).unlink()
        os.mkfifo(worker.folder / name)
    for name in ("src/.gitattributes", "pipe", ".gitmodules"):
        os.mkfifo(worker.folder / name)
    inner = worker.folder / "inner"
    subprocess.run(["git", "init", "-q", str(inner)], check=True, env=worker.site.repository.environment)
    (inner / ".git" / "HEAD").unlink()
    os.mkfifo(inner / ".git" / "HEAD")


def links_in_the_place_of_files(worker: Worker) -> None:
    (worker.folder / "a.py").unlink()
    (worker.folder / "a.py").symlink_to("/etc/passwd")
    shutil.rmtree(worker.folder / "src")
    (worker.folder / "src").symlink_to("/etc")
    (worker.folder / ".gitignore").unlink()
    (worker.folder / ".gitignore").symlink_to("/dev/zero")


def closed_folders(worker: Worker) -> None:
    for name in ("src/deep", "src", "."):
        (worker.folder / name).chmod(0o500)


def branch_deleted(worker: Worker) -> None:
    worker.site.git("update-ref", "-d", f"refs/heads/{worker.worktree.branch}")


def branch_moved_on(worker: Worker) -> None:
    ahead = worker.site.repository.commit({"theirs.py": b"1\n"}, worker.site.tip())
    worker.site.git("update-ref", f"refs/heads/{worker.worktree.branch}", ahead)


def branch_moved_into_the_work(worker: Worker) -> None:
    ahead = worker.site.repository.commit({PRECIOUS: b"theirs\n"}, worker.site.tip())
    worker.site.git("update-ref", f"refs/heads/{worker.worktree.branch}", ahead)


def branch_moved_back(worker: Worker) -> None:
    worker.git("stash", "-q", "-u")
    worker.commit("gone.py")
    worker.bring()
    worker.git("stash", "pop", "-q")
    worker.site.git("update-ref", f"refs/heads/{worker.worktree.branch}", worker.site.start)


def note_gone(worker: Worker) -> None:
    Path(worker.folder.parent, ".own", TASK, "note").unlink()


def all_we_know_gone(worker: Worker) -> None:
    worker.site.worktrees._trash.wait()
    shutil.rmtree(worker.folder.parent / ".own")


def entry_is_a_link(worker: Worker) -> None:
    entry = Path(worker.site.common_dir, "worktrees", f"remand-{TASK}")
    entry.rename(entry.parent.parent / "moved")
    entry.symlink_to(entry.parent.parent / "moved")


BEFALLS_BOTH = (
    *(entry_gone, pointer_is_a_repository, head_is_nonsense, head_on_another_branch, head_detached),
    *(head_detached_where_the_branch_is, locks_left, merge_left, rebase_left, index_gone, index_split),
    *(pipes_in_the_place_of_files, links_in_the_place_of_files, closed_folders),
    *(branch_deleted, branch_moved_on, branch_moved_into_the_work, branch_moved_back, note_gone),
)
BEFALLS_OPEN = (
    *(*BEFALLS_BOTH, pointer_gone, pointer_elsewhere, pointer_is_a_link, pointer_is_a_pipe),
    *(index_cut_off, index_is_a_link, entry_is_a_link, all_we_know_gone),
)


def check_whole(worker: Worker) -> None:
    """The worktree is one that git can be used in, on its branch, with nothing under way."""
    site = worker.site
    said = worker.git("status", "--porcelain", "--branch")
    assert said == site.git("status", "--porcelain", "--branch", folder=worker.folder)
    assert said.split("\n")[0] == f"## {worker.worktree.branch}"
    assert "UU" not in said
    assert site.worktree_paths() == [str(worker.folder)]
    assert worker.look()[0] == site.tip() == worker.git("rev-parse", "HEAD")
    worker.commit("after.py")


class TestMending:
    @pytest.mark.parametrize("befall", BEFALLS_OPEN)
    def test_the_next_run_finds_it_whole_and_no_work_is_lost(
        self, site: Site, befall: Callable[[Worker], None]
    ) -> None:
        self._check(site.prepare(), befall)

    @pytest.mark.parametrize("befall", BEFALLS_BOTH)
    def test_so_it_is_for_confined_agents(self, site: Site, befall: Callable[[Worker], None]) -> None:
        self._check(site.prepare(is_confined=True), befall)

    def _check(self, worker: Worker, befall: Callable[[Worker], None]) -> None:
        worker.write(PRECIOUS, "precious\n")
        befall(worker)
        again = worker.again()
        here = again.folder / PRECIOUS
        is_here = here.exists() and here.read_text() == "precious\n"
        assert is_here or worker.site.kept_file(PRECIOUS) == "precious"
        check_whole(again)

    def test_commits_on_no_branch_are_kept(self, site: Site) -> None:
        for is_confined in (False, True):
            worker = site.prepare(is_confined=is_confined)
            head_detached(worker)
            (worker.folder / "more.py").write_text("more\n")
            worker.again()
            assert site.kept_file("detached.py") == "work"
            assert site.kept_file("more.py") == "more"
            for ref in site.kept():
                site.git("update-ref", "-d", ref)

    def test_what_a_confined_agent_put_aside_is_kept(self, site: Site) -> None:
        worker = site.prepare(is_confined=True)
        for text in ("one", "two"):
            worker.write("a.py", f"{text}\n")
            worker.git("stash", "-q")
        worker.git("checkout", "-q", "-b", "side/one")
        worker.commit("side.py")
        worker.git("pack-refs", "--all")
        worker.git("checkout", "-q", "-b", "side/two")
        worker.commit("more.py")
        worker.git("checkout", "-q", BRANCH)
        worker.again()
        held = [site.git("cat-file", "blob", f"{ref}:a.py", check=False) for ref in site.kept()]
        assert {"one", "two"} <= set(held)
        assert site.kept_file("side.py") == site.kept_file("more.py") == "work"
        assert site.git("tag", "--list") + site.git("branch", "--list", "side/*") == ""
        before = site.kept()
        site.worktrees.remove(TASK)
        assert site.kept() == before

    def test_work_goes_on_from_where_somebody_else_left_the_branch(self, site: Site) -> None:
        for is_confined in (False, True):
            worker = site.prepare(is_confined=is_confined)
            worker.write(PRECIOUS)
            branch_moved_on(worker)
            again = worker.again()
            assert (again.folder / "theirs.py").exists()
            assert again.look() == (site.tip(), {PRECIOUS})
            assert site.kept() == [], "what does not stand in the way stays"

    def test_a_branch_that_is_moved_elsewhere_between_commits_here_is_followed(self, site: Site) -> None:
        worker = site.prepare()
        worker.commit("a.py", "mine\n")
        ahead = site.repository.commit({"a.py": b"theirs\n"}, site.tip())
        site.git("update-ref", f"refs/heads/{BRANCH}", ahead)
        again = worker.again()
        assert (again.folder / "a.py").read_text() == "theirs\n"
        assert again.look() == (ahead, set())
        assert site.kept() == [], "nothing stood in the way"

    def test_files_that_were_replaced_by_pipes_are_put_back(self, site: Site) -> None:
        worker = site.prepare()
        pipes_in_the_place_of_files(worker)
        again = worker.again()
        assert (again.folder / "a.py").read_text() == "a = 1\n"
        assert again.look() == (site.start, set())

    def test_a_task_that_gets_another_branch_leaves_nothing_behind(self, site: Site) -> None:
        for is_confined in (False, True):
            worker = site.prepare(is_confined=is_confined)
            commit = worker.commit(f"{is_confined}.py")
            worker.write(PRECIOUS, "precious\n")
            other = site.prepare(is_confined=is_confined, branch=f"other-{is_confined}")
            assert other.look() == (site.start, set())
            assert site.kept_file(PRECIOUS) == "precious"
            assert site.tip() == commit
            site.prepare(is_confined=is_confined)

    @pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become another user")
    def test_a_user_without_rights_gets_on_with_closed_folders(self) -> None:
        home = Path("/tmp", f"rmd-nobody-{os.getpid()}")
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        child = os.fork()
        if not child:
            code = 1
            try:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                code = _gets_on(home)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        shutil.rmtree(home)
        assert os.waitstatus_to_exitcode(status) == 0


def _gets_on(home: Path) -> int:
    tempfile.tempdir = str(home)
    template.cache_clear()
    site = Site(home)
    for is_confined in (False, True):
        worker = site.prepare(is_confined=is_confined)
        worker.write("src/new.py")
        closed_folders(worker)
        if is_confined:
            worker.private.chmod(0)
        again = worker.again()
        again.write("src/deep/more.py")
        if again.look() != (site.start, {"src/new.py", "src/deep/more.py"}):
            return 2
        closed_folders(worker)
        site.worktrees.remove(TASK)
    site.worktrees.remove_others(())
    return 3 if site.left() or site.kept_file("src/new.py") != "work" else 0


class TestSpeed:
    @pytest.mark.parametrize("is_confined", [False, True], ids=["open", "confined"])
    def test_a_worktree_that_is_as_it_should_be_needs_no_git(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, is_confined: bool
    ) -> None:
        worker = site.prepare(is_confined=is_confined)
        worker.write(PRECIOUS)
        monkeypatch.setenv("PATH", "/nowhere")
        assert worker.again().worktree == worker.worktree
        assert site.worktrees.import_commits(worker.worktree) == site.start
        with pytest.raises(CannotRun, match="git is not installed"):
            site.prepare(task="T-2", branch="two")


class TestRepositories:
    @pytest.mark.parametrize("is_confined", [False, True], ids=["open", "confined"])
    def test_ids_may_be_long(self, tmp_path: Path, is_confined: bool) -> None:
        site = Site(tmp_path, "--object-format=sha256")
        worker = site.prepare(is_confined=is_confined)
        commit = worker.commit()
        assert len(commit) == 64
        assert worker.look() == (commit, set())
        assert worker.bring() == commit == site.tip()
        worker.write(PRECIOUS)
        site.worktrees.remove(TASK)
        assert site.kept_file(PRECIOUS) == "work"

    @pytest.mark.parametrize(
        ("option", "is_confined"),
        [("--shared", True), ("--depth=1", True), ("--bare", False), ("--separate-git-dir=../apart", True)],
    )
    def test_clones_of_all_kinds_will_do(
        self, site: Site, tmp_path: Path, option: str, is_confined: bool
    ) -> None:
        site.git("checkout", "-q", "-b", "more")
        for number in range(3):
            (site.repository.path / "n.py").write_text(f"{number}\n")
            site.git("add", "-A")
            site.git("commit", "-q", "-m", f"{number}")
        clone = tmp_path / "clone"
        source = str(site.repository.path) if option == "--shared" else f"file://{site.repository.path}"
        site.git("clone", "-q", option, source, str(clone))
        site.repository.path = clone
        site.worktrees = site.opened()
        site.start = site.git("rev-parse", "HEAD")
        worker = site.prepare(is_confined=is_confined)
        commit = worker.commit("n.py", "mine\n")
        assert worker.look() == (commit, set())
        assert worker.bring() == commit == site.tip()
        assert worker.git("log", "--format=%s", "-n", "1") == "work on n.py"
        assert worker.again().status() == [""]
        site.worktrees.remove_others(())
        assert site.left() == []
        assert site.git("fsck", "--full", "--connectivity-only") == ""

    def test_the_git_folder_may_be_a_link(self, site: Site, tmp_path: Path) -> None:
        (site.repository.path / ".git").rename(tmp_path / "apart")
        (site.repository.path / ".git").symlink_to(tmp_path / "apart")
        site.worktrees = site.opened()
        site.git("tag", "v1", site.start)
        worker = site.prepare(is_confined=True)
        assert worker.worktree.common_dir == str(tmp_path / "apart")
        assert worker.git("describe", "--tags") == "v1"
        assert worker.commit() == worker.bring() == site.tip()
        assert worker.again().look() == (site.tip(), set())

    def test_in_a_bare_repository_the_branch_of_head_is_free(self, site: Site, tmp_path: Path) -> None:
        site.git("clone", "-q", "--bare", str(site.repository.path), str(tmp_path / "bare"))
        site.repository.path = tmp_path / "bare"
        site.git("branch", "trunk", "main")
        site.git("symbolic-ref", "HEAD", "refs/heads/trunk")
        site.worktrees = site.opened()
        assert site.prepare(branch="trunk").commit() == site.tip("trunk")

    def test_files_come_as_they_were_committed_and_the_users_git_agrees(self, site: Site) -> None:
        attributes = (
            b"*.txt text eol=crlf\n*.id ident\n*.u16 text working-tree-encoding=UTF-16\n* filter=lfs\n"
        )
        files = {
            ".gitattributes": attributes,
            "a.txt": b"1\n2\n",
            "b.id": b"$Id$\n",
            "c.u16": b"x\n",
            "d.bin": b"\0",
        }
        site.start = site.repository.commit(files, site.start)
        worker = site.prepare()
        assert worker.status() == [""]
        assert worker.look() == (site.start, set())
        worker.write("a.txt", "1\r\n2\r\n3\r\n")
        worker.write("e.u16", "not UTF-16")
        assert worker.look() == (site.start, {"a.txt", "e.u16"})
        site.worktrees.remove(TASK)
        assert site.kept_file("e.u16") == "not UTF-16"
        assert "3" in site.kept_file("a.txt")


def test_they_lie_out_of_the_way_or_where_they_are_wanted(near_machine: Machine) -> None:
    repository = near_machine.repository()
    repository.add("a task")
    place = locate(str(repository.path))
    assert place is not None
    start = repository.git("rev-parse", "HEAD").strip()
    usual = make_worktrees(place).prepare("T-1", "one", start, is_confined=True)
    assert Path(usual.folder).parent == near_machine.state / "remand" / ledger_id(place) / "worktrees"
    assert Path(usual.private_dir, "packed-refs").read_text().split()[-1] == "refs/heads/main"
    assert "/.claude/settings.json\n" in Path(usual.private_dir, "info", "exclude").read_text()
    wanted = make_worktrees(place, "../there").prepare("T-2", "two", start, is_confined=False)
    assert Path(wanted.folder) == repository.path.parent / "there" / ledger_id(place) / "T-2"


class TestMany:
    def test_many_are_prepared_used_and_retired_at_once(
        self, site: Site, campaign: Callable[[int, int], int]
    ) -> None:
        count, faults = campaign(12, 200), []
        numbers = iter(range(count))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                try:
                    worker = site.prepare(
                        task=f"T-{number}", branch=f"b/{number}", is_confined=bool(number % 2)
                    )
                    commit = worker.commit(f"{number}.py")
                    if worker.bring() != commit or worker.again().look() != (commit, set()):
                        faults.append(number)
                except (CannotRun, AssertionError, OSError) as fault:
                    faults.append((number, fault))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        assert len(site.worktree_paths()) == count
        assert len(site.git("branch", "--list", "b/*").split("\n")) == count
        assert len(site.worktrees.remove_others(())) == count
        assert site.left() == []
        assert site.kept() == []

    def test_the_note_that_another_process_writes_meanwhile_is_left_alone(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A note that is gone for a moment would fail whoever reads it then."""
        symlink, unlink, removed = os.symlink, os.unlink, []

        def be_late(target: str, path: str) -> None:
            monkeypatch.setattr(os, "symlink", symlink)
            symlink(target, path)
            raise FileExistsError

        def remove(path: str, **options: int) -> None:
            removed.append(str(path))
            unlink(path, **options)

        monkeypatch.setattr(os, "symlink", be_late)
        monkeypatch.setattr(os, "unlink", remove)
        site.worktrees._require_private()

        note = site.folder / "worktrees" / REPOSITORY_NOTE
        assert os.readlink(note) == site.common_dir
        assert str(note) not in removed


PREPARING = """
import sys
sys.path.insert(0, sys.argv[1])
from remand.adapters.git.location import locate
from remand.adapters.git.task_worktrees import GitWorktrees as GitWorkplaces
from tests.integration.killed_clients import Point, dies_at
count, event, name = sys.argv[4:7]
worktrees = GitWorkplaces(locate(sys.argv[2]), sys.argv[3], base="main")
print("ready", flush=True)
if int(count):
    dies_at(Point(int(count), event.strip(), name.strip()))
for turn in range(3):
    for number in (1, 2):
        place = worktrees.prepare(f"T-{number}", f"b{number}", sys.argv[7], is_confined=bool(turn % 2))
        worktrees.inspect(place)
        worktrees.import_commits(place)
    worktrees.remove("T-2")
"""
TENDER = ("rename", "replace", "mkdir", "unlink", "rmdir", "write", "link", "fork_exec", "flock", "open")


def test_a_branch_that_a_git_of_a_killed_scheduler_makes_a_moment_later_is_taken(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That git goes on by itself: it makes the branch after we have looked for it."""
    tip = Branches.tip

    def late(branches: Branches, branch: str) -> str:
        found = tip(branches, branch)
        site.git("update-ref", f"refs/heads/{branch}", site.start)
        return found

    monkeypatch.setattr(Branches, "tip", late)

    worker = site.prepare()

    assert (worker.look(), site.tip()) == ((site.start, set()), site.start)


def test_a_branch_that_is_made_elsewhere_meanwhile_is_not_taken_for_ours(site: Site) -> None:
    branches = Branches(site.common_dir, str(site.repository.path))
    other = site.git("commit-tree", "-m", "other", f"{site.start}^{{tree}}")
    site.git("update-ref", f"refs/heads/{BRANCH}", other)

    with pytest.raises(EnvironmentFault, match="already exists"):
        branches.create(BRANCH, site.start)
    assert site.tip() == other


def test_whatever_a_killed_scheduler_leaves_is_mended_and_swept(
    site: Site, campaign: Callable[[int, int], int]
) -> None:
    chance = random.Random(1)
    root = str(Path(__file__).parents[2])
    for turn in range(campaign(6, 400)):
        kind = chance.choice(("call", "calls", "time"))
        point = {
            "call": (
                int(chance.expovariate(1 / 12)) + 1,
                chance.choice(("c_call", "c_return")),
                chance.choice(TENDER),
            ),
            "calls": (chance.randrange(10, 20_000), " ", " "),
            "time": (0, " ", " "),
        }[kind]
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", PREPARING, root, str(site.repository.path)),
                *(str(site.folder / "worktrees"), *map(str, point), site.start),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        if kind == "time":
            time.sleep(chance.uniform(0, 0.4))
            (os.killpg if chance.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        for number in (1, 2):
            worker = site.prepare(task=f"T-{number}", branch=f"b{number}", is_confined=chance.random() < 0.5)
            assert worker.look() == (site.start, set()), f"turn {turn}: {point}"
            assert worker.status() == [""], f"turn {turn}: {point}"
        if chance.random() < 0.5:
            assert site.worktrees.remove_others(()) == ["T-1", "T-2"]
            assert site.left() == [], f"turn {turn}: {point}"
            assert site.worktree_paths() == []
    assert site.kept() == [], "nothing that was half made counts as work"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk; only root can have one."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system may be mounted here")
    yield small
    subprocess.run(["umount", "-l", str(small)], check=True)


def fill(disk: Path, free: int) -> None:
    (disk / "filler").unlink(missing_ok=True)
    status = os.statvfs(disk)
    with (disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(status.f_bavail * status.f_frsize - free, 1))


class TestFullDisk:
    @pytest.mark.parametrize("is_confined", [False, True], ids=["open", "confined"])
    def test_a_full_disk_is_said_and_nothing_is_left_half_made(
        self, site: Site, disk: Path, campaign: Callable[[int, int], int], is_confined: bool
    ) -> None:
        site.start = site.repository.commit({f"f{n}": os.urandom(9000) for n in range(60)}, site.start)
        folder = disk / "worktrees"
        site.worktrees = site.opened(str(folder))
        causes = set()
        for free in range(0, 1 << 20, campaign(250, 8) << 10):
            fill(disk, free)
            try:
                site.prepare(is_confined=is_confined)
            except CannotRun as told:
                causes.add(told.cause)
                site.worktrees._trash.wait()
                assert (
                    not (folder / TASK).exists()
                    or site.git("status", "--porcelain", folder=folder / TASK) == ""
                )
                assert not (folder / ".own" / TASK / "making").exists()
                assert len(site.worktree_paths()) == (folder / TASK).exists()
            (disk / "filler").unlink()
            worker = site.prepare(is_confined=is_confined)
            assert worker.look() == (site.start, set())
            site.worktrees.remove(TASK)
            site.worktrees._trash.wait()
        assert causes == {"disk"}

    def test_no_work_is_thrown_away_for_want_of_room(self, site: Site, disk: Path) -> None:
        moved = disk / "repo"
        shutil.copytree(site.repository.path, moved, symlinks=True)
        site.repository.path = moved
        site.worktrees = site.opened()
        worker = site.prepare()
        worker.write("precious.bin", os.urandom(200_000).hex())
        fill(disk, 16 << 10)
        with pytest.raises(CannotRun) as told:
            site.worktrees.remove(TASK)
        assert told.value.cause == "disk"
        assert site.worktrees.remove_others(()) == []
        assert worker.folder.exists()
        (disk / "filler").unlink()
        site.worktrees.remove(TASK)
        assert len(site.kept_file("precious.bin")) == 400_000

    def test_commits_that_find_no_room_are_brought_later(self, site: Site, disk: Path) -> None:
        moved = disk / "repo"
        shutil.copytree(site.repository.path, moved, symlinks=True)
        site.repository.path = moved
        site.worktrees = site.opened()
        worker = site.prepare(is_confined=True)
        commit = worker.commit("large.bin", os.urandom(200_000).hex())
        fill(disk, 16 << 10)
        for ask in (worker.bring, worker.again):
            with pytest.raises(CannotRun) as told:
                ask()
            assert told.value.cause == "disk"
        assert site.tip() == site.start
        (disk / "filler").unlink()
        assert worker.bring() == commit == site.tip()


class TestSandbox:
    """What a confined agent sees by bubblewrap, as the launcher binds it."""

    def inside(self, worker: Worker, script: str) -> tuple[int, str]:
        sandbox_of("bubblewrap")
        common = worker.worktree.common_dir
        binds = (
            *("--ro-bind", "/", "/", "--tmpfs", str(worker.site.repository.path), "--dev", "/dev"),
            *("--bind", worker.worktree.private_dir, common),
            *("--ro-bind", f"{common}/objects", f"{common}/base-objects"),
            *("--bind", str(worker.folder), str(worker.folder), "--chdir", str(worker.folder)),
            *("--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"),
        )
        done = subprocess.run(
            ["bwrap", *binds, "sh", "-ec", script],
            capture_output=True,
            check=False,
            timeout=PATIENCE,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
        )
        return done.returncode, (done.stdout + done.stderr).decode()

    def test_an_agent_commits_inside_and_its_work_is_brought(self, site: Site) -> None:
        site.git("tag", "v1", site.start)
        site.git("config", "user.name", 'Us"er \\ <x>')
        site.git("config", "user.email", "user@example.org")
        worker = site.prepare(is_confined=True)
        script = """
        test -z "$(git status --porcelain)"
        git describe --tags
        git log --oneline main..HEAD
        git switch -q -c side && echo side > side.py && git add -A && git commit -q -m side
        git switch -q - && git merge -q --no-edit side && echo 2 > a.py && git commit -q -a -m work
        git gc -q && git fsck --strict --no-dangling && git rev-parse HEAD
        """
        code, said = self.inside(worker, script)
        assert code == 0, said
        tag, commit = said.split()[0], said.split()[-1]
        assert tag == "v1"
        assert worker.look() == (commit, set())
        assert worker.bring() == commit == site.tip()
        assert site.git("log", "-1", "--format=%an %ae", commit) == 'Us"er \\ <x> user@example.org'.replace(
            "<x>", "x"
        )
        assert worker.status() == [""]

    def test_git_does_not_read_every_file_again_inside(self, site: Site) -> None:
        worker = site.prepare(is_confined=True)
        os.utime(worker.git_dir / "index", (4e9, 4e9))  # no file is so young that it has to be read
        code, said = self.inside(worker, "git diff-files --name-only")
        assert (code, said) == (0, ""), "the index says how files look, whoever owns them"

    def test_the_repository_itself_is_out_of_reach(self, site: Site) -> None:
        worker = site.prepare(is_confined=True)
        before = site.git("for-each-ref"), Path(site.common_dir, "config").read_text()
        script = """
        git update-ref refs/heads/main $(git commit-tree HEAD^{tree} -m x)
        git config core.hooksPath /tmp && git config alias.status '!touch /tmp/x'
        ! touch .git/../x 2>/dev/null || true
        ! sh -c 'echo x > "$(git rev-parse --git-common-dir)/base-objects/x"' 2>/dev/null
        """
        code, said = self.inside(worker, script)
        assert code == 0, said
        assert (site.git("for-each-ref"), Path(site.common_dir, "config").read_text()) == before
