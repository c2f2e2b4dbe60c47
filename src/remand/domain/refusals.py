"""Every refusal the system can give: its code, what it means, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from remand.startup import lazy_pattern


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not an error
    """A command that the system does not allow, with its code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def restore_refusal(code: str, message: str) -> Refused:
    """A refusal that another process has given, as it came over the wire."""
    return Refused(code, message)


MEANINGS: dict[str, tuple[str, str]] = {
    "already_running": ("An agent's process is already working on the task.",
        "Wait until its run has ended; `remand top` shows it."),
    "already_claimed": ("Another agent holds the task under a lease.",
        "Claim another task, or wait until the lease is released or expires."),
    "ambiguous_id": ("Several ids end in these characters.",
        "Give more of the id's last characters, the whole id, or an alias such as '#42'."),
    "bad_value": ("A value has the wrong form.", "Correct the value the message names."),
    "bad_transition": ("The task's status does not allow this.",
        "See `remand task show ID`; docs/lifecycle.md lists what each status allows."),
    "clock_ahead": ("The ledger's latest event is further ahead of this machine's clock than `policy.clock_skew` allows.",
        "If the machine's clock is wrong, correct it. Otherwise see what `remand log repair` proposes."),
    "closes_cycle": ("The dependency would create a cycle of tasks that wait for each other.",
        "Remove one of the dependencies that the message names, or omit this one."),
    "control_changed": ("The work, or its branch since the submission, changes the ledger's own files below `.got/`.",
        "Have them restored on the branch as they are on the base, or reject the work with a finding that says so."),
    "exit_used": ("An agent may release, continue, wait on or appeal about a task once each.",
        "Finish the task, reject it with a record of what blocks it, or mark it as failed with `task fail`."),
    "feedback_unread": ("The agent has not read the task's latest review feedback or guidance under this claim.",
        "Read `remand task prompt ID --agent NAME`, act on it, then submit again."),
    "gate_errored": ("The gates could not run, so the work was not measured.",
        "You may stop: this does not count against you. The user fixes what the message names."),
    "gate_held": ("The integrity gate found something that only a reviewer or the user can settle.",
        "Undo what the message names, or wait: a reviewer answers with `remand gate accept|refuse TASK FINDING`."),
    "gate_rejected": ("The gates ran on the done claim, and it does not meet the requirements.",
        "Fix what the message names, commit, and claim done again."),
    "given_up": ("An action on the forge failed too often or permanently.",
        "See `remand task show ID` for the cause, fix it, then run `remand sync --again`."),
    "head_moved": ("The tip of the task's branch is not the code that was submitted and measured.",
        "Reject it with a finding that says so, or have the branch reset to the submitted commit."),
    "handoff_closed": ("The handoff is no longer open.",
        "See `remand handoff status H`; claim the task again if it is free."),
    "invalid_rejection": ("The rejection is not justified yet: each issue says what is missing.",
        "Continue the task, or reject it again with what the issues ask for."),
    "key_not_trusted": ("The base branch does not trust this machine's key, so what is written here would have no effect elsewhere.",
        "The user runs `remand keys request` here; someone whose key the base trusts passes its output to `remand keys trust TEXT --write`."),
    "key_reused": ("The idempotency key was used for another command.",
        "Use a new key for every new command; repeat a key only to repeat its command."),
    "lease_lost": ("The claim has ended: its lease expired, the work was submitted, or another claim followed.",
        "Claim the task again before you continue, unless its work awaits review; committed work is not lost."),
    "ledger_moved": ("The log has moved into another ledger, and this one is closed.",
        "Write to the ledger that the message names. If that is lost, `remand log move --lost` makes another from this log; with `--to sqlite`, it opens the file in this repository again."),
    "lines_missing": ("Lines of the log are missing that may contain a rejection of this task.",
        "Restore the event files (`git fetch`, a clone, a backup), or let the user decide: `remand log repair`."),
    "locked_out": ("The agent's work on this task was rejected, or it rejected the task without justification too often.",
        "Claim another task. Only the user can lift a lockout."),
    "name_taken": ("The name is new and looks too much like a known one, or only extends it.",
        "Use the known name if you mean it, or a name that nobody can mistake for it."),
    "no_gates": ("There is no `[gates]` table in `remand.toml`, or the task names tests that must pass and no gate runs any.",
        "Add the line `[gates]` to `remand.toml` on the base branch (an empty table means no gates), or a gate that runs tests."),
    "not_acted_upon": ("The rejection itself is valid, but too many like it were filed.",
        "Claim another task; this one goes to another agent. The user sees it in `remand analyze rejections`."),
    "not_approved": ("Remand merges only the approved commit of a task that is done.",
        "Have the work reviewed; Remand merges approved work where the policy says so."),
    "not_authenticated": ("The server does not know who is calling.",
        "Send a valid token; the user makes one with `remand token create --member NAME`, and `remand token list` lists them."),
    "not_authorised": ("The actor's roles do not allow this command.",
        "Ask someone who has the role the message names."),
    "not_due": ("The task needs no action on the forge now, or another action comes first.",
        "`remand task show ID` shows its status and what it waits for."),
    "not_eligible": ("The agent is not on the team as an agent, lacks a skill that the task requires, or reviews the task.",
        "Claim a task that requires your skills; the user adds members and skills in `remand.toml`."),
    "not_measured": ("No gate verdict under the current rules passes this code tree.",
        "Use `remand task submit`, which runs the gates."),
    "not_understood": ("The text is not a command or question that Remand knows, so it did nothing.",
        "Write one plain sentence that names the agent and the task, or use the command."),
    "not_yours": ("The task or handoff belongs to another agent.",
        "Act on your own claim; `remand task claim` gives you one."),
    "not_on_branch": ("The branch that the work is submitted from does not contain the commit.",
        "Name the branch that contains it with `--branch`, or move the commit to the task's branch."),
    "nothing_committed": ("The commit existed before the task was claimed, or belongs to another task: a done claim needs a commit of its own.",
        "Commit the work, and give the id that `git rev-parse HEAD` prints."),
    "nothing_held": ("The task has no such held finding.",
        "`remand task show TASK` lists the held findings, if there are any."),
    "nothing_to_appeal": ("The rules have not turned down a rejection of that handoff as invalid, only asked for a missing part of it, or work was submitted since.",
        "See `remand handoff status H`: add the missing part, or wait for the director's answer."),
    "nothing_to_answer": ("No rejection of that handoff awaits a director's answer, or the task has no open question.",
        "See `remand handoff status H` or `remand inbox`: there was no question, or it was already answered."),
    "nothing_to_claim": ("No free task suits this agent now.",
        "Wait for new work; `remand task list` shows all tasks and who holds them."),
    "nothing_to_override": ("No such gate blocks the task.",
        "`remand gate history TASK` shows the last verdict and its gates."),
    "nothing_to_retract": ("The task has no such rejection in force, or no answer that nobody has acted on.",
        "`remand task show ID` lists its reviews, which of them were retracted, and what happened since an answer."),
    "nothing_to_review": ("The task has no submission at that commit that awaits review.",
        "See `remand task show ID`. Rejected work can be reviewed again after `remand review retract ID --reason TEXT`."),
    "nothing_to_wait_for": ("What the agent wants to wait for has already ended, or does not exist.",
        "Continue the task, or name something that is still open."),
    "out_of_scope": ("The reviewer may review only certain paths, and this concerns another one.",
        "Leave it to a reviewer whose paths cover the file, or to the user."),
    "own_work": ("Nobody may review their own work, answer their own rejection, or settle a task that they hold.",
        "Ask another reviewer or director, or the user."),
    "policy_off": ("The policy does not let Remand do this on the forge.",
        "Do it there manually, or set `open_pr`, `request_review` or `merge_on_approve` in `[policy]`."),
    "read_only": ("A ledger's graph is built from its events and cannot be edited.",
        "Add a task, hand it off or answer a rejection; the graph follows."),
    "rejected_before": ("A rejection of exactly this code is in force.",
        "Have that rejection retracted if it was wrong, or reject this submission as well."),
    "stale_review": ("The review names a commit other than the latest submission.",
        "Review the commit of the latest submission."),
    "taken": ("The id, alias or pull request already belongs to another task.",
        "Choose another, or edit the task that has it."),
    "too_many_calls": ("A token or an address called the server too often, or failed too often to log in.",
        "Wait as long as `Retry-After` says, then call again."),
    "too_late": ("The task is done and reviews of it no longer count, or other work depends on the decision to undo.",
        "Add a new task for what is wrong: `remand task add`."),
    "unconfirmed_no": ("Somebody whose key is not trusted here objects to exactly this work.",
        "The user trusts that key or dismisses the objection: `remand inbox` shows the commands."),
    "unknown_commit": ("The repository does not have that commit.",
        "Commit the work, and give the id that `git rev-parse HEAD` prints."),
    "unknown_handoff": ("There is no such handoff.", "`remand task show ID` lists the handoffs of a task."),
    "unknown_rejection": ("The ledger has no such rejection, or no such answer to it.",
        "File the rejection and answer it first; `remand handoff status H` shows both."),
    "unknown_task": ("There is no such task.", "`remand task list` lists the tasks; ids and aliases both work."),
    "unknown_token": ("There is no such token, or it is another's.", "`remand token list` lists the tokens by id."),
    "unsure": ("The text has more than one possible meaning, so Remand did nothing.",
        "Use one of the listed commands, or rephrase the text."),
    "vacuous_approval": ("An agent's approval does not say what the agent checked.",
        "Review the change, and approve with --checked 'path:line: what is correct there' for at least one place."),
    "user_only": ("Only the user may do this, and not from inside an agent's environment.", "Leave it to the user."),
    "waits_on_other": ("The task waits for other tasks, or is reserved for another agent.",
        "Claim another task; this one becomes free again by itself."),
}  # fmt: skip

ENVIRONMENT = frozenset({"clock_ahead", "key_not_trusted"})
"""Refusals caused by a machine's set-up: they exit with the code for environment errors."""


T = TypeVar("T")
_MAX_QUESTION = 40
_MAX_OPTION = 80
MAX_REQUEST = 4 << 20
_KEY = lazy_pattern(r"[A-Za-z0-9._:/+=-]{1,128}")
_MAX_EVENT_NAME = 80


def require_task(found: T | None, name: str) -> T:
    """What a task's name stands for; refuses a name that no task has."""
    if found is None:
        raise unknown_task_refusal(name)
    return found


def unknown_task_refusal(name: str) -> Refused:
    """The refusal of a name that no task has."""
    return Refused("unknown_task", f"There is no task {name}.")


def require_one_id(found: Sequence[str], end: str) -> str:
    """The id that an end stands for, empty when none ends so; refuses the end of several."""
    if len(found) > 1:
        raise Refused("ambiguous_id", f"{end} is the end of several ids: {', '.join(found)}.")
    return found[0] if found else ""


def require_handoff(found: T | None, name: str) -> T:
    """What a handoff's id stands for; refuses an id that no handoff has."""
    if found is None:
        raise unknown_handoff_refusal(name)
    return found


def unknown_handoff_refusal(name: str) -> Refused:
    """The refusal of an id that no handoff has."""
    return Refused("unknown_handoff", f"There is no handoff {name}.")


def require_commit(found: T | None, name: str) -> T:
    """What a commit's name stands for; refuses a name that the repository does not know."""
    if found is None:
        raise unknown_commit_refusal(name)
    return found


def unknown_commit_refusal(name: str) -> Refused:
    """The refusal of a name that the repository knows no commit by."""
    return Refused("unknown_commit", f"The repository has no commit {name!r}.")


def require_question(found: T | None, name: str) -> T:
    """What a question's id stands for; refuses an id that no question has."""
    if found is None:
        raise Refused("nothing_to_answer", f"There is no question {name[:_MAX_QUESTION]}.")
    return found


def require_decision(found: T | None, handoff: str) -> T:
    """The recorded decision on a handoff's rejection; refuses where the ledger has none."""
    if found is None:
        raise Refused("unknown_rejection", f"The ledger has no decision on the rejection of {handoff}.")
    return found


def require_option(option: str, offered: Collection[str], more: str = "") -> None:
    """Refuses an option that a question does not offer; `more` ends the list of those it does."""
    if option not in offered:
        raise unknown_option_refusal(option, offered, more)


def unknown_option_refusal(option: str, offered: Collection[str], more: str = "") -> Refused:
    """The refusal of an option that a question does not offer."""
    return Refused(
        "bad_value", f"There is no option {option[:_MAX_OPTION]!r}; choose one of {', '.join(offered)}{more}."
    )


def option_at(offered: Mapping[int, T] | Sequence[T], number: int) -> T:
    """The option with a number, or at a place counted from one; refuses a number that none has."""
    numbered = offered if isinstance(offered, Mapping) else dict(enumerate(offered, start=1))
    if number not in numbered:
        choice = (
            f"from 1 to {len(numbered)}"
            if are_consecutive(numbered)
            else f"of {', '.join(map(str, sorted(numbered)))}"
        )
        raise Refused("bad_value", f"There is no option {number}; choose one {choice}.")
    return numbered[number]


def are_consecutive(numbers: Collection[int]) -> bool:
    """True when options are numbered from one without a gap."""
    return sorted(numbers) == list(range(1, len(numbers) + 1))


def unencodable_refusal(error: Exception) -> Refused:
    """The refusal of a command that JSON cannot hold."""
    if isinstance(error, UnicodeEncodeError):
        return Refused("bad_value", "The command contains invalid text (half of a surrogate pair).")
    return Refused("bad_value", f"The command contains something that is not JSON: {error}.")


def nul_refusal() -> Refused:
    """The refusal of a name that not every ledger can hold."""
    return Refused("bad_value", "A name in the command contains a NUL character.")


def require_request_form(rejection: object, size: int, key: str) -> None:
    """Refuses a rejection that is no record, a command of too many bytes, and a key that is none."""
    if not isinstance(rejection, dict):
        raise Refused("bad_value", "A rejection is a record with named fields.")
    if size > MAX_REQUEST:
        raise Refused("bad_value", f"The command has {size} bytes; at most {MAX_REQUEST} are allowed.")
    if key and not _KEY.fullmatch(key):
        raise Refused(
            "bad_value", "An idempotency key has 1 to 128 letters, digits or . _ : / + = - characters."
        )


def oversized_event_refusal(why: Exception) -> Refused:
    """The refusal of a command whose event is no valid line of the log."""
    return Refused("bad_value", f"The event is too large: it {why}.")


def reused_key_refusal(*, is_task_gone: bool) -> Refused:
    """The refusal of an idempotency key that was used for another command, or for a task that is not there any more."""
    what = "belongs to a task that no longer exists" if is_task_gone else "was used for another command"
    return Refused("key_reused", f"This idempotency key {what}.")


def require_text(what: str, value: object) -> str:
    """A name that a program gave; refuses what is no text, or an empty one."""
    if not isinstance(value, str) or not value:
        raise Refused("bad_value", f"Give the {what} as a non-empty text.")
    return value


def unloggable_event_refusal(event: str) -> Refused:
    """The refusal of an event that a program wants logged and that the ledger does not take in that form."""
    why = (
        "handoff.reject and handoff.reject.invalid with a rejection, handoff.reject.response with a decision"
    )
    return Refused(
        "bad_value", f"The ledger cannot log {event[:_MAX_EVENT_NAME]} this way. It accepts {why}."
    )
