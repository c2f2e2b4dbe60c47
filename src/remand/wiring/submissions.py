"""Builds what shows a submission's change to its reviewer."""

from __future__ import annotations

from remand.adapters.git import commits
from remand.app.scheduler.submitted_changes import SubmittedChanges
from remand.wiring.open_ledger import OpenLedger


def make_submitted_changes(opened: OpenLedger, longest: int = commits.LONGEST) -> SubmittedChanges:
    """What submissions change, each shown in so many characters at most."""
    patches = commits.GitPatches(opened.place)
    return SubmittedChanges(opened.ledger, patches, lambda: opened.settings.rules().base, longest)
