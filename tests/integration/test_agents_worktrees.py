"""Commands inside a worktree that Remand made for a task: they read the main repository's events, never that worktree's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from remand.adapters.git.location import locate
from remand.wiring.ledger import find_place
from remand.wiring.scheduler import make_worktrees
from tests.integration.forged_lines import line
from tests.integration.machine import Machine, Repository


class Agents:
    """An agent's worktree, and the repository it belongs to."""

    def __init__(self, machine: Machine) -> None:
        self.main = machine.repository()
        self.task = self.main.add("Mend the roof")
        place = find_place(str(self.main.path))
        made = make_worktrees(place).prepare(
            self.task, f"remand/{self.task}", self.main.head(), is_confined=True
        )
        self.tree = Repository(machine, Path(made.folder))
        self.private = Path(made.private_dir)

    def titles(self, folder: Path) -> list[str]:
        """The tasks that a command run in a folder knows."""
        return sorted(row["title"] for row in Repository(self.main.machine, folder).ok("task", "list"))

    def put(self, folder: Path) -> None:
        """Event files as an agent would leave them: unsigned, forged, and signed by a key that is trusted here."""
        events = folder / ".got" / "events"
        events.mkdir(parents=True, exist_ok=True)
        forged = line("task.cancel", task_id=self.task) + b"\n"
        (events / "0unsigned.jsonl").write_bytes(forged)
        group = self.main.segments()[0].read_bytes().partition(b"\n")[0]
        (events / "1forged.jsonl").write_bytes(group.replace(b'"first":1', b'"first":9') + b"\n" + forged)
        other = self.main.machine.clone(self.main, f"other-{folder.name}")
        other.add("From elsewhere")
        shutil.copy(other.segments()[-1], events / "2signed.jsonl")


@pytest.fixture
def agents(near_machine: Machine) -> Agents:
    return Agents(near_machine)


def test_nothing_is_taken_in_from_an_agents_worktree(agents: Agents) -> None:
    agents.put(agents.tree.path)
    before = agents.main.digest()

    assert agents.titles(agents.tree.path) == ["Mend the roof"]
    assert agents.tree.digest() == agents.main.digest() == before
    assert agents.main.ok("keys")["unconfirmed"] == []
    with agents.main.coordinator():
        assert agents.tree.digest() == before


def test_the_same_files_in_a_persons_own_worktree_are_read(agents: Agents) -> None:
    path = agents.main.machine.folder / "own"
    agents.main.git("worktree", "add", "-q", "-b", "own", str(path))
    agents.put(path)

    assert agents.titles(path) == ["From elsewhere", "Mend the roof"]


def repository_of_its_own(agents: Agents) -> None:
    os.unlink(agents.tree.path / ".git")
    agents.main.machine.git(agents.tree.path, "init", "-q", "-b", "main")


def entry_of_its_own(agents: Agents) -> None:
    fake = agents.tree.path / "fake"
    fake.mkdir()
    (fake / "commondir").write_text(f"{agents.main.path}/.git\n")
    (fake / "HEAD").write_text("ref: refs/heads/main\n")
    (fake / "gitdir").write_text(f"{agents.tree.path}/.git\n")
    (agents.tree.path / ".git").write_text(f"gitdir: {fake}\n")


def entry_of_another(agents: Agents) -> None:
    path = agents.main.machine.folder / "own"
    agents.main.git("worktree", "add", "-q", "-b", "own", str(path))
    (agents.tree.path / ".git").write_text((path / ".git").read_text())


def its_private_folder(agents: Agents) -> None:
    entry = next((agents.private / "worktrees").iterdir())
    (agents.tree.path / ".git").write_text(f"gitdir: {entry}\n")


def nothing_at_all(agents: Agents) -> None:
    os.unlink(agents.tree.path / ".git")


@pytest.mark.parametrize(
    "trick",
    [repository_of_its_own, entry_of_its_own, entry_of_another, its_private_folder, nothing_at_all],
    ids=lambda trick: trick.__name__,
)
def test_an_agent_cannot_make_its_worktree_look_like_a_persons(
    agents: Agents, trick: Callable[[Agents], None]
) -> None:
    agents.put(agents.tree.path)
    trick(agents)

    assert agents.titles(agents.tree.path) == ["Mend the roof"]
    found = locate(str(agents.tree.path))
    assert found is not None
    assert (found.root, found.event_folders) == (str(agents.main.path), (str(agents.main.events),))


@pytest.mark.parametrize("inner", [".got", ".git", "HEAD"])
def test_no_ledger_or_repository_further_down_in_it_counts(agents: Agents, inner: str) -> None:
    below = agents.tree.path / "sub"
    below.mkdir()
    if inner == ".git":
        agents.main.machine.git(below, "init", "-q")
    if inner == "HEAD":
        agents.main.machine.git(below, "init", "-q", "--bare")
    agents.put(below)

    found = locate(str(below))
    assert found is not None
    assert (found.root, found.worktree) == (str(agents.main.path), str(agents.tree.path))
    assert agents.titles(below) == ["Mend the roof"]


def test_a_ledger_that_is_committed_further_down_is_not_taken_for_the_repositorys(agents: Agents) -> None:
    below = agents.main.path / "sub"
    agents.put(below)

    found = locate(str(below))
    assert found is not None
    assert found.root == str(agents.main.path)


@pytest.mark.parametrize("mode", [0o755, 0o700], ids=oct)
def test_what_a_branch_carries_cannot_pass_for_a_folder_of_worktrees(agents: Agents, mode: int) -> None:
    """Files that look like ours, with a repository that looks like one, in the user's own checkout."""
    root = agents.main.path
    victim, fake = root / "x" / "T-1", root / "fake"
    for folder in (root / "x" / ".own" / "locks", victim, fake / "worktrees" / "remand-T-1"):
        folder.mkdir(parents=True)
    (root / "x" / ".own").chmod(mode)
    (root / "x" / ".own" / "locks" / "repository").symlink_to(fake)
    (fake / "worktrees" / "remand-T-1" / "gitdir").write_text(f"{victim}/.git\n")

    found = locate(str(victim))
    assert found is not None
    assert (found.root, found.worktree) == (str(root), str(root))
