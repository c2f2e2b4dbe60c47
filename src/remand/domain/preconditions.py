"""The preconditions that several decisions check. Each raises its refusal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from remand.domain import commands as c
from remand.domain import ids
from remand.domain.access.team import REVIEWERS, USER, Actor, Role
from remand.domain.events.event import Event
from remand.domain.events.log import LedgerMoved, MoveBegun
from remand.domain.events.reviews import AnswerRetracted, LockoutCleared, ReviewApproved, ReviewRetracted
from remand.domain.events.tasks import HandoffAccepted, HandoffCompleted, TaskClaimed, TaskSubmitted
from remand.domain.events.work import FindingAccepted, GateOverridden, GatePassed
from remand.domain.facts import Facts, LockoutFacts
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused, unknown_task_refusal
from remand.domain.task import CLAIMABLE, PRIORITIES, TRANSITIONS, Claim, Lockout, Status, Task
from remand.domain.text.words import flatten
from remand.startup import lazy_pattern

MAX_TITLE = 500
_NO_TEXT = lazy_pattern("[\x00\ud800-\udfff]")
MAX_TEXT = 64 * 1024
MAX_SKILLS = 32
MAX_MUST_PASS = 50
MAX_FINDINGS = 300
MAX_NAMES = 20
MAX_NUMBER = 1 << 31
MAX_SHOWN = 3
_COMPLETE_LOG_EVENTS = frozenset(
    {
        TaskClaimed,
        HandoffAccepted,
        GatePassed,
        TaskSubmitted,
        HandoffCompleted,
        FindingAccepted,
        GateOverridden,
        ReviewApproved,
        ReviewRetracted,
        LockoutCleared,
        AnswerRetracted,
    }
)

_AGENT = Role.AGENT  # looked up once: a member of an enum takes long to reach by its name
_USER = frozenset({Role.USER})
_LEADERS = _USER | {Role.DIRECTOR} | REVIEWERS


def is_log_expected(ledger: str, moves: Iterable[Event]) -> bool:
    """True if a move of the log into that ledger has begun, and its end is not known there.

    Where the log is already, none is waited for.
    """
    is_expected, place = False, ""
    for event in moves:
        if isinstance(event, LedgerMoved):
            place = event.to_ledger
            is_expected = is_expected and place != ledger
        elif isinstance(event, MoveBegun) and event.to_ledger == ledger != place:
            is_expected = True
    return is_expected


def require_open_ledger(ledger: str, moves: Sequence[Event]) -> None:
    """Refuses writes to a ledger that the log was moved from, or has not fully moved to, by the events about moves in order."""
    last = next((event for event in reversed(moves) if isinstance(event, LedgerMoved)), None)
    if is_log_expected(ledger, moves):
        raise Refused(
            "ledger_moved",
            "The log is being moved into this ledger, and the one it comes from is open still. "
            "Run `remand log move` there again to end the move.",
        )
    if last is not None and last.to_ledger != ledger:
        raise Refused(
            "ledger_moved",
            f"This ledger is closed: its log moved to {last.to} on {last.ts[:16]}, by {last.meta.actor}. Write there: "
            "start `remand serve --store` with it, or set REMAND_SERVER or REMAND_STORE.",
        )


def require_role(allowed: frozenset[Role] | None, actor: Actor) -> None:
    """Refuses a command that none of the actor's roles allows."""
    if allowed is None:
        return
    roles = actor.roles - _USER if actor.confined else actor.roles
    if roles & allowed:
        return
    if allowed == _USER or (actor.confined and Role.USER in actor.roles):
        raise Refused(
            "user_only", f"Only the user may do this; {actor.name} calls from an agent's environment."
        )
    names = ", ".join(sorted(allowed))
    raise Refused("not_authorised", f"{actor.name} may not do this: it requires one of the roles {names}.")


def require_own_name(agent: str, actor: Actor) -> None:
    """Refuses a command in an agent's name from another actor."""
    if agent != actor.name:
        raise Refused("not_yours", f"{actor.name} cannot act as {agent}.")


def require_own_task_id(command: c.AddTask, actor: Actor) -> None:
    """Refuses an invalid id for a new task, and an id chosen by an actor who may not choose one."""
    if not command.own_id:
        return
    if ids.parse_task_id(command.own_id) is None:
        raise Refused(
            "bad_value", f"{command.own_id[:80]!r} is not a task id. Use T- and letters, digits or hyphens."
        )
    if not (actor.is_user or Role.DIRECTOR in actor.roles):
        raise Refused("not_authorised", f"{actor.name} may not choose the id of a task. Omit it.")


def require_own_handoff_id(command: c.InitiateHandoff, facts: Facts) -> None:
    """Refuses an invalid id for a new handoff, and the id of another handoff."""
    if command.own_id and ids.parse_handoff_id(command.own_id) is None:
        raise Refused(
            "bad_value",
            f"{command.own_id[:80]!r} is not a handoff id. Use H- and letters, digits or hyphens.",
        )
    if facts.links.is_handoff_taken:
        raise Refused("taken", f"Handoff {command.own_id} already exists.")


def require_status(task: Task, event: str, change: str) -> None:
    """Refuses a transition that the table does not allow from the task's status."""
    if task.status not in TRANSITIONS[event].sources:
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; it cannot be {change} from there.")


def require_claim(task: Task, command: c.ClaimCommand, at: str) -> Claim:
    """The claim under which the agent acts; refuses if it is another agent's, or was lost."""
    claim = task.claim
    if claim is None:
        if command.handoff_id or command.agent in task.people.authors:
            raise Refused(
                "lease_lost", f"{command.agent} no longer holds task {task.id}: {_describe_holder(task)}."
            )
        raise Refused("not_yours", f"{command.agent} does not hold task {task.id}: {_describe_holder(task)}.")
    if command.handoff_id and command.handoff_id != claim.handoff_id:
        raise Refused(
            "lease_lost",
            f"The claim {command.handoff_id} on task {task.id} has ended; "
            f"{claim.agent} holds it under {claim.handoff_id} (epoch {claim.epoch}).",
        )
    if claim.agent != command.agent:
        raise Refused("not_yours", f"Task {task.id} is held by {claim.agent}, not by {command.agent}.")
    if claim.lease_expires_at <= at:
        raise Refused(
            "lease_lost",
            f"The lease of {command.agent} on task {task.id} expired at {claim.lease_expires_at}. Claim it again.",
        )
    return claim


def _describe_holder(task: Task) -> str:
    if task.status == Status.PROVISIONAL and task.submission:
        return f"{task.submission.agent} submitted {task.submission.commit[:12]}, which awaits review"
    return "nobody does; it is in the queue" if task.status in CLAIMABLE else f"it is {task.status}"


def require_claimable(task: Task, agent: Actor, context: c.CommandContext) -> None:
    """Refuses a claim, with the most important reason first."""
    facts = context.facts
    require_may_work(task, agent, facts)
    if task.claim is not None:
        claim = task.claim
        raise Refused(
            "already_claimed",
            f"Task {task.id} is held by {claim.agent} (epoch {claim.epoch}) until {claim.lease_expires_at}.",
        )
    require_status(task, "task.claim", "claimed")
    if facts.links.open_blockers:
        raise Refused("waits_on_other", f"Task {task.id} waits for {', '.join(facts.links.open_blockers)}.")
    reserved = task.reserved_for(context.at)
    if reserved is not None and reserved.target != agent.name:
        raise Refused(
            "waits_on_other",
            f"Task {task.id} is reserved for {reserved.target} until {reserved.lapses_at}.",
        )


def require_may_work(task: Task, agent: Actor, facts: Facts) -> None:
    """Refuses an agent that is locked out of the task or not eligible for it."""
    require_not_locked_out(task, agent.name, facts)
    require_eligible(task, agent, facts.team.has_team)


class LockoutGround(NamedTuple):
    """Why an agent may not work on a task: its own lockout, one of an ancestor, or one under a former name."""

    own: Lockout | None = None
    above: str = ""
    former: str = ""


def find_lockout(task: Task, agent: str, lockouts: LockoutFacts) -> LockoutGround | None:
    """Why an agent may not work on the task; None if it may. Only this function decides that."""
    if not (task.people.lockouts or lockouts.inherited or lockouts.possible_identities):
        return None
    own = next((lockout for lockout in task.people.lockouts if lockout.agent == agent), None)
    if own is not None:
        return LockoutGround(own=own)
    above = next((name for who, name in lockouts.inherited if who == agent), "")
    if above and agent not in task.people.unlocked:
        return LockoutGround(above=above)
    former = next((name for who, name in lockouts.possible_identities if who == agent), "")
    return LockoutGround(former=former) if former else None


def require_not_locked_out(task: Task, agent: str, facts: Facts) -> None:
    """Refuses an agent that is locked out of the task or an ancestor, and says why."""
    ground = find_lockout(task, agent, facts.lockouts)
    if ground is None:
        return
    match ground:
        case LockoutGround(own=Lockout(reason=reason)):
            why = flatten(reason)[:200] or "rejected"
            text = f"{agent} may no longer work on task {task.id}. Reason: “{why}”. It can claim other tasks."
        case LockoutGround(above=above) if above:
            text = f"{agent} is locked out of task {above}, which task {task.id} was split from. It can claim other tasks."
        case LockoutGround(former=former):
            text = (
                f"{former} may not work on task {task.id} and is no longer on the team; {agent} came later and may be "
                f'the same agent. The user records that in remand.toml: `aliases = ["{former}"]` for {agent} if it is, otherwise `former = ["{former}"]` in [team]. {agent} can claim other tasks.'
            )
    raise Refused("locked_out", text)


def require_leader(task: Task, actor: Actor) -> None:
    """Refuses to show an agent the prompt of another agent's task."""
    roles = actor.roles - _USER if actor.confined else actor.roles
    if not roles & _LEADERS:
        holder = task.claim.agent if task.claim else "nobody"
        raise Refused("not_yours", f"Task {task.id} is held by {holder}, not by {actor.name}.")


def require_unused_exit(task: Task, agent: str, way: type[Event]) -> None:
    """Refuses to let an agent leave a task twice in the same way without a submission."""
    name = str(way.__struct_config__.tag)
    if (agent, name) in task.claims.exits:
        raise Refused(
            "exit_used",
            f"{agent} has used `{name}` on task {task.id} before, and may use it only once. Finish the task, or reject it with a record of what blocks it.",
        )


def require_disinterested(task: Task, actor: Actor) -> None:
    """Refuses a director that is involved in the task: it holds it, waits for an answer to its rejection of it, or is locked out."""
    if actor.is_user:
        return
    holds = task.claim is not None and task.claim.agent == actor.name
    waits = (
        task.rejections.last_rejection is not None
        and not task.rejections.last_rejection.decision
        and task.rejections.last_rejection.agent == actor.name
    )
    if holds or waits or task.is_locked_out(actor.name):
        raise Refused("own_work", f"{actor.name} is involved in task {task.id} and cannot settle it.")


def require_agent(actor: Actor, facts: Facts) -> None:
    """Refuses to find work for a name that is not an agent of the team: no task would ever be suitable."""
    if facts.team.has_team and Role.AGENT not in actor.roles:
        names = ", ".join(agent.name for agent in facts.team.agents[:MAX_NAMES]) or "none"
        raise Refused("not_eligible", f"{actor.name} is not an agent on this team. Its agents: {names}.")


def require_eligible(task: Task, agent: Actor, has_team: bool) -> None:
    """Refuses a member that is not an agent, or lacks a required skill."""
    if _AGENT not in agent.roles:
        raise Refused("not_eligible", f"{agent.name} is not an agent on this team.")
    if agent.name in task.people.reviewers:
        raise Refused("not_eligible", f"{agent.name} reviews task {task.id} and cannot work on it.")
    skills = task.details.skills
    if skills and has_team and (missing := [skill for skill in skills if skill not in agent.skills]):
        raise Refused(
            "not_eligible", f"Task {task.id} requires {', '.join(missing)}, which {agent.name} lacks."
        )


def is_eligible(task: Task, agent: Actor) -> bool:
    """True if a member of the team is an agent with the required skills."""
    try:
        require_eligible(task, agent, has_team=True)
    except Refused:
        return False
    return True


def require_text(name: str, value: str, limit: int = MAX_TEXT, *, may_be_empty: bool = True) -> None:
    """Refuses text that is empty where it must not be, too long, or contains characters that are not text."""
    if not may_be_empty and not value.strip():
        raise Refused("bad_value", f"The {name} is empty.")
    if len(value) > limit:
        raise Refused("bad_value", f"The {name} has {len(value)} characters; at most {limit} are allowed.")
    if _NO_TEXT.search(value):
        raise Refused(
            "bad_value",
            f"The {name} contains characters that are not text (NUL or half of a surrogate pair).",
        )


def require_branch(branch: str) -> None:
    """Refuses an invalid branch name."""
    if branch and not ids.is_branch(branch):
        raise Refused("bad_value", f"{branch[:80]!r} is not a valid git branch name.")


def require_must_pass(patterns: tuple[str, ...]) -> None:
    """Refuses patterns of tests that are empty, too long or too many."""
    if len(patterns) > MAX_MUST_PASS:
        raise Refused(
            "bad_value",
            f"A task may name at most {MAX_MUST_PASS} tests to pass, not {len(patterns)}; use `*`.",
        )
    for pattern in patterns:
        require_text("pattern of tests to pass", pattern, MAX_TITLE, may_be_empty=False)


def require_skills(skills: tuple[str, ...]) -> None:
    """Refuses invalid names of skills, and too many of them."""
    if len(skills) > MAX_SKILLS:
        raise Refused("bad_value", f"A task may require at most {MAX_SKILLS} skills, not {len(skills)}.")
    for skill in skills:
        if not ids.is_agent_name(skill):
            raise Refused(
                "bad_value",
                f"{skill[:80]!r} is not a skill name: use up to 64 letters, digits or . + - _ / :",
            )


def require_number(name: str, value: int) -> None:
    """Refuses a number that is too large for a forge or a file."""
    if not 0 <= value < MAX_NUMBER:
        raise Refused("bad_value", f"The {name} must be a whole number from 0 to {MAX_NUMBER - 1}.")


def require_own_pull_request(pr: int, facts: Facts) -> None:
    """Refuses the pull request of another task: a review of it would count for both."""
    if pr and facts.work.pr_of:
        raise Refused(
            "taken",
            f"Pull request {pr} belongs to task {facts.work.pr_of}. Each task needs its own pull request.",
        )


def require_priority(value: str) -> None:
    """Refuses an unknown priority."""
    if value not in PRIORITIES:
        raise Refused("bad_value", f"There is no priority {value!r}; use one of {', '.join(PRIORITIES)}.")


def require_aliases(aliases: tuple[str, ...], facts: Facts) -> None:
    """Refuses invalid aliases, and those of other tasks."""
    for alias in aliases:
        if not ids.is_alias(alias):
            raise Refused("bad_value", f"{alias!r} is not an alias; write it as #42 or owner/name#42.")
    if facts.links.taken_aliases:
        raise Refused("taken", f"Another task already has the alias {', '.join(facts.links.taken_aliases)}.")


def require_names(*names: str) -> None:
    """Refuses names with characters that a line of the log cannot show."""
    for name in names:
        if name and not ids.is_agent_name(name):
            raise Refused(
                "bad_value",
                f"{name[:80]!r} is not a valid name: use up to 64 letters, digits or @ . + - _ / :",
            )


def require_distinct_names(facts: Facts) -> None:
    """Refuses a new name that looks like a known one, because people would confuse them."""
    for name, known in facts.team.look_alikes:
        raise Refused(
            "name_taken",
            f"{name[:80]!a} is a new name that looks like {known}, who is known here. "
            f"Use that name if {known} is meant, or one that nobody can mistake for it.",
        )


def require_known_tasks(facts: Facts) -> None:
    """Refuses ids of tasks that do not exist."""
    if facts.links.unknown_tasks:
        names = ", ".join(name[:80] for name in facts.links.unknown_tasks[:5])
        raise unknown_task_refusal(names)


def require_no_cycle(facts: Facts) -> None:
    """Refuses dependencies that form a cycle."""
    if facts.links.cycle:
        raise Refused("closes_cycle", f"That would create a cycle: {' → '.join(facts.links.cycle)}.")


def require_whole_log(task: Task, facts: Facts) -> None:
    """Refuses to release a task while lines of the log are missing that may contain a rejection of it."""
    if not facts.missing:
        return
    descriptions = "; ".join(lines.description for lines in facts.missing[:MAX_SHOWN])
    more = len(facts.missing) - MAX_SHOWN
    rest = f"; and {more} more" if more > 0 else ""
    raise Refused(
        "lines_missing",
        f"The log of task {task.id} is incomplete: {descriptions}{rest}. Get the event files of every branch with git fetch, "
        "or restore them from a clone or a backup. If they are lost, the user gives them up: remand log repair",
    )


def need_complete_log(events: Sequence[Event]) -> bool:
    """True if one of the events must wait until the log is complete: claims, passes, approvals and lifted lockouts."""
    return not _COMPLETE_LOG_EVENTS.isdisjoint(map(type, events))


def require_user(actor: Actor) -> None:
    """Refuses everybody but the user, and the user's name inside an agent's environment."""
    if actor.confined or not actor.has(Role.USER):
        raise Refused(
            "user_only",
            f"Only {USER} may do this; {actor.name} is not the user, or calls from an agent's environment.",
        )


def require_key_manager(actor: Actor) -> None:
    """Refuses everybody but the user for commands on keys."""
    if actor.confined or not actor.has(Role.USER):
        raise Refused("user_only", f"Only the user may manage keys, and {actor.name} is not the user.")


def require_reviewer(actor: Actor) -> None:
    """Refuses an actor who is not a reviewer on this team."""
    if not actor.has(*REVIEWERS):
        raise Refused("not_authorised", f"{actor.name} is not a reviewer on this team.")


def require_trusted_key(untrusted: str, *, is_confined: bool) -> None:
    """Refuses an agent if the base does not trust this machine's key."""
    if untrusted and is_confined:
        raise Refused(
            "key_not_trusted",
            f"The base branch does not trust this machine's key {untrusted}: what is written here would have no effect elsewhere. The user requests trust with `remand keys request`.",
        )
