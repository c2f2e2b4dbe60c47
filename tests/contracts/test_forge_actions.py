"""Holds every forge adapter to the same rules in what it does: pull requests opened, merged once, issues closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from remand.app.forge.ports import ForgeFaultKind, OpenPull
from remand.domain.forge import PullState
from tests.contracts.forge_adapters import FAULTS, JSON, SOON, World, fields_of, on, opened
from tests.support.forge.server import Fault
from tests.support.forge.state import StoredPull, sha_of

BRANCH, HEAD = "work/roof", sha_of("roof")
ISSUE = 2


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with opened(request.param) as made:
        made.state.tips[BRANCH] = HEAD
        assert made.state.report(made.ann, "Issue", "", "question").number == ISSUE
        yield made


def opened_here(world: World) -> StoredPull:
    """A pull request that we have opened."""
    return world.state.pulls[world.forge.open_draft(BRANCH, "main", "Mend the roof", "It leaks.").number]


def found(world: World) -> OpenPull | None:
    return world.another().find_open_pull(BRANCH, "main")


# ---------------------------------------------------------------------------------------------- opening


@on()
def test_a_pull_request_is_opened_as_a_draft_and_found_again(world: World) -> None:
    before = found(world)
    made = world.forge.open_draft(BRANCH, "main", "Mend the roof", "It leaks.\n/merge")
    pull = world.state.pulls[made.number]

    assert before is None
    assert (made.head, made.is_draft, pull.is_draft) == (HEAD, True, True)
    assert (pull.branch, pull.base, pull.author) == (BRANCH, "main", world.state.viewer)
    assert "Mend the roof" in pull.title
    assert (pull.text.split("\n"), pull.state) == (["It leaks.", "/merge"], PullState.OPEN)
    assert found(world) == made


@on()
def test_a_second_pull_request_of_the_same_branch_is_refused(world: World) -> None:
    opened_here(world)
    fault = world.fault(lambda: world.forge.open_draft(BRANCH, "main", "Mend the roof", ""))

    assert fault.kind is ForgeFaultKind.REFUSED
    assert sum(pull.branch == BRANCH for pull in world.state.pulls.values()) == 1


@on()
def test_only_an_open_one_of_this_repository_into_the_base_is_found(world: World) -> None:
    for change in ({"is_of_a_fork": True}, {"base": "release"}, {"state": PullState.CLOSED}, {"branch": "x"}):
        other = world.state.open(world.bob, head=HEAD, branch=BRANCH)
        for name, value in change.items():
            setattr(other, name, value)

    assert found(world) is None
    mine = world.state.open(world.bob, head=HEAD, branch=BRANCH)
    for _ in range(2):
        assert found(world) == OpenPull(number=mine.number, head=HEAD, url=getattr(found(world), "url", ""))


@on()
def test_a_branch_with_signs_in_its_name_is_the_branch_that_is_meant(world: World) -> None:
    branch = "work/ä&base=x#1+%2F"
    world.state.tips[branch] = HEAD
    made = world.forge.open_draft(branch, "main", "Odd", "")

    assert world.state.pulls[made.number].branch == branch
    assert world.another().find_open_pull(branch, "main") == made


@on()
def test_a_branch_that_is_not_there_has_no_pull_request(world: World) -> None:
    fault = world.fault(lambda: world.forge.open_draft("work/nowhere", "main", "x", ""))

    assert fault.kind in {ForgeFaultKind.REFUSED, ForgeFaultKind.MISSING}


@on("drafts for some")
def test_where_there_are_no_drafts_an_ordinary_one_is_opened(world: World) -> None:
    world.state.settings.has_drafts = False

    assert not opened_here(world).is_draft


# ------------------------------------------------------------------------------------------------- ready


@on("ready")
def test_a_draft_is_made_ready_and_any_other_stays_as_it_is(world: World) -> None:
    pull = opened_here(world)
    for _ in range(2):
        world.forge.mark_ready(pull.number)
        assert (pull.is_draft, pull.title) == (False, "Mend the roof")


@on("ready")
def test_a_title_that_says_twice_that_it_is_a_draft_is_ready_too(world: World) -> None:
    made = world.forge.open_draft(BRANCH, "main", "WIP: draft work", "")
    world.forge.mark_ready(made.number)

    assert not world.state.pulls[made.number].is_draft


# ----------------------------------------------------------------------------------------- asking people


@on()
def test_reviewers_are_asked_by_login_or_by_id(world: World) -> None:
    pull, carla = opened_here(world), world.state.person("carla", "write")
    for _ in range(2):
        world.forge.request_review(pull.number, ["ann", str(carla.id)])

    assert pull.requested == [world.ann, carla]


@on()
def test_who_was_asked_before_stays_asked(world: World) -> None:
    pull, carla = opened_here(world), world.state.person("carla", "write")
    world.forge.request_review(pull.number, ["ann"])
    world.forge.request_review(pull.number, [carla.login])

    assert pull.requested == [world.ann, carla]


@on()
def test_nobody_is_asked_when_nobody_is_named(world: World) -> None:
    asked = len(world.server.requests)
    world.forge.request_review(world.pull.number, [])

    assert len(world.server.requests) == asked


@on()
def test_one_who_cannot_be_asked_keeps_nobody_else_from_it(world: World) -> None:
    pull = opened_here(world)
    world.forge.request_review(pull.number, ["remand-bot", "bob", "ann"])

    assert pull.requested == [world.ann]


@on("refused reviewers")
def test_when_nobody_can_be_asked_it_is_a_fault(world: World) -> None:
    pull = opened_here(world)

    assert (
        world.fault(lambda: world.forge.request_review(pull.number, ["bob"])).kind is ForgeFaultKind.REFUSED
    )
    assert world.fault(lambda: world.forge.request_review(pull.number, ["bob", "remand-bot"]))


# ----------------------------------------------------------------------------------------------- merging


def ready(world: World) -> StoredPull:
    pull = opened_here(world)
    pull.is_draft = False
    return pull


@on()
def test_a_pull_request_is_merged_at_its_head(world: World) -> None:
    pull = ready(world)
    world.forge.merge(pull.number, HEAD)

    assert (pull.state, world.state.merges) == (PullState.MERGED, [(pull.number, HEAD)])


@on()
def test_a_head_that_has_moved_is_not_merged(world: World) -> None:
    pull = ready(world)
    world.state.push(pull, sha_of("sneaked in"))

    assert world.fault(lambda: world.forge.merge(pull.number, HEAD)).kind is ForgeFaultKind.REFUSED
    assert (pull.state, world.state.merges) == (PullState.OPEN, [])


@on()
def test_what_is_merged_is_not_merged_again(world: World) -> None:
    pull = ready(world)
    world.forge.merge(pull.number, HEAD)

    assert world.fault(lambda: world.forge.merge(pull.number, HEAD)).kind is ForgeFaultKind.REFUSED
    assert len(world.state.merges) == 1


@on()
def test_what_the_forge_does_not_let_be_merged_is_not(world: World) -> None:
    pull = ready(world)
    world.state.settings.has_failing_check = True

    assert world.fault(lambda: world.forge.merge(pull.number, HEAD)).kind is ForgeFaultKind.REFUSED


@on("merge methods")
@pytest.mark.parametrize("methods", [("squash", "rebase"), ("rebase",)])
def test_it_is_merged_in_a_way_that_the_repository_allows(world: World, methods: tuple[str, ...]) -> None:
    pull = ready(world)
    world.state.settings.methods = methods
    world.forge.merge(pull.number, HEAD)

    assert pull.state is PullState.MERGED


# ------------------------------------------------------------------------------------------------ issues


@on()
def test_open_issues_with_the_label_are_read_to_the_last_page(world: World) -> None:
    for number in range(130):
        world.state.report(world.ann, f"Issue {number}", f"Text {number}", "remand", "priority: high")
    world.state.report(world.ann, "Another", "", "bug")
    gone = world.state.report(world.ann, "Closed", "", "remand")
    gone.is_open = False

    issues = world.forge.issues("remand")

    assert sorted(one.title for one in issues) == sorted(f"Issue {number}" for number in range(130))
    first = next(one for one in issues if one.title == "Issue 0")
    assert (first.text, first.author, first.labels) == (
        "Text 0",
        world.account(world.ann),
        ("remand", "priority: high"),
    )
    assert first.opened_at[:19] == world.state.issues[first.number].created_at[:19]
    assert first.is_open


@on()
def test_a_label_that_nobody_has_made_has_no_issues(world: World) -> None:
    world.state.report(world.ann, "Issue", "", "bug")

    assert world.forge.issues("remand") == []
    assert world.forge.issues("re&mand, 100%#") == []


@on()
def test_an_issue_of_a_deleted_account_is_nobodys(world: World) -> None:
    issue = world.state.report(world.bob, "Issue", "", "remand")
    world.state.delete(world.bob)

    assert world.forge.issue(issue.number).author is None


@on()
def test_an_issue_that_is_not_there_is_missing(world: World) -> None:
    assert world.fault(lambda: world.forge.issue(99)).kind is ForgeFaultKind.MISSING


@on()
def test_an_issue_is_closed_with_one_comment_however_often_it_is_asked_for(world: World) -> None:
    issue = world.state.report(world.ann, "Issue", "", "remand")
    for _ in range(2):
        world.another().close_issue(issue.number, "Left here by remand: T-1.\n\nDone.", is_done=True)

    assert not world.forge.issue(issue.number).is_open
    assert [one.text.partition("\n")[0] for one in issue.remarks] == ["Left here by remand: T-1."]


@on("reasons")
def test_an_issue_that_will_not_be_done_is_closed_as_such(world: World) -> None:
    done, left = (world.state.report(world.ann, "Issue", "", "remand") for _ in range(2))
    world.forge.close_issue(done.number, "Done.", is_done=True)
    world.forge.close_issue(left.number, "Not planned.", is_done=False)

    assert (done.reason, left.reason) == ("completed", "not_planned")


# ------------------------------------------------------------------------------------------------ faults

Act = Callable[[World], object]
ACTS: dict[str, Act] = {
    "find": lambda world: world.another().find_open_pull(BRANCH, "main"),
    "open": lambda world: world.another().open_draft(BRANCH, "main", "x", ""),
    "ready": lambda world: world.another().mark_ready(world.pull.number),
    "request": lambda world: world.another().request_review(world.pull.number, ["ann"]),
    "merge": lambda world: world.another().merge(world.pull.number, world.pull.head),
    "issues": lambda world: world.another().issues("remand"),
    "issue": lambda world: world.another().issue(ISSUE),
    "close": lambda world: world.another().close_issue(ISSUE, "x", is_done=True),
}


@on()
@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (403, ForgeFaultKind.DENIED),
        (404, ForgeFaultKind.MISSING),
        (422, ForgeFaultKind.REFUSED),
        (429, ForgeFaultKind.LIMITED),
    ],
)
def test_what_cannot_be_done_is_a_fault_in_its_kind(
    world: World, name: str, status: int, trouble: ForgeFaultKind
) -> None:
    world.server.faults.add(Fault(status=status, headers=JSON, body=b'{"message": "no"}', times=9))

    assert world.fault(lambda: ACTS[name](world)).kind is trouble


@on()
@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("kind", ["500", "502 page"])
def test_a_forge_with_an_error_of_its_own_is_unreachable(world: World, name: str, kind: str) -> None:
    world.server.faults.add(Fault(**{**fields_of(FAULTS[kind][0]), "times": 9}))  # type: ignore[arg-type]

    assert world.fault(lambda: ACTS[name](world)).kind is ForgeFaultKind.UNREACHABLE


@on()
@pytest.mark.parametrize("name", ["find", "open", "ready", "request", "issues", "issue", "close"])
@pytest.mark.parametrize("kind", ["page", "half", "cut"])
def test_an_answer_that_cannot_be_read_is_a_fault(world: World, name: str, kind: str) -> None:
    fault, troubles = FAULTS[kind]
    world.server.faults.add(Fault(**{**fields_of(fault), "times": 9}))  # type: ignore[arg-type]

    assert world.fault(lambda: ACTS[name](world)).kind in troubles


@on()
@pytest.mark.parametrize("name", ["open", "merge", "close"])
def test_an_act_that_is_never_answered_ends(world: World, name: str) -> None:
    world.patience = SOON
    world.server.faults.add(Fault(is_silent=True, times=9))

    assert world.fault(lambda: ACTS[name](world)).kind is ForgeFaultKind.UNREACHABLE


@on("own token")
def test_the_token_is_in_no_message(world: World) -> None:
    token = world.state.token
    for name, act in ACTS.items():
        world.server.faults.add(
            Fault(status=422, headers=JSON, body=f'{{"message": "no: {token}"}}'.encode(), times=9)
        )
        assert token not in str(world.fault(lambda act=act: act(world))), name
        world.server.faults.clear()
