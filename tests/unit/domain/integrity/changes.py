"""Changes in a line, and the codes of what is found in them."""

from textwrap import dedent

from remand.domain.integrity.comparison import (
    Comparison,
    FileChange,
    FileText,
    Suspicion,
    Weight,
    file_change,
)
from remand.domain.integrity.examine import examine


def modified(path: str, before: str, after: str) -> FileChange:
    return file_change("M", path, dedent(before).encode(), dedent(after).encode())


def added(path: str, text: str, mode: str = "") -> FileChange:
    return file_change("A", path, None, dedent(text).encode(), mode=mode)


def deleted(path: str, text: str) -> FileChange:
    return file_change("D", path, dedent(text).encode(), None)


def renamed(old: str, new: str, before: str, after: str | None = None) -> FileChange:
    text = dedent(before).encode()
    return file_change("R", new, text, text if after is None else dedent(after).encode(), old_path=old)


def found(*changes: FileChange, unchanged: tuple[tuple[str, str], ...] = ()) -> list[Suspicion]:
    texts = tuple(FileText(path=path, text=dedent(text)) for path, text in unchanged)
    return list(examine(Comparison(changes=changes, unchanged=texts)))


def held(*changes: FileChange, unchanged: tuple[tuple[str, str], ...] = ()) -> set[str]:
    suspicions = found(*changes, unchanged=unchanged)
    return {item.code for item in suspicions if item.weight is Weight.HELD}
