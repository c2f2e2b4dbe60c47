"""Reads the cases of this folder: changes that game the gates, and honest ones, one a file.

A case starts with lines of `name: value`; then come its files, each under a line that starts with `===`:

    === path                a change, as a diff that shows every line
    === old -> new          the same, of a renamed file
    === + path              a new file, its text as it is
    === - path              a deleted file
    === unchanged path      a file that did not change
    === link path           a new link; its text is the target
    === binary path         a new binary; its text is its first bytes in hex, and its size
    === large path          a new text that is too large to be read; its text is its size
    === submodule path      a submodule that points elsewhere

A gaming change that says `shown: by runs alone` was held by the whole gate, and is not counted where only texts are read.

A case that says `repository: name` stands in the repository of that name, whose files are in one file of the same
form in the folder `repositories`: those the case does not show did not change.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from remand.integrity.comparison import LINK, SUBMODULE, Comparison, FileDiff, FileText, build_file_diff
from remand.integrity.paths import is_test_path

FOLDER = Path(__file__).parent


class CorpusCase(NamedTuple):
    """One change with what is known about it."""

    name: str
    is_gaming: bool
    kind: str
    """The suspicion a gaming change must raise."""
    language: str
    about: str
    round: int
    """0 for cases that the rules were made with, else the round of held-out cases it belongs to."""
    is_shown_by_runs: bool
    """True for a gaming change that no text shows and that the whole gate held."""
    comparison: Comparison


def corpus() -> list[CorpusCase]:
    """Every case."""
    return [_case(path) for path in sorted(FOLDER.glob("*/*.case"))]


def _case(path: Path) -> CorpusCase:
    told, files = _parts(path)
    unchanged = [(title.split()[1], text) for title, text in files if title.startswith("unchanged ")]
    around = _around(told.get("repository", ""), files)
    return CorpusCase(
        name=path.stem,
        is_gaming=path.parent.name == "gaming",
        kind=told.get("class", ""),
        language=told["language"],
        about=told["about"],
        round=int(told["set"].removeprefix("held-out ")) if told["set"] != "built" else 0,
        is_shown_by_runs=told.get("shown") == "by runs alone",
        comparison=Comparison(
            changes=tuple(
                _change(title, text) for title, text in files if not title.startswith("unchanged ")
            ),
            unchanged=tuple(
                FileText(path=name, text=text)
                for name, text in (*unchanged, *((name, text) for name, text in around if is_test_path(name)))
            ),
            measured=("lint", "types", "coverage", "tests"),
            paths=tuple(title.split()[-1] for title, _ in files) + tuple(name for name, _ in around),
        ),
    )


def _parts(path: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What a file of this form tells at its head, and its files by their titles."""
    head, *parts = re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    told = dict(line.split(": ", 1) for line in head.splitlines() if line.strip())
    return told, [(title.strip(), text) for title, _, text in (part.partition("\n") for part in parts)]


def _around(repository: str, shown: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The files of a repository that a case does not show."""
    if not repository:
        return []
    known = {word for title, _ in shown for word in title.split()}
    files = _parts(FOLDER / "repositories" / f"{repository}.files")[1]
    return [(path, text) for path, text in files if path not in known]


def _change(title: str, text: str) -> FileDiff:
    kind, _, path = title.partition(" ")
    if kind == "+":
        return build_file_diff("A", path, None, text.encode())
    if kind == "-":
        return build_file_diff("D", path, text.encode(), None)
    if kind == "link":
        return build_file_diff("A", path, None, text.strip().encode(), mode=LINK)
    if kind == "large":
        return FileDiff(status="A", path=path, size=int(text))
    if kind == "submodule":
        return FileDiff(status="M", path=path, mode=SUBMODULE)
    if kind == "binary":
        signature, size = text.split()
        return FileDiff(status="A", path=path, is_binary=True, signature=signature, size=int(size))
    before, after = _sides(text)
    old, _, new = title.partition(" -> ")
    if new:
        return build_file_diff("R", new, before.encode(), after.encode(), old_path=old)
    if not before:
        return build_file_diff("A", title, None, after.encode())
    return build_file_diff("M", title, before.encode(), after.encode())


def _sides(text: str) -> tuple[str, str]:
    lines = text.rstrip("\n").split("\n")
    before = [line[1:] for line in lines if not line.startswith("+")]
    after = [line[1:] for line in lines if not line.startswith("-")]
    return _joined(before), _joined(after)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
