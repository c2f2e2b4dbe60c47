"""What the ledger knows of tasks and names that people speak of."""

from __future__ import annotations

from collections.abc import Iterator

from remand.app.naming import locate
from remand.domain.ids import is_agent_name
from remand.domain.roles import USER, Actor, Member, Role, Team
from remand.domain.saying.vocabulary import Kind, Reference, Vocabulary, fold
from remand.domain.saying.wishes import TaskName
from remand.domain.task import Task
from remand.ledger.store import Transaction


class SpokenTasks:
    """Finds tasks by what people call them."""

    def __init__(self, view: Transaction) -> None:
        self._view = view

    def find(self, reference: Reference) -> tuple[TaskName, ...]:
        """Every task a reference may mean."""
        return tuple(task_name(task) for task in self._found(reference))

    def _found(self, reference: Reference) -> tuple[Task, ...]:
        text = reference.text
        match reference.kind:
            case Kind.NAME:
                return self._named(text)
            case Kind.NUMBER:
                return self._numbered(text) or self._pulled(text)
            case Kind.PULL:
                return self._pulled(text) or self._numbered(text)
            case Kind.BARE:
                return tuple(dict.fromkeys(self._numbered(text) + self._pulled(text)))
            case Kind.TITLE:
                wanted = fold(" ".join(text.split()))
                return tuple(task for task in self._view.tasks.every() if fold(task.title) == wanted)
            case Kind.ESCALATION:
                tasks = self._view.tasks.every()
                return tuple(task for task in tasks if task.escalation and task.escalation.id == text)

    def _named(self, name: str) -> tuple[Task, ...]:
        task = self._view.tasks.get(locate(self._view, name))
        return (task,) if task else ()

    def _numbered(self, number: str) -> tuple[Task, ...]:
        """By an issue's number; where none is plain, by those of any repository."""
        ending = f"#{int(number)}"
        return self._named(ending) or tuple(
            task for task in self._view.tasks.every() if any(alias.endswith(ending) for alias in task.aliases)
        )

    def _pulled(self, number: str) -> tuple[Task, ...]:
        return tuple(task for task in self._view.tasks.every() if task.pr and task.pr == int(number))

    def locking_out(self, agent: str) -> tuple[TaskName, ...]:
        """The tasks an agent is locked out of."""
        return tuple(
            task_name(task)
            for task in self._view.tasks.every()
            if any(lockout.agent == agent for lockout in task.active_lockouts)
        )

    def locked_out_of(self, task_id: str) -> tuple[str, ...]:
        """The agents locked out of a task."""
        task = self._view.tasks.get(task_id)
        return tuple(lockout.agent for lockout in task.active_lockouts) if task else ()


def task_name(task: Task) -> TaskName:
    """A task as people call it."""
    return TaskName(id=task.id, label=task.label, alias=task.aliases[0] if task.aliases else "", pr=task.pr)


def vocabulary(view: Transaction, team: Team, speaker: Actor) -> Vocabulary:
    """Who and what may be named. Without a team these are the user and everyone who ever had to do with a task."""
    members = team.members or tuple(_known(view))
    return Vocabulary(members, SpokenTasks(view), speaker.name)


def _known(view: Transaction) -> Iterator[Member]:
    yield Member(name=USER, roles=(Role.USER,))
    seen = {USER}
    for task in view.tasks.every():
        claimed = (task.claim.agent,) if task.claim else ()
        locked = (lockout.agent for lockout in task.lockouts)
        for name in (*task.authors, *task.holders, *claimed, *locked):
            if name not in seen and is_agent_name(name) and " " not in name:
                seen.add(name)
                yield Member(name=name)
