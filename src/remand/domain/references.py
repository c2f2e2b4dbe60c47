"""The form of a request and the names in it: refuses what cannot be written down, and names that nothing has."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TypeVar

from remand.domain.refusals import Refused

T = TypeVar("T")
_MAX_QUESTION = 40
_MAX_OPTION = 80
MAX_REQUEST = 4 << 20
_KEY = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_MAX_EVENT_NAME = 80


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


def unencodable_refusal(error: Exception) -> Refused:
    """The refusal of a command that JSON cannot hold."""
    if isinstance(error, UnicodeEncodeError):
        return Refused("bad_value", "The command holds characters that are no text (half a pair).")
    return Refused("bad_value", f"The command contains something that is not JSON: {error}.")


def require_request_form(rejection: object, size: int, key: str) -> None:
    """Refuses a rejection that is no record, a command of too many bytes, and a key that is none."""
    if not isinstance(rejection, dict):
        raise Refused("bad_value", "A rejection is a record with named fields.")
    if size > MAX_REQUEST:
        raise Refused("bad_value", f"The command has {size} bytes; at most {MAX_REQUEST} are allowed.")
    if key and not _KEY.fullmatch(key):
        raise Refused(
            "bad_value", "An idempotency key has 1 to 128 letters, digits or . _ : / + = - characters."
        )


def oversized_event_refusal(why: Exception) -> Refused:
    """The refusal of a command whose event is no valid line of the log."""
    return Refused("bad_value", f"That is too much for one event: it {why}.")


def reused_key_refusal(*, is_task_gone: bool) -> Refused:
    """The refusal of an idempotency key that was used for another command, or for a task that is not there any more."""
    what = "belongs to a task that no longer exists" if is_task_gone else "was used for another command"
    return Refused("key_reused", f"This idempotency key {what}.")


def require_text(what: str, value: object) -> str:
    """A name that a program gave; refuses what is no text, or an empty one."""
    if not isinstance(value, str) or not value:
        raise Refused("bad_value", f"Give the {what} as a non-empty text.")
    return value


def unloggable_event_refusal(event: str) -> Refused:
    """The refusal of an event that a program wants logged and that the ledger does not take in that form."""
    why = (
        "handoff.reject and handoff.reject.invalid with a rejection, handoff.reject.response with a decision"
    )
    return Refused(
        "bad_value", f"The ledger cannot log {event[:_MAX_EVENT_NAME]} this way. It accepts {why}."
    )
