"""What is known of one host: its programs, and our entries in its settings files. Every hook call loads this."""

from __future__ import annotations

from remand.app.hook_calls import EVENTS

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


SERVER_NAME = "remand"
"""What hosts call our MCP server."""
PASSED_VARIABLES = ("REMAND_ACTOR", "REMAND_TASK", "REMAND_HANDOFF", "REMAND_SOCKET")
"""The variables that tell our server whom it speaks for."""
FOLDER_VARIABLES = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")
"""The variables that tell it where things are kept, for hosts that pass on nothing by themselves."""
TOOL_SECONDS = 900
"""How long a host is told to wait for a tool: handing work in takes as long as the gates do."""


class McpEntry:
    """How one host is told of our MCP server."""

    __slots__ = ("arguments", "extras", "hint", "is_toml", "path")

    def __init__(
        self,
        path: str,
        extras: dict[str, object] | None = None,
        hint: str = "",
        *,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        """The file in the project; empty when the host has none there."""
        self.is_toml = path.endswith(".toml")
        self.extras = extras or {}
        """What the entry has besides the program."""
        self.hint = hint
        """What a person still has to do."""
        self.arguments = ["mcp", *arguments]


class Setup:
    """One host: its programs, and our entries in its settings files."""

    __slots__ = (
        "base", "command_key", "ending_extras", "events", "extras", "hint", "host", "host_keys", "is_grouped",
        "is_on_switch", "local", "matchers", "other_names", "out_of_turns", "packages", "path", "paths", "programs", "project", "server",
        "switch", "timeout_factor", "timeout_key",
    )  # fmt: skip

    def __init__(
        self,
        host: str,
        *,
        path: str,
        local: str = "",
        elsewhere: tuple[str, ...] = (),
        events: dict[str, str],
        programs: tuple[str, ...],
        packages: tuple[str, ...] = (),
        out_of_turns: tuple[int, ...] = (),
        server: McpEntry,
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
        self.programs = programs
        """The names of its program."""
        self.packages = packages
        """The packages that hold its program."""
        self.out_of_turns = out_of_turns
        """The exit statuses by which alone it tells that it had no more turns."""
        self.server = server
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
