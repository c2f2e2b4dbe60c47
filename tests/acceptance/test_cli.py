"""The command line as agents, people and scripts meet it: every command in its own process, good input and bad."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.system.machine import SystemClock
from remand.domain.instant import Instant, add_seconds
from remand.domain.refusals import MEANINGS
from remand.domain.validation.assessment import MEANINGS as ISSUES
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, near_call

ROW = {
    "task_id", "title", "status", "priority", "agent", "branch", "alias", "pr",
    "rejection_count", "gate_rejection_count", "attempt_count",
}  # fmt: skip
TOLD = {"history", "handoffs", "rejections", "decisions", "verdicts", "reviews", "lockouts", "escalations"}
TASK_ID = re.compile(r"T-\d{8}-\d{6}-[0-9a-f]{8}")
HANDOFF_ID = re.compile(r"H-\d{8}-\d{6}-[0-9a-f]{8}")
TEAM = """
[gates]
[team]
members = [
  {name = "Fenster", role = "agent", skills = ["frontend", "css"], aliases = ["fen"]},
  {name = "Hockney", role = "agent", skills = ["backend"]},
  {name = "Lead", role = "lead"},
  {name = "Boss", role = "director"},
  {name = "owner", role = "user"},
]
"""
LEASE = '[gates]\n[policy]\nlease = "10m"\n'
Later = Callable[[float], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """Lets so many seconds pass at once, for calls inside this process."""
    passed = 0.0

    class Clock(SystemClock):
        def now(self) -> Instant:
            return add_seconds(super().now(), passed)

    def let_pass(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    monkeypatch.setattr("remand.wiring.ledger.SystemClock", Clock)
    return let_pass


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine whose command line has a process for each call, as people and scripts know it."""
    made = Machine()
    yield made
    made.close()


def claim(repository: Repository, task: str, agent: str = "Alice") -> dict[str, Any]:
    """A claim of one task."""
    answer: dict[str, Any] = repository.ok("task", "claim", task, "--agent", agent)
    return answer


def submit(repository: Repository, task: str, agent: str = "Alice", *options: str) -> dict[str, Any]:
    """A done claim at the present commit."""
    answer: dict[str, Any] = repository.ok(
        "task", "submit", task, "--agent", agent, "--commit", "HEAD", *options
    )
    return answer


def finish(repository: Repository, task: str, agent: str = "Alice") -> None:
    """Claims, hands in and approves."""
    claim(repository, task, agent)
    submit(repository, task, agent)
    assert repository.ok("review", "approve", task, "--commit", "HEAD")["status"] == "done"


def status(repository: Repository, task: str) -> str:
    """A task's status."""
    return str(repository.ok("task", "show", task)["status"])


class TestSetUp:
    def test_init_may_be_repeated(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        first = repository.ok("init")
        assert {"root", "config", "gates", "hooks"} <= set(first)
        assert first["root"] == str(repository.path)
        assert Path(first["config"]).is_file()
        (repository.path / "remand.toml").write_text('[gates]\n[policy]\nlease = "5m"\n')
        again = repository.ok("init")
        assert len(again["missing"]) == 2, "the project's id and the machine's key"
        assert again | {"missing": []} == first
        assert "5m" in (repository.path / "remand.toml").read_text(), "what is there stays"
        repository.git("add", "-A")
        assert repository.git("diff", "--cached", "--name-only").split() == [
            ".got/.gitattributes",
            ".got/.gitignore",
            "remand.toml",
        ], "git is kept from everything but events"

    def test_a_repository_set_up_by_init_takes_a_task_to_its_end(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        repository.ok("init")
        repository.git("add", "-A")
        repository.git("commit", "-q", "-m", "set up")
        finish(repository, repository.add())

    def test_init_tells_what_it_made_and_what_to_commit(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        first, again = repository.people("init").out, repository.people("init").out
        hosted = repository.people("init", "--hosts", "claude").out
        assert ("made  .got/" in first, "kept  .got/" in again) == (True, True)
        assert "Next: commit remand.toml, .got/.gitignore and .got/.gitattributes on the base" in first
        assert "(this machine's; git ignores it)" in hosted
        assert "In every other clone, run `remand init --hosts claude` once." in hosted
        assert "hosts" not in first + again

    def test_init_offers_a_host_as_director_in_one_line(self, machine: Machine) -> None:
        repository = machine.repository(config=None)
        line = 'director = ["codex", "exec", "-"]'
        assert repository.ok("init", "--hosts", "cursor,codex")["director"] == line
        text = (repository.path / "remand.toml").read_text()
        assert f"\n# {line} " in text
        assert f"`{line}` in [policy]" in repository.people("init").out

        (repository.path / "remand.toml").write_text(text.replace(f"# {line}", line))
        assert repository.ok("init")["director"] is None

    def test_a_bare_repository_is_not_set_up(self, machine: Machine, repository: Repository) -> None:
        machine.git(machine.folder, "clone", "-q", "--bare", str(repository.path), "bare.git")
        bare = Repository(machine, machine.folder / "bare.git")
        bare.git("worktree", "add", "-q", "../linked", "-b", "linked")
        for place in (bare, Repository(machine, machine.folder / "linked")):
            said = place.call("init")
            assert (said.code, said.data["error"]) == (3, "environment")
            assert "bare repository" in said.data["message"]
            assert "in a clone" in said.data["message"]
            assert not (place.path / ".got").exists()

    def test_a_folder_that_was_deleted_is_said_to_be(self, machine: Machine) -> None:
        gone = machine.folder / "gone"
        gone.mkdir()
        said = machine.remand(gone, "task", "list", "--json", preexec=gone.rmdir)
        assert (said.code, said.data["error"]) == (3, "environment")
        assert "This folder was deleted" in said.data["message"]

    def test_what_is_lost_is_told_with_the_folder_that_remembers_it(self, machine: Machine) -> None:
        repository = machine.repository()
        repository.add()
        shutil.rmtree(repository.path / ".got")
        (problem,) = repository.verify()
        assert f"({machine.state}/remand)" in problem["problem"]

    def test_init_says_which_host_it_does_not_know(self, repository: Repository) -> None:
        said = repository.call("init", "--hosts", "claude,netscape")
        assert said.code == 2
        assert "netscape" in said.data["message"]

    def test_doctor_names_checks_and_what_to_do(self, machine: Machine, repository: Repository) -> None:
        repository.add()
        until = repository.ok("pause", "--reason", "the disk is full")["paused_until"]
        answer = repository.ok("doctor")
        (paused,) = [check for check in answer["checks"] if check["name"] == "pause"]
        assert paused["detail"].endswith(f"until {until[:19]}Z: the disk is full")
        assert "`remand resume`" in paused["fix"]
        repository.ok("resume")
        begun, ended = [event for event in repository.ok("log", "tail") if event["event"].startswith("pause")]
        assert (begun["event"], begun["meta"]["actor"], begun["until"]) == ("pause.begin", "user", until)
        assert begun["reason"] == "the disk is full"
        assert ended["event"] == "pause.end"
        assert answer["tier"] in (0, 1)
        assert all({"name", "ok", "detail", "fix"} == set(check) for check in answer["checks"])
        bad = machine.repository("bad", config="[nonsense]\n")
        said = bad.call("doctor")
        assert said.code == 1
        wrong = [check for check in said.data["checks"] if not check["ok"]]
        assert wrong
        assert all(check["fix"] for check in wrong)
        shown = bad.people("doctor")
        assert shown.code == 1
        assert "nonsense" in shown.out
        assert f"Tier {said.data['tier']}: agents" in shown.out


@pytest.fixture(scope="class")
def world() -> Iterator[Repository]:
    """A repository with a team, shared by the tests of one class."""
    machine = Machine()
    yield machine.repository(config=TEAM)
    machine.close()


class TestTheShapeOfAnswers:
    """One task's whole story, with the keys that scripts rely on."""

    def test_from_the_first_word_to_the_last(self, world: Repository) -> None:
        added = world.ok(
            "task", "add", "Mend the roof", "--alias", "#42", "--skills", "css", "--priority", "high"
        )
        assert set(added) == {"task_id"}
        task = added["task_id"]
        assert TASK_ID.fullmatch(task)

        (row,) = world.ok("task", "list")
        assert set(row) >= ROW
        assert (row["task_id"], row["status"], row["priority"], row["alias"]) == (
            task,
            "incoming",
            "high",
            "#42",
        )
        assert (row["agent"], row["branch"], row["pr"]) == (None, None, None)

        claimed = claim(world, "#42", "Fenster")
        assert {"task_id", "handoff_id", "branch", "lease_expires_at", "attempt"} <= set(claimed)
        assert HANDOFF_ID.fullmatch(claimed["handoff_id"])
        assert claimed["attempt"] == 1

        asked = world.ok("task", "prompt", task, "--agent", "Fenster")
        assert "Mend the roof" in asked["prompt"]
        beat = world.ok("task", "heartbeat", task, "--agent", "Fenster")
        assert beat == {"task_id": task, "status": "claimed"}

        handed_in = submit(world, task, "Fenster", "--pr", "7", "--branch", "roof")
        assert handed_in["status"] == "provisional"
        assert handed_in["verdict"]["status"] == "passed"
        assert handed_in["verdict"]["commit"] == world.head()
        (row,) = world.ok("task", "list", "--status", "provisional")
        assert (row["agent"], row["pr"], row["branch"]) == ("Fenster", 7, "roof")

        rejected = world.ok(
            "review", "reject", task, "--reviewer", "Lead", "--commit", world.head(),
            "--finding", "roof.py:12: It leaks.", "--suggestion", "roof.py:1: A shorter name.",
        )  # fmt: skip
        assert rejected.pop("escalation_id").startswith("E-")
        assert rejected == {
            "task_id": task,
            "status": "escalated",
            "rejection_count": 1,
            "locked_out": ["Fenster"],
            "reassigned_to": None,
        }, "nobody else has the skill"
        shown = world.ok("task", "show", f"task:{task}")
        assert set(shown) >= ROW | TOLD
        assert [entry["event"] for entry in shown["history"]] == [
            "node.create", "task.claim", "gate.pass", "task.submit", "review.reject", "lockout.set",
            "escalation.open",
        ]  # fmt: skip
        assert [entry["agent"] for entry in shown["lockouts"]] == ["Fenster"]
        assert [entry["status"] for entry in shown["handoffs"]] == ["completed"]
        findings = shown["reviews"][0]["findings"]
        assert [(f["path"], f["line"], f["text"]) for f in findings] == [
            ("roof.py", 12, "It leaks."),
            ("roof.py", 1, "A shorter name."),
        ]
        assert world.refused("task", "claim", task, "--agent", "Fenster") == "locked_out"
        assert world.refused("task", "claim", task, "--agent", "fen") == "locked_out", "by any name"
        assert world.refused("task", "claim", task, "--agent", "Hockney") == "not_eligible"

    def test_the_log(self, world: Repository) -> None:
        world.add("for the log")
        world.add("for the log too")
        assert set(world.ok("log", "digest")) == {"digest", "events"}
        verified = world.ok("log", "verify")
        assert (verified["ok"], verified["problems"]) == (True, [])
        assert verified["events"] == world.digest()[1]
        tail = world.ok("log", "tail", "-n", "2")
        assert world.ok("log", "tail", "-n", str(10**30))[-2:] == tail
        assert len(tail) == 2
        assert all({"ts", "event", "meta"} <= set(event) for event in tail)
        published = world.ok("log", "publish")
        assert {"branch", "commit", "files", "events"} <= set(published)
        assert world.ok("log", "publish")["commit"] is None
        assert world.ok("log", "rebuild")["events"] == world.digest()[1]

    def test_the_graph(self, world: Repository) -> None:
        world.add("for the graph")
        stats = world.ok("graph", "stats")
        assert {"nodes", "edges", "by_node_type", "by_edge_type", "conflicts"} <= set(stats)
        assert stats["by_node_type"]["TASK"] == stats["nodes"] == len(world.ok("task", "list"))
        for form in ("mermaid", "dot", "graphml", "html"):
            assert "for the graph" in world.ok("graph", "export", "--format", form)["text"]
        assert isinstance(world.ok("graph", "export", "--format", "json"), dict)
        said = world.call("graph", "export", "--format", "crayon")
        assert said.code == 2

    def test_the_export_may_go_to_a_file(self, world: Repository) -> None:
        world.ok("graph", "export", "--format", "dot", "--output", "graph.dot")
        assert "digraph" in (world.path / "graph.dot").read_text()
        assert world.call("graph", "export", "-o", "/no/such/folder/x").code == 3


class TestNames:
    def test_a_task_is_known_by_id_prefix_and_alias(self, repository: Repository) -> None:
        task = repository.add("Named", "--alias", "#42", "--alias", "owner/name#43")
        for name in (task, f"task:{task}", "#42", "owner/name#43"):
            assert repository.ok("task", "show", name)["task_id"] == task
        for name in ("#43", "42", "", "task:", "../../etc/passwd", "-1", "T-" + "x" * 300):
            said = repository.call("task", "show", "--", name)
            assert said.code in (1, 2), (name, said)
            assert said.code == 2 or said.data["refused"] == "unknown_task"

    def test_a_handoff_is_known_with_and_without_prefix(self, repository: Repository) -> None:
        handoff = claim(repository, repository.add())["handoff_id"]
        for name in (handoff, f"handoff:{handoff}"):
            assert repository.ok("handoff", "status", name)["handoff_id"] == handoff
        assert repository.refused("handoff", "status", "H-none") == "unknown_handoff"

    def test_dependencies_may_be_named_by_alias(self, repository: Repository) -> None:
        first = repository.add("First", "--alias", "#1")
        second = repository.add("Second", "--depends-on", "#1")
        assert repository.ok("task", "show", second)["depends_on"] == [first]

    def test_an_alias_is_one_tasks(self, repository: Repository) -> None:
        repository.add("First", "--alias", "#1")
        assert repository.refused("task", "add", "Second", "--alias", "#1") == "taken"
        assert repository.refused("task", "add", "Second", "--alias", "not an alias") == "bad_value"


class TestValues:
    def test_from_a_file_and_from_standard_input(self, repository: Repository) -> None:
        (repository.path / "scope.txt").write_text("from a file\nline two")
        one = repository.ok("task", "add", "-", "--scope", "@scope.txt", stdin="from standard input")
        shown = repository.ok("task", "show", one["task_id"])
        assert (shown["title"], shown["scope"]) == ("from standard input", "from a file\nline two")
        two = repository.ok("task", "add", "Two", "--scope=-", stdin="with an equals sign")
        assert repository.ok("task", "show", two["task_id"])["scope"] == "with an equals sign"

    def test_through_a_coordinator_too(self, repository: Repository) -> None:
        (repository.path / "scope.txt").write_text("from a file")
        with repository.coordinator():
            for number, form in enumerate((("--scope", "-"), ("--scope=-",))):
                answer = repository.ok("task", "add", f"in {number}", *form, stdin="from standard input")
                assert repository.ok("task", "show", answer["task_id"])["scope"] == "from standard input"
            for number, form in enumerate((("--scope", "@scope.txt"), ("--scope=@scope.txt",))):
                answer = repository.ok("task", "add", f"file {number}", *form)
                assert repository.ok("task", "show", answer["task_id"])["scope"] == "from a file"

    def test_a_file_that_cannot_be_read_is_named(self, repository: Repository) -> None:
        (repository.path / "binary").write_bytes(b"\xff\xfe\x00")
        for name in ("missing.txt", "binary", "."):
            said = repository.call("task", "add", "x", "--scope", f"@{name}")
            assert said.code == 2, said
            assert name in said.data["message"]
        said = repository.call("task", "add", "x", "--scope", "-", stdin=b"\xff\xfe\xfa")
        assert said.code in (1, 2), said
        assert "Traceback" not in said.err

    @pytest.mark.parametrize(
        "options",
        [
            ("",),
            ("   ",),
            ("x" * 501,),
            ("x", "--scope", "y" * 70_000),
            ("x", "--skills", "a\x1eb"),
            ("x", "--skills", ",".join(f"s{n}" for n in range(40))),
            ("x", "--alias", "42"),
            ("x", "--as", "no\x1bbody"),
            ("x", "--key", "a key with spaces"),
            ("x", "--key", "k" * 200),
            ("x", "--branch", "b" * 70_000),
            ("x\udcff",),
        ],
    )
    def test_what_is_no_value_is_refused_and_leaves_nothing(
        self, repository: Repository, options: tuple[str, ...]
    ) -> None:
        assert repository.refused("task", "add", *options) == "bad_value"
        assert repository.lines() == []

    def test_an_unknown_dependency_is_named(self, repository: Repository) -> None:
        said = repository.call("task", "add", "x", "--depends-on", "T-nowhere")
        assert said.data["refused"] == "unknown_task"
        assert "T-nowhere" in said.data["message"]


class TestUsage:
    @pytest.mark.parametrize(
        "call",
        [
            ("nonsense",),
            ("task",),
            ("task", "nonsense"),
            ("task", "add"),
            ("task", "add", "x", "--priority", "huge"),
            ("task", "add", "x", "--nonsense"),
            ("task", "add", "x", "y"),
            ("task", "list", "--status", "bogus"),
            ("task", "claim"),
            ("task", "submit", "T-1", "--agent", "Alice"),
            ("task", "submit", "T-1", "--agent", "Alice", "--commit", "HEAD", "--pr", "seven"),
            ("task", "wait", "T-1", "--agent", "Alice"),
            ("task", "defer", "T-1"),
            ("handoff", "initiate", "T-1"),
            ("handoff", "complete", "H-1", "--agent", "Alice", "--commit", "HEAD", "--result", "no json"),
            ("handoff", "complete", "H-1", "--agent", "Alice", "--commit", "HEAD", "--result", "[]"),
            ("review", "reject", "T-1"),
            ("log", "import"),
            ("log", "import", "/no/such/folder"),
            ("log", "tail", "-n", "many"),
            ("explain", "nonsense"),
            ("completion", "tcsh"),
            ("serve", "--host", "192.0.2.1"),
            ("serve", "--tls-cert", "cert.pem"),
            ("-C",),
            ("task", "list", "--key"),
        ],
        ids=" ".join,
    )
    def test_a_wrong_call_says_how_to_call(self, repository: Repository, call: tuple[str, ...]) -> None:
        said = (
            repository.call(*call) if call[-1] not in ("-C", "--key") else repository.people("--json", *call)
        )
        assert said.code == 2, said
        assert said.data["error"] == "usage"
        assert said.data["message"]
        assert said.err == ""

    def test_people_read_it_on_standard_error(self, repository: Repository) -> None:
        for call in (("nonsense",), ("task", "add"), ("task", "list", "--status", "bogus")):
            said = repository.people(*call)
            assert (said.code, said.out) == (2, "")
            assert said.err.startswith("remand: ")

    def test_near_misses_are_guessed(self, repository: Repository) -> None:
        assert "task claim" in repository.people("task", "clam").err
        assert "locked_out" in repository.people("explain", "lockedout").err

    def test_help_is_there_for_everything(self, repository: Repository) -> None:
        overview = repository.people("--help")
        assert overview.code == 0
        assert repository.people().out == overview.out
        every = repository.people("help", "all")
        for command in ("task add", "log verify", "handoff complete"):
            assert command in every.out
            said = repository.people(*command.split(), "--help")
            assert (said.code, said.err) == (0, "")
            assert f"remand {command}" in said.out
        assert repository.people("--version").out.startswith("remand ")
        for group in (["task"], ["task", "--help"], ["help", "task"]):
            said = repository.people(*group)
            assert said.code == (2 if group == ["task"] else 0)
            assert "task claim" in said.out + said.err
            assert "gate run" not in said.out + said.err
        assert "--agent" in repository.people("help", "task", "claim").out
        unknown = repository.people("help", "tusk")
        assert (unknown.code, unknown.out) == (2, "")
        assert "tusk" in unknown.err
        hook = repository.people("hook", "--help")
        assert (hook.code, hook.err) == (0, "")
        assert "--host" in hook.out

    @pytest.mark.parametrize("code", ["locked_out", "effort_vague"])
    def test_every_refusal_and_every_issue_is_explained(self, repository: Repository, code: str) -> None:
        every = repository.ok("explain")
        assert set(every) == set(MEANINGS) | set(ISSUES)
        answer = repository.ok("explain", code)
        assert answer["code"] == code
        assert answer["meaning"]
        assert answer["remedy"]

    def test_a_refusal_tells_people_what_to_do(self, repository: Repository) -> None:
        said = repository.people("task", "claim", "--agent", "Alice")
        assert (said.code, said.out) == (1, "")
        assert "nothing_to_claim" in said.err
        assert MEANINGS["nothing_to_claim"][1] in said.err


class TestKeys:
    def test_a_repeated_key_gives_the_first_answer(self, repository: Repository) -> None:
        task = repository.ok("task", "add", "Once", "--key", "a")
        assert repository.ok("task", "add", "Once", "--key", "a") == task
        name = task["task_id"]
        call = ("task", "claim", "--agent", "Alice", "--key", "b")
        assert repository.ok(*call) == repository.ok(*call)
        call = ("task", "submit", name, "--agent", "Alice", "--commit", "HEAD", "--key", "c")
        first = repository.ok(*call)
        assert first["status"] == "provisional"
        assert repository.ok(*call) == first
        assert repository.ok("review", "approve", name, "--commit", "HEAD", "--key=d")["status"] == "done"
        assert repository.ok(*call) == first, "whatever has happened since"
        assert repository.digest()[1] == 5

    def test_a_key_is_one_commands(self, repository: Repository) -> None:
        repository.ok("task", "add", "Once", "--key", "a")
        assert repository.refused("task", "add", "Twice", "--key", "a") == "key_reused"
        assert repository.refused("task", "add", "Once", "--key", "a", "--as", "Bob") == "key_reused"

    def test_a_submit_is_the_same_on_whatever_branch_it_is_repeated(self, repository: Repository) -> None:
        task = repository.add()
        claim(repository, task)
        call = ("task", "submit", task, "--agent", "Alice", "--commit", repository.head(), "--key", "c")
        first = repository.ok(*call)
        repository.git("checkout", "-q", "-b", "other")
        assert repository.ok(*call) == first

    def test_keys_hold_through_a_coordinator_and_without(self, repository: Repository) -> None:
        with repository.coordinator():
            first = repository.ok("task", "add", "Once", "--key", "a")
        assert repository.ok("task", "add", "Once", "--key", "a") == first


class TestWhoActs:
    def test_the_environment_names_the_agent(self, repository: Repository) -> None:
        task = repository.add()
        env = {"REMAND_ACTOR": "Alice"}
        repository.ok("task", "claim", task, env=env)
        assert repository.ok("task", "show", task)["agent"] == "Alice"
        repository.ok("task", "heartbeat", task, env=env)
        assert repository.refused("task", "heartbeat", task, "--agent", "Bob", env=env) == "not_yours"
        assert repository.ok("task", "heartbeat", task, "--as", "Alice")["status"] == "claimed"

    def test_without_a_team_only_the_user_reviews_and_directs(self, repository: Repository) -> None:
        task = repository.add()
        claim(repository, task)
        submit(repository, task)
        bob = ("--as", "Bob")
        assert repository.refused("review", "approve", task, "--commit", "HEAD", *bob) == "not_authorised"
        assert repository.refused("task", "cancel", task, *bob) == "not_authorised"
        assert repository.refused("task", "edit", task, "--title", "x", *bob) == "not_authorised"
        assert repository.refused("handoff", "initiate", task, "--to", "Eve", *bob) == "not_authorised"
        repository.ok("review", "approve", task, "--commit", "HEAD")

    @pytest.mark.parametrize(
        ("who", "has_coordinator"),
        [((), False), (("--as", "user"), False), (("--as", "user"), True)],
        ids=["unnamed", "as user", "as user through a coordinator"],
    )
    def test_inside_an_agents_environment_the_users_commands_are_refused(
        self, repository: Repository, who: tuple[str, ...], has_coordinator: bool
    ) -> None:
        task = repository.add()
        handed_in = repository.add("handed in")
        claim(repository, handed_in)
        submit(repository, handed_in)
        process = repository.start_coordinator() if has_coordinator else None
        env = {"REMAND_TASK": task}
        for call in (
            ("task", "cancel", task),
            ("task", "edit", task, "--title", "x"),
            ("task", "reopen", task),
            ("task", "defer", task, "--until", handed_in),
            ("handoff", "initiate", task, "--to", "Eve"),
            ("review", "approve", handed_in, "--commit", "HEAD"),
            ("review", "reject", handed_in, "--commit", "HEAD", "--finding", "a: b"),
        ):
            assert repository.refused(*call, *who, env=env) in ("user_only", "not_authorised"), call
        repository.ok("task", "add", "a find", *who, env=env)
        repository.ok("task", "claim", task, "--agent", "Bob", env=env)
        repository.commit("work.txt", "done\n")
        repository.ok("task", "submit", task, "--agent", "Bob", "--commit", "HEAD", env=env)
        assert status(repository, handed_in) == "provisional"
        if process:
            process.terminate()

    def test_nobody_reviews_their_own_work(self, machine: Machine) -> None:
        repository = machine.repository(
            config='[gates]\n[team]\nmembers = [{name = "Ann", roles = ["agent", "lead"], aliases = ["ann2"]}]\n'
        )
        task = repository.add()
        claim(repository, task, "Ann")
        submit(repository, task, "Ann")
        for name in ("Ann", "ann2"):
            call = ("review", "approve", task, "--commit", "HEAD", "--reviewer", name)
            assert repository.refused(*call) == "own_work"


class TestSubmit:
    def test_without_a_gates_table_nothing_is_handed_in(self, machine: Machine) -> None:
        repository = machine.repository(config="[policy]\n")
        task = repository.add()
        claim(repository, task)
        said = repository.call("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
        assert said.data["refused"] == "no_gates"
        assert "[gates]" in said.data["message"]
        assert status(repository, task) == "claimed"

    def test_with_gates_that_cannot_run_nothing_is_handed_in(self, machine: Machine) -> None:
        repository = machine.repository(config='[gates.tests]\ncommand = ["there-is-no-such-program"]\n')
        task = repository.add()
        claim(repository, task)
        repository.git("checkout", "-q", "-b", "roof")
        repository.commit()
        said = repository.call("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
        assert said.data["refused"] == "gate_errored"
        assert said.data["message"].startswith("NOT MEASURED")
        assert "Tests" in said.data["message"]
        assert status(repository, task) == "needs_continuation"

    def test_what_was_there_before_the_claim_is_no_work_on_it(self, machine: Machine) -> None:
        repository = machine.repository(config='[gates.tests]\ncommand = ["true"]\n')
        task = repository.add()
        claim(repository, task)
        call = ("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
        assert repository.refused(*call) == "nothing_committed"
        assert status(repository, task) == "claimed"

    def test_it_takes_a_commit_that_is_there(self, repository: Repository) -> None:
        task = repository.add()
        claim(repository, task)
        for name in ("0" * 40, "nonsense", "HEAD~99", "", "HEAD:remand.toml", "a b", "HEAD\nHEAD"):
            call = ("task", "submit", task, "--agent", "Alice", "--commit", name)
            assert repository.refused(*call) == "unknown_commit", name
        said = repository.call("task", "submit", task, "--agent", "Alice", "--commit=--help")
        assert said.data["refused"] == "unknown_commit"
        short = repository.head()[:10]
        answer = repository.ok("task", "submit", task, "--agent", "Alice", "--commit", short)
        assert answer["verdict"]["commit"] == repository.head()

    def test_only_the_holder_hands_in(self, repository: Repository) -> None:
        task = repository.add()
        call = ("task", "submit", task, "--commit", "HEAD", "--agent")
        assert repository.refused(*call, "Alice") == "not_yours"
        claim(repository, task)
        assert repository.refused(*call, "Bob") == "not_yours"
        submit(repository, task)
        assert repository.refused(*call, "Alice") == "lease_lost"

    def test_a_review_is_about_the_commit_handed_in(self, repository: Repository) -> None:
        task = repository.add()
        assert repository.refused("review", "approve", task, "--commit", "HEAD") == "nothing_to_review"
        claim(repository, task)
        submit(repository, task)
        repository.commit()
        assert repository.refused("review", "approve", task, "--commit", "HEAD") == "stale_review"
        assert repository.refused("review", "approve", task, "--commit", "nonsense") == "unknown_commit"
        reject = ("review", "reject", task, "--commit", "HEAD~1")
        assert repository.refused(*reject) == "bad_value", "a rejection needs a finding"
        assert repository.refused(*reject, "--suggestion", "a: nit") == "bad_value", "that blocks"
        assert repository.ok("review", "approve", task, "--commit", "HEAD~1")["status"] == "done"

    def test_publishing_events_makes_no_submission_stale(self, repository: Repository) -> None:
        task = repository.add()
        claim(repository, task)
        submit(repository, task)
        commit = repository.head()
        repository.ok("log", "publish")
        assert repository.head() != commit
        repository.ok("review", "reject", task, "--commit", commit, "--finding", "a.py:1: no")
        claim(repository, task, "Bob")
        repository.ok("task", "prompt", task, "--agent", "Bob")
        repository.commit()
        submit(repository, task, "Bob")
        repository.ok("log", "publish")
        assert repository.ok("review", "approve", task, "--commit", "HEAD")["status"] == "done", (
            "the same code"
        )


class TestLeases:
    def test_a_lease_that_ran_out_is_lost_and_its_late_submit_refused(
        self, near_machine: Machine, later: Later
    ) -> None:
        repository = near_machine.repository(config=LEASE)
        task = repository.add()
        first = claim(repository, task)
        later(601)
        late = (
            "task",
            "submit",
            task,
            "--agent",
            "Alice",
            "--commit",
            "HEAD",
            "--handoff",
            first["handoff_id"],
        )
        assert repository.refused(*late) == "lease_lost"
        second = claim(repository, task, "Bob")
        assert second["attempt"] == 2
        assert repository.refused(*late) == "lease_lost", "another holds it now"
        assert repository.refused("task", "heartbeat", task, "--agent", "Alice") == "not_yours"
        later(601)
        third = claim(repository, task)
        assert repository.refused(*late) == "lease_lost", "the same agent under another claim"
        env = {"REMAND_HANDOFF": first["handoff_id"]}
        call = ("task", "submit", task, "--agent", "Alice", "--commit", "HEAD", "--json")
        said = near_call(repository.path, call, env)
        assert said is not None
        assert (said.code, said.data["refused"]) == (1, "lease_lost"), "named by the environment"
        history = [entry["event"] for entry in repository.ok("task", "show", task)["history"]]
        assert history[:6] == ["node.create", *["task.claim", "task.expire"] * 2, "task.claim"]
        assert third["handoff_id"] != first["handoff_id"]

    def test_a_heartbeat_keeps_it(self, near_machine: Machine, later: Later) -> None:
        repository = near_machine.repository(config=LEASE)
        task = repository.add()
        claim(repository, task)
        for _ in range(2):
            later(400)
            repository.ok("task", "heartbeat", task, "--agent", "Alice")
        assert repository.refused("task", "claim", task, "--agent", "Bob") == "already_claimed"
        submit(repository, task)


class TestLifecycle:
    def test_what_ends_a_claim(self, repository: Repository) -> None:
        task = repository.add()
        for command, then in (
            ("release", "incoming"),
            ("continue", "needs_continuation"),
            ("fail", "failed"),
        ):
            claim(repository, task)
            answer = repository.ok("task", command, task, "--agent", "Alice", "--reason", "so it is")
            assert answer == {"task_id": task, "status": then}
        assert repository.refused("task", "claim", task, "--agent", "Alice") == "bad_transition"
        assert repository.ok("task", "reopen", task)["status"] == "needs_continuation"
        claim(repository, task)
        assert (
            repository.ok("task", "wait", task, "--agent", "Alice", "--for", "the rain")["status"]
            == "claimed"
        )
        assert repository.ok("task", "cancel", task, "--reason", "rain")["status"] == "cancelled"
        for call in (("cancel",), ("edit", "--title", "x")):
            assert repository.refused("task", call[0], task, *call[1:]) == "bad_transition"
        assert repository.ok("task", "reopen", task)["status"] == "needs_continuation"

    def test_an_edit_changes_what_it_names(self, repository: Repository) -> None:
        task = repository.add("Before", "--scope", "stays", "--priority", "low")
        repository.ok(
            "task", "edit", task, "--title", "After", "--pr", "9", "--priority", "high", "--alias", "#9"
        )
        shown = repository.ok("task", "show", "#9")
        assert (shown["title"], shown["scope"], shown["pr"], shown["priority"]) == (
            "After",
            "stays",
            9,
            "high",
        )

    def test_the_queue_is_rejected_then_continued_then_new_each_by_priority_then_age(
        self, repository: Repository
    ) -> None:
        names: dict[str, str] = {}
        for title in ("low", "medium", "medium again", "high", "critical"):
            names[repository.add(title, "--priority", title.split()[0])] = title
            time.sleep(0.01)
        continued = repository.add("continued", "--priority", "low")
        claim(repository, continued)
        repository.ok("task", "continue", continued, "--agent", "Alice")
        rejected = repository.add("rejected", "--priority", "low")
        claim(repository, rejected, "Zoe")
        submit(repository, rejected, "Zoe")
        repository.ok("review", "reject", rejected, "--commit", "HEAD", "--finding", "a.py:1: no")
        names |= {continued: "continued", rejected: "rejected"}
        expected = ["rejected", "continued", "critical", "high", "medium", "medium again", "low"]
        assert [names[task] for task in repository.ok("task", "ready")] == expected
        got = [repository.ok("task", "claim", "--agent", "Alice")["task_id"] for _ in expected]
        assert [names[task] for task in got] == expected
        assert repository.refused("task", "claim", "--agent", "Alice") == "nothing_to_claim"

    def test_a_locked_out_agent_gets_the_next_task_instead(self, repository: Repository) -> None:
        first, second = repository.add("first", "--priority", "high"), repository.add("second")
        claim(repository, first)
        submit(repository, first)
        repository.ok("review", "reject", first, "--commit", "HEAD", "--finding", "a.py:1: no")
        assert repository.ok("task", "claim", "--agent", "Alice")["task_id"] == second
        assert repository.ok("task", "claim", "--agent", "Bob")["task_id"] == first

    def test_a_task_waits_for_what_it_depends_on(self, repository: Repository) -> None:
        roof = repository.add("roof", "--alias", "#1")
        walls = repository.add("walls")
        paint = repository.add("paint", "--depends-on", roof, walls, "--priority", "critical")
        said = repository.call("task", "claim", paint, "--agent", "Alice")
        assert said.data["refused"] == "waits_on_other"
        assert roof in said.data["message"]
        assert set(repository.ok("task", "ready")) == {roof, walls}
        finish(repository, roof)
        assert repository.refused("task", "claim", paint, "--agent", "Alice") == "waits_on_other"
        repository.ok("task", "cancel", walls)
        assert repository.ok("task", "ready") == [paint]
        claim(repository, paint)

    def test_a_circle_is_refused(self, repository: Repository) -> None:
        a = repository.add("a")
        b = repository.add("b", "--depends-on", a)
        c = repository.add("c", "--depends-on", b)
        for call in (
            ("edit", a, "--depends-on", c),
            ("edit", a, "--depends-on", a),
            ("defer", a, "--until", c),
        ):
            said = repository.call("task", *call)
            assert said.data["refused"] == "closes_cycle", call
        repository.ok("task", "edit", b, "--drop-depends-on", a)
        repository.ok("task", "edit", a, "--depends-on", c)
        assert repository.ok("task", "ready") == [b]

    def test_a_deferred_task_wakes_into_the_queue_it_came_from(self, repository: Repository) -> None:
        blocker, task = repository.add("blocker"), repository.add("task")
        claim(repository, task)
        submit(repository, task)
        repository.ok("review", "reject", task, "--commit", "HEAD", "--finding", "a.py:1: no")
        assert repository.ok("task", "defer", task, "--until", blocker)["status"] == "deferred"
        assert repository.refused("task", "claim", task, "--agent", "Bob") == "bad_transition"
        claim(repository, blocker, "Carol")
        repository.commit("other.txt")
        submit(repository, blocker, "Carol")
        repository.ok("review", "approve", blocker, "--commit", "HEAD")
        assert status(repository, task) == "rejected"
        assert repository.ok("task", "claim", "--agent", "Bob")["task_id"] == task
        assert repository.refused("task", "defer", task, "--until", blocker) == "bad_value", "it is done"


class TestHandoffs:
    def test_a_handoff_from_offer_to_done(self, repository: Repository) -> None:
        task = repository.add()
        offered = repository.ok(
            "handoff", "initiate", task, "--to", "Bob", "--from", "Lead", "--instructions", "now"
        )
        assert {"handoff_id", "warnings"} <= set(offered)
        handoff = offered["handoff_id"]
        state = repository.ok("handoff", "status", handoff)
        assert {"handoff_id", "status", "task_id", "agent", "rejection", "decision"} <= set(state)
        assert (state["status"], state["agent"], state["task_id"]) == ("initiated", "Bob", task)
        assert repository.refused("task", "claim", task, "--agent", "Alice") == "waits_on_other"
        complete = ("handoff", "complete", handoff, "--commit", "HEAD", "--agent")
        assert repository.refused(*complete, "Bob") == "bad_transition", "it is not accepted yet"
        assert repository.refused("handoff", "accept", handoff, "--agent", "Alice") == "not_yours"
        accepted = repository.ok("handoff", "accept", f"handoff:{handoff}", "--agent", "Bob")
        assert (accepted["task_id"], accepted["handoff_id"]) == (task, handoff)
        assert repository.refused("handoff", "accept", handoff, "--agent", "Bob") == "handoff_closed"
        assert repository.refused(*complete, "Alice") == "not_yours"
        done = repository.ok(*complete, "Bob", "--result", '{"files": 3}')
        assert done["status"] == "provisional"
        assert repository.ok("handoff", "status", handoff)["status"] == "completed"
        assert repository.refused(*complete, "Bob") == "handoff_closed"
        repository.ok("review", "approve", task, "--commit", "HEAD")
        assert repository.refused("handoff", "initiate", task, "--to", "Bob") == "bad_transition"

    def test_a_claim_by_its_target_accepts_it(self, repository: Repository) -> None:
        task = repository.add()
        handoff = repository.ok("handoff", "initiate", task, "--to", "Bob")["handoff_id"]
        assert repository.ok("task", "claim", "--agent", "Bob")["handoff_id"] == handoff

    def test_open_ones_close_with_their_task(self, repository: Repository) -> None:
        task = repository.add()
        handoff = repository.ok("handoff", "initiate", task, "--to", "Bob")["handoff_id"]
        repository.ok("task", "cancel", task)
        assert repository.ok("handoff", "status", handoff)["status"] not in ("initiated", "accepted")
        assert repository.refused("handoff", "accept", handoff, "--agent", "Bob") == "handoff_closed"

    def test_one_that_nobody_takes_lapses(self, near_machine: Machine, later: Later) -> None:
        repository = near_machine.repository(config=LEASE)
        task = repository.add()
        handoff = repository.ok("handoff", "initiate", task, "--to", "Bob")["handoff_id"]
        later(601)
        claim(repository, task)
        assert repository.refused("handoff", "accept", handoff, "--agent", "Bob") == "handoff_closed"
        assert repository.ok("handoff", "status", handoff)["status"] == "lapsed"

    def test_guards(self, repository: Repository) -> None:
        task = repository.add()
        assert repository.refused("handoff", "initiate", "T-none", "--to", "Bob") == "unknown_task"
        assert repository.refused("handoff", "initiate", task, "--to", "no\x1bbody") == "bad_value"
        assert repository.refused("handoff", "accept", "H-none", "--agent", "Bob") == "unknown_handoff"
        complete = ("handoff", "complete", "H-none", "--agent", "Bob", "--commit", "HEAD")
        assert repository.refused(*complete) == "unknown_handoff"
        claim(repository, task)
        assert repository.refused("handoff", "initiate", task, "--to", "Bob") == "already_claimed"
        submit(repository, task)
        repository.ok("review", "reject", task, "--commit", "HEAD", "--finding", "a.py:1: no")
        assert repository.refused("handoff", "initiate", task, "--to", "Alice") == "locked_out"


class TestTeam:
    def test_skills_decide_who_gets_what(self, machine: Machine) -> None:
        repository = machine.repository(config=TEAM)
        page = repository.add("page", "--skills", "frontend,css", "--priority", "critical")
        api = repository.add("api", "--skills", "backend")
        anything = repository.add("anything", "--priority", "low")
        assert repository.refused("task", "claim", page, "--agent", "Hockney") == "not_eligible"
        assert repository.refused("task", "claim", page, "--agent", "Stranger") == "not_eligible"
        assert repository.refused("task", "claim", "--agent", "Lead") == "not_eligible"
        misspelt = repository.call("task", "claim", "--agent", "Fnster")
        assert (misspelt.code, misspelt.data["refused"]) == (1, "not_eligible")
        assert "Its agents: Fenster, Hockney" in misspelt.data["message"]
        assert repository.ok("task", "claim", "--agent", "Hockney")["task_id"] == api
        assert repository.ok("task", "claim", "--agent", "Hockney")["task_id"] == anything
        assert repository.refused("task", "claim", "--agent", "Hockney") == "nothing_to_claim"
        assert repository.ok("task", "claim", "--agent", "fen")["task_id"] == page, "by an alias"
        assert repository.ok("task", "show", page)["agent"] == "Fenster"

    def test_roles_decide_who_may_do_what(self, machine: Machine) -> None:
        repository = machine.repository(config=TEAM)
        task = repository.add()
        assert repository.refused("task", "cancel", task, "--as", "Lead") == "not_authorised"
        assert repository.refused("task", "cancel", task, "--as", "Stranger") == "not_authorised"
        claim(repository, task, "Hockney")
        submit(repository, task, "Hockney")
        approve = ("review", "approve", task, "--commit", "HEAD", "--reviewer")
        assert repository.refused(*approve, "Boss") == "not_authorised"
        assert repository.refused(*approve, "Fenster") == "not_authorised"
        repository.ok(*approve, "Lead")
        other = repository.add()
        repository.ok("task", "cancel", other, "--as", "Boss")

    def test_only_the_base_branchs_team_counts(self, machine: Machine) -> None:
        repository = machine.repository(config=TEAM)
        task = repository.add()
        more = TEAM.replace(
            '{name = "Boss"', '{name = "Mole", roles = ["agent", "lead", "user"]},\n  {name = "Boss"'
        )
        (repository.path / "remand.toml").write_text(more)
        assert repository.refused("task", "claim", task, "--agent", "Mole") == "not_eligible"
        repository.git("checkout", "-q", "-b", "agents-branch")
        repository.git("commit", "-q", "-a", "-m", "let me in")
        assert repository.refused("task", "claim", task, "--agent", "Mole") == "not_eligible"
        assert repository.refused("task", "cancel", task, "--as", "Mole") == "not_authorised"
        repository.git("checkout", "-q", "main")
        repository.git("merge", "-q", "agents-branch")
        claim(repository, task, "Mole")

    @pytest.mark.parametrize("fault", ["a missing object", "an owner git does not trust"])
    def test_a_base_that_cannot_be_read_is_no_base_without_rules(self, machine: Machine, fault: str) -> None:
        repository = machine.repository(config=TEAM)
        repository.add()
        (repository.path / "remand.toml").write_text("[gates]\n")
        if fault == "a missing object":
            blob = repository.head("main:remand.toml")
            (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        elif os.getuid() == 0:
            for folder in (repository.path, repository.path / ".git"):
                os.chown(folder, 65534, 65534)
        else:
            pytest.skip("only root can give a folder away")
        said = repository.call("task", "claim", "--agent", "Stranger")
        assert said.code != 0, "the working tree's rules do not count"
        assert said.code == 3 or said.data["refused"] in ("not_eligible", "nothing_to_claim")

    def test_policy_may_lock_out_later_or_never(self, machine: Machine) -> None:
        repository = machine.repository(config="[gates]\n[policy]\nlockout = {after = 2}\n")
        task = repository.add()
        for expected in ([], ["Alice"]):
            claim(repository, task)
            repository.ok("task", "prompt", task, "--agent", "Alice")
            repository.commit(text=f"{expected}")
            submit(repository, task)
            answer = repository.ok("review", "reject", task, "--commit", "HEAD", "--finding", "a.py:1: no")
            assert answer["locked_out"] == expected


class TestLog:
    def test_events_of_another_folder_are_imported_once(
        self, machine: Machine, repository: Repository
    ) -> None:
        other = machine.repository("other")
        task = other.add("elsewhere")
        first = repository.ok("log", "import", str(other.path))
        assert (first["files"], first["events"], first["problems"]) == (1, 1, [])
        assert repository.ok("log", "import", str(other.events))["events"] == 0
        assert repository.ok("task", "show", task)["title"] == "elsewhere"
        assert repository.verify() == []

    def test_what_is_wrong_with_an_import_is_named(self, machine: Machine, repository: Repository) -> None:
        folder = machine.folder / "foreign"
        folder.mkdir()
        event = {"ts": "2026-01-01T00:00:00", "event": "node.create", "id": "T-1", "type": "TASK"}
        line = json.dumps(event | {"data": {"title": "from a GoT tool"}, "meta": {}})
        (folder / "a.jsonl").write_text(f"not json\n{line}\n")
        answer = repository.ok("log", "import", str(folder))
        assert [(os.path.basename(p["file"]), p["line"]) for p in answer["problems"]] == [("a.jsonl", 1)]
        assert repository.ok("task", "show", "T-1")["title"] == "from a GoT tool"

    def test_following_shows_events_as_they_come(self, repository: Repository) -> None:
        repository.add("first")
        process = repository.machine.start(repository.path, REMAND, "log", "tail", "-f", "--json")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["data"]["title"] == "first"
        repository.add("second")
        ready, _, _ = select.select([process.stdout], [], [], 10)
        assert ready
        assert json.loads(process.stdout.readline())["data"]["title"] == "second"
        process.kill()


class TestOutput:
    EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\u202eevil\u2066\u200b\U000e0041\r\nnext"

    def test_what_people_see_holds_no_command_for_their_terminal(self, repository: Repository) -> None:
        task = repository.add(self.EVIL, "--scope", self.EVIL, "--category", self.EVIL)
        repository.ok("task", "claim", task, "--agent", "Alice")
        repository.ok("task", "release", task, "--agent", "Alice", "--reason", self.EVIL)
        calls = [
            ("task", "list"),
            ("task", "show", task),
            ("task", "ready"),
            ("log", "tail"),
            ("graph", "export"),
            ("graph", "export", "--format", "dot"),
            ("task", "show", self.EVIL),
            ("task", "add", "x", "--alias", self.EVIL),
            ("task", "claim", "--agent", self.EVIL),
            (self.EVIL,),
            ("task", self.EVIL),
            ("explain", self.EVIL),
            ("task", "list", "--status", self.EVIL),
            ("log", "import", self.EVIL),
            ("-C", self.EVIL, "task", "list"),
        ]
        for call in calls:
            said = repository.people(*call)
            for char in "\x1b\x07\x9b\u202e\u2066\u200b\U000e0041\r":
                assert char not in said.out + said.err, f"{call}: {char!r} in {said}"

    def test_json_is_plain_ascii(self, repository: Repository) -> None:
        task = repository.add(self.EVIL)
        for call in (("task", "list"), ("task", "show", task), ("log", "tail"), ("task", "show", self.EVIL)):
            said = repository.call(*call)
            assert said.out.isascii()
            assert said.out.strip().isprintable()
        assert repository.ok("task", "show", task)["title"] == self.EVIL

    def test_a_terminal_gets_colour_and_nothing_of_a_title(self, repository: Repository) -> None:
        repository.add(self.EVIL)
        shown = on_terminal(repository, "task", "list")
        assert "\x1b[" in shown, "colour"
        assert "\x1b]0;" not in shown
        assert "\x1b[2J" not in shown
        assert "\x1b[" not in on_terminal(repository, "task", "list", NO_COLOR="1", TERM="dumb")

    def test_a_folder_with_an_evil_name_is_shown_clean(self, machine: Machine) -> None:
        repository = machine.repository("e\x1b[31mvil")
        for call in (("init",), ("doctor",), ("task", "add", "x"), ("log", "publish")):
            assert "\x1b" not in repository.people(*call).out

    @pytest.mark.parametrize(
        "call", [("task", "list"), ("log", "tail"), ("task", "list", "--json")], ids=" ".join
    )
    def test_a_reader_that_leaves_is_no_fault(self, repository: Repository, call: tuple[str, ...]) -> None:
        for number in range(3):
            repository.add(f"task {number}")
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [REMAND, *call],
            cwd=repository.path,
            env=repository.machine.environment,
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
        os.close(write)
        assert done.returncode == 141
        assert done.stderr == b""

    def test_output_that_cannot_be_written_is_said(self, repository: Repository) -> None:
        repository.add()
        for call in (("task", "list"), ("task", "list", "--json"), ("log", "tail")):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    [REMAND, *call],
                    cwd=repository.path,
                    env=repository.machine.environment,
                    stdout=full,
                    stderr=subprocess.PIPE,
                    timeout=PATIENCE,
                    check=False,
                )
            assert done.returncode == 3, (call, done)
            assert b"Traceback" not in done.stderr

    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
    def test_an_encoding_that_lacks_a_character_is_no_fault(
        self, repository: Repository, encoding: str
    ) -> None:
        task = repository.add("ünï — 漢字 ✓")
        env = {"PYTHONIOENCODING": encoding}
        for call in (("task", "list"), ("task", "show", task), ("task", "claim", task, "--agent", "Ä\x01")):
            said = repository.people(*call, env=env)
            assert said.code in (0, 1), said
            assert "Traceback" not in said.err

    def test_closed_streams_are_no_fault(self, repository: Repository) -> None:
        for number, (redirect, codes) in enumerate(((">&-", (0, 3)), ("2>&-", (0,)), ("<&-", (0, 1, 2, 3)))):
            scope = "--scope -" if redirect == "<&-" else ""
            done = subprocess.run(
                ["bash", "-c", f"exec {REMAND} task add 'task {number}' {scope} {redirect}"],
                cwd=repository.path,
                env=repository.machine.environment,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode in codes, (redirect, done)
            assert b"Traceback" not in done.stderr

    def test_an_odd_width_is_no_trouble(self, repository: Repository) -> None:
        repository.add("x" * 300)
        for columns in ("abc", "-5", "0", "99999999999", "10"):
            said = repository.people("task", "list", env={"COLUMNS": columns})
            assert said.code == 0
            assert said.err == ""


def on_terminal(repository: Repository, *call: str, **env: str) -> str:
    """What a call writes to a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [REMAND, *call],
        cwd=repository.path,
        env=repository.machine.environment | {"TERM": "xterm-256color"} | env,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 1 << 16):
            shown += part
    except OSError:
        pass  # the end of a terminal is an error to its reader
    os.close(master)
    assert process.wait(timeout=PATIENCE) == 0
    return shown.decode()


def test_people_on_a_terminal_read_short_ids_which_every_command_takes(repository: Repository) -> None:
    named, plain = repository.add("The roof", "--alias", "#42"), repository.add("The door")
    listed = on_terminal(repository, "task", "list")
    short = re.search(rf"\b({plain[-8:-4]})?({plain[-4:]})\b", listed)

    assert "#42" in listed
    assert named not in listed
    assert plain not in listed
    assert short is not None
    shown = on_terminal(repository, "task", "claim", short[0], "--agent", "Alice")
    assert plain not in shown
    assert repository.ok("task", "show", short[0])["task_id"] == plain
    assert plain in repository.people("task", "list").out, "what a pipe gets is whole"


class TestCompletion:
    def script(self, repository: Repository, shell: str) -> Path:
        path = repository.path / f"completion.{shell}"
        path.write_text(repository.people("completion", shell).out)
        return path

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_is_sound(self, repository: Repository, shell: str) -> None:
        script = self.script(repository, shell)
        assert "task" in script.read_text()
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed")
        option = "--no-execute" if shell == "fish" else "-n"
        done = subprocess.run(
            [shell, option, str(script)], capture_output=True, timeout=PATIENCE, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")

    def complete(self, script: Path, *words: str) -> set[str]:
        """What bash offers for the last of the words."""
        text = (
            f"source {script}; COMP_WORDS=({' '.join(repr(word) for word in words)}); "
            f'COMP_CWORD={len(words) - 1}; _remand; printf "%s\\n" "${{COMPREPLY[@]}}"'
        )
        done = subprocess.run(["bash", "-c", text], capture_output=True, timeout=PATIENCE, check=True)
        return set(done.stdout.decode().split())

    def test_bash_completes_commands_and_options(self, repository: Repository) -> None:
        if shutil.which("bash") is None:
            pytest.skip("bash is not installed")
        script = self.script(repository, "bash")
        assert self.complete(script, "remand", "ta") == {"task"}
        assert self.complete(script, "remand", "task", "cl") == {"claim"}
        assert "--commit" in self.complete(script, "remand", "task", "submit", "--")
        assert "--hosts" in self.complete(script, "remand", "init", "--")
