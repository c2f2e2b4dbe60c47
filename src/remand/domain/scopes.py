"""How far a reviewer's word reaches: a lead's and the user's everywhere, a tester's to what has to do with tests."""

from __future__ import annotations

from collections.abc import Iterable

from remand.domain.patterns import Pattern
from remand.domain.roles import Actor, Role

TESTS = (
    "tests/**",
    "test/**",
    "**/tests/**",
    "**/test/**",
    "**/__tests__/**",
    "**/test_*",
    "**/*_test.*",
    "**/*.test.*",
    "**/*.spec.*",
    "**/conftest.py",
)
"""What a tester reviews whose member names no paths."""


def scope(actor: Actor) -> tuple[str, ...]:
    """The patterns a reviewer's word is limited to; none: it reaches everywhere."""
    if actor.is_user:
        return ()
    if actor.paths:
        return actor.paths
    return TESTS if Role.TESTER in actor.roles and Role.LEAD not in actor.roles else ()


def outside(actor: Actor, paths: Iterable[str]) -> list[str]:
    """The paths that a reviewer's word does not reach."""
    patterns = [Pattern(text) for text in scope(actor)]
    if not patterns:
        return []
    return [path for path in paths if not any(pattern.matches(path) for pattern in patterns)]
