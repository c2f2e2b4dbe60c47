"""Names that must stand for something: a task, handoff, commit, question or option that is not there is refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from remand.domain.refusals import Refused

T = TypeVar("T")
_MAX_QUESTION = 40
_MAX_OPTION = 80


def require_task(found: T | None, name: str) -> T:
    """What a task's name stands for; refuses a name that no task has."""
    if found is None:
        raise unknown_task_refusal(name)
    return found


def unknown_task_refusal(name: str) -> Refused:
    """The refusal of a name that no task has."""
    return Refused("unknown_task", f"There is no task {name}.")


def require_handoff(found: T | None, name: str) -> T:
    """What a handoff's id stands for; refuses an id that no handoff has."""
    if found is None:
        raise unknown_handoff_refusal(name)
    return found


def unknown_handoff_refusal(name: str) -> Refused:
    """The refusal of an id that no handoff has."""
    return Refused("unknown_handoff", f"There is no handoff {name}.")


def require_commit(found: T | None, name: str) -> T:
    """What a commit's name stands for; refuses a name that the repository does not know."""
    if found is None:
        raise unknown_commit_refusal(name)
    return found


def unknown_commit_refusal(name: str) -> Refused:
    """The refusal of a name that the repository knows no commit by."""
    return Refused("unknown_commit", f"The repository has no commit {name!r}.")


def require_question(found: T | None, name: str) -> T:
    """What a question's id stands for; refuses an id that no question has."""
    if found is None:
        raise Refused("nothing_to_answer", f"There is no question {name[:_MAX_QUESTION]}.")
    return found


def require_decision(found: T | None, handoff: str) -> T:
    """The recorded decision on a handoff's rejection; refuses where the ledger has none."""
    if found is None:
        raise Refused("unknown_rejection", f"The ledger has no decision on the rejection of {handoff}.")
    return found


def require_option(option: str, offered: Collection[str], more: str = "") -> None:
    """Refuses an option that a question does not offer; `more` ends the list of those it does."""
    if option not in offered:
        raise unknown_option_refusal(option, offered, more)


def unknown_option_refusal(option: str, offered: Collection[str], more: str = "") -> Refused:
    """The refusal of an option that a question does not offer."""
    return Refused(
        "bad_value", f"There is no option {option[:_MAX_OPTION]!r}; choose one of {', '.join(offered)}{more}."
    )


def option_at(offered: Sequence[T], number: int) -> T:
    """The option with a number, counted from 1; refuses a number that none has."""
    if not 1 <= number <= len(offered):
        raise Refused("bad_value", f"There is no option {number}; choose one from 1 to {len(offered)}.")
    return offered[number - 1]
