"""The forge of an open ledger: which one, with which token, and what a poll of it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

from remand.adapters.forges.listener import PATH, Listener
from remand.adapters.forges.remembering import KeptAnswers, KeptMarks
from remand.adapters.measuring.cache import FileCache
from remand.adapters.system.folders import state_folder
from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.app.forges.accounts import Accounts
from remand.app.forges.polling import Polled, Poller, not_asked, waits_for
from remand.app.forges.ports import Forge, ForgeFault, Trouble
from remand.app.forges.reporting import Reporter
from remand.app.forges.taking import Taking
from remand.app.rebuild import story
from remand.app.saying import Saying
from remand.bootstrap.ledger import Opened, open_at
from remand.config import ForgeSettings
from remand.domain import events as e
from remand.domain.roles import Actor

__all__ = ["PATH", "SECRET", "TOKENS", "Forges", "still_open", "waits"]

TOKENS = {"github": "GITHUB_TOKEN", "gitea": "GITEA_TOKEN", "gitlab": "GITLAB_TOKEN"}
SECRET = "REMAND_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
_CLASSES = {"github": "GitHub", "gitea": "Gitea", "gitlab": "GitLab"}


class Forges:
    """Polls the forge that the configuration names."""

    def __init__(self, opened: Opened, environment: Mapping[str, str]) -> None:
        self._opened = opened
        self._environment = environment
        self.marks = kept_marks(opened)

    @property
    def settings(self) -> ForgeSettings:
        """The forge of the configuration; says what to do when there is none."""
        found = self._opened.settings.settings().forge
        if not found.kind:
            raise ForgeFault(
                Trouble.MISSING,
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
            taking = Taking(
                opened.ledger,
                accounts,
                self.marks,
                kind=settings.kind,
                home=settings.home,
                obey=self._obey,
                answer=forge.comment if answers else lambda *_: None,
            )
            reporter = Reporter(forge, self.marks, settings.kind, settings.report, self._events_of)
            yield Poller(opened.ledger, forge, self.marks, taking.take, reporter.tell)

    def poll(self, only: Collection[int] = ()) -> Polled:
        """Asks the forge once; with numbers about those pull requests alone."""
        try:
            with self.poller() as poller:
                return poller.poll(only)
        except ForgeFault as fault:
            return not_asked(self._opened.ledger, self.marks, fault)

    def listener(self, host: str, port: int, wake: Callable[[int], None]) -> Listener:
        """A listener for the forge's webhooks."""
        settings, secret = self.settings, self._environment.get(SECRET, "")
        if not secret:
            raise EnvironmentFault(
                f"Webhooks are believed by a secret they are signed with. Set {SECRET} to the one given to the forge."
            )
        try:
            return Listener(
                host, port, kind=settings.kind, repository=settings.repository, secret=secret, wake=wake
            )
        except OSError as error:
            raise EnvironmentFault(
                f"{host}:{port} cannot be listened on: {error.strerror}. Choose another --port."
            ) from None

    def _forge(self, settings: ForgeSettings) -> Any:
        """The forge, loaded when it is asked. Without a token none says who may write; GitHub's own tool may have one."""
        token = self._environment.get(TOKENS[settings.kind], "").strip()
        if not token and settings.kind != "github":
            raise ForgeFault(
                Trouble.DENIED, f"There is no token for {settings.api}. Set {TOKENS[settings.kind]}."
            )
        module = import_module(f"remand.adapters.forges.{settings.kind}")
        make: Callable[..., Forge] = getattr(module, _CLASSES[settings.kind])
        memory = KeptAnswers(FileCache(os.path.join(_folder(self._opened), "answers")))
        return make(
            settings.repository, clock=self._opened.ledger.clock, memory=memory, api=settings.api, token=token
        )

    def _obey(self, actor: Actor, text: str, key: str) -> str:
        """Carries out what a member said in a comment, as that member; the rules say what it may."""
        opened = self._opened
        saying = Saying(
            opened.store,
            opened.settings.rules().team,
            actor,
            lambda ask: opened.ledger.ask_as(actor, ask, key=key),
        )
        said = saying.hear(text)
        return f"> {text}\n\n{said.done}"

    def _events_of(self, task_id: str) -> list[e.Event]:
        with self._opened.store.read() as view:
            return story(view, task_id)


def waits(opened: Opened, task_ids: Iterable[str]) -> dict[str, str]:
    """What tasks wait for on the forge, by the last poll: those that wait for something, where there is a forge."""
    if not opened.settings.settings().forge.kind:
        return {}
    marks = kept_marks(opened)
    return {name: text for name in task_ids if (text := waits_for(marks, name))}


def still_open(opened: Opened) -> Opened:
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


def kept_marks(opened: Opened) -> KeptMarks:
    """What polls have noted for one another, apart from the answers, which are many and soon forgotten."""
    return KeptMarks(FileCache(os.path.join(_folder(opened), "marks")))


def _folder(opened: Opened) -> str:
    return os.path.join(state_folder(), "forges", opened.store.value("id"))
