"""Holds what is done on a forge by itself: in order, once, at the right commit, through deaths and faults."""

import pytest

from remand.app.forge.actions import MAX_TASKS, pull_request_text, pull_request_title, reviewer_accounts
from remand.app.forge.ports import ForgeFault, ForgeFaultKind
from remand.domain import commands as c
from remand.domain.decisions.forge_actions import RETRY_DELAYS, describe_forge_wait
from remand.domain.events.work import ActDone, ActFailed, ActIntended
from remand.domain.forge import ForgeAction, PullState, ReviewState
from remand.domain.policy import Policy
from remand.domain.task import Status
from remand.testing.builders import a_submission, a_task
from tests.support.forge_fakes import a_review
from tests.unit.app.forge.action_setup import DOWN, LEAD, NO, TEAM, Workshop

LIFE = ["push", "open", "request", "merge", "close"]


def acts(shop: Workshop, kind: type[ActDone | ActIntended] = ActDone) -> list[str]:
    return [event.act for event in shop.events(kind)]  # type: ignore[attr-defined]


class TestALife:
    def test_work_is_shown_when_it_is_handed_in_and_merged_when_it_is_approved(self) -> None:
        shop = Workshop()
        head = shop.hand_in()
        shown = shop.tick()
        task = shop.task
        shop.approve()
        over = shop.tick()

        assert [one.act for one in shown.done] == ["push", "open", "request"]
        assert (task.pr, shop.remote.pushes) == (1, [(head, "work/12", "")])
        assert shop.forge.asked == [(1, ("octocat", "77"))]
        assert shop.forge.drafts == []
        assert [one.act for one in over.done] == ["merge", "close"]
        assert (shop.forge.merges, [number for number, _ in shop.forge.closed]) == ([(1, head)], [12])
        assert acts(shop) == acts(shop, ActIntended) == LIFE
        assert (shown.trouble, shown.waits, over.trouble, over.waits) == ("", (), "", ())

    def test_when_nothing_is_due_nothing_is_opened(self) -> None:
        shop = Workshop()
        shop.tick()
        shop.hand_in()
        shop.tick()
        opened = shop.opened
        for _ in range(3):
            assert shop.tick() == shop.tick()

        assert (opened, shop.opened) == (1, 1)

    def test_nothing_is_done_by_default_but_closing_the_issue(self) -> None:
        shop = Workshop(Policy())
        shop.hand_in()
        shop.tick()
        shop.approve()
        shop.tick()

        assert acts(shop) == ["close"]
        assert (shop.remote.pushes, shop.forge.pulls) == ([], {})

    def test_a_task_that_is_nobodys_issue_closes_none(self) -> None:
        shop = Workshop(is_issue=False)
        shop.hand_in()
        shop.approve()
        shop.tick()

        assert "close" not in acts(shop)

    def test_rework_goes_to_the_same_pull_request_over_what_was_pushed(self) -> None:
        shop = Workshop()
        first = shop.hand_in()
        shop.tick()
        shop.reject()
        shop.tick()
        second = shop.hand_in("rework", "Bob")
        shop.forge.change(1, head=second)
        shop.tick()

        assert shop.remote.pushes == [(first, "work/12", ""), (second, "work/12", first)]
        assert (list(shop.forge.pulls), shop.task.pr) == ([1], 1)
        assert [number for number, _ in shop.forge.asked] == [1, 1]

    def test_a_cancelled_task_closes_its_issue_as_such(self) -> None:
        shop = Workshop()
        shop.world.ask(c.CancelTask(task_id=shop.task_id))
        shop.tick()

        assert "will not be done" in shop.forge.closed[0][1]

    def test_a_pull_request_that_somebody_opened_is_taken_for_it(self) -> None:
        shop = Workshop()
        head = shop.hand_in()
        shop.forge.put(9, head, branch="work/12")
        (did,) = [one for one in shop.tick().done if one.act == "open"]

        assert (did.pr, did.is_found, shop.task.pr, list(shop.forge.pulls)) == (9, True, 9, [9])

    def test_whoever_is_at_it_already_is_left_to_it(self) -> None:
        shop = Workshop()
        shop.hand_in()
        shop.is_alone = False

        assert (shop.tick().done, shop.opened, acts(shop, ActIntended)) == ((), 0, [])

    def test_not_more_is_done_in_one_go_than_is_good(self) -> None:
        shop = Workshop(Policy())
        names = [shop.from_issue(number) for number in range(100, 100 + MAX_TASKS + 5)]
        for name in names:
            shop.world.ask(c.CancelTask(task_id=name))
        done = [len(shop.tick().done) for _ in range(3)]

        assert done == [MAX_TASKS, 5, 0]


class TestDeath:
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_a_process_that_ends_at_any_call_leaves_one_pull_request_one_merge_and_one_closing(
        self, after: bool
    ) -> None:
        at = 0
        while self.is_survived(at, after=after):
            at += 1

        assert at > 12, "hardly any call was died at"

    def is_survived(self, at: int, *, after: bool) -> bool:
        """A life in which a process ends at the nth call; False when no process makes so many calls."""
        shop = Workshop()
        head = shop.hand_in()
        has_died = shop.dies(at, after=after)
        first = len(shop.calls)
        shop.tick()
        shop.approve()
        has_died |= shop.dies(at - first, after=after) if not has_died else False
        shop.tick()
        again = shop.tick()

        assert (again.done, shop.opened <= 5) == ((), True)
        assert len(shop.remote.pushes) == len(shop.forge.pulls) == 1
        assert (shop.forge.merges, len(shop.forge.closed)) == ([(1, head)], 1)
        assert acts(shop) == acts(shop, ActIntended) == LIFE
        return has_died

    def test_an_intent_whose_work_was_rejected_meanwhile_is_settled_and_not_carried_out(self) -> None:
        shop = Workshop()
        shop.hand_in()
        while shop.calls[-1:] != ["push"]:
            assert shop.dies(len(shop.calls), after=False)
        shop.reject()
        shop.tick()

        assert (shop.remote.pushes, shop.task.forge.intent) == ([], None)
        assert [event.is_final for event in shop.events(ActFailed)] == [True]  # type: ignore[attr-defined]
        assert describe_forge_wait(shop.task) == ""

    def test_an_intent_that_was_carried_out_before_the_rejection_is_known_as_done(self) -> None:
        shop = Workshop()
        first = shop.hand_in()
        while shop.calls[-1:] != ["push"]:
            assert shop.dies(len(shop.calls), after=False)
        assert shop.dies(len(shop.calls) - 1, after=True)
        shop.reject()
        second = shop.hand_in("rework", "Bob")
        shop.tick()

        assert shop.remote.pushes == [(first, "work/12", ""), (second, "work/12", first)]

    def test_what_was_begun_is_looked_after_when_the_policy_is_off_by_now(self) -> None:
        shop = Workshop()
        shop.hand_in()
        while shop.calls[-1:] != ["push"]:
            assert shop.dies(len(shop.calls), after=False)
        shop.set_policy(open_pr=False)
        shop.tick()

        assert (shop.remote.pushes, shop.task.forge.intent) == ([], None)


class TestFaults:
    def test_a_forge_that_is_away_burns_no_tries_and_is_left_alone_for_longer_each_time(self) -> None:
        shop = Workshop()
        shop.hand_in()
        waits = []
        for _ in range(8):
            shop.remote.faults = [DOWN] * 9
            acted = shop.tick()
            opened = shop.opened
            assert (acted.trouble, acted.done) == (str(DOWN), ())
            assert shop.tick().trouble == str(DOWN)
            assert shop.opened == opened
            waits.append(acted.until)
            shop.wait_until(acted.until)
        shop.remote.faults = []
        back = shop.tick()

        assert waits == sorted(set(waits))
        assert shop.events(ActFailed) == []
        assert [one.act for one in back.done] == ["push", "open", "request"]
        assert (back.trouble, back.until) == ("", "")

    def test_a_limit_is_kept_to_the_moment_the_forge_named(self) -> None:
        shop = Workshop()
        shop.hand_in()
        until = "2026-11-16T09:00:00.000000Z"
        shop.remote.faults = [ForgeFault(ForgeFaultKind.LIMITED, "Patience.", until)]

        assert shop.tick().until == until

    def test_one_act_that_fails_keeps_nobody_from_the_rest(self) -> None:
        shop = Workshop()
        shop.hand_in()
        other = shop.from_issue(13)
        shop.hand_in("other work", "Bob", other)
        shop.remote.faults = [DOWN]
        acted = shop.tick()

        assert {one.task_id for one in acted.done} == {max(shop.task_id, other)}
        assert acted.trouble == ""
        first = shop.world.task(min(shop.task_id, other)).forge.intent
        assert first is not None
        assert (first.tries, first.why) == (1, str(DOWN))

    def test_a_no_is_tried_again_each_time_later_then_given_up_until_the_user_wants_it(self) -> None:
        shop = Workshop()
        head = shop.hand_in()
        shop.tick()
        shop.approve()
        shop.forge.refuses = NO
        asked = []
        for _ in range(len(RETRY_DELAYS) + 3):
            acted = shop.tick()
            asked.append(len(acted.waits))
            assert shop.tick().done == ()
            intent = shop.task.forge.intent
            if intent is not None:
                shop.wait_until(intent.until)
        shop.forge.refuses = None
        nothing = shop.tick()
        given_up = describe_forge_wait(shop.task)
        again = shop.tick(is_again=True)

        assert asked == [1] * (len(RETRY_DELAYS) + 1) + [0, 0]
        assert [event.is_final for event in shop.events(ActFailed)] == [False] * len(RETRY_DELAYS) + [True]  # type: ignore[attr-defined]
        assert (nothing.done, "No." in given_up, shop.forge.merges) == ((), True, [(1, head)])
        assert [one.act for one in again.done] == ["merge", "close"]

    def test_a_no_that_means_it_has_happened_is_no_fault(self) -> None:
        shop = Workshop()
        head = shop.hand_in()

        def opened_by_another(*given: str) -> None:
            shop.forge.put(4, head, branch="work/12")
            raise NO

        shop.forge.open_draft = opened_by_another  # type: ignore[method-assign, assignment]
        shop.tick()

        assert (shop.task.pr, shop.events(ActFailed)) == (4, [])

    @pytest.mark.parametrize(
        "trouble",
        [ForgeFaultKind.DENIED, ForgeFaultKind.MISSING, ForgeFaultKind.GARBLED, ForgeFaultKind.UNREACHABLE],
    )
    def test_a_fault_in_the_act_itself_is_the_acts(self, trouble: ForgeFaultKind) -> None:
        shop = Workshop()
        shop.hand_in()
        shop.remote.refuses = ForgeFault(trouble, "Not now.")
        acted = shop.tick()

        assert acted.trouble == ""
        assert [one.text.startswith("the forge to take") for one in acted.waits] == [True]
        assert shop.task.forge.intent is not None
        assert shop.task.forge.intent.tries == 1


class TestWhatIsPushed:
    def test_a_branch_of_somebody_elses_is_only_gone_on_with(self) -> None:
        shop = Workshop()
        head = shop.hand_in()
        shop.remote.tips["work/12"] = "f" * 40
        shop.remote.behind.add(("f" * 40, head))
        shop.tick()

        assert shop.remote.pushes == [(head, "work/12", "f" * 40)]

    def test_a_branch_of_somebody_elses_is_not_replaced(self) -> None:
        shop = Workshop()
        shop.hand_in()
        shop.remote.tips["work/12"] = "f" * 40
        acted = shop.tick()

        assert (shop.remote.pushes, acted.done) == ([], ())
        assert "was not pushed by Remand" in acted.waits[0].text

    def test_a_branch_that_an_agent_named_is_not_gone_on_with_either(self) -> None:
        shop = Workshop(is_issue=False)
        name, sha = shop.world.add(), shop.world.repository.add("mine")
        shop.world.claim(name, "Alice")
        shop.world.ask(c.SubmitTask(task_id=name, agent="Alice", commit="mine", branch="develop"), "Alice")
        shop.remote.tips["develop"] = "f" * 40
        shop.remote.behind.add(("f" * 40, sha))
        shop.tick()

        assert shop.remote.pushes == []
        assert shop.world.task(name).forge.given_up[0].act is ForgeAction.PUSH

    @pytest.mark.parametrize("branch", ["main", "trunk"])
    def test_the_branch_that_work_is_merged_into_is_never_pushed_to(self, branch: str) -> None:
        shop = Workshop(is_issue=False)
        shop.remote = type(shop.remote)(shop.forge.tips, "trunk")
        name = shop.world.add(branch=branch)
        shop.hand_in("mine", "Alice", name)
        asked = [len(shop.tick().waits) for _ in range(2)]

        assert (shop.remote.pushes, asked) == ([], [1, 0])
        assert shop.world.task(name).forge.given_up[0].act is ForgeAction.PUSH


class TestWhatIsMerged:
    def approved(self) -> tuple[Workshop, str]:
        shop = Workshop()
        head = shop.hand_in()
        shop.tick()
        shop.approve()
        return shop, head

    def test_a_head_that_has_moved_is_not_merged_and_the_issue_stays_open(self) -> None:
        shop, head = self.approved()
        shop.forge.change(1, head="e" * 40)
        acted = shop.tick()
        shop.tick()

        assert (shop.forge.merges, shop.forge.closed) == ([], [])
        assert f"has moved to {'e' * 12}; the approved commit is {head[:12]}" in acted.waits[0].text

    def test_what_somebody_has_merged_at_that_commit_is_merged(self) -> None:
        shop, _ = self.approved()
        shop.forge.change(1, state=PullState.MERGED)
        (merged, closed) = shop.tick().done

        assert (merged.act, merged.is_found, closed.act, shop.forge.merges) == ("merge", True, "close", [])

    def test_what_was_merged_at_another_commit_is_not_taken_for_it(self) -> None:
        shop, _ = self.approved()
        shop.forge.change(1, state=PullState.MERGED, head="e" * 40)
        shop.tick()

        assert (shop.task.forge.merged, shop.forge.closed) == ("", [])

    def test_a_pull_request_that_was_closed_waits(self) -> None:
        shop, head = self.approved()
        shop.forge.change(1, state=PullState.CLOSED)
        shop.tick()
        shop.forge.change(1, state=PullState.OPEN)
        shop.world.clock.advance(RETRY_DELAYS[0] + 1)
        shop.tick()

        assert shop.forge.merges == [(1, head)]

    def test_changes_that_a_member_requests_of_it_hold_the_merge_back_however_late(self) -> None:
        shop, head = self.approved()
        shop.forge.change(1, reviews=(a_review(LEAD, head),))
        held = shop.tick()
        shop.forge.change(
            1, reviews=(a_review(LEAD, head), a_review(LEAD, head, ReviewState.APPROVED, id="R2"))
        )
        shop.world.clock.advance(RETRY_DELAYS[0] + 1)
        shop.tick()

        assert "Lead requested changes" in held.waits[0].text
        assert shop.forge.merges == [(1, head)]

    def test_what_strangers_and_earlier_reviews_want_holds_nothing_back(self) -> None:
        shop, head = self.approved()
        shop.forge.writers = set()
        shop.forge.change(1, reviews=(a_review(LEAD, head),))
        shop.tick()
        other, sha = self.approved()
        other.forge.change(1, reviews=(a_review(LEAD, "d" * 40),))
        other.tick()

        assert (shop.forge.merges, other.forge.merges) == ([(1, head)], [(1, sha)])

    def test_a_forge_that_says_yes_and_does_not_merge_is_not_believed(self) -> None:
        shop, _ = self.approved()
        shop.forge.merge = lambda *_: None  # type: ignore[method-assign, assignment]
        shop.tick()

        assert shop.task.forge.merged == ""
        assert shop.task.status == Status.DONE

    def test_a_rejection_that_another_ledger_brought_ends_it(self) -> None:
        shop = Workshop()
        shop.hand_in()
        shop.tick()
        shop.reject()
        shop.tick()

        assert shop.forge.merges == []


class TestWords:
    def test_reviewers_are_those_asked_here_else_leads_and_testers(self) -> None:
        task = a_task(status=Status.PROVISIONAL, submission=a_submission())

        assert reviewer_accounts(task, TEAM, "github") == ["octocat", "77"]
        assert reviewer_accounts(a_task(requested=("Tess",)), TEAM, "github") == ["77"]
        assert reviewer_accounts(a_task(holders=("Lead", "Tess")), TEAM, "github") == ["owner"]
        assert reviewer_accounts(task, TEAM, "gitlab") == []

    def test_a_title_closes_no_issue_and_names_no_other_place(self) -> None:
        hostile = "Fixes #99,\n closes !7 and owner/name#8 <!-- x --> https://evil.example/x"

        assert pull_request_title(a_task(title=hostile)) == (
            "Fixes 99, closes 7 and owner/name8 evil.example [link removed]"
        )
        assert pull_request_title(a_task(title="\u202e\u200b")) == a_task().id

    def test_nothing_of_the_tasks_text_is_in_what_a_pull_request_says(self) -> None:
        task = a_task(title="T1TLE", scope="SC0PE closes #99", submission=a_submission())

        assert "T1TLE" not in pull_request_text(task, "c" * 40)
        assert "SC0PE" not in pull_request_text(task, "c" * 40)
        assert pull_request_text(task, "c" * 40).startswith(f"Left here by remand: {task.id}.")
