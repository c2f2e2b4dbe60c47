"""The user in the story: writes tasks down, and settles what only a human may."""

from __future__ import annotations

from remand.domain import events as e
from remand.domain.gates.verdict import GateStatus
from remand.domain.task import Task
from remand.interfaces.demo.cast.orders import GUIDANCE
from remand.interfaces.demo.project import Ask
from remand.interfaces.demo.stage import Stage
from remand.interfaces.demo.telling import Voice, expect, fail
from remand.interfaces.demo.watching import Seen

UNLOCKED = "McManus"
NOT_WORTH_IT = "tidier prices are not worth the test of the tax"


class Owner:
    """Answers when asked, with one command each."""

    def __init__(self, stage: Stage, voice: Voice) -> None:
        self._stage = stage
        self._voice = voice

    def add(self, *tasks: Ask) -> None:
        """Writes tasks down."""
        for task in tasks:
            self._stage.remand("task", "add", *task.options)

    def answer(self, seen: Seen) -> None:
        """Does what an event asks of the user, if it asks anything."""
        match seen.event:
            case e.EscalationOpened():
                self._unlock(seen.task)
            case e.RunEnded() if seen.task.gating.status == GateStatus.HELD and not seen.task.is_terminal:
                alias = seen.task.aliases[0]
                self._stage.remand("task", "cancel", alias, "--reason", NOT_WORTH_IT)

    def _unlock(self, task: Task) -> None:
        """Everyone who could do it is locked out: looks at the question, and answers it."""
        stage, say = self._stage, self._voice.say
        if task.escalation and task.escalation.kind != "deadlock":
            fail(f"the user is asked what nobody should have to: {task.escalation.reason}")
        alias = task.aliases[0]
        again = stage.remand("task", "claim", alias, "--agent", UNLOCKED)
        expect(again, "refused", "locked_out")
        say(f"    {again['message']}")
        question = next(one for one in stage.remand("inbox") if one["task_id"] == task.id)
        say(f"    {question['question']}")
        for option in question["options"]:
            say(f"      {option['key']}: {option['text']}")
        answered = stage.remand("inbox", "answer", alias, f"unlock:{UNLOCKED}", "--guidance", GUIDANCE)
        if "refused" in answered:
            fail(f"the user's answer was refused: {answered}")
