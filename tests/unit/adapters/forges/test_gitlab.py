from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from remand.adapters.forges.gitlab import GitLab, escape_commands
from remand.adapters.forges.transport import Transport
from remand.app.errors import UsageError
from remand.app.forge.ports import CheckState, ForgeFault, ForgeFaultKind
from remand.domain.forge import Account, ForgeComment, PullState, ReviewState
from remand.testing.fakes import FakeClock
from tests.support.forge.gitlab import GitLabDialect
from tests.support.forge.state import TOKEN, ForgeState, NewLineComment
from tests.unit.adapters.forges.memory_transport import Notes, Spoken, Table, reply

HEAD, OLD = "a" * 40, "b" * 40
PROJECT = "/api/v4/projects/group%2Fsub%2Fdemo"
PLACE = f"{PROJECT}/merge_requests/3"
ANN = {
    "id": 7,
    "username": "ann",
    "name": "Ann",
    "state": "active",
    "web_url": "https://gitlab.example.org/ann",
}
BOB = {
    "id": 8,
    "username": "bob",
    "name": "Bob",
    "state": "active",
    "web_url": "https://gitlab.example.org/bob",
}
GHOST = {"id": 9, "username": "ghost", "name": "Ghost User", "state": "active"}
ACCOUNT = Account(id="gitlab:7", login="gitlab:ann")

Json = dict[str, object]
Open = Callable[..., GitLab]


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[GitLab] = []

    def make(carrier: Transport, repository: str = "group/sub/demo") -> GitLab:
        address = "https://gitlab.example.org"
        made.append(
            GitLab(repository, clock=FakeClock(), memory=Notes(), api=address, token=TOKEN, transport=carrier)
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def request(**more: object) -> Json:
    return {
        "id": 31,
        "iid": 3,
        "project_id": 1,
        "title": "Add a button",
        "state": "opened",
        "created_at": "2026-11-15T09:00:00.000Z",
        "updated_at": "2026-11-15T09:30:00.123Z",
        "merged_by": None,
        "merge_user": None,
        "merged_at": None,
        "source_branch": "work",
        "target_branch": "main",
        "author": BOB,
        "sha": HEAD,
        "diff_refs": {"base_sha": "0" * 40, "head_sha": HEAD, "start_sha": "0" * 40},
        "user_notes_count": 1,
        "detailed_merge_status": "mergeable",
        "blocking_discussions_resolved": True,
        "web_url": "https://gitlab.example.org/group/sub/demo/-/merge_requests/3",
        **more,
    }


def version(number: int, time: str, head: str) -> Json:
    return {
        "id": number,
        "head_commit_sha": head,
        "base_commit_sha": "0" * 40,
        "start_commit_sha": "0" * 40,
        "created_at": f"2026-11-15T{time}Z",
        "merge_request_id": 31,
        "state": "collected",
        "real_size": "1",
        "patch_id_sha": None,
    }


def note(number: int, time: str, body: str, author: Json = ANN, **more: object) -> Json:
    return {
        "id": number,
        "type": None,
        "body": body,
        "author": author,
        "created_at": f"2026-11-15T{time}Z",
        "updated_at": f"2026-11-15T{time}Z",
        "system": False,
        "noteable_id": 31,
        "noteable_type": "MergeRequest",
        "resolvable": False,
        **more,
    }


def system(number: int, time: str, body: str, author: Json = ANN) -> Json:
    return alone(note(number, time, body, author, system=True))


def alone(one: Json) -> Json:
    return {"id": f"{one['id']:040}", "individual_note": True, "notes": [one]}


def thread(*notes: Json, head: str = HEAD, line: int | None = 7, resolved: bool = False) -> Json:
    position = {
        "base_sha": "0" * 40,
        "start_sha": "0" * 40,
        "head_sha": head,
        "old_path": "src/app.py",
        "new_path": "src/app.py",
        "position_type": "text",
        "old_line": None,
        "new_line": line,
        "line_range": None,
    }
    placed = [
        {**one, "type": "DiffNote", "resolvable": True, "resolved": resolved, "position": position}
        for one in notes
    ]
    return {"id": f"{notes[0]['id']:040}", "individual_note": False, "notes": placed}


def table(
    *discussions: Json,
    reviewers: tuple[Json, ...] = (),
    approvals: tuple[Json, ...] = (),
    versions: tuple[Json, ...] = (version(2, "09:20:00.000", HEAD), version(1, "09:00:00.000", OLD)),
    **more: object,
) -> Table:
    return Table(
        {
            f"GET {PLACE}": reply(request(**more)),
            f"GET {PLACE}/discussions": reply(discussions, x_next_page=""),
            f"GET {PLACE}/versions": reply(versions, x_next_page=""),
            f"GET {PLACE}/reviewers": reply(reviewers),
            f"GET {PLACE}/approvals": reply({"approved": bool(approvals), "approved_by": approvals}),
        }
    )


def approval(user: Json = ANN, **more: object) -> Json:
    return {"user": user, **more}


def reviewer(state: str, user: Json = ANN) -> Json:
    return {"user": user, "state": state, "created_at": "2026-11-15T09:01:00.000Z"}


# ------------------------------------------------------------------------------------------- reviews from notes


def test_changes_requested_are_a_review_with_the_text_and_threads_before_it(opened: Open) -> None:
    carrier = table(
        thread(note(60, "09:25:00.000", "Leaks.")),
        alone(note(61, "09:29:59.000", "Not yet.")),
        system(62, "09:30:00.000", "requested changes"),
        reviewers=(reviewer("requested_changes"),),
    )
    (found,) = opened(carrier).pull_request(3).reviews

    assert (found.id, found.state, found.author) == (
        "changes_requested-7-62",
        ReviewState.CHANGES_REQUESTED,
        ACCOUNT,
    )
    assert (found.text, found.commit, found.submitted_at) == ("Not yet.", HEAD, "2026-11-15T09:30:00.000000Z")
    assert [(one.id, one.path, one.line, one.text) for one in found.comments] == [
        ("60", "src/app.py", 7, "Leaks.")
    ]


def test_a_text_saved_after_the_note_of_the_system_belongs_to_it(opened: Open) -> None:
    """A quick action is carried out before the note that holds it is saved."""
    carrier = table(
        system(62, "09:30:00.000", "requested changes"), alone(note(63, "09:30:00.400", "Not yet."))
    )
    found = opened(carrier).pull_request(3)

    assert [one.text for one in found.reviews] == ["Not yet."]
    assert found.remarks == ()


def test_what_was_said_at_another_time_or_by_another_is_a_remark(opened: Open) -> None:
    carrier = table(
        alone(note(61, "09:29:00.000", "Will look.")),
        alone(note(62, "09:30:00.000", "Please do.", BOB)),
        system(63, "09:30:00.000", "requested changes"),
    )
    found = opened(carrier).pull_request(3)

    assert [one.text for one in found.reviews] == [""]
    assert [one.text for one in found.remarks] == ["Will look.", "Please do."]


def test_a_note_that_only_reads_like_the_system_s_is_no_review(opened: Open) -> None:
    carrier = table(
        alone(note(61, "09:30:00.000", "requested changes", BOB)),
        alone(note(62, "09:31:00.000", "approved this merge request", BOB)),
    )
    found = opened(carrier).pull_request(3)

    assert found.reviews == ()
    assert len(found.remarks) == 2


def test_other_notes_of_the_system_are_neither_reviews_nor_remarks(opened: Open) -> None:
    carrier = table(
        system(61, "09:30:00.000", "requested review from @ann", BOB),
        system(62, "09:31:00.000", "added 1 commit\n\n<ul><li>requested changes</li></ul>", BOB),
    )
    found = opened(carrier).pull_request(3)

    assert (found.reviews, found.remarks) == ((), ())


def test_a_review_is_bound_to_the_head_of_its_time_and_stays_so(opened: Open) -> None:
    before = table(
        system(62, "09:10:00.000", "requested changes"), versions=(version(1, "09:00:00.000", OLD),), sha=OLD
    )
    after = table(system(62, "09:10:00.000", "requested changes"))

    assert [opened(one).pull_request(3).reviews[0].commit for one in (before, after)] == [OLD, OLD]


def test_a_head_that_came_back_is_told_from_the_one_between(opened: Open) -> None:
    versions = (
        version(3, "09:30:00.000", OLD),
        version(2, "09:20:00.000", HEAD),
        version(1, "09:00:00.000", OLD),
    )
    notes = [system(60 + at, f"09:{at}:00.000", "requested changes") for at in (10, 25, 35)]
    found = opened(table(*notes, versions=versions)).pull_request(3).reviews

    assert [one.commit for one in found] == [OLD, HEAD, OLD]


@pytest.mark.parametrize(
    "versions",
    [
        (),
        (version(1, "09:40:00.000", OLD),),
        (version(2, "09:30:00.000", HEAD), version(1, "09:00:00.000", OLD)),
        ({**version(1, "09:00:00.000", OLD), "created_at": None},),
        ({**version(1, "09:00:00.000", OLD), "head_commit_sha": None},),
    ],
    ids=["no version", "later versions alone", "pushed in the same moment", "no time", "no head"],
)
def test_a_review_whose_head_cannot_be_told_names_no_commit(opened: Open, versions: tuple[Json, ...]) -> None:
    carrier = table(system(62, "09:30:00.000", "requested changes"), versions=versions)
    (found,) = opened(carrier).pull_request(3).reviews

    assert (found.commit, found.submitted_at) == ("", "2026-11-15T09:30:00.000000Z")


def test_changes_requested_that_no_note_tells_of_have_no_commit_and_no_time(opened: Open) -> None:
    carrier = table(reviewers=(reviewer("requested_changes"), reviewer("reviewed", BOB)))
    (found,) = opened(carrier).pull_request(3).reviews

    assert (found.state, found.commit, found.submitted_at) == (ReviewState.CHANGES_REQUESTED, "", "")
    assert opened(carrier).pull_request(3).reviews == (found,)


@pytest.mark.parametrize("state", ["unreviewed", "review_started", "reviewed"])
def test_a_review_asked_for_again_takes_nothing_back(opened: Open, state: str) -> None:
    """The author of the work may ask for it."""
    carrier = table(system(62, "09:30:00.000", "requested changes"), reviewers=(reviewer(state),))
    found = opened(carrier).pull_request(3).reviews

    assert [one.state for one in found] == [ReviewState.CHANGES_REQUESTED]


def test_an_approval_after_requested_changes_is_the_last_word(opened: Open) -> None:
    carrier = table(
        system(62, "09:30:00.000", "requested changes"),
        system(63, "09:40:00.000", "approved this merge request"),
        approvals=(approval(approved_at="2026-11-15T09:40:00.000Z"),),
    )
    found = opened(carrier).pull_request(3).reviews

    assert [one.state for one in found] == [ReviewState.CHANGES_REQUESTED, ReviewState.APPROVED]


def test_an_approval_that_stands_no_more_is_dismissed(opened: Open) -> None:
    given = system(62, "09:30:00.000", "approved this merge request")
    taken_back = system(63, "09:40:00.000", "unapproved this merge request")
    for carrier in (table(given, taken_back), table(given), table(given, approvals=(approval(BOB),))):
        states = [one.state for one in opened(carrier).pull_request(3).reviews if one.author == ACCOUNT]
        assert states == [ReviewState.DISMISSED]


def test_an_approval_given_again_counts_from_then(opened: Open) -> None:
    carrier = table(
        system(62, "09:10:00.000", "approved this merge request"),
        system(63, "09:30:00.000", "approved this merge request"),
        approvals=(approval(),),
    )
    found = opened(carrier).pull_request(3).reviews

    assert [(one.state, one.commit) for one in found] == [
        (ReviewState.DISMISSED, OLD),
        (ReviewState.APPROVED, HEAD),
    ]


def test_an_approval_that_no_note_tells_of_counts_by_its_time_alone(opened: Open) -> None:
    dated, undated = approval(approved_at="2026-11-15T09:30:00.000Z"), approval(BOB)
    found = opened(table(approvals=(dated, undated))).pull_request(3).reviews

    assert [(one.author and one.author.login, one.commit) for one in found] == [
        ("gitlab:bob", ""),
        ("gitlab:ann", HEAD),
    ]


def test_threads_belong_to_the_opinion_their_author_gave_next(opened: Open) -> None:
    carrier = table(
        thread(note(60, "09:01:00.000", "first round")),
        thread(note(61, "09:02:00.000", "of bob", BOB)),
        system(62, "09:10:00.000", "requested changes"),
        thread(note(63, "09:25:00.000", "second round"), note(64, "09:26:00.000", "Why?", BOB)),
        system(65, "09:30:00.000", "requested changes"),
        thread(note(66, "09:31:00.000", "late")),
        thread(note(67, "09:31:30.000", "late too")),
        thread(note(68, "09:45:00.000", "much later")),
    )
    found = opened(carrier).pull_request(3).reviews

    assert [(one.state, [said.text for said in one.comments]) for one in found] == [
        (ReviewState.COMMENTED, ["of bob"]),
        (ReviewState.CHANGES_REQUESTED, ["first round"]),
        (ReviewState.CHANGES_REQUESTED, ["second round", "Why?"]),
        (ReviewState.COMMENTED, ["late", "late too"]),
        (ReviewState.COMMENTED, ["much later"]),
    ]
    assert [said.is_reply for said in found[2].comments] == [False, True]


def test_a_thread_that_is_resolved_or_whose_line_changed_is_read_as_any_other(opened: Open) -> None:
    carrier = table(
        thread(note(60, "09:25:00.000", "Leaks."), note(61, "09:26:00.000", "Fixed.", BOB), resolved=True),
        thread(note(62, "09:27:00.000", "Slow."), head=OLD, line=9),
        system(65, "09:30:00.000", "requested changes"),
    )
    comments = opened(carrier).pull_request(3).reviews[0].comments

    assert [(one.text, one.line) for one in comments] == [("Leaks.", 7), ("Fixed.", 7), ("Slow.", 9)]


def test_a_comment_on_a_removed_line_or_a_file_is_placed_there(opened: Open) -> None:
    removed, whole = (
        thread(note(60, "09:25:00.000", "Why?")),
        thread(note(61, "09:26:00.000", "Long."), line=None),
    )
    removed["notes"][0]["position"].update(new_line=None, old_line=12)  # type: ignore[index]
    found = opened(table(removed, whole)).pull_request(3).reviews

    assert [(one.path, one.line) for one in found[0].comments] == [("src/app.py", 12), ("src/app.py", 0)]


def test_a_ghost_is_nobody_and_a_project_s_token_is_a_bot(opened: Open) -> None:
    robot = {"id": 10, "username": "project_12_bot_3f2a", "name": "CI"}
    carrier = table(alone(note(60, "09:25:00.000", "x", GHOST)), alone(note(61, "09:26:00.000", "y", robot)))
    found = opened(carrier).pull_request(3).remarks

    assert [one.author and one.author.is_bot for one in found] == [None, True]


def test_every_page_of_notes_is_read(opened: Open) -> None:
    state = ForgeState("group/sub".replace("/", "%2F"), "demo")
    ann, pull = state.person("ann", "write"), state.open(state.viewer)
    for number in range(250):
        state.remark(pull, ann, f"remark {number}")
    said = (NewLineComment(text=f"finding {number}", line=number + 1) for number in range(300))
    state.review(pull, ann, ReviewState.CHANGES_REQUESTED, "Not yet.", *said)
    found = opened(Spoken(GitLabDialect(state))).pull_request(1)

    assert [one.text for one in found.remarks] == [f"remark {number}" for number in range(250)]
    assert [one.text for one in found.reviews[0].comments] == [f"finding {number}" for number in range(300)]


# ------------------------------------------------------------------------------------------- merge requests


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ("opened", PullState.OPEN),
        ("locked", PullState.OPEN),
        ("closed", PullState.CLOSED),
        ("merged", PullState.MERGED),
    ],
)
def test_a_merge_request_is_read_by_its_state(opened: Open, told: str, read: PullState) -> None:
    assert opened(table(state=told)).pull_request(3).state is read


def test_who_merged_is_told_under_either_name(opened: Open) -> None:
    for field in ("merge_user", "merged_by"):
        carrier = table(state="merged", merged_at="2026-11-15T11:00:00.000Z", **{field: ANN})
        found = opened(carrier).pull_request(3)
        assert (found.merged_by, found.merged_at) == (ACCOUNT, "2026-11-15T11:00:00.000000Z")


@pytest.mark.parametrize("repository", ["demo", "group/", "/demo", "group//demo", ""])
def test_a_project_is_named_with_its_group(repository: str) -> None:
    with pytest.raises(UsageError, match="GROUP/NAME"):
        GitLab(repository, clock=FakeClock(), memory=Notes(), transport=Table())


def test_a_hundred_merge_requests_cost_one_request(opened: Open) -> None:
    state = ForgeState("group/sub".replace("/", "%2F"), "demo")
    numbers = [state.open(state.viewer).number for _ in range(230)][-100:]
    carrier = Spoken(GitLabDialect(state))
    forge = opened(carrier)
    first = forge.change_marks(numbers)

    assert (sorted(first), len(carrier.asked)) == (numbers, 1)
    assert forge.change_marks(numbers) == first
    assert (len(carrier.asked), forge.usage.not_modified, forge.usage.points) == (2, 1, 2)


# ------------------------------------------------------------------------------------------- who may write


@pytest.mark.parametrize(
    ("level", "state", "may"),
    [
        (10, "active", False),
        (20, "active", False),
        (30, "active", True),
        (40, "active", True),
        (50, "active", True),
        (50, "blocked", False),
        (40, "awaiting", False),
    ],
)
def test_who_may_write_is_who_may_push(opened: Open, level: int, state: str, may: bool) -> None:
    member = {**ANN, "access_level": level, "state": state, "expires_at": None}
    carrier = Table({f"GET {PROJECT}/members/all/7": reply(member)})

    assert opened(carrier).may_write(ACCOUNT) is may


def test_a_member_told_for_another_is_not_believed(opened: Open) -> None:
    for told in ({**BOB, "id": 7}, {**BOB, "username": "ann"}):
        carrier = Table({f"GET {PROJECT}/members/all/7": reply({**told, "access_level": 50})})
        assert not opened(carrier).may_write(ACCOUNT)


# ------------------------------------------------------------------------------------------- what is left

COMMANDS = [
    "/merge",
    "ok\n/approve",
    "ok\r\n/merge",
    "ok\n\r/merge",
    "  /merge",
    "\t/close",
    "\n\n/assign me",
]


@pytest.mark.parametrize("text", COMMANDS)
def test_no_text_that_is_left_commands_gitlab(opened: Open, text: str) -> None:
    carrier = Table({f"POST {PLACE}/notes": reply(note(70, "10:00:00.000", "x"), 201)})
    opened(carrier).comment(3, text)

    lines = str(carrier.asked[0].data["body"]).replace("\r", "").split("\n")
    assert not any(line.lstrip().startswith("/") for line in lines)


def test_a_slash_within_a_line_stays(opened: Open) -> None:
    assert escape_commands("see src/app.py and /etc/hosts") == "see src/app.py and /etc/hosts"


def test_a_reviewer_s_text_cannot_merge_the_work_it_is_about(opened: Open) -> None:
    state = ForgeState("group/sub".replace("/", "%2F"), "demo")
    pull = state.open(state.person("bob", "write"))
    comments = [
        ForgeComment(id="", text="Hm.\n/merge", path="src/app.py", line=3),
        ForgeComment(id="", text="/merge"),
    ]
    left = opened(Spoken(GitLabDialect(state))).request_changes(1, pull.head, "No.\n/merge", comments)

    assert (left, pull.state) == (ReviewState.CHANGES_REQUESTED, PullState.OPEN)
    assert [one.text for one in pull.comments] == ["Hm.\n/merge"]


def test_threads_are_begun_at_lines_of_the_head_alone(opened: Open) -> None:
    carrier = table(reviewers=(reviewer("requested_changes"),))
    carrier.answers[f"POST {PLACE}/discussions"] = reply({"id": "x"}, 201)
    carrier.answers[f"POST {PLACE}/notes"] = reply(note(70, "10:00:00.000", "No."), 201)
    comment = ForgeComment(id="", text="Leaks.", path="src/app.py", line=4)
    forge = opened(carrier)

    assert forge.request_changes(3, HEAD, "No.", [comment]) is ReviewState.CHANGES_REQUESTED
    assert forge.request_changes(3, OLD, "No.", [comment]) is ReviewState.CHANGES_REQUESTED
    begun = [asked.data for asked in carrier.asked if asked.path.endswith("/discussions")]
    assert begun == [
        {
            "body": "Leaks.",
            "position": {
                "position_type": "text",
                "base_sha": "0" * 40,
                "start_sha": "0" * 40,
                "head_sha": HEAD,
                "old_path": "src/app.py",
                "new_path": "src/app.py",
                "new_line": 4,
            },
        }
    ]
    notes = [str(asked.data["body"]) for asked in carrier.asked if asked.path.endswith("/notes")]
    assert ["src/app.py:4" in text for text in notes] == [False, True]
    assert all(text.endswith("\n/submit_review requested_changes") for text in notes)


@pytest.mark.parametrize("reviewers", [(), (reviewer("unreviewed"),), (reviewer("requested_changes", BOB),)])
def test_whoever_is_no_reviewer_leaves_a_comment(opened: Open, reviewers: tuple[Json, ...]) -> None:
    carrier = table(reviewers=reviewers)
    carrier.answers[f"POST {PLACE}/notes"] = reply(note(70, "10:00:00.000", "No."), 201)

    assert opened(carrier).request_changes(3, HEAD, "No.", []) is ReviewState.COMMENTED


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (CheckState.PENDING, "pending"),
        (CheckState.SUCCESS, "success"),
        (CheckState.FAILURE, "failed"),
        (CheckState.ERROR, "canceled"),
    ],
)
def test_a_status_is_left_in_gitlab_s_words(opened: Open, state: CheckState, word: str) -> None:
    carrier = Table({f"POST {PROJECT}/statuses/{HEAD}": reply({"id": 1}, 201)})
    opened(carrier).set_status(HEAD, state, "why")

    assert carrier.asked[0].data == {"name": "remand", "state": word, "description": "why"}


def test_a_status_that_already_says_so_is_no_fault(opened: Open) -> None:
    why = 'Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via "enqueue")'
    carrier = Table({f"POST {PROJECT}/statuses/{HEAD}": reply({"message": why}, 400)})
    forge = opened(carrier)
    forge.set_status(HEAD, CheckState.PENDING, "")

    with pytest.raises(ForgeFault) as raised:
        forge.set_status(HEAD, CheckState.SUCCESS, "")
    assert raised.value.kind is ForgeFaultKind.REFUSED


@pytest.mark.parametrize("path", ["", "/approvals", "/discussions", "/versions", "/reviewers"])
def test_an_answer_of_another_shape_is_a_fault_of_the_whole(opened: Open, path: str) -> None:
    carrier = table(system(62, "09:30:00.000", "requested changes"))
    carrier.answers[f"GET {PLACE}{path}"] = reply({"data": 7})
    with pytest.raises(ForgeFault) as raised:
        opened(carrier).pull_request(3)

    assert raised.value.kind is ForgeFaultKind.GARBLED
