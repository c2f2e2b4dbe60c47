"""`remand say`: runs a command or answers a question in plain English."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.app.requests import Answer
from remand.app.text_commands import TextCommandResult, TextCommands
from remand.domain import commands as c
from remand.domain.refusals import Refused
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result


@command(
    "say",
    argument(
        "text",
        nargs="+",
        help="such as 'Why is Fenster locked out?' or 'Unlock Fenster for issue #42' (@file, -)",
    ),
)
def _run_text(context: Context) -> Result:
    actor = context.actor()
    team = context.opened_ledger.settings.rules().team
    speaker = team.actor(actor, confined=context.is_confined)

    def ask(command: c.Command) -> Answer:
        try:
            return context.ask(command, actor)
        except Refused as refusal:
            return refusal

    result = TextCommands(context.opened_ledger.store, team, speaker, ask).run(_text(context))
    return Result(_data(result), _render_reply(result), 1 if result.refused else 0)


def _text(context: Context) -> str:
    """The words; one that stands alone may name a file or standard input."""
    words: list[str] = context.arguments.text
    is_alone = len(words) == 1 and len(words[0].split()) == 1
    return context.text(words[0]) if is_alone else " ".join(words)


def _data(result: TextCommandResult) -> dict[str, Any]:
    if not result.refused:
        plain: dict[str, Any] = msgspec.to_builtins(result)
        return {name: value for name, value in plain.items() if name not in ("refused", "choices")}
    return {
        "refused": result.refused,
        "message": result.done,
        "understood": result.understood or None,
        "choices": list(result.choices),
    }


def _render_reply(result: TextCommandResult) -> str:
    rows = [f"understood: {result.understood}"] if result.understood else []
    rows.append(f"refused ({result.refused}): {result.done}" if result.refused else result.done)
    if result.choices:
        rows.append("Possible meanings:")
    return "\n".join([*rows, *(f"  {choice}" for choice in result.choices)])
