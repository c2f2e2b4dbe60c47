"""Who may take a task over, and who suits it best."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.handoffs import offered
from remand.domain.roles import Actor
from remand.domain.rules import is_eligible
from remand.domain.task import Task

Events = tuple[e.Event, ...]
_STEM = 3
"""A skill is found in a text by its first letters: so many at least, and more than half of the longer word."""


def left(task: Task, facts: c.Facts, *, without: Collection[str] = ()) -> list[Actor]:
    """The agents of the team that may work on the task, in the team's order."""
    inherited = {agent for agent, _ in facts.inherited} - set(task.unlocked)
    unsure = {agent for agent, _ in facts.may_be}
    return [
        agent
        for agent in facts.agents
        if agent.name not in without
        and agent.name not in inherited
        and agent.name not in unsure
        and not task.is_locked_out(agent.name)
        and is_eligible(task, agent)
    ]


def best(
    agents: Iterable[Actor], text: str, room: Mapping[str, int] | None = None
) -> tuple[Actor, tuple[str, ...]]:
    """The agent that knows most of what a text is about, with those skills.

    Of those who know as much it is the one that could take on most; then the team's order settles it.
    """
    free = room or {}
    words = frozenset(re.findall(r"\w+", text.lower()))
    known = [
        (agent, tuple(sorted(skill for skill in agent.skills if _names(skill, words)))) for agent in agents
    ]
    return max(known, key=lambda pair: (len(pair[1]), free.get(pair[0].name, 0)))


def _names(skill: str, words: Collection[str]) -> bool:
    """True when a text has words that are or begin like those of the skill: `accessibility`, `accessible`."""
    parts = re.findall(r"\w+", skill.lower())
    return bool(parts) and all(any(_is_like(part, word) for word in words) for part in parts)


def _is_like(one: str, other: str) -> bool:
    pairs = enumerate(zip(one, other, strict=False))
    same = next((place for place, (mine, its) in pairs if mine != its), min(len(one), len(other)))
    return one == other or (same >= _STEM and same > 0.55 * max(len(one), len(other)))


def passed_on(
    task: Task, to: Actor, command: c.Command, *, source: str, why: str, is_last: bool, guidance: str = ""
) -> Events:
    """Gives the task to another agent: said once, and reserved for one lease."""
    return (
        e.TaskReassigned(task_id=task.id, target=to.name, source=source, reason=why, is_last=is_last),
        offered(task, to.name, command.facts.fresh_handoff_id, command, guidance),
    )
