"""Running the server over standard input and output, until its client or a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal

from remand.interfaces.mcp.desk import CommandLine
from remand.interfaces.mcp.server import RemandServer


def over_stdio(desk: CommandLine) -> None:
    """Serves the one client that has started this process. Nothing but the protocol is written."""
    asyncio.run(_over_stdio(desk))


async def _over_stdio(desk: CommandLine) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _leave, desk)
    try:
        await RemandServer(desk).run_stdio_async()
    except* OSError:
        pass  # the client has gone in the middle of a word
    finally:
        await desk.close()


def _leave(desk: CommandLine) -> None:
    """Ends at once: a thread that waits for input can be ended in no other way."""
    desk.stop()
    os._exit(0)
