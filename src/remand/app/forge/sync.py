"""One round on the forge: reviews are polled, issues become tasks where configured, and what the policy wants is done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from remand.app.events.task_folds import task_events
from remand.app.forge import actions as a
from remand.app.forge.issue_import import IssueImport, IssueImporter
from remand.app.forge.poll import ForgeReporter, Poller, PollResult, failed_poll
from remand.app.forge.ports import Forge, ForgeFault, ForgeFaultKind, PollMarks, Remote
from remand.app.forge.review_import import Accounts, ReviewImporter
from remand.app.ledger import Ledger
from remand.app.settings import SettingsSource
from remand.app.text_commands import TextCommands
from remand.config import ForgeSettings
from remand.config.forge import LABEL
from remand.domain.access.team import Actor
from remand.domain.events.event import Event, KnownBy
from remand.domain.forge import ForgeAction

NO_FORGE = """\
There is no forge in remand.toml. To have one, add these lines on the base branch, with your own repository:

    [forge]
    kind = "github"              # or "gitea", "gitlab"
    repository = "owner/name"

and set GITHUB_TOKEN (GITEA_TOKEN, GITLAB_TOKEN) in the shell that calls, or log in with `gh`."""


class SyncResult(NamedTuple):
    """What came of one round on the forge."""

    polled: PollResult
    imported: IssueImport = IssueImport()
    acted: a.ActionReport = a.ActionReport()
    trouble: str = ""


class ForgeSync:
    """Polls the forge that the configuration names, and does there what the policy wants."""

    def __init__(
        self,
        ledger: Ledger,
        configuration: SettingsSource,
        marks: PollMarks,
        *,
        open_forge: Callable[[ForgeSettings], Forge],
        open_remote: Callable[[ForgeSettings], Remote],
        lock: a.ExclusiveLock,
    ) -> None:
        self._ledger, self._configuration, self._marks = ledger, configuration, marks
        self._open_forge, self._open_remote, self._lock = open_forge, open_remote, lock

    @property
    def settings(self) -> ForgeSettings:
        """The forge of the configuration; the fault says what to do when there is none."""
        found = self._configuration.settings().forge
        if not found.kind:
            raise ForgeFault(ForgeFaultKind.MISSING, NO_FORGE)
        return found

    def sync(self, only: Collection[int] = (), *, is_again: bool = False) -> SyncResult:
        """One round. Whatever part of it fails does not keep the others from being done, and is reported."""
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
        """Asks the forge once; with numbers about those pull requests alone."""
        try:
            settings = self.settings
            with closing(self._open_forge(settings)) as forge:
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
        """Makes tasks of the issues with a label, by default the configured one. Raises `ForgeFault`."""
        settings = self.settings
        with closing(self._open_forge(settings)) as forge:
            importer = IssueImporter(self._ledger, forge, settings)
            return importer.import_issues(label or settings.import_label or LABEL, is_dry=is_dry)

    def _act(self, *, is_again: bool) -> a.ActionReport:
        """Does on the forge what the policy wants and is due; the forge is opened only when something is."""
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
        with closing(self._open_forge(settings)) as forge:
            accounts = Accounts(team, forge, self._marks)
            yield {
                ForgeAction.PUSH: a.PushAction(self._open_remote(settings)),
                ForgeAction.OPEN: a.OpenAction(forge, base),
                ForgeAction.REQUEST: a.RequestReviewAction(forge, team, settings.kind),
                ForgeAction.MERGE: a.MergeAction(forge, accounts.writing_member),
                ForgeAction.CLOSE: a.CloseAction(forge),
            }

    def _run_comment_command(self, actor: Actor, text: str, key: str) -> str:
        """Runs the command of a member's comment as that member; the rules decide what is permitted."""
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
