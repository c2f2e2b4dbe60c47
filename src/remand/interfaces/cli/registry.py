"""Every command by name, and the options that every call takes. Imports nothing."""

from __future__ import annotations


class CommandEntry:
    """One command: its module, by its name below `interfaces.cli` or its full name, and its line of help."""

    __slots__ = ("help", "may_be_forwarded", "module")

    def __init__(self, module: str, help_line: str, may_be_forwarded: bool = True) -> None:
        self.module = module
        self.help = help_line
        self.may_be_forwarded = may_be_forwarded

    @property
    def module_name(self) -> str:
        """The full name of its module."""
        return self.module if self.module.startswith("remand.") else f"remand.interfaces.cli.{self.module}"


COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry("setup", "set up Remand in this repository; safe to repeat", False),
    "demo": CommandEntry(
        "demo", "run a complete example on a real git repository in a temporary folder", False
    ),
    "doctor": CommandEntry("doctor", "check the set-up and show the tier of enforcement", False),
    "task add": CommandEntry("tasks.changes", "add a task"),
    "task import": CommandEntry("serve", "import the forge's issues that have a label as tasks", False),
    "task list": CommandEntry("tasks.views", "list the tasks"),
    "task show": CommandEntry("tasks.views", "show one task with its full history"),
    "task claim": CommandEntry("tasks.changes", "claim a task, or the next one that suits the agent"),
    "task prompt": CommandEntry("tasks.views", "print the prompt for the agent that holds the task"),
    "task submit": CommandEntry(
        "tasks.changes", "claim that the task is done at a commit, and run the gates on it", False
    ),
    "task heartbeat": CommandEntry("tasks.changes", "renew the lease while the agent is still working"),
    "task release": CommandEntry("tasks.changes", "return the task to the queue"),
    "task continue": CommandEntry("tasks.changes", "pause the task so that another session can continue it"),
    "task wait": CommandEntry("tasks.changes", "pause the task until an external condition is met"),
    "task fail": CommandEntry("tasks.changes", "mark the task as failed"),
    "task edit": CommandEntry("tasks.changes", "change a task's title, scope or other fields"),
    "task cancel": CommandEntry("tasks.changes", "cancel the task"),
    "task reopen": CommandEntry(
        "tasks.changes", "reopen a failed, blocked, deferred, escalated or cancelled task"
    ),
    "task defer": CommandEntry("tasks.changes", "defer the task until other tasks are done"),
    "task ready": CommandEntry("tasks.views", "list the tasks that can be claimed now, in queue order"),
    "handoff initiate": CommandEntry("tasks.handoffs", "hand a task off to an agent"),
    "handoff accept": CommandEntry("tasks.handoffs", "accept a handoff as its target"),
    "handoff complete": CommandEntry(
        "tasks.handoffs", "claim that a handoff's task is done at a commit", False
    ),
    "handoff reject": CommandEntry("tasks.handoffs", "reject a task with a record of what was tried", False),
    "handoff appeal": CommandEntry(
        "tasks.handoffs", "ask a director to decide on a rejection that the rules overrode", False
    ),
    "handoff consult": CommandEntry(
        "tasks.handoffs", "ask the configured adviser and director about a rejection", False
    ),
    "handoff rejection-response": CommandEntry("tasks.handoffs", "answer a rejection as the director", False),
    "handoff status": CommandEntry("tasks.handoffs", "show a handoff, its last rejection and the decision"),
    "gate run": CommandEntry("tasks.gates", "run the gates on a commit", False),
    "gate check": CommandEntry(
        "tasks.gates", "check that a trusted key signed a passing verdict on a commit's code", False
    ),
    "gate examine": CommandEntry(
        "tasks.gates", "show what the integrity gate finds in a change, without running anything", False
    ),
    "gate history": CommandEntry("tasks.gates", "show gate results and the decisions on them", False),
    "gate report": CommandEntry("tasks.gates", "show the full report of a verdict", False),
    "gate wait": CommandEntry("tasks.gates", "wait for gates that are running in the background", False),
    "gate accept": CommandEntry("tasks.gates", "accept a finding of the integrity gate, as a reviewer"),
    "gate refuse": CommandEntry("tasks.gates", "refuse a finding of the integrity gate, as a reviewer"),
    "gate override": CommandEntry("tasks.gates", "override a failed gate, as the user"),
    "review list": CommandEntry("tasks.reviews", "list the submissions that await review"),
    "review diff": CommandEntry("tasks.reviews", "show what a submission changes", False),
    "review request": CommandEntry("tasks.reviews", "ask a reviewer to review a submission"),
    "review approve": CommandEntry("tasks.reviews", "approve the submission at a commit"),
    "review reject": CommandEntry("tasks.reviews", "reject the submission at a commit with findings"),
    "review retract": CommandEntry("tasks.reviews", "retract a rejection, with its count and its lockout"),
    "reject-task": CommandEntry(
        "tasks.reviews", "reject the latest submission of a task, one finding per line"
    ),
    "reassign": CommandEntry("tasks.reviews", "reassign a task to another agent"),
    "escalate": CommandEntry("tasks.reviews", "ask the user what to do with a task"),
    "lockout list": CommandEntry("tasks.reviews", "list the lockouts: agent, task, reviewer and reason"),
    "unlock": CommandEntry("tasks.reviews", "lift an agent's lockout from a task, as the user"),
    "why": CommandEntry("tasks.reviews", "explain why an agent is locked out"),
    "say": CommandEntry("help", "run a command or question in plain English"),
    "inbox": CommandEntry("tasks.inbox", "show the questions that await the user's answer", False),
    "inbox answer": CommandEntry("tasks.inbox", "answer a question about a task, as the user"),
    "inbox retract": CommandEntry("tasks.inbox", "retract an answer of yours that nobody has acted on"),
    "inbox ack": CommandEntry("tasks.inbox", "acknowledge a question, so that its notices stop"),
    "notify": CommandEntry(
        "tasks.inbox", "send notices about open questions through the user's channels", False
    ),
    "keys": CommandEntry("keys", "show this machine's key, the trusted keys, and unconfirmed events", False),
    "keys trust": CommandEntry("keys", "show how to trust a key: the line to add to remand.toml", False),
    "keys revoke": CommandEntry("keys", "show how to stop trusting a key", False),
    "keys request": CommandEntry("keys", "print the text to give to `keys trust` on another machine", False),
    "keys adopt": CommandEntry(
        "keys", "vouch for sessions whose key is lost or that no key signed, as the user", False
    ),
    "token create": CommandEntry(
        "keys", "create a token for a member, a worker or a host, and show it once", False
    ),
    "token list": CommandEntry("keys", "list the tokens", False),
    "token revoke": CommandEntry("keys", "revoke a token permanently", False),
    "hook": CommandEntry(
        "hosts", "handle a hook call from an agent host: --host HOST EVENT, its JSON on stdin", False
    ),
    "hook relay": CommandEntry("hosts", "handle a forwarded hook call"),
    "top": CommandEntry("run", "show a live view of the team, and answer questions with one key", False),
    "pause": CommandEntry("hosts", "let sessions stop without gates for a while, as the user", False),
    "resume": CommandEntry("hosts", "end the pause, as the user", False),
    "solo on": CommandEntry("hosts", "measure every session in this repository, as the user", False),
    "solo off": CommandEntry("hosts", "stop measuring sessions without a task, as the user", False),
    "solo status": CommandEntry("hosts", "show whether sessions are measured, and the latest results", False),
    "log tail": CommandEntry("log", "show the latest events", False),
    "log verify": CommandEntry("log", "check every line, chain and signature of the log", False),
    "log rebuild": CommandEntry("log", "rebuild every table from the events", False),
    "log repair": CommandEntry("log", "show what is wrong with the log, and repair it, as the user", False),
    "log import": CommandEntry("log", "import event files from another folder", False),
    "log publish": CommandEntry("log", "commit the event files, and nothing else", False),
    "log archive": CommandEntry("log", "archive the events of tasks that ended long ago", False),
    "log move": CommandEntry(
        "log", "move the log into another ledger, and close this one, as the user", False
    ),
    "log digest": CommandEntry("log", "print a hash of the whole state", False),
    "graph stats": CommandEntry("analysis", "count the graph's nodes and edges", False),
    "graph export": CommandEntry("analysis", "export the graph in another format", False),
    "analyze rejections": CommandEntry(
        "analysis", "show task rejections: reasons, agents and outcomes", False
    ),
    "analyze rework": CommandEntry(
        "analysis", "show the cost of reviews: cycles, rework, false rejections", False
    ),
    "analyze runs": CommandEntry(
        "analysis", "show rejections, the cost of runs, and the status of every task", False
    ),
    "analyze integrity": CommandEntry(
        "tasks.gates", "show how often reviewers accepted each kind of integrity finding", False
    ),
    "audit": CommandEntry(
        "tasks.gates", "examine past commits, and count the integrity gate's findings by kind", False
    ),
    "simulate": CommandEntry("analysis", "show what another policy would have decided", False),
    "journal": CommandEntry(
        "log", "list the commands that agents ran on a task, as recorded by their hosts' hooks", False
    ),
    "whoami": CommandEntry("help", "show who acts from here, and with which roles"),
    "mcp": CommandEntry("hosts", "serve tools, resources and prompts to agent hosts over MCP", False),
    "explain": CommandEntry("help", "explain what a refusal or an issue means and what to do"),
    "completion": CommandEntry("help", "print the completion script for a shell", False),
    "sync": CommandEntry(
        "serve", "import news from the forge, and carry out the actions that the policy allows", False
    ),
    "run": CommandEntry("run", "assign tasks to agents, start the agents, and supervise them", False),
    "worker": CommandEntry("run", "run gates and other jobs for a ledger in PostgreSQL, on any host", False),
    "coordinator status": CommandEntry(
        "serve", "show the coordinator of this ledger, or why none starts", False
    ),
    "coordinator stop": CommandEntry("serve", "end the coordinator of this ledger", False),
    "serve": CommandEntry(
        "remand.interfaces.http.serve",
        "serve the ledger over HTTP; or only its coordinator, or webhooks",
        False,
    ),
}

COMMON_COMMANDS = (
    *("init", "doctor", "run", "top", "inbox"),
    *("task add", "task list", "task show", "gate run", "review list"),
)
"""The commands in the short help."""
GROUPS = (
    *("task", "handoff", "gate", "review", "lockout", "token", "log", "graph", "analyze", "coordinator"),
    "solo",
)
"""Words that are not commands by themselves."""

_VALUED = {"-C": "folder", "--as": "actor", "--key": "key"}


class CommandCall:
    """A call: its command, its remaining arguments, and the options of every command."""

    __slots__ = ("actor", "command", "folder", "is_json", "key", "rest", "usage_error", "wants_help")

    def __init__(
        self,
        command: str,
        rest: list[str],
        *,
        folder: str = ".",
        actor: str = "",
        key: str = "",
        is_json: bool = False,
        wants_help: bool = False,
        usage_error: str = "",
    ) -> None:
        self.command = command
        self.rest = rest
        self.folder = folder
        self.actor = actor
        self.key = key
        self.is_json = is_json
        self.wants_help = wants_help
        self.usage_error = usage_error

    @property
    def is_self_contained(self) -> bool:
        """True if nothing has to be read from this process: no standard input, no file, no help."""
        return (
            not self.wants_help
            and not self.usage_error
            and not any(
                item == "-" or item.startswith("@") or item.endswith("=-") or "=@" in item
                for item in self.rest
            )
        )


def parse_call(arguments: list[str]) -> CommandCall:
    """Takes the common options out, and the command's words from the front."""
    found: dict[str, str] = {}
    rest: list[str] = []
    flags: set[str] = set()
    items = iter(arguments)
    for item in items:
        if item == "--":
            rest += ["--", *items]
        elif item in _VALUED:
            value = next(items, None)
            if value is None:
                return CommandCall("", rest, is_json="--json" in flags, usage_error=f"{item} needs a value.")
            found[_VALUED[item]] = value
        elif item.startswith(("--as=", "--key=")):
            name, _, value = item.partition("=")
            found[_VALUED[name]] = value
        elif item in ("--json", "-h", "--help"):
            flags.add(item)
        else:
            rest.append(item)
    command, rest = _split_command(rest)
    return CommandCall(
        command,
        rest,
        folder=found.get("folder", "."),
        actor=found.get("actor", ""),
        key=found.get("key", ""),
        is_json="--json" in flags,
        wants_help=bool(flags & {"-h", "--help"}),
    )


def _split_command(words: list[str]) -> tuple[str, list[str]]:
    if words and words[0] in GROUPS:
        return " ".join(words[:2]), words[2:]
    if words[:1] in (["keys"], ["hook"], ["inbox"]) and len(words) > 1 and not words[1].startswith("-"):
        return " ".join(words[:2]), words[2:]
    return (words[0], words[1:]) if words else ("", [])


FORWARDED_VARIABLES = ("REMAND_ACTOR", "REMAND_TASK", "REMAND_HANDOFF", "NO_COLOR", "COLUMNS")
