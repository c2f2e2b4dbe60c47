"""The forge of an open ledger: its client, the remote to which work is pushed, and the state shared between polls."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial

from remand.adapters.forges.table import StoredAnswers, StoredMarks, open_forge, stored_token
from remand.adapters.forges.webhooks import SECRET, WebhookListener
from remand.adapters.gates.results import FileCache
from remand.adapters.git.remote import Access, GitRemote
from remand.adapters.system.files import try_lock
from remand.app.forge.actions import waits_of_tasks
from remand.app.forge.sync import ForgeSync
from remand.config import ForgeSettings
from remand.wiring.open_ledger import OpenLedger

__all__ = ["SECRET", "WebhookListener", "forge_sync", "forge_waits"]


def forge_sync(opened: OpenLedger, environment: Mapping[str, str]) -> ForgeSync:
    """Polls the configured forge, and acts on it."""
    memory = StoredAnswers(FileCache(os.path.join(opened.folders.forge, "answers")))

    return ForgeSync(
        opened.ledger,
        opened.settings,
        poll_marks(opened),
        open_forge=partial(open_forge, clock=opened.ledger.clock, memory=memory),
        open_remote=lambda forge, token: GitRemote(
            opened.place, forge.remote, Access.to_forge(forge.kind, forge.home, token), environment
        ),
        find_token=partial(forge_token, environment),
        lock=lambda: try_lock(os.path.join(opened.folders.forge, "acting.lock")),
    )


def forge_token(environment: Mapping[str, str], settings: ForgeSettings) -> str:
    """The token for a forge, from the environment or where it was stored; empty when there is none."""
    return settings.find_token(environment) or stored_token(settings.kind, settings.api)


def forge_waits(opened: OpenLedger, task_ids: Iterable[str]) -> dict[str, str]:
    """What tasks wait for on the forge."""
    return waits_of_tasks(opened.ledger, opened.settings, poll_marks(opened), task_ids)


def poll_marks(opened: OpenLedger) -> StoredMarks:
    """Stored separately from the answers, which are many and short-lived."""
    return StoredMarks(FileCache(os.path.join(opened.folders.forge, "marks")))
