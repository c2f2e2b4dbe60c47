"""Taking commits out of a git folder of an agent's own: every object checked, nothing of it run or believed.

Of the agent's folder only files of objects are linked into a place of ours, where no file of the agent's says
where further objects are. From there they are sent as a pack to a stage, which names each by what it holds and
wants all they need to be there; only from the stage do they go to the repository.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from remand.adapters.git.bare import COSMETIC, BareRepository
from remand.adapters.git.below import folder_below, names_below
from remand.adapters.git.objects import Objects
from remand.adapters.git.transfer import NEWS_SECONDS, piped
from remand.adapters.git.trees import require_bounded
from remand.app.errors import EnvironmentFault

MAX_FILES = 200_000
MAX_BYTES = 2 << 30
"""How many files of objects an agent's folder may have, and how large they may be together."""
MAX_NEWS = 1 << 30
MAX_OBJECTS = 500_000
"""How large new files may be together, unpacked, and how many objects they may be."""
FEW = 500
"""So many objects are kept one by one, as git does it; more stay a pack."""
_HARMLESS = [name for name in COSMETIC if not name.startswith("gitmodules")]
_STRICT = "--strict=" + ",".join(f"{name}=ignore" for name in _HARMLESS)
_LOOSE_FOLDER = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when there is no room."""
_PACKED = re.compile(r"pack-[0-9a-f]{40,64}\.(?:pack|idx)")


class Stage:
    """A commit that was taken and found sound, with all that is new with it, before it is handed over."""

    def __init__(
        self, repository: BareRepository, commit: str, known: Sequence[str], common_dir: str
    ) -> None:
        self._repository = repository
        self._commit = commit
        self._known = known
        self._real = os.path.join(common_dir, "objects")
        shallow = os.path.join(common_dir, "shallow")
        self._cuts = {"GIT_SHALLOW_FILE": shallow} if os.path.exists(shallow) else {}
        self._count = 0

    @property
    def objects(self) -> str:
        """Where it is; what it needs from the repository is found there, too."""
        return os.path.join(self._repository.path, "objects")

    def take(self, offered: str) -> None:
        """Takes it from an object folder."""
        _borrow(offered, self._real)
        _borrow(self.objects, self._real)
        sends = self._cuts | {"GIT_OBJECT_DIRECTORY": offered}
        self._count = _measured(self._repository, self._commit, self._known, sends)
        reason = self._sent(
            sends, self._cuts, ("index-pack", "--stdin", _STRICT, f"--max-input-size={MAX_BYTES}")
        )
        if reason:
            raise EnvironmentFault(
                f"Commit {self._commit[:12]} of the agent's cannot be taken: {reason}. Something it needs is "
                "missing, or is not what it says it is."
            )
        _require_bounded(self._repository, self._commit)

    def is_ancestor(self, commit: str) -> bool:
        """True when another commit is part of its history."""
        asked = ("merge-base", "--is-ancestor", commit, self._commit)
        return not self._repository.run(*asked, environment=self._cuts).returncode

    def hand_over(self) -> None:
        """Brings it into the repository's own object folder."""
        keeping = ("unpack-objects", "-q") if self._count <= FEW else ("index-pack", "--stdin")
        reason = self._sent(self._cuts, self._cuts | {"GIT_OBJECT_DIRECTORY": self._real}, keeping)
        if reason:
            raise EnvironmentFault(
                f"Commit {self._commit[:12]} cannot be brought into {self._real}: {reason}"
            )

    def _sent(self, sends: Mapping[str, str], keeps: Mapping[str, str], keeping: Sequence[str]) -> str:
        return piped(self._repository, [self._commit], self._known, sends=sends, keeps=keeps, keeping=keeping)


@contextmanager
def taken(
    private_dir: str, common_dir: str, commit: str, known: Sequence[str], scratch: str
) -> Iterator[Stage]:
    """Takes a commit from a git folder of an agent's; `known` are commits of the repository."""
    with tempfile.TemporaryDirectory(prefix="taking-", dir=scratch) as place:
        offered = os.path.join(place, "offered")
        _link(private_dir, offered)
        repository = BareRepository(os.path.join(place, "git"))
        repository.make(len(commit))
        stage = Stage(repository, commit, known, common_dir)
        stage.take(offered)
        yield stage


def alternates(*folders: str) -> str:
    """What names further object folders to git."""
    return "".join(f"{_quoted(folder)}\n" for folder in folders)


def _quoted(path: str) -> str:
    if path.startswith(('"', "#")) or "\n" in path:
        inner = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{inner}"'
    return path


def _borrow(objects: str, real: str) -> None:
    os.makedirs(os.path.join(objects, "info"), mode=0o700, exist_ok=True)
    path = os.path.join(objects, "info", "alternates")
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(alternates(real))


def _link(private_dir: str, target: str) -> None:
    """Links the files of objects in an agent's folder into one of ours. What is no plain file is left out."""
    os.makedirs(os.path.join(target, "pack"), mode=0o700)
    files = size = 0
    for folder, name in _object_files(private_dir):
        os.makedirs(os.path.join(target, folder), mode=0o700, exist_ok=True)
        path = os.path.join(target, folder, name)
        files, size = files + 1, size + _linked(private_dir, folder, name, path)
        if files > MAX_FILES or size > MAX_BYTES:
            raise EnvironmentFault(
                f"The agent's objects are more than {MAX_FILES:,} files or {MAX_BYTES >> 20:,} MiB. They are not taken."
            )


def _linked(private_dir: str, folder: str, name: str, path: str) -> int:
    """Links one file, and gives its size. A link leads to the same thing for ever, so it is looked at afterwards."""
    try:
        handle = folder_below(private_dir, f"objects/{folder}")
        try:
            os.link(name, path, src_dir_fd=handle, follow_symlinks=False)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in FULL:
            raise
        return 0  # git packs and prunes meanwhile; what is missing in the end is said
    status = os.lstat(path)
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    os.unlink(path)
    return 0


def _object_files(private_dir: str) -> Iterator[tuple[str, str]]:
    for folder in names_below(private_dir, "objects"):
        wanted = _PACKED if folder == "pack" else _LOOSE if _LOOSE_FOLDER.fullmatch(folder) else None
        if wanted is not None:
            names = [name for name in names_below(private_dir, f"objects/{folder}") if wanted.fullmatch(name)]
            yield from ((folder, name) for name in names)


def _measured(
    repository: BareRepository, commit: str, known: Sequence[str], environment: Mapping[str, str]
) -> int:
    """The number of new objects; raises EnvironmentFault when they are too many or too large to be work."""
    new = ("rev-list", "--objects", "--no-object-names", commit, "--not", *known)
    listing = repository.start(
        *new, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, environment=environment
    )
    with listing:
        sizing = repository.start(
            *("cat-file", "--batch-check=%(objectsize)", "--buffer"),
            stdin=listing.stdout or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            environment=environment,
        )
        with sizing:
            ending = threading.Timer(NEWS_SECONDS, listing.kill)
            ending.start()
            try:
                count, size = _sum(sizing)
            finally:
                ending.cancel()
                for process in (listing, sizing):
                    process.kill()
    if count > MAX_OBJECTS or size > MAX_NEWS:
        raise EnvironmentFault(
            f"The agent's commits bring over {MAX_OBJECTS:,} objects or {MAX_NEWS >> 20:,} MiB. "
            "They are not taken. Leave large files out of git, or commit them yourself."
        )
    return count


def _sum(sizing: subprocess.Popen[bytes]) -> tuple[int, int]:
    count = size = 0
    for row in sizing.stdout or ():
        count += 1
        size += int(row) if row.rstrip().isdigit() else 0
        if count > MAX_OBJECTS or size > MAX_NEWS:
            break
    return count, size


def _require_bounded(repository: BareRepository, commit: str) -> None:
    objects = Objects(repository)
    try:
        tree = objects.tree_of(commit)
        if not tree:
            raise EnvironmentFault(f"{commit[:12]} of the agent's is no commit. It is not taken.")
        require_bounded(objects, tree)
    finally:
        objects.close()
