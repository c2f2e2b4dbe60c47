"""Holds that a write torn at any byte has happened whole or not at all, and that what is left of it is set aside."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from remand.adapters.coordinator.server import DecidedGroup, sync_groups
from remand.adapters.stores.segments import Segments
from remand.app.errors import EnvironmentFault
from remand.app.log.verification import state_digest
from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.ledger.store import LedgerHead
from remand.testing.fakes import FakeClock
from tests.support.builders import FakeLedger
from tests.support.fakes import CountingIds, MemoryExchange, ProcessKilled

pytestmark = pytest.mark.timeout(3600)
Campaign = Callable[[int, int], int]


def requests(count: int) -> list[Request]:
    return [Request(command=c.AddTask(title=f"Task {n}"), actor=USER, key=f"k{n}") for n in range(count)]


def killed_after_writing(count: int) -> tuple[FakeLedger, str, int, int]:
    """A ledger whose process was killed when so many events stood in its file, and not yet in its tables.

    With it come that file, its size before the write and after it.
    """
    world = FakeLedger()
    world.add("Before")
    (path,) = world.exchange.contents
    before = len(world.exchange.contents[path].data)
    world.exchange.die_after_next_append()
    with pytest.raises(ProcessKilled):
        world.ledger.ask_all(requests(count))
    return world, path, before, len(world.exchange.contents[path].data)


def digest_of(world: FakeLedger) -> tuple[str, int]:
    with world.store.read() as view:
        return state_digest(view)


def check(count: int, left: int) -> None:
    """The same write, of which only so many bytes were left."""
    world, path, before, _ = killed_after_writing(count)
    torn = world.exchange.contents[path].data[before:left]
    is_whole = left == len(world.exchange.contents[path].data)
    world.exchange.truncate(path, left)

    world.reopen()
    world.add("After")

    expected = 2 + (count if is_whole else 0)
    assert len(world.tasks()) == len(world.events()) == expected, (
        f"{left - before} bytes of the write were left"
    )
    assert world.exchange.set_aside == ([] if is_whole or not torn else [torn])
    with world.store.read() as view:
        assert len(view.files.problems()) == len(world.exchange.set_aside), "it is said that it was set aside"
    world.ledger.ask_all(requests(count))
    assert len(world.tasks()) == 2 + count, "what is asked again under its key happens once"
    again = FakeLedger(exchange=world.exchange, session="20261117-090000-00000000")
    again.ledger.refresh()
    assert digest_of(again) == digest_of(world)


EVERY = 4000
"""At full size a write is torn at every byte; at medium size as often as the campaign of this size says."""


@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_write_torn_at_any_byte_has_happened_whole_or_not_at_all(count: int, campaign: Campaign) -> None:
    world, path, before, after = killed_after_writing(count)
    lines = world.exchange.contents[path].data[before:]
    ends = {before + place for place, byte in enumerate(lines) if byte == 10}
    edges = {before, before + 1, after - 1, after, *sorted(ends)[:3], *(end + 1 for end in sorted(ends)[:3])}
    tears = campaign(40 if count == 100 else 150, EVERY)
    step = 1 if tears == EVERY else max(1, (after - before) // tears)

    for left in sorted({*range(before, after, step), *edges}):
        check(count, left)


def test_a_new_segment_has_its_name_only_when_its_lines_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after that leaves no event file with a part of a command."""
    done: list[str] = []
    fdatasync, rename = os.fdatasync, os.rename
    monkeypatch.setattr(os, "fdatasync", lambda handle: (done.append("sync"), fdatasync(handle))[1])
    monkeypatch.setattr(os, "rename", lambda *names: (done.append("rename"), rename(*names))[1])
    folders = [str(tmp_path / "events")]
    segments = Segments(folders, str(tmp_path / "quarantine"), Untracked(), FakeClock(), CountingIds())

    segments.append(LedgerHead(session="s"), 1, [b"{}"])
    segments.close()

    assert done == ["sync", "rename"]


def ledger_in_files(folder: Path) -> tuple[FakeLedger, Segments]:
    """A ledger with a task, whose lines are in real files."""
    quarantine = folder.with_name("quarantine")
    segments = Segments([str(folder)], str(quarantine), Untracked(), FakeClock(), CountingIds(1000))
    world = FakeLedger(exchange=cast(MemoryExchange, segments))
    world.add("Before")
    return world, segments


def test_a_sync_that_failed_is_a_fault_of_all_that_was_decided_before_and_asked_again_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells once that lines could not be written; the next sync of the same file succeeds without them."""
    folder = tmp_path / "events"
    world, segments = ledger_in_files(folder)
    world.ledger.syncs_early = False
    asked = requests(3)
    groups = [DecidedGroup([], world.ledger.decide_all([one])) for one in asked[:2]]
    fdatasync, told = os.fdatasync, [OSError(errno.EIO, "Input/output error")]

    def fail_once(handle: int) -> None:
        if told:
            raise told.pop()
        fdatasync(handle)

    monkeypatch.setattr(os, "fdatasync", fail_once)
    for group in groups:
        sync_groups(world.ledger, [group])
    assert ["not known to be on disk" in str(group.fault) for group in groups] == [True, True]

    before = set(folder.iterdir())
    later = DecidedGroup([], world.ledger.decide_all(asked))
    sync_groups(world.ledger, [later])

    assert later.fault is None
    (fresh,) = set(folder.iterdir()) - before
    with world.store.read() as view:
        assert view.events.count() == 4
        assert set(view.events.lines()) <= set(fresh.read_bytes().split(b"\n")), "all lines are written anew"
    assert len(world.tasks()) == 4
    segments.close()


class Untracked:
    """A repository in which git tracks nothing."""

    def file_stamp(self) -> object:
        return None

    def has(self, path: str) -> bool:
        return False


def test_a_sync_that_failed_while_its_rows_were_committed_is_a_fault_of_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "events"
    world, segments = ledger_in_files(folder)
    (asked,) = requests(1)
    before = set(folder.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(EnvironmentFault, match="not known to be on disk"):
            world.ledger.ask(asked)

    answer = world.ledger.ask(asked)

    assert isinstance(answer, Acceptance)
    (fresh,) = set(folder.iterdir()) - before
    with world.store.read() as view:
        assert set(view.events.lines()) <= set(fresh.read_bytes().split(b"\n")), "all lines are written anew"
    segments.close()


def fail(_: int) -> None:
    raise OSError(errno.EIO, "Input/output error")
