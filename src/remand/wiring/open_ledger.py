"""An open ledger with its surroundings, as everything that is built on one is given it."""

from __future__ import annotations

import os

from remand.adapters.git import submissions
from remand.adapters.git.location import LedgerLocation
from remand.adapters.stores import postgres_views, shared_data, sqlite_views
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
    from remand.app.ports import SharedData


class OpenLedger(NamedTuple):
    """A ledger with its surroundings."""

    ledger: Ledger
    place: LedgerLocation
    settings: SettingsSource
    store: SqliteStore | PostgresStore

    @property
    def view(self) -> LedgerView:
        """What commands show straight from the tables."""
        if isinstance(self.store, SqliteStore):
            return sqlite_views.LedgerView(self.store.path, self.store.connection)
        return postgres_views.PostgresView(self.store)

    @property
    def shared_data(self) -> SharedData:
        """What its processes find for a while, beside the events."""
        if isinstance(self.store, SqliteStore):
            return shared_data.EmbeddedSharedData(self.store.value, self.store.remember)
        return self.store.shared_data

    @property
    def submissions(self) -> submissions.SubmissionStore:
        """The submitted commits, which the servers and workers of a database share."""
        folder, shared = os.path.join(self.folders.own, "submissions"), None
        if not isinstance(self.store, SqliteStore):
            shared = self.store.shared_data
        environment = inherited_environment("REMAND_")
        return submissions.SubmissionStore(self.place, folder, environment, shared, self.ledger.clock.now)

    @property
    def process_environment(self) -> dict[str, str]:
        """What a process that is started for this ledger is given: it opens this one, however this process was told of it."""
        own = {} if isinstance(self.store, SqliteStore) else {"REMAND_STORE": self.store.url}
        return inherited_environment("REMAND_") | own

    @property
    def folders(self) -> LedgerFolders:
        """Where things about it are kept outside of the repository."""
        return LedgerFolders(self.store.value("id"))
