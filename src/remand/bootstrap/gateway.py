"""One way to ask, whether a coordinator runs or not."""

from __future__ import annotations

import os
from functools import cached_property

from remand.adapters.coordinator.client import Lost
from remand.adapters.coordinator.remote import RemoteLedger
from remand.adapters.git.place import Place
from remand.adapters.git.publish import GitPublisher
from remand.adapters.git.repository import GitRepository
from remand.adapters.system.clock import RandomIds
from remand.app.asking import Accepted, Answer, Request, is_sound
from remand.bootstrap.ledger import Opened, open_at
from remand.bootstrap.quick import find_socket


class Gateway:
    """Asks the coordinator where one runs, and the ledger itself where none does."""

    def __init__(self, place: Place, opened: Opened | None = None) -> None:
        self.place = place
        self.repository = GitRepository(place)
        self.ids = RandomIds()
        self._given = opened
        self._written_before = opened.ledger.written if opened else 0
        self._has_sent = False

    @cached_property
    def opened(self) -> Opened:
        """The ledger itself."""
        return self._given or open_at(self.place)

    @property
    def opened_already(self) -> Opened | None:
        """The ledger, when it is open."""
        return self.opened if self._given or "opened" in vars(self) else None

    @property
    def has_written(self) -> bool:
        """True when events were written through this way to the ledger."""
        opened = self.opened_already
        return self._has_sent or (opened is not None and opened.ledger.written > self._written_before)

    @cached_property
    def publisher(self) -> GitPublisher:
        """Commits event files."""
        return GitPublisher(self.place)

    def ask(self, request: Request) -> Answer:
        """Answers an ask. Should the coordinator go away meanwhile, the key keeps it from happening twice."""
        if not is_sound(request):
            return self.opened.ledger.ask(request)
        path = "" if self._given else find_socket(self.place)
        if path:
            self._read_own_files()
            try:
                remote = RemoteLedger(path)
                try:
                    answer = remote.ask(request)
                finally:
                    remote.close()
                self._has_sent |= isinstance(answer, Accepted) and bool(answer.events)
                return answer
            except Lost:
                pass
        return self.opened.ledger.ask(request)

    def _read_own_files(self) -> None:
        """Reads in what only this worktree has, which the coordinator does not look at."""
        if any(os.path.isdir(folder) for folder in self.place.event_folders[1:]):
            self.opened.ledger.refresh()
