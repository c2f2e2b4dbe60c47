"""What a commit changes, as text that people and models read."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from remand.adapters.git.place import Place
from remand.adapters.git.repository import git
from remand.app.errors import EnvironmentFault
from remand.domain.control import FOLDER
from remand.domain.reviewing.change import FileChange, Unshown, made_visible, shown

LONGEST = 400_000
MAX_FILE = 1 << 20
"""How many bytes a file may have, before and after together, to be shown."""
MAX_READ = 8 << 20
"""How many bytes of files are read, the smallest files first."""
MAX_FILES = 2_000
_AT_ONCE = 200

_TREES = ("-c", "core.quotePath=false", "diff-tree", "-r", "--no-renames")
_AS_TEXT = (
    "-p",
    "--text",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_BEGINNING = b"diff --git "
_SUBMODULE = "160000"
_ABSENT = 1 << 60
"""The size of what the repository does not have."""
_QUOTED = re.compile(rb"[\x00-\x1f\x7f\"\\]")
_SHORT = dict(zip(b'\a\b\t\n\v\f\r"\\', b'abtnvfr"\\', strict=True))


class Patch(NamedTuple):
    """The change between two commits. What is no text, or too long, is named and not shown."""

    text: str
    unshown: tuple[Unshown, ...] = ()

    @property
    def is_cut(self) -> bool:
        """True when something is not shown."""
        return bool(self.unshown)


class _Changed(NamedTuple):
    """A file that differs, and how many bytes there are to compare."""

    path: str
    size: int


def fork(place: Place, base: str, commit: str) -> str:
    """Where a commit has left the base; empty when the two have nothing in common."""
    found = git(place.worktree, "merge-base", base, commit)
    return "" if found.returncode else found.stdout.decode().strip()


def paths_between(place: Place, one: str, other: str) -> tuple[str, ...] | None:
    """The files that two commits have differently; None when one of them is not there."""
    found = git(
        place.worktree, *_TREES, "-z", "--name-only", one, other, "--", ":(top)", ":(top,exclude).got"
    )
    if found.returncode:
        return None
    return tuple(path.decode("utf-8", "replace") for path in found.stdout.split(b"\0") if path)


def patch(
    place: Place,
    since: str,
    commit: str,
    paths: Sequence[str] = (),
    longest: int = LONGEST,
    *,
    control: Sequence[str] = (),
) -> Patch:
    """The change from one commit to another, read from the trees alone: no attribute or filter has a say.

    Of the ledger's own folder, which Remand itself changes all the time, the named paths are shown.
    """
    chosen = [f":(top,literal){path}" for path in paths] or [":(top)"]
    between = (since, commit, "--")
    raw = _told(place, "--raw", "-z", *between, *chosen, ":(top,exclude).got")
    own = [path for path in control if path.partition("/")[0] == FOLDER and path in (paths or control)]
    for at in range(0, len(own), _AT_ONCE):
        raw += _told(
            place, "--raw", "-z", *between, *(f":(top,literal){path}" for path in own[at : at + _AT_ONCE])
        )
    read, unread = _within_reason(_sized(place, raw))
    files = [
        file
        for at in range(0, len(read), _AT_ONCE)
        for file in _by_file(place, between, read[at : at + _AT_ONCE])
    ]
    told = shown(files, longest)
    return Patch(told.text, (*told.unshown, *unread))


def _told(place: Place, *arguments: str) -> bytes:
    found = git(place.worktree, *_TREES, *arguments)
    if found.returncode:
        said = found.stderr.decode(errors="replace").strip()
        raise EnvironmentFault(f"git cannot tell what was changed: {said}. Mend that, then repeat.")
    return found.stdout


def _sized(place: Place, raw: bytes) -> list[_Changed]:
    """The files of a comparison, each with the bytes it has before and after."""
    fields = raw.split(b"\0")
    rows = [
        (path.decode("utf-8", "surrogateescape"), before, after)
        for told, path in zip(fields[::2], fields[1::2], strict=False)
        for before, after in [_contents(told.decode())]
    ]
    wanted = sorted({one for _, *pair in rows for one in pair if one})
    listed = git(
        place.worktree, "cat-file", "--batch-check", stdin="".join(f"{one}\n" for one in wanted).encode()
    )
    answers = (line.split() for line in listed.stdout.decode().splitlines())
    sizes = {answer[0]: int(answer[2]) for answer in answers if len(answer) == 3}
    return [_Changed(path, sum(sizes.get(one, _ABSENT) for one in pair if one)) for path, *pair in rows]


def _contents(told: str) -> tuple[str, str]:
    """The ids of a file's content before and after; empty where there is none to read."""
    old_mode, new_mode, old, new, _ = told.lstrip(":").split(" ")
    pairs = ((old_mode, old), (new_mode, new))
    before, after = ("" if mode == _SUBMODULE or not name.strip("0") else name for mode, name in pairs)
    return before, after


def _within_reason(files: list[_Changed]) -> tuple[list[str], list[Unshown]]:
    """Which files are read, in their order, and which are too large, or too many."""
    read, left, room = set[str](), list[Unshown](), MAX_READ
    for file in sorted(files, key=lambda file: file.size):
        is_large = file.size > MAX_FILE
        if is_large or file.size > room or len(read) >= MAX_FILES:
            left.append(Unshown(path=made_visible(file.path), why=_why(file.size)))
        else:
            read.add(file.path)
            room -= file.size
    return [file.path for file in files if file.path in read], left


def _why(size: int) -> str:
    if size >= _ABSENT:
        return "not shown: the repository does not have its content"
    return f"too large: {size:,} bytes" if size > MAX_FILE else "left out: the whole change is too large"


def _by_file(place: Place, between: Sequence[str], paths: Sequence[str]) -> list[FileChange]:
    """What is changed in each of some files. Inside a file every line of content has a sign before it."""
    change = _told(place, *_AS_TEXT, *between, *(f":(top,literal){path}" for path in paths))
    texts = dict.fromkeys(map(_heading, paths), b"")
    for part in change.removeprefix(_BEGINNING).split(b"\n" + _BEGINNING):
        heading, _, rest = part.partition(b"\n")
        if heading in texts:
            texts[heading] += _BEGINNING + heading + b"\n" + rest.removesuffix(b"\n") + b"\n"
    told = [text.decode("utf-8", "replace") for text in texts.values()]
    return [FileChange(path=path, text=text) for path, text in zip(paths, told, strict=True)]


def _heading(path: str) -> bytes:
    """How git begins to tell of a file."""
    name = os.fsencode(path)
    if not _QUOTED.search(name):
        return b"a/%b b/%b" % (name, name)
    quoted = _QUOTED.sub(_escape, name)
    return b'"a/%b" "b/%b"' % (quoted, quoted)


def _escape(match: re.Match[bytes]) -> bytes:
    code = match[0][0]
    return b"\\%c" % _SHORT[code] if code in _SHORT else b"\\%03o" % code
