"""The A2A endpoint as an ASGI application: the agent card, and methods to submit, read, answer and cancel tasks.

It runs the commands of the command line as the caller that the request's token identifies, so the same rules apply.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from typing import Any, NoReturn

from a2a.helpers.proto_helpers import (
    get_data_parts,
    get_text_parts,
    new_data_artifact,
    new_data_part,
    new_text_part,
)
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import a2a_pb2 as wire
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH, PROTOCOL_VERSION_1_0, TransportProtocol
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from starlette.applications import Starlette
from starlette.requests import Request

from remand.domain.task import Status

JSON_TYPE = "application/json"
REASONS = "urn:remand:reasons:1"
"""The extension that adds reasons to status messages as data: a list of objects with `kind`, `code` and `message`."""

STATES: Mapping[Status, wire.TaskState] = {
    Status.INCOMING: wire.TASK_STATE_SUBMITTED,
    Status.DEFERRED: wire.TASK_STATE_SUBMITTED,
    Status.CLAIMED: wire.TASK_STATE_WORKING,
    Status.PROVISIONAL: wire.TASK_STATE_WORKING,
    Status.REJECTED: wire.TASK_STATE_WORKING,
    Status.NEEDS_CONTINUATION: wire.TASK_STATE_WORKING,
    Status.DECOMPOSED: wire.TASK_STATE_WORKING,
    Status.BLOCKED: wire.TASK_STATE_INPUT_REQUIRED,
    Status.ESCALATED: wire.TASK_STATE_INPUT_REQUIRED,
    Status.DONE: wire.TASK_STATE_COMPLETED,
    Status.INFEASIBLE: wire.TASK_STATE_REJECTED,
    Status.FAILED: wire.TASK_STATE_FAILED,
    Status.CANCELLED: wire.TASK_STATE_CANCELED,
}
"""The A2A state of each status. Work that a gate or a reviewer rejected is reworked, so the task stays in progress."""
FINAL = frozenset(
    {
        wire.TASK_STATE_COMPLETED,
        wire.TASK_STATE_REJECTED,
        wire.TASK_STATE_FAILED,
        wire.TASK_STATE_CANCELED,
    }
)


def task_state(row: Mapping[str, Any], questions: Iterable[Mapping[str, Any]]) -> wire.TaskState:
    """The A2A state of a task. A task with an open question about it is waiting for input."""
    state = STATES[Status(row["status"])]
    is_asked = any(question.get("task_id") == row["task_id"] for question in questions)
    return wire.TASK_STATE_INPUT_REQUIRED if is_asked and state not in FINAL else state


def context_id(row: Mapping[str, Any]) -> str:
    """The context id a task was submitted with, which the ledger stores as its category; otherwise the task's own id."""
    return str(row.get("category") or row["task_id"])


def make_wire_task(row: Mapping[str, Any], questions: Iterable[Mapping[str, Any]]) -> wire.Task:
    """Converts a task from `remand task show` (or a row of `task list`) and the open questions to an A2A task."""
    open_questions = [question for question in questions if question.get("task_id") == row["task_id"]]
    state = task_state(row, open_questions)
    task = wire.Task(id=row["task_id"], context_id=context_id(row), status=wire.TaskStatus(state=state))
    history = row.get("history") or ()
    if history:
        task.status.timestamp.FromJsonString(history[-1]["ts"])
    reasons = list(find_reasons(row)) if state != wire.TASK_STATE_COMPLETED else []
    if reasons or open_questions:
        task.status.message.CopyFrom(_status_message(row, reasons, open_questions))
    task.metadata.update(
        {"status": row["status"], "title": row["title"], "priority": row["priority"], "agent": row["agent"]}
    )
    if row.get("submission"):
        work = {"commit": row["submission"]["commit"], "branch": row["branch"], "pr": row["pr"]}
        task.artifacts.append(new_data_artifact("submission", work, artifact_id="submission"))
    return task


def refusal_task(message: wire.Message, reason: Mapping[str, Any]) -> wire.Task:
    """The answer to a task that was refused. The ledger does not store it; its id is that of the message."""
    name = f"refused-{message.message_id}"
    task = wire.Task(id=name, context_id=message.context_id or name)
    task.status.state = wire.TASK_STATE_REJECTED
    task.status.message.CopyFrom(_message(name, name, str(reason["message"]), {"reasons": [dict(reason)]}))
    return task


def find_reasons(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The task's rejections that still matter: the last of each kind, newest last."""
    last = {event["event"]: event for event in row.get("rejections") or ()}
    decisions = {event.get("rejection_id"): event["decision"] for event in row.get("decisions") or ()}
    for event in sorted(last.values(), key=lambda event: str(event["ts"])):
        at = {"at": event["ts"]}
        match event["event"]:
            case "gate.reject":
                yield _gate_reason(event["verdict"]) | {"agent": event["agent"]} | at
            case "review.reject":
                yield _review_reason(event) | at
            case _:
                yield _task_reason(event, decisions.get(event.get("rejection_id"))) | at
    if row.get("superseded_by"):
        yield {
            "kind": "task",
            "code": "superseded",
            "message": f"{row['superseded_by']} replaces it.",
            "superseded_by": row["superseded_by"],
        }


def _gate_reason(verdict: Mapping[str, Any]) -> dict[str, Any]:
    failed = [gate for gate in verdict["gates"] if gate["status"] not in ("passed", "overridden")]
    names = ("name", "status", "measured", "required", "line")
    return {
        "kind": "gate",
        "code": "gate_rejected",
        "message": "\n".join(gate.get("line", gate["name"]) for gate in failed),
        "commit": verdict["commit"],
        "gates": [{name: gate[name] for name in names if name in gate} for gate in failed],
    }


def _review_reason(event: Mapping[str, Any]) -> dict[str, Any]:
    findings = list(event.get("findings") or ())
    return {
        "kind": "review",
        "code": "review_rejected",
        "message": "\n".join(str(finding.get("text", "")) for finding in findings),
        "commit": event["commit"],
        "reviewer": event["reviewer"],
        "findings": findings,
    }


def _task_reason(event: Mapping[str, Any], decision: Mapping[str, Any] | None) -> dict[str, Any]:
    rejection = event.get("rejection") or {}
    return {
        "kind": "task",
        "code": str(
            rejection.get("reason_type") or rejection.get("reason") or event.get("reason") or "rejected"
        ),
        "message": str(
            rejection.get("reason_summary") or rejection.get("summary") or event.get("reason") or ""
        ),
        "agent": event.get("agent", ""),
        "is_valid": event["event"] == "handoff.reject",
        "rejection": rejection,
        "issues": list(event.get("issues") or ()),
        "decision": dict(decision) if decision else None,
    }


def _status_message(
    row: Mapping[str, Any], reasons: list[dict[str, Any]], questions: list[Mapping[str, Any]]
) -> wire.Message:
    """The message of a status: the question and the reasons, as text and as data."""
    texts = [str(question.get("question", "")) for question in questions] or [reasons[-1]["message"]]
    data: dict[str, Any] = {"reasons": reasons}
    if questions:
        data["questions"] = [_question(question) for question in questions]
    return _message(row["task_id"], context_id(row), "\n\n".join(texts), data)


def _question(question: Mapping[str, Any]) -> dict[str, Any]:
    names = ("escalation_id", "question", "options", "deadline", "default")
    return {name: question[name] for name in names if name in question}


def _message(task_id: str, context: str, text: str, data: Mapping[str, Any]) -> wire.Message:
    return wire.Message(
        message_id=f"status-{task_id}",
        task_id=task_id,
        context_id=context,
        role=wire.ROLE_AGENT,
        parts=[new_text_part(text), new_data_part(dict(data), JSON_TYPE)],
        extensions=[REASONS],
    )


PATH = "/a2a"
CARD_PATH = AGENT_CARD_WELL_KNOWN_PATH
CALLER = "remand.caller"
"""The key in the request's scope under which the mounting application stores the authenticated caller."""
PAGE_SIZE = 50
MAX_PAGE_SIZE = 100
MAX_TITLE = 200
REFUSED, USAGE, UNAVAILABLE = 1, 2, 3
"""Exit codes of commands that were not carried out."""
UNKNOWN = ("ambiguous_id", "unknown_task")
_SINGLE = ("title", "scope", "priority", "branch")
_LISTS = ("skills", "alias", "depends_on")

CommandRunner = Callable[[Any, list[str]], Awaitable[tuple[int, Any]]]
"""Runs a command line for a caller and returns its exit code and its `--json` output."""


def agent_card(address: str) -> dict[str, Any]:
    """The agent card; `address` is how the client reaches the server (`https://host:port`)."""
    card = wire.AgentCard(
        name="Remand",
        description="A team of coding agents. Work counts as done when its gates have passed and a reviewer has approved it.",
        version=version("remand"),
        supported_interfaces=[
            wire.AgentInterface(
                url=f"{address}{PATH}",
                protocol_binding=TransportProtocol.JSONRPC,
                protocol_version=PROTOCOL_VERSION_1_0,
            )
        ],
        capabilities=wire.AgentCapabilities(
            streaming=False,
            push_notifications=False,
            extensions=[
                wire.AgentExtension(
                    uri=REASONS,
                    description="Status messages have a data part: `reasons` (kind, code, message and what they rest on)"
                    " and, when input is required, `questions` with their options.",
                )
            ],
        ),
        security_schemes={
            "token": wire.SecurityScheme(
                http_auth_security_scheme=wire.HTTPAuthSecurityScheme(
                    scheme="bearer", description="A token of `remand token create`."
                )
            )
        },
        security_requirements=[wire.SecurityRequirement(schemes={"token": wire.StringList()})],
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json"],
        skills=[
            wire.AgentSkill(
                id="task",
                name="Take in a task",
                description="The first line of the text is the title, all of it the scope; or a data part with title, scope,"
                " priority, branch, skills, alias and depends_on.",
                tags=["code", "tasks", "review"],
                examples=["Fix the parser\nIt drops the last line of a file without a newline."],
            )
        ],
    )
    return agent_card_to_dict(card)


def make_endpoint(run: CommandRunner) -> Starlette:
    """The application that serves `PATH`; the scope of each request must contain the caller."""
    return Starlette(routes=create_jsonrpc_routes(TaskEndpoint(run), PATH, _ContextBuilder()))


class _ContextBuilder(DefaultServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[CALLER] = request.scope[CALLER]
        return context


class TaskEndpoint(RequestHandler):
    """Implements the A2A methods with the ledger's commands; tasks are stored in the ledger."""

    def __init__(self, run: CommandRunner) -> None:
        self._run = run

    @validate_request_params
    async def on_message_send(
        self, params: wire.SendMessageRequest, context: ServerCallContext
    ) -> wire.Task | wire.Message:
        """Adds a task, or answers a task's question. The message id is the idempotency key."""
        message = params.message
        key = f"a2a-{sha256(message.message_id.encode()).hexdigest()[:40]}"
        if message.task_id:
            return await self._answer_question(message, key, context)
        words = task_words(message)
        code, output = await self._run(context.state[CALLER], ["--json", "--key", key, *words])
        if code == REFUSED:
            reason = {"kind": "refusal", "code": output["refused"], "message": output["message"]}
            return refusal_task(message, reason)
        _require_done(code, output)
        return await self._task(output["task_id"], context)

    @validate_request_params
    async def on_get_task(self, params: wire.GetTaskRequest, context: ServerCallContext) -> wire.Task:
        """Shows a task."""
        return await self._task(params.id, context)

    @validate_request_params
    async def on_list_tasks(
        self, params: wire.ListTasksRequest, context: ServerCallContext
    ) -> wire.ListTasksResponse:
        """Lists tasks by state, newest first, in pages."""
        if params.context_id:
            raise UnsupportedOperationError("Tasks are not listed by context. List them by status, or all.")
        rows, questions = await self._ask(context, "task", "list"), await self._ask(context, "inbox")
        found = sorted(
            row["task_id"] for row in rows if not params.status or task_state(row, questions) == params.status
        )[::-1]
        size = min(params.page_size or PAGE_SIZE, MAX_PAGE_SIZE)
        start = int(params.page_token) if params.page_token.isascii() and params.page_token.isdigit() else 0
        page = found[start : start + size]
        return wire.ListTasksResponse(
            tasks=[
                make_wire_task(await self._ask(context, "task", "show", name), questions) for name in page
            ],
            next_page_token=str(start + size) if start + size < len(found) else "",
            page_size=size,
            total_size=len(found),
        )

    @validate_request_params
    async def on_cancel_task(self, params: wire.CancelTaskRequest, context: ServerCallContext) -> wire.Task:
        """Cancels a task if the caller may do so."""
        before = await self._task(params.id, context)
        words = ["--json", "task", "cancel", "--reason=cancelled by A2A", before.id]
        code, output = await self._run(context.state[CALLER], words)
        if code == REFUSED:
            raise TaskNotCancelableError(output["message"], {"code": output["refused"]})
        _require_done(code, output)
        return await self._task(before.id, context)

    async def _answer_question(
        self, message: wire.Message, key: str, context: ServerCallContext
    ) -> wire.Task:
        """Answers the open question about a task with one of its options."""
        task = await self._task(message.task_id, context)
        if task.status.state != wire.TASK_STATE_INPUT_REQUIRED:
            raise UnsupportedOperationError(
                f"{task.id} asks nothing. A message for it is taken when its state is input-required."
            )
        questions = [
            one for one in await self._ask(context, "inbox") if one["task_id"] == task.id and one["options"]
        ]
        data: dict[str, Any] = next(iter(get_data_parts(message.parts)), {})
        option = str(data.get("option") or " ".join(get_text_parts(message.parts)).strip())
        for question in questions:
            if option in {one["key"] for one in question["options"]}:
                words = ["inbox", "answer", *_option("guidance", data.get("guidance"))]
                arguments = ["--json", "--key", key, *words, "--", question["escalation_id"], option]
                code, output = await self._run(context.state[CALLER], arguments)
                _require_done(code, output)
                return await self._task(task.id, context)
        known = [one for question in questions for one in question["options"]]
        raise InvalidParamsError("That is not one of the options.", {"options": known})

    async def _task(self, name: str, context: ServerCallContext) -> wire.Task:
        row = await self._ask(context, "task", "show", "--", name)
        return make_wire_task(row, await self._ask(context, "inbox"))

    async def _ask(self, context: ServerCallContext, *words: str) -> Any:
        code, output = await self._run(context.state[CALLER], ["--json", *words])
        _require_done(code, output)
        return output

    # Methods that the agent card declares as unsupported.

    async def _refuse_stream(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Event]:  # noqa: ARG002
        raise UnsupportedOperationError("This server does not stream. Get the task again instead.")
        yield  # type: ignore[unreachable]  # makes it a generator, as the methods are that it stands for

    async def _refuse_notices(self, params: Any, context: ServerCallContext) -> NoReturn:  # noqa: ARG002
        raise PushNotificationNotSupportedError

    on_message_send_stream = _refuse_stream
    on_subscribe_to_task = _refuse_stream
    on_create_task_push_notification_config = _refuse_notices
    on_get_task_push_notification_config = _refuse_notices
    on_list_task_push_notification_configs = _refuse_notices
    on_delete_task_push_notification_config = _refuse_notices

    async def on_get_extended_agent_card(
        self,
        params: wire.GetExtendedAgentCardRequest,  # noqa: ARG002
        context: ServerCallContext,  # noqa: ARG002
    ) -> NoReturn:
        """Refuses: there is only one card."""
        raise ExtendedAgentCardNotConfiguredError


def task_words(message: wire.Message) -> list[str]:
    """The command line that adds a message as a task. Raises `InvalidParamsError`."""
    data: Any = next(iter(get_data_parts(message.parts)), {})
    unknown = [name for name in data if name not in (*_SINGLE, *_LISTS)] if isinstance(data, dict) else ["it"]
    if unknown:
        raise InvalidParamsError(f"The data part has no place for {', '.join(unknown)}.")
    text = "\n".join(get_text_parts(message.parts)).strip()
    title = str(data.get("title") or text.partition("\n")[0].strip()[:MAX_TITLE])
    if not title:
        raise InvalidParamsError("The message has neither a text nor a title.")
    scope = data.get("scope") or (text if text != title else "")
    words = ["task", "add", *_option("scope", scope), *_option("category", message.context_id)]
    for name in ("priority", "branch"):
        words += _option(name, data.get(name))
    words += _option("skills", ",".join(_texts(data, "skills")))
    for alias in _texts(data, "alias"):
        words += _option("alias", alias)
    for other in _texts(data, "depends_on"):
        words += _option("depends-on", other)
    return [*words, "--", title]


def _texts(data: Mapping[str, Any], name: str) -> Sequence[str]:
    found = data.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidParamsError(f"{name} is a list of texts.")
    return found


def _option(name: str, value: object) -> list[str]:
    return [f"--{name}={value}"] if value else []


def _require_done(code: int, answer: Any) -> None:
    """Raises the A2A error for a command that was not carried out."""
    if not code:
        return
    detail = {"code": answer.get("refused", ""), "message": answer.get("message", "")} if answer else {}
    if detail.get("code") in UNKNOWN:
        raise TaskNotFoundError(detail["message"], detail)
    if code == REFUSED:
        raise UnsupportedOperationError(detail["message"], detail)
    if code == USAGE:
        raise InvalidParamsError(detail.get("message") or "The request does not fit.", detail)
    raise InternalError("The ledger cannot be used now. See the server's log.")
