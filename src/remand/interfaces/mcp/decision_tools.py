"""Tools of the director and the user: open questions, the form that asks the user, and decisions."""

from typing import Annotated, Any, ClassVar, Literal

from mcp.server.mcpserver import Context, Resolve
from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult
from pydantic import BaseModel, Field, create_model

from remand.interfaces.mcp import tools
from remand.interfaces.mcp.command_runner import CommandRunner

LATER = "later"


class FormAnswer(BaseModel):
    """What was chosen in a form."""

    escalation_id: ClassVar[str] = ""
    """The question that the form is about."""
    option: str = ""
    guidance: str = ""


def has_forms(ctx: Context[Any, Any]) -> bool:
    """True when the client has forms. A bare capability, from before there were modes, means that it has."""
    capabilities = ctx.client_capabilities
    known = capabilities.elicitation if capabilities else None
    return known is not None and (known.form is not None or known.url is None)


def question_form(question: tools.QuestionRow) -> Elicit[FormAnswer]:
    """A question as a form: one of its options, and guidance for the agent that continues."""
    ways = "\n".join(f"- {option.key}: {option.text}" for option in question.options)
    tried = "".join(f"\n{ground}" for ground in question.grounds)
    tried += "".join(f"\ntried: {line}" for line in question.tried)
    why, _, _ = question.question.partition(" Options: ")
    text = f"{question.task_id} {question.title}\n{why}{tried}\n\n{ways}\n- {LATER}: leave it open"
    return Elicit(text, _form(question))


def _form(question: tools.QuestionRow) -> type[FormAnswer]:
    keys = (*(option.key for option in question.options), LATER)
    fields: dict[str, Any] = {
        "option": (Literal[keys], Field(description="what to do with the task")),
        "guidance": (str, Field("", description="guidance for the agent that continues")),
    }
    made = create_model("Decision", __base__=FormAnswer, **fields)
    made.escalation_id = question.escalation_id
    return made


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
            tools.ToolOffer(self._inbox(), "Inbox", tools.Audience.DIRECTORS),
            tools.ToolOffer(self._answer(), "Answer a question", tools.Audience.USER, destroys=True),
            tools.ToolOffer(self.unlock, "Unlock an agent", tools.Audience.USER, destroys=True),
            tools.ToolOffer(self.decide, "Decide on a rejection", tools.Audience.DIRECTORS, destroys=True),
            tools.ToolOffer(self.why, "Why locked out", tools.Audience.ALL, reads=True),
        ]

    def _inbox(self) -> Any:
        """The tool that shows the inbox, and asks the user where it can."""

        async def oldest(ask: bool, ctx: Context[Any, Any]) -> Elicit[FormAnswer] | FormAnswer:
            return await self._question_form("", ctx) if ask else FormAnswer()

        async def inbox(
            choice: Annotated[ElicitationResult[FormAnswer], Resolve(oldest)],
            ask: Annotated[
                bool, Field(description="ask the user the oldest question, if the host can")
            ] = True,
        ) -> tools.InboxResult:
            """Show the questions that wait for the user, each with the ways to answer it."""
            return (await self._form_result(choice) if ask else None) or await self._inbox_result()

        return inbox

    def _answer(self) -> Any:
        """The tool that answers a question, and asks the user for the answer when none is given."""

        async def choose_option(
            question: str, option: str, ctx: Context[Any, Any]
        ) -> Elicit[FormAnswer] | FormAnswer:
            return FormAnswer() if option else await self._question_form(question, ctx)

        async def answer(
            choice: Annotated[ElicitationResult[FormAnswer], Resolve(choose_option)],
            question: Annotated[
                str, Field(description="id of the question or its task; empty: the oldest")
            ] = "",
            option: Annotated[str, Field(description="key of an option; empty: the user is asked")] = "",
            guidance: Annotated[str, Field(description="guidance for the agent that continues")] = "",
        ) -> tools.InboxResult:
            """Answer a question in the user's name, only with what the user has said. Without an option the user
            is asked in a form where the client can, and else the questions are listed.
            """
            if not option:
                return await self._form_result(choice) or await self._inbox_result(HOW)
            return await self._give_answer(question or await self._oldest(), option, guidance)

        return answer

    async def _question_form(self, named: str, ctx: Context[Any, Any]) -> Elicit[FormAnswer] | FormAnswer:
        """The form for a question; no choice when nobody is to be asked: an agent's word is not the user's."""
        if not has_forms(ctx) or not (await self._identity.last_known()).is_user:
            return FormAnswer()
        questions = await self._questions()
        fitting = [
            question for question in questions if named in ("", question.escalation_id, question.task_id)
        ]
        return question_form(fitting[0]) if fitting else FormAnswer()

    async def _form_result(self, choice: ElicitationResult[FormAnswer]) -> tools.InboxResult | None:
        """What came of an answer in a form; None when there was none to a question."""
        if not isinstance(choice, AcceptedElicitation):
            return await self._inbox_result(LEFT)
        if not choice.data.option:
            return None
        if choice.data.option == LATER:
            return await self._inbox_result(LEFT)
        return await self._give_answer(choice.data.escalation_id, choice.data.option, choice.data.guidance)

    async def _give_answer(self, question: str, option: str, guidance: str) -> tools.InboxResult:
        answer = await self._runner.call("inbox answer", question, option, guidance=guidance)
        if answer.is_refused:
            return tools.InboxResult.model_validate(tools.result_fields(answer))
        left = await self._inbox_result()
        return left.model_copy(
            update={"given": tools.InboxResult.model_validate({"given": answer.data}).given}
        )

    async def _inbox_result(self, how: str = "") -> tools.InboxResult:
        questions = await self._questions()
        return tools.InboxResult(
            questions=questions, message="" if questions else EMPTY, next=how or (HOW if questions else "")
        )

    async def _questions(self) -> list[tools.QuestionRow]:
        return [tools.QuestionRow.model_validate(one) for one in (await self._runner.call("inbox")).data]

    async def _oldest(self) -> str:
        questions = await self._questions()
        return questions[0].escalation_id if questions else ""

    async def unlock(
        self,
        agent: Annotated[str, Field(description="who is locked out")],
        task: Annotated[str, Field(description="of which task")],
        reason: Annotated[str, Field(description="the reason, which is recorded")],
        guidance: Annotated[str, Field(description="guidance for the agent")] = "",
    ) -> tools.TaskToolResult:
        """Let a locked-out agent work on a task again, in the user's name and only on the user's word."""
        answer = await self._runner.call("unlock", agent, task=task, reason=reason, guidance=guidance)
        return tools.TaskToolResult.model_validate(tools.result_fields(answer))

    async def decide(
        self,
        *,
        handoff: Annotated[str, Field(description="the handoff whose task was rejected")],
        decision: DecisionName,
        rationale: Annotated[str, Field(description="why")] = "",
        message: Annotated[str, Field(description="the message to the agent on an override")] = "",
        created_tasks: Annotated[list[str] | None, Field(description="tasks that take its place")] = None,
        reassign_to: Annotated[str, Field(description="who takes over")] = "",
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
        return tools.RejectionResult.model_validate(tools.result_fields(answer))

    async def why(
        self,
        agent: Annotated[str, Field(description="which agent")],
        task: Annotated[str, Field(description="of which task; empty: any")] = "",
    ) -> tools.LockoutResult:
        """Say whether and why an agent is locked out."""
        return tools.LockoutResult.model_validate(
            tools.result_fields(await self._runner.call("why", agent, task=task))
        )
