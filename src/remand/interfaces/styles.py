"""How a task's status looks, wherever people see it."""

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
