"""Remand makes "no" count in a team of AI coding agents."""

from remand import loader, startup
from remand.startup import TYPE_CHECKING

loader.install()
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
    name: module
    for module, names in {
        "remand.domain.reasons": "DecisionType RejectionReason",
        "remand.interfaces.library.handoffs": "DirectorRejectionHandler HandoffManager",
        "remand.domain.graph": "EdgeType NodeType ThoughtGraph log_rejection_to_got",
        "remand.domain.validation.assessment": "Issue",
        "remand.interfaces.library.projects": "ProjectManager",
        "remand.domain.refusals": "Refused",
        "remand.domain.rejection": "RejectionDecision TaskRejection",
        "remand.domain.validation.validator": "RejectionValidator",
        "remand.app.analysis.rejection_analysis": "analyze_rejection_patterns",
    }.items()
    for name in names.split()
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
