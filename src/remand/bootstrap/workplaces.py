"""The places that agents work in, for the ledger of a place."""

from __future__ import annotations

import os

from remand.adapters.git.place import Place
from remand.adapters.git.repository import GitRepository
from remand.adapters.git.workplaces import GitWorkplaces
from remand.adapters.system.folders import state_folder
from remand.app.scheduling.ports import Workplaces
from remand.bootstrap.hosts import guarded_files, server_files
from remand.bootstrap.quick import ledger_id
from remand.bootstrap.settings import SettingsSource

__all__ = ["make_workplaces", "workplaces_folder"]


def workplaces_folder(place: Place, folder: str = "") -> str:
    """Where the worktrees of tasks are: in the named folder, seen from the main worktree, or out of everybody's way.

    Several clones may name the same folder, so that each ledger has one of its own in it.
    """
    if folder:
        return os.path.join(place.root, os.path.expanduser(folder), ledger_id(place))
    return os.path.join(state_folder(), ledger_id(place), "worktrees")


def make_workplaces(place: Place, folder: str = "") -> Workplaces:
    """The workplaces of a place's ledger."""
    settings = SettingsSource(GitRepository(place))
    base = settings.settings().base or settings.base()
    return GitWorkplaces(
        place,
        workplaces_folder(place, folder),
        base=base,
        ours=(*guarded_files(), *server_files()),
        guarded=guarded_files(),
    )
