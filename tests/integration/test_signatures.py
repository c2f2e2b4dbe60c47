"""Real machines with keys of their own: what one writes counts on another when its key is trusted there."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration.forged_lines import line, put
from tests.integration.machine import PATIENCE, Machine, Repository

PROJECT = '[project]\nid = "0123456789abcdef"\n\n[gates]\n'
LOADED = "import sys; from remand.interfaces.cli.entry import run; run(sys.argv[1:]); sys.exit('cryptography' in sys.modules or 'ctypes' in sys.modules)"


@pytest.fixture
def far_machine() -> Iterator[Machine]:
    """Another machine."""
    made = Machine()
    yield made
    made.close()


def status(repository: Repository, task: str) -> str:
    return str(repository.ok("task", "show", task)["status"])


def unconfirmed(repository: Repository) -> list[dict[str, Any]]:
    """By whom events without effect are signed, how many, and why they do not count."""
    found: list[dict[str, Any]] = repository.ok("keys")["signers"]
    return [{name: row[name] for name in ("signer", "why", "events")} for row in found]


def push(clone: Repository, origin: Repository) -> None:
    """Brings the base of a clone to where it was cloned from."""
    origin.git("config", "receive.denyCurrentBranch", "updateInstead")
    clone.git("push", "-q", "origin", "main")


def test_what_another_machine_wrote_counts_while_its_key_is_trusted(
    machine: Machine, far_machine: Machine
) -> None:
    mine = machine.repository(config=PROJECT)
    task, other = mine.add("Cancel me"), mine.add("Leave me")
    mine.ok("task", "cancel", task)
    mine.ok("log", "publish")
    theirs = far_machine.clone(mine, "clone")

    assert theirs.ok("task", "list") == []
    own = mine.ok("keys")["own"]
    assert unconfirmed(theirs) == [{"signer": own["id"], "why": "unknown_signer", "events": 3}]
    assert {row["signer"] for row in theirs.ok("log", "verify")["unconfirmed"]} == {own["id"]}

    said = theirs.ok("keys", "trust", own["key"], "--name", "laptop", "--write")
    assert (said["written"], said["line"]) == (True, f'"{own["key"]} laptop",')
    assert theirs.ok("task", "list") == [], "only the base branch says who is trusted"
    theirs.git("commit", "-qam", "trust")
    assert theirs.ok("task", "list") == [], "and where the base is a remote's, only that"
    push(theirs, mine)
    assert (status(theirs, task), status(theirs, other)) == ("cancelled", "incoming")
    assert unconfirmed(theirs) == []
    assert theirs.digest() == mine.digest()
    theirs.forget_ledger()
    assert theirs.digest() == mine.digest()

    said = theirs.ok("keys", "revoke", own["id"], "--write")
    assert said["written"]
    theirs.git("commit", "-qam", "revoke")
    push(theirs, mine)
    assert status(theirs, task) == "cancelled", "what the base has goes on counting"
    assert theirs.digest() == mine.digest()
    theirs.configure(PROJECT)
    push(theirs, mine)
    assert theirs.refused("task", "show", task) == "unknown_task"
    assert theirs.ok("task", "list") == []
    assert theirs.verify() == []


@pytest.mark.parametrize("ref", ["refs/heads/origin/main", "refs/tags/main", "refs/tags/origin/main"])
def test_nothing_that_is_only_named_like_the_base_says_whose_key_is_trusted(
    machine: Machine, far_machine: Machine, ref: str
) -> None:
    mine = machine.repository(config=PROJECT)
    mine.add("Theirs")
    mine.ok("log", "publish")
    theirs = far_machine.clone(mine, "clone")
    theirs.ok("keys", "trust", mine.ok("keys")["own"]["key"], "--write")
    theirs.git("switch", "-qc", "evil")
    theirs.git("commit", "-qam", "trust")
    theirs.git("update-ref", ref, "evil")

    assert theirs.ok("keys")["trusted"] == []
    assert theirs.ok("task", "list") == []


def test_a_coordinator_notices_whom_the_base_trusts_now(machine: Machine, far_machine: Machine) -> None:
    mine = machine.repository(config=PROJECT)
    task = mine.add()
    mine.ok("task", "cancel", task)
    mine.ok("log", "publish")
    theirs = far_machine.clone(mine, "clone")
    with theirs.coordinator():
        assert theirs.ok("task", "list") == []
        theirs.ok("keys", "trust", mine.ok("keys")["own"]["key"], "--write")
        theirs.git("commit", "-qam", "trust")
        push(theirs, mine)
        assert status(theirs, task) == "cancelled"


def test_what_was_written_for_another_project_is_worth_nothing_here(machine: Machine) -> None:
    one = machine.repository("one", config=PROJECT)
    two = machine.repository("two", config=PROJECT.replace("0123", "3210"))
    task = one.add()
    other = two.add("Of another project")

    put(one, *two.lines(), name="from-two.jsonl")

    assert [row["task_id"] for row in one.ok("task", "list")] == [task]
    assert one.refused("task", "show", other) == "unknown_task"
    assert ["did not make" in problem["problem"] for problem in one.verify()] == [True]


GREEN = {"name": "tests", "status": "passed", "line": "- Tests: 0 failures (requires 100% pass)"}
SUSPECT = {"name": "integrity", "status": "held", "suspicions": ["c0ffee001122"]}
RED = {"name": "lint", "status": "failed", "line": "- Lint: 1 error (requires 0)"}


def verdict(status: str, *gates: dict[str, Any], **measured: str) -> dict[str, Any]:
    """What a verdict says, as anybody can write it."""
    names = ("commit", "tree", "base", "policy")
    return {"status": status, "tier": "none", **dict.fromkeys(names, "0" * 40), **measured, "gates": gates}


def now(*, hours: int = 0) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


GATED = f"""{PROJECT}
tests = {{command = ["test", "!", "-e", "bad.txt"]}}
lint = {{command = ["true"]}}

[team]
members = [{{name = "Fenster"}}, {{name = "Lead", role = "lead"}}]
"""
CLAIMED = {"handoff_id": "H-1", "agent": "Fenster"}
FORGED = {
    "gate.pass": {**CLAIMED, "verdict": verdict("passed", GREEN)},
    "task.submit": {**CLAIMED, "commit": "0" * 40, "tree": "0" * 40, "pr": 99, "branch": "other"},
    "handoff.complete": {**CLAIMED, "commit": "0" * 40, "tree": "0" * 40},
    "gate.hold": {**CLAIMED, "verdict": verdict("held", GREEN, SUSPECT), "lease_expires_at": ""},
    "task.cancel": {},
    "task.defer": {"waits_for": ["T-1"]},
    "task.infeasible": {"reformulated_as": "T-1"},
    "lockout.clear": {"agent": "Fenster"},
    "review.approve": {"reviewer": "user", "commit": "0" * 40},
    "gate.override": {"gate": "tests", "tree": "0" * 40, "reason": "because"},
    "review.retract": {"reviewer": "user", "review_id": "V-1"},
    "escalation.answer": {"escalation_id": "E-1", "option": "wontfix"},
    "answer.retract": {"answer": "0" * 64, "option": "wontfix"},
    "escalation.acknowledge": {"escalation_id": "E-1"},
    "feedback.fetch": {"handoff_id": "H-1", "agent": "Fenster", "count": 9},
    "handoff.reject.response": {"handoff_id": "H-1", "decision": {"decision_type": "ACCEPT"}},
}


def test_forged_releases_are_kept_and_shown_and_change_nothing(near_machine: Machine) -> None:
    repository = near_machine.repository(config=PROJECT)
    task = repository.add()
    before = repository.ok("task", "list")

    lines = [
        line(name, seq=10 * n, task_id=task, **fields) for n, (name, fields) in enumerate(FORGED.items(), 1)
    ]
    put(repository, *lines)

    assert repository.ok("task", "list") == before
    shown = repository.ok("task", "show", task)
    assert [row["event"] for row in shown["history"]] == ["node.create"]
    assert {row["event"] for row in shown["unconfirmed"]} == FORGED.keys()
    said = repository.ok("log", "verify")
    assert (said["ok"], len(said["unconfirmed"]), said["events"]) == (True, len(FORGED), len(FORGED) + 1)
    assert unconfirmed(repository) == [{"signer": None, "why": "unsigned", "events": len(FORGED)}]
    marked = [row["event"] for row in repository.ok("log", "tail") if row.get("unconfirmed")]
    assert sorted(marked) == sorted(FORGED)
    digest = repository.digest()
    repository.forget_ledger()
    assert repository.digest() == digest


@pytest.mark.parametrize(
    ("forged", "settling"),
    [
        (("gate.hold", "held", SUSPECT), ("accept", "c0ffee001122", "--reviewer", "Lead")),
        (("gate.reject", "failed", RED), ("override", "--gate", "lint")),
    ],
)
def test_nobody_lets_pass_what_a_forged_verdict_says_was_measured(
    near_machine: Machine, forged: tuple[str, str, dict[str, Any]], settling: tuple[str, ...]
) -> None:
    repository = near_machine.repository(config=GATED)
    task = repository.add()
    claimed = repository.ok("task", "claim", task, "--agent", "Fenster")
    repository.git("switch", "-qc", "work")
    repository.commit("bad.txt")
    said = repository.call("task", "submit", task, "--agent", "Fenster", "--commit", "HEAD").data["verdict"]
    measured = {name: said[name] for name in ("commit", "tree", "base", "policy")}
    event, word, gate = forged
    fields = {**CLAIMED, "handoff_id": claimed["handoff_id"], "number": 2, "lease_expires_at": ""}

    lie = verdict(word, GREEN, gate, **measured)
    put(repository, line(event, ts=now(), task_id=task, verdict=lie, **fields))

    name, *rest = settling
    repository.call("gate", name, task, *rest, "--reason", "fine")

    assert status(repository, task) == "claimed"


def test_a_forged_claim_is_none(near_machine: Machine) -> None:
    repository = near_machine.repository(config=GATED)
    task = repository.add()
    repository.git("switch", "-qc", "work")
    broken = repository.commit("bad.txt")
    repository.commit("more.txt")
    lease = {"lease_expires_at": now(hours=3), "attempt": 1, "epoch": 1}
    put(repository, line("task.claim", ts=now(), task_id=task, base=broken, **CLAIMED, **lease))

    assert status(repository, task) == "incoming"
    assert repository.refused("task", "submit", task, "--agent", "Fenster", "--commit", "HEAD") == "not_yours"


@pytest.mark.parametrize("signature", ["", "A" * 86, "A" * 85, "?" * 86, "A" * 200_000, "\u2028"])
def test_a_signature_that_our_key_did_not_make_is_a_problem_by_file_and_line(
    near_machine: Machine, signature: str
) -> None:
    repository = near_machine.repository(config=PROJECT)
    task = repository.add()
    forged = line("task.cancel", task_id=task)
    group = {
        "event": "log.sign",
        "ts": "2026-11-15T08:00:00.000000Z",
        "meta": {"session": "20261115-080000-0000f0f0"},
        "first": 1,
        "before": "0" * 32,
        "events": [[json.loads(forged)["meta"]["id"], task]],
        "key": repository.ok("keys")["own"]["id"],
        "signature": signature,
    }

    put(repository, json.dumps(group, separators=(",", ":"), ensure_ascii=False).encode(), forged)

    assert status(repository, task) == "incoming"
    assert [(Path(one["file"]).name, one["line"]) for one in repository.verify()] == [("forged.jsonl", 1)]


def test_a_line_in_the_place_of_another_has_no_effect(near_machine: Machine) -> None:
    repository = near_machine.repository(config=PROJECT)
    one, two = repository.add("One"), repository.add("Two")
    repository.ok("task", "cancel", one)
    (true,) = (event for event in repository.written().values() if event["event"] == "task.cancel")
    meta = {name: value for name, value in true["meta"].items() if name not in ("id", "session", "seq")}

    put(
        repository,
        line("task.cancel", task_id=two, meta=meta),
        line(
            "task.cancel",
            ts=true["ts"],
            session=true["meta"]["session"],
            seq=true["meta"]["seq"],
            task_id=two,
            meta=meta,
        ),
    )

    assert (status(repository, one), status(repository, two)) == ("cancelled", "incoming")
    (found,) = repository.verify()
    assert "One has no signature and no effect" in found["problem"]


def test_an_import_says_how_much_of_it_is_unconfirmed(near_machine: Machine, tmp_path: Path) -> None:
    repository = near_machine.repository(config=PROJECT)
    task = repository.add()
    (tmp_path / "old.jsonl").write_bytes(line("task.cancel", task_id=task) + b"\n")

    said = repository.ok("log", "import", str(tmp_path))

    assert (said["events"], said["unconfirmed"]) == (1, 1)
    assert status(repository, task) == "incoming"


def test_only_the_user_sees_to_keys(machine: Machine) -> None:
    team = '\n[team]\nmembers = [{name = "Fenster"}, {name = "Lead", role = "lead"}]\n'
    repository = machine.repository(config=PROJECT + team)
    key = repository.ok("keys")["own"]["key"]

    for command in (("keys",), ("keys", "trust", key, "--write"), ("keys", "revoke", key, "--write")):
        assert repository.refused(*command, env={"REMAND_TASK": "T-1"}) == "user_only"
        assert repository.refused(*command, "--as", "Fenster") == "user_only"
        assert repository.refused(*command, "--as", "Lead") == "user_only"
    assert "keys" not in (repository.path / "remand.toml").read_text()


def test_a_key_is_trusted_and_revoked_by_the_line_that_is_printed(near_machine: Machine) -> None:
    repository = near_machine.repository(config=PROJECT)
    own = repository.ok("keys")["own"]

    said = repository.ok("keys", "trust", own["id"])
    assert (said["written"], said["id"]) == (False, own["id"])
    repository.configure(f"{PROJECT}[keys]\ntrusted = [{said['line']}]\n")
    assert [key["id"] for key in repository.ok("keys")["trusted"]] == [own["id"]]
    assert "already" in repository.people("keys", "trust", own["id"]).out
    assert f'key = "{own["key"]}' in repository.ok("keys", "revoke", own["id"])["line"]


@pytest.mark.parametrize("key", ["0123456789abcdef", "nonsense", "ed25519:AAAA"])
def test_a_key_that_is_not_known_is_asked_for(near_machine: Machine, key: str) -> None:
    repository = near_machine.repository(config=PROJECT)

    said = repository.call("keys", "trust", key)

    assert said.code == 2
    assert "remand keys" in said.data["message"]


def test_the_doctor_looks_at_the_key(near_machine: Machine) -> None:
    repository = near_machine.repository(config=PROJECT)

    def check() -> dict[str, Any]:
        checks = repository.call("doctor").data["checks"]
        return next(one for one in checks if one["name"] == "keys")

    assert "no key yet" in check()["detail"]
    repository.add()
    assert "does not trust it" in check()["detail"]
    (near_machine.state / "remand" / "keys" / "machine.key").chmod(0o644)
    assert check()["ok"] is False


def test_with_a_key_that_cannot_be_used_nothing_is_written(near_machine: Machine) -> None:
    repository = near_machine.repository(config=PROJECT)
    task = repository.add()
    key = near_machine.state / "remand" / "keys" / "machine.key"
    key.chmod(0o644)

    said = repository.call("task", "cancel", task)
    assert (said.code, str(key) in said.data["message"]) == (3, True)
    key.chmod(0o600)
    assert status(repository, task) == "incoming"


@pytest.mark.parametrize(
    "command",
    [
        ("task", "list"),
        ("log", "digest"),
        ("log", "rebuild"),
        ("log", "tail"),
    ],
    ids=" ".join,
)
def test_what_writes_nothing_loads_nothing_that_signs(
    repository: Repository, command: tuple[str, ...]
) -> None:
    task = repository.add()
    put(
        repository,
        line("task.cancel", task_id=task),
        line("task.cancel", seq=2, task_id=task, meta={"signer": "x", "signature": "y"}),
    )

    process = repository.machine.start(repository.path, sys.executable, "-c", LOADED, *command)
    out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0, out + err


def test_a_table_that_was_changed_is_named_made_anew_and_then_in_order(near_machine: Machine) -> None:
    repository = near_machine.repository()
    task = repository.add()
    ledger = repository.path / ".got" / "ledger.db"
    with sqlite3.connect(ledger) as connection:
        ((text,),) = connection.execute("SELECT state FROM task WHERE id = ?", (task,)).fetchall()
        text = json.dumps(json.loads(text) | {"title": "Another"}, separators=(",", ":"))
        connection.execute("UPDATE task SET state = ? WHERE id = ?", (text, task))
    connection.close()

    found = repository.call("log", "verify")
    assert found.code == 1
    assert [problem["problem"] for problem in found.data["problems"]] == [
        f"table task and the events differ about {task}; the table is rebuilt"
    ]

    assert repository.ok("log", "verify")["ok"]
    assert repository.ok("task", "show", task)["title"] != "Another"


@pytest.mark.parametrize(
    ("event", "is_ours"),
    [
        ("stop", False),
        ("session_start", False),
        ("pre_tool", False),
        ("session_start", True),
        ("pre_tool", True),
    ],
)
def test_a_hook_that_writes_nothing_loads_nothing_that_signs(
    repository: Repository, event: str, is_ours: bool
) -> None:
    task = repository.add()
    tool = {"tool_name": "Read", "tool_input": {"file_path": "README.md"}}
    payload = {"session_id": "s", "cwd": str(repository.path), "hook_event_name": event, **tool}
    who = {"REMAND_TASK": task, "REMAND_ACTOR": "Alice"} if is_ours else {}
    before = repository.lines()

    command = (sys.executable, "-c", LOADED, "hook", "--host", "claude", event)
    process = repository.machine.start(repository.path, *command, stdin=subprocess.PIPE, env=who)
    out, err = process.communicate(json.dumps(payload), timeout=PATIENCE)

    assert repository.lines() == before
    assert process.returncode == 0, out + err
