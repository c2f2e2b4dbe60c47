"""When a call that finds no coordinator may start one, which outlives it."""

from __future__ import annotations

from remand.domain.record import Record

AGENT_VARIABLES = (
    *("REMAND_TASK", "REMAND_SOCKET", "REMAND_HANDOFF"),
    *("CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "QWEN_CODE", "COPILOT_CLI", "CURSOR_AGENT"),
)
"""Set in the shells of agents. What such a shell says is nobody's word for the user's."""
CI_VARIABLES = (
    *("CI", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE"),
    *("JENKINS_URL", "TEAMCITY_VERSION", "TF_BUILD"),
)
NEVER_STARTING = frozenset(
    (
        *("serve", "worker", "coordinator status", "coordinator stop", "doctor", "demo", "mcp", "completion"),
        *("hook", "hook relay", "notify", "handoff consult"),
    )
)
"""Commands after which none is started: they only look, agents and hosts call them, or Remand itself does behind a call."""
AUTO, OFF, ON = "auto", "off", "on"
VARIABLE = "REMAND_COORDINATOR"


class StartFacts(Record, kw_only=True):
    """What is known about a call and the process it is made in. A text names what shows something, and is empty otherwise."""

    setting: str = AUTO
    """`[run] coordinator` of the configuration."""
    variable: str = ""
    """`REMAND_COORDINATOR` of the environment: `on`, nothing or `auto`; whatever else it is means `off`."""
    agent: str = ""
    """The variable, or the socket, that shows an agent's process."""
    actor: str = ""
    """Who acts, unless it is the user."""
    namespace: str = ""
    """The kind of namespace that this process shares with few others."""
    owner: str = ""
    """The folder that belongs to another user: the ledger, or the home."""
    limit: str = ""
    """The resource that this process may use only so much of, and so would its children."""
    has_own_channels: bool = False
    """True when only this process's environment names channels for notices."""
    ci: str = ""
    """The variable that shows a run of continuous integration."""
    init: str = ""
    """What runs as process 1, when it is not known to look after processes whose parents have ended."""
    file_system: str = ""
    """The kind of file system the ledger is on, when other machines may use it, too."""


def start_obstacle(facts: StartFacts) -> str:
    """Why no coordinator may be started; empty when one may.

    Nothing lets an agent start one. `REMAND_COORDINATOR=on` permits it where only the surroundings are unusual.
    """
    if facts.agent:
        return f"{facts.agent} says that an agent calls"
    if facts.actor:
        return f"{facts.actor} acts, and only the user's own commands start one"
    if facts.variable not in ("", AUTO, ON):
        return f"{VARIABLE} is {facts.variable[:20]}"
    if facts.setting == OFF:
        return f"`[run] coordinator` in remand.toml is {OFF}"
    return _process_obstacle(facts) or ("" if facts.variable == ON else _surroundings_obstacle(facts))


def _process_obstacle(facts: StartFacts) -> str:
    """What would make a child of this process unfit to answer others."""
    if facts.namespace:
        return f"this process is in a {facts.namespace} namespace of its own"
    if facts.owner:
        return f"{facts.owner} belongs to another user"
    if facts.limit:
        return f"this process may only use so much {facts.limit} (see `ulimit -a`)"
    if facts.has_own_channels:
        return (
            "only this shell knows the channels in REMAND_NOTIFY; name them in your file of channels instead"
        )
    return ""


def _surroundings_obstacle(facts: StartFacts) -> str:
    """Where a process that stays would be in the way."""
    if facts.ci:
        return f"{facts.ci} says that this is continuous integration"
    if facts.init:
        return f"process 1 is `{facts.init}`, as in a container without an init"
    if facts.file_system:
        return f"the ledger is on a network file system ({facts.file_system})"
    return ""
