"""Identifiers: their forms, how they are made, and how they are parsed from text and old logs."""

from __future__ import annotations

from functools import lru_cache

from remand.domain.instant import Instant
from remand.startup import lazy_pattern

_TASK = lazy_pattern(r"T-[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_STAMPED = lazy_pattern(r"\bT-[0-9]{8}-[0-9]{6}-[0-9a-f]{4,8}\b")
_STAMP = lazy_pattern(r"T-([0-9]{8})-([0-9]{6})-[0-9a-f]{4,8}$")
_HANDOFF = lazy_pattern(r"H-[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_END = lazy_pattern(r"(?:(?:task:)?(?:T-)?|(?:handoff:)?(?:H-)?)((?:[0-9]{1,6}-)?[0-9a-f]{4,8})")
_RUN = lazy_pattern(r"RUN-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
_ALIAS = lazy_pattern(r"#[0-9]{1,12}|[A-Za-z][A-Za-z0-9_./-]{0,60}#[0-9]{1,12}")
MAX_AGENT_NAME = 64
_AGENT = lazy_pattern(r"[\w@.+\- \[\]:/]+")
_COMMIT = lazy_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
MAX_BRANCH = 200
_NO_BRANCH = lazy_pattern(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|[\ud800-\udfff]")
_NODE = lazy_pattern(r"[^\x00-\x1f\x7f]{1,200}")


def make_id(prefix: str, now: Instant, random_hex: str) -> str:
    """Makes an id that sorts by its creation time in seconds: `T-20261115-090000-1a2b3c4d`."""
    return f"{prefix}-{make_session_name(now, random_hex)}"


def make_session_name(now: Instant, random_hex: str) -> str:
    """Names a session or a segment file: `20261115-090000-1a2b3c4d`."""
    return f"{_compact_second(now[:19])}-{random_hex}"


@lru_cache(maxsize=16)
def _compact_second(second: str) -> str:
    return second.replace("-", "").replace(":", "").replace("T", "-")


def parse_task_id(text: str) -> str | None:
    """The bare task id in `T-…` or `task:T-…`; otherwise None."""
    bare = text.removeprefix("task:")
    return bare if _TASK.fullmatch(bare) else None


def creation_time(text: str) -> str:
    """The second of an id's creation, as an instant's prefix: `2026-11-15T09:00:00`; empty if unknown."""
    match = _STAMP.search(text)
    if match is None:
        return ""
    day, time = match[1], match[2]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}"


def find_task_ids(text: str) -> tuple[str, ...]:
    """The distinct task ids in a text."""
    return tuple(dict.fromkeys(_STAMPED.findall(text)))


def parse_handoff_id(text: str) -> str | None:
    """The bare handoff id in `H-…` or `handoff:H-…`; otherwise None."""
    bare = text.removeprefix("handoff:")
    return bare if _HANDOFF.fullmatch(bare) else None


def parse_id_end(text: str) -> str:
    """The last characters of an id, by which people may name it; empty for a whole id and invalid text."""
    match = _END.fullmatch(text)
    return match[1] if match else ""


def may_be_task_id(text: str) -> bool:
    """True for what can only be a task's id or its end: `T-9a56`, `task:9a56`."""
    return text.startswith(("task:", "T-"))


def may_be_handoff_id(text: str) -> bool:
    """True for what can only be a handoff's id or its end: `H-9a56`, `handoff:9a56`."""
    return text.startswith(("handoff:", "H-"))


def parse_run_id(text: str) -> str | None:
    """The id of a run; otherwise None."""
    return text if _RUN.fullmatch(text) else None


def is_branch(text: str) -> bool:
    """True for a valid name of a task's branch: accepted by git and unambiguous."""
    is_short = len(text.encode("utf-8", "replace")) <= MAX_BRANCH
    return is_short and is_git_branch(text) and not text.startswith(("-", "refs/"))


def is_git_branch(text: str) -> bool:
    """True for a name that git accepts for a branch, of any length. `-x` is one."""
    if text in ("", "HEAD", "@") or _NO_BRANCH.search(text) or text.endswith("."):
        return False
    return all(part and part[0] != "." and not part.endswith(".lock") for part in text.split("/"))


def parse_node_id(text: str) -> str | None:
    """The graph's id for a text: tasks always have their prefix; None if invalid."""
    bare = parse_task_id(text)
    if bare is not None:
        return f"task:{bare}"
    return text if _NODE.fullmatch(text) else None


def task_node_id(task: str) -> str:
    """A task's id in the graph."""
    return f"task:{task}"


def is_alias(text: str) -> bool:
    """True for a forge number such as `#42` or `owner/name#42`."""
    return _ALIAS.fullmatch(text) is not None


def is_agent_name(text: str) -> bool:
    """True for a name that is safe in a log line or file name."""
    return len(text) <= MAX_AGENT_NAME and _is_agent_name(text)


@lru_cache(maxsize=1024)
def _is_agent_name(text: str) -> bool:
    return _AGENT.fullmatch(text) is not None and text.strip() == text


def is_commit(text: str) -> bool:
    """True for a full commit id."""
    return _COMMIT.fullmatch(text) is not None
