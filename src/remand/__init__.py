"""Remand: how a team of AI coding agents says no, and how no is respected."""

from remand import startup
from remand.startup import TYPE_CHECKING

startup.install()

if TYPE_CHECKING:
    from remand.app.analysis.rejection_analysis import analyze_rejection_patterns
    from remand.domain.graph import EdgeType, NodeType, ThoughtGraph, log_rejection_to_got
    from remand.domain.reasons import DecisionType, RejectionReason
    from remand.domain.refusals import Refused
    from remand.domain.rejection import RejectionDecision, TaskRejection
    from remand.domain.validation.assessment import Issue
    from remand.domain.validation.validator import RejectionValidator
    from remand.interfaces.library.handoffs import DirectorRejectionHandler, HandoffManager
    from remand.interfaces.library.projects import ProjectManager

__all__ = [
    "DecisionType",
    "DirectorRejectionHandler",
    "EdgeType",
    "HandoffManager",
    "Issue",
    "NodeType",
    "ProjectManager",
    "Refused",
    "RejectionDecision",
    "RejectionReason",
    "RejectionValidator",
    "TaskRejection",
    "ThoughtGraph",
    "analyze_rejection_patterns",
    "log_rejection_to_got",
]

_HOMES = {
    "DecisionType": "remand.domain.reasons",
    "DirectorRejectionHandler": "remand.interfaces.library.handoffs",
    "EdgeType": "remand.domain.graph",
    "HandoffManager": "remand.interfaces.library.handoffs",
    "Issue": "remand.domain.validation.assessment",
    "NodeType": "remand.domain.graph",
    "ProjectManager": "remand.interfaces.library.projects",
    "Refused": "remand.domain.refusals",
    "RejectionDecision": "remand.domain.rejection",
    "RejectionReason": "remand.domain.reasons",
    "RejectionValidator": "remand.domain.validation.validator",
    "TaskRejection": "remand.domain.rejection",
    "ThoughtGraph": "remand.domain.graph",
    "analyze_rejection_patterns": "remand.app.analysis.rejection_analysis",
    "log_rejection_to_got": "remand.domain.graph",
}
"""Where each name lives: a hook that starts in milliseconds loads none of them."""


def __getattr__(name: str) -> object:
    """Loads a name when it is first asked for."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'remand' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
