"""Tools of the director and the user: what waits for a decision, and the decisions."""

# Annotations are values here: the protocol's library reads from them who is to be asked for an argument.

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, Resolve
from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult
from pydantic import Field

from remand.interfaces.mcp.answers import Inbox, Question, Rejection, TaskOutcome, Why, fields
from remand.interfaces.mcp.asking import LATER, Choice, asked_form, can_ask
from remand.interfaces.mcp.desk import Desk
from remand.interfaces.mcp.offers import For, Identity, Offer

HOW = "Answer with the tool answer: question, option (one of its keys) and, for whoever goes on, guidance."
LEFT = "It was not answered, and still waits."
EMPTY = "Nothing waits for you."
Made = Literal["OVERRIDE", "ACCEPT", "ACCEPT_AND_DEFER", "ACCEPT_AND_DECOMPOSE", "ACCEPT_AND_REFORMULATE"]


class DecidingTools:
    """What the director and the user decide. Where the client can, the user is asked in a form."""

    def __init__(self, desk: Desk, identity: Identity) -> None:
        self._desk = desk
        self._identity = identity

    def offers(self) -> list[Offer]:
        """The tools, in the order in which they are needed."""
        return [
            Offer(self._inbox(), "Inbox", For.DIRECTORS),
            Offer(self._answer(), "Answer a question", For.USER, destroys=True),
            Offer(self.unlock, "Unlock an agent", For.USER, destroys=True),
            Offer(self.decide, "Decide on a rejection", For.DIRECTORS, destroys=True),
            Offer(self.why, "Why locked out", For.ALL, reads=True),
        ]

    def _inbox(self) -> Any:
        """The tool that shows the inbox, and asks the user where it can."""

        async def oldest(ask: bool, ctx: Context[Any, Any]) -> Elicit[Choice] | Choice:
            return await self._asked("", ctx) if ask else Choice()

        async def inbox(
            choice: Annotated[ElicitationResult[Choice], Resolve(oldest)],
            ask: Annotated[
                bool, Field(description="ask the user the oldest question, where that can be")
            ] = True,
        ) -> Inbox:
            """Show the questions that wait for the user, each with the ways to answer it."""
            return (await self._given(choice) if ask else None) or await self._listed()

        return inbox

    def _answer(self) -> Any:
        """The tool that answers a question, and asks the user for the answer when none is given."""

        async def chosen(question: str, option: str, ctx: Context[Any, Any]) -> Elicit[Choice] | Choice:
            return Choice() if option else await self._asked(question, ctx)

        async def answer(
            choice: Annotated[ElicitationResult[Choice], Resolve(chosen)],
            question: Annotated[
                str, Field(description="id of the question or its task; empty: the oldest")
            ] = "",
            option: Annotated[str, Field(description="key of an option; empty: the user is asked")] = "",
            guidance: Annotated[str, Field(description="what whoever goes on should know")] = "",
        ) -> Inbox:
            """Answer a question in the user's name, only with what the user has said. Without an option the user
            is asked in a form where the client can, and else the questions are listed.
            """
            if not option:
                return await self._given(choice) or await self._listed(HOW)
            return await self._carried_out(question or await self._oldest(), option, guidance)

        return answer

    async def _asked(self, named: str, ctx: Context[Any, Any]) -> Elicit[Choice] | Choice:
        """The form for a question; no choice when nobody is to be asked: an agent's word is not the user's."""
        if not can_ask(ctx) or not (await self._identity.lately()).is_user:
            return Choice()
        questions = await self._questions()
        fitting = [one for one in questions if named in ("", one.escalation_id, one.task_id)]
        return asked_form(fitting[0]) if fitting else Choice()

    async def _given(self, choice: ElicitationResult[Choice]) -> Inbox | None:
        """What came of an answer in a form; None when there was none to a question."""
        if not isinstance(choice, AcceptedElicitation):
            return await self._listed(LEFT)
        if not choice.data.option:
            return None
        if choice.data.option == LATER:
            return await self._listed(LEFT)
        return await self._carried_out(choice.data.escalation_id, choice.data.option, choice.data.guidance)

    async def _carried_out(self, question: str, option: str, guidance: str) -> Inbox:
        answer = await self._desk.call("inbox answer", question, option, guidance=guidance)
        if answer.is_refused:
            return Inbox.model_validate(fields(answer))
        left = await self._listed()
        return left.model_copy(update={"given": Inbox.model_validate({"given": answer.data}).given})

    async def _listed(self, how: str = "") -> Inbox:
        questions = await self._questions()
        return Inbox(
            questions=questions, message="" if questions else EMPTY, next=how or (HOW if questions else "")
        )

    async def _questions(self) -> list[Question]:
        return [Question.model_validate(one) for one in (await self._desk.call("inbox")).data]

    async def _oldest(self) -> str:
        questions = await self._questions()
        return questions[0].escalation_id if questions else ""

    async def unlock(
        self,
        agent: Annotated[str, Field(description="who is locked out")],
        task: Annotated[str, Field(description="of which task")],
        reason: Annotated[str, Field(description="why; kept on record")],
        guidance: Annotated[str, Field(description="what the agent should know")] = "",
    ) -> TaskOutcome:
        """Let a locked-out agent work on a task again, in the user's name and only on the user's word."""
        answer = await self._desk.call("unlock", agent, task=task, reason=reason, guidance=guidance)
        return TaskOutcome.model_validate(fields(answer))

    async def decide(
        self,
        *,
        handoff: Annotated[str, Field(description="the handoff whose task was rejected")],
        decision: Made,
        rationale: Annotated[str, Field(description="why")] = "",
        message: Annotated[str, Field(description="what the agent is told on an override")] = "",
        created_tasks: Annotated[list[str] | None, Field(description="tasks that take its place")] = None,
        reassign_to: Annotated[str, Field(description="who takes over")] = "",
    ) -> Rejection:
        """Answer an agent's rejection of a task as the director."""
        answer = await self._desk.call(
            "handoff rejection-response",
            handoff,
            decision=decision,
            rationale=rationale,
            message=message,
            created_tasks=created_tasks or [],
            reassign_to=reassign_to,
        )
        return Rejection.model_validate(fields(answer))

    async def why(
        self,
        agent: Annotated[str, Field(description="which agent")],
        task: Annotated[str, Field(description="of which task; empty: any")] = "",
    ) -> Why:
        """Say whether and why an agent is locked out."""
        return Why.model_validate(fields(await self._desk.call("why", agent, task=task)))
