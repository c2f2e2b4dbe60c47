"""What an agent may call through its socket: which commands, about which task, and only in its own name."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, NoReturn

from remand.app.errors import UsageError
from remand.app.scheduler.ports import TaskWorktree
from remand.domain.refusals import Refused
from remand.interfaces.cli.main import command_parser, unknown_command_message
from remand.interfaces.cli.output import one_line
from remand.interfaces.cli.registry import COMMANDS, CommandCall
from remand.wiring.agent_socket import AgentCall, AgentCaller

MAX_ARGUMENTS = 2000
MAX_CHARACTERS = 6 << 20
TASK, HANDOFF = "task", "handoff"
_COMMIT = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
_NAMES = ("agent", "reviewer")
"""Options by which somebody acts."""


class CommandPermission(NamedTuple):
    """A command that an agent may use."""

    about: str = ""
    """What it names, which must be the door's own: a task or a handoff. Empty: it only reads."""
    named: str = ""
    """The argument that names it."""
    is_long: bool = False
    """It may take minutes."""
    hands_in: bool = False
    """It hands in the tip of the workplace's branch."""


_OWN = CommandPermission(TASK, "id")
_OWN_REVIEW = CommandPermission(TASK, "task")
_READS = CommandPermission()
PERMITTED_COMMANDS: dict[str, CommandPermission] = {
    "task list": _READS,
    "task show": _READS,
    "task ready": _READS,
    "task claim": _OWN,
    "task prompt": _OWN,
    "task submit": CommandPermission(TASK, "id", is_long=True, hands_in=True),
    "task heartbeat": _OWN,
    "task release": _OWN,
    "task continue": _OWN,
    "task wait": _OWN,
    "task fail": _OWN,
    "handoff accept": CommandPermission(HANDOFF, "handoff"),
    "handoff complete": CommandPermission(HANDOFF, "handoff", is_long=True, hands_in=True),
    "handoff reject": CommandPermission(HANDOFF, "handoff", is_long=True),
    "handoff rejection-response": CommandPermission(HANDOFF, "handoff"),
    "handoff status": _READS,
    "gate history": _READS,
    "gate report": _READS,
    "gate wait": CommandPermission(TASK, "task", is_long=True),
    "review list": _READS,
    "review diff": _READS,
    "review request": _OWN_REVIEW,
    "review approve": _OWN_REVIEW,
    "review reject": _OWN_REVIEW,
    "review retract": _OWN_REVIEW,
    "reject-task": _OWN_REVIEW,
    "escalate": _OWN_REVIEW,
    "lockout list": _READS,
    "why": _READS,
    "whoami": _READS,
    "explain": _READS,
    "inbox": _READS,
    "log tail": _READS,
}
"""Everything an agent may call; the rules of the ledger hold besides. What is not here is not an agent's."""


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
    _require_size(asked)
    if call.is_broken:
        raise UsageError(call.is_broken)
    admission = PERMITTED_COMMANDS.get(call.command)
    if admission is None:
        _refuse_command(call)
    if admission.about and not asked.caller.is_worker:
        raise Refused(
            "not_authorised",
            "Whoever judges says so with its last words: what it looks at could speak here as well. This door only"
            " answers questions.",
        )
    if call.wants_help:
        raise UsageError("Help is printed where it is asked for: it needs no door.")
    _require_own_place(asked, call)
    options = command_parser(call.command)[1].parse_args(call.rest)
    found = PermittedCall(admission, call, options)
    _require_own_name(asked.caller, found)
    if getattr(options, "follow", False):
        raise UsageError("A log is not followed through a door. Leave -f out, and ask again later.")
    if call.command == "task claim" and not found.subject:
        raise _foreign_task_refusal(asked.caller, "Which task you work on is settled")
    return found


def _require_size(asked: AgentCall) -> None:
    size = sum(map(len, asked.arguments))
    if len(asked.arguments) > MAX_ARGUMENTS or size > MAX_CHARACTERS:
        raise Refused(
            "bad_value",
            f"A call may have {MAX_ARGUMENTS} arguments of {MAX_CHARACTERS} characters together; this one has "
            f"{len(asked.arguments)} of {size}.",
        )


def _refuse_command(call: CommandCall) -> NoReturn:
    if call.command not in COMMANDS:
        raise UsageError(unknown_command_message(call))
    raise Refused(
        "user_only",
        f"`remand {call.command}` is not an agent's to call. From here there are {_permitted_names()}.",
    )


def _permitted_names() -> str:
    return ", ".join(PERMITTED_COMMANDS)


def _require_own_place(asked: AgentCall, call: CommandCall) -> None:
    """Refuses a folder outside the workplace. It is not looked at: inside, there is but one ledger to speak to."""
    if call.folder == ".":
        return
    own = os.path.normpath(asked.caller.workplace.folder)
    meant = os.path.normpath(os.path.join(asked.folder or own, call.folder))
    if meant != own and not meant.startswith(f"{own}{os.sep}"):
        raise Refused(
            "not_yours",
            f"From here only the ledger of {own} is spoken to. Leave -C {one_line(call.folder)} out.",
        )


def _require_own_name(caller: AgentCaller, found: PermittedCall) -> None:
    """Refuses to let anyone act under another name. Whom a reading command asks about is free."""
    names = [found.call.actor]
    if found.admission.about and found.call.command != "review request":
        names += [str(getattr(found.options, name, "") or "") for name in _NAMES]
    for name in names:
        if name not in ("", caller.agent):
            raise Refused(
                "not_yours", f"This is {caller.agent}'s door; nobody acts as {one_line(name)} from here."
            )


def require_own_task(caller: AgentCaller, found: PermittedCall, task_id: str) -> None:
    """Refuses to let a call be about another task than the door's, whose id is given."""
    if task_id != caller.task_id:
        raise _foreign_task_refusal(caller, f"{one_line(found.subject)} is none of this run's business")


def _foreign_task_refusal(caller: AgentCaller, why: str) -> Refused:
    return Refused("not_yours", f"{why}: this is the door of {caller.agent}'s run on {caller.task_id}.")


def require_tip(name: str, tip: str, workplace: TaskWorktree) -> str:
    """The commit that is handed in: the tip of the branch, by whatever name it is called; another is refused."""
    if not tip:
        raise Refused(
            "nothing_committed", f"There is no commit on {workplace.branch}. Commit the work first."
        )
    is_tip = is_tip_by_name(name, workplace) or (
        bool(_COMMIT.fullmatch(name)) and tip.startswith(name.lower())
    )
    if not is_tip:
        raise Refused(
            "unknown_commit",
            f"What is handed in is the tip of {workplace.branch}, which is {tip}, and not {one_line(name)}. "
            "Use --commit HEAD.",
        )
    return tip


def is_tip_by_name(name: str, workplace: TaskWorktree) -> bool:
    """True for a name that stands for the tip of the workplace's branch."""
    return name in ("", "HEAD", "@", workplace.branch, f"refs/heads/{workplace.branch}")


def is_commit_id(name: str) -> bool:
    """True for a commit's id, whole or shortened: the only name that is the same wherever it is looked up."""
    return bool(_COMMIT.fullmatch(name))


def require_own_branch(found: PermittedCall, workplace: TaskWorktree) -> None:
    """Refuses a branch that is not the workplace's."""
    named = getattr(found.options, "branch", "") or ""
    if named not in ("", workplace.branch):
        raise Refused("not_yours", f"This run works on {workplace.branch}, and not on {one_line(named)}.")


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
