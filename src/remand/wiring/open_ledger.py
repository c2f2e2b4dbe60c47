"""An open ledger with its surroundings, for everything that is built on it."""

from __future__ import annotations

import os

from remand.adapters.git import remote
from remand.adapters.git.location import LedgerLocation
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.folders import LedgerFolders
from remand.app.ledger import Ledger
from remand.app.settings import SettingsSource
from remand.config import inherited_environment
from remand.domain.record import NamedTuple
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from remand.adapters.stores.postgres import PostgresStore
    from remand.adapters.stores.sqlite_views import LedgerView


class OpenLedger(NamedTuple):
    """A ledger with its surroundings."""

    ledger: Ledger
    place: LedgerLocation
    settings: SettingsSource
    store: SqliteStore | PostgresStore

    def close(self) -> None:
        """Closes its files, or its connections."""
        self.store.close()
        self.ledger.close()

    @property
    def view(self) -> LedgerView:
        """Queries for commands, straight from the tables."""
        return self.store.view

    @property
    def submissions(self) -> remote.SubmissionStore:
        """The submitted commits, which the servers and workers of a database share."""
        folder, shared = os.path.join(self.folders.own, "submissions"), None
        if self.store.url:
            shared = self.store.shared_data
        environment = inherited_environment("REMAND_")
        return remote.SubmissionStore(self.place, folder, environment, shared, self.ledger.clock.now)

    @property
    def process_environment(self) -> dict[str, str]:
        """The environment for a process that is to open this ledger, however this process was told about it."""
        own = {"REMAND_STORE": self.store.url} if self.store.url else {}
        return inherited_environment("REMAND_") | own

    @property
    def folders(self) -> LedgerFolders:
        """The folders for this ledger outside the repository."""
        return LedgerFolders(self.store.value("id"))
