"""Printed output: JSON for programs, tables and colour for people, with control characters removed."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.domain.text.words import remove_invisible, shorten

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

STATUS_STYLES = {
    "incoming": "cyan",
    "claimed": "yellow",
    "held": "bold yellow",
    "provisional": "magenta",
    "done": "green",
    "rejected": "red",
    "needs_continuation": "yellow",
    "failed": "red",
    "blocked": "red",
    "deferred": "blue",
    "decomposed": "blue",
    "escalated": "bold red",
}
"""The colour of each task status."""
_GAP, _EDGES = 3, 2
"""The space between the columns of a table, and at its sides."""
_LEAST = 8
_QUIET_SECONDS, _TERMINAL_SECONDS, _LINE_SECONDS, _PLAIN_SECONDS = 1.0, 0.1, 5.0, 30.0
"""After how long progress is shown first; how often on a terminal and elsewhere; how often elsewhere while nothing changes."""
_IDS = re.compile(r"(?:\b(?:[A-Z]-\d{8}-\d{6}-[0-9a-f]{8}|(?:[A-Za-z]+-)?[0-9a-f]{12,64})\b(?:, )?)+")
"""Ids of tasks, handoffs, questions, commits and findings."""


class Result(NamedTuple):
    """The result of a command: data for programs, and how to print it for people."""

    data: Any
    show: Callable[[Console], None] | str
    code: int = 0


def refused_result(refusal: Refused, data: dict[str, Any], show: Callable[[Console], None] | str) -> Result:
    """The result of a refused command that has more data than the refusal."""
    return Result({"refused": refusal.code, "message": refusal.message, **data}, show, 1)


def as_json(data: Any) -> str:
    """One JSON document in plain ASCII; text that is already JSON is passed on."""
    if isinstance(data, RawJson):
        return data if data.isascii() else json.dumps(json.loads(data))
    return json.dumps(data)


class ProgressLines:
    """Shows the progress of a slow call: one changing line on a terminal, otherwise a line now and then."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._active: dict[tuple[str, str], float] = {}
        self._begun = time.monotonic()
        self._text = ""
        """What the call is at, where no step of its own is active."""
        self._due = self._begun + _QUIET_SECONDS
        self._is_shown = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watch: threading.Thread | None = None

    def __call__(self, name: str, step: str, seconds: float | None = None) -> None:
        """A gate or another step has started, or has ended after this many seconds."""
        with self._lock:
            if seconds is None:
                self._active[name, step] = time.monotonic()
                self._start_watch()
                return
            self._active.pop((name, step), None)
            if seconds >= 1:
                self._write(f"  {name}: {_STEPS.get(step, step)[1]} in {seconds:.0f} s")

    def watch(self, text: str) -> None:
        """Shows that a call is running, and for how long, if it reports nothing itself."""
        with self._lock:
            self._text = text
            self._start_watch()

    def show(self, text: str) -> None:
        """Reports the progress of the call.

        It is printed at once unless something was just printed or the call has just started.
        """
        with self._lock:
            self._text, now = text, time.monotonic()
            if now >= self._due:
                self._due = now + (_TERMINAL_SECONDS if self._is_terminal else _LINE_SECONDS)
                self._write("")

    def each(self, items: Sequence[T], step: str) -> Iterator[T]:
        """Yields items, and reports before each which one of how many it is."""
        for number, item in enumerate(items, start=1):
            self.show(f"{step} {number} of {len(items)}")
            yield item

    def clear(self) -> None:
        """Clears the terminal's line until there is more to show."""
        with self._lock:
            self._active.clear()
            self._text = ""
            self._write("")

    def close(self) -> None:
        """Ends it."""
        self._ended.set()
        self.clear()

    def _start_watch(self) -> None:
        if self._watch is None:
            self._watch = threading.Thread(target=self._repeat, daemon=True)
            self._watch.start()

    def _repeat(self) -> None:
        pause = 1.0 if self._is_terminal else _PLAIN_SECONDS
        while not self._ended.wait(pause):
            with self._lock:
                self._write("")

    def _write(self, line: str) -> None:
        now = time.monotonic()
        running = ", ".join(
            f"{name} ({_STEPS.get(step, step)[0]}, {now - begun:.0f} s)"
            for (name, step), begun in self._active.items()
            if now - begun >= 1
        )
        rest = f"  {clean(running)[:150]}" if running else ""
        if self._text and not self._active and now - self._begun >= 1:
            rest = f"remand: {one_line(self._text, 150)} ({now - self._begun:.0f} s)"
        if not (line or rest or self._is_shown):
            return
        start = "\r\x1b[K" if self._is_terminal else ""
        with suppress(OSError, ValueError):
            self._stream.write(f"{start}{clean(line)}\n" if line else start)
            if rest:
                self._stream.write(rest if self._is_terminal else f"{rest}\n")
            self._stream.flush()
        self._is_shown = self._is_terminal and bool(rest)


_STEPS = {"run": ("running", "ran"), "prepare": ("installing", "installed")}


class RawJson(str):
    """A text that is a JSON document."""

    __slots__ = ()


class ListPage(NamedTuple):
    """A part of a list that was cut when it was read, and where the next part begins; empty after the last one."""

    rows: Any
    after: str


_TASK_ID = re.compile(r"\bT-\d{8}-\d{6}-[0-9a-f]{8}\b")
ShortNames = Callable[[Sequence[str]], dict[str, tuple[str, str]]]
"""The alias, if any, and the end of the id, for each of some task ids."""
short_names: ContextVar[ShortNames | None] = ContextVar("short_names", default=None)
"""Short names of tasks in the current output; None if ids are printed in full, as for programs."""


def clean(text: object) -> str:
    """Text without control and invisible characters, and with short ids if people read it."""
    found = remove_invisible(str(text), "�")
    names = short_names.get()
    return found if names is None else shorten_ids(found, names)


def shorten_ids(text: str, names: ShortNames) -> str:
    """A text with each task's alias, or the end of its id, instead of the id.

    In a command it is always the end, because a shell treats text after a `#` as a comment.
    """
    ids = list(dict.fromkeys(_TASK_ID.findall(text)))
    known = names(ids) if ids else {}

    def replace(match: re.Match[str]) -> str:
        alias, end = known.get(match[0], ("", match[0]))
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        return end if not alias or "remand " in line else alias

    return _TASK_ID.sub(replace, text) if known else text


def one_line(text: object, limit: int = 80) -> str:
    """Text for one cell of a table."""
    flat = " ".join(clean(text).split())
    return shorten(flat, limit)


def console(write: Any, *, is_terminal: bool, width: int, has_color: bool) -> Console:
    from rich.console import Console as RichConsole

    class PlainConsole(RichConsole):
        """Leaves a closed pipe to the caller."""

        def on_broken_pipe(self) -> None:
            """Raises, instead of leaving the program."""
            raise BrokenPipeError

    return PlainConsole(
        file=write,
        force_terminal=is_terminal,
        color_system="auto" if has_color and is_terminal else None,
        width=width or (None if is_terminal else 160),
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not is_terminal,
    )


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    empty: str,
    *,
    wraps: bool = False,
    limit: int = 0,
    shows_last: bool = False,
    left_out: int = 0,
) -> Callable[[Console], None]:
    """Shows rows as a table, or says that there are none.

    The last column is cut to fit, or wraps. With a limit it shows the first rows, or the last, and says how many
    more there are, with those that were left out before. If that is not enough, the others are cut as well, except an id at the beginning of a cell: then
    lines are too long.
    """

    def show(out: Console) -> None:
        from rich import box
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        if not rows:
            out.print(empty)
            return
        hidden = max(len(rows) - limit, 0) if limit else 0
        page = rows[hidden:] if shows_last else rows[: len(rows) - hidden]
        hidden += left_out
        clean(" ".join(str(cell) for row in page for cell in row))  # one look-up for the names of all tasks
        shown = [[one_line(cell, 1000 if wraps else 80) for cell in row] for row in page]
        wide = [max(map(cell_len, cells)) for cells in zip(columns, *shown, strict=True)]
        least = [
            max(len(name), *map(_id_width, cells))
            for name, cells in zip(columns, zip(*shown, strict=True), strict=True)
        ]
        around = _GAP * (len(columns) - 1) + _EDGES
        widths = _fit_columns(wide, least, out.width - around)
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", width=sum(widths) + around)
        for place, (column, width) in enumerate(zip(columns, widths, strict=True), start=1):
            is_folded = wraps and place == len(columns)
            made.add_column(
                column, width=width, no_wrap=not is_folded, overflow="fold" if is_folded else "ellipsis"
            )
        for cells in shown:
            made.add_row(*(Text(cell, style=STATUS_STYLES.get(cell, "")) for cell in cells))
        out.print(made, crop=False)
        if hidden:
            which = "earlier ones" if shows_last else "more"
            out.print(f"{hidden:,} {which} are not shown; --limit N shows more, --all shows all.", crop=False)

    return show


def _fit_columns(wide: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widths of columns for the available width: the last ones are cut first, none below its minimum."""
    widths = list(wide)
    needed = [*least[:-1], min(wide[-1], max(least[-1], _LEAST))]
    for at in reversed(range(len(widths))):
        excess = max(sum(widths) - room, 0)
        widths[at] -= min(excess, widths[at] - needed[at])
    return widths


def _id_width(cell: str) -> int:
    """The width of the ids at the beginning of a cell; one that is cut leaves room for its mark."""
    ids = _IDS.match(cell)
    return min(ids.end() + 1, len(cell)) if ids else 0


def write_unwrapped(out: Console, text: str) -> None:
    """Writes text without cutting or wrapping lines, so that commands in it can be copied."""
    from rich.text import Text

    out.print(Text(clean(text)), soft_wrap=True)


class NamedValues:
    """Names and values, one on each line; empty values are left out.

    As text it does not need rich, which is slow to load.
    """

    def __init__(self, rows: Sequence[tuple[str, object]]) -> None:
        self._given = rows

    @cached_property
    def _rows(self) -> list[tuple[str, str]]:
        """What is shown. Nobody asks for it where only the JSON is wanted."""
        wide = max((len(name) for name, _ in self._given), default=0)
        return [
            (f"{name:<{wide}}  ", clean(value))
            for name, value in self._given
            if value not in ("", None, [], ())
        ]

    def __str__(self) -> str:
        return "\n".join(name + value for name, value in self._rows)

    def __call__(self, out: Console) -> None:
        from rich.text import Text

        for name, value in self._rows:
            out.print(Text(name, style="dim") + Text(value, style=STATUS_STYLES.get(value, "")))


class Page:
    """Sections of text: titles at the margin, text by others wrapped and indented below.

    `whole` is the command that shows what is cut here.
    """

    MAX_TEXT = 6000
    MAX_ITEMS = 50
    _INDENT = 2
    _WIDTH = 100

    def __init__(self, out: Console, whole: str) -> None:
        self._out = out
        self._whole = whole

    def text(self, title: str, text: str) -> None:
        if text.strip():
            self._title(title)
            self._write(text.strip())

    def items(self, title: str, texts: Sequence[str]) -> None:
        """A section with a numbered list; nothing if the list is empty."""
        if texts:
            self._title(title)
        for number, text in enumerate(texts[: self.MAX_ITEMS], start=1):
            self._write(text, f"{number}. ")
        if len(texts) > self.MAX_ITEMS:
            self.command(f"[cut: {len(texts) - self.MAX_ITEMS} more; shown by {self._whole}]")

    def command(self, text: str) -> None:
        """A command of Remand's below a text; it is never wrapped, so that it can be copied."""
        write_unwrapped(self._out, f"{' ' * self._INDENT}{text}")

    def _title(self, title: str) -> None:
        from rich.text import Text

        self._out.print()
        self._out.print(Text(one_line(title, 400), style="bold"), soft_wrap=True)

    def _write(self, text: str, bullet: str = "") -> None:
        from rich.text import Text

        cut = len(text) - self.MAX_TEXT
        margin = " " * (self._INDENT + len(bullet))
        wide = max(min(self._out.width, self._WIDTH) - len(margin), 20)
        shown = Text(clean(text[: self.MAX_TEXT]))
        shown.expand_tabs(4)
        for place, line in enumerate(shown.wrap(self._out, wide)):
            line.rstrip()
            lead = margin if place or not bullet else f"{' ' * self._INDENT}{bullet}"
            self._out.print(Text(lead) + line if line else Text(), soft_wrap=True)
        if cut > 0:
            self.command(f"[cut: {cut} more characters; shown by {self._whole}]")
