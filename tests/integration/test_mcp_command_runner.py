"""Calls of the command line that tools make: shared while they are under way, and ended with the server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from remand.interfaces.mcp import command_runner
from remand.interfaces.mcp.command_runner import CommandError, CommandLineRunner, CommandResult
from tests.integration.machine import PATIENCE, wait_for

PROGRAM = """
import os, sys, time
folder = os.getcwd()
open(folder + '/made', 'a').write('x')
while not os.path.exists(folder + '/go'):
    time.sleep(0.01)
print('{"made": %d}' % os.path.getsize(folder + '/made'))
"""


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandLineRunner:
    """A runner whose calls take as long as a file is missing, and say how often they were made."""
    monkeypatch.setattr(command_runner, "COMMAND_LINE", (sys.executable, "-c", PROGRAM))
    return CommandLineRunner(str(tmp_path), "", {})


async def begun(folder: Path) -> None:
    """Waits until a call is under way."""
    await asyncio.to_thread(wait_for, (folder / "made").exists, "the call")


def test_who_stops_waiting_does_not_end_the_call_and_who_asks_again_gets_its_answer(
    slow: CommandLineRunner, tmp_path: Path
) -> None:
    async def scene() -> CommandResult:
        first = asyncio.create_task(slow.call("task submit", "T-1"))
        await begun(tmp_path)
        first.cancel()
        second = asyncio.create_task(slow.call("task submit", "T-1"))
        await asyncio.sleep(0)
        await asyncio.to_thread((tmp_path / "go").touch)
        return await second

    assert asyncio.run(scene()).data == {"made": 1}


def test_a_runner_that_closes_leaves_no_call_behind(slow: CommandLineRunner, tmp_path: Path) -> None:
    async def scene() -> object:
        call = asyncio.create_task(slow.call("task submit", "T-1"))
        await begun(tmp_path)
        await slow.close()
        return (await asyncio.gather(call, return_exceptions=True))[0]

    assert isinstance(asyncio.run(scene()), CommandError)


def test_a_runner_that_closes_begins_none_of_the_calls_that_wait_for_room(
    slow: CommandLineRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_runner, "MAX_PROCESSES", 1)
    runner = CommandLineRunner(str(tmp_path), "", {})

    async def scene() -> list[object]:
        first = asyncio.create_task(runner.call("task submit", "T-1"))
        await begun(tmp_path)
        second = asyncio.create_task(runner.call("task submit", "T-2"))
        await asyncio.sleep(0)
        await asyncio.wait_for(runner.close(), PATIENCE)
        return await asyncio.gather(first, second, return_exceptions=True)

    found = asyncio.run(scene())
    assert [type(one) for one in found] == [CommandError] * 2
    assert str(found[1]) == command_runner.ENDING
    assert (tmp_path / "made").stat().st_size == 1


def test_a_runner_that_closes_ends_a_call_whose_process_is_just_being_started(
    slow: CommandLineRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = asyncio.create_subprocess_exec

    async def start_then_close(*words: str, **options: Any) -> Any:
        process = await start(*words, **options)
        slow.stop()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_then_close)

    with pytest.raises(CommandError):
        asyncio.run(asyncio.wait_for(slow.call("task submit", "T-1"), PATIENCE))


def test_calls_that_differ_are_all_made(slow: CommandLineRunner, tmp_path: Path) -> None:
    async def scene() -> list[CommandResult]:
        calls = [asyncio.create_task(slow.call("task show", name)) for name in ("T-1", "T-2")]
        await asyncio.to_thread(wait_for, lambda: _size(tmp_path / "made") == 2, "both calls")
        await asyncio.to_thread((tmp_path / "go").touch)
        return await asyncio.gather(*calls)

    assert [answer.data for answer in asyncio.run(scene())] == [{"made": 2}, {"made": 2}]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
