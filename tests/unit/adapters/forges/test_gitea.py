from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from remand.adapters.forges.gitea import Gitea
from remand.adapters.forges.transport import Transport
from remand.app.errors import UsageError
from remand.app.forge.ports import CachedAnswer, CheckState, ForgeFault, ForgeFaultKind
from remand.domain.forge import Account, ForgeComment, PullState, ReviewState
from remand.testing.fakes import FakeClock
from tests.support.forge.gitea import GiteaDialect
from tests.support.forge.state import TOKEN, ForgeState, StoredPull
from tests.unit.adapters.forges.memory_transport import Notes, Spoken, Table, reply

HEAD, OLD = "a" * 40, "b" * 40
PLACE = "/api/v1/repos/octo/demo"
ANN = {"id": 7, "login": "ann", "login_name": "", "full_name": "Ann", "email": "ann@example.org"}
BOB = {"id": 8, "login": "bob", "login_name": "", "full_name": "Bob", "email": "bob@example.org"}
GHOST = {"id": -1, "login": "Ghost", "full_name": "", "email": ""}

Open = Callable[..., Gitea]


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[Gitea] = []

    def make(carrier: Transport, memory: Notes | None = None, api: str = "https://git.example.org") -> Gitea:
        made.append(
            Gitea(
                "octo/demo",
                clock=FakeClock(),
                memory=memory or Notes(),
                api=api,
                token=TOKEN,
                transport=carrier,
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def pull(**more: object) -> dict[str, object]:
    return {
        "id": 31,
        "number": 3,
        "user": BOB,
        "title": "Add a button",
        "state": "open",
        "comments": 1,
        "html_url": "https://git.example.org/octo/demo/pulls/3",
        "merged": False,
        "merged_at": None,
        "merged_by": None,
        "head": {"label": "work", "ref": "work", "sha": HEAD, "repo_id": 1, "repo": {"id": 1}},
        "created_at": "2026-11-15T09:00:00Z",
        "updated_at": "2026-11-15T10:00:00+01:00",
        **more,
    }


def review(number: int, state: str, **more: object) -> dict[str, object]:
    return {
        "id": number,
        "user": ANN,
        "team": None,
        "state": state,
        "body": "",
        "commit_id": HEAD,
        "stale": False,
        "official": True,
        "dismissed": False,
        "comments_count": 0,
        "submitted_at": "2026-11-15T09:30:00Z",
        "updated_at": "2026-11-15T09:30:00Z",
        "html_url": f"https://git.example.org/octo/demo/pulls/3#issuecomment-{number}",
        **more,
    }


def line_comment(number: int, **more: object) -> dict[str, object]:
    return {
        "id": number,
        "body": "Leaks.",
        "user": ANN,
        "resolver": None,
        "pull_request_review_id": 50,
        "created_at": "2026-11-15T09:20:00Z",
        "updated_at": "2026-11-15T09:20:00Z",
        "path": "src/app.py",
        "commit_id": HEAD,
        "original_commit_id": "",
        "diff_hunk": "@@ -1 +1 @@",
        "position": 7,
        "original_position": 0,
        **more,
    }


def table(reviews: list[dict[str, object]], comments: list[dict[str, object]] | None = None) -> Table:
    return Table(
        {
            f"GET {PLACE}/pulls/3": reply(pull()),
            f"GET {PLACE}/pulls/3/reviews": reply(reviews, x_total_count=str(len(reviews))),
            f"GET {PLACE}/pulls/3/reviews/50/comments": reply(comments or []),
            f"GET {PLACE}/issues/3/comments": reply([]),
        }
    )


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("APPROVED", ReviewState.APPROVED),
        ("COMMENT", ReviewState.COMMENTED),
        ("REQUEST_CHANGES", ReviewState.CHANGES_REQUESTED),
    ],
)
def test_a_review_is_read_by_its_state(opened: Open, given: str, read: ReviewState) -> None:
    found = opened(table([review(50, given)])).pull_request(3)
    assert [one.state for one in found.reviews] == [read]


@pytest.mark.parametrize("state", ["REQUEST_REVIEW", "PENDING", "", "SOMETHING_NEW"])
def test_what_is_no_review_yet_is_left_out(opened: Open, state: str) -> None:
    assert opened(table([review(50, state)])).pull_request(3).reviews == ()


def test_a_dismissed_review_says_only_that(opened: Open) -> None:
    carrier = table([review(50, "REQUEST_CHANGES", dismissed=True), review(51, "APPROVED", dismissed=True)])
    found = opened(carrier).pull_request(3)
    assert [one.state for one in found.reviews] == [ReviewState.DISMISSED, ReviewState.DISMISSED]


def test_a_review_keeps_its_commit_whatever_the_server_calls_stale(opened: Open) -> None:
    found = opened(table([review(50, "APPROVED", commit_id=OLD, stale=True)])).pull_request(3)
    assert (found.head, found.reviews[0].commit) == (HEAD, OLD)


def test_comments_are_asked_for_only_where_there_are_some(opened: Open) -> None:
    carrier = table(
        [review(50, "REQUEST_CHANGES", comments_count=1), review(51, "APPROVED")], [line_comment(60)]
    )
    found = opened(carrier).pull_request(3)

    assert [len(one.comments) for one in found.reviews] == [1, 0]
    assert [asked.path for asked in carrier.asked if asked.path.endswith("/comments")] == [
        f"{PLACE}/issues/3/comments",
        f"{PLACE}/pulls/3/reviews/50/comments",
    ]


def test_comments_are_asked_for_where_a_server_does_not_count_them(opened: Open) -> None:
    carrier = table([{**review(50, "REQUEST_CHANGES"), "comments_count": None}], [line_comment(60)])

    assert len(opened(carrier).pull_request(3).reviews[0].comments) == 1


def test_a_comment_on_a_removed_line_is_on_the_line_of_the_old_file(opened: Open) -> None:
    comments = [line_comment(60, position=0, original_position=12)]
    found = opened(table([review(50, "COMMENT", comments_count=1)], comments)).pull_request(3)
    assert found.reviews[0].comments[0].line == 12


def test_answers_in_a_thread_are_replies(opened: Open) -> None:
    comments = [
        line_comment(62, user=BOB, created_at="2026-11-15T09:40:00Z"),
        line_comment(60, resolver=BOB),
        line_comment(63, created_at="2026-11-15T09:50:00Z"),
        line_comment(61, position=9),
    ]
    found = opened(table([review(50, "REQUEST_CHANGES", comments_count=4)], comments)).pull_request(3)

    replies = [(one.id, one.reply_to) for one in found.reviews[0].comments]
    assert replies == [("60", ""), ("61", ""), ("62", "60"), ("63", "60")]


def test_two_findings_of_one_review_on_one_line_are_both_findings(opened: Open) -> None:
    comments = [line_comment(60, resolver=BOB), line_comment(61, body="And slow.")]
    found = opened(table([review(50, "REQUEST_CHANGES", comments_count=2)], comments)).pull_request(3)

    assert [one.is_reply for one in found.reviews[0].comments] == [False, False]


def test_a_ghost_is_nobody_and_the_server_s_own_accounts_are_bots(opened: Open) -> None:
    robot = {"id": -2, "login": "gitea-actions"}
    found = opened(
        table([review(50, "COMMENT", user=GHOST), review(51, "COMMENT", user=robot)])
    ).pull_request(3)

    assert [one.author for one in found.reviews] == [
        None,
        Account(id="gitea:-2", login="gitea:gitea-actions", is_bot=True),
    ]


def test_a_team_that_is_asked_to_review_is_no_review(opened: Open) -> None:
    asked = review(50, "REQUEST_REVIEW", user=None, team={"id": 1, "name": "core"})
    assert opened(table([asked])).pull_request(3).reviews == ()


def test_a_merged_pull_request_is_closed_there_and_merged_here(opened: Open) -> None:
    carrier = table([])
    carrier.answers[f"GET {PLACE}/pulls/3"] = reply(
        pull(state="closed", merged=True, merged_by=ANN, merged_at="2026-11-15T11:00:00Z")
    )
    found = opened(carrier).pull_request(3)

    assert (found.state, found.merged_at) == (PullState.MERGED, "2026-11-15T11:00:00.000000Z")
    assert found.merged_by == Account(id="gitea:7", login="gitea:ann")


def test_the_api_is_found_below_the_server_s_address(opened: Open) -> None:
    for api in ("https://git.example.org", "https://git.example.org/", "https://git.example.org/api/v1/"):
        carrier = table([])
        opened(carrier, api=api).pull_request(3)
        assert carrier.asked[0].path == f"{PLACE}/pulls/3"


@pytest.mark.parametrize("repository", ["demo", "octo/", "/demo", "octo/demo/more", ""])
def test_a_repository_has_an_owner_and_a_name(repository: str) -> None:
    with pytest.raises(UsageError, match="OWNER/NAME"):
        Gitea(repository, clock=FakeClock(), memory=Notes(), api="https://git.example.org", transport=Table())


# ------------------------------------------------------------------------------------------- who may write


@pytest.mark.parametrize(
    ("permission", "may"),
    [("none", False), ("read", False), ("write", True), ("admin", True), ("owner", True)],
)
def test_who_may_write_is_what_the_server_says(opened: Open, permission: str, may: bool) -> None:
    told = {"permission": permission, "role_name": permission, "user": ANN}
    carrier = Table({f"GET {PLACE}/collaborators/ann/permission": reply(told)})

    assert opened(carrier).may_write(Account(id="gitea:7", login="gitea:ann")) is may
    assert not opened(carrier).may_write(Account(id="gitea:9", login="gitea:ann"))


def test_a_token_that_may_not_ask_for_permissions_is_a_fault(opened: Open) -> None:
    why = "Only admins can query all permissions, repo admins can query all repo permissions"
    carrier = Table({f"GET {PLACE}/collaborators/ann/permission": reply({"message": why}, 403)})
    with pytest.raises(ForgeFault) as raised:
        opened(carrier).may_write(Account(id="gitea:7", login="gitea:ann"))

    assert raised.value.kind is ForgeFaultKind.DENIED
    assert "repo admins" in str(raised.value)


# ------------------------------------------------------------------------------------------------ glancing


def opened_pulls(state: ForgeState, count: int) -> list[StoredPull]:
    return [state.open(state.viewer) for _ in range(count)]


def test_a_hundred_pull_requests_that_did_not_change_cost_one_request(opened: Open) -> None:
    state = ForgeState()
    numbers = [pull.number for pull in opened_pulls(state, 300)][-100:]
    carrier, memory = Spoken(GiteaDialect(state)), Notes()
    first = opened(carrier, memory).change_marks(numbers)
    before = len(carrier.asked)

    assert before == 2
    assert opened(carrier, memory).change_marks(numbers) == first
    assert len(carrier.asked) - before == 1


def test_what_changed_long_before_others_did_is_seen_all_the_same(opened: Open) -> None:
    """More has changed since than is read at once: nothing that was known is believed unasked."""
    state = ForgeState()
    pulls = opened_pulls(state, 260)
    carrier, memory = Spoken(GiteaDialect(state)), Notes()
    forge = opened(carrier, memory)
    numbers = [pulls[0].number, pulls[1].number]
    before = forge.change_marks(numbers)
    state.remark(pulls[0], state.viewer, "Hm.")
    for pull in pulls[2:]:
        state.remark(pull, state.viewer, "Hm.")
    after = forge.change_marks(numbers)

    assert after[pulls[0].number] != before[pulls[0].number]
    assert after[pulls[1].number] == before[pulls[1].number]


def test_a_second_change_in_the_same_second_is_seen(opened: Open) -> None:
    state = ForgeState()
    pulls = opened_pulls(state, 120)
    forge = opened(Spoken(GiteaDialect(state)))
    for pull in pulls:
        pull.updated_at = pulls[-1].updated_at
    last = pulls[-1].number
    before = forge.change_marks([last])
    now = pulls[-1].updated_at
    state.remark(pulls[-1], state.viewer, "Hm.")
    pulls[-1].updated_at = now

    assert forge.change_marks([last]) != before


def test_a_memory_that_cannot_be_read_is_no_memory(opened: Open) -> None:
    state = ForgeState()
    number = opened_pulls(state, 60)[0].number
    carrier, memory = Spoken(GiteaDialect(state)), Notes()
    first = opened(carrier, memory).change_marks([number])
    memory.kept = {address: CachedAnswer(etag="", body='{"seen": 7') for address in memory.kept}

    assert opened(carrier, memory).change_marks([number]) == first


# ------------------------------------------------------------------------------------------- what is left


def test_a_review_is_left_at_lines_of_the_new_file(opened: Open) -> None:
    carrier = Table({f"POST {PLACE}/pulls/3/reviews": reply(review(70, "REQUEST_CHANGES"))})
    comments = [
        ForgeComment(id="", text="Leaks.", path="a.py", line=4),
        ForgeComment(id="", text="Whole.", path="b.py"),
    ]

    left = opened(carrier).request_changes(3, HEAD, "", comments)

    assert left is ReviewState.CHANGES_REQUESTED
    assert carrier.asked[0].data == {
        "event": "REQUEST_CHANGES",
        "commit_id": HEAD,
        "body": "`b.py`: Whole.",
        "comments": [{"path": "a.py", "new_position": 4, "body": "Leaks."}],
    }


def test_a_review_always_has_a_text(opened: Open) -> None:
    carrier = Table({f"POST {PLACE}/pulls/3/reviews": reply(review(70, "REQUEST_CHANGES"))})
    opened(carrier).request_changes(3, HEAD, "", [])

    assert str(carrier.asked[0].data["body"]).strip()


def test_a_review_that_is_refused_for_good_is_a_fault(opened: Open) -> None:
    carrier = Table(
        {f"POST {PLACE}/pulls/3/reviews": reply({"message": "review event requires a body"}, 422)}
    )
    with pytest.raises(ForgeFault) as raised:
        opened(carrier).request_changes(3, HEAD, "No.", [ForgeComment(id="", text="x", path="a.py", line=4)])

    assert raised.value.kind is ForgeFaultKind.REFUSED
    assert [asked.data["event"] for asked in carrier.asked] == [
        "REQUEST_CHANGES",
        "REQUEST_CHANGES",
        "COMMENT",
        "COMMENT",
    ]


@pytest.mark.parametrize("state", CheckState)
def test_a_status_is_left_in_the_server_s_words(opened: Open, state: CheckState) -> None:
    carrier = Table({f"POST {PLACE}/statuses/{HEAD}": reply({"id": 1}, 201)})
    opened(carrier).set_status(HEAD, state, "x" * 999)

    sent = carrier.asked[0].data
    assert (sent["context"], sent["state"]) == ("remand", state.value)
    assert len(str(sent["description"])) == 255
