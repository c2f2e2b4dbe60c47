"""Ways round a reviewer's no that were tried once, and stay closed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.forged_lines import line, put
from tests.integration.machine import Machine, Repository

TEAM = """
[gates]
[team]
members = [
  {name = "Fenster"}, {name = "Hockney"}, {name = "Verbal"},
  {name = "Lead", role = "lead"}, {name = "Dir", role = "director"},
  {name = "owner", role = "user", aliases = ["user"]},
]
"""


@pytest.fixture
def repository(near_machine: Machine) -> Repository:
    return near_machine.repository(config=TEAM)


def handed_in(repository: Repository, task: str, agent: str, text: str = "") -> str:
    """Work on a branch of the task's own, handed in; returns the commit."""
    repository.ok("task", "claim", task, "--agent", agent)
    repository.ok("task", "prompt", task, "--agent", agent)
    repository.git("checkout", "-q", "-B", f"work/{agent}", "main")
    commit = repository.commit("a.txt", text or f"by {agent}\n")
    repository.git("checkout", "-q", "main")
    repository.ok("task", "submit", task, "--agent", agent, "--commit", commit)
    return commit


def reject(repository: Repository, task: str, commit: str) -> Any:
    return repository.ok(
        "review", "reject", task, "--reviewer", "Lead", "--commit", commit, "--finding", "No"
    )


@pytest.fixture
def rejected(repository: Repository) -> tuple[str, str]:
    """A task of which Fenster's work was rejected, and that work."""
    task = repository.add("Component")
    commit = handed_in(repository, task, "Fenster")
    reject(repository, task, commit)
    return task, commit


def plant(repository: Repository, event: str, **fields: Any) -> None:
    """A line that nobody signed, in a file beside the others."""
    put(repository, line(event, **fields))


def shown(repository: Repository, task: str) -> Any:
    return repository.ok("task", "show", task)


def again(repository: Repository, task: str, agent: str, commit: str) -> str:
    """How an agent fares that hands a commit in."""
    repository.ok("task", "claim", task, "--agent", agent)
    repository.ok("task", "prompt", task, "--agent", agent)
    return repository.refused("task", "submit", task, "--agent", agent, "--commit", commit)


class TestTheSameChangeAgain:
    def test_on_a_base_that_has_moved_on(self, repository: Repository, rejected: tuple[str, str]) -> None:
        task, commit = rejected
        repository.ok("task", "claim", task, "--agent", "Hockney")
        repository.ok("task", "prompt", task, "--agent", "Hockney")
        repository.commit("other.txt", "other\n")
        repository.git("checkout", "-q", "-b", "work/x", "main")
        repository.git("cherry-pick", commit)

        assert (
            repository.refused("task", "submit", task, "--agent", "Hockney", "--commit", "HEAD")
            == "gate_held"
        )
        (question,) = repository.ok("inbox")
        assert (question["task_id"], "rejected before" in question["question"]) == (task, True)

    @pytest.mark.parametrize("disguise", ["mode", "blank line", "spaces"])
    def test_in_a_disguise(self, repository: Repository, rejected: tuple[str, str], disguise: str) -> None:
        task, commit = rejected
        repository.git("checkout", "-q", "-b", "work/x", "main")
        repository.git("cherry-pick", "--no-commit", commit)
        path = repository.path / "a.txt"
        if disguise == "mode":
            path.chmod(0o755)
        else:
            path.write_text(path.read_text() + ("\n" if disguise == "blank line" else "  \n"))
        repository.git("add", "-A", ":!.got")
        repository.git("commit", "-q", "-m", "mine")

        assert again(repository, task, "Hockney", "HEAD") == "gate_held"

    def test_under_a_copy_of_the_task(self, repository: Repository, rejected: tuple[str, str]) -> None:
        _, commit = rejected
        copy = repository.add("Component (again)", "--as", "Fenster")

        assert again(repository, copy, "Fenster", commit) == "gate_held"

    def test_it_passes_when_the_user_says_so(self, repository: Repository, rejected: tuple[str, str]) -> None:
        task, commit = rejected
        repository.git("checkout", "-q", "--detach", commit)
        repository.git("commit", "-q", "--amend", "-m", "mine")
        commit = repository.head()
        repository.git("checkout", "-q", "main")
        assert again(repository, task, "Hockney", commit) == "gate_held"
        (question,) = repository.ok("inbox")
        held = next(word for word in question["question"].split() if word.startswith("same-")).rstrip("`")
        assert repository.refused("gate", "accept", task, held, "--reviewer", "Lead") == "user_only"
        repository.ok("gate", "accept", task, held, "--reviewer", "owner")
        repository.ok("task", "claim", task, "--agent", "Hockney")
        repository.ok("task", "prompt", task, "--agent", "Hockney")

        repository.ok("task", "submit", task, "--agent", "Hockney", "--commit", commit)
        assert shown(repository, task)["status"] == "provisional"


class TestLinesInFiles:
    def test_a_line_with_an_earlier_date_does_not_undo_a_rejection(
        self, repository: Repository, rejected: tuple[str, str]
    ) -> None:
        task, commit = rejected
        claim = next(one for one in shown(repository, task)["history"] if one["event"] == "task.claim")
        handoff = next(one["handoff_id"] for one in shown(repository, task)["handoffs"])
        plant(
            repository,
            "task.release",
            ts=f"{claim['ts'][:-1]}"[:-1] + "9Z",
            task_id=task,
            handoff_id=handoff,
            agent="Fenster",
        )

        assert shown(repository, task)["rejection_count"] == 1
        assert repository.refused("task", "claim", task, "--agent", "Fenster") == "locked_out"
        assert again(repository, task, "Hockney", commit) == "nothing_committed"

    def test_a_receipt_is_not_written_by_hand(
        self, repository: Repository, rejected: tuple[str, str]
    ) -> None:
        task, _ = rejected
        held = repository.ok("task", "claim", task, "--agent", "Hockney")
        plant(
            repository,
            "feedback.fetch",
            ts="2026-12-01T00:00:00.000000Z",
            task_id=task,
            handoff_id=held["handoff_id"],
            agent="Hockney",
            count=99,
        )
        repository.git("checkout", "-q", "-b", "work/x", "main")
        commit = repository.commit("b.txt", "b\n")

        assert (
            repository.refused("task", "submit", task, "--agent", "Hockney", "--commit", commit)
            == "feedback_unread"
        )

    def test_a_line_of_another_tool_does_not_make_a_task_done(
        self, repository: Repository, rejected: tuple[str, str]
    ) -> None:
        task, _ = rejected
        old = {
            "ts": "2020-01-01T00:00:00Z",
            "event": "node.create",
            "id": f"task:{task}",
            "type": "TASK",
            "data": {"title": "Component", "description": "", "status": "completed"},
            "meta": {"branch": "main", "session": "x"},
        }
        put(repository, json.dumps(old).encode())
        assert shown(repository, task)["status"] == "rejected"

        assert repository.ok("log", "import", str(repository.path))["imported"] == 1
        assert shown(repository, task)["status"] == "rejected"
        assert repository.refused("task", "claim", task, "--agent", "Fenster") == "locked_out"

    def test_a_task_is_not_written_down_before_the_time_its_id_tells(
        self, repository: Repository, rejected: tuple[str, str]
    ) -> None:
        task, _ = rejected
        plant(
            repository,
            "node.create",
            ts="2020-01-01T00:00:00.000000Z",
            id=f"task:{task}",
            type="TASK",
            data={"title": "Other", "skills": ["nobody-has"]},
        )

        assert (shown(repository, task)["title"], shown(repository, task)["status"]) == (
            "Component",
            "rejected",
        )

    def test_a_task_is_not_edited_by_hand(self, repository: Repository, rejected: tuple[str, str]) -> None:
        task, _ = rejected
        plant(
            repository,
            "node.update",
            ts="2026-11-30T00:00:00.000000Z",
            id=f"task:{task}",
            changes={"pr": 99, "branch": "zzz"},
        )

        assert shown(repository, task)["branch"] != "zzz"


class TestTheUsersQuestion:
    @pytest.fixture
    def escalated(self, repository: Repository) -> str:
        task = repository.add("Component")
        for agent in ("Fenster", "Hockney", "Verbal"):
            reject(repository, task, handed_in(repository, task, agent))
        return task

    @pytest.mark.parametrize("way", ["reopen", "cancel"])
    def test_a_director_does_not_answer_it(self, repository: Repository, escalated: str, way: str) -> None:
        assert repository.refused("task", way, escalated, "--as", "Dir") == "user_only"
        assert len(repository.ok("inbox")) == 1

    def test_nobody_puts_it_back_into_a_queue_that_nobody_may_take_it_from(
        self, repository: Repository, escalated: str
    ) -> None:
        assert repository.refused("task", "reopen", escalated) == "bad_value"
        assert repository.refused("inbox", "answer", escalated, "reopen") == "bad_value"

    def test_a_task_that_nobody_is_left_for_is_asked_about_when_it_comes_back(
        self, near_machine: Machine
    ) -> None:
        config = '[gates]\n[team]\nmembers = [{name = "Solo"}, {name = "owner", role = "user", aliases = ["user"]}]\n'
        repository = near_machine.repository("solo", config)
        task = repository.add("Component")
        for _ in range(2):
            repository.ok("task", "claim", task, "--agent", "Solo")
            repository.ok("task", "fail", task, "--agent", "Solo", "--reason", "no")
            repository.ok("task", "reopen", task)

        assert [one["kind"] for one in repository.ok("inbox")] == ["deadlock"]

    def test_who_is_locked_out_is_told_so_and_not_how_to_go_on(
        self, repository: Repository, rejected: tuple[str, str]
    ) -> None:
        assert repository.refused("task", "prompt", rejected[0], "--agent", "Fenster") == "locked_out"


def test_a_name_that_is_no_text_is_no_task(repository: Repository) -> None:
    assert repository.refused("reject-task", "\udcff", "No") == "unknown_task"


def test_a_second_command_to_reject_locks_out_again_after_a_retraction(repository: Repository) -> None:
    task = repository.add("Component")
    handed_in(repository, task, "Fenster")
    repository.ok("reject-task", task, "No", "--reviewer", "Lead")
    repository.ok("review", "retract", task, "--reviewer", "Lead", "--reason", "misread")
    again = repository.ok("reject-task", task, "No, really", "--reviewer", "Lead")

    assert (again["rejection_count"], again["locked_out"]) == (1, ["Fenster"])
