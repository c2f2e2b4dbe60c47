"""The coordinator and the listener for the forge's webhooks, as `remand serve` runs them; and the commands that poll the forge once."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault, LedgerReplaced, RemandError
from remand.app.forge.poll import PollResult
from remand.app.forge.ports import ForgeFault
from remand.app.forge.sync import NO_FORGE, ForgeSync, SyncResult
from remand.config import inherited_environment
from remand.domain.access.agent_calls import require_outside_agent
from remand.domain.access.coordinator_start import ON, start_obstacle
from remand.domain.access.team import USER
from remand.domain.events.event import KnownBy
from remand.domain.text.words import format_count
from remand.interfaces.cli import main
from remand.interfaces.cli.context import CallOrigin, Context, argument, command
from remand.interfaces.cli.output import Result, one_line
from remand.interfaces.cli.registry import COMMANDS as COMMANDS_BY_NAME
from remand.interfaces.cli.registry import FORWARDED_VARIABLES, parse_call
from remand.wiring.coordinator import ask_status, make_coordinator
from remand.wiring.forges import SECRET, WebhookListener, forge_sync
from remand.wiring.ledger import background_start
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import find_socket, folders_of

SHOWN = 20
MAX_IDLE_SECONDS = 900.0
"""How long a coordinator that a command started waits for the next call."""


@command("sync", argument("--again", action="store_true", help="retry the forge actions that were given up"))
def _sync(context: Context) -> Result:
    synced = forge_sync(context.opened_ledger, inherited_environment()).sync(is_again=context.arguments.again)
    data: dict[str, Any] = msgspec.to_builtins(synced.polled)
    data |= {"imported": msgspec.to_builtins(synced.imported), "acted": msgspec.to_builtins(synced.acted)}
    text = "\n".join(filter(None, (render_poll(synced.polled), *_render_sync(synced))))
    if not synced.trouble:
        return Result(data, text)
    data |= {"error": "environment", "message": synced.trouble}
    return Result(data, text, code=main.ENVIRONMENT)


def _render_sync(synced: SyncResult) -> list[str]:
    """The actions taken on the forge, and those that failed."""
    acted = synced.acted
    rows = [
        f"  {action.task_id}: {action.text}{' (already so)' if action.is_found else ''}"
        for action in acted.done
    ]
    rows += [f"  {wait.task_id} waits for {wait.text}" for wait in acted.waits]
    rows += [f"  {issue.alias} is {issue.task_id}: {issue.title}" for issue in synced.imported.imported]
    if acted.trouble and acted.trouble != synced.polled.trouble:
        rows.append(f"Nothing could be done on the forge: {acted.trouble}")
    return rows


@command(
    "task import",
    argument("--label", default="", metavar="L", help="import the issues with this label"),
    argument("--dry-run", action="store_true", help="only show which issues would be imported"),
)
def _import(context: Context) -> Result:
    options = context.arguments
    sync = forge_sync(context.opened_ledger, inherited_environment())
    try:
        issue_import = sync.import_issues(options.label, is_dry=options.dry_run)
    except ForgeFault as fault:
        raise EnvironmentFault(str(fault)) from None
    verb = "would become" if options.dry_run else "is now"
    rows = [f"{issue.alias} {verb} {issue.task_id}: {issue.title}" for issue in issue_import.imported]
    rows += [f"{issue.alias} was skipped: {issue.why}" for issue in issue_import.skipped]
    rows.append(
        f"{len(issue_import.imported)} imported, {len(issue_import.known)} already known, {len(issue_import.skipped)} skipped"
    )
    return Result(msgspec.to_builtins(issue_import), "\n".join(rows))


def render_poll(polled: PollResult) -> str:
    """The result of a poll, in a few lines."""
    hope = "" if polled.trouble == NO_FORGE else " Nothing is lost: the next poll tries again."
    rows = [f"{polled.trouble}{hope}"] if polled.trouble else []
    if polled.requests or not polled.trouble:
        what = (
            f"{polled.rejections} rejected, {polled.approvals} approved, "
            f"{f'{polled.retractions} retracted, ' if polled.retractions else ''}"
            f"{format_count(polled.comments, 'comment')} added, {polled.noted} not counted"
        )
        requests = f"{format_count(polled.requests, 'request')}, {polled.not_modified} not modified"
        counts = f"{format_count(polled.polled, 'pull request')}, {polled.read} changed"
        rows.append(f"{counts}: {what}, {polled.ignored} by others ({requests})")
    waits = [f"  {review.task_id}: {review.text}" for review in polled.not_counted]
    waits += [f"  {wait.task_id} waits for {wait.text}" for wait in polled.waits]
    more = len(waits) - SHOWN
    return "\n".join([*rows, *waits[:SHOWN], *([f"  and {more} more"] if more > 0 else [])])


def serve_coordinator(context: Context) -> Result:
    """Runs the coordinator until it is told to stop."""
    if context.arguments.background:
        _require_background_start(context)
        background_start.detach()
    opened, max_idle = context.opened_ledger, MAX_IDLE_SECONDS if context.arguments.background else 0.0
    coordinator = make_coordinator(opened, lambda *call: run_forwarded_call(opened, *call), max_idle)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: coordinator.stop())
    if context.arguments.until_closed:
        threading.Thread(target=_wait_until_stdin_closes, args=(coordinator.stop,), daemon=True).start()
    context.write_line(f"Coordinator of {opened.place.root} (pid {os.getpid()}): {find_socket(opened.place)}")
    coordinator.serve()
    opened.store.close()
    return Result({"stopped": True}, "Stopped.")


def _require_background_start(context: Context) -> None:
    """Refuses to stay in the background if the environment forbids it. The ledger is not opened yet, because this process forks.

    The process that started it has checked the surroundings, with variables that were not passed on.
    """
    facts = background_start.collect_facts(
        inherited_environment(), context.place.got, actor="" if context.actor() == USER else context.actor()
    )
    why = start_obstacle(facts if facts.variable else replace(facts, variable=ON))
    if why:
        raise EnvironmentFault(f"No coordinator is started in the background: {why}.")


@command("coordinator status")
def _status(context: Context) -> Result:
    data, text = describe_coordinator(context)
    return Result(data, f"The coordinator is {text}.")


def describe_coordinator(context: Context) -> tuple[dict[str, Any], str]:
    """Whether a coordinator is running, since when and which version, or why none is started:

    as data, and in a few words.
    """
    folders = folders_of(context.place)
    status, data = ask_status(folders.socket), {"socket": folders.socket}
    if status is not None:
        until = ", until nobody calls for 15 minutes" if status.ends_when_idle else ""
        text = f"running since {status.since}{until} (pid {status.pid}, version {status.version})"
        return {"running": True, **data, **msgspec.to_builtins(status)}, f"{text} at {folders.socket}"
    why, failure = (
        start_obstacle(context.start_facts()),
        background_start.last_failure(folders.coordinator_log),
    )
    text = f"not running, and none is started: {why}" if why else "not running; your next command starts one"
    return (
        {"running": False, **data, "obstacle": why or None, "failure": failure or None},
        f"{text}; the last one failed: {one_line(failure, 300)}" if failure else text,
    )


@command("coordinator stop")
def _stop(context: Context) -> Result:
    require_outside_agent("coordinator stop", is_confined=context.is_confined)
    is_stopped, pid = background_start.stop_coordinator(folders_of(context.place).socket)
    text = f"The coordinator{f' (pid {pid})' if pid else ''} has ended."
    return Result({"stopped": is_stopped, "pid": pid or None}, text if is_stopped else "No coordinator runs.")


def _wait_until_stdin_closes(stop: Callable[[], None]) -> None:
    """Blocks until standard input is closed."""
    while os.read(0, 4096):
        pass
    stop()


def serve_webhooks(context: Context) -> Result:
    """Polls the forge at its interval, and at once when a webhook reports a change."""
    polling = _ForgePoller(context)
    woken: SimpleQueue[int] = SimpleQueue()
    options = context.arguments
    settings = polling.forge.settings
    listener = WebhookListener(
        options.host,
        options.port,
        kind=settings.kind,
        repository=settings.repository,
        secret=inherited_environment().get(SECRET, ""),
        wake=woken.put,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    listener.start()
    context.start_coordinator_if_missing()
    context.write_line(f"Webhooks at {listener.address} (pid {os.getpid()})")
    with suppress(KeyboardInterrupt):
        # Whatever it is doing, it ends at once: what was not imported yet is there for the next poll.
        only: set[int] = set()
        while True:
            polling.poll(only)
            only = _next_pull_requests(woken, polling.seconds)
    listener.stop()
    return Result({"stopped": True}, "Stopped.")


class _ForgePoller:
    """Polls repeatedly, despite failures, with the ledger that currently exists."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._trouble = ""
        self.seconds = self.forge.settings.interval_seconds

    @property
    def forge(self) -> ForgeSync:
        return forge_sync(self._context.gateway.current_ledger(), inherited_environment())

    def poll(self, only: set[int]) -> None:
        """Polls once, and prints the result; a persistent fault is printed once."""
        try:
            forge = self.forge
            polled = forge.sync(only).polled
            self.seconds = forge.settings.interval_seconds
        except (RemandError, OSError) as error:
            polled = PollResult(trouble=str(error))
        is_new_trouble = bool(polled.trouble) and polled.trouble != self._trouble
        if polled.rejections or polled.approvals or polled.comments or polled.noted or is_new_trouble:
            self._context.write_line(render_poll(polled))
        self._trouble = polled.trouble


def _next_pull_requests(woken: SimpleQueue[int], seconds: float) -> set[int]:
    """The pull requests to read next: those that webhooks named; none, which means all, after the interval."""
    try:
        first = woken.get(timeout=seconds)
    except Empty:
        return set()
    return {first, *(woken.get_nowait() for _ in range(woken.qsize()))}


def run_forwarded_call(
    opened: OpenLedger, folder: str, settings: list[str], arguments: list[str]
) -> tuple[int, bytes, bytes]:
    """Runs a call that another process sent to the coordinator; raises only `LedgerReplaced`."""
    call = parse_call(arguments)
    entry = COMMANDS_BY_NAME.get(call.command)
    if entry is None or not entry.may_be_forwarded or not call.is_self_contained:
        return main.USAGE, b"", b"remand: this command is not run by a coordinator.\n"
    environment = dict(zip(FORWARDED_VARIABLES, settings, strict=False))
    is_terminal, width, *known_by = settings[len(FORWARDED_VARIABLES) :]
    out, err = io.StringIO(), io.StringIO()
    origin = CallOrigin(
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
        code = main.run(arguments, origin)
    except LedgerReplaced:
        raise
    except Exception as error:  # noqa: BLE001 - one client's call must not end the others' coordinator
        code = main.ENVIRONMENT
        err.write(f"remand: the coordinator failed: {type(error).__name__}: {error}\n")
    return (
        code,
        out.getvalue().encode("utf-8", "surrogateescape"),
        err.getvalue().encode("utf-8", "surrogateescape"),
    )
