"""Every command by name: where it lives, and what it is for in one line. Loads nothing else."""

from __future__ import annotations


class Entry:
    """One command: its module under `interfaces.cli`, and its line of help."""

    __slots__ = ("help", "may_be_forwarded", "module")

    def __init__(self, module: str, help_line: str, may_be_forwarded: bool = True) -> None:
        self.module = module
        self.help = help_line
        self.may_be_forwarded = may_be_forwarded


COMMANDS: dict[str, Entry] = {
    "init": Entry("setup", "set Remand up in this repository; safe to repeat", False),
    "demo": Entry("demo", "tell the whole story on a real git repository in a temporary folder", False),
    "doctor": Entry("doctor", "check the set-up, and say which tier of enforcement holds", False),
    "task add": Entry("tasks", "write a task down"),
    "task import": Entry("forge", "make tasks of the forge's issues that have a label", False),
    "task list": Entry("task_views", "list the tasks"),
    "task show": Entry("task_views", "show one task with its whole story"),
    "task claim": Entry("tasks", "take a task, or the next one that suits the agent"),
    "task prompt": Entry("task_views", "show what the agent that holds the task should read"),
    "task submit": Entry("tasks", "claim that the task is done at a commit, which is measured", False),
    "task heartbeat": Entry("tasks", "say that the agent is still at work"),
    "task release": Entry("tasks", "give the task back untouched"),
    "task continue": Entry("tasks", "stop in the middle and let another session go on"),
    "task wait": Entry("tasks", "wait for something outside"),
    "task fail": Entry("tasks", "give up"),
    "task edit": Entry("tasks", "change what a task says"),
    "task cancel": Entry("tasks", "decide that the task will not be done"),
    "task reopen": Entry("tasks", "bring a failed, blocked, deferred or escalated task back"),
    "task defer": Entry("tasks", "let the task sleep until others are done"),
    "task ready": Entry("task_views", "list what can be claimed now, in the order of the queue"),
    "handoff initiate": Entry("handoffs", "pass a task to one agent"),
    "handoff accept": Entry("handoffs", "take a handoff as its target"),
    "handoff complete": Entry("handoffs", "claim that a handoff's task is done at a commit", False),
    "handoff reject": Entry("rejections", "reject a task with a record of what was tried", False),
    "handoff consult": Entry("rejections", "ask the policy's adviser and director about a rejection", False),
    "handoff rejection-response": Entry("rejections", "answer a rejection as the director", False),
    "handoff status": Entry("handoffs", "show a handoff, its last rejection and the decision"),
    "gate run": Entry("gates", "measure a commit by the gates", False),
    "gate history": Entry("gates", "show what gates measured and what was said to it", False),
    "gate report": Entry("gates", "show the full report of a verdict", False),
    "gate wait": Entry("gates", "wait for gates that run in the background", False),
    "gate accept": Entry("gates", "accept a finding of the integrity gate, as a reviewer"),
    "gate refuse": Entry("gates", "refuse a finding of the integrity gate, as a reviewer"),
    "gate override": Entry("gates", "let a gate's failure pass, as the user"),
    "review list": Entry("reviews", "list what awaits review"),
    "review diff": Entry("review_diff", "show what a submission changes", False),
    "review request": Entry("reviews", "ask a reviewer to look at a submission"),
    "review approve": Entry("reviews", "accept the submission at a commit"),
    "review reject": Entry("reviews", "send the submission at a commit back with findings"),
    "review retract": Entry("reviews", "take a rejection back, with its count and its lockout"),
    "reject-task": Entry("reviews", "send the latest submission of a task back, one finding a line"),
    "reassign": Entry("reassigning", "let another agent go on with a task"),
    "escalate": Entry("reassigning", "ask the user what becomes of a task"),
    "lockout list": Entry("lockouts", "list who is locked out of what, by whom and why"),
    "unlock": Entry("lockouts", "let a locked-out agent work on a task again, as the user"),
    "why": Entry("lockouts", "say why an agent is locked out"),
    "say": Entry("say", "do or answer what is said in plain words, or ask back"),
    "inbox": Entry("inbox", "show the questions that wait for the user", False),
    "inbox answer": Entry("inbox", "decide what becomes of an escalated task, as the user"),
    "inbox ack": Entry("inbox", "say that a question was seen, so that it is not repeated"),
    "notify": Entry("notifying", "tell the user of open questions through the channels they named", False),
    "keys": Entry(
        "keys", "show this machine's key, the trusted ones, and whose events are unconfirmed", False
    ),
    "keys trust": Entry("keys", "say what to add to remand.toml so that what a key has signed counts", False),
    "keys revoke": Entry(
        "keys", "say what to change in remand.toml so that what a key signs from now on does not count", False
    ),
    "keys request": Entry("keys", "print what `keys trust` takes on another machine", False),
    "keys adopt": Entry(
        "keys", "vouch for sessions whose key is lost or that no key signed, as the user", False
    ),
    "hook": Entry("hooks", "answer a host of agents: --host HOST EVENT, its JSON on stdin", False),
    "hook relay": Entry("hooks", "answer a hook's call that was handed on"),
    "top": Entry("top", "show what the whole team is doing, live, with answers by one key", False),
    "pause": Entry("hooks", "let every session stop for a while, as the user", False),
    "resume": Entry("hooks", "end the pause, as the user", False),
    "log tail": Entry("log", "show the latest events", False),
    "log verify": Entry("log", "check every line, chain and signature of the log", False),
    "log rebuild": Entry("log", "make every table anew from the events", False),
    "log repair": Entry("log", "show what is wrong with the log, and repair it as the user", False),
    "log import": Entry("log", "read event files from another folder in", False),
    "log publish": Entry("log", "commit event files, and nothing else", False),
    "log digest": Entry("log", "one short text for the whole state", False),
    "graph stats": Entry("graph", "count nodes and links", False),
    "graph export": Entry("graph", "write the graph in another format", False),
    "analyze rejections": Entry(
        "analyze", "show what is rejected, why and by whom, and what came of it", False
    ),
    "analyze rework": Entry("analyze", "show what reviews cost: cycles, rework, false rejections", False),
    "analyze runs": Entry(
        "analyze", "show what was rejected and by whom, what the runs cost, and where every task is", False
    ),
    "simulate": Entry("simulate", "show what another policy would have decided", False),
    "journal": Entry("journal", "list what agents really ran on a task, as their hosts' hooks saw it", False),
    "whoami": Entry("whoami", "say who acts from here, and with which roles"),
    "mcp": Entry("mcp", "serve tools, resources and prompts to agents' hosts over MCP", False),
    "explain": Entry("explain", "say what a refusal or an issue means and what to do"),
    "completion": Entry("completion", "print the completion script of a shell", False),
    "sync": Entry("forge", "take in what is new on the forge, and do there what the policy says", False),
    "run": Entry("run", "give tasks to agents, start them, and watch over them", False),
    "serve": Entry("serve", "run the coordinator of this ledger, or listen for webhooks", False),
}
