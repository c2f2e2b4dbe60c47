"""Tools of the director and the user: open questions, the form that asks the user, and decisions."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from remand.interfaces.mcp import tools
from remand.interfaces.mcp.command_runner import CommandRunner
from remand.interfaces.mcp.protocol import ClientRequest, Form, FormAnswer

LATER = "later"


def question_form(question: tools.QuestionRow) -> Form:
    """A question as a form: one of its options, and guidance for the agent that continues."""
    ways = "\n".join(f"- {option.key}: {option.text}" for option in question.options)
    tried = "".join(f"\n{ground}" for ground in question.grounds)
    tried += "".join(f"\ntried: {line}" for line in question.tried)
    why, _, _ = question.question.partition(" Options: ")
    text = f"{question.task_id} {question.title}\n{why}{tried}\n\n{ways}\n- {LATER}: leave it open"
    properties = {
        "option": {
            "type": "string",
            "enum": [*(option.key for option in question.options), LATER],
            "description": "what to do with the task",
        },
        "guidance": {
            "type": "string",
            "default": "",
            "description": "guidance for the agent that continues",
        },
    }
    schema = {"type": "object", "properties": properties, "required": ["option"]}
    return Form(text, schema, question.escalation_id)


HOW = "Answer with the tool answer: question, option (one of its keys) and optional guidance for the agent that continues."
LEFT = "It was not answered and stays open."
EMPTY = "Nothing waits for you."
DecisionName = Literal[
    "OVERRIDE", "ACCEPT", "ACCEPT_AND_DEFER", "ACCEPT_AND_DECOMPOSE", "ACCEPT_AND_REFORMULATE"
]


class DecisionTools:
    """What the director and the user decide. Where the client can, the user is asked in a form."""

    def __init__(self, runner: CommandRunner, identity: tools.ServerIdentity) -> None:
        self._runner = runner
        self._identity = identity

    def offers(self) -> list[tools.ToolOffer]:
        """The tools, in the order in which they are needed."""
        return [
            tools.ToolOffer(self.inbox, "Inbox", tools.Audience.DIRECTORS),
            tools.ToolOffer(self.answer, "Answer a question", tools.Audience.USER, destroys=True),
            tools.ToolOffer(self.unlock, "Unlock an agent", tools.Audience.USER, destroys=True),
            tools.ToolOffer(self.decide, "Decide on a rejection", tools.Audience.DIRECTORS, destroys=True),
            tools.ToolOffer(self.why, "Why locked out", tools.Audience.ALL, reads=True),
        ]

    async def inbox(
        self,
        request: ClientRequest,
        ask: Annotated[bool, Meta(description="ask the user the oldest question, if the host can")] = True,
    ) -> tools.InboxResult:
        """Show the questions that wait for the user, each with the ways to answer it."""
        return (await self._ask_user("", request) if ask else None) or await self._inbox_result()

    async def answer(
        self,
        request: ClientRequest,
        question: Annotated[str, Meta(description="id of the question or its task; empty: the oldest")] = "",
        option: Annotated[str, Meta(description="key of an option; empty: the user is asked")] = "",
        guidance: Annotated[str, Meta(description="guidance for the agent that continues")] = "",
    ) -> tools.InboxResult:
        """Answer a question in the user's name, only with what the user has said. Without an option the user
        is asked in a form where the client can, and else the questions are listed.
        """
        if not option:
            return await self._ask_user(question, request) or await self._inbox_result(HOW)
        return await self._give_answer(question or await self._oldest(), option, guidance)

    async def _ask_user(self, named: str, request: ClientRequest) -> tools.InboxResult | None:
        """What came of asking the user in a form; None when nobody is to be asked: an agent's word is not the user's."""
        if not request.has_forms or not (await self._identity.last_known()).is_user:
            return None
        answer = request.form_answer
        if answer is None or not answer.subject:
            questions = [
                one for one in await self._questions() if named in ("", one.escalation_id, one.task_id)
            ]
            if not questions:
                return None
            answer = await request.fill(question_form(questions[0]))
        return await self._form_result(answer)

    async def _form_result(self, answer: FormAnswer) -> tools.InboxResult:
        option, guidance = answer.values.get("option"), answer.values.get("guidance", "")
        if answer.action != "accept" or option == LATER:
            return await self._inbox_result(LEFT)
        open_questions = [one for one in await self._questions() if one.escalation_id == answer.subject]
        keys = [one.key for question in open_questions for one in question.options]
        if not isinstance(guidance, str) or (open_questions and option not in keys):
            raise tools.ToolError("Nothing was done: the answer does not fit the schema of the form.")
        return await self._give_answer(answer.subject, str(option), guidance)

    async def _give_answer(self, question: str, option: str, guidance: str) -> tools.InboxResult:
        answer = await self._runner.call("inbox answer", question, option, guidance=guidance)
        if answer.is_refused:
            return tools.result(tools.InboxResult, tools.result_fields(answer))
        given = tools.result(tools.AnswerRow, answer.data)
        return msgspec.structs.replace(await self._inbox_result(), given=given)

    async def _inbox_result(self, how: str = "") -> tools.InboxResult:
        questions = await self._questions()
        return tools.InboxResult(
            questions=tuple(questions),
            message="" if questions else EMPTY,
            next=how or (HOW if questions else ""),
        )

    async def _questions(self) -> list[tools.QuestionRow]:
        return [tools.result(tools.QuestionRow, one) for one in (await self._runner.call("inbox")).data]

    async def _oldest(self) -> str:
        questions = await self._questions()
        return questions[0].escalation_id if questions else ""

    async def unlock(
        self,
        agent: Annotated[str, Meta(description="who is locked out")],
        task: Annotated[str, Meta(description="of which task")],
        reason: Annotated[str, Meta(description="the reason, which is recorded")],
        guidance: Annotated[str, Meta(description="guidance for the agent")] = "",
    ) -> tools.TaskToolResult:
        """Let a locked-out agent work on a task again, in the user's name and only on the user's word."""
        answer = await self._runner.call("unlock", agent, task=task, reason=reason, guidance=guidance)
        return tools.result(tools.TaskToolResult, tools.result_fields(answer))

    async def decide(
        self,
        *,
        handoff: Annotated[str, Meta(description="the handoff whose task was rejected")],
        decision: DecisionName,
        rationale: Annotated[str, Meta(description="why")] = "",
        message: Annotated[str, Meta(description="the message to the agent on an override")] = "",
        created_tasks: Annotated[list[str] | None, Meta(description="tasks that take its place")] = None,
        reassign_to: Annotated[str, Meta(description="who takes over")] = "",
    ) -> tools.RejectionResult:
        """Answer an agent's rejection of a task as the director."""
        answer = await self._runner.call(
            "handoff rejection-response",
            handoff,
            decision=decision,
            rationale=rationale,
            message=message,
            created_tasks=created_tasks or [],
            reassign_to=reassign_to,
        )
        return tools.result(tools.RejectionResult, tools.result_fields(answer))

    async def why(
        self,
        agent: Annotated[str, Meta(description="which agent")],
        task: Annotated[str, Meta(description="of which task; empty: any")] = "",
    ) -> tools.LockoutResult:
        """Say whether and why an agent is locked out."""
        return tools.result(
            tools.LockoutResult, tools.result_fields(await self._runner.call("why", agent, task=task))
        )
