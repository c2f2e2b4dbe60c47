"""Holds which socket an agent's calls go through, whatever its shell has made of the environment."""

from pathlib import Path

import pytest

from remand.app.scheduler import agent_socket as module
from remand.app.scheduler.agent_socket import find_agent_socket


def test_the_socket_that_the_environment_names_is_used() -> None:
    assert find_agent_socket({"REMAND_SOCKET": "/run/agents/1.sock"}) == "/run/agents/1.sock"


@pytest.mark.parametrize("environment", [{}, {"REMAND_SOCKET": ""}])
def test_without_a_name_the_sandboxs_own_socket_is_used_where_there_is_one(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agent_socket = tmp_path / "agent.sock"
    monkeypatch.setattr(module, "AGENT_SOCKET_PATH", str(agent_socket))
    assert find_agent_socket(environment) == "", "outside of a sandbox nobody is an agent"

    agent_socket.touch()

    assert find_agent_socket(environment) == str(agent_socket)
