"""A team that works over MCP: the official client on each of its ways to a server of ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from queue import SimpleQueue
from typing import Any, Literal, Self

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

from remand.interfaces.mcp.command_runner import (
    CommandError,
    CommandResult,
    CommandRunner,
    build_arguments,
    parse_result,
)
from remand.interfaces.mcp.http import listen, serve_until
from remand.interfaces.mcp.server import RemandServer
from tests.integration.machine import PATIENCE, REMAND, Repository, near_call
from tests.support.mcp_client import in_memory

TEAM = """
[project]
base = "main"

[gates.words]
command = ["grep", "-q", "good", "work.txt"]
parser = "exit"
mode = "strict"

[team]
members = [
  {name = "Fenster", role = "agent"},
  {name = "Hockney", role = "agent"},
  {name = "Lead", role = "lead"},
  {name = "Chief", role = "director"},
  {name = "owner", role = "user"},
]
"""
TOKEN = "a-token-of-the-tests-own"
Asked = Callable[[Any, ElicitRequestParams], Awaitable[ElicitResult]]


class NearRunner:
    """A runner whose calls of the command line run inside this process."""

    def __init__(self, repository: Repository, actor: str, environment: dict[str, str] | None = None) -> None:
        self._repository = repository
        self._own = ("--json", f"--as={actor}")
        self._environment = environment or {}

    async def call(self, command: str, *named: str, **options: object) -> CommandResult:
        words = (*self._own, *build_arguments(command, named, options))
        said = await asyncio.to_thread(near_call, self._repository.path, words, self._environment)
        if said is None:
            raise CommandError("There is no ledger here.")
        return parse_result(said.code, said.out.encode(), said.err.encode())


class Member:
    """One member of the team, and the client it speaks through."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tools(self) -> list[str]:
        """The names of the tools that are listed."""
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def does(self, tool: str, **arguments: object) -> dict[str, Any]:
        """What a tool answers, which must be no error."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, f"{tool}{arguments}: {result.content}"
        assert result.structured_content is not None
        return result.structured_content

    async def fails(self, tool: str, **arguments: object) -> str:
        """What is said of a call that is an error."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, f"{tool}{arguments}: {result.structured_content}"
        return "".join(getattr(part, "text", "") for part in result.content)

    async def reads(self, uri: str) -> str:
        """What a resource holds."""
        (content,) = (await self.client.read_resource(uri)).contents
        return str(getattr(content, "text", ""))


class Team:
    """Gives each member a client of its own, the way `way` says: memory, stdio or http."""

    def __init__(self, repository: Repository, way: str, mode: str = "auto") -> None:
        self.repository = repository
        self._way = way
        self._mode = mode
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.__aexit__(*error)  # type: ignore[arg-type]

    async def member(self, name: str, asked: Asked | None = None, **environment: str) -> Member:
        """A member of the team, who speaks through a server of its own."""
        server = await self._stack.enter_async_context(getattr(self, f"_{self._way}")(name, environment))
        client = Client(server, mode=self._mode, elicitation_callback=asked)
        return Member(await self._stack.enter_async_context(client))

    @asynccontextmanager
    async def _memory(self, name: str, environment: dict[str, str]) -> AsyncIterator[Any]:
        yield in_memory(RemandServer(NearRunner(self.repository, name, environment)))

    @asynccontextmanager
    async def _stdio(self, name: str, environment: dict[str, str]) -> AsyncIterator[Any]:
        yield StdioServerParameters(
            command=REMAND,
            args=["mcp", "--as", name],
            env=self.repository.machine.environment | environment,
            cwd=self.repository.path,
        )

    @asynccontextmanager
    async def _http(self, name: str, environment: dict[str, str]) -> AsyncIterator[Any]:
        with served(NearRunner(self.repository, name, environment)) as url:
            async with httpx2.AsyncClient(
                headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE
            ) as client:
                yield streamable_http_client(url, http_client=client)


@contextmanager
def served(runner: CommandRunner) -> Iterator[str]:
    """A server at a real port, in a thread of this process."""
    listening = listen("127.0.0.1", 0)
    ends: SimpleQueue[Callable[[], object]] = SimpleQueue()

    async def serve() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        ends.put(lambda: loop.call_soon_threadsafe(end.set))
        await serve_until(end, RemandServer(runner), listening, TOKEN)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        ends.get(timeout=PATIENCE)()
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive(), "the server did not end"


class User:
    """A user that answers every form in the same way."""

    def __init__(
        self, option: str = "", guidance: str = "", action: Literal["accept", "decline", "cancel"] = "accept"
    ):
        self._content = {"option": option, "guidance": guidance} if action == "accept" else None
        self._action = action
        self.forms: list[ElicitRequestParams] = []
        """What it was asked."""

    async def __call__(self, _: Any, asked: ElicitRequestParams) -> ElicitResult:
        """Answers a form."""
        self.forms.append(asked)
        return ElicitResult(action=self._action, content=self._content)
