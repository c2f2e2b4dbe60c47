"""Reviews, lockouts and the inbox as people, agents and scripts meet them on the command line."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from typing import Any

import pytest

from remand.domain.refusals import MEANINGS
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, Said, near_call

TEAM = """
[gates]
[team]
members = [
  {name = "Fenster", role = "agent", skills = ["frontend"], aliases = ["fen"]},
  {name = "McManus", role = "agent", skills = ["frontend"]},
  {name = "Hockney", role = "agent", skills = ["frontend", "accessibility"]},
  {name = "Backend", role = "agent", skills = ["api"]},
  {name = "CoreDev", role = "agent", skills = ["api"]},
  {name = "Lead", role = "lead"},
  {name = "Tester", role = "tester"},
  {name = "owner", role = "user"},
]
"""
QUESTION = {
    "escalation_id", "task_id", "title", "kind", "question", "options", "deadline", "default", "tried", "since",
    "acknowledged_by",
}  # fmt: skip
WAYS_ROUND = re.compile(
    r"--as\b|REMAND_\w+|\bunset\b|\bunlock\b|--force|--reviewer|inbox answer|override", re.IGNORECASE
)
"""What would tell an agent how to get round a rule."""
AGENT = {"REMAND_TASK": "T-1", "REMAND_ACTOR": "Fenster"}


@pytest.fixture
def team(machine: Machine) -> Repository:
    """A repository with a team."""
    return machine.repository(config=TEAM)


def handed_in(repository: Repository, task: str, agent: str, text: str = "") -> str:
    """Claims, reads, commits on the task's branch and hands in; returns the commit."""
    claimed = repository.ok("task", "claim", task, "--agent", agent)
    repository.ok("task", "prompt", task, "--agent", agent)
    branch = claimed["branch"] or "issue-42"
    repository.git("checkout", "-q", *(() if claimed["branch"] else ("-b",)), branch)
    commit = repository.commit(text=text or f"by {agent}")
    repository.ok("task", "submit", task, "--agent", agent, "--commit", "HEAD")
    repository.git("checkout", "-q", "main")
    return commit


def reject(repository: Repository, task: str, commit: str, text: str, reviewer: str = "Lead") -> Any:
    """A rejection with one blocking finding."""
    return repository.ok(
        "review", "reject", task, "--reviewer", reviewer, "--commit", commit, "--finding", text
    )


def deadlocked(repository: Repository) -> str:
    """A task that both agents with its skill were locked out of."""
    task = repository.add("The API", "--alias", "#42", "--skills", "api")
    for agent in ("Backend", "CoreDev"):
        commit = handed_in(repository, task, agent)
        reject(repository, task, commit, f"Integration tests fail for {agent}", "Tester")
    return task


def agents_call(repository: Repository, *arguments: str, actor: str = "Fenster") -> Said:
    """A call from inside an agent's environment, as people read it."""
    said = near_call(repository.path, arguments, AGENT | {"REMAND_ACTOR": actor})
    assert said is not None
    return said


class TestTheReassignExample:
    def test_the_colleague_with_the_skill_finishes_on_the_same_branch(self, team: Repository) -> None:
        task = team.add("A React component", "--alias", "#42", "--skills", "frontend")
        first = handed_in(team, task, "Fenster")

        rejected = reject(team, task, first, "src/View.tsx:12: Accessibility issues")

        assert rejected == {
            "task_id": task,
            "status": "rejected",
            "rejection_count": 1,
            "locked_out": ["Fenster"],
            "reassigned_to": "Hockney",
        }
        for name in ("Fenster", "fen"):
            assert team.refused("task", "claim", "#42", "--agent", name) == "locked_out"
        assert team.refused("task", "claim", "#42", "--agent", "McManus") == "waits_on_other"
        second = handed_in(team, task, "Hockney")
        assert team.git("rev-parse", f"{second}~1").strip() == first, "it goes on where Fenster stopped"
        assert team.ok("review", "approve", task, "--reviewer", "Lead", "--commit", second) == {
            "task_id": task,
            "status": "done",
        }
        shown = team.ok("task", "show", task)
        assert shown["lockouts"] == [], "the lockout ends with the task"
        (passed_on,) = shown["reassignments"]
        assert (passed_on["source"], passed_on["target"]) == ("Fenster", "Hockney")
        assert "accessibility" in passed_on["reason"]

    def test_an_agent_locked_out_of_one_task_may_work_on_another(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42")
        reject(team, task, handed_in(team, task, "Fenster"), "No")
        other = team.add("Another", "--alias", "#43")

        assert team.ok("task", "claim", "#43", "--agent", "Fenster")["task_id"] == other

    def test_people_read_who_is_locked_out_and_who_takes_over(self, team: Repository) -> None:
        task = team.add("The API", "--alias", "#42", "--skills", "api")
        commit = handed_in(team, task, "Backend")

        said = team.people(
            "review", "reject", task, "--reviewer", "Lead", "--commit", commit, "--finding", "It races"
        )

        assert "Backend is locked out of issue #42: It races" in said.out
        assert "CoreDev takes over (next eligible agent); it is the last eligible agent" in said.out


class TestTheEscalateExample:
    def test_when_all_agents_are_exhausted_the_user_is_asked(self, team: Repository) -> None:
        task = team.add("The API", "--alias", "#42", "--skills", "api")
        first = handed_in(team, task, "Backend")
        assert reject(team, task, first, "Integration tests fail", "Tester")["reassigned_to"] == "CoreDev"
        second = handed_in(team, task, "CoreDev")

        answer = reject(team, task, second, "They still fail", "Tester")

        assert (answer["status"], answer["reassigned_to"]) == ("escalated", None)
        assert (answer["rejection_count"], answer["locked_out"]) == (2, ["Backend", "CoreDev"])
        (asked,) = team.ok("inbox")
        assert set(asked) >= QUESTION
        assert (asked["escalation_id"], asked["task_id"]) == (answer["escalation_id"], task)
        assert (asked["kind"], asked["default"]) == ("deadlock", "wait")
        assert asked["question"] == (
            "Issue #42 rejected twice. Need guidance or manual fix. All agents locked out for issue #42. "
            "Options: 1) Manual fix, 2) Unlock Backend and provide guidance, 3) Unlock CoreDev and provide guidance, "
            "4) Close as won't-fix."
        )
        assert [option["key"] for option in asked["options"]] == [
            "fix", "unlock:Backend", "unlock:CoreDev", "wontfix",
        ]  # fmt: skip
        assert asked["tried"] == [
            "Tester rejected Backend's work: Integration tests fail",
            "Tester rejected CoreDev's work: They still fail",
        ]

    def test_people_read_the_question_in_the_rejection_and_in_the_inbox(self, team: Repository) -> None:
        task = team.add("The API", "--alias", "#42", "--skills", "api")
        reject(team, task, handed_in(team, task, "Backend"), "No", "Tester")
        commit = handed_in(team, task, "CoreDev")

        said = team.people(
            "review", "reject", task, "--reviewer", "Tester", "--commit", commit, "--finding", "Still no"
        )
        inbox = team.people("inbox").out

        assert "waits for the user: Issue #42 rejected twice." in said.out
        assert "All agents locked out for issue #42." in inbox
        assert "2) Unlock Backend, with guidance  [unlock:Backend]" in inbox
        assert "nothing is released or closed" in inbox

    def test_the_third_rejection_is_the_users(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        for agent in ("Fenster", "McManus", "Hockney"):
            if agent != "Fenster":
                team.ok("reassign", task, "--to", agent)
            answer = reject(team, task, handed_in(team, task, agent), f"Not yet, {agent}")

        assert answer["status"] == "escalated"
        (asked,) = team.ok("inbox")
        assert asked["kind"] == "reviews"
        assert asked["question"].startswith(
            "Issue #42 rejected 3 times. Need guidance or manual fix. Options: "
        )

    def test_an_inbox_without_questions_says_so(self, team: Repository) -> None:
        assert team.ok("inbox") == []
        assert team.people("inbox").out == "Nothing waits for you.\n"


class TestAnswers:
    def test_fix_gives_the_task_to_the_user(self, team: Repository) -> None:
        task = deadlocked(team)

        answer = team.ok("inbox", "answer", "#42", "fix")

        assert (answer["task_id"], answer["status"], answer["option"]) == (task, "claimed", "fix")
        team.git("checkout", "-q", "issue-42")
        commit = team.commit(text="mended by hand")
        handed = team.ok("task", "submit", task, "--agent", "user", "--commit", "HEAD")
        assert handed["status"] == "provisional"
        assert team.ok("review", "approve", task, "--commit", commit)["status"] == "done"

    def test_unlock_lets_the_agent_back_with_guidance(self, team: Repository) -> None:
        task = deadlocked(team)
        (asked,) = team.ok("inbox")

        answer = team.ok(
            "inbox", "answer", asked["escalation_id"], "unlock:Backend", "--guidance", "Use the new endpoint"
        )

        assert (answer["status"], answer["locked_out"]) == ("rejected", ["CoreDev"])
        assert answer["reassigned_to"] == "Backend"
        team.ok("task", "claim", task, "--agent", "Backend")
        assert "Use the new endpoint" in team.ok("task", "prompt", task, "--agent", "Backend")["prompt"]
        assert team.refused("task", "claim", task, "--agent", "CoreDev") == "locked_out"
        (row,) = team.ok("task", "show", task)["escalations"]
        assert (row["status"], row["option"], row["answered_by"]) == ("answered", "unlock:Backend", "owner")
        assert row["guidance"] == "Use the new endpoint"

    def test_reassign_gives_it_to_an_agent_that_may_work_on_it(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        reject(team, task, handed_in(team, task, "Fenster"), "No")
        team.ok("escalate", task, "--reason", "the team is stuck")

        answer = team.ok("inbox", "answer", task, "reassign:McManus", "--guidance", "Start over")

        assert (answer["status"], answer["reassigned_to"]) == ("rejected", "McManus")
        assert team.refused("task", "claim", task, "--agent", "Hockney") == "waits_on_other"
        team.ok("task", "claim", task, "--agent", "McManus")
        assert "Start over" in team.ok("task", "prompt", task, "--agent", "McManus")["prompt"]

    def test_reassign_to_one_locked_out_is_refused(self, team: Repository) -> None:
        deadlocked(team)

        assert team.refused("inbox", "answer", "#42", "reassign:Backend") == "locked_out"
        assert len(team.ok("inbox")) == 1

    def test_wontfix_closes_it(self, team: Repository) -> None:
        task = deadlocked(team)

        answer = team.ok("inbox", "answer", task, "wontfix", "--guidance", "Nobody uses it")

        assert answer["status"] == "cancelled"
        assert team.ok("inbox") == []

    def test_reopen_puts_it_back(self, team: Repository) -> None:
        task = team.add("A component")
        team.ok("escalate", task, "--reason", "What is meant?")

        assert team.ok("inbox", "answer", task, "reopen")["status"] == "incoming"

    def test_a_number_is_the_option_that_stands_there(self, team: Repository) -> None:
        task = deadlocked(team)

        assert team.ok("inbox", "answer", task, "4")["option"] == "wontfix"

    def test_what_is_no_option_is_refused_and_changes_nothing(self, team: Repository) -> None:
        deadlocked(team)
        before = team.digest()

        for option in (
            "0",
            "5",
            "999999999999",
            "burn",
            "unlock:",
            "fix:Backend",
            "unlock:Fenster",
            "reopen",
        ):
            assert team.refused("inbox", "answer", "#42", option) == "bad_value", option
        assert team.digest() == before

    def test_a_question_is_answered_once(self, team: Repository) -> None:
        deadlocked(team)
        (asked,) = team.ok("inbox")
        team.ok("inbox", "answer", asked["escalation_id"], "wontfix")

        for name in (asked["escalation_id"], "#42", "E-nothing"):
            assert team.refused("inbox", "answer", name, "fix") == "nothing_to_answer"
            assert team.refused("inbox", "ack", name) == "nothing_to_answer"
        assert team.refused("inbox", "answer", "#99", "fix") == "unknown_task"

    def test_a_repeated_key_gives_the_first_answer(self, team: Repository) -> None:
        deadlocked(team)
        (asked,) = team.ok("inbox")
        call = ("inbox", "answer", asked["escalation_id"], "wontfix", "--key", "once")

        assert team.ok(*call) == team.ok(*call)

    def test_a_question_that_was_seen_says_by_whom(self, team: Repository) -> None:
        deadlocked(team)
        (asked,) = team.ok("inbox")

        assert team.ok("inbox", "ack", asked["escalation_id"])["acknowledged_by"] == "owner"
        (seen,) = team.ok("inbox")
        assert seen["acknowledged_by"] == "owner"

    def test_nobody_but_the_user_answers(self, team: Repository) -> None:
        deadlocked(team)

        for call in (("inbox", "answer", "#42", "fix"), ("inbox", "ack", "#42")):
            assert team.refused(*call, "--as", "Lead") == "user_only"
            assert "user_only" in agents_call(team, *call, actor="user").err
        shown = agents_call(team, "inbox")
        assert shown.code == 0
        assert not WAYS_ROUND.search(shown.out.replace("unlock:", "").replace("Unlock", ""))

    def test_one_key_answers_on_a_terminal(self, team: Repository) -> None:
        task = deadlocked(team)
        own, shell = pty.openpty()
        process = subprocess.Popen(
            [REMAND, "inbox"],
            cwd=team.path,
            env=team.machine.environment,
            stdin=shell,
            stdout=shell,
            stderr=shell,
        )
        os.close(shell)
        os.write(own, b"9\n2\nUse the new endpoint\n")
        said = b""
        while chunk := _read(own):
            said += chunk
        process.wait(timeout=PATIENCE)
        os.close(own)

        assert process.returncode == 0, said
        assert re.search(rb"Answer E-\w+ with \[1-4\], enter to skip:", said)
        assert b"There is no option 9; choose one from 1 to 4." in said
        assert team.ok("task", "show", task)["escalations"][0]["option"] == "unlock:Backend"


def _read(terminal: int) -> bytes:
    """What a terminal shows next; nothing once its process has ended."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


class TestReviewing:
    def test_what_awaits_review_is_listed_with_who_may_review_it(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42")
        assert team.ok("review", "list") == []
        commit = handed_in(team, task, "Fenster")

        assert team.ok("review", "request", "#42", "--from", "Lead")["requested"] == ["Lead"]

        (row,) = team.ok("review", "list", "--for", "Lead")
        assert (row["task_id"], row["title"], row["commit"]) == (task, "A component", commit)
        assert (row["author"], row["requested"], row["attempt"]) == ("Fenster", ["Lead"], 1)
        assert (row["pr"], row["rejection_count"]) == (None, 0)
        assert row["since"]
        assert "A component" in team.people("review", "list").out
        assert team.refused("review", "list", "--for", "Hockney") == "not_authorised"
        assert team.refused("review", "request", "#42", "--from", "Hockney") == "bad_value"

    def test_nobody_is_listed_its_own_work(self, machine: Machine) -> None:
        both = TEAM.replace('{name = "Lead", role = "lead"}', '{name = "Lead", roles = ["lead", "agent"]}')
        repository = machine.repository(config=both)
        task = repository.add()
        commit = handed_in(repository, task, "Lead")

        assert repository.ok("review", "list", "--for", "Lead") == []
        assert len(repository.ok("review", "list", "--for", "owner")) == 1
        approve = ("review", "approve", task, "--reviewer", "Lead", "--commit", commit)
        assert repository.refused(*approve) == "own_work"

    def test_a_retraction_takes_count_and_lockout_back(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        commit = handed_in(team, task, "Fenster")
        reject(team, task, commit, "It leaks")
        (review,) = team.ok("task", "show", task)["reviews"]
        assert (review["is_retracted"], review["reviewer"]) == (False, "Lead")
        retract = ("review", "retract", task, "--reason", "It was the test")
        assert team.refused(*retract, "--reviewer", "Tester") == "not_yours"
        assert team.refused(*retract, "--reviewer", "Lead", "--review", "V-none") == "nothing_to_retract"

        answer = team.ok(*retract, "--reviewer", "Lead", "--review", review["review_id"])

        assert answer == {
            "task_id": task,
            "status": "provisional",
            "review_id": review["review_id"],
            "rejection_count": 0,
            "locked_out": [],
        }
        rows = team.ok("task", "show", task)["reviews"]
        assert [(row["event"], row.get("is_retracted")) for row in rows] == [
            ("review.reject", True),
            ("review.retract", None),
        ]
        assert "retracted" in team.people("task", "show", task).out
        assert team.refused(*retract, "--reviewer", "Lead") == "nothing_to_retract"
        assert (
            team.ok("review", "approve", task, "--reviewer", "Lead", "--commit", commit)["status"] == "done"
        )

    def test_a_second_review_of_the_same_work_adds_its_findings(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        commit = handed_in(team, task, "Fenster")
        reject(team, task, commit, "It leaks")

        answer = reject(team, task, commit, "No test covers it", "Tester")

        assert (answer["rejection_count"], answer["locked_out"]) == (1, ["Fenster"])
        team.ok("task", "claim", task, "--agent", "McManus")
        prompt = team.ok("task", "prompt", task, "--agent", "McManus")["prompt"]
        assert "It leaks" in prompt
        assert "No test covers it" in prompt

    def test_reassigning_by_hand_keeps_the_lockout(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        reject(team, task, handed_in(team, task, "Fenster"), "No")

        answer = team.ok("reassign", "#42", "--from", "fen", "--to", "McManus", "--reason", "he knows it")

        assert (answer["task_id"], answer["status"]) == (task, "rejected")
        assert (answer["reassigned_from"], answer["reassigned_to"]) == ("Fenster", "McManus")
        assert answer["locked_out"] == ["Fenster"]
        assert team.ok("task", "claim", "--agent", "McManus")["handoff_id"] == answer["handoff_id"]
        assert team.refused("reassign", "#42", "--to", "Fenster") == "locked_out"
        assert team.refused("reassign", "#42", "--to", "Lead") == "not_eligible"
        assert team.refused("reassign", "#42", "--to", "Hockney", "--from", "Backend") == "bad_value"

    def test_the_agent_that_holds_a_task_may_escalate_it_and_no_other(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42")
        team.ok("task", "claim", task, "--agent", "Fenster")

        assert team.refused("escalate", task, "--agent", "Hockney", "--reason", "x") == "not_yours"
        answer = team.ok("escalate", task, "--agent", "Fenster", "--reason", "Which colour?")

        assert (answer["task_id"], answer["status"]) == (task, "escalated")
        assert answer["question"].startswith(
            "Issue #42 needs a decision: Which colour? Options: 1) Manual fix,"
        )
        assert team.refused("escalate", task, "--reason", "again") == "bad_transition"


class TestRejectTask:
    def test_each_line_is_a_finding_of_the_latest_submission(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        handed_in(team, task, "Fenster")
        text = "- src/View.tsx:1709: Fork start uses raw svgPos\nDedup the mouse handler\n\nnit: src/a.ts:3: a name"

        answer = team.ok("reject-task", "#42", text)

        assert (answer["status"], answer["locked_out"]) == ("rejected", ["Fenster"])
        (review,) = team.ok("task", "show", task)["reviews"]
        assert (review["reviewer"], review["source"]) == ("owner", "reject-task")
        found = [
            (one.get("path", ""), one.get("line", 0), one["text"], one.get("is_blocking", True))
            for one in review["findings"]
        ]
        assert found == [
            ("src/View.tsx", 1709, "Fork start uses raw svgPos", True),
            ("", 0, "Dedup the mouse handler", True),
            ("src/a.ts", 3, "nit: a name", False),
        ]

    def test_it_counts_in_every_round(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        handed_in(team, task, "Fenster")
        passed_on = team.ok("reject-task", task, "No")["reassigned_to"]
        handed_in(team, task, passed_on)

        assert team.ok("reject-task", task, "Still no", "--reviewer", "Lead")["rejection_count"] == 2

    def test_the_text_may_come_from_a_file_or_from_standard_input(self, team: Repository) -> None:
        (team.path / "no.txt").write_text("From a file\n", encoding="utf-8")
        for form, given in (("@no.txt", ""), ("-", "From standard input\n")):
            task = team.add(f"with {form}")
            team.ok("task", "claim", task, "--agent", "Fenster")
            team.commit(text=form)
            team.ok("task", "submit", task, "--agent", "Fenster", "--commit", "HEAD")
            team.ok("reject-task", task, form, stdin=given)
            (review,) = team.ok("task", "show", task)["reviews"]
            assert review["findings"][0]["text"].startswith("From ")

    @pytest.mark.parametrize("text", ["", " \n ", "***", "nit: a name\noptional: another"])
    def test_without_a_blocking_finding_nothing_is_rejected(self, team: Repository, text: str) -> None:
        task = team.add("A component")
        handed_in(team, task, "Fenster")

        assert team.refused("reject-task", task, text) == "bad_value"
        assert team.ok("task", "show", task)["status"] == "provisional"

    def test_what_was_never_handed_in_cannot_be_sent_back(self, team: Repository) -> None:
        task = team.add("A component")

        assert team.refused("reject-task", task, "No") == "nothing_to_review"
        assert team.refused("reject-task", "#99", "No") == "unknown_task"


class TestFeedback:
    def test_work_is_not_handed_in_before_its_feedback_was_read(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        reject(team, task, handed_in(team, task, "Fenster"), "Not accessible: it leaks")
        team.ok("task", "claim", task, "--agent", "Hockney")
        team.git("checkout", "-q", "issue-42")
        team.commit(text="by Hockney")
        submit = ("task", "submit", task, "--agent", "Hockney", "--commit", "HEAD")
        assert team.refused(*submit) == "feedback_unread"
        for reader in ((), ("--agent", "Lead")):
            assert "it leaks" in team.ok("task", "prompt", task, *reader)["prompt"]
            assert team.refused(*submit) == "feedback_unread", "somebody else has read it"

        before = team.digest()
        team.ok("task", "prompt", task, "--agent", "Hockney")
        noted = team.digest()
        team.ok("task", "prompt", task, "--agent", "Hockney")

        assert (noted[1] - before[1], team.digest()) == (1, noted), "one receipt, however often it is read"
        assert team.ok(*submit)["status"] == "provisional"

    def test_no_agent_is_told_how_to_act_under_the_name_of_another(self, team: Repository) -> None:
        task = team.add("A component")
        team.ok("task", "prompt", task, "--agent", "McManus")
        team.ok("task", "claim", task, "--agent", "Hockney")

        for other in ("McManus", "Nobody"):
            assert team.refused("task", "prompt", task, "--agent", other) == "not_yours"
        seen = team.ok("task", "prompt", task, "--agent", "Lead")["prompt"]
        assert "--agent" not in seen
        assert "Hockney holds this task" in seen
        for own in ((), ("--agent", "Hockney")):
            assert f"task submit {task} --agent Hockney" in team.ok("task", "prompt", task, *own)["prompt"]


class TestBadCalls:
    @pytest.mark.parametrize(
        "call",
        [
            ("review", "approve", "T-1", "--reviewer", "Lead"),
            ("review", "reject", "T-1", "--finding", "x"),
            ("review", "retract", "T-1", "--reviewer", "Lead"),
            ("review", "request", "T-1"),
            ("reject-task", "T-1"),
            ("reassign", "T-1"),
            ("escalate", "T-1"),
            ("inbox", "answer", "T-1"),
            ("inbox", "ack"),
            ("inbox", "nonsense"),
            ("inbox", "--all"),
        ],
        ids=" ".join,
    )
    def test_a_wrong_call_says_how_to_call(self, team: Repository, call: tuple[str, ...]) -> None:
        said = team.call(*call)

        assert (said.code, said.data["error"]) == (2, "usage")
        assert said.data["message"]

    def test_what_only_reviewers_may_do_is_refused_to_others(self, team: Repository) -> None:
        task = team.add("A component")
        commit = handed_in(team, task, "Fenster")

        for call in (
            ("review", "reject", task, "--reviewer", "Hockney", "--commit", commit, "--finding", "No"),
            ("review", "approve", task, "--reviewer", "Hockney", "--commit", commit),
            ("reject-task", task, "No", "--reviewer", "Hockney"),
            ("review", "request", task, "--from", "Lead", "--as", "Hockney"),
            ("reassign", task, "--to", "Hockney", "--as", "Fenster"),
        ):
            assert team.refused(*call) == "not_authorised", call


class TestWhatAgentsAreTold:
    def test_a_locked_out_agent_is_told_why_and_what_it_may_do_instead(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        reject(team, task, handed_in(team, task, "Fenster"), "It leaks\nunder load")

        said = agents_call(team, "task", "claim", "#42", "--agent", "Fenster")

        assert said.code == 1
        assert "It leaks under load" in said.err
        assert "It can claim other tasks." in said.err
        assert MEANINGS["locked_out"][1] in said.err

    def test_no_refusal_tells_an_agent_how_to_get_round_a_rule(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42", "--skills", "frontend")
        commit = handed_in(team, task, "Fenster")
        reject(team, task, commit, "It leaks")
        team.add("The API", "--alias", "#43", "--skills", "api")
        calls = (
            ("task", "claim", "#42", "--agent", "Fenster"),
            ("task", "claim", "#42", "--agent", "Hockney"),
            ("task", "claim", "#43", "--agent", "Fenster"),
            ("task", "submit", "#42", "--agent", "Fenster", "--commit", commit),
            ("task", "heartbeat", "#42", "--agent", "Fenster"),
            ("task", "cancel", "#42"),
            ("task", "edit", "#42", "--skills", "api"),
            ("review", "approve", "#42", "--reviewer", "Lead", "--commit", commit),
            ("review", "approve", "#42", "--reviewer", "Fenster", "--commit", commit),
            ("review", "reject", "#42", "--reviewer", "Fenster", "--commit", commit, "--finding", "x"),
            ("review", "retract", "#42", "--reviewer", "Fenster", "--reason", "x"),
            ("reject-task", "#42", "x"),
            ("reassign", "#42", "--to", "Fenster"),
            ("escalate", "#42", "--reason", "x"),
            ("inbox", "answer", "#42", "fix"),
            ("inbox", "ack", "#42"),
            ("handoff", "initiate", "#42", "--to", "Fenster"),
            ("gate", "override", "#42", "--gate", "tests", "--reason", "x"),
        )  # fmt: skip
        for call in calls:
            said = agents_call(team, *call, actor="Hockney" if "Hockney" in call else "Fenster")
            assert said.code == 1, (call, said)
            assert not WAYS_ROUND.search(said.err), (call, said.err)

    def test_nor_does_what_a_refusal_means(self) -> None:
        allowed = {"gate_held", "nothing_to_override"}
        """Meant for the reviewer and the user, whose commands they name."""
        bad = {
            code
            for code, (meaning, remedy) in MEANINGS.items()
            if WAYS_ROUND.search(f"{meaning} {remedy}") and code not in allowed
        }

        assert bad == set()


class TestTheBranch:
    def rejected_on(self, team: Repository, branch: str = "task-42") -> str:
        """A task with a branch whose work was rejected, and that Hockney has claimed and read."""
        task = team.add("A component", "--alias", "#42", "--branch", branch)
        team.ok("task", "claim", task, "--agent", "Fenster")
        team.git("checkout", "-q", "-b", branch)
        team.commit(text="first\n")
        team.ok("task", "submit", task, "--agent", "Fenster", "--commit", "HEAD", "--pr", "12")
        reject(team, task, team.head(), "src/a.py:1: Accessibility issues")
        team.git("checkout", "-q", "main")
        team.ok("task", "claim", task, "--agent", "Hockney")
        team.ok("task", "prompt", task, "--agent", "Hockney")
        return task

    def test_rework_on_another_branch_and_pull_request_can_be_approved(self, team: Repository) -> None:
        task = self.rejected_on(team)
        team.git("checkout", "-q", "-b", "hockney-fix")
        commit = team.commit(text="mended\n")
        submit = ("task", "submit", task, "--agent", "Hockney", "--commit", commit)
        unnamed = team.call(*submit)
        team.ok(*submit, "--branch", "hockney-fix", "--pr", "13")
        shown = team.ok("task", "show", task)
        done = team.ok("review", "approve", task, "--reviewer", "Lead", "--commit", commit)

        assert unnamed.data["refused"] == "not_on_branch"
        assert "--branch hockney-fix" in unnamed.data["message"]
        assert (shown["branch"], shown["pr"], done["status"]) == ("hockney-fix", 13, "done")

    @pytest.mark.parametrize("branch", ["task-42", "main", "nowhere", "verbals"])
    def test_a_branch_that_cannot_be_the_works_is_refused(self, team: Repository, branch: str) -> None:
        task = self.rejected_on(team)
        team.add("Another", "--branch", "verbals")
        team.git("checkout", "-q", "-b", "verbals")
        commit = team.commit(text="mended\n")
        refused = team.refused(
            "task", "submit", task, "--agent", "Hockney", "--commit", commit, "--branch", branch
        )

        assert refused == {"main": "bad_value", "verbals": "taken"}.get(branch, "not_on_branch")
        assert team.ok("task", "show", task)["status"] == "claimed"

    def test_the_rejected_commit_itself_is_refused_and_the_claim_stays(self, team: Repository) -> None:
        task = self.rejected_on(team)
        again = team.call("task", "submit", task, "--agent", "Hockney", "--commit", "task-42")
        shown = team.ok("task", "show", task)

        assert again.data["refused"] == "nothing_committed"
        assert (shown["status"], shown["agent"], shown["escalations"]) == ("claimed", "Hockney", [])

    def test_the_rejected_commit_that_comes_again_is_the_users_to_decide(self, team: Repository) -> None:
        task = self.rejected_on(team)
        submit = ("task", "submit", task, "--agent", "Hockney", "--commit", "task-42")
        first = [team.call("--key", "one", *submit).data["refused"] for _ in range(2)]
        again = team.call("--key", "two", *submit)
        (question,) = team.ok("inbox")

        assert first == ["nothing_committed"] * 2, "one that is reported twice comes once"
        assert again.data["refused"] == "gate_held"
        assert question["task_id"] == task
        assert any(option["key"].startswith("accept:same-") for option in question["options"])

    def test_the_same_change_as_another_commit_is_still_the_users_to_let_pass(self, team: Repository) -> None:
        task = self.rejected_on(team)
        team.git("checkout", "-q", "task-42")
        team.git("commit", "-q", "--amend", "-m", "another message")
        again = team.call("task", "submit", task, "--agent", "Hockney", "--commit", "HEAD")

        assert again.data["refused"] == "gate_held"
        assert team.ok("task", "show", task)["status"] == "escalated"


class TestWhatIsSaid:
    def test_task_show_tells_the_story_in_sentences_with_the_findings(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42")
        reject(team, task, handed_in(team, task, "Fenster"), "src/a.py:3: It leaks")
        told = [line.strip() for line in team.people("task", "show", "#42").out.splitlines()]

        assert any(line.endswith("Fenster claimed it, attempt 1.") for line in told)
        assert any("Lead" in line and " rejected " in line and line.endswith(").") for line in told)
        assert "blocking: src/a.py:3: It leaks" in told
        assert not any("data={" in line or "handoff_id=" in line for line in told)

    def test_guidance_after_a_dash_reaches_the_unlocked_agent(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42")
        reject(team, task, handed_in(team, task, "Fenster"), "No")
        team.ok("say", "Unlock Fenster for issue #42 — the limit is per user, not per address")
        team.ok("task", "claim", task, "--agent", "Fenster")
        prompt = team.ok("task", "prompt", task, "--agent", "Fenster")["prompt"]

        assert "the limit is per user, not per address" in prompt

    def test_nobody_is_listed_as_locked_out_of_a_task_that_will_not_be_done(self, team: Repository) -> None:
        task = deadlocked(team)
        before = [row["agent"] for row in team.ok("lockout", "list")]
        team.ok("inbox", "answer", task, "wontfix")

        assert (before, team.ok("lockout", "list")) == (["Backend", "CoreDev"], [])
        assert team.ok("task", "show", task)["lockouts"] == []

    def test_whoever_approves_rejected_work_is_told_how_it_comes_under_review_again(
        self, team: Repository
    ) -> None:
        task = team.add("A component", "--alias", "#42")
        commit = handed_in(team, task, "Fenster")
        reject(team, task, commit, "No")
        refused = team.call("review", "approve", task, "--reviewer", "owner", "--commit", commit)
        team.ok("review", "retract", task, "--reviewer", "owner", "--reason", "It is fine")
        done = team.ok("review", "approve", task, "--reviewer", "owner", "--commit", commit)

        assert refused.data["refused"] == "nothing_to_review"
        assert f"remand review retract {task}" in refused.data["message"]
        assert done["status"] == "done"

    def test_a_second_escalation_names_the_question_that_is_open(self, team: Repository) -> None:
        task = team.add("A component", "--alias", "#42")
        first = team.ok("escalate", task, "--reason", "Which limit?")
        again = team.call("escalate", task, "--reason", "Which limit?")

        assert again.data["refused"] == "bad_transition"
        assert first["escalation_id"] in again.data["message"]
