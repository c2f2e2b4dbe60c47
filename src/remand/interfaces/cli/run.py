"""`remand run`, the scheduler in the foreground; `remand worker`, which processes a team's jobs; `remand top`, the live view."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial

import msgspec

from remand.app.board import RECENT, Board
from remand.app.errors import EnvironmentFault, LedgerReplaced, RemandError, UsageError
from remand.app.gates.jobs import DEAD_SECONDS, WorkerTerms
from remand.app.history.activity import ActivityEntry
from remand.app.inbox.decisions import command_for_answer
from remand.app.inbox.questions import Question
from remand.app.scheduler.ports import SchedulerStatus
from remand.app.scheduler.scheduler import SchedulerHandle
from remand.app.tasks.queue import startable_workers
from remand.config import inherited_environment
from remand.config.gates import parse_labels
from remand.config.values import ConfigError
from remand.domain.access.agent_calls import require_outside_agent
from remand.domain.instant import Instant
from remand.domain.preconditions import require_trusted_key
from remand.domain.refusals import Refused
from remand.interfaces.cli.agent_socket.server import make_host_sockets, make_sockets
from remand.interfaces.cli.context import Context, argument, command, require_no_password, split_commas
from remand.interfaces.cli.output import Result, as_json, clean
from remand.interfaces.cli.registry import CommandCall
from remand.interfaces.cli.tasks.inbox import give_answer
from remand.interfaces.cli.terminal import view
from remand.interfaces.cli.terminal.screen import activity_line, plain_line, render_plain, status_lines
from remand.ledger.problems import BadLine
from remand.wiring import gates, startup
from remand.wiring.ledger import open_at
from remand.wiring.scheduler import (
    build_host_scheduler,
    build_scheduler,
    make_handlers,
    make_watch,
    worker_chores,
)

_POLL_SECONDS = 0.2
_THOROUGH_SECONDS = 2.0
ANSWERS_CONFINED = "This is an agent's environment: only the user may answer, and not from here."


class LedgerBoard:
    """The ledger as the live view sees it, and the way for the user's answers.

    It opens the ledger for itself, so that nobody waits for a viewer.
    """

    def __init__(self, context: Context, recent: int = 0) -> None:
        self._context = context
        self._answered = 0
        self._scheduler: SchedulerStatus | None = None
        self._open(recent)
        self.name = os.path.basename(context.place.root)
        self.why_not = ANSWERS_CONFINED if context.is_confined else ""

    def _open(self, recent: int = 0) -> None:
        context = self._context
        call = CommandCall(
            context.call.command,
            context.call.rest,
            folder=context.call.folder,
            actor=context.call.actor,
            key=f"{context.call.key}.top" if context.call.key else "",
        )
        self._own = Context(call, Namespace(), context.origin)
        self._watch = make_watch(self._own.opened_ledger, recent)
        self._thorough_at = time.monotonic()

    def _open_again(self) -> None:
        """Continues with the ledger that replaced the previous one."""
        ledger = self._own.opened_ledger
        self._open()
        ledger.close()

    def now(self) -> Instant:
        return self._watch.now()

    def has_changed(self) -> bool:
        return self._watch.has_changed()

    def read_board(self, focus: str, *, is_thorough: bool = False) -> Board:
        try:
            return self._watch.board(focus, is_thorough=is_thorough)
        except LedgerReplaced:
            self._open_again()
            return self._watch.board(focus)

    def news(self) -> tuple[tuple[ActivityEntry, ...], tuple[str, ...]]:
        """Events since the last call, and new states of the scheduler."""
        try:
            if time.monotonic() - self._thorough_at >= _THOROUGH_SECONDS:
                self._own.opened_ledger.ledger.refresh()
                self._thorough_at = time.monotonic()
            if not self._watch.has_changed():
                return (), ()
            happened = self._watch.news()
        except LedgerReplaced:
            self._open_again()
            happened = self._watch.news()
        before, self._scheduler = self._scheduler, self._watch.scheduler()
        return happened, tuple(status_lines(before, self._scheduler))

    def answer(self, question: Question, option: str, guidance: str) -> str:
        """Answers as `remand inbox answer` does."""
        self._answered += 1
        try:
            ask = command_for_answer(question, option, guidance)
            return give_answer(self._own, ask, option, step=self._answered)
        except Refused as refusal:
            return f"refused ({refusal.code}): {refusal.message}"
        except (RemandError, OSError) as error:
            return str(error)


def is_interactive(context: Context) -> bool:
    """True if a user sits at a terminal that supports drawing and input."""
    around = context.origin
    if around.opened is not None or context.call.is_json or not (around.is_terminal and sys.stdin.isatty()):
        return False
    kind = inherited_environment().get("TERM", "")
    encoding = (around.stdout.encoding or "").lower().replace("-", "")
    return kind not in ("", "dumb", "unknown") and encoding == "utf8"


def show_live(context: Context, stop: Callable[[], bool] = lambda: False) -> view.ExitReason:
    """Shows the live view on this process's terminal until the user quits or `stop` returns true."""
    terminal = view.Terminal(
        keyboard=sys.stdin.fileno(), write=context.origin.stdout, environment=inherited_environment()
    )
    return view.show_view(LedgerBoard(context), terminal, stop)


def follow_events(
    context: Context,
    stop: Callable[[], bool] = lambda: False,
    ready: Callable[[], None] = lambda: None,
    recent: int = 0,
) -> None:
    """Writes what happens, a line each, until `stop` says so. With `--json` each line is a document.

    Whatever happens once `ready` was called is written, up to what had happened when `stop` said so.
    """
    source, fault = LedgerBoard(context, recent), ""
    _write_events(context, *source.news())
    ready()
    while True:
        is_over = stop()
        try:
            _write_events(context, *source.news())
            fault = ""
        except (RemandError, BadLine) as error:
            is_new, fault = str(error) != fault, str(error)
            _write_events(context, (), [plain_line(source.now(), "ledger", fault)] if is_new else ())
        if is_over:
            return
        time.sleep(_POLL_SECONDS)


def _write_events(context: Context, happened: Iterable[ActivityEntry], more: Iterable[str]) -> None:
    """Writes the events; additional lines are only for people."""
    if context.call.is_json:
        output = [as_json(msgspec.to_builtins(one)) for one in happened]
    else:
        output = [*map(activity_line, happened), *more]
    context.origin.stdout.write("".join(f"{line}\n" for line in output))
    context.origin.stdout.flush()


@command("top", argument("--follow", action="store_true", help="print events as plain lines"))
def _top(context: Context) -> Result:
    if context.arguments.follow:
        with suppress(KeyboardInterrupt):
            follow_events(context, recent=RECENT)
        return Result({"ended": "interrupted"}, "")
    if is_interactive(context):
        ending = show_live(context)
        return Result({"ended": ending.value}, "")
    source = LedgerBoard(context)
    board = source.read_board("")
    return Result(msgspec.to_builtins(board), render_plain(board, source.name, may_answer=not source.why_not))


EXIT_ENVIRONMENT = 3
"""The exit code of a single round if something is wrong with the system."""
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
    environment = inherited_environment()
    if environment.get("REMAND_SERVER"):
        return _run_on_host(context, environment)
    opened, arguments = context.opened_ledger, context.arguments
    require_trusted_key(
        opened.settings.rules().untrusted_key_id(opened.ledger.keys.ensure_key()), is_confined=True
    )
    root, is_live = opened.place.root, is_interactive(context) and not arguments.plain
    handle = build_scheduler(
        opened,
        partial(make_sockets, root, environment=opened.process_environment),
        lambda text: None if is_live else context.write_line(text),
    )
    scheduler, launcher = handle.scheduler, handle.launcher
    confinement = f"agents run in {launcher.tier} (tier 1)"
    if launcher.detail:
        confinement = f"agents are not confined (tier 0): {launcher.detail.rstrip('.')}"
    try:
        with _stop_signals(scheduler.stop):
            context.write_line(f"Scheduler of {root} (pid {os.getpid()}): {confinement}.")
            if not startable_workers(opened.settings.rules().team):
                context.write_line(NO_COMMANDS)
            _run_and_show(context, handle, is_live=is_live)
    finally:
        handle.close()
    reason = scheduler.blocked_reason
    text = f"Stopped. No more runs could start: {clean(reason)}." if reason else "Stopped."
    code = EXIT_ENVIRONMENT if arguments.once and scheduler.is_broken else 0
    return Result({"stopped": True, "tier": launcher.tier, "waiting": reason or None}, text, code=code)


def _run_on_host(context: Context, environment: Mapping[str, str]) -> Result:
    """Starts this host's members on tasks of a server's ledger."""
    try:
        server = startup.server.ServerClient(environment)
    except startup.server.UnusableServer as fault:
        raise EnvironmentFault(str(fault)) from None
    place = context.place
    place.server_ledger = server.address.ledger_id
    handle = build_host_scheduler(
        server, place, partial(make_host_sockets, place, environment), context.write_line
    )
    scheduler, launcher = handle.scheduler, handle.launcher
    try:
        with _stop_signals(scheduler.stop):
            context.write_line(f"Scheduler for {server.address.url} (pid {os.getpid()}): {launcher.tier}.")
            scheduler.run(handle.chores, once=context.arguments.once)
    finally:
        handle.close()
    reason = scheduler.blocked_reason
    code = EXIT_ENVIRONMENT if context.arguments.once and scheduler.is_broken else 0
    return Result({"stopped": True, "tier": launcher.tier, "waiting": reason or None}, "Stopped.", code=code)


def _run_and_show(context: Context, handle: SchedulerHandle, *, is_live: bool) -> None:
    """Runs the scheduler in a thread; this one shows what happens, on a ledger that it opens for itself."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="scheduler")
    running: list[Future[None]] = []

    def start() -> None:
        running.append(pool.submit(handle.scheduler.run, handle.chores, once=context.arguments.once))

    def is_over() -> bool:
        return all(future.done() for future in running)

    try:
        if is_live:
            start()
            show_live(context, is_over)
        elif context.call.is_json:
            start()
            wait(running)
        else:
            follow_events(context, is_over, start)
    finally:
        handle.scheduler.stop()
        for future in running:
            future.result()  # raises what went wrong


@contextmanager
def _stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stops cleanly when asked to, and immediately when asked twice: agents and gates end with their process."""

    def handle(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@command(
    "worker",
    argument(
        "--labels",
        type=split_commas,
        default=(),
        metavar="a,b",
        help="the labels of this host, as gates name them: linux,node22",
    ),
    argument("--once", action="store_true", help="process the waiting jobs, and exit"),
    argument(
        "--dead",
        type=float,
        default=DEAD_SECONDS,
        metavar="SECONDS",
        help="after this many seconds without a heartbeat a worker counts as dead, and another gets its job; 30 by default",
    ),
    argument("--store", metavar="URL", help="the team's ledger: postgresql://…; by default $REMAND_STORE"),
)
def _work(context: Context) -> Result:
    require_outside_agent("worker", is_confined=context.is_confined)
    options, place, stop = context.arguments, context.place, threading.Event()
    require_no_password(options.store or "", "--store")
    try:
        labels = parse_labels(tuple(options.labels), "`--labels`")
    except ConfigError as error:
        raise UsageError(str(error)) from None
    store = _require_team_store(options.store or inherited_environment().get("REMAND_STORE", ""))
    opened = open_at(place, store_url=store)
    key = opened.ledger.keys.ensure_key()
    require_trusted_key(opened.settings.rules().untrusted_key_id(key), is_confined=True)
    queue = gates.job_queue(opened, max(options.dead, 1.0))
    terms = WorkerTerms(
        make_handlers(opened, queue, context.write_line, labels),
        stop,
        labels,
        worker_chores(lambda: open_at(place, store_url=store)),
        is_once=options.once,
        report=context.write_line,
    )
    with _stop_signals(stop.set):
        named = f"labels {', '.join(labels)}" if labels else "no labels"
        context.write_line(f"Worker of {place.root} (pid {os.getpid()}): key {key.id}, {named}.")
        queue.work(terms)
    return Result({"stopped": True, "key": key.id, "labels": list(labels)}, "Stopped.")


def _require_team_store(url: str) -> str:
    """The address of the team's database; a ledger file has no jobs for workers."""
    if url in ("", "sqlite"):
        raise UsageError(
            "A worker needs the team's database: set REMAND_STORE, or give --store, as postgresql://USER@HOST/NAME. With "
            "the ledger in the repository there is no worker: whoever submits runs the gates."
        )
    return url
