"""Commands and questions in plain English, carried out in the speaker's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from remand.app.events.task_folds import task_events
from remand.app.history.rejections import LockoutRow, active_lockouts, explain_lockouts, rejection_reasons
from remand.app.inbox.held_findings import held_questions
from remand.app.inbox.questions import Question, answer_options, open_escalations, question_text
from remand.app.requests import Acceptance, Answer
from remand.app.tasks.lookup import Lineage, find_task_id
from remand.domain import commands as c
from remand.domain.access.team import USER, Actor, Member, Role, Team
from remand.domain.decisions.findings import (
    describe_held_count,
    join_names,
    open_findings,
    possible_settlers,
    settle_lines,
)
from remand.domain.events.event import Event
from remand.domain.events.reviews import TaskReassigned
from remand.domain.events.tasks import HandoffInitiated
from remand.domain.ids import is_agent_name
from remand.domain.record import Record
from remand.domain.refusals import Refused, require_task
from remand.domain.task import Task
from remand.domain.text.words import single_line
from remand.domain.text_commands import patterns as p
from remand.domain.text_commands.interpretation import interpret_text
from remand.domain.text_commands.patterns import TaskName
from remand.domain.text_commands.sentence import ReferenceKind, TaskReference, Vocabulary, fold_letters
from remand.ledger.store import Store, Transaction


class NamedTasks:
    """Finds tasks by the names that people use."""

    def __init__(self, view: Transaction) -> None:
        self._view = view

    def find(self, reference: TaskReference) -> tuple[TaskName, ...]:
        """All tasks that a reference may mean."""
        return tuple(map(task_name, self._find_tasks(reference)))

    def _find_tasks(self, reference: TaskReference) -> tuple[Task, ...]:
        text = reference.text
        match reference.kind:
            case ReferenceKind.NAME:
                return self._by_name(text)
            case ReferenceKind.NUMBER:
                return self._by_issue_number(text) or self._by_pull_request(text)
            case ReferenceKind.PULL:
                return self._by_pull_request(text) or self._by_issue_number(text)
            case ReferenceKind.BARE:
                return tuple(dict.fromkeys(self._by_issue_number(text) + self._by_pull_request(text)))
            case ReferenceKind.TITLE:
                wanted = fold_letters(" ".join(text.split()))
                return tuple(task for task in self._view.tasks.every() if fold_letters(task.title) == wanted)
            case ReferenceKind.ESCALATION:
                tasks = self._view.tasks.every()
                return tuple(
                    task for task in tasks if task.inbox.escalation and task.inbox.escalation.id == text
                )

    def _by_name(self, name: str) -> tuple[Task, ...]:
        task = self._view.tasks.get(find_task_id(self._view, name))
        return (task,) if task else ()

    def _by_issue_number(self, number: str) -> tuple[Task, ...]:
        """Tasks by issue number; if the number alone matches none, in any repository."""
        ending = f"#{int(number)}"
        return self._by_name(ending) or tuple(
            task
            for task in self._view.tasks.every()
            if any(alias.endswith(ending) for alias in task.details.aliases)
        )

    def _by_pull_request(self, number: str) -> tuple[Task, ...]:
        return tuple(task for task in self._view.tasks.every() if task.pr and task.pr == int(number))

    def locking_out(self, agent: str) -> tuple[TaskName, ...]:
        return tuple(
            task_name(task)
            for task in self._view.tasks.every()
            if any(lockout.agent == agent for lockout in task.active_lockouts)
        )

    def locked_out_of(self, task_id: str) -> tuple[str, ...]:
        task = self._view.tasks.get(task_id)
        return tuple(lockout.agent for lockout in task.active_lockouts) if task else ()


def task_name(task: Task) -> TaskName:
    return TaskName(
        id=task.id,
        label=task.label,
        alias=task.details.aliases[0] if task.details.aliases else "",
        pr=task.pr,
    )


def vocabulary(view: Transaction, team: Team, speaker: Actor) -> Vocabulary:
    """The people and things that may be named. Without a team: the user and everyone involved in a task."""
    members = team.members or tuple(_known_people(view))
    return Vocabulary(members, NamedTasks(view), speaker.name)


def _known_people(view: Transaction) -> Iterator[Member]:
    yield Member(name=USER, roles=(Role.USER,))
    seen = {USER}
    for task in view.tasks.every():
        claimed = (task.claim.agent,) if task.claim else ()
        locked = (lockout.agent for lockout in task.people.lockouts)
        for name in (*task.people.authors, *task.people.holders, *claimed, *locked):
            if name not in seen and is_agent_name(name) and " " not in name:
                seen.add(name)
                yield Member(name=name)


NOT_UNDERSTOOD, UNSURE = "not_understood", "unsure"
MAX_REASON = 500


class TextCommandResult(Record, kw_only=True, omit_defaults=False):
    """The result of a text command."""

    understood: str = ""
    """The request in other words; empty if it was not understood."""
    done: str
    """The result, the answer, or why nothing was done."""
    refused: str = ""
    """The refusal code; empty if it was carried out or answered."""
    choices: tuple[str, ...] = ()
    """The commands that it may have meant."""
    task_id: str = ""
    status: str = ""
    lockouts: tuple[LockoutRow, ...] = ()
    questions: tuple[Question, ...] = ()


class TextCommands:
    """Interprets one speaker's texts. The rules decide what the speaker may do; their refusal is passed on."""

    def __init__(self, store: Store, team: Team, speaker: Actor, ask: Callable[[c.Command], Answer]) -> None:
        self._store = store
        self._team = team
        self._speaker = speaker
        self._ask = ask

    def run(self, text: str) -> TextCommandResult:
        """Carries out a text and returns the result."""
        with self._store.read() as view:
            understood = interpret_text(text, vocabulary(view, self._team, self._speaker))
            if isinstance(understood, p.TextRequest):
                reply = _Queries(view, self._team, self._speaker).answer(understood)
                if reply is not None:
                    return reply
        match understood:
            case p.UnclearRequest():
                return self._ask_back(understood)
            case p.UnknownRequest():
                return TextCommandResult(done=self._with_command(understood), refused=NOT_UNDERSTOOD)
            case _:
                return self._carry_out(understood, text)

    def _ask_back(self, unsure: p.UnclearRequest) -> TextCommandResult:
        """A question back. Commands reserved to the user are shown only to the user."""
        is_user = self._speaker.has(Role.USER) and not self._speaker.confined
        requests = [
            request for request in unsure.requests if is_user or not isinstance(request, p.USER_ONLY_REQUESTS)
        ]
        choices = tuple(dict.fromkeys(map(p.render_command_line, requests)))
        return TextCommandResult(done=self._with_command(unsure), refused=UNSURE, choices=choices)

    def _with_command(self, answer: p.UnclearRequest | p.UnknownRequest) -> str:
        if not answer.command or self._speaker.confined:
            return answer.message
        return f"{answer.message} Use `{answer.command}`."

    def _carry_out(self, request: p.TextRequest, text: str) -> TextCommandResult:
        understood = p.describe_request(request)
        answer = self._ask(_command_for(request, f"said: {single_line(text)}"))
        if isinstance(answer, Refused):
            return TextCommandResult(understood=understood, done=answer.message, refused=answer.code)
        with self._store.read() as view:
            done = _outcome_text(request, answer, view, self._team)
        return TextCommandResult(
            understood=understood, done=done, task_id=answer.task.id, status=answer.task.status
        )


def _command_for(request: p.TextRequest, default_reason: str) -> c.Command:
    """The command that a request asks for; where a reason is needed and none was given, it is the text itself."""
    match request:
        case p.ReviewTextRequest():
            return c.RequestReview(task_id=request.task.id, reviewer=request.reviewer)
        case p.UnlockTextRequest():
            return c.Unlock(
                task_id=request.task.id,
                agent=request.agent,
                reason=request.reason[:MAX_REASON] or default_reason,
                guidance=request.advice,
            )
        case p.ReassignTextRequest():
            return c.ReassignTask(
                task_id=request.task.id, target=request.target, source=request.source, reason=request.reason
            )
        case p.EscalateTextRequest():
            return c.EscalateTask(task_id=request.task.id, reason=request.reason or default_reason)
        case p.AnswerTextRequest():
            return c.AnswerEscalation(
                task_id=request.task.id, option=request.option, guidance=request.guidance
            )
        case _:
            raise AssertionError(f"{request} asks for nothing")


def _outcome_text(request: p.TextRequest, answer: Acceptance, view: Transaction, team: Team) -> str:
    """What came of a request that was granted."""
    task = answer.task
    reserved = next((event for event in answer.events if isinstance(event, HandoffInitiated)), None)
    reservation = f" It is reserved for {reserved.target_agent} for now." if reserved else ""
    match request:
        case p.ReviewTextRequest():
            return f"{task.label} awaits a review by {', '.join(task.reviews.requested)}."
        case p.UnlockTextRequest():
            return f"{request.agent} may work on {task.label} again.{reservation}"
        case p.ReassignTextRequest():
            passed_on = next((event for event in answer.events if isinstance(event, TaskReassigned)), None)
            last = " No other agent is left after this one." if passed_on and passed_on.is_last else ""
            return f"{request.target} takes over {task.label}.{reservation}{last}"
        case p.EscalateTextRequest() if task.open_escalation:
            question = question_text(task, answer_options(view, team, task))
            return f"{task.open_escalation.id} waits for the user: {question}"
        case _:
            return f"{task.label} is {task.status}.{reservation}"


class _Queries:
    """Answers what can be read from the ledger."""

    def __init__(self, view: Transaction, team: Team, speaker: Actor) -> None:
        self._view = view
        self._team = team
        self._speaker = speaker

    def answer(self, request: p.TextRequest) -> TextCommandResult | None:
        """The answer; None for a request that takes more than reading."""
        match request:
            case p.WhyTextRequest():
                return self._why(request)
            case p.StatusTextRequest():
                task = self._task(request.task)
                return self._result(request, self._task_state(task), task)
            case p.LockoutsTextRequest():
                rows = tuple(active_lockouts(self._view, request.task.id if request.task else ""))
                text = "\n".join(f"{row.agent}: {row.label}, by {row.reviewer}: {row.reason}" for row in rows)
                return TextCommandResult(
                    understood=p.describe_request(request),
                    done=text or "Nobody is locked out.",
                    lockouts=rows,
                )
            case p.InboxTextRequest():
                questions = open_escalations(self._view, self._team, self._events_of)
                questions += held_questions(self._view, self._team, self._events_of, self._speaker)
                text = "\n".join(f"{question.escalation_id}: {question.question}" for question in questions)
                return TextCommandResult(
                    understood=p.describe_request(request),
                    done=text or "Nothing waits for you.",
                    questions=tuple(questions),
                )
            case _:
                return None

    def _events_of(self, task_id: str) -> list[Event]:
        return task_events(self._view, task_id)

    def _result(self, request: p.TextRequest, done: str, task: Task | None = None) -> TextCommandResult:
        status = task.status.value if task else ""
        return TextCommandResult(
            understood=p.describe_request(request), done=done, task_id=task.id if task else "", status=status
        )

    def _task(self, name: p.TaskName) -> Task:
        return require_task(self._view.tasks.get(name.id), name.id)

    def _why(self, request: p.WhyTextRequest) -> TextCommandResult:
        task = self._task(request.task) if request.task else None
        if task and not request.agent:
            return self._result(request, rejection_reasons(task, task_events(self._view, task.id)), task)
        explanations = explain_lockouts(self._view, self._team, request.agent, task.id if task else "")
        text = "\n".join(one.why for one in explanations) or f"{request.agent} is not locked out of any task."
        return self._result(request, text, task)

    def _task_state(self, task: Task) -> str:
        """A task's state, in a few lines."""
        holder = task.claim.agent if task.claim else task.submission.agent if task.submission else ""
        rows = [
            f"{task.label}, {single_line(task.title)!r}, is {task.status}{f' ({holder})' if holder else ''}."
        ]
        if task.reviews.rejection_count or task.gates.rejection_count:
            rows.append(
                f"Rejected by reviewers: {task.reviews.rejection_count}, by gates: {task.gates.rejection_count}."
            )
        if task.active_lockouts:
            rows.append(f"Locked out: {', '.join(lockout.agent for lockout in task.active_lockouts)}.")
        rows += self._held_rows(task)
        if task.open_escalation:
            rows.append(question_text(task, answer_options(self._view, self._team, task)))
        return "\n".join(rows)

    def _held_rows(self, task: Task) -> list[str]:
        """What is held of a task and who may settle it, with the commands for what the speaker may settle."""
        findings = open_findings(task)
        if not findings:
            return []
        team = self._team.with_task_names(Lineage(self._view).participant_names(task))
        speaker = team.actor(self._speaker.name, confined=self._speaker.confined)
        names = join_names(possible_settlers(task, team))
        return [
            f"{describe_held_count(len(findings))}; {names} may settle this:",
            settle_lines(task, speaker, findings),
        ]
