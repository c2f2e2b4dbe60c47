"""Imports commits from repositories that agents can write to.

Verifies every object; executes and trusts nothing of theirs.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from remand.adapters.git.bare_repository import (
    COSMETIC,
    BareRepository,
    DamagedRepository,
    Objects,
    require_bounded,
)
from remand.adapters.git.command import git_error, one_per_line, parse_batch, parse_batch_check
from remand.adapters.git.files import list_below, open_folder_below
from remand.adapters.system.files import atomic_write, read_start
from remand.app.errors import EnvironmentFault

SECONDS = 900.0
"""Time limit of a first transfer."""
NEWS_SECONDS = 180.0
"""Time limit of a transfer that leaves out known commits."""
_MIRROR_STRICT = "--strict=" + ",".join(f"{name}=ignore" for name in COSMETIC)
_MAX_CUTS = 4 << 20
_PACKING = ("pack-objects", "--revs", "--stdout", "-q", "--window=0", "--compression=1")


def receive_commit(
    own: BareRepository, source: str, commit: str, known: Sequence[str], *, is_own: bool = False
) -> None:
    """Copies a commit and all that it needs from a git folder; `known` are commits that we have already.

    Only a folder of our own (`is_own`) may borrow objects, because we configured where from.
    """
    objects = os.path.join(source, "objects")
    if not is_own:
        _require_whole(source, objects)
    _require_plain(objects)
    there = _present(own, objects, [commit, *known])
    if commit not in there:
        raise EnvironmentFault(f"There is no commit {commit} in {source}. Commit the work, then repeat.")
    reason = ""
    for base, cut in _transfer_plans(own, source, [name for name in known if name in there]):
        keeps = {"GIT_SHALLOW_FILE": cut} if cut else {}
        sends = keeps | {"GIT_OBJECT_DIRECTORY": objects}
        keeping = ("index-pack", "--stdin", _MIRROR_STRICT)
        reason = pipe_commit(own, commit, base, sends=sends, keeps=keeps, keeping=keeping)
        if not reason:
            _record_shallow(own, cut)
            return
        if base and not own.is_sound():
            break
    raise DamagedRepository(
        f"Commit {commit[:12]} cannot be imported from {source}: {reason}. Something it needs is missing there or is damaged. `git fsck` shows details; `git fetch --refetch` repairs a partial clone."
    )


def has_grown(own: BareRepository, source: str) -> bool:
    """True if both histories were cut at the same place and the source now has the missing part."""
    return bool(_shallow_commits(own.path)) and not _shallow_commits(source)


def _require_whole(source: str, objects: str) -> None:
    """Refuses borrowed objects: the path to them stands in a file that the agent can write."""
    for name in ("alternates", "http-alternates"):
        if os.path.lexists(os.path.join(objects, "info", name)):
            raise EnvironmentFault(
                f"{source} borrows objects from another repository, which Remand does not follow. "
                f"Run `git repack -a -d` there, remove objects/info/{name}, then repeat."
            )


def _require_plain(objects: str) -> None:
    """Refuses anything but plain files among the objects: a pipe would block git, a link would redirect it."""
    try:
        for folder in _list_folders(objects):
            _list_folders(folder)
    except OSError as error:
        raise EnvironmentFault(f"{objects} cannot be read: {error.strerror}.") from None


def _list_folders(folder: str) -> list[str]:
    """The subfolders of an object folder."""
    with os.scandir(folder) as found:
        others = [entry for entry in found if not entry.is_file(follow_symlinks=False)]
    for entry in others:
        if not entry.is_dir(follow_symlinks=False):
            raise EnvironmentFault(
                f"{entry.path} is not a regular file, so it is not read. Remove it, then repeat."
            )
    return [entry.path for entry in others]


def _present(own: BareRepository, objects: str, commits: Sequence[str]) -> set[str]:
    answer = own.run(
        *("cat-file", "--batch-check"),
        stdin=one_per_line(commits),
        environment={"GIT_OBJECT_DIRECTORY": objects},
    )
    return {name for name, kind, _ in parse_batch_check(answer.stdout) if kind == "commit"}


def _transfer_plans(own: BareRepository, source: str, known: list[str]) -> Iterator[tuple[list[str], str]]:
    """What to leave out and where history is cut, likeliest first. A cut is accepted only if all else fails."""
    yield known, ""
    if known:
        yield [], ""
    cuts = _shallow_commits(source)
    if cuts:
        path = os.path.join(own.path, "cuts")
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(f"{cut}\n" for cut in sorted(cuts | _shallow_commits(own.path))))
        yield known, path
        yield [], path


def _shallow_commits(git_dir: str) -> set[str]:
    """The commits at which a shallow clone's history ends."""
    rows = read_start(os.path.join(git_dir, "shallow"), _MAX_CUTS).decode("ascii", "replace").split()
    return {row for row in rows if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", row)}


def _record_shallow(own: BareRepository, path: str) -> None:
    """Records where our own history ends: at commits whose parents are not available anywhere."""
    if not path:
        return
    with open(path, encoding="ascii") as file:
        parents = _parents(own, set(file.read().split()))
    here = _present(
        own, os.path.join(own.path, "objects"), [parent for named in parents.values() for parent in named]
    )
    ends = sorted(commit for commit, named in parents.items() if not here.issuperset(named))
    path = os.path.join(own.path, "shallow")
    atomic_write(path, "".join(f"{commit}\n" for commit in ends).encode("ascii"), draft=f"{path}.new")


def _parents(own: BareRepository, commits: set[str]) -> dict[str, list[str]]:
    """The parents that our commits name, even where a shallow boundary hides them."""
    found: dict[str, list[str]] = {}
    for commit, kind, content in parse_batch(
        own.run("cat-file", "--batch", stdin=one_per_line(commits)).stdout
    ):
        if kind == "commit":
            rows = content.partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")
            found[commit] = [row.removeprefix("parent ") for row in rows if row.startswith("parent ")]
    return found


def pipe_commit(
    own: BareRepository,
    commit: str,
    known: Sequence[str],
    *,
    sends: Mapping[str, str],
    keeps: Mapping[str, str],
    keeping: Sequence[str],
) -> str:
    """Sends a commit and its objects, except those of known commits, from one object folder to another.

    `sends` and `keeps` are additional environment variables of the sending and receiving side; `keeping` is
    the receiving command. Returns why it failed, or an empty string.
    """
    with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as errors:
        input_file.write("\n".join((commit, "--not", *known, "")).encode())
        input_file.seek(0)
        packing = own.start(
            *_PACKING, stdin=input_file, stdout=subprocess.PIPE, stderr=errors, environment=sends
        )
        with packing:
            if packing.stdout is None:
                raise EnvironmentFault("git cannot be asked.")
            with packing.stdout as pack:
                # The receiver hashes every object and requires all of them to be present.
                receiving = own.start(
                    *keeping, stdin=pack, stdout=subprocess.DEVNULL, stderr=errors, environment=keeps
                )
            with receiving:
                is_done = _all_succeeded(packing, receiving, seconds=NEWS_SECONDS if known else SECONDS)
        if is_done:
            return ""
        errors.seek(0)
        return git_error(errors.read())


def _all_succeeded(*processes: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    try:
        codes = [process.wait(max(0.0, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        for process in processes:
            process.kill()
        return False
    return not any(codes)


MAX_FILES = 200_000
MAX_BYTES = 2 << 30
"""Largest number of object files in an agent's folder, and their largest total size."""
MAX_NEWS = 1 << 30
MAX_OBJECTS = 500_000
"""Largest total size of the new objects, unpacked, and their largest number."""
FEW = 500
"""Up to this many objects are stored one by one, as git does; more stay in a pack."""
_HARMLESS = [name for name in COSMETIC if not name.startswith("gitmodules")]
_AGENT_STRICT = "--strict=" + ",".join(f"{name}=ignore" for name in _HARMLESS)
_LOOSE_FOLDER = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
FULL = (errno.ENOSPC, errno.EDQUOT)
"""The errors that the system reports when the disk or a quota is full."""
_PACKED = re.compile(r"pack-[0-9a-f]{40,64}\.(?:pack|idx)")


class StagedCommit:
    """A verified commit with its new objects, before it is handed over."""

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
        """The folder of its objects; it also gives access to those of the repository."""
        return os.path.join(self._repository.path, "objects")

    def receive(self, offered: str) -> None:
        _write_alternates(offered, self._real)
        _write_alternates(self.objects, self._real)
        sends = self._cuts | {"GIT_OBJECT_DIRECTORY": offered}
        self._count = _count_new_objects(self._repository, self._commit, self._known, sends)
        reason = self._pipe(
            sends, self._cuts, ("index-pack", "--stdin", _AGENT_STRICT, f"--max-input-size={MAX_BYTES}")
        )
        if reason:
            raise EnvironmentFault(
                f"The agent's commit {self._commit[:12]} cannot be imported: {reason}. Something it needs is missing or is damaged."
            )
        _require_bounded(self._repository, self._commit)

    def is_ancestor(self, commit: str) -> bool:
        arguments = ("merge-base", "--is-ancestor", commit, self._commit)
        return not self._repository.run(*arguments, environment=self._cuts).returncode

    def store_objects(self) -> None:
        """Writes the objects of the commit into the repository."""
        keeping = ("unpack-objects", "-q") if self._count <= FEW else ("index-pack", "--stdin")
        reason = self._pipe(self._cuts, self._cuts | {"GIT_OBJECT_DIRECTORY": self._real}, keeping)
        if reason:
            raise EnvironmentFault(
                f"Commit {self._commit[:12]} cannot be imported into {self._real}: {reason}"
            )

    def _pipe(self, sends: Mapping[str, str], keeps: Mapping[str, str], keeping: Sequence[str]) -> str:
        return pipe_commit(
            self._repository, self._commit, self._known, sends=sends, keeps=keeps, keeping=keeping
        )


@contextmanager
def stage_commit(
    private_dir: str, common_dir: str, commit: str, known: Sequence[str], scratch: str
) -> Iterator[StagedCommit]:
    """Imports a commit from an agent's git folder into a scratch repository. `known` are the repository's commits."""
    with tempfile.TemporaryDirectory(prefix="taking-", dir=scratch) as place:
        offered = os.path.join(place, "offered")
        _link_objects(private_dir, offered)
        repository = BareRepository(os.path.join(place, "git"))
        repository.make(len(commit))
        stage = StagedCommit(repository, commit, known, common_dir)
        stage.receive(offered)
        yield stage


def alternates(*folders: str) -> str:
    """The list of additional object folders, in git's format."""
    return "".join(f"{_quote_path(folder)}\n" for folder in folders)


def _quote_path(path: str) -> str:
    if path.startswith(('"', "#")) or "\n" in path:
        inner = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{inner}"'
    return path


def _write_alternates(objects: str, real: str) -> None:
    os.makedirs(os.path.join(objects, "info"), mode=0o700, exist_ok=True)
    path = os.path.join(objects, "info", "alternates")
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(alternates(real))


def _link_objects(private_dir: str, target: str) -> None:
    """Links the object files of an agent's folder into one of ours. Leaves out all but plain files."""
    os.makedirs(os.path.join(target, "pack"), mode=0o700)
    files = size = 0
    for folder, name in _object_files(private_dir):
        os.makedirs(os.path.join(target, folder), mode=0o700, exist_ok=True)
        path = os.path.join(target, folder, name)
        files, size = files + 1, size + _link_file(private_dir, folder, name, path)
        if files > MAX_FILES or size > MAX_BYTES:
            raise EnvironmentFault(
                f"The agent's objects are more than {MAX_FILES:,} files or {MAX_BYTES >> 20:,} MiB. They are not imported."
            )


def _link_file(private_dir: str, folder: str, name: str, path: str) -> int:
    """Links one file and returns its size. It is checked afterwards, since the link's target cannot change."""
    try:
        handle = open_folder_below(private_dir, f"objects/{folder}")
        try:
            os.link(name, path, src_dir_fd=handle, follow_symlinks=False)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in FULL:
            raise
        return 0  # git may pack or prune meanwhile; whatever is missing is reported later.
    status = os.lstat(path)
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    os.unlink(path)
    return 0


def _object_files(private_dir: str) -> Iterator[tuple[str, str]]:
    for folder in list_below(private_dir, "objects"):
        wanted = _PACKED if folder == "pack" else _LOOSE if _LOOSE_FOLDER.fullmatch(folder) else None
        if wanted is not None:
            names = [name for name in list_below(private_dir, f"objects/{folder}") if wanted.fullmatch(name)]
            yield from ((folder, name) for name in names)


def _count_new_objects(
    repository: BareRepository, commit: str, known: Sequence[str], environment: Mapping[str, str]
) -> int:
    """The number of new objects. Raises EnvironmentFault if they are too many or too large to be real work."""
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
            f"The agent's commits add more than {MAX_OBJECTS:,} objects or {MAX_NEWS >> 20:,} MiB. They are not imported. Keep large files out of git, or commit them yourself."
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
            raise EnvironmentFault(f"The agent's {commit[:12]} is not a commit. It is not imported.")
        require_bounded(objects, tree)
    finally:
        objects.close()
