"""`remand top`: the live view, the board once, or one line for each event."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from remand.app.board import RECENT, Board
from remand.app.errors import LedgerReplaced, RemandError
from remand.app.history.activity import ActivityEntry
from remand.app.inbox.decisions import command_for_answer
from remand.app.inbox.questions import Question
from remand.app.scheduler.status import SchedulerStatus
from remand.config import inherited_environment
from remand.domain.instant import Instant
from remand.domain.refusals import Refused
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, as_json
from remand.interfaces.cli.registry import CommandCall
from remand.interfaces.cli.tasks.inbox import give_answer
from remand.interfaces.terminal import view
from remand.interfaces.terminal.screen import happening_line, plain_line, render_plain, status_lines
from remand.ledger.problems import BadLine
from remand.wiring.scheduler import make_watch

_POLL_SECONDS = 0.2
_THOROUGH_SECONDS = 2.0
ANSWERS_CONFINED = "This is an agent's environment: only the user may answer, and not from here."


class LedgerBoard:
    """A ledger as the live view looks at it, and the user's answers on their way to it.

    It opens the ledger for itself, so that nobody waits for whoever looks.
    """

    def __init__(self, context: Context, recent: int = 0) -> None:
        self._context = context
        self._answered = 0
        self._scheduler: SchedulerStatus | None = None
        self._open(recent)
        self.name = os.path.basename(context.place.root)
        self.why_not = ANSWERS_CONFINED if context.is_confined else ""

    def _open(self, recent: int = 0) -> None:
        given = self._context
        call = CommandCall(
            given.call.command,
            given.call.rest,
            folder=given.call.folder,
            actor=given.call.actor,
            key=f"{given.call.key}.top" if given.call.key else "",
        )
        self._own = Context(call, Namespace(), given.origin)
        self._watch = make_watch(self._own.opened_ledger, recent)
        self._thorough_at = time.monotonic()

    def _open_again(self) -> None:
        """Goes on with the ledger that is in the place of the one that was there."""
        gone = self._own.opened_ledger
        self._open()
        gone.store.close()
        gone.ledger.close()

    def now(self) -> Instant:
        return self._watch.now()

    def has_changed(self) -> bool:
        """True when something has changed since it was last looked at."""
        return self._watch.has_changed()

    def read_board(self, focus: str, *, is_thorough: bool = False) -> Board:
        try:
            return self._watch.board(focus, is_thorough=is_thorough)
        except LedgerReplaced:
            self._open_again()
            return self._watch.board(focus)

    def news(self) -> tuple[tuple[ActivityEntry, ...], tuple[str, ...]]:
        """What has happened since it was last asked, and what the scheduler says of itself that is new."""
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
    """True when somebody sits at a terminal that can be drawn on and typed at."""
    around = context.origin
    if around.opened is not None or context.call.is_json or not (around.is_terminal and sys.stdin.isatty()):
        return False
    kind = inherited_environment().get("TERM", "")
    encoding = (around.stdout.encoding or "").lower().replace("-", "")
    return kind not in ("", "dumb", "unknown") and encoding == "utf8"


def show_live(context: Context, stop: Callable[[], bool] = lambda: False) -> view.ExitReason:
    """Shows the live view on this process's terminal until somebody leaves it or `stop` says so."""
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
    """Writes what has happened; more than that is for people alone."""
    if context.call.is_json:
        output = [as_json(msgspec.to_builtins(one)) for one in happened]
    else:
        output = [*map(happening_line, happened), *more]
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
