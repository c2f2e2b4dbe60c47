"""Carries connections of a network namespace to a Unix socket: `relay.py ADDRESS PORT SOCKET`. It prints a line once it listens."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress


async def main(address: str, port: int, path: str) -> None:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_unix_connection(path)
        ways = (pump(reader, back_writer), pump(back_reader, writer))
        await asyncio.gather(*ways)

    server = await asyncio.start_server(carry, address, port)
    print("listening", flush=True)
    await server.serve_forever()


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await source.read(1 << 16):
            target.write(part)
            await target.drain()
    target.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
