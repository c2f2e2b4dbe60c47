"""Access to a repository's ledger: through the coordinator if one runs, otherwise directly."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from remand.app.errors import LedgerReplaced
from remand.app.ledger import Ledger
from remand.app.requests import Acceptance, Answer, Request, is_valid_request
from remand.ledger.store import Store


class FileStore(Store, Protocol):
    """Tables that may be stored in a file."""

    def require_same_file(self) -> None:
        """Raises `LedgerReplaced` if the file was deleted or replaced."""


class AnyOpenLedger(Protocol):
    """An open ledger and everything that was opened with it."""

    @property
    def ledger(self) -> Ledger:
        """The ledger."""

    @property
    def store(self) -> FileStore:
        """Its tables."""

    def close(self) -> None:
        """Closes its files."""


OpenLedgerT = TypeVar("OpenLedgerT", bound=AnyOpenLedger)


class LedgerGateway(Generic[OpenLedgerT]):
    """The ledger of one repository, opened on demand."""

    def __init__(
        self,
        opened: OpenLedgerT | None,
        *,
        open_ledger: Callable[[], OpenLedgerT],
        find_socket: Callable[[], str],
        ask_coordinator: Callable[[str, Request], Answer | None],
        own_folders: Callable[[], Sequence[str]],
    ) -> None:
        """With an open ledger, as in the coordinator, it uses only that.

        `own_folders` are those that may contain event files that only this worktree has.
        """
        self.already_open_ledger = opened
        """The ledger, if it is open."""
        self._open_ledger = open_ledger
        self._find_socket = find_socket
        self._ask_coordinator = ask_coordinator
        self._own_folders = own_folders
        self._is_local = opened is not None
        self._written_before = opened.ledger.written if opened else 0
        self._has_sent = False

    @property
    def opened_ledger(self) -> OpenLedgerT:
        """The ledger itself."""
        self.already_open_ledger = self.already_open_ledger or self._open_ledger()
        return self.already_open_ledger

    def current_ledger(self) -> OpenLedgerT:
        """The ledger itself, refreshed, and reopened if its file was replaced: for long-running processes."""
        try:
            self.opened_ledger.store.require_same_file()
        except LedgerReplaced:
            self.close()
        self.opened_ledger.ledger.refresh()
        return self.opened_ledger

    def close(self) -> None:
        """Closes the ledger's files if they are open; the next use reopens them."""
        if self.already_open_ledger is not None:
            self.already_open_ledger.close()
            self.already_open_ledger = None

    @property
    def has_written(self) -> bool:
        """True if this gateway has written events."""
        opened = self.already_open_ledger
        return self._has_sent or (opened is not None and opened.ledger.written > self._written_before)

    def ask(self, request: Request) -> Answer:
        """Sends a request. If the coordinator dies meanwhile, the key prevents it from being carried out twice."""
        path = "" if self._is_local or not is_valid_request(request) else self._find_socket()
        if path and any(map(os.path.isdir, self._own_folders())):
            self.opened_ledger.ledger.refresh()  # the coordinator does not see event files that only this worktree has
        answer = self._ask_coordinator(path, request) if path else None
        if answer is None:
            return self.opened_ledger.ledger.ask(request)
        self.note_answer(answer)
        return answer

    def note_answer(self, answer: Answer) -> None:
        """Notes an answer that came from elsewhere."""
        self._has_sent |= isinstance(answer, Acceptance) and bool(answer.events)
