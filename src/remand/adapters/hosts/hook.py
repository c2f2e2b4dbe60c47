"""Hook calls of agent hosts: the call, the answer, and where a host's settings name our hook. Every hook call loads this, so it imports only os."""

from __future__ import annotations

import os

STOP = "stop"
SUBAGENT_STOP = "subagent_stop"
TASK_COMPLETED = "task_completed"
TEAMMATE_IDLE = "teammate_idle"
PRE_TOOL = "pre_tool"
POST_TOOL = "post_tool"
POST_TOOL_FAILURE = "post_tool_failure"
SESSION_START = "session_start"
PROMPT = "prompt"
CONFIG_CHANGE = "config_change"
SESSION_END = "session_end"
EVENTS = (
    STOP, SUBAGENT_STOP, TASK_COMPLETED, TEAMMATE_IDLE, PRE_TOOL, POST_TOOL, POST_TOOL_FAILURE,
    SESSION_START, PROMPT, CONFIG_CHANGE, SESSION_END,
)  # fmt: skip
"""Every event we know, by our own name; a host's other events are ignored."""
ENDINGS = (STOP, SUBAGENT_STOP, TASK_COMPLETED, TEAMMATE_IDLE)
"""The events at which an agent says that it has finished."""

ALLOW = "allow"
BLOCK = "block"
CONTEXT = "context"
DENY = "deny"


class HookToolUse:
    """One use of a tool: before it (what is asked for) or after it (what came of it)."""

    __slots__ = ("command", "duration", "exit_code", "has_failed", "name", "output", "paths", "use_id")

    def __init__(
        self,
        name: str,
        *,
        use_id: str = "",
        command: str = "",
        paths: tuple[str, ...] = (),
        exit_code: int | None = None,
        has_failed: bool = False,
        output: str = "",
        duration: float | None = None,
    ) -> None:
        self.name = name
        self.use_id = use_id
        self.command = command
        """The command line, where the tool is a shell."""
        self.paths = paths
        """The files that the tool writes, as far as its input names them."""
        self.exit_code = exit_code
        """None where the host does not tell."""
        self.has_failed = has_failed
        self.output = output
        """What the tool answered, for its hash."""
        self.duration = duration
        """Seconds; None where the host does not tell."""


class HookCall:
    """One call of our hook by a host."""

    __slots__ = (
        "config_file", "config_source", "cwd", "event", "has_background_work", "host", "is_aborted",
        "is_broken", "is_continued", "last_message", "moment", "session", "subagent", "subject", "tool",
        "transcript", "turn",
    )  # fmt: skip

    def __init__(
        self,
        host: str,
        event: str,
        *,
        session: str = "",
        turn: str = "",
        moment: str = "",
        cwd: str = "",
        subagent: str = "",
        is_continued: bool = False,
        is_aborted: bool = False,
        has_background_work: bool = False,
        tool: HookToolUse | None = None,
        last_message: str = "",
        subject: str = "",
        transcript: str = "",
        config_source: str = "",
        config_file: str = "",
        is_broken: str = "",
    ) -> None:
        self.host = host
        self.event = event
        """One of `EVENTS`; empty for an event that is none of ours."""
        self.session = session
        """The host's own session; empty means that it is not ours."""
        self.turn = turn
        """The prompt that the agent is working on, where the host names it."""
        self.moment = moment
        """Tells several stops of one turn apart, where the payload allows it."""
        self.cwd = cwd
        self.subagent = subagent
        """The sub-agent that the event is about; empty for the agent itself."""
        self.is_continued = is_continued
        """The agent goes on because a stop hook has sent it back before."""
        self.is_aborted = is_aborted
        """The user or an error ended the turn: there is nothing to judge."""
        self.has_background_work = has_background_work
        """The agent waits for work of its own that is still going on."""
        self.tool = tool
        self.last_message = last_message
        self.subject = subject
        """The item of the host's own task list that is said to be finished."""
        self.transcript = transcript
        self.config_source = config_source
        self.config_file = config_file
        self.is_broken = is_broken
        """Why the payload could not be read; empty when it could."""

    @property
    def firing_key(self) -> str:
        """What two hooks have in common that one event fired, whichever hosts' files they stand in.

        Copilot and Cursor run the hooks in `.claude/settings.json` besides their own. Both calls carry the
        same session and event, so the second of equal firings is answered with the first one's answer. An
        agent that stops again with the same words has been spoken to in between: its transcript has grown.
        """
        use_id = self.tool.use_id if self.tool else ""
        length = _length(self.transcript)
        return f"{self.session} {self.event} {self.subagent} {self.turn} {self.moment} {use_id} {length}"


def _length(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


class HookAnswer:
    """What a hook answers. A host without a way to say it is told as much of it as it understands."""

    __slots__ = ("kind", "notice", "text")

    def __init__(self, kind: str, text: str = "", *, notice: str = "") -> None:
        self.kind = kind
        self.text = text
        """For the agent."""
        self.notice = notice
        """For the person who watches."""

    @classmethod
    def allow(cls, notice: str = "") -> HookAnswer:
        """Lets it happen."""
        return cls(ALLOW, notice=notice)

    @classmethod
    def block(cls, text: str, notice: str = "") -> HookAnswer:
        """Sends the agent back to work (or keeps a change of settings from taking hold)."""
        return cls(BLOCK, text, notice=notice)

    @classmethod
    def context(cls, text: str, notice: str = "") -> HookAnswer:
        """Lets it happen, and puts a text before the agent."""
        return cls(CONTEXT, text, notice=notice)

    @classmethod
    def deny(cls, text: str, notice: str = "") -> HookAnswer:
        """Keeps a tool from being used."""
        return cls(DENY, text, notice=notice)

    @property
    def is_no(self) -> bool:
        """Whether something is kept from happening."""
        return self.kind in {BLOCK, DENY}


Rendered = tuple[str, str, int]
"""An answer in a host's own form: standard output, standard error, exit code."""
SILENCE: Rendered = ("", "", 0)


class EventNames:
    """The events that a host knows, by our name and by its own."""

    __slots__ = ("_events", "_own")

    def __init__(self, own: dict[str, str]) -> None:
        self._own = own
        self._events = {name: event for event, name in own.items()}

    def our_name(self, name: str) -> str:
        """Our name of an event that is given by either; empty when it is none of ours."""
        return name if name in EVENTS else self._events.get(name, "")

    def host_name(self, event: str) -> str:
        """The host's name of an event; empty when it has none such."""
        return self._own.get(event, "")


SECONDS = {
    STOP: 300,
    SUBAGENT_STOP: 300,
    TASK_COMPLETED: 300,
    PRE_TOOL: 15,
    POST_TOOL: 15,
    POST_TOOL_FAILURE: 15,
    SESSION_START: 25,
    PROMPT: 25,
    CONFIG_CHANGE: 15,
}
"""How long a host is told to wait for our hook."""
MARGIN = 5.0
"""How much earlier than that our hook answers by itself: a host that has waited in vain lets the agent go."""


def deadline(event: str) -> float:
    """By when, in seconds from its start, our hook has to have answered an event."""
    return SECONDS.get(event, SECONDS[PRE_TOOL]) - MARGIN


class Setup:
    """One host's settings file, as far as our entries in it are concerned."""

    __slots__ = (
        "base", "command_key", "ending_extras", "events", "extras", "hint", "host", "host_keys", "is_grouped",
        "is_on_switch", "local", "matchers", "other_names", "path", "paths", "project", "switch", "timeout_factor", "timeout_key",
    )  # fmt: skip

    def __init__(
        self,
        host: str,
        *,
        path: str,
        local: str = "",
        elsewhere: tuple[str, ...] = (),
        events: dict[str, str],
        other_names: dict[str, str] | None = None,
        matchers: dict[str, str] | None = None,
        is_grouped: bool = True,
        command_key: str = "command",
        timeout_key: str = "timeout",
        timeout_factor: int = 1,
        base: dict[str, object] | None = None,
        extras: dict[str, object] | None = None,
        ending_extras: dict[str, object] | None = None,
        project: str = "",
        switch: tuple[str, ...] = (),
        is_on_switch: bool = False,
        host_keys: tuple[str, ...] = (),
        hint: str = "",
    ) -> None:
        self.host = host
        self.path = path
        """The project's settings file, from the repository's root."""
        self.local = local
        """The settings file of one machine beside it; empty when the host has none."""
        self.paths = (path, *([local] if local else []), *elsewhere)
        """Every file that may hold entries of ours; those in a home folder start with `~`."""
        self.events = events
        """The events that we install, by our name, and the host's name of each."""
        self.other_names = other_names or {}
        """Other spellings of the events' names, which may also stand at the top of the file."""
        self.matchers = matchers or {}
        """Which tools an event is wanted for."""
        self.is_grouped = is_grouped
        """Whether the hooks of an event stand in groups, each with a matcher."""
        self.command_key = command_key
        self.timeout_key = timeout_key
        self.timeout_factor = timeout_factor
        self.base = base or {}
        """What a new file starts with."""
        self.extras = extras or {}
        """What each entry has besides its command and timeout."""
        self.ending_extras = ending_extras or {}
        """What the entries at which an agent says that it has finished have besides."""
        self.project = project
        """The variable that holds the project's folder when a hook runs; empty when the host has none."""
        self.switch = switch
        """The keys, from the top inwards, of what turns all hooks off; empty when there is no such thing."""
        self.is_on_switch = is_on_switch
        """Whether that is false when it turns them off."""
        self.host_keys = host_keys
        """What the host itself adds to the file."""
        self.hint = hint
        """What a person still has to do after the installation."""

    @property
    def project_paths(self) -> tuple[str, ...]:
        """The files in the project that may hold entries of ours."""
        return tuple(path for path in self.paths if not path.startswith("~"))
