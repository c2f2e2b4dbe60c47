"""The user is told of every question, through every channel that works, and of many at once in few notices."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext

from remand.app.notices import MAX_NOTICES, MAX_SINGLE, DeliveryReport, NoticeDelivery, deliver_notices
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Team
from remand.domain.task import Escalation, Status
from remand.testing.builders import MUCH_LATER, NOW, a_task, task_id
from tests.support.builders import FakeLedger
from tests.support.fakes import MemoryChannel

DAY = 86_400.0


class Asking:
    """A ledger with questions, and channels to the user."""

    def __init__(self, *channels: MemoryChannel) -> None:
        self.world = FakeLedger(rules=Rules(gates=()))
        self.channels = channels

    def escalated(self, title: str = "Mend the roof") -> str:
        task = self.world.add(title)
        self.world.ask(c.EscalateTask(task_id=task, reason="which colour?"))
        return task

    def tell(self) -> DeliveryReport:
        return deliver_notices(self.world.ledger, self.channels, Team(), "house")

    def notified(self, task: str) -> tuple[str, ...]:
        asked = self.world.task(task).inbox.escalation
        assert asked is not None
        return asked.notified


def test_a_question_is_told_once_with_the_command_for_each_option() -> None:
    chat = MemoryChannel()
    asking = Asking(chat)
    task = asking.escalated()

    assert asking.tell().notices == 1
    assert asking.tell().notices == 0
    ((title, body),) = chat.notices
    assert title == "house: a question waits for you: Mend the roof"
    assert "which colour?" in body
    assert re.search(r"remand inbox answer E-[0-9a-f]{12} wontfix", body)
    assert asking.notified(task) == ("chat",)


def test_a_channel_that_is_down_keeps_no_other_from_telling_and_is_told_later() -> None:
    chat, mail = MemoryChannel("chat", is_down=True), MemoryChannel("mail")
    asking = Asking(chat, mail)
    task = asking.escalated()

    assert asking.tell().problems == ("chat: it is down",)
    assert asking.notified(task) == ("mail",)
    chat.is_down = False
    assert asking.tell().delivered == ((asking.world.task(task).inbox.escalation.id, "chat"),)  # type: ignore[union-attr]
    assert (len(chat.notices), len(mail.notices)) == (1, 1)


def test_what_no_channel_took_stays_untold() -> None:
    asking = Asking(MemoryChannel(is_down=True))
    task = asking.escalated()

    asking.tell()
    assert asking.notified(task) == ()


def test_a_question_nobody_answers_in_time_is_told_again_until_it_is_acknowledged() -> None:
    chat = MemoryChannel()
    asking = Asking(chat)
    task = asking.escalated()
    for _ in range(3):
        asking.tell()
        asking.world.clock.advance(DAY + 1)
        asking.world.ledger.ask_all([])
    assert len(chat.notices) == 3
    assert "(again)" in chat.notices[-1][0]

    asking.world.ask(c.AcknowledgeEscalation(task_id=task))
    asking.world.clock.advance(DAY + 1)
    asking.world.ledger.ask_all([])
    assert asking.tell() == DeliveryReport(0, (), ())


def test_an_answered_question_is_told_no_more() -> None:
    chat = MemoryChannel()
    asking = Asking(chat)
    asking.world.ask(c.AnswerEscalation(task_id=asking.escalated(), option="wontfix"))

    assert asking.tell() == DeliveryReport(0, (), ())


def test_more_than_a_few_questions_become_one_notice() -> None:
    chat = MemoryChannel()
    asking = Asking(chat)
    tasks = [asking.escalated(f"Task {n}") for n in range(MAX_SINGLE + 1)]

    assert asking.tell().notices == 1
    ((title, body),) = chat.notices
    assert title == f"house: {MAX_SINGLE + 1} questions wait for you"
    assert all(task in body for task in tasks)


def test_ten_thousand_questions_become_twenty_notices_and_each_task_is_named_in_one() -> None:
    chat = MemoryChannel()
    asking = Asking(chat)
    names = [task_id(number) for number in range(10_000)]
    with asking.world.store.write() as tx:
        for name in names:
            asked = Escalation(id=f"E-{name[-8:]}", reason="stuck", opened_at=NOW, deadline=MUCH_LATER)
            tx.tasks.put(a_task(name, status=Status.ESCALATED, escalation=asked))

    told = asking.tell()
    assert told.notices == len(chat.notices) <= MAX_NOTICES
    assert len(told.delivered) == 10_000
    found = [name for _, body in chat.notices for name in re.findall(r"T-\d{8}-\d{6}-[0-9a-f]{8}", body)]
    assert sorted(found) == sorted(names)
    assert asking.tell().notices == 0


def test_a_notice_holds_no_secret_and_no_hidden_text() -> None:
    chat = MemoryChannel()
    asking = Asking(chat)
    asking.escalated("\x1b[31m password=hunter2!x9 \u202e ghp_" + "a1" * 20)

    asking.tell()
    told = "".join(chat.notices[0])
    assert "hunter2" not in told
    assert "ghp_" not in told
    assert all(char.isprintable() or char == "\n" for char in told)


class FreePace:
    """A pace that keeps nobody waiting."""

    def wait(self) -> None:
        """At once."""

    def turn(self) -> AbstractContextManager[None]:
        return nullcontext()

    def note(self) -> None:
        """Counts nothing."""


def test_a_question_asked_while_a_delivery_ends_is_told_by_it_or_by_the_next() -> None:
    chat = MemoryChannel()
    asking = Asking(chat)
    first, asked = asking.escalated(), list[str]()
    delivery = NoticeDelivery(
        asking.world.ledger, Team, "house", open_channels=lambda: ((chat,), ()), pace=FreePace()
    )

    sent = delivery.deliver_paced(lambda: asked.append(asking.escalated("Paint the door")))

    assert sent.notices == 2
    assert [asking.notified(task) for task in (first, *asked)] == [("chat",), ("chat",)]
    assert len(asked) == 1
