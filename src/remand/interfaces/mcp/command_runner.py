"""Runs each tool call as a separate process of Remand's own command line, and reads its JSON answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from remand.domain.access.coordinator_start import OFF, VARIABLE
from remand.startup import COMMAND_LINE

DONE = 0
MAX_PROCESSES = 8
MAX_ARGUMENT_BYTES = 100_000
"""The system accepts no argument longer than 128 KiB."""
ENDING = "The server is ending. Repeat the call with the next one."
_OWN_PREFIX = "REMAND_"


class CommandResult(NamedTuple):
    """The result of a call of the command line."""

    code: int
    data: Any

    @property
    def is_refused(self) -> bool:
        """True if the rules refused the call, which is an answer like any other."""
        return self.code != DONE and isinstance(self.data, dict) and "refused" in self.data


class CommandError(Exception):
    """A call without an answer: it was wrong, or there is an environment error."""


class CommandRunner(Protocol):
    """Carries out calls of the command line."""

    async def call(self, command: str, *named: str, **options: object) -> CommandResult:
        """Carries out a call; raises `CommandError` if it has no answer.

        `named` are positional arguments.
        """


class CommandLineRunner:
    """Runs calls as the member for which this server acts."""

    def __init__(self, folder: str, actor: str, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._own = ("--json", f"--as={actor}") if actor else ("--json",)
        # What an agent's host calls starts no coordinator.
        self._environment = without_placeholders(environment) | {VARIABLE: OFF}
        self._room = asyncio.Semaphore(MAX_PROCESSES)
        self._running: dict[tuple[str, ...], asyncio.Task[CommandResult]] = {}
        self._processes: set[Process] = set()
        self._ending = asyncio.Event()

    async def call(self, command: str, *named: str, **options: object) -> CommandResult:
        """Carries out a call. An identical call in progress is awaited and not repeated.

        It continues if its client stops waiting: the next identical call gets its answer.
        """
        words = tuple(build_arguments(command, named, options))
        running = self._running.get(words)
        if running is None:
            running = asyncio.create_task(self._run_process(words))
            self._running[words] = running
            running.add_done_callback(lambda ended: self._forget(words, ended))
        return await asyncio.shield(running)

    def _forget(self, words: tuple[str, ...], ended: asyncio.Task[CommandResult]) -> None:
        del self._running[words]
        if not ended.cancelled():
            ended.exception()  # nobody may be left to hear of it

    async def _run_process(self, words: Sequence[str]) -> CommandResult:
        async with self._room:
            if self._ending.is_set():
                raise CommandError(ENDING)
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
                raise CommandError(f"The command line cannot be started: {error.strerror}.") from None
            self._processes.add(process)
            if self._ending.is_set():
                self.stop()
            try:
                output, errors = await process.communicate()
            finally:
                self._processes.discard(process)
        return parse_result(process.returncode or 0, output, errors)

    def stop(self) -> None:
        """Ends all calls in progress; no other call begins."""
        self._ending.set()
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Ends all calls in progress, and waits until they have ended."""
        self.stop()
        await asyncio.gather(*self._running.values(), return_exceptions=True)


def without_placeholders(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without placeholders such as `${NAME}` that a host should have replaced but passed on."""
    return {
        name: value
        for name, value in environment.items()
        if not (name.startswith(_OWN_PREFIX) and value.startswith("$"))
    }


def build_arguments(command: str, named: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """The arguments of a call, quoted so that no value can pass for an option, a file or another call."""
    words = command.split()
    for name, value in options.items():
        values = value if isinstance(value, list | tuple) else [value]
        words += [
            f"--{name.strip('_').replace('_', '-')}={_text(one)}" for one in values if one not in ("", None)
        ]
    return [*words, "--", *map(_text, named)] if named else words


def _text(value: object) -> str:
    """A value as the command line takes it: a leading `@` or `-` would mean a file there, but never here."""
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CommandError("A text contains half of a surrogate pair. Send whole characters.") from None
    if "\0" in text:
        raise CommandError("A text contains a NUL character. Remove it.")
    if len(text.encode()) > MAX_ARGUMENT_BYTES:
        raise CommandError(f"A text has more than {MAX_ARGUMENT_BYTES} bytes. Shorten it.")
    return f" {text}" if text.startswith(("@", "-")) else text


def parse_result(code: int, output: bytes, errors: bytes) -> CommandResult:
    """The answer that a call has printed."""
    try:
        data = json.loads(output)
    except ValueError:
        errors_text = errors.decode("utf-8", "replace").strip()[-1000:] or f"exit code {code}"
        raise CommandError(f"The command line gave no answer: {errors_text}") from None
    if isinstance(data, dict) and "error" in data:
        raise CommandError(str(data.get("message", "")))
    return CommandResult(code, data)
