"""Task rejections as agents and directors meet them on the command line, every option of it, in real processes."""

from __future__ import annotations

import json
import re
import stat
from typing import Any

import pytest

from remand import DecisionType, HandoffManager, RejectionDecision, TaskRejection
from tests.acceptance.test_cli import TEAM
from tests.integration.machine import Machine, Repository, wait_for
from tests.support.rejection_records import (
    LAZY,
    OAUTH,
    OAUTH_TASK,
    SCOPE,
    TITLE,
    a_rejection,
    with_dependency,
)

REJECTION_ID = re.compile(r"R-\d{8}-\d{6}-[0-9a-f]{8}")
TASK_ID = re.compile(r"T-\d{8}-\d{6}-[0-9a-f]{8}")
DECISION = {"decision_type", "rationale", "created_tasks", "deferred_task", "reassign_to", "override_message"}
HUMAN = '[gates]\n[policy]\ndirector = "human"\n'


def held(
    repository: Repository, agent: str = "Alice", title: str = TITLE, scope: str = SCOPE, *options: str
) -> tuple[str, str]:
    """A task that an agent holds: its id, and the handoff's."""
    task = repository.add(title, "--scope", scope, *options)
    return task, repository.ok("task", "claim", task, "--agent", agent)["handoff_id"]


def filing(handoff: str, record: dict[str, Any], agent: str = "Alice") -> tuple[str, ...]:
    """The options that say what a record says."""
    options = ["handoff", "reject", handoff, "--agent", agent, "--reason", record["reason_type"]]
    for option, field in (
        ("--summary", "reason_summary"),
        ("--detail", "reason_detail"),
        ("--blocker", "blocking_factor"),
        ("--alternative", "suggested_alternative"),
        ("--original-scope", "task_original_scope"),
    ):
        if field in record:
            options += [option, record[field]]
    if record.get("scope_growth_factor"):
        options += ["--scope-growth", str(record["scope_growth_factor"])]
    for option, field in (
        ("--attempted", "what_attempted"),
        ("--evidence", "evidence"),
        ("--alt-task", "alternative_tasks"),
    ):
        if record.get(field):
            options += [
                option,
                *(item if isinstance(item, str) else json.dumps(item) for item in record[field]),
            ]
    return tuple(options)


def rejected(repository: Repository, handoff: str, record: dict[str, Any], agent: str = "Alice") -> Any:
    """What a valid rejection, given whole on standard input, was answered."""
    return repository.ok(
        "handoff", "reject", handoff, "--agent", agent, "--from", "-", stdin=json.dumps(record)
    )


def edges(repository: Repository, kind: str) -> list[tuple[str, str]]:
    """The links of a kind, as the event files have them."""
    return [
        (event["src"].removeprefix("task:"), event["tgt"].removeprefix("task:"))
        for event in repository.written().values()
        if event["event"] == "edge.create" and event["type"] == kind
    ]


class TestTheExamplesOfTheRequirements:
    def test_the_oauth_record_is_cut_in_three_with_two_dependencies(self, repository: Repository) -> None:
        task, handoff = held(repository, "sub-agent-1", OAUTH_TASK["title"], OAUTH_TASK["scope"])

        said = repository.ok(*filing(handoff, OAUTH, "sub-agent-1"))

        assert said["accepted"] is True
        assert REJECTION_ID.fullmatch(said["rejection_id"])
        assert set(said["decision"]) >= DECISION
        assert said["decision"]["decision_type"] == "ACCEPT_AND_DECOMPOSE"
        one, two, three = said["decision"]["created_tasks"]
        assert edges(repository, "DEPENDS_ON") == [(two, one), (three, two)]
        assert edges(repository, "REFINES") == [(one, task), (two, task), (three, task)]
        assert repository.ok("task", "show", task)["status"] == "decomposed"
        titles = [repository.ok("task", "show", name)["title"] for name in (one, two, three)]
        assert titles == [row["title"] for row in OAUTH["alternative_tasks"]]
        repository.ok("log", "rebuild")
        assert repository.ok("task", "show", task)["status"] == "decomposed"
        assert repository.verify() == []

    def test_the_lazy_record_is_refused_with_at_least_the_four_issues_named(
        self, repository: Repository
    ) -> None:
        task, handoff = held(repository)

        said = repository.call(*filing(handoff, LAZY))

        assert said.code == 1
        assert (said.data["refused"], said.data["accepted"]) == ("invalid_rejection", False)
        assert all(set(issue) == {"code", "field", "message"} for issue in said.data["issues"])
        fields = {issue["field"] for issue in said.data["issues"]}
        assert fields >= {"what_attempted", "evidence", "blocking_factor", "suggested_alternative"}
        assert len(said.data["issues"]) >= 4
        texts = " ".join(issue["message"] for issue in said.data["issues"])
        assert all(phrase in texts for phrase in ("vague", "evidence", "at least 2", "generic"))
        assert said.data["decision"]["decision_type"] == "OVERRIDE"
        assert all(
            issue["message"] in said.data["decision"]["override_message"] for issue in said.data["issues"]
        )
        assert said.data["message"]
        assert repository.ok("task", "show", task)["status"] == "claimed"
        assert edges(repository, "BLOCKS") == []

    def test_the_options_of_the_requirements_work_as_written(self, repository: Repository) -> None:
        """The sample call itself has no sub-tasks and no evidence: it is read, judged, and told what it lacks."""
        _, handoff = held(repository)
        (repository.path / "rejection_detail.md").write_text(OAUTH["reason_detail"])
        (repository.path / "alternative_plan.md").write_text(OAUTH["suggested_alternative"])

        said = repository.call(
            "handoff", "reject", handoff, "--agent", "Alice", "--reason", "SCOPE_CREEP",
            "--summary", "Task scope grew 5x during investigation", "--detail", "@rejection_detail.md",
            "--attempted", "Analyzed codebase", "Ran tests", "Checked docs",
            "--blocker", "Requires auth system redesign", "--alternative", "@alternative_plan.md",
            "--scope-growth", "5.0",
        )  # fmt: skip

        assert said.code == 1
        assert "decomposition_too_few" in {issue["code"] for issue in said.data["issues"]}
        record = repository.ok("handoff", "status", handoff)["rejection"]["rejection"]
        assert record["what_attempted"] == ["Analyzed codebase", "Ran tests", "Checked docs"]
        assert record["reason_detail"] == OAUTH["reason_detail"]
        assert record["suggested_alternative"] == OAUTH["suggested_alternative"]
        assert record["scope_growth_factor"] == 5.0


class TestFilingARejection:
    @pytest.mark.parametrize(
        ("reason", "decision", "status"),
        [
            ("BLOCKER", "ACCEPT_AND_DEFER", "deferred"),
            ("SCOPE_CREEP", "ACCEPT_AND_DECOMPOSE", "decomposed"),
            ("MISSING_DEPENDENCY", "ACCEPT_AND_DEFER", "deferred"),
            ("INFEASIBLE", None, "blocked"),
            ("UNCLEAR_REQUIREMENTS", "ACCEPT_AND_DEFER", "deferred"),
            ("OBSOLETE", "ACCEPT", "cancelled"),
        ],
    )
    def test_every_reason_by_options_alone(
        self, repository: Repository, reason: str, decision: str | None, status: str
    ) -> None:
        other = repository.add("PDF export")
        task, handoff = held(repository)

        said = repository.ok(*filing(handoff, with_dependency(a_rejection(reason), other)))

        assert set(said) >= {"accepted", "rejection_id", "decision"}
        assert repository.ok("task", "show", task)["status"] == said["status"] == status
        decided = said["decision"] or {"decision_type": None, "created_tasks": []}
        assert decided["decision_type"] == decision
        assert all(TASK_ID.fullmatch(name) for name in decided["created_tasks"])

    def test_an_infeasible_task_waits_with_one_question_until_a_director_accepts(
        self, repository: Repository
    ) -> None:
        record = a_rejection("INFEASIBLE")
        task, handoff = held(repository)

        said = repository.ok(*filing(handoff, record))

        assert (said["accepted"], said["decision"], said["status"]) == (True, None, "blocked")
        (question,) = repository.ok("inbox")
        assert question["options"][0]["key"] == "ACCEPT_AND_REFORMULATE"
        assert record["suggested_alternative"] in "\n".join(question["grounds"])
        repository.ok("inbox", "answer", question["escalation_id"], "ACCEPT_AND_REFORMULATE")
        assert repository.ok("task", "show", task)["status"] == "infeasible"
        assert repository.ok("inbox") == []

    def test_a_missing_part_is_asked_for_and_locks_nobody_out(self, repository: Repository) -> None:
        task, handoff = held(repository)
        for spoilt in ({"task_original_scope": "Write a poem. 4 hours."}, {"scope_growth_factor": 40.0}):
            said = repository.call(*filing(handoff, a_rejection("SCOPE_CREEP", **spoilt)))
            assert (said.code, said.data["refused"]) == (1, "invalid_rejection")
            assert "does not count against you" in said.data["decision"]["override_message"]

        assert repository.ok("task", "show", task)["status"] == "claimed"
        said = repository.ok(*filing(handoff, a_rejection("SCOPE_CREEP")))
        assert said["decision"]["decision_type"] == "ACCEPT_AND_DECOMPOSE"

    def test_a_whole_record_comes_from_a_file_or_from_standard_input_and_options_win(
        self, repository: Repository
    ) -> None:
        file = repository.path / "rejection.json"
        file.write_text(json.dumps(a_rejection(reason_summary="From the file")))
        _, first = held(repository)
        _, second = held(repository)

        repository.ok("handoff", "reject", first, "--agent", "Alice", "--from", "rejection.json")
        repository.ok(
            "handoff", "reject", second, "--agent", "Alice", "--from", "-",
            "--summary", "From the option", stdin=file.read_text(),
        )  # fmt: skip

        summaries = [
            repository.ok("handoff", "status", handoff)["rejection"]["rejection"]["reason_summary"]
            for handoff in (first, second)
        ]
        assert summaries == ["From the file", "From the option"]

    def test_values_come_from_files_and_options_may_be_repeated(self, repository: Repository) -> None:
        _, handoff = held(repository)
        (repository.path / "first.txt").write_text("Ran it on port 587: refused\n")
        (repository.path / "log.json").write_text(
            json.dumps([{"type": "log", "data": "a"}, {"type": "log", "data": "b"}])
        )

        repository.call(
            "handoff", "reject", f"handoff:{handoff}", "--agent", "Alice", "--reason", "blocker",
            "--attempted", "@first.txt", "second", "--attempted", "third", "--attempted=fourth",
            "--evidence", "@log.json", '{"type": "log", "data": "c"}', "--evidence", '{"type": "log", "data": "d"}',
            "--alt-task", '{"title": "One"}', "--alt-task", '{"title": "Two"}',
        )  # fmt: skip

        record = repository.ok("handoff", "status", handoff)["rejection"]["rejection"]
        assert [text.strip() for text in record["what_attempted"]] == [
            "Ran it on port 587: refused",
            "second",
            "third",
            "fourth",
        ]
        assert [item["data"] for item in record["evidence"]] == ["a", "b", "c", "d"]
        assert [item["title"] for item in record["alternative_tasks"]] == ["One", "Two"]

    @pytest.mark.parametrize(
        ("options", "stdin", "hint"),
        [
            (("--reason", "TOO_HARD"), "", "BLOCKER"),
            ((), "", "--reason"),
            (("--reason", "BLOCKER", "--scope-growth", "big"), "", "5.0"),
            (("--reason", "BLOCKER", "--evidence", "{"), "", "not JSON"),
            (("--reason", "BLOCKER", "--evidence", "3"), "", "JSON objects"),
            (("--reason", "BLOCKER", "--alt-task", '"text"'), "", "JSON objects"),
            (("--reason", "BLOCKER", "--detail", "@nowhere.md"), "", "nowhere.md"),
            (("--from", "nowhere.json"), "", "nowhere.json"),
            (("--from", "-"), "[]", "one JSON object"),
            (("--from", "-"), "{", "not JSON"),
            (("--from", "-"), '{"reason_type": "BLOCKER", "blocking_facter": "x"}', "blocking_factor"),
            (("--from", "-"), '{"reason_type": "BLOCKER", "mood": "bad"}', "the fields are"),
            (("--from", "-"), "[" * 100_000, ""),
            (("--nonsense",), "", ""),
        ],
        ids=lambda value: re.sub(r"[^ -~]", "?", str(value))[:40],
    )
    def test_what_cannot_be_read_is_a_usage_error_that_says_what_to_write(
        self, repository: Repository, options: tuple[str, ...], stdin: str, hint: str
    ) -> None:
        _, handoff = held(repository)

        said = repository.call("handoff", "reject", handoff, "--agent", "Alice", *options, stdin=stdin)

        assert said.code == 2, said
        assert hint in said.data["message"]
        assert repository.ok("handoff", "status", handoff)["rejection"] is None

    def test_a_rejection_of_another_or_of_nothing_is_refused(self, repository: Repository) -> None:
        task, handoff = held(repository)
        other, _ = held(repository, "Bob")
        record = a_rejection()

        assert repository.refused(*filing("H-20260101-000000-0badbad0", record)) == "unknown_handoff"
        assert repository.refused(*filing("nonsense", record)) == "unknown_handoff"
        assert repository.refused(*filing(handoff, record, "Bob")) == "not_yours"
        told = json.dumps({**record, "task_id": other})
        assert (
            repository.refused("handoff", "reject", handoff, "--agent", "Alice", "--from", "-", stdin=told)
            == "bad_value"
        )
        assert repository.call("handoff", "reject", handoff, "--reason", "BLOCKER").code == 2
        rejected(repository, handoff, {**record, "task_id": f"task:{task}", "agent_id": "Alice"})
        assert repository.refused(*filing(handoff, record)) == "handoff_closed"

    def test_hostile_records_are_answered_in_json(self, repository: Repository) -> None:
        _, handoff = held(repository)
        probes = [
            {"file": "../../etc/passwd"},
            {"file": "/etc/passwd", "absent": True},
            {"file": "a\x00b"},
            {"file": "\ud800"},
            {"count": "**/" * 50 + "*a" * 50, "is": 1 << 90},
            {"commit": "--help"},
            "+@" * 2000,
        ]
        records = [
            {**LAZY, "evidence": [{"probe": probe} for probe in probes] * 10},
            {**LAZY, "evidence": [[[[[[]]]]]], "scope_growth_factor": 1e308},
            {"reason_type": {}, "what_attempted": 7, "alternative_tasks": [[]], "rejected_at": []},
            {"reason_type": "\x1b[31m" * 100, "reason_summary": "x" * 500_000},
        ]
        for record in records:
            said = repository.call(
                "handoff", "reject", handoff, "--agent", "Alice", "--from", "-", stdin=json.dumps(record)
            )
            assert said.code == 1, said
            assert said.data["refused"] in ("invalid_rejection", "bad_value", "handoff_closed")

    def test_explain_shows_which_features_counted(self, repository: Repository) -> None:
        _, handoff = held(repository)

        said = repository.ok(*filing(handoff, a_rejection()), "--explain")

        assert said["features"]
        assert {"name", "field", "value", "contribution"} <= set(said["features"][0])

    def test_people_read_it_too_and_control_characters_do_no_harm(self, repository: Repository) -> None:
        _, handoff = held(repository)
        record = {**LAZY, "reason_summary": "\x1b[2Jgone", "blocking_factor": "\x1b]0;x\x07 it's confusing"}

        shown = repository.people(
            "handoff", "reject", handoff, "--agent", "Alice", "--from", "-", stdin=json.dumps(record)
        )

        assert shown.code == 1
        assert "OVERRIDE" in shown.out
        assert "\x1b" not in shown.out + shown.err
        status = repository.people("handoff", "status", handoff)
        assert "\x1b" not in status.out
        assert "overridden" in status.out

    def test_a_key_that_is_repeated_gives_the_first_answer_whatever_came_since(
        self, repository: Repository
    ) -> None:
        _, handoff = held(repository)
        lazy, earned = json.dumps(LAZY), json.dumps(a_rejection())
        call = ("handoff", "reject", handoff, "--agent", "Alice", "--from", "-", "--key")

        first = repository.call(*call, "k1", stdin=lazy)
        second = repository.call(*call, "k2", stdin=earned)
        again = repository.call(*call, "k1", stdin=lazy)

        assert (first.code, second.code, again.code) == (1, 0, 1)
        assert again.data["rejection_id"] == first.data["rejection_id"] != second.data["rejection_id"]
        assert again.data["issues"] == first.data["issues"]

    def test_an_offered_handoff_is_rejected_without_being_accepted(self, repository: Repository) -> None:
        task = repository.add(TITLE, "--scope", SCOPE)
        handoff = repository.ok("handoff", "initiate", task, "--to", "Alice")["handoff_id"]

        said = rejected(repository, handoff, a_rejection())

        assert said["status"] == "deferred"
        assert repository.ok("handoff", "status", handoff)["status"] == "rejection_accepted"

    def test_evidence_is_checked_in_the_repository(self, repository: Repository) -> None:
        sha = repository.commit("reports/export.py", "\n" * 11 + "raise NotImplementedError\n")
        good = {
            "type": "file",
            "data": "x",
            "probe": {"file": "reports/export.py", "line": 12, "text": "raise"},
        }
        known = {"type": "commit", "data": "x", "probe": {"commit": sha}}
        bad = {"type": "file", "data": "x", "probe": {"file": "reports/export.py", "absent": True}}
        base = a_rejection()["evidence"]
        _, first = held(repository)
        _, second = held(repository)

        accepted = rejected(repository, first, a_rejection(evidence=[*base, good, known]))
        refused = repository.call(
            "handoff", "reject", second, "--agent", "Alice", "--from", "-",
            stdin=json.dumps(a_rejection(evidence=[*base, bad])),
        )  # fmt: skip

        assert [(one["index"], one["grade"]) for one in accepted["evidence"]] == [
            (2, "reproduced"),
            (3, "reproduced"),
        ]
        assert refused.code == 1
        assert [issue["code"] for issue in refused.data["issues"]] == ["evidence_disproved"]

    def test_after_the_second_invalid_rejection_another_of_the_team_has_the_task(
        self, machine: Machine
    ) -> None:
        repository = machine.repository(config=TEAM)
        task = repository.add(TITLE, "--scope", SCOPE)
        handoff = repository.ok("task", "claim", task, "--agent", "Fenster")["handoff_id"]
        first = repository.call(*filing(handoff, LAZY, "fen"))
        second = repository.call(*filing(handoff, LAZY, "Fenster"))

        assert (first.code, second.code) == (1, 1)
        assert first.data["decision"]["reassign_to"] == "Fenster"
        assert second.data["decision"]["reassign_to"] == "Hockney"
        assert repository.refused("task", "claim", task, "--agent", "fen") == "locked_out"
        assert repository.ok("task", "claim", task, "--agent", "Hockney")["task_id"] == task


class TestAHumanDirector:
    def test_the_task_is_blocked_until_somebody_answers(self, machine: Machine) -> None:
        repository = machine.repository(config=HUMAN)
        task, handoff = held(repository)

        said = repository.ok(*filing(handoff, a_rejection()))

        assert said["accepted"] is True
        assert said["decision"] is None
        assert said["status"] == "blocked"
        told = repository.ok("handoff", "status", handoff)
        assert {"handoff_id", "status", "task_id", "agent", "rejection", "decision"} <= set(told)
        assert (told["status"], told["decision"], told["task_id"]) == ("rejected", None, task)
        assert "Waiting for a director's answer" in repository.people("handoff", "status", handoff).out

    def test_the_five_answers(self, machine: Machine) -> None:
        repository = machine.repository(config=HUMAN)
        respond = ("handoff", "rejection-response")
        parts = [repository.add(f"Part {n}") for n in range(3)]
        outcomes = {}
        for decision, options in {
            "OVERRIDE": ("--message", "The token is in the vault"),
            "ACCEPT": ("--rationale", "So it is"),
            "ACCEPT_AND_DEFER": (),
            "ACCEPT_AND_DECOMPOSE": ("--created-tasks", *(f"task:{part}" for part in parts)),
            "ACCEPT_AND_REFORMULATE": ("--created-tasks", parts[0]),
        }.items():
            task, handoff = held(repository)
            repository.ok(*filing(handoff, a_rejection()))
            said = repository.ok(*respond, handoff, "--decision", decision, *options)
            assert said["decision"]["decision_type"] == decision
            outcomes[decision] = (
                repository.ok("task", "show", task),
                repository.ok("handoff", "status", handoff),
            )

        assert {decision: task["status"] for decision, (task, _) in outcomes.items()} == {
            "OVERRIDE": "claimed",
            "ACCEPT": "blocked",
            "ACCEPT_AND_DEFER": "deferred",
            "ACCEPT_AND_DECOMPOSE": "decomposed",
            "ACCEPT_AND_REFORMULATE": "infeasible",
        }
        task, handoff_view = outcomes["OVERRIDE"]
        assert handoff_view["status"] == "overridden"
        assert handoff_view["override_message"] == "The token is in the vault"
        prompt = repository.ok("task", "prompt", task["task_id"], "--agent", "Alice")["prompt"]
        assert prompt.startswith("## Your rejection was overridden")
        assert "> The token is in the vault" in prompt
        assert outcomes["ACCEPT_AND_DECOMPOSE"][1]["decision"]["created_tasks"] == parts
        assert outcomes["ACCEPT"][1]["status"] == "rejection_accepted"

    def test_who_may_not_answer_or_answers_wrongly_is_refused(self, machine: Machine) -> None:
        repository = machine.repository(config=TEAM.replace("[gates]", HUMAN.strip()))
        task = repository.add(TITLE, "--scope", SCOPE)
        handoff = repository.ok("task", "claim", task, "--agent", "Fenster")["handoff_id"]
        respond = ("handoff", "rejection-response", handoff, "--decision")
        assert repository.refused(*respond, "ACCEPT") == "nothing_to_answer"
        repository.ok(*filing(handoff, a_rejection(), "Fenster"))

        assert repository.refused(*respond, "ACCEPT", "--as", "Fenster") == "not_authorised"
        assert repository.refused(*respond, "ACCEPT", "--as", "Lead") == "not_authorised"
        confined = repository.call(*respond, "ACCEPT", env={"REMAND_TASK": task})
        assert confined.code == 1
        assert repository.refused(*respond, "ACCEPT_AND_DECOMPOSE") == "bad_value"
        assert repository.refused(*respond, "ACCEPT_AND_DEFER", "--created-tasks", "T-none") == "unknown_task"
        assert repository.refused(*respond, "ACCEPT_AND_DEFER", "--created-tasks", task) == "closes_cycle"
        assert repository.refused(*respond, "OVERRIDE", "--reassign-to", "Lead") == "not_eligible"
        assert repository.call(*respond, "PERHAPS").code == 2
        assert repository.call("handoff", "rejection-response", handoff).code == 2
        passed_on = repository.ok(*respond, "OVERRIDE", "--reassign-to", "Hockney", "--as", "Boss")
        assert passed_on["decision"]["reassign_to"] == "Hockney"
        assert passed_on["decided_by"] == "Boss"
        assert repository.ok("task", "claim", task, "--agent", "Hockney")["task_id"] == task


class TestPassingOn:
    @pytest.mark.parametrize("mode", ["waiting", "overridden"])
    def test_a_handoff_that_was_passed_on_says_whose_the_task_is(self, machine: Machine, mode: str) -> None:
        repository = machine.repository(config=HUMAN if mode == "waiting" else "[gates]\n")
        _, handoff = held(repository)
        repository.call(*filing(handoff, a_rejection() if mode == "waiting" else LAZY))
        respond = ("handoff", "rejection-response", handoff, "--decision", "OVERRIDE", "--message", "Go")
        answer = repository.people(*respond, "--reassign-to", "Bob").out

        found = repository.ok("handoff", "status", handoff)
        text = repository.people("handoff", "status", handoff).out

        assert (found["status"], found["agent"], found["reassigned_to"]) == ("reassigned", "Alice", "Bob")
        assert found["ended_at"]
        assert "no longer Alice's" in text
        assert "Bob" in answer
        assert "no longer Alice's" in answer

    def test_a_handoff_that_goes_back_to_its_agent_stays_overridden(self, machine: Machine) -> None:
        repository = machine.repository(config=HUMAN)
        _, handoff = held(repository)
        repository.ok(*filing(handoff, a_rejection()))
        repository.ok("handoff", "rejection-response", handoff, "--decision", "OVERRIDE", "--message", "Go")

        found = repository.ok("handoff", "status", handoff)

        assert (found["status"], found.get("reassigned_to", "")) == ("overridden", "")

    def test_the_second_invalid_rejection_passes_it_on_too(self, machine: Machine) -> None:
        members = ", ".join(f'{{name = "{name}", roles = ["agent"]}}' for name in ("Alice", "Bob"))
        repository = machine.repository(config=f"[gates]\n[team]\nmembers = [{members}]\n")
        _, handoff = held(repository)
        for _ in range(2):
            repository.call(*filing(handoff, LAZY))

        found = repository.ok("handoff", "status", handoff)

        assert (found["status"], found["reassigned_to"]) == ("reassigned", "Bob")


class TestRejectionsOfGotTools:
    TASK, HANDOFF = "T-20251220-153045-a1b2", "H-20251220-153100-c3d4"

    def imported(self, repository: Repository, machine: Machine, *lines: dict[str, Any]) -> None:
        folder = machine.folder / "got"
        folder.mkdir()
        meta = {"branch": "main", "session": "20251220-153000-a1b2"}
        rows = [
            json.dumps({"ts": f"2025-12-20T16:{n:02}:00Z", "meta": meta, **row})
            for n, row in enumerate(lines)
        ]
        (folder / "20251220-153000-a1b2.jsonl").write_text("\n".join(rows) + "\n")
        with repository.history_in_files():
            assert repository.ok("log", "import", str(folder))["problems"] == []

    def test_they_are_told_by_every_command(self, machine: Machine, repository: Repository) -> None:
        record = TaskRejection.from_dict({**a_rejection(), "task_id": f"task:{self.TASK}"})
        decision = RejectionDecision(
            DecisionType.ACCEPT_AND_DEFER,
            record,
            "Valid blocker.",
            created_tasks=["task:T-20251220-160001-e5f6"],
        )
        self.imported(
            repository,
            machine,
            {"event": "node.create", "id": self.TASK, "type": "TASK", "data": {"title": "Add OAuth"}},
            {
                "event": "handoff.reject",
                "handoff_id": self.HANDOFF,
                "agent": "A",
                "rejection": record.to_dict(),
            },
            {
                "event": "handoff.reject.response",
                "handoff_id": self.HANDOFF,
                "decision": decision.to_dict(),
            },
        )
        summary = record.reason_summary

        status = repository.ok("handoff", "status", self.HANDOFF)
        shown = repository.ok("task", "show", self.TASK)
        graph = repository.ok("graph", "stats")

        assert (status["status"], status["agent"]) == ("rejection_accepted", "A")
        assert status["rejection"]["rejection"]["reason_summary"] == summary
        assert status["decision"]["rationale"] == "Valid blocker."
        assert summary in repository.people("handoff", "status", self.HANDOFF).out
        assert [row["event"] for row in shown["rejections"]] == ["handoff.reject"]
        assert [row["event"] for row in shown["decisions"]] == ["handoff.reject.response"]
        assert shown["status"] == "incoming"
        assert f"A rejected the task: {summary}"[:40] in " ".join(
            repository.people("task", "show", self.TASK).out.split()
        )
        assert graph["by_node_type"] == {"TASK": 2, "CONSTRAINT": 1, "DECISION": 1, "OBSERVATION": 1}
        assert graph["by_edge_type"] == {"ANSWERS": 1, "BLOCKS": 1, "IMPLEMENTS": 1, "OBSERVES": 1}
        told = " ".join(repository.people("log", "tail").out.split())
        assert "A rejected the task" in told
        assert "its rejection was answered: ACCEPT_AND_DEFER" in told
        assert repository.ok("analyze", "rejections")["decision_outcomes"] == {"ACCEPT_AND_DEFER": 1}
        manager = HandoffManager(str(repository.path))
        assert manager.status(self.HANDOFF)["status"] == "rejection_accepted"

    def test_a_rejection_in_plain_words_is_told_too(self, machine: Machine, repository: Repository) -> None:
        self.imported(
            repository,
            machine,
            {"event": "node.create", "id": self.TASK, "type": "TASK", "data": {"title": "Add OAuth"}},
            {
                "event": "handoff.initiate",
                "handoff_id": self.HANDOFF,
                "task_id": self.TASK,
                "target_agent": "A",
                "source_agent": "main",
            },
            {
                "event": "handoff.reject",
                "handoff_id": self.HANDOFF,
                "agent": "A",
                "reason": "The API is down",
            },
        )

        status = repository.ok("handoff", "status", self.HANDOFF)

        assert status["status"] == "rejected"
        assert status["rejection"]["rejection"]["reason_summary"] == "The API is down"
        shown = repository.people("handoff", "status", self.HANDOFF).out
        assert "by A (imported, not judged here)" in shown
        assert "No decision was imported." in shown
        assert "rejection-response" not in shown
        answer = ("handoff", "rejection-response", self.HANDOFF, "--decision", "ACCEPT")
        assert repository.refused(*answer) == "nothing_to_answer"
        assert "The API is down" in repository.people("handoff", "status", self.HANDOFF).out
        assert repository.ok("graph", "stats")["by_node_type"] == {"TASK": 1, "OBSERVATION": 1}


class TestTheUsersOwnCommands:
    @staticmethod
    def script(repository: Repository, name: str, text: str) -> str:
        path = repository.machine.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def repository(self, machine: Machine, director: str, adviser: str = "") -> Repository:
        made = machine.repository()
        judge = self.script(made, "judge", director)
        lines = ["[gates]", "[policy]", f"director = {json.dumps([judge])}"]
        if adviser:
            lines.append(f"adviser = {json.dumps([self.script(made, 'wise', adviser)])}")
        made.configure("\n".join(lines) + "\n")
        return made

    def test_a_command_directs(self, machine: Machine) -> None:
        repository = self.repository(
            machine,
            """cat > "$0.brief"; echo '{"decision_type": "ACCEPT_AND_DEFER", "rationale": "By the book"}'""",
        )
        task, handoff = held(repository)

        said = repository.ok(*filing(handoff, a_rejection()))

        assert said["decision"]["decision_type"] == "ACCEPT_AND_DEFER"
        assert said["decision"]["rationale"] == "By the book"
        assert said["status"] == repository.ok("task", "show", task)["status"] == "deferred"
        brief = json.loads((machine.folder / "judge.brief").read_text())
        assert brief["task"]["id"] == task
        assert brief["rejection"]["handoff_id"] == handoff

    @pytest.mark.parametrize(
        "script", ["exit 3", "echo I accept", "echo '{}'", """echo '{"decision_type": "MAYBE"}'"""]
    )
    def test_a_director_that_fails_leaves_the_rejection_waiting_with_a_note(
        self, machine: Machine, script: str
    ) -> None:
        repository = self.repository(machine, script)
        _, handoff = held(repository)

        said = repository.ok(*filing(handoff, a_rejection()))

        assert (said["accepted"], said["decision"], said["status"]) == (True, None, "blocked")
        assert said["note"]
        assert repository.ok("handoff", "rejection-response", handoff, "--decision", "ACCEPT")["decision"]

    def test_a_director_is_not_asked_about_a_lazy_rejection(self, machine: Machine) -> None:
        repository = self.repository(machine, 'touch "$0.asked"; echo \'{"decision_type": "ACCEPT"}\'')
        _, handoff = held(repository)

        assert repository.call(*filing(handoff, LAZY)).code == 1
        assert not (machine.folder / "judge.asked").exists()

    def test_an_adviser_is_heard_and_changes_nothing(self, machine: Machine) -> None:
        made = machine.repository()
        wise = self.script(made, "wise", "echo 'Accept this one.'")
        made.configure(f"[gates]\n[policy]\nadviser = {json.dumps([wise])}\n")
        _, handoff = held(made)

        said = made.call(*filing(handoff, LAZY))

        assert (said.code, said.data["accepted"]) == (1, False)
        assert said.data["opinion"] == "Accept this one."
        assert made.ok("handoff", "status", handoff)["rejection"]["opinion"] == "Accept this one."


class TestEverywhereTheSame:
    @staticmethod
    def story(repository: Repository) -> dict[str, tuple[str, str]]:
        """One rejection of every kind; gives each handoff's status and its decision."""
        other = repository.add("PDF export")
        handoffs = []
        for reason in (
            "BLOCKER",
            "SCOPE_CREEP",
            "MISSING_DEPENDENCY",
            "INFEASIBLE",
            "UNCLEAR_REQUIREMENTS",
            "OBSOLETE",
        ):
            _, handoff = held(repository)
            rejected(repository, handoff, with_dependency(a_rejection(reason), other))
            if reason == "INFEASIBLE":
                repository.ok(
                    "handoff", "rejection-response", handoff, "--decision", "ACCEPT_AND_REFORMULATE"
                )
            handoffs.append(handoff)
        _, lazy = held(repository)
        assert repository.call(*filing(lazy, LAZY)).code == 1
        return TestEverywhereTheSame.told(repository, [*handoffs, lazy])

    @staticmethod
    def told(repository: Repository, handoffs: list[str]) -> dict[str, tuple[str, str]]:
        found = {}
        for handoff in handoffs:
            view = repository.ok("handoff", "status", handoff)
            found[handoff] = (
                view["status"],
                json.dumps([view["decision"], view["rejection"]], sort_keys=True),
            )
        return found

    def test_after_a_rebuild_and_in_a_fresh_clone(self, machine: Machine, repository: Repository) -> None:
        before = self.story(repository)
        statuses = [task["status"] for task in repository.ok("task", "list")]
        digest = repository.digest()

        repository.ok("log", "rebuild")
        assert self.told(repository, list(before)) == before
        repository.ok("log", "publish")
        clone = machine.clone(repository, "clone")
        assert self.told(clone, list(before)) == before
        assert [task["status"] for task in clone.ok("task", "list")] == statuses
        assert clone.digest()[0] == digest[0]
        assert clone.verify() == []
        repository.forget_ledger()
        assert self.told(repository, list(before)) == before

    def test_with_a_coordinator_running(self, repository: Repository) -> None:
        with repository.coordinator():
            before = self.story(repository)
            assert {status for status, _ in before.values()} == {"rejection_accepted", "overridden"}
        assert self.told(repository, list(before)) == before
        assert repository.verify() == []

    def test_a_coordinator_lets_the_directors_command_speak(self, machine: Machine) -> None:
        repository = TestTheUsersOwnCommands().repository(
            machine, """cat > /dev/null; echo '{"decision_type": "ACCEPT_AND_REFORMULATE"}'"""
        )
        with repository.coordinator():
            task, handoff = held(repository)
            said = repository.ok(*filing(handoff, a_rejection("INFEASIBLE")))
            assert (said["accepted"], said["decision"]) == (True, None)
            wait_for(lambda: repository.ok("handoff", "status", handoff)["decision"], "the director's answer")
            assert repository.ok("task", "show", task)["status"] == "infeasible"
        assert repository.verify() == []

    def test_a_deferred_task_wakes_when_its_blocker_is_done(self, repository: Repository) -> None:
        task, handoff = held(repository)
        (blocker,) = rejected(repository, handoff, a_rejection())["decision"]["created_tasks"]
        assert edges(repository, "BLOCKS") == [(blocker, task)]
        assert repository.ok("task", "claim", "--agent", "Bob")["task_id"] == blocker
        repository.ok("task", "submit", blocker, "--agent", "Bob", "--commit", "HEAD")

        repository.ok("review", "approve", blocker, "--commit", "HEAD")

        assert repository.ok("task", "show", task)["status"] == "incoming"
        assert repository.ok("task", "claim", "--agent", "Bob")["task_id"] == task


class TestAnAppeal:
    WHY = "The queue is not ours, whatever the word list says"

    def test_waits_for_a_person_and_is_given_once(self, repository: Repository) -> None:
        task, handoff = held(repository)
        assert repository.refused(*filing(handoff, LAZY)) == "invalid_rejection"
        appeal = ("handoff", "appeal", handoff, "--agent", "Alice", "--reason", self.WHY)

        said = repository.ok(*appeal)

        assert (said["decision"], said["appeal"], said["status"]) == (None, self.WHY, "blocked")
        assert self.WHY in repository.people("handoff", "status", handoff).out
        (question,) = repository.ok("inbox")
        assert f"appeal: {self.WHY}" in question["grounds"]
        assert repository.refused(*appeal) == "exit_used"
        repository.ok(
            "inbox", "answer", question["escalation_id"], "OVERRIDE", "--guidance", "Use the sandbox"
        )
        assert repository.ok("task", "show", task)["status"] == "claimed"
        assert "Use the sandbox" in repository.ok("task", "prompt", task, "--agent", "Alice")["prompt"]

    def test_is_offered_where_the_rules_override(self, repository: Repository) -> None:
        _, handoff = held(repository)

        shown = repository.people(*filing(handoff, LAZY)).out

        assert f"appeal: `remand handoff appeal {handoff} --agent Alice --reason TEXT`" in shown

    def test_is_put_to_the_directors_command(self, machine: Machine) -> None:
        repository = TestTheUsersOwnCommands().repository(
            machine,
            """grep -q 'it appeals' && echo '{"decision_type": "ACCEPT", "rationale": "It is right"}'""",
        )
        _, handoff = held(repository)
        repository.refused(*filing(handoff, LAZY))

        said = repository.ok("handoff", "appeal", handoff, "--agent", "Alice", "--reason", self.WHY)

        assert said["decision"]["decision_type"] == "ACCEPT"
        assert said["decision"]["rationale"] == "It is right"


def test_the_story_of_a_task_tells_its_rejections_and_decisions(repository: Repository) -> None:
    task, handoff = held(repository)
    repository.call(*filing(handoff, LAZY))
    rejected(repository, handoff, a_rejection())

    told = repository.ok("task", "show", task)

    assert [row["event"] for row in told["rejections"]] == ["handoff.reject.invalid", "handoff.reject"]
    assert [row["decision"]["decision_type"] for row in told["decisions"]] == ["OVERRIDE", "ACCEPT_AND_DEFER"]
    names = [row["event"] for row in told["history"]]
    assert names.index("handoff.reject.invalid") < names.index("handoff.reject") < names.index("task.defer")
