"""Finds the socket for an agent's own calls, and the variables for calls to a server."""

from __future__ import annotations

import os

from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

AGENT_SOCKET_PATH = "/run/remand/agent.sock"
"""The path of a confined agent's socket inside its sandbox."""

SERVER_VARIABLES = (
    *("REMAND_SERVER", "REMAND_TOKEN", "REMAND_TOKEN_FILE", "REMAND_CA", "REMAND_SERVER_WAIT"),
)
"""The environment variables that a process needs to call a server."""


def find_agent_socket(environment: Mapping[str, str]) -> str:
    """The socket of the agent to which this process belongs; empty if it belongs to none.

    A shell may have emptied the environment. In a sandbox there is one socket at a fixed path; outside, only root could
    create one there.
    """
    return environment.get("REMAND_SOCKET") or (
        AGENT_SOCKET_PATH if os.path.exists(AGENT_SOCKET_PATH) else ""
    )
