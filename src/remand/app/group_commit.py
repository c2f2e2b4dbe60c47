"""Commits the requests of many threads in groups, and shares a ledger between several writing processes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import Any, Protocol, TypeVar, cast

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault, RemandError, StoreAway, StoreConflict, StoreRejected
from remand.app.events.event_files import FollowUp, do_nothing
from remand.app.events.signatures import Signer, Verifier
from remand.app.handler import RequestHandler
from remand.app.ledger import LastDue, Ledger, UnsyncedAnswers, always_due
from remand.app.requests import Answer, Request, Rules, is_valid_request, require_answers
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.access.keys import PublicKey, parse_trust
from remand.domain.access.team import Actor
from remand.domain.decisions.forge_actions import issue_task_id
from remand.domain.preconditions import require_trusted_key
from remand.ledger.store import ChangeScope, LedgerHead, SharedStore, SharedTransaction, Transaction

_MOST = 256
"""The most threads and futures whose requests are in one group."""
_ATTEMPTS, _ATTEMPTS_TOGETHER = 50, 2
"""How often a change is attempted, and how often as a group before its requests are decided one by one."""
_AWAY_SECONDS = 60.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 1.0
T = TypeVar("T")
_LINKS = ("depends_on", "drop_depends_on", "waits_for", "created_tasks")


def request_scope(requests: Iterable[Request]) -> ChangeScope:
    """The names in requests. Whatever else they depend on is locked when it is read."""
    names: set[str] = set()
    tasks: set[str] = set()
    handoffs: set[str] = set()
    is_linking, claims = False, 0
    for request in requests:
        command: c.Command = request.command
        names.update(_unique_names(request))
        links, task = _links(command), getattr(command, "task_id", "")
        tasks.update(ids.parse_task_id(name) or name for name in (task, *links) if name)
        if handoff := getattr(command, "handoff_id", ""):
            handoffs.add(ids.parse_handoff_id(handoff) or handoff)
        is_linking = is_linking or bool(links)
        claims += isinstance(command, c.ClaimTask | c.AssignTask) and not task
    return ChangeScope(names, tasks, handoffs, is_linking, claims)


def _links(command: c.Command) -> tuple[str, ...]:
    return tuple(name for field in _LINKS for name in getattr(command, field, ()) or ())


def _unique_names(request: Request) -> list[str]:
    """Names that only one task or request may have; requests for the same name wait for one another."""
    command: c.Command = request.command
    issue = issue_task_id(command) if isinstance(command, c.ImportIssue) else ""
    branch = getattr(command, "branch", "") if getattr(command, "is_branch_given", False) else ""
    found = [
        ("key", request.key),
        ("id", getattr(command, "own_id", "") or issue),
        ("branch", branch),
        ("pr", getattr(command, "pr", 0)),
        ("commit", getattr(command, "commit", "")),
        *(("alias", alias) for alias in getattr(command, "aliases", ()) or ()),
    ]
    return [f"{kind} {name}" for kind, name in found if name]


def _pause(attempt: int) -> None:
    time.sleep(min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2**attempt) * random.random())  # noqa: S311 - no secret


def _do_nothing() -> None:
    """For callers that need no notification."""


class _Attempt(threading.local):
    """The parameters of a thread's next change."""

    scope = ChangeScope()
    """What it locks before anything is decided."""
    ahead: ChangeScope | None = None
    """The scope, if the change is to begin with it."""
    on_decided: Callable[[], None] = staticmethod(_do_nothing)


class SharedLedger(Ledger):
    """A ledger in a database that other processes write concurrently.

    Writers of the same rows wait for each other. A change that conflicts is rolled back and decided again.
    """

    has_event_files = False

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._attempt = _Attempt()
        self._shared: Verifier | None = None
        self._compared: tuple[tuple[str, str], bool] = (("", ""), False)
        """The last compared bases (this machine's and the one last judged by), and whether this machine's is newer."""

    def _trust(self, tx: Transaction) -> tuple[Verifier, str]:
        """The keys that the base trusts, which are the same on all machines; the machine's own key is not added.

        A machine that the base does not list keeps the previous judgement and writes nothing. So does one whose base is
        older than the one last judged by; otherwise machines with different fetches would re-judge everything in turn.
        If the base lists no keys, the first machine that writes is the only one.
        """
        own, noted = self.keys.own(), tx.unconfirmed.trust
        verifier = super()._trust(tx)[0]
        with suppress(EnvironmentFault):
            verifier = self._shared_verifier(tx, self._rules(), own, noted) or verifier
        key = verifier.trust.find_key(own.id) if own else None
        return verifier, own.id if own and (key is None or key.until is not None) else ""

    def _shared_verifier(
        self, tx: Transaction, rules: Rules, own: PublicKey | None, noted: str
    ) -> Verifier | None:
        """The verifier for the base, or the previous one; None on the only machine of a team without keys."""
        own_id = own.id if own else ""
        trust = parse_trust(noted)
        if rules.trusted:
            ours = replace(rules.trust(None), keys=rules.trusted)
            is_listed = any(key.id == own_id and key.until is None for key in rules.trusted)
            if not noted or (is_listed and (ours == trust or self._has_newer_base(tx, rules))):
                trust = ours
        elif all(key.id == own_id for key in trust.keys):
            return None
        if self._shared is None or self._shared.trust != trust:
            self._shared = Verifier(trust, self.keys)
        return self._shared

    def _has_newer_base(self, tx: Transaction, rules: Rules) -> bool:
        """True if this machine's base is newer than the one by which the ledger was last judged.

        A rewritten base counts as newer if both commits are known; a base that is unknown here counts as the newer one.
        """
        noted = tx.unconfirmed.base
        if not noted:
            return True
        noted_base = (rules.base, noted)
        if self._compared[0] != noted_base:
            is_ancestor = self.repository.is_ancestor
            is_known = self.repository.commit(noted) is not None
            is_newer = noted != rules.base and is_known and not is_ancestor(rules.base, noted)
            self._compared = (noted_base, is_newer)
        return self._compared[1]

    def _catch_up(self, tx: Transaction) -> Verifier | None:
        before = tx.unconfirmed.trust
        verifier = super()._catch_up(tx)
        if tx.unconfirmed.trust != before:
            tx.unconfirmed.base = self._rules().base
        return verifier

    def _require_open(self, tx: Transaction, verifier: Verifier) -> None:
        super()._require_open(tx, verifier)
        require_trusted_key(tx.unconfirmed.writer, is_confined=True)

    def open_store(self) -> AbstractContextManager[Transaction]:
        ahead, self._attempt.ahead = self._attempt.ahead, None
        return cast("SharedStore", self.store).write(ahead)

    def prepare(self, tx: Transaction) -> None:
        """Locks all rows that the requests name, in a fixed order, before anything is read."""
        cast("SharedTransaction", tx).prepare(self._attempt.scope, self._attempt.on_decided)

    def decide_all(
        self, requests: Sequence[Request], on_decided: Callable[[], None] = lambda: None
    ) -> UnsyncedAnswers:
        """Decides and commits requests. The next group may be decided while this one is committed."""
        self._attempt.on_decided = on_decided
        try:
            return self._decide_all([(request, None) for request in requests])
        finally:
            self._attempt.on_decided = _do_nothing

    def _decide_all(
        self, requests: Sequence[tuple[Request, Actor | None]], is_last_due: LastDue = always_due
    ) -> UnsyncedAnswers:
        until = time.monotonic() + _AWAY_SECONDS
        scope = request_scope(request for request, _ in requests if is_valid_request(request))
        self._attempt.scope = self._attempt.ahead = scope
        try:
            for attempt in range(_ATTEMPTS):
                try:
                    return super()._decide_all(requests, is_last_due)
                except StoreConflict as conflict:
                    # What it begins with may be the reason: it may have to wait for all others first.
                    scope = self._attempt.scope
                    self._attempt.scope = scope._replace(tasks={*scope.tasks, *conflict.tasks})
                    if attempt >= _ATTEMPTS_TOGETHER and len(requests) > 1 and is_last_due is always_due:
                        return self._decide_each(requests)
                except StoreRejected:
                    if len(requests) == 1 or is_last_due is not always_due:
                        raise
                    return self._decide_each(requests)
                except StoreAway:
                    if time.monotonic() > until:
                        raise
                _pause(attempt)
            return super()._decide_all(requests, is_last_due)
        finally:
            self._attempt.ahead = None

    def refresh(self) -> None:
        self._repeat(super().refresh, _LONGEST_PAUSE)

    def change(self, make: Callable[[Transaction], T]) -> T:
        return self._repeat(lambda: super(SharedLedger, self).change(make))

    def change_log(
        self, prepare: Callable[[RequestHandler, Signer], object], follow: FollowUp = do_nothing
    ) -> None:
        self._repeat(lambda: super(SharedLedger, self).change_log(prepare, follow))

    def _repeat(self, change: Callable[[], T], away_seconds: float = _AWAY_SECONDS) -> T:
        """Retries a change of the log after a conflict or a lost connection."""
        until = time.monotonic() + away_seconds
        for attempt in range(_ATTEMPTS):
            try:
                return change()
            except StoreConflict:
                pass
            except StoreAway:
                if time.monotonic() > until:
                    raise
            _pause(attempt)
        return change()

    def _decide_each(self, requests: Sequence[tuple[Request, Actor | None]]) -> UnsyncedAnswers:
        """Decides requests one by one, so that a conflict of one does not delay the others."""
        answers: list[Answer | EnvironmentFault] = []
        head, has_outdated_files = None, False
        for one in requests:
            try:
                unsynced_answers = self._decide_all([one])
            except EnvironmentFault as fault:
                answers.append(fault)
                continue
            answers += unsynced_answers.answers
            head, has_outdated_files = (
                unsynced_answers.head or head,
                has_outdated_files or unsynced_answers.has_outdated_files,
            )
        return UnsyncedAnswers(answers, head, has_outdated_files)


class _PendingRequests:
    """Requests that wait for their answers, either in a thread (which may become the leader) or one as a future."""

    def __init__(self, requests: Sequence[Request], future: Future[Answer] | None = None) -> None:
        self.requests = requests
        self.future = future
        self.answers: Sequence[Answer | RemandError] = ()
        self._wake = threading.Lock()
        self._wake.acquire()

    def wait(self) -> None:
        """Returns when there is an answer or an error; without either, this thread becomes the leader."""
        self._wake.acquire()

    def wake(self) -> None:
        """Wakes the thread, or resolves the future."""
        if self.future is None:
            self._wake.release()
        elif isinstance(answer := self.answers[0], RemandError):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)

    def fail(self, error: RemandError) -> None:
        """Gives every request that has no answer an error."""
        self.answers = self.answers or [error] * len(self.requests)


def _unanswered_fault() -> RemandError:
    return EnvironmentFault(
        "The request was not answered: the server failed while it was decided. Repeat it."
    )


class GroupLedger(Protocol):
    """The ledger operations that a group commit needs."""

    def decide_all(self, requests: Sequence[Request], on_decided: Callable[[], None]) -> UnsyncedAnswers:
        """Decides and records requests; calls `on_decided` when the next group may be decided."""

    def sync(self, head: LedgerHead) -> None:
        """Makes everything recorded so far durable."""

    def update_files(self) -> object:
        """Updates the files for people."""


class GroupCommit:
    """Answers the requests of many threads. Waiting requests are decided as one group and made durable by one commit.

    One thread, the leader, decides for all. While its group is made durable, another thread decides the next.
    """

    def __init__(self, ledger: GroupLedger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._waiting: list[_PendingRequests] = []
        self._has_leader = False
        self._has_ended = threading.Condition(self._lock)
        """Notified when no thread decides and none waits."""
        self._is_closed = False
        self._threads = ThreadPoolExecutor(2, "decide")
        """Threads that lead for requests submitted without a waiting thread; started on demand."""

    def ask(self, request: Request) -> Answer:
        """Answers a request once its events are durable."""
        return require_answers(self.ask_all([request]))[0]

    def ask_all(self, requests: Sequence[Request]) -> Sequence[Answer | RemandError]:
        """Answers several requests of one thread in order, once their events are durable."""
        own = _PendingRequests(requests)
        if not self._join(own):
            own.wait()
        if not own.answers:
            self._lead(own)
        return own.answers

    def submit(self, request: Request) -> Future[Answer]:
        """Answers a request later without a waiting thread."""
        future: Future[Answer] = Future()
        own = _PendingRequests([request], future)
        if self._join(own):
            self._threads.submit(self._lead, own)
        return future

    def _join(self, own: _PendingRequests) -> bool:
        """Adds a request to the queue; True if its thread becomes the leader."""
        with self._lock:
            if self._is_closed and own.future is not None:
                own.fail(_unanswered_fault())
                own.wake()
                return False
            self._waiting.append(own)
            is_leader, self._has_leader = not self._has_leader, True
            return is_leader

    def _lead(self, own: _PendingRequests) -> None:
        """Decides these requests and all that wait."""
        with self._lock:
            self._waiting.remove(own)
            group, self._waiting = [own, *self._waiting[: _MOST - 1]], self._waiting[_MOST - 1 :]
        turn = _Turn(self._pass_on)
        has_outdated_files = False
        try:
            answers, head, has_outdated_files = self._ledger.decide_all(
                [request for one in group for request in one.requests], turn.end
            )
            turn.end()
            if head is not None:
                self._ledger.sync(head)
            left = iter(answers)
            for one in group:
                one.answers = list(islice(left, len(one.requests)))
        except RemandError as error:
            for one in group:
                one.fail(error)
        finally:
            turn.end()
            for one in group:
                one.fail(_unanswered_fault())  # without an answer, waking it would make it the leader
                if one is not own or one.future is not None:
                    one.wake()
        if has_outdated_files:
            self._ledger.update_files()

    def _pass_on(self) -> None:
        """Makes a waiting request's thread the next leader, if there is one."""
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            self._has_leader = following is not None
            if following is None:
                self._has_ended.notify_all()
        if following is None:
            return
        if following.future is None:
            following.wake()
        else:
            self._threads.submit(self._lead, following)

    def close(self) -> None:
        """Waits for the submitted requests and ends the threads. Later requests are not answered."""
        with self._has_ended:
            self._is_closed = True
            self._has_ended.wait_for(lambda: not self._has_leader)
        self._threads.shutdown()


class _Turn:
    """A leader's turn, which ends only once however often `end` is called."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def end(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()
