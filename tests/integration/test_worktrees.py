"""Where the ledger of a folder is: one for a repository and all its worktrees, and a clear word where there is none."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.integration.machine import NO_GATES, PATIENCE, Machine, Repository


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    """A machine whose command line runs inside this process, but where a test says otherwise."""
    return near_machine


def linked(repository: Repository, name: str, branch: str) -> Repository:
    """A linked worktree on a branch of its own."""
    path = repository.machine.folder / name
    repository.git("worktree", "add", "-q", "-b", branch, str(path))
    return Repository(repository.machine, path)


def titles(repository: Repository) -> list[str]:
    """The titles of all tasks, sorted."""
    return sorted(row["title"] for row in repository.ok("task", "list"))


class TestLinkedWorktrees:
    def test_they_share_the_main_worktrees_ledger(self, repository: Repository) -> None:
        tree = linked(repository, "tree", "feature")
        task = tree.add("from the tree")
        assert titles(repository) == ["from the tree"]
        repository.ok("task", "claim", task, "--agent", "Alice")
        assert tree.refused("task", "claim", task, "--agent", "Bob") == "already_claimed"
        assert not (tree.path / ".got" / "ledger.db").exists()
        assert tree.digest() == repository.digest()

    def test_their_events_name_the_branch_they_came_from(self, repository: Repository) -> None:
        tree = linked(repository, "tree", "feature")
        repository.add("main")
        tree.add("feature")
        events = repository.written().values()
        assert sorted(event["meta"]["branch"] for event in events) == ["feature", "main"]

    def test_event_files_of_the_current_worktree_are_read_too(
        self, machine: Machine, repository: Repository
    ) -> None:
        other = machine.clone(repository, "other")
        other.add("from elsewhere")
        other.ok("log", "publish")
        tree = linked(repository, "tree", "feature")
        tree.git("pull", "-q", str(other.path), "main")
        assert titles(tree) == ["from elsewhere"]
        assert titles(repository) == ["from elsewhere"], "once read, the shared ledger has it"

    @pytest.mark.parametrize("has_coordinator", [False, True], ids=["alone", "coordinator"])
    def test_a_lockout_that_only_the_worktrees_branch_brings_holds(
        self, machine: Machine, repository: Repository, has_coordinator: bool
    ) -> None:
        other = machine.clone(repository, "other")
        task = other.add()
        other.ok("task", "claim", task, "--agent", "Alice")
        other.ok("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
        other.ok("review", "reject", task, "--commit", "HEAD", "--finding", "roof.py:1: leaks")
        other.ok("log", "publish")
        tree = linked(repository, "tree", "feature")
        if not has_coordinator:
            tree.git("pull", "-q", str(other.path), "main")
            assert tree.refused("task", "claim", task, "--agent", "Alice") == "locked_out"
            return
        with repository.coordinator():
            tree.git("pull", "-q", str(other.path), "main")
            call = ("task", "claim", task, "--agent", "Alice")
            assert tree.refused(*call, timeout=PATIENCE) == "locked_out", "asked from another process"

    def test_a_removed_worktree_leaves_the_ledger_alone(self, repository: Repository) -> None:
        tree = linked(repository, "tree", "feature")
        tree.add("from the tree")
        repository.git("worktree", "remove", "--force", str(tree.path))
        assert titles(repository) == ["from the tree"]
        assert repository.verify() == []

    def test_a_submit_there_takes_the_worktrees_branch_and_commit(self, repository: Repository) -> None:
        tree = linked(repository, "tree", "feature")
        task = tree.add()
        tree.ok("task", "claim", task, "--agent", "Alice")
        commit = tree.commit()
        answer = tree.ok("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
        assert answer["verdict"]["commit"] == commit
        assert repository.ok("task", "show", task)["branch"] == "feature"

    def test_a_worktree_that_was_moved_still_finds_the_ledger(self, repository: Repository) -> None:
        tree = linked(repository, "tree", "feature")
        repository.add("here")
        repository.git("worktree", "move", str(tree.path), str(repository.machine.folder / "elsewhere"))
        assert titles(Repository(repository.machine, repository.machine.folder / "elsewhere")) == ["here"]


class TestOtherShapes:
    def test_a_bare_repository_shares_one_ledger_among_its_worktrees(
        self, machine: Machine, repository: Repository
    ) -> None:
        machine.git(machine.folder, "clone", "-q", "--bare", str(repository.path), "bare.git")
        bare = Repository(machine, machine.folder / "bare.git")
        one, two = linked(bare, "one", "first"), linked(bare, "two", "second")
        one.add("shared")
        assert titles(two) == titles(bare) == ["shared"]
        assert (bare.path / ".got" / "ledger.db").exists()
        one.ok("log", "publish")
        assert machine.clone(bare, "fresh", "-b", "first").digest() == one.digest()

    def test_a_submodule_has_a_ledger_of_its_own(self, machine: Machine, repository: Repository) -> None:
        library = machine.repository("library")
        repository.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "lib")
        repository.git("commit", "-q", "-m", "a submodule")
        module = Repository(machine, repository.path / "lib")
        module.add("in the submodule")
        repository.add("outside")
        assert titles(module) == ["in the submodule"]
        assert titles(repository) == ["outside"]
        assert (module.path / ".got" / "ledger.db").exists()

    def test_worktrees_of_a_submodule_share_its_ledger(
        self, machine: Machine, repository: Repository
    ) -> None:
        library = machine.repository("library")
        repository.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "lib")
        repository.git("commit", "-q", "-m", "a submodule")
        module = Repository(machine, repository.path / "lib")
        tree = linked(module, "tree", "feature")
        module.add("in the submodule")
        assert titles(tree) == ["in the submodule"]

    def test_worktrees_of_a_repository_with_its_git_folder_elsewhere_share_its_ledger(
        self, machine: Machine, repository: Repository
    ) -> None:
        repository.git("init", "-q", f"--separate-git-dir={machine.folder / 'git'}")
        tree = linked(repository, "tree", "feature")
        repository.add("here")
        tree.add("there")
        assert titles(repository) == titles(tree) == ["here", "there"]
        assert (repository.path / ".got" / "ledger.db").exists()

    def test_a_repository_without_a_commit_works(self, machine: Machine) -> None:
        machine.git(machine.folder, "init", "-q", "-b", "main", "empty")
        empty = Repository(machine, machine.folder / "empty")
        empty.add("first of all")
        empty.ok("log", "publish")
        assert machine.clone(empty, "fresh").digest() == empty.digest()

    def test_packed_refs_are_read(self, machine: Machine) -> None:
        repository = machine.repository(config='[gates]\n[policy]\nlease = "2h"\n')
        repository.git("pack-refs", "--all")
        task = repository.add()
        lease = repository.ok("task", "claim", task, "--agent", "Alice")["lease_expires_at"]
        began = repository.ok("task", "show", task)["history"][0]["ts"]
        assert lease[:10] > began[:10] or int(lease[11:13]) - int(began[11:13]) == 2

    def test_a_detached_head_is_no_trouble(self, repository: Repository) -> None:
        repository.git("checkout", "-q", "--detach")
        task = repository.add()
        repository.ok("task", "claim", task, "--agent", "Alice")
        said = repository.call("log", "publish")
        assert said.code == 2
        assert "branch" in said.data["message"]


class TestFolders:
    def test_a_subfolder_finds_the_ledger_above(self, machine: Machine, repository: Repository) -> None:
        repository.add("here")
        deep = repository.path / "a" / "b"
        deep.mkdir(parents=True)
        said = machine.remand(deep, "task", "list", "--json")
        assert [row["title"] for row in said.data] == ["here"]
        assert not (deep / ".got").exists()

    def test_outside_of_git_it_says_what_to_do(self, machine: Machine) -> None:
        for call in (("task", "list"), ("task", "add", "x"), ("init",), ("log", "verify")):
            said = machine.remand(machine.home, *call, "--json")
            assert said.code == 3, said
            assert "git init" in said.data["message"]
            assert not (machine.home / ".got").exists()
        said = machine.remand(machine.home, "task", "list")
        assert said.code == 3
        assert said.out == ""
        assert "git init" in said.err

    def test_a_folder_that_is_not_there_is_said(self, machine: Machine) -> None:
        said = machine.remand(machine.home, "-C", "/no/such/folder", "task", "list", "--json")
        assert said.code == 3
        assert "/no/such/folder" in said.data["message"]

    @pytest.mark.parametrize("has_coordinator", [False, True], ids=["alone", "coordinator"])
    def test_json_and_the_folder_stand_before_or_after(
        self, machine: Machine, repository: Repository, has_coordinator: bool
    ) -> None:
        repository.add("here")
        path, command = str(repository.path), ["task", "list"]
        calls = (
            ["-C", path, "--json", *command],
            ["--json", *command, "-C", path],
            [*command, "--json", "-C", path],
            ["task", "-C", path, "list", "--json"],
            ["-C", str(Path("..") / "repo"), *command, "--json"],
        )
        with repository.coordinator() if has_coordinator else nullcontext():
            for call in calls:
                said = machine.remand(machine.home, *call)
                assert said.code == 0, said
                assert [row["title"] for row in said.data] == ["here"]

    def test_files_named_with_an_at_sign_are_found_from_where_one_stands(
        self, machine: Machine, repository: Repository
    ) -> None:
        (machine.home / "scope.txt").write_text("what belongs to it")
        said = machine.remand(
            machine.home, "-C", str(repository.path), "task", "add", "x", "--scope", "@scope.txt", "--json"
        )
        assert repository.ok("task", "show", said.data["task_id"])["scope"] == "what belongs to it"

    @pytest.mark.parametrize("name", ["with space", "ünï", "-dash", "quo'te\"", "dollar$x", "semi;colon"])
    def test_odd_folder_names_work(self, machine: Machine, name: str) -> None:
        repository = machine.repository(name)
        repository.add("here")
        tree = Repository(machine, machine.folder / f"{name} tree")
        repository.git("worktree", "add", "-q", "-b", "feature", str(tree.path))
        tree.add("there")
        tree.ok("log", "publish")
        assert titles(repository) == ["here", "there"]
        assert tree.git("status", "--porcelain", ".got/events") == ""

    def test_a_symbolic_link_to_a_repository_is_the_same_ledger(
        self, machine: Machine, repository: Repository
    ) -> None:
        link = machine.folder / "link"
        link.symlink_to(repository.path)
        repository.add("here")
        assert titles(Repository(machine, link)) == ["here"]
        with repository.coordinator():
            Repository(machine, link).ok("task", "add", "through the link", timeout=PATIENCE)
        assert len(titles(repository)) == 2


class TestConfiguration:
    def test_it_is_read_from_the_working_tree_until_the_base_has_one(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        task = repository.add()
        repository.ok("task", "claim", task, "--agent", "Alice")
        submit = ("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
        assert repository.refused(*submit) == "no_gates"
        (repository.path / "remand.toml").write_text(NO_GATES)
        checks = {check["name"]: check for check in repository.call("doctor").data["checks"]}
        assert "working tree" in checks["configuration"]["detail"], "the output says so"
        assert repository.ok(*submit)["status"] == "provisional"

    @pytest.mark.parametrize("has_coordinator", [False, True], ids=["alone", "coordinator"])
    def test_once_the_base_has_one_no_other_counts(self, machine: Machine, has_coordinator: bool) -> None:
        repository = machine.repository(config='[gates.tests]\ncommand = ["false"]\nmode = "strict"\n')
        task = repository.add()
        repository.ok("task", "claim", task, "--agent", "Alice")
        submit = ("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
        process = repository.start_coordinator() if has_coordinator else None
        repository.git("checkout", "-q", "-b", "agent")
        repository.commit()
        assert repository.refused(*submit) == "gate_rejected"
        (repository.path / "remand.toml").write_text(NO_GATES)
        assert repository.refused(*submit) == "gate_rejected", "the working tree does not count"
        repository.git("commit", "-q", "-a", "-m", "lower the bar")
        assert repository.refused(*submit) == "gate_rejected", "another branch does not count"
        repository.git("checkout", "-q", "main")
        repository.git("merge", "-q", "agent")
        assert repository.refused(*submit) == "gate_rejected", "work brings no rules of its own to the base"
        later = repository.add("Paint the roof")
        repository.ok("task", "claim", later, "--agent", "Bob")
        repository.commit("paint.txt")
        claim = ("task", "submit", later, "--agent", "Bob", "--commit", "HEAD")
        assert repository.ok(*claim)["status"] == "provisional", "what is claimed later goes by the new ones"
        if process:
            process.terminate()

    def test_the_remotes_default_branch_is_the_base_of_a_clone(
        self, machine: Machine, repository: Repository
    ) -> None:
        clone = machine.clone(repository, "clone")
        clone.git("checkout", "-q", "-b", "agent")
        clone.git("branch", "-q", "-D", "main")
        (clone.path / "remand.toml").write_text("[nonsense]\n")
        clone.git("commit", "-q", "-a", "-m", "nonsense")
        clone.add("works")
        checks = {check["name"]: check for check in clone.call("doctor").data["checks"]}
        assert "main" in checks["configuration"]["detail"]

    @pytest.mark.parametrize(
        ("config", "named"),
        [
            ("[nonsense]\n", "nonsense"),
            ('[policy]\nleese = "1s"\n', "lease"),
            ("[policy]\nlease = 5\n", "policy.lease"),
            ('[policy]\nlease = "soon"\n', "policy.lease"),
            ("[gates.tests]\ncomand = 1\n", "command"),
            ('[team]\nmembers = [{name = "A", role = "boss"}]\n', "boss"),
            ('[team]\nmembers = [{name = "A"}, {name = "A"}]\n', "`A`"),
            ('[team]\nmembers = [{name = "\\u001b[31m"}]\n', "name"),
            ("not toml", "TOML"),
            ("[policy]\na = 1\na = 2\n", "TOML"),
            ("x = " + "[" * 5000 + "\n", "TOML"),
        ],
    )
    def test_what_is_wrong_in_it_is_named(self, machine: Machine, config: str, named: str) -> None:
        repository = machine.repository(config=config)
        said = repository.call("task", "add", "x")
        assert said.code == 3, said
        assert named in said.data["message"]
        assert "remand.toml" in said.data["message"]
        assert repository.call("doctor").code == 1
