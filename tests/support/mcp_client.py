"""The official MCP client at a server of ours in the same process: every message passes as the JSON it would be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from remand.interfaces.mcp.protocol import ClientConnection, McpHandler, encode


@asynccontextmanager
async def in_memory(server: McpHandler) -> AsyncIterator[Any]:
    """A transport for `Client`: the streams of a connection."""
    sent: asyncio.Queue[Any] = asyncio.Queue()
    connection = ClientConnection(server)
    async with create_client_server_memory_streams() as (streams, (inbound, outbound)):

        async def receive() -> None:
            async for item in inbound:
                assert isinstance(item, SessionMessage)
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                connection.receive(text.encode(), sent.put_nowait)

        async def send() -> None:
            while True:
                message = jsonrpc_message_adapter.validate_json(encode(await sent.get()), by_name=False)
                await outbound.send(SessionMessage(message))

        pumps = [asyncio.create_task(receive()), asyncio.create_task(send())]
        try:
            yield streams
        finally:
            connection.close()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
