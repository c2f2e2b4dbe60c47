"""Whether a call without a running coordinator may start one, which outlives the call."""

from __future__ import annotations

from remand.domain.record import Record

AGENT_VARIABLES = (
    *("REMAND_TASK", "REMAND_SOCKET", "REMAND_HANDOFF"),
    *("CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "QWEN_CODE", "COPILOT_CLI", "CURSOR_AGENT"),
)
"""Variables set in agents' shells. What such a shell says does not count as the user's word."""
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
"""Commands that never start one: they only read, are called by agents and hosts, or are run by Remand itself."""
AUTO, OFF, ON = "auto", "off", "on"
VARIABLE = "REMAND_COORDINATOR"


class StartFacts(Record, kw_only=True):
    """Facts about a call and its process. A text field names the evidence and is empty without any."""

    setting: str = AUTO
    """`[run] coordinator` in the configuration."""
    variable: str = ""
    """`REMAND_COORDINATOR` in the environment: `on`, empty or `auto`; any other value means `off`."""
    agent: str = ""
    """The variable or socket that marks an agent's process."""
    actor: str = ""
    """The actor, unless it is the user."""
    namespace: str = ""
    """The kind of namespace that this process does not share with the system."""
    owner: str = ""
    """The folder owned by another user: the ledger or the home."""
    limit: str = ""
    """The resource limit of this process, which its children would inherit."""
    has_own_channels: bool = False
    """Whether notice channels are configured only in this process's environment."""
    ci: str = ""
    """The variable that marks a continuous integration run."""
    init: str = ""
    """The program running as process 1, if it is not known to reap orphans."""
    file_system: str = ""
    """The kind of the ledger's file system, if other machines may use it, too."""


def start_obstacle(facts: StartFacts) -> str:
    """Why no coordinator may be started; empty if one may.

    An agent may never start one. `REMAND_COORDINATOR=on` permits it where only the surroundings are unusual.
    """
    if facts.agent:
        return f"{facts.agent} shows that an agent is calling"
    if facts.actor:
        return f"{facts.actor} acts, and only the user's own commands start one"
    if facts.variable not in ("", AUTO, ON):
        return f"{VARIABLE} is {facts.variable[:20]}"
    if facts.setting == OFF:
        return f"`[run] coordinator` in remand.toml is {OFF}"
    return _process_obstacle(facts) or ("" if facts.variable == ON else _surroundings_obstacle(facts))


def _process_obstacle(facts: StartFacts) -> str:
    """Why a child of this process would be unfit to answer others."""
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
    """Why a long-running process would be unwelcome here."""
    if facts.ci:
        return f"{facts.ci} shows that this is continuous integration"
    if facts.init:
        return f"process 1 is `{facts.init}`, as in a container without an init"
    if facts.file_system:
        return f"the ledger is on a network file system ({facts.file_system})"
    return ""
