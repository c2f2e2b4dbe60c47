"""Asking the user in a form, where the client has one. What comes back is an answer, and no proof of a person."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit
from pydantic import BaseModel, Field, create_model

from remand.interfaces.mcp.answers import Question

LATER = "later"


class Choice(BaseModel):
    """What was chosen in a form."""

    escalation_id: ClassVar[str] = ""
    """The question that the form is about."""
    option: str = ""
    guidance: str = ""


def can_ask(ctx: Context[Any, Any]) -> bool:
    """True when the client has forms. A bare capability, from before there were modes, means that it has."""
    capabilities = ctx.client_capabilities
    known = capabilities.elicitation if capabilities else None
    return known is not None and (known.form is not None or known.url is None)


def asked_form(question: Question) -> Elicit[Choice]:
    """A question as a form: one of its options, and what whoever goes on should know."""
    ways = "\n".join(f"- {option.key}: {option.text}" for option in question.options)
    tried = "".join(f"\n{one}" for one in question.grounds)
    tried += "".join(f"\ntried: {one}" for one in question.tried)
    why, _, _ = question.question.partition(" Options: ")
    text = f"{question.task_id} {question.title}\n{why}{tried}\n\n{ways}\n- {LATER}: leave it open"
    return Elicit(text, _form(question))


def _form(question: Question) -> type[Choice]:
    keys = (*(option.key for option in question.options), LATER)
    fields: dict[str, Any] = {
        "option": (Literal[keys], Field(description="what becomes of the task")),
        "guidance": (str, Field("", description="what whoever goes on should know")),
    }
    made = create_model("Decision", __base__=Choice, **fields)
    made.escalation_id = question.escalation_id
    return made
