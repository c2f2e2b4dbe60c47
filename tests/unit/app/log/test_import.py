"""Event files that are imported into a ledger which reads none."""

from pathlib import Path

import pytest

from remand.app.errors import UsageError
from remand.app.log.exchange import import_folder
from tests.support.builders import THE_USER, FakeLedger


def test_a_ledger_in_a_database_imports_no_files_and_says_so(tmp_path: Path) -> None:
    world = FakeLedger()
    world.ledger.has_event_files = False
    (tmp_path / "a.jsonl").write_text("{}\n")

    with pytest.raises(UsageError, match=r"Nothing was imported.*log move"):
        import_folder(world.ledger, str(tmp_path), THE_USER)
