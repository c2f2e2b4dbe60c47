"""A call that is ours: what was run is noted, and everything else is answered, by a coordinator where one runs."""

from __future__ import annotations

import os
from importlib import import_module

from remand.bootstrap import hosts, quick
from remand.bootstrap.hosts import Answer, Call
from remand.bootstrap.quick import Bound, Place

SHORTEST = 0.5
"""Seconds: whatever the environment says, there is time for an answer."""


def reply(call: Call, place: Place, bound: Bound | None, environment: dict[str, str]) -> Answer:
    """The answer to a call of a session that is, or may become, ours."""
    if call.event in hosts.AFTER_TOOLS:
        noting = import_module("remand.interfaces.hook.noting")
        noting.note(call, place, bound, environment)
        return Answer.allow()
    if bound is None or call.is_aborted:
        return Answer.allow()
    words = words_of(call, bound)
    forwarded = _forwarded(place, words, environment)
    if forwarded is not None:
        return forwarded
    quick.load_msgspec()
    look = quick.begin_look(place) if call.event == hosts.STOP else None
    try:
        answering = import_module("remand.interfaces.hook.answering")
        known = import_module("remand.interfaces.hook.words").Words(**words)
        answered: Answer = answering.answer(
            known, place, deadline=_deadline(call.event, environment), look=look
        )
    finally:
        if look is not None:
            look.close()
    return answered


def _deadline(event: str, environment: dict[str, str]) -> float:
    """How long the answer may take. The environment can make it less, never more."""
    own = hosts.deadline(event)
    try:
        return max(SHORTEST, min(own, float(environment.get("REMAND_HOOK_DEADLINE", "") or own)))
    except ValueError:
        return own


def words_of(call: Call, bound: Bound) -> dict[str, object]:
    """What of a call the answer depends on, as plain values."""
    tool = call.tool
    return {
        "event": call.event,
        "session": call.session,
        "firing": call.firing,
        "task_id": bound.task_id,
        "agent": bound.agent,
        "branch": bound.branch,
        "earlier": list(bound.earlier),
        "subagent": call.subagent,
        "has_background_work": call.has_background_work,
        "is_broken": call.is_broken,
        "tool": tool.name if tool else "",
        "command": tool.command[:20000] if tool else "",
        "cwd": call.cwd,
        "paths": list(tool.paths[:200]) if tool else [],
        "config_source": call.config_source,
        "config_file": call.config_file,
        "host": call.host,
    }


def _forwarded(place: Place, words: dict[str, object], environment: dict[str, str]) -> Answer | None:
    """The coordinator's answer; None when none runs, or a gate has to be run."""
    path = quick.find_socket(place)
    if not path or any(os.path.isdir(folder) for folder in place.event_folders[1:]):
        return None
    settings = ["", environment.get("REMAND_TASK", "") or "hook", "", "", "", "", ""]
    try:
        code, output, _ = quick.forward(
            path, place.worktree, settings, ["--json", "hook relay", hosts.compose(words)]
        )
    except quick.Lost:
        return None
    return relayed(code, output)


def relayed(code: int, output: bytes) -> Answer | None:
    """The answer to a call that was handed on; None when there is none: that failed, or a gate has to be run."""
    found = hosts.parse(output)
    if code or found.text("kind") not in hosts.KINDS:
        return None
    return Answer(found.text("kind"), found.text("text"), notice=found.text("notice"))
