"""Holds that what reviewers said of each kind of integrity finding is counted."""

from remand.app.inbox.held_findings import KindReport, count_settlements
from remand.domain.events.work import FindingAccepted, FindingRefused, GateHeld
from remand.domain.gate.gate import GateFinding
from remand.domain.gate.verdict import INTEGRITY_GATE, GateStatus
from remand.testing.builders import H1, T1
from tests.support.builders import a_result, a_verdict, stamp_events


def test_each_kind_is_counted_once_a_finding_with_what_reviewers_said() -> None:
    findings = tuple(
        GateFinding(path="a.py", line=line, code=code, text="", severity="error")
        for line, code in enumerate(("test_deleted", "test_deleted", "test_skipped"))
    )
    result = a_result(
        INTEGRITY_GATE, status=GateStatus.HELD, findings=findings, suspicions=("one", "two", "three")
    )
    held = GateHeld(
        task_id=T1, handoff_id=H1, agent="Alice", verdict=a_verdict(result, status=GateStatus.HELD)
    )
    said = (
        FindingAccepted(task_id=T1, finding="one", reviewer="Lead"),
        FindingRefused(task_id=T1, finding="three", reviewer="Lead"),
    )

    reports = count_settlements(stamp_events(held, held, *said))

    assert reports == [
        KindReport(kind="test_deleted", found=2, accepted=1, refused=0, undone=1),
        KindReport(kind="test_skipped", found=1, accepted=0, refused=1, undone=0),
    ]
