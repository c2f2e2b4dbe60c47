"""The worktrees that agents work in: real linked worktrees, each on its task's branch, kept from run to run."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from zlib import crc32

from remand.adapters.git.below import line_below
from remand.adapters.git.branches import Branches, require_legal
from remand.adapters.git.locks import locked
from remand.adapters.git.place import ENTRY, OWN, REPOSITORY_NOTE, Place
from remand.adapters.git.private import Given
from remand.adapters.git.seat import Paths, Seat
from remand.adapters.git.taking import FULL
from remand.adapters.git.trash import Trash
from remand.adapters.git.working import NO_ROOM
from remand.app.errors import EnvironmentFault
from remand.app.scheduling.ports import CannotRun, Look, Workplace
from remand.domain import ids
from remand.domain.own_files import OwnFiles

_LEFT = re.compile(rf"(?:new|old)-{ENTRY}(T-[A-Za-z0-9-]+)")
_LOCKS = 64


class GitWorkplaces:
    """The workplaces of a ledger's tasks, all under one folder. Several threads and processes may use them at once."""

    def __init__(
        self,
        place: Place,
        folder: str,
        *,
        base: str = "",
        ours: Collection[str] = (),
        guarded: Collection[str] = (),
    ) -> None:
        """`base` is the branch that work is held against, `ours` are files of ours in a worktree.

        `guarded` are those of them that no agent may change.
        """
        self._common_dir = os.path.realpath(place.common_dir)
        self._folder = os.path.realpath(folder)
        self._own = os.path.join(self._folder, OWN)
        self._branches = Branches(self._common_dir, place.root)
        self._bases = (f"refs/heads/{base}", f"refs/remotes/origin/{base}") if base else ()
        self._ours = tuple(sorted(ours))
        self._own_files = OwnFiles(ours, guarded)

    def prepare(self, task_id: str, branch: str, start: str, *, is_confined: bool) -> Workplace:
        """A task's workplace, the one it had if it is still there, its uncommitted work kept; raises CannotRun."""
        with self._alone(task_id) as seat:
            require_legal(branch)
            if f"refs/heads/{branch}" in self._bases:
                raise EnvironmentFault(
                    f"{branch} is the base, by whose rules work is measured; agents do not work on it. Give task"
                    f" {task_id} a branch of its own."
                )
            tip = seat.prepare(branch, start)
            seat.confine(branch, tip, self._given() if is_confined else None)
        self._trash.empty_soon()
        return Workplace(
            task_id=task_id,
            folder=seat.linked.folder,
            branch=branch,
            common_dir=self._common_dir,
            private_dir=seat.private.path if is_confined else "",
        )

    def look(self, workplace: Workplace) -> Look:
        """What is there now; raises CannotRun."""
        with self._alone(workplace.task_id) as seat:
            require_legal(workplace.branch)
            return seat.look(workplace.branch, self._own_files)

    def bring(self, workplace: Workplace) -> str:
        """Takes the commits of a confined agent into the repository's own branch; gives the commit at its tip.

        Raises CannotRun.
        """
        with self._alone(workplace.task_id) as seat:
            require_legal(workplace.branch)
            return seat.bring(workplace.branch, is_confined=bool(workplace.private_dir))

    def leave(self, workplace: Workplace) -> None:
        """Puts right, once its agent has gone, what leads git from the folder to the repository; raises CannotRun."""
        with self._alone(workplace.task_id) as seat:
            if seat.linked.has_folder():
                seat.linked.lead_back(self._trash)

    def retire(self, task_id: str, *, is_kept: bool = True) -> None:
        """Takes down the workplace of a task that has ended. Uncommitted work is kept; raises CannotRun."""
        with self._alone(task_id) as seat:
            seat.retire(is_kept=is_kept)
        self._trash.empty_soon()

    def names(self) -> list[str]:
        """What lies where the workplaces are."""
        return sorted(_names(self._folder))

    def sweep(self, kept: Collection[str]) -> list[str]:
        """Takes down every workplace of other tasks than these, and what a killed scheduler left; gives their ids.

        What cannot be taken down, as there is no room to save its work, stays.
        """
        gone = []
        for task_id in sorted(self._found() - set(kept)):
            with suppress(CannotRun):
                self.retire(task_id)
                gone.append(task_id)
        with suppress(OSError):
            self._trash.empty_soon()
        return gone

    @contextmanager
    def _alone(self, task_id: str) -> Iterator[Seat]:
        """A task's workplace, for us alone."""
        with _saying():
            if ids.task_id(task_id) != task_id:
                raise EnvironmentFault(f"{task_id[:80]!r} is no task's id.")
            self._require_private()
            lock = os.path.join(self._own, "locks", str(crc32(task_id.encode()) % _LOCKS))
            with locked(lock):
                yield self._seat(task_id)

    def _seat(self, task_id: str) -> Seat:
        paths = Paths(
            common_dir=self._common_dir,
            folder=os.path.join(self._folder, task_id),
            own=os.path.join(self._own, task_id),
            entry=ENTRY + task_id,
        )
        return Seat(task_id, paths, self._branches, self._trash, self._bases)

    def _given(self) -> Given:
        refs = {name: commit for name in self._bases if (commit := self._branches.at(name))}
        name, email = self._identity
        return Given(refs=refs, name=name, email=email, excluded=self._ours)

    def _found(self) -> set[str]:
        """Every task that has something here or in the repository, whole or not."""
        here = [*_names(self._folder), *_names(self._own)]
        entries = os.path.join(self._common_dir, "worktrees")
        for name in _names(entries):
            folder = os.path.dirname(line_below(os.path.join(entries, name), "gitdir"))
            if os.path.dirname(folder) == self._folder and name == ENTRY + os.path.basename(folder):
                here.append(os.path.basename(folder))
        here += [found[1] for name in _names(self._common_dir) if (found := _LEFT.fullmatch(name))]
        return {name for name in here if ids.task_id(name) == name}

    @cached_property
    def _trash(self) -> Trash:
        self._require_private()
        return Trash(os.path.join(self._own, "trash"))

    @cached_property
    def _identity(self) -> tuple[str, str]:
        """The user's own name and address, as git knows them, or ours. Reading them runs nothing."""
        asked = ["git", "config", "-z", "--get-regexp", r"^user\.(name|email)$"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(asked, cwd=self._common_dir, env=kept, capture_output=True, check=False)
        rows = (row.partition("\n") for row in done.stdout.decode("utf-8", "replace").split("\0"))
        found = {key: value for key, _, value in rows if value}
        return found.get("user.name", "Remand"), found.get("user.email", "remand@localhost")

    def _require_private(self) -> None:
        """Has a folder of this user's, and in it one that is closed to all others."""
        inner = (os.path.join(self._own, name) for name in ("locks", "trash"))
        for path in (self._folder, self._own, *inner):
            os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(self._own)
        if os.path.islink(self._own) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise EnvironmentFault(
                f"{self._own} is open to others. Remove it, or make it yours with `chmod 700`."
            )
        self._note_repository()

    def _note_repository(self) -> None:
        """Notes, out of the agents' reach, whose worktrees these are: a link is there whole or not at all."""
        note = os.path.join(self._folder, REPOSITORY_NOTE)
        while not os.path.islink(note) or os.readlink(note) != self._common_dir:
            with suppress(FileExistsError):
                os.symlink(self._common_dir, note)
                return
            with suppress(FileNotFoundError):
                os.unlink(note)


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()


@contextmanager
def _saying() -> Iterator[None]:
    """Has whatever goes wrong said in one way: a full disk as such, all else as git's."""
    try:
        yield
    except EnvironmentFault as fault:
        if NO_ROOM in str(fault):
            raise CannotRun("disk", _no_room(str(fault))) from None
        raise CannotRun("git", str(fault)) from None
    except OSError as error:
        if error.errno in FULL:
            raise CannotRun("disk", _no_room(str(error))) from None
        raise CannotRun("git", f"The workplace cannot be made or read: {error}.") from None


def _no_room(reason: str) -> str:
    return f"There is no room on the disk for workplaces: {reason}. Make some, then repeat."
