"""What the page of agents and reviewers makes of the figures."""

from remand.app.analysis.rework import ReviewTally, Rework
from remand.app.analysis.statistics import wilson_share
from remand.app.analysis.work_report import RunCost, WorkReport
from remand.app.history.rejections import LockoutRow
from remand.domain.access.team import Member, Role, Team
from remand.interfaces.http.pages.agents import TeamFigures, member_records


def _tally(name: str, reviewed: int, rejected: int, retracted: int) -> ReviewTally:
    return ReviewTally(
        name=name,
        reviewed=reviewed,
        rejected=rejected,
        retracted=retracted,
        rate=wilson_share(rejected, reviewed),
    )


def _figures(
    costs: tuple[RunCost, ...], reviewers: tuple[ReviewTally, ...], lockouts: tuple[LockoutRow, ...]
) -> TeamFigures:
    rework = Rework(
        since="",
        reviewed_tasks=0,
        done_tasks=0,
        reworked_tasks=0,
        rework_rate=wilson_share(0, 0),
        cycles={},
        mean_cycles=0.0,
        rejections=0,
        retracted=0,
        false_rejection_rate=wilson_share(0, 0),
        by_agent=(),
        by_reviewer=reviewers,
        time_in_status=(),
    )
    report = WorkReport(
        since="", statuses={}, noes=(), questions=(), agents=costs, tasks=(), total=RunCost(name="")
    )
    return TeamFigures(report, rework, (), lockouts, (), ())


def test_instances_count_for_their_member_and_early_signs_are_said() -> None:
    team = Team(
        members=(
            Member(name="Ada", roles=(Role.AGENT,)),
            Member(name="Lea", roles=(Role.LEAD,)),
        )
    )
    lockout = LockoutRow(task_id="T-1", agent="Ada", reviewer="Lea", reason="", since="", label="T-1")
    costs = (RunCost(name="Ada/2", runs=4, faults=4, cost=1.0), RunCost(name="Ada", runs=2, cost=0.5))

    ada, lea, other = member_records(
        team, _figures(costs, (_tally("Lea", 6, 1, 2), _tally("Guest", 1, 1, 0)), (lockout,) * 3)
    )

    assert ada.bill is not None
    assert (ada.name, ada.bill.runs, ada.bill.cost, ada.cost_width) == ("Ada", 6, 1.5, 100.0)
    assert ada.warnings == ("4 of 6 runs of Ada failed.", "Ada is locked out of 3 tasks.")
    assert lea.warnings == ("2 of 3 rejections by Lea were retracted.",)
    assert (other.name, other.is_on_team, other.warnings) == ("Guest", False, ())
