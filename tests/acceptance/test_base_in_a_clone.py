"""A clone measures by the base it was cloned from: not by a change's own rules, and not by a ref that was moved."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from tests.integration.machine import Machine, Repository

CONFIG = """
[project]
base = "main"

[gates.words]
command = ["grep", "-q", "good", "work.txt"]
parser = "exit"
mode = "delta"

[team]
members = [
  {name = "Alice", role = "agent"},
  {name = "Lead", role = "lead"},
]
"""
LAX = CONFIG.replace('["grep", "-q", "good", "work.txt"]', '["true"]')
RUN = ("gate", "run")


def commit(repository: Repository, text: str, path: str = "work.txt") -> str:
    """Commits a file."""
    (repository.path / path).write_text(text, encoding="utf-8")
    repository.git("add", path)
    repository.git("commit", "-q", "-m", text[:40])
    return repository.git("rev-parse", "HEAD").strip()


def on_branch(machine: Machine, rules: str, base: str = "main") -> Repository:
    """A repository with a branch whose work is bad, and whose rules let it pass."""
    origin = machine.repository("origin", config=CONFIG.replace('base = "main"', f'base = "{base}"'))
    commit(origin, "good")
    if base != "main":
        origin.git("branch", "-q", "-m", "main", base)
    origin.git("checkout", "-q", "-b", "work")
    commit(origin, rules, "remand.toml")
    commit(origin, "bad")
    origin.git("checkout", "-q", base)
    return origin


def as_a_pipeline(machine: Machine, origin: Repository) -> Repository:
    """What actions/checkout makes of a pull request: one commit, detached, and no branch."""
    made = Repository(machine, machine.folder / "pipeline")
    machine.git(machine.folder, "init", "-q", "-b", "main", str(made.path))
    made.git("remote", "add", "origin", f"file://{origin.path}")
    made.git("fetch", "-q", "--depth", "1", "origin", "work:refs/remotes/pull/1/merge")
    made.git("checkout", "-q", "--detach", "refs/remotes/pull/1/merge")
    return made


def as_a_shallow_clone(machine: Machine, origin: Repository) -> Repository:
    """A clone of the branch alone."""
    machine.git(
        machine.folder, "clone", "-q", "--depth", "1", "-b", "work", f"file://{origin.path}", "shallow"
    )
    return Repository(machine, machine.folder / "shallow")


def asked_of_the_user(machine: Machine, clone: Repository) -> str:
    """The commands that a call ends with, when it can only say what has to be done first."""
    said = machine.remand(clone.path, *RUN)
    assert said.code == 3, said
    assert "PASSED" not in said.out
    assert "The base already contains this commit" not in said.out
    return said.err.split("`")[-2] if "fetch-depth" not in said.err else said.err.split("`")[-4]


@pytest.mark.parametrize("checkout", [as_a_pipeline, as_a_shallow_clone])
@pytest.mark.parametrize("base", ["main", "work"], ids=["names the base", "names itself the base"])
def test_a_clone_without_the_base_measures_nothing_by_the_rules_of_a_change(
    machine: Machine, checkout: Callable[[Machine, Repository], Repository], base: str
) -> None:
    clone = checkout(machine, on_branch(machine, LAX.replace('"main"', f'"{base}"')))
    asked = asked_of_the_user(machine, clone)
    if base == "main":
        assert asked == "git fetch origin main:refs/remotes/origin/main"
    clone.git("fetch", "-q", "origin", "main:refs/remotes/origin/main")
    said = clone.call(*RUN)
    assert (said.code, said.data["status"]) == (1, "failed"), "held against the base, by the base's rules"


def test_a_clone_without_the_base_has_no_other_commands_by_those_rules_either(machine: Machine) -> None:
    clone = as_a_pipeline(machine, on_branch(machine, LAX.replace("Alice", "Mallory")))
    said = clone.call("task", "add", "Mend the roof", "--as", "Mallory")
    assert (said.code, "git fetch origin main" in said.data["message"]) == (3, True), said


def test_a_base_by_another_name_is_noted_by_a_person_once(machine: Machine) -> None:
    origin = on_branch(machine, LAX.replace('"main"', '"trunk"'), base="trunk")
    clone = as_a_pipeline(machine, origin)
    for command in asked_of_the_user(machine, clone).split(" && "):
        clone.git(*shlex.split(command)[1:])
    said = clone.call(*RUN)
    assert (said.code, said.data["status"]) == (1, "failed")


def test_a_repository_that_has_nothing_from_its_remote_is_its_own_beginning(machine: Machine) -> None:
    repository = machine.repository("here", config=CONFIG.replace('base = "main"', 'base = "develop"'))
    repository.git("branch", "-q", "-m", "main", "develop")
    repository.git("remote", "add", "origin", "https://example.invalid/x.git")

    repository.add("a task")
    repository.git("update-ref", "refs/remotes/origin/work", "HEAD")
    said = repository.call("task", "add", "another")
    assert (said.code, (said.out + said.err).count("Which branch is the base")) == (3, 1)
    repository.git("update-ref", "-d", "refs/remotes/origin/work")
    repository.git("checkout", "-q", "--detach")
    assert repository.call("task", "add", "another").code == 3


def test_a_base_that_cannot_be_a_branch_is_nobodys_command(machine: Machine) -> None:
    origin = on_branch(machine, LAX.replace('"main"', '"x; touch /tmp/x `id` \\n"'))
    assert asked_of_the_user(machine, as_a_pipeline(machine, origin)) == (
        "git fetch origin main:refs/remotes/origin/main"
    )


@pytest.mark.parametrize("branch", ["main", "trunk"])
def test_the_first_steps_go_by_the_working_tree_also_where_there_is_a_remote_to_come(
    machine: Machine, branch: str
) -> None:
    (machine.folder / "new").mkdir()
    new = Repository(machine, machine.folder / "new")
    new.git("init", "-q", "-b", branch)
    new.git("remote", "add", "origin", str(machine.folder / "nowhere"))
    new.ok("init")
    assert new.ok("task", "add", "Mend the roof")["task_id"]
    if branch == "main":
        new.git("add", "-A")
        new.git("commit", "-q", "-m", "first")
        assert new.ok("task", "add", "Paint the roof")["task_id"]


def test_where_there_is_no_base_at_all_none_is_said_to_have_the_commit(machine: Machine) -> None:
    alone = machine.repository(config=LAX)
    alone.git("checkout", "-q", "--detach")
    alone.git("branch", "-q", "-D", "main")
    said = machine.remand(alone.path, *RUN)
    assert (said.code, "There is no base: compared with nothing" in said.out) == (0, True), said


class Workspace:
    """A clone in which Alice has claimed a task."""

    def __init__(self, machine: Machine, config: str = CONFIG) -> None:
        self.origin = machine.repository("origin", config=config)
        commit(self.origin, "good")
        self.clone = machine.clone(self.origin, "clone")
        self.task: str = self.clone.ok("task", "add", "Mend the roof", "--branch", "work")["task_id"]
        self.clone.ok("task", "claim", self.task, "--agent", "Alice")
        self.clone.git("checkout", "-q", "-b", "work")

    def submit(self) -> dict[str, object]:
        """A done claim at HEAD."""
        words = ("task", "submit", self.task, "--agent", "Alice", "--commit", "HEAD")
        said: dict[str, object] = self.clone.call(*words).data
        return said

    def bases(self) -> tuple[bool, str]:
        """What the doctor says of the commits that work was held against."""
        checks = self.clone.call("doctor").data["checks"]
        return next((check["ok"], check["detail"]) for check in checks if check["name"] == "bases")


@pytest.mark.parametrize("is_sibling", [False, True], ids=["own commit", "beside the work"])
def test_rules_on_a_ref_of_the_remotes_base_that_was_moved_here_are_a_reviewers_business(
    machine: Machine, is_sibling: bool
) -> None:
    workspace = Workspace(machine)
    commit(workspace.clone, LAX, "remand.toml")
    workspace.clone.git("update-ref", "refs/remotes/origin/main", "HEAD")
    if is_sibling:
        workspace.clone.git("reset", "-q", "--hard", "main")
    commit(workspace.clone, "bad")
    said = workspace.submit()
    assert said["refused"] == "gate_held"
    assert "rules" in str(said["message"])


@pytest.mark.parametrize("way", ["rebase", "merge"])
def test_work_brought_up_to_a_base_that_others_have_moved_on_passes(machine: Machine, way: str) -> None:
    workspace = Workspace(machine)
    commit(workspace.clone, "new", "own.txt")
    commit(workspace.origin, "theirs", "other.txt")
    workspace.clone.git("fetch", "-q", "origin")
    workspace.clone.git(way, "-q", *(["--no-edit"] if way == "merge" else []), "origin/main")
    assert workspace.submit()["status"] == "provisional"
    assert workspace.bases() == (
        True,
        "the base contains every commit that work was compared with (tasks: 1)",
    )


def test_work_held_against_a_commit_that_the_base_never_had_is_named(machine: Machine) -> None:
    workspace = Workspace(machine)
    moved = commit(workspace.clone, "bad")
    workspace.clone.git("update-ref", "refs/remotes/origin/main", moved)
    commit(workspace.clone, "more", "own.txt")
    assert workspace.submit()["status"] == "provisional", "nothing tells it from work that others have merged"
    workspace.clone.git("fetch", "-q", "origin", "+main:refs/remotes/origin/main")
    is_ok, detail = workspace.bases()
    assert not is_ok
    assert f"{workspace.task} at {moved[:12]}" in detail
