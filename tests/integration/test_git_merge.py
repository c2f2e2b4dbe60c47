"""Event files travel by git: whatever way histories meet, everyone comes to the same state and nothing is lost."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tests.integration.branch_merges import Exchange
from tests.integration.machine import HERE, Machine, Repository
from tests.integration.seeded_work import do_work

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    """A machine whose command line runs inside this process: what is tested here is files and git."""
    return near_machine


def work(clone: Repository, seed: str, events: int) -> list[str]:
    """Lets a clone work; returns the ids of the events it wrote."""
    return do_work(str(clone.path), seed, events)


def make_clones(
    machine: Machine, origin: Repository, count: int, seed: int, share: int
) -> tuple[list[Repository], list[str]]:
    """Clones by git that have begun to work, copies by `cp -r` of those in the middle of it, and what they wrote."""
    clones: list[Repository] = []
    written: list[str] = []
    for number in range(count):
        is_copy = number % 3 == 2
        name = f"clone-{number}"
        source = clones[-1] if is_copy else origin
        clone = machine.copy(source, name) if is_copy else machine.clone(source, name)
        if number % 4 == 1:
            clone.git("config", "core.autocrlf", "true")
        if number % 4 == 2:
            (clone.path / ".git" / "info" / "attributes").write_text("*.jsonl text=auto eol=crlf\n")
        clone.git("checkout", "-q", "-b", f"work-{number}")
        clones.append(clone)
        written += work(clone, f"{seed}-{number}-early", share // 4)
    return clones, written


def everyone_has_everything(exchange: Exchange) -> None:
    """Publishes and merges until nothing is new."""
    for _ in range(2):
        for clone in exchange.clones:
            exchange.push(clone)
        for clone in exchange.clones:
            for other in exchange.fetch(clone):
                clone.git("merge", "-q", "--no-edit", other)
    for clone in exchange.clones:
        exchange.push(clone)


def known(clone: Repository) -> set[str]:
    """The ids of all events a clone knows."""
    return {event["meta"]["id"] for event in clone.ok("log", "tail", "-n", "1000000")}


def test_diverged_clones_come_to_one_state_by_any_way_of_merging(
    machine: Machine, campaign: Callable[[int, int], int]
) -> None:
    seed = int(os.environ.get("REMAND_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"REMAND_SEED={seed}")
    chance = random.Random(seed)
    origin = machine.repository("origin")
    origin.git("tag", "start")
    work(origin, f"{seed}-origin", campaign(20, 100))
    origin.ok("log", "publish")
    share = campaign(40, 1000)
    clones, written = make_clones(machine, origin, campaign(4, 16), seed, share)
    machine.git(machine.folder, "init", "-q", "--bare", "hub")
    exchange = Exchange(Repository(machine, machine.folder / "hub"), clones, chance)
    for clone in clones:
        exchange.push(clone)

    ways: list[str] = []
    for number in range(campaign(10, 120)):
        clone = chance.choice(clones)
        ways.append(exchange.meet(clone))
        written += work(clone, f"{seed}-{number}", max(2, share * len(clones) // campaign(14, 160)))
        if chance.random() < 0.7:
            exchange.push(clone)
    print(f"{len(written)} events, {Counter(ways)}")
    everyone_has_everything(exchange)

    digests = [clone.digest() for clone in clones]
    assert len(set(digests)) == 1, digests
    assert set(written) <= known(clones[0]), "no event is lost"
    assert [clone.verify() for clone in clones] == [[]] * len(clones)
    clones[0].git("push", "-q", str(exchange.hub.path), "main")
    fresh = machine.clone(exchange.hub, "fresh", "-b", "work-0")
    assert fresh.digest() == digests[0]
    assert fresh.verify() == []
    clones[0].forget_ledger()
    assert clones[0].digest() == digests[0]


def lock_out(repository: Repository, agent: str = "Alice") -> str:
    """A task that an agent's rejected work has locked it out of."""
    task = repository.add("Guarded")
    repository.ok("task", "claim", task, "--agent", agent)
    repository.ok("task", "submit", task, "--agent", agent, "--commit", "HEAD")
    answer = repository.ok("review", "reject", task, "--commit", "HEAD", "--finding", "roof.py:3: leaks")
    assert answer["locked_out"] == [agent]
    return task


def is_locked_out(repository: Repository, task: str, agent: str = "Alice") -> bool:
    """True when the ledger keeps the agent away from the task."""
    return repository.refused("task", "claim", task, "--agent", agent) == "locked_out"


class TestNothingGitDoesLiftsALockout:
    def test_an_old_branch_is_checked_out(self, repository: Repository) -> None:
        repository.git("branch", "old")
        task = lock_out(repository)
        repository.ok("log", "publish")
        before = repository.digest()
        repository.git("checkout", "-q", "old")
        assert repository.segments() == [], "the old branch has no event files"
        assert is_locked_out(repository, task)
        assert repository.digest() == before
        assert repository.verify() == []

    def test_the_published_file_is_reverted(self, repository: Repository) -> None:
        task = lock_out(repository)
        repository.ok("log", "publish")
        before = repository.digest()
        repository.git("revert", "--no-edit", "HEAD")
        assert is_locked_out(repository, task)
        assert repository.digest() == before
        assert all(repository.head() in problem["problem"] for problem in repository.verify())
        repository.ok("log", "publish")
        assert repository.verify() == []

    def test_the_merge_that_brought_it_is_reverted(self, machine: Machine, repository: Repository) -> None:
        other = machine.clone(repository, "other")
        task = lock_out(other)
        other.ok("log", "publish")
        repository.commit("more.txt")
        repository.git("pull", "-q", "--no-rebase", "--no-edit", str(other.path), "main")
        assert is_locked_out(repository, task)
        repository.git("revert", "-m", "1", "--no-edit", "HEAD")
        assert repository.segments() == []
        assert is_locked_out(repository, task)

    def test_the_event_files_are_deleted(self, repository: Repository) -> None:
        task = lock_out(repository)
        before = repository.digest()
        shutil.rmtree(repository.events)
        assert is_locked_out(repository, task)
        assert repository.digest() == before

    @pytest.mark.parametrize("is_published", [False, True])
    def test_the_ledger_is_deleted(self, repository: Repository, is_published: bool) -> None:
        task = lock_out(repository)
        if is_published:
            repository.ok("log", "publish")
        before = repository.digest()
        repository.forget_ledger()
        assert is_locked_out(repository, task)
        assert repository.digest() == before

    def test_untracked_files_are_stashed_and_come_back(self, repository: Repository) -> None:
        task = lock_out(repository)
        repository.git("stash", "-q", "--include-untracked")
        assert is_locked_out(repository, task)
        repository.add("meanwhile")
        before = repository.digest()
        repository.git("stash", "pop", "-q", check=False)
        assert is_locked_out(repository, task)
        assert repository.digest() == before
        assert repository.verify() == []


class TestWhatIsGoneIsShown:
    def test_deleting_ledger_and_files_is_shown_by_verify(self, repository: Repository) -> None:
        lock_out(repository)
        shutil.rmtree(repository.path / ".got")
        (problem,) = repository.verify()
        assert "6 were seen on this machine" in problem["problem"]
        assert "0 are left" in problem["problem"]

    def test_it_is_shown_again_and_after_new_work(self, repository: Repository) -> None:
        lock_out(repository)
        shutil.rmtree(repository.path / ".got")
        repository.add("new work")
        for _ in range(2):
            assert [
                "6 were seen on this machine" in problem["problem"] for problem in repository.verify()
            ] == [True]

    def test_an_older_state_of_everything_is_shown(self, machine: Machine, repository: Repository) -> None:
        repository.add("first")
        backup = machine.folder / "backup"
        shutil.copytree(repository.path / ".got", backup)
        repository.add("second")
        shutil.rmtree(repository.path / ".got")
        shutil.copytree(backup, repository.path / ".got")
        (problem,) = repository.verify()
        assert "2 were seen on this machine" in problem["problem"]

    def test_foreign_events_that_were_seen_here_count(self, machine: Machine, repository: Repository) -> None:
        other = machine.clone(repository, "other")
        lock_out(other)
        other.ok("log", "publish")
        repository.git("pull", "-q", str(other.path), "main")
        assert repository.digest() == other.digest()
        repository.git("reset", "-q", "--hard", "HEAD~1")
        shutil.rmtree(repository.path / ".got")
        assert ["6 were seen on this machine" in problem["problem"] for problem in repository.verify()] == [
            True
        ]

    def test_a_resident_process_goes_on_raising_the_mark(
        self, machine: Machine, repository: Repository
    ) -> None:
        other = machine.clone(repository, "other")
        other.add("elsewhere")
        with repository.coordinator():
            repository.add("one")
            repository.ok("log", "import", str(other.path))
            repository.add("two")
            repository.add("three")
        shutil.rmtree(repository.path / ".got")
        assert any("3 were seen on this machine" in problem["problem"] for problem in repository.verify())

    @pytest.mark.parametrize("name", ["a\nb", "a\u2028b", "a\x85b", "a b"], ids=["lf", "2028", "85", "space"])
    def test_whatever_the_folder_is_called(self, machine: Machine, name: str) -> None:
        repository = machine.repository(name)
        repository.add()
        shutil.rmtree(repository.path / ".got")
        assert len(repository.verify()) == 1


class TestPublishedFilesNeverChange:
    def contents(self, repository: Repository) -> dict[str, str]:
        tracked = repository.git("ls-files", ".got/events").split()
        return {name: hashlib.sha256((repository.path / name).read_bytes()).hexdigest() for name in tracked}

    def check(self, repository: Repository) -> None:
        """Whatever is written now goes to another file, and git sees no change."""
        before = self.contents(repository)
        assert before
        repository.add("after")
        repository.ok("task", "claim", "--agent", "Bob")
        assert self.contents(repository) == before
        assert " M" not in repository.git("status", "--porcelain")

    def test_after_publish(self, repository: Repository) -> None:
        repository.add()
        repository.ok("log", "publish")
        self.check(repository)

    def test_after_a_plain_git_add(self, repository: Repository) -> None:
        repository.add()
        repository.git("add", "-A")
        self.check(repository)

    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_whatever_form_the_index_has(self, repository: Repository, version: int) -> None:
        repository.add()
        (segment,) = repository.segments()
        neighbour = segment.with_name(f"{segment.stem[:-6]}000000.jsonl")
        neighbour.write_bytes(segment.read_bytes())
        repository.git("add", "-A")
        repository.git("update-index", "--index-version", str(version))
        self.check(repository)

    def test_with_a_split_index(self, repository: Repository) -> None:
        repository.add()
        repository.git("add", "-A")
        repository.git("update-index", "--split-index")
        self.check(repository)

    def test_under_a_coordinator(self, repository: Repository) -> None:
        with repository.coordinator():
            repository.add()
            repository.ok("log", "publish")
            self.check(repository)

    def test_after_publishing_from_a_linked_worktree(self, machine: Machine, repository: Repository) -> None:
        repository.git("worktree", "add", "-q", "-b", "feature", str(machine.folder / "feature"))
        linked = Repository(machine, machine.folder / "feature")
        repository.add("one")
        linked.ok("log", "publish")
        repository.add("two")
        linked.ok("log", "publish")
        assert machine.clone(repository, "fresh", "-b", "feature").digest() == repository.digest()
        repository.ok("log", "publish")
        repository.git("merge", "-q", "--no-edit", "feature")
        assert repository.verify() == []

    def test_after_the_publishing_commit_is_taken_back(
        self, machine: Machine, repository: Repository
    ) -> None:
        repository.add("one")
        repository.ok("log", "publish")
        other = machine.clone(repository, "other")
        repository.git("reset", "-q", "--mixed", "HEAD~1")
        repository.add("two")
        repository.ok("log", "publish")
        repository.git("pull", "-q", "--no-rebase", "--no-edit", str(other.path), "main")
        assert repository.verify() == []

    def test_commands_that_run_while_it_is_published_lose_nothing(
        self, machine: Machine, repository: Repository, campaign: Callable[[int, int], int]
    ) -> None:
        count = campaign(60, 600)
        process = machine.start(machine.folder, *worker_command(repository, count))
        while process.poll() is None:
            repository.ok("log", "publish")
        assert process.returncode == 0, process.communicate()
        repository.ok("log", "publish")
        assert repository.git("status", "--porcelain", ".got/events") == ""
        assert machine.clone(repository, "fresh").digest() == repository.digest()


def worker_command(repository: Repository, count: int) -> list[str]:
    """A process that writes so many events."""
    return [sys.executable, str(HERE / "seeded_work.py"), str(repository.path), "busy", str(count)]


class TestCopiesAndClones:
    def test_a_copy_of_a_ledger_is_another_ledger(self, machine: Machine, repository: Repository) -> None:
        repository.add("before")
        copy = machine.copy(repository, "copy")
        repository.add("here")
        copy.add("there")
        for one in (repository, copy):
            one.ok("log", "publish")
        repository.git("pull", "-q", "--no-rebase", "--no-edit", str(copy.path), "main")
        copy.git("pull", "-q", "--no-rebase", "--no-edit", str(repository.path), "main")
        assert repository.digest() == copy.digest()
        assert repository.digest()[1] == 3
        assert repository.verify() == copy.verify() == []

    def test_copies_of_copies_made_at_any_time_merge(self, machine: Machine, repository: Repository) -> None:
        repository.add("first")
        copies = [repository]
        for number in range(3):
            copies.append(machine.copy(copies[-1], f"copy-{number}"))
            for copy in copies:
                copy.add(f"in {copy.path.name} after {number}")
        for copy in copies:
            copy.ok("log", "publish")
        for copy in copies[1:]:
            repository.git("pull", "-q", "--no-rebase", "--no-edit", str(copy.path), "main")
        assert repository.digest()[1] == 1 + 2 + 3 + 4
        assert repository.verify() == []

    def test_a_moved_repository_keeps_its_session(self, machine: Machine, repository: Repository) -> None:
        repository.add("before")
        session = {event["meta"]["session"] for event in repository.written().values()}
        moved = Repository(machine, machine.folder / "moved")
        repository.path.rename(moved.path)
        moved.add("after")
        assert {event["meta"]["session"] for event in moved.written().values()} == session
        assert moved.verify() == []

    def test_a_fresh_clone_needs_no_init_and_has_a_session_of_its_own(
        self, machine: Machine, repository: Repository
    ) -> None:
        task = lock_out(repository)
        repository.ok("log", "publish")
        clone = machine.clone(repository, "clone")
        assert is_locked_out(clone, task)
        assert clone.digest() == repository.digest()
        clone.add("there")
        assert len({event["meta"]["session"] for event in clone.written().values()}) == 2

    def test_reading_writes_no_event(self, machine: Machine, repository: Repository) -> None:
        repository.add()
        repository.ok("log", "publish")
        clone = machine.clone(repository, "clone")
        for call in (("log", "verify"), ("log", "digest"), ("log", "rebuild"), ("task", "list")):
            clone.ok(*call)
        assert clone.git("status", "--porcelain", ".got/events") == ""
        assert len(clone.segments()) == len(repository.segments())

    def test_what_only_the_ledger_has_is_published_again(
        self, machine: Machine, repository: Repository
    ) -> None:
        repository.add("one")
        repository.ok("log", "publish")
        repository.add("two")
        repository.ok("log", "publish")
        repository.git("revert", "--no-edit", "HEAD~1")
        repository.ok("log", "publish")
        assert machine.clone(repository, "fresh").digest() == repository.digest()
        repository.forget_ledger()
        assert repository.digest()[1] == 2

    def test_what_a_killed_publish_left_empty_is_published_again(
        self, machine: Machine, repository: Repository
    ) -> None:
        repository.add("one")
        repository.ok("log", "publish")
        (segment,) = repository.segments()
        repository.git("revert", "--no-edit", "HEAD")
        segment.parent.mkdir(parents=True, exist_ok=True)
        segment.touch()
        repository.ok("log", "publish")
        assert machine.clone(repository, "fresh").digest() == repository.digest()

    def test_two_who_bring_the_same_back_do_not_meet_in_a_conflict(
        self, machine: Machine, repository: Repository
    ) -> None:
        repository.add("one")
        repository.ok("log", "publish")
        other = machine.clone(repository, "other")
        other.digest()
        for one in (repository, other):
            one.git("revert", "--no-edit", "HEAD")
            one.ok("log", "publish")
        repository.git("pull", "-q", "--no-rebase", "--no-edit", str(other.path), "main")
        assert repository.verify() == []


class TestPublishingATask:
    def test_its_story_goes_to_its_branch_and_nothing_else_does(self, repository: Repository) -> None:
        other = repository.add("Other")
        repository.git("branch", "feature")
        task = repository.add("Mine", "--branch", "feature")
        answer = repository.ok("log", "publish", "--task", task)
        assert (answer["branch"], answer["events"]) == ("feature", 1)
        changed = repository.git("diff", "--name-only", "main", "feature").split()
        assert len(changed) == 1
        assert changed[0].startswith(".got/events/")
        content = repository.git("show", f"feature:{changed[0]}")
        assert task in content
        assert f"task:{other}" not in content, "of others it has the bare ids alone"
        assert repository.ok("log", "publish", "--task", task)["commit"] is None, "it is there already"

    def test_a_branch_that_is_not_there_yet_grows_from_the_base(self, repository: Repository) -> None:
        task = repository.add("Mine", "--branch", "later")
        said = repository.call("log", "publish", "--task", task)
        if said.code == 0:
            assert repository.git("merge-base", "main", "later").strip() == repository.head("main")
        else:
            assert said.code in (1, 2)
            assert "later" in said.data["message"]

    def test_a_hostile_file_name_cannot_change_what_is_committed(self, repository: Repository) -> None:
        repository.add()
        blob = repository.git("hash-object", "-w", "remand.toml").strip()
        name = f"x\n100644 {blob}\tpwned\n100644 {blob}\t.jsonl"
        (repository.events / name).write_text("{}\n")
        repository.call("log", "publish")
        changed = repository.git("diff", "--name-only", "-z", "main~1", "main", check=False).split("\0")
        assert [path for path in changed if path and not path.startswith(".got/events/")] == []

    def test_staged_and_changed_files_of_the_user_stay_as_they_are(self, repository: Repository) -> None:
        repository.commit("code.py", "one\n")
        (repository.path / "code.py").write_text("two\n")
        (repository.path / "new.py").write_text("new\n")
        repository.git("add", "new.py")
        repository.add()
        repository.ok("log", "publish")
        assert repository.git("status", "--porcelain", "code.py", "new.py") == " M code.py\nA  new.py\n"
        changed = repository.git("show", "--name-only", "--format=", "HEAD").split()
        assert all(name.startswith(".got/events/") for name in changed)
