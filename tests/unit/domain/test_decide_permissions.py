"""Holds the table of who may do what."""

import pytest

from remand.domain import commands as c
from remand.domain.access.team import Actor, Role, Team
from remand.domain.decide import REQUESTS, decide, require_permission
from remand.domain.events.reviews import Finding
from remand.domain.refusals import Refused
from remand.domain.task import Status
from remand.testing.builders import H1, SHA, T1, T2, a_lockout, a_submission, a_task, actor
from tests.support.builders import THE_USER, a_verdict, command

U, D, R, A, X = "user", "director", "reviewer", "agent", "stranger"
ACTORS = {
    U: [THE_USER],
    D: [actor("Dir", Role.DIRECTOR)],
    R: [actor("Lead", Role.LEAD), actor("Tess", Role.TESTER)],
    A: [actor("Alice")],
    X: [Actor(name="Eve")],
}
EVERYBODY = {U, D, R, A, X}
USERS_ALONE = (
    c.Unlock,
    c.OverrideGate,
    c.AnswerEscalation,
    c.AcknowledgeEscalation,
    c.DismissObjections,
)
FINDINGS = (Finding(text="It leaks"),)

TABLE: dict[type[c.Command], tuple[c.Command, set[str]]] = {
    type(ask): (ask, set(who))
    for ask, who in (
        (c.AddTask(title="a"), EVERYBODY),
        (c.EditTask(task_id=T1), {U, D}),
        (c.CancelTask(task_id=T1), {U, D}),
        (c.ReopenTask(task_id=T1), {U, D}),
        (c.DeferTask(task_id=T1, waits_for=(T2,)), {U, D}),
        (c.InitiateHandoff(task_id=T1, target="Alice"), {U, D, R}),
        (c.ApproveReview(task_id=T1, commit="HEAD"), {U, R}),
        (c.RejectReview(task_id=T1, commit="HEAD", findings=FINDINGS), {U, R}),
        (c.AnswerRejection(handoff_id=H1, decision="ACCEPT"), {U, D}),
        (c.RequestReview(task_id=T1, reviewer="Lead"), {U, R}),
        (c.RetractReview(task_id=T1, reason="x"), {U, R}),
        (c.RetractAnswer(task_id=T1), {U, D, R}),
        (c.ReassignTask(task_id=T1, target="Alice"), {U, D, R}),
        (c.AnswerEscalation(task_id=T1, option="fix"), {U}),
        (c.AcknowledgeEscalation(task_id=T1), {U}),
        (c.LockOut(task_id=T1, agent="Alice", reason="x"), {U, R}),
        (c.Unlock(task_id=T1, agent="Alice", reason="x"), {U}),
        (c.SettleFinding(task_id=T1, finding="f", is_accepted=True), {U, R}),
        (c.OverrideGate(task_id=T1, gate="tests", reason="x"), {U}),
        (c.DismissObjections(task_id=T1, signer="k", reason="x"), {U}),
    )
}
BY_CLAIM = {
    c.ClaimTask,
    c.FetchFeedback,
    c.EscalateTask,
    c.Heartbeat,
    c.ReleaseTask,
    c.ContinueTask,
    c.WaitTask,
    c.FailTask,
    c.SubmitTask,
    c.AcceptHandoff,
    c.CompleteHandoff,
    c.RejectHandoff,
    c.AppealRejection,
}
"""Open to whoever holds the claim or is the handoff's target; `decide_lease` and `decide_handoff` hold that.

Of an escalation `decide_escalations` does: leaders may ask for one as well.
"""
CASES = [
    pytest.param(ask, who, role in allowed, id=f"{kind.__name__}-{who.name}")
    for kind, (ask, allowed) in TABLE.items()
    for role, actors in ACTORS.items()
    for who in actors
]
OF_ITS_OWN = [
    c.RecordVerdict(task_id=T1, agent="Alice", verdict=a_verdict()),
    c.GiveOpinion(handoff_id=H1, opinion="x"),
    c.CountIdleStop(task_id=T1, handoff_id=H1),
    c.RepeatEscalation(task_id=T1),
    c.NoteDelivery(task_id=T1, escalation_id="E-1", channel="mail"),
    c.NoteReview(task_id=T1, reviewer="Lead", source="forge:1", why="x"),
    c.NoteMerge(task_id=T1, by="Lead", commit=SHA, why="x", source="forge:1"),
    c.ExpireLease(task_id=T1),
    c.WakeTask(task_id=T1),
    c.SettleTask(task_id=T1),
]


def permission(ask: c.Command, who: Actor) -> str:
    try:
        require_permission(type(ask), who)
    except Refused as refusal:
        return refusal.code
    return ""


def confined(who: Actor) -> Actor:
    return Actor(name=who.name, roles=who.roles, skills=who.skills, confined=True)


@pytest.mark.parametrize(("ask", "who", "may"), CASES)
def test_the_table_says_who_may_do_what(ask: c.Command, who: Actor, may: bool) -> None:
    code = permission(ask, who)

    assert (code == "") == may
    if not may:
        assert code == ("user_only" if isinstance(ask, USERS_ALONE) else "not_authorised")


@pytest.mark.parametrize(("ask", "who", "may"), CASES)
def test_nobody_is_the_user_inside_an_agents_place(ask: c.Command, who: Actor, may: bool) -> None:
    is_open_to_all = isinstance(ask, c.AddTask)

    code = permission(ask, confined(who))

    assert (code == "") == (may and (Role.USER not in who.roles or is_open_to_all))
    if may and code:
        assert code == "user_only"


def test_a_confined_user_keeps_its_other_roles() -> None:
    director = Actor(name="Dir", roles=frozenset({Role.USER, Role.DIRECTOR}), confined=True)

    assert permission(c.CancelTask(task_id=T1), director) == ""
    assert permission(c.Unlock(task_id=T1, agent="Alice", reason="x"), director) == "user_only"


def test_the_table_has_every_command_that_an_interface_takes() -> None:
    assert set(REQUESTS) == set(TABLE) | BY_CLAIM


@pytest.mark.parametrize("ask", OF_ITS_OWN, ids=lambda ask: type(ask).__name__)
@pytest.mark.parametrize(
    "who", [who for actors in ACTORS.values() for who in actors], ids=lambda who: who.name
)
def test_what_happens_by_itself_nobody_can_ask_for(ask: c.Command, who: Actor) -> None:
    assert permission(ask, who) == "not_authorised"
    assert type(ask) not in REQUESTS


@pytest.mark.parametrize(("ask", "who", "may"), CASES)
def test_permission_is_asked_before_anything_is_told(ask: c.Command, who: Actor, may: bool) -> None:
    task = a_task(status=Status.PROVISIONAL, submission=a_submission("Bob"), lockouts=(a_lockout(),))

    for known in (task, None):
        answer = decide(known, command(ask, who, commit=SHA))
        is_forbidden = isinstance(answer, Refused) and answer.code in ("not_authorised", "user_only")
        assert is_forbidden == (not may)


@pytest.mark.parametrize("name", ["Alice", "user"])
def test_without_a_team_only_user_reviews_and_directs(name: str) -> None:
    who = Team().actor(name)

    for ask, _ in TABLE.values():
        assert (permission(ask, who) == "") == (name == "user" or isinstance(ask, c.AddTask))


def test_only_a_handoffs_target_answers_it_whatever_else_one_may() -> None:
    for who in (THE_USER, actor("Lead", Role.LEAD)):
        answer = decide(a_task(), command(c.AcceptHandoff(handoff_id=H1, agent=who.name), who))
        assert isinstance(answer, Refused)
