"""Agents and reviewers: each one's record, current work and lockouts, and early warnings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

from remand.app.analysis.rejection_analysis import RejectionRow, analyze, ledger_cases
from remand.app.analysis.rework import ReviewTally, Rework, read_rework
from remand.app.analysis.warnings import agent_warnings
from remand.app.analysis.work_report import (
    AGENT,
    GATE,
    RejectionEntry,
    RunCost,
    WorkReport,
    read_work_report,
)
from remand.app.board import ActiveWork
from remand.app.events.task_folds import without_garbage_collection
from remand.app.history.rejections import LockoutRow, active_lockouts
from remand.domain.access.team import Team, instance_member
from remand.domain.record import NamedTuple
from remand.interfaces.http.pages.charts import bar_width, chosen_period
from remand.interfaces.http.pages.page import PageQuery, WebPage
from remand.interfaces.http.problems import NOT_FOUND, HttpProblem
from remand.wiring.scheduler import make_watch

ACTIONS = ("unlock",)
MAX_ENTRIES = 50
"""The most rejections listed on a member's page."""
MAX_LOCKOUTS = 100
"""The most lockouts listed on the page of all agents."""
FEWEST_REVIEWS = 5
"""The fewest reviews for which a percentage is meaningful."""
Row = TypeVar("Row", ActiveWork, LockoutRow)
MANY_FALSE, MANY_FAULTS, MANY_LOCKOUTS = 0.3, 0.5, 3


class MemberRecord(NamedTuple):
    """The record of one member."""

    name: str
    roles: tuple[str, ...]
    skills: tuple[str, ...] = ()
    is_on_team: bool = True
    work: tuple[ActiveWork, ...] = ()
    """Its current work."""
    lockouts: tuple[LockoutRow, ...] = ()
    bill: RunCost | None = None
    cost_width: float = 0.0
    author: ReviewTally | None = None
    """The results of its work in review: standing rejections count against it, retracted ones do not."""
    reviewer: ReviewTally | None = None
    """The results of its reviews: a retracted rejection was a false one."""
    gate_rejections: int = 0
    refused: RejectionRow | None = None
    """The tasks that it rejected and the decisions on them."""
    warnings: tuple[str, ...] = ()


class AgentsView(NamedTuple):
    days: str
    agents: tuple[MemberRecord, ...]
    reviewers: tuple[MemberRecord, ...]
    lockouts: tuple[LockoutRow, ...]
    """The first lockouts."""
    lockout_count: int
    warnings: tuple[tuple[str, str], ...]
    """Each warning with the member it concerns."""
    total: RunCost
    titles: Mapping[str, str]
    """The titles of tasks by id."""


class MemberView(NamedTuple):
    days: str
    member: MemberRecord
    given: tuple[RejectionEntry, ...]
    """Rejections by the member."""
    received: tuple[RejectionEntry, ...]
    """Rejections of the member's work."""
    titles: Mapping[str, str]


class TeamFigures(NamedTuple):
    """Figures on all work since a given time."""

    report: WorkReport
    rework: Rework
    refusals: tuple[RejectionRow, ...]
    lockouts: tuple[LockoutRow, ...]
    at_work: tuple[ActiveWork, ...]
    invalid: tuple[tuple[str, str], ...]


def read_agents(query: PageQuery) -> AgentsView:
    """All members, and everyone else who has worked or reviewed."""
    days, since = chosen_period(query)
    figures = _read_figures(query, since)
    members = tuple(member_records(query.rules.team, figures))
    return AgentsView(
        days=days,
        agents=tuple(one for one in members if _is_agent(one)),
        reviewers=tuple(one for one in members if one.reviewer or {"lead", "tester"} & set(one.roles)),
        lockouts=figures.lockouts[:MAX_LOCKOUTS],
        lockout_count=len(figures.lockouts),
        warnings=tuple((one.name, text) for one in members for text in one.warnings),
        total=figures.report.total,
        titles=_titles(figures),
    )


def _titles(figures: TeamFigures) -> dict[str, str]:
    return {one.task_id: one.title for one in figures.report.tasks}


def read_member(query: PageQuery) -> MemberView:
    """One member with its rejections. Raises `HttpProblem` for an unknown name."""
    days, since = chosen_period(query)
    figures, name = _read_figures(query, since), query.address.names["member"]
    record = next((one for one in member_records(query.rules.team, figures) if one.name == name), None)
    if record is None:
        raise HttpProblem(NOT_FOUND, "not_found", "Nobody of this name has worked or reviewed here.")
    team = query.rules.team
    entries = [entry for entry in figures.report.noes[::-1] if entry.at >= since]
    rejections = [one for one in entries if one.kind != GATE and _member_name(team, one.by) == name]
    received = [one for one in entries if one.kind != AGENT and _member_name(team, one.of) == name]
    return MemberView(
        days, record, tuple(rejections[:MAX_ENTRIES]), tuple(received[:MAX_ENTRIES]), _titles(figures)
    )


def _read_figures(query: PageQuery, since: str) -> TeamFigures:
    at_work = make_watch(query.opened).board().at_work
    names = [one.name for one in query.rules.team.members]
    with without_garbage_collection(), query.opened.store.read() as view:
        return TeamFigures(
            report=read_work_report(view, since),
            rework=read_rework(view, query.now, since),
            refusals=tuple(analyze(ledger_cases(view, since), since).agents),
            lockouts=tuple(active_lockouts(view)),
            at_work=at_work,
            invalid=tuple((name, one.message) for name in names for one in agent_warnings(view, name)),
        )


def _member_name(team: Team, name: str) -> str:
    """The member to which a recorded name belongs (an instance's name or another spelling); otherwise the name itself."""
    known = {one.name for one in team.members}
    found = team.actor(name).name
    return found if found in known else instance_member(name) or name


def member_records(team: Team, figures: TeamFigures) -> Iterable[MemberRecord]:
    """Everybody's record; team members first, in the order of the configuration."""
    on_team = {one.name: one for one in team.members}
    bills = _bills(team, figures.report.agents)
    authors = {_member_name(team, one.name): one for one in figures.rework.by_agent if one.name}
    reviewers = {_member_name(team, one.name): one for one in figures.rework.by_reviewer if one.name}
    refusals = {_member_name(team, one.key): one for one in figures.refusals}
    by_gates: Counter[str] = Counter()
    for name, number in Counter(one.of for one in figures.report.noes if one.kind == GATE).items():
        by_gates[_member_name(team, name)] += number
    names = dict.fromkeys([*on_team, *sorted({*bills, *authors, *reviewers, *refusals, *by_gates})])
    lockouts, work = _by_member(team, figures.lockouts), _by_member(team, figures.at_work)
    most = max((bill.cost or bill.seconds for bill in bills.values()), default=0.0)
    for name in filter(None, names):
        member, bill = on_team.get(name), bills.get(name)
        record = MemberRecord(
            name=name,
            roles=tuple(sorted(role.value for role in team.actor(name).roles)) if member else (),
            skills=tuple(member.skills) if member else (),
            is_on_team=member is not None,
            work=tuple(work[name]),
            lockouts=tuple(lockouts[name]),
            bill=bill,
            cost_width=bar_width(bill.cost or bill.seconds, most) if bill else 0.0,
            author=authors.get(name),
            reviewer=reviewers.get(name),
            gate_rejections=by_gates[name],
            refused=refusals.get(name),
        )
        yield record._replace(
            warnings=(*_signs(record), *(text for who, text in figures.invalid if who == name))
        )


def _by_member(team: Team, rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    """The rows of each member under any of its names."""
    names: dict[str, str] = {}
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        name = names.get(row.agent) or names.setdefault(row.agent, _member_name(team, row.agent))
        found[name].append(row)
    return found


def _bills(team: Team, costs: Iterable[RunCost]) -> dict[str, RunCost]:
    """The costs of each member's runs, including all its instances."""
    found: dict[str, RunCost] = {}
    for cost in costs:
        name = _member_name(team, cost.name)
        known = found.get(name, RunCost(name=name))
        found[name] = RunCost(
            name=name,
            runs=known.runs + cost.runs,
            faults=known.faults + cost.faults,
            seconds=known.seconds + cost.seconds,
            turns=known.turns + cost.turns,
            tokens=known.tokens + cost.tokens,
            cost=known.cost + cost.cost,
        )
    return found


def _is_agent(record: MemberRecord) -> bool:
    return "agent" in record.roles or bool(
        record.bill or record.author or record.refused or record.gate_rejections
    )


def _signs(record: MemberRecord) -> Iterable[str]:
    """Early warnings about a member."""
    if record.reviewer and record.reviewer.reviewed >= FEWEST_REVIEWS:
        count = record.reviewer.rejected + record.reviewer.retracted
        if count and record.reviewer.retracted / count >= MANY_FALSE:
            yield f"{record.reviewer.retracted} of {count} rejections by {record.name} were retracted."
    if (
        record.bill
        and record.bill.runs >= FEWEST_REVIEWS
        and record.bill.faults / record.bill.runs >= MANY_FAULTS
    ):
        yield f"{record.bill.faults} of {record.bill.runs} runs of {record.name} failed."
    if len(record.lockouts) >= MANY_LOCKOUTS:
        yield f"{record.name} is locked out of {len(record.lockouts)} tasks."


PAGES = (
    WebPage(
        "/agents",
        "agents.html",
        "Agents",
        "analyze rework",
        read_agents,
        nav="Agents",
        key="a",
        is_long=True,
        is_live=False,
    ),
    WebPage(
        "/agents/{member:str}",
        "agent.html",
        "Member",
        "analyze rework",
        read_member,
        is_long=True,
        is_live=False,
    ),
)
