"""The forge of an open ledger: which one, with which token, and what a poll of it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from remand.adapters.forges import gitea, github, gitlab
from remand.adapters.forges.poll_memory import StoredAnswers, StoredMarks
from remand.adapters.forges.webhooks import WEBHOOK_PATH, WebhookListener
from remand.adapters.gates.results import FileCache
from remand.adapters.git.files import acquire_lock
from remand.adapters.git.remote import Access, GitRemote
from remand.adapters.system.folders import state_folder
from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.app.events.task_folds import task_events
from remand.app.forge.actions import (
    ActionContext,
    ActionReport,
    ForgeActionHandler,
    ForgeActions,
    action_handlers,
    waits_of_tasks,
)
from remand.app.forge.issue_import import IssueImport, IssueImporter, IssueSource
from remand.app.forge.poll import ForgeReporter, Poller, PollResult, failed_poll
from remand.app.forge.ports import Forge, ForgeFault, ForgeFaultKind, Remote
from remand.app.forge.review_import import Accounts, ReviewImporter
from remand.app.text_commands import TextCommands
from remand.config import ForgeSettings
from remand.config.forge import LABEL
from remand.domain.access.team import Actor
from remand.domain.events.event import Event, KnownBy
from remand.domain.forge_state import ForgeAction
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger

__all__ = ["SECRET", "TOKENS", "WEBHOOK_PATH", "Forges", "SyncResult", "forge_waits", "reopen_if_replaced"]

TOKENS = {"github": "GITHUB_TOKEN", "gitea": "GITEA_TOKEN", "gitlab": "GITLAB_TOKEN"}
SECRET = "REMAND_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
_CLASSES: dict[str, Callable[[], Callable[..., Forge]]] = {
    "github": lambda: github.GitHub,
    "gitea": lambda: gitea.Gitea,
    "gitlab": lambda: gitlab.GitLab,
}
"""The client of each kind of forge, loaded when it is asked for."""


class SyncResult(NamedTuple):
    """What came of one round on the forge."""

    polled: PollResult
    imported: IssueImport = IssueImport()
    acted: ActionReport = ActionReport()
    trouble: str = ""


class Forges:
    """Polls the forge that the configuration names, and does there what the policy says."""

    def __init__(self, opened: OpenLedger, environment: Mapping[str, str]) -> None:
        self._opened = opened
        self._environment = environment
        self.marks = poll_marks(opened)

    @property
    def settings(self) -> ForgeSettings:
        """The forge of the configuration; says what to do when there is none."""
        found = self._opened.settings.settings().forge
        if not found.kind:
            raise ForgeFault(
                ForgeFaultKind.MISSING,
                "There is no forge in remand.toml. Add a [forge] table with its kind and its repository.",
            )
        return found

    @contextmanager
    def poller(self) -> Iterator[Poller]:
        """Everything a poll needs, let go of afterwards."""
        settings, opened = self.settings, self._opened
        with closing(self._forge(settings)) as forge:
            accounts = Accounts(opened.settings.rules().team, forge, self.marks)
            answers = "comment" in settings.report
            taking = ReviewImporter(
                opened.ledger,
                accounts,
                self.marks,
                kind=settings.kind,
                home=settings.home,
                obey=self._run_comment_command,
                answer=forge.comment if answers else lambda *_: None,
            )
            reporter = ForgeReporter(forge, self.marks, settings.kind, settings.report, self._events_of)
            yield Poller(opened.ledger, forge, self.marks, taking.import_pull_request, reporter.report)

    def poll(self, only: Collection[int] = ()) -> PollResult:
        """Asks the forge once; with numbers about those pull requests alone."""
        try:
            with self.poller() as poller:
                return poller.poll(only)
        except ForgeFault as fault:
            return failed_poll(self._opened.ledger, self.marks, fault)

    def sync(self, only: Collection[int] = (), *, is_again: bool = False) -> SyncResult:
        """One round: what people said is taken in, issues become tasks where that is configured, and what is due is done.

        Whatever fails of it keeps nobody from the rest, and is told.
        """
        polled = self.poll(only)
        if not self._opened.settings.settings().forge.kind:
            return SyncResult(polled, trouble=polled.trouble)
        imported, trouble = IssueImport(), ""
        if self.settings.import_label:
            try:
                imported = self.import_issues()
            except ForgeFault as fault:
                trouble = str(fault)
        acted = self.act(is_again=is_again)
        return SyncResult(polled, imported, acted, polled.trouble or trouble or acted.trouble)

    def act(self, *, is_again: bool = False) -> ActionReport:
        """Does on the forge what the policy says and is due; `is_again` also what was given up.

        It waits for the forge, and opens it only when something is due.
        """
        settings = self.settings
        acting = ForgeActions(
            self._opened.ledger,
            self.marks,
            self._opened.settings.rules().policy,
            base=self._base,
            opened=lambda: self._forge_actions(settings),
            alone=self._exclusive,
        )
        return acting.tick(is_again=is_again)

    def import_issues(self, label: str = "", *, is_dry: bool = False) -> IssueImport:
        """Makes tasks of the issues with a label, by default the configured one. Raises `ForgeFault`."""
        settings = self.settings
        source = IssueSource(
            settings.kind,
            settings.repository,
            settings.home,
            is_anyones=settings.import_from == "anyone",
        )
        with closing(self._forge(settings)) as forge:
            bringing = IssueImporter(self._opened.ledger, forge, source)
            return bringing.import_issues(label or settings.import_label or LABEL, is_dry=is_dry)

    @property
    def _base(self) -> str:
        source = self._opened.settings
        return source.settings().base or source.base()

    @contextmanager
    def _forge_actions(self, settings: ForgeSettings) -> Iterator[dict[ForgeAction, ForgeActionHandler]]:
        """Everything that can be done on the forge, let go of afterwards."""
        team = self._opened.settings.rules().team
        with closing(self._forge(settings)) as forge:
            accounts = Accounts(team, forge, self.marks)
            standing = ActionContext(self._base, team, settings.kind)
            yield action_handlers(forge, self._remote(settings), standing, accounts.writing_member)

    def _remote(self, settings: ForgeSettings) -> Remote:
        """Where work is pushed to, with the token that the forge is asked with."""
        parts = urlsplit(settings.home)
        access = Access(
            origin=f"{parts.scheme}://{parts.netloc}",
            user="x-access-token" if settings.kind == "github" else "oauth2",
            token=self._token(settings),
        )
        return GitRemote(self._opened.place, settings.remote, access, self._environment)

    @contextmanager
    def _exclusive(self) -> Iterator[bool]:
        """Keeps other processes of this machine from acting for the same ledger meanwhile."""
        folder = _folder(self._opened)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle = acquire_lock(os.path.join(folder, "acting.lock"))
        try:
            yield handle >= 0
        finally:
            if handle >= 0:
                os.close(handle)

    def listener(self, host: str, port: int, wake: Callable[[int], None]) -> WebhookListener:
        """A listener for the forge's webhooks."""
        settings, secret = self.settings, self._environment.get(SECRET, "")
        if not secret:
            raise EnvironmentFault(
                f"Webhooks are believed by a secret they are signed with. Set {SECRET} to the one given to the forge."
            )
        try:
            return WebhookListener(
                host, port, kind=settings.kind, repository=settings.repository, secret=secret, wake=wake
            )
        except OSError as error:
            raise EnvironmentFault(
                f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --port."
            ) from None

    def _forge(self, settings: ForgeSettings) -> Any:
        """The forge, loaded when it is asked."""
        make = _CLASSES[settings.kind]()
        memory = StoredAnswers(FileCache(os.path.join(_folder(self._opened), "answers")))
        return make(
            settings.repository,
            clock=self._opened.ledger.clock,
            memory=memory,
            api=settings.api,
            token=self._token(settings),
        )

    def _token(self, settings: ForgeSettings) -> str:
        """The token of the environment, or for GitHub the one that `gh` has. Without one no forge says who may write."""
        token = self._environment.get(TOKENS[settings.kind], "").strip()
        if token:
            return token
        if settings.kind == "github":
            return github.gh_token(settings.api)
        raise ForgeFault(
            ForgeFaultKind.DENIED, f"There is no token for {settings.api}. Set {TOKENS[settings.kind]}."
        )

    def _run_comment_command(self, actor: Actor, text: str, key: str) -> str:
        """Carries out what a member said in a comment, as that member; the rules say what it may."""
        opened = self._opened
        saying = TextCommands(
            opened.store,
            opened.settings.rules().team,
            actor,
            lambda ask: opened.ledger.ask_as(actor, ask, key=key, known_by=KnownBy.FORGE),
        )
        said = saying.run(text)
        return f"> {text}\n\n{said.done}"

    def _events_of(self, task_id: str) -> list[Event]:
        with self._opened.store.read() as view:
            return task_events(view, task_id)


def forge_waits(opened: OpenLedger, task_ids: Iterable[str]) -> dict[str, str]:
    """What tasks wait for on the forge, by the last poll: those that wait for something, where there is a forge."""
    if not opened.settings.settings().forge.kind:
        return {}
    policy = opened.settings.rules().policy
    return waits_of_tasks(opened.ledger, poll_marks(opened), policy, task_ids)


def reopen_if_replaced(opened: OpenLedger) -> OpenLedger:
    """The ledger, up to date; the one in its place when its file was deleted or replaced."""
    try:
        opened.store.require_same_file()
    except LedgerReplaced:
        opened.store.close()
        opened.ledger.exchange.close()
        opened.ledger.marks.close()
        opened = open_at(opened.place)
    opened.ledger.refresh()
    return opened


def poll_marks(opened: OpenLedger) -> StoredMarks:
    """What polls have noted for one another, apart from the answers, which are many and soon forgotten."""
    return StoredMarks(FileCache(os.path.join(_folder(opened), "marks")))


def _folder(opened: OpenLedger) -> str:
    return os.path.join(state_folder(), "forges", opened.store.value("id"))
