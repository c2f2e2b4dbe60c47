"""The forge of an open ledger: its client, the remote that work is pushed to, and what polls note for one another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from remand.adapters.forges import gitea, github, gitlab
from remand.adapters.forges.poll_memory import StoredAnswers, StoredMarks
from remand.adapters.forges.webhooks import SECRET, WebhookListener
from remand.adapters.gates.results import FileCache
from remand.adapters.git.remote import Access, GitRemote
from remand.adapters.system.files import try_lock
from remand.adapters.system.folders import state_folder
from remand.app.forge.actions import waits_of_tasks
from remand.app.forge.ports import Forge, Remote
from remand.app.forge.sync import ForgeSync
from remand.config import ForgeSettings
from remand.config.forge import TOKENS
from remand.wiring.open_ledger import OpenLedger


def forge_sync(opened: OpenLedger, environment: Mapping[str, str]) -> ForgeSync:
    """What polls the configured forge, and acts there."""
    folder = _folder(opened)
    memory = StoredAnswers(FileCache(os.path.join(folder, "answers")))

    def token(settings: ForgeSettings) -> str:
        given = environment.get(TOKENS[settings.kind], "").strip()
        return github.gh_token(settings.api) if settings.kind == "github" and not given else given

    def open_forge(settings: ForgeSettings) -> Forge:
        clients: dict[str, Callable[[], Callable[..., Forge]]] = {
            "github": lambda: github.GitHub,
            "gitea": lambda: gitea.Gitea,
            "gitlab": lambda: gitlab.GitLab,
        }
        return clients[settings.kind]()(
            settings.repository,
            clock=opened.ledger.clock,
            memory=memory,
            api=settings.api,
            token=token(settings),
        )

    def open_remote(settings: ForgeSettings) -> Remote:
        home = urlsplit(settings.home)
        access = Access(
            origin=f"{home.scheme}://{home.netloc}",
            user="x-access-token" if settings.kind == "github" else "oauth2",
            token=token(settings),
        )
        return GitRemote(opened.place, settings.remote, access, environment)

    return ForgeSync(
        opened.ledger,
        opened.settings,
        poll_marks(opened),
        open_forge=open_forge,
        open_remote=open_remote,
        lock=lambda: try_lock(os.path.join(folder, "acting.lock")),
    )


def forge_waits(opened: OpenLedger, task_ids: Iterable[str]) -> dict[str, str]:
    """What tasks wait for on the forge: those that wait for something, where there is a forge."""
    if not opened.settings.settings().forge.kind:
        return {}
    return waits_of_tasks(opened.ledger, poll_marks(opened), opened.settings.rules().policy, task_ids)


def webhook_listener(
    settings: ForgeSettings,
    environment: Mapping[str, str],
    host: str,
    port: int,
    wake: Callable[[int], None],
) -> WebhookListener:
    """A listener for the forge's webhooks."""
    return WebhookListener(
        host,
        port,
        kind=settings.kind,
        repository=settings.repository,
        secret=environment.get(SECRET, ""),
        wake=wake,
    )


def poll_marks(opened: OpenLedger) -> StoredMarks:
    """Kept apart from the answers, which are many and soon forgotten."""
    return StoredMarks(FileCache(os.path.join(_folder(opened), "marks")))


def _folder(opened: OpenLedger) -> str:
    return os.path.join(state_folder(), "forges", opened.store.value("id"))
