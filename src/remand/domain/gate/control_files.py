"""The ledger's folder, `.got`: which paths belong to it, and the finding about a branch that changes it."""

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
"""The prefix of these findings: an override of a gate, which is for a code tree, does not cover them."""
MAX_LISTED_FILES = 10
MAX_PATH = 160
_EVENT_FILE = lazy_pattern(r"\.got/events/[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.jsonl")
_SHORT_NAME = lazy_pattern(r"\.?got~[0-9]+")


def is_control_name(name: str) -> bool:
    """True for `.got`, and for any name that some file system treats as the same.

    As git protects `.git`: letters of either case (HFS+, NTFS, APFS), characters that HFS+ ignores, trailing dots,
    spaces and streams (NTFS), its short name, and a backslash between folders. Unicode compatibility forms are folded
    as well.
    """
    if name.isascii() and "got" not in name.lower():
        return False
    first = re.split(r"[\\:]", name, maxsplit=1)[0]
    seen = (char for char in unicodedata.normalize("NFKC", first) if unicodedata.category(char) != "Cf")
    folded = "".join(seen).casefold().rstrip(" .")
    return folded == CONTROL_FOLDER or bool(_SHORT_NAME.fullmatch(folded))


def is_control_path(path: str) -> bool:
    """True for a path in the ledger's folder at the root of the repository."""
    return is_control_name(path.partition("/")[0])


def is_nested_control_path(path: str) -> bool:
    """True for a path in a nested folder that could be taken for a ledger's."""
    return any(map(is_control_name, path.split("/")[1:]))


def is_control_finding(name: str) -> bool:
    """True for the name of a finding about the ledger's own files."""
    return name.startswith(CONTROL_PREFIX)


def is_event_file(path: str) -> bool:
    """True for a valid path of an event file."""
    return bool(_EVENT_FILE.fullmatch(path))


class ControlFile(NamedTuple):
    """A path below `.got` in which a commit differs from the base: git's mode and id on each side, or empty."""

    path: str
    before: str
    after: str


class ControlChange(Record, kw_only=True):
    """What a commit changes below `.got` since it left the base."""

    commit: str = ""
    event_files: int = 0
    """The number of added files of complete, trusted groups, which are permitted."""
    paths: tuple[str, ...] = ()
    """All other changed paths."""
    name: str = ""
    """The finding about them; empty if there are none."""
    text: str = ""
    """What they are and why each is not allowed; of many, only the first."""

    @property
    def finding(self) -> GateFinding:
        """The finding for a reviewer."""
        return GateFinding(path=CONTROL_FOLDER, code=CONTROL_CODE, text=f"{self.text} [{self.name}]")


NO_CHANGE = ControlChange()


def make_control_change(
    commit: str, event_files: int, rest: Sequence[tuple[ControlFile, str]]
) -> ControlChange:
    """A commit's changes below `.got`: trusted event files, and the rest with reasons.

    The finding's name identifies exactly this content: an acceptance covers nothing else.
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
