"""Real machines over the life of their keys: asked for, trusted, replaced, lost, stolen, and vouched for."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from remand.wiring.ledger import machine_keys
from tests.integration.machine import PATIENCE, Machine, Repository, Said, near_call
from tests.integration.test_signatures import LOADED

ID = "0123456789abcdef"
AGENT = {"REMAND_TASK": "T-1", "REMAND_ACTOR": "Alice"}
WARNING = "does not trust this machine's key"


class Clone(Repository):
    """A repository on a machine that is near: its calls run in this process, in that machine's environment."""

    def people(self, *arguments: str, **options: Any) -> Said:
        if not self.machine.is_near:
            return super().people(*arguments, **options)
        with patch.dict(os.environ, self.machine.environment, clear=True):
            said = near_call(self.path, arguments, options.get("env"))
        assert said is not None
        return said


@pytest.fixture
def one() -> Iterator[Machine]:
    made = Machine(is_near=True)
    yield made
    made.close()


@pytest.fixture
def two() -> Iterator[Machine]:
    made = Machine(is_near=True)
    yield made
    made.close()


@pytest.fixture
def far_machine() -> Iterator[Machine]:
    made = Machine()
    yield made
    made.close()


def config(*keys: str) -> str:
    listed = "".join(f'  "{key}",\n' for key in keys)
    return f'[project]\nid = "{ID}"\n\n[keys]\ntrusted = [\n{listed}]\n\n[gates]\n'


def key_of(machine: Machine) -> str:
    """A machine's public key, made when there is none."""
    with patch.dict(os.environ, machine.environment, clear=True):
        return f"{machine_keys().ensure_key().text} {machine.folder.name}"


def shared(machine: Machine, *keys: str) -> Repository:
    """A machine's clone of a bare repository whose base trusts the machine's key, and these."""
    mine = alone(machine, config(key_of(machine), *keys))
    machine.git(machine.folder, "init", "-q", "--bare", "-b", "main", "origin.git")
    mine.git("remote", "add", "origin", str(machine.folder / "origin.git"))
    mine.git("push", "-q", "-u", "origin", "main")
    return mine


def alone(machine: Machine, text: str) -> Repository:
    """A repository without a remote."""
    return Clone(machine, machine.repository("mine", config=text).path)


def clone(machine: Machine, mine: Repository, name: str = "theirs") -> Repository:
    origin = mine.machine.folder / "origin.git"
    machine.git(machine.folder, "clone", "-q", str(origin), name)
    return Clone(machine, machine.folder / name)


def publish(repository: Repository) -> None:
    """Brings the events to the base, as whoever works on it does."""
    pull(repository)
    repository.call("log", "publish")
    repository.git("push", "-q", "origin", "main")


def pull(repository: Repository) -> None:
    repository.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "main")


def commit_config(repository: Repository) -> None:
    repository.git("commit", "-qam", "keys")
    repository.git("push", "-q", "origin", "main")


def data(said: Said) -> Any:
    assert said.code == 0, said
    return said.data


def add(repository: Repository, title: str) -> str:
    """A task, whether the base trusts the machine's key or not."""
    return str(data(repository.call("task", "add", title))["task_id"])


def titles(repository: Repository) -> set[str]:
    return {row["title"] for row in data(repository.call("task", "list"))}


def digest(repository: Repository) -> str:
    return str(data(repository.call("log", "digest"))["digest"])


def keys_check(repository: Repository) -> tuple[bool, bool, str]:
    said = repository.call("doctor").data
    check = next(one for one in said["checks"] if one["name"] == "keys")
    return said["ok"], check["ok"], check["fix"]


def test_a_new_machine_is_told_what_to_do_until_the_base_trusts_its_key(
    machine: Machine, far_machine: Machine
) -> None:
    mine = shared(machine)
    theirs = clone(far_machine, mine)

    # `init` says what to do, and the doctor fails.
    said = data(theirs.call("init"))
    page = theirs.people("init").out
    assert said["missing"] == []
    assert "remand keys request" in page
    assert f"remand keys trust '{said['request']}' --write" in page
    is_ok, is_check_ok, fix = keys_check(theirs)
    assert (is_ok, is_check_ok, "remand keys request" in fix) == (False, False, True)

    # Who only reads is told nothing; who writes is told with that command and with every one after it.
    assert theirs.people("task", "ready").err == ""
    written = theirs.call("task", "add", "Theirs")
    assert (written.code, written.data["unconfirmed"], written.err.count(WARNING)) == (0, True, 1)
    for command in (("task", "list"), ("task", "ready"), ("log", "tail"), ("keys",)):
        read = theirs.call(*command)
        assert read.code == 0
        assert read.err.count(WARNING) == len(read.err.splitlines()) == 1
        assert not isinstance(read.data, dict) or read.data.get("unconfirmed") is not True
    task = written.data["task_id"]
    refused = theirs.call("task", "claim", task, "--agent", "Alice", env=AGENT)
    assert (refused.code, refused.data["refused"]) == (3, "key_not_trusted")
    assert "remand keys request" in refused.data["message"]
    run = theirs.call("run", "--once")
    assert (run.code, run.data["refused"]) == (3, "key_not_trusted")

    # One line of text goes over, and from then on all is as if the key had always been trusted.
    request = theirs.people("keys", "request").out.splitlines()
    assert request == [said["request"]]
    assert data(mine.call("keys", "trust", request[0]))["written"] is False
    told = data(mine.call("keys", "trust", request[0], "--write"))
    assert (told["written"], told["id"]) == (True, data(theirs.call("keys"))["own"]["id"])
    commit_config(mine)
    theirs.git("fetch", "-q")
    after = theirs.call("task", "claim", task, "--agent", "Alice", env=AGENT)
    assert (after.code, after.err, "unconfirmed" in after.data) == (0, "", False)
    assert keys_check(theirs)[1] is True
    assert theirs.call("init").data["request"] is None
    publish(theirs)
    pull(mine)
    assert titles(mine) == {"Theirs"}
    assert digest(mine) == digest(theirs)


def test_in_a_coordinator_the_same_is_told(machine: Machine, far_machine: Machine) -> None:
    theirs = clone(far_machine, shared(machine))
    add(theirs, "One")

    with theirs.coordinator():
        said = theirs.call("task", "add", "Two")
        assert (said.code, said.data["unconfirmed"], said.err.count(WARNING)) == (0, True, 1)
        refused = theirs.call("task", "claim", said.data["task_id"], "--agent", "Alice", env=AGENT)
        assert (refused.code, refused.data["refused"]) == (3, "key_not_trusted")
        assert theirs.call("task", "list").err.count(WARNING) == 1


def test_who_works_alone_notices_nothing(one: Machine) -> None:
    unlisted = alone(one, config())
    plain = Clone(one, one.repository("plain").path)
    one.git(one.folder, "init", "-q", "--bare", "-b", "main", "origin.git")
    plain.git("remote", "add", "origin", str(one.folder / "origin.git"))
    plain.git("push", "-q", "-u", "origin", "main")

    for repository in (unlisted, plain):
        task = repository.add()
        assert repository.ok("task", "claim", task, "--agent", "Alice", env=AGENT)["task_id"] == task
        assert "unconfirmed" not in repository.ok("task", "release", task, "--agent", "Alice")
    assert keys_check(plain)[1] is True


@pytest.mark.parametrize("text", ["remand-key:fedcba9876543210:{body}:laptop", "remand-key::{body}:laptop"])
def test_the_request_of_another_project_is_refused(one: Machine, text: str) -> None:
    repository = alone(one, config())
    body = repository.ok("keys")["own"]["key"].removeprefix("ed25519:").rstrip("=")

    said = repository.call("keys", "trust", text.format(body=body), "--write")

    assert said.code == 2
    assert "another project" in said.data["message"]
    assert "remand keys request" in said.data["message"]
    assert body not in (repository.path / "remand.toml").read_text()
    damaged = repository.call("keys", "trust", text.format(body=body[:-3]))
    assert (damaged.code, "damaged" in damaged.data["message"]) == (2, True)


def test_a_revoked_key_keeps_what_the_base_had_and_adds_nothing(one: Machine, two: Machine) -> None:
    mine = shared(one, key_of(two))
    theirs = clone(two, mine)
    task = add(theirs, "Published")
    publish(theirs)
    pull(mine)
    late = add(theirs, "Late")
    own = data(theirs.call("keys"))["own"]

    shown = data(mine.call("keys", "revoke", own["id"]))
    assert (shown["written"], shown["source"], shown["lost"], shown["tasks"]) == (False, "base", [], [])
    assert [end["number"] for end in shown["until"]] == [1]
    assert data(mine.call("keys", "revoke", own["key"], "--write"))["written"] is True
    commit_config(mine)

    assert titles(mine) == {"Published"}
    before = digest(mine)
    said = theirs.call("task", "cancel", late)
    assert "unconfirmed" not in said.data, "nothing is known of it before it is fetched"
    theirs.git("fetch", "-q")
    warned = theirs.call("task", "cancel", task)
    assert (warned.code, warned.data["unconfirmed"], warned.err.count(WARNING)) == (0, True, 1)
    publish(theirs)
    pull(mine)
    assert (digest(mine), titles(mine)) == (before, {"Published"})
    assert {row["why"] for row in data(mine.call("keys"))["unconfirmed"]} == {"revoked"}
    assert [key["until"] is None for key in data(mine.call("keys"))["trusted"]] == [True, False]
    assert mine.verify() == []
    mine.forget_ledger()
    assert digest(mine) == before
    again = mine.call("keys", "trust", own["key"])
    assert (again.code, "revoked" in again.data["message"]) == (2, True)

    # The machine gets a new key, which is trusted beside the old one.
    (two.state / "remand" / "keys" / "machine.key").unlink()
    mine.ok("keys", "trust", theirs.people("keys", "request").out.strip(), "--write")
    commit_config(mine)
    pull(theirs)
    theirs.ok("task", "cancel", task)
    publish(theirs)
    pull(mine)
    assert data(mine.call("task", "show", task))["status"] == "cancelled"
    assert digest(mine) == digest(theirs)


def test_of_a_stolen_key_what_its_owner_wrote_goes_on_counting(one: Machine, two: Machine) -> None:
    mine = shared(one, key_of(two))
    theirs = clone(two, mine)
    honest = add(theirs, "Honest")
    publish(theirs)
    theirs.ok("task", "cancel", honest)
    add(theirs, "Stolen")
    publish(theirs)
    pull(mine)
    own = data(theirs.call("keys"))["own"]
    event = next(one for one in theirs.written().values() if one["event"] == "task.cancel")
    start = f"{event['meta']['session']}:{event['meta']['seq']}"

    shown = mine.ok("keys", "revoke", own["id"], "--from", start)
    assert (shown["written"], [end["number"] for end in shown["until"]]) == (False, [1])
    assert {(row["event"], row["events"]) for row in shown["lost"]} == {
        ("task.cancel", 1),
        ("node.create", 1),
    }
    assert {(row["before"], row["after"]) for row in shown["tasks"]} == {
        ("cancelled", "incoming"),
        ("incoming", None),
    }
    page = mine.people("keys", "revoke", own["id"], "--from", start).out
    assert "2 events lose their effect" in page
    assert "other sessions" in page
    assert titles(mine) == {"Honest", "Stolen"}, "nothing was written"

    assert mine.ok("keys", "revoke", own["id"], "--from", start, "--write")["written"]
    commit_config(mine)
    assert titles(mine) == {"Honest"}
    assert mine.ok("task", "show", honest)["status"] == "incoming"
    third = clone(one, mine, "third")
    assert digest(third) == digest(mine)


def test_who_has_lost_their_home_goes_on_in_a_new_session(one: Machine) -> None:
    repository = alone(one, config(key_of(one)))
    task = repository.add("Before")
    shutil.rmtree(one.state)
    one.state.mkdir(mode=0o700)

    repository.add("After")

    assert titles(repository) == {"Before", "After"}
    assert repository.ok("task", "cancel", task)["status"] == "cancelled"
    sessions = [event["meta"]["session"] for event in repository.written().values()]
    assert sorted(Counter(sessions).values()) == [1, 2]
    keys = {json.loads(line)["key"] for line in repository.lines() if b'"log.sign"' in line[:40]}
    assert len(keys) == 2
    before = repository.digest()
    repository.forget_ledger()
    assert repository.digest() == before


@pytest.mark.parametrize("is_one_key", [True, False], ids=["with one key", "with two keys"])
def test_two_clones_of_one_user_agree(one: Machine, two: Machine, is_one_key: bool) -> None:
    if is_one_key:
        key_of(one)
        shutil.copytree(one.state / "remand" / "keys", two.state / "remand" / "keys")
    mine = shared(one, *([] if is_one_key else [key_of(two)]))
    theirs = clone(two, mine)

    first, second = mine.add("One"), theirs.add("Two")
    publish(mine)
    publish(theirs)
    pull(mine)
    mine.ok("task", "cancel", second)
    theirs.ok("task", "cancel", first)
    publish(mine)
    publish(theirs)
    pull(mine)

    assert mine.digest() == theirs.digest()
    assert {row["status"] for row in mine.ok("task", "list")} == {"cancelled"}
    assert (mine.verify(), theirs.verify()) == ([], [])
    assert len({data(clone.call("keys"))["own"]["id"] for clone in (mine, theirs)}) == (
        1 if is_one_key else 2
    )


def test_one_trusted_machine_takes_over_what_another_began(one: Machine, two: Machine) -> None:
    mine = shared(one, key_of(two))
    theirs = clone(two, mine)
    task = mine.add("Begun there")
    mine.ok("task", "claim", task, "--agent", "Alice")
    mine.ok("task", "continue", task, "--agent", "Alice", "--reason", "my day is over")
    publish(mine)

    pull(theirs)
    theirs.ok("task", "claim", task, "--agent", "Bob")
    theirs.git("switch", "-qc", "work")
    commit = theirs.commit()
    theirs.ok("task", "submit", task, "--agent", "Bob", "--commit", commit)
    theirs.git("switch", "-q", "main")
    publish(theirs)
    theirs.git("push", "-q", "origin", "work")
    pull(mine)
    mine.git("fetch", "-q", "origin", "work:work")
    mine.ok("review", "approve", task, "--commit", commit)
    publish(mine)
    pull(theirs)

    assert mine.ok("task", "show", task)["status"] == theirs.ok("task", "show", task)["status"] == "done"
    assert mine.digest() == theirs.digest()
    assert (mine.verify(), theirs.verify()) == ([], [])


def test_the_user_adopts_a_session_whose_key_is_lost(one: Machine, two: Machine) -> None:
    mine = shared(one)
    theirs = clone(two, mine)
    task = add(theirs, "Of a lost machine")
    data(theirs.call("task", "cancel", task))
    publish(theirs)
    pull(mine)
    assert titles(mine) == set()
    listed = mine.ok("keys")
    (session,) = listed["signers"][0]["sessions"]
    first, second = listed["unconfirmed"]
    assert {name: first[name] for name in ("event", "task_id", "why")} == {
        "event": "node.create",
        "task_id": task,
        "why": "unknown_signer",
    }
    lines = Path(first["file"]).read_bytes().splitlines()
    assert [json.loads(lines[row["line"] - 1])["event"] for row in (first, second)] == [
        "node.create",
        "task.cancel",
    ]

    assert mine.refused("keys", "adopt", session, env=AGENT) == "user_only"
    shown = mine.ok("keys", "adopt", session)
    assert (shown["adopted"], [row["event"] for row in shown["gained"]]) == (
        False,
        ["node.create", "task.cancel"],
    )
    assert (shown["tasks"], titles(mine)) == (
        [{"task_id": task, "before": None, "after": "cancelled"}],
        set(),
    )
    assert mine.call("keys", "adopt", session, "--yes").code == 2, "a reason is asked for"
    assert mine.ok("keys", "adopt", session, "--yes", "--reason", "the disk broke")["adopted"]

    assert mine.ok("task", "show", task)["status"] == "cancelled"
    publish(mine)
    other = clone(one, mine, "other")
    assert other.digest() == mine.digest()
    assert (other.verify(), mine.verify()) == ([], [])
    assert mine.ok("keys", "adopt", session, "--yes", "--reason", "again")["adopted"] is False


def test_only_the_user_asks_for_trust_and_adopts(one: Machine) -> None:
    team = '\n[team]\nmembers = [{name = "Fenster"}, {name = "Lead", role = "lead"}]\n'
    repository = alone(one, config() + team)
    repository.add()

    for command in (("keys", "request"), ("keys", "adopt", "x"), ("keys", "revoke", "x", "--from", "x:1")):
        assert repository.refused(*command, env={"REMAND_TASK": "T-1"}) == "user_only"
        assert repository.refused(*command, "--as", "Fenster") == "user_only"
        assert repository.refused(*command, "--as", "Lead") == "user_only"


def test_whoever_only_reads_loads_nothing_that_signs_to_be_told(
    machine: Machine, far_machine: Machine
) -> None:
    theirs = clone(far_machine, shared(machine))
    add(theirs, "Theirs")

    process = far_machine.start(theirs.path, sys.executable, "-c", LOADED, "task", "list")
    out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0, out + err
    assert err.count(WARNING) == 1
