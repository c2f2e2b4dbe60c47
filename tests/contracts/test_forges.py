"""Holds every forge adapter to the same rules, each against the fake forge in its own dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from remand.app.forge.ports import CheckState, ForgeFaultKind
from remand.domain.forge import Account, ForgeComment, PullRequest, PullState, ReviewState
from tests.contracts.forge_adapters import FAULTS, JSON, SETUPS, SOON, World, fields_of, on, opened
from tests.support.forge.server import Fault, ForgeServer
from tests.support.forge.state import NewLineComment, sha_of


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with opened(request.param) as made:
        yield made


# ------------------------------------------------------------------------------------------- what is read


@on()
def test_a_review_is_read_with_its_own_line_comments(world: World) -> None:
    world.state.review(world.pull, world.bob, ReviewState.COMMENTED, "Ready.")
    world.rejected(
        NewLineComment(text="Leaks.", path="src/app.py", line=7),
        NewLineComment(text="Slow.", path="src/app.py", line=9),
    )
    world.state.review(
        world.pull, world.ann, ReviewState.APPROVED, "Fine now.", NewLineComment(text="Nice.", line=2)
    )

    found = world.read()

    states = [review.state for review in found.reviews]
    assert states == [ReviewState.COMMENTED, ReviewState.CHANGES_REQUESTED, ReviewState.APPROVED]
    rejection = found.reviews[1]
    assert (rejection.text, rejection.commit) == ("Not yet.", world.pull.head)
    assert rejection.author == world.account(world.ann)
    assert [(one.path, one.line, one.text) for one in rejection.comments] == [
        ("src/app.py", 7, "Leaks."),
        ("src/app.py", 9, "Slow."),
    ]
    assert [one.text for one in found.reviews[2].comments] == ["Nice."]


@on()
def test_a_remark_that_was_edited_is_told_as_such(world: World) -> None:
    for text in ("Before.", "As it was."):
        world.state.remark(world.pull, world.ann, text)
    world.state.edit(world.pull.remarks[0], "After.")

    assert [(one.text, one.is_edited) for one in world.read().remarks] == [
        ("After.", True),
        ("As it was.", False),
    ]


@on()
def test_a_pull_request_is_told_with_head_branch_author_and_remarks(world: World) -> None:
    world.state.remark(world.pull, world.ann, "Which issue is this?")
    found = world.read()

    assert (found.number, found.head, found.branch) == (world.pull.number, world.pull.head, world.pull.branch)
    assert (found.state, found.author) == (PullState.OPEN, world.account(world.bob))
    assert [(one.text, one.author) for one in found.remarks] == [
        ("Which issue is this?", world.account(world.ann))
    ]


@on("comment reviews")
def test_every_page_is_read(world: World) -> None:
    for number in range(130):
        world.state.review(world.pull, world.ann, ReviewState.COMMENTED, f"review {number}")
        world.state.remark(world.pull, world.bob, f"remark {number}")
    world.rejected(*(NewLineComment(text=f"finding {number}", line=number + 1) for number in range(300)))

    found = world.read()

    assert [review.text for review in found.reviews if review.text.startswith("review")] == [
        f"review {number}" for number in range(130)
    ]
    assert [one.text for one in found.remarks] == [f"remark {number}" for number in range(130)]
    rejection = next(one for one in found.reviews if one.state is ReviewState.CHANGES_REQUESTED)
    assert [one.text for one in rejection.comments] == [f"finding {number}" for number in range(300)]


@on()
def test_a_long_thread_is_read_to_its_end(world: World) -> None:
    world.rejected(NewLineComment(text="Why?"))
    thread = world.pull.threads[0]
    for number in range(150):
        world.state.reply(world.pull, thread, world.bob, f"reply {number}")

    comments = [one for review in world.read().reviews for one in review.comments]

    assert sorted(one.text for one in comments) == sorted(["Why?", *(f"reply {n}" for n in range(150))])
    assert [one.text for one in comments if not one.is_reply] == ["Why?"]


@on("drafts")
def test_a_review_not_yet_submitted_is_left_out(world: World) -> None:
    world.state.review(world.pull, world.ann, ReviewState.PENDING, "thinking", NewLineComment(text="a draft"))
    found = world.read()

    assert found.reviews == ()
    assert "a draft" not in str(found)


@on()
def test_what_deleted_accounts_said_is_by_nobody(world: World) -> None:
    world.rejected(NewLineComment(text="Leaks."))
    world.state.remark(world.pull, world.ann, "Hm.")
    world.state.delete(world.ann)

    found = world.read()

    assert [review.author for review in found.reviews] == [None]
    assert [one.author for review in found.reviews for one in review.comments] == [None]
    assert [one.author for one in found.remarks] == [None]


@on("dismissal")
def test_a_dismissed_review_is_told_as_dismissed(world: World) -> None:
    given = world.rejected()
    world.state.dismiss(world.pull, given)

    assert [review.state for review in world.read().reviews] == [ReviewState.DISMISSED]


@on("outdated lines")
def test_a_comment_whose_line_is_gone_keeps_the_line_it_was_on(world: World) -> None:
    world.rejected(NewLineComment(text="Leaks.", line=7))
    world.state.push(world.pull, sha_of("next"))

    comment = world.read().reviews[0].comments[0]

    assert comment.line == 7


@on("file comments")
def test_a_comment_on_a_file_has_no_line(world: World) -> None:
    world.rejected(NewLineComment(text="Too long.", line=None))

    comment = world.read().reviews[0].comments[0]

    assert (comment.path, comment.line) == ("src/app.py", 0)


@on()
def test_a_resolved_thread_is_read_as_any_other(world: World) -> None:
    world.rejected(NewLineComment(text="Leaks.", line=7), NewLineComment(text="Slow.", line=9))
    before = [one.text for one in world.read().reviews[0].comments]
    world.state.resolve(world.pull.threads[0])

    assert [one.text for one in world.read().reviews[0].comments] == before == ["Leaks.", "Slow."]


@on("rebinding")
def test_a_review_is_told_with_the_commit_it_is_bound_to_now(world: World) -> None:
    given = world.rejected()
    world.state.rebind(given, sha_of("rebased"))

    assert world.read().reviews[0].commit == sha_of("rebased")


@on()
def test_who_merged_and_when_is_told(world: World) -> None:
    world.state.merge(world.pull, world.ann)
    found = world.read()

    assert (found.state, found.merged_by) == (PullState.MERGED, world.account(world.ann))
    assert found.merged_at == world.pull.merged_at


@on()
def test_a_pull_request_closed_unmerged_is_told_as_closed(world: World) -> None:
    world.state.close(world.pull)

    assert world.read().state is PullState.CLOSED


@on("bots")
def test_a_bot_is_told_as_one(world: World) -> None:
    robot = world.state.person("checker", is_bot=True)
    world.state.review(world.pull, robot, ReviewState.COMMENTED, "beep")

    author = world.read().reviews[0].author

    assert author == Account(id=f"{world.kind}:{robot.id}", login=f"{world.kind}:checker[bot]", is_bot=True)


@on()
def test_a_pull_request_that_is_not_there_is_missing(world: World) -> None:
    assert world.fault(lambda: world.forge.pull_request(99)).kind is ForgeFaultKind.MISSING


@on("conditional reading")
def test_what_did_not_change_is_not_sent_again(world: World) -> None:
    world.rejected(NewLineComment(text="Leaks."))
    first = world.read()
    spent = world.forge.usage.points

    assert world.another().pull_request(world.pull.number) == first
    assert world.opened[-1].usage.not_modified > 0
    assert world.forge.usage.points == spent


# ---------------------------------------------------------------------------------------------- glancing


@on()
def test_a_glance_marks_what_is_there(world: World) -> None:
    other = world.state.open(world.bob)

    assert set(world.forge.change_marks([world.pull.number, other.number, 99])) == {
        world.pull.number,
        other.number,
    }
    assert world.forge.change_marks([]) == {}


@on()
def test_a_mark_stays_while_nothing_changes(world: World) -> None:
    world.rejected(NewLineComment(text="Leaks."))
    first = world.mark()

    assert world.mark() == first
    assert world.another().change_marks([world.pull.number]) == {world.pull.number: first}


Change = Callable[[World], object]
CHANGES: dict[str, tuple[str, Change]] = {
    "review": ("", lambda world: world.rejected()),
    "approval": ("", lambda world: world.state.review(world.pull, world.ann, ReviewState.APPROVED)),
    "remark": ("", lambda world: world.state.remark(world.pull, world.ann, "Hm.")),
    "reply": ("", lambda world: world.state.reply(world.pull, world.pull.threads[0], world.bob, "Why?")),
    "push": ("", lambda world: world.state.push(world.pull, sha_of("next"))),
    "merge": ("", lambda world: world.state.merge(world.pull, world.ann)),
    "close": ("", lambda world: world.state.close(world.pull)),
    "dismissal": ("dismissal", lambda world: world.state.dismiss(world.pull, world.pull.reviews[0])),
    "edited review": ("marked edits", lambda world: world.state.edit(world.pull.reviews[0], "No.")),
    "edited remark": ("marked edits", lambda world: world.state.edit(world.pull.remarks[0], "No.")),
    "edited comment": ("marked comment edits", lambda world: world.state.edit(world.pull.comments[0], "No.")),
}
CASES = [
    pytest.param(setup, change, id=f"{setup.name}-{name.replace(' ', '-')}")
    for setup in SETUPS
    for name, (feature, change) in CHANGES.items()
    if feature not in setup.lacks
]


@pytest.mark.parametrize(("world", "change"), CASES, indirect=["world"])
def test_a_mark_changes_with_what_it_marks_and_with_nothing_else(world: World, change: Change) -> None:
    world.rejected(NewLineComment(text="Leaks."))
    world.state.remark(world.pull, world.bob, "Hm?")
    other = world.state.open(world.bob)
    numbers = [world.pull.number, other.number]
    before = world.forge.change_marks(numbers)

    change(world)
    after = world.forge.change_marks(numbers)

    assert after[world.pull.number] != before[world.pull.number]
    assert after[other.number] == before[other.number]


@on()
def test_more_pull_requests_than_a_question_holds_are_all_marked(world: World) -> None:
    pulls = [world.pull, *(world.state.open(world.bob) for _ in range(204))]
    before = world.forge.change_marks([pull.number for pull in pulls])
    world.state.remark(pulls[0], world.ann, "Hm.")
    after = world.forge.change_marks([pull.number for pull in pulls])

    assert len(before) == 205
    assert [number for number in before if before[number] != after[number]] == [pulls[0].number]


# --------------------------------------------------------------------------------------- who may write


@on()
@pytest.mark.parametrize(
    ("permission", "may"),
    [
        ("none", False),
        ("read", False),
        ("triage", False),
        ("write", True),
        ("maintain", True),
        ("admin", True),
    ],
)
def test_who_may_write_is_what_the_forge_says(world: World, permission: str, may: bool) -> None:
    person = world.state.person("carla", permission)

    assert world.forge.may_write(world.account(person)) is may


@on()
def test_a_right_taken_away_is_gone_at_once(world: World) -> None:
    assert world.forge.may_write(world.account(world.ann))
    world.ann.permission = "read"

    assert not world.forge.may_write(world.account(world.ann))


@on()
def test_whoever_took_over_a_login_is_not_authorised_by_it(world: World) -> None:
    before = world.account(world.ann)
    heir = world.state.take_over(world.ann, "admin")

    assert not world.forge.may_write(before)
    assert world.forge.may_write(world.account(heir))


@on()
def test_an_account_that_is_gone_may_not_write(world: World) -> None:
    before = world.account(world.ann)
    world.state.delete(world.ann)

    assert not world.forge.may_write(before)


@on()
def test_an_account_of_another_forge_may_not_write(world: World) -> None:
    stranger = Account(id=f"elsewhere:{world.ann.id}", login=f"{world.kind}:ann")

    assert not world.forge.may_write(stranger)


@on()
@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_permission_that_cannot_be_asked_is_not_given(world: World, status: int) -> None:
    world.server.faults.add(Fault(status=status, headers=JSON, body=b"{}", times=9))

    world.fault(lambda: world.forge.may_write(world.account(world.ann)))


@on()
def test_a_login_cannot_lead_to_another_address(world: World) -> None:
    for login in ("../../ann", "ann/permission?x=", "ann#", "ann%2f..", ""):
        stranger = Account(id=f"{world.kind}:{world.ann.id}", login=f"{world.kind}:{login}")
        assert not world.forge.may_write(stranger), login


# ------------------------------------------------------------------------------------------------ limits


@on()
def test_a_limit_with_a_time_holds_until_then(world: World) -> None:
    world.server.faults.add(Fault(status=429, headers={**JSON, "retry-after": "90"}, body=b"{}"))
    fault = world.fault()
    asked = len(world.server.requests)

    assert fault.kind is ForgeFaultKind.LIMITED
    assert fault.until > world.clock.now()
    world.clock.advance(80)
    assert world.fault().until == fault.until
    assert world.fault(world.mark).kind is ForgeFaultKind.LIMITED
    assert len(world.server.requests) == asked
    world.clock.advance(20)
    assert world.read().number == world.pull.number


@on()
def test_a_limit_holds_for_the_next_process_too(world: World) -> None:
    world.server.faults.add(Fault(status=429, headers={**JSON, "retry-after": "90"}, body=b"{}"))
    until = world.fault().until
    asked = len(world.server.requests)
    next_process = world.another()

    assert world.fault(lambda: next_process.change_marks([world.pull.number])).until == until
    assert len(world.server.requests) == asked


@on()
@pytest.mark.parametrize(
    "retry", ["", "soon", "-5", "999999999", "99999999999999999999", "Sun, 15 Nov 2026 09:05:00 GMT"]
)
def test_a_limit_that_says_no_sensible_time_ends_within_a_day(world: World, retry: str) -> None:
    headers = {**JSON, "retry-after": retry} if retry else JSON
    world.server.faults.add(Fault(status=429, headers=headers, body=b"{}"))
    fault = world.fault()

    assert fault.kind is ForgeFaultKind.LIMITED
    assert fault.until > world.clock.now()
    world.clock.advance(24 * 3600 + 1)
    assert world.read().number == world.pull.number


# ------------------------------------------------------------------------------------------------ faults


@on()
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_in_its_kind_and_the_next_time_all_is_well(world: World, name: str) -> None:
    fault, troubles = FAULTS[name]
    world.server.faults.add(Fault(**{**fields_of(fault), "times": 1}))

    assert world.fault().kind in troubles
    world.clock.advance(3600)
    assert world.read().number == world.pull.number


@on()
def test_an_answer_without_an_end_is_cut_off(world: World) -> None:
    world.server.faults.add(Fault(status=200, headers=JSON, body=b"[", is_endless=True))

    assert world.fault().kind is ForgeFaultKind.GARBLED


@on()
def test_a_forge_that_never_answers_is_unreachable(world: World) -> None:
    world.patience = SOON
    hasty = world.another()
    world.server.faults.add(Fault(is_silent=True, times=9))

    assert world.fault(lambda: hasty.pull_request(world.pull.number)).kind is ForgeFaultKind.UNREACHABLE
    assert world.fault(lambda: hasty.change_marks([world.pull.number])).kind is ForgeFaultKind.UNREACHABLE


@on()
@pytest.mark.parametrize("name", ["500", "429", "half", "cut"])
def test_a_fault_at_any_stage_is_a_fault_of_the_whole(world: World, name: str) -> None:
    world.rejected(*(NewLineComment(text=f"finding {number}", line=number + 1) for number in range(120)))
    for number in range(120):
        world.state.remark(world.pull, world.bob, f"remark {number}")
    whole, stages = world.read(), _stages(world)
    fault, _ = FAULTS[name]

    assert stages > 1
    for stage in range(stages):
        world.memory.kept.clear()
        world.server.faults.add(Fault(**{**fields_of(fault), "times": 1, "after": stage}))
        assert world.fault().kind is not ForgeFaultKind.MISSING
        world.server.faults.clear()
        world.clock.advance(3601)
        assert world.read() == whole


def _stages(world: World) -> int:
    """How many requests one whole reading takes."""
    before = len(world.server.requests)
    world.read()
    return len(world.server.requests) - before


@on()
def test_a_token_that_does_not_do_is_said_with_what_to_do(world: World) -> None:
    world.state.token = "another"
    fault = world.fault()

    assert fault.kind is ForgeFaultKind.DENIED
    assert "_TOKEN" in str(fault)


@on()
def test_the_token_is_in_no_message(world: World) -> None:
    token = world.state.token
    for status in (400, 401, 403, 404, 409, 418, 422, 500):
        body = b'{"message": "no: ' + token.encode() + b'", "errors": ["' + token.encode() + b'"]}'
        world.server.faults.add(Fault(status=status, headers=JSON, body=body, times=2))
        assert token not in str(world.fault()), status
        world.server.faults.clear()
        world.clock.advance(3601)


@on()
def test_a_redirect_to_another_host_is_not_followed(world: World) -> None:
    with ForgeServer() as thief:
        headers = {"location": f"{thief.url}/repos/octo/demo/pulls/1"}
        world.server.faults.add(Fault(status=302, headers=headers, times=9))

        assert world.fault().kind is ForgeFaultKind.GARBLED
        assert thief.requests == []


@on()
def test_a_redirect_within_the_host_is_followed(world: World) -> None:
    place = f"{world.server.url}{_first_path(world)}"
    world.server.faults.add(Fault(status=307, headers={"location": place}))

    assert world.read().number == world.pull.number


@on()
def test_redirects_in_a_circle_end(world: World) -> None:
    world.server.faults.add(Fault(status=307, headers={"location": "/round"}, times=99))

    assert world.fault().kind is ForgeFaultKind.GARBLED


def _first_path(world: World) -> str:
    """What is asked first."""
    before = len(world.server.requests)
    world.another().pull_request(world.pull.number)
    first = world.server.requests[before]
    query = "&".join(f"{name}={value}" for name, value in first.query.items())
    return f"{first.path}?{query}" if query else first.path


# ----------------------------------------------------------------------------------------- what is left


@on()
@pytest.mark.parametrize("state", CheckState)
def test_a_status_is_left_at_the_commit(world: World, state: CheckState) -> None:
    world.forge.set_status(world.pull.head, state, "x" * 5000)

    (posted,) = world.state.statuses
    assert (posted.commit, posted.context, posted.state) == (world.pull.head, "remand", state)
    assert posted.text.startswith("xxx")


@on()
def test_a_comment_is_left(world: World) -> None:
    world.forge.comment(world.pull.number, "Rejected, see the review.")

    (said,) = world.pull.remarks
    assert (said.author, said.text) == (world.state.viewer, "Rejected, see the review.")


@on()
def test_a_review_that_asks_for_changes_is_left_with_its_line_comments(world: World) -> None:
    comments = [ForgeComment(id="", text="Leaks.", path="src/app.py", line=7)]

    left = world.forge.request_changes(world.pull.number, world.pull.head, "Not yet.", comments)

    assert left is ReviewState.CHANGES_REQUESTED
    (review,) = _given(world.read(), world.account(world.state.viewer), left)
    assert "Not yet." in review.text
    assert [(one.path, one.line, one.text) for one in review.comments] == [("src/app.py", 7, "Leaks.")]


@on()
def test_a_line_comment_without_a_place_is_told_in_the_text(world: World) -> None:
    comments = [
        ForgeComment(id="", text="Forgotten.", path="docs/gone.md", line=3),
        ForgeComment(id="", text="No tests."),
    ]

    world.forge.request_changes(world.pull.number, world.pull.head, "Not yet.", comments)

    said = str(world.read())
    assert "docs/gone.md:3" in said
    assert "Forgotten." in said
    assert "No tests." in said


@on("own work")
def test_on_our_own_work_the_review_is_a_comment(world: World) -> None:
    own = world.state.open(world.state.viewer)

    left = world.forge.request_changes(own.number, own.head, "Not yet.", [])

    assert left is ReviewState.COMMENTED
    (review,) = _given(world.forge.pull_request(own.number), world.account(world.state.viewer), left)
    assert "Not yet." in review.text


def _given(found: PullRequest, by: Account, state: ReviewState) -> Sequence[object]:
    return [review for review in found.reviews if review.author == by and review.state is state]


Write = Callable[[World], object]
WRITES: dict[str, Write] = {
    "status": lambda world: world.forge.set_status(world.pull.head, CheckState.FAILURE, "no"),
    "comment": lambda world: world.forge.comment(world.pull.number, "no"),
    "review": lambda world: world.forge.request_changes(world.pull.number, world.pull.head, "no", []),
}


@on()
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (403, ForgeFaultKind.DENIED),
        (404, ForgeFaultKind.MISSING),
        (422, ForgeFaultKind.REFUSED),
        (500, ForgeFaultKind.UNREACHABLE),
    ],
)
def test_what_cannot_be_left_is_a_fault(
    world: World, name: str, status: int, trouble: ForgeFaultKind
) -> None:
    world.server.faults.add(Fault(status=status, headers=JSON, body=b'{"message": "no"}', times=9))

    assert world.fault(lambda: WRITES[name](world)).kind is trouble
