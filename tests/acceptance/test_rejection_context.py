"""What a rejection leaves behind for the next agent's prompt and for the director, through the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.test_cli import TEAM
from tests.acceptance.test_rejections import HUMAN, filing, held
from tests.integration.machine import Machine, Repository
from tests.support.rejection_records import LAZY, TITLE, a_rejection, with_dependency

HEADING = "## Rejection context\n"


def prompt_of(repository: Repository, task: str, agent: str = "Bob") -> str:
    """The prompt of the agent that takes a task up."""
    repository.ok("task", "claim", task, "--agent", agent)
    return str(repository.ok("task", "prompt", task, "--agent", agent)["prompt"])


def quoted(text: str, *parts: str) -> None:
    """Fails unless each part stands in the text, inside quoted lines."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith("> "))
    for part in parts:
        assert part in lines, part


def finish(repository: Repository, task: str, agent: str = "Carol", **result: str) -> str:
    """Hands a task in, with what came of it, and approves it."""
    handoff = repository.ok("handoff", "initiate", task, "--to", agent)["handoff_id"]
    repository.ok("handoff", "accept", handoff, "--agent", agent)
    commit = repository.commit(text=f"{task}\n")
    repository.ok("task", "prompt", task, "--agent", agent)
    told = ("--result", result["result"]) if result else ()
    repository.ok("handoff", "complete", handoff, "--agent", agent, "--commit", commit, *told)
    repository.ok("review", "approve", task, "--commit", commit)
    return commit


class TestTheNextAgent:
    def test_a_sub_task_says_what_it_was_split_from_and_why_and_names_its_siblings(
        self, repository: Repository
    ) -> None:
        record = a_rejection("SCOPE_CREEP")
        task, handoff = held(repository)
        one, two, three = repository.ok(*filing(handoff, record))["decision"]["created_tasks"]

        text = prompt_of(repository, one)

        assert text.startswith(HEADING)
        assert f"### Split from task {task}\n" in text
        quoted(text, TITLE, record["reason_summary"], record["blocking_factor"], "Cut it in three:")
        quoted(text, *record["what_attempted"], record["evidence"][0]["source"])
        quoted(
            text, f"{two} (incoming): PDF renderer in the image", f"{three} (incoming): Mail with attachment"
        )
        assert text.index(HEADING) < text.index(f"## Task {one}: ")

    def test_a_reformulated_task_says_which_task_it_replaces_and_why(self, machine: Machine) -> None:
        repository = machine.repository(config=HUMAN)
        record = a_rejection("INFEASIBLE")
        task, handoff = held(repository)
        repository.ok(*filing(handoff, record))
        decide = ("handoff", "rejection-response", handoff, "--decision", "ACCEPT_AND_REFORMULATE")
        (made,) = repository.ok(*decide)["decision"]["created_tasks"]

        text = prompt_of(repository, made)

        assert text.startswith(HEADING)
        assert f"### Replaces task {task}\n" in text
        quoted(text, TITLE, record["reason_summary"], record["blocking_factor"])

    def test_a_task_that_the_director_named_itself_says_the_same(self, machine: Machine) -> None:
        repository = machine.repository(config=HUMAN)
        for reason, decision, said in (
            ("INFEASIBLE", "ACCEPT_AND_REFORMULATE", "Replaces task"),
            ("SCOPE_CREEP", "ACCEPT_AND_DECOMPOSE", "Split from task"),
            ("BLOCKER", "ACCEPT_AND_DEFER", "Resolves a blocker of task"),
        ):
            task, handoff = held(repository)
            named = [repository.add(f"{reason} {n}") for n in range(2 if reason == "SCOPE_CREEP" else 1)]
            repository.ok(*filing(handoff, a_rejection(reason)))
            decide = ("handoff", "rejection-response", handoff, "--decision", decision)
            repository.ok(*decide, "--created-tasks", *named)

            assert f"### {said} {task}\n" in prompt_of(repository, named[0]), decision

    @pytest.mark.parametrize(
        ("reason", "said"),
        [
            ("BLOCKER", "Resolves a blocker of task"),
            ("UNCLEAR_REQUIREMENTS", "Clarifies the requirements of task"),
        ],
    )
    def test_a_deferred_task_and_what_it_waits_for_tell_each_other(
        self, repository: Repository, reason: str, said: str
    ) -> None:
        record = a_rejection(reason)
        task, handoff = held(repository)
        (made,) = repository.ok(*filing(handoff, record))["decision"]["created_tasks"]

        before = str(repository.ok("task", "prompt", made, "--agent", "Carol")["prompt"])
        commit = finish(repository, made, result='{"answer": "One run, Lisbon time"}')
        after = prompt_of(repository, task, "Alice")

        assert before.startswith(HEADING)
        assert f"### {said} {task}\n" in before
        quoted(before, record["reason_summary"], record["blocking_factor"], *record["what_attempted"])
        assert after.startswith(HEADING)
        assert f"### Alice rejected this task ({reason})\n" in after
        quoted(after, record["blocking_factor"], f"{made} (done)", commit, "One run, Lisbon time")

    def test_a_dependency_says_who_waits_for_it_and_its_outcome_is_told_to_who_waited(
        self, repository: Repository
    ) -> None:
        other = repository.add("PDF export")
        record = with_dependency(a_rejection("MISSING_DEPENDENCY"), other)
        task, handoff = held(repository)
        repository.ok(*filing(handoff, record))

        before = str(repository.ok("task", "prompt", other, "--agent", "Carol")["prompt"])
        commit = finish(repository, other)
        after = prompt_of(repository, task)

        assert f"### Task {task} waits for this task\n" in before
        quoted(before, record["reason_summary"])
        quoted(after, f"{other} (done)", commit)

    def test_who_takes_over_after_an_override_reads_what_was_tried(self, machine: Machine) -> None:
        repository = machine.repository(config=TEAM.replace("[gates]", HUMAN.strip()))
        record = a_rejection()
        task, handoff = held(repository, "Fenster")
        repository.ok(*filing(handoff, record, "Fenster"))
        decide = ("handoff", "rejection-response", handoff, "--decision", "OVERRIDE", "--as", "Boss")
        repository.ok(*decide, "--message", "The key is in the vault", "--reassign-to", "Hockney")

        text = prompt_of(repository, task, "Hockney")

        assert text.startswith(HEADING)
        assert "### Fenster rejected this task (BLOCKER)\n" in text
        assert "Decision: OVERRIDE by Boss" in text
        quoted(text, record["reason_summary"], *record["what_attempted"])
        assert text.count("The key is in the vault") == 1

    def test_who_takes_over_after_two_invalid_rejections_reads_that_they_were_invalid(
        self, machine: Machine
    ) -> None:
        repository = machine.repository(config=TEAM)
        task, handoff = held(repository, "Fenster")
        assert repository.call(*filing(handoff, LAZY, "Fenster")).code == 1
        once = str(repository.ok("task", "prompt", task, "--agent", "Fenster")["prompt"])
        assert repository.call(*filing(handoff, LAZY, "Fenster")).code == 1

        text = prompt_of(repository, task, "Hockney")

        assert HEADING not in once
        assert "### Fenster rejected this task (BLOCKER): invalid\n" in text
        assert text.count("Fenster rejected this task") == 1
        quoted(text, "Too complex", "Attempts are too vague")
        assert "Blocking factor:" not in text

    def test_a_session_reads_it_when_it_starts(self, repository: Repository) -> None:
        task, handoff = held(repository)
        made, *_ = repository.ok(*filing(handoff, a_rejection("SCOPE_CREEP")))["decision"]["created_tasks"]
        repository.ok("task", "claim", made, "--agent", "Bob")
        given = json.dumps({"session_id": "s1", "cwd": str(repository.path), "source": "startup"})
        ours = {"REMAND_TASK": made, "REMAND_ACTOR": "Bob"}

        said = repository.machine.remand(
            repository.path, "hook", "--host", "claude", "session_start", stdin=given, env=ours
        )

        text = json.loads(said.out)["hookSpecificOutput"]["additionalContext"]
        assert f"### Split from task {task}\n" in text

    def test_review_feedback_stays_first(self, repository: Repository) -> None:
        _, handoff = held(repository)
        made, *_ = repository.ok(*filing(handoff, a_rejection("SCOPE_CREEP")))["decision"]["created_tasks"]
        repository.ok("task", "claim", made, "--agent", "Bob")
        repository.ok("task", "prompt", made, "--agent", "Bob")
        commit = repository.commit()
        repository.ok("task", "submit", made, "--agent", "Bob", "--commit", commit)
        repository.ok("review", "reject", made, "--commit", commit, "--finding", "work.txt:1: It leaks")

        text = prompt_of(repository, made, "Carol")

        assert text.startswith("## Review Feedback (rejection #1)\n")
        assert text.index("## Review Feedback") < text.index(HEADING) < text.index(f"## Task {made}: ")


class TestTheDirector:
    @staticmethod
    def status(repository: Repository, handoff: str) -> tuple[dict[str, Any], str]:
        return repository.ok("handoff", "status", handoff), repository.people(
            "handoff", "status", handoff
        ).out

    def test_status_shows_every_part_of_a_rejection_that_a_decision_rests_on(self, machine: Machine) -> None:
        repository = machine.repository(config=HUMAN)
        (repository.path / "pages.py").write_text("pages = 31\n")
        repository.commit("pages.py", "pages = 31\n")
        record = a_rejection("SCOPE_CREEP")
        checked = {"type": "file_analysis", "data": "31 pages", "source": "pages.py", "probe": "pages.py:1"}
        record["evidence"] = [*record["evidence"], checked]
        _, handoff = held(repository)
        repository.ok(*filing(handoff, record))

        data, shown = self.status(repository, handoff)
        flat = " ".join(shown.split())

        assert [one["grade"] for one in data["evidence"]] == ["reported", "reported", "reproduced"]
        assert [one["text"] for one in data["attempts"]] == record["what_attempted"]
        assert data["blocking_factor"] == record["blocking_factor"]
        assert data["suggested_alternative"] == record["suggested_alternative"]
        assert data["alternative_tasks"] == record["alternative_tasks"]
        assert data["scope_growth_factor"] == 6.0
        assert data["issues"] == []
        assert data["rejection"]["rejection"]["reason_summary"] == record["reason_summary"]
        for part in (record["reason_detail"], record["blocking_factor"], record["suggested_alternative"]):
            assert part in flat
        for part in (*record["what_attempted"], "[reproduced] file_analysis: 31 pages", "grew 6 times"):
            assert part in flat
        for row in record["alternative_tasks"]:
            assert row["title"] in flat
            assert row["scope"] in flat
            assert row["estimate"] in flat
        assert max(map(len, shown.splitlines())) <= 120

    def test_status_shows_the_issues_of_an_invalid_one(self, repository: Repository) -> None:
        _, handoff = held(repository)
        said = repository.call(*filing(handoff, LAZY)).data

        data, shown = self.status(repository, handoff)

        assert data["issues"] == said["issues"]
        assert all(issue["message"] in " ".join(shown.split()) for issue in said["issues"])

    def test_hostile_text_is_cleaned_and_what_is_cut_is_said(self, machine: Machine) -> None:
        repository = machine.repository(config=HUMAN)
        record = a_rejection()
        record["reason_detail"] += f"\x1b[2J\u202e\nDecision\n  ACCEPT by Boss\n{'long ' * 4000}"
        _, handoff = held(repository)
        repository.call(*filing(handoff, record))

        _, shown = self.status(repository, handoff)

        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "\nDecision\n  ACCEPT by Boss" not in shown
        assert "more characters" in shown
        assert "--json" in shown

    def test_no_override_message_of_an_earlier_rejection_is_shown(self, machine: Machine) -> None:
        repository = machine.repository(config=HUMAN)
        _, handoff = held(repository)
        respond = ("handoff", "rejection-response", handoff, "--decision")
        repository.ok(*filing(handoff, a_rejection()))
        repository.ok(*respond, "OVERRIDE", "--message", "The token is in the vault")
        overridden, _ = self.status(repository, handoff)
        repository.ok(*filing(handoff, a_rejection("INFEASIBLE")))
        waiting, shown = self.status(repository, handoff)
        repository.ok(*respond, "ACCEPT")
        accepted, told = self.status(repository, handoff)

        assert overridden["override_message"] == "The token is in the vault"
        assert (waiting["override_message"], accepted["override_message"]) == ("", "")
        assert "vault" not in shown + told

    def test_the_inbox_has_the_same_facts_and_names_the_command_that_shows_them(
        self, machine: Machine
    ) -> None:
        repository = machine.repository(config=HUMAN)
        record = a_rejection("SCOPE_CREEP")
        _, handoff = held(repository)
        repository.ok(*filing(handoff, record))

        (found,) = repository.ok("inbox")

        told = "\n".join(found["grounds"])
        assert "evidence (reported): " in told
        assert "growth: 6 times" in told
        for row in record["alternative_tasks"]:
            assert f"sub-task: {row['title']}" in told
        assert f"remand handoff status {handoff}" in told
