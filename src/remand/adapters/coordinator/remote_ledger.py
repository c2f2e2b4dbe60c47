"""The ledger over the coordinator's socket: how requests, answers and status are encoded, and the client."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import msgspec

from remand.adapters.coordinator import protocol
from remand.adapters.coordinator.protocol import Connection, CoordinatorUnavailable
from remand.app.errors import EnvironmentFault
from remand.app.requests import Acceptance, Answer, Request
from remand.domain.record import Record
from remand.domain.refusals import Refused, restore_refusal
from remand.domain.task import Task
from remand.ledger import codec

STATUS_SECONDS = 10.0


class WireAnswer(Record, kw_only=True):
    """An answer: the events and the task, a refusal, or an environment fault."""

    events: tuple[msgspec.Raw, ...] = ()
    task: Task | None = None
    refused: str = ""
    message: str = ""
    fault: str = ""


_encode = msgspec.json.Encoder().encode
decode_requests = msgspec.json.Decoder(list[Request]).decode
_decode_answers = msgspec.json.Decoder(list[WireAnswer]).decode


def encode_answers(answers: list[Answer | EnvironmentFault]) -> bytes:
    return _encode([_encode_answer(answer) for answer in answers])


def _encode_answer(answer: Answer | EnvironmentFault) -> Acceptance | WireAnswer:
    """Encodes an answer. An accepted one is encoded as it is, since it has the fields that the client reads."""
    match answer:
        case Acceptance():
            return answer
        case Refused():
            return WireAnswer(refused=answer.code, message=answer.message)
        case _:
            return WireAnswer(fault=str(answer))


def decode_answers(payload: bytes) -> list[Answer]:
    """Decodes the ledger's answers; raises a fault if one was sent."""
    return [_decode_answer(wire) for wire in _decode_answers(payload)]


def _decode_answer(wire: WireAnswer) -> Answer:
    if wire.refused:
        return restore_refusal(wire.refused, wire.message)
    if wire.task is None:
        raise EnvironmentFault(wire.fault or "The coordinator gave an empty answer.")
    return Acceptance(
        events=tuple(codec.decode_trusted_line(bytes(raw)) for raw in wire.events), task=wire.task
    )


class RemoteLedger:
    """Sends requests to a running coordinator; raises `Lost` if it goes away."""

    def __init__(self, path: str) -> None:
        self._connection = Connection(path)

    def ask(self, request: Request) -> Answer:
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Request]) -> list[Answer]:
        frame = protocol.pack(protocol.ASKS, _encode(list(requests)))
        return decode_answers(self._connection.exchange(frame))

    def close(self) -> None:
        self._connection.close()


class CoordinatorStatus(Record, kw_only=True):
    """The status of the coordinator at a socket."""

    pid: int
    version: str
    since: str
    ends_when_idle: bool
    """True if a command started it: since nobody stops it, it ends when idle."""


encode_status = _encode


def ask_status(path: str, *, stops: bool = False) -> CoordinatorStatus | None:
    """The status of the coordinator at a socket, which `stops` also stops; None if none answers, or it is too old to do so."""
    try:
        with closing(Connection(path, STATUS_SECONDS)) as connection:
            answer = connection.exchange(protocol.pack(protocol.STOP if stops else protocol.STATUS, b""))
        return msgspec.json.decode(answer, type=CoordinatorStatus)
    except (CoordinatorUnavailable, msgspec.MsgspecError):
        return None


def ask_coordinator(path: str, request: Request) -> Answer | None:
    """The answer of the coordinator at a socket; None if there is none or it goes away."""
    try:
        with closing(RemoteLedger(path)) as remote:
            return remote.ask(request)
    except CoordinatorUnavailable:
        return None
