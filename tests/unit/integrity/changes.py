"""Changes in a line, and the codes of what is found in them."""

from textwrap import dedent

from remand.integrity.comparison import Comparison, FileDiff, FileText, build_file_diff
from remand.integrity.examination import examine
from remand.integrity.suspicions import Suspicion, Weight

EVERYTHING = ("lint", "types", "coverage", "tests")
"""What the gates of a project with all of them measure."""


def modified(path: str, before: str, after: str) -> FileDiff:
    return build_file_diff("M", path, dedent(before).encode(), dedent(after).encode())


def added(path: str, text: str, mode: str = "") -> FileDiff:
    return build_file_diff("A", path, None, dedent(text).encode(), mode=mode)


def deleted(path: str, text: str) -> FileDiff:
    return build_file_diff("D", path, dedent(text).encode(), None)


def renamed(old: str, new: str, before: str, after: str | None = None) -> FileDiff:
    text = dedent(before).encode()
    return build_file_diff("R", new, text, text if after is None else dedent(after).encode(), old_path=old)


def found(*changes: FileDiff, unchanged: tuple[tuple[str, str], ...] = ()) -> list[Suspicion]:
    texts = tuple(FileText(path=path, text=dedent(text)) for path, text in unchanged)
    return list(examine(Comparison(changes=changes, unchanged=texts, measured=EVERYTHING)))


def held(*changes: FileDiff, unchanged: tuple[tuple[str, str], ...] = ()) -> set[str]:
    suspicions = found(*changes, unchanged=unchanged)
    return {item.code for item in suspicions if item.weight is Weight.HELD}
