"""Doing on the forge what the policy says: an intent, the act, its outcome, each once, through whatever fails between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from remand.app.forges.deeds import Deed, ForGood, Happened
from remand.app.forges.polling import Waits
from remand.app.forges.ports import ForgeFault, Marks, Trouble
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.acts import Act
from remand.domain.forging import INTENT, acts_of, due, told, waits_for
from remand.domain.instant import Instant, plus
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.roles import THE_COORDINATOR
from remand.domain.task import Task

MOST = 50
"""How many tasks are seen to in one go."""
PAUSE = 30.0
"""Seconds without a try after the forge failed as a whole; doubled each time in a row."""
LONGEST = 300.0
TROUBLE, UNTIL, IN_A_ROW = "acting trouble", "acting until", "acting in a row"
"""Where it is noted why nothing could be done on the forge, until when nothing is tried, and how often that was."""
_OF_THE_FORGE = (Trouble.LIMITED, Trouble.UNREACHABLE, Trouble.DENIED)
"""What keeps everything from being done, when it comes up already on looking."""


class Did(Record, kw_only=True, omit_defaults=False):
    """An act that has happened."""

    task_id: str
    act: str
    about: str = ""
    """The commit; empty when it is about an issue."""
    pr: int = 0
    url: str = ""
    text: str = ""
    is_found: bool = False
    """It was so already."""


class Acted(Record, kw_only=True, omit_defaults=False):
    """What came of seeing to the forge."""

    done: tuple[Did, ...] = ()
    waits: tuple[Waits, ...] = ()
    """The tasks for which something could not be done, and what they wait for."""
    trouble: str = ""
    """Why the forge could not be asked; empty when it could."""
    until: Instant = ""
    """When it is tried again."""


Opener = Callable[[], AbstractContextManager[dict[Act, Deed]]]
"""Opens the forge, and lets go of it afterwards."""
Alone = Callable[[], AbstractContextManager[bool]]
"""Keeps other processes from acting at the same time; False when one is at it."""


class Acting:
    """Sees to everything that is due on the forge, and to what a killed process left undecided."""

    def __init__(
        self, ledger: Ledger, marks: Marks, policy: Policy, *, base: str, opened: Opener, alone: Alone
    ) -> None:
        self._ledger = ledger
        self._marks = marks
        self._acts = acts_of(policy)
        self._base = base
        self._opened = opened
        self._alone = alone

    def tick(self, *, is_again: bool = False) -> Acted:
        """Does what is due, each thing once. With nothing due, which is one look at an index, nothing is opened.

        `is_again` has tried again what waits for its time, or was given up.
        """
        tasks = self._due(is_again=is_again)
        if not tasks:
            return Acted()
        until = self._marks.get(UNTIL)
        if until > self._ledger.clock.now() and not is_again:
            return Acted(trouble=self._marks.get(TROUBLE), until=until)
        with self._alone() as is_alone:
            if not is_alone:
                return Acted()
            round_ = _Round(self._ledger, self._acts, self._base, is_again=is_again)
            fault = self._see_to(round_, tasks)
        return Acted(
            done=tuple(round_.done),
            waits=tuple(round_.waits),
            trouble=str(fault or ""),
            until=self._marks.get(UNTIL),
        )

    def _due(self, *, is_again: bool) -> list[Task]:
        """The tasks that something may be due for; also those that it was given up for, when it is tried again."""
        now = self._ledger.clock.now()
        with self._ledger.store.read() as view:
            found = view.tasks.with_errand([*self._acts, INTENT])
            if is_again:
                return [*found, *(task for task in view.tasks.every() if task.forge.given_up)]
        return [task for task in found if self._is_ripe(task, now)]

    def _is_ripe(self, task: Task, now: Instant) -> bool:
        intent = task.forge.intent
        return intent.until <= now if intent is not None else due(task, self._acts) is not None

    def _see_to(self, round_: _Round, tasks: Sequence[Task]) -> ForgeFault | None:
        """Sees to the tasks one after the other; the fault that ended it, when the forge failed as a whole."""
        try:
            with self._opened() as found:
                names = dict.fromkeys(task.id for task in tasks)
                round_.see_to_all(list(names)[:MOST], found)
        except ForgeFault as fault:
            self._pause(fault)
            return fault
        for key in (TROUBLE, UNTIL, IN_A_ROW):
            if self._marks.get(key):
                self._marks.put(key, "")
        return None

    def _pause(self, fault: ForgeFault) -> None:
        """Lets some time go by, longer each time; as long as the forge asks for, when it does."""
        kept = self._marks.get(IN_A_ROW)
        in_a_row = int(kept) if kept.isdecimal() and len(kept) < 4 else 0
        seconds = min(PAUSE * 2.0 ** min(in_a_row, 10), LONGEST)
        self._marks.put(IN_A_ROW, str(in_a_row + 1))
        self._marks.put(TROUBLE, str(fault))
        self._marks.put(UNTIL, max(fault.until, plus(self._ledger.clock.now(), seconds)))


class _Round:
    """One round over the tasks, and what has come of it so far."""

    def __init__(self, ledger: Ledger, acts: Sequence[Act], base: str, *, is_again: bool) -> None:
        self._ledger, self._acts, self._base = ledger, acts, base
        self._is_again = is_again
        self._failed: ForgeFault | None = None
        self._has_answered = False
        self.done: list[Did] = []
        self.waits: list[Waits] = []

    def see_to_all(self, names: Sequence[str], found: dict[Act, Deed]) -> None:
        """Sees to tasks. Whether the forge failed, or one act, the next task tells: when that works, it was the act."""
        failed: tuple[str, ForgeFault] | None = None
        for name in names:
            self._has_answered = False
            try:
                self._see_to(name, found)
            except ForgeFault as fault:
                if fault.trouble is Trouble.LIMITED or failed is not None:
                    raise
                failed = (name, fault)
            if failed is not None and self._has_answered:
                self._blame(*failed)
                failed = None
        if failed is not None:
            raise failed[1]

    def _blame(self, task_id: str, fault: ForgeFault) -> None:
        task = self._task(task_id)
        if task is not None and task.forge.intent is not None:
            self._fail(task, task.forge.intent.act, task.forge.intent.about, fault)
            self._tell(task_id)

    def _see_to(self, task_id: str, found: dict[Act, Deed]) -> None:
        """Does what is due for a task, one act after the other, until one fails. Raises when the forge may have."""
        for _ in range(2 * len(Act)):
            task = self._task(task_id)
            step = self._step(task)
            if task is None or step is None or not self._is_done(task, *step, found[step[0]]):
                break
        self._tell(task_id)

    def _tell(self, task_id: str) -> None:
        task = self._task(task_id)
        text = waits_for(task) if task is not None else ""
        if text:
            self.waits.append(Waits(task_id=task_id, text=text))

    def _task(self, task_id: str) -> Task | None:
        return self._ledger.task_of(c.TaskAsk(task_id=task_id))

    def _step(self, task: Task | None) -> tuple[Act, str] | None:
        """The act that is begun, or else the next one."""
        if task is None:
            return None
        intent = task.forge.intent
        if intent is None:
            return due(task, self._acts, is_again=self._is_again)
        is_ripe = self._is_again or intent.until <= self._ledger.clock.now()
        return (intent.act, intent.about) if is_ripe else None

    def _is_done(self, task: Task, act: Act, about: str, deed: Deed) -> bool:
        """Sees an act through; False when it failed, or may not be done."""
        is_begun = task.forge.intent is not None
        intend = c.IntendAct(task_id=task.id, act=act, about=about, base=self._base, is_again=self._is_again)
        answer = self._ledger.ask_as(THE_COORDINATOR, intend)
        if isinstance(answer, Refused) and not is_begun:
            is_hopeless = answer.code == "bad_value"
            return is_hopeless and self._fail(task, act, about, ForGood(answer.message))
        try:
            happened = self._looked(deed, task, about)
            if happened is not None:
                return self._note(task, act, about, happened, is_found=True)
            if isinstance(answer, Refused):
                return self._fail(task, act, about, ForGood(f"It is not wanted any more: {answer.message}"))
            return self._note(task, act, about, self._doing(deed, task, about))
        except ForgeFault as fault:
            if fault.trouble is Trouble.LIMITED or fault is self._failed:
                raise
            return self._fail(task, act, about, fault)

    def _looked(self, deed: Deed, task: Task, about: str) -> Happened | None:
        """Looks whether an act has happened. When that cannot be told, it is the forge that fails, and not the act."""
        try:
            found = deed.look(task, about)
        except ForgeFault as fault:
            if fault.trouble in _OF_THE_FORGE:
                self._failed = fault
            raise
        self._has_answered = True
        return found

    def _doing(self, deed: Deed, task: Task, about: str) -> Happened:
        """Does it. A no may mean that it has happened meanwhile."""
        try:
            return deed.do(task, about)
        except ForgeFault as fault:
            if fault.trouble is not Trouble.REFUSED or isinstance(fault, ForGood):
                raise
            happened = self._looked(deed, task, about)
            if happened is None:
                raise
            return happened

    def _note(self, task: Task, act: Act, about: str, happened: Happened, *, is_found: bool = False) -> bool:
        noted = c.NoteAct(
            task_id=task.id,
            act=act,
            about=about,
            pr=happened.pr,
            url=happened.url[:2000],
            is_found=is_found,
        )
        answer = self._ledger.ask_as(THE_COORDINATOR, noted)
        if isinstance(answer, Refused):
            return self._fail(task, act, about, ForGood(answer.message))
        after = answer.task
        self.done.append(
            Did(
                task_id=task.id,
                act=act,
                about=about,
                pr=happened.pr or after.pr,
                url=happened.url,
                text=told(after, act),
                is_found=is_found,
            )
        )
        return True

    def _fail(self, task: Task, act: Act, about: str, fault: ForgeFault) -> bool:
        failed = c.NoteActFailure(
            task_id=task.id, act=act, about=about, why=str(fault), is_final=isinstance(fault, ForGood)
        )
        self._ledger.ask_as(THE_COORDINATOR, failed)
        return False


def acting_trouble(marks: Marks, now: Instant) -> str:
    """Why nothing can be done on the forge now; empty when something can."""
    return marks.get(TROUBLE) if marks.get(UNTIL) > now else ""
