"""How a host is set up to call our hook: where its settings are, for which events, in which form."""

from __future__ import annotations

from remand.adapters.hosts import hook

SECONDS = {
    hook.STOP: 300,
    hook.SUBAGENT_STOP: 300,
    hook.TASK_COMPLETED: 300,
    hook.PRE_TOOL: 15,
    hook.POST_TOOL: 15,
    hook.POST_TOOL_FAILURE: 15,
    hook.SESSION_START: 25,
    hook.PROMPT: 25,
    hook.CONFIG_CHANGE: 15,
}
"""How long a host is told to wait for our hook."""
MARGIN = 5.0
"""How much earlier than that our hook answers by itself: a host that has waited in vain lets the agent go."""


def deadline(event: str) -> float:
    """By when, in seconds from its start, our hook has to have answered an event."""
    return SECONDS.get(event, SECONDS[hook.PRE_TOOL]) - MARGIN


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
