"""Holds that people on a terminal read short ids, and that commands they copy still work."""

from collections.abc import Sequence

from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.stores.sqlite_views import LedgerView
from remand.interfaces.cli.output import clean, short_names, shorten_ids
from remand.testing.builders import a_task

NAMED, PLAIN = "T-20261116-081125-9a560905", "T-20261116-081126-1a2b3c4d"


def names(ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    known = {NAMED: ("#42", "0905"), PLAIN: ("", "3c4d")}
    return {name: known[name] for name in ids if name in known}


def test_a_task_is_called_by_its_alias_or_the_end_of_its_id() -> None:
    other = "T-20261116-081127-ffffffff"
    text = f"{NAMED} waits for {PLAIN}, and {other} is of another ledger"

    assert shorten_ids(text, names) == f"#42 waits for 3c4d, and {other} is of another ledger"


def test_in_a_command_no_shell_takes_the_rest_for_a_comment() -> None:
    text = f"{NAMED} is held:\n  remand gate accept {NAMED} f1"

    assert shorten_ids(text, names) == "#42 is held:\n  remand gate accept 0905 f1"


def test_what_programs_read_keeps_whole_ids() -> None:
    assert clean(NAMED) == NAMED
    token = short_names.set(names)
    try:
        assert clean(NAMED) == "#42"
    finally:
        short_names.reset(token)
    assert clean(NAMED) == NAMED


def test_the_shortest_end_is_one_that_no_other_task_has() -> None:
    store = SqliteStore.in_memory("20261115-090000-00000000")
    ends = ("aaaa1111", "bbbb1111", "cccc2222", "dddd3333")
    ids = [f"T-20261115-0900{number:02}-{end}" for number, end in enumerate(ends)]
    with store.write() as tx:
        for name, aliases in zip(ids, ((), (), ("#7",), ("#7",)), strict=True):
            tx.tasks.put(a_task(name, aliases=aliases))
    found = LedgerView("", store.connection).short_names([*ids, PLAIN])

    assert found == {
        ids[0]: ("", "a1111"),
        ids[1]: ("", "b1111"),
        ids[2]: ("#7", "2222"),
        ids[3]: ("", "3333"),
    }
