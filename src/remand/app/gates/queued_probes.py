"""Evidence checks through a queue: a worker runs what a rejection names again, and signs what it saw."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.gates.jobs import EVIDENCE_CHECK, JobQueue, JobState, QueuedJob
from remand.app.gates.queued_claims import ALONE_SECONDS, LOOK_SECONDS, SignedRequest, read_arguments
from remand.app.ledger import Ledger
from remand.app.ports import CommandOutcome, CommandProbes, Pages, SharedData
from remand.app.requests import Rules
from remand.app.tokens import SignatureStamp, sign_content
from remand.domain.instant import Instant, add_seconds
from remand.domain.preconditions import require_trusted_key
from remand.domain.record import Record

SECONDS = 30.0
"""How long a rejection waits for all its commands, and as long again for its addresses."""
KEPT_SECONDS = 600.0
RESULTS = "evidence"
"""What results are kept as until whoever asked has read them."""
_encode = msgspec.json.Encoder(order="deterministic").encode


class ProbeRequest(Record, kw_only=True):
    """A command at a commit, or an address, that is to be looked at again before a time."""

    key: str
    until: Instant
    command: tuple[str, ...] = ()
    commit: str = ""
    url: str = ""


class ProbeResult(Record, kw_only=True):
    """What a worker saw, signed by it: whoever can write to the database alone can say nothing for it."""

    outcome: CommandOutcome | None = None
    """None when it may not be run, or could not."""
    why: str = ""
    """What kept the worker from trying."""
    stamp: SignatureStamp | None = None

    def content(self, key: str) -> bytes:
        """What is signed, with the job that it answers."""
        return b"remand evidence v1\n" + key.encode() + b"\n" + _encode(replace(self, stamp=None))


_decode_request = msgspec.json.Decoder(ProbeRequest).decode
_decode_result = msgspec.json.Decoder(ProbeResult).decode


class QueuedProbes:
    """Has workers run the commands of one rejection, or look at its addresses. Raises EnvironmentFault where none did in time."""

    def __init__(
        self,
        ledger: Ledger,
        queue: JobQueue,
        shared: SharedData,
        rules: Callable[[], Rules],
        *,
        base: Callable[[], str],
        new_key: Callable[[], str],
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._queue = queue
        self._shared = shared
        self._rules = rules
        self._base = base
        self._new_key = new_key
        self._sleep = sleep
        self._clock = clock
        self._left = SECONDS

    def run(self, command: tuple[str, ...], commit: str) -> CommandOutcome | None:
        return self._ask(ProbeRequest(key="", until="", command=command, commit=commit))

    def get(self, url: str) -> CommandOutcome | None:
        return self._ask(ProbeRequest(key="", until="", url=url))

    def _ask(self, asked: ProbeRequest) -> CommandOutcome | None:
        key, now = f"evidence-{self._new_key()}{self._new_key()}", self._ledger.clock.now()
        request = replace(asked, key=key, until=add_seconds(now, self._left))
        signed = SignedRequest(request=_encode(request).decode(), key="", signature="", base=self._base())
        stamp = sign_content(signed.content, self._rules().project, self._ledger.keys)
        arguments = _encode(replace(signed, key=stamp.key, signature=stamp.signature)).decode()
        self._queue.add(QueuedJob(kind=EVIDENCE_CHECK, key=key, arguments=arguments))
        begun = self._clock()
        try:
            self._wait(key, begun)
        finally:
            self._left -= self._clock() - begun
        return self._result(key)

    def _wait(self, key: str, begun: float) -> None:
        while self._queue.state(key) in (JobState.WAITING, JobState.RUNNING):
            waited = self._clock() - begun
            is_alone = waited >= ALONE_SECONDS and any(job.key == key for job in self._queue.unclaimed_jobs())
            if is_alone or waited >= self._left:
                self._left = 0.0 if is_alone else self._left
                raise EnvironmentFault(
                    "no worker is there to run it; start one with `remand worker`"
                    if is_alone
                    else "no worker was done with it in time"
                )
            self._sleep(LOOK_SECONDS)

    def _result(self, key: str) -> CommandOutcome | None:
        """What the worker saw, if a key that counts here signed it."""
        kept = self._shared.get(RESULTS, key, self._ledger.clock.now())
        self._shared.drop(RESULTS, key)
        try:
            found = _decode_result(kept or b"")
        except msgspec.MsgspecError:
            raise EnvironmentFault("its worker said nothing; its output says why") from None
        if found.stamp is None or not found.stamp.covers(
            found.content(key), self._rules(), self._ledger.keys
        ):
            raise EnvironmentFault("what a worker said of it was signed by no trusted key")
        if found.why:
            raise EnvironmentFault(found.why)
        return found.outcome


class ProbeWorker:
    """Runs commands of evidence, and looks at addresses, by the policy that the base has here."""

    def __init__(
        self,
        ledger: Ledger,
        shared: SharedData,
        rules: Callable[[], Rules],
        *,
        refresh: Callable[[str], str],
        fetch: Callable[[str, str], str],
        commands: Callable[[], CommandProbes],
        pages: Callable[[], Pages],
    ) -> None:
        """`refresh` and `fetch` are those of `GateWorker`."""
        self._ledger = ledger
        self._shared = shared
        self._rules = rules
        self._refresh = refresh
        self._fetch = fetch
        self._commands = commands
        self._pages = pages

    def run(self, job: QueuedJob) -> None:
        """Checks one piece of evidence. Raises Refused where the base does not trust this machine's key."""
        signed = read_arguments(job)
        why = self._refresh(signed.base if signed else "")
        require_trusted_key(self._rules().untrusted_key_id(self._ledger.keys.ensure_key()), is_confined=True)
        request = self._read(job, signed) if signed else None
        now = self._ledger.clock.now()
        if request is None or now >= request.until:
            return  # nobody waits for it any more, or nobody who counts asked
        try:
            result = ProbeResult(why=why) if why else self._look(request)
        except EnvironmentFault as fault:
            result = ProbeResult(why=str(fault))
        stamp = sign_content(result.content(job.key), self._rules().project, self._ledger.keys)
        until = add_seconds(now, KEPT_SECONDS)
        data = _encode(replace(result, stamp=stamp))
        self._shared.put(RESULTS, job.key, data, owner=job.key, until=until, now=now, most=1)

    def _look(self, request: ProbeRequest) -> ProbeResult:
        if request.url:
            return ProbeResult(outcome=self._pages().get(request.url))
        why = self._fetch("", request.commit)
        if why:
            return ProbeResult(why=f"the worker cannot get the commit: {why}")
        return ProbeResult(outcome=self._commands().run(request.command, request.commit))

    def _read(self, job: QueuedJob, signed: SignedRequest) -> ProbeRequest | None:
        try:
            request = _decode_request(signed.request)
        except msgspec.MsgspecError:
            return None
        stamp = SignatureStamp(key=signed.key, signature=signed.signature)
        is_signed = stamp.covers(signed.content, self._rules(), self._ledger.keys)
        return request if is_signed and request.key == job.key else None
