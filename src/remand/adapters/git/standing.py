"""How a linked worktree stands: what it is checked out at, and what was left undone in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from remand.adapters.git.below import is_there, line_below, names_below, read_below
from remand.adapters.git.place import read_ref
from remand.domain.ids import is_commit, is_git_branch

HEADS = "refs/heads/"
BUSY = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"),
    *("rebase-merge", "rebase-apply", "sequencer"),
)
"""What git keeps beside HEAD while something is under way."""
_MAX_BRANCH = 1024
_MAX_NAME = 240
"""Of a file name's 255 bytes; git adds `.lock`."""
_MAX_PACKED = 64 << 20
_MAX_ASIDE = 50


class Standing(NamedTuple):
    """How a worktree stands."""

    tip: str = ""
    """The commit of the task's branch; empty when it has none."""
    at: str = ""
    """The commit that its files go by; empty when that cannot be told."""
    is_on_branch: bool = True
    is_busy: bool = False
    """A merge, a rebase or the like was left behind."""


def is_legal(branch: str) -> bool:
    """True for what git takes as the name of a branch, and can keep as a file."""
    if not is_git_branch(branch) or len(branch) > _MAX_BRANCH:
        return False
    return all(len(part.encode()) <= _MAX_NAME for part in branch.split("/"))


def real_standing(common_dir: str, entry: str, branch: str) -> Standing:
    """How a worktree stands by the repository itself."""
    return _standing(common_dir, entry, branch, lambda name: read_ref(common_dir, name))


def private_standing(git_dir: str, entry: str, branch: str) -> Standing:
    """How a worktree stands by a git folder that an agent could write anything into."""
    return _standing(git_dir, entry, branch, lambda name: ref_below(git_dir, name))


def _standing(git_dir: str, entry: str, branch: str, read: Callable[[str], str]) -> Standing:
    own = f"worktrees/{entry}"
    head = line_below(git_dir, f"{own}/HEAD")
    name = head.removeprefix("ref: ").strip() if head.startswith("ref: ") else ""
    is_branch = name.startswith(HEADS) and is_legal(name.removeprefix(HEADS))
    tip = _commit(read(HEADS + branch))
    return Standing(
        tip=tip,
        at=_commit(read(name)) if is_branch else _commit(head),
        is_on_branch=name == HEADS + branch,
        is_busy=any(os.path.lexists(os.path.join(git_dir, own, left)) for left in BUSY),
    )


def ref_below(git_dir: str, name: str) -> str:
    """The commit a ref points to in a git folder of an agent's; empty when there is none."""
    for _ in range(2):  # git may move it from one place to the other meanwhile
        line = line_below(git_dir, name, 100)
        if is_commit(line):
            return line
        wanted = b" " + name.encode("utf-8", "surrogateescape")
        for row in (read_below(git_dir, "packed-refs", _MAX_PACKED) or b"").split(b"\n"):
            if row.endswith(wanted):
                return row.removesuffix(wanted).decode("ascii", "replace")
    return ""


def commits_aside(git_dir: str, branch: str) -> list[str]:
    """What an agent's git folder has on other branches and in its stash, each commit once, some at most."""
    found = []
    for row in (read_below(git_dir, "packed-refs", _MAX_PACKED) or b"").split(b"\n"):
        commit, _, name = row.decode("utf-8", "surrogateescape").partition(" ")
        if name == "refs/stash" or (name.startswith(HEADS) and name != HEADS + branch):
            found.append(commit)
    found += [ref_below(git_dir, name) for name in _loose(git_dir, HEADS + branch)]
    stashed = read_below(git_dir, "logs/refs/stash", 1 << 20) or b""
    found += [row.split(b" ")[1].decode("ascii", "replace") for row in stashed.split(b"\n") if b" " in row]
    return list(dict.fromkeys(filter(is_commit, found)))[:_MAX_ASIDE]


def _loose(git_dir: str, branch: str) -> list[str]:
    """The names of refs in files of their own. Folders are entered, links are not."""
    names = ["refs/stash"]
    pending = ["refs/heads"]
    while pending and len(names) < _MAX_ASIDE:
        folder = pending.pop()
        for name in names_below(git_dir, folder):
            path = f"{folder}/{name}"
            if is_there(os.path.join(git_dir, path)):
                pending.append(path)
            elif path != branch:
                names.append(path)
    return names


def _commit(text: str) -> str:
    return text if is_commit(text) else ""
