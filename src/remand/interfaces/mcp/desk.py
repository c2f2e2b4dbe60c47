"""Where every tool call becomes a call of our own command line, and its JSON an answer.

Each runs in a process of its own: what the command line refuses is refused here, whether it works on the ledger, asks a
coordinator, or speaks through an agent's door; nothing of it keeps the protocol waiting, and all of it can be ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

DONE = 0
COMMAND_LINE = (sys.executable, "-P", "-m", "remand.interfaces.cli.entry")
AT_ONCE = 8
LONGEST = 100_000
"""The system takes no argument of more than 128 KiB."""
_HANDED_ON = "REMAND_"


class Answer(NamedTuple):
    """What a call of the command line led to."""

    code: int
    data: Any

    @property
    def is_refused(self) -> bool:
        """True when the rules said no, which is an answer like any other."""
        return self.code != DONE and isinstance(self.data, dict) and "refused" in self.data


class Failed(Exception):  # noqa: N818 - it is the call that failed, and this says why and what to do
    """A call that led to no answer: it was wrong, or something in the environment is."""


class Desk(Protocol):
    """Carries calls of the command line out."""

    async def call(self, command: str, *named: str, **options: object) -> Answer:
        """Carries a call out; raises `Failed` when it has no answer. Named are things, options their particulars."""


class CommandLine:
    """Carries calls out as whoever this server speaks for."""

    def __init__(self, folder: str, actor: str, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._own = ("--json", f"--as={actor}") if actor else ("--json",)
        self._environment = expanded(environment)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._running: dict[tuple[str, ...], asyncio.Task[Answer]] = {}
        self._processes: set[Process] = set()

    async def call(self, command: str, *named: str, **options: object) -> Answer:
        """Carries a call out. One that is under way already is waited for and not made twice.

        Whoever stops waiting does not end it: its answer is there for the next who asks the same.
        """
        words = tuple(worded(command, named, options))
        running = self._running.get(words)
        if running is None:
            running = asyncio.create_task(self._carry_out(words))
            self._running[words] = running
            running.add_done_callback(lambda ended: self._forget(words, ended))
        return await asyncio.shield(running)

    def _forget(self, words: tuple[str, ...], ended: asyncio.Task[Answer]) -> None:
        del self._running[words]
        if not ended.cancelled():
            ended.exception()  # nobody may be left to hear of it

    async def _carry_out(self, words: Sequence[str]) -> Answer:
        async with self._room:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(*COMMAND_LINE, *self._own, *words),
                    cwd=self._folder,
                    env=self._environment,
                    stdin=DEVNULL,
                    stdout=PIPE,
                    stderr=PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                raise Failed(f"The command line cannot be started: {error.strerror}.") from None
            self._processes.add(process)
            try:
                output, errors = await process.communicate()
            finally:
                self._processes.discard(process)
        return answered(process.returncode or 0, output, errors)

    def stop(self) -> None:
        """Ends whatever is still under way."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Ends whatever is still under way, and waits until it has."""
        self.stop()
        await asyncio.gather(*self._running.values(), return_exceptions=True)


def expanded(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what a host should have filled in and handed on as it was written: `${NAME}`."""
    return {
        name: value
        for name, value in environment.items()
        if not (name.startswith(_HANDED_ON) and value.startswith("$"))
    }


def worded(command: str, named: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """The arguments of a call in which nothing that was given can pass for an option, a file or another call."""
    words = command.split()
    for name, value in options.items():
        values = value if isinstance(value, list | tuple) else [value]
        words += [
            f"--{name.strip('_').replace('_', '-')}={_text(one)}" for one in values if one not in ("", None)
        ]
    return [*words, "--", *map(_text, named)] if named else words


def _text(value: object) -> str:
    """A value as the command line takes it: `@` and `-` before a text mean files there, and never here."""
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Failed("A text has half a character in it. Send whole characters.") from None
    if "\0" in text:
        raise Failed("A text has a NUL character in it. Leave it out.")
    if len(text.encode()) > LONGEST:
        raise Failed(f"A text has more than {LONGEST} bytes. Shorten it.")
    return f" {text}" if text.startswith(("@", "-")) else text


def answered(code: int, output: bytes, errors: bytes) -> Answer:
    """The answer that a call has printed."""
    try:
        data = json.loads(output)
    except ValueError:
        said = errors.decode("utf-8", "replace").strip()[-1000:] or f"exit code {code}"
        raise Failed(f"The command line gave no answer: {said}") from None
    if isinstance(data, dict) and "error" in data:
        raise Failed(str(data.get("message", "")))
    return Answer(code, data)
