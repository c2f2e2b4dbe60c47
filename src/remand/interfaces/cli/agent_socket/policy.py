"""Applies the rules on agents' calls to a call through a socket, and settles the words in which it is carried out."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from remand.app.errors import UsageError
from remand.domain.access.agent_calls import (
    CommandPermission,
    require_agent_command,
    require_agent_name,
    require_call_size,
    require_named_task,
    require_own_folder,
)
from remand.interfaces.cli.main import command_parser, unknown_command_message
from remand.interfaces.cli.registry import COMMANDS, CommandCall
from remand.wiring.agent_socket import AgentCall, AgentCaller

_NAMES = ("agent", "reviewer")
"""Options by which somebody acts."""


class PermittedCall(NamedTuple):
    """A call that may be carried out, once what it names has turned out to be the door's own."""

    admission: CommandPermission
    call: CommandCall
    options: Namespace

    @property
    def subject(self) -> str:
        """What it names; empty when it names nothing, or only reads."""
        return str(getattr(self.options, self.admission.named, "") or "") if self.admission.about else ""


def require_permitted(asked: AgentCall, call: CommandCall) -> PermittedCall:
    """A call through a door; raises what keeps it from being carried out."""
    caller = asked.caller
    require_call_size(asked.arguments)
    if call.is_broken:
        raise UsageError(call.is_broken)
    if call.command not in COMMANDS:
        raise UsageError(unknown_command_message(call))
    admission = require_agent_command(call.command, is_worker=caller.is_worker)
    if call.wants_help:
        raise UsageError("Run `--help` outside the agent socket.")
    _require_own_place(asked, call)
    options = command_parser(call.command)[1].parse_args(call.rest)
    found = PermittedCall(admission, call, options)
    require_agent_name(caller.agent, _acting_names(found))
    if getattr(options, "follow", False):
        raise UsageError("The agent socket cannot follow a log. Omit -f, and call again later.")
    if call.command == "task claim":
        require_named_task(caller.agent, caller.task_id, found.subject)
    return found


def _require_own_place(asked: AgentCall, call: CommandCall) -> None:
    """Refuses a folder outside the workplace. It is not looked at: inside, there is but one ledger to speak to."""
    if call.folder != ".":
        own = os.path.normpath(asked.caller.workplace.folder)
        meant = os.path.normpath(os.path.join(asked.folder or own, call.folder))
        require_own_folder(own, meant, call.folder)


def _acting_names(found: PermittedCall) -> list[str]:
    """The names under which a call would act. Whom a reading command asks about is free."""
    names = [found.call.actor]
    if found.admission.about and found.call.command != "review request":
        names += [str(getattr(found.options, name, "") or "") for name in _NAMES]
    return names


def build_arguments(caller: AgentCaller, call: CommandCall, settled: Mapping[str, str]) -> list[str]:
    """The words in which a call is carried out, with some of its options settled, whatever it gave for them.

    An idempotency key counts for the run alone: nobody can use up another's.
    """
    common = ["--json"] if call.is_json else []
    if call.key:
        common += [
            "--key",
            f"door-{sha256(f'{caller.run_id} {call.key}'.encode('utf-8', 'replace')).hexdigest()[:40]}",
        ]
    own = [f"{name}={value}" for name, value in settled.items()]
    return [*common, *call.command.split(" "), *own, *_without_options(call.rest, settled)]


def _without_options(words: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """The words of a call without some options and their values."""
    kept: list[str] = []
    items = iter(words)
    for item in items:
        if item == "--":
            return [*kept, item, *items]
        if item in options:
            next(items, None)
        elif item.partition("=")[0] not in options:
            kept.append(item)
    return kept
