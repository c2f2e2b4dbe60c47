"""Which socket an agent's own calls go through, and what leads a host's calls to its server."""

from __future__ import annotations

import os

from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

AGENT_SOCKET_PATH = "/run/remand/agent.sock"
"""Where a confined agent finds its own socket."""

SERVER_VARIABLES = (
    *("REMAND_SERVER", "REMAND_TOKEN", "REMAND_TOKEN_FILE", "REMAND_CA", "REMAND_SERVER_WAIT"),
)
"""What a process that speaks to a server is given of its environment."""


def find_agent_socket(environment: Mapping[str, str]) -> str:
    """The socket of the agent that this process belongs to; empty for a process that is no agent's.

    A shell may have emptied the environment. In a sandbox there is one socket, and it is always in the same place; outside
    only root could put one there.
    """
    return environment.get("REMAND_SOCKET") or (
        AGENT_SOCKET_PATH if os.path.exists(AGENT_SOCKET_PATH) else ""
    )
