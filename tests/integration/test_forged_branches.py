"""Real git: what branches bring changes a task only when a trusted key signed it, however they are merged."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from remand.wiring.ledger import machine_keys
from tests.integration.forged_lines import line, put
from tests.integration.machine import Machine, Repository
from tests.properties.forgeries import Forger, spread

pytestmark = pytest.mark.timeout(3600)
ID = "0123456789abcdef"
PROJECT = f'[project]\nid = "{ID}"\n\n[gates]\n'
Campaign = Callable[[int, int], int]


@pytest.fixture
def far_machine() -> Iterator[Machine]:
    """Another machine, whose commands run inside this process, too."""
    made = Machine(is_near=True)
    yield made
    made.close()


def a_seed() -> int:
    """A seed that is printed, and that the environment may give to find a failure again."""
    seed = int(os.environ.get("REMAND_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"REMAND_SEED={seed}")
    return seed


def work(repository: Repository) -> dict[str, str]:
    """Tasks with work under way, by what became of each."""
    names = ("claimed", "rejected", "submitted", "deferred", "asked", "free")
    tasks = {name: repository.add(name) for name in names}
    for name, agent in (("claimed", "Alice"), ("rejected", "Bob"), ("submitted", "Carol"), ("asked", "Dave")):
        repository.ok("task", "claim", tasks[name], "--agent", agent)
    for name, agent in (("rejected", "Bob"), ("submitted", "Carol")):
        repository.ok("task", "submit", tasks[name], "--agent", agent, "--commit", "HEAD")
    finding = ("--commit", repository.head(), "--finding", "a.py:1: no")
    repository.ok("review", "reject", tasks["rejected"], *finding)
    repository.ok("task", "defer", tasks["deferred"], "--until", tasks["submitted"])
    repository.ok("escalate", tasks["asked"], "--reason", "Which roof?", "--agent", "Dave")
    return tasks


# Forgeries that git brings.


def merge(repository: Repository) -> None:
    repository.git("merge", "-q", "--no-edit", "evil")


def squash(repository: Repository) -> None:
    repository.git("merge", "-q", "--squash", "evil")
    repository.git("commit", "-q", "-m", "all in one")


def rebase(repository: Repository) -> None:
    repository.git("rebase", "-q", "evil")


def cherry_pick(repository: Repository) -> None:
    repository.git("cherry-pick", "main..evil")


@pytest.mark.parametrize("way", [merge, squash, rebase, cherry_pick])
def test_no_forgery_that_a_branch_brings_changes_a_task(
    near_machine: Machine, campaign: Campaign, way: Callable[[Repository], None]
) -> None:
    rng = random.Random(a_seed())
    repository = near_machine.repository(config=PROJECT)
    work(repository)
    repository.ok("log", "publish")
    keys = machine_keys()
    keys.load()
    forgeries = list(Forger(rng, repository.lines(), keys, ID).forge(campaign(150, 600)))
    repository.git("switch", "-qc", "evil")
    for path, lines in spread(rng, forgeries):
        name = os.path.basename(path)
        (repository.events / name).write_bytes(b"".join(one + b"\n" for one in lines))
        repository.git("add", f".got/events/{name}")
        repository.git("commit", "-qm", f"add {name}")
    repository.git("switch", "-q", "main")
    repository.commit("honest.txt")
    expected, tasks = repository.digest(), repository.ok("task", "list")

    way(repository)

    assert repository.digest() == expected
    assert repository.ok("task", "list") == tasks
    assert repository.call("log", "verify").code in (0, 1)
    fresh = near_machine.clone(repository, "fresh")
    assert fresh.digest() == expected
    fresh.ok("log", "rebuild")
    assert fresh.digest() == expected
    repository.forget_ledger()
    assert repository.digest() == expected


@pytest.mark.parametrize("ending", [b"\n", b""], ids=["whole", "torn"])
def test_what_is_appended_to_the_open_file_between_two_commands_is_set_aside(
    near_machine: Machine, ending: bytes
) -> None:
    repository = near_machine.repository(config=PROJECT)
    task = repository.add()
    (segment,) = repository.segments()
    (event,) = repository.written().values()
    place = {"session": event["meta"]["session"], "seq": 2, "meta": {"prev": event["meta"]["id"]}}
    forged = line("task.cancel", ts=event["ts"], task_id=task, **place)
    with segment.open("ab") as file:
        file.write(segment.read_bytes() + forged + ending)

    repository.add("Another")

    assert repository.ok("task", "show", task)["status"] == "incoming"
    assert not any(event["event"] == "task.cancel" for event in repository.written().values())
    assert forged not in segment.read_bytes()
    (aside,) = (repository.path / ".got").rglob("*.torn")
    assert forged in aside.read_bytes()
    (said,) = repository.ok("log", "verify")["set_aside"]
    assert repository.path / said["file"] == aside
    assert "It has no effect" in said["message"]
    assert said["file"] in repository.people("log", "verify").out
    assert repository.verify() == []
    before = repository.digest()
    repository.forget_ledger()
    assert repository.digest() == before


# Parts of a log, and several machines.


def at(repository: Repository) -> Repository:
    """The repository, once commands run as on its machine."""
    os.environ.update(repository.machine.environment)
    return repository


def trust(repository: Repository, *machines: Repository) -> None:
    """Commits on the base that these machines' keys are trusted."""
    keys = ", ".join(f'"{at(one).ok("keys")["own"]["key"]}"' for one in machines)
    repository.configure(f"{PROJECT}\n[keys]\ntrusted = [{keys}]\n")


def test_of_two_tasks_in_one_session_one_can_be_published_and_approved_in_a_fresh_clone(
    near_machine: Machine, far_machine: Machine
) -> None:
    mine = near_machine.repository(config=PROJECT)
    at(mine).add("Makes the key")
    trust(mine, mine)
    mine.git("switch", "-qc", "feature")
    commit = mine.commit("feature.txt")
    mine.git("switch", "-q", "main")
    one, other = at(mine).add("One", "--branch", "feature"), at(mine).add("Other")
    at(mine).ok("task", "claim", one, "--agent", "Alice")
    at(mine).ok("task", "claim", other, "--agent", "Bob")
    at(mine).ok("task", "submit", one, "--agent", "Alice", "--commit", commit)
    at(mine).ok("task", "release", other, "--agent", "Bob")
    at(mine).ok("log", "publish", "--task", one)

    theirs = far_machine.clone(mine, "clone", "-b", "feature")

    assert at(theirs).verify() == []
    assert [row["task_id"] for row in at(theirs).ok("task", "list")] == [one]
    at(theirs).ok("review", "approve", one, "--commit", commit)
    assert at(theirs).ok("task", "show", one)["status"] == "done"
    assert at(theirs).verify() == []


def test_two_trusted_machines_come_to_one_digest_by_take_over_merge_and_rebase(
    near_machine: Machine, far_machine: Machine
) -> None:
    hub = near_machine.repository("hub", config=PROJECT)
    hub.git("config", "receive.denyCurrentBranch", "updateInstead")
    mine, theirs = near_machine.clone(hub, "mine"), far_machine.clone(hub, "theirs")
    task = at(mine).add("Taken over")
    at(theirs).add("Theirs")
    trust(mine, mine, theirs)
    at(mine).ok("task", "claim", task, "--agent", "Alice")
    at(mine).ok("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
    at(mine).ok("review", "reject", task, "--commit", mine.head(), "--finding", "a.py:1: no")
    at(mine).ok("log", "publish")
    mine.git("push", "-q", "origin", "main")

    theirs.git("pull", "-q", "--rebase", "origin", "main")
    assert at(theirs).refused("task", "claim", task, "--agent", "Alice") == "locked_out"
    at(theirs).ok("task", "claim", task, "--agent", "Bob")
    assert at(theirs).people("task", "prompt", task, "--agent", "Bob").code == 0
    commit = theirs.commit("taken-over.txt")
    at(theirs).ok("task", "submit", task, "--agent", "Bob", "--commit", commit)
    at(mine).add("Meanwhile")
    at(mine).ok("log", "publish")
    mine.git("push", "-q", "origin", "main")
    at(theirs).ok("log", "publish")
    theirs.git("pull", "-q", "--rebase", "origin", "main")
    theirs.git("push", "-q", "origin", "main")
    mine.commit("more.txt")
    mine.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "main")

    assert at(mine).digest() == at(theirs).digest()
    assert at(mine).verify() == at(theirs).verify() == []
    assert at(mine).refused("task", "claim", task, "--agent", "Alice") == at(theirs).refused(
        "task", "claim", task, "--agent", "Alice"
    )
    fresh = far_machine.clone(mine, "fresh")
    assert (at(fresh).digest(), at(fresh).verify()) == (at(mine).digest(), [])


# A ledger of an earlier version.

VERSION_9 = """
DROP TABLE group_task; DROP TABLE signed_group; DROP TABLE missing; DROP TABLE rewritten; DROP TABLE name;
DROP TABLE objection; ALTER TABLE head DROP COLUMN changed; ALTER TABLE head DROP COLUMN bounded_from;
ALTER TABLE head DROP COLUMN chain; ALTER TABLE head DROP COLUMN key; ALTER TABLE head DROP COLUMN project;
DELETE FROM unconfirmed;
PRAGMA user_version = 9
"""


def made_older(repository: Repository, believed: str) -> None:
    """Makes a ledger what version 9 left: lines without groups, and tables that believe what anybody wrote."""
    size = 0
    for path in repository.segments():
        kept = [one for one in path.read_bytes().splitlines(keepends=True) if b'"log.sign"' not in one]
        path.write_bytes(b"".join(kept))
        size = path.stat().st_size
    connection = apsw.Connection(str(repository.ledger))
    connection.execute("UPDATE head SET size = ?", (size,)).fetchall()
    connection.execute("UPDATE event SET subject = ? WHERE instr(line, 'forged')", (believed,)).fetchall()
    for statement in VERSION_9.split(";"):
        connection.execute(statement).fetchall()
    connection.close()


def forged_in_old_form(repository: Repository, task: str) -> list[bytes]:
    """Lines of earlier versions: under the ledger's own session and under another, some with a signature of theirs."""
    own = next(iter(repository.written().values()))["meta"]["session"]
    late = next(reversed(repository.written().values()))["ts"]
    signed = {"signer": "0" * 16, "signature": "A" * 86}
    forged = []
    for session in (own, "20261115-080000-0000f0f0"):
        for seq, meta in ((1, {}), (2, signed), (3, {}), (4, signed), (9, {})):
            fields = {"ts": late, "session": session, "seq": seq, "meta": meta, "task_id": task}
            forged.append(line("lockout.clear", agent="Alice", reason="forged", **fields))
            forged.append(line("task.cancel", reason="forged", **fields))
            forged.append(line("lockout.set", agent="Bob", reason="forged", **fields))
    return forged


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_lines_forged_in_the_form_of_an_earlier_version_have_no_effect(
    near_machine: Machine, when: str
) -> None:
    repository = near_machine.repository(config=PROJECT)
    task = repository.add("Guarded")
    repository.ok("task", "claim", task, "--agent", "Alice")
    repository.ok("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
    repository.ok("review", "reject", task, "--commit", repository.head(), "--finding", "a.py:1: no")
    expected = repository.digest()
    forged = forged_in_old_form(repository, task)
    real = repository.segments()
    if when == "before":
        put(repository, *forged, name="0-forged.jsonl")
        repository.digest()
        (repository.events / "0-forged.jsonl").unlink()
    made_older(repository, task)
    if when == "within":
        put(repository, *forged, name="0-forged.jsonl")

    repository.add("The first write after the upgrade")
    if when == "after":
        put(repository, *forged, name="0-forged.jsonl")

    shown = repository.ok("task", "show", task)
    assert shown["status"] == "rejected"
    assert repository.refused("task", "claim", task, "--agent", "Alice") == "locked_out"
    assert repository.digest()[1] == expected[1] + 1
    after = repository.digest()
    assert set(real) <= set(repository.segments())
    if when == "before":
        put(repository, *forged, name="0-forged.jsonl")
    repository.forget_ledger()
    assert repository.digest() == after
    assert repository.refused("task", "claim", task, "--agent", "Alice") == "locked_out"
    assert Path(near_machine.clone(repository, "fresh").path).is_dir()
