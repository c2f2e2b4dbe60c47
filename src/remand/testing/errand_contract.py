"""What every store must hold to about errands: tasks are found by what may be due for them outside of the ledger."""

from __future__ import annotations

from remand.domain.acts import Act, Intent, OnForge
from remand.domain.forging import INTENT
from remand.domain.notices import TELL
from remand.domain.task import Notice, Status
from remand.ledger.store import Store
from remand.testing.builders import NOW, SHA, T1, T2, T3, a_submission, a_task

UNDER_REVIEW = a_task(T1, status=Status.PROVISIONAL, submission=a_submission(), branch="work/1")
DONE = a_task(T2, status=Status.DONE, submission=a_submission(), approved_commit=SHA, pr=7)
BEGUN = a_task(T3, forge=OnForge(intent=Intent(act=Act.PUSH, about=SHA)))


class ErrandContract:
    """Tasks come and go with what is left to do for them."""

    def test_a_task_is_found_by_what_is_left_to_do_for_it(self, store: Store) -> None:
        with store.write() as tx:
            for task in (BEGUN, DONE, UNDER_REVIEW):
                tx.tasks.put(task)

            assert tx.tasks.with_errand([Act.PUSH]) == [UNDER_REVIEW]
            assert tx.tasks.with_errand([Act.PUSH, Act.MERGE]) == [UNDER_REVIEW, DONE]
            assert tx.tasks.with_errand([INTENT]) == [BEGUN]
            assert tx.tasks.with_errand([Act.CLOSE]) == tx.tasks.with_errand([]) == []

    def test_a_task_is_found_by_what_the_user_has_yet_to_be_told(self, store: Store) -> None:
        notice = Notice(id="N-1", text="owner unlocked Alice", at=NOW)
        untold = a_task(T1, status=Status.DONE, notices=(notice,))
        with store.write() as tx:
            tx.tasks.put(untold)
            tx.tasks.put(a_task(T2))
            assert tx.tasks.with_errand([TELL]) == [untold]
            assert tx.tasks.with_errand([*Act, INTENT]) == []

            tx.tasks.put(a_task(T1, status=Status.DONE))
            assert tx.tasks.with_errand([TELL]) == []

    def test_a_task_for_which_all_is_done_is_not_found_any_more(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T2))
            tx.tasks.put(DONE)
            tx.tasks.put(a_task(T2, status=Status.DONE, approved_commit=SHA, pr=7, forge=OnForge(merged=SHA)))

            assert tx.tasks.with_errand([*Act, INTENT]) == []

    def test_errands_are_made_anew_with_the_tasks(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(DONE)
            tx.tasks.replace_all([UNDER_REVIEW, a_task(T2)], [])

            assert tx.tasks.with_errand([*Act, INTENT]) == [UNDER_REVIEW]
