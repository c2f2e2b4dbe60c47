"""The live view of the whole team, or the board once, or what happens line by line."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from remand.app.board import RECENT, Board
from remand.app.decisions import answering
from remand.app.errors import LedgerReplaced, RemandError
from remand.app.escalations import Question
from remand.app.happenings import Happening
from remand.app.scheduling.status import SchedulerStatus
from remand.bootstrap.watching import LedgerWatch
from remand.config import inherited_environment
from remand.domain.instant import Instant
from remand.domain.refusals import Refused
from remand.interfaces.cli.arguments import Call
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.inbox import carry_out
from remand.interfaces.cli.output import Result, as_json
from remand.interfaces.live import lines, showing
from remand.interfaces.live.plain import plain
from remand.ledger.problems import BadLine

_POLL_SECONDS = 0.2
_THOROUGH_SECONDS = 2.0
CONFINED = "This is an agent's place: only the user answers, and not from here."


class ContextDesk:
    """A ledger as the live view looks at it, and the user's answers on their way to it.

    It opens the ledger for itself, so that nobody waits for whoever looks.
    """

    def __init__(self, context: Context, recent: int = 0) -> None:
        self._context = context
        self._answered = 0
        self._scheduler: SchedulerStatus | None = None
        self._open(recent)
        self.name = os.path.basename(context.place.root)
        self.why_not = CONFINED if context.is_confined else ""

    def _open(self, recent: int = 0) -> None:
        given = self._context
        call = Call(
            given.call.command,
            given.call.rest,
            folder=given.call.folder,
            actor=given.call.actor,
            key=f"{given.call.key}.top" if given.call.key else "",
        )
        self._own = Context(call, Namespace(), given.surroundings)
        self._watch = LedgerWatch(self._own.opened, recent)
        self._thorough_at = time.monotonic()

    def _open_again(self) -> None:
        """Goes on with the ledger that is in the place of the one that was there."""
        gone = self._own.opened
        self._open()
        gone.store.close()
        gone.ledger.exchange.close()
        gone.ledger.marks.close()

    def now(self) -> Instant:
        """What time it is."""
        return self._watch.now()

    def has_changed(self) -> bool:
        """True when something has changed since it was last looked at."""
        return self._watch.has_changed()

    def look(self, focus: str, *, is_thorough: bool = False) -> Board:
        """The board as it is, of the ledger that is there now."""
        try:
            return self._watch.board(focus, is_thorough=is_thorough)
        except LedgerReplaced:
            self._open_again()
            return self._watch.board(focus)

    def news(self) -> tuple[tuple[Happening, ...], tuple[str, ...]]:
        """What has happened since it was last asked, and what the scheduler says of itself that is new."""
        try:
            if time.monotonic() - self._thorough_at >= _THOROUGH_SECONDS:
                self._own.opened.ledger.refresh()
                self._thorough_at = time.monotonic()
            if not self._watch.has_changed():
                return (), ()
            happened = self._watch.news()
        except LedgerReplaced:
            self._open_again()
            happened = self._watch.news()
        before, self._scheduler = self._scheduler, self._watch.scheduler()
        return happened, tuple(lines.status_lines(before, self._scheduler))

    def answer(self, question: Question, option: str, guidance: str) -> str:
        """Answers as `remand inbox answer` does."""
        self._answered += 1
        try:
            ask = answering(question, option, guidance)
            return carry_out(self._own, ask, option, step=self._answered)
        except Refused as refusal:
            return f"refused ({refusal.code}): {refusal.message}"
        except (RemandError, OSError) as error:
            return str(error)


def is_watched(context: Context) -> bool:
    """True when somebody sits at a terminal that can be drawn on and typed at."""
    around = context.surroundings
    if around.opened is not None or context.call.is_json or not (around.is_terminal and sys.stdin.isatty()):
        return False
    kind = inherited_environment().get("TERM", "")
    encoding = (around.stdout.encoding or "").lower().replace("-", "")
    return kind not in ("", "dumb", "unknown") and encoding == "utf8"


def show(context: Context, stop: Callable[[], bool] = lambda: False) -> showing.Ending:
    """Shows the live view on this process's terminal until somebody leaves it or `stop` says so."""
    terminal = showing.Terminal(
        keyboard=sys.stdin.fileno(),
        write=context.surroundings.stdout,
        environment=inherited_environment(),
    )
    return showing.show(ContextDesk(context), terminal, stop)


def follow(
    context: Context,
    stop: Callable[[], bool] = lambda: False,
    ready: Callable[[], None] = lambda: None,
    recent: int = 0,
) -> None:
    """Writes what happens, a line each, until `stop` says so. With `--json` each line is a document.

    Whatever happens once `ready` was called is written, up to what had happened when `stop` said so.
    """
    desk, fault = ContextDesk(context, recent), ""
    _tell(context, *desk.news())
    ready()
    while True:
        is_over = stop()
        try:
            _tell(context, *desk.news())
            fault = ""
        except (RemandError, BadLine) as error:
            is_new, fault = str(error) != fault, str(error)
            _tell(context, (), [lines.plain_line(desk.now(), "ledger", fault)] if is_new else ())
        if is_over:
            return
        time.sleep(_POLL_SECONDS)


def _tell(context: Context, happened: Iterable[Happening], more: Iterable[str]) -> None:
    """Writes what has happened; more than that is for people alone."""
    if context.call.is_json:
        said = [as_json(msgspec.to_builtins(one)) for one in happened]
    else:
        said = [*map(lines.happening_line, happened), *more]
    context.surroundings.stdout.write("".join(f"{line}\n" for line in said))
    context.surroundings.stdout.flush()


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--follow", action="store_true", help="plain lines as things happen")


def _top(context: Context) -> Result:
    if context.arguments.follow:
        with suppress(KeyboardInterrupt):
            follow(context, recent=RECENT)
        return Result({"ended": "interrupted"}, "")
    if is_watched(context):
        ending = show(context)
        return Result({"ended": ending.value}, "")
    desk = ContextDesk(context)
    board = desk.look("")
    return Result(msgspec.to_builtins(board), plain(board, desk.name, may_answer=not desk.why_not))


COMMANDS = {"top": Command(_arguments, _top)}
