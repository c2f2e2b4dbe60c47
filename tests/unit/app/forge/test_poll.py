"""What is made of the reviews on a forge."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from remand.app.forge.poll import PollResult, forge_wait
from remand.app.forge.ports import CheckState, ForgeFault, ForgeFaultKind
from remand.domain import commands as c
from remand.domain.events.reviews import Finding, ReviewBypassed, ReviewNoted, ReviewRejected
from remand.domain.forge import Account, ForgeComment, PullState, ReviewState
from remand.domain.policy import Policy
from remand.domain.task import Status
from tests.support.forge_fakes import a_review, an_account
from tests.unit.app.forge.review_setup import LEAD, PR, STRANGER, TESTER, Forged, a_remark

NIT = ForgeComment(id="1", text="nit: spacing", author=LEAD, path="a.py", line=1)


@pytest.fixture
def forged() -> Forged:
    return Forged()


class TestRejections:
    def test_changes_requested_by_a_reviewer_reject_and_lock_out(self, forged: Forged) -> None:
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head))
        polled = forged.poll()

        assert (polled.rejections, forged.task.status, forged.task.reviews.rejection_count) == (
            1,
            Status.REJECTED,
            1,
        )
        assert [lockout.agent for lockout in forged.task.people.lockouts] == ["Alice"]

    def test_the_same_review_counts_once_however_often_it_is_seen(self, forged: Forged) -> None:
        review = a_review(LEAD, forged.head)
        forged.forge.put(PR, forged.head, review)
        random = Random(5)
        for number in range(100):
            if random.random() < 0.2:
                forged.notes.kept.clear()
            if number == 30:
                assert forged.hand_in("Bob", "second")
            changed = random.choice(
                [
                    {"text": f"edited {number}"},
                    {"commit": forged.world.repository.add(f"push {number}")},
                    {"submitted_at": f"2026-11-16T10:{number % 60:02}:00.000000Z"},
                    {"state": ReviewState.DISMISSED},
                    {"state": ReviewState.CHANGES_REQUESTED},
                ]
            )
            review = replace(review, **changed)
            head = forged.world.repository.add(f"head {number}") if random.random() < 0.3 else forged.head
            forged.forge.put(PR, head, review)
            forged.poll()

        assert len(forged.named(ReviewRejected)) == forged.task.reviews.rejection_count == 1

    def test_a_review_of_work_handed_in_before_rejects_nothing_of_now(self, forged: Forged) -> None:
        forged.world.ask(
            c.RejectReview(task_id=forged.task_id, commit="first", findings=(Finding(text="No"),)), "Lead"
        )
        forged.hand_in("Bob", "second")
        forged.forge.put(PR, "second", a_review(LEAD, forged.head, id="R2"))
        polled = forged.poll()

        assert (polled.noted, forged.task.status) == (1, Status.PROVISIONAL)
        assert forged.poll().noted == 0

    def test_a_review_of_what_is_not_handed_in_yet_waits_for_it(self, forged: Forged) -> None:
        forged.world.ask(
            c.RejectReview(task_id=forged.task_id, commit="first", findings=(Finding(text="No"),)), "Lead"
        )
        pushed = forged.world.repository.add("second")
        forged.forge.put(
            PR, pushed, a_review(LEAD, pushed, id="R2", submitted_at="2026-11-16T00:00:00.000000Z")
        )
        early = forged.poll()
        forged.hand_in("Bob", "second")
        late = forged.poll()

        assert (early.rejections, "to be submitted" in early.waits[0].text) == (0, True)
        assert (late.rejections, forged.task.reviews.rejection_count) == (1, 2)

    @pytest.mark.parametrize("account", [STRANGER, None, an_account("octocat", 666)])
    def test_a_review_by_anybody_else_changes_nothing(self, forged: Forged, account: Account | None) -> None:
        forged.notes.put("account github:octocat", LEAD.id)
        forged.forge.writers |= {STRANGER.id, "github:666"}
        forged.forge.put(PR, forged.head, a_review(account, forged.head))
        before = len(forged.world.events())
        forged.poll()

        assert len(forged.world.events()) == before

    def test_a_reviewer_who_may_not_write_any_more_is_nobody(self, forged: Forged) -> None:
        forged.forge.writers.clear()
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head))

        assert (forged.poll().ignored, forged.task.status) == (1, Status.PROVISIONAL)

    def test_nits_alone_reject_nothing_and_are_kept(self, forged: Forged) -> None:
        nit = ForgeComment(id="1", text="nit: a blank line", author=LEAD, path="a.py", line=3)
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head, text="", comments=(nit,)))
        polled = forged.poll()

        assert (polled.noted, forged.task.status) == (1, Status.PROVISIONAL)

    def test_a_testers_word_beyond_its_paths_is_kept_and_rejects_nothing(self, forged: Forged) -> None:
        comment = ForgeComment(id="1", text="Wrong", author=TESTER, path="src/a.py", line=1)
        forged.forge.put(PR, forged.head, a_review(TESTER, forged.head, text="", comments=(comment,)))

        assert (forged.poll().noted, forged.task.status) == (1, Status.PROVISIONAL)

    def test_a_late_review_is_kept_and_the_task_stays_done(self, forged: Forged) -> None:
        forged.world.ask(c.ApproveReview(task_id=forged.task_id, commit="first"), "Lead")
        forged.forge.put(PR, forged.head, a_review(TESTER, forged.head))
        forged.poll()

        assert (forged.task.status, len(forged.named(ReviewNoted))) == (Status.DONE, 1)

    def test_two_reviewers_reject_once(self, forged: Forged) -> None:
        forged.forge.put(
            PR,
            forged.head,
            a_review(LEAD, forged.head),
            a_review(TESTER, forged.head, id="R2", text="No tests"),
        )
        forged.poll()

        assert (forged.task.reviews.rejection_count, forged.task.reviews.feedback) == (1, 2)


class TestOwnPullRequests:
    def test_a_blocking_comment_of_the_account_that_opened_it_rejects(self, forged: Forged) -> None:
        review = a_review(LEAD, forged.head, ReviewState.COMMENTED, text="BLOCKING: race conditions")
        forged.forge.put(PR, forged.head, review, author=LEAD)

        assert (forged.poll().rejections, forged.task.status) == (1, Status.REJECTED)

    def test_a_comment_of_anybody_else_is_no_rejection(self, forged: Forged) -> None:
        review = a_review(LEAD, forged.head, ReviewState.COMMENTED, text="BLOCKING: race conditions")
        forged.forge.put(PR, forged.head, review, author=STRANGER)

        assert (forged.poll().rejections, forged.task.status) == (0, Status.PROVISIONAL)

    def test_its_commands_are_not_obeyed(self, forged: Forged) -> None:
        remark = a_remark(LEAD, "@remand unlock Alice for #42")
        forged.forge.put(PR, forged.head, author=LEAD, remarks=(remark,))
        forged.poll()

        assert forged.obeyed == []

    def test_its_approvals_and_merges_do_not_count(self, forged: Forged) -> None:
        approval = a_review(LEAD, forged.head, ReviewState.APPROVED)
        forged.forge.put(PR, forged.head, approval, author=LEAD)
        forged.poll()
        before = forged.task.status
        forged.forge.put(PR, forged.head, state=PullState.MERGED, merged_by=LEAD, author=LEAD)
        polled = forged.poll()

        assert (before, polled.approvals) == (Status.PROVISIONAL, 0)
        assert (forged.task.status, len(forged.named(ReviewBypassed))) == (Status.ESCALATED, 1)

    def test_a_later_comment_takes_no_earlier_one_back(self, forged: Forged) -> None:
        reviews = [
            a_review(LEAD, forged.head, ReviewState.COMMENTED, id=f"R{n}", text=f"BLOCKING: finding {n}")
            for n in range(2)
        ]
        forged.forge.put(PR, forged.head, *reviews, author=LEAD)
        forged.poll()

        assert (forged.task.reviews.rejection_count, len(forged.named(ReviewRejected))) == (1, 2)


class TestApprovals:
    def approved(self, forged: Forged, **fields: object) -> PollResult:
        review = a_review(LEAD, forged.head, ReviewState.APPROVED, **fields)
        forged.forge.put(PR, forged.head, review)
        return forged.poll()

    def test_an_approval_of_what_was_handed_in_makes_it_done(self, forged: Forged) -> None:
        assert (self.approved(forged).approvals, forged.task.status) == (1, Status.DONE)

    def test_an_approval_does_not_move_to_another_commit(self, forged: Forged) -> None:
        review = a_review(LEAD, "f" * 40, ReviewState.APPROVED)
        forged.forge.put(PR, forged.head, review)
        forged.poll()
        forged.forge.put(PR, forged.head, replace(review, commit=forged.head))

        assert (forged.poll().approvals, forged.task.status) == (0, Status.PROVISIONAL)

    def test_an_approval_counts_for_nothing_when_the_head_went_on(self, forged: Forged) -> None:
        forged.forge.put(PR, "e" * 40, a_review(LEAD, forged.head, ReviewState.APPROVED))
        forged.poll()
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head, ReviewState.APPROVED))

        assert (forged.poll().approvals, forged.task.status) == (0, Status.PROVISIONAL)

    def test_an_approval_from_before_a_rejection_does_not_count_after_it(self) -> None:
        forged = Forged(policy=Policy(lockout_after=0))
        approval = a_review(
            TESTER, forged.head, ReviewState.APPROVED, submitted_at="2026-11-14T00:00:00.000000Z"
        )
        forged.world.ask(
            c.RejectReview(task_id=forged.task_id, commit="first", findings=(Finding(text="No"),)), "Lead"
        )
        forged.world.repository.add("third", tree="another")
        forged.hand_in("Bob", "second")
        forged.world.ask(
            c.RejectReview(task_id=forged.task_id, commit="second", findings=(Finding(text="No"),)), "Lead"
        )
        held = forged.world.claim(forged.task_id, "Bob").claim
        assert held is not None
        forged.forge.put(PR, forged.head, approval)
        forged.poll()

        assert forged.task.status != Status.DONE

    def test_an_author_does_not_approve_its_own_work(self, forged: Forged) -> None:
        author = an_account("alice")
        forged.forge.put(PR, forged.head, a_review(author, forged.head, ReviewState.APPROVED))
        forged.poll()

        assert forged.task.status == Status.PROVISIONAL

    def test_a_rejection_counts_before_an_approval_of_the_same_poll(self, forged: Forged) -> None:
        forged.forge.put(
            PR,
            forged.head,
            a_review(LEAD, forged.head, ReviewState.APPROVED),
            a_review(TESTER, forged.head, id="R2"),
        )
        forged.poll()

        assert forged.task.status == Status.REJECTED

    def test_the_last_opinion_of_an_account_is_its_opinion(self, forged: Forged) -> None:
        forged.forge.put(
            PR,
            forged.head,
            a_review(LEAD, forged.head),
            a_review(LEAD, forged.head, ReviewState.APPROVED, id="R2"),
        )
        forged.poll()

        assert (forged.task.status, forged.task.reviews.rejection_count) == (Status.DONE, 0)


class TestMerges:
    def test_a_merge_by_a_reviewer_is_an_approval(self, forged: Forged) -> None:
        forged.forge.put(PR, forged.head, state=PullState.MERGED, merged_by=LEAD)

        assert (forged.poll().approvals, forged.task.status) == (1, Status.DONE)

    @pytest.mark.parametrize("by", [STRANGER, None, an_account("alice")])
    def test_any_other_merge_is_recorded_and_the_user_is_asked(
        self, forged: Forged, by: Account | None
    ) -> None:
        forged.forge.put(PR, forged.head, state=PullState.MERGED, merged_by=by)
        forged.poll()
        forged.poll()

        assert (forged.task.status, len(forged.named(ReviewBypassed))) == (Status.ESCALATED, 1)

    def test_a_merge_of_what_was_never_handed_in_is_recorded(self, forged: Forged) -> None:
        forged.forge.put(PR, "d" * 40, state=PullState.MERGED, merged_by=LEAD)
        forged.poll()

        assert forged.task.status == Status.ESCALATED

    def test_the_user_accepts_such_a_merge_with_one_answer(self, forged: Forged) -> None:
        forged.forge.put(PR, forged.head, state=PullState.MERGED, merged_by=STRANGER)
        forged.poll()
        forged.world.ask(c.AnswerEscalation(task_id=forged.task_id, option="accept"), "owner")
        forged.poll()

        assert (forged.task.status, forged.task.reviews.approved_commit) == (Status.DONE, forged.head)
        assert (forged.task.people.lockouts, forged.task.inbox.conflicts) == ((), ())

    def test_a_pull_request_that_was_closed_is_said(self, forged: Forged) -> None:
        forged.forge.put(PR, forged.head, state=PullState.CLOSED)

        assert "opened again" in forged.poll().waits[0].text


class TestCommands:
    def test_a_members_line_is_obeyed_once(self, forged: Forged) -> None:
        remark = a_remark(LEAD, "Hello\n\n@remand Why is Alice locked out?")
        forged.forge.put(PR, forged.head, remarks=(remark,))
        forged.poll()
        forged.forge.change(PR, branch="renamed")
        forged.poll()

        assert [(who, text) for who, text, _ in forged.obeyed] == [("Lead", "Why is Alice locked out?")]

    @pytest.mark.parametrize("account", [STRANGER, None])
    def test_others_are_not_obeyed(self, forged: Forged, account: Account | None) -> None:
        remark = a_remark(account, "@remand unlock Alice for #42")
        forged.forge.put(PR, forged.head, remarks=(remark,))
        forged.poll()

        assert forged.obeyed == []

    def test_a_command_that_could_not_be_carried_out_is_carried_out_later(self, forged: Forged) -> None:
        forged.forge.put(PR, forged.head, remarks=(a_remark(LEAD, "@remand unlock Alice for #42"),))
        forged.forge.faults = [ForgeFault(ForgeFaultKind.UNREACHABLE, "The forge is away.")]
        forged.poll()
        forged.poll()

        assert len(forged.obeyed) == 1


class TestFaults:
    @pytest.mark.parametrize("stage", [0, 1, 2])
    @pytest.mark.parametrize("trouble", list(ForgeFaultKind))
    def test_a_fault_at_any_stage_loses_and_doubles_nothing(
        self, forged: Forged, stage: int, trouble: ForgeFaultKind
    ) -> None:
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head))
        forged.forge.pull_request(PR)
        fault = ForgeFault(trouble, "The forge is away.", until="2026-11-15T11:00:00.000000Z")
        calls = iter(range(9))
        asked = forged.forge._count_request

        def failing() -> None:
            asked()
            if next(calls) == stage:
                raise fault

        forged.forge._count_request = failing  # type: ignore[method-assign]
        first = forged.poll()
        forged.forge._count_request = asked  # type: ignore[method-assign]
        second = forged.poll()

        assert ("away" in first.trouble, first.rejections) == (True, 0)
        assert "away" in first.waits[0].text
        assert (second.rejections, forged.task.reviews.rejection_count) == (1, 1)

    @pytest.mark.parametrize(
        "trouble",
        [ForgeFaultKind.GARBLED, ForgeFaultKind.MISSING, ForgeFaultKind.UNREACHABLE, ForgeFaultKind.DENIED],
    )
    def test_one_that_cannot_be_read_keeps_nobody_from_the_others(
        self, forged: Forged, trouble: ForgeFaultKind
    ) -> None:
        others = [forged.another(PR + 1), forged.another(PR + 2)]
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head))
        for number, (_, head) in enumerate(others, PR + 1):
            forged.forge.put(number, head, a_review(LEAD, head, id=f"R{number}"))
        forged.forge.broken[PR] = ForgeFault(trouble, "This one cannot be read.")
        polled = forged.poll()

        assert (polled.rejections, polled.trouble) == (2, "This one cannot be read.")
        assert [one.task_id for one in polled.waits] == [forged.task_id]
        assert forged.task.status == Status.PROVISIONAL

    def test_a_forge_that_is_away_is_not_asked_for_each(self, forged: Forged) -> None:
        others = [forged.another(PR + number) for number in range(1, 6)]
        for number, (_, head) in enumerate(others, PR + 1):
            forged.forge.put(number, head)
            forged.forge.broken[number] = ForgeFault(ForgeFaultKind.UNREACHABLE, "The forge is away.")
        forged.forge.put(PR, forged.head)
        polled = forged.poll()

        assert polled.requests <= 4
        assert {name for name, _ in others} <= {one.task_id for one in polled.waits}

    def test_after_a_limit_nothing_is_asked(self, forged: Forged) -> None:
        _, head = forged.another(PR + 1)
        forged.forge.put(PR, forged.head)
        forged.forge.put(PR + 1, head)
        limit = ForgeFault(ForgeFaultKind.LIMITED, "Patience.", until="2026-11-15T11:00:00.000000Z")
        forged.forge.broken = {PR: limit, PR + 1: limit}
        polled = forged.poll()

        assert (polled.requests, polled.until, len(polled.waits)) == (2, limit.until, 2)

    def test_what_has_not_changed_is_not_read_again(self, forged: Forged) -> None:
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head))
        forged.poll()
        again = forged.poll()

        assert (again.requests, again.read) == (1, 0)

    def test_a_pull_request_that_is_not_there_is_said(self, forged: Forged) -> None:
        assert "does not show" in forged.poll().waits[0].text


class TestWaiting:
    def waits(self, forged: Forged) -> str:
        return forge_wait(forged.notes, forged.task_id)

    def test_the_task_waits_while_the_forge_is_away_and_not_after(self, forged: Forged) -> None:
        forged.forge.put(PR, forged.head)
        forged.forge.faults = [ForgeFault(ForgeFaultKind.UNREACHABLE, "It is away.")]
        forged.poll()
        away = self.waits(forged)
        polled = forged.poll()

        assert (away, self.waits(forged), polled.waits) == ("the forge: It is away.", "", ())

    def test_what_was_found_is_said_until_it_is_so_no_more(self, forged: Forged) -> None:
        forged.world.ask(
            c.RejectReview(task_id=forged.task_id, commit="first", findings=(Finding(text="No"),)), "Lead"
        )
        pushed = forged.world.repository.add("second")
        forged.forge.put(
            PR, pushed, a_review(LEAD, pushed, id="R2", submitted_at="2026-11-16T00:00:00.000000Z")
        )
        forged.poll()
        forged.forge.faults = [ForgeFault(ForgeFaultKind.UNREACHABLE, "It is away.")]
        forged.poll()
        again = forged.poll()
        before = self.waits(forged)
        forged.hand_in("Bob", "second")
        forged.poll()

        assert (again.read, [one.text for one in again.waits]) == (0, [before])
        assert ("to be submitted" in before, self.waits(forged)) == (True, "")

    def test_a_pull_request_that_comes_back_is_read_and_waited_for_no_more(self, forged: Forged) -> None:
        pull = forged.forge.put(PR, forged.head)
        forged.poll()
        del forged.forge.pulls[PR]
        forged.poll()
        gone = self.waits(forged)
        forged.forge.pulls[PR] = pull
        forged.poll()

        assert ("does not show" in gone, self.waits(forged)) == (True, "")


class TestReports:
    def test_nothing_is_written_unless_configured(self, forged: Forged) -> None:
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head))
        forged.poll()

        assert (forged.forge.statuses, forged.forge.left) == ([], [])

    def test_a_status_is_left_once_for_each_turn(self) -> None:
        forged = Forged(report=("status",))
        forged.forge.put(PR, forged.head)
        forged.poll()
        forged.poll()
        forged.world.ask(c.ApproveReview(task_id=forged.task_id, commit="first"), "Lead")
        forged.poll()

        assert forged.forge.statuses == [
            (forged.head, CheckState.PENDING),
            (forged.head, CheckState.SUCCESS),
        ]

    def test_a_rejection_given_here_is_left_there_once(self) -> None:
        forged = Forged(report=("review", "status"))
        forged.forge.put(PR, forged.head)
        findings = (Finding(text="Wrong", path="a.py", line=3),)
        forged.world.ask(c.RejectReview(task_id=forged.task_id, commit="first", findings=findings), "Lead")
        forged.poll()
        forged.poll()

        ((number, text, comments),) = forged.forge.left
        assert (number, "Lead" in text, comments[0].text.splitlines()[0]) == (PR, True, "BLOCKING: Wrong")
        assert forged.forge.statuses == [(forged.head, CheckState.FAILURE)]

    def test_what_we_left_there_is_not_read_back_as_somebodys_word(self) -> None:
        forged = Forged(report=("review",))
        forged.forge.put(PR, forged.head)
        findings = (Finding(text="Wrong", path="a.py", line=3), Finding(text="Slow"))
        forged.world.ask(c.RejectReview(task_id=forged.task_id, commit="first", findings=findings), "Lead")
        forged.poll()
        ((_, text, comments),) = forged.forge.left
        said = tuple(replace(comment, author=LEAD) for comment in comments)
        for author, state in ((LEAD, ReviewState.COMMENTED), (None, ReviewState.CHANGES_REQUESTED)):
            review = a_review(LEAD, forged.head, state, text=text, comments=said)
            forged.forge.put(PR, forged.head, review, author=author)
            forged.notes.kept.clear()
            forged.poll()

        assert len(forged.named(ReviewRejected)) == 1
        assert len(forged.forge.left) == 1, "another machine leaves it again"

    def test_a_review_that_only_borrows_our_words_counts(self) -> None:
        forged = Forged(report=("review",))
        review = a_review(LEAD, forged.head, text="BLOCKING: no\n\nLeft here by remand: R-1.")
        forged.forge.put(PR, forged.head, review)
        forged.poll()

        assert forged.task.status == Status.REJECTED

    def test_a_retracted_rejection_is_not_left_any_more(self) -> None:
        forged = Forged(report=("review",))
        forged.forge.put(PR, forged.head)
        findings = (Finding(text="Wrong"),)
        forged.world.ask(c.RejectReview(task_id=forged.task_id, commit="first", findings=findings), "Lead")
        forged.world.ask(c.RetractReview(task_id=forged.task_id, reason="My mistake"), "Lead")
        forged.poll()

        assert forged.forge.left == []

    @pytest.mark.parametrize(("report", "count"), [(("comment",), 1), (("status", "review"), 0)])
    def test_a_review_that_does_not_count_is_said_there_where_comments_are_allowed(
        self, report: tuple[str, ...], count: int
    ) -> None:
        forged = Forged(report=report)
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head, text="", comments=(NIT,)))
        forged.poll()
        forged.poll()
        said = [text for _, text, comments in forged.forge.left if not comments]

        assert len(said) == count
        for text in said:
            assert text.startswith(
                f"Lead's review of {forged.head[:12]} was seen and does not count: it has no"
            )
            assert text.endswith("Left here by remand.")

    def test_what_another_machine_has_said_there_is_not_said_again(self) -> None:
        forged = Forged(report=("comment",))
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head, text="", comments=(NIT,)))
        forged.poll()
        ((_, text, _),) = forged.forge.left
        forged.forge.change(PR, remarks=(a_remark(LEAD, text),))
        forged.notes.kept.clear()
        forged.poll()

        assert len(forged.forge.left) == 1

    def test_what_the_forge_will_not_take_is_said_and_stops_nothing(self) -> None:
        forged = Forged(report=("status",))
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head))
        forged.forge.refuses = ForgeFault(ForgeFaultKind.REFUSED, "No commit found.")
        first, second = forged.poll(), forged.poll()

        assert (first.rejections, first.trouble, first.waits[0].text) == (
            1,
            "",
            "the forge: No commit found.",
        )
        assert (second.requests, second.waits) == (1, ())

    def test_a_rejection_is_told_in_the_poll_that_takes_it_in(self) -> None:
        forged = Forged(report=("status",))
        forged.forge.put(PR, forged.head, a_review(LEAD, forged.head))
        forged.poll()

        assert forged.forge.statuses == [(forged.head, CheckState.FAILURE)]
