"""Every refusal the system can give: its code, what it means, and what to do about it."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not an error
    """The system's own no to a command it does not allow."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def restore_refusal(code: str, message: str) -> Refused:
    """A refusal that another process has given, as it came over the wire."""
    return Refused(code, message)


MEANINGS: dict[str, tuple[str, str]] = {
    "already_running": (
        "An agent's process is at work on the task already.",
        "Wait until its run has ended; `remand top` shows it.",
    ),
    "already_claimed": (
        "Another agent holds the task under a lease.",
        "Claim another task, or wait until the lease is released or ends.",
    ),
    "bad_value": ("A value does not have the form it must have.", "Correct the value the message names."),
    "bad_transition": (
        "The task's status does not allow this.",
        "Look at `remand task show ID`; the lifecycle table in the docs lists what each status allows.",
    ),
    "clock_ahead": (
        "The ledger's latest event is further ahead of this machine's clock than `policy.clock_skew` allows.",
        "If the machine's clock is wrong, set it right. If not, see what `remand log repair` proposes.",
    ),
    "closes_cycle": (
        "The dependency would make tasks wait for each other in a circle.",
        "Remove one of the dependencies the message names, or leave this one out.",
    ),
    "control_changed": (
        "The work, or its branch since it was handed in, changes the ledger's own files below `.got/`.",
        "Have them restored on the branch as the base has them; or reject the work with a finding that says so.",
    ),
    "exit_used": (
        "An agent may release, continue or wait on a task once each.",
        "Finish the task, reject it with a record of what stands in the way, or give it up with `task fail`.",
    ),
    "feedback_unread": (
        "There is review feedback or guidance for the task that this claim has not been given.",
        "Read `remand task prompt ID --agent NAME`, act on it, then hand in again.",
    ),
    "gate_errored": (
        "The gates could not be run, so nothing is known of the work.",
        "Stop if you like: it does not count against you. The user mends what the message names.",
    ),
    "gate_held": (
        "The integrity gate found something that only a reviewer or the user can settle.",
        "Undo what the message names, or wait: `remand gate accept|refuse TASK FINDING` is the reviewer's answer.",
    ),
    "gate_rejected": (
        "The done claim was measured and misses what is required.",
        "Fix what the message names, commit, and claim done again.",
    ),
    "given_up": (
        "Something was to be done on the forge, and failed too often or for good.",
        "See in `remand task show ID` what is wrong, mend it, then `remand sync --again`.",
    ),
    "head_moved": (
        "The task's branch has other code at its tip than what was submitted and measured.",
        "Reject it with a finding that says so, or have the branch brought back to the submitted commit.",
    ),
    "handoff_closed": (
        "The handoff is not open any more.",
        "Look at `remand handoff status H`; claim the task anew if it is free.",
    ),
    "invalid_rejection": (
        "The rejection is not earned yet: each issue says what is missing.",
        "Go on with the task, or reject it again with what the issues ask for.",
    ),
    "key_not_trusted": (
        "The base branch does not trust this machine's key, so what an agent writes here would count nowhere else.",
        "The user runs `remand keys request` here; someone whom the base trusts runs `remand keys trust TEXT --write` with it.",
    ),
    "key_reused": (
        "The idempotency key was used for another command.",
        "Use a new key for every new command; repeat a key only to repeat its command.",
    ),
    "lease_lost": (
        "The claim this was meant for has ended: its lease ran out or another claim followed.",
        "Claim the task again before going on; what was committed is not lost.",
    ),
    "lines_missing": (
        "Lines of the log are missing that may be a no to this task.",
        "Bring the event files back (`git fetch`, a clone, a backup), or let the user decide: `remand log repair`.",
    ),
    "locked_out": (
        "The agent's work on this task was rejected, or it rejected the task without cause too often.",
        "Take another task. Only the user can lift a lockout.",
    ),
    "name_taken": (
        "The name is new and looks like one that is known here, or only adds to it.",
        "Use the known name if it is meant, else a name that nobody can mistake for it.",
    ),
    "no_gates": (
        "There is no `[gates]` table in `remand.toml`, so it is not decided what a done claim must pass.",
        "Add the line `[gates]` to `remand.toml` on the base branch: empty, it means that there are no gates.",
    ),
    "not_acted_upon": (
        "Nothing is wrong with the rejection by itself, but too many like it were filed.",
        "Take another task; this one goes to another agent. The user sees it in `remand analyze rejections`.",
    ),
    "not_approved": (
        "Only the approved commit of a task that is done is merged.",
        "Have the work reviewed; what is approved is merged by itself where the policy says so.",
    ),
    "not_authorised": (
        "The actor's roles do not allow this command.",
        "Ask someone who has the role the message names.",
    ),
    "not_due": (
        "The task as it stands gives nothing to do on the forge, or something else comes first.",
        "`remand task show ID` tells how it stands and what it waits for.",
    ),
    "not_eligible": (
        "The agent is not on the team as an agent, lacks a skill the task asks for, or reviews the task.",
        "Take a task that asks for your skills; the user adds members and skills in `remand.toml`.",
    ),
    "not_measured": (
        "No verdict of the gates releases this code tree by the rules of now.",
        "Use `remand task submit`, which runs the gates.",
    ),
    "not_understood": (
        "What was said is no wish that can be obeyed, so nothing was done.",
        "Say it as one plain sentence that names who and which task, or use the command.",
    ),
    "not_yours": (
        "The task or handoff belongs to another agent.",
        "Act on your own claim; `remand task claim` gives you one.",
    ),
    "not_on_branch": (
        "The branch that the work is handed in from does not have the commit.",
        "Name the branch that has it with `--branch`, or bring the commit to the task's branch.",
    ),
    "nothing_committed": (
        "The commit was there before the task was claimed, or is another task's: a done claim needs a commit of its own.",
        "Commit the work, and give the id that `git rev-parse HEAD` prints.",
    ),
    "nothing_held": (
        "The task has no such finding that waits for a reviewer.",
        "`remand task show TASK` lists what is held; where it lists nothing, there is nothing to settle.",
    ),
    "nothing_to_answer": (
        "No rejection of that handoff waits for a director's answer, or the task asks the user nothing.",
        "Look at `remand handoff status H` or `remand inbox`: there was no question, or it was answered already.",
    ),
    "nothing_to_claim": (
        "No free task suits this agent now.",
        "Wait for new work; `remand task list` shows what there is and who holds it.",
    ),
    "nothing_to_override": (
        "No such gate stands in the way of the task.",
        "`remand gate history TASK` shows the last verdict and its gates.",
    ),
    "nothing_to_retract": (
        "The task has no such rejection that stands.",
        "`remand task show ID` lists its reviews and which of them were retracted.",
    ),
    "nothing_to_review": (
        "The task has no submission at that commit that awaits review.",
        "Look at `remand task show ID`. Rejected work is reviewed again after `remand review retract ID --reason TEXT`.",
    ),
    "nothing_to_wait_for": (
        "What the agent wants to wait for has ended already, or is not there.",
        "Go on with the task, or name something that is still open.",
    ),
    "out_of_scope": (
        "The reviewer's word is limited to some paths, and this is about another.",
        "Leave it to a reviewer whose scope covers the file, or to the user.",
    ),
    "own_work": (
        "Nobody reviews a task they authored, answers a rejection of their own, or settles a task they hold.",
        "Ask another reviewer or director, or the user.",
    ),
    "policy_off": (
        "The policy does not let Remand do this on the forge.",
        "Do it there by hand, or set `open_pr`, `request_review` or `merge_on_approve` in `[policy]`.",
    ),
    "read_only": (
        "The graph of a ledger is made from its events.",
        "Add a task, hand it over or answer a rejection; the graph follows.",
    ),
    "rejected_before": (
        "A rejection stands of the very code that is to be approved.",
        "Have that rejection retracted if it was wrong, or reject this submission as well.",
    ),
    "stale_review": (
        "The review names another commit than the one submitted last.",
        "Look at the latest submission and review that commit.",
    ),
    "taken": (
        "The id, alias or pull request already belongs to another task.",
        "Choose another, or edit the task that has it.",
    ),
    "too_late": (
        "The task is done; a review of it does not count any more.",
        "Write what is wrong down as a new task: `remand task add`.",
    ),
    "unconfirmed_no": (
        "Somebody whose key is not trusted here objects to the very work that is to be approved.",
        "The user trusts that key, or dismisses the objection: `remand inbox` has the commands.",
    ),
    "unknown_commit": (
        "The repository does not have that commit.",
        "Commit the work, and give the id that `git rev-parse HEAD` prints.",
    ),
    "unknown_handoff": ("There is no such handoff.", "`remand task show ID` lists the handoffs of a task."),
    "unknown_rejection": (
        "The ledger has no such rejection, or no such answer to it.",
        "File the rejection and answer it first; `remand handoff status H` shows both.",
    ),
    "unknown_task": (
        "There is no such task.",
        "`remand task list` lists the tasks; ids and aliases both work.",
    ),
    "unsure": (
        "What was said may mean more than one thing, so nothing was done.",
        "Use one of the commands that are listed, or say it again in plainer words.",
    ),
    "vacuous_approval": (
        "An agent's approval does not say what was looked at.",
        "Look at the change, and approve with --checked 'path:line: what holds there', once a place at least.",
    ),
    "user_only": (
        "Only the user may do this, and not from inside an agent's environment.",
        "Leave it to the user.",
    ),
    "waits_on_other": (
        "The task waits for other tasks, or is reserved for another agent.",
        "Take another task; this one comes back by itself.",
    ),
}

ENVIRONMENT = frozenset({"clock_ahead", "key_not_trusted"})
"""Refusals whose cause lies in how a machine is set up: they leave with the exit code of a fault there."""
