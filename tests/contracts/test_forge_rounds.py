"""What the next agent is told of a review on a forge: the same on every forge, whenever it was polled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from remand.app.events.task_folds import task_events
from remand.app.forge.poll import Poller, PollResult
from remand.app.forge.review_import import Accounts, ReviewImporter
from remand.app.prompts import render_prompt
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Member, Role, Team
from remand.domain.events.event import Event
from remand.domain.events.reviews import Finding, ReviewCommented, ReviewRejected, ReviewRetracted
from remand.domain.forge import ReviewState
from remand.domain.instant import add_seconds
from remand.domain.policy import Policy
from remand.domain.task import Status, Task
from tests.contracts.forge_adapters import JSON, SETUPS, Setup, World, on, opened
from tests.support import builders
from tests.support.forge.server import Fault
from tests.support.forge.state import NewLineComment, StoredReview
from tests.support.forge_fakes import MemoryNotes

NO, YES, COMMENT = ReviewState.CHANGES_REQUESTED, ReviewState.APPROVED, ReviewState.COMMENTED
Step = Callable[["Reviewed"], object]


class Reviewed:
    """A ledger with a task whose work is reviewed as a pull request, and who reviews it."""

    def __init__(self, forge: World) -> None:
        self.world, kind = forge, forge.kind
        names = ("lead", "tess", "owner", "alice", "stranger")
        self.lead, self.tess, self.owner, self.alice, self.stranger = (
            forge.state.person(name, "write") for name in names
        )
        team = Team(
            (
                Member(name="Alice", accounts=(f"{kind}:alice",)),
                Member(name="Bob"),
                Member(name="Carol"),
                Member(name="Lead", roles=(Role.LEAD,), accounts=(f"{kind}:lead",)),
                Member(name="Tess", roles=(Role.TESTER,), accounts=(f"{kind}:tess",), paths=("tests/**",)),
                Member(name="owner", roles=(Role.USER,), aliases=("user",), accounts=(f"{kind}:owner",)),
            )
        )
        rules = Rules(team=team, gates=(), policy=Policy(escalate_after_reviews=9))
        self.ledger = builders.FakeLedger(rules=rules)
        self.notes = MemoryNotes()
        self.pull = forge.pull
        self.task_id = self.ledger.add()
        self.hand_in("Alice", "first")

    @property
    def state(self):  # type: ignore[no-untyped-def]
        return self.world.state

    @property
    def task(self) -> Task:
        return self.ledger.task(self.task_id)

    def claim(self, agent: str = "Bob") -> None:
        self.ledger.claim(self.task_id, agent)

    def read(self, agent: str = "Bob") -> None:
        self.ledger.ask(c.FetchFeedback(task_id=self.task_id, agent=agent), agent)

    def hand_in(self, agent: str, commit: str) -> None:
        """An agent claims, reads and hands in; the pull request has the commit as its head."""
        self.ledger.clock.time = max(self.ledger.clock.time, self.state.now)
        head = self.ledger.repository.add(commit)
        if self.pull.head != head:
            self.state.push(self.pull, head)
        self.claim(agent)
        self.read(agent)
        self.submit(agent, commit)
        self.state.now = add_seconds(self.ledger.clock.now(), 2)

    def submit(self, agent: str, commit: str) -> None:
        ask = c.SubmitTask(task_id=self.task_id, agent=agent, commit=commit, pr=self.pull.number)
        self.ledger.ask(ask, agent)

    def review(self, who, state: ReviewState, text: str = "", *said: NewLineComment) -> StoredReview:  # type: ignore[no-untyped-def]
        return self.state.review(self.pull, who, state, text, *said)

    def line(self, who, text: str, path: str = "src/app.py", line: int = 1):  # type: ignore[no-untyped-def]
        """A single comment on a line; returns its thread."""
        self.review(who, COMMENT, "", NewLineComment(text=text, path=path, line=line))
        return self.pull.threads[-1]

    def poll(self) -> PollResult:
        accounts = Accounts(self.ledger.rules.team, self.world.forge, self.notes)
        taking = ReviewImporter(
            self.ledger.ledger,
            accounts,
            self.notes,
            kind=self.world.kind,
            home="https://example.org/octo/demo",
            run_command=lambda *_: "",
        )
        return Poller(self.ledger.ledger, self.world.forge, self.notes, taking.import_pull_request).poll()

    def play(self, *steps: Step, is_polled_often: bool) -> str:
        """Lets things happen on the forge, polled after each of them or once at the end; returns the prompt."""
        for step in steps:
            step(self)
            if is_polled_often:
                assert self.poll().trouble == ""
        assert self.poll().trouble == ""
        self.poll()
        return self.feedback()

    def feedback(self) -> str:
        task = self.task
        with self.ledger.store.read() as view:
            return render_prompt(task, task_events(view, self.task_id))

    def events(self, kind: type[Event]) -> list[Event]:
        with self.ledger.store.read() as view:
            return [event for event in task_events(view, self.task_id) if isinstance(event, kind)]


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with opened(request.param) as made:
        yield made


@pytest.fixture
def reviewed(world: World) -> Reviewed:
    return Reviewed(world)


often = pytest.mark.parametrize("often", [False, True], ids=["polled-once", "polled-often"])


def marked(feedback: str, text: str) -> str:
    """The line above a finding: its place and weight."""
    lines = feedback.splitlines()
    return lines[lines.index(text) - 1]


# ------------------------------------------------------------------------------- all that was said counts


@on()
@often
def test_single_comments_before_the_request_for_changes_are_its_findings(
    reviewed: Reviewed, often: bool
) -> None:
    told = reviewed.play(
        lambda r: r.line(r.lead, "BLOCKING: never snaps", "src/a.tsx", 11),
        lambda r: r.line(r.lead, "Computed three times", "src/b.tsx", 22),
        lambda r: r.line(r.lead, "nit: spacing", "src/b.tsx", 30),
        lambda r: r.review(r.lead, NO, "See my comments."),
        is_polled_often=often,
    )

    assert marked(told, "never snaps") == "**src/a.tsx:11** (BLOCKING)"
    assert marked(told, "Computed three times") == "**src/b.tsx:22** (BLOCKING)"
    assert marked(told, "nit: spacing") == "**src/b.tsx:30** (suggestion)"
    assert marked(told, "See my comments.") == "(suggestion)"
    assert (reviewed.task.status, reviewed.task.reviews.rejection_count) == (Status.REJECTED, 1)


@on()
@often
def test_both_of_two_requests_for_changes_are_told(reviewed: Reviewed, often: bool) -> None:
    told = reviewed.play(
        lambda r: r.review(r.lead, NO, "BLOCKING: one", NewLineComment(text="First place", line=3)),
        lambda r: r.review(r.lead, NO, "BLOCKING: two", NewLineComment(text="Second place", line=4)),
        is_polled_often=often,
    )

    for text in ("one", "two", "First place", "Second place"):
        assert "(BLOCKING)" in marked(told, text)
        assert told.splitlines().count(text) == 1
    assert reviewed.task.reviews.rejection_count == 1


@on()
@often
def test_a_reviewers_own_replies_stand_in_order_below_what_they_answer(
    reviewed: Reviewed, often: bool
) -> None:
    told = reviewed.play(
        lambda r: r.review(r.lead, NO, "", NewLineComment(text="Never snaps", path="src/a.tsx", line=11)),
        lambda r: r.state.reply(r.pull, r.pull.threads[0], r.stranger, "I disagree"),
        lambda r: r.state.reply(r.pull, r.pull.threads[0], r.lead, "To be clear: use snapResult.pos"),
        lambda r: r.state.reply(r.pull, r.pull.threads[0], r.alice, "Done so already"),
        lambda r: r.state.reply(r.pull, r.pull.threads[0], r.lead, "Everywhere"),
        is_polled_often=often,
    )
    lines = told.splitlines()
    first = lines.index("**src/a.tsx:11** (BLOCKING)")

    assert lines[first + 1 : first + 6] == [
        "Never snaps",
        "Reply from Lead:",
        "To be clear: use snapResult.pos",
        "Reply from Lead:",
        "Everywhere",
    ]
    assert "disagree" not in told
    assert "Done so already" not in told


@on()
@often
def test_another_reviewers_comments_are_told_by_name_and_block_when_they_say_so(
    reviewed: Reviewed, often: bool
) -> None:
    told = reviewed.play(
        lambda r: r.line(r.tess, "BLOCKING: no test of the edge", "tests/test_a.py", 5),
        lambda r: r.line(r.tess, "Rather long", "tests/test_a.py", 9),
        lambda r: r.line(r.tess, "BLOCKING: beyond my paths", "src/app.py", 2),
        lambda r: r.review(r.lead, NO, "Races."),
        is_polled_often=often,
    )

    assert " by Tess" in told
    assert " by Lead" in told
    assert "(BLOCKING)" in marked(told, "no test of the edge")
    assert "(suggestion)" in marked(told, "Rather long")
    assert "(suggestion)" in marked(told, "BLOCKING: beyond my paths")
    assert (reviewed.task.reviews.rejection_count, reviewed.task.people.reviewers) == (1, ("Lead",))


@on()
@often
def test_a_comment_blocks_once_its_reviewer_requests_changes_as_well(reviewed: Reviewed, often: bool) -> None:
    told = reviewed.play(
        lambda r: r.line(r.tess, "The edge has no test", "tests/test_a.py", 5),
        lambda r: r.review(r.lead, NO, "Races."),
        lambda r: r.review(r.tess, NO, "See my comment."),
        is_polled_often=often,
    )

    assert "(BLOCKING)" in marked(told, "The edge has no test")
    assert told.splitlines().count("The edge has no test") == 1
    assert reviewed.task.reviews.rejection_count == 1


STEPS: tuple[Step, ...] = (
    lambda r: r.line(r.lead, "Never snaps", "src/a.tsx", 11),
    lambda r: r.line(r.tess, "BLOCKING: no test", "tests/test_a.py", 5),
    lambda r: r.review(r.lead, NO, "See my comments.", NewLineComment(text="nit: spacing", line=2)),
    lambda r: r.state.reply(r.pull, r.pull.threads[0], r.lead, "Use snapResult.pos"),
    lambda r: r.line(r.lead, "And here", "src/c.tsx", 3),
    lambda r: r.review(r.lead, NO, "BLOCKING: and the migration"),
    lambda r: r.state.remark(r.pull, r.lead, "The ticket has the details."),
    lambda r: r.review(r.tess, NO, "The suite is red."),
    lambda r: r.state.reply(r.pull, r.pull.threads[1], r.lead, "Only the fast ones"),
)


@pytest.mark.parametrize("setup", SETUPS, ids=[setup.name for setup in SETUPS])
def test_the_prompt_is_the_same_to_the_letter_whenever_it_was_polled(setup: Setup) -> None:
    told = []
    for is_polled_often in (False, True):
        with opened(setup) as world:
            told.append(Reviewed(world).play(*STEPS, is_polled_often=is_polled_often))

    assert told[0] == told[1]
    for text in ("Use snapResult.pos", "The ticket has the details.", "Only the fast ones"):
        assert told[0].splitlines().count(text) == 1


# ------------------------------------------------------------------------------- what comes after the no


@on()
def test_comments_after_the_no_reach_whoever_works_on_it_and_have_to_be_read(reviewed: Reviewed) -> None:
    reviewed.play(
        lambda r: r.review(r.lead, NO, "", NewLineComment(text="Never snaps")), is_polled_often=True
    )
    reviewed.claim()
    reviewed.read()
    reviewed.ledger.repository.add("second")
    reviewed.line(reviewed.lead, "BLOCKING: and the migration is missing", "src/m.py", 4)
    reviewed.state.reply(reviewed.pull, reviewed.pull.threads[0], reviewed.lead, "Use snapResult.pos")
    polled = reviewed.poll()
    refused = reviewed.ledger.refusal(
        c.SubmitTask(task_id=reviewed.task_id, agent="Bob", commit="second"), "Bob"
    )
    told = reviewed.feedback()
    reviewed.read()
    reviewed.submit("Bob", "second")

    assert (polled.comments, refused.code) == (2, "feedback_unread")
    assert marked(told, "and the migration is missing") == "**src/m.py:4** (BLOCKING)"
    assert "Use snapResult.pos" in told
    assert (reviewed.task.status, reviewed.task.reviews.rejection_count) == (Status.PROVISIONAL, 1)


@on()
def test_nothing_is_told_twice_in_another_poll_or_round(reviewed: Reviewed) -> None:
    reviewed.play(
        lambda r: r.line(r.lead, "Never snaps", "src/a.tsx", 11),
        lambda r: r.review(r.lead, NO, "See my comments."),
        is_polled_often=True,
    )
    before = len(reviewed.ledger.events())
    for _ in range(3):
        reviewed.notes.kept.clear()
        reviewed.poll()
    unchanged = len(reviewed.ledger.events())
    reviewed.hand_in("Bob", "second")
    told = reviewed.play(lambda r: r.review(r.lead, NO, "The lock is gone."), is_polled_often=True)
    latest, _, earlier = told.partition("### Earlier rounds")

    assert unchanged == before
    assert reviewed.task.reviews.rejection_count == 2
    assert "The lock is gone." in latest
    assert ("Never snaps" in latest, earlier.count("Never snaps")) == (False, 1)


@on("comment reviews")
def test_comments_on_work_of_before_are_no_findings_of_what_was_handed_in_since(reviewed: Reviewed) -> None:
    reviewed.play(lambda r: r.review(r.lead, NO, "Races."), is_polled_often=True)
    reviewed.hand_in("Bob", "second")
    old = reviewed.line(reviewed.lead, "About the old work", "src/old.py", 3)
    reviewed.pull.reviews[-1].commit = reviewed.ledger.repository.add("first")
    old.comments[0].original_commit = reviewed.pull.reviews[-1].commit
    told = reviewed.play(lambda r: r.review(r.lead, NO, "Leaks."), is_polled_often=False)
    latest, _, earlier = told.partition("### Earlier rounds")

    assert ("About the old work" in latest, "About the old work" in earlier) == (False, True)


@on()
def test_a_comment_that_was_polled_too_late_for_its_round_is_no_finding_of_the_next(
    reviewed: Reviewed,
) -> None:
    reviewed.play(lambda r: r.review(r.lead, NO, "Races."), is_polled_often=True)
    reviewed.line(reviewed.lead, "About the old work", "src/old.py", 3)
    reviewed.hand_in("Bob", "second")
    told = reviewed.play(lambda r: r.review(r.lead, NO, "Leaks."), is_polled_often=False)
    latest, _, earlier = told.partition("### Earlier rounds")

    assert ("About the old work" in latest, "About the old work" in earlier) == (False, True)


@on()
def test_a_reply_in_an_old_thread_is_about_the_work_handed_in_since(reviewed: Reviewed) -> None:
    reviewed.play(
        lambda r: r.review(r.lead, NO, "", NewLineComment(text="Never snaps", path="src/a.tsx", line=11)),
        is_polled_often=True,
    )
    reviewed.hand_in("Bob", "second")
    told = reviewed.play(
        lambda r: r.state.reply(r.pull, r.pull.threads[0], r.lead, "BLOCKING: still does not"),
        lambda r: r.review(r.lead, NO, "See there."),
        is_polled_often=True,
    )
    latest = told.partition("### Earlier rounds")[0]

    assert marked(latest, "still does not") == "**src/a.tsx:11** (BLOCKING)"
    assert "Never snaps" not in latest


# ------------------------------------------------------------------------------------- whose word reaches


@on()
@often
def test_strangers_agents_and_the_account_that_opened_it_are_not_told(
    reviewed: Reviewed, often: bool
) -> None:
    by = (
        lambda r: r.stranger,
        lambda r: r.alice,
        lambda r: r.world.bob,
    )
    steps = [lambda r, who=who: r.line(who(r), "BLOCKING: hear me", "src/a.py", 1) for who in by]
    steps += [lambda r, who=who: r.state.remark(r.pull, who(r), "BLOCKING: hear me") for who in by]
    told = reviewed.play(*steps, lambda r: r.review(r.lead, NO, "Races."), is_polled_often=often)

    assert "hear me" not in told


@on()
def test_a_reviewer_who_may_not_write_any_more_is_not_told(reviewed: Reviewed) -> None:
    reviewed.tess.permission = "read"
    told = reviewed.play(
        lambda r: r.line(r.tess, "BLOCKING: no test", "tests/test_a.py", 5),
        lambda r: r.review(r.lead, NO, "Races."),
        is_polled_often=True,
    )

    assert "no test" not in told


@on("dismissal")
def test_what_was_dismissed_before_it_was_seen_is_not_told(reviewed: Reviewed) -> None:
    given = reviewed.review(reviewed.tess, NO, "Slow.", NewLineComment(text="Here", path="tests/a.py"))
    reviewed.state.dismiss(reviewed.pull, given)
    told = reviewed.play(lambda r: r.review(r.lead, NO, "Races."), is_polled_often=False)

    assert "Slow." not in told
    assert "Here" not in told


@on("resolution")
def test_who_resolves_a_thread_takes_nothing_out_of_the_prompt(reviewed: Reviewed) -> None:
    reviewed.line(reviewed.lead, "Never snaps", "src/a.tsx", 11)
    reviewed.state.resolve(reviewed.pull.threads[0])
    told = reviewed.play(lambda r: r.review(r.lead, NO, "See my comment."), is_polled_often=False)

    assert marked(told, "Never snaps") == "**src/a.tsx:11** (BLOCKING)"


@on()
def test_what_was_told_stays_as_it_was_when_it_is_edited(reviewed: Reviewed) -> None:
    reviewed.play(
        lambda r: r.review(r.lead, NO, "", NewLineComment(text="Never snaps")), is_polled_often=True
    )
    reviewed.state.edit(reviewed.pull.comments[0], "nit: fine")
    told = reviewed.play(lambda r: r.state.remark(r.pull, r.lead, "The ticket has it."), is_polled_often=True)

    assert (told.count("Never snaps"), "nit: fine" in told, "The ticket has it." in told) == (1, False, True)


@on()
def test_comments_alone_send_nothing_back(reviewed: Reviewed) -> None:
    reviewed.play(
        lambda r: r.line(r.lead, "BLOCKING: never snaps"),
        lambda r: r.state.remark(r.pull, r.lead, "BLOCKING: no"),
        is_polled_often=True,
    )

    assert (reviewed.task.status, reviewed.task.reviews.feedback) == (Status.PROVISIONAL, 0)


# ------------------------------------------------------------------------- what its reviewer takes back


@on("dismissal")
@often
def test_who_dismisses_an_own_rejection_on_the_forge_retracts_it_and_may_approve(
    reviewed: Reviewed, often: bool
) -> None:
    given = reviewed.review(reviewed.lead, NO, "Races.")
    reviewed.poll()
    assert (reviewed.task.status, reviewed.task.is_locked_out("Alice")) == (Status.REJECTED, True)
    reviewed.state.dismiss(reviewed.pull, given, reviewed.lead)
    if often:
        polled = reviewed.poll()
        assert (polled.retractions, reviewed.poll().retractions) == (1, 0)
        assert (reviewed.task.status, reviewed.task.is_locked_out("Alice")) == (Status.PROVISIONAL, False)
        assert len(reviewed.task.standing_rounds) == 0
    reviewed.review(reviewed.lead, YES, "Fine after all.")
    reviewed.poll()

    (retracted,) = reviewed.events(ReviewRetracted)
    assert isinstance(retracted, ReviewRetracted)
    assert (retracted.reviewer, reviewed.task.status) == ("Lead", Status.DONE)


@on("dismissal")
@pytest.mark.parametrize("who", ["owner", "tess", ""], ids=["user", "tester", "push"])
def test_a_dismissal_by_others_or_by_a_push_retracts_nothing(reviewed: Reviewed, who: str) -> None:
    given = reviewed.review(reviewed.lead, NO, "Races.")
    reviewed.poll()
    reviewed.state.dismiss(reviewed.pull, given, getattr(reviewed, who) if who else None)
    polled = reviewed.poll()

    assert (polled.retractions, reviewed.task.status) == (0, Status.REJECTED)
    assert reviewed.task.is_locked_out("Alice")


@on("dismissal")
def test_a_dismissal_whose_author_the_token_may_not_know_stops_no_poll(reviewed: Reviewed) -> None:
    given = reviewed.review(reviewed.lead, NO, "Races.")
    reviewed.poll()
    reviewed.state.dismiss(reviewed.pull, given, reviewed.lead)
    for route in ("events", "timeline"):
        reviewed.world.server.faults.add(
            Fault(where=f"/issues/{reviewed.pull.number}/{route}", status=404, headers=JSON, body=b"{}")
        )
    polled = reviewed.poll()

    assert (polled.trouble, polled.read, reviewed.task.status) == ("", 1, Status.REJECTED)


# ------------------------------------------------------------------------- what was seen and does not count


@on()
def test_a_request_for_changes_with_nits_alone_is_noted_until_something_blocks(reviewed: Reviewed) -> None:
    reviewed.review(reviewed.lead, NO, "", NewLineComment(text="nit: spacing"))
    noted = reviewed.poll()
    again = reviewed.poll()
    before = reviewed.task.status
    reviewed.line(reviewed.lead, "BLOCKING: never snaps", "src/a.tsx", 11)
    polled = reviewed.poll()

    assert [(one.reviewer, one.task_id) for one in noted.not_counted] == [("Lead", reviewed.task_id)]
    assert "blocking" in noted.not_counted[0].why
    assert (noted.noted, again.noted, before) == (1, 0, Status.PROVISIONAL)
    assert (polled.rejections, reviewed.task.status) == (1, Status.REJECTED)
    assert "never snaps" in reviewed.feedback()


@on()
def test_an_approval_that_the_tasks_branch_kept_from_counting_counts_on_the_right_branch(
    reviewed: Reviewed,
) -> None:
    repository, task_id = reviewed.ledger.repository, reviewed.task_id
    repository.add("elsewhere")
    repository.commits["refs/heads/task-42"] = repository.commits["elsewhere"]
    reviewed.ledger.ask(c.EditTask(task_id=task_id, branch="task-42"))
    reviewed.review(reviewed.lead, YES)
    noted = reviewed.poll()
    reviewed.ledger.ask(c.EditTask(task_id=task_id, branch="fix"))
    polled = reviewed.poll()

    assert (noted.approvals, "task-42" in noted.not_counted[0].why) == (0, True)
    assert (polled.approvals, reviewed.task.status) == (1, Status.DONE)


@on()
def test_an_approval_of_rejected_work_is_said_not_to_count(reviewed: Reviewed) -> None:
    reviewed.review(reviewed.lead, NO, "Races.")
    reviewed.poll()
    reviewed.review(reviewed.lead, YES, "Fine after all.")
    polled = reviewed.poll()

    assert (reviewed.task.status, polled.approvals) == (Status.REJECTED, 0)
    assert f"remand review retract {reviewed.task_id}" in polled.not_counted[0].why


@on()
@often
def test_a_command_to_remand_is_no_feedback(reviewed: Reviewed, often: bool) -> None:
    told = reviewed.play(
        lambda r: r.review(r.lead, NO, "Races."),
        lambda r: r.state.remark(r.pull, r.owner, f"@remand Why is Alice locked out of {r.task_id}?"),
        is_polled_often=often,
    )

    assert "@remand" not in told


@on()
def test_a_rejection_given_here_takes_the_comments_on_the_forge_along(reviewed: Reviewed) -> None:
    reviewed.line(reviewed.lead, "BLOCKING: never snaps", "src/a.tsx", 11)
    findings = (Finding(text="Read my comments"),)
    ask = c.RejectReview(task_id=reviewed.task_id, commit="first", findings=findings)
    reviewed.ledger.ask(ask, "Lead")
    told = reviewed.play(is_polled_often=False)

    assert marked(told, "never snaps") == "**src/a.tsx:11** (BLOCKING)"
    assert reviewed.task.reviews.rejection_count == 1


@on()
def test_with_its_rejection_a_reviewer_takes_back_what_it_commented(reviewed: Reviewed) -> None:
    reviewed.play(
        lambda r: r.review(r.lead, NO, "Races."),
        lambda r: r.line(r.lead, "And here", "src/c.tsx", 3),
        lambda r: r.review(r.tess, NO, "No test."),
        is_polled_often=True,
    )
    reviewed.ledger.ask(c.RetractReview(task_id=reviewed.task_id, reason="My mistake"), "Lead")
    told = reviewed.feedback()

    assert ("No test." in told, "Races." in told, "And here" in told) == (True, False, False)


@on()
@often
def test_more_comments_than_one_review_takes_are_all_told(reviewed: Reviewed, often: bool) -> None:
    said = [NewLineComment(text=f"Finding number {number}", line=number + 1) for number in range(320)]
    reviewed.play(lambda r: r.review(r.lead, NO, "", *said), is_polled_often=often)
    events = [*reviewed.events(ReviewRejected), *reviewed.events(ReviewCommented)]
    told = [one.text for event in events for one in event.findings]  # type: ignore[attr-defined]

    assert sorted(told) == sorted(one.text for one in said)
