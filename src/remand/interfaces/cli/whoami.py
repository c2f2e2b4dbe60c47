"""Who acts from here, and what that allows."""

from __future__ import annotations

from argparse import ArgumentParser

from remand.app.people import People
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result


def _nothing(parser: ArgumentParser) -> None:
    """Takes no arguments."""


def _whoami(context: Context) -> Result:
    team = context.opened.settings.rules().team
    with context.opened.store.read() as view:
        name = People(view, team).name(context.actor())
    actor = team.actor(name, confined=context.is_confined)
    roles = sorted(role.value for role in actor.roles)
    data = {
        "name": actor.name,
        "roles": roles,
        "has_team": team.has_members,
        "confined": actor.confined,
        "task": context.surroundings.environment.get("REMAND_TASK") or None,
    }
    place = ", inside an agent's environment" if actor.confined else ""
    return Result(data, f"{actor.name} ({', '.join(roles) or 'not on the team'}){place}")


COMMANDS = {"whoami": Command(_nothing, _whoami)}
