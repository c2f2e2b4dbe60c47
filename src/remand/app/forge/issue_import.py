"""Tasks made from issues: those with a label, by accounts that may write, each once, their text made safe."""

from __future__ import annotations

import re

from remand.app.forge.ports import Forge, ForgeIssue
from remand.app.ledger import Ledger
from remand.app.requests import Acceptance
from remand.config import ForgeSettings
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.decisions.forge_actions import MAX_FORGE_CLOCK_LEAD, issue_task_id
from remand.domain.feedback.sanitiser import sanitise
from remand.domain.ids import is_agent_name
from remand.domain.instant import add_seconds, is_instant
from remand.domain.preconditions import MAX_SKILLS
from remand.domain.record import Record
from remand.domain.task import PRIORITIES, Priority

BATCH_SIZE = 100
"""How many tasks are added with one sync of the log."""
MAX_TITLE = 200
_LABEL = re.compile(r"(priority|skill)\s*(?:::?|/|=)\s*(\S.*)", re.IGNORECASE)
"""A label that becomes a field of the task: `priority: high`, `skill::frontend`."""


class ImportedIssue(Record, kw_only=True, omit_defaults=False):
    """An issue and its task."""

    task_id: str
    alias: str
    title: str


class SkippedIssue(Record, kw_only=True, omit_defaults=False):
    """An issue that became no task."""

    alias: str
    title: str
    why: str


class IssueImport(Record, kw_only=True, omit_defaults=False):
    """What was imported."""

    imported: tuple[ImportedIssue, ...] = ()
    known: tuple[ImportedIssue, ...] = ()
    """Those that were tasks already."""
    skipped: tuple[SkippedIssue, ...] = ()


class IssueImporter:
    """Makes tasks of issues."""

    def __init__(self, ledger: Ledger, forge: Forge, source: ForgeSettings) -> None:
        self._ledger, self._forge, self._source = ledger, forge, source
        self._may_write: dict[str, bool] = {}

    def import_issues(self, label: str, *, is_dry: bool = False) -> IssueImport:
        """Makes tasks of the open issues with a label, the oldest first; those that are tasks already stay as they are.

        Raises `ForgeFault` when the forge cannot be asked: then nothing was added.
        """
        fresh: list[c.ImportIssue] = []
        known: list[ImportedIssue] = []
        skipped: list[SkippedIssue] = []
        note_progress = self._ledger.store.note_progress
        note_progress(f"reading the issues with the label {label}")
        issues = sorted(self._forge.issues(label), key=lambda issue: issue.number)
        for number, issue in enumerate(issues, 1):
            note_progress(f"issue #{issue.number}, {number} of {len(issues)}")
            command = self._import_command(issue)
            task_id = self._known_task(command)
            if task_id:
                known.append(ImportedIssue(task_id=task_id, alias=command.aliases[0], title=command.title))
            elif why := self._skip_reason(issue):
                skipped.append(SkippedIssue(alias=command.aliases[0], title=command.title, why=why))
            else:
                fresh.append(command)
        refused = [] if is_dry else self._add_tasks(fresh)
        aliases = {one.alias for one in refused}
        made = tuple(
            ImportedIssue(task_id=issue_task_id(command), alias=command.aliases[0], title=command.title)
            for command in fresh
            if command.aliases[0] not in aliases
        )
        return IssueImport(imported=made, known=tuple(known), skipped=(*skipped, *refused))

    def _import_command(self, issue: ForgeIssue) -> c.ImportIssue:
        """The command that makes a task of an issue, with its text sanitised."""
        source, now = self._source, self._ledger.clock.now()
        is_plausible = is_instant(issue.opened_at) and issue.opened_at <= add_seconds(
            now, MAX_FORGE_CLOCK_LEAD
        )
        title = " ".join(sanitise(issue.title).text.split())[:MAX_TITLE].strip()
        priority, skills = read_labels(issue.labels)
        return c.ImportIssue(
            title=title or f"Issue #{issue.number}",
            scope=sanitise(issue.text, source.home).text,
            priority=priority,
            skills=skills,
            aliases=(f"#{issue.number}",),
            issue=issue.number,
            source=f"{source.kind}:{source.repository}#{issue.number}",
            author=issue.author.login[:200] if issue.author else "",
            opened_at=issue.opened_at if is_plausible else now,
        )

    def _known_task(self, command: c.ImportIssue) -> str:
        """The id of the task that the issue is already: by its alias, or by the id it has in every ledger."""
        with self._ledger.store.read() as view:
            named = view.names.find_task_id(command.aliases[0])
            own = issue_task_id(command)
            return named or (own if view.tasks.get(own) is not None else "")

    def _skip_reason(self, issue: ForgeIssue) -> str:
        """Why an issue does not become a task; empty when it does. In doubt it does not."""
        if self._source.import_from == "anyone":
            return ""
        author = issue.author
        if author is None:
            return "the account that opened it is gone"
        if author.id not in self._may_write:
            self._may_write[author.id] = self._forge.may_write(author)
        if self._may_write[author.id]:
            return ""
        return f'{author.login} may not write to the repository (`forge.import_from = "anyone"` accepts such issues, too)'

    def _add_tasks(self, commands: list[c.ImportIssue]) -> list[SkippedIssue]:
        """Makes the tasks; gives those that were refused."""
        refused: list[SkippedIssue] = []
        for first in range(0, len(commands), BATCH_SIZE):
            self._ledger.store.note_progress(f"adding tasks, {first} of {len(commands)}")
            some = commands[first : first + BATCH_SIZE]
            for command, answer in zip(some, self._ledger.ask_all_as(THE_COORDINATOR, some), strict=True):
                if not isinstance(answer, Acceptance):
                    refused.append(
                        SkippedIssue(alias=command.aliases[0], title=command.title, why=answer.message)
                    )
        return refused


def read_labels(labels: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The priority and the skills in labels; of several priorities the most urgent."""
    found = [match.groups() for label in labels if (match := _LABEL.fullmatch(label.strip()))]
    urgent = [value.strip().lower() for name, value in found if name.lower() == "priority"]
    priority = next((one.value for one in PRIORITIES if one.value in urgent), Priority.MEDIUM.value)
    named = (value.strip() for name, value in found if name.lower() == "skill")
    skills = tuple(dict.fromkeys(name for name in named if is_agent_name(name)))
    return priority, skills[:MAX_SKILLS]
