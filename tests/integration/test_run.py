"""Holds `remand run` with scripts for agents: who works on what, what becomes of it, and what happens when something fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.integration.agent_launchers import eventually
from tests.integration.machine import REMAND, Machine
from tests.integration.sandboxes import marked, sandbox_of
from tests.integration.scripted_agents import GOOD_WORK, Member, Office, Scheduler
from tests.integration.test_disk_full import Disk, disk  # noqa: F401 - a fixture
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

pytestmark = pytest.mark.timeout(1800)
TIERS = ("plain", "bubblewrap")
WORKS = "commit good\n"
HANGS = "echo begun >begun.txt; hang\n"
Open = Callable[..., Office]
Start = Callable[..., Scheduler]


@pytest.fixture
def opened(machine: Machine) -> Open:
    """Opens an office; in bubblewrap where that is asked for and there is one."""

    def open_one(tier: str = "plain", **more: object) -> Office:
        if tier != "plain":
            sandbox_of(tier)
        sandbox = "off" if tier == "plain" else "required"
        return Office(machine, sandbox=sandbox, **more)  # type: ignore[arg-type]

    return open_one


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts schedulers, which end with the test at the latest."""
    started: list[Scheduler] = []

    def start_one(office: Office, *options: str) -> Scheduler:
        started.append(Scheduler(office, *options))
        return started[-1]

    yield start_one
    for one in started:
        one.close()


def check_nothing_runs(machine: Machine) -> None:
    """Holds that no process of this machine is left; one that was killed needs a moment to go."""
    eventually(lambda: not marked(str(machine.folder)))


# A task's way.


@pytest.mark.parametrize("tier", TIERS)
def test_a_task_goes_through_its_whole_life(opened: Open, start: Start, machine: Machine, tier: str) -> None:
    office = opened(
        tier,
        team={
            "Fenster": 'if [ $N = 1 ]; then commit bad; else commit "good roof"; fi\n',
            "Verbal": "cp work.txt before.txt; commit 'good roof of the barn'\n",
        },
        gates=GOOD_WORK,
    )
    task = office.add("Mend the roof")
    scheduler = start(office)

    rejected = office.reject(task, "work.txt:1: Say which roof it is.")
    ends = [one["how"] for one in office.events("run.end", task)]
    assert ends[:2] == ["exited", "exited"], "the next agent's may have ended as well"
    assert "Mend the roof" in office.noted(f"prompt.{task}.Fenster.1")
    assert "REJECTED: Quality gates failed" in office.noted(f"prompt.{task}.Fenster.2")
    assert office.repository.refused("task", "claim", task, "--agent", "Fenster") == "locked_out"

    office.approve(task, 2)
    told = office.noted(f"prompt.{task}.Verbal.1")
    assert "## Review Feedback (rejection #1)" in told
    assert "Say which roof it is." in told
    assert office.noted(f"folder.{task}.Verbal.1") == office.noted(f"folder.{task}.Fenster.1")
    branches = {one["branch"] for one in office.events("task.submit", task)}
    assert branches == {f"remand/{task}"}, "the same branch"
    office.repository.git("merge-base", "--is-ancestor", rejected["commit"], f"remand/{task}")
    assert (
        office.repository.git("show", f"remand/{task}:before.txt") == f"good roof by Fenster, 2, on {task}\n"
    )
    assert office.shown(task)["status"] == "done"
    assert not {"Fenster", "Verbal"} & set(office.shown(task)["asserted"]), "both are known by their sockets"
    office.check_worktrees()
    assert {one["tier"] for one in office.events("run.start")} == {tier}
    assert f"({'tier 1' if tier == 'bubblewrap' else 'tier 0'})" in scheduler.said
    scheduler.stop()
    check_nothing_runs(machine)
    office.check()


@pytest.mark.parametrize("tier", TIERS)
def test_an_agent_can_read_the_report_that_its_rejection_names(opened: Open, start: Start, tier: str) -> None:
    office = opened(
        tier,
        team={
            "Fenster": """commit bad
                remand task submit $T --commit HEAD >"$NOTES/said" 2>&1
                $(sed -n 's/^Full report: //p' "$NOTES/said") >"$NOTES/report"
                remand gate history $T >"$NOTES/history"
                commit good
            """
        },
        gates=GOOD_WORK,
    )
    task = office.add("Mend the roof")
    start(office)

    office.wait("gate.pass", task)

    assert "REJECTED: Quality gates failed" in office.noted("said")
    assert f"`remand gate history {task}`" in office.noted("said")
    assert "words" in office.noted("report").lower()
    is_path_named = f"call it as {REMAND}." in office.noted(f"prompt.{task}.Fenster.1")
    assert is_path_named == (tier == "plain"), "in the sandbox every shell finds it"
    assert "Words" in office.noted("history")


def test_once_begins_what_can_be_begun_sees_it_to_its_end_and_stops(
    opened: Open, start: Start, machine: Machine
) -> None:
    office = opened(
        team={"Alice": 'if [ $N = 1 ]; then echo half >half.txt; else commit "good"; fi\n'}, gates=GOOD_WORK
    )
    tasks = [office.add(f"Task {number}") for number in range(2)]

    assert start(office, "--once").wait() == 0

    assert [one["task_id"] for one in office.events("task.submit")] == tasks[:1], "one agent, one task"
    assert "uncommitted changes: half.txt" in office.noted(f"prompt.{tasks[0]}.Alice.2"), "a stop is answered"
    assert office.shown(tasks[1])["status"] == "incoming"
    check_nothing_runs(machine)
    assert start(office, "--once").wait() == 0
    assert [one["task_id"] for one in office.events("task.submit")] == tasks
    office.check()


def test_reviewers_and_directors_may_be_agents(opened: Open, start: Start) -> None:
    office = opened(
        team={
            "Alice": f"""if [ $N = 1 ]; then
  {REMAND} handoff reject "$REMAND_HANDOFF" --from - >"$NOTES/filed" 2>&1 <"$NOTES/record"
else commit good; fi
""",
            "Rita": Member(
                """run=$(grep -o 'RUN-[0-9a-f-]*' "$NOTES/prompt.$T.$A.$N" | head -1)
verdict=approve; [ $N = 1 ] && verdict=reject
cat <<END
I looked at it.
\\`\\`\\`json
{"run": "$run", "verdict": "$verdict",
 "checked": [{"path": "work.txt", "line": 1, "text": "The word says that the work is good, as asked"}],
 "findings": [$([ $N = 1 ] && echo '{"path": "work.txt", "line": 1, "text": "Say more.", "blocking": true}')]}
\\`\\`\\`
END
""",
                role="lead",
            ),
            "Dora": Member(
                """run=$(grep -o 'RUN-[0-9a-f-]*' "$NOTES/prompt.$T.$A.$N" | head -1)
cat <<END
\\`\\`\\`json
{"run": "$run", "decision_type": "OVERRIDE", "rationale": "The roof can be reached by the ladder in the barn.",
 "message": "Take the ladder in the barn.", "reassign_to": "", "created_tasks": []}
\\`\\`\\`
END
""",
                role="director",
            ),
            "Bob": "commit 'good and more'\n",
        },
        policy='director = "human"',
    )
    task = office.add(TITLE, "--scope", SCOPE)
    (office.notes / "record").write_text(json.dumps(a_rejection("BLOCKER")))
    scheduler = start(office)

    office.wait("review.approve", task)
    runs = [(one["agent"], one.get("purpose", "work")) for one in office.events("run.start", task)]
    assert ("Dora", "direct") in runs, office.told()
    assert runs.count(("Rita", "review")) == 2
    assert "Take the ladder in the barn." in office.noted(f"prompt.{task}.Alice.2")
    assert office.shown(task)["status"] == "done"
    scheduler.stop()
    office.check()


# How it ends, and goes on.


@pytest.mark.parametrize(
    ("tier", "number"), [("plain", signal.SIGTERM), ("bubblewrap", signal.SIGINT)], ids=str
)
def test_told_to_stop_it_ends_everybody_and_goes_on_where_it_was(
    opened: Open, start: Start, machine: Machine, tier: str, number: int
) -> None:
    script = f"if [ $N = 1 ]; then {HANGS.strip()}; else cat begun.txt >seen.txt; commit good; fi\n"
    stubborn = "trap '' TERM INT HUP\n" if tier == "bubblewrap" else ""
    office = opened(tier, team={"Alice": stubborn + script})
    task = office.add()
    scheduler = start(office)
    office.wait_for_note(f"hangs.{task}.Alice")

    scheduler.stop(number)

    check_nothing_runs(machine)
    assert [one["how"] for one in office.events("run.end", task)] == ["stopped"]
    assert office.shown(task)["status"] == "claimed", "it is still Alice's"
    scheduler = start(office)
    handed_in = office.wait("task.submit", task)
    assert office.repository.git("show", f"{handed_in['commit']}:seen.txt") == "begun\n", "as it was left"
    assert len(office.events("task.claim", task)) == 1, "under the same claim"
    assert not any(one.get("is_fault") for one in office.events("run.end"))
    scheduler.stop()
    office.check()


def test_told_to_stop_it_does_not_wait_for_gates(opened: Open, start: Start, machine: Machine) -> None:
    own = f"300.{os.getpid()}"
    slow = f'[gates.slow]\ncommand = ["sleep", "{own}"]\nparser = "exit"\nmode = "strict"\n'
    office = opened(team={"Alice": WORKS}, gates=slow)
    task = office.add()
    scheduler = start(office)
    office.until(
        lambda: any(f"sleep\0{own}\0" in one[-40:] and "bwrap" not in one for one in marked(own)), "the gate"
    )

    scheduler.stop()

    check_nothing_runs(machine)
    assert office.shown(task)["status"] == "claimed"
    office.check()


def test_there_is_one_scheduler_a_ledger(opened: Open, start: Start) -> None:
    office = opened(team={"Alice": HANGS})
    task = office.add()
    first = start(office)
    office.wait_for_note(f"hangs.{task}.Alice")

    second = start(office)

    assert second.wait() == 3
    assert "A scheduler of this ledger is already running" in second.said
    first.stop()
    office.check()


# When agents fail.


def test_faults_are_nobodys_blame_and_do_not_go_on_for_ever(opened: Open, start: Start) -> None:
    office = opened(
        team={
            "Slow": Member("if [ $N = 1 ]; then hang; else commit good; fi\n", more='skills = ["slow"]'),
            "Killed": Member(
                "if [ $N = 1 ]; then echo half >half.txt; kill -9 $$; else commit good; fi\n",
                more='skills = ["killed"]',
            ),
            "Crash": Member("echo 'no such model' >&2; exit 7\n", more='skills = ["crash"]'),
        },
        policy="max_faults = 2",
        run='time = "20s"',
    )
    slow, killed, crash = (office.add(name, "--skills", name) for name in ("slow", "killed", "crash"))
    scheduler = start(office)

    for task in (slow, killed):
        office.wait("task.submit", task)
    question = office.wait("escalation.open", crash)
    ends = {task: office.events("run.end", task) for task in (slow, killed, crash)}
    assert [one["how"] for one in ends[slow]][:2] == ["timed_out", "exited"]
    assert [(one["how"], one.get("status", 0)) for one in ends[killed]][:2] == [
        ("signalled", 9),
        ("exited", 0),
    ]
    assert [(one["how"], one["status"], one["detail"]) for one in ends[crash]] == [
        ("exited", 7, "no such model")
    ] * 2
    returned = {one["task_id"]: one.get("has_work", False) for one in office.events("task.return")}
    assert returned == {slow: False, killed: True, crash: False}
    assert "half.txt" in office.repository.git("show", "--name-only", f"remand/{killed}")
    assert "2 runs in a row failed" in question["reason"]
    assert "no such model" in question["reason"]
    assert office.events("lockout.set") == []
    assert crash in str(office.repository.ok("inbox"))
    scheduler.stop()
    office.check()


def test_a_program_that_is_not_there_is_the_systems_fault_and_said_once(opened: Open, start: Start) -> None:
    office = opened(team={"Alice": Member(more='command = ["no-such-agent", "-p"]'), "Bob": WORKS})
    tasks = [office.add(f"Task {number}") for number in range(2)]
    scheduler = start(office)

    for task in tasks:
        office.wait("task.submit", task)
    office.until(lambda: "(program no-such-agent)" in scheduler.said, "it to be said")
    (breach,) = office.until(lambda: scheduler.status().get("breaker"), "the breach")
    assert "no-such-agent" in breach["message"]
    never = [one for one in office.events("run.end") if one["how"] == "not_started"]
    assert len(never) == 1, "nobody else has to find out"
    assert not any(one.get("is_fault") for one in office.events("run.end"))
    assert scheduler.said.count("starts nothing (program no-such-agent)") == 1, scheduler.said
    scheduler.stop()
    office.check()


@pytest.mark.parametrize("tier", TIERS)
def test_a_worktree_that_vanished_is_made_anew_with_what_was_committed(
    opened: Open, start: Start, tier: str
) -> None:
    office = opened(tier, team={"Alice": "if [ $N = 1 ]; then commit first; hang; else commit good; fi\n"})
    task = office.add()
    scheduler = start(office)
    office.wait_for_note(f"hangs.{task}.Alice")
    scheduler.stop()
    shutil.rmtree(office.noted(f"folder.{task}.Alice.1").strip())

    scheduler = start(office)

    handed_in = office.wait("task.submit", task)
    log = office.repository.git("log", "--format=%s", handed_in["commit"]).split("\n")
    assert log[0] == "good"
    assert "first" in log or tier != "plain", log
    office.check_worktrees(task)
    scheduler.stop()
    office.check()


def test_work_to_be_continued_goes_on_with_what_was_not_committed(opened: Open, start: Start) -> None:
    office = opened(
        team={
            "Alice": f"""if [ -e half.txt ]; then commit good; else
  echo half >half.txt; {REMAND} task continue "$T" --reason 'out of turns' >"$NOTES/continued"; fi
"""
        }
    )
    task = office.add()
    scheduler = start(office)

    handed_in = office.wait("task.submit", task)

    assert "half.txt" in office.repository.git("ls-tree", "--name-only", handed_in["commit"]).split()
    assert len(office.events("task.continue", task)) == 1
    assert len(office.events("task.claim", task)) == 2
    scheduler.stop()
    office.check()


# How much is begun.


def test_nobody_has_more_at_once_than_it_can_and_leases_are_renewed(opened: Open, start: Start) -> None:
    office = opened(
        team={"Alice": Member("until_let; commit good\n", more="capacity = 2")}, policy='lease = "12s"'
    )
    tasks = [office.add(f"Task {number}") for number in range(3)]
    scheduler = start(office)

    for task in tasks[:2]:
        office.wait_for_note(f"waits.{task}.Alice")
        office.wait("task.heartbeat", task, 2)
    assert {one["task_id"] for one in office.events("run.start")} == set(tasks[:2])
    office.until(lambda: len(scheduler.status().get("agents", ())) == 2, "both at work")
    office.let_go()
    office.wait("task.submit", tasks[2])
    assert len(office.events("task.claim")) == 3, "no lease ended"
    scheduler.stop()
    office.check()


def test_nothing_new_is_begun_while_too_much_waits_for_review(opened: Open, start: Start) -> None:
    office = opened(team={"Alice": WORKS, "Bob": WORKS}, policy="max_waiting_reviews = 1")
    first, second = office.add("First"), office.add("Second", "--priority", "low")
    scheduler = start(office)
    office.wait("task.submit", first)

    waiting = "1 submission awaits review"
    office.until(lambda: waiting in scheduler.status().get("waiting", ""), "it to be said")
    author = office.reject(first, "work.txt:1: Not like this.")["agent"]
    office.wait("task.submit", first, 2)
    assert office.events("task.submit", first)[-1]["agent"] != author, "rejected work goes on"
    assert not office.events("run.start", second)
    office.approve(first, 2)
    office.wait("task.submit", second)
    scheduler.stop()
    office.check()


def test_a_spent_budget_asks_the_user(opened: Open, start: Start) -> None:
    office = opened(
        team={"Alice": 'commit "bad $N"\n'},
        gates=GOOD_WORK,
        policy="budget = {runs = 2}\nescalate_after_gates = 50\nalert_after_gates = 50",
    )
    task = office.add()
    scheduler = start(office)

    question = office.wait("escalation.open", task)

    assert "2 runs of 2" in question["reason"]
    assert len(office.events("run.start", task)) == 2
    assert office.shown(task)["status"] == "escalated"
    scheduler.stop()
    office.check()


# When the world around fails.


def test_a_forge_that_is_away_keeps_nobody_from_work(opened: Open, start: Start, machine: Machine) -> None:
    machine.environment["GITEA_TOKEN"] = "token"
    forge = '[forge]\nkind = "gitea"\nrepository = "me/it"\napi = "http://127.0.0.1:9/api/v1"\nimport_label = "do"\n'
    office = opened(team={"Alice": WORKS}, run='interval = "1s"', more=forge)
    task = office.add()
    scheduler = start(office)

    office.wait("task.submit", task)
    trouble = office.until(lambda: scheduler.status().get("forge"), "the trouble with the forge to be told")
    assert "cannot be reached" in trouble
    scheduler.stop()
    office.check()


def test_a_full_disk_stops_everything_and_spoils_nothing(
    opened: Open,
    start: Start,
    machine: Machine,
    disk: Disk,  # noqa: F811 - the fixture
    campaign: Callable[[int, int], int],
) -> None:
    (disk.path / "state").mkdir()
    machine.environment["XDG_STATE_HOME"] = str(disk.path / "state")
    office = opened(team={"Alice": WORKS})
    first, second = office.add("First"), office.add("Second")
    assert start(office, "--once").wait() == 0
    disk.leave(16 * 1024)

    scheduler = start(office)
    office.until(lambda: scheduler.said.count("\n") > 1, "it to be said")

    told = scheduler.said.lower()
    office.until(
        lambda: "room" in scheduler.said.lower() or "space" in scheduler.said.lower(), "it to be said"
    )
    assert not any(one.get("is_fault") for one in office.events("run.end")), told
    disk.empty()
    if campaign(0, 1) == 0:
        scheduler.stop()
        scheduler = start(office)
    office.wait("task.submit", second)
    assert office.events("escalation.open") == []
    scheduler.stop()
    assert {office.shown(task)["status"] for task in (first, second)} == {"provisional"}
    office.check()
