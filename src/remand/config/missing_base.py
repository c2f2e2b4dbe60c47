"""Messages for a clone that lacks the base branch, with the command that fetches it. Loaded only when it is missing."""

from __future__ import annotations

import shlex

from remand.config import NAME
from remand.domain.ids import is_branch


def missing_base_message(base: str, remotes: tuple[str, ...]) -> str:
    """What is said where a base has to be fetched, or where there is nowhere to fetch it from."""
    if not remotes:
        return (
            f"{NAME} names the base `{base}`, and there is no such branch. "
            "Make it again; nothing else stands in for it."
        )
    if not is_branch(base):
        return f"{NAME} names the base {base!r}, which no branch can be called. Name the base's branch."
    return (
        f"The base `{base}` is not in this clone, and nothing else stands in for it. "
        f"Fetch it: `{_fetch_command(base, remotes)}` (with actions/checkout: `fetch-depth: 0`)."
    )


def unknown_base_message(named: str, remotes: tuple[str, ...], *, is_there: bool) -> str:
    """What is said where only the checkout itself tells which branch is its base."""
    if not is_branch(named):
        return missing_base_message("main", remotes)
    note = f"git symbolic-ref refs/remotes/origin/HEAD {shlex.quote(f'refs/remotes/origin/{named}')}"
    steps = note if is_there else f"{_fetch_command(named, remotes)} && {note}"
    return (
        f"Which branch is the base is not known in this clone: it has neither main nor master, and a "
        f"checkout's own {NAME} does not say by which rules it is judged. "
        f"If the base is `{named}`, note that: `{steps}`."
    )


def _fetch_command(base: str, remotes: tuple[str, ...]) -> str:
    """The command that brings a base where it is looked for."""
    remote = "origin" if "origin" in remotes else remotes[0]
    return f"git fetch {shlex.quote(remote)} {shlex.quote(f'{base}:refs/remotes/origin/{base}')}"
