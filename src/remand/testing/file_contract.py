"""How a store keeps the event files it has read. A part of `store_contract`."""

from __future__ import annotations

from remand.ledger.problems import Problem
from remand.ledger.store import FileMark, Store
from remand.testing.builders import LATER, MUCH_LATER, NOW, Session, added, task_id


class FileContract:
    """A store knows which files it read, what was wrong with them, and what came too early."""

    def test_a_file_is_known_as_it_was_last_read(self, store: Store) -> None:
        before, after, other = FileMark("a", 1, 2, 3), FileMark("a", 4, 5, 6), FileMark("b", 1, 1, 1)

        with store.write() as tx:
            for mark in (before, other, after):
                tx.files.note(mark, ())

            assert tx.files.marks() == {"a": after, "b": other}

    def test_only_what_was_wrong_at_the_last_reading_is_wrong(self, store: Store) -> None:
        old, new, other = (Problem(file=file, line=7, problem=file) for file in ("a", "a", "b"))

        with store.write() as tx:
            tx.files.note(FileMark("b", 1, 1, 1), [other])
            tx.files.note(FileMark("a", 1, 1, 1), [old, old])
            tx.files.note(FileMark("a", 2, 2, 2), [new])

            assert tx.files.problems() == [new, other]

    def test_what_came_too_early_is_given_out_once_its_time_is_near(self, store: Store) -> None:
        session = Session()
        soon, late = (session.entry(added(task_id(n)), at=at) for n, at in enumerate((LATER, MUCH_LATER)))

        with store.write() as tx:
            for entry in (soon, late, soon):
                tx.files.hold_back(entry.event, entry.line)

            assert tx.files.ripe(NOW) == []
            assert sorted(tx.files.held()) == sorted([soon.line, late.line])
            assert tx.files.ripe(LATER) == [soon.line]
            assert tx.files.ripe(MUCH_LATER) == [late.line]
            assert tx.files.ripe(MUCH_LATER) == []
