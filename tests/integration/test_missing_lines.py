"""Lines that were cut out of a log, on real git: a fresh clone, the base's history, and the user's answer to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.machine import PATIENCE, REMAND, Machine, Repository

CONFIG = """[project]
id = "0123456789abcdef"

[gates]

[team]
members = [{name = "Fenster"}, {name = "Hockney"}, {name = "Lead", role = "lead"}]
"""
NO = ("review.reject", "lockout.set", "task.reassign", "handoff.initiate")


def sent_back(repository: Repository) -> str:
    """A task of which Fenster's work was rejected, with another task after it; published on the base."""
    task = repository.add("Mend the roof")
    repository.ok("task", "claim", task, "--agent", "Fenster")
    repository.git("switch", "-qc", "work")
    repository.commit()
    repository.ok("task", "submit", task, "--agent", "Fenster", "--commit", "HEAD")
    repository.ok(
        "review",
        "reject",
        task,
        "--reviewer",
        "Lead",
        "--commit",
        "HEAD",
        "--finding",
        "work.txt:1: It leaks",
    )
    repository.add("Another")
    repository.git("switch", "-q", "main")
    repository.ok("log", "publish")
    return task


def is_no(line: bytes, *, with_groups: bool) -> bool:
    fields = json.loads(line)
    if fields["event"] == "log.sign":
        return with_groups and fields["first"] == 5
    return fields["event"] in NO


def cut(repository: Repository, *, with_groups: bool) -> list[str]:
    """Takes the lines of the rejection out of the event files, and those of their groups if told so."""
    names = []
    for path in repository.segments():
        lines = path.read_bytes().splitlines(keepends=True)
        left = [line for line in lines if not is_no(line, with_groups=with_groups)]
        if left != lines:
            path.write_bytes(b"".join(left))
            names.append(path.name)
    assert names
    return names


def log_check(repository: Repository) -> dict[str, Any]:
    return next(one for one in repository.call("doctor").data["checks"] if one["name"] == "log")


def is_barred(repository: Repository, task: str) -> None:
    """Neither may the author go on, nor can the work be approved; verify and doctor say that something is wrong."""
    claim = repository.call("task", "claim", task, "--agent", "Fenster")
    assert claim.code == 1, claim
    commit = repository.head("work")
    approve = repository.call("review", "approve", task, "--reviewer", "Lead", "--commit", commit)
    assert approve.code == 1, approve
    assert repository.call("task", "show", task).data["status"] != "done"
    assert repository.verify()
    assert log_check(repository)["ok"] is False


@pytest.fixture
def damaged(near_machine: Machine) -> tuple[Repository, str]:
    repository = near_machine.repository(config=CONFIG)
    return repository, sent_back(repository)


def clone(repository: Repository, *options: str) -> Repository:
    """A clone of which nothing was known before."""
    url = f"file://{repository.path}"
    made = Repository(repository.machine, repository.machine.folder / "clone")
    repository.machine.git(repository.machine.folder, "clone", "-q", *options, url, str(made.path))
    made.git("branch", "-q", "work", "origin/work", check=False)
    return made


@pytest.mark.parametrize("with_groups", [False, True], ids=["lines", "whole groups"])
@pytest.mark.parametrize("is_shallow", [False, True], ids=["with history", "shallow"])
def test_a_fresh_clone_of_a_base_with_lines_cut_out_releases_nothing(
    damaged: tuple[Repository, str], with_groups: bool, is_shallow: bool
) -> None:
    repository, task = damaged
    cut(repository, with_groups=with_groups)
    repository.git("commit", "-qam", "a harmless comment")

    made = clone(repository, *(["--depth", "1", "--no-single-branch"] if is_shallow else []))

    is_barred(made, task)
    said = made.people("task", "list")
    assert said.err.count("the log is incomplete") == 1
    assert "log_warning" in made.call("task", "show", task).data


def test_what_the_history_of_the_base_has_is_read_in_and_the_commit_is_named(
    damaged: tuple[Repository, str],
) -> None:
    repository, _task = damaged
    (name,) = cut(repository, with_groups=True)
    repository.git("commit", "-qam", "a harmless comment")
    culprit = repository.head()

    made = clone(repository)

    assert [row["agent"] for row in made.call("lockout", "list").data] == ["Fenster"]
    problems = made.verify()
    assert {problem["file"] for problem in problems} == {f".got/events/{name}"}
    assert all(culprit in problem["problem"] and problem["line"] for problem in problems)
    assert made.digest()[0] == repository.digest()[0]


def test_the_machine_that_has_seen_the_lines_keeps_them_and_publishes_them_again(
    damaged: tuple[Repository, str],
) -> None:
    repository, task = damaged
    before = repository.digest()
    cut(repository, with_groups=True)
    repository.git("commit", "-qam", "a harmless comment")

    assert repository.refused("task", "claim", task, "--agent", "Fenster") == "locked_out"
    assert repository.digest() == before
    assert repository.verify()
    repository.ok("log", "publish")
    assert repository.verify() == []
    assert clone(repository).digest() == before


@pytest.mark.parametrize("what", ["deleted", "changed here", "squashed", "rewritten"])
def test_however_published_lines_vanish_it_is_named(damaged: tuple[Repository, str], what: str) -> None:
    repository, _ = damaged
    if what == "deleted":
        repository.git("rm", "-q", *(f".got/events/{path.name}" for path in repository.segments()))
        repository.git("commit", "-qm", "tidy up")
    elif what == "changed here":
        cut(repository, with_groups=True)
    elif what == "squashed":
        repository.git("switch", "-qc", "evil")
        cut(repository, with_groups=True)
        repository.git("commit", "-qam", "evil")
        repository.git("switch", "-q", "main")
        repository.git("merge", "-q", "--squash", "evil")
        repository.git("commit", "-qm", "squashed")
    else:
        repository.ok("task", "list")
        cut(repository, with_groups=True)
        repository.git("commit", "-qa", "--amend", "-m", "as if nothing had been")

    problems = repository.verify()

    assert problems
    assert all(problem["file"].startswith(".got/events/") and problem["line"] for problem in problems)
    assert "the log is incomplete" in repository.people("task", "list").err


def test_a_file_that_only_the_branch_lacks_is_no_finding(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    repository.git("branch", "old")
    sent_back(repository)

    repository.git("switch", "-q", "old")
    assert repository.verify() == []
    made = clone(repository, "-b", "old")
    assert made.verify() == []


def test_publishing_only_ever_adds_files(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    task = sent_back(repository)
    repository.git("switch", "-q", "work")
    for _ in range(2):
        repository.ok("log", "publish", "--task", task)
        repository.ok("task", "edit", task, "--title", "Mend it")
        repository.ok("log", "publish")
    repository.git("switch", "-q", "main")
    repository.git("merge", "-q", "--no-edit", "work")
    repository.ok("log", "publish")

    assert (
        repository.git("log", "-m", "--diff-filter=MD", "--name-only", "--format=", "--", ".got").split()
        == []
    )


def test_two_tasks_of_one_session_that_are_published_apart_leave_no_gap(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    tasks = [repository.add(f"Task {n}", "--branch", f"task-{n}") for n in (1, 2)]
    for n, task in enumerate(tasks, 1):
        repository.git("branch", f"task-{n}")
        repository.ok("task", "claim", task, "--agent", "Fenster")
        repository.ok("log", "publish", "--task", task)
        repository.add(f"In between {n}")
    alone = clone(repository, "-b", "task-2")
    assert [row["task_id"] for row in alone.ok("task", "list")] == [tasks[1]]
    assert alone.verify() == []
    shutil.rmtree(alone.path)

    for n in (2, 1):
        repository.git("merge", "-q", "--no-edit", f"task-{n}")
    both = clone(repository)
    assert sorted(row["task_id"] for row in both.ok("task", "list")) == sorted(tasks)
    assert both.verify() == []


# The user's answer.


def test_the_user_gives_up_what_is_lost(damaged: tuple[Repository, str]) -> None:
    repository, task = damaged
    cut(repository, with_groups=True)
    repository.git("commit", "-qam", "a harmless comment")
    made = clone(repository, "--depth", "1", "--no-single-branch")
    assert (
        made.refused("review", "approve", task, "--reviewer", "Lead", "--commit", made.head("work"))
        == "lines_missing"
    )

    said = made.call("log", "repair").data
    assert (said["repaired"], [one["kind"] for one in said["found"]]) == (False, ["missing"])
    assert (said["found"][0]["first"], said["found"][0]["last"]) == (5, 8)
    assert made.verify()
    assert made.refused("log", "repair", "--yes", "--as", "Lead") == "user_only"
    done = made.call("log", "repair", "--yes", "--reason", "that disk is broken").data
    assert done["repaired"] is True

    assert made.verify() == []
    told = made.people("log", "verify").out
    assert "given up by user" in told
    assert "that disk is broken" in told
    assert made.people("task", "list").err == ""
    made.ok("review", "approve", task, "--reviewer", "Lead", "--commit", made.head("work"))
    assert made.ok("log", "repair")["found"] == []


def test_an_agent_cannot_repair_the_log(machine: Machine) -> None:
    repository = machine.repository(config=CONFIG)
    repository.add()
    assert repository.refused("log", "repair", "--yes", env={"REMAND_TASK": "T-1"}) == "user_only"


# What befalls the folder.


def test_everyday_commands_say_that_the_ledger_is_gone(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    task = repository.add()
    shutil.rmtree(repository.path / ".got")

    said = repository.people("task", "claim", task, "--agent", "Fenster")
    assert "the log is incomplete" in said.err
    found = repository.call("log", "repair").data["found"]
    assert "git checkout" in found[0]["proposal"]
    for _ in range(2):
        assert "the log is incomplete" in repository.people("task", "list").err
    repository.call("log", "repair", "--yes")
    assert repository.people("task", "list").err == ""
    assert repository.verify() == []


COMMANDS = (("task", "add", "x"), ("task", "ready"), ("doctor",))


@pytest.mark.skipif(not shutil.which("bwrap"), reason="a folder is made read-only with bubblewrap")
def test_a_ledger_that_cannot_be_written_is_said_with_what_to_do(repository: Repository) -> None:
    repository.add()
    got = str(repository.path / ".got")
    for command in COMMANDS:
        read_only = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", got, got)
        process = repository.machine.start(repository.path, *read_only, REMAND, *command)
        out, err = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in out + err
        assert got in out + err
        assert "chmod -R u+w" in out + err
        assert process.returncode == (1 if command == ("doctor",) else 3), out + err


@pytest.mark.parametrize("name", [".got", ".got/events", ".got/ledger.lock"])
def test_something_else_in_the_place_of_the_ledger_is_said(near_machine: Machine, name: str) -> None:
    repository = near_machine.repository(config=CONFIG)
    repository.add()
    path = repository.path / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("")
    else:
        path.unlink()
        path.mkdir()

    for command in COMMANDS:
        said = repository.people(*command)
        assert "Traceback" not in said.out + said.err
        assert str(path) in said.out + said.err
        assert said.code == (1 if command == ("doctor",) else 3), said


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"no id\n" * 100, b"../../etc"])
def test_a_damaged_id_of_the_ledger_is_written_again(near_machine: Machine, content: bytes) -> None:
    repository = near_machine.repository(config=CONFIG)
    repository.add()
    path = repository.path / ".got" / "ledger.id"
    before = path.read_text()
    path.write_bytes(content)

    assert len(repository.ok("task", "list")) == 1
    assert len(repository.ok("task", "ready")) == 1
    assert path.read_text() == before


def test_an_id_of_the_ledger_that_is_a_folder_is_said(near_machine: Machine) -> None:
    repository = near_machine.repository(config=CONFIG)
    repository.add()
    path = repository.path / ".got" / "ledger.id"
    path.unlink()
    path.mkdir()

    said = repository.call("task", "ready")
    assert (said.code, str(path) in said.data["message"]) == (3, True)


def _rows(path: Path) -> Any:
    import apsw

    return apsw.Connection(str(path))


@pytest.mark.parametrize("is_published", [True, False])
def test_a_row_deleted_in_the_ledger_is_named_and_brought_back(
    near_machine: Machine, is_published: bool
) -> None:
    repository = near_machine.repository(config=CONFIG)
    repository.add("One")
    repository.add("Two")
    if is_published:
        repository.ok("log", "publish")
    before = repository.digest()
    connection = _rows(repository.ledger)
    connection.execute("DELETE FROM event WHERE n = (SELECT max(n) FROM event)").fetchall()
    connection.close()

    problems = repository.verify()
    assert any(
        "no longer in the ledger" in one["problem"] or "is missing" in one["problem"] for one in problems
    )
    repository.call("log", "rebuild")
    assert repository.verify() == []
    assert repository.digest() == before


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b"Two", b"Too"),
        lambda data: data[:-20] + b"x" * 19 + b"\n",
        lambda data: b"\0" * 40 + data[40:],
        lambda data: b"".join(reversed(data.splitlines(keepends=True))),
    ],
    ids=["a word", "the end", "the beginning", "the order"],
)
def test_damage_of_the_same_size_in_the_open_file_is_seen_by_the_next_command(
    near_machine: Machine, damage: Damage
) -> None:
    repository = near_machine.repository(config=CONFIG)
    repository.add("One")
    repository.add("Two")
    (segment,) = repository.segments()
    data = segment.read_bytes()
    assert len(damage(data)) == len(data)
    assert damage(data) != data
    with segment.open("r+b") as file:
        file.write(damage(data))

    repository.call("task", "add", "Three")

    assert {row["title"] for row in repository.call("task", "list").data} == {"One", "Two", "Three"}
    lines = repository.lines()
    assert all(line in lines for line in data.splitlines())
