"""MCP at an agent's socket: the server speaks as whose socket it is, about the one task, and nothing else gets through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.integration.agent_sockets import Agent, Yard
from tests.integration.machine import REMAND, Machine
from tests.integration.mcp_team import Member, User


@pytest.fixture
def alice(near_machine: Machine) -> Iterator[Agent]:
    yard = Yard(near_machine)
    yield yard.agent("Alice")
    yard.close()


def test_an_agent_works_on_its_own_task_through_its_socket_and_on_no_other(alice: Agent) -> None:
    other = alice.yard.agent("Bob")
    asyncio.run(_work(alice, other))
    assert alice.story["status"] == "provisional"
    assert alice.story["submission"]["agent"] == "Alice"
    assert other.story["status"] == "claimed"


async def _work(alice: Agent, other: Agent) -> None:
    user = User("wontfix")
    own = {"REMAND_SOCKET": alice.agent_socket}
    server = StdioServerParameters(
        command=REMAND, args=["mcp"], env=alice.yard.machine.environment | own, cwd=alice.folder
    )
    async with Client(server, elicitation_callback=user) as client:
        member = Member(client)
        assert not {"answer", "unlock", "approve"} & set(await member.tools())
        given = await member.does("next_task")
        assert (given["task_id"], given["refused"]) == (alice.task, None)
        assert given["prompt"]
        await _is_kept_in(member, other)
        alice.commit("bad")
        assert (await member.does("submit", task=alice.task))["refused"] == "gate_rejected"
        report = await member.reads(f"task://{alice.task}/report")
        assert '"status": "failed"' in report
        alice.commit("good")
        passed: dict[str, Any] = await member.does("submit", task=alice.task)
        assert passed["status"] == "provisional"
    assert user.forms == []


async def _is_kept_in(member: Member, other: Agent) -> None:
    """Whatever is called that is not its own is refused, and nobody is asked in the user's place."""
    assert (await member.does("next_task", task=other.task))["refused"] == "not_yours"
    assert (await member.does("submit", task=other.task))["refused"] == "not_yours"
    assert (await member.does("release", task=other.task))["refused"] == "not_yours"
    assert (await member.does("unlock", agent="Alice", task=other.task, reason="x"))["refused"] == "user_only"
    assert (await member.does("answer", question="E-1", option="fix"))["refused"] == "user_only"
    assert (await member.does("answer"))["given"] is None
