"""One way to send commands to the ledger, whether a coordinator runs or not."""

from __future__ import annotations

import os
from functools import cached_property

from remand.adapters.coordinator import remote_ledger
from remand.adapters.coordinator.protocol import CoordinatorUnavailable
from remand.adapters.git import event_publisher
from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.repository import GitRepository
from remand.adapters.system.clock import RandomIds
from remand.app.requests import Acceptance, Answer, Request, is_valid_request
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import find_socket


class Gateway:
    """Asks the coordinator where one runs, and the ledger itself where none does."""

    def __init__(self, place: LedgerLocation, opened: OpenLedger | None = None) -> None:
        self.place = place
        self.repository = GitRepository(place)
        self.ids = RandomIds()
        self._given = opened
        self._written_before = opened.ledger.written if opened else 0
        self._has_sent = False

    @cached_property
    def opened_ledger(self) -> OpenLedger:
        """The ledger itself."""
        return self._given or open_at(self.place)

    @property
    def already_open_ledger(self) -> OpenLedger | None:
        """The ledger, when it is open."""
        return self.opened_ledger if self._given or "opened_ledger" in vars(self) else None

    @property
    def has_written(self) -> bool:
        """True when events were written through this way to the ledger."""
        opened = self.already_open_ledger
        return self._has_sent or (opened is not None and opened.ledger.written > self._written_before)

    @cached_property
    def publisher(self) -> event_publisher.GitPublisher:
        """Commits event files."""
        return event_publisher.GitPublisher(self.place)

    def ask(self, request: Request) -> Answer:
        """Answers an ask. Should the coordinator go away meanwhile, the key keeps it from happening twice."""
        if not is_valid_request(request):
            return self.opened_ledger.ledger.ask(request)
        path = "" if self._given else find_socket(self.place)
        if path:
            self._read_own_files()
            try:
                remote = remote_ledger.RemoteLedger(path)
                try:
                    answer = remote.ask(request)
                finally:
                    remote.close()
                self._has_sent |= isinstance(answer, Acceptance) and bool(answer.events)
                return answer
            except CoordinatorUnavailable:
                pass
        return self.opened_ledger.ledger.ask(request)

    def _read_own_files(self) -> None:
        """Reads in what only this worktree has, which the coordinator does not look at."""
        if any(os.path.isdir(folder) for folder in self.place.event_folders[1:]):
            self.opened_ledger.ledger.refresh()
