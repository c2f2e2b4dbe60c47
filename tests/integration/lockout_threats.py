"""What befalls a project in which an agent was locked out: each is one way in which a lockout might get lost."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from remand.adapters.system.machine import SystemClock
from remand.domain.instant import Instant, add_seconds
from tests.integration.killed_clients import Point, chosen_point
from tests.integration.machine import PATIENCE, Machine
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

AUTHOR, WORKERS, REVIEWER = "Fenster", ("Hockney", "McManus"), "Lead"
LOCKED, NO_PART = "locked_out", "own_work"
EVENTS = ".got/events"
SHIFTS = (-9, -1, 1, 9)
"""Half minutes by which the clock is wrong. Commands after a larger change back would be refused, which is another matter."""
CUT_OFF = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from tests.integration.killed_clients import Point, dies_at
from remand.interfaces.cli.entry import main
count, event, name = (sys.argv.pop(1) for _ in range(3))
dies_at(Point(int(count), event.strip(), name.strip()))
main()
"""
"""Runs the command line, which kills itself at a point."""


def configuration(name: str, *aliases: str, keys: Sequence[str] = ()) -> str:
    """A team in which the author may review, too; under which names it goes, and whose events count, is given."""
    others = "".join(f'  {{name = "{worker}", role = "agent"}},\n' for worker in WORKERS)
    return (
        f'[project]\nbase = "main"\n\n[keys]\ntrusted = {json.dumps(keys)}\n\n[team]\nmembers = [\n'
        f'  {{name = "{name}", roles = ["agent", "lead"], aliases = {json.dumps(aliases)}}},\n{others}'
        f'  {{name = "{REVIEWER}", role = "lead"}},\n  {{name = "owner", role = "user"}},\n]\n\n'
        "[policy]\nauto_reformulate = true\n\n[gates]\n"
    )


class Site:
    """A project on whose one task the author's work was rejected, and what befell it since."""

    def __init__(self, machine: Machine, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = machine
        self.names = [AUTHOR, "fen"]
        """Every name the author ever went by, the latest first."""
        self._keys: list[str] = []
        """The keys of the machines that somebody has left."""
        self._chance = chance
        self._monkeypatch = monkeypatch
        self._number = 0
        self.repository = machine.repository("site", configuration(*self.names))
        self.start = self.repository.head()
        self.tasks = [self.repository.add(TITLE, "--scope", SCOPE, "--branch", "work")]
        self.commit = self._rejected(self.tasks[0])

    def _rejected(self, task: str) -> str:
        repository = self.repository
        repository.ok("task", "claim", task, "--agent", AUTHOR)
        commit = self.work()
        repository.ok("task", "submit", task, "--agent", AUTHOR, "--commit", commit, "--branch", "work")
        finding = ("--finding", "src/work.py:1: It leaks")
        answer = repository.ok("review", "reject", task, "--reviewer", REVIEWER, "--commit", commit, *finding)
        assert answer["locked_out"] == [AUTHOR]
        return commit

    def work(self) -> str:
        """A new commit on the task's branch; what is checked out stays."""
        self._number += 1
        repository, here = self.repository, self.branch()
        if not repository.git("branch", "--list", "work"):
            repository.git("branch", "-q", "work", self.start)
        repository.git("checkout", "-q", "work")
        commit = repository.commit("src/work.py", f"work {self._number}\n")
        repository.git("checkout", "-q", here)
        return commit

    def branch(self) -> str:
        """The branch that is checked out."""
        return self.repository.git("branch", "--show-current").strip()

    # What can befall it.

    def restart(self) -> None:
        """The coordinator is killed, and another one started."""
        for _ in range(2):
            with self.repository.coordinator():
                assert self.try_claim() == LOCKED
        Path(self.repository.socket()).unlink()

    def kill(self) -> None:
        """A command is killed somewhere on its way."""
        task = self._chance.choice(self.tasks)
        commands = (
            ("task", "edit", task, "--priority", self._chance.choice(("low", "high"))),
            ("task", "claim", task, "--agent", self.names[0]),
            ("log", "rebuild"),
            ("log", "publish"),
        )
        point = chosen_point(self._chance) or Point(self._chance.randrange(100, 30_000))
        place = (str(point.count), f" {point.event}", f" {point.name}")
        root = str(Path(__file__).parents[2])
        command = (sys.executable, "-c", CUT_OFF, root, *place, *self._chance.choice(commands))
        process = self.machine.start(self.repository.path, *command)
        process.communicate(timeout=PATIENCE)
        for path in (self.repository.path / ".git").rglob("*.lock"):
            path.unlink()

    def rebuild(self) -> None:
        """Every table is made anew."""
        self.repository.ok("log", "rebuild")

    def forget(self) -> None:
        """The ledger is deleted; its files are there."""
        self._come_home()
        self.repository.forget_ledger()

    def publish(self) -> None:
        """The events are committed on the branch that is checked out."""
        self.repository.ok("log", "publish")

    def clone(self) -> None:
        """Somebody goes on in a fresh clone."""
        self._come_home()
        self._number += 1
        self.repository = self.machine.clone(self.repository, f"clone-{self._number}")
        self.repository.git("branch", "-q", "work", "origin/work")
        self.repository.git("remote", "remove", "origin")

    def _come_home(self) -> None:
        """Everything is on the base: from another branch, what the base has would not be seen without the ledger."""
        self.repository.git("checkout", "-q", "main")
        self.publish()

    def clone_elsewhere(self) -> None:
        """Somebody goes on in a fresh clone on another machine, which has another key. The base trusts the old one."""
        self._keys.append(self.repository.ok("keys")["own"]["key"])
        self._configure()
        self.clone()
        state = self.machine.folder / f"state-{self._number}"
        state.mkdir()
        self.machine.environment["XDG_STATE_HOME"] = str(state)
        self._monkeypatch.setenv("XDG_STATE_HOME", str(state))

    def other_branch(self) -> None:
        """A branch is checked out that does not have the event files."""
        self.publish()
        self._number += 1
        self.repository.git("checkout", "-q", "-b", f"other-{self._number}", self.start)
        if self._chance.random() < 0.5:
            assert self.try_claim() == LOCKED
            self.repository.git("checkout", "-q", "main")

    def revert(self) -> None:
        """The commit that published the events is taken back."""
        repository = self.repository
        self.publish()
        for commit in repository.git(
            "log", "--no-merges", "--diff-filter=A", "--format=%H", "--", EVENTS
        ).split():
            names = repository.git("show", "--name-only", "--format=", commit).split()
            there = repository.git("ls-tree", "--name-only", "HEAD", *names).split()
            if sorted(there) == sorted(names):
                repository.git("revert", "--no-edit", commit)
                return

    def change_clock(self) -> None:
        """The machine's clock is set back, or forward."""
        seconds = 30.0 * self._chance.choice(SHIFTS)

        class WrongClock(SystemClock):
            def now(self) -> Instant:
                return add_seconds(super().now(), seconds)

        self._monkeypatch.setattr("remand.wiring.ledger.SystemClock", WrongClock)

    def rename(self) -> None:
        """The author gets another name; the old ones are its aliases."""
        self._number += 1
        self.names.insert(0, f"Keyser-{self._number}")
        self._configure()

    def _configure(self) -> None:
        here = self.branch()
        self.repository.git("checkout", "-q", "main")
        self.repository.configure(configuration(*self.names, keys=self._keys))
        self.repository.git("checkout", "-q", here)

    def cut(self) -> None:
        """Whoever took over rejects the task: it is cut into parts, or put in other words."""
        if len(self.tasks) > 1 or self._is_over(self.tasks[0]):
            return
        worker, handoff = self.taken(self.tasks[0])
        self._number += 1
        path = self.machine.folder / f"rejection-{self._number}.json"
        path.write_text(json.dumps(a_rejection(self._chance.choice(("SCOPE_CREEP", "INFEASIBLE")))))
        answer = self.repository.ok("handoff", "reject", handoff, "--agent", worker, "--from", str(path))
        self.tasks = [*answer["decision"]["created_tasks"], *self.tasks]

    def _is_over(self, task: str) -> bool:
        return self.repository.ok("task", "show", task)["status"] not in ("incoming", "rejected")

    # Who may do what now.

    def taken(self, task: str) -> tuple[str, str]:
        """Has somebody else take a task; returns who it was, and the handoff."""
        answers = {name: self.repository.call("task", "claim", task, "--agent", name) for name in WORKERS}
        found = [(name, said.data["handoff_id"]) for name, said in answers.items() if said.code == 0]
        assert found, f"nobody may work on {task}: {answers}"
        return found[0]

    def try_claim(self) -> str:
        """The refusal with which the author is kept away from some task under some name."""
        task, name = self._chance.choice(self.tasks), self._chance.choice(self.names)
        return self.repository.refused("task", "claim", task, "--agent", name)

    def accepted_calls(self, task: str) -> list[str]:
        """The ways by which the author comes at a task again; none when the lockout holds."""
        handoffs = self.repository.ok("task", "show", task)["handoffs"]
        handoff = handoffs[-1]["handoff_id"] if handoffs else "H-none"
        refused = {LOCKED, NO_PART, "not_eligible"}
        refusals_by_call: dict[tuple[str, ...], set[str]] = {}
        for name in self.names:
            refusals_by_call |= {
                ("task", "claim", task, "--agent", name): {LOCKED},
                ("task", "submit", task, "--agent", name, "--commit", self.commit): {LOCKED},
                ("handoff", "initiate", task, "--to", name): {LOCKED, "bad_transition"},
                ("reassign", task, "--to", name): refused | {"bad_transition"},
                ("handoff", "accept", handoff, "--agent", name): refused
                | {"not_yours", "handoff_closed", "unknown_handoff"},
                ("unlock", name, "--task", task, "--reason", "me", "--as", name): {"user_only"},
                ("review", "approve", task, "--reviewer", name, "--commit", self.commit): refused
                | {"nothing_to_review", "stale_review"},
            }
        said = {call: self.repository.call(*call) for call in refusals_by_call}
        return [
            f"{' '.join(call)} → {answer.code} {answer.out.strip()[:200]}"
            for call, answer in said.items()
            if answer.code != 1 or answer.data["refused"] not in refusals_by_call[call]
        ]


DISTURBANCES: dict[str, Callable[[Site], None]] = {
    "restart": Site.restart,
    "kill": Site.kill,
    "rebuild": Site.rebuild,
    "forget": Site.forget,
    "clone": Site.clone,
    "clone elsewhere": Site.clone_elsewhere,
    "other branch": Site.other_branch,
    "revert": Site.revert,
    "clock": Site.change_clock,
    "rename": Site.rename,
    "cut": Site.cut,
}
