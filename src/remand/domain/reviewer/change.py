"""A change as its reviewer is shown it: bounded, with what is left out named, and every character visible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import category

from remand.domain.feedback.sanitiser import visible_characters
from remand.domain.record import Record

MAX_LINE = 4_000
"""How many characters of a line are shown."""
MIN_SHOWN = 2_000
"""The least number of characters of a file that is worth showing when not all of it fits."""
_LIKE_OTHERS = ("Cc", "Zs", "Zl", "Zp")


class OmittedPart(Record, kw_only=True):
    """Something of a change that is not shown, and why."""

    path: str
    why: str


class FilePatch(Record, kw_only=True):
    """The change of one file, as git prints it."""

    path: str
    text: str


class SubmittedChange(Record, kw_only=True):
    """What a submission changes since its merge base."""

    commit: str
    since: str
    """The commit it is compared with."""
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
        """Notes on changes of the ledger's own files."""
        files = f"{self.event_files} event file{'' if self.event_files == 1 else 's'} of trusted keys"
        added = f"Below .got/ it adds {files}, not shown here." if self.event_files else ""
        warned = f"WARNING: {self.control}." if self.control else ""
        return tuple(filter(None, (added, warned)))

    @property
    def is_cut(self) -> bool:
        return bool(self.unshown)


class RenderedChange(Record, kw_only=True):
    text: str
    unshown: tuple[OmittedPart, ...] = ()


def render_change(files: Sequence[FilePatch], longest: int) -> RenderedChange:
    """As many files as fit, the shortest first, in the order of `files`.

    So one long file hides no short ones, wherever it is. Of the first that does not fit, the beginning is shown.
    """
    rendered = [_render_file(file) for file in files]
    unshown = [part for file in rendered for part in file.unshown]
    left, kept = longest, [file.text for file in rendered]
    for at in sorted(range(len(kept)), key=lambda at: len(kept[at])):
        whole = kept[at]
        if len(whole) <= left:
            left -= len(whole)
            continue
        # Whole lines only.
        kept[at] = whole[: whole.rfind("\n", 0, left) + 1] if left >= MIN_SHOWN else ""
        more = whole.count("\n") - kept[at].count("\n")
        why = f"cut: {more:,} more lines of change" if kept[at] else f"omitted: {more:,} lines of change"
        unshown.append(_omit_file(files[at], why))
        left = 0
    return RenderedChange(text="".join(kept), unshown=tuple(sorted(unshown, key=lambda part: part.path)))


def _render_file(file: FilePatch) -> RenderedChange:
    """The change of one file, without binary content and the ends of very long lines."""
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
    """The parts that are not shown, a line each, at most so many."""
    lines = [f"- {row.path}: {row.why}" for row in rows]
    return [*lines[:most], f"- and {len(lines) - most} more"] if len(lines) > most else lines


class _CharacterMarks(dict[int, int | str]):
    """What is shown for each character: itself, or its number when it is invisible or looks like another."""

    def __missing__(self, code: int) -> int | str:
        char = chr(code)
        is_plain = char == " " or (bool(visible_characters(char)) and category(char) not in _LIKE_OTHERS)
        marked: int | str = code if is_plain else f"⟦U+{code:04X}⟧"
        self[code] = marked
        return marked


_CHARACTER_MARKS = _CharacterMarks({0x09: 0x09, 0x0A: 0x0A})


def mark_invisible(text: str) -> str:
    """The text with a number in place of every invisible character; line ends are plain."""
    text = text.replace("\r\n", "␍\n")
    return (
        text if text.isascii() and text.replace("\n", " ").isprintable() else text.translate(_CHARACTER_MARKS)
    )
