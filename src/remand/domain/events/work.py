"""Events of work in progress: gate results, runs of agents, and actions on the forge."""

from enum import StrEnum

from remand.domain.events.event import ClaimEvent, OverridingEvent, TaskEvent
from remand.domain.gate.verdict import Verdict
from remand.domain.instant import Instant


class GatePassed(ClaimEvent, tag="gate.pass", kw_only=True):
    """The gates passed a done claim. Without enforcement they pass every claim."""

    verdict: Verdict
    is_observed: bool = False
    """Whether nothing is enforced: the verdict says what would have happened."""


class GateRejected(ClaimEvent, tag="gate.reject", kw_only=True):
    """The gates rejected a done claim; the agent continues."""

    verdict: Verdict
    number: int = 1
    """The number of this rejection within the claim."""
    has_progress: bool = False
    """Whether fewer tests fail than at the previous rejection, or the thresholds are missed by less."""
    stalled: int = 0
    """The number of consecutive rejections without progress after the alert, including this one."""
    because: str = ""
    """Why a reviewer refused a held finding."""


class GateHeld(ClaimEvent, tag="gate.hold", kw_only=True):
    """A done claim waits for a reviewer to settle findings of the integrity gate."""

    verdict: Verdict
    lease_expires_at: Instant = ""
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0


class GateErrored(ClaimEvent, tag="gate.error", kw_only=True):
    """The gates could not run; nobody is to blame, and another session continues."""

    verdict: Verdict


class SessionMeasured(TaskEvent, tag="session.verdict", kw_only=True):
    """The gates measured the working tree of a session that holds no task. This changes no task."""

    verdict: Verdict
    host: str = ""
    is_own: bool = True
    """Whether the failures involve what the session changed."""
    left_out: tuple[str, ...] = ()
    """What was not measured; the verdict covers the rest."""


class IdleStopCounted(ClaimEvent, tag="task.idle", kw_only=True):
    """The agent stopped with nothing to measure and was sent back. Several in a row escalate to a human."""

    number: int
    """The number of consecutive idle stops under this claim, including this one."""
    key: str = ""
    """Identifies the stop, so that repeated reports count once."""
    commit: str = ""
    """The rejected commit that was resubmitted; empty for any other stop."""


class GateAlerted(TaskEvent, tag="gate.alert", kw_only=True):
    """The gates rejected one claim so often that the user should know."""

    agent: str
    number: int
    handoff_id: str = ""
    """The claim; empty in older events, which reach nobody."""
    alert_after: int = 0
    """The threshold that was reached."""
    escalate_after: int = 0
    """The number of rejections of the claim at which a human takes over."""


class FindingAccepted(OverridingEvent, tag="gate.accept", kw_only=True):
    """A reviewer accepted a finding of the integrity gate."""

    finding: str
    reviewer: str
    reason: str = ""


class FindingRefused(TaskEvent, tag="gate.refuse", kw_only=True):
    """A reviewer refused a finding of the integrity gate: the agent has to undo it."""

    finding: str
    reviewer: str
    reason: str = ""


class GateOverridden(OverridingEvent, tag="gate.override", kw_only=True):
    """The user overrode a gate's failure, for one code tree."""

    gate: str
    tree: str
    reason: str


class GateRecovered(TaskEvent, tag="gate.recover", kw_only=True):
    """Gates that could not run for this task have run since, for another task or by the user."""

    gates: tuple[str, ...]


class Purpose(StrEnum):
    """The purpose of a run."""

    WORK = "work"
    REVIEW = "review"
    DIRECT = "direct"


class How(StrEnum):
    """How a run ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    """It was stopped with the scheduler, or because its task was taken away."""
    LOST = "lost"
    """The scheduler was killed, and the agent with it."""
    NOT_STARTED = "not_started"
    EXHAUSTED = "exhausted"
    """The host ended it prematurely, as it had no turns left."""


class RunStarted(TaskEvent, tag="run.start", kw_only=True):
    """An agent's process is about to be started on the task."""

    run_id: str
    agent: str
    purpose: str = Purpose.WORK
    handoff_id: str = ""
    """The claim it works under; empty for reviewers and directors."""
    tier: str = ""
    """What holds it: `bubblewrap`, or `plain`."""
    commit: str = ""
    """What it reviews."""


class RunEnded(TaskEvent, tag="run.end", kw_only=True):
    """The process has ended. Turns and cost are 0 if the host does not report them."""

    run_id: str
    agent: str
    how: str
    status: int = 0
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    """In US dollars."""
    is_fault: bool = False
    """It ended with an error and without having done what it was started for; nobody is blamed."""
    is_systems: bool = False
    """It is known to be the system's fault, and says nothing of the task."""
    is_trial: bool = False
    """It was let through to find out whether a fault of the system was over, and failed: no attempt of its agent's."""
    detail: str = ""


class TaskReturned(ClaimEvent, tag="task.return", kw_only=True):
    """The system took a task back from a run that could not continue; without blame, its work kept."""

    reason: str = ""
    has_work: bool = False
    """There are commits or uncommitted files to continue from."""


class IssueImported(TaskEvent, tag="forge.import", kw_only=True):
    """The task was created from an issue, which is closed with it."""

    issue: int
    source: str = ""
    """The issue's place: `github:owner/name#12`."""
    author: str = ""
    """The account that opened it."""


class ActEvent(TaskEvent, tag="", kw_only=True):
    """An event of one action. The action and what it is about are its key: under it the action happens once."""

    act: str
    about: str = ""
    """The commit; empty when it is about the task's issue."""


class ActIntended(ActEvent, tag="forge.intend", kw_only=True):
    """An action on the forge is about to be taken. If no result follows, the next process checks on the forge whether it was."""

    branch: str = ""
    base: str = ""
    pr: int = 0
    issue: int = 0


class ActDone(ActEvent, tag="forge.done", kw_only=True):
    """An action on the forge succeeded."""

    pr: int = 0
    url: str = ""
    is_found: bool = False
    """It was so already when we looked."""


class ActFailed(ActEvent, tag="forge.fail", kw_only=True):
    """An action on the forge failed."""

    why: str = ""
    tries: int = 0
    until: Instant = ""
    """Before this it is not tried again."""
    is_final: bool = False
    """It is not tried again at all, unless the user says so."""
