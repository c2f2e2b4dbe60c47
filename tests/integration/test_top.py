"""Holds the live view on a real terminal: drawn, answered by one key, and given back as it was, whatever happens."""

import io
import json
import os
import re
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.scheduler_files import MAX_SIZE, StatusFile, is_alive
from remand.app.board import BoardContext, read_board
from remand.app.errors import EnvironmentFault
from remand.app.history.activity import ActivityEntry, ActivityFollower
from remand.app.ledger_watch import LedgerWatch
from remand.app.requests import Rules
from remand.app.scheduler.ports import BreachStatus, SchedulerStatus, encode_status
from remand.domain.task import Status
from remand.interfaces.cli.context import CallOrigin, Context
from remand.interfaces.cli.registry import CommandCall
from remand.interfaces.cli.run import follow_events
from remand.interfaces.cli.terminal.screen import render_screen
from remand.interfaces.cli.terminal.state import initial_state
from remand.testing.builders import LATER, NOW, a_claim, a_submission, a_task, task_id
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository
from tests.integration.processes import is_gone
from tests.integration.terminals import Terminal
from tests.support.builders import an_escalation
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

TEAM = '[gates]\n[team]\nmembers = [{name = "Alice", role = "agent"}, {name = "Bob", role = "agent"}]\n'
LEFT = ("\x1b[?1049l", "\x1b[?25h", "\x1b[?2004l")
"""What gives the terminal back: its own screen, its cursor, and pastes as keys."""
Open = Callable[..., Terminal]


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    """A near machine: the view has a process of its own all the same."""
    return near_machine


@pytest.fixture
def team(machine: Machine) -> Repository:
    return machine.repository(config=TEAM)


@pytest.fixture
def terminal(machine: Machine, team: Repository) -> Iterator[Open]:
    opened: list[Terminal] = []

    def open_one(*command: str, **options: object) -> Terminal:
        opened.append(Terminal(machine, team.path, command or (REMAND, "top"), **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def escalated(repository: Repository, title: str = "Mend the roof", *options: str) -> str:
    """A task that asks the user."""
    task = repository.add(title, *options)
    repository.ok("escalate", task, "--reason", "Which colour?")
    return task


def status(repository: Repository, task: str) -> str:
    return str(repository.ok("task", "show", task)["status"])


def is_given_back(terminal: Terminal) -> bool:
    """True when the terminal is as it was, and shows what it showed."""
    tail = terminal.sent[terminal.sent.rindex("\x1b[H") :]
    return terminal.modes() == terminal.before and all(code in tail for code in LEFT)


# Answers.


def test_one_key_answers_the_question_in_the_ledger(team: Repository, terminal: Open) -> None:
    task = escalated(team, "Mend the roof", "--alias", "#42")
    view = terminal()
    rows = view.wait_for("Mend the roof")
    number = next(row.split()[0] for row in rows if row.endswith("Reassign it to Bob"))

    view.press(number)
    view.wait_for("Bob takes over issue #42")

    assert status(team, task) == "incoming"
    assert team.ok("task", "show", task)["escalations"][-1]["option"] == "reassign:Bob"
    assert team.ok("inbox") == []
    view.wait_for("the user answered: reassign:Bob")
    view.press("q")
    assert view.code() == 0
    assert is_given_back(view)


def test_one_key_decides_on_a_rejection_that_waits_for_a_person(machine: Machine, tmp_path: Path) -> None:
    team = machine.repository("human", config=f'{TEAM}[policy]\ndirector = "human"\n')
    task = team.add(TITLE, "--scope", SCOPE)
    handoff = team.ok("task", "claim", task, "--agent", "Alice")["handoff_id"]
    (record := tmp_path / "rejection.json").write_text(json.dumps(a_rejection()))
    team.ok("handoff", "reject", handoff, "--agent", "Alice", "--from", str(record))
    view = Terminal(machine, team.path, (REMAND, "top"))
    try:
        rows = view.wait_for("Override, and reassign to Bob")
        number = next(row.split()[0] for row in rows if row.endswith("Override, and reassign to Bob"))

        view.press(number)
        view.wait_for("Bob takes over task")

        assert status(team, task) == "incoming"
        assert team.ok("inbox") == []
    finally:
        view.close()


def test_closing_a_task_takes_a_second_key(team: Repository, terminal: Open) -> None:
    task = escalated(team)
    view = terminal()
    rows = view.wait_for("Mend the roof")
    number = next(row.split()[0] for row in rows if row.endswith("won't-fix"))

    view.press(number)
    view.wait_for("Close it as won't-fix?")
    view.press("n")
    view.wait_for("Nothing changed.")
    assert status(team, task) == "escalated"
    view.press(f"{number}y")
    view.wait_for("is cancelled")
    assert status(team, task) == "cancelled"


def test_guidance_is_typed_and_reaches_whoever_goes_on(team: Repository, terminal: Open) -> None:
    task = escalated(team)
    view = terminal()
    rows = view.wait_for("Mend the roof")
    number = next(row.split()[0] for row in rows if row.endswith("Reassign it to Bob"))

    view.press("gUse blux\x7fe.\r")
    view.wait_for("With guidance: Use blue.")
    view.press(number)
    view.wait_for("Bob takes over task")

    assert team.ok("task", "show", task)["escalations"][-1]["guidance"] == "Use blue."


def test_what_somebody_else_does_is_seen_at_once_and_its_key_not_taken_for_another(
    team: Repository, terminal: Open
) -> None:
    first = escalated(team, "First")
    second = escalated(team, "Second")
    view = terminal()
    view.wait_for("▸ ")

    team.ok("task", "cancel", first)
    view.wait_for("Second")
    view.wait_for("That question was already settled.")

    assert status(team, second) == "escalated"


def test_answers_go_through_a_coordinator_where_one_runs(team: Repository, terminal: Open) -> None:
    task = escalated(team)
    with team.coordinator():
        view = terminal()
        rows = view.wait_for("Mend the roof")
        view.press(next(row.split()[0] for row in rows if row.endswith("Reassign it to Alice")))
        view.wait_for("Alice takes over task")

        assert status(team, task) == "incoming"


def test_in_an_agents_place_nothing_is_answered_and_the_view_says_so(
    team: Repository, terminal: Open
) -> None:
    task = escalated(team)
    view = terminal(env={"REMAND_TASK": task, "REMAND_ACTOR": "Alice"})
    view.wait_for("only the user may answer")

    view.press("1")
    view.press("?")
    view.wait_for("select another question")
    assert status(team, task) == "escalated"


def test_nothing_hostile_reaches_the_terminal(team: Repository, terminal: Open) -> None:
    escalated(team, "Mend \x1b]0;owned\x07\x1b[2Jthe\u202e roof\x9b31m")
    view = terminal()
    view.wait_for("the roof")
    view.press("q")
    view.code()

    left = re.sub(r"\x1b\[[0-9;?]*[mHlhJ]", "", view.sent)
    assert not [char for char in left if not char.isprintable() and char not in "\r\n"]


# The terminal.


def test_the_view_follows_the_size_of_the_terminal(team: Repository, terminal: Open) -> None:
    escalated(team)
    view = terminal(env={"COLUMNS": "80", "LINES": "24"})
    view.wait_for("Mend the roof")

    view.resize(200, 40)
    view.wait_for("│")
    assert len(view.rows()) == 40


def test_colours_are_sent_unless_they_are_not_wanted(team: Repository, terminal: Open) -> None:
    escalated(team)
    colourful, plain = terminal(), terminal(env={"NO_COLOR": "1"})
    colourful.wait_for("Mend the roof")
    plain.wait_for("Mend the roof")

    colour = re.compile(r"\x1b\[(?:[0-9]+;)*3[0-9]m")
    assert colour.search(colourful.sent)
    assert not colour.search(plain.sent)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name
)
def test_the_terminal_is_given_back_when_the_view_is_ended(
    team: Repository, terminal: Open, number: signal.Signals
) -> None:
    view = terminal()
    view.wait_for("There are no tasks yet")
    assert view.modes() != view.before

    view.process.send_signal(number)

    assert view.code() == 0
    assert is_given_back(view)


def test_the_terminal_is_given_back_when_the_view_breaks(team: Repository, terminal: Open) -> None:
    script = (
        "import sys; from remand.interfaces.cli.terminal import view as showing; "
        "real = showing.render_screen; calls = []\n"
        "def broken(*given):\n"
        "    calls.append(1)\n"
        "    if len(calls) > 1: raise AssertionError('broken')\n"
        "    return real(*given)\n"
        "showing.render_screen = broken\n"
        "from remand.interfaces.cli.entry import run; sys.exit(run(['top']))"
    )
    view = terminal(sys.executable, "-c", script)

    assert view.code() == 1
    assert "AssertionError: broken" in view.sent
    assert view.modes() == view.before
    assert all(code in view.sent for code in LEFT)


def test_the_view_ends_with_its_terminal(team: Repository, terminal: Open) -> None:
    view = terminal()
    view.wait_for("There are no tasks yet")

    view.hang_up()

    view.process.wait(PATIENCE)
    assert is_gone(view.process.pid)


def test_a_view_that_was_suspended_gives_the_terminal_back_and_takes_it_again(
    team: Repository, terminal: Open
) -> None:
    escalated(team)
    view = terminal("bash", "--norc", "-c", f"set -m; {REMAND} top; echo SUSPENDED; fg; echo ENDED")
    view.wait_for("Mend the roof")
    in_view = view.modes()

    view.press("\x1a")
    view.wait_for_text("SUSPENDED")
    assert all(code in view.sent.partition("SUSPENDED")[0] for code in LEFT)
    view.press("?")
    view.wait_for("select another question")
    assert view.modes() == in_view
    view.press("xq")
    view.wait_for_text("ENDED")
    assert view.code() == 0


def test_a_ledger_that_was_made_anew_is_looked_at_again(team: Repository, terminal: Open) -> None:
    escalated(team, "Before")
    view = terminal()
    view.wait_for("Before")

    team.forget_ledger()
    team.add("After")
    view.press("r")

    view.wait_for("was added: After")


# Where nobody looks.


def test_without_a_terminal_the_board_is_said_once(team: Repository, machine: Machine) -> None:
    task = escalated(team)
    said = machine.remand(team.path, "top")

    assert said.code == 0
    assert "Inbox" in said.out
    assert "Answer: remand inbox answer E-" in said.out
    assert task in said.out
    assert "\x1b" not in said.out


def test_a_terminal_that_cannot_be_drawn_on_gets_plain_text(team: Repository, terminal: Open) -> None:
    escalated(team)
    view = terminal(env={"TERM": "dumb"})

    assert view.code() == 0
    assert "\x1b" not in view.sent
    assert "Mend the roof" in view.sent


def test_programs_get_the_read_model(team: Repository, machine: Machine) -> None:
    task = escalated(team, "Mend the \x1b[31mroof")
    found = machine.remand(team.path, "top", "--json").data

    assert found["counts"] == {"escalated": 1}
    assert [one["kind"] for one in found["troubles"]] == ["questions"]
    (question,) = found["questions"]
    assert (question["task_id"], question["title"]) == (task, "Mend the \x1b[31mroof")
    assert [option["key"] for option in question["options"]] == [
        "fix",
        "reassign:Alice",
        "reassign:Bob",
        "reopen",
        "wontfix",
    ]


@pytest.mark.parametrize("is_json", [False, True], ids=["lines", "json"])
def test_what_happens_is_followed_line_by_line(team: Repository, machine: Machine, is_json: bool) -> None:
    team.add("Before", "--alias", "#1")
    process = machine.start(team.path, REMAND, "top", "--follow", *["--json"] * is_json)
    assert process.stdout is not None
    first = process.stdout.readline()
    team.add("After", "--alias", "#2")
    second = process.stdout.readline()
    process.send_signal(signal.SIGINT)

    assert process.wait(PATIENCE) == 0
    if is_json:
        first, second = (f"{one['label']}  {one['text']}" for one in map(json.loads, (first, second)))
    assert "issue #1" in first
    assert first.rstrip().endswith("was added: Before")
    assert "issue #2" in second
    assert second.rstrip().endswith("was added: After")


def test_everything_between_ready_and_stop_is_followed(team: Repository) -> None:
    team.add("Before")
    out = io.StringIO()
    context = Context(CommandCall("top", []), Namespace(), CallOrigin(str(team.path), {}, out, out))

    follow_events(context, lambda: True, lambda: team.add("Between") and None)

    (line,) = out.getvalue().splitlines()
    assert line.endswith("was added: Between")


def test_following_goes_on_with_a_ledger_that_was_made_anew(team: Repository) -> None:
    team.add("Before")
    out = io.StringIO()
    context = Context(CommandCall("top", []), Namespace(), CallOrigin(str(team.path), {}, out, out))
    steps = [team.forget_ledger, lambda: team.add("Meanwhile"), lambda: team.add("After")]

    def stop() -> bool:
        if steps:
            steps.pop(0)()
        return "After" in out.getvalue()

    follow_events(context, stop)

    assert out.getvalue().splitlines()[-1].endswith("was added: After")


def test_following_outlives_a_ledger_that_cannot_be_read_and_says_so_once(
    team: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    context = Context(CommandCall("top", []), Namespace(), CallOrigin(str(team.path), {}, out, out))
    real, calls = LedgerWatch.news, iter(range(100))

    def news(watch: LedgerWatch) -> tuple[ActivityEntry, ...]:
        if next(calls) in (1, 2):
            raise EnvironmentFault("The disk is full.")
        return real(watch)

    monkeypatch.setattr(LedgerWatch, "news", news)
    monkeypatch.setattr(LedgerWatch, "has_changed", lambda watch: True)
    follow_events(context, lambda: "After" in out.getvalue(), lambda: team.add("After") and None)

    assert out.getvalue().partition("\n")[0].endswith("The disk is full.")
    assert out.getvalue().count("The disk is full.") == 1
    assert out.getvalue().splitlines()[-1].endswith("was added: After")


# What the scheduler says of itself.


def test_what_the_scheduler_says_stands_on_the_board(team: Repository, machine: Machine) -> None:
    team.add()
    file = StatusFile(
        str(machine.state / "remand" / (team.path / ".got" / "ledger.id").read_text() / "scheduler.json")
    )
    breach = BreachStatus(cause="disk", message="The disk is full.", since=NOW)
    said = SchedulerStatus(
        pid=os.getpid(), started_at=NOW, tick_at="9999-01-01T00:00:00.000000Z", breaker=(breach,)
    )
    file.write(encode_status(said))

    assert team.ok("top")["troubles"][0]["text"] == "Nothing is started (disk): The disk is full."
    file.write(b'{"pid": 1')
    assert team.ok("top")["scheduler"] is None
    file.clear()
    assert team.ok("top")["troubles"] == []


def test_a_status_is_replaced_whole_and_what_is_no_file_of_ours_is_not_read(tmp_path: Path) -> None:
    file = StatusFile(str(tmp_path / "made" / "status.json"))

    assert file.read() is None
    assert file.mark() == (0, 0)
    assert file.write(b"one")
    before = file.mark()
    assert file.write(b"two")
    assert (file.read(), file.mark() != before) == (b"two", True)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["status.json"]
    assert os.stat(file.path).st_mode & 0o777 == 0o600
    file.clear()
    assert file.read() is None
    os.symlink("/etc/hostname", file.path)
    assert file.read() is None
    os.unlink(file.path)
    os.mkfifo(file.path)
    assert file.read() is None
    os.unlink(file.path)
    assert file.write(b"x" * (MAX_SIZE + 1))
    assert file.read() is None


def test_a_status_that_cannot_be_written_keeps_nobody_from_working(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert not StatusFile(str(tmp_path / "file" / "status.json")).write(b"one")


def test_a_process_is_there_until_it_is_gone(machine: Machine) -> None:
    process = machine.start(machine.folder, "true")
    process.wait(PATIENCE)

    assert is_alive(os.getpid())
    assert not is_alive(process.pid)


# Looking on.


def test_looking_changes_nothing(tmp_path: Path) -> None:
    store, follower = SqliteStore(tmp_path / "ledger.db"), ActivityFollower(recent=5)
    store.adopt(store.file_identity(), "20261115-090000-00000000", lambda _: None)
    before = store.changes()
    for _ in range(2):
        with store.read() as view:
            read_board(view, BoardContext(now=NOW))
            follower.news(view)
    after = store.changes()
    store.close()

    assert after == before


def test_a_large_board_is_read_and_drawn(
    tmp_path: Path, campaign: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    many = campaign(2_000, 10_000)
    statuses = (
        Status.INCOMING,
        Status.DONE,
        Status.CLAIMED,
        Status.PROVISIONAL,
        Status.ESCALATED,
        Status.FAILED,
    )
    store = SqliteStore(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.tasks.replace_all(
            (
                a_task(
                    task_id(number),
                    scope="x" * 500,
                    status=statuses[0 if number % 20 > 5 else number % 20],
                    claim=a_claim(until=LATER),
                    submission=a_submission(),
                    escalation=an_escalation(id=f"E-{number:012x}"),
                )
                for number in range(many)
            ),
            (),
        )
    began = time.perf_counter()
    with store.read() as view:
        found = read_board(view, BoardContext(now=NOW, rules=Rules()))
    read = time.perf_counter()
    for _ in range(10):
        render_screen(found, initial_state(found.questions), (250, 60), NOW)
    drawn = time.perf_counter()
    store.close()

    record_property("milliseconds to read the board", round((read - began) * 1000, 1))
    record_property("milliseconds to draw it", round((drawn - read) * 100, 1))
    print(f"{many} tasks: read in {(read - began) * 1000:.1f} ms, drawn in {(drawn - read) * 100:.1f} ms")
    assert sum(found.counts.values()) == many
    assert len(found.questions) == min(200, many // 20)
