"""Keeps a journal on real files: cheap to write, hard to harm, and evident when it was changed."""

import json
import multiprocessing
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.journal import writer as writing
from remand.adapters.journal.reader import JournalFile
from remand.adapters.journal.writer import append
from remand.domain.text.redaction import redact
from tests.integration.machine import PATIENCE, Machine, Repository

TASK = "T-20261115-090000-1a2b3c4d"
RAN = "Ran pytest tests/test_login.py: 3 failed"


def note(folder: Path, command: str = "pytest -q tests/test_login.py", **changes: Any) -> bool:
    given = {"agent": "Alice", "host": "claude", "session": "s1", "tool": "Bash", "exit_status": 1}
    return append(str(folder), changes.pop("task_id", TASK), command=command, **(given | changes))


def lines(folder: Path) -> list[bytes]:
    return (folder / f"{TASK}.jsonl").read_bytes().split(b"\n")[:-1]


def test_a_run_is_read_as_it_was_written_down(tmp_path: Path) -> None:
    assert note(tmp_path / "made" / "on" / "the" / "way", tool_use_id="t1", output="3 failed", duration_ms=31)

    kept = JournalFile(str(tmp_path / "made/on/the/way")).read_task(TASK)

    assert kept.problems == ()
    (run,) = kept.uses
    assert (run.command, run.exit_status, run.excerpt) == ("pytest -q tests/test_login.py", 1, "3 failed")
    assert (run.output_sha256, run.output_size) == (sha256(b"3 failed").hexdigest(), 8)
    assert (run.agent, run.host, run.session, run.tool_use_id, run.duration_ms) == (
        "Alice",
        "claude",
        "s1",
        "t1",
        31,
    )
    assert run.ts.startswith("20")
    assert (tmp_path / "made/on/the/way").stat().st_mode & 0o077 == 0


def test_writing_one_down_loads_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys; from remand.adapters.journal.writer import append;"
        f"print(append({str(tmp_path)!r}, {TASK!r}, agent='A', command='ls -la', output='plain'),"
        "*sorted({'msgspec', 'apsw', 'json', 're', 'datetime', 'typing'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE
    )

    assert done.stdout.split() == ["True"]


def test_a_hook_that_fires_twice_is_one_run(tmp_path: Path) -> None:
    for tool_use_id in ("t1", "t1", "t2", "", ""):
        note(tmp_path, tool_use_id=tool_use_id)
    note(tmp_path, tool_use_id="t1", session="s2")

    assert len(JournalFile(str(tmp_path)).read_task(TASK).uses) == 5


def test_many_writers_at_once_lose_nothing_and_keep_the_chain(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        written = pool.starmap(_note_some, [(str(tmp_path), number) for number in range(8)])

    kept = JournalFile(str(tmp_path)).read_task(TASK)

    assert sum(written) == 8 * 25 == len(kept.uses)
    assert (kept.problems, kept.is_chained) == ((), True)


def _note_some(folder: str, number: int) -> int:
    return sum(
        note(Path(folder), f"pytest tests/test_{at}.py", tool_use_id=f"{number}-{at}", output="x" * 5000)
        for at in range(25)
    )


# What was changed is evident.


def test_every_changed_line_is_found(tmp_path: Path) -> None:
    for at in range(5):
        note(tmp_path, f"pytest tests/test_{at}.py")
    path = tmp_path / f"{TASK}.jsonl"
    whole = path.read_bytes()
    for at in range(4):
        path.write_bytes(whole.replace(b"tests/test_%d.py" % at, b"tests/test_9.py"))
        assert not JournalFile(str(tmp_path)).read_task(TASK).is_chained, f"line {at + 1} was changed"


@pytest.mark.parametrize("gone", [0, 1, 3])
def test_a_line_taken_out_is_evident_and_the_journal_bears_nothing_out_any_more(
    tmp_path: Path, gone: int
) -> None:
    for _ in range(5):
        note(tmp_path)
    assert JournalFile(str(tmp_path)).find_supporting_run(TASK, "Alice", RAN)
    kept = lines(tmp_path)
    del kept[gone]
    (tmp_path / f"{TASK}.jsonl").write_bytes(b"\n".join(kept) + b"\n")

    journal = JournalFile(str(tmp_path))

    assert not journal.read_task(TASK).is_chained
    assert f"line {gone + 1} does not follow" in journal.read_task(TASK).problems[0]
    assert journal.find_supporting_run(TASK, "Alice", RAN) is None


def test_a_torn_line_is_passed_over_and_the_next_is_not_glued_to_it(tmp_path: Path) -> None:
    note(tmp_path, "pytest a.py")
    path = tmp_path / f"{TASK}.jsonl"
    for cut in (1, 20, 300):
        whole = path.read_bytes()
        note(tmp_path, "pytest torn.py")
        path.write_bytes(path.read_bytes()[: len(whole) + cut])
        note(tmp_path, "pytest b.py")

    kept = JournalFile(str(tmp_path)).read_task(TASK)

    assert [run.command for run in kept.uses] == ["pytest a.py"] + ["pytest b.py"] * 3
    assert len(kept.problems) == 3
    assert kept.is_chained


# What was made to do harm.


@pytest.mark.parametrize(
    "task_id",
    ["", "..", "../x", "a/b", "/etc/cron.d/x", "T-1\x00", "T-1\n", "T" * 65, "ü", "T-1.jsonl", "a b"],
)
def test_no_id_leads_out_of_the_folder(tmp_path: Path, task_id: str) -> None:
    folder = tmp_path / "journal"

    assert not note(folder, task_id=task_id)
    assert JournalFile(str(folder)).read_task(task_id).uses == ()
    assert list(tmp_path.rglob("*")) == []


def test_ten_megabytes_are_hashed_and_excerpted(tmp_path: Path) -> None:
    output = "BEGIN\n" + "\x1b[31mx\x1b[0m\u202e" * (10 << 20) + "\nEND"
    note(tmp_path, "c" * 100_000, output=output, paths=("p" * 5000, "q") * 500)

    (run,) = JournalFile(str(tmp_path)).read_task(TASK).uses

    assert run.output_sha256 == sha256(output.encode()).hexdigest()
    assert run.excerpt.startswith("BEGIN\nxxx")
    assert run.excerpt.endswith("x\nEND")
    assert len(run.excerpt) < 2200
    assert len(run.command) <= 4096
    assert sha256(b"c" * 100_000).hexdigest() in run.command
    assert len(lines(tmp_path)[0]) < writing.MAX_LINE


def test_the_longest_line_there_can_be_is_still_read_as_the_one_before(tmp_path: Path) -> None:
    wide = "\U0001f600" * 100_000
    for _ in range(3):
        note(tmp_path, wide, output=wide, paths=(wide[:100],) * 40, tool=wide, transcript=wide)

    kept = JournalFile(str(tmp_path)).read_task(TASK)

    assert max(map(len, lines(tmp_path))) < writing.MAX_LINE
    assert (len(kept.uses), kept.is_chained) == (3, True)


@pytest.mark.parametrize(
    "text", ["\x1b]0;title\x07x", "a\x00b", "half \ud800", "\u2028", "\x1b[", "\x9b31m", '"\\', "\x7f"]
)
def test_no_text_breaks_the_file_or_reaches_a_terminal(tmp_path: Path, text: str) -> None:
    note(tmp_path, text, output=text, tool=text, tool_use_id=text, session=text, paths=(text,))

    (run,) = JournalFile(str(tmp_path)).read_task(TASK).uses
    shown = run.command + run.excerpt + run.tool + run.session + "".join(run.paths)

    assert not {char for char in shown if ord(char) < 32 or 0x7F <= ord(char) < 0xA0}
    assert lines(tmp_path)[0].isascii()


SECRETS = {
    "ghp_" + "a1B2" * 9: "a1B2a1B2",
    "AKIA" + "ABCDEFGHIJKLMNOP": "DEFGHIJ",
    "sk-ant-" + "x1" * 20: "x1x1x1",
    "password=hunter2hunter2": "hunter2",
    "https://user:s3cretpass@example.org/x": "s3cretpass",
    "Authorization: Bearer " + "abc123" * 6: "abc123",
    "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIE" * 800 + "\n-----END RSA PRIVATE KEY-----": "MIIE",
    "glpat-" + "A1b2" * 6: "A1b2A1b2",
    "xoxb-" + "123456789012-abc": "123456789012",
    "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK": "SflKxw",
    "npm_" + "a1" * 18: "a1a1a1",
}
"""Secrets, each with a part that must not be seen."""


@pytest.mark.parametrize("secret", SECRETS, ids=lambda text: text[:12])
@pytest.mark.parametrize("before", [0, 500, 508, 1000, 4000, 8000, 40_000])
def test_no_secret_is_written_down_wherever_it_stands(tmp_path: Path, secret: str, before: int) -> None:
    output = "x\n" * before + secret + "\ny" * before
    note(tmp_path, f"curl -H '{secret}'", output=output, paths=(secret,))

    written = (tmp_path / f"{TASK}.jsonl").read_text()

    assert SECRETS[secret] not in written


def test_what_the_hints_let_through_holds_no_secret_that_would_be_known() -> None:
    for secret in SECRETS:
        assert redact(secret) != secret
        assert any(hint in secret.lower() for hint in writing._HINTS)


def test_this_processs_own_secrets_are_not_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENDOR_API_TOKEN", "plainwordthatnobodyknows")
    note(tmp_path, "curl -d plainwordthatnobodyknows", output="got plainwordthatnobodyknows")

    written = (tmp_path / f"{TASK}.jsonl").read_text()

    assert "plainword" not in written
    assert "[redacted: VENDOR_API_TOKEN]" in written


def test_what_is_no_file_of_ours_is_neither_written_nor_read(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("untouched")
    path = tmp_path / f"{TASK}.jsonl"
    for make in (lambda: path.symlink_to(target), lambda: os.mkfifo(path), path.mkdir):
        make()
        assert not note(tmp_path)
        assert JournalFile(str(tmp_path)).read_task(TASK).problems
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert target.read_text() == "untouched"


def test_a_full_journal_says_so_and_does_not_grow(tmp_path: Path) -> None:
    note(tmp_path)
    path = tmp_path / f"{TASK}.jsonl"
    os.truncate(path, writing.MAX_FILE + 1)

    assert not note(tmp_path)
    assert "it is full" in JournalFile(str(tmp_path)).read_task(TASK).problems[0]


ODD = [
    b"",
    b"{}",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'{"ts": 5}',
    b'{"ts": "x", "paths": "y"}',
    b"{" * 9999,
    b"\x00" * 300,
]


def test_lines_of_others_are_said_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / f"{TASK}.jsonl").write_bytes(b"\n".join(ODD) + b"\n")
    note(tmp_path)

    kept = JournalFile(str(tmp_path)).read_task(TASK)

    assert [run.command for run in kept.uses] == ["pytest -q tests/test_login.py"]
    assert len(kept.problems) == len(ODD)


def test_a_run_for_another_task_or_of_another_agent_bears_nothing_out(tmp_path: Path) -> None:
    note(tmp_path)
    line = lines(tmp_path)[0].replace(TASK.encode(), b"T-other")
    (tmp_path / "T-20261115-090000-ffffffff.jsonl").write_bytes(line + b"\n")
    journal = JournalFile(str(tmp_path))

    assert journal.find_supporting_run(TASK, "Alice", RAN)
    assert journal.find_supporting_run(TASK, "Bob", RAN) is None
    assert journal.find_supporting_run("T-20261115-090000-ffffffff", "Alice", RAN) is None


def test_a_run_without_a_name_is_of_whoever_held_the_task_by_then(tmp_path: Path) -> None:
    note(tmp_path, agent="")

    assert JournalFile(str(tmp_path)).find_supporting_run(TASK, "Alice", RAN) is None
    assert JournalFile(str(tmp_path), since="2001-01-01T00:00:00.000000Z").find_supporting_run(
        TASK, "Alice", RAN
    )
    assert (
        JournalFile(str(tmp_path), since="9001-01-01T00:00:00.000000Z").find_supporting_run(
            TASK, "Alice", RAN
        )
        is None
    )


def test_an_alias_is_the_same_agent(tmp_path: Path) -> None:
    note(tmp_path, agent="al")
    journal = JournalFile(str(tmp_path), name_of={"al": "Alice"}.__getitem__)

    assert journal.find_supporting_run(TASK, "Alice", RAN)


# Through the socket.


REJECTION = {
    "reason_type": "BLOCKER",
    "reason_summary": "The payment sandbox refuses our key",
    "reason_detail": "Every call to the sandbox answers 403; the key was revoked by the vendor on Monday.",
    "what_attempted": [
        "Ran pytest tests/test_pay.py: 22 failed, all with HTTP 403",
        "Called https://sandbox.example.org/v1/ping with curl: 403 key revoked",
    ],
    "blocking_factor": "The vendor revoked the sandbox key pk_7; only the account owner can issue a new one.",
    "evidence": [{"type": "error_log", "data": "HTTP 403: key pk_7 revoked", "source": "tests/test_pay.py"}],
    "suggested_alternative": "The account owner issues a new key (10 minutes), then the tests are run again.",
}


def claimed(repository: Repository) -> tuple[str, str]:
    task = repository.add("Make the payment tests green", "--scope", "tests/test_pay.py against the sandbox")
    return task, repository.ok("task", "claim", task, "--agent", "Alice")["handoff_id"]


def journal_of(repository: Repository) -> Path:
    ledger_id = (repository.path / ".got" / "ledger.id").read_text()
    return repository.machine.state / "remand" / ledger_id / "journal"


def test_the_director_sees_which_attempts_the_journal_bears_out(repository: Repository) -> None:
    task, handoff = claimed(repository)
    note(journal_of(repository), "pytest tests/test_pay.py -q", task_id=task, output="22 failed: HTTP 403")
    path = repository.path / "rejection.json"
    path.write_text(json.dumps(REJECTION))

    answer = repository.ok("handoff", "reject", handoff, "--agent", "Alice", "--from", str(path))
    shown = repository.ok("task", "show", task)["rejections"][-1]

    assert [row["grade"] for row in answer["attempts"]] == ["corroborated", "reported"]
    assert "pytest tests/test_pay.py -q` with exit 1" in answer["attempts"][0]["detail"]
    assert shown["attempts"] == answer["attempts"]
    assert not list(repository.path.rglob("*journal*")), "the journal lies outside the repository"


def test_what_a_hosts_hook_tells_bears_an_attempt_out(repository: Repository) -> None:
    task, handoff = claimed(repository)
    told = {
        "session_id": "s1",
        "cwd": str(repository.path),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "pytest tests/test_pay.py -q"},
        "tool_use_id": "toolu_1",
        "tool_response": {"stdout": "22 failed", "stderr": "", "interrupted": False},
    }
    call = ("hook", "--host", "claude", "PostToolUse")
    path = repository.path / "rejection.json"
    path.write_text(json.dumps(REJECTION))

    for _ in range(2):
        said = repository.people(*call, stdin=json.dumps(told), env={"REMAND_TASK": task})
        assert (said.code, said.out) == (0, ""), said
    answer = repository.ok("handoff", "reject", handoff, "--agent", "Alice", "--from", str(path))

    assert len(repository.ok("journal", task)["runs"]) == 1
    assert [row["grade"] for row in answer["attempts"]] == ["corroborated", "reported"]


def test_the_command_lists_what_was_run_and_says_what_is_wrong(near_machine: Machine) -> None:
    repository = near_machine.repository()
    task, _ = claimed(repository)
    assert repository.ok("journal", task)["runs"] == []
    note(journal_of(repository), task_id=task, output="3 failed")
    note(journal_of(repository), "ls", task_id=task, agent="Bob")
    with (journal_of(repository) / f"{task}.jsonl").open("ab") as file:
        file.write(b"torn")

    answer = repository.ok("journal", task, "--transcripts")
    people = repository.people("journal", task, "--agent", "Alice")

    assert [(row["agent"], row["exit_status"], row["is_seconded"]) for row in answer["runs"]] == [
        ("Alice", 1, False),
        ("Bob", 1, False),
    ]
    assert answer["problems"] == ["line 3 is not a run: it is incomplete, or something else wrote it"]
    assert "pytest -q tests/test_login.py" in people.out
    assert "Bob" not in people.out
    assert "line 3 is not a run" in people.out
    assert repository.refused("journal", "T-none") == "unknown_task"


@pytest.mark.parametrize(
    ("calls", "numbers"),
    [
        # Seconds since the first call, and the host.
        ([(0, "copilot"), (20, "claude")], [1, 1]),
        ([(0, "claude"), (0.5, "claude")], [1, 1]),
        ([(0, "openhands"), (5, "openhands"), (10, "openhands")], [1, 2, 3]),
        ([(0, "copilot"), (1, "claude"), (9, "copilot"), (10, "claude")], [1, 1, 2, 2]),
        ([(0, "copilot"), (70, "claude")], [1, 2]),
        ([(second, "x") for second in range(6)], [1, 1, 1, 1, 2, 2]),
    ],
)
def test_stops_that_look_alike_are_counted_and_hooks_of_one_stop_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[float, str]], numbers: list[int]
) -> None:
    sessions, found = writing.Sessions(str(tmp_path)), []
    for seconds, host in calls:
        monkeypatch.setattr(writing.time, "time", lambda at=seconds: 1_000_000.0 + at)
        found.append(sessions.occurrence(TASK, "s1 stop", host))
        sessions.note_answer(TASK, "s1 stop")

    assert found == numbers


def test_two_hooks_that_count_one_stop_at_the_same_time_count_it_once(tmp_path: Path) -> None:
    sessions = writing.Sessions(str(tmp_path))
    assert sessions.count(TASK, "s1", "first") == 1
    (file,) = tmp_path.iterdir()
    with file.open("a") as other:  # a hook that looked before the first one had noted it
        other.write("first\n")

    assert sessions.count(TASK, "s1", "second") == 2
    assert [sessions.count(TASK, "s1") for _ in range(2)] == [3, 4], "stops without a key are all different"
    assert sessions.count(TASK, "s1", "first") == 4


def test_a_hook_that_follows_a_slow_one_of_the_same_host_is_about_the_same_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, now = writing.Sessions(str(tmp_path)), [1_000_000.0]
    monkeypatch.setattr(writing.time, "time", lambda: now[0])
    first = sessions.occurrence(TASK, "s1 stop", "gemini")
    now[0] += 300
    sessions.note_answer(TASK, "s1 stop")
    now[0] += 1

    assert sessions.occurrence(TASK, "s1 stop", "gemini") == first


def test_stops_that_another_version_has_noted_keep_nobody_from_counting(tmp_path: Path) -> None:
    sessions = writing.Sessions(str(tmp_path))
    sessions.occurrence(TASK, "s1 stop", "codex")
    (file,) = tmp_path.iterdir()
    file.write_text("1000.123 1100.456 \n")

    assert sessions.occurrence(TASK, "s1 stop", "codex") == 1
    assert file.read_text().splitlines()[1].startswith("1 codex ")


def test_who_was_told_to_wait_for_the_gates_gets_their_answer_at_the_next_stop_and_once(
    tmp_path: Path,
) -> None:
    """However long the gates took, and whatever the host tells the two stops apart by."""
    sessions = writing.Sessions(str(tmp_path))
    assert sessions.awaited_key(TASK, "s1", "hook-a-1-c0ffee") == "hook-a-1-c0ffee"
    sessions.note_waiting(TASK, "s1", "hook-a-1-c0ffee")

    assert sessions.awaited_key(TASK, "s1", "hook-a-1-c0ffee") == "hook-a-1-c0ffee", (
        "another hook of that stop"
    )
    assert sessions.awaited_key(TASK, "s2", "hook-z-1-c0ffee") == "hook-z-1-c0ffee", "another session"
    assert sessions.awaited_key(TASK, "s1", "hook-b-1-decade") == "hook-b-1-decade", "another commit"
    assert sessions.awaited_key(TASK, "s1", "hook-b-1-c0ffee") == "hook-a-1-c0ffee"
    assert sessions.awaited_key(TASK, "s1", "hook-b-1-c0ffee") == "hook-a-1-c0ffee", (
        "another hook of the next stop"
    )
    assert sessions.awaited_key(TASK, "s1", "hook-c-1-c0ffee") == "hook-c-1-c0ffee", "a stop after the answer"


@pytest.mark.parametrize(
    "text", ["0 claude 1.0", "\u00b2 claude 1.0", "1 claude \u00b2", "9" * 5000 + " claude 1.0", "x", "1"]
)
def test_a_stop_that_was_noted_wrongly_is_left_out(text: str) -> None:
    assert writing._parse_stops(text) == []
    assert writing._parse_stops(f"{text}\n1 claude 2.5\n") == [{"claude": [2.5]}]
