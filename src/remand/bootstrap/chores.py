"""The chores of a scheduler on this machine; what waits for others has a ledger opened for it alone."""

from __future__ import annotations

from importlib import import_module

from remand.app.scheduling.loop import Chore
from remand.bootstrap.ledger import Opened, open_at
from remand.bootstrap.reminding import look_after
from remand.config import inherited_environment


def outside_chores(opened: Opened) -> tuple[Chore, ...]:
    """What is done with the outside: the forge, where there is one, and people."""
    settings = opened.settings.settings()
    people = Chore("people", settings.run.interval_seconds, _Own(opened).tell_people)
    if not settings.forge.kind:
        return (people,)
    return (Chore("forge", settings.run.interval_seconds, _Own(opened).ask_the_forge), people)


class _Own:
    """The ledger as a chore sees it that may wait long: opened once more, for it alone, when it is first needed."""

    def __init__(self, opened: Opened) -> None:
        self._place = opened.place
        self._found: Opened | None = None

    @property
    def _opened(self) -> Opened:
        forges = import_module("remand.bootstrap.forges")
        self._found = forges.still_open(self._found) if self._found else open_at(self._place)
        return self._found

    def ask_the_forge(self) -> str:
        """Polls reviews, and does on the forge what policy says; gives what is in the way."""
        forges = import_module("remand.bootstrap.forges").Forges(self._opened, inherited_environment())
        return str(forges.sync().trouble)

    def tell_people(self) -> str:
        """Brings the files for people in step, and has the user told of open questions."""
        opened = self._opened
        return look_after(opened.place, opened)[1]
