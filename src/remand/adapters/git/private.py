"""The git folder that a confined agent sees in place of the repository's own: refs, objects, settings of its own.

Objects of the real one are bound into it to be read (`base-objects`). Whatever an agent writes into it counts for
nothing outside but as objects to be checked and one ref; it is made anew for each run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from remand.adapters.git.below import is_there, read_below
from remand.adapters.git.linked import Linked
from remand.adapters.git.standing import HEADS, Standing, commits_aside, private_standing
from remand.adapters.git.taking import alternates
from remand.adapters.git.trash import Trash

BASE_OBJECTS = "base-objects"
"""Where the sandbox binds the real object folder."""
_MAX_PACKED = 256 << 20
_MAX_TAGS = 20_000
_MAX_STORES = 8
_CONFIG = """\
[core]
	repositoryformatversion = {version}
	filemode = true
	bare = false
	logallrefupdates = true
	checkstat = minimal
[user]
	name = {name}
	email = {email}
[gc]
	auto = 0
[maintenance]
	auto = false
[commit]
	gpgsign = false
[tag]
	gpgsign = false
{extensions}"""
"""Inside, files have another owner than outside: without `checkstat` git would read all of them again."""


class Given(NamedTuple):
    """What a confined agent is given besides its branch."""

    refs: Mapping[str, str]
    """The base, by full names, with its commits."""
    name: str
    email: str
    excluded: Sequence[str]
    """Files in the worktree that are ours."""


class PrivateFolder:
    """Such a folder of one worktree."""

    def __init__(self, path: str, linked: Linked, trash: Trash) -> None:
        self.path = path
        self._linked = linked
        self._trash = trash

    def is_made(self) -> bool:
        """True when there is one."""
        return is_there(self.path)

    def standing(self, branch: str) -> Standing:
        """How the worktree stands by what the agent made of it."""
        return private_standing(self.path, self._linked.name, branch)

    def aside(self, branch: str) -> list[str]:
        """The commits that an agent has put aside: on branches of its own, and in its stash. Not all, if many."""
        return commits_aside(self.path, branch)

    def make(self, branch: str, tip: str, given: Given) -> None:
        """Makes it anew. The index says how the files look, so that git need not read them again."""
        draft = f"{self.path}.new"
        self._discard(draft)
        try:
            self._write(draft, branch, tip, given)
            self.remove()
            os.rename(draft, self.path)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _write(self, folder: str, branch: str, tip: str, given: Given) -> None:
        own = os.path.join("worktrees", self._linked.name)
        for name in ("objects/info", "objects/pack", BASE_OBJECTS, "refs/heads", "info", own):
            os.makedirs(os.path.join(folder, name), mode=0o700)
        for name, text in self._texts(branch, tip, given).items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        shutil.copy2(self._linked.index, os.path.join(folder, own, "index"))

    def remove(self) -> None:
        """Takes it away."""
        self._discard(self.path)

    def _discard(self, path: str) -> None:
        if os.path.lexists(path):
            self._trash.throw(path)

    def _texts(self, branch: str, tip: str, given: Given) -> dict[str, str]:
        common, own = self._linked.common_dir, f"worktrees/{self._linked.name}"
        refs = {name: commit for name, commit in given.refs.items() if name != HEADS + branch}
        excluded = (read_below(common, "info/exclude", 1 << 16) or b"").decode("utf-8", "surrogateescape")
        texts = {
            "HEAD": f"{tip}\n",  # of no branch: each stays free to be checked out in the worktree
            "config": _config(given.name, given.email, len(tip)),
            HEADS + branch: f"{tip}\n",
            "packed-refs": _packed(common, refs),
            "info/exclude": excluded.rstrip("\n") + "\n" + "".join(f"/{name}\n" for name in given.excluded),
            "objects/info/alternates": alternates(
                f"../{BASE_OBJECTS}", self._linked.objects, *_further(self._linked.objects)
            ),
            f"{own}/HEAD": f"ref: {HEADS}{branch}\n",
            f"{own}/commondir": "../..\n",
            f"{own}/gitdir": os.path.join(self._linked.folder, ".git") + "\n",
        }
        shallow = read_below(common, "shallow", 64 << 20)
        return texts | ({"shallow": shallow.decode("ascii", "replace")} if shallow else {})


def _config(name: str, email: str, id_length: int) -> str:
    is_sha256 = id_length == 64
    return _CONFIG.format(
        version=int(is_sha256),
        name=_value(name),
        email=_value(email),
        extensions="[extensions]\n\tobjectformat = sha256\n" if is_sha256 else "",
    )


def _value(text: str) -> str:
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _packed(common_dir: str, refs: Mapping[str, str]) -> str:
    """The refs of the base, and the repository's tags."""
    rows = {name: commit for name, commit in [*_tags(common_dir), *refs.items()] if commit}
    listed = "".join(f"{commit} {name}\n" for name, commit in sorted(rows.items(), key=_bytes))
    return f"# pack-refs with: sorted \n{listed}"


def _further(objects: str) -> list[str]:
    """Where a repository that was cloned by reference has the rest of its objects."""
    found: list[str] = []
    waiting = [objects]
    while waiting and len(found) < _MAX_STORES:
        store = waiting.pop()
        rows = (read_below(store, "info/alternates", 1 << 16) or b"").decode("utf-8", "surrogateescape")
        for row in rows.split("\n"):
            further = os.path.normpath(os.path.join(store, row))
            if row and row[0] not in '#"' and further not in found:
                found.append(further)
                waiting.append(further)
    return found


def _bytes(item: tuple[str, str]) -> bytes:
    return item[0].encode("utf-8", "surrogateescape")


def _tags(common_dir: str) -> list[tuple[str, str]]:
    """Tags with what they point to; not all, when there are very many."""
    packed = (read_below(common_dir, "packed-refs", _MAX_PACKED) or b"").decode("utf-8", "surrogateescape")
    found = []
    for row in packed.split("\n"):
        commit, _, name = row.partition(" ")
        if name.startswith("refs/tags/"):
            found.append((name, commit))
    for folder, _, names in os.walk(os.path.join(common_dir, "refs", "tags")):
        for file in names:
            path = os.path.join(folder, file)
            name = os.path.relpath(path, common_dir)
            content = (read_below(common_dir, name, 100) or b"").decode("ascii", "replace").strip()
            if len(content) in (40, 64):
                found.append((name, content))
    return found[-_MAX_TAGS:]
