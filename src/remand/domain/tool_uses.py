"""What an agent ran, as the hook of its host saw it."""

from __future__ import annotations

from remand.domain.instant import Instant
from remand.domain.record import Record


class ToolUse(Record, kw_only=True):
    """One use of a tool. Its texts are redacted and cut; the hash is that of the whole output."""

    ts: Instant
    host: str = ""
    session: str = ""
    """The host's own session."""
    agent: str = ""
    task_id: str = ""
    tool: str = ""
    tool_use_id: str = ""
    command: str = ""
    """The command line; empty when the tool is no shell."""
    paths: tuple[str, ...] = ()
    """The files, patterns or addresses that a tool was used on that is no shell."""
    exit_status: int | None = None
    """None when the host does not tell."""
    output_sha256: str = ""
    output_size: int = 0
    excerpt: str = ""
    """The first and the last of what was printed."""
    duration_ms: int | None = None
    transcript: str = ""
    """Where the host keeps its own account of the session."""
    prev: str = ""
    """The hash of the line before, so that a change is evident."""
