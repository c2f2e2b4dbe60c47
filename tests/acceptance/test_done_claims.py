"""Done claims through the command line: measured in real sandboxes, and not one of them believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from remand.domain.gate.message import CONTINUE
from tests.integration.machine import Machine, Repository

CONFIG = """
[project]
base = "main"

[gates.words]
command = ["grep", "-q", "good", "work.txt"]
parser = "exit"
mode = "strict"

[team]
members = [
  {name = "Alice", role = "agent"},
  {name = "Bob", role = "agent"},
  {name = "Lead", role = "lead"},
  {name = "owner", role = "user", aliases = ["user"]},
]

[policy]
alert_after_gates = 2
escalate_after_gates = 4
"""
RUN = ("gate", "run")


class Workspace:
    """A repository with one gate, and an agent that has claimed one task."""

    def __init__(self, machine: Machine, config: str = CONFIG, *, branch: str = "work") -> None:
        self.repository: Repository = machine.repository(config=config)
        self.task: str = self.repository.ok("task", "add", "Mend the roof", "--branch", branch)["task_id"]
        self.repository.ok("task", "claim", self.task, "--agent", "Alice")
        self.repository.git("checkout", "-q", "-b", "work")

    def commit(self, text: str, path: str = "work.txt") -> str:
        """Commits a file."""
        (self.repository.path / path).write_text(text, encoding="utf-8")
        self.repository.git("add", path)
        self.repository.git("commit", "-q", "-m", text[:40])
        return self.repository.git("rev-parse", "HEAD").strip()

    def submit(self, *options: str, agent: str = "Alice") -> Any:
        """A done claim at HEAD."""
        words = ("task", "submit", self.task, "--agent", agent, "--commit", "HEAD", *options)
        return self.repository.call(*words).data

    @property
    def status(self) -> str:
        """Where the task stands."""
        found: str = self.repository.ok("task", "show", self.task)["status"]
        return found


@pytest.fixture
def workspace(machine: Machine) -> Iterator[Workspace]:
    return Workspace(machine)


def test_a_premature_done_is_rejected_with_figures_and_the_fix_passes(workspace: Workspace) -> None:
    workspace.commit("bad")
    said = workspace.submit()
    assert said["refused"] == "gate_rejected"
    assert said["status"] == workspace.status == "claimed"
    assert said["message"].startswith("REJECTED: Quality gates failed\n\n- Words: 1 error (requires 0)")
    assert said["message"].endswith("You must fix ALL issues above before claiming done. Continue working.")
    workspace.commit("good")
    passed = workspace.submit()
    assert passed["status"] == workspace.status == "provisional"
    assert passed["verdict"]["status"] == "passed"
    assert passed["verdict"]["tier"] in ("bubblewrap", "landlock", "plain")


def test_handing_a_handoff_in_is_a_done_claim_too(workspace: Workspace) -> None:
    handoff = workspace.repository.ok("task", "show", workspace.task)["handoffs"][-1]["handoff_id"]
    workspace.commit("bad")
    words = ("handoff", "complete", handoff, "--agent", "Alice", "--commit", "HEAD")
    assert workspace.repository.call(*words).data["refused"] == "gate_rejected"
    workspace.commit("good")
    assert workspace.repository.call(*words).data["status"] == "provisional"


def test_a_commit_from_before_the_claim_is_no_work(workspace: Workspace) -> None:
    said = workspace.submit()
    assert said["refused"] == "nothing_committed"
    assert workspace.status == "claimed"


def test_the_branch_brings_no_rules_of_its_own(workspace: Workspace) -> None:
    workspace.commit("[gates]\n", "remand.toml")
    workspace.commit("bad")
    assert workspace.submit()["refused"] in ("gate_rejected", "gate_held")
    assert workspace.status == "claimed"


def test_work_on_the_base_itself_is_measured_by_the_rules_from_before_it(machine: Machine) -> None:
    workspace = Workspace(machine, branch="")
    workspace.repository.git("checkout", "-q", "main")
    workspace.commit("[gates]\n", "remand.toml")
    workspace.commit("bad")
    said = workspace.submit()
    assert said["refused"] in ("gate_rejected", "gate_held")
    assert workspace.status == "claimed"


def test_what_others_did_on_the_base_is_not_the_tasks_work(workspace: Workspace) -> None:
    workspace.repository.git("checkout", "-q", "main")
    workspace.commit("good")
    workspace.repository.git("checkout", "-q", "work")
    workspace.repository.git("merge", "-q", "--ff-only", "main")
    assert workspace.submit()["refused"] == "nothing_committed"


def test_an_unchanged_tree_is_answered_from_before_and_still_counts(workspace: Workspace) -> None:
    workspace.commit("bad")
    assert not workspace.submit()["verdict"]["cached"]
    again = workspace.submit()
    assert again["verdict"]["cached"]
    assert again["gate_rejection_count"] == 2
    assert "nothing was changed" in again["message"]


def test_the_same_key_is_the_same_claim_and_counts_once(workspace: Workspace) -> None:
    workspace.commit("bad")
    first = workspace.submit("--key", "k1")
    assert workspace.submit("--key", "k1")["gate_rejection_count"] == first["gate_rejection_count"] == 1


def test_rejections_without_progress_alert_and_then_go_to_a_human(workspace: Workspace) -> None:
    workspace.commit("bad")
    for _ in range(4):
        said = workspace.submit()
    assert said["status"] == workspace.status == "escalated"
    events = [row["event"] for row in workspace.repository.ok("gate", "history", workspace.task)]
    assert events == ["gate.reject", "gate.reject", "gate.alert", "gate.reject", "gate.reject"]
    assert not workspace.repository.ok("task", "show", workspace.task)["lockouts"]


def test_a_gate_that_cannot_run_is_nobodys_fault(machine: Machine) -> None:
    workspace = Workspace(machine, CONFIG.replace('"grep"', '"no-such-program"'))
    workspace.commit("good")
    said = workspace.submit()
    assert said["refused"] == "gate_errored"
    assert said["status"] == workspace.status == "needs_continuation"
    assert said["gate_rejection_count"] == 0


def test_without_enforcement_everything_is_recorded_and_nothing_stopped(machine: Machine) -> None:
    workspace = Workspace(machine, CONFIG.replace("[policy]", "[policy]\nenforce = false"))
    workspace.commit("bad")
    said = workspace.submit()
    assert said["status"] == workspace.status == "provisional"
    (row,) = workspace.repository.ok("gate", "history", "--observed")
    assert row["status"] == "failed"
    assert row["observed"]


def test_only_the_user_overrides_a_gate_and_only_for_that_tree(workspace: Workspace) -> None:
    workspace.commit("bad")
    workspace.submit()
    words = ("gate", "override", workspace.task, "--gate", "words", "--reason", "known")
    assert workspace.repository.call(*words, "--as", "Lead").data["refused"] == "user_only"
    inside = workspace.repository.call(*words, env={"REMAND_TASK": workspace.task}).data
    assert inside["refused"] == "user_only"
    assert workspace.repository.call(*words).data["status"] == "provisional"


def test_an_override_does_not_cover_another_tree(workspace: Workspace) -> None:
    workspace.commit("bad")
    workspace.submit()
    handoff = workspace.repository.ok("task", "show", workspace.task)["handoffs"][-1]["handoff_id"]
    workspace.repository.ok("task", "release", workspace.task, "--agent", "Alice", "--handoff", handoff)
    workspace.repository.ok("gate", "override", workspace.task, "--gate", "words", "--reason", "known")
    workspace.repository.ok("task", "claim", workspace.task, "--agent", "Bob")
    workspace.commit("bad again")
    assert workspace.submit(agent="Bob")["refused"] == "gate_rejected"


def test_gate_run_measures_without_recording_and_tells_by_its_exit_code(workspace: Workspace) -> None:
    workspace.commit("bad")
    failed = workspace.repository.call("gate", "run", "--commit", "HEAD")
    assert (failed.code, failed.data["status"]) == (1, "failed")
    workspace.commit("good")
    passed = workspace.repository.call("gate", "run")
    assert (passed.code, passed.data["status"]) == (0, "passed")
    assert set(passed.data) >= {
        "status",
        "commit",
        "tree",
        "base",
        "policy",
        "tier",
        "cached",
        "gates",
        "message",
    }
    assert set(passed.data["gates"][0]) >= {"name", "status", "measured", "required", "line", "findings"}
    assert workspace.repository.ok("gate", "history", workspace.task) == []


def test_what_gate_run_says_is_for_people_and_what_a_done_claim_is_told_for_its_agent(
    workspace: Workspace,
) -> None:
    workspace.commit("bad")
    ran, claimed = (
        workspace.repository.people(*words).out
        for words in (RUN, ("task", "submit", workspace.task, "--agent", "Alice", "--commit", "HEAD"))
    )
    assert ran.startswith("REJECTED: Quality gates failed\n\n- Words: 1 error (requires 0)")
    assert "Measured at tier" in ran
    assert CONTINUE not in ran
    assert claimed.rstrip().endswith(CONTINUE)


def test_gate_run_says_when_nothing_is_measured_or_enforced(machine: Machine) -> None:
    without = machine.repository("without").people(*RUN)
    assert (without.code, without.out) == (0, "PASSED: there are no gates; nothing was measured.\n")
    workspace = Workspace(machine, CONFIG.replace("[policy]", "[policy]\nenforce = false"))
    workspace.commit("bad")
    judged = workspace.repository.people(*RUN)
    assert judged.code == 1
    assert "Nothing is enforced here" in judged.out


@pytest.mark.parametrize("width", [100, 160])
def test_the_history_of_gates_can_be_read_on_a_terminal(workspace: Workspace, width: int) -> None:
    workspace.commit("bad")
    workspace.submit()
    commit = workspace.repository.git("rev-parse", "HEAD").strip()[:12]
    for named in ((), (workspace.task,)):
        shown = workspace.repository.people("gate", "history", *named, env={"COLUMNS": str(width)}).out
        for cell in (commit, "gate.reject", "Alice", *(() if named else (workspace.task,))):
            assert f" {cell} " in shown
        assert max(map(len, shown.splitlines())) <= width


def test_gate_run_that_cannot_measure_exits_with_3(machine: Machine) -> None:
    workspace = Workspace(machine, CONFIG.replace('"grep"', '"no-such-program"'))
    workspace.commit("good")
    said = workspace.repository.call("gate", "run")
    assert (said.code, said.data["status"]) == (3, "errored")


def test_a_base_that_misses_the_threshold_does_not_trap_the_agent(machine: Machine) -> None:
    workspace = Workspace(machine, CONFIG.replace('mode = "strict"', 'mode = "delta"'))
    workspace.commit("bad")
    said = workspace.submit()
    assert said["status"] == "provisional"
    assert "already" in said["verdict"]["gates"][0]["detail"]


def test_rules_that_changed_on_a_local_base_while_the_task_was_held_are_a_reviewers_business(
    workspace: Workspace,
) -> None:
    workspace.repository.git("checkout", "-q", "main")
    workspace.repository.configure('[project]\nbase = "main"\n[gates]\n')
    workspace.repository.git("checkout", "-q", "work")
    workspace.repository.git("merge", "-q", "--no-edit", "main")
    workspace.commit("bad")
    said = workspace.submit()
    assert said["refused"] == "gate_held"
    assert workspace.status == "claimed"
    assert "rules" in said["message"]


STRICTER = CONFIG.replace('"good", ', '"very good", ') + "max_faults = 5\n"


def maintain(workspace: Workspace, config: str) -> None:
    """A maintainer changes the rules on the base."""
    workspace.repository.git("checkout", "-q", "main")
    workspace.repository.configure(config)
    workspace.repository.git("checkout", "-q", "work")


def test_rules_that_a_maintainer_changed_measure_work_in_flight_anew(workspace: Workspace) -> None:
    workspace.commit("good")
    maintain(workspace, STRICTER)
    assert workspace.submit()["refused"] == "gate_rejected", "it passed by the rules at the claim"
    workspace.commit("very good")
    said = workspace.submit()
    assert (said["status"], workspace.status) == ("provisional", "provisional")


@pytest.mark.parametrize("way", ["merge", "rebase"])
def test_changed_rules_that_come_to_a_branch_from_the_base_are_not_its_own_change(
    workspace: Workspace, way: str
) -> None:
    workspace.commit("very good")
    maintain(workspace, STRICTER)
    workspace.repository.git(way, "-q", *(["--no-edit"] if way == "merge" else []), "main")
    workspace.commit("very good indeed")
    assert workspace.submit()["status"] == "provisional"


def test_a_gate_that_a_maintainer_mends_on_the_base_holds_nobody_up(machine: Machine) -> None:
    workspace = Workspace(machine, CONFIG.replace('"grep"', '"no-such-program"'))
    workspace.commit("good")
    maintain(workspace, CONFIG)
    assert workspace.submit()["status"] == "provisional"


def test_a_branch_that_changes_the_rules_itself_is_held_also_when_the_base_has_changed_them(
    workspace: Workspace,
) -> None:
    workspace.commit("very good")
    maintain(workspace, STRICTER)
    workspace.commit(f"{CONFIG}\n# mine\n", "remand.toml")
    said = workspace.submit()
    assert said["refused"] == "gate_held"
    assert [one["path"] for one in said["held"]] == ["remand.toml"]


def test_the_remotes_base_outranks_a_local_one_that_anyone_can_commit_to(machine: Machine) -> None:
    origin = machine.repository("origin", config=CONFIG)
    workspace = Workspace.__new__(Workspace)
    workspace.repository = machine.clone(origin, "clone")
    workspace.task = workspace.repository.ok("task", "add", "Mend the roof")["task_id"]
    workspace.repository.ok("task", "claim", workspace.task, "--agent", "Alice")
    workspace.repository.git("checkout", "-q", "-B", "main")
    workspace.commit("[gates]\n", "remand.toml")
    workspace.repository.git("checkout", "-q", "-b", "work")
    workspace.commit("bad")
    assert workspace.submit()["refused"] in ("gate_rejected", "gate_held")
    workspace.repository.git("reset", "-q", "--hard", "origin/main")
    assert workspace.submit()["refused"] == "nothing_committed"


def test_a_base_that_vanished_is_no_way_round(workspace: Workspace) -> None:
    workspace.repository.git("branch", "-m", "main", "old")
    workspace.commit("[gates]\n", "remand.toml")
    workspace.commit("bad")
    said = workspace.repository.call("task", "submit", workspace.task, "--agent", "Alice", "--commit", "HEAD")
    assert said.code in (1, 3)
    workspace.repository.git("branch", "-m", "old", "main")
    assert workspace.status in ("claimed", "needs_continuation")


def test_the_callers_search_path_chooses_no_programs(workspace: Workspace) -> None:
    folder = workspace.repository.path.parent / "evil"
    folder.mkdir()
    (folder / "grep").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    (folder / "grep").chmod(0o755)
    workspace.commit("bad")
    path = f"{folder}:{workspace.repository.machine.environment['PATH']}"
    words = ("task", "submit", workspace.task, "--agent", "Alice", "--commit", "HEAD")
    assert workspace.repository.call(*words, env={"PATH": path}).data["refused"] == "gate_rejected"


HELD = """
[project]
base = "main"

[gates.tests]
command = ["python3", "-m", "pytest", "-q", "--disable-plugin-autoload", "-p", "no:cacheprovider", "--junitxml={report}"]
parser = "junit"

[team]
members = [
  {name = "Alice", role = "agent"},
  {name = "Lead", role = "lead"},
  {name = "owner", role = "user", aliases = ["user"]},
]
"""
TWO_TESTS = "def test_one():\n    assert 1 + 1 == 2\n\n\ndef test_two():\n    assert 2 + 2 == 4\n"
ONE_TEST = "def test_one():\n    assert 1 + 1 == 2\n"


@pytest.fixture
def held(machine: Machine) -> tuple[Workspace, str]:
    """Work with a deleted test that waits for a reviewer, and the finding's name."""
    repository = machine.repository(config=HELD)
    repository.commit("test_sums.py", TWO_TESTS)
    workspace = Workspace.__new__(Workspace)
    workspace.repository = repository
    workspace.task = repository.ok("task", "add", "Tidy up", "--branch", "work")["task_id"]
    repository.ok("task", "claim", workspace.task, "--agent", "Alice")
    repository.git("checkout", "-q", "-b", "work")
    workspace.commit(ONE_TEST, "test_sums.py")
    said = workspace.submit()
    assert said["refused"] == "gate_held", said
    findings = next(gate["held"] for gate in said["verdict"]["gates"] if gate["name"] == "integrity")
    for finding in findings[1:]:
        repository.ok("gate", "accept", workspace.task, finding, "--reviewer", "Lead")
    return workspace, findings[0]


def test_a_held_finding_that_a_reviewer_accepts_lets_the_work_through_by_itself(
    held: tuple[Workspace, str],
) -> None:
    workspace, finding = held
    own = workspace.repository.call("gate", "accept", workspace.task, finding, "--reviewer", "Alice").data
    assert own["refused"] in ("not_authorised", "own_work")
    answer = workspace.repository.ok(
        "gate", "accept", workspace.task, finding, "--reviewer", "Lead", "--reason", "obsolete"
    )
    assert answer["status"] == workspace.status == "provisional"


def test_a_refused_finding_is_a_rejection_that_says_what_and_why_and_is_not_forgotten(
    held: tuple[Workspace, str],
) -> None:
    workspace, finding = held
    words = ("gate", "refuse", workspace.task, finding, "--reviewer", "Lead", "--reason", "put it back")
    assert workspace.repository.ok(*words)["status"] == "claimed"
    prompt = workspace.repository.ok("task", "prompt", workspace.task, "--agent", "Alice")["prompt"]
    assert "put it back" in prompt
    assert "test_sums.py" in prompt
    again = workspace.submit()
    assert again["refused"] == "gate_rejected"
    assert again["gate_rejection_count"] == 2
    workspace.commit(TWO_TESTS + "\n\n# tidied\n", "test_sums.py")
    assert workspace.submit()["status"] == "provisional"


def test_what_was_handed_in_for_one_task_is_no_work_on_another(workspace: Workspace) -> None:
    workspace.commit("good work")
    assert workspace.submit("--pr", "7")["status"] == "provisional"
    other = workspace.repository.add("Mend the cellar")
    workspace.repository.ok("task", "claim", other, "--agent", "Bob")
    claim = ("task", "submit", other, "--agent", "Bob", "--commit", "HEAD")

    assert workspace.repository.refused(*claim, "--pr", "7") == "taken"
    assert workspace.repository.refused(*claim) == "nothing_committed"
    workspace.commit("more good work")
    assert workspace.repository.ok(*claim, "--pr", "8")["status"] == "provisional"


def test_an_alert_is_in_the_inbox_and_the_log_and_the_agent_reads_of_it(workspace: Workspace) -> None:
    workspace.commit("bad")
    workspace.submit()
    assert workspace.repository.ok("inbox") == []
    said = workspace.submit()

    sentence = "This is the second rejection; at 4, or after two without progress, a human takes over."
    assert said["message"].endswith(f"{sentence}\n\n{CONTINUE}")
    (item,) = workspace.repository.ok("inbox")
    assert {"escalation_id", "task_id", "question", "options", "deadline", "default", "tried"} <= set(item)
    assert (item["kind"], item["task_id"], item["agent"]) == ("alert", workspace.task, "Alice")
    assert [option["key"] for option in item["options"]] == ["ack", "fix", "reassign:Bob"]
    page = workspace.repository.people("inbox").out
    assert f"Answer: remand inbox answer {item['escalation_id']} OPTION" in page
    assert "Without an answer Alice continues" in page
    log = "".join(path.read_text() for path in (workspace.repository.path / ".got").rglob("*.md"))
    log += "".join(path.read_text() for path in (workspace.repository.path / ".got").rglob("*.log"))
    assert f"ALERT: Task {workspace.task}: the gates rejected Alice's work twice" in log

    seen = workspace.repository.ok("inbox", "ack", item["escalation_id"])
    assert seen["acknowledged_by"] == "owner"
    assert workspace.repository.ok("inbox") == []
    assert workspace.status == "claimed"


def test_the_user_takes_a_task_over_by_the_number_of_the_option_on_an_alert(workspace: Workspace) -> None:
    workspace.commit("bad")
    workspace.submit()
    workspace.submit()
    (item,) = workspace.repository.ok("inbox")

    answered = workspace.repository.ok("inbox", "answer", item["escalation_id"], "2")

    assert (answered["status"], answered["option"]) == ("claimed", "fix")
    assert workspace.repository.ok("inbox") == []
    assert workspace.submit()["refused"] in ("lease_lost", "not_yours")


def test_the_answer_that_escalates_does_not_tell_the_agent_to_continue(workspace: Workspace) -> None:
    workspace.commit("bad")
    messages = [workspace.submit()["message"] for _ in range(4)]

    assert all(message.endswith(CONTINUE) for message in messages[:3])
    assert messages[3].startswith("REJECTED: Quality gates failed\n\n- Words: 1 error (requires 0)")
    assert messages[3].endswith(
        "This was the fourth rejection, and the last two showed no progress. A human takes over now; "
        "this session may stop."
    )
    assert "Continue working" not in messages[3]
