"""Runs the commands of requests in threads, each as its caller, on the open ledger of the server. Kinds of calls do not wait for each other."""

from __future__ import annotations

import asyncio
import io
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

from litestar.types import Receive

from remand.app.errors import LedgerReplaced, RemandError, UsageError
from remand.domain.access.tokens import MACHINES, Caller, TokenRole, rate_refusal, require_call
from remand.domain.events.event import KnownBy
from remand.domain.record import NamedTuple
from remand.interfaces.cli import main
from remand.interfaces.cli.context import CallOrigin, CallWarnings, Steps
from remand.interfaces.cli.registry import COMMANDS, FORWARDED_VARIABLES, CommandCall, parse_call
from remand.interfaces.http import commands
from remand.interfaces.http.call_groups import Begin, CallGroups
from remand.interfaces.http.problems import UNAVAILABLE, HttpProblem, refusal_problem
from remand.wiring.open_ledger import OpenLedger

PRIVILEGE = 20
"""How many times the calls of other members hosts, workers and the user may have in progress."""
SHORT_SECONDS, LONG_SECONDS = 60.0, 7200.0
"""The time after which a request is answered with "too slow". The command continues; its key retrieves the result."""
LONG_THREADS = 8
"""How many calls of each group run at once."""
MEMBER_LONG_CALLS = 4
"""How many calls of each group one member may have in progress, so that others get threads as well."""
READ_THREADS = 2
SHORT_CALLS, READS = "short-call", "read"
"""Groups of short calls. The server's own reads, such as those of tokens, do not wait for calls."""
LONG_CALLS, CLAIMS, WAITS, TRANSFERS = "long-call", "claim", "wait", "transfer"
"""Groups of long calls, each with its own threads: done claims wait for workers, which wait for commits from the server."""
GROUPS = {"task submit": CLAIMS, "handoff complete": CLAIMS, "gate wait": WAITS}
"""The group of a command; all others are in `LONG_CALLS`."""
WATCH_SECONDS = 0.1
"""How long a request is under way before it is watched whether its client stays."""
HOUSEKEEPING_SECONDS = 2.0
"""How often files for people, notices and warnings are updated."""

Answer = TypeVar("Answer")
AskQuery = Callable[..., Any]
"""Runs a query by name with the values of its arguments and returns its `--json` output."""


class QueueLimits(NamedTuple):
    """The limits for one kind of call."""

    threads: int
    seconds: float
    """The time after which a request is answered with "too slow"."""
    most: int = 1000
    """How many may run or wait for a thread; further calls are refused immediately."""
    each: int = 16
    """How many of them one caller may have."""


class CallQueue:
    """The calls of one kind. For one event loop."""

    def __init__(self, name: str, limits: QueueLimits) -> None:
        self.limits = limits
        self._pool = ThreadPoolExecutor(limits.threads, name)
        self.running = 0
        """How many calls are running or waiting."""
        self._by_caller: Counter[str] = Counter()

    def add_call(self, caller: Caller | None) -> Callable[[object], None]:
        """Counts a call; returns what counts its end. Raises `HttpProblem` when too many calls are in progress."""
        name, limits = (caller.token_id or caller.member) if caller else "", self.limits
        if self.running >= limits.most:
            raise HttpProblem(UNAVAILABLE, "unavailable", "Too many requests wait.", {"retry-after": "1"})
        if caller is not None and self._by_caller[name] >= limits.each * _privilege(caller):
            raise refusal_problem(rate_refusal(1.0), {"retry-after": "1"})
        self.running += 1
        self._by_caller[name] += 1

        def note_end(ended: Any) -> None:
            self.running -= 1
            self._by_caller[name] -= 1
            if not self._by_caller[name]:
                del self._by_caller[name]
            if not ended.cancelled():
                ended.exception()  # retrieved even if nobody awaits it any more

        return note_end

    def submit(
        self, run: Callable[[], Answer], caller: Caller | None
    ) -> tuple[Future[Answer], asyncio.Future[Answer]]:
        """Runs a function in a thread. Raises `HttpProblem` when too many calls are in progress."""
        note_end = self.add_call(caller)
        job = self._pool.submit(run)
        future = asyncio.wrap_future(job)
        future.add_done_callback(note_end)
        return job, future

    def submit_group(self, run: Callable[[], None]) -> Future[None]:
        """Runs a function for calls that are counted already in a thread."""
        return self._pool.submit(run)

    def close(self) -> None:
        """Waits for the running calls and cancels those that are still waiting for a thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _privilege(caller: Caller) -> int:
    return PRIVILEGE if caller.role in (TokenRole.USER, *MACHINES) else 1


class WaitingCall(Protocol):
    """A call that may wait for a thread."""

    def cancel(self) -> object:
        """Drops it, unless it has begun."""


class ClientPresence:
    """Watches whether the client is still connected: jobs that wait for a thread are cancelled when it disconnects."""

    def __init__(self, receive: Receive, *, has_body: bool) -> None:
        self._receive = receive
        self._is_read = asyncio.Event()
        self._jobs: list[WaitingCall] = []
        self._is_gone = False
        if not has_body:
            self._is_read.set()

    async def receive(self) -> Any:
        """The next part of the body."""
        message: Any = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self._is_read.set()
        return message

    def add(self, job: WaitingCall) -> None:
        """Registers a job that only this client needs."""
        self._jobs.append(job)
        if self._is_gone:
            job.cancel()

    def start_watch(self) -> Watch:
        """Watches from soon on: most requests are answered before."""
        return Watch(self._watch)

    async def _watch(self) -> None:
        """Waits until the client disconnects, and then cancels the jobs that have not started."""
        await self._is_read.wait()
        message: Any = None
        while message is None or message["type"] != "http.disconnect":
            message = await self._receive()
        self._is_gone = True
        for job in self._jobs:
            job.cancel()  # running jobs continue


class Watch:
    """Something that is watched in a task, unless it is cancelled soon."""

    def __init__(self, watch: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._watch = watch
        self._task: asyncio.Task[None] | None = None
        self._start = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._watch())

    def cancel(self) -> None:
        """Ends it."""
        self._start.cancel()
        if self._task is not None:
            self._task.cancel()


presence: ContextVar[ClientPresence | None] = ContextVar("presence", default=None)
"""The client of the current request."""


class ServedLedger(Protocol):
    """The ledger of a server."""

    @property
    def threads(self) -> int:
        """How many short calls run at once."""

    def use(self, *, is_long: bool) -> AbstractContextManager[OpenLedger]:
        """The open ledger, for one call."""

    def close(self) -> None:
        """Closes the ledger."""


class CallResult(NamedTuple):
    """The output and exit code of a command line."""

    code: int
    output: str
    errors: str


class CallRunner:
    """Runs calls. Short ones do not wait for long ones."""

    def __init__(self, ledger: ServedLedger, before: Callable[[], None] = lambda: None) -> None:
        """`before` is called in the thread of each call before it runs, to update what decisions depend on."""
        self._ledger = ledger
        self._before = before
        long = QueueLimits(threads=LONG_THREADS, seconds=LONG_SECONDS, each=MEMBER_LONG_CALLS)
        limits = dict.fromkeys((LONG_CALLS, CLAIMS, WAITS, TRANSFERS), long) | {
            SHORT_CALLS: QueueLimits(threads=ledger.threads, seconds=SHORT_SECONDS),
            READS: QueueLimits(threads=READ_THREADS, seconds=SHORT_SECONDS),
        }
        self._queues = {group: CallQueue(group, one) for group, one in limits.items()}
        self._groups = CallGroups(
            self._queues[SHORT_CALLS].submit_group, lambda run: self._run(run, is_long=False)
        )
        self._warnings: CallWarnings | None = None
        self._is_closed = threading.Event()
        self._housekeeping = threading.Thread(target=self._keep_house, name="housekeeping", daemon=True)
        self._housekeeping.start()

    @property
    def call_count(self) -> int:
        """How many calls are running or waiting."""
        return sum(queue.running for queue in self._queues.values())

    def _keep_house(self) -> None:
        """Runs the follow-up work of commands periodically, for many commands at once, without delaying any of them."""
        changes = -1
        while not self._is_closed.is_set():
            with suppress(RemandError, OSError), self._ledger.use(is_long=False) as opened:
                now = opened.store.changes()
                if now != changes or self._warnings is None:
                    self._warnings = main.finish_call(opened.place, opened)
                    changes = opened.store.changes()
            self._is_closed.wait(HOUSEKEEPING_SECONDS)

    def close(self) -> None:
        """Waits for the running calls and cancels those that are still waiting for a thread."""
        self._is_closed.set()
        self._housekeeping.join()
        for queue in self._queues.values():
            queue.close()
        self._ledger.close()

    async def answer(
        self, command: commands.RemoteCommand, values: SimpleNamespace, text: str, caller: Caller, key: str
    ) -> tuple[int, Any]:
        """The exit code of a command and its `--json` output."""
        call = CommandCall(command.name, [], key=own_key(caller, key), is_json=True)
        require_call(caller, call.command)
        commands.require_served(call.command, values)

        def begin(opened: OpenLedger) -> Steps[tuple[int, Any]]:
            return main.answer(call, values, self._origin(opened, caller, {}, text))

        if command.has_steps:
            return await self._in_group(begin, caller)

        def run(opened: OpenLedger) -> tuple[int, Any]:
            return main.complete(begin(opened), opened.ledger.ask)

        return await self.in_thread(run, is_long=command.is_long, group=_group(command.name), caller=caller)

    async def run(
        self, arguments: list[str], settings: Mapping[str, str], given: str, caller: Caller, key: str
    ) -> CallResult:
        """Runs a whole command line that was entered on another machine."""
        call = parse_call(arguments)
        reason = commands.LOCAL.get(call.command, "") if call.command not in commands.BY_CALLS else ""
        if reason:
            raise UsageError(f"`remand {call.command}` does not run on a server: {reason}.")
        words = arguments
        if call.command in COMMANDS and not (call.usage_error or call.wants_help):
            require_call(caller, call.command)
            commands.require_served(call.command, _values(call))
            words = _own_words(call, own_key(caller, key or call.key))

        def run(opened: OpenLedger) -> CallResult:
            origin = self._origin(opened, caller, settings, given)
            code = main.run(words, origin)
            return CallResult(code, _text(origin.stdout), _text(origin.stderr))

        is_long, group = call.command in commands.LONG, _group(call.command)
        return await self.in_thread(run, is_long=is_long, group=group, caller=caller)

    async def read(
        self,
        read: Callable[[OpenLedger, AskQuery], Any],
        caller: Caller,
        show: Callable[[Any], Answer],
        *,
        is_long: bool = False,
    ) -> Answer:
        """Reads the ledger with several queries, each run as the caller, and returns what `show` makes of the result.

        Everything runs in one thread; `show` runs after the ledger has been released.
        """

        def run(opened: OpenLedger) -> Any:
            def ask(name: str, /, **values: Any) -> Any:
                require_call(caller, name)
                given, text = commands.remote_commands()[name].read_values(values)
                call = CommandCall(name, [], is_json=True)
                steps = main.answer(call, given, self._origin(opened, caller, {}, text))
                return main.complete(steps, opened.ledger.ask)[1]

            return read(opened, ask)

        group = LONG_CALLS if is_long else SHORT_CALLS
        return await self._in_queue(lambda: show(self._run(run, is_long)), group, caller)

    async def read_ledger(self, read: Callable[[OpenLedger], Answer]) -> Answer:
        """Reads the ledger in a thread."""
        return await self._in_queue(lambda: self._run(read, is_long=False), READS)

    async def require_ready(self) -> None:
        """Raises an error if the ledger cannot be read."""
        await self.read_ledger(_require_readable)

    async def in_thread(
        self,
        run: Callable[[OpenLedger], Answer],
        *,
        is_long: bool,
        group: str = LONG_CALLS,
        caller: Caller | None = None,
    ) -> Answer:
        """Runs a function with the ledger in a thread; a long one in a thread of its group.

        Raises `HttpProblem` when too many calls wait, in total or of this caller, or when it takes too long.
        """
        return await self._in_queue(
            lambda: self._run(run, is_long), group if is_long else SHORT_CALLS, caller
        )

    async def _in_queue(self, run: Callable[[], Answer], group: str, caller: Caller | None = None) -> Answer:
        queue = self._queues[group]
        job, future = queue.submit(run, caller)
        client = presence.get()
        if client is not None and caller is not None:
            client.add(job)
        try:
            return await asyncio.wait_for(asyncio.shield(future), queue.limits.seconds)
        except TimeoutError:
            raise _too_slow_problem() from None
        except asyncio.CancelledError:
            if not job.cancelled():
                raise
            raise _not_started_problem() from None

    async def _in_group(self, begin: Begin[Answer], caller: Caller) -> Answer:
        """Carries out a call together with others."""
        queue = self._queues[SHORT_CALLS]
        note_end = queue.add_call(caller)
        call = self._groups.add(begin)
        call.future.add_done_callback(note_end)
        client = presence.get()
        if client is not None:
            client.add(call)
        late = asyncio.get_running_loop().call_later(
            queue.limits.seconds, call.fail_if_pending, _too_slow_problem()
        )
        try:
            return await call.future
        except asyncio.CancelledError:
            if not call.future.cancelled() or call.has_begun:
                raise
            raise _not_started_problem() from None
        finally:
            late.cancel()

    def _origin(
        self, opened: OpenLedger, caller: Caller, settings: Mapping[str, str], given: str
    ) -> CallOrigin:
        """The environment of a request's command; it contains nothing of the server's own environment."""
        width = settings.get("width", "")
        return CallOrigin(
            folder=opened.place.root,
            environment={variable: settings.get(variable, "") for variable in FORWARDED_VARIABLES},
            stdout=io.StringIO(),
            stderr=io.StringIO(),
            is_terminal=bool(settings.get("is_terminal")),
            width=int(width) if width.isascii() and width.isdigit() and len(width) <= 4 else 0,
            opened=opened,
            given=given,
            known_by=KnownBy.TOKEN,
            caller=caller,
            branch=settings.get("branch", ""),
            warnings=self._warnings,
        )

    def _run(self, run: Callable[[OpenLedger], Answer], is_long: bool) -> Answer:
        self._before()
        try:
            with self._ledger.use(is_long=is_long) as opened:
                return run(opened)
        except LedgerReplaced:
            # Whoever noticed has reopened the ledger; a call that was not answered was not carried out.
            with self._ledger.use(is_long=is_long) as opened:
                return run(opened)


def _too_slow_problem() -> HttpProblem:
    detail = "The answer takes too long. Repeat the request with the same Idempotency-Key to get the result."
    return HttpProblem(UNAVAILABLE, "too_slow", detail, {"retry-after": "5"})


def _not_started_problem() -> HttpProblem:
    return HttpProblem(UNAVAILABLE, "unavailable", "The command was not started.")


def _require_readable(opened: OpenLedger) -> None:
    opened.store.changes()


def _group(command: str) -> str:
    return GROUPS.get(command, LONG_CALLS)


def own_key(caller: Caller, key: str) -> str:
    """The caller's idempotency key, scoped to the caller so that nobody can use up another's."""
    if not key:
        return ""
    return f"http-{sha256(f'{caller.token_id or caller.member} {key}'.encode('utf-8', 'replace')).hexdigest()[:40]}"


def _values(call: CommandCall) -> object:
    """The argument values of a call; None if they do not parse: the command then reports the error and does nothing."""
    try:
        return main.parse_values(call)
    except UsageError:
        return None


def _own_words(call: CommandCall, key: str) -> list[str]:
    """The words of a call with the scoped key, without options that name folders."""
    common = ["--json"] if call.is_json else []
    common += ["--as", call.actor] if call.actor else []
    common += ["--key", key] if key else []
    return [*common, *call.command.split(" "), *call.rest]


def _text(stream: io.StringIO) -> str:
    """The text written to a stream, with lone surrogates escaped."""
    return stream.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")
