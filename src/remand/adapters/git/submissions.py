"""Submitted commits between hosts and their server: pushed to the project's remote, or sent as a pack; and the base, fetched from it."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from remand.adapters.git.bare_repository import BareRepository
from remand.adapters.git.command import git_error, one_per_line, run_git
from remand.adapters.git.commit_import import stage_commit
from remand.adapters.git.location import LedgerLocation, read_ref
from remand.adapters.git.refs import Branches
from remand.adapters.git.remote import Access, GitRemote
from remand.adapters.git.repository import GitRepository
from remand.app.errors import EnvironmentFault
from remand.app.forge.ports import ForgeFault
from remand.app.ports import SharedData
from remand.domain.ids import is_commit
from remand.domain.instant import Instant, add_seconds

SUBMITTED = "refs/remand/submitted/"
"""Where a host puts the commit of a done claim, on the remote and on the server."""
REMOTE = "origin"
SECONDS = 60.0
MAX_PACK = 64 << 20
"""How large a pack may be that a host sends."""
PACKS = "pack"
"""What packs are shared as between the servers and workers of a database."""
MAX_SHARED = 3
"""How many commits of a task are shared: later ones stand for earlier ones."""
SHARED_SECONDS = 14 * 86_400.0
FETCH_SECONDS = 20.0
FRESH_SECONDS = 10.0
"""So old may the base be that is decided by."""
EARLY_SECONDS = 5.0
"""From this age on it is fetched again while nobody waits for it yet."""
_TASK = re.compile(r"T-[0-9]{8}-[0-9]{6}-[0-9a-f]{4,8}")


def submission_ref(task_id: str, commit: str) -> str:
    """The ref of a task's submitted commit; one that belongs to no task has a ref by its own id."""
    return SUBMITTED + (task_id if _TASK.fullmatch(task_id) else commit)


class CloneCommits:
    """The commits of a host's clone, on their way to a server."""

    def __init__(self, place: LedgerLocation, environment: Mapping[str, str]) -> None:
        self._place = place
        self._environment = environment

    def push(self, task_id: str, commit: str) -> bool:
        """Puts a commit on the project's remote; False where there is none, or it does not take it from here."""
        try:
            remote = GitRemote(self._place, REMOTE, Access(), self._environment, SECONDS)
            remote.push_ref(commit, submission_ref(task_id, commit))
        except (ForgeFault, EnvironmentFault):
            return False
        return True

    def pack(self, commit: str, known: Sequence[str]) -> bytes:
        """A commit and all it needs besides the known ones that are here, as a pack. Raises EnvironmentFault."""
        return pack_commit(self._place, commit, known)


def pack_commit(place: LedgerLocation, commit: str, known: Sequence[str]) -> bytes:
    """A commit and all it needs besides the known ones that are here, as a pack. Raises EnvironmentFault."""
    here = Branches(place.common_dir, place.root).existing_commits(known)
    asked = one_per_line([commit, "--not", *here])
    packed = run_git(
        place.common_dir, "pack-objects", "--revs", "--stdout", "-q", stdin=asked, seconds=SECONDS
    )
    if packed.returncode:
        raise EnvironmentFault(f"Commit {commit[:12]} cannot be packed: {git_error(packed.stderr)}.")
    if len(packed.stdout) > MAX_PACK:
        raise EnvironmentFault(
            f"Commit {commit[:12]} takes {len(packed.stdout) >> 20} MiB; a server takes {MAX_PACK >> 20}. "
            f"Push it to the project's remote as {SUBMITTED}TASK."
        )
    return packed.stdout


class SubmissionStore:
    """The submitted commits that a clone has, and what the servers and workers of a database share of them."""

    def __init__(
        self,
        place: LedgerLocation,
        folder: str,
        environment: Mapping[str, str],
        shared: SharedData | None = None,
        now: Callable[[], Instant] = str,
    ) -> None:
        """`folder` is a private one, for what is being checked."""
        self._place = place
        self._shared = shared
        self._now = now
        self._folder = folder
        self._branches = Branches(place.common_dir, place.root)
        self._remote = GitRemote(place, REMOTE, Access(), environment, SECONDS)

    def has(self, commit: str) -> bool:
        """True when the clone has a commit."""
        return self._branches.has_commit(commit)

    def fetch(self, task_id: str, commit: str) -> str:
        """Takes a commit from another server, or from the remote, unless it is here; returns why it is not here then."""
        if self.has(commit) or self.take_shared(commit):
            return ""
        ref, reason = submission_ref(task_id, commit), ""
        for wanted in (ref, commit):
            try:
                self._remote.fetch(wanted, ref)
            except (ForgeFault, EnvironmentFault) as fault:
                reason = reason or str(fault)
            if self.has(commit):
                return ""
        return reason or f"{ref} on the remote leads to another commit"

    def receive(self, task_id: str, commit: str, pack: bytes, known: Sequence[str]) -> None:
        """Takes a commit out of a pack, once everything in it is checked. Raises EnvironmentFault."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pack-", dir=self._folder) as scratch:
            offered = BareRepository(os.path.join(scratch, "git"))
            offered.make(len(commit))
            indexed = offered.run(
                *("index-pack", "--stdin", f"--max-input-size={MAX_PACK}"), stdin=pack, seconds=SECONDS
            )
            if indexed.returncode:
                raise EnvironmentFault(f"This pack is not self-contained: {git_error(indexed.stderr)}.")
            here = self._branches.existing_commits(known)
            with stage_commit(offered.path, self._place.common_dir, commit, here, scratch) as stage:
                stage.hand_over()
        updated = run_git(self._place.common_dir, "update-ref", submission_ref(task_id, commit), commit)
        if updated.returncode:
            raise EnvironmentFault(f"Commit {commit[:12]} cannot be kept: {git_error(updated.stderr)}.")

    def share(self, task_id: str, commit: str, base: str) -> None:
        """Has every server and worker of the database find a commit that no remote has, until its task ends. Raises EnvironmentFault.

        `base` is a commit of the remote that it grew from: what that holds the others have.
        """
        if self._shared is None:
            return
        now, pack = self._now(), pack_commit(self._place, commit, [base] if base else [])
        until, owner = add_seconds(now, SHARED_SECONDS), task_id or commit
        self._shared.put(PACKS, commit, pack, owner=owner, until=until, now=now, most=MAX_SHARED)

    def take_shared(self, commit: str) -> bool:
        """Takes a commit that another server has shared; False when none has, or it does not fit what is here."""
        pack = self._shared.get(PACKS, commit, self._now()) if self._shared is not None else None
        if pack is None:
            return False
        tips = run_git(self._place.common_dir, "rev-parse", "--branches", "--remotes").stdout.decode().split()
        try:
            self.receive("", commit, pack, tips)
        except EnvironmentFault:
            return False
        return True


class BaseFetcher:
    """Keeps the remote's base branch of a clone young. Any thread may ask."""

    def __init__(
        self,
        place: LedgerLocation,
        branch: Callable[[], str],
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._branch = branch
        self._remote = GitRemote(place, REMOTE, Access(), environment, FETCH_SECONDS)
        self._has_remote = GitRepository(place).has_remote
        self._clock = clock
        self._lock = threading.Lock()
        self._fetched_at = float("-inf")
        self.trouble = ""
        """Why the base could not be fetched; empty when it could. The last one that was had is decided by meanwhile."""

    def refresh(self) -> None:
        """Has the base fetched where it is older than is decided by; a younger one is fetched without being waited for."""
        age = self._clock() - self._fetched_at
        if age < EARLY_SECONDS or not self._has_remote():
            return
        if age < FRESH_SECONDS or self.trouble:  # a remote that is away keeps nobody from working
            if self._lock.acquire(blocking=False):
                threading.Thread(target=self._fetch_and_release, name="base", daemon=True).start()
            return
        with self._lock:
            if self._clock() - self._fetched_at >= FRESH_SECONDS:  # unless somebody else just did
                self._fetch()

    def fetch_until(self, commit: str) -> str:
        """Has the base fetched unless it holds a commit already; returns why it does not hold it then. Without a commit, refreshes it."""
        if not is_commit(commit) or not self._has_remote() or self._holds(commit):
            self.refresh()
            return ""
        with self._lock:
            self._fetch()
        if self._holds(commit):
            return ""
        return (
            self.trouble or f"the base of the remote does not hold {commit[:12]}, which the server decided by"
        )

    def _holds(self, commit: str) -> bool:
        tip = read_ref(self._place.common_dir, f"refs/remotes/{REMOTE}/{self._branch()}")
        return bool(tip) and Branches(self._place.common_dir, self._place.root).is_ancestor(commit, tip)

    def _fetch_and_release(self) -> None:
        try:
            self._fetch()
        finally:
            self._lock.release()

    def _fetch(self) -> None:
        branch = self._branch()
        ref = f"refs/remotes/{REMOTE}/{branch}"
        try:
            tip = self._remote.tip(branch)
            if tip and tip != read_ref(self._place.common_dir, ref):
                self._remote.fetch(f"refs/heads/{branch}", ref)
            self.trouble = ""
        except (ForgeFault, EnvironmentFault) as fault:
            self.trouble = str(fault)
        self._fetched_at = self._clock()
