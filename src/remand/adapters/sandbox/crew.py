"""An agent at work: its processes, what they say, and how they end, whatever holds them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import FileIO
from typing import NamedTuple, Protocol

from remand.adapters.sandbox.agent_log import AgentLog
from remand.adapters.sandbox.agent_view import Setting, setting_of
from remand.adapters.sandbox.ending import Census, descendants
from remand.adapters.sandbox.limits import Fence, is_full
from remand.adapters.sandbox.output import Kept
from remand.adapters.sandbox.pipes import pipe_of
from remand.adapters.sandbox.setting import CannotStart
from remand.adapters.sandbox.watching import Timer, Watch, the_watch
from remand.app.scheduling.ports import CannotRun, Ended, Order

GRACE_SECONDS = 5.0
"""What an agent has to end by itself once it is asked to."""

OUTPUT = 1 << 17
ERRORS = 1 << 15
"""What is kept of what an agent says: what its host tells of a session is at the end of it."""

LOOK_SECONDS = 1.0
RETRY_SECONDS = 0.002
CHUNK = 1 << 16
LAST_CHUNKS = 64
MAX_COMPLAINT = 500

CAUSES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "disk"),
    **dict.fromkeys((errno.E2BIG, errno.ENAMETOOLONG, errno.ENOEXEC), "program"),
}
ADVICE = {
    "disk": "Make room there.",
    "program": "Mend the command in remand.toml.",
    "sandbox": "Repeat when it can.",
}


class Outcome(NamedTuple):
    """How an agent's processes ended."""

    how: str
    status: int
    note: str = ""
    """Which bound they ran into."""


class Held(Protocol):
    """The processes of one agent, in the hands of what confines or at least keeps them."""

    @property
    def end(self) -> int:
        """A descriptor that has something to read when they have ended, or may have."""

    @property
    def keeper(self) -> int:
        """The process that all of them descend from."""

    @property
    def first(self) -> int:
        """The first of them."""

    def kill(self) -> None:
        """Ends all of them."""

    def outcome(self) -> Outcome | None:
        """How they ended, once none of them is left; None before. Never waits."""

    def close(self) -> bool:
        """Lets go of what is held; False when that has to be tried again."""


class Stream:
    """One of an agent's outputs."""

    def __init__(self, pipe: FileIO, limit: int, log: AgentLog) -> None:
        self._pipe = pipe
        self._kept = Kept(limit)
        self._log = log
        os.set_blocking(pipe.fileno(), False)

    @property
    def descriptor(self) -> int:
        """Where it is read."""
        return self._pipe.fileno()

    def hear(self) -> bool:
        """Takes in what is there; False when nothing more can come."""
        part = self._pipe.read(CHUNK)
        self._kept.add(part or b"")
        self._log.add(part or b"")
        return part != b""

    def hear_the_rest(self) -> None:
        """Takes in what is left. Should somebody still be there to write more, that is not waited for."""
        for _ in range(LAST_CHUNKS):
            part = self._pipe.read(CHUNK)
            if not part:
                break
            self._kept.add(part)
            self._log.add(part)

    def text(self) -> str:
        """What it has said so far: head and tail when that was much."""
        return self._kept.content().decode("utf-8", "replace")

    def close(self) -> None:
        """Hears no more."""
        self._pipe.close()


class Streams:
    """What an agent says, and the ends of its pipes that it says it to."""

    def __init__(self, stack: ExitStack, log: str) -> None:
        self.log = AgentLog(log)
        heard, self.to_output = pipe_of(stack)
        warned, self.to_errors = pipe_of(stack)
        self.output, self.errors = Stream(heard, OUTPUT, self.log), Stream(warned, ERRORS, self.log)

    def both(self) -> tuple[Stream, Stream]:
        """Output and errors."""
        return self.output, self.errors

    def hand_over(self) -> None:
        """Leaves writing to the agent alone."""
        self.to_output.close()
        self.to_errors.close()

    def complaint(self) -> str:
        """The last of what was said by something that did not get to start an agent."""
        self.errors.hear_the_rest()
        return self.errors.text().strip()[-MAX_COMPLAINT:]


def spawn(
    watch: Watch, command: Sequence[str | bytes], stdin: int, streams: Streams, given: Sequence[int]
) -> subprocess.Popen[bytes]:
    """Starts what holds an agent, with nothing of ours but its streams and the descriptors it is given."""
    process = watch.call(
        lambda: subprocess.Popen(
            command,
            stdin=stdin,
            stdout=streams.to_output,
            stderr=streams.to_errors,
            env={},
            cwd="/",
            pass_fds=given,
            start_new_session=True,
            umask=0o022,
        )
    )
    streams.hand_over()
    return process


@contextmanager
def as_cannot_run() -> Iterator[None]:
    """Says in the scheduler's words what kept an agent from being started."""
    try:
        yield
    except CannotStart as fault:
        raise CannotRun("program", str(fault)) from None
    except OSError as fault:
        cause = CAUSES.get(fault.errno or 0, "sandbox")
        raise CannotRun(cause, f"The system cannot start an agent: {fault}. {ADVICE[cause]}") from None


class Agent:
    """An agent that was started. Everything but what callers ask happens in the thread that watches over it."""

    def __init__(self, watch: Watch, census: Census, held: Held, streams: Streams) -> None:
        self._watch, self._census, self._held, self._streams = watch, census, held, streams
        self._began = time.monotonic()
        self._asked = ""
        self._because = ""
        self._timer: Timer | None = None
        self._ended: Ended | None = None
        self._told: Callable[[], None] = lambda: None

    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        if self._ended is None:
            self._watch.go_on()
        return self._ended

    def tell(self, ended: Callable[[], None]) -> None:
        """Has something told as soon as it has ended; should that be just now, perhaps twice."""
        self._told = ended
        if self._ended is not None:
            ended()

    def stop(self) -> None:
        """Asks it to end, and makes it after a while."""
        self._watch.soon(lambda: self._ask("stopped"))

    def begin(self, seconds: float, folder: str) -> None:
        """Is watched over from now on: it runs for no longer than so many seconds, and while its disk has room."""
        for stream in self._streams.both():
            self._watch.listen(stream.descriptor, partial(self._hear, stream))
        self._watch.listen(self._held.end, self._look)
        self._timer = self._watch.after(seconds, lambda: self._ask("timed_out"))
        self._watch_disk(folder)

    def _watch_disk(self, folder: str) -> None:
        """Ends the agent before the disk of its worktree is full: the ledger may be on that disk, too."""
        if self._asked or self._ended:
            return
        if is_full(folder):
            self._because = (
                f"Remand ended it: hardly any room is left on the disk of {folder}. Make room there."
            )
            self._ask("stopped")
        else:
            self._watch.after(LOOK_SECONDS, partial(self._watch_disk, folder))

    def _hear(self, stream: Stream) -> None:
        if not stream.hear():
            self._watch.forget(stream.descriptor)

    def _ask(self, why: str) -> None:
        """Asks every process to end. What it is ended for is what was said first."""
        if self._asked or self._ended:
            return
        self._asked = why
        for pid in self._everyone():
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        self._set(self._watch.after(GRACE_SECONDS, self._held.kill))

    def _everyone(self) -> set[int]:
        """Its processes; where the system does not tell, the group that the first of them leads."""
        table = self._census.now()
        return descendants(self._held.keeper, table) if table else {-self._held.first}

    def _set(self, timer: Timer | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _look(self) -> None:
        """Puts down how it ended, once it has."""
        outcome = self._held.outcome()
        if outcome is None:
            return
        seconds = time.monotonic() - self._began
        self._set(None)
        self._watch.forget(self._held.end)
        said = [self._last_words(stream) for stream in self._streams.both()]
        self._streams.log.close()
        self._let_go()
        how, status, note = outcome
        note = " ".join(filter(None, (note, self._because)))
        errors = f"{said[1]}\n[{note}]\n" if note else said[1]
        self._ended = Ended(self._asked or how, status, seconds, said[0], errors)
        self._told()

    def _last_words(self, stream: Stream) -> str:
        self._watch.forget(stream.descriptor)
        stream.hear_the_rest()
        stream.close()
        return stream.text()

    def _let_go(self) -> None:
        if not self._held.close():
            self._watch.after(RETRY_SECONDS, self._let_go)


Hold = Callable[[Order, Setting, Streams, Fence], Held]
"""Starts an agent's processes and holds them; nothing is left of them when that fails."""


class Starter:
    """Starts agents, one way of holding them given, and watches over all of them."""

    def __init__(self, hold: Callable[[Watch], Hold], processes: int) -> None:
        self._watch, self._census = the_watch(), Census()
        self._hold = hold(self._watch)
        self._processes = processes

    def start(self, order: Order) -> Agent:
        """Starts a run; raises CannotRun."""
        with as_cannot_run(), ExitStack() as stack:
            given = setting_of(order, self._processes)
            streams = Streams(stack, order.log)
            fence = stack.enter_context(Fence(given.job.limits))
            held = self._hold(order, given, streams, fence)
            agent = Agent(self._watch, self._census, held, streams)
            try:
                self._watch.call(lambda: agent.begin(order.bounds.seconds, given.job.folder))
            except OSError:
                held.kill()
                raise
            stack.pop_all()
        return agent
