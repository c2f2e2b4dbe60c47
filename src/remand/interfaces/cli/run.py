"""`remand run`: the scheduler in the foreground."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from remand.app.scheduler.loop import SchedulerLoop
from remand.app.scheduler.ports import AgentSockets
from remand.app.tasks.staff import startable_workers
from remand.domain.access.agent_calls import require_outside_agent
from remand.domain.preconditions import require_trusted_key
from remand.interfaces.cli.agent_socket.server import ImportCommits, LookAt, make_sockets
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, clean
from remand.interfaces.cli.top import follow_events, is_interactive, show_live
from remand.wiring.scheduler import SchedulerBuilder, SchedulerHandle

EXIT_ENVIRONMENT = 3
"""The exit code of a single round that something is wrong with the system for."""
NO_COMMANDS = "No member of the team has a command, so no agent can be started. Add `command = […]` to at least one member in remand.toml."


@command(
    "run",
    argument(
        "--once", action="store_true", help="start the runs that can start now, wait until they end, and exit"
    ),
    argument("--plain", action="store_true", help="print lines instead of the live view, even on a terminal"),
)
def _run(context: Context) -> Result:
    require_outside_agent("run", is_confined=context.is_confined)
    opened, arguments = context.opened_ledger, context.arguments
    require_trusted_key(
        opened.settings.rules().untrusted_key_id(opened.ledger.keys.ensure_key()), is_confined=True
    )
    root, is_live = opened.place.root, is_interactive(context) and not arguments.plain
    shift = SchedulerBuilder(opened, partial(_make_sockets, root)).build(
        lambda text: None if is_live else _write_line(context, text)
    )
    try:
        with _signals(shift):
            _write_line(context, _introduction(root, shift))
            if not startable_workers(opened.settings.rules().team):
                _write_line(context, NO_COMMANDS)
            _run_and_show(context, shift, is_live=is_live)
    finally:
        shift.close()
    kept = shift.loop.blocked_reason
    told = f"Stopped. No more runs could start: {clean(kept)}." if kept else "Stopped."
    code = EXIT_ENVIRONMENT if arguments.once and shift.loop.is_broken else 0
    return Result({"stopped": True, "tier": shift.crew.tier, "waiting": kept or None}, told, code=code)


def _make_sockets(root: str, bring: ImportCommits, look: LookAt) -> AgentSockets:
    return make_sockets(root, bring=bring, look=look)


def _run_and_show(context: Context, shift: SchedulerHandle, *, is_live: bool) -> None:
    """Goes round in a thread; this one shows what happens, on a ledger that it opens for itself."""
    going = _SchedulerThread(shift.loop, once=context.arguments.once)
    try:
        if is_live:
            going.start()
            show_live(context, going.is_over)
        elif context.call.is_json:
            going.start()
            going.wait()
        else:
            follow_events(context, going.is_over, going.start)
    finally:
        shift.loop.stop()
        going.wait()


class _SchedulerThread:
    """A scheduler that goes round in a thread of its own."""

    def __init__(self, loop: SchedulerLoop, *, once: bool) -> None:
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
def _signals(shift: SchedulerHandle) -> Iterator[None]:
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


def _introduction(root: str, shift: SchedulerHandle) -> str:
    held = f"agents run in {shift.crew.tier} (tier 1)"
    if shift.crew.detail:
        held = f"agents are not confined (tier 0): {shift.crew.detail.rstrip('.')}"
    return f"Scheduler of {root} (pid {os.getpid()}): {held}."


def _write_line(context: Context, text: str) -> None:
    if not context.call.is_json:
        context.surroundings.stdout.write(f"{clean(text)}\n")
        context.surroundings.stdout.flush()
