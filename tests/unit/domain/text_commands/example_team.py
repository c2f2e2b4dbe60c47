"""A small team and its tasks, for sentences about them."""

from __future__ import annotations

from remand.domain.access.team import Member, Role
from remand.domain.text_commands.interpretation import interpret_text
from remand.domain.text_commands.patterns import TaskName, TextResult
from remand.domain.text_commands.sentence import ReferenceKind, TaskReference, Vocabulary

ROOF = TaskName(id="T-20261115-080000-00000001", label="issue #42", alias="#42", pr=15)
DOOR = TaskName(id="T-20261115-080000-00000002", label="issue #43", alias="#43")
FENCE = TaskName(id="T-20261115-080000-00000003", label="issue #77", alias="#77")
GATE = TaskName(id="T-20261115-080000-00000004", label="task T-20261115-080000-00000004", pr=77)
TITLES = {"mend the roof": (ROOF,), "paint it": (DOOR, FENCE)}
EVERY = (ROOF, DOOR, FENCE, GATE)
MEMBERS = (
    Member(name="Fenster", aliases=("fen",)),
    Member(name="Hockney"),
    Member(name="Core Dev"),
    Member(name="Will"),
    Member(name="Lead", roles=(Role.LEAD,), accounts=("github:octocat",)),
    Member(name="Tester", roles=(Role.TESTER,)),
    Member(name="owner", roles=(Role.USER,)),
)


class SpokenTasks:
    """The tasks that sentences name."""

    def find(self, reference: TaskReference) -> tuple[TaskName, ...]:
        """By number, id, title or escalation."""
        numbered = tuple(task for task in EVERY if task.alias == f"#{reference.text}")
        pulled = tuple(task for task in EVERY if task.pr and str(task.pr) == reference.text)
        match reference.kind:
            case ReferenceKind.NAME:
                return tuple(task for task in EVERY if reference.text in (task.id, task.alias))
            case ReferenceKind.NUMBER:
                return numbered or pulled
            case ReferenceKind.PULL:
                return pulled or numbered
            case ReferenceKind.BARE:
                return numbered + pulled
            case ReferenceKind.TITLE:
                return TITLES.get(reference.text.lower(), ())
            case ReferenceKind.ESCALATION:
                return (ROOF,) if reference.text == "E-0a1b2c3d4e5f" else ()

    def locking_out(self, agent: str) -> tuple[TaskName, ...]:
        """Fenster is locked out of two."""
        return (ROOF, DOOR) if agent == "Fenster" else ()

    def locked_out_of(self, task_id: str) -> tuple[str, ...]:
        """The roof locks two out."""
        return ("Fenster", "Core Dev") if task_id == ROOF.id else ()


VOCABULARY = Vocabulary(MEMBERS, SpokenTasks(), "owner")


def heard(text: str, speaker: str = "owner") -> TextResult:
    """What is made of a sentence."""
    return interpret_text(text, Vocabulary(MEMBERS, SpokenTasks(), speaker))
