"""What of a hook's call the answer depends on."""

from __future__ import annotations

from remand.domain.record import Record


class Words(Record, kw_only=True):
    """A call as plain values, so that it can be handed on."""

    event: str
    host: str
    session: str = ""
    firing: str = ""
    task_id: str = ""
    agent: str = ""
    branch: str = ""
    earlier: tuple[str, ...] = ()
    """Tasks that the session claimed before, each with its agent behind a space."""
    subagent: str = ""
    has_background_work: bool = False
    is_broken: str = ""
    """Why the host's payload could not be read."""
    tool: str = ""
    command: str = ""
    cwd: str = ""
    """Where the session is."""
    paths: tuple[str, ...] = ()
    config_source: str = ""
    config_file: str = ""
    workplace: str = ""
    """The worktree of an agent that speaks through a door: what is in it is not looked up, but told here."""
    head: str = ""
    uncommitted: tuple[str, ...] = ()
    fault: str = ""
    """Why the work there could not be taken over."""
    patience: float = 0.0
    """How many seconds the gates may take, where they may be run at all."""
