"""The resident coordinator."""

from __future__ import annotations

import io
import os
import signal
import threading
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from remand.app.errors import LedgerReplaced, RemandError, UsageError
from remand.app.forges.polling import Polled
from remand.bootstrap.coordinator import make_coordinator
from remand.bootstrap.forges import PATH, Forges, still_open
from remand.bootstrap.ledger import Opened
from remand.bootstrap.quick import find_socket
from remand.config import inherited_environment
from remand.domain.event import KnownBy
from remand.interfaces.cli import main
from remand.interfaces.cli.arguments import split
from remand.interfaces.cli.context import Command, Context, Surroundings
from remand.interfaces.cli.entry import ENVIRONMENT
from remand.interfaces.cli.forge import told
from remand.interfaces.cli.output import Result, clean
from remand.interfaces.cli.registry import COMMANDS as COMMANDS_BY_NAME


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--no-http", action="store_true", help="the coordinator's socket alone")
    parser.add_argument(
        "--until-closed", action="store_true", help="stop when standard input is closed, as a scheduler's own"
    )
    parser.add_argument(
        "--webhooks", action="store_true", help="listen for the forge's webhooks, and poll it"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where webhooks are listened for")
    parser.add_argument("--port", type=int, default=8787)


def _serve(context: Context) -> Result:
    if context.arguments.webhooks:
        return _serve_webhooks(context)
    if not context.arguments.no_http:
        raise UsageError(
            "This version has no HTTP interface yet. Use `remand serve --no-http` for the coordinator, "
            "or `remand serve --webhooks` for the forge's webhooks."
        )
    opened = context.opened
    coordinator = make_coordinator(opened, lambda *call: _called(opened, *call))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: coordinator.stop())
    if context.arguments.until_closed:
        threading.Thread(target=_wait_for_the_end, args=(coordinator.stop,), daemon=True).start()
    _say(context, f"Coordinator of {opened.place.root} (pid {os.getpid()}): {find_socket(opened.place)}")
    coordinator.serve()
    opened.store.close()
    return Result({"stopped": True}, "Stopped.")


def _wait_for_the_end(stop: Callable[[], None]) -> None:
    """Reads what nobody writes, until nobody can any more."""
    while os.read(0, 4096):
        pass
    stop()


def _serve_webhooks(context: Context) -> Result:
    """Polls the forge at its interval, and at once when a webhook says that something has changed."""
    polling = _Polling(context)
    woken: SimpleQueue[int] = SimpleQueue()
    listener = polling.forges.listener(context.arguments.host, context.arguments.port, woken.put)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    listener.start()
    _say(context, f"Webhooks at http://{context.arguments.host}:{listener.port}{PATH} (pid {os.getpid()})")
    with suppress(KeyboardInterrupt):
        # Whatever it is doing, it ends at once: what was not taken in yet is there for the next poll.
        only: set[int] = set()
        while True:
            polling.poll(only)
            only = _next(woken, polling.seconds)
    listener.stop()
    return Result({"stopped": True}, "Stopped.")


class _Polling:
    """Polls again and again, through whatever goes wrong, on the ledger that is there now."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._opened = context.opened
        self._trouble = ""
        self.seconds = self.forges.settings.interval_seconds

    @property
    def forges(self) -> Forges:
        """The forge of the ledger."""
        return Forges(self._opened, inherited_environment())

    def poll(self, only: set[int]) -> None:
        """Polls once, and says what came of it; trouble that goes on is said once."""
        try:
            self._opened = still_open(self._opened)
            polled = self.forges.sync(only).polled
            self.seconds = self.forges.settings.interval_seconds
        except (RemandError, OSError) as error:
            polled = Polled(trouble=str(error))
        is_new_trouble = bool(polled.trouble) and polled.trouble != self._trouble
        if polled.rejections or polled.approvals or polled.comments or polled.noted or is_new_trouble:
            _say(self._context, clean(told(polled)))
        self._trouble = polled.trouble


def _next(woken: SimpleQueue[int], seconds: float) -> set[int]:
    """The pull requests to look at next: those that webhooks named; none, which means all, after the interval."""
    try:
        first = woken.get(timeout=seconds)
    except Empty:
        return set()
    return {first, *(woken.get_nowait() for _ in range(woken.qsize()))}


def _say(context: Context, text: str) -> None:
    if not context.call.is_json:
        context.surroundings.stdout.write(f"{text}\n")
        context.surroundings.stdout.flush()


def _called(
    opened: Opened, folder: str, settings: list[str], arguments: list[str]
) -> tuple[int, bytes, bytes]:
    """Runs a forwarded call of the command line in this process."""
    call = split(arguments)
    entry = COMMANDS_BY_NAME.get(call.command)
    if entry is None or not entry.may_be_forwarded or not call.is_self_contained:
        return main.USAGE, b"", b"remand: this command is not run by a coordinator.\n"
    environment = dict(zip(ENVIRONMENT, settings, strict=False))
    is_terminal, width, *known_by = settings[len(ENVIRONMENT) :]
    out, err = io.StringIO(), io.StringIO()
    surroundings = Surroundings(
        folder=folder,
        environment=environment,
        stdout=out,
        stderr=err,
        is_terminal=bool(is_terminal),
        width=int(width or 0),
        opened=opened,
        known_by=KnownBy.SOCKET if known_by == [KnownBy.SOCKET] else KnownBy.WORD,
    )
    opened.store.require_same_file()
    try:
        code = main.run(arguments, surroundings)
    except LedgerReplaced:
        raise
    except Exception as error:  # noqa: BLE001 - one client's call must not end the others' coordinator
        code = main.ENVIRONMENT
        err.write(f"remand: the coordinator could not do this: {type(error).__name__}: {error}\n")
    return (
        code,
        out.getvalue().encode("utf-8", "surrogateescape"),
        err.getvalue().encode("utf-8", "surrogateescape"),
    )


COMMANDS = {"serve": Command(_arguments, _serve)}
