"""Missing dependency: named, and another task than this one."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.mentions import bare
from remand.domain.validation.reading import Reading


def unnamed(reading: Reading) -> Issue | None:
    """No task or decision named."""
    return None if reading.dependencies else issue("dependency_unnamed")


def is_itself(reading: Reading) -> Issue | None:
    """The task waits for itself."""
    return issue("dependency_is_itself", name=bare(reading.task_id)) if reading.is_self_dependent else None


RULES = (unnamed, is_itself)
