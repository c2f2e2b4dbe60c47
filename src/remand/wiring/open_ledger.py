"""An open ledger with its surroundings, as everything that is built on one is given it."""

from __future__ import annotations

from remand.adapters.git.location import LedgerLocation
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.folders import LedgerFolders
from remand.app.ledger import Ledger
from remand.app.settings import SettingsSource
from remand.domain.record import NamedTuple


class OpenLedger(NamedTuple):
    """A ledger with its surroundings."""

    ledger: Ledger
    place: LedgerLocation
    settings: SettingsSource
    store: SqliteStore

    @property
    def folders(self) -> LedgerFolders:
        """Where things about it are kept outside of the repository."""
        return LedgerFolders(self.store.value("id"))
