"""Moving a commit out of a repository that agents can change, so that nothing of it is run or believed.

Only its object folder is read, by a git that knows our configuration alone. What it finds there is sent as a
pack, and the receiving side names every object by what it holds: an object that was tampered with arrives under
another name, the one that was asked for is missing, and all of it is refused.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from remand.adapters.git.bare import COSMETIC, BareRepository, Damaged, said
from remand.app.errors import EnvironmentFault

SECONDS = 900.0
"""How long a first transfer may take."""
NEWS_SECONDS = 180.0
"""How long one may take that leaves out what we know."""
_STRICT = "--strict=" + ",".join(f"{name}=ignore" for name in COSMETIC)
_MAX_CUTS = 4 << 20
_PACKING = ("pack-objects", "--revs", "--stdout", "-q", "--window=0", "--compression=1")


def receive(own: BareRepository, source: str, commit: str, known: Sequence[str]) -> None:
    """Brings a commit and all it needs from a git folder; `known` are commits that we have already."""
    objects = os.path.join(source, "objects")
    _require_whole(source, objects)
    _require_plain(objects)
    there = _present(own, objects, [commit, *known])
    if commit not in there:
        raise EnvironmentFault(f"There is no commit {commit} in {source}. Commit the work, then repeat.")
    reason = ""
    for base, cut in _ways(own, source, [one for one in known if one in there]):
        reason = _sent(own, objects, commit, base, cut)
        if not reason:
            _cut(own, cut)
            return
        if base and not own.is_sound():
            break
    raise Damaged(
        f"Commit {commit[:12]} cannot be taken from {source}: {reason}. Something it needs is missing there, "
        "or is not what it says it is. `git fsck` tells more; `git fetch --refetch` mends a partial clone."
    )


def has_grown(own: BareRepository, source: str) -> bool:
    """True when our history was cut where the source's was, and the source has all of it by now."""
    return bool(_cuts(own.path)) and not _cuts(source)


def _require_whole(source: str, objects: str) -> None:
    """Objects borrowed from elsewhere are not read: a path in a file of the agent's says where that is."""
    for name in ("alternates", "http-alternates"):
        if os.path.lexists(os.path.join(objects, "info", name)):
            raise EnvironmentFault(
                f"{source} borrows objects from another repository, which is not followed. "
                f"Run `git repack -a -d` there, remove objects/info/{name}, then repeat."
            )


def _require_plain(objects: str) -> None:
    """A pipe among the objects would keep git waiting, and a link would lead it elsewhere."""
    try:
        for folder in _checked(objects):
            _checked(folder)
    except OSError as error:
        raise EnvironmentFault(f"{objects} cannot be read: {error.strerror}.") from None


def _checked(folder: str) -> list[str]:
    """The folders in a folder of plain files."""
    with os.scandir(folder) as found:
        others = [entry for entry in found if not entry.is_file(follow_symlinks=False)]
    for entry in others:
        if not entry.is_dir(follow_symlinks=False):
            raise EnvironmentFault(
                f"{entry.path} is no plain file, so nothing is read there. Remove it, then repeat."
            )
    return [entry.path for entry in others]


def _present(own: BareRepository, objects: str, commits: Sequence[str]) -> set[str]:
    answer = own.run(
        "cat-file",
        "--batch-check=%(objectname) %(objecttype)",
        stdin="".join(f"{commit}\n" for commit in commits).encode(),
        environment={"GIT_OBJECT_DIRECTORY": objects},
    )
    rows = (row.split() for row in answer.stdout.decode("ascii", "replace").splitlines())
    return {row[0] for row in rows if row[1:] == ["commit"]}


def _ways(own: BareRepository, source: str, known: list[str]) -> Iterator[tuple[list[str], str]]:
    """What to leave out and where history is cut, likeliest first. A cut is believed only where all else fails."""
    yield known, ""
    if known:
        yield [], ""
    cuts = _cuts(source)
    if cuts:
        path = os.path.join(own.path, "cuts")
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(f"{cut}\n" for cut in sorted(cuts | _cuts(own.path))))
        yield known, path
        yield [], path


def _cuts(git_dir: str) -> set[str]:
    """Where the history of a shallow clone ends."""
    try:
        with open(os.path.join(git_dir, "shallow"), encoding="ascii", errors="replace") as file:
            rows = file.read(_MAX_CUTS).split()
    except OSError:
        return set()
    return {row for row in rows if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", row)}


def _cut(own: BareRepository, path: str) -> None:
    """Remembers where our own history ends: where parents are really nowhere to be had."""
    if not path:
        return
    with open(path, encoding="ascii") as file:
        parents = _parents(own, set(file.read().split()))
    here = _present(
        own, os.path.join(own.path, "objects"), [one for some in parents.values() for one in some]
    )
    ends = sorted(commit for commit, some in parents.items() if not here.issuperset(some))
    draft = os.path.join(own.path, "shallow.new")
    with open(draft, "w", encoding="ascii") as file:
        file.writelines(f"{commit}\n" for commit in ends)
    os.replace(draft, os.path.join(own.path, "shallow"))


def _parents(own: BareRepository, commits: set[str]) -> dict[str, list[str]]:
    """The parents that commits of ours name, whatever else says that they have none."""
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    found: dict[str, list[str]] = {}
    commit = ""
    for row in own.run("cat-file", "--batch", stdin=asked).stdout.decode("utf-8", "replace").split("\n"):
        words = row.split(" ")
        if words[0] in commits and words[1:2] == ["commit"]:
            commit = words[0]
            found[commit] = []
        elif words[0] == "parent" and commit and len(words) == 2:
            found[commit].append(words[1])
        elif not row:
            commit = ""
    return found


def _sent(own: BareRepository, objects: str, commit: str, known: Sequence[str], cut: str) -> str:
    """Sends a commit from an object folder to our own repository; returns why it failed."""
    environment = {"GIT_SHALLOW_FILE": cut} if cut else {}
    return piped(
        own,
        [commit],
        known,
        sends=environment | {"GIT_OBJECT_DIRECTORY": objects},
        keeps=environment,
        keeping=("index-pack", "--stdin", _STRICT),
    )


def piped(
    own: BareRepository,
    commits: Sequence[str],
    known: Sequence[str],
    *,
    sends: Mapping[str, str],
    keeps: Mapping[str, str],
    keeping: Sequence[str],
) -> str:
    """Sends commits, without what known ones have, from one object folder to another; returns why it failed.

    `sends` and `keeps` are what the two sides' environments have besides, `keeping` is the receiving command.
    """
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as errors:
        asked.write("\n".join((*commits, "--not", *known, "")).encode())
        asked.seek(0)
        packing = own.start(*_PACKING, stdin=asked, stdout=subprocess.PIPE, stderr=errors, environment=sends)
        with packing:
            receiving = _keeping(own, packing.stdout, keeping, errors, keeps)
            with receiving:
                is_done = _ended(packing, receiving, seconds=NEWS_SECONDS if known else SECONDS)
        if is_done:
            return ""
        errors.seek(0)
        return said(errors.read())


def _keeping(
    own: BareRepository,
    pack: IO[bytes] | None,
    command: Sequence[str],
    errors: IO[bytes],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Starts the side that names every object by its content and wants all of them to be there."""
    if pack is None:
        raise EnvironmentFault("git cannot be asked.")
    with pack:
        return own.start(
            *command, stdin=pack, stdout=subprocess.DEVNULL, stderr=errors, environment=environment
        )


def _ended(*processes: subprocess.Popen[bytes], seconds: float) -> bool:
    """True when all ended well and in time."""
    deadline = time.monotonic() + seconds
    try:
        codes = [process.wait(max(0.0, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        for process in processes:
            process.kill()
        return False
    return not any(codes)
