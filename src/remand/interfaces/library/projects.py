"""The ledger of a repository for Python programs: its tasks, handoffs, event log and graph."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeVar
from weakref import finalize

from remand.app.analysis.graph import read_graph
from remand.app.events.task_folds import task_events
from remand.app.history.rejections import RejectionView, task_rejections
from remand.app.history.task_history import task_handoffs
from remand.app.requests import Acceptance, Request, actor_name, is_agent_environment
from remand.app.tasks.lookup import resolve_handoff_id, task_of_handoff
from remand.config import inherited_environment
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.decisions import director as directors
from remand.domain.decisions import rejections
from remand.domain.events.event import Event
from remand.domain.events.tasks import HandoffInitiated
from remand.domain.graph import LedgerGraph
from remand.domain.reasons import DecisionType, parse_decision_type
from remand.domain.record import Record
from remand.domain.refusals import (
    Refused,
    require_decision,
    require_handoff,
    require_text,
    unloggable_event_refusal,
)
from remand.domain.rejection import RejectionDecision, TaskRejection
from remand.domain.task import Task
from remand.domain.text.redaction import redact_values
from remand.domain.validation.validator import RejectionValidator
from remand.wiring.coordinator import make_consultants
from remand.wiring.ledger import Gateway, find_place
from remand.wiring.startup import find_socket

T = TypeVar("T")
_LEDGERS_OWN = ("task_id", "handoff_id", "agent_id", "rejected_at")
"""The fields of a record that the ledger fills in."""


class ProjectManager:
    """The ledger of the repository in a folder, as the protocol's `project_manager` and its `event_log`.

    Every method acts under the rules of the ledger, as the actor that the call or `REMAND_ACTOR` names, else as the
    user. What is already recorded is returned and not recorded again. What the ledger does not allow raises
    `Refused`.
    """

    def __init__(self, folder: str | os.PathLike[str] = ".") -> None:
        self._gateway = Gateway(find_place(os.fspath(folder)))
        # An open ledger refers to itself: left to the garbage collector, its files would stay open for long.
        finalize(self, self._gateway.close).atexit = False

    @property
    def graph(self) -> LedgerGraph:
        """The current graph of the ledger. It is built from the events, and cannot be written to."""
        opened = self._gateway.opened_ledger
        opened.ledger.refresh()
        with opened.store.read() as view:
            statuses = {task.id: task.status.value for task in view.tasks.every()}
            graph = read_graph(view, statuses).graph
        return LedgerGraph(graph, self._rejection_id)

    def create_task(
        self,
        title: str,
        description: str = "",
        priority: str = "medium",
        category: str = "",
        *,
        task_id: str = "",
    ) -> str:
        """Adds a task and returns its id, `task:T-…`; if a task with the given id and the same content exists, it is that task."""
        stated = (title, description, priority, category)

        def find() -> Task | None:
            known = self._task(ids.parse_task_id(task_id) or "")
            is_same = known and stated == (
                known.title,
                known.details.scope,
                str(known.details.priority),
                known.details.category,
            )
            return known if is_same else None

        ask = c.AddTask(title=title, scope=description, priority=priority, category=category, own_id=task_id)
        return ids.task_node_id(_find_or_record(find, lambda: self._ask(ask).task).id)

    def log(self, event: str, /, **fields: Any) -> bool:
        """Records one of the protocol's events; returns the result of `reject_handoff` or `handle_rejection_response`."""
        record, decision = fields.get("rejection"), fields.get("decision")
        handoff = fields.get("handoff_id", "")
        if event in ("handoff.reject", "handoff.reject.invalid") and isinstance(record, Mapping):
            return self.reject(handoff, fields.get("agent", ""), TaskRejection.from_dict(record))
        if event == "handoff.reject.response" and isinstance(decision, Mapping):
            return self.respond(handoff, RejectionDecision.from_dict(decision))
        raise unloggable_event_refusal(event)

    def initiate(self, task_id: str, target: str, source: str, instructions: str, handoff_id: str) -> str:
        """Hands a task to an agent; returns the id of the handoff."""

        def find() -> str | None:
            found = self._handoff(ids.parse_handoff_id(handoff_id) or "") or {}
            is_same = (found.get("task_id"), found.get("agent")) == (ids.parse_task_id(task_id), target)
            return found["handoff_id"] if is_same else None

        ask = c.InitiateHandoff(
            task_id=task_id, target=target, source=source, instructions=instructions, own_id=handoff_id
        )

        def make() -> str:
            handoffs = (event for event in self._ask(ask).events if isinstance(event, HandoffInitiated))
            return next(handoffs).handoff_id

        return f"handoff:{_find_or_record(find, make)}"

    def reject(self, handoff_id: str, agent: str, rejection: TaskRejection) -> bool:
        """Files a rejection; False if it is not valid."""
        try:
            return self._file(require_text("handoff", handoff_id), require_text("agent", agent), rejection)
        except Refused as refusal:
            task = self._task(self._task_of(handoff_id)) if refusal.code == "handoff_closed" else None
            if task is None or RejectionValidator().validate(rejection, rejections.task_context(task))[0]:
                raise
            return False

    def decide(self, rejection: TaskRejection) -> RejectionDecision:
        """The decision on a rejection:

        the recorded one, or the one that its reason leads to, which is then recorded.
        """
        handoff = require_text("handoff", rejection.handoff_id)
        if not (filed_rejection := self._last(handoff)) or not filed_rejection.is_of(rejection):
            self._file(handoff, require_text("agent", rejection.agent_id), rejection)
            filed_rejection = self._last(handoff)
        if filed_rejection and filed_rejection.view.decision is None:
            reason = TaskRejection.from_dict(filed_rejection.view.rejection).reason
            kind = directors.AUTOMATIC[reason] if reason else DecisionType.ACCEPT
            ask = c.AnswerRejection(handoff_id=handoff, decision=kind.name)
            _find_or_record(lambda: self._is_answered(handoff) or None, lambda: bool(self._ask(ask)))
            filed_rejection = self._last(handoff)
        answered = filed_rejection if filed_rejection and filed_rejection.view.decision is not None else None
        return _decision(require_decision(answered, handoff).view, rejection)

    def respond(self, handoff_id: str, decision: RejectionDecision, director: str = "") -> bool:
        """Answers a rejection; True if the answer is recorded, by this call or before."""
        handoff = require_text("handoff", handoff_id)
        kind = decision.decision_type
        ask = c.AnswerRejection(
            handoff_id=handoff,
            decision=kind.name if isinstance(kind, DecisionType) else str(kind),
            created_tasks=tuple(decision.created_tasks),
            rationale=decision.rationale,
            message=decision.override_message,
            reassign_to=decision.reassign_to if kind is DecisionType.OVERRIDE else "",
        )

        def find() -> bool | None:
            rejection = self._last(handoff)
            return True if rejection and _is_recorded(decision, rejection.view) else None

        return _find_or_record(find, lambda: bool(self._ask(ask, director)))

    def status(self, handoff_id: str) -> dict[str, Any]:
        """The state of a handoff: its status, the last rejection and the decision on it."""
        return require_handoff(self._handoff(self._resolve(handoff_id)), handoff_id)

    def _handoff(self, bare: str) -> dict[str, Any] | None:
        handoff_view = next(
            (handoff for handoff in task_handoffs(self._task_events(bare)) if handoff.handoff_id == bare),
            None,
        )
        if handoff_view is None:
            return None
        last = self._last(bare)
        view = last.view if last else None
        decided = _decision(view) if view is not None and view.decision is not None else None
        return {
            "handoff_id": bare,
            "task_id": handoff_view.task_id,
            "agent": handoff_view.agent,
            "status": handoff_view.status,
            "rejection": view.rejection if view else None,
            "issues": [issue.message for issue in view.issues] if view else [],
            "decision": decided.to_dict() if decided else None,
            "override_message": handoff_view.override_message,
            "reassigned_to": handoff_view.reassigned_to,
        }

    def _file(self, handoff_id: str, agent: str, rejection: TaskRejection) -> bool:
        """Files a rejection unless it is already recorded; True if it is valid."""

        def find() -> bool | None:
            last = self._last(handoff_id)
            is_own = last and last.view.agent == self._acting_name(agent)
            return True if last and is_own and last.is_in_force and last.is_of(rejection) else None

        return _find_or_record(find, lambda: self._file_again(handoff_id, agent, rejection))

    def _file_again(self, handoff_id: str, agent: str, rejection: TaskRejection) -> bool:
        last = self._last(handoff_id)
        ask = c.RejectHandoff(handoff_id=handoff_id, agent=agent, rejection=rejection.to_dict())
        after = last.view.rejection_id if last and last.is_overridden else ""
        stamp = _digest([handoff_id, agent, after, rejection.to_dict()["rejected_at"]])
        task = self._ask(ask, agent, key=f"reject.{_content(rejection)}.{stamp}").task
        if task.rejections.last_rejection is None:
            return False
        if not find_socket(self._gateway.place):
            consultants = make_consultants(self._gateway.opened_ledger, is_users_own=False)
            consultants.advise(task.id, task.rejections.last_rejection.handoff_id)
            consultants.decide(task.id, task.rejections.last_rejection.handoff_id)
        return task.rejections.last_rejection.is_valid

    def _is_answered(self, handoff_id: str) -> bool:
        last = self._last(handoff_id)
        return last is not None and last.view.decision is not None

    def _acting_name(self, named: str = "") -> str:
        return actor_name(named, inherited_environment())

    def _ask(self, ask: c.Command, named: str = "", key: str = "") -> Acceptance:
        is_confined = is_agent_environment(inherited_environment())
        request = Request(command=ask, actor=self._acting_name(named), confined=is_confined, key=key)
        answer = self._gateway.ask(request)
        if isinstance(answer, Refused):
            raise answer
        return answer

    def _rejection_id(self, rejection: TaskRejection) -> str:
        """The ledger's id of a rejection; empty if it has none like it."""
        handoff = self._resolve(str(rejection.handoff_id)[:200])
        found = (filed for filed in reversed(self._filed_rejections(handoff)) if filed.is_of(rejection))
        return next((filed.view.rejection_id for filed in found), "")

    def _last(self, handoff_id: str) -> _FiledRejection | None:
        filed = self._filed_rejections(self._resolve(handoff_id))
        return filed[-1] if filed else None

    def _filed_rejections(self, handoff_id: str) -> list[_FiledRejection]:
        events = self._task_events(handoff_id)
        keys = {getattr(event, "rejection_id", ""): event.meta.key for event in reversed(events)}
        found = (view for view in task_rejections(events) if view.handoff_id == handoff_id)
        return [_FiledRejection(view=view, key=keys.get(view.rejection_id, "")) for view in found]

    def _task_events(self, handoff_id: str) -> list[Event]:
        task_id = self._task_of(handoff_id)
        with self._gateway.opened_ledger.store.read() as view:
            return task_events(view, task_id) if task_id else []

    def _task_of(self, handoff_id: str) -> str:
        opened = self._gateway.opened_ledger
        opened.ledger.refresh()
        with opened.store.read() as view:
            return task_of_handoff(view, resolve_handoff_id(view, handoff_id))

    def _resolve(self, handoff_id: str) -> str:
        """The handoff that a name means, as for every command: its id, or the end of it."""
        opened = self._gateway.opened_ledger
        opened.ledger.refresh()
        with opened.store.read() as view:
            return resolve_handoff_id(view, handoff_id)

    def _task(self, task_id: str) -> Task | None:
        opened = self._gateway.opened_ledger
        opened.ledger.refresh()
        with opened.store.read() as view:
            return view.tasks.get(task_id) if task_id else None


class _FiledRejection(Record, kw_only=True):
    """A rejection in the ledger, and the key under which it was filed."""

    view: RejectionView
    key: str

    @property
    def is_overridden(self) -> bool:
        """True if it was valid, and the director overrode it."""
        decided = self.view.decision
        return (
            self.view.is_valid and decided is not None and decided.decision_type == DecisionType.OVERRIDE.name
        )

    @property
    def is_in_force(self) -> bool:
        """True if it is valid, and accepted or not answered yet."""
        return self.view.is_valid and not self.is_overridden

    def is_of(self, rejection: TaskRejection) -> bool:
        """True if a record has the same content: it was filed from it, or read from the ledger."""
        if self.key.startswith(f"reject.{_content(rejection)}."):
            return True
        stated = TaskRejection.from_dict(redact_values(rejection.to_dict())).to_dict()
        return all(
            self.view.rejection.get(name) == stated[name] for name in stated if name not in _LEDGERS_OWN
        )


def _find_or_record(find: Callable[[], T | None], make: Callable[[], T]) -> T:
    """The recorded item, or else the one recorded now. What somebody else recorded in the meantime counts, too."""
    known = find()
    if known is not None:
        return known
    try:
        return make()
    except Refused:
        known = find()
        if known is None:
            raise
        return known


def _content(rejection: TaskRejection) -> str:
    """A digest of a record's content."""
    stated = rejection.to_dict()
    return _digest({name: stated[name] for name in stated if name not in _LEDGERS_OWN})


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _is_recorded(decision: RejectionDecision, view: RejectionView) -> bool:
    """True if a decision equals the recorded one; empty fields are taken from the recorded one."""
    known = view.decision
    if known is None or parse_decision_type(known.decision_type) is not decision.decision_type:
        return False
    created = {ids.parse_task_id(name) or name for name in decision.created_tasks}
    if decision.decision_type is not DecisionType.OVERRIDE:
        return not created or created == set(known.created_tasks)
    pairs = ((decision.override_message, known.override_message), (decision.reassign_to, known.reassign_to))
    return not created and all(not stated or stated == recorded for stated, recorded in pairs)


def _decision(view: RejectionView, rejection: TaskRejection | None = None) -> RejectionDecision:
    decided = view.decision
    return RejectionDecision(
        decision_type=decided.decision_type if decided else "",
        rejection=rejection or TaskRejection.from_dict(view.rejection),
        rationale=decided.rationale if decided else "",
        override_message=decided.override_message if decided else "",
        reassign_to=decided.reassign_to if decided else "",
        created_tasks=[ids.task_node_id(name) for name in decided.created_tasks] if decided else [],
        deferred_task=ids.task_node_id(decided.deferred_task) if decided and decided.deferred_task else "",
    )
