"""The files made from an opened ledger, with everything it takes to write them."""

from __future__ import annotations

from remand.app.errors import EnvironmentFault
from remand.app.records import Records
from remand.bootstrap.ledger import Opened
from remand.bootstrap.reminding import record_files


def keep_files(opened: Opened) -> str:
    """Brings the files in step with the ledger; says what stood in the way."""
    try:
        files = record_files(opened)
    except EnvironmentFault as fault:
        return str(fault)
    return Records(opened.store, files, lambda: opened.settings.rules().team).keep()
