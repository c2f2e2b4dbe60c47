"""The files beside the ledger, on a real disk: in step after every command, mended after every mishap."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.system.record_files import RecordFiles
from remand.app.errors import EnvironmentFault
from remand.app.record_files import RecordKind
from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.wiring.ledger import Gateway, find_place, open_ledger
from tests.integration.machine import PATIENCE, Machine, Repository

TEAM = """
[gates]
[team]
members = [
  {name = "Fenster", role = "agent"},
  {name = "Lead", role = "lead"},
]
"""
REMINDER = "remand: 1 question waits for you: remand inbox\n"


def escalated(repository: Repository) -> str:
    """A task whose only agent was rejected; returns the question's id."""
    task = repository.add("Mend the roof", "--alias", "#42")
    repository.ok("task", "claim", task, "--agent", "Fenster")
    repository.git("checkout", "-q", "-b", "work")
    commit = repository.commit()
    repository.ok("task", "submit", task, "--agent", "Fenster", "--commit", commit, "--pr", "12")
    said = repository.call(
        "review", "reject", task, "--reviewer", "Lead", "--commit", commit, "--finding", "no"
    )
    return str(said.data["escalation_id"])


def files(repository: Repository) -> dict[str, str]:
    """Every file made from the ledger, by its path."""
    folders = ("orchestration-log", "messages", "tasks")
    found = (path for folder in folders for path in (repository.path / ".got" / folder).glob("*"))
    return {str(path.relative_to(repository.path)): path.read_text() for path in found}


@pytest.fixture
def repository(near_machine: Machine) -> Repository:
    return near_machine.repository(config=TEAM)


def test_a_rejection_leaves_its_lines_its_message_and_its_page_and_git_tracks_none(
    repository: Repository,
) -> None:
    name = escalated(repository)

    made = files(repository)
    assert f".got/messages/{name}.md" in made
    (log,) = (text for path, text in made.items() if path.endswith(".log"))
    assert "REVIEW: Lead rejected PR #12 (author: Fenster)" in log
    assert "LOCKOUT: Fenster locked out for issue #42" in log
    repository.git("add", "-A")
    tracked = repository.git("ls-files", ".got").split()
    assert [path for path in tracked if not path.startswith((".got/events/", ".got/.git"))] == []


def test_a_file_that_was_deleted_comes_back_with_the_next_command_that_only_looks(
    repository: Repository,
) -> None:
    escalated(repository)
    made = files(repository)
    for path in made:
        (repository.path / path).unlink()
        repository.ok("task", "ready")
        assert files(repository) == made


def test_the_files_follow_when_the_question_is_answered(repository: Repository) -> None:
    name = escalated(repository)
    repository.ok("inbox", "answer", name, "wontfix")

    made = files(repository)
    assert f".got/messages/{name}.md" not in made
    assert any("answered: wontfix" in text for path, text in made.items() if path.endswith(".log"))


def test_log_rebuild_mends_what_was_edited_by_hand(repository: Repository) -> None:
    escalated(repository)
    made = files(repository)
    for path in made:
        (repository.path / path).write_text("forged\n")
    repository.ok("log", "rebuild")

    assert files(repository) == made


def test_a_log_that_was_edited_is_put_right_with_its_next_line(repository: Repository) -> None:
    name = escalated(repository)
    (path,) = (repository.path / ".got" / "orchestration-log").glob("*.log")
    before = path.read_text()
    path.write_text(before.replace("LOCKOUT", "UNLOCK"))
    repository.ok("inbox", "answer", name, "fix")

    assert path.read_text().startswith(before)


def test_a_folder_that_cannot_be_written_fails_no_command_and_is_said(repository: Repository) -> None:
    messages = repository.path / ".got" / "messages"
    messages.parent.mkdir(exist_ok=True)
    messages.write_text("in the way")
    name = escalated(repository)

    said = repository.people("task", "ready")
    assert said.code == 0
    assert said.err.count("the files beside the ledger are not up to date") == 1
    messages.unlink()
    assert repository.people("task", "ready").err == REMINDER
    assert f".got/messages/{name}.md" in files(repository)


def test_a_folder_that_leads_elsewhere_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    (repository.path / ".got").mkdir(exist_ok=True)
    (repository.path / ".got" / "messages").symlink_to(tmp_path)
    escalated(repository)

    assert "is a link to another place" in repository.people("task", "ready").err
    assert list(tmp_path.iterdir()) == []


def test_the_folders_may_be_named_and_git_tracks_them_nowhere(repository: Repository) -> None:
    repository.configure(f'{TEAM}[records]\norchestration_log = ".ai-team/orchestration-log"\n')
    escalated(repository)

    (log,) = (repository.path / ".ai-team" / "orchestration-log").glob("*.log")
    assert "LOCKOUT: Fenster" in log.read_text()
    assert ".ai-team" not in repository.git("status", "--short", "--untracked-files=all")


def test_a_command_killed_before_it_wrote_the_files_is_made_good_by_the_next(machine: Machine) -> None:
    repository = machine.repository(config=TEAM)
    task = repository.add()
    killed = (
        "import os, signal, sys\n"
        "from remand.app.record_files import RecordFileUpdater\n"
        "RecordFileUpdater.update = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from remand.interfaces.cli.entry import run\n"
        "run(sys.argv[1:])\n"
    )
    process = machine.start(
        repository.path, sys.executable, "-c", killed, "escalate", task, "--reason", "which colour?"
    )
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    assert files(repository) == {}

    repository.ok("task", "ready")
    assert any(path.startswith(".got/messages/E-") for path in files(repository))


def test_what_is_asked_through_the_library_is_on_file_too(repository: Repository) -> None:
    gateway = Gateway(find_place(str(repository.path)))
    task = repository.add()
    gateway.ask(Request(command=c.EscalateTask(task_id=task, reason="which colour?"), actor=USER))

    assert f".got/tasks/{task}.md" in files(repository)


def test_while_the_files_are_made_others_write_and_what_they_note_is_made_too(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = repository.add("First"), repository.add("Second")
    one, other = (open_ledger(str(repository.path)) for _ in range(2))
    put = RecordFiles.put
    answers: list[object] = []

    def put_after_another_command(*arguments: Any) -> str:
        if not answers:
            answers.append(None)
            command = c.EscalateTask(task_id=second, reason="which size?")
            answers.append(other.ledger.ask(Request(command=command, actor=USER)))
        return put(*arguments)

    monkeypatch.setattr(RecordFiles, "put", put_after_another_command)
    one.ledger.ask(Request(command=c.EscalateTask(task_id=first, reason="which colour?"), actor=USER))

    assert isinstance(answers[1], Acceptance)
    assert {f".got/tasks/{first}.md", f".got/tasks/{second}.md"} <= set(files(repository))
    for opened in (one, other):
        opened.store.close()
        opened.ledger.close()


def test_what_a_coordinator_is_asked_is_on_file_too(machine: Machine) -> None:
    repository = machine.repository(config=TEAM)
    task = repository.add()
    with repository.coordinator():
        said = repository.people("escalate", task, "--reason", "which colour?")
        assert (said.code, said.err) == (0, REMINDER)
        assert f".got/tasks/{task}.md" in files(repository)
        (repository.path / ".got" / "tasks" / f"{task}.md").unlink()
        assert repository.people("task", "list").err == REMINDER
        assert f".got/tasks/{task}.md" in files(repository)


def test_a_merge_that_brings_older_events_remakes_the_log_of_that_day(near_machine: Machine) -> None:
    here = near_machine.repository(config=TEAM)
    there = near_machine.clone(here, "there")
    first = there.add("Theirs")
    there.ok("escalate", first, "--reason", "theirs came first")
    second = here.add("Ours")
    here.ok("escalate", second, "--reason", "ours came second")
    for segment in there.segments():
        (here.events / segment.name).write_bytes(segment.read_bytes())
    here.ok("task", "ready")

    logs = sorted((here.path / ".got" / "orchestration-log").glob("*.log"))
    lines = "".join(log.read_text() for log in logs).splitlines()
    assert ["theirs" in line for line in lines] == [True, False]
    assert len(list((here.path / ".got" / "messages").glob("E-*.md"))) == 2


def test_a_log_grows_in_place_and_nothing_but_our_own_files_is_touched(tmp_path: Path) -> None:
    made = RecordFiles(
        str(tmp_path), {RecordKind.LOG: ".got/log", RecordKind.MESSAGE: ".got/m", RecordKind.TASK: ".got/t"}
    )
    made.put(RecordKind.LOG, "2026-11-15", "one\n")
    log = tmp_path / ".got" / "log" / "2026-11-15.log"
    inode = log.stat().st_ino
    made.put(RecordKind.LOG, "2026-11-15", "one\ntwo\n")
    assert (log.read_text(), log.stat().st_ino) == ("one\ntwo\n", inode)

    (log.parent / "notes.txt").write_text("mine")
    assert made.names(RecordKind.LOG) == {"2026-11-15"}
    log.unlink()
    os.mkfifo(log)
    made.put(RecordKind.LOG, "2026-11-15", "three\n")
    assert log.read_text() == "three\n"


def test_a_log_of_which_a_full_disk_took_a_part_has_no_mark_to_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = RecordFiles(str(tmp_path), {RecordKind.LOG: ".got/log"})
    mark = made.put(RecordKind.LOG, "2026-11-15", "one\n")
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda handle, data: write(handle, data[:2]))
        assert made.put(RecordKind.LOG, "2026-11-15", "two\n", mark) == ""

    assert made.put(RecordKind.LOG, "2026-11-15", "one\ntwo\n")
    assert (tmp_path / ".got" / "log" / "2026-11-15.log").read_text() == "one\ntwo\n"


def test_any_file_that_comes_or_goes_shows_at_once(tmp_path: Path) -> None:
    made = RecordFiles(str(tmp_path), {RecordKind.MESSAGE: ".got/m"})
    made.put(RecordKind.MESSAGE, "E-1", "text")
    sealed = made.stamp(seals=True)
    assert made.stamp() == sealed
    (tmp_path / ".got" / "m" / "E-1.md").unlink()
    assert made.stamp() != sealed


def test_an_edited_file_shows_to_whoever_looks_for_edits(tmp_path: Path) -> None:
    made = RecordFiles(str(tmp_path), {RecordKind.MESSAGE: ".got/m", RecordKind.TASK: ".got/none"})
    made.put(RecordKind.MESSAGE, "E-1", "text")
    file = tmp_path / ".got" / "m" / "E-1.md"
    sealed = made.stamp(seals=True)
    while file.stat().st_ctime_ns >= file.parent.stat().st_ctime_ns:  # written in the tick of the seal
        sealed = made.stamp(seals=True)
    assert made.stamp(sees_edits=True) == sealed
    file.write_text("else")
    assert made.stamp() == sealed
    assert made.stamp(sees_edits=True) == ""


def test_a_link_in_place_of_a_file_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    made = RecordFiles(str(tmp_path), {RecordKind.MESSAGE: "m"})
    made.put(RecordKind.MESSAGE, "E-1", "text")
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "m" / "E-1.md").unlink()
    (tmp_path / "m" / "E-1.md").symlink_to(target)
    made.put(RecordKind.MESSAGE, "E-1", "new")

    assert target.read_text() == "kept"
    assert (tmp_path / "m" / "E-1.md").read_text() == "new"


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "m").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentFault, match="link"):
        RecordFiles(str(tmp_path), {RecordKind.MESSAGE: "m"}).put(RecordKind.MESSAGE, "E-1", "text")


@pytest.mark.parametrize("plant", ["pipe", "hard link", "link"])
def test_what_somebody_planted_under_a_drafts_name_is_taken_away_unopened(tmp_path: Path, plant: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    root = tmp_path / "root"
    files = RecordFiles(str(root), {RecordKind.TASK: ".got/tasks"})
    (root / ".got" / "tasks").mkdir(parents=True)
    draft = root / ".got" / "tasks" / "T-1.md.draft"
    if plant == "pipe":
        os.mkfifo(draft)
    elif plant == "hard link":
        os.link(victim, draft)
    else:
        draft.symlink_to(victim)
    files.put(RecordKind.TASK, "T-1", "ours")

    assert (root / ".got" / "tasks" / "T-1.md").read_text() == "ours"
    assert victim.read_text() == "theirs"


def test_a_log_that_is_anothers_file_too_is_replaced_and_not_added_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("one\n")
    root = tmp_path / "root"
    files = RecordFiles(str(root), {RecordKind.LOG: ".got/log"})
    (root / ".got" / "log").mkdir(parents=True)
    os.link(victim, root / ".got" / "log" / "2026-11-15.log")
    files.put(RecordKind.LOG, "2026-11-15", "one\ntwo\n")

    assert victim.read_text() == "one\n"


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    files = RecordFiles(str(tmp_path), {RecordKind.TASK: ".got/tasks"})
    (tmp_path / ".got" / "tasks" / "T-1.md").mkdir(parents=True)

    with pytest.raises(EnvironmentFault, match=r"T-1\.md is a folder"):
        files.put(RecordKind.TASK, "T-1", "ours")
