"""The worktrees in which agents work, one for each task: prepared, repaired, inspected and removed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from zlib import crc32

import msgspec

from remand.adapters.git import linked_worktree
from remand.adapters.git.command import user_identity
from remand.adapters.git.commit_import import FULL, StagedCommit, stage_commit
from remand.adapters.git.files import Trash, is_real_folder, read_line_below, require_private
from remand.adapters.git.location import ENTRY, OWN, REPOSITORY_NOTE, LedgerLocation
from remand.adapters.git.refs import (
    AgentGitSettings,
    Branches,
    LinkedWorktreeState,
    PrivateGitFolder,
    RefMoved,
    find_stashed_commits,
    read_worktree_state,
    require_valid_branch,
)
from remand.adapters.system.files import hold_lock
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import CannotRun, TaskWorktree, WorktreeState
from remand.domain import ids
from remand.domain.hosts import SetupFiles

NAMED = 1000
"""How many uncommitted files are named."""
_LOOKED_AT = 20_000
"""Most entries checked for special files in a worktree that seems in order."""


class GitTaskWorktree:
    """The worktree of a task. Whoever uses it holds its lock."""

    def __init__(
        self,
        linked: linked_worktree.LinkedWorktree,
        own: str,
        branches: Branches,
        trash: Trash,
        bases: Sequence[str],
    ) -> None:
        """`own` is the folder for files that agents cannot see."""
        self._task_id = os.path.basename(own)
        self._own = own
        self._bases = bases
        self._branches = branches
        self._trash = trash
        self._making = os.path.join(own, "making")
        self.linked = linked
        self.private = PrivateGitFolder(os.path.join(own, "private"), linked, trash)

    def prepare(self, branch: str, start: str) -> str:
        """Prepares a complete worktree on the branch, with earlier work; returns the branch's tip."""
        os.makedirs(self._own, mode=0o700, exist_ok=True)
        self._clear()
        state = self._import_and_read_state(branch)
        is_right = self.linked.is_intact(branch)
        if not is_right:
            self._branches.require_free(branch, self.linked.name)
        tip = self._branches.tip(branch)
        if not tip:
            # Records that we created it: an unused branch is removed with the worktree.
            tip = self._branches.create(branch, start)
            linked_worktree.write_note(
                self._own, msgspec.structs.replace(self._note(), begun=f"{tip} {branch}")
            )
        if is_right and not state.is_busy and state.at == tip == self._note().tip:
            self._restore(tip, linked_worktree.remove_special_files(self.linked.folder, _LOOKED_AT))
        else:
            self._repair(branch, tip, state)
            self._write_note(branch, tip)
        return tip

    def inspect(self, branch: str, setup_files: SetupFiles) -> WorktreeState:
        """The worktree's state. Uses our own index, which knows how the files looked, not the agent's."""
        tip = self._branches.tip(branch)
        is_private = self.private.is_made()
        head = self.private.read_state(branch).tip if is_private else tip
        if not self.linked.has_folder() or not (head or tip):
            return WorktreeState(head=head)
        obstacle = linked_worktree.find_special_file(self.linked.folder)
        if obstacle:
            return WorktreeState(head, (obstacle.decode("utf-8", "replace"),))
        if head in ("", tip) or not is_private:
            return WorktreeState(
                head,
                self._uncommitted_files(head or tip, self.linked.objects, setup_files, is_private=is_private),
            )
        with self._stage(head) as stage:
            return WorktreeState(
                head, self._uncommitted_files(head, stage.objects, setup_files, is_private=True)
            )

    def import_commits(self, branch: str, *, is_confined: bool) -> str:
        """Imports the commits of a confined agent into the branch and updates the worktree. Returns the branch's tip."""
        if is_confined and not self.private.is_made():
            raise EnvironmentFault(
                f"The git folder of task {self._task_id}'s agent is gone, and the commits in it. "
                f"The files are still in {self.linked.folder}."
            )
        tip = self._branches.tip(branch)
        if not tip:
            raise EnvironmentFault(
                f"Branch {branch} of task {self._task_id} is gone. Create it again, then repeat: "
                f"the work is still in {self.linked.folder}."
            )
        head = self.private.read_state(branch).tip if self.private.is_made() else tip
        if not head:
            raise EnvironmentFault(f"The agent of task {self._task_id} no longer has the branch {branch}.")
        if head != tip:
            self._advance(branch, head, tip)
        is_behind = self.private.is_made() and self._note().tip != head
        if is_behind and self.linked.has_folder() and self.linked.is_registered():
            linked_worktree.reset_index(self.linked, head)
            self._write_note(branch, head)
        return head

    def remove(self, *, is_kept: bool = True) -> None:
        """Saves uncommitted work and removes the worktree; removes the branch only if it was never used."""
        self._clear()
        note = self._note()
        branch = note.branch
        if is_kept and (self.linked.has_folder() or self.private.is_made()):
            self._keep(self._read_state(branch), self._branches.tip(branch))
        if os.path.lexists(self.linked.folder):
            self._trash.throw(self.linked.folder)
        self.linked.unregister()
        tip = self._branches.tip(branch)
        if tip and note.begun == f"{tip} {branch}":
            self._branches.remove(branch, tip)
        self._discard(self._own)

    # ------------------------------------------------------------------------------------------------- state

    def _import_and_read_state(self, branch: str) -> LinkedWorktreeState:
        """The state of the worktree, after importing what a confined agent committed."""
        note = self._note()
        if not self.private.is_made():
            return self._read_state(branch)
        try:
            self.import_commits(note.branch or branch, is_confined=True)
        except EnvironmentFault as fault:  # What cannot be imported still exists as files.
            if linked_worktree.NO_ROOM in str(fault):
                raise
        state = self._read_state(note.branch or branch)
        return state._replace(is_on_branch=state.is_on_branch and note.branch in ("", branch))

    def _read_state(self, branch: str) -> LinkedWorktreeState:
        """The state of the worktree. Of a confined agent's commits, counts only those that could be imported."""
        note = self._note()
        if not self.private.is_made():
            state = read_worktree_state(self.linked.common_dir, self.linked.name, branch)
            at = self._last_seen(note) if state.is_on_branch else state.at
            return state._replace(at=at or state.at)
        state = self.private.read_state(branch)
        for commit in {state.tip, state.at} - {"", note.tip, self._branches.tip(branch)}:
            self._take(commit)
        self._keep_aside(branch)
        return state if self._has(state.at) else state._replace(at=note.tip)

    def _last_seen(self, note: linked_worktree.WorktreeNote) -> str:
        """The commit that the files are based on: the last one committed there, or the branch's earlier tip.

        The branch alone does not say, since somebody may have moved it from elsewhere.
        """
        moved = self.linked.last_moved_to()
        return moved if moved != note.moved and self._has(moved) else note.tip

    def _has(self, commit: str) -> bool:
        if not commit:
            return False
        return commit == self._branches.tip(self._note().branch) or self._branches.has_commit(commit)

    def _take(self, commit: str) -> bool:
        """Imports a confined agent's commit into the repository, if it is sound, so that it can be preserved."""
        if self._branches.has_commit(commit):
            return True
        try:
            with self._stage(commit) as stage:
                stage.store_objects()
        except EnvironmentFault as fault:
            if linked_worktree.NO_ROOM in str(fault):
                raise
            return False
        return True

    def _keep_aside(self, branch: str) -> None:
        """Preserves a confined agent's stash and its other branches."""
        tips = self._tips()
        commits = [one for one in find_stashed_commits(self.private.path, branch) if one not in tips]
        known = self._branches.existing_commits(commits) if commits else []
        for commit in commits:
            if commit not in known and self._take(commit):
                self._branches.keep_commit(self._task_id, commit)

    # ------------------------------------------------------------------------------------------------ repair

    def _repair(self, branch: str, tip: str, state: LinkedWorktreeState) -> None:
        """Repairs a worktree. If that would lose anything, saves it and recreates the worktree."""
        if not self.linked.has_folder():
            self._make(branch, tip)
        elif self._has_diverged(tip, state):
            self._keep(state, tip)
            self._make(branch, tip)
        else:
            base = state.at or tip
            removed = linked_worktree.remove_special_files(self.linked.folder)
            self._enter(branch, base)
            self._restore(base, removed)
            if base == tip:
                if self.private.is_made():
                    linked_worktree.reset_index(self.linked, tip)
                return
            if linked_worktree.move_to_commit(self.linked, base, tip):
                self._keep_commits([base], tip)
                return
            self._keep(state, tip)
            self._make(branch, tip)

    def _has_diverged(self, tip: str, state: LinkedWorktreeState) -> bool:
        """True if the files are based on a commit that is not on the branch, or an operation is unfinished."""
        if state.is_busy or state.at in ("", tip):
            return state.is_busy
        return not state.is_on_branch or (self.private.is_made() and state.at != self._note().tip)

    def _enter(self, branch: str, base: str) -> None:
        """Registers the folder in the repository, with a complete index."""
        if not self.linked.is_registered():
            with linked_worktree.temporary_index(self.linked, base, self.linked.objects) as index:
                self.linked.register(branch, index)
            linked_worktree.reset_index(self.linked, base)
        self.linked.repair(branch, self._trash)
        if not self.linked.has_index():
            linked_worktree.reset_index(self.linked, base)
            self.linked.remove_split_index()

    def _restore(self, commit: str, removed: list[bytes]) -> None:
        if removed:
            linked_worktree.restore_files(self.linked, commit, removed)

    def _make(self, branch: str, tip: str) -> None:
        """Recreates the worktree. The folder appears only when it is complete."""
        if os.path.lexists(self.linked.folder):
            self._trash.throw(self.linked.folder)
        self.linked.unregister()
        folder, index = os.path.join(self._making, "tree"), os.path.join(self._making, "index")
        try:
            os.makedirs(folder)
            linked_worktree.check_out_into(folder, index, self.linked.objects, tip)
            linked_worktree.write_pointer(folder, self.linked.entry)
            os.rename(folder, self.linked.folder)
            self.linked.register(branch, index)
        except (OSError, EnvironmentFault):
            with suppress(OSError):
                self.linked.unregister()
            for path in (self._making, self.linked.folder):
                shutil.rmtree(path, ignore_errors=True)
            raise
        self._discard(self._making)

    def _keep(self, state: LinkedWorktreeState, tip: str) -> None:
        """Saves what is not on the branch: uncommitted work, and commits that it lacks."""
        base = next((one for one in (state.at, self._note().tip, tip) if self._has(one)), "")
        work = ""
        if base and self.linked.has_folder():
            work = linked_worktree.save_uncommitted(
                self.linked, base, f"What the agent of task {self._task_id} had not committed."
            )
        self._keep_commits([state.tip, work or base], tip)

    def _keep_commits(self, commits: Sequence[str], tip: str) -> None:
        for commit in dict.fromkeys(commits):
            if self._has(commit) and not (tip and self._branches.is_ancestor(commit, tip)):
                self._branches.keep_commit(self._task_id, commit)

    # ------------------------------------------------------------------------------------------------ import

    def _advance(self, branch: str, head: str, tip: str) -> None:
        """Moves the branch to an agent's commit. Preserves commits that this leaves behind."""
        start = self._note().tip or tip
        with self._stage(head) as stage:
            is_forward = stage.is_ancestor(tip)
            if not is_forward and tip != start:
                raise RefMoved(_moved_message(branch, self._task_id, tip))
            stage.store_objects()
        if not is_forward:
            self._branches.keep_commit(self._task_id, tip)
        try:
            self._branches.move(branch, head, tip)
        except RefMoved:
            raise RefMoved(_moved_message(branch, self._task_id, self._branches.tip(branch))) from None

    @contextmanager
    def _stage(self, commit: str) -> Iterator[StagedCommit]:
        """Stages a confined agent's commit, without objects that the repository has."""
        known = self._branches.existing_commits(self._tips())
        with stage_commit(self.private.path, self.linked.common_dir, commit, known, self._own) as stage:
            yield stage

    def _tips(self) -> set[str]:
        """Commits of the repository on which an agent's work may be based."""
        note = self._note()
        return {note.tip, self._branches.tip(note.branch), *map(self._branches.commit_at, self._bases)}

    def _uncommitted_files(
        self, commit: str, objects: str, setup_files: SetupFiles, *, is_private: bool
    ) -> tuple[str, ...]:
        if not is_private and self.linked.has_index():
            with suppress(EnvironmentFault):
                return _work_paths(
                    linked_worktree.changed_paths(self.linked, self.linked.index, commit, objects),
                    setup_files,
                )
        with linked_worktree.temporary_index(self.linked, commit, objects) as index:
            return _work_paths(
                linked_worktree.changed_paths(self.linked, index, commit, objects), setup_files
            )

    # ------------------------------------------------------------------------------------------------- notes

    def _note(self) -> linked_worktree.WorktreeNote:
        return linked_worktree.read_note(self._own)

    def _write_note(self, branch: str, tip: str) -> None:
        moved, begun = self.linked.last_moved_to(), self._note().begun
        linked_worktree.write_note(
            self._own, linked_worktree.WorktreeNote(branch=branch, tip=tip, moved=moved, begun=begun)
        )

    def _clear(self) -> None:
        """Removes what a killed process left."""
        if is_real_folder(self._own):
            for name in os.listdir(self._own):
                if name not in ("note", "private"):
                    self._discard(os.path.join(self._own, name))

    def _discard(self, path: str) -> None:
        if os.path.lexists(path):
            self._trash.throw(path)


def _work_paths(found: list[linked_worktree.ChangedPath], setup_files: SetupFiles) -> tuple[str, ...]:
    paths = ((one.path.decode("utf-8", "replace"), one.how != "??") for one in found)
    work = (path for path, is_tracked in paths if setup_files.is_work(path, is_tracked=is_tracked))
    return tuple(islice(work, NAMED))


def _moved_message(branch: str, task_id: str, tip: str) -> str:
    return (
        f"Branch {branch} was moved to {tip[:12]} by somebody else while the agent of task {task_id} worked on it. "
        "Nothing is lost: its commits are kept, and the task continues from where the branch is now."
    )


_LEFT = re.compile(rf"(?:new|old)-{ENTRY}(T-[A-Za-z0-9-]+)")
_LOCKS = 64


class GitWorktrees:
    """The task worktrees of a ledger, all in one folder. Several threads and processes may use them at once."""

    def __init__(
        self,
        place: LedgerLocation,
        folder: str,
        *,
        base: str = "",
        written: Collection[str] = (),
        guarded: Collection[str] = (),
    ) -> None:
        """`base` is the branch that work is compared with, `written` are the files of Remand's set-up in a worktree.

        `guarded` are those of them that agents must not change.
        """
        self._common_dir = os.path.realpath(place.common_dir)
        self.folder = os.path.realpath(folder)
        self._own = os.path.join(self.folder, OWN)
        self._branches = Branches(self._common_dir, place.root)
        self._bases = (f"refs/heads/{base}", f"refs/remotes/origin/{base}") if base else ()
        self._written = tuple(sorted(written))
        self._own_files = SetupFiles(written, guarded)
        self.before: Callable[[str], None] = lambda _: None
        """Has the clone have the commit that work begins at, where another machine said which."""

    def prepare(self, task_id: str, branch: str, start: str, *, is_confined: bool) -> TaskWorktree:
        self.before(start)
        with self._locked_worktree(task_id) as worktree:
            require_valid_branch(branch)
            if f"refs/heads/{branch}" in self._bases:
                raise EnvironmentFault(
                    f"{branch} is the base, by whose rules work is measured; agents do not work on it. Give task"
                    f" {task_id} a branch of its own."
                )
            tip = worktree.prepare(branch, start)
            if is_confined:
                worktree.private.make(branch, tip, self._agent_git_settings())
            else:
                worktree.private.remove()
        self._trash.empty_soon()
        return TaskWorktree(
            task_id=task_id,
            folder=worktree.linked.folder,
            branch=branch,
            common_dir=self._common_dir,
            private_dir=worktree.private.path if is_confined else "",
        )

    def inspect(self, worktree: TaskWorktree) -> WorktreeState:
        with self._locked_worktree(worktree.task_id) as locked:
            require_valid_branch(worktree.branch)
            return locked.inspect(worktree.branch, self._own_files)

    def import_commits(self, worktree: TaskWorktree) -> str:
        with self._locked_worktree(worktree.task_id) as locked:
            require_valid_branch(worktree.branch)
            return locked.import_commits(worktree.branch, is_confined=bool(worktree.private_dir))

    def restore_git_links(self, worktree: TaskWorktree) -> None:
        with self._locked_worktree(worktree.task_id) as locked:
            if locked.linked.has_folder():
                locked.linked.reconnect(self._trash)

    def remove(self, task_id: str, *, is_kept: bool = True) -> None:
        with self._locked_worktree(task_id) as worktree:
            worktree.remove(is_kept=is_kept)
        self._trash.empty_soon()

    def names(self) -> list[str]:
        return sorted(_names(self.folder))

    def remove_others(self, kept: Collection[str]) -> list[str]:
        """Removes the worktrees of all other tasks, and what a killed scheduler left; returns their task ids.

        Keeps a worktree if there is no space to save its work.
        """
        gone = []
        for task_id in sorted(self._known_tasks() - set(kept)):
            with suppress(CannotRun):
                self.remove(task_id)
                gone.append(task_id)
        with suppress(OSError):
            self._trash.empty_soon()
        return gone

    @contextmanager
    def _locked_worktree(self, task_id: str) -> Iterator[GitTaskWorktree]:
        with _as_cannot_run():
            if ids.parse_task_id(task_id) != task_id:
                raise EnvironmentFault(f"{task_id[:80]!r} is not a task id.")
            self._require_private()
            lock = os.path.join(self._own, "locks", str(crc32(task_id.encode()) % _LOCKS))
            with hold_lock(lock):
                linked = linked_worktree.LinkedWorktree(
                    self._common_dir, os.path.join(self.folder, task_id), ENTRY + task_id
                )
                own = os.path.join(self._own, task_id)
                yield GitTaskWorktree(linked, own, self._branches, self._trash, self._bases)

    def _agent_git_settings(self) -> AgentGitSettings:
        refs = {name: commit for name in self._bases if (commit := self._branches.commit_at(name))}
        name, email = self._identity
        return AgentGitSettings(refs=refs, name=name, email=email, excluded=self._written)

    def _known_tasks(self) -> set[str]:
        """Every task that has files here or an entry in the repository, complete or not."""
        here = [*_names(self.folder), *_names(self._own)]
        entries = os.path.join(self._common_dir, "worktrees")
        for name in _names(entries):
            folder = os.path.dirname(read_line_below(os.path.join(entries, name), "gitdir"))
            if os.path.dirname(folder) == self.folder and name == ENTRY + os.path.basename(folder):
                here.append(os.path.basename(folder))
        here += [found[1] for name in _names(self._common_dir) if (found := _LEFT.fullmatch(name))]
        return {name for name in here if ids.parse_task_id(name) == name}

    @cached_property
    def _trash(self) -> Trash:
        self._require_private()
        return Trash(os.path.join(self._own, "trash"))

    @cached_property
    def _identity(self) -> tuple[str, str]:
        return user_identity(self._common_dir)

    def _require_private(self) -> None:
        """Creates the folder, and in it one that other users cannot read."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        require_private(self._own)
        for name in ("locks", "trash"):
            os.makedirs(os.path.join(self._own, name), mode=0o700, exist_ok=True)
        self._note_repository()

    def _note_repository(self) -> None:
        """Records, out of the agents' reach, which repository these worktrees belong to. A link is created atomically."""
        note = os.path.join(self.folder, REPOSITORY_NOTE)
        while (noted := _noted_target(note)) != self._common_dir:
            # Removes only a wrong link: other processes may be writing the same note.
            if noted is not None:
                with suppress(FileNotFoundError):
                    os.unlink(note)
            with suppress(FileExistsError):
                os.symlink(self._common_dir, note)


def _noted_target(path: str) -> str | None:
    """The target of a link; empty if something else is there, None if nothing is."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()


@contextmanager
def _as_cannot_run() -> Iterator[None]:
    """Turns every fault into CannotRun: a full disk as such, anything else as git's."""
    try:
        yield
    except EnvironmentFault as fault:
        if linked_worktree.NO_ROOM in str(fault):
            raise CannotRun("disk", _no_room(str(fault))) from None
        raise CannotRun("git", str(fault)) from None
    except OSError as error:
        if error.errno in FULL:
            raise CannotRun("disk", _no_room(str(error))) from None
        raise CannotRun("git", f"The worktree cannot be created or read: {error}.") from None


def _no_room(reason: str) -> str:
    return f"There is no space on the disk for worktrees: {reason}. Free some, then repeat."
