"""The form a command must have before it is decided: text that can be written down, of a size that can be kept."""

from __future__ import annotations

import re

from remand.domain.refusals import Refused

MAX_REQUEST = 4 << 20
_KEY = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_MAX_EVENT_NAME = 80


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
