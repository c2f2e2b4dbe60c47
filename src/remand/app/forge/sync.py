"""One round on the forge: polls reviews, imports issues if configured, and carries out the policy's actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from remand.app.events.task_folds import task_events
from remand.app.forge import actions as a
from remand.app.forge.poll import ForgeReporter, Poller, PollResult, failed_poll
from remand.app.forge.ports import Forge, ForgeFault, ForgeFaultKind, ForgeIssue, PollMarks, Remote
from remand.app.forge.review_import import Accounts, ReviewImporter
from remand.app.ledger import Ledger
from remand.app.requests import Acceptance
from remand.app.settings import SettingsSource
from remand.app.text_commands import TextCommands
from remand.config import ForgeSettings
from remand.config.services import LABEL
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Actor
from remand.domain.decisions.forge_actions import MAX_FORGE_CLOCK_LEAD, issue_task_id
from remand.domain.events.event import Event, KnownBy
from remand.domain.feedback.sanitiser import sanitise
from remand.domain.forge import ForgeAction
from remand.domain.ids import is_agent_name
from remand.domain.instant import add_seconds, is_instant
from remand.domain.preconditions import MAX_SKILLS
from remand.domain.record import Record
from remand.domain.task import PRIORITIES, Priority

BATCH_SIZE = 100
"""The number of tasks added with one sync of the log."""
MAX_TITLE = 200
_LABEL = re.compile(r"(priority|skill)\s*(?:::?|/|=)\s*(\S.*)", re.IGNORECASE)
"""A label that becomes a field of the task: `priority: high`, `skill::frontend`."""


class ImportedIssue(Record, kw_only=True, omit_defaults=False):
    """An issue and its task."""

    task_id: str
    alias: str
    title: str


class SkippedIssue(Record, kw_only=True, omit_defaults=False):
    """An issue that was not imported."""

    alias: str
    title: str
    why: str


class IssueImport(Record, kw_only=True, omit_defaults=False):
    """The result of an import."""

    imported: tuple[ImportedIssue, ...] = ()
    known: tuple[ImportedIssue, ...] = ()
    """Issues that were already tasks."""
    skipped: tuple[SkippedIssue, ...] = ()


class IssueImporter:
    """Creates tasks from issues."""

    def __init__(self, ledger: Ledger, forge: Forge, source: ForgeSettings) -> None:
        self._ledger, self._forge, self._source = ledger, forge, source
        self._may_write: dict[str, bool] = {}

    def import_issues(self, label: str, *, is_dry: bool = False) -> IssueImport:
        """Creates tasks from the open issues with a label, oldest first; existing tasks remain unchanged.

        Raises `ForgeFault` if the forge cannot be reached; nothing is added then.
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
        created = tuple(
            ImportedIssue(task_id=issue_task_id(command), alias=command.aliases[0], title=command.title)
            for command in fresh
            if command.aliases[0] not in aliases
        )
        return IssueImport(imported=created, known=tuple(known), skipped=(*skipped, *refused))

    def _import_command(self, issue: ForgeIssue) -> c.ImportIssue:
        """The command that creates a task from an issue, with its text sanitised."""
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
        """The id of the issue's existing task: by alias, or by the id that it has in every ledger."""
        with self._ledger.store.read() as view:
            named = view.names.find_task_id(command.aliases[0])
            own = issue_task_id(command)
            return named or (own if view.tasks.get(own) is not None else "")

    def _skip_reason(self, issue: ForgeIssue) -> str:
        """Why an issue is not imported; empty if it is. In doubt it is not."""
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
        """Adds the tasks and returns the refused ones."""
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
    """The priority and skills in labels; the most urgent of several priorities."""
    found = [match.groups() for label in labels if (match := _LABEL.fullmatch(label.strip()))]
    urgent = [value.strip().lower() for name, value in found if name.lower() == "priority"]
    priority = next((one.value for one in PRIORITIES if one.value in urgent), Priority.MEDIUM.value)
    named = (value.strip() for name, value in found if name.lower() == "skill")
    skills = tuple(dict.fromkeys(name for name in named if is_agent_name(name)))
    return priority, skills[:MAX_SKILLS]


NO_FORGE = """\
There is no forge in remand.toml. To have one, add these lines on the base branch, with your own repository:

    [forge]
    kind = "github"              # or "gitea", "gitlab"
    repository = "owner/name"

and set GITHUB_TOKEN (GITEA_TOKEN, GITLAB_TOKEN) in the shell that calls, or log in with `gh`."""


class SyncResult(NamedTuple):
    """The result of one round on the forge."""

    polled: PollResult
    imported: IssueImport = IssueImport()
    acted: a.ActionReport = a.ActionReport()
    trouble: str = ""


class ForgeSync:
    """Polls the configured forge and carries out the policy's actions there."""

    def __init__(
        self,
        ledger: Ledger,
        configuration: SettingsSource,
        marks: PollMarks,
        *,
        open_forge: Callable[[str, str, str, str], Forge],
        open_remote: Callable[[ForgeSettings, str], Remote],
        find_token: Callable[[ForgeSettings], str],
        lock: a.ExclusiveLock,
    ) -> None:
        """`open_forge` takes kind, repository, API and token; `open_remote` the forge and the token."""
        self._ledger, self._configuration, self._marks = ledger, configuration, marks
        self._make_forge, self._make_remote, self._find_token = open_forge, open_remote, find_token
        self._lock = lock

    @property
    def settings(self) -> ForgeSettings:
        """The configured forge; if there is none, the fault says what to do."""
        forge_settings = self._configuration.settings().forge
        if not forge_settings.kind:
            raise ForgeFault(ForgeFaultKind.MISSING, NO_FORGE)
        return forge_settings

    def _open_forge(self) -> Forge:
        forge = self.settings
        return self._make_forge(forge.kind, forge.repository, forge.api, self._find_token(forge))

    def _open_remote(self) -> Remote:
        forge = self.settings
        return self._make_remote(forge, self._find_token(forge))

    def sync(self, only: Collection[int] = (), *, is_again: bool = False) -> SyncResult:
        """One round. A failure in one part is reported and does not prevent the others."""
        polled = self.poll(only)
        if not self._configuration.settings().forge.kind:
            return SyncResult(polled, trouble=polled.trouble)
        imported, trouble = IssueImport(), ""
        if self.settings.import_label:
            try:
                imported = self.import_issues()
            except ForgeFault as fault:
                trouble = str(fault)
        acted = self._act(is_again=is_again)
        return SyncResult(polled, imported, acted, polled.trouble or trouble or acted.trouble)

    def poll(self, only: Collection[int] = ()) -> PollResult:
        """Polls the forge once; with numbers, only those pull requests."""
        try:
            settings = self.settings
            with closing(self._open_forge()) as forge:
                importer = ReviewImporter(
                    self._ledger,
                    Accounts(self._configuration.rules().team, forge, self._marks),
                    self._marks,
                    kind=settings.kind,
                    home=settings.home,
                    run_command=self._run_comment_command,
                    reply=forge.comment if "comment" in settings.report else lambda *_: None,
                )
                reporter = ForgeReporter(forge, self._marks, settings.kind, settings.report, self._events_of)
                poller = Poller(
                    self._ledger, forge, self._marks, importer.import_pull_request, reporter.report
                )
                return poller.poll(only)
        except ForgeFault as fault:
            return failed_poll(self._ledger, self._marks, fault)

    def import_issues(self, label: str = "", *, is_dry: bool = False) -> IssueImport:
        """Creates tasks from the issues with a label, by default the configured one. Raises `ForgeFault`."""
        settings = self.settings
        with closing(self._open_forge()) as forge:
            importer = IssueImporter(self._ledger, forge, settings)
            return importer.import_issues(label or settings.import_label or LABEL, is_dry=is_dry)

    def _act(self, *, is_again: bool) -> a.ActionReport:
        """Carries out due actions on the forge, which is opened only if there are any."""
        base = self._configuration.base_branch()
        policy = self._configuration.rules().policy
        return a.ForgeActions(
            self._ledger,
            self._marks,
            policy,
            base=base,
            open_forge=lambda: self._open_actions(base),
            lock=self._lock,
        ).tick(is_again=is_again)

    @contextmanager
    def _open_actions(self, base: str) -> Iterator[dict[ForgeAction, a.ForgeActionHandler]]:
        settings, team = self.settings, self._configuration.rules().team
        with closing(self._open_forge()) as forge:
            accounts = Accounts(team, forge, self._marks)
            yield {
                ForgeAction.PUSH: a.PushAction(self._open_remote()),
                ForgeAction.OPEN: a.OpenAction(forge, base),
                ForgeAction.REQUEST: a.RequestReviewAction(forge, team, settings.kind),
                ForgeAction.MERGE: a.MergeAction(forge, accounts.writing_member),
                ForgeAction.CLOSE: a.CloseAction(forge),
            }

    def _run_comment_command(self, actor: Actor, text: str, key: str) -> str:
        """Runs the command in a member's comment as that member; the rules decide what is permitted."""
        commands = TextCommands(
            self._ledger.store,
            self._configuration.rules().team,
            actor,
            lambda ask: self._ledger.ask_as(actor, ask, key=key, known_by=KnownBy.FORGE),
        )
        return f"> {text}\n\n{commands.run(text).done}"

    def _events_of(self, task_id: str) -> list[Event]:
        with self._ledger.store.read() as view:
            return task_events(view, task_id)
