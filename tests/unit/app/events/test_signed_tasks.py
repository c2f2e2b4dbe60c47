"""Tasks that were folded from signed events are known again, however many there were since."""

from msgspec.structs import replace

from remand.app.events import task_folds
from remand.app.events.task_folds import SignedTasks
from remand.testing.builders import a_task, task_id

MANY = task_folds._MOST_KNOWN + 1


def test_an_early_task_is_known_by_its_digest() -> None:
    signed, tasks = SignedTasks(), [a_task(task_id(n)) for n in range(MANY)]
    for number, task in enumerate(tasks):
        signed.note(task, is_verified=bool(number))

    assert signed.is_known(tasks[1], is_verified=True)
    assert signed.is_known(tasks[1], is_verified=True)
    assert not signed.is_known(tasks[0], is_verified=True)
    assert signed.is_known(tasks[-1], is_verified=True)


def test_an_early_task_whose_row_was_changed_is_not_known() -> None:
    signed, tasks = SignedTasks(), [a_task(task_id(n)) for n in range(MANY)]
    for task in tasks:
        signed.note(task, is_verified=True)

    assert not signed.is_known(replace(tasks[0], title="Something else"), is_verified=False)
    assert not signed.is_known(tasks[0], is_verified=False)
