"""The colour of each task status. Imports nothing, as every command loads it."""

from __future__ import annotations

STATUS_STYLES = {
    "incoming": "cyan",
    "claimed": "yellow",
    "held": "bold yellow",
    "provisional": "magenta",
    "done": "green",
    "rejected": "red",
    "needs_continuation": "yellow",
    "failed": "red",
    "blocked": "red",
    "deferred": "blue",
    "decomposed": "blue",
    "escalated": "bold red",
}
