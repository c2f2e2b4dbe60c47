"""A ledger asked through its coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.coordinator import frames, wire
from remand.adapters.coordinator.client import Connection
from remand.app.asking import Answer, Request


class RemoteLedger:
    """Asks a running coordinator; raises `Lost` when it goes away."""

    def __init__(self, path: str) -> None:
        self._connection = Connection(path)

    def ask(self, request: Request) -> Answer:
        """Answers one ask."""
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Request]) -> list[Answer]:
        """Answers asks in their order."""
        frame = frames.pack(frames.ASKS, wire.encode_requests(list(requests)))
        return wire.decode_answers(self._connection.exchange(frame))

    def close(self) -> None:
        """Ends the conversation."""
        self._connection.close()
