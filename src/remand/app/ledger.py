"""The ledger as its users see it: answers requests durably and reads in the event files of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault, RemandError
from remand.app.events.control_files import ControlLookup, WorkControl, find_no_change
from remand.app.events.event_files import (
    BackgroundSync,
    FollowUp,
    LogFiles,
    cover_own_session,
    do_nothing,
    head_after_continuation,
    head_for_key,
    is_base_read,
    read_continuation,
    session_lines,
)
from remand.app.events.intake import (
    PART_BYTES,
    FileIntake,
    changed_event_files,
    judge_by_trust,
    judge_voids,
    refold_tasks,
    store_events,
)
from remand.app.events.missing_lines import note_missing
from remand.app.events.signatures import Signer, Verifier, Voucher, confirm
from remand.app.events.task_folds import (
    SignedTasks,
    assign_imported,
    signed_moves,
    without_garbage_collection,
)
from remand.app.facts import (
    NO_EXTERNAL_FACTS,
    UNKNOWN_TERMS,
    ExternalFacts,
    GateTerms,
    is_on_branch,
    may_need_external_facts,
)
from remand.app.handler import RequestHandler, TeamLookups, team_lookups
from remand.app.ports import (
    Clock,
    Commit,
    CommitDifference,
    Exchange,
    History,
    Ids,
    Keys,
    RejectionChecks,
    Repository,
    Segment,
    SegmentWriter,
    SessionMarks,
)
from remand.app.requests import Acceptance, Answer, Request, Rules, is_valid_request, require_answers
from remand.app.tasks.lookup import open_handoff_task, resolve_handoff_id, resolve_task_id
from remand.domain import commands as c
from remand.domain.access.keys import PublicKey, parse_trust
from remand.domain.access.team import THE_COORDINATOR, Actor
from remand.domain.decisions.findings import find_rejected_change, find_rejected_change_elsewhere
from remand.domain.decisions.handoffs import submission_branch
from remand.domain.events.event import Event, KnownBy
from remand.domain.events.log import VOIDS
from remand.domain.ids import make_session_name
from remand.domain.instant import Instant
from remand.domain.preconditions import is_log_expected, require_open_ledger, require_user
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.domain.task import Task
from remand.domain.text.redaction import NO_PATHS, MachinePaths
from remand.ledger import signatures
from remand.ledger.event_tables import EventEntry, SignedGroup
from remand.ledger.signatures import EventGroup, new_grouped
from remand.ledger.store import LedgerHead, Store, Transaction

T = TypeVar("T")


class UnsyncedAnswers(NamedTuple):
    """Answers that must not be given before their events are on disk."""

    answers: Sequence[Answer | EnvironmentFault]
    """A fault instead of an answer concerns this request alone, for which nothing was recorded."""
    head: LedgerHead | None
    """The head to sync up to; None if nothing was written."""
    has_outdated_files: bool


LastDue = Callable[[list[Answer]], object]
"""Decides from the answers so far whether the last request of a change is needed."""


def always_due(_answers: list[Answer]) -> bool:
    """For requests that do not depend on each other."""
    return True


class Ledger(LogFiles):
    """The only writer: every change is folded, decided, appended, committed and synced here before it is answered."""

    has_event_files = True
    """False if the lines are only in a database until they are published."""

    def __init__(
        self,
        *,
        store: Store,
        exchange: Exchange,
        writer: SegmentWriter,
        segment: Segment,
        clock: Clock,
        ids: Ids,
        repository: Repository,
        marks: SessionMarks,
        keys: Keys,
        rules: Callable[[], Rules],
        look_up: Callable[[dict[str, Any], Task], RejectionChecks | None] = lambda *_: None,
        gate_terms: Callable[[Task, str], GateTerms | None] = lambda *_: None,
        control: ControlLookup = find_no_change,
        keep_files: Callable[[], object] = lambda: None,
        machine_paths: Callable[[], MachinePaths] = lambda: NO_PATHS,
        history: History | None = None,
        ledger_id: str = "",
        fetch_move: Callable[[Transaction], bytes] = lambda _: b"",
    ) -> None:
        self.store = store
        self.exchange = exchange
        self.writer = writer
        self.segment = segment
        self.clock = clock
        self.repository = repository
        self.marks = marks
        self.intake = FileIntake(exchange, clock, marks, store.note_progress)
        self.keys = keys
        self._ids = ids
        self._rules = rules
        self._look_up = look_up
        self.gate_terms = gate_terms
        """The gates that hold for a task's commit; None: those of the base. Raises where that cannot be told."""
        self.control = WorkControl(repository, control)
        self.update_files = keep_files
        """Brings the files for people in step with the ledger."""
        self._machine_paths = machine_paths
        self._history = history
        self.ledger_id = ledger_id
        self._fetch_move = fetch_move
        """What this ledger lacks of the one that the log is moved from, once that is closed."""
        self._is_taking_over = False
        self._open_head: LedgerHead | None = None
        """The head that the last change left: whoever finds the same need not ask again whether the log has moved."""
        self._held: Instant = ""
        self._known_trust: tuple[Rules, PublicKey | None, Verifier, str] | None = None
        """What follows for whom to trust from the rules and the machine's key, as they were last."""
        self._signed = SignedTasks()
        self._teams: TeamLookups | None = None
        self._background = BackgroundSync()
        self.written = 0
        """How many events were written through this object."""
        self.answer_in_group: Callable[[Sequence[Request]], Sequence[Answer | RemandError]] | None = None
        """How requests are answered together with those of other threads, where there are some: in a server."""

    def close(self) -> None:
        """Closes the event files. The store is closed by whoever opened it."""
        self.writer.close()
        self.marks.close()

    def ask(self, request: Request) -> Answer:
        """Answers one request."""
        return require_answers((self.answer_in_group or self.ask_all)([request]))[0]

    def ask_all(self, requests: Sequence[Request]) -> list[Answer]:
        """Answers requests in order; one sync makes all of them durable before the first answer is given."""
        return self._answer_all([(request, None) for request in requests])

    def decide_all(
        self, requests: Sequence[Request], on_decided: Callable[[], None] = lambda: None
    ) -> UnsyncedAnswers:
        """Decides and records requests; the caller must call `sync` and `update_files`.

        `on_decided` is called when the next group may be decided, possibly before this one is recorded.
        """
        answers = self._decide_all([(request, None) for request in requests])
        on_decided()
        return answers

    def open_store(self) -> AbstractContextManager[Transaction]:
        """Opens a change of the store."""
        return self.store.write()

    def prepare(self, tx: Transaction) -> None:
        """Prepares a change. The single writer of an embedded ledger has nothing to lock."""

    def ask_as(
        self, actor: Actor, ask: c.Command, key: str = "", known_by: KnownBy = KnownBy.UNSAID
    ) -> Answer:
        """Answers one of the system's own commands, which no interface accepts."""
        return self._answer_all(
            [(Request(command=ask, actor=actor.name, key=key, known_by=known_by), actor)]
        )[0]

    def ask_all_as(self, actor: Actor, asks: Sequence[c.Command]) -> list[Answer]:
        """Answers several of the system's own commands with one sync."""
        return self._answer_all([(Request(command=ask, actor=actor.name), actor) for ask in asks])

    def record_then_ask(
        self,
        record: c.Command,
        key: str,
        notes: Sequence[c.Command],
        request: Request,
        is_released: Callable[[Answer], object],
    ) -> list[Answer]:
        """Records something as the coordinator and, if that releases it, answers a request in the same change."""
        own = [Request(command=record, actor=THE_COORDINATOR.name, key=key)]
        own += [Request(command=note, actor=THE_COORDINATOR.name) for note in notes]
        asked = [*((one, THE_COORDINATOR) for one in own), (request, None)]
        return self._answer_all(asked, is_last_due=lambda answers: is_released(answers[0]))

    def _answer_all(
        self, requests: Sequence[tuple[Request, Actor | None]], is_last_due: LastDue = always_due
    ) -> list[Answer]:
        answers, head, has_outdated_files = self._decide_all(requests, is_last_due)
        if head is not None:
            self.sync(head)
        if has_outdated_files:
            self.update_files()
        return require_answers(answers)

    def _decide_all(
        self, requests: Sequence[tuple[Request, Actor | None]], is_last_due: LastDue = always_due
    ) -> UnsyncedAnswers:
        seen = [self._look_up_external_facts(request) for request, _ in requests]
        try:
            with without_garbage_collection(), self._write_transaction() as (tx, _, handler):
                self.prepare(tx)
                handler.settle_due()
                answers: list[Answer] = []
                for (request, actor), found in zip(requests, seen, strict=True):
                    if len(answers) == len(requests) - 1 and not is_last_due(answers):
                        break
                    answers.append(handler.answer(request, found, actor))
                has_outdated_files = tx.outdated.has_notes()
        except Refused as refusal:  # the log has moved
            return UnsyncedAnswers([refusal] * len(requests), None, False)
        # A repeated answer may be another process's, which has not synced it yet.
        is_written = handler.entries or any(isinstance(one, Acceptance) and one.events for one in answers)
        return UnsyncedAnswers(answers, handler.end if is_written else None, has_outdated_files)

    @contextmanager
    def _write_transaction(
        self, follow: FollowUp = do_nothing
    ) -> Iterator[tuple[Transaction, Signer, RequestHandler]]:
        """Opens a change. At its end the collected events are signed, appended and committed."""
        rules = self._rules()
        self.keys.load()
        with self._open_change() as (tx, verifier):
            self._require_open(tx, verifier)
            signer = Signer(self.keys, rules.project)
            tx.head = head_for_key(tx.head, signer, self.new_session)
            teams = team_lookups(self._teams, tx, rules, verifier, id_source=self._ids, signed=self._signed)
            self._teams, paths = teams, self._machine_paths()
            handler = RequestHandler(tx, rules, self.clock, self.repository, teams=teams, paths=paths)
            yield tx, signer, handler
            if handler.entries:
                self._append(tx, signer, handler.entries, handler.lines_before)
            follow(tx)
            # Read now: once the lock is released, another thread may reuse the same transaction object.
            self._open_head = handler.end = tx.head

    def _require_open(self, tx: Transaction, verifier: Verifier) -> None:
        """Refuses to write after the log has moved. An interrupted move is completed first."""
        if tx.head is self._open_head or self._is_taking_over:
            return
        moves = self.moves(tx)
        if is_log_expected(self.ledger_id, moves) and (content := self._fetch_move(tx)):
            self.read_files(tx, [], verifier, [content])
            moves = self.moves(tx)
        require_open_ledger(self.ledger_id, moves)

    @contextmanager
    def taking_over(self) -> Iterator[None]:
        """Allows the user to write here temporarily although the log has moved, because its new ledger is lost."""
        self._is_taking_over = True
        try:
            yield
        finally:
            self._is_taking_over, self._open_head = False, None

    def is_open(self) -> bool:
        """True if the log continues here, as far as is known."""
        with self.store.read() as view:
            try:
                require_open_ledger(self.ledger_id, self.moves(view))
            except Refused:
                return False
        return True

    def moves(self, tx: Transaction) -> list[Event]:
        """The user's events about moves of the log, in order."""
        return signed_moves(tx, self.verifier(tx))

    def refresh(self) -> None:
        """Reads in files from git or other tools if anything has changed.

        The files for people are updated after the call (`app/reminders.py: AfterCall`) or with the next command.
        """
        with self.store.read() as view:
            verifier, untrusted = self._trust(view)
            is_current = (
                not view.files.place
                and (view.unconfirmed.trust, view.unconfirmed.writer) == (verifier.trust_text, untrusted)
                and self.segment.is_whole(view.head)
                and not changed_event_files(view, self.exchange)
                and not self.has_due_events(view)
                and is_base_read(view, self.base_tip())
            )
        if not is_current:
            self._file_stamp = None
            with self._open_change():
                pass

    def closed_files(self) -> dict[str, str]:
        """Ends the open segment permanently and returns the files that no longer change, by name."""
        with self._open_change() as (tx, _):
            if tx.head.segment:
                self.writer.sync(tx.head.segment)
                self.close_segment(tx, tx.head.segment)
                tx.head = replace(tx.head, segment="", first=0, size=0, inode=0)
            return self.event_files()

    def verifier(self, tx: Transaction) -> Verifier:
        """Decides which events count, by the keys that the configuration trusts now."""
        return self._trust(tx)[0]

    def current_verifier(self) -> Verifier:
        """The same, for the current state of the ledger."""
        with self.store.read() as view:
            return self.verifier(view)

    def new_session(self) -> str:
        """A name for a new session."""
        return make_session_name(self.clock.now(), self._ids.hex())

    def _trust(self, tx: Transaction) -> tuple[Verifier, str]:
        """The trusted keys, and this machine's key id if untrusted; the last known ones if the rules are unreadable."""
        try:
            rules, own = self._rules(), self.keys.own()
        except EnvironmentFault:
            return Verifier(parse_trust(tx.unconfirmed.trust), self.keys), tx.unconfirmed.writer
        known = self._known_trust
        if known is None or known[0] is not rules or known[1] is not own:
            verifier = Verifier(rules.trust(own), self.keys)
            known = self._known_trust = (rules, own, verifier, rules.untrusted_key_id(own))
        return known[2:]

    def _look_up_external_facts(self, request: Request) -> ExternalFacts:
        """Looks up what a request needs from outside, before the ledger is locked."""
        ask: c.Command = request.command
        if not may_need_external_facts(ask) or not is_valid_request(request):
            return NO_EXTERNAL_FACTS
        if isinstance(ask, c.RejectHandoff):
            with self.store.read() as view:
                task = open_handoff_task(view, ask)
            self.store.note_progress("checking the evidence")
            return ExternalFacts(looked_up=self._look_up(ask.rejection, task)) if task else NO_EXTERNAL_FACTS
        commit = self.repository.commit(getattr(ask, "commit", ""))
        if commit is None:
            return NO_EXTERNAL_FACTS
        task = self.task_of(ask)
        if task is None:
            return ExternalFacts(commit=commit)
        if isinstance(ask, c.SubmitTask | c.CompleteHandoff):
            return ExternalFacts(
                commit=commit,
                terms=self._gate_terms_or_unknown(task, commit.sha),
                same_change=self.same_change(task, commit),
                control=self.control.forbidden_changes(task, commit.sha),
                on_branch=is_on_branch(self.repository, submission_branch(task, ask), commit),
            )
        return ExternalFacts(
            commit=commit,
            difference=self.difference(task, commit.sha),
            head_tree=self.control.head_tree(task, self._rules().base),
            control=self.control.forbidden_changes_under_review(task, commit.sha)
            if isinstance(ask, c.ApproveReview)
            else (),
        )

    def _gate_terms_or_unknown(self, task: Task, commit: str) -> GateTerms | None:
        """The gates that apply to a done claim. If they cannot be determined, the claim is not released; measuring reports why."""
        try:
            return self.gate_terms(task, commit)
        except (EnvironmentFault, OSError):
            return UNKNOWN_TERMS

    def same_change(self, task: Task, commit: Commit) -> str:
        """The name of the finding about a change that was rejected before, under any task; empty for a new change."""
        with self.store.read() as view:
            sent_back = view.task_lists.rejected_in_review()
        if not sent_back:
            return ""
        found = self.difference(task, commit.sha)
        patch = found.patch if found else ""
        return find_rejected_change(task, commit.tree, patch) or find_rejected_change_elsewhere(
            task, sent_back, commit.tree, patch
        )

    def difference(self, task: Task, commit: str) -> CommitDifference | None:
        """The difference of a commit from where it left the base; for work on the base itself, since the task was claimed."""
        at = task.claim or task.submission
        now, before = self._rules().base, at.base if at else ""
        found = self.repository.difference(now, commit) if now else None
        if before and (found is None or not found.paths):
            return self.repository.difference(before, commit)
        return found

    def task_of(self, ask: c.Command) -> Task | None:
        """The task that a command names by id, alias or handoff; none if an abbreviated id is ambiguous."""
        handoff = getattr(ask, "handoff_id", "")
        with suppress(Refused), self.store.read() as view:
            name = resolve_handoff_id(view, handoff) if handoff else ""
            named = resolve_task_id(view, getattr(ask, "task_id", "")) or view.names.find_task_id(name)
            return view.tasks.get(named) if named else None
        return None

    def _append(
        self, tx: Transaction, signer: Signer, entries: list[EventEntry], lines_before: Sequence[bytes] = ()
    ) -> None:
        """Appends the events of a change and the signature that covers them, after lines of other sessions."""
        before = tx.head
        named = [new_grouped((entry.event.meta.id, entry.subject)) for entry in entries]
        first = entries[0].event.meta.seq
        groups = [
            SignedGroup(group, signatures.encode_group(group))
            for group in signer.sign(before.session, first, before.chain, named, before.clock)
        ]
        lines = list(lines_before)
        for group, own, _ in groups:
            lines += [own, *[entry.line for entry in entries[group.first - first : group.last - first + 1]]]
        after = self.writer.append(before, first, lines)
        kept = before.size if after.segment == before.segment else 0
        tx.on_rollback(lambda: self.undo_append(after.segment, kept))
        tx.head = replace(after, chain=groups[-1].group.after)
        self.start_sync(tx.head, is_worth_it=bool(kept and self.written))
        if before.segment and not kept:
            self.close_segment(tx, before.segment)
        tx.groups.add(groups)
        self.written += len(entries)
        if VOIDS in [entry.subject for entry in entries]:
            judge_voids(tx)

    @contextmanager
    def _open_change(self) -> Iterator[tuple[Transaction, Verifier]]:
        """Opens a change after reading in everything new; also returns the verifier.

        Large amounts are read in changes of their own, each of which is committed: after a kill, reading resumes there,
        and other processes get the lock in between. No time limit applies.
        """
        while True:
            with self.open_store() as tx:
                verifier = self._catch_up(tx)
                if verifier is not None:
                    yield tx, verifier
                    return

    def _catch_up(self, tx: Transaction) -> Verifier | None:
        """Repairs the open segment after a kill and reads in new files.

        Returns the verifier; None if there is more to read in another change.
        """
        verifier, untrusted = self._trust(tx)
        if not self.segment.is_whole(tx.head):
            self._repair(tx, verifier)
        if tx.head.seq and (not tx.head.key or tx.head.project != verifier.trust.project):
            self._cover_own_session(tx, verifier.trust.project)
        if tx.unconfirmed.trust != verifier.trust_text:
            judge_by_trust(tx, verifier)
            note_missing(tx, self.marks.all(), self.next_time(tx))
        tx.unconfirmed.writer = untrusted
        stamp = self.exchange.file_stamp()
        has_moved = not is_base_read(tx, self.base_tip())
        if (
            stamp != self._file_stamp
            or has_moved
            or tx.files.place
            or (self._held and self.has_due_events(tx))
        ):
            self._teams = None
            files = changed_event_files(tx, self.exchange)
            known = tx.files.marks() if files else {}
            if not self.read_files(tx, files, verifier, most=PART_BYTES):
                return None
            if files or has_moved:
                self.read_published(tx, verifier, [mark.path for mark in files if mark.path in known])
            if not tx.head.seq and self.keys.own() is not None:
                tx.head = head_for_key(tx.head, Signer(self.keys, verifier.trust.project), self.new_session)
            tx.head = head_after_continuation(tx)
            self.note_lines_seen_before(tx)
            tx.on_rollback(self.forget_file_stamp)
            self._held = tx.held.earliest()
            self._file_stamp = stamp
        return verifier

    def _cover_own_session(self, tx: Transaction, project: str) -> None:
        """Re-signs the session's own events that were written in an older format or for another project."""
        self.keys.load()
        self.write_groups(tx, cover_own_session(tx, Signer(self.keys, project)))

    def write_groups(self, tx: Transaction, groups: Sequence[EventGroup]) -> None:
        """Writes groups whose events have lines elsewhere to their own event file."""
        if tx.head.segment:
            self.close_segment(tx, tx.head.segment)
        closed = replace(tx.head, segment="", size=0, inode=0)
        tx.head = closed
        if groups:
            lines = [signatures.encode_group(group) for group in groups]
            written = self.writer.append(closed, groups[0].first, lines).segment
            tx.on_rollback(lambda: self.writer.shrink(written, 0))
            self.writer.sync(written)
            tx.groups.add(SignedGroup(group, line) for group, line in zip(groups, lines, strict=True))

    def vouch(self, choose: Callable[[Transaction, Signer], Voucher], actor: Actor) -> Sequence[Event]:
        """Makes events of others count: signs the chosen ones and records that. Returns the recorded events."""
        recorded: list[Event] = []

        def sign(handler: RequestHandler, signer: Signer) -> None:
            tx = handler.tx
            recorded.clear()  # a previous attempt may have been rolled back
            groups, events = choose(tx, signer)
            if events:
                self.write_groups(tx, groups)
                confirmed = confirm(tx, groups)
                assign_imported(tx)
                refold_tasks(tx, {entry.subject for entry in confirmed} - {""})
                handler.record_events(events, actor)
                recorded.extend(events)

        self.change_as_user(actor, sign)
        return recorded

    def record(self, events: Sequence[Event], actor: Actor, follow: FollowUp = do_nothing) -> None:
        """Records the user's events that belong to no task, and what follows from them, in one change."""
        self.change_as_user(actor, lambda handler, _: handler.record_events(events, actor), follow)

    def change_as_user(
        self, actor: Actor, prepare: Callable[[RequestHandler, Signer], object], follow: FollowUp = do_nothing
    ) -> None:
        """Makes a change of the log that only the user may request; `prepare` collects its events in the handler."""
        require_user(actor)
        self.change_log(prepare, follow)

    def change_log(
        self, prepare: Callable[[RequestHandler, Signer], object], follow: FollowUp = do_nothing
    ) -> None:
        """Makes a change of the log with events that belong to no task; `prepare` decides and collects them in the handler."""
        self._file_stamp = None
        with self._write_transaction(follow) as (_, signer, handler):
            prepare(handler, signer)
        self._open_head = self._teams = None  # it may have been closed, and names of others have come
        if handler.entries:
            self.sync(handler.end)

    def change(self, make: Callable[[Transaction], T]) -> T:
        """Changes the tables after reading in everything new. With concurrent writers, `make` may be called several times."""
        self._file_stamp = None
        with self._open_change() as (tx, _):
            return make(tx)

    def _repair(self, tx: Transaction, verifier: Verifier) -> None:
        """Reconciles ledger and open segment after a crash, whichever of the two has more.

        Complete signed groups are read in. Anything after them was never answered or was written by somebody else, and
        is moved to quarantine. Lines inserted in between shift others behind the head, so those are searched for, too.
        """
        head = tx.head
        tail = self.segment.surplus(head)
        found = read_continuation(head, tail, verifier)
        tx.groups.add(found.groups)
        store_events(tx, found.entries)
        tx.head = found.head
        self.set_aside(tx)
        lines = session_lines(tx, head.first)
        is_complete = self.segment.has_all(tx.head, lines)
        if is_complete and self.segment.is_whole(replace(tx.head, changed=0)):
            tx.head = self.segment.stamp_head(tx.head)
            return
        tx.head = replace(tx.head, segment="", size=0, inode=0)
        if not is_complete:
            tx.head = self.writer.append(tx.head, head.first, lines)
