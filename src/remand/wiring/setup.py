"""What `remand init` and `remand doctor` need from this machine."""

from __future__ import annotations

from remand.adapters.git.command import git_version
from remand.adapters.git.event_files import prepare_got
from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.repository import GitTrackedFiles
from remand.adapters.hosts import checks as host_checks
from remand.adapters.hosts import installation as host_files
from remand.adapters.projects import detection, project
from remand.adapters.sandbox import self_test
from remand.adapters.system.machine import new_project_id

__all__ = ["detection", "git_version", "host_checks", "host_files", "new_project_id", "prepare_got"]
__all__ += ["project", "self_test"]


def host_worktrees(place: LedgerLocation) -> dict[str, GitTrackedFiles]:
    """The main worktree and the current one, with git's view of their files."""
    return {root: GitTrackedFiles(place, root) for root in (place.root, place.worktree)}
