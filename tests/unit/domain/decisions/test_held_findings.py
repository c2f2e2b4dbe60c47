"""Holds which findings wait for a person, who may settle each, and that the commands for it are whole."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.stores.sqlite_views import LedgerView
from remand.domain import commands as c
from remand.domain.access.team import Actor, Role, Team
from remand.domain.decide import decide
from remand.domain.decisions.escalations import escalation_options
from remand.domain.decisions.findings import (
    REJECTED_BEFORE,
    acceptable_findings,
    hold_for_changed_rules,
    hold_for_rejected_change,
    hold_notice,
    hold_summary,
    join_names,
    open_findings,
    possible_settlers,
    settle_command,
    settle_lines,
)
from remand.domain.events.reviews import EscalationAnswered
from remand.domain.events.work import FindingAccepted
from remand.domain.gate.gate import GateFinding
from remand.domain.gate.state import GateState, update_gates
from remand.domain.gate.verdict import INTEGRITY_GATE, GateStatus
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import ALICE, BOB, H1, H2, TREE, a_claim, a_task, actor
from tests.support.builders import LEAD, THE_USER, a_result, an_escalation, command, member
from tests.unit.domain.done_claims import Story, held, names, passed, recording, settling

TESTER = actor("Tess", Role.TESTER)
SAME = "same-0123456789ab"
TEAM = Team(
    (member("Alice"), member("Lead", Role.LEAD), member("Tess", Role.TESTER), member("owner", Role.USER))
)


def gate_state(**fields: Any) -> GateState:
    standard = {"status": GateStatus.HELD, "handoff_id": H1, "held": ("f1", "f2"), "tree": TREE}
    return update_gates(GateState(), **{**standard, "questioned": ("Alice",), **fields})


def held_task(status: Status = Status.CLAIMED, claim: str = H1, **fields: Any) -> Task:
    more = {name: fields.pop(name) for name in ("aliases", "escalation") if name in fields}
    under = a_claim("Alice", claim) if status == Status.CLAIMED else None
    return a_task(status=status, claim=under, gates=gate_state(**fields), **more)


ASKED = an_escalation(kind=REJECTED_BEFORE)
TASKS = [
    pytest.param(held_task(), ("f1", "f2"), id="held"),
    pytest.param(held_task(held=("f1", "f2", "f1")), ("f1", "f2"), id="found twice"),
    pytest.param(held_task(accepted=("f1",)), ("f2",), id="one accepted"),
    pytest.param(held_task(accepted=("f1", "f2")), (), id="all accepted"),
    pytest.param(held_task(refused=(("f1", "no"),)), ("f2",), id="one refused"),
    pytest.param(held_task(overridden=((INTEGRITY_GATE, TREE),)), (), id="let pass by the user"),
    pytest.param(
        held_task(overridden=((INTEGRITY_GATE, "other"),)), ("f1", "f2"), id="another tree let pass"
    ),
    pytest.param(held_task(overridden=(("tests", TREE),)), ("f1", "f2"), id="another gate let pass"),
    pytest.param(held_task(is_released=True), (), id="where nothing is enforced"),
    pytest.param(held_task(status=Status.CLAIMED, claim=H2), (), id="claimed anew"),
    pytest.param(held_task(status=Status.INCOMING), (), id="in the queue"),
    pytest.param(held_task(status=Status.CANCELLED), (), id="cancelled"),
    pytest.param(held_task(status=Status.PROVISIONAL), (), id="handed in"),
    pytest.param(update_task(held_task(), gates=gate_state(status=GateStatus.FAILED)), (), id="rejected"),
    pytest.param(update_task(held_task(), gates=GateState()), (), id="never measured"),
    pytest.param(
        held_task(Status.ESCALATED, held=("f1", SAME), escalation=ASKED), (SAME,), id="handed in again"
    ),
    pytest.param(
        held_task(Status.ESCALATED, held=(SAME,), escalation=ASKED, accepted=(SAME,)),
        (),
        id="handed in again, accepted",
    ),
    pytest.param(
        held_task(Status.ESCALATED, held=(SAME,), escalation=an_escalation(kind="asked")), (), id="asked else"
    ),
    pytest.param(held_task(Status.INCOMING, held=(SAME,), escalation=ASKED), (), id="answered"),
]


@pytest.mark.parametrize(("task", "expected"), TASKS)
def test_a_finding_is_open_as_long_as_it_keeps_the_work_of_a_claim_from_counting(
    task: Task, expected: tuple[str, ...]
) -> None:
    assert open_findings(task) == expected


@pytest.mark.parametrize(("task", "expected"), TASKS)
def test_the_list_of_tasks_says_the_same(task: Task, expected: tuple[str, ...], tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.tasks.put(task)
    view = LedgerView(str(tmp_path / "ledger.db"), store.connection)

    assert f'"held":[{",".join(f"{chr(34)}{name}{chr(34)}" for name in expected)}]' in view.tasks([])
    is_counted = task.status == Status.CLAIMED
    assert view.unseen_counts("").held == (len(expected) if is_counted else 0)
    store.close()


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (THE_USER, ("f1", "f2", SAME)),
        (LEAD, ("f1", "f2")),
        (TESTER, ("f2",)),
        (actor("Tess", Role.TESTER, paths=("src/**",)), ("f1",)),
        (actor("Both", Role.TESTER, Role.LEAD), ("f1", "f2")),
        (BOB, ()),
        (ALICE, ()),
        (actor("Alice", Role.LEAD, Role.AGENT), ()),
        (actor("Dora", Role.DIRECTOR), ()),
        (actor("user", Role.USER, confined=True), ()),
        (actor("Lead", Role.LEAD, confined=True), ("f1", "f2")),
    ],
)
def test_whoever_may_accept_a_finding_is_whoever_is_not_refused(
    who: Actor, expected: tuple[str, ...]
) -> None:
    places = (("f1", "src/a.py"), ("f2", "tests/test_a.py"), (SAME, ""))
    task = held_task(held=("f1", "f2", SAME), places=places)

    assert acceptable_findings(task, ("f1", "f2", SAME), who) == expected
    answers = {name: decide(task, command(settling(name), who)) for name in ("f1", "f2", SAME)}
    assert tuple(name for name, answer in answers.items() if not isinstance(answer, Refused)) == expected


def test_those_who_may_settle_it_are_named_and_its_author_is_not() -> None:
    task = held_task(places=(("f1", "src/a.py"), ("f2", "src/b.py")))

    assert possible_settlers(task, TEAM) == ("Lead", "owner")
    assert possible_settlers(task, Team()) == ("the user",)
    assert possible_settlers(task, Team((member("Alice"), member("Lead", Role.LEAD)))) == ("Lead", "the user")
    by_user = update_task(task, claim=a_claim("owner"), gates=update_gates(task.gates, questioned=("owner",)))
    assert possible_settlers(by_user, TEAM) == ("Lead",)


@pytest.mark.parametrize(
    ("task", "who", "expected"),
    [
        (held_task(aliases=("#1",)), THE_USER, "remand gate accept '#1' f1"),
        (held_task(aliases=("owner/name#42",)), None, "remand gate accept 'owner/name#42' f1"),
        (held_task(), THE_USER, f"remand gate accept {held_task().id} f1"),
        (held_task(aliases=("#1",)), LEAD, "remand gate accept '#1' f1 --reviewer Lead"),
        (
            held_task(aliases=("#1",)),
            actor("The Lead", Role.LEAD),
            "remand gate accept '#1' f1 --reviewer 'The Lead'",
        ),
    ],
)
def test_a_command_can_be_copied_into_a_shell(task: Task, who: Actor | None, expected: str) -> None:
    assert settle_command(task, "f1", who) == expected
    assert settle_command(task, "f1", who, is_accepted=False) == expected.replace("accept", "refuse")


@pytest.mark.parametrize(
    "name", ["$(rm -rf ~)", "a b", "x\nremand gate override", "'; ls #", "\u202ex\x1b[2J"]
)
def test_no_id_makes_two_commands_of_one(name: str) -> None:
    found = settle_command(held_task(aliases=("#1",)), name)

    assert "\n" not in found
    assert "\x1b" not in found
    assert shlex.split(found)[:4] == ["remand", "gate", "accept", "#1"]
    assert len(shlex.split(found)) == 5


def test_of_more_commands_than_there_is_room_for_the_rest_is_counted() -> None:
    ids = tuple(f"{number:012x}" for number in range(300))
    task = held_task(held=ids, aliases=("#1",))

    rows = settle_lines(task, THE_USER, ids, limit=1000).splitlines()

    assert rows[:-1] == [f"  remand gate accept '#1' {name}" for name in ids[: len(rows) - 1]]
    assert rows[-1] == f"  and {300 - len(rows) + 1} more: remand task show '#1'"
    assert len(rows) > 10
    assert len(settle_lines(task, THE_USER, ids[:50]).splitlines()) == 50


def test_an_agent_is_told_who_has_to_act_and_people_how() -> None:
    one, two = held_task(held=("f1",), aliases=("#1",)), held_task(aliases=("#1",))

    assert (
        hold_summary(one, Team())
        == "1 finding is held. The user has to settle it; you cannot do that yourself."
    )
    assert hold_summary(two, TEAM).startswith(
        "2 findings are held. Lead or owner has to settle each of them;"
    )
    assert "remand gate accept" not in hold_summary(two, TEAM)
    notice = hold_notice(two, TEAM).splitlines()
    assert notice[:3] == [
        "2 findings are held. Lead or owner accepts each of them with:",
        "  remand gate accept '#1' f1",
        "  remand gate accept '#1' f2",
    ]
    assert "--reviewer NAME" in notice[-1]
    assert "--reviewer NAME" not in hold_notice(one, Team())
    assert hold_notice(a_task(), TEAM) == hold_summary(a_task(), TEAM) == ""


def test_where_the_user_is_the_author_others_are_asked_and_where_there_are_none_the_way_out_is_said() -> None:
    task = replace(held_task(aliases=("#1",)), claim=a_claim("owner"))
    alone = Team((member("Alice"), member("owner", Role.USER)))

    assert "\n  remand gate accept '#1' f1 --reviewer Lead\n" in hold_notice(task, TEAM)
    assert hold_notice(task, alone).endswith("\n  remand gate override '#1' --gate integrity --reason TEXT")
    assert "Tell the user" in hold_summary(task, alone)


@pytest.mark.parametrize(
    ("names_", "text"),
    [((), "nobody"), (("A",), "A"), (("A", "B"), "A or B"), (("A", "B", "C"), "A, B or C")],
)
def test_names_are_written_as_a_choice(names_: tuple[str, ...], text: str) -> None:
    assert join_names(names_) == text


def message(task: Task, finding: str, who: Actor = LEAD, *, is_accepted: bool = True) -> str:
    answer = decide(task, command(settling(finding, is_accepted=is_accepted), who))
    assert isinstance(answer, Refused)
    assert answer.code == "nothing_held"
    return answer.message


def test_a_wrong_or_missing_id_is_answered_with_a_command_for_each_that_is_held() -> None:
    task = held_task(aliases=("#1",), places=(("f1", "src/a.py"), ("f2", "tests/test_a.py")))

    wrong = message(task, "f3")
    assert "no held finding 'f3'. 2 findings are held:" in wrong
    assert wrong.splitlines()[1:] == [
        f"  remand gate accept '#1' {name} --reviewer Lead" for name in ("f1", "f2")
    ]
    assert message(task, "", THE_USER).startswith(
        "Name the finding. 2 findings are held:\n  remand gate accept '#1' f1"
    )
    assert "  remand gate refuse '#1' f1\n" in message(task, "x", THE_USER, is_accepted=False)
    limited = message(task, "x", TESTER)
    assert limited.splitlines()[1:] == [
        "  remand gate accept '#1' f2 --reviewer Tess",
        "  For another reviewer: f1",
    ]
    assert message(a_task(), "x") == f"Task {a_task().id} has no held finding 'x'."


def test_changed_rules_are_held_for_those_who_review_the_configuration() -> None:
    story = Story()
    story.ask(recording(hold_for_changed_rules(passed(), "p0")))
    (name,) = open_findings(story.task)

    assert possible_settlers(story.task, TEAM) == ("Lead", "owner")
    assert names(story.ask(settling(name), LEAD)) == ["gate.accept", "gate.pass", "task.submit"]
    assert open_findings(story.task) == ()


def test_the_user_lets_a_rejected_change_pass_by_answering_the_question_about_it() -> None:
    story = Story()
    story.ask(recording(hold_for_rejected_change(held("f1"), SAME)))
    task = story.task
    assert (task.status, open_findings(task)) == (Status.ESCALATED, (SAME,))
    assert possible_settlers(task, TEAM) == ("owner",)
    assert escalation_options(task, [])[0].key == f"accept:{SAME}"

    ask = c.AnswerEscalation(task_id=task.id, option=f"accept:{SAME}", guidance="It was right after all.")
    accepted, answered = story.ask(ask, THE_USER)

    assert accepted == FindingAccepted(
        task_id=task.id, finding=SAME, reviewer="user", reason="It was right after all.", by_user=True
    )
    assert isinstance(answered, EscalationAnswered)
    assert open_findings(story.task) == ()
    assert story.task.status == Status.INCOMING


@pytest.mark.parametrize("option", ["accept:f1", "accept:nonsense", "accept", "refuse:f1"])
def test_that_question_is_answered_with_nothing_else_that_is_held(option: str) -> None:
    story = Story()
    story.ask(recording(hold_for_rejected_change(held("f1"), SAME)))

    answer = decide(story.task, command(c.AnswerEscalation(task_id=story.task.id, option=option)))

    assert isinstance(answer, Refused)
    assert answer.code == "bad_value"


def test_a_note_is_never_taken_for_what_an_id_is_about() -> None:
    serious = GateFinding(path="src/a.py", text="held [f1]")
    note = GateFinding(path="tests/test_a.py", text="a note", severity="note")
    result = a_result(INTEGRITY_GATE, GateStatus.HELD, suspicions=("f1", "f2"), findings=(serious, note))
    story = Story()
    story.ask(recording(replace(held(), gates=(result,))))

    assert result.held_findings == (("f1", serious), ("f2", GateFinding()))
    assert acceptable_findings(story.task, ("f1", "f2"), TESTER) == (), (
        "what has no place is outside of a tester's scope"
    )
