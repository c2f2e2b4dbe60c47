"""What an agent may call through its socket: which commands, for which task, and only in its own name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from remand.domain.access.team import fold_name
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.domain.text.words import flatten, shorten
from remand.startup import lazy_pattern

MAX_ARGUMENTS = 2000
MAX_CHARACTERS = 6 << 20
MAX_QUOTED = 80
TASK, HANDOFF = "task", "handoff"
_COMMIT = lazy_pattern(r"[0-9a-f]{7,64}", re.IGNORECASE)


class CommandPermission(NamedTuple):
    """A command that an agent may use."""

    about: str = ""
    """What it names, which must belong to the run: a task or a handoff. Empty for a command that only reads."""
    named: str = ""
    """The argument with that name."""
    is_long: bool = False
    """Whether it may take minutes."""
    hands_in: bool = False
    """Whether it submits the tip of the worktree's branch."""


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
    "handoff appeal": CommandPermission(HANDOFF, "handoff", is_long=True),
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
"""All commands an agent may call; the rules of the ledger apply as well."""

_USER_COMMANDS = {
    "notify": "Only the user may send notices.",
    "init --remove": "Only the user may remove the hooks, and not from inside an agent's environment.",
    "solo": "Only the user may switch this on or off, in the user's own shell.",
    "run": "Agents cannot be started from inside an agent's environment.",
    "worker": "Only the user may start a worker, and not from inside an agent's environment.",
    "serve": "Only the user may start a coordinator, and not from inside an agent's environment.",
    "coordinator stop": "Only the user may stop the coordinator, and not from inside an agent's environment.",
}
"""Commands of the user that do not reach the ledger, with the reason shown to agents."""


def require_call_size(arguments: Sequence[str]) -> None:
    """Refuses a call that is longer than any legitimate one."""
    size = sum(map(len, arguments))
    if len(arguments) > MAX_ARGUMENTS or size > MAX_CHARACTERS:
        raise Refused(
            "bad_value",
            f"A call may have at most {MAX_ARGUMENTS} arguments with {MAX_CHARACTERS} characters in total; this one "
            f"has {len(arguments)} with {size}.",
        )


def require_agent_command(command: str, *, is_worker: bool) -> CommandPermission:
    """The permission for a command; refuses commands not meant for agents, and decisions by a reviewing agent.

    A reviewing agent works on foreign code, which could call the socket as well.
    """
    permission = PERMITTED_COMMANDS.get(command)
    if permission is None:
        raise Refused(
            "user_only",
            f"Agents may not call `remand {command}`. The available commands are {', '.join(PERMITTED_COMMANDS)}.",
        )
    if permission.about and not is_worker:
        raise Refused(
            "not_authorised",
            "A reviewing or directing agent gives its decision in its final message, because the code that it reads"
            " could call this socket, too. This agent socket is read-only.",
        )
    return permission


def require_own_folder(own: str, meant: str, given: str) -> None:
    """Refuses a folder outside the agent's worktree; both paths are normalised, and the folder is quoted as given."""
    if meant != own and not meant.startswith(f"{own}/"):
        raise Refused(
            "not_yours", f"This agent socket serves only the ledger of {own}. Omit -C {_quote(given)}."
        )


def require_agent_name(agent: str, names: Iterable[str]) -> None:
    """Refuses any other agent name in a call through an agent's socket."""
    for name in names:
        if name not in ("", agent):
            raise Refused(
                "not_yours", f"This is {agent}'s agent socket; nobody can act as {_quote(name)} here."
            )


def require_environment_name(own: str, named: str) -> None:
    """Refuses a name other than the one in an agent's environment."""
    if own and named and fold_name(named) != fold_name(own):
        raise Refused("not_yours", f"This is {own}'s environment; nobody can act as {named} from here.")


def require_own_task(agent: str, own_task_id: str, task_id: str, named: str) -> None:
    """Refuses a call about a task other than the run's own; `named` is the name used in the call."""
    if task_id != own_task_id:
        raise _foreign_task_refusal(agent, own_task_id, f"{_quote(named)} does not belong to this run")


def require_named_task(agent: str, own_task_id: str, named: str) -> None:
    """Refuses to claim the next task of the queue: a run works on its own task."""
    if not named:
        raise _foreign_task_refusal(agent, own_task_id, "Your task is fixed for this run")


def _foreign_task_refusal(agent: str, own_task_id: str, why: str) -> Refused:
    return Refused("not_yours", f"{why}: this is the agent socket of {agent}'s run on {own_task_id}.")


def require_own_branch(branch: str, named: str) -> None:
    """Refuses a branch other than the run's."""
    if named not in ("", branch):
        raise Refused("not_yours", f"This run works on {branch}, not on {_quote(named)}.")


def require_tip(name: str, tip: str, branch: str) -> str:
    """The commit to submit: the tip of the branch under any of its names; other commits are refused."""
    if not tip:
        raise Refused("nothing_committed", f"There is no commit on {branch}. Commit the work first.")
    if not is_tip_by_name(name, branch) and not (is_commit_id(name) and tip.startswith(name.lower())):
        raise Refused(
            "unknown_commit",
            f"Only the tip of {branch} can be submitted. It is {tip}, not {_quote(name)}. Use --commit HEAD.",
        )
    return tip


def is_tip_by_name(name: str, branch: str) -> bool:
    """True for a name of the tip of the run's branch."""
    return name in ("", "HEAD", "@", branch, f"refs/heads/{branch}")


def is_commit_id(name: str) -> bool:
    """True for a full or abbreviated commit id, the only name that means the same everywhere."""
    return bool(_COMMIT.fullmatch(name))


def require_commit_id(name: str) -> None:
    """Refuses a reviewer's name for a commit that may mean another one outside its sandbox."""
    if not is_commit_id(name):
        raise Refused("unknown_commit", "Name the commit by its id, as `remand review list` shows it.")


def require_outside_agent(command: str, *, is_confined: bool) -> None:
    """Refuses the user's own commands inside an agent's environment."""
    if is_confined:
        raise Refused("user_only", _USER_COMMANDS[command])


def _quote(text: str) -> str:
    """An agent's text, shortened to one line."""
    return shorten(flatten(text, "�"), MAX_QUOTED)
