"""Every command by name, and the options that every call takes. Imports nothing."""

from __future__ import annotations


class CommandEntry:
    """One command: its module under `interfaces.cli`, and its line of help."""

    __slots__ = ("help", "may_be_forwarded", "module")

    def __init__(self, module: str, help_line: str, may_be_forwarded: bool = True) -> None:
        self.module = module
        self.help = help_line
        self.may_be_forwarded = may_be_forwarded


COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry("setup", "set Remand up in this repository; safe to repeat", False),
    "demo": CommandEntry(
        "demo", "tell the whole story on a real git repository in a temporary folder", False
    ),
    "doctor": CommandEntry("doctor", "check the set-up, and say which tier of enforcement holds", False),
    "task add": CommandEntry("tasks.changes", "write a task down"),
    "task import": CommandEntry("serve", "make tasks of the forge's issues that have a label", False),
    "task list": CommandEntry("tasks.views", "list the tasks"),
    "task show": CommandEntry("tasks.views", "show one task with its whole story"),
    "task claim": CommandEntry("tasks.changes", "take a task, or the next one that suits the agent"),
    "task prompt": CommandEntry("tasks.views", "show what the agent that holds the task should read"),
    "task submit": CommandEntry(
        "tasks.changes", "claim that the task is done at a commit, which is measured", False
    ),
    "task heartbeat": CommandEntry("tasks.changes", "say that the agent is still at work"),
    "task release": CommandEntry("tasks.changes", "give the task back untouched"),
    "task continue": CommandEntry("tasks.changes", "stop in the middle and let another session go on"),
    "task wait": CommandEntry("tasks.changes", "wait for something outside"),
    "task fail": CommandEntry("tasks.changes", "give up"),
    "task edit": CommandEntry("tasks.changes", "change what a task says"),
    "task cancel": CommandEntry("tasks.changes", "decide that the task will not be done"),
    "task reopen": CommandEntry("tasks.changes", "bring a failed, blocked, deferred or escalated task back"),
    "task defer": CommandEntry("tasks.changes", "let the task sleep until others are done"),
    "task ready": CommandEntry("tasks.views", "list what can be claimed now, in the order of the queue"),
    "handoff initiate": CommandEntry("tasks.changes", "pass a task to one agent"),
    "handoff accept": CommandEntry("tasks.changes", "take a handoff as its target"),
    "handoff complete": CommandEntry(
        "tasks.changes", "claim that a handoff's task is done at a commit", False
    ),
    "handoff reject": CommandEntry(
        "tasks.rejections", "reject a task with a record of what was tried", False
    ),
    "handoff consult": CommandEntry(
        "tasks.rejections", "ask the policy's adviser and director about a rejection", False
    ),
    "handoff rejection-response": CommandEntry(
        "tasks.rejections", "answer a rejection as the director", False
    ),
    "handoff status": CommandEntry("tasks.changes", "show a handoff, its last rejection and the decision"),
    "gate run": CommandEntry("tasks.gates", "measure a commit by the gates", False),
    "gate history": CommandEntry("tasks.gates", "show what gates measured and what was said to it", False),
    "gate report": CommandEntry("tasks.gates", "show the full report of a verdict", False),
    "gate wait": CommandEntry("tasks.gates", "wait for gates that run in the background", False),
    "gate accept": CommandEntry("tasks.gates", "accept a finding of the integrity gate, as a reviewer"),
    "gate refuse": CommandEntry("tasks.gates", "refuse a finding of the integrity gate, as a reviewer"),
    "gate override": CommandEntry("tasks.gates", "let a gate's failure pass, as the user"),
    "review list": CommandEntry("tasks.reviews", "list what awaits review"),
    "review diff": CommandEntry("tasks.reviews", "show what a submission changes", False),
    "review request": CommandEntry("tasks.reviews", "ask a reviewer to look at a submission"),
    "review approve": CommandEntry("tasks.reviews", "accept the submission at a commit"),
    "review reject": CommandEntry("tasks.reviews", "send the submission at a commit back with findings"),
    "review retract": CommandEntry("tasks.reviews", "take a rejection back, with its count and its lockout"),
    "reject-task": CommandEntry(
        "tasks.reviews", "send the latest submission of a task back, one finding a line"
    ),
    "reassign": CommandEntry("tasks.reviews", "let another agent go on with a task"),
    "escalate": CommandEntry("tasks.reviews", "ask the user what becomes of a task"),
    "lockout list": CommandEntry("tasks.reviews", "list who is locked out of what, by whom and why"),
    "unlock": CommandEntry("tasks.reviews", "let a locked-out agent work on a task again, as the user"),
    "why": CommandEntry("tasks.reviews", "say why an agent is locked out"),
    "say": CommandEntry("text_commands", "do or answer what is said in plain words, or ask back"),
    "inbox": CommandEntry("tasks.inbox", "show the questions that wait for the user", False),
    "inbox answer": CommandEntry("tasks.inbox", "decide what becomes of an escalated task, as the user"),
    "inbox ack": CommandEntry("tasks.inbox", "say that a question was seen, so that it is not repeated"),
    "notify": CommandEntry(
        "tasks.inbox", "tell the user of open questions through the channels they named", False
    ),
    "keys": CommandEntry(
        "keys", "show this machine's key, the trusted ones, and whose events are unconfirmed", False
    ),
    "keys trust": CommandEntry(
        "keys", "say what to add to remand.toml so that what a key has signed counts", False
    ),
    "keys revoke": CommandEntry(
        "keys", "say what to change in remand.toml so that what a key signs from now on does not count", False
    ),
    "keys request": CommandEntry("keys", "print what `keys trust` takes on another machine", False),
    "keys adopt": CommandEntry(
        "keys", "vouch for sessions whose key is lost or that no key signed, as the user", False
    ),
    "hook": CommandEntry("hosts", "answer a host of agents: --host HOST EVENT, its JSON on stdin", False),
    "hook relay": CommandEntry("hosts", "answer a hook's call that was handed on"),
    "top": CommandEntry("top", "show what the whole team is doing, live, with answers by one key", False),
    "pause": CommandEntry("hosts", "let every session stop for a while, as the user", False),
    "resume": CommandEntry("hosts", "end the pause, as the user", False),
    "log tail": CommandEntry("log", "show the latest events", False),
    "log verify": CommandEntry("log", "check every line, chain and signature of the log", False),
    "log rebuild": CommandEntry("log", "make every table anew from the events", False),
    "log repair": CommandEntry("log", "show what is wrong with the log, and repair it as the user", False),
    "log import": CommandEntry("log", "read event files from another folder in", False),
    "log publish": CommandEntry("log", "commit event files, and nothing else", False),
    "log digest": CommandEntry("log", "one short text for the whole state", False),
    "graph stats": CommandEntry("analysis.commands", "count nodes and links", False),
    "graph export": CommandEntry("analysis.commands", "write the graph in another format", False),
    "analyze rejections": CommandEntry(
        "analysis.commands", "show what is rejected, why and by whom, and what came of it", False
    ),
    "analyze rework": CommandEntry(
        "analysis.commands", "show what reviews cost: cycles, rework, false rejections", False
    ),
    "analyze runs": CommandEntry(
        "analysis.commands",
        "show what was rejected and by whom, what the runs cost, and where every task is",
        False,
    ),
    "simulate": CommandEntry("analysis.commands", "show what another policy would have decided", False),
    "journal": CommandEntry(
        "log", "list what agents really ran on a task, as their hosts' hooks saw it", False
    ),
    "whoami": CommandEntry("help", "say who acts from here, and with which roles"),
    "mcp": CommandEntry("hosts", "serve tools, resources and prompts to agents' hosts over MCP", False),
    "explain": CommandEntry("help", "say what a refusal or an issue means and what to do"),
    "completion": CommandEntry("help", "print the completion script of a shell", False),
    "sync": CommandEntry(
        "serve", "take in what is new on the forge, and do there what the policy says", False
    ),
    "run": CommandEntry("run", "give tasks to agents, start them, and watch over them", False),
    "serve": CommandEntry("serve", "run the coordinator of this ledger, or listen for webhooks", False),
}


_VALUED = {"-C": "folder", "--as": "actor", "--key": "key"}


class CommandCall:
    """A call: its command, what is left for it, and the options every command takes."""

    __slots__ = ("actor", "command", "folder", "is_broken", "is_json", "key", "rest", "wants_help")

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
        is_broken: str = "",
    ) -> None:
        self.command = command
        self.rest = rest
        self.folder = folder
        self.actor = actor
        self.key = key
        self.is_json = is_json
        self.wants_help = wants_help
        self.is_broken = is_broken

    @property
    def is_self_contained(self) -> bool:
        """True when nothing has to be read from this process: no standard input, no file beside it, no help."""
        return (
            not self.wants_help
            and not self.is_broken
            and not any(
                item == "-" or item.startswith("@") or item.endswith("=-") or "=@" in item
                for item in self.rest
            )
        )


def parse_call(arguments: list[str]) -> CommandCall:
    """Takes the common options out, and the words of the command off the front."""
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
                return CommandCall("", rest, is_json="--json" in flags, is_broken=f"{item} needs a value.")
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
    if words and words[0] in ("task", "handoff", "gate", "review", "lockout", "log", "graph", "analyze"):
        return " ".join(words[:2]), words[2:]
    if words[:1] in (["keys"], ["hook"], ["inbox"]) and len(words) > 1 and not words[1].startswith("-"):
        return " ".join(words[:2]), words[2:]
    return (words[0], words[1:]) if words else ("", [])


FORWARDED_VARIABLES = ("REMAND_ACTOR", "REMAND_TASK", "REMAND_HANDOFF", "NO_COLOR", "COLUMNS")
