"""Who may call what of a server: every command by every role, and whose a token is."""

from __future__ import annotations

import pytest

from remand.domain.access.agent_calls import PERMITTED_COMMANDS
from remand.domain.access.team import NAMELESS_AGENT, Actor, Member, Role, Team
from remand.domain.access.tokens import (
    CALLS,
    Caller,
    Token,
    TokenRole,
    find_token,
    fold_tokens,
    own_session_claims,
    parse_token_role,
    require_call,
    require_held_task,
    token_caller,
    token_hash,
    token_text,
)
from remand.domain.commands import (
    AssignTask,
    CheckStaff,
    Command,
    CountIdleStop,
    NoteGatesMeasured,
    StartRun,
    Unlock,
)
from remand.domain.decisions.tokens import NewToken, create_token, require_host_command, revoke_token
from remand.domain.events.event import Event, KnownBy, Meta
from remand.domain.events.log import TokenCreated, TokenRevoked
from remand.domain.instant import add_seconds
from remand.domain.refusals import Refused
from remand.testing.builders import ALICE, LATER, MUCH_LATER, NOW, a_claim, a_task, actor
from tests.support.builders import THE_USER

TEAM = Team(
    (
        Member(name="Fenster"),
        Member(name="Lead", roles=(Role.LEAD,), aliases=("Boss",)),
        Member(name="Tester", roles=(Role.TESTER, Role.AGENT)),
        Member(name="Dir", roles=(Role.DIRECTOR,)),
        Member(name="owner", roles=(Role.USER, Role.LEAD)),
    )
)
ID, SECRET = "TK-20261115-090000-00000001", "s" * 43
TEXT = token_text(ID, SECRET)


def caller(role: TokenRole, member: str = "Fenster", *starts: str) -> Caller:
    return Caller(member=member, role=role, starts=starts, token_id=ID)


def a_token(**fields: object) -> Token:
    usual = {
        "id": ID,
        "sha256": token_hash(TEXT),
        "member": "Fenster",
        "role": TokenRole.AGENT,
        "created_at": NOW,
        "created_by": "user",
        "expires_at": LATER,
    }
    return Token(**(usual | fields))  # type: ignore[arg-type]


def new_token(**fields: object) -> NewToken:
    usual = {"token_id": ID, "sha256": token_hash(TEXT), "member": "Fenster", "expires_at": LATER}
    return NewToken(**(usual | fields))  # type: ignore[arg-type]


def create(by: Actor = THE_USER, team: Team = TEAM, **fields: object) -> TokenCreated:
    tokens = {ID: a_token()} if fields.pop("is_taken", False) else {}
    return create_token(new_token(**fields), by, team=team, tokens=tokens, now=NOW)


def refused_code(*given: object, **fields: object) -> str:
    with pytest.raises(Refused) as found:
        create(*given, **fields)  # type: ignore[arg-type]
    return found.value.code


def test_an_agent_may_call_what_its_socket_takes_and_upload_commits_and_have_its_hook_answered() -> None:
    assert {name for name, roles in CALLS.items() if TokenRole.AGENT in roles} == {
        *PERMITTED_COMMANDS,
        *("commit upload", "hook relay"),
    }


@pytest.mark.parametrize(
    "command",
    [
        AssignTask(agent="Bob", run_id="RUN-1"),
        StartRun(task_id="T-1", agent="Bob", run_id="RUN-1"),
        CountIdleStop(task_id="T-1", handoff_id="H-1"),
        *(AssignTask(agent=name, run_id="RUN-1") for name in ("", "laptop")),
        StartRun(task_id="T-1", agent="", run_id="RUN-1"),
        NoteGatesMeasured(task_id="T-1"),
        NoteGatesMeasured(task_id="T-1", gates=("tests",)),
        Unlock(task_id="T-1", agent="Ann", reason="no"),
    ],
)
def test_a_host_gives_no_command_but_those_of_its_own_members_runs(command: Command) -> None:
    host = caller(TokenRole.HOST, "laptop", "Ann")
    with pytest.raises(Refused) as found:
        require_host_command(host, command, None)
    assert found.value.code in ("not_yours", "not_authorised")
    require_host_command(host, AssignTask(agent="Ann", run_id="RUN-1"), None)
    require_host_command(host, CheckStaff(task_id="T-1"), None)


def test_a_host_has_no_task_looked_at_that_another_holds() -> None:
    host = caller(TokenRole.HOST, "laptop", "Ann")
    held = {name: a_task(claim=a_claim(name)) for name in ("Ann", "Bob")}
    require_host_command(host, CheckStaff(task_id="T-1"), held["Ann"])
    require_host_command(host, CountIdleStop(task_id="T-1", handoff_id="H-1"), held["Ann"])
    for command in (CheckStaff(task_id="T-1"), CountIdleStop(task_id="T-1", handoff_id="H-1")):
        with pytest.raises(Refused) as found:
            require_host_command(host, command, held["Bob"])
        assert found.value.code == "not_yours"


@pytest.mark.parametrize(
    "holder", [caller(TokenRole.AGENT), caller(TokenRole.HOST, "laptop", "Ann", "Fenster")]
)
def test_commits_are_taken_for_a_task_that_the_caller_holds_and_no_other(holder: Caller) -> None:
    require_held_task(caller(TokenRole.USER), "T-1", "")
    require_held_task(holder, "T-1", "Fenster")
    for other in ("", "Somebody-else"):
        with pytest.raises(Refused) as found:
            require_held_task(holder, "T-1", other)
        assert found.value.code == "not_yours"


@pytest.mark.parametrize("line", ["T-1 Bob", "T-1 bob", "T-1  Bob", "T-1 user", "T-1 Bob/2"])
def test_a_session_claims_tasks_in_no_name_but_the_callers_own(line: str) -> None:
    for holder in (caller(TokenRole.AGENT), caller(TokenRole.HOST, "laptop", "Fenster")):
        assert own_session_claims(holder, ("T-0", "T-2 fenster")) in (
            ("T-0", "T-2 Fenster"),
            ("T-0", "T-2 fenster"),
        )
        with pytest.raises(Refused) as found:
            own_session_claims(holder, ("T-2 Fenster", line))
        assert found.value.code == "not_yours"
    assert own_session_claims(caller(TokenRole.USER), ("T-1 Bob",)) == ("T-1 Bob",)


def test_a_caller_acts_for_a_holder_by_the_names_of_its_own_members_alone() -> None:
    renamed = Team((Member(name="Fenster", aliases=("Fen",)), Member(name="Bob"))).with_task_names(("Fen",))
    for own in (caller(TokenRole.AGENT), caller(TokenRole.HOST, "laptop", "Fenster")):
        assert [own.may_act_for(name, TEAM) for name in ("Fenster", "Bob", "user", "")] == [
            *(True, False, False, False)
        ]
        assert own.may_act_for("Fen", renamed)
        assert not own.may_act_for("Bob", renamed)
    assert caller(TokenRole.USER).may_act_for("Bob", TEAM)


def test_a_worker_may_fetch_commits_and_ask_what_may_be_merged_and_nothing_else() -> None:
    found = [name for name, roles in CALLS.items() if TokenRole.WORKER in roles]
    assert found == ["gate check", "commit fetch"]


def test_the_user_may_call_all_that_a_server_offers() -> None:
    assert [name for name, roles in CALLS.items() if roles and TokenRole.USER not in roles] == []


@pytest.mark.parametrize("role", TokenRole)
@pytest.mark.parametrize("command", [*CALLS, "", "no such command"])
def test_every_command_is_refused_to_every_role_that_the_table_does_not_name(
    command: str, role: TokenRole
) -> None:
    if role in CALLS.get(command, ()):
        require_call(caller(role), command)
        return
    with pytest.raises(Refused) as found:
        require_call(caller(role), command)

    assert found.value.code in ("not_authorised", "user_only")


@pytest.mark.parametrize("role", [TokenRole.AGENT, TokenRole.REVIEWER, TokenRole.DIRECTOR, TokenRole.WORKER])
@pytest.mark.parametrize("name", ["Lead", "user", "owner", "Fensterr", "Fenster/x", "*"])
def test_a_token_acts_in_no_other_name(role: TokenRole, name: str) -> None:
    with pytest.raises(Refused, match="cannot be used to act as anyone else"):
        caller(role).acting_name(name)


@pytest.mark.parametrize("name", ["", "Fenster", "fenster", " FENSTER", "Fenster/2"])
def test_spellings_and_instances_of_a_name_are_the_member(name: str) -> None:
    assert caller(TokenRole.AGENT).acting_name(name) == "Fenster"


@pytest.mark.parametrize("role", [TokenRole.AGENT, TokenRole.REVIEWER, TokenRole.DIRECTOR])
def test_a_nameless_agent_is_the_member_of_the_token(role: TokenRole) -> None:
    assert caller(role).acting_name(NAMELESS_AGENT) == "Fenster"


def test_a_nameless_agent_is_never_the_user_nor_a_machine() -> None:
    assert caller(TokenRole.USER, "owner").acting_name(NAMELESS_AGENT) == NAMELESS_AGENT
    for role in (TokenRole.HOST, TokenRole.WORKER):
        with pytest.raises(Refused, match="cannot be used to act as anyone else"):
            caller(role, "box").acting_name(NAMELESS_AGENT)


def test_the_user_may_say_that_a_call_is_anothers_which_is_known_by_word_alone() -> None:
    user = caller(TokenRole.USER, "owner")

    assert user.acting_name("Fenster") == "Fenster"
    assert (user.known_by("owner"), user.known_by("Fenster")) == (KnownBy.TOKEN, KnownBy.WORD)
    assert user.roles_as("Fenster") is None


def test_a_host_acts_as_the_members_that_it_may_start_and_as_nobody_else() -> None:
    host = caller(TokenRole.HOST, "box", "Fenster", "Lead")

    assert [host.acting_name(name) for name in ("", "fenster", "Lead", "Fenster/2")] == [
        *("box", "fenster", "Lead", "Fenster/2")
    ]
    assert host.known_by("Fenster") is KnownBy.TOKEN
    for name in ("Tester", "user", "owner", "coordinator"):
        with pytest.raises(Refused):
            host.acting_name(name)


def test_a_host_has_no_role_in_its_own_name_and_never_the_users() -> None:
    host = caller(TokenRole.HOST, "box", "*")

    assert host.roles_as("box") == ()
    assert Role.USER not in (host.roles_as("owner") or ())
    assert host.is_confined


@pytest.mark.parametrize("name", ["user", "USER", "coordinator", "director"])
def test_a_host_that_may_start_anybody_is_not_the_user_nor_the_system(name: str) -> None:
    with pytest.raises(Refused):
        caller(TokenRole.HOST, "box", "*").acting_name(name)


def test_a_host_that_may_start_all_members_may_not_start_one_who_is_the_user() -> None:
    found = token_caller(a_token(role=TokenRole.HOST, member="box", starts=("*",)), TEAM)

    assert found.starts == ("Fenster", "Lead", "Tester", "Dir")
    with pytest.raises(Refused):
        found.acting_name("owner")


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (TokenRole.AGENT, {Role.AGENT}),
        (TokenRole.REVIEWER, {Role.LEAD, Role.TESTER}),
        (TokenRole.DIRECTOR, {Role.DIRECTOR}),
        (TokenRole.WORKER, set()),
    ],
)
def test_a_token_gives_its_own_role_and_none_that_the_member_has_besides(
    role: TokenRole, allowed: set[Role]
) -> None:
    everything = actor("Fenster", Role.AGENT, Role.LEAD, Role.TESTER, Role.DIRECTOR, Role.USER)

    assert everything.limit(caller(role).roles_as("Fenster") or ()).roles == allowed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        SECRET,
        TEXT[:-1],
        TEXT + "x",
        TEXT[:-1] + "t",
        TEXT.upper(),
        f" {TEXT}",
        f"{TEXT}\n",
        token_text("TK-20261115-090000-00000002", SECRET),
        "rmd_20261115-090000-00000001_" + "é" * 43,
        "rmd_" * 10_000,
        "\x00",
    ],
)
def test_a_text_that_is_not_the_token_is_refused_and_nothing_is_said_of_why(text: str) -> None:
    with pytest.raises(Refused) as found:
        find_token({ID: a_token()}, text, NOW)
    with pytest.raises(Refused) as unknown:
        find_token({}, TEXT, NOW)

    assert (found.value.code, found.value.message) == (unknown.value.code, unknown.value.message)
    assert found.value.code == "not_authenticated"


@pytest.mark.parametrize(
    "token",
    [a_token(expires_at=NOW), a_token(expires_at="2025-01-01T00:00:00.000000Z"), a_token(revoked_at=NOW)],
    ids=["expires now", "expired", "revoked"],
)
def test_a_token_that_no_longer_counts_is_refused_in_the_same_words(token: Token) -> None:
    with pytest.raises(Refused) as found:
        find_token({ID: token}, TEXT, NOW)

    assert found.value.code == "not_authenticated"
    assert "Fenster" not in found.value.message


def test_a_token_that_counts_is_found() -> None:
    assert find_token({ID: a_token()}, TEXT, NOW).member == "Fenster"


@pytest.mark.parametrize(
    "token",
    [
        a_token(member="Somebody"),
        a_token(role=TokenRole.REVIEWER),
        a_token(role=TokenRole.USER),
        a_token(member="user", role=TokenRole.AGENT),
    ],
    ids=["left the team", "is no reviewer", "is not the user", "the user is no agent"],
)
def test_a_token_of_a_member_who_no_longer_has_the_role_does_not_count(token: Token) -> None:
    with pytest.raises(Refused) as found:
        token_caller(token, TEAM)

    assert found.value.code == "not_authenticated"


def test_only_the_user_gives_tokens_out() -> None:
    for by in (ALICE, actor("Lead", Role.LEAD), actor("u", Role.USER, confined=True)):
        assert refused_code(by) == "user_only"
    assert refused_code(actor("Fenster"), member="Fenster") == "user_only"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member": "Nobody"}, "not_eligible"),
        ({"member": "coordinator"}, "not_eligible"),
        ({"role": TokenRole.REVIEWER}, "not_eligible"),
        ({"role": TokenRole.USER}, "not_eligible"),
        ({"member": "Tester"}, "bad_value"),
        ({"member": ""}, "bad_value"),
        ({"member": "a\x00b", "role": TokenRole.WORKER}, "bad_value"),
        ({"expires_at": NOW}, "bad_value"),
        ({"expires_at": "2025-01-01T00:00:00.000000Z"}, "bad_value"),
        ({"expires_at": add_seconds(NOW, 367 * 86_400)}, "bad_value"),
        ({"starts": ("Lead",)}, "bad_value"),
        ({"member": "box", "role": TokenRole.HOST}, "bad_value"),
        ({"member": "box", "role": TokenRole.HOST, "starts": ("Nobody",)}, "not_eligible"),
        ({"member": "Fenster", "role": TokenRole.HOST, "starts": ("Lead",)}, "name_taken"),
        ({"member": "boss", "role": TokenRole.WORKER}, "name_taken"),
        ({"is_taken": True}, "taken"),
    ],
)
def test_a_token_that_should_not_be_is_refused(fields: dict[str, object], code: str) -> None:
    assert refused_code(**fields) == code


def test_without_a_team_any_name_is_an_agent_and_user_the_user() -> None:
    assert create(team=Team(), member="Anyone").role == TokenRole.AGENT
    assert create(team=Team(), member="user").role == TokenRole.USER
    assert refused_code(team=Team(), member="Anyone", role=TokenRole.REVIEWER) == "not_eligible"
    assert refused_code(team=Team(), member="box", role=TokenRole.HOST, starts=("user",)) == "not_eligible"


def test_a_token_bears_the_members_own_name_and_its_only_role() -> None:
    assert (create(member="boss").member, create(member="boss").role) == ("Lead", TokenRole.REVIEWER)
    assert create(member="Tester", role=parse_token_role("tester")).role == TokenRole.REVIEWER
    assert create(member="box", role=TokenRole.HOST, starts=("boss", "*")).starts == ("Lead", "*")


def stamped(event: Event, at: str, by: str = "user") -> Event:
    kind = type(event)
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return kind(**(fields | {"ts": at, "meta": Meta(id="x", actor=by)}))


def test_a_revocation_is_final_wherever_it_stands() -> None:
    created = stamped(create(), NOW)
    revoked = stamped(TokenRevoked(token_id=ID), LATER)
    again = stamped(create(expires_at=add_seconds(NOW, 9000)), MUCH_LATER)

    for events in ((created, revoked), (revoked, created), (created, revoked, again)):
        assert fold_tokens(events)[ID].revoked_at == LATER
    assert fold_tokens((created, again))[ID].expires_at == LATER


def test_the_user_and_its_member_may_revoke_a_token_and_nobody_else() -> None:
    known = {ID: a_token()}

    for by in (THE_USER, actor("Fenster")):
        assert revoke_token(ID, "", by, known) == TokenRevoked(token_id=ID)
    for by in (ALICE, actor("Lead", Role.LEAD)):
        with pytest.raises(Refused) as found:
            revoke_token(ID, "", by, known)
        assert found.value.code == "unknown_token"
    with pytest.raises(Refused):
        revoke_token("TK-2", "", THE_USER, known)


def test_what_is_revoked_already_leads_to_no_event() -> None:
    assert revoke_token(ID, "", THE_USER, {ID: a_token(revoked_at=NOW)}) is None


def test_a_machines_token_is_the_users_to_revoke() -> None:
    known = {ID: a_token(role=TokenRole.HOST, member="box")}

    with pytest.raises(Refused):
        revoke_token(ID, "", actor("box"), known)
