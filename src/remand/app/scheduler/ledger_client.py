"""The scheduler's access to the ledger: one thread at a time, in small steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from remand.app.events.task_folds import task_events
from remand.app.gates.known_results import BrokenGates, read_broken_gates
from remand.app.inbox.objections import blocking_objections
from remand.app.ledger import Ledger
from remand.app.prompts import read_rejection_context, render_prompt
from remand.app.requests import Acceptance, Answer, Request, Rules
from remand.app.tasks.lookup import Lineage, lockout_facts
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.access.team import THE_COORDINATOR, Actor
from remand.domain.events.event import Event, KnownBy
from remand.domain.policy import IGNORE
from remand.domain.preconditions import find_lockout
from remand.domain.refusals import Refused, require_task
from remand.domain.task import Status, Task

T = TypeVar("T")


class LedgerClient:
    """Sends commands to the ledger and reads from it, from any thread."""

    def __init__(
        self, ledger: Ledger, rules: Callable[[], Rules], home: Callable[[], str], fresh: Callable[[], str]
    ) -> None:
        self._ledger = ledger
        self._rules = rules
        self._home = home
        self._fresh = fresh
        self._lock = threading.RLock()
        self._seen = 0

    @property
    def rules(self) -> Rules:
        with self._lock:
            return self._rules()

    @property
    def session(self) -> str:
        """The session to which this ledger's own runs belong."""
        with self._lock, self._ledger.store.read() as view:
            return view.head.session

    @property
    def home(self) -> str:
        with self._lock:
            return self._home()

    def with_ledger(self, read: Callable[[], T]) -> T:
        """Runs a function that reads the ledger directly."""
        with self._lock:
            return read()

    def changed_paths(self, task: Task) -> tuple[str, ...] | None:
        """The paths that a submission changes; None if unknown."""
        if task.submission is None:
            return None
        with self._lock:
            difference = self._ledger.difference(task, task.submission.commit)
        return difference.paths if difference else None

    def barred_agents(self, task: Task) -> tuple[str, ...]:
        """The members who may not work on a task, by the names the task knows."""
        with self._lock, self._ledger.store.read() as view:
            team = self._rules().team.with_task_names(Lineage(view).participant_names(task))
            lockouts = lockout_facts(view, team, task)
        return tuple(
            member.name for member in team.members if find_lockout(task, member.name, lockouts) is not None
        )

    def is_blocked_by_objection(self, task: Task) -> bool:
        """True if approving the submission requires the user to answer an objection first."""
        if self.rules.policy.unconfirmed_no == IGNORE:
            return False
        with self._lock, self._ledger.store.read() as view:
            return bool(blocking_objections(view, task))

    def now(self) -> str:
        return self._ledger.clock.now()

    def new_run_id(self) -> str:
        return ids.make_id("RUN", self.now(), self._fresh())

    def ask(self, ask: c.Command) -> Answer:
        """Gives a command as the system."""
        with self._lock:
            return self._ledger.ask_as(THE_COORDINATOR, ask)

    def ask_as(self, request: Request) -> Answer:
        """Sends a member's request with that member's rights only."""
        with self._lock:
            return self._ledger.ask(request)

    def settle_due(self) -> None:
        """Applies everything that is due: expired leases, deferred tasks, repeated questions."""
        with self._lock:
            self._ledger.ask_all([])

    def skip_news(self) -> None:
        """Makes `changed_tasks` start from the current position."""
        with self._lock, self._ledger.store.read() as view:
            self._seen = view.head.seq

    def changed_tasks(self) -> set[str]:
        """The tasks changed here since the last call, without changes that came through git."""
        with self._lock, self._ledger.store.read() as view:
            head, first = view.head, self._seen + 1
            lines = list(view.events.lines(head.session, first)) if head.seq >= first else []
            self._seen = head.seq
        return {_decode_subject(line).task_id for line in lines}

    def task(self, task_id: str) -> Task | None:
        with self._lock, self._ledger.store.read() as view:
            return view.tasks.get(task_id)

    def running_tasks(self) -> list[Task]:
        with self._lock, self._ledger.store.read() as view:
            return view.task_lists.running_tasks()

    def active_tasks(self, status: Status) -> list[Task]:
        with self._lock, self._ledger.store.read() as view:
            return view.task_lists.with_status(status)

    def broken_gates(self) -> BrokenGates:
        """The gates that cannot run; obsolete questions about gates are closed."""
        policy = self.rules.gates_digest
        with self._lock:
            with self._ledger.store.read() as view:
                gates = read_broken_gates(view, policy)
            for task in gates.outdated_questions:
                self.ask(c.NoteGatesMeasured(task_id=task.id))
        return gates

    def waiting_for_review(self) -> int:
        with self._lock, self._ledger.store.read() as view:
            return view.queue.count(Status.PROVISIONAL)

    def open_tasks(self) -> set[str]:
        """The tasks whose worktrees are kept because somebody may continue them."""
        with self._lock, self._ledger.store.read() as view:
            return {task.id for task in view.tasks.every() if not task.is_terminal}

    def ready_ids(self) -> list[str]:
        with self._lock, self._ledger.store.read() as view:
            return view.queue.ready()

    def ready_tasks(self) -> Iterator[Task]:
        """The claimable tasks in queue order, each read on demand."""
        found = map(self.task, self.ready_ids())
        return (task for task in found if task is not None)

    def first_for(self, agent: Actor, *, has_team: bool) -> Task | None:
        with self._lock, self._ledger.store.read() as view:
            return view.tasks.get(view.queue.next(agent, has_team=has_team))

    def prompt_for_agent(self, task_id: str, agent: str) -> str:
        """The prompt for the agent that holds a task; the receipt of its feedback is recorded first."""
        with self._lock:
            task = require_task(self.task(task_id), task_id)
            if task.reviews.feedback or task.people.lockouts or task.links.parent:
                fetched = self._send_for(agent, c.FetchFeedback(task_id=task.id, agent=agent))
                if isinstance(fetched, Refused):
                    raise fetched
                task = fetched.task
            with self._ledger.store.read() as view:
                events = task_events(view, task_id)
                return render_prompt(task, events, read_rejection_context(view, task, events), self.home)

    def task_events(self, task_id: str) -> list[Event]:
        with self._lock, self._ledger.store.read() as view:
            return list(task_events(view, task_id))

    def renew_lease(self, task: Task) -> None:
        """Renews the lease of the agent that holds the task."""
        claim = task.claim
        if claim is not None:
            heartbeat = c.Heartbeat(task_id=task.id, agent=claim.agent, handoff_id=claim.handoff_id)
            self._send_for(claim.agent, heartbeat)

    def _send_for(self, agent: str, command: c.FetchFeedback | c.Heartbeat) -> Answer:
        """Sends a command for an agent that we started, with its rights only."""
        return self.ask_as(Request(command=command, actor=agent, confined=True, known_by=KnownBy.SOCKET))


class _EventSubject(msgspec.Struct):
    """The subject of an event, without the rest of it."""

    task_id: str = ""


_decode_subject = msgspec.json.Decoder(_EventSubject).decode


def accepted_task(answer: Answer) -> Task | None:
    """The task after a command; None if it was refused."""
    return answer.task if isinstance(answer, Acceptance) else None
