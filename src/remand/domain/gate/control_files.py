"""The ledger's own folder, `.got`: which paths lie in it, and the finding about a branch that changes it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from hashlib import sha256

from remand.domain.gate.gate import GateFinding
from remand.domain.record import NamedTuple, Record
from remand.domain.text.words import remove_invisible
from remand.startup import lazy_pattern

CONTROL_FOLDER = ".got"
CONTROL_CODE = "control_changed"
CONTROL_PREFIX = "got-"
"""How the names of these findings begin: an override of a gate, which is for a code tree, does not cover them."""
MAX_LISTED_FILES = 10
MAX_PATH = 160
_EVENT_FILE = lazy_pattern(r"\.got/events/[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.jsonl")
_SHORT_NAME = lazy_pattern(r"\.?got~[0-9]+")


def is_control_name(name: str) -> bool:
    """True for `.got`, and for what some file system takes for that name.

    As git protects `.git`: letters of either case (HFS+, NTFS, APFS), characters that HFS+ ignores, dots and spaces
    at the end and streams (NTFS), its short name, and a backslash between folders. Forms that Unicode has for
    compatibility are folded as well.
    """
    if name.isascii() and "got" not in name.lower():
        return False
    first = re.split(r"[\\:]", name, maxsplit=1)[0]
    seen = (char for char in unicodedata.normalize("NFKC", first) if unicodedata.category(char) != "Cf")
    folded = "".join(seen).casefold().rstrip(" .")
    return folded == CONTROL_FOLDER or bool(_SHORT_NAME.fullmatch(folded))


def is_control_path(path: str) -> bool:
    """True for a path in the ledger's folder, at the top of the repository."""
    return is_control_name(path.partition("/")[0])


def is_nested_control_path(path: str) -> bool:
    """True for a path in a folder below the top that could be taken for a ledger's."""
    return any(map(is_control_name, path.split("/")[1:]))


def is_control_finding(name: str) -> bool:
    """True for the name of a finding about the ledger's own files."""
    return name.startswith(CONTROL_PREFIX)


def is_event_file(path: str) -> bool:
    """True for a path that an event file may have."""
    return bool(_EVENT_FILE.fullmatch(path))


class ControlFile(NamedTuple):
    """A path below `.got` that a commit has differently than the base: git's mode and id of each side, or empty."""

    path: str
    before: str
    after: str


class ControlChange(Record, kw_only=True):
    """What a commit changes below `.got` since it left the base."""

    commit: str = ""
    event_files: int = 0
    """How many files of whole, trusted groups it adds: these are nobody's business."""
    paths: tuple[str, ...] = ()
    """Everything else that it changes."""
    name: str = ""
    """The finding about these; empty when there are none."""
    text: str = ""
    """What they are and why each of them is not allowed; of many, the first."""

    @property
    def finding(self) -> GateFinding:
        """What a reviewer has to settle."""
        return GateFinding(path=CONTROL_FOLDER, code=CONTROL_CODE, text=f"{self.text} [{self.name}]")


NO_CHANGE = ControlChange()


def make_control_change(
    commit: str, event_files: int, rest: Sequence[tuple[ControlFile, str]]
) -> ControlChange:
    """What a commit changes below `.got`: trusted event files, and the rest, each with the reason it is none.

    The finding's name stands for exactly this content: what a reviewer accepted covers nothing else.
    """
    if not rest:
        return ControlChange(commit=commit, event_files=event_files)
    content = "\0".join(f"{file.path}\0{file.after}" for file, _ in sorted(rest))
    return ControlChange(
        commit=commit,
        event_files=event_files,
        paths=tuple(file.path for file, _ in rest),
        name=CONTROL_PREFIX + sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:12],
        text=f"the branch changes {len(rest)} of the ledger's own files, which only Remand may write: {_list_files(rest)}",
    )


def _list_files(rest: Sequence[tuple[ControlFile, str]]) -> str:
    named = [f"`{_readable_path(file.path)}` ({why})" for file, why in rest[:MAX_LISTED_FILES]]
    more = len(rest) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _readable_path(path: str) -> str:
    text = remove_invisible(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "\ufffd")
    return text if len(text) <= MAX_PATH else f"{text[:MAX_PATH]}…"
