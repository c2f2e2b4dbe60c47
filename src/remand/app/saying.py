"""Carries out what somebody said in plain words, as whoever said it."""

from __future__ import annotations

from collections.abc import Callable

from remand.app.asking import Accepted, Answer
from remand.app.escalations import Question, line, open_escalations, question, ways
from remand.app.family import Family
from remand.app.held import held_questions
from remand.app.lockouts import LockoutRow, explained, lockouts, rejected
from remand.app.rebuild import story
from remand.app.spoken_tasks import vocabulary
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.holds import held_count, name_choice, open_findings, settle_lines, settlers
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.roles import Actor, Role, Team
from remand.domain.saying import wishes as w
from remand.domain.saying.understanding import understand
from remand.domain.task import Task
from remand.ledger.store import Store, Transaction

NOT_UNDERSTOOD, UNSURE = "not_understood", "unsure"
MAX_REASON = 500


class Said(Record, kw_only=True, omit_defaults=False):
    """What was made of something said."""

    understood: str = ""
    """The wish in other words; empty when there was none."""
    done: str
    """What came of it, or the answer, or why nothing did."""
    refused: str = ""
    """The code of the refusal; empty when it was done or answered."""
    choices: tuple[str, ...] = ()
    """The commands it may have meant."""
    task_id: str = ""
    status: str = ""
    lockouts: tuple[LockoutRow, ...] = ()
    questions: tuple[Question, ...] = ()


class Saying:
    """Listens to one speaker. What the speaker may do is for the rules to say, and their refusal is passed on."""

    def __init__(self, store: Store, team: Team, speaker: Actor, ask: Callable[[c.Ask], Answer]) -> None:
        self._store = store
        self._team = team
        self._speaker = speaker
        self._ask = ask

    def hear(self, text: str) -> Said:
        """What comes of something said."""
        with self._store.read() as view:
            understood = understand(text, vocabulary(view, self._team, self._speaker))
            if isinstance(understood, w.Wish):
                told = _Telling(view, self._team, self._speaker).told(understood)
                if told is not None:
                    return told
        match understood:
            case w.Unsure():
                return self._asked_back(understood)
            case w.NotUnderstood():
                return Said(done=self._with_command(understood), refused=NOT_UNDERSTOOD)
            case _:
                return self._carried_out(understood, text)

    def _asked_back(self, unsure: w.Unsure) -> Said:
        """A question. Nobody is shown commands that are the user's alone but the user."""
        wishes = [wish for wish in unsure.wishes if self._is_user or not isinstance(wish, w.USERS_OWN)]
        choices = tuple(dict.fromkeys(map(w.command_line, wishes)))
        return Said(done=self._with_command(unsure), refused=UNSURE, choices=choices)

    def _with_command(self, answer: w.Unsure | w.NotUnderstood) -> str:
        if not answer.command or self._speaker.confined:
            return answer.message
        return f"{answer.message} Use `{answer.command}`."

    @property
    def _is_user(self) -> bool:
        return self._speaker.has(Role.USER) and not self._speaker.confined

    def _carried_out(self, wish: w.Wish, text: str) -> Said:
        understood = w.in_words(wish)
        ask = _as_ask(wish, f"said: {line(text)}")
        answer = self._ask(ask)
        if isinstance(answer, Refused):
            return Said(understood=understood, done=answer.message, refused=answer.code)
        with self._store.read() as view:
            done = _outcome(wish, answer, view, self._team)
        return Said(understood=understood, done=done, task_id=answer.task.id, status=answer.task.status)


def _as_ask(wish: w.Wish, said: str) -> c.Ask:
    """The ask that a wish is; where a reason is needed and none was given, it is what was said."""
    match wish:
        case w.ReviewWish():
            return c.RequestReview(task_id=wish.task.id, reviewer=wish.reviewer)
        case w.UnlockWish():
            return c.Unlock(
                task_id=wish.task.id,
                agent=wish.agent,
                reason=wish.reason[:MAX_REASON] or said,
                guidance=wish.advice,
            )
        case w.ReassignWish():
            return c.ReassignTask(
                task_id=wish.task.id, target=wish.target, source=wish.source, reason=wish.reason
            )
        case w.EscalateWish():
            return c.EscalateTask(task_id=wish.task.id, reason=wish.reason or said)
        case w.AnswerWish():
            return c.AnswerEscalation(task_id=wish.task.id, option=wish.option, guidance=wish.guidance)
        case _:
            raise AssertionError(f"{wish} asks for nothing")


def _outcome(wish: w.Wish, answer: Accepted, view: Transaction, team: Team) -> str:
    """What came of a wish that was granted."""
    task = answer.task
    reserved = next((event for event in answer.events if isinstance(event, e.HandoffInitiated)), None)
    held = f" It is reserved for {reserved.target_agent} for now." if reserved else ""
    match wish:
        case w.ReviewWish():
            return f"{task.label} awaits the word of {', '.join(task.requested)}."
        case w.UnlockWish():
            return f"{wish.agent} may work on {task.label} again.{held}"
        case w.ReassignWish():
            passed_on = next((event for event in answer.events if isinstance(event, e.TaskReassigned)), None)
            last = " No other agent is left after this one." if passed_on and passed_on.is_last else ""
            return f"{wish.target} takes {task.label} over.{held}{last}"
        case w.EscalateWish() if task.open_escalation:
            asked = question(task, ways(view, team, task))
            return f"{task.open_escalation.id} waits for the user: {asked}"
        case _:
            return f"{task.label} is {task.status}.{held}"


class _Telling:
    """Answers what can be read from the ledger."""

    def __init__(self, view: Transaction, team: Team, speaker: Actor) -> None:
        self._view = view
        self._team = team
        self._speaker = speaker

    def told(self, wish: w.Wish) -> Said | None:
        """The answer; None for a wish that takes more than reading."""
        match wish:
            case w.WhyWish():
                return self._why(wish)
            case w.StatusWish():
                task = self._task(wish.task)
                return self._said(wish, self._state(task), task)
            case w.LockoutsWish():
                return self._lockouts(wish)
            case w.InboxWish():
                return self._inbox(wish)
            case _:
                return None

    def _said(self, wish: w.Wish, done: str, task: Task | None = None) -> Said:
        status = task.status.value if task else ""
        return Said(understood=w.in_words(wish), done=done, task_id=task.id if task else "", status=status)

    def _task(self, name: w.TaskName) -> Task:
        task = self._view.tasks.get(name.id)
        if task is None:
            raise Refused("unknown_task", f"There is no task {name.id}.")
        return task

    def _why(self, wish: w.WhyWish) -> Said:
        task = self._task(wish.task) if wish.task else None
        if task and not wish.agent:
            return self._said(wish, rejected(task, story(self._view, task.id)), task)
        found = explained(self._view, self._team, wish.agent, task.id if task else "")
        text = "\n".join(one.why for one in found) or f"{wish.agent} is not locked out of any task."
        return self._said(wish, text, task)

    def _state(self, task: Task) -> str:
        """How it stands with a task, in a few lines."""
        holder = task.claim.agent if task.claim else task.submission.agent if task.submission else ""
        rows = [f"{task.label}, {line(task.title)!r}, is {task.status}{f' ({holder})' if holder else ''}."]
        if task.rejection_count or task.gate_rejection_count:
            rows.append(
                f"Rejected by reviewers: {task.rejection_count}, by gates: {task.gate_rejection_count}."
            )
        if task.active_lockouts:
            rows.append(f"Locked out: {', '.join(lockout.agent for lockout in task.active_lockouts)}.")
        rows += self._held_rows(task)
        if task.open_escalation:
            rows.append(question(task, ways(self._view, self._team, task)))
        return "\n".join(rows)

    def _held_rows(self, task: Task) -> list[str]:
        """What is held of a task and who may settle it, with the commands for what the speaker may settle."""
        findings = open_findings(task)
        if not findings:
            return []
        team = self._team.as_known(Family(self._view).names(task))
        speaker = team.actor(self._speaker.name, confined=self._speaker.confined)
        names = name_choice(settlers(task, team))
        return [
            f"{held_count(len(findings))}; {names} may settle this:",
            settle_lines(task, speaker, findings),
        ]

    def _lockouts(self, wish: w.LockoutsWish) -> Said:
        rows = tuple(lockouts(self._view, wish.task.id if wish.task else ""))
        text = "\n".join(f"{row.agent}: {row.label}, by {row.reviewer}: {row.reason}" for row in rows)
        return Said(understood=w.in_words(wish), done=text or "Nobody is locked out.", lockouts=rows)

    def _inbox(self, wish: w.InboxWish) -> Said:

        def events_of(task_id: str) -> list[e.Event]:
            return story(self._view, task_id)

        found = open_escalations(self._view, self._team, events_of)
        found += held_questions(self._view, self._team, events_of, self._speaker)
        text = "\n".join(f"{one.escalation_id}: {one.question}" for one in found)
        return Said(
            understood=w.in_words(wish), done=text or "Nothing waits for you.", questions=tuple(found)
        )
