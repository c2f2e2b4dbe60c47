"""What `remand init` and `remand keys` need of this machine and of the base branch."""

from __future__ import annotations

from remand.adapters.git.event_publisher import GitPublisher
from remand.adapters.projects.detection import propose_gates
from remand.adapters.projects.project import render_toml
from remand.adapters.system.clock import RandomIds
from remand.ledger.signatures import EventGroup, decode_groups
from remand.wiring.open_ledger import OpenLedger

__all__ = ["new_project_id", "propose_gates", "published_groups", "render_toml"]


def new_project_id() -> str:
    """A random id for a project."""
    ids = RandomIds()
    return ids.hex() + ids.hex()


def published_groups(opened: OpenLedger) -> list[EventGroup]:
    """The signed groups in the event files of the base branch."""
    commit = opened.settings.tip()
    return decode_groups(GitPublisher(opened.place).lines_at(commit)) if commit else []
