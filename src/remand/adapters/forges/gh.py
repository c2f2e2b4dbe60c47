"""The way to GitHub through its own command line, which has a token when we have none."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from remand.adapters.forges.transport import MAX_ANSWER, SECONDS, Reply
from remand.app.forges.ports import ForgeFault, Trouble

PROGRAM = "gh"
NOT_LOGGED_IN = 4
"""The exit status of `gh` when it has no token."""
OWN_HEADERS = ("authorization", "user-agent", "content-length")


class Ran(NamedTuple):
    """How the program ended, and what it printed."""

    exit_status: int
    output: bytes


class Runner(Protocol):
    """Runs a program that is given something on its standard input."""

    async def run(self, command: Sequence[str], given: bytes) -> Ran | None:
        """How it ended; None when it could not be started, took too long or printed too much."""


class Processes:
    """Runs programs for real."""

    async def run(self, command: Sequence[str], given: bytes) -> Ran | None:
        """How it ended; None when it could not be started, took too long or printed too much."""
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        except OSError:
            return None
        try:
            async with asyncio.timeout(SECONDS):
                return await _ran(process, given)
        except TimeoutError:
            return None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _ran(process: asyncio.subprocess.Process, given: bytes) -> Ran | None:
    if process.stdin is None or process.stdout is None:
        return None
    with suppress(ConnectionError):
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
    output = bytearray()
    while part := await process.stdout.read(1 << 16):
        output += part
        if len(output) > MAX_ANSWER:
            return None
    return Ran(await process.wait(), bytes(output))


class GhTransport:
    """Sends requests as `gh api` does, with its token and to its host."""

    def __init__(self, api: str, runner: Runner, program: str = PROGRAM) -> None:
        self._api, self._runner, self._program = api, runner, program
        host = urlsplit(api).hostname or ""
        self._host = "github.com" if host == "api.github.com" else host

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The answer, read from what the program prints."""
        command = [
            self._program,
            "api",
            self._path(url),
            "--include",
            "--method",
            method,
            "--hostname",
            self._host,
        ]
        for name, value in headers.items():
            if name not in OWN_HEADERS:
                command += ["--header", f"{name}: {value}"]
        if body:
            command += ["--input", "-"]
        ran = await self._runner.run(command, body)
        if ran is None:
            raise ForgeFault(
                Trouble.UNREACHABLE, f"`{self._program} api` did not answer within {SECONDS:g} s."
            )
        if ran.exit_status == NOT_LOGGED_IN:
            raise ForgeFault(
                Trouble.DENIED,
                f"There is no token for {self._host}. Set GITHUB_TOKEN, or log in with `gh auth login`.",
            )
        return printed(ran.output)

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _path(self, url: str) -> str:
        """The part of an address that `gh` adds to its host's."""
        if url.endswith("/graphql"):
            return "graphql"
        if not url.startswith(f"{self._api}/"):
            raise ForgeFault(Trouble.GARBLED, "GitHub leads to another host; it is not followed.")
        return url[len(self._api) + 1 :]


def printed(output: bytes) -> Reply:
    """Status, headers and body as `gh api --include` prints them."""
    head, _, body = output.replace(b"\r\n", b"\n", output[:65536].count(b"\r\n")).partition(b"\n\n")
    status, *lines = head.decode("utf-8", "replace").split("\n")
    words = status.split(" ")
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdecimal():
        raise ForgeFault(
            Trouble.UNREACHABLE, "`gh api` answered nothing. Look whether it works: `gh api rate_limit`."
        )
    pairs = (line.partition(":") for line in lines)
    return Reply(int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}, body)
