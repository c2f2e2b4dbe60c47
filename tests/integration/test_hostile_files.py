"""Files that nobody should have made: each is named by file and line, nothing hangs, and the good events stay."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import random
import resource
import shutil
import socket
import sqlite3
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from remand.app.events.signatures import Signer
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.reviews import LockoutSet
from remand.ledger import codec, signatures
from remand.ledger.signatures import MAX_GROUP, GroupedEvent, chain_start
from remand.testing.builders import Session, task_added, task_claimed
from tests.golden.keys import GoldenKeys
from tests.integration.machine import NO_GATES, Machine, Repository

pytestmark = pytest.mark.timeout(1200)

HOSTILE = "hostile.jsonl"
OTHERS = GoldenKeys()
"""The key of the machine on which the sound events here were written."""
TRUSTING = f'[keys]\ntrusted = ["{OTHERS.own().entry}"]\n\n{NO_GATES}'


def stamped(when: datetime) -> str:
    """A time as events have it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def old_task(number: int) -> str:
    """The id of a task as old as the lines here."""
    return f"T-20260101-000000-{number:08x}"


@pytest.fixture
def repository(machine: Machine) -> Repository:
    """A repository without gates that trusts the other machine."""
    return machine.repository(config=TRUSTING)


def their_session(name: str = "20260101-000000-00000abc") -> Session:
    """A session of the other machine."""
    return Session(name, keys=OTHERS)


def good_lines(count: int = 3, at: datetime | None = None) -> list[bytes]:
    """Sound events of another session, each after the group that signs it."""
    session = their_session()
    when = at or datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(count):
        event = task_added(old_task(number), f"good {number}")
        session.write(event, at=stamped(when + timedelta(seconds=number)))
    return session.lines


def put(repository: Repository, content: bytes, name: str = HOSTILE) -> Path:
    """Puts a file among the event files."""
    repository.events.mkdir(parents=True, exist_ok=True)
    path = repository.events / name
    path.write_bytes(content)
    return path


def state(repository: Repository) -> list[tuple[str, str, str | None]]:
    """What the tasks are, in short."""
    return [(row["task_id"], row["status"], row["agent"]) for row in repository.ok("task", "list")]


def places(problems: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Where the problems are."""
    return [(os.path.basename(problem["file"]), problem["line"]) for problem in problems]


class Inside:
    """A repository in memory whose command line runs inside this process, for tests that call it by the thousand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = Machine("/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp", is_near=True)
        for name, value in self.machine.environment.items():
            monkeypatch.setenv(name, value)
        self.repository = self.machine.repository(config=TRUSTING)

    def begin_anew(self) -> None:
        """Takes the ledger away with all memory of it."""
        shutil.rmtree(self.repository.path / ".got", ignore_errors=True)
        shutil.rmtree(self.machine.state, ignore_errors=True)

    def call(self, *arguments: str) -> Any:
        """The JSON document that a call answers with, done or not."""
        said = self.repository.call(*arguments)
        assert not said.err
        return said.data


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    """A repository whose command line runs inside this process."""
    made = Inside(monkeypatch)
    yield made
    made.machine.close()


# Lines.

SIGNED = good_lines()
GROUPS, GOOD = SIGNED[::2], SIGNED[1::2]
EVENT, GROUP = json.loads(GOOD[0]), json.loads(GROUPS[2])


def changed(**fields: Any) -> bytes:
    """A sound event with other fields, and therefore no sound event any more."""
    return json.dumps(EVENT | fields, separators=(",", ":")).encode()


def regrouped(**fields: Any) -> bytes:
    """A group with other fields, which nobody can have signed."""
    return json.dumps(GROUP | fields, separators=(",", ":")).encode()


def signed(*lines: bytes) -> list[bytes]:
    """Events of the other machine's session, each after a group that signs it."""
    signer, chain, found = Signer(OTHERS, ""), "", []
    for line in lines:
        event = codec.decode_line(line)
        session, seq = event.meta.session, event.meta.seq
        before = chain or chain_start(session, signer.key)
        (group,) = signer.sign(
            session, seq, before, [GroupedEvent(event.meta.id, event_task_id(event))], event.ts
        )
        chain = group.after
        found += [signatures.encode_group(group), line]
    return found


def with_right_hash(line: bytes, before: bytes, after: bytes) -> bytes:
    """A line changed by someone who knows how the id is made."""
    text = line.replace(before, after)
    start = text.index(b'"id":"', text.index(b'"meta"')) + len(b'"id":"')
    bare = text[:start] + text[start + 32 :]
    return text[:start] + hashlib.sha256(bare).hexdigest()[:32].encode() + text[start + 32 :]


NOW = stamped(datetime.now(UTC))
BAD_LINES = {
    "NaN": changed(weight=float("nan")),
    "infinity": changed(weight=float("inf")),
    "a number beyond floats": GOOD[0].replace(b'"type"', b'"weight":1e400,"type"'),
    "a number of 5,000 digits": GOOD[0].replace(b'"type"', b'"weight":' + b"9" * 5000 + b',"type"'),
    "a key twice": GOOD[0].replace(b'"type"', b'"ts":"2026-01-01T00:00:00.000000Z","type"'),
    "deep nesting": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep lists": b"[" * 100_000,
    "half a surrogate pair": GOOD[0].replace(b"good 0", b"\\ud800"),
    "a byte order mark": b"\xef\xbb\xbf" + GOOD[0],
    "invalid UTF-8": GOOD[0].replace(b"good", b"\xff\xfe"),
    "UTF-16": GOOD[0].decode().encode("utf-16-le"),
    "NUL bytes": b"\x00" * 64,
    "a NUL byte inside": GOOD[0].replace(b"good", b"go\x00d"),
    "a scalar": b"42",
    "a list": b"[]",
    "null": b"null",
    "an empty object": b"{}",
    "a trailing comma": GOOD[0][:-1] + b",}",
    "two documents": GOOD[0] + GOOD[1],
    "text before": b"x" + GOOD[0],
    "a conflict marker": b"<<<<<<< HEAD",
    "a conflict's middle": b"=======",
    "a conflict's end": b">>>>>>> theirs",
    "a base marker": b"||||||| base",
    "no time": json.dumps({"event": "node.create", "meta": {}}).encode(),
    "a time that is none": json.dumps({"ts": "yesterday", "event": "node.create", "meta": {}}).encode(),
    "meta as text": json.dumps({"ts": NOW, "event": "node.create", "meta": "x"}).encode(),
    "a name as number": json.dumps({"ts": NOW, "event": 5, "meta": {}}).encode(),
    "a changed title": GOOD[0].replace(b"good 0", b"evil 0"),
    "another actor": GOOD[0].replace(b'"actor":"somebody"', b'"actor":"user"'),
    "another id": GOOD[0].replace(EVENT["meta"]["id"].encode(), b"0" * 32),
    "a huge number in its session": with_right_hash(GOOD[0], b'"seq":1', b'"seq":9223372036854775808'),
    "a number in another's range": with_right_hash(GOOD[0], b'"seq":1', b'"seq":1099511627777'),
    "true as its number": with_right_hash(GOOD[0], b'"seq":1', b'"seq":true'),
    "a number as its session": with_right_hash(GOOD[0], b'"20260101-000000-00000abc"', b"5"),
    "a session with a newline": with_right_hash(GOOD[0], b'"20260101-000000-00000abc"', b'"a\\nroot /"'),
    "a title that is a number": with_right_hash(GOOD[0], b'"good 0"', b"5"),
    "a line of 300 kB": GOOD[0].replace(b"good 0", b"x" * 300_000),
    "a group that is cut off": GROUPS[2][:-9],
    "a group in another form": GROUPS[2].replace(b'"first"', b' "first"'),
    "a group with a key twice": GROUPS[2].replace(b'"first"', b'"first":2,"first"'),
    "a group with a field more": regrouped(weight=1),
    "a group of nothing": regrouped(events=[]),
    "a group of too many": regrouped(events=GROUP["events"] * (MAX_GROUP + 1)),
    "a group of numbers": regrouped(events=[[1, 2]]),
    "a group from the beginning of nothing": regrouped(first=0),
    "a group from before the beginning": regrouped(first=-1),
    "a group at a huge number": regrouped(first=9223372036854775808),
    "a group at a number in another's range": regrouped(first=1099511627777),
    "a group without a session": regrouped(meta={}),
    "a group of a session with a newline": regrouped(meta={"session": "a\nroot /"}),
    "a group at a time that is none": regrouped(ts="yesterday"),
    "a group after a hash that is none": regrouped(before="x" * 32),
    "a group with deep nesting": GROUPS[2][:-1] + b',"a":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    "a group with invalid UTF-8": GROUPS[2].replace(b"20260101", b"\xff\xfe"),
    "a group with half a surrogate pair": GROUPS[2].replace(b"20260101", b"\\ud800"),
    "a group with a NUL byte": GROUPS[2].replace(b"20260101", b"\x00"),
    "a group of 300 kB": regrouped(key="x" * 300_000),
    "a group without a key": regrouped(key=""),
    "a group with another chain": regrouped(before="0" * 32),
    "a group that names another event": regrouped(events=[["0" * 32, old_task(2)]]),
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_named_and_its_neighbours_stay(inside: Inside, line: bytes) -> None:
    put(inside.repository, b"\n".join([*SIGNED[2:4], line, *SIGNED[4:], GROUPS[0]]) + b"\n")
    problems = inside.call("log", "verify")["problems"]
    assert places(problems) == [(HOSTILE, 3)], problems
    assert len(problems[0]["problem"]) < 300
    assert problems[0]["problem"].isprintable()
    assert [row["title"] for row in inside.call("task", "list")] == ["good 1", "good 2"]


def test_bad_lines_do_not_keep_anyone_from_working(repository: Repository) -> None:
    put(repository, b"\n".join([*BAD_LINES.values(), *SIGNED]) + b"\n")
    task = repository.add("still working")
    repository.ok("task", "claim", task, "--agent", "Alice")
    said = repository.call("log", "verify")
    assert said.code == 1
    assert len(places(said.data["problems"])) == len(BAD_LINES)
    assert said.data["events"] == 2 + len(GOOD)
    shown = repository.people("log", "verify")
    assert shown.code == 1
    assert HOSTILE in shown.out
    assert "Traceback" not in shown.out + shown.err
    checks = {check["name"]: check for check in repository.call("doctor").data["checks"]}
    assert not checks["log"]["ok"]


GOOD_FORMS = {
    "line separators inside": lambda lines: lines,
    "carriage returns": lambda lines: [line + b"\r" for line in lines],
    "blank lines": lambda lines: [part for line in lines for part in (b"", line, b"  ", b"\r")],
    "every line twice": lambda lines: [*lines, *lines],
    "backwards": lambda lines: lines[::-1],
}


@pytest.mark.parametrize("form", GOOD_FORMS.values(), ids=GOOD_FORMS.keys())
@pytest.mark.parametrize("has_last_newline", [True, False], ids=["newline", "no newline"])
def test_forms_that_are_no_fault_are_read(
    inside: Inside, form: Callable[[list[bytes]], list[bytes]], has_last_newline: bool
) -> None:
    session = their_session()
    for number, char in enumerate(("\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\u00a0")):
        session.write(task_added(old_task(number), f"a{char}b"), at=f"2026-01-01T00:00:0{number}.000000Z")
    put(inside.repository, b"\n".join(session.lines) + b"\n")
    plain = inside.call("log", "digest")
    inside.begin_anew()
    put(inside.repository, b"\n".join(form(session.lines)) + (b"\n" if has_last_newline else b""))
    assert inside.call("log", "verify")["problems"] == []
    assert inside.call("log", "digest") == plain
    assert [row["title"] for row in inside.call("task", "list")] == [
        "a\u2028b", "a\u2029b", "a\x85b", "a\x0bb", "a\x1cb", "a\u00a0b"
    ]  # fmt: skip


def test_both_sides_of_committed_conflict_markers_are_read(inside: Inside) -> None:
    repository = inside.repository
    lines = [b"<<<<<<< HEAD", *SIGNED[:2], b"=======", *SIGNED[2:4], b">>>>>>> theirs", *SIGNED[4:]]
    put(repository, b"\n".join(lines) + b"\n")
    assert places(repository.verify()) == [(HOSTILE, 1), (HOSTILE, 4), (HOSTILE, 7)]
    assert len(repository.ok("task", "list")) == 3


@pytest.mark.parametrize("hours", [1, 25, 24 * 365 * 10, 24 * 365 * 5000])
def test_an_event_from_too_far_ahead_is_shown_and_has_no_effect(inside: Inside, hours: int) -> None:
    repository = inside.repository
    repository.add("mine")
    before = repository.digest()
    ahead = min(datetime.now(UTC) + timedelta(hours=hours), datetime(9999, 12, 30, tzinfo=UTC))
    session = their_session()
    session.write(task_added(old_task(0)), at="2026-01-01T00:00:00.000000Z")
    session.write(task_added(old_task(1)), at=stamped(ahead))
    put(repository, b"\n".join(session.lines) + b"\n")
    problems = repository.verify()
    assert places(problems) == [(HOSTILE, 4)]
    assert "ahead" in problems[0]["problem"]
    assert len(repository.ok("task", "list")) == 2
    after = repository.add("after")
    assert repository.ok("task", "show", after)["history"][0]["ts"] < stamped(datetime.now(UTC))
    assert repository.digest()[1] == before[1] + 2


def test_an_event_from_a_little_ahead_moves_the_clock_and_not_the_order(inside: Inside) -> None:
    repository = inside.repository
    ahead = datetime.now(UTC) + timedelta(minutes=9)
    put(repository, b"\n".join(good_lines(1, ahead)) + b"\n")
    task = repository.add("after")
    assert repository.ok("task", "show", task)["history"][0]["ts"] > stamped(ahead)
    assert repository.verify() == []


# Whole files.


def _directory(path: Path) -> None:
    path.mkdir()
    (path / "inside.jsonl").write_bytes(b"\n".join(SIGNED) + b"\n")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make a device")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _link(target: Path) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


KINDS: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a socket": _socket,
    "a device": _device,
    "a directory": _directory,
    "a symbolic link": lambda path: path.symlink_to(path.with_name("target")),
    "a dangling link": _link(Path("/nowhere")),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a device": _link(Path("/dev/zero")),
    "a sparse file of 1 TB": _sparse,
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_what_is_no_event_file_is_named_at_once(repository: Repository, make: Callable[[Path], None]) -> None:
    task = repository.add("mine")
    (repository.events / "target").write_bytes(b"\n".join(SIGNED) + b"\n")
    effort()
    repository.verify()
    usual = effort()
    make(repository.events / HOSTILE)
    repository.ok("task", "claim", task, "--agent", "Alice")
    assert effort() < 3 * usual + 1.0
    repository.ok("task", "list")
    assert effort() < 3 * usual + 1.0
    problems = repository.verify()
    assert effort() < 3 * usual + 1.0
    assert [name for name, _ in places(problems)] == [HOSTILE], problems
    assert [row["title"] for row in repository.ok("task", "list")] == ["mine"]


def effort(seen: list[float] = [0.0]) -> float:  # noqa: B006 - it remembers on purpose
    """The processor time of the calls since it was last asked; other work on the machine does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    before, seen[0] = seen[0], used.ru_utime + used.ru_stime
    return seen[0] - before


def _without_privilege() -> None:
    """Takes root's right to read everything from the program that is started next."""
    drop_from_bounding_set = 24
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0):
            raise OSError("privileges cannot be dropped")


def test_a_file_nobody_may_read_is_named(repository: Repository) -> None:
    repository.add("mine")
    put(repository, GOOD[0] + b"\n").chmod(0)
    preexec = _without_privilege if os.getuid() == 0 else None
    repository.ok("task", "claim", "--agent", "Alice", preexec=preexec)
    said = repository.call("log", "verify", preexec=preexec)
    assert said.code == 1, said
    assert places(said.data["problems"]) == [(HOSTILE, 0)]
    assert "ermission" in said.data["problems"][0]["problem"]
    assert said.data["events"] == 2


def test_odd_file_names_are_no_trouble(repository: Repository) -> None:
    repository.add("mine")
    names = [b"\xff\xfe.jsonl", b"a\nb.jsonl", b"\x1b[31m.jsonl", b" .jsonl", b".jsonl", b"-rf.jsonl"]
    for number, name in enumerate(names):
        session = their_session(f"20260101-000000-0000000{number}")
        session.write(task_added(old_task(number), f"odd {number}"), at="2026-01-01T00:00:00.000000Z")
        with open(os.path.join(os.fsencode(repository.events), name), "wb") as file:
            file.write(b"\n".join([*session.lines, b"broken"]) + b"\n")
    repository.add("after")
    problems = repository.verify()
    assert len(problems) == len(names), "each is named"
    read = [problem for problem in problems if problem["line"] == 3]
    assert all("name" in problem["problem"] for problem in problems if problem not in read)
    assert len(repository.ok("task", "list")) == 2 + len(read)
    assert "\x1b" not in repository.people("log", "verify").out
    repository.ok("log", "publish")


def test_a_line_of_100_mb_takes_no_memory(repository: Repository) -> None:
    with (repository.path / "large").open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\n" + GOOD[0] + b"\n")
    repository.events.mkdir(parents=True)
    (repository.path / "large").rename(repository.events / HOSTILE)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    said = repository.call(
        "log", "verify", preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    )
    assert places(said.data["problems"])[0] == (HOSTILE, 1), said
    assert max(before, 150_000) >= resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    repository.add("still working")


@pytest.mark.parametrize("what", ["ledger.db", "events"])
def test_a_folder_or_pipe_in_place_of_our_own_files_is_said_clearly(
    repository: Repository, what: str
) -> None:
    repository.add()
    repository.forget_ledger()
    path = repository.path / ".got" / what
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("in the way")
    else:
        path.mkdir()
    said = repository.call("task", "add", "x")
    assert said.code == 3, said
    assert what in said.data["message"]
    assert "Traceback" not in said.err


# Torn and flipped.


def open_segment(repository: Repository) -> Path:
    """The one segment a repository has."""
    (path,) = repository.segments()
    return path


def test_a_tail_torn_at_any_byte_of_the_last_records_loses_nothing(
    inside: Inside, campaign: Callable[[int, int], int]
) -> None:
    """The ledger knows every event: the next one is not glued to the torn line, and every file is mended or named."""
    distance, reached = 1, 0
    while not reached:
        inside.begin_anew()
        for number in range(4):
            inside.call("task", "add", f"task {number}")
        path = open_segment(inside.repository)
        content = path.read_bytes()
        with path.open("r+b") as file:
            file.truncate(len(content) - distance)
        inside.call("task", "add", "after")
        check_torn(inside, f"{distance} bytes torn off")
        reached = len(content) - distance <= len(content.split(b"\n")[0]) + 1
        distance += campaign(31, 1)


def check_torn(inside: Inside, what: str) -> None:
    """Every event is whole in some file, and what is not whole is named."""
    repository = inside.repository
    whole = [json.loads(line) for line in repository.lines() if is_whole(line)]
    assert len({event["meta"]["id"] for event in whole if event["event"] != "log.sign"}) == 5, what
    torn = [
        (path.name, number)
        for path in repository.segments()
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1)
        if line and not is_whole(line)
    ]
    found = inside.call("log", "verify")
    assert places(found["problems"]) == torn, what
    assert found["events"] == 5, what
    before = inside.call("log", "digest")
    repository.forget_ledger()
    assert inside.call("log", "digest") == before, f"{what}: the files alone"


def is_whole(line: bytes) -> bool:
    """True for a line that is whole."""
    try:
        return bool(json.loads(line)["meta"]["session"])
    except ValueError:
        return False


def test_a_file_of_others_torn_at_any_byte_keeps_what_is_whole(
    inside: Inside, campaign: Callable[[int, int], int]
) -> None:
    lines = good_lines(5)
    content = b"\n".join(lines) + b"\n"
    first = len(b"\n".join(lines[:4])) + 1
    for offset in range(first, len(content), campaign(11, 1)):
        inside.begin_anew()
        put(inside.repository, content[:offset])
        whole, _, torn = content[:offset].rpartition(b"\n")
        count = whole.count(b"\n") + 1 + is_whole(torn)
        found = inside.call("log", "verify")
        is_torn = bool(torn) and not is_whole(torn)
        assert places(found["problems"]) == [(HOSTILE, count + 1)] * is_torn, f"torn at {offset}"
        inside.call("task", "add", "after")
        assert inside.call("log", "digest")["events"] == count // 2 + 1
        assert (inside.repository.events / HOSTILE).read_bytes() == content[:offset], "others' files stay"


def test_every_flipped_event_is_named_and_changes_nothing(
    machine: Machine, campaign: Callable[[int, int], int]
) -> None:
    seed = int(os.environ.get("REMAND_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"REMAND_SEED={seed}")
    chance = random.Random(seed)
    count = 2 * campaign(100, 500)
    session = their_session()
    for number in range(0, count, 2):
        when = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
        session.write(task_added(old_task(number), f"task {number}"), at=stamped(when))
        event = task_claimed(
            task_id=old_task(number), handoff_id=f"H-{number}", until="2999-01-01T00:00:00.000000Z"
        )
        session.write(event, at=stamped(when + timedelta(seconds=1)))
    repository = machine.repository(config=TRUSTING)
    put(repository, b"\n".join(session.lines) + b"\n")
    before = repository.digest()
    pairs = list(zip(session.lines[::2], session.event_lines, strict=True))
    flipped = [part for group, line in pairs for part in (group, flip(line, chance))]

    put(repository, b"\n".join(flipped) + b"\n")
    problems = repository.verify()
    assert sorted(places(problems)) == [(HOSTILE, 2 * number + 2) for number in range(count)]
    assert repository.digest() == before

    fresh = machine.repository("fresh", config=TRUSTING)
    put(fresh, b"\n".join(flipped) + b"\n")
    assert len(fresh.verify()) == count
    assert fresh.ok("task", "list") == []

    groups = [part for group, line in pairs for part in (flip(group, chance), line)]
    put(fresh, b"\n".join(groups) + b"\n")
    assert len(fresh.ok("task", "list")) <= count // 2
    said = fresh.call("log", "verify").data
    assert said["events"] >= count
    assert {Path(problem["file"]).name for problem in said["problems"]} <= {HOSTILE, "ledger.db"}


def flip(line: bytes, chance: random.Random) -> bytes:
    """The line with one bit changed; it stays one line."""
    while True:
        place = chance.randrange(len(line))
        changed = line[:place] + bytes([line[place] ^ (1 << chance.randrange(8))]) + line[place + 1 :]
        if b"\n" not in changed and b"\r" not in changed[-1:]:
            return changed


def test_one_flipped_event_in_the_own_segment_is_named_and_the_ledger_keeps_the_truth(
    machine: Machine, repository: Repository
) -> None:
    for number in range(3):
        repository.add(f"task {number}")
    before = repository.digest()
    path = open_segment(repository)
    path.write_bytes(path.read_bytes().replace(b"task 1", b"task 9"))
    assert places(repository.verify()) == [(path.name, 4)]
    assert repository.digest() == before
    repository.add("after")
    after = repository.digest()
    assert after[1] == 4
    repository.ok("log", "publish")
    assert machine.clone(repository, "fresh").digest() == after, "what is published is the truth"


def test_a_damaged_ledger_is_said_clearly_and_rebuilt_once_it_is_moved_away(
    repository: Repository, campaign: Callable[[int, int], int]
) -> None:
    for number in range(10):
        repository.add(f"task {number} {'x' * 400}")
    repository.ok("log", "verify")
    checkpoint(repository)
    content = repository.ledger.read_bytes()
    chance = random.Random(7)
    for number in range(campaign(4, 100)):
        damaged = bytearray(content)
        for _ in range(20 * number):
            damaged[chance.randrange(0 if number % 2 else 4096, len(content))] = chance.randrange(256)
        with repository.ledger.open("r+b") as file:
            file.write(damaged)
            file.truncate()
        for call in (("task", "list"), ("task", "add", "x"), ("log", "verify"), ("log", "digest")):
            said = repository.call(*call)
            assert said.code in (0, 1, 3), (number, call, said)
            assert "Traceback" not in said.err, (number, call, said)
            assert said.code != 3 or "damaged" in said.data["message"], (number, call, said)
    repository.forget_ledger()
    titles = [row["title"][:6] for row in repository.ok("task", "list")]
    assert sorted(titles)[:10] == [f"task {number}" for number in range(10)]


def checkpoint(repository: Repository) -> None:
    """Brings everything into the one ledger file."""
    connection = sqlite3.connect(repository.ledger)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


# Merged histories that nobody can want.


def test_an_event_of_a_newer_version_is_kept_and_carried(inside: Inside) -> None:
    repository = inside.repository
    line = with_right_hash(GOOD[2], b'"event":"node.create"', b'"event":"task.levitate"')
    put(repository, b"\n".join(signed(GOOD[0], GOOD[1], line)) + b"\n")
    assert repository.verify() == []
    assert repository.digest()[1] == 3
    assert any(event["event"] == "task.levitate" for event in repository.ok("log", "tail"))


def test_one_number_with_two_contents_is_named_and_both_orders_lead_to_one_state(machine: Machine) -> None:
    fork = with_right_hash(GOOD[1], b"good 1", b"evil 1")
    lines = [*SIGNED[:4], *signed(GOOD[0], fork)[2:]]
    digests = []
    for name, order in (("one", lines), ("two", lines[::-1])):
        repository = machine.repository(name, config=TRUSTING)
        put(repository, b"\n".join(order) + b"\n")
        assert any("twice" in problem["problem"] for problem in repository.verify())
        digests.append(repository.digest())
    assert digests[0] == digests[1]
    assert digests[0][1] == 3


def test_hostile_texts_in_events_reach_no_terminal(inside: Inside) -> None:
    repository = inside.repository
    session = their_session()
    evil = "\x1b]0;owned\x07\x1b[2J\u202eevil\u2066\U000e0041"
    task, when = old_task(1), "2026-01-01T00:00:00.000000Z"
    session.write(task_added(task, evil, description=evil, category=evil), at=when)
    session.write(LockoutSet(task_id=task, agent=evil, reason=evil), at=when, actor=evil)
    put(repository, b"\n".join(session.lines) + b"\n")
    for call in (
        ("task", "list"),
        ("task", "show", task),
        ("task", "ready"),
        ("log", "tail"),
        ("graph", "export"),
        ("graph", "export", "--format", "dot"),
        ("graph", "stats"),
        ("doctor",),
    ):
        said = repository.people(*call)
        for char in "\x1b\x07\u202e\u2066\U000e0041":
            assert char not in said.out + said.err, f"{call}: {char!r}"
