"""Finds tasks by name and ancestry, and people by any spelling of their name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain

from remand.domain import commands as c
from remand.domain import ids
from remand.domain.access.team import (
    Team,
    instance_member,
    look_keys,
    name_key,
    name_prefixes,
    normalise_name,
    possible_members,
)
from remand.domain.decisions.claims import PossibleIdentities, find_possible_identities
from remand.domain.facts import LockoutFacts
from remand.domain.refusals import Refused, require_one_id
from remand.domain.task import Task
from remand.ledger.store import Transaction
from remand.ledger.traces import FILED, INVALID

_NEW = Task(id="", title="")
"""Its parts are those of every task to which nothing has happened yet."""


def participants(task: Task) -> tuple[str, ...]:
    """Everyone involved in a task: first those locked out, then those who worked on it."""
    people, rejections, claim = task.people, task.rejections, task.claim
    if (
        claim is None
        and people is _NEW.people
        and rejections is _NEW.rejections
        and task.claims is _NEW.claims
        and task.reviews is _NEW.reviews
        and task.gates is _NEW.gates
    ):
        return (task.details.created_by,)
    last, offers = rejections.last_rejection, task.claims.offers
    return (
        *([lockout.agent for lockout in people.lockouts] if people.lockouts else ()),
        *((claim.agent,) if claim else ()),
        *([offer.target for offer in offers] if offers else ()),
        *people.holders,
        *people.authors,
        *people.reviewers,
        *task.gates.decisions.questioned,
        people.fixer,
        *((last.agent,) if last else ()),
        *task.reviews.requested,
        *people.unlocked,
        *rejections.invalid_by,
        *rejections.accepted_by,
        task.details.created_by,
    )


def may_have_new_participants(before: Task, task: Task) -> bool:
    """False if a task has no participants that it did not have before."""
    return not (
        task.people is before.people
        and task.rejections is before.rejections
        and task.claims is before.claims
        and task.reviews is before.reviews
        and task.gates is before.gates
        and (task.claim is before.claim or task.claim is None)
    )


class Lineage:
    """The ancestors and descendants of tasks."""

    def __init__(self, tx: Transaction, get: Callable[[str], Task | None] | None = None) -> None:
        self._get = get or tx.tasks.get

    def ancestors(self, task: Task) -> Iterator[Task]:
        """The tasks that this one was split from, nearest first."""
        seen = {task.id}
        while task.links.parent and task.links.parent not in seen:
            seen.add(task.links.parent)
            found = self._get(task.links.parent)
            if found is None:
                return
            task = found
            yield task

    def inherited_lockouts(self, task: Task) -> tuple[tuple[str, str], ...]:
        """Lockouts on ancestors of a task, with the ancestor."""
        return tuple(
            (lockout.agent, above.id)
            for above in self.ancestors(task)
            for lockout in above.inheritable_lockouts
        )

    def participant_names(self, task: Task) -> tuple[str, ...]:
        """Every name of the people involved in a task: first those locked out, then those who worked on it."""
        if not task.links.parent:
            return participants(task)
        own = [lockout.agent for lockout in task.people.lockouts]
        return (*own, *(agent for agent, _ in self.inherited_lockouts(task)), *participants(task))

    def descendant_lockouts(self, task: Task) -> tuple[tuple[str, str], ...]:
        """The descendants of a task, each with the agents locked out there because they are locked out here."""
        found: list[tuple[str, str]] = []
        waiting = [(task, {lockout.agent for lockout in task.people.lockouts})]
        seen = {task.id}
        while waiting:
            above, agents = waiting.pop()
            for name in (*above.links.children, above.links.superseded_by):
                child = self._get(name) if name and name not in seen else None
                if child is None:
                    continue
                seen.add(name)
                same = {
                    lockout.agent: all(cause.inherited_from == above.id for cause in lockout.causes)
                    for lockout in child.people.lockouts
                    if lockout.agent in agents
                    and any(cause.inherited_from == above.id for cause in lockout.causes)
                }
                found += [(child.id, agent) for agent in sorted(same)]
                waiting.append(
                    (child, {agent for agent, is_only_from_here in same.items() if is_only_from_here})
                )
        return tuple(found)


def find_task_id(tx: Transaction, name: str) -> str:
    """The task id for an id or alias; empty if there is none."""
    if not name.isprintable():
        return ""
    bare = ids.parse_task_id(name)
    if bare is not None and tx.tasks.get(bare) is not None:
        return bare
    return tx.names.find_task_id(name)


def resolve_task_id(tx: Transaction, name: str) -> str:
    """The task id for an id, an alias, or the end of an id; empty if there is none.

    A handoff's id, or its end with `H-`, means the handoff's task. Refuses ambiguous ends, and digits that may also be
    another task's issue number.
    """
    found = find_task_id(tx, name)
    end = "" if found else ids.parse_id_end(name)
    if not end:
        return found
    if ids.may_be_handoff_id(name):
        return tx.names.find_task_id(resolve_handoff_id(tx, name))
    issue = tx.names.find_task_id(f"#{end}") if name == end and end.isdigit() else ""
    others = [one for one in tx.names.ids_with_end(end) if one != issue]
    return require_one_id((f"#{end}", *others) if issue and others else ([issue] if issue else others), name)


def resolve_handoff_id(tx: Transaction, name: str) -> str:
    """The handoff id for an id or the end of one; empty if it cannot be one. Refuses ambiguous ends."""
    bare, end = ids.parse_handoff_id(name) or "", "" if ids.may_be_task_id(name) else ids.parse_id_end(name)
    if not end or (bare and tx.names.find_task_id(bare)):
        return bare
    return require_one_id(tx.names.ids_with_end(end, are_handoffs=True), name) or bare


def task_of_handoff(tx: Transaction, handoff_id: str) -> str:
    """The task of a handoff; empty if there is none. For an imported handoff, only its rejection may name the task."""
    if not handoff_id:
        return ""
    traces = (trace.task for trace in tx.traces.every(FILED, INVALID) if trace.handoff == handoff_id)
    return tx.names.find_task_id(handoff_id) or next(filter(None, traces), "")


def open_handoff_task(tx: Transaction, ask: c.RejectHandoff) -> Task | None:
    """The task of an open handoff; evidence is not checked for closed ones.

    It may be named by its id or an unambiguous end of it.
    """
    name = ""
    with suppress(Refused):
        name = resolve_handoff_id(tx, ask.handoff_id)
    task = tx.tasks.get(tx.names.find_task_id(name)) if name else None
    if task is None:
        return None
    is_claimed = task.claim is not None and task.claim.handoff_id == name
    return task if is_claimed or task.find_offer(name) is not None else None


_SUFFIX_MARKS = ".:@+"
"""Characters that extend a known name to a new one; such names are refused, as nobody could tell the two apart."""


def may_be_locked_out(tx: Transaction, team: Team, task: Task) -> PossibleIdentities:
    """The members who may be locked out of a task or an ancestor under a name that the team no longer has."""
    if not team.has_members:
        return ()
    above = Lineage(tx).ancestors(task) if task.links.parent else ()
    inherited = (lockout for task_above in above for lockout in task_above.inheritable_lockouts)
    lockouts = (
        *task.people.lockouts,
        *(lockout for lockout in inherited if lockout.agent not in task.people.unlocked),
    )
    return find_possible_identities(
        team, lockouts, lambda name: bool(tx.names.names_with_key(name_key(name)))
    )


def lockout_facts(tx: Transaction, team: Team, task: Task, lineage: Lineage | None = None) -> LockoutFacts:
    """Who may not work on a task besides those locked out of it by name."""
    if not (task.links.parent or task.people.lockouts):
        return NO_LOCKOUTS
    return LockoutFacts(
        inherited=(lineage or Lineage(tx)).inherited_lockouts(task) if task.links.parent else (),
        possible_identities=may_be_locked_out(tx, team, task),
    )


def lost_names(tx: Transaction, team: Team) -> list[str]:
    """Locked-out names that are neither a member's current nor former name."""
    if not team.has_members:
        return []
    found = {lockout.agent for task in tx.tasks.every() for lockout in task.active_lockouts}
    return sorted(name for name in found if not team.has_name(name))


NO_LOCKOUTS = LockoutFacts()


class People:
    """Everyone the ledger knows: the team, and everyone involved in a task."""

    def __init__(self, tx: Transaction, team: Team) -> None:
        self._tx = tx
        self._team = team
        self._found: dict[str, str] = {}
        self._recorded: dict[str, str] = {}
        self._plain: set[str] = set()
        """Known names of plain letters, which are accepted as they are."""

    def recorded_name(self, spelling: str) -> str:
        """The recorded form of a name: the known name that it is a spelling of, else the name itself, normalised.

        `Fenster/2` means Fenster whether or not Fenster is known yet; `Fenster/b` does if Fenster is known.
        """
        found = self._recorded.get(spelling)
        if found is None:
            known = self._known_name(spelling)
            if not known:  # a new name may be known after the next command
                return normalise_name(instance_member(spelling) or spelling)
            found = self._recorded[spelling] = self._team.actor(known).name
        return found

    def similar_names(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """The new names among these that resemble a known name, with that name."""
        return tuple(
            [
                (name, known)
                for name in names
                if name not in self._plain and (known := self.find_similar_name(name))
            ]
        )

    def find_similar_name(self, spelling: str) -> str:
        """The known name that a new one resembles; empty if there is none, or if the name itself is known.

        A member's name is new until the member is involved in a task. Names of plain letters are accepted as they are.
        """
        known = self._known_name(spelling)
        if not spelling or (known and known.isascii()):
            self._plain.add(spelling)
            return ""
        if known and self._tx.names.names_with_key(name_key(self.recorded_name(spelling))):
            return ""
        added_to = (
            () if known else tuple(head for mark in _SUFFIX_MARKS for head in name_prefixes(spelling, mark))
        )
        parent = next(filter(None, map(self._known_name, added_to)), "")
        if parent:
            return parent
        spellings = (known,) if known else (normalise_name(spelling), *name_prefixes(spelling), *added_to)
        keys = [key for name in spellings for key in look_keys(name)]
        on_tasks = (name for key in keys for name in self._tx.names.names_with_key(key))
        return self._team.find_look_alike(keys, known) or next(on_tasks, "")

    def _known_name(self, spelling: str) -> str:
        known = self._found.get(spelling, "")
        if not known:
            names = chain((spelling,), possible_members(spelling))
            known = self._team.find_known_name(spelling) or next(
                filter(None, map(self._name_on_tasks, names)), ""
            )
            if known:  # a new name may be known after the next command
                self._found[spelling] = known
        return known

    def _name_on_tasks(self, name: str) -> str:
        """A person involved in a task. If two ledgers recorded different spellings, each stays as it is."""
        spellings = self._tx.names.names_with_key(name_key(name)) if name else []
        return name if name in spellings else next(iter(spellings), "")
