"""One task's workplace from its beginning to its end: made, mended, looked at, and taken down."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple

import msgspec

from remand.adapters.git.below import is_there
from remand.adapters.git.branches import Branches, Moved
from remand.adapters.git.linked import Linked, write_pointer
from remand.adapters.git.notes import Note, read_note, write_note
from remand.adapters.git.private import Given, PrivateFolder
from remand.adapters.git.rescue import saved
from remand.adapters.git.standing import Standing, real_standing
from remand.adapters.git.taking import Stage, taken
from remand.adapters.git.trash import Trash
from remand.adapters.git.working import (
    NO_ROOM,
    Changed,
    align,
    carry,
    changed,
    hindrance,
    index_at,
    restore,
    tidy,
    write_out,
)
from remand.app.errors import EnvironmentFault
from remand.app.scheduling.ports import Look
from remand.domain.own_files import OwnFiles

NAMED = 1000
"""How many uncommitted files are named."""
_LOOKED_AT = 20_000
"""How many files a workplace that is as it should be is looked through for, at most."""


class Paths(NamedTuple):
    """Where a task's workplace and what belongs to it are."""

    common_dir: str
    folder: str
    """The worktree."""
    own: str
    """What no agent sees."""
    entry: str
    """What the repository calls the worktree."""


class Seat:
    """The workplace of a task. Whoever uses it holds its lock."""

    def __init__(
        self, task_id: str, paths: Paths, branches: Branches, trash: Trash, bases: Sequence[str]
    ) -> None:
        self._task_id = task_id
        self._own = paths.own
        self._bases = bases
        self._branches = branches
        self._trash = trash
        self._making = os.path.join(paths.own, "making")
        self.linked = Linked(paths.common_dir, paths.folder, paths.entry)
        self.private = PrivateFolder(os.path.join(paths.own, "private"), self.linked, trash)

    def prepare(self, branch: str, start: str) -> str:
        """Has a whole worktree stand on the branch, with the work that was there; gives the branch's tip."""
        os.makedirs(self._own, mode=0o700, exist_ok=True)
        self._clear()
        stand = self._settled(branch)
        is_right = self.linked.is_right(branch)
        if not is_right:
            self._branches.require_free(branch, self.linked.name)
        tip = self._branches.tip(branch) or self._begin(branch, start)
        if is_right and not stand.is_busy and stand.at == tip == self._note().tip:
            self._restore(tip, tidy(self.linked.folder, _LOOKED_AT))
        else:
            self._mend(branch, tip, stand)
            self._write_note(branch, tip)
        return tip

    def _begin(self, branch: str, start: str) -> str:
        """Makes the branch, and notes that we did: one on which nothing was done goes with the workplace."""
        tip = self._branches.begin(branch, start)
        write_note(self._own, msgspec.structs.replace(self._note(), begun=f"{tip} {branch}"))
        return tip

    def confine(self, branch: str, tip: str, given: Given | None) -> None:
        """Makes what a confined agent sees, anew; given nothing, takes it away."""
        if given is None:
            self.private.remove()
        else:
            self.private.make(branch, tip, given)

    def look(self, branch: str, ours: OwnFiles) -> Look:
        """What is there. The agent's own index is not asked: ours knows how its files looked before."""
        tip = self._branches.tip(branch)
        is_private = self.private.is_made()
        head = self.private.standing(branch).tip if is_private else tip
        if not self.linked.has_folder() or not (head or tip):
            return Look(head=head)
        obstacle = hindrance(self.linked.folder)
        if obstacle:
            return Look(head, (obstacle.decode("utf-8", "replace"),))
        if head in ("", tip) or not is_private:
            return Look(
                head, self._uncommitted(head or tip, self.linked.objects, ours, is_private=is_private)
            )
        with self._taken(head) as stage:
            return Look(head, self._uncommitted(head, stage.objects, ours, is_private=True))

    def bring(self, branch: str, *, is_confined: bool) -> str:
        """Brings the commits of a confined agent to the branch, and the worktree in line with it; gives its tip."""
        if is_confined and not self.private.is_made():
            raise EnvironmentFault(
                f"The git folder of task {self._task_id}'s agent is gone, and the commits in it. "
                f"The files are still in {self.linked.folder}."
            )
        tip = self._branches.tip(branch)
        if not tip:
            raise EnvironmentFault(
                f"Branch {branch} of task {self._task_id} is gone. Make it again, then repeat: "
                f"the work is still in {self.linked.folder}."
            )
        head = self.private.standing(branch).tip if self.private.is_made() else tip
        if not head:
            raise EnvironmentFault(f"The agent of task {self._task_id} has no branch {branch} any more.")
        if head != tip:
            self._advance(branch, head, tip)
        is_behind = self.private.is_made() and self._note().tip != head
        if is_behind and self.linked.has_folder() and self.linked.is_entered():
            align(self.linked, head)
            self._write_note(branch, head)
        return head

    def retire(self, *, is_kept: bool = True) -> None:
        """Saves what was not committed and takes everything away, the branch only if nothing was ever done on it."""
        self._clear()
        note = self._note()
        branch = note.branch
        if is_kept and (self.linked.has_folder() or self.private.is_made()):
            self._keep(self._stood(branch), self._branches.tip(branch))
        if os.path.lexists(self.linked.folder):
            self._trash.throw(self.linked.folder)
        self.linked.leave()
        tip = self._branches.tip(branch)
        if tip and note.begun == f"{tip} {branch}":
            self._branches.remove(branch, tip)
        self._discard(self._own)

    # ---------------------------------------------------------------------------------------------- standing

    def _settled(self, branch: str) -> Standing:
        """How the worktree stands, once what a confined agent has committed is in the repository."""
        note = self._note()
        if not self.private.is_made():
            return self._stood(branch)
        try:
            self.bring(note.branch or branch, is_confined=True)
        except EnvironmentFault as fault:  # what cannot be taken is still there as files
            if NO_ROOM in str(fault):
                raise
        stand = self._stood(note.branch or branch)
        return stand._replace(is_on_branch=stand.is_on_branch and note.branch in ("", branch))

    def _stood(self, branch: str) -> Standing:
        """How the worktree stands; of a confined agent's commits it counts only what could be taken."""
        note = self._note()
        if not self.private.is_made():
            stand = real_standing(self.linked.common_dir, self.linked.name, branch)
            at = self._last_seen(note) if stand.is_on_branch else stand.at
            return stand._replace(at=at or stand.at)
        stand = self.private.standing(branch)
        for commit in {stand.tip, stand.at} - {"", note.tip, self._branches.tip(branch)}:
            self._take(commit)
        self._keep_aside(branch)
        return stand if self._has(stand.at) else stand._replace(at=note.tip)

    def _last_seen(self, note: Note) -> str:
        """The commit that the files go by: what was committed there since, or where the branch was before.

        The branch itself does not tell: somebody may have moved it from elsewhere.
        """
        moved = self.linked.last_moved_to()
        return moved if moved != note.moved and self._has(moved) else note.tip

    def _has(self, commit: str) -> bool:
        if not commit:
            return False
        return commit == self._branches.tip(self._note().branch) or self._branches.has(commit)

    def _take(self, commit: str) -> bool:
        """Brings a commit of a confined agent's into the repository, if it is sound, so that it can be kept."""
        if self._branches.has(commit):
            return True
        try:
            with self._taken(commit) as stage:
                stage.hand_over()
        except EnvironmentFault as fault:
            if NO_ROOM in str(fault):
                raise
            return False
        return True

    def _keep_aside(self, branch: str) -> None:
        """Keeps what a confined agent has put aside: its stash, and branches of its own."""
        given = self._tips()
        commits = [one for one in self.private.aside(branch) if one not in given]
        known = self._branches.present(commits) if commits else []
        for commit in commits:
            if commit not in known and self._take(commit):
                self._branches.keep(self._task_id, commit)

    # ----------------------------------------------------------------------------------------------- mending

    def _mend(self, branch: str, tip: str, stand: Standing) -> None:
        """Puts a worktree right. Where that would lose anything, it is kept and the worktree made anew."""
        if not self.linked.has_folder():
            self._make(branch, tip)
        elif self._is_astray(tip, stand):
            self._keep(stand, tip)
            self._make(branch, tip)
        else:
            base = stand.at or tip
            removed = tidy(self.linked.folder)
            self._enter(branch, base)
            self._restore(base, removed)
            if base == tip:
                if self.private.is_made():
                    align(self.linked, tip)
                return
            if carry(self.linked, base, tip):
                self._keep_commits([base], tip)
                return
            self._keep(stand, tip)
            self._make(branch, tip)

    def _is_astray(self, tip: str, stand: Standing) -> bool:
        """True when the files go by something that is not on the branch, or something is under way in them."""
        if stand.is_busy or stand.at in ("", tip):
            return stand.is_busy
        return not stand.is_on_branch or (self.private.is_made() and stand.at != self._note().tip)

    def _enter(self, branch: str, base: str) -> None:
        """Has folder and repository know one another, with an index that is whole."""
        if not self.linked.is_entered():
            with index_at(self.linked, base, self.linked.objects) as index:
                self.linked.enter(branch, index)
            align(self.linked, base)
        self.linked.repair(branch, self._trash)
        if not self.linked.has_index():
            align(self.linked, base)
            self.linked.drop_halves()

    def _restore(self, commit: str, removed: list[bytes]) -> None:
        """Puts files back that were replaced by pipes and the like."""
        if removed:
            restore(self.linked, commit, removed)

    def _make(self, branch: str, tip: str) -> None:
        """Makes the worktree anew. The folder is there when it is whole, and not before."""
        if os.path.lexists(self.linked.folder):
            self._trash.throw(self.linked.folder)
        self.linked.leave()
        folder, index = os.path.join(self._making, "tree"), os.path.join(self._making, "index")
        try:
            os.makedirs(folder)
            write_out(folder, index, self.linked.objects, tip)
            write_pointer(folder, self.linked.entry)
            os.rename(folder, self.linked.folder)
            self.linked.enter(branch, index)
        except (OSError, EnvironmentFault):
            self._drop()
            raise
        self._discard(self._making)

    def _drop(self) -> None:
        """Leaves nothing of a worktree that could not be made."""
        with suppress(OSError):
            self.linked.leave()
        for path in (self._making, self.linked.folder):
            shutil.rmtree(path, ignore_errors=True)

    def _keep(self, stand: Standing, tip: str) -> None:
        """Keeps what is not on the branch: uncommitted work, and commits that it does not have."""
        base = next((one for one in (stand.at, self._note().tip, tip) if self._has(one)), "")
        work = ""
        if base and self.linked.has_folder():
            work = saved(self.linked, base, f"What the agent of task {self._task_id} had not committed.")
        self._keep_commits([stand.tip, work or base], tip)

    def _keep_commits(self, commits: Sequence[str], tip: str) -> None:
        for commit in dict.fromkeys(commits):
            if self._has(commit) and not (tip and self._branches.is_ancestor(commit, tip)):
                self._branches.keep(self._task_id, commit)

    # ---------------------------------------------------------------------------------------------- bringing

    def _advance(self, branch: str, head: str, tip: str) -> None:
        """Moves the branch to an agent's commit. Where that leaves commits behind, they are kept."""
        given = self._note().tip or tip
        with self._taken(head) as stage:
            is_forward = stage.is_ancestor(tip)
            if not is_forward and tip != given:
                raise Moved(_moved(branch, self._task_id, tip))
            stage.hand_over()
        if not is_forward:
            self._branches.keep(self._task_id, tip)
        try:
            self._branches.move(branch, head, tip)
        except Moved:
            raise Moved(_moved(branch, self._task_id, self._branches.tip(branch))) from None

    @contextmanager
    def _taken(self, commit: str) -> Iterator[Stage]:
        """Takes a commit of a confined agent's to a stage, without what the repository has."""
        known = self._branches.present(self._tips())
        with taken(self.private.path, self.linked.common_dir, commit, known, self._own) as stage:
            yield stage

    def _tips(self) -> set[str]:
        """Commits of the repository from which an agent's work may have grown."""
        note = self._note()
        return {note.tip, self._branches.tip(note.branch), *map(self._branches.at, self._bases)}

    def _uncommitted(self, commit: str, objects: str, ours: OwnFiles, *, is_private: bool) -> tuple[str, ...]:
        if not is_private and self.linked.has_index():
            with suppress(EnvironmentFault):
                return _named(changed(self.linked, self.linked.index, commit, objects), ours)
        with index_at(self.linked, commit, objects) as index:
            return _named(changed(self.linked, index, commit, objects), ours)

    # ------------------------------------------------------------------------------------------------- notes

    def _note(self) -> Note:
        return read_note(self._own)

    def _write_note(self, branch: str, tip: str) -> None:
        moved, begun = self.linked.last_moved_to(), self._note().begun
        write_note(self._own, Note(branch=branch, tip=tip, moved=moved, begun=begun))

    def _clear(self) -> None:
        """Takes away what a killed process was at."""
        if is_there(self._own):
            for name in os.listdir(self._own):
                if name not in ("note", "private"):
                    self._discard(os.path.join(self._own, name))

    def _discard(self, path: str) -> None:
        if os.path.lexists(path):
            self._trash.throw(path)


def _named(found: list[Changed], ours: OwnFiles) -> tuple[str, ...]:
    paths = ((one.path.decode("utf-8", "replace"), one.how != "??") for one in found)
    work = (path for path, is_tracked in paths if ours.is_work(path, is_tracked=is_tracked))
    return tuple(islice(work, NAMED))


def _moved(branch: str, task_id: str, tip: str) -> str:
    return (
        f"Branch {branch} was moved to {tip[:12]} by somebody else while the agent of task {task_id} worked on it. "
        "Nothing is lost: its commits are kept when the task goes on, from where the branch is now."
    )
