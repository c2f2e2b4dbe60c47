"""Who speaks at a door, and what is said there."""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from typing import NamedTuple, Protocol

from remand.adapters.coordinator import frames
from remand.app.scheduling.ports import Workplace

Answered = tuple[int, bytes, bytes]
"""Exit code, output and errors."""

TOO_LONG: Answered = (
    3,
    b"",
    b"remand: the answer is too long to be passed through a door. Ask for less of it.\n",
)


class Caller(NamedTuple):
    """Whose door it is: settled when it was opened, and by nothing that is said there."""

    run_id: str
    agent: str
    task_id: str
    workplace: Workplace

    @property
    def is_worker(self) -> bool:
        """True for the agent of the task itself. One that judges has a place of its own, with others' code in it."""
        return self.workplace.task_id == self.task_id


class Asked(NamedTuple):
    """One call through a door. All but the caller and the time is the agent's own word."""

    caller: Caller
    at: float
    """When it came, by the monotonic clock."""
    folder: str
    settings: list[str]
    arguments: list[str]
    given: bytes = b""
    """What would have been read from standard input."""


class Answering(Protocol):
    """Answers calls, in threads of its own. Should it raise, that call alone has failed."""

    def is_long(self, asked: Asked) -> bool:
        """True for a call that may take minutes. This itself takes no time."""

    def answer(self, asked: Asked) -> Answered:
        """Carries a call out."""

    def leave(self, caller: Caller) -> None:
        """Ends what still goes on for a run whose door has closed. Called once for each."""


class Visitor:
    """One connection to a door: it asks, waits, is answered, and may ask again."""

    def __init__(self, door: Door, connection: socket.socket, now: float) -> None:
        self.door = door
        self.connection = connection
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.is_waiting = False
        """True while a call of its is under way."""
        self.is_gone = False
        self.since = now
        """When it began to ask, or to be answered."""

    def call(self, now: float) -> Asked | None:
        """The next call, when it is here as a whole; raises ValueError or IndexError on what is none."""
        found = frames.unpack(self.incoming)
        if found is None:
            return None
        kind, payload, taken = found
        del self.incoming[:taken]
        return Asked(self.door.caller, now, *frames.unpack_given(kind, payload))

    def answered(self, answer: Answered, now: float) -> None:
        """Takes an answer to be sent."""
        code, output, errors = answer
        if len(output) + len(errors) > frames.MAX_FRAME - 64:
            code, output, errors = TOO_LONG
        self.outgoing += frames.pack_result(code & 0xFF, output, errors)
        self.is_waiting, self.since = False, now

    def send(self) -> bool:
        """Sends what can be sent now; True when something is left. Raises OSError when nobody is there."""
        with suppress(BlockingIOError):
            while self.outgoing:
                del self.outgoing[: self.connection.send(self.outgoing)]
        return bool(self.outgoing)


class Door:
    """A run's socket, who is there, and what they wait for."""

    def __init__(self, caller: Caller, path: str, listener: socket.socket) -> None:
        self.caller = caller
        self.path = path
        self.listener = listener
        self.visitors: set[Visitor] = set()
        self.waiting: dict[bool, deque[tuple[Visitor, Asked]]] = {False: deque(), True: deque()}
        """Calls whose turn has not come, short and long ones."""
        self.running: dict[bool, int] = {False: 0, True: 0}
        """How many are being carried out, short and long ones."""
        self.sorted = 0
        """How many were just heard, and it is not known yet which they are."""
        self.is_listening = False
        self.closes_at = 0.0
        """When what is still under way is ended; 0 while the door is open."""

    @property
    def is_busy(self) -> bool:
        """True while a call is under way."""
        return bool(self.sorted) or any(self.running.values()) or any(self.waiting.values())

    @property
    def held(self) -> int:
        """How many bytes of calls that are not whole yet are kept for it."""
        return sum(len(visitor.incoming) for visitor in self.visitors)
