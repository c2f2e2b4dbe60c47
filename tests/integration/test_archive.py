"""The archive on real git: files leave the base, fresh clones have the state, late branches wait for the archived lines."""

from __future__ import annotations

import gzip
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from remand.app.log import archive
from remand.interfaces.cli import log as cli
from tests.integration.machine import REMAND, Machine, Repository
from tests.support.log_check import run_script

CONFIG = """[project]
id = "0123456789abcdef"

[gates]

[team]
members = [{name = "Fenster"}, {name = "Hockney"}, {name = "Lead", role = "lead"}]
"""


def now(repository: Repository) -> str:
    """The time after everything that the log has."""
    last = datetime.fromisoformat(repository.ok("log", "tail", "-n", "1")[-1]["ts"])
    return (last + timedelta(milliseconds=1)).isoformat().replace("+00:00", "Z")


def a_log(repository: Repository) -> tuple[str, str]:
    """A task of which Fenster's work was sent back and that is cancelled, and one that is open; published on the base."""
    done = repository.add("Mend the roof")
    repository.ok("task", "claim", done, "--agent", "Fenster")
    repository.git("switch", "-qc", "work")
    repository.commit()
    repository.ok("task", "submit", done, "--agent", "Fenster", "--commit", "HEAD")
    finding = ("--finding", "work.txt:1: It leaks")
    repository.ok("review", "reject", done, "--reviewer", "Lead", "--commit", "HEAD", *finding)
    repository.git("switch", "-q", "main")
    repository.ok("task", "cancel", done, "--reason", "no roof")
    still_open = repository.add("Paint the door")
    repository.ok("log", "publish")
    return done, still_open


def test_an_archived_log_is_small_whole_and_the_same_for_a_fresh_clone(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    done, still_open = a_log(repository)
    old = {path.name for path in repository.segments()}
    shown = repository.ok("task", "show", done)

    answer = repository.ok("log", "archive", "--before", now(repository))

    assert answer["tasks"] == 1
    assert answer["archived"] > 5
    assert answer["bytes_before"] > 0
    assert not old & {path.name for path in repository.segments()}
    assert not repository.git("status", "--porcelain", ".got/events")
    listed = repository.git("ls-tree", "--name-only", "remand/archive:.got/events").split()
    assert old <= set(listed)
    assert repository.verify() == []
    fresh = near_machine.clone(repository, "fresh")
    assert fresh.digest()[0] == repository.digest()[0]
    assert fresh.verify() == []
    again = fresh.ok("task", "show", done)
    assert {name: again[name] for name in ("status", "lockouts")} == {
        name: shown[name] for name in ("status", "lockouts")
    }
    assert fresh.ok("task", "show", still_open)["status"] == "incoming"
    assert fresh.ok("analyze", "rejections") == repository.ok("analyze", "rejections")
    assert "log size" in {check["name"] for check in fresh.call("doctor").data["checks"]}
    assert repository.ok("log", "publish")["commit"] is None, "nothing is brought back"


def archives(repository: Repository) -> int:
    """How often the log was archived."""
    return sum(one["event"] == "log.archive" for one in repository.ok("log", "tail", "-n", "1000"))


def end_task(repository: Repository, title: str) -> None:
    repository.ok("task", "cancel", repository.add(title), "--reason", "not needed")


def test_publish_archives_by_itself_from_the_size_that_doctor_names_where_the_user_has_archived_before(
    near_machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = near_machine.repository(config=CONFIG)
    a_log(repository)
    (told,) = (one for one in repository.call("doctor").data["checks"] if one["name"] == "log size")
    assert f"from {archive.ARCHIVE_FROM >> 20} MB on" in told["detail"], told
    monkeypatch.setattr(cli, "ARCHIVE_AFTER_DAYS", 0)
    monkeypatch.setattr(archive, "ARCHIVE_FROM", 1)
    end_task(repository, "Nobody has archived yet")
    repository.ok("log", "publish")
    assert archives(repository) == 0

    repository.ok("log", "archive", "--before", now(repository))
    end_task(repository, "It goes on by itself")
    repository.ok("log", "publish")
    assert archives(repository) == 2
    assert repository.verify() == []

    monkeypatch.setattr(archive, "ARCHIVE_FROM", 1 << 30)
    end_task(repository, "The files are small")
    repository.ok("log", "publish")
    assert archives(repository) == 2


def two_machines_at_work(machine: Machine) -> tuple[Repository, Repository, str]:
    """A task that two clones wrote to; one has not published its part yet when the task ends."""
    repository = machine.repository(config=CONFIG)
    task = repository.add("Mend the roof")
    repository.ok("log", "publish")
    other = machine.clone(repository, "other")
    other.git("switch", "-qc", "late")
    other.ok("task", "edit", task, "--priority", "high")
    other.ok("log", "publish")
    repository.ok("task", "cancel", task, "--reason", "no roof")
    repository.ok("log", "publish")
    return repository, other, task


def test_a_late_branch_waits_without_the_archive_and_counts_with_it(near_machine: Machine) -> None:
    repository, other, task = two_machines_at_work(near_machine)
    repository.ok("log", "archive", "--before", now(repository))
    fresh = near_machine.clone(repository, "fresh")
    assert fresh.ok("log", "digest").get("waiting") is None

    for place in (repository, fresh):
        place.git("pull", "-q", "--no-rebase", str(other.path), "late")

    assert repository.ok("task", "show", task)["priority"] == "high", "it has the lines"
    assert repository.verify() == []
    shown = fresh.call("task", "show", task).data
    assert shown["priority"] == "medium"
    assert "log archive --fetch" in shown["waits_for_archive"]
    assert "log_warning" in shown
    digest = fresh.call("log", "digest").data
    assert digest["waiting"] == [task]
    assert "--fetch" in fresh.call("log", "verify").out

    done = fresh.call("log", "archive", "--fetch")

    assert done.code == 0, done
    assert done.data["tasks"] == 1
    assert fresh.ok("task", "show", task)["priority"] == "high"
    assert fresh.digest()[0] == repository.digest()[0]
    assert fresh.verify() == []


def test_an_archive_may_lie_in_a_folder(near_machine: Machine) -> None:
    repository, other, task = two_machines_at_work(near_machine)
    folder = near_machine.folder / "archive"
    repository.ok("log", "archive", "--before", now(repository), "--to", str(folder))
    assert not repository.git("branch", "--list", "remand/archive")
    fresh = near_machine.clone(repository, "fresh")
    fresh.git("pull", "-q", "--no-rebase", str(other.path), "late")
    assert fresh.call("log", "archive", "--fetch").code == 3

    bomb = min(folder.iterdir())
    content = bomb.read_bytes()
    bomb.write_bytes(gzip.compress(b"x" * (50 << 20)))
    hostile = fresh.call("log", "archive", "--fetch", "--to", str(folder))
    assert hostile.code == 3, hostile
    assert "is not the file that was archived" in hostile.err + hostile.out
    bomb.write_bytes(content)
    done = fresh.call("log", "archive", "--fetch", "--to", str(folder))

    assert done.code == 0, done
    assert fresh.ok("task", "show", task)["priority"] == "high"


def test_a_branch_from_before_the_archive_is_merged_after_it(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    task = repository.add("Mend the roof")
    repository.ok("log", "publish")
    repository.git("branch", "before")
    other = near_machine.clone(repository, "other", "-b", "before")
    new = other.add("Paint the door")
    other.ok("log", "publish")
    repository.ok("task", "cancel", task, "--reason", "no roof")
    repository.ok("log", "publish")
    repository.ok("log", "archive", "--before", now(repository))
    fresh = near_machine.clone(repository, "fresh")

    for place in (repository, fresh):
        place.git("pull", "-q", "--no-rebase", str(other.path), "before")

    assert fresh.ok("task", "show", new)["status"] == "incoming"
    assert fresh.ok("task", "show", task)["status"] == "cancelled"
    assert fresh.digest()[0] == repository.digest()[0]
    assert fresh.verify() == []
    assert repository.verify() == []


def test_two_clones_archive_at_once_and_are_merged(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    done, still_open = a_log(repository)
    other = near_machine.clone(repository, "other")
    new = other.add("Sweep the yard")
    other.ok("task", "cancel", new, "--reason", "no yard")
    repository.ok("log", "archive", "--before", now(repository))
    other.ok("log", "archive", "--before", now(other))

    other.git("pull", "-q", "--no-rebase", "origin", "main")
    repository.git("pull", "-q", "--no-rebase", str(other.path), "main")
    fresh = near_machine.clone(repository, "fresh")

    assert fresh.digest()[0] == repository.digest()[0] == other.digest()[0]
    for place in (fresh, repository, other):
        assert place.verify() == []
        assert place.ok("log", "digest").get("waiting") is None
    assert fresh.ok("task", "show", done)["status"] == fresh.ok("task", "show", new)["status"] == "cancelled"
    assert fresh.ok("task", "show", still_open)["status"] == "incoming"


def test_deleted_files_that_no_archive_names_are_still_found(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    a_log(repository)
    repository.ok("log", "archive", "--before", now(repository))
    repository.add("Another")
    repository.ok("log", "publish")
    name = repository.segments()[-1].name
    repository.git("rm", "-q", f".got/events/{name}")
    repository.git("commit", "-qm", "tidy up")

    fresh = near_machine.clone(repository, "fresh")

    assert any(name in problem["file"] for problem in fresh.verify())


def test_killed_at_any_moment_the_log_is_whole_and_the_next_call_ends_it(
    machine: Machine, campaign: Callable[[int, int], int]
) -> None:
    """The command is killed after growing times; then a call to the end gives what an undisturbed one gives."""
    repository = machine.repository(config=CONFIG)
    done, _ = a_log(repository)
    before = now(repository)
    states = {}

    def start(number: int) -> Repository:
        return machine.copy(repository, f"killed-{number}")

    for number, one in enumerate(
        killed_copies(start, campaign(4, 300), "log", "archive", "--before", before)
    ):
        shown = one.ok("task", "show", done)
        states[number] = (shown["status"], one.verify())
        one.call("log", "archive", "--before", before)
        assert one.verify() == [], number
        require_no_faults(one)
        fresh = machine.clone(one, f"fresh-{number}")
        assert fresh.verify() == [], number
        assert fresh.ok("task", "show", done)["status"] == "cancelled"
        assert len(fresh.segments()) <= 3 + 2, "the old files are gone"
    assert {state for state, _ in states.values()} == {"cancelled"}
    assert all(problems == [] for _, problems in states.values()), states


def test_a_file_that_was_packed_before_the_command_was_killed_does_not_stay_beside_the_packed_one(
    near_machine: Machine,
) -> None:
    """It was killed when the packed file was in the work tree and not yet on the branch."""
    repository = near_machine.repository(config=CONFIG)
    a_log(repository)
    before = now(repository)
    repository.ok("log", "archive", "--before", before)
    repository.git("reset", "-q", "HEAD~1")
    repository.git("checkout", "-q", "HEAD", "--", ".got/events")
    folder = repository.path / ".got" / "events"
    packed = next(folder.glob("*.gz.jsonl"))
    plain = packed.with_name(packed.name.replace(".gz.jsonl", ".jsonl"))
    plain.write_bytes(gzip.decompress(packed.read_bytes()))

    repository.ok("log", "archive", "--before", before)

    assert packed.exists()
    assert not plain.exists()
    require_no_faults(repository)


def require_no_faults(repository: Repository) -> None:
    """Fails the test when `scripts/check-log` finds a fault in the event files, packed ones included."""
    keys = Path(repository.machine.environment["XDG_STATE_HOME"], "remand", "keys", "machine.key").read_text()
    trust = ("--config", repository.path / "remand.toml", "--key", keys.splitlines()[1])
    checked = run_script(*trust, repository.path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def killed_copies(start: Callable[[int], Repository], kills: int, *words: str) -> Iterator[Repository]:
    """Repositories in which a command was killed after growing times, up to about those that it takes to its end."""
    begun = time.monotonic()
    start(-1).ok(*words)
    took = time.monotonic() - begun
    for number in range(kills):
        one = start(number)
        process = one.machine.start(one.path, REMAND, *words)
        with suppress(subprocess.TimeoutExpired):
            process.wait(took * (number + 1) / kills)
        process.kill()
        process.wait()
        yield one


def test_killed_while_it_fetches_the_log_is_whole_and_the_next_call_ends_it(
    machine: Machine, campaign: Callable[[int, int], int]
) -> None:
    repository = machine.repository(config=CONFIG)
    done, _ = a_log(repository)
    repository.ok("log", "archive", "--before", now(repository))
    whole = repository.digest()

    def start(number: int) -> Repository:
        return machine.clone(repository, f"killed-{number}")

    for number, one in enumerate(killed_copies(start, campaign(2, 60), "log", "archive", "--fetch")):
        assert one.verify() == [], number
        assert one.ok("task", "show", done)["status"] == "cancelled"
        one.ok("log", "archive", "--fetch")
        assert one.verify() == [], number
        assert one.digest() == whole, "every line is here"
        require_no_faults(one)
