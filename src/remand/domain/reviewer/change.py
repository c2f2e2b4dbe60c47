"""A change as its reviewer is shown it: bounded, with what is left out named, and every character visible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import category

from remand.domain.feedback.sanitiser import visible_characters
from remand.domain.record import Record

MAX_LINE = 4_000
"""How many characters of a line are shown."""
MIN_SHOWN = 2_000
"""How many characters of a file are worth showing when there is no room for all."""
_LIKE_OTHERS = ("Cc", "Zs", "Zl", "Zp")


class OmittedPart(Record, kw_only=True):
    """Something of a change that is not shown, and why."""

    path: str
    why: str


class FilePatch(Record, kw_only=True):
    """What is changed in one file, as git tells it."""

    path: str
    text: str


class SubmittedChange(Record, kw_only=True):
    """What a submission changes since it left the base."""

    commit: str
    since: str
    """The commit it is held against."""
    paths: tuple[str, ...] = ()
    """Every file that it changes."""
    text: str = ""
    unshown: tuple[OmittedPart, ...] = ()
    event_files: int = 0
    """How many event files of trusted keys it adds, which are not shown."""
    control: str = ""
    """What else it changes of the ledger's own files; empty when it leaves them alone."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the ledger's own files."""
        files = f"{self.event_files} event file{'' if self.event_files == 1 else 's'} of trusted keys"
        added = f"Below .got/ it adds {files}, not shown here." if self.event_files else ""
        warned = f"WARNING: {self.control}." if self.control else ""
        return tuple(filter(None, (added, warned)))

    @property
    def is_cut(self) -> bool:
        """True when something of it is not shown."""
        return bool(self.unshown)


class RenderedChange(Record, kw_only=True):
    """A change as text."""

    text: str
    unshown: tuple[OmittedPart, ...] = ()


def render_change(files: Sequence[FilePatch], longest: int) -> RenderedChange:
    """As many files as there is room for, the shortest first, in the order they come in.

    So one long file hides no short ones, wherever it stands. Of the first for which there is no room, the beginning
    is shown.
    """
    plain = [_render_file(file) for file in files]
    unshown = [one for file in plain for one in file.unshown]
    room, kept = longest, [file.text for file in plain]
    for at in sorted(range(len(kept)), key=lambda at: len(kept[at])):
        whole = kept[at]
        if len(whole) > room:
            kept[at] = _first_lines(whole, room)
            unshown.append(_omit_file(files[at], _describe_cut(whole, kept[at])))
        room = room - len(whole) if kept[at] == whole else 0
    return RenderedChange(text="".join(kept), unshown=tuple(sorted(unshown, key=_by_path)))


def _by_path(one: OmittedPart) -> str:
    return one.path


def _first_lines(text: str, room: int) -> str:
    """As much of a text as there is room for, in whole lines."""
    return text[: text.rfind("\n", 0, room) + 1] if room >= MIN_SHOWN else ""


def _describe_cut(text: str, kept: str) -> str:
    more = text.count("\n") - kept.count("\n")
    return f"cut: {more:,} more lines of change" if kept else f"omitted: {more:,} lines of change"


def _render_file(file: FilePatch) -> RenderedChange:
    """The change of one file, without what no eye reads: bytes of binary files, the ends of endless lines."""
    if "\0" in file.text:
        head = file.text.partition("\n@@ ")[0]
        size = len(file.text) - len(head)
        why = f"binary: {size:,} characters of change"
        return RenderedChange(
            text=f"{mark_invisible(head)}\n[{why}, not shown]\n", unshown=(_omit_file(file, why),)
        )
    lines = mark_invisible(file.text).split("\n")
    long = [at for at, line in enumerate(lines) if len(line) > MAX_LINE]
    for at in long:
        lines[at] = f"{lines[at][:MAX_LINE]}[cut: {len(lines[at]) - MAX_LINE:,} more characters]"
    why = f"cut: {len(long)} lines are longer than {MAX_LINE:,} characters"
    return RenderedChange(text="\n".join(lines), unshown=(_omit_file(file, why),) if long else ())


def _omit_file(file: FilePatch, why: str) -> OmittedPart:
    return OmittedPart(path=mark_invisible(file.path), why=why)


def render_omissions(rows: Iterable[OmittedPart], most: int = 100) -> list[str]:
    """What is not shown, a line each; of very much, the first."""
    told = [f"- {row.path}: {row.why}" for row in rows]
    return [*told[:most], f"- and {len(told) - most} more"] if len(told) > most else told


class _CharacterMarks(dict[int, int | str]):
    """What stands for each character: itself, or its number when it cannot be seen or looks like another."""

    def __missing__(self, code: int) -> int | str:
        char = chr(code)
        is_plain = char == " " or (bool(visible_characters(char)) and category(char) not in _LIKE_OTHERS)
        marked: int | str = code if is_plain else f"⟦U+{code:04X}⟧"
        self[code] = marked
        return marked


_CHARACTER_MARKS = _CharacterMarks({0x09: 0x09, 0x0A: 0x0A})


def mark_invisible(text: str) -> str:
    """The text with a number in the place of every character that cannot be seen; the ends of its lines are plain."""
    text = text.replace("\r\n", "␍\n")
    return (
        text if text.isascii() and text.replace("\n", " ").isprintable() else text.translate(_CHARACTER_MARKS)
    )
