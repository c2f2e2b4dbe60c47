"""The scheduler: gives tasks to agents, starts them, and watches over them."""

from __future__ import annotations

import os
import signal
from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from remand.app.scheduling.loop import Loop
from remand.app.scheduling.ports import Doors
from remand.app.scheduling.staff import workers
from remand.bootstrap.scheduling import Making, Shift
from remand.domain.refusals import Refused
from remand.domain.rules import require_trusted_key
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.keeper import Bring, LookAt, doors_of
from remand.interfaces.cli.output import Result, clean
from remand.interfaces.cli.top import follow, is_watched, show

ENVIRONMENT = 3
"""The exit code of a single round that something is wrong with the system for."""
NOBODY = (
    "No member of the team has a command, so nobody is started. Give some one in remand.toml: command = […]."
)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--once", action="store_true", help="begin what can be begun now, see it to its end, and stop"
    )
    parser.add_argument(
        "--plain", action="store_true", help="lines instead of the live view, on a terminal too"
    )


def _run(context: Context) -> Result:
    if context.is_confined:
        raise Refused("user_only", "Agents are not started from an agent's place.")
    opened, arguments = context.opened, context.arguments
    require_trusted_key(opened.settings.rules().untrusted(opened.ledger.keys.made()), is_confined=True)
    root, is_live = opened.place.root, is_watched(context) and not arguments.plain
    shift = Making(opened, partial(_doors, root)).make(lambda text: None if is_live else _say(context, text))
    try:
        with _signals(shift):
            _say(context, _introduced(root, shift))
            if not workers(opened.settings.rules().team):
                _say(context, NOBODY)
            _go(context, shift, is_live=is_live)
    finally:
        shift.close()
    kept = shift.loop.kept_from
    told = f"Stopped. Nothing more could be begun: {clean(kept)}." if kept else "Stopped."
    code = ENVIRONMENT if arguments.once and shift.loop.is_broken else 0
    return Result({"stopped": True, "tier": shift.crew.tier, "waiting": kept or None}, told, code=code)


def _doors(root: str, bring: Bring, look: LookAt) -> Doors:
    return doors_of(root, bring=bring, look=look)


def _go(context: Context, shift: Shift, *, is_live: bool) -> None:
    """Goes round in a thread; this one shows what happens, on a ledger that it opens for itself."""
    going = _Going(shift.loop, once=context.arguments.once)
    try:
        if is_live:
            going.start()
            show(context, going.is_over)
        elif context.call.is_json:
            going.start()
            going.wait()
        else:
            follow(context, going.is_over, going.start)
    finally:
        shift.loop.stop()
        going.wait()


class _Going:
    """A scheduler that goes round in a thread of its own."""

    def __init__(self, loop: Loop, *, once: bool) -> None:
        self._loop = loop
        self._once = once
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="scheduler")
        self._future: Future[None] | None = None

    def start(self) -> None:
        """Begins."""
        self._future = self._pool.submit(self._loop.run, once=self._once)

    def is_over(self) -> bool:
        """True when it goes round no more."""
        return self._future is None or self._future.done()

    def wait(self) -> None:
        """Waits for its end; what went wrong is raised here."""
        if self._future is not None:
            self._future.result()


@contextmanager
def _signals(shift: Shift) -> Iterator[None]:
    """Ends in order when asked to; asked twice, at once: agents end with their scheduler."""

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        shift.loop.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _introduced(root: str, shift: Shift) -> str:
    held = f"agents run in {shift.crew.tier} (tier 1)"
    if shift.crew.detail:
        held = f"agents are not confined (tier 0): {shift.crew.detail.rstrip('.')}"
    return f"Scheduler of {root} (pid {os.getpid()}): {held}."


def _say(context: Context, text: str) -> None:
    if not context.call.is_json:
        context.surroundings.stdout.write(f"{clean(text)}\n")
        context.surroundings.stdout.flush()


COMMANDS = {"run": Command(_arguments, _run)}
