"""A scheduler's access to the ledger on a server.

Runs of its own members count as its own, whichever server recorded them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from remand.adapters.server.client import (
    COMMITS,
    UPLOAD_SECONDS,
    CallDenied,
    ServerClient,
    ServerUnavailable,
    UnusableServer,
    retry_while_unavailable,
)
from remand.app.errors import EnvironmentFault
from remand.app.gates.known_results import BrokenGates
from remand.app.requests import Acceptance, Answer, Rules
from remand.app.scheduler.host_calls import (
    MAX_MESSAGE,
    HostAnswer,
    HostCommand,
    HostMethod,
    HostQuestion,
)
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.ports import CannotRun, SessionResult
from remand.app.scheduler.review_runs import ReviewerChoice
from remand.app.scheduler.runs import ActiveRun, RunAssignment
from remand.domain import ids
from remand.domain.access.team import Actor, Team, fold_name
from remand.domain.events.event import Event
from remand.domain.instant import Instant
from remand.domain.refusals import restore_refusal
from remand.domain.task import Status, Task
from remand.ledger import codec

PATH = "/api/scheduler"
OWN, OTHER = "this host", "another host"
"""What stands for the ledger that started a run or a claim, since this scheduler has none."""
PATIENCE = 120.0
AWAY_SECONDS = 20.0
"""How long a query waits for an unavailable server; then this round fails and the next one tries again."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HostAnswer).decode


class ServerLedgerClient(LedgerClient):
    """Queries a server. Raises EnvironmentFault while it is unavailable; the scheduler reports that and continues."""

    def __init__(
        self,
        server: ServerClient,
        rules: Callable[[], Rules],
        now: Callable[[], Instant],
        fresh: Callable[[], str],
    ) -> None:
        self._server = server
        self._rules = rules
        self._clock = now
        self._fresh = fresh
        self._facts: tuple[Task, HostAnswer] | None = None
        self.members = frozenset(map(fold_name, self._ask_server(HostMethod.MEMBERS).names))
        """The members that this host starts."""

    @property
    def rules(self) -> Rules:
        """The rules of the clone, with start commands only for this host's members."""
        rules = self._rules()
        own = tuple(
            member if fold_name(member.name) in self.members else replace(member, command=())
            for member in rules.team.members
        )
        return replace(rules, team=Team(own, rules.team.former))

    @property
    def session(self) -> str:
        return OWN

    @property
    def home(self) -> str:
        return ""

    def review_facts(self, task: Task) -> HostAnswer:
        """The facts for choosing a task's reviewer; one query for each round."""
        if self._facts is None or self._facts[0] is not task:
            self._facts = (task, self._ask_server(HostMethod.REVIEW_FACTS, task_id=task.id))
        return self._facts[1]

    def changed_paths(self, task: Task) -> tuple[str, ...] | None:
        return self.review_facts(task).paths

    def barred_agents(self, task: Task) -> tuple[str, ...]:
        return self.review_facts(task).names

    def is_blocked_by_objection(self, task: Task) -> bool:
        return bool(self.review_facts(task).count)

    def review_prompt(self, task_id: str, run_id: str) -> str:
        """The prompt of an agent that reviews or directs. Raises `CannotRun`."""
        answer = self._ask_server(HostMethod.PROMPT, task_id=task_id, run_id=run_id)
        if answer.refused:
            raise CannotRun("git", answer.message)
        return answer.text

    def apply_message(self, task_id: str, run_id: str, text: str) -> str:
        """Sends such an agent's message to be applied; returns why it had no effect."""
        answer = self._ask_server(
            HostMethod.OPINION, task_id=task_id, run_id=run_id, text=text[-MAX_MESSAGE:]
        )
        return f"refused ({answer.refused}): {answer.message}" if answer.refused else answer.text

    def now(self) -> str:
        return self._clock()

    def new_run_id(self) -> str:
        return ids.make_id("RUN", self.now(), self._fresh())

    def ask(self, ask: HostCommand) -> Answer:  # type: ignore[override] # a host asks for no more than these
        answer = self._ask_server(HostMethod.ASK, command=ask)
        if answer.refused:
            return restore_refusal(answer.refused, answer.message)
        return Acceptance(events=_events(answer), task=self._own(answer.tasks[0]))

    def settle_due(self) -> None:
        """Does nothing: the server does it."""

    def skip_news(self) -> None:
        """Does nothing: every round reads the whole state."""

    def changed_tasks(self) -> set[str]:
        return set()

    def task(self, task_id: str) -> Task | None:
        return self._first(self._ask_server(HostMethod.TASK, task_id=task_id))

    def running_tasks(self) -> list[Task]:
        tasks = self._tasks(self._ask_server(HostMethod.RUNNING))
        return [task for task in tasks if any(run.session == OWN for run in task.runs)]

    def active_tasks(self, status: Status) -> list[Task]:
        return self._tasks(self._ask_server(HostMethod.ACTIVE, status=status))

    def broken_gates(self) -> BrokenGates:
        answer = self._ask_server(HostMethod.BROKEN_GATES)
        return BrokenGates(frozenset(answer.names), tuple(self._tasks(answer)))

    def waiting_for_review(self) -> int:
        return self._ask_server(HostMethod.WAITING_FOR_REVIEW).count

    def open_tasks(self) -> set[str]:
        return set(self._ask_server(HostMethod.OPEN).names)

    def ready_ids(self) -> list[str]:
        return list(self._ask_server(HostMethod.READY).names)

    def ready_tasks(self) -> Iterator[Task]:
        found = map(self.task, self.ready_ids())
        return (task for task in found if task is not None)

    def first_for(self, agent: Actor, *, has_team: bool) -> Task | None:  # noqa: ARG002 - the server knows
        return self._first(self._ask_server(HostMethod.FIRST_FOR, agent=agent.name))

    def prompt_for_agent(self, task_id: str, agent: str) -> str:
        return self._ask_server(HostMethod.PROMPT, task_id=task_id, agent=agent).text

    def task_events(self, task_id: str) -> list[Event]:
        return list(_events(self._ask_server(HostMethod.EVENTS, task_id=task_id)))

    def renew_lease(self, task: Task) -> None:
        self._ask_server(HostMethod.RENEW, task_id=task.id)

    def _ask_server(
        self,
        method: HostMethod,
        *,
        task_id: str = "",
        agent: str = "",
        status: str = "",
        run_id: str = "",
        text: str = "",
        command: HostCommand | None = None,
    ) -> HostAnswer:
        question = HostQuestion(
            method=method,
            task_id=task_id,
            agent=agent,
            status=status,
            run_id=run_id,
            text=text,
            command=command,
        )
        headers = (("Content-Type", "application/json"),)
        try:
            answered = retry_while_unavailable(
                lambda: self._server.request(
                    "POST", PATH, _encode(question), patience=PATIENCE, headers=headers
                ),
                AWAY_SECONDS,
                lambda _: None,
            )
            return _decode(answered.body)
        except (ServerUnavailable, msgspec.MsgspecError) as error:
            raise EnvironmentFault(
                f"The server cannot be reached: {error}. Running agents continue."
            ) from None
        except CallDenied as denied:
            if method in (HostMethod.ASK, HostMethod.OPINION):
                return HostAnswer(refused=denied.code, message=str(denied))
            raise EnvironmentFault(f"The server refused: {denied}") from None

    def _first(self, answer: HostAnswer) -> Task | None:
        return next(iter(self._tasks(answer)), None)

    def _tasks(self, answer: HostAnswer) -> list[Task]:
        return [self._own(task) for task in answer.tasks]

    def _own(self, task: Task) -> Task:
        """A task in which runs and claims of this host's members are marked as its own."""
        runs = tuple(replace(run, session=self._owner(run.agent)) for run in task.runs)
        claim = task.claim
        if claim is not None and claim.runner:
            claim = replace(claim, runner=self._owner(claim.agent))
        return replace(task, runs=runs, claim=claim)

    def _owner(self, agent: str) -> str:
        return OWN if fold_name(agent) in self.members else OTHER


class ServerReviewRuns(ReviewerChoice):
    """Review and director runs on a host: the host chooses its members. The server renders prompts and applies answers."""

    def __init__(self, ledger: ServerLedgerClient) -> None:
        super().__init__(ledger)
        self._server = ledger

    def prompt(self, assignment: RunAssignment) -> str:
        return self._server.review_prompt(assignment.task.id, assignment.run_id)

    def apply_answer(self, run: ActiveRun, result: SessionResult) -> str:
        return self._server.apply_message(run.assignment.task.id, run.assignment.run_id, result.text)


def _events(answer: HostAnswer) -> tuple[Event, ...]:
    return tuple(codec.decode_trusted_line(bytes(raw)) for raw in answer.events)


class CommitStore(Protocol):
    """The submitted commits of a clone."""

    def fetch(self, task_id: str, commit: str) -> str:
        """Fetches a commit from the remote unless it is here; returns why that failed."""

    def receive(self, task_id: str, commit: str, pack: bytes, known: Sequence[str]) -> None:
        """Imports a commit from a pack. Raises EnvironmentFault."""


def take_commit(server: ServerClient, store: CommitStore, commit: str) -> None:
    """Brings a commit into a host's clone, through the project's remote or the server. Raises EnvironmentFault."""
    if commit and (reason := fetch_commit(lambda: server, store, str, "", commit)):
        raise EnvironmentFault(f"Commit {commit[:12]} is not available: {reason.removesuffix('.')}.")


def fetch_commit(
    connect: Callable[[], ServerClient] | None,
    store: CommitStore,
    find_base: Callable[[], str],
    task_id: str,
    commit: str,
) -> str:
    """Brings a commit into a clone, through the project's remote or, if there is one, a server; returns why
    that failed.

    `find_base` names a commit that the clone has, so that the server need not send it; it may be empty.
    """
    reason = store.fetch(task_id, commit)
    if not reason or connect is None:
        return reason
    base = find_base()
    query = f"task={task_id}&" * bool(task_id) + f"commit={commit}" + f"&known={base}" * bool(base)
    try:
        pack = connect().request("GET", f"{COMMITS}/fetch?{query}", patience=UPLOAD_SECONDS).body
        store.receive(task_id, commit, pack, [base] if base else [])
    except (ServerUnavailable, UnusableServer, CallDenied, EnvironmentFault) as fault:
        return str(fault)
    return ""
