"""Which tasks, decisions, commits and forge numbers a rejection names. Ids are read whole, never cut at a hyphen."""

from __future__ import annotations

import re
from typing import Any

from remand.domain.rejection import TaskRejection
from remand.domain.validation.text import plain

_NAME = re.compile(
    r"(?<![\w./#-])(?:"
    r"(?:task:|decision:|handoff:)?[TDH]-(?=[A-Z0-9]|[a-z]*[0-9])[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
    r"|(?:[A-Za-z][\w.-]{0,60}/[A-Za-z][\w.-]{0,60})?#[0-9]{1,12}"
    r"|[0-9a-f]{40}(?:[0-9a-f]{24})?|(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,16}"
    r")(?![\w#])",
    re.ASCII,
)
_TRACKER_KEY = re.compile(
    r"(?<![\w./#-])(?!(?:UTF|SHA|ISO|RFC|HTTP|CVE|TLS|AES|RSA|USB|GPT)-)(?:[A-Z]-[0-9]{2}|[A-Z][A-Z0-9]{1,9}-[0-9])[0-9]{0,6}[a-z]?(?![\w-])",
    re.ASCII,
)
"""As other trackers write them: `NET-2207`."""
_WAITED_FOR = re.compile(r"(?:task:|decision:)?[TD]-|[^#]*#[0-9]")


def names_in(text: str) -> tuple[str, ...]:
    """The ids a text names, in order, each once."""
    return tuple(dict.fromkeys(_NAME.findall(text)))


def tracker_keys_in(text: str) -> tuple[str, ...]:
    """The ids of other trackers that a text names."""
    return tuple(dict.fromkeys(_TRACKER_KEY.findall(text)))


def mentions(rejection: TaskRejection) -> tuple[str, ...]:
    """The ids that any field of the record names."""
    return names_in("\n".join(plain(value) for value in _fields(rejection)))


def dependency_names(rejection: TaskRejection) -> tuple[str, ...]:
    """The tasks and decisions the record says it waits for; failing those, the keys of another tracker."""
    factor = _waited_for(plain(rejection.blocking_factor))
    return factor or _waited_for(f"{plain(rejection.reason_summary)}\n{plain(rejection.reason_detail)}")


def bare(name: str) -> str:
    """A name without its kind: `task:T-8` and `T-8` are the same task."""
    return name.rpartition(":")[2]


def is_task_name(name: str) -> bool:
    """True for the name of a task, by id or by forge number."""
    return bare(name).startswith("T-") or "#" in name


def _waited_for(text: str) -> tuple[str, ...]:
    own = tuple(name for name in names_in(text) if _WAITED_FOR.match(name))
    return own or tracker_keys_in(text)


def _fields(rejection: TaskRejection) -> tuple[Any, ...]:
    return (
        rejection.reason_summary,
        rejection.reason_detail,
        rejection.what_attempted,
        rejection.blocking_factor,
        rejection.evidence,
        rejection.suggested_alternative,
        rejection.alternative_tasks,
        rejection.task_original_scope,
    )
