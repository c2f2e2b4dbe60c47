"""The A2A endpoint, as the SDK's own client sees it: tasks handed in, their states, and why something was refused."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client.client import Client, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.client.errors import A2AClientError
from a2a.helpers.proto_helpers import get_data_parts, get_text_parts, new_data_part, new_text_part
from a2a.types import a2a_pb2 as wire
from a2a.utils.errors import A2AError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from remand.domain.reasons import RejectionReason
from remand.domain.task import Status
from remand.interfaces.cli.context import CallOrigin
from remand.interfaces.cli.main import run
from remand.interfaces.http.a2a import CALLER, CARD_PATH, FINAL, PATH, STATES, agent_card, make_endpoint
from remand.wiring.ledger import open_ledger
from tests.integration.http_client import run_server
from tests.integration.machine import Machine, Repository, wait_for
from tests.support.rejection_records import a_rejection

HOME = "http://team.example"
CONFIG = """
[team]
members = [
  {name = "Alice", role = "agent"}, {name = "Bob", role = "agent"},
  {name = "Lead", role = "lead"}, {name = "owner", role = "user"},
]

[gates.builds]
command = ["test", "-e", "built"]
parser = "exit"
mode = "strict"

[gates.integrity]
enabled = false
"""
Talk = Callable[[Client], Awaitable[Any]]


class Office:
    """A repository, and a server in front of it that takes a member's name for a token."""

    def __init__(self, machine: Machine) -> None:
        self.repository = machine.repository(config=CONFIG)
        self.endpoint = make_endpoint(self._run)

    async def _run(self, caller: Any, words: list[str]) -> tuple[int, Any]:
        opened = open_ledger(str(self.repository.path))
        out, err = io.StringIO(), io.StringIO()
        origin = CallOrigin(
            str(self.repository.path), {"REMAND_ACTOR": caller}, out, err, opened=opened, given=""
        )
        try:
            code = run(words, origin)
        finally:
            opened.store.close()
            opened.ledger.close()
        return code, json.loads(out.getvalue()) if out.getvalue() else {}

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def card(request: Request) -> Response:
            return JSONResponse(agent_card(HOME))

        if scope["path"] == PATH:
            token = Request(scope).headers.get("authorization", "").removeprefix("Bearer ")
            scope[CALLER] = token
            await self.endpoint(scope, receive, send)
        else:
            await Starlette(routes=[Route(CARD_PATH, card)])(scope, receive, send)

    def talk(self, what: Talk, member: str = "owner") -> Any:
        """Lets the SDK's client speak, in a member's name."""

        async def speak() -> Any:
            transport = httpx.ASGITransport(app=self.app)
            headers = {"authorization": f"Bearer {member}"}
            async with httpx.AsyncClient(transport=transport, headers=headers) as web:
                factory = ClientFactory(ClientConfig(httpx_client=web, streaming=False))
                return await what(await factory.create_from_url(HOME))

        return asyncio.run(speak())

    def send(self, *parts: wire.Part, member: str = "owner", **fields: Any) -> wire.Task:
        async def what(client: Client) -> wire.Task:
            message = wire.Message(
                **{"message_id": str(uuid4()), "role": wire.ROLE_USER, "parts": parts, **fields}
            )
            answers = [one async for one in client.send_message(wire.SendMessageRequest(message=message))]
            assert len(answers) == 1
            return answers[0].task

        found = self.talk(what, member)
        assert isinstance(found, wire.Task)
        return found

    def get(self, name: str) -> wire.Task:
        found = self.talk(lambda client: client.get_task(wire.GetTaskRequest(id=name)))
        assert isinstance(found, wire.Task)
        return found

    def state(self, name: str) -> str:
        return wire.TaskState.Name(self.get(name).status.state).removeprefix("TASK_STATE_")


@pytest.fixture
def office(near_machine: Machine) -> Office:
    return Office(near_machine)


def data(task: wire.Task) -> dict[str, Any]:
    (found,) = get_data_parts(task.status.message.parts)
    assert isinstance(found, dict)
    return found


def submit(repository: Repository, task: str, agent: str, *, builds: bool) -> str:
    commit = repository.commit("built" if builds else "work.txt", f"{agent}\n")
    repository.call("task", "prompt", task, "--agent", agent)
    repository.call("task", "submit", task, "--agent", agent, "--commit", commit)
    return commit


def test_every_status_has_a_state_and_only_what_goes_on_is_not_final() -> None:
    assert set(STATES) == set(Status)
    assert {status for status, state in STATES.items() if state in FINAL} == {
        *(Status.DONE, Status.CANCELLED, Status.INFEASIBLE, Status.FAILED),
    }


def test_a_task_that_is_handed_in_is_followed_through_gates_and_reviews(office: Office) -> None:
    repository = office.repository
    handed_in = office.send(new_text_part("Mend the roof\nOnly the north side."), context_id="storm")
    task = handed_in.id
    assert (office.state(task), handed_in.context_id) == ("SUBMITTED", "storm")
    shown = repository.ok("task", "show", task)
    assert (shown["title"], shown["scope"]) == ("Mend the roof", "Mend the roof\nOnly the north side.")

    # A gate's no: the agent goes on, and whoever asks reads the figures.
    repository.git("switch", "-q", "-c", "roof")
    repository.ok("task", "claim", task, "--agent", "Alice")
    assert office.state(task) == "WORKING"
    submit(repository, task, "Alice", builds=False)
    (reason,) = data(office.get(task))["reasons"]
    assert (reason["kind"], reason["code"], reason["agent"]) == ("gate", "gate_rejected", "Alice")
    assert (reason["gates"][0]["name"], reason["gates"][0]["required"]) == ("builds", {"max_errors": 0})

    # A reviewer's no.
    commit = submit(repository, task, "Alice", builds=True)
    repository.ok(
        "review", "reject", task, "--reviewer", "Lead", "--commit", commit, "--finding", "built:1: leaks"
    )
    rejected = data(office.get(task))["reasons"][-1]
    assert (rejected["kind"], rejected["reviewer"], rejected["message"]) == ("review", "Lead", "leaks")
    assert office.state(task) == "WORKING"

    # Done.
    repository.ok("task", "claim", task, "--agent", "Bob")
    repository.commit("more.txt", "tight\n")
    commit = submit(repository, task, "Bob", builds=True)
    repository.ok("review", "approve", task, "--reviewer", "Lead", "--commit", commit)
    done = office.get(task)
    assert office.state(task) == "COMPLETED"
    assert not done.status.HasField("message")
    assert get_data_parts(done.artifacts[0].parts) == [{"commit": commit, "branch": "roof", "pr": None}]


def test_a_question_to_a_person_requires_input_and_an_option_answers_it(office: Office) -> None:
    task = office.send(new_data_part({"title": "Mend the roof", "priority": "high"}))
    office.repository.ok("escalate", task.id, "--reason", "Which roof?")

    asked = office.get(task.id)
    assert office.state(task.id) == "INPUT_REQUIRED"
    (question,) = data(asked)["questions"]
    keys = [option["key"] for option in question["options"]]
    assert "wontfix" in keys
    assert "Which roof?" in get_text_parts(asked.status.message.parts)[0]

    with pytest.raises((A2AError, A2AClientError), match="not one of the options"):
        office.send(new_text_part("the big one"), task_id=task.id)
    answered = office.send(new_data_part({"option": "wontfix"}), task_id=task.id)
    assert wire.TaskState.Name(answered.status.state) == "TASK_STATE_CANCELED"
    with pytest.raises((A2AError, A2AClientError), match="asks nothing"):
        office.send(new_text_part("wontfix"), task_id=task.id)


def test_an_agents_accepted_no_is_rejected_with_its_record_and_the_decision(office: Office) -> None:
    task = office.send(new_text_part("Make it infeasible"))
    claimed = office.repository.ok("task", "claim", task.id, "--agent", "Alice")
    record = json.dumps(a_rejection(RejectionReason.INFEASIBLE))
    (office.repository.path / "record.json").write_text(record)
    said = office.repository.call(
        "handoff", "reject", claimed["handoff_id"], "--agent", "Alice", "--from", "record.json"
    )
    assert said.code == 0, said
    assert office.state(task.id) == "INPUT_REQUIRED", "a person decides whether the task has to end"
    decision = "ACCEPT_AND_REFORMULATE"
    office.repository.ok("handoff", "rejection-response", claimed["handoff_id"], "--decision", decision)

    assert office.state(task.id) == "REJECTED"
    reason, successor = data(office.get(task.id))["reasons"]
    assert (reason["kind"], reason["code"], reason["agent"]) == ("task", "INFEASIBLE", "Alice")
    assert (reason["is_valid"], reason["decision"]["decision_type"]) == (True, decision)
    assert reason["rejection"]["reason_summary"]
    assert (successor["code"], office.state(successor["superseded_by"])) == ("superseded", "SUBMITTED")


def test_a_task_that_may_not_be_added_is_rejected_and_the_code_is_told(office: Office) -> None:
    office.send(new_data_part({"title": "One", "alias": ["#42"]}))
    refused = office.send(new_data_part({"title": "Two", "alias": ["#42"]}))

    assert wire.TaskState.Name(refused.status.state) == "TASK_STATE_REJECTED"
    (reason,) = data(refused)["reasons"]
    assert reason["kind"] == "refusal"
    assert reason["code"]
    assert len(office.repository.ok("task", "list")) == 1


def test_the_same_message_makes_one_task_and_a_data_part_has_no_unknown_names(office: Office) -> None:
    again = str(uuid4())
    assert len({office.send(new_text_part("-- @file"), message_id=again).id for _ in range(2)}) == 1
    assert office.repository.ok("task", "list")[0]["title"] == "-- @file"
    with pytest.raises((A2AError, A2AClientError), match="no place for colour"):
        office.send(new_data_part({"title": "Paint", "colour": "red"}))


def test_tasks_are_listed_by_state_and_context_and_cancelled_by_who_may(office: Office) -> None:
    first, second = office.send(new_text_part("One")), office.send(new_text_part("Two"), context_id="storm")

    def listing(**wanted: Any) -> list[str]:
        found = office.talk(lambda client: client.list_tasks(wire.ListTasksRequest(**wanted)))
        return [task.id for task in found.tasks]

    names = sorted([first.id, second.id], reverse=True)
    assert listing() == names
    page = office.talk(lambda client: client.list_tasks(wire.ListTasksRequest(page_size=1)))
    assert ([task.id for task in page.tasks], page.total_size) == (names[:1], 2)
    assert listing(page_size=1, page_token=page.next_page_token) == names[1:]
    assert {task.context_id for task in page.tasks} <= {"storm", first.id}

    cancel = wire.CancelTaskRequest(id=first.id)
    with pytest.raises((A2AError, A2AClientError)):
        office.talk(lambda client: client.cancel_task(cancel), member="Alice")
    assert wire.TaskState.Name(office.talk(lambda client: client.cancel_task(cancel)).status.state).endswith(
        "CANCELED"
    )
    assert listing(status=wire.TASK_STATE_SUBMITTED) == [second.id]
    with pytest.raises((A2AError, A2AClientError), match="no task T-1"):
        office.get("T-1")


def test_a_real_server_has_the_card_for_all_and_the_endpoint_for_who_is_known(machine: Machine) -> None:
    repository = machine.repository(config=CONFIG)
    with run_server(repository) as server:
        server.headers.clear()
        made = repository.ok("token", "create", "--member", "owner", "--role", "user")
        bearer = {"authorization": f"Bearer {made['token']}"}
        card = server.get("/.well-known/agent-card.json")
        assert card.data["supportedInterfaces"][0]["url"] == f"{server.address['url']}/a2a"
        assert server.post("/a2a").status == 401

        async def hand_in() -> wire.Task:
            async with httpx.AsyncClient(headers=bearer) as web:
                factory = ClientFactory(ClientConfig(httpx_client=web, streaming=False))
                client = await factory.create_from_url(server.address["url"])
                message = wire.Message(message_id="1", role=wire.ROLE_USER, parts=[new_text_part("Mend it")])
                answers = [one async for one in client.send_message(wire.SendMessageRequest(message=message))]
                return answers[0].task

        task = asyncio.run(hand_in())
        assert [row["task_id"] for row in repository.ok("task", "list")] == [task.id]
        created = repository.ok("task", "show", task.id)["history"][0]
        assert (created["actor"], created["asserted"]) == ("owner", False)
        repository.ok("token", "revoke", made["token_id"])
        # The server looks for what others have revoked twice a second.
        wait_for(lambda: server.post("/a2a", headers=bearer).status == 401, "the revocation")
