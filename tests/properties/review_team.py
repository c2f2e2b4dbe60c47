"""A team that reviews: authors, two reviewers, the user and a merger, on two ledgers of one project.

What happens is a script of steps. A step says who does what, and nothing of how the task stands, so that a script
still can be played when steps are taken out of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from remand.app.events.task_folds import SignedTasks, TaskSource, task_events
from remand.app.facts import ExternalFacts, FactLookup
from remand.app.ports import CommitDifference
from remand.app.requests import Acceptance, Answer, Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role, Team, paths_outside_scope
from remand.domain.decide import decide
from remand.domain.decisions.findings import find_rejected_change, hold_for_rejected_change
from remand.domain.events.reviews import Finding
from remand.domain.gate.verdict import GateStatus
from remand.domain.instant import OLD_BOUND_SECONDS, add_seconds
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import CLAIMABLE, Status, Task
from remand.testing.builders import NOW
from remand.testing.fakes import FakeClock
from tests.properties.task_audit import OWNER, Broken, audited, require
from tests.support.builders import FakeLedger, a_verdict, member
from tests.support.fakes import CountingIds
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

BRANCH = "work"
LEAKS = (Finding(text="It leaks"), Finding(text="Odd colour", is_blocking=False))
UNTESTED = (Finding(text="It is not tested", path="tests/test_roof.py", line=3),)
COMMITS = {
    "a": ("tree-a", "patch-a", ("src/roof.py",)),
    "a-again": ("tree-a", "patch-a", ("src/roof.py",)),
    "a-moved": ("tree-a-moved", "patch-a", ("src/roof.py",)),
    "b": ("tree-b", "patch-b", ("src/roof.py", "tests/test_roof.py")),
    "t": ("tree-t", "patch-t", ("tests/test_roof.py",)),
    "last": ("tree-last", "patch-last", ("src/roof.py",)),
}
"""Commits by name: code tree, patch, and the paths they change. `last` is kept for the way out."""
WORK = [name for name in COMMITS if name != "last"]

AUTHORS = ("Alice", "Bob", "Carol")
_REVIEWERS = (
    member("Tess", Role.TESTER, paths=("tests/**",)),
    member(OWNER, Role.USER, aliases=("boss",)),
)
TEAMS = (
    Team(
        (
            member("Alice", aliases=("al",), skills=("roofing",)),
            member("Bob"),
            member("Carol"),
            member("Lea", Role.LEAD),
            *_REVIEWERS,
        )
    ),
    Team(
        (member("Alice", aliases=("al",)), member("Bob"), member("Lea", Role.LEAD, Role.AGENT), *_REVIEWERS)
    ),
)
REVIEWERS = ("Lea", "Tess", OWNER)
NAMES = ("Alice", "al", "Bob", "Carol", "Lea")
OPTIONS = ("fix", "reopen", *(f"{way}:{name}" for way in ("unlock", "reassign") for name in AUTHORS))
encoded = msgspec.json.Encoder().encode


class Step(NamedTuple):
    """Who does what, on which of the two ledgers and to which of its tasks."""

    verb: str
    who: str = ""
    what: str = ""
    where: int = 0
    task: int = 0


class Terms(NamedTuple):
    """Under which rules a script is played."""

    team: Team
    policy: Policy
    skew: float
    """How many seconds the second ledger's clock is ahead."""


def drawn_terms(chance: random.Random) -> Terms:
    """Rules as a team may have them."""
    policy = Policy(
        lockout_after=chance.choice((1, 1, 1, 2, 0)), escalate_after_reviews=chance.choice((3, 3, 2))
    )
    return Terms(chance.choice(TEAMS), policy, chance.choice((0.0, -45.0, 45.0, 3600.0)))


class Play:
    """Two ledgers that began alike, and what each actor remembers."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.worlds = [self._world(n) for n in range(2)]
        self.main = self.worlds[0].add(TITLE, scope=SCOPE, branch=BRANCH)
        self._read: dict[str, str] = {}
        self._asked: list[list[tuple[Request, Answer]]] = [[], []]
        self._keys = 0
        self._asked_twice: set[str] = set()
        """The keys of commands that were asked on both ledgers: each has an answer of its own to them."""
        self._given: list[int] = [0, 0]
        self._known: list[dict[str, Task]] = [{}, {}]
        self.merge(0)

    def _world(self, n: int) -> FakeLedger:
        # Each ledger has a time of its own, and they drift apart by hours.
        policy = msgspec.structs.replace(self.terms.policy, clock_skew_seconds=OLD_BOUND_SECONDS)
        rules = Rules(gates=(), team=self.terms.team, policy=policy, base="base")
        clock = FakeClock(add_seconds(NOW, self.terms.skew * n))
        world = FakeLedger(session=f"20261115-090000-{n:08x}", clock=clock, rules=rules)
        world.ids = CountingIds(n << 16)
        world.reopen()
        for name, (tree, patch, paths) in COMMITS.items():
            sha = world.repository.add(name, tree)
            world.repository.differences[sha] = CommitDifference(paths, patch)
        return world

    # One step.

    def play(self, step: Step) -> None:
        """Lets a step happen, and holds what is true after every one."""
        VERBS[step.verb](self, step)
        for n, world in enumerate(self.worlds):
            tasks, known = world.tasks(), self._known[n]
            for task in (task for name, task in tasks.items() if task is not known.get(name)):
                require_sound_task(task)
                require(has_way_out(world, task), "a task has no way out", task)
            self._known[n] = tasks

    def task(self, step: Step) -> Task:
        """The task that a step is about: the first, or one that was cut from it."""
        tasks = self.worlds[step.where].tasks()
        names = [self.main, *sorted(set(tasks) - {self.main})]
        return tasks[names[step.task % len(names)]]

    def ask(self, step: Step, ask: c.Command) -> Answer:
        """Asks under a key of its own, and holds what is true of every answer."""
        self._keys += 1
        request = Request(command=ask, actor=step.who, key=f"k{self._keys}")
        return self._asked_of(step.where, request)

    def _asked_of(self, where: int, request: Request) -> Answer:
        world = self.worlds[where]
        before, is_known = world.tasks(), self._is_known(where, request)
        answer = world.ledger.ask(request)
        self._asked[where].append((request, answer))
        if isinstance(answer, Acceptance) and not is_known:
            require_rightly_accepted(world, request, before, answer)
        return answer

    def again(self, step: Step) -> None:
        """The last command is asked once more under its key: here, or on the other ledger, as `what` says."""
        known = self._asked[step.where]
        if not known:
            return
        request, answer = known[-1]
        if step.what == "elsewhere":
            self._asked_twice.add(request.key)
            self._asked_of(1 - step.where, request)
            return
        world = self.worlds[step.where]
        world.ledger.ask_all([])
        count = len(world.exchange.all_lines())
        if not self._is_known(step.where, request) or request.key in self._asked_twice:
            return
        repeated = world.ledger.ask(request)
        same = isinstance(repeated, Acceptance) and isinstance(answer, Acceptance)
        same = same and repeated.events == answer.events
        require(same, "a command repeated under its key had another answer", request)
        require(
            len(world.exchange.all_lines()) == count, "a command repeated under its key wrote again", request
        )

    def _is_known(self, where: int, request: Request) -> bool:
        """True when a ledger has answered a command before."""
        with self.worlds[where].store.read() as view:
            return bool(view.events.of_key(request.key))

    def merge(self, source: int) -> None:
        """The other ledger reads what this one has written."""
        lines = self.worlds[source].exchange.all_lines()
        target = self.worlds[1 - source]
        known = set(target.exchange.all_lines())
        news = [line for line in lines if line not in known]
        self._given[source] += 1
        target.exchange.put(f"/events/from-{source}-{self._given[source]}.jsonl", news)
        target.ledger.refresh()

    def remember(self, step: Step) -> None:
        """A reviewer looks at what is submitted."""
        submission = self.task(step).submission
        if submission is not None:
            self._read[step.who] = submission.commit

    def read(self, who: str) -> str:
        """The commit a reviewer has looked at."""
        return self._read.get(who, "a")


# What is true of every answer and of every task.


def require_rightly_accepted(
    world: FakeLedger, request: Request, before: dict[str, Task], answer: Acceptance
) -> None:
    """Holds what was accepted against what was known, by other means than the rules' own."""
    task, ask = answer.task, request.command
    known = before[task.id]
    actor = world.rules.team.actor(request.actor)
    require(len(task.inbox.conflicts) <= len(known.inbox.conflicts), "what was accepted did not apply", ask)
    match ask:
        case c.ClaimTask() | c.AcceptHandoff() | c.SubmitTask():
            barred = locked_above(known, before) | {lockout.agent for lockout in known.people.lockouts}
            require(actor.name not in barred, "a locked-out agent was let through", (ask, known))
        case c.ApproveReview() if answer.events:
            commit = world.repository.commits[ask.commit]
            submission = known.submission
            require(submission is not None and commit.tree == submission.tree, "approved other code", ask)
            require(task.status == Status.DONE, "an approval that did nothing was accepted", task)
            is_mender = actor.name == known.people.fixer
            require(is_mender or actor.name not in known.people.authors, "the author approved", known)
            paths = world.repository.differences[commit.sha].paths
            require(
                not paths_outside_scope(actor, paths), "approved beyond the reviewer's scope", (ask, actor)
            )
        case c.RejectReview() if answer.events and known.status == Status.PROVISIONAL and known.submission:
            author, after = known.submission.agent, world.rules.policy.lockout_after
            times = sum(one.agent == author for one in known.standing_rounds) + 1
            is_due = bool(after) and times >= after and author != known.people.fixer
            require(not is_due or task.is_locked_out(author), "a rejected author is not locked out", task)
        case _:
            pass


def locked_above(task: Task, tasks: dict[str, Task]) -> set[str]:
    """Who is locked out of a task above this one, and was not let back to this very one."""
    found: set[str] = set()
    above = tasks.get(task.links.parent)
    while above is not None:
        found |= {lockout.agent for lockout in above.active_lockouts}
        above = tasks.get(above.links.parent)
    return found - set(task.people.unlocked)


def require_sound_task(task: Task) -> None:
    """What is true of every task at all times, whatever led to it."""
    locked = {lockout.agent for lockout in task.active_lockouts}
    require(task.claim is None or task.claim.agent not in locked, "a locked-out agent holds a claim", task)
    require(locked.isdisjoint(o.target for o in task.claims.offers), "a locked-out agent has an offer", task)
    require(
        task.reviews.rejection_count == len(task.standing_rounds), "the count is not that of the rounds", task
    )
    require((task.claim is not None) == (task.status == Status.CLAIMED), "a claim without its status", task)


def has_way_out(world: FakeLedger, task: Task) -> bool:
    """True when somebody may ask for something that leads on, short of giving the task up."""
    if task.is_terminal:
        return True
    with world.store.read() as view:
        if view.dependencies.open_blockers(task.id) or task.status == Status.DECOMPOSED:
            return True
        source = TaskSource(view, SignedTasks(), world.ledger.verifier(view))
        lookup = FactLookup(view, world.rules, world.ids, source)
        now = world.clock.time
        for ask, name in ways_out(task):
            sha = getattr(ask, "commit", "")
            seen = ExternalFacts(
                world.repository.commit(sha), difference=world.repository.difference("", sha)
            )
            facts = lookup.facts(ask, task, now, seen)
            actor = world.rules.team.actor(name)
            if not isinstance(
                decide(task, c.CommandContext(command=ask, actor=actor, at=now, facts=facts)), Refused
            ):
                return True
    return False


def ways_out(task: Task) -> Iterator[tuple[c.Command, str]]:
    """What leads on from where the task is, the likeliest first."""
    if task.claim is not None:
        yield c.ReassignTask(task_id=task.id, target="Bob"), OWNER
        yield c.ReassignTask(task_id=task.id, target="Alice"), OWNER
        yield c.EscalateTask(task_id=task.id, reason="Stuck"), OWNER
    if task.status == Status.PROVISIONAL and task.submission is not None:
        for name in (OWNER, "Lea"):
            yield c.ApproveReview(task_id=task.id, commit=task.submission.commit), name
            yield c.RejectReview(task_id=task.id, commit=task.submission.commit, findings=LEAKS), name
    if task.status == Status.ESCALATED:
        yield c.AnswerEscalation(task_id=task.id, option="fix"), OWNER
    for name in (*(offer.target for offer in task.claims.offers), *AUTHORS, "Lea"):
        yield c.ClaimTask(agent=name, task_id=task.id), name
        yield c.ReassignTask(task_id=task.id, target=name), OWNER
        yield c.Unlock(task_id=task.id, agent=name, reason="Because"), OWNER
    yield c.ReopenTask(task_id=task.id), OWNER
    yield c.EscalateTask(task_id=task.id, reason="Stuck"), OWNER


# What each verb means.


def _under_claim(kind: type[c.ClaimCommand]) -> Callable[[Play, Step], None]:
    def act(play: Play, step: Step) -> None:
        play.ask(step, kind(task_id=play.task(step).id, agent=step.who))

    return act


def _claim(play: Play, step: Step) -> None:
    play.ask(step, c.ClaimTask(agent=step.who, task_id=play.task(step).id if step.what != "next" else ""))


def _accept(play: Play, step: Step) -> None:
    offers = play.task(step).claims.offers
    handoff = offers[-1].handoff_id if offers else "H-none"
    play.ask(step, c.AcceptHandoff(handoff_id=handoff, agent=step.who))


def _submit(play: Play, step: Step) -> None:
    ask = c.SubmitTask(task_id=play.task(step).id, agent=step.who, commit=step.what, branch=BRANCH)
    play.ask(step, ask)


def _push(play: Play, step: Step) -> None:
    repository = play.worlds[step.where].repository
    repository.commits[f"refs/heads/{BRANCH}"] = repository.commits[step.what]
    repository.histories[BRANCH] = tuple(one.sha for one in repository.commits.values())


def _look(play: Play, step: Step) -> None:
    play.remember(step)


def _approve(play: Play, step: Step) -> None:
    play.ask(step, c.ApproveReview(task_id=play.task(step).id, commit=play.read(step.who), source=step.what))


def _reject(play: Play, step: Step) -> None:
    findings = UNTESTED if step.who == "Tess" else LEAKS
    ask = c.RejectReview(
        task_id=play.task(step).id, commit=play.read(step.who), findings=findings, source=step.what
    )
    play.ask(step, ask)


def _retract(play: Play, step: Step) -> None:
    task = play.task(step)
    reviews = [review.id for one in task.reviews.rounds for review in one.reviews]
    name = reviews[int(step.what) % len(reviews)] if step.what and reviews else ""
    play.ask(step, c.RetractReview(task_id=task.id, reason="It was right", review_id=name))


def _unlock(play: Play, step: Step) -> None:
    play.ask(step, c.Unlock(task_id=play.task(step).id, agent=step.what, reason="Again", guidance="Look"))


def _lock_out(play: Play, step: Step) -> None:
    play.ask(step, c.LockOut(task_id=play.task(step).id, agent=step.what, reason="Not this one"))


def _reassign(play: Play, step: Step) -> None:
    play.ask(step, c.ReassignTask(task_id=play.task(step).id, target=step.what))


def _initiate(play: Play, step: Step) -> None:
    play.ask(step, c.InitiateHandoff(task_id=play.task(step).id, target=step.what))


def _escalate(play: Play, step: Step) -> None:
    play.ask(step, c.EscalateTask(task_id=play.task(step).id, reason="What now?"))


def _answer(play: Play, step: Step) -> None:
    play.ask(step, c.AnswerEscalation(task_id=play.task(step).id, option=step.what, guidance="Look"))


def _close(play: Play, step: Step) -> None:
    play.ask(step, c.CancelTask(task_id=play.task(step).id))


def _reopen(play: Play, step: Step) -> None:
    play.ask(step, c.ReopenTask(task_id=play.task(step).id))


def _measure(play: Play, step: Step) -> None:
    """The gates find that a change was rejected before, and hold it for the user."""
    task, world = play.task(step), play.worlds[step.where]
    commit = world.repository.commits[step.what]
    name = find_rejected_change(task, commit.tree, world.repository.differences[commit.sha].patch)
    if not name or task.claim is None:
        return
    verdict = hold_for_rejected_change(a_verdict(commit=commit.sha, tree=commit.tree), name)
    if verdict.status == GateStatus.HELD:
        ask = c.RecordVerdict(task_id=task.id, agent=task.claim.agent, verdict=verdict)
        world.ledger.ask_as(THE_COORDINATOR, ask)


def _settle(play: Play, step: Step) -> None:
    task = play.task(step)
    for name in task.gates.held[:1]:
        play.ask(step, c.SettleFinding(task_id=task.id, finding=name, is_accepted=step.what != "no"))


def _cut(play: Play, step: Step) -> None:
    """The agent that holds the task rejects it as too large, and it is cut into parts."""
    claim = play.task(step).claim
    handoff = claim.handoff_id if claim else "H-none"
    record = a_rejection("SCOPE_CREEP")
    play.ask(step, c.RejectHandoff(handoff_id=handoff, agent=step.who, rejection=record))


def _pass(play: Play, step: Step) -> None:
    play.worlds[step.where].clock.advance(float(step.what))
    play.worlds[step.where].ledger.ask_all([])


def _merge(play: Play, step: Step) -> None:
    play.merge(1 - step.where)


VERBS: dict[str, Callable[[Play, Step], None]] = {
    "claim": _claim,
    "accept": _accept,
    "fetch": _under_claim(c.FetchFeedback),
    "release": _under_claim(c.ReleaseTask),
    "continue": _under_claim(c.ContinueTask),
    "fail": _under_claim(c.FailTask),
    "submit": _submit,
    "push": _push,
    "look": _look,
    "approve": _approve,
    "reject": _reject,
    "retract": _retract,
    "unlock": _unlock,
    "lock out": _lock_out,
    "reassign": _reassign,
    "initiate": _initiate,
    "escalate": _escalate,
    "answer": _answer,
    "close": _close,
    "reopen": _reopen,
    "measure": _measure,
    "settle": _settle,
    "cut": _cut,
    "pass": _pass,
    "merge": _merge,
    "again": Play.again,
}


# How a script is drawn, played and cut short.


def drawn(chance: random.Random, play: Play, steps: int) -> Iterator[Step]:
    """Steps that are likely to be taken, given how the tasks stand; some of any kind."""
    for _ in range(steps):
        where = chance.randrange(2)
        count = len(play.worlds[where].tasks())
        number = chance.randrange(count)
        step = Step("", where=where, task=number)
        task = play.task(step)
        if chance.random() < 0.12:
            yield step._replace(verb="merge")
            continue
        likely = _likely(chance, task) if chance.random() < 0.8 else []
        verb, who, what = chance.choice(likely or [_anything(chance)])
        yield step._replace(verb=verb, who=who, what=what)


def _likely(chance: random.Random, task: Task) -> list[tuple[str, str, str]]:
    """What may well be asked of a task that stands like this."""
    meanwhile = [
        ("look", chance.choice(REVIEWERS), ""),
        ("lock out", chance.choice(("Lea", OWNER)), chance.choice(NAMES)),
        ("retract", chance.choice(REVIEWERS), chance.choice(("", "0", "1", "2"))),
        ("unlock", OWNER, chance.choice([lock.agent for lock in task.people.lockouts] or ["Alice"])),
        ("push", "", chance.choice(WORK)),
        ("pass", "", chance.choice(("1", "60", "2000"))),
        ("again", "", chance.choice(("", "elsewhere"))),
        ("escalate", chance.choice(("Lea", OWNER)), ""),
    ]
    extra = chance.sample(meanwhile, 3)
    name = chance.choice(NAMES)
    if task.claim is not None:
        holder, commit = task.claim.agent, chance.choice(WORK)
        return [
            *[("fetch", holder, "")] * 2,
            *[("submit", holder, commit)] * 5,
            ("measure", "", commit),
            ("settle", chance.choice((OWNER, OWNER, "Lea")), chance.choice(("", "", "no"))),
            (chance.choice(("release", "continue", "fail")), holder, ""),
            ("reassign", chance.choice(("Lea", OWNER)), name),
            (chance.choice(("cut", "claim")), holder, ""),
            *extra,
        ]
    if task.status == Status.PROVISIONAL:
        reviewer = chance.choice(REVIEWERS)
        source = chance.choice(("", "", "forge:1"))
        return [
            *[("look", reviewer, "")] * 2,
            *[("reject", reviewer, source)] * 3,
            ("approve", reviewer, ""),
            *extra,
        ]
    if task.status == Status.ESCALATED:
        return [*[("answer", OWNER, chance.choice(OPTIONS))] * 4, *extra]
    if task.status in CLAIMABLE:
        return [
            *[("claim", chance.choice([o.target for o in task.claims.offers] or [name]), "")] * 4,
            ("claim", name, chance.choice(("", "next"))),
            ("accept", chance.choice([o.target for o in task.claims.offers] or [name]), ""),
            ("initiate", chance.choice(("Lea", OWNER)), name),
            ("reassign", chance.choice(("Lea", OWNER)), name),
            ("reject", chance.choice(REVIEWERS), ""),
            *extra,
        ]
    return [("reopen", OWNER, ""), *extra]


def _anything(chance: random.Random) -> tuple[str, str, str]:
    """Something that need not make sense now."""
    verb = chance.choice([verb for verb in VERBS if verb != "merge"])
    who = chance.choice((*NAMES, "Tess", OWNER, "boss", "stranger"))
    whats = {
        "submit": WORK,
        "push": WORK,
        "measure": WORK,
        "retract": ("", "0", "1"),
        "answer": OPTIONS,
        "pass": ("1", "60", "2000"),
        "approve": ("", "forge:1"),
        "reject": ("", "forge:1"),
        "again": ("", "elsewhere"),
    }
    named = verb in ("unlock", "lock out", "reassign", "initiate")
    return verb, who, chance.choice(NAMES if named else whats.get(verb, ("",)))


def play_out(play: Play) -> None:
    """Ends a play: the ledgers meet, agree, tell a sound story, and every task can still be brought to its end."""
    audit(play)
    play.merge(0)
    play.merge(1)
    states = [[encoded(task) for task in world.tasks().values()] for world in play.worlds]
    require(states[0] == states[1], "ledgers with the same events are not in the same state", states)
    audit(play)
    for name in sorted(play.worlds[0].tasks()):
        finish(play.worlds[0], name)


def audit(play: Play) -> None:
    """Follows every story of both ledgers, and holds the tables against it."""
    for world in play.worlds:
        with world.store.read() as view:
            for task in view.tasks.every():
                found = audited(task_events(view, task.id))
                require(encoded(found) == encoded(task), "the tables are not what the events tell", task)


def merged_anew(play: Play, chance: random.Random) -> None:
    """A third ledger reads every line in some order, and has to come to the same state."""
    lines = play.worlds[0].exchange.all_lines()
    clock, rules = FakeClock(play.worlds[0].clock.time), play.worlds[0].rules
    third = FakeLedger(session="20261116-000000-ffffffff", clock=clock, rules=rules)
    for n in range(2):
        third.exchange.put(f"/events/{n}.jsonl", chance.sample(lines, len(lines)))
        third.ledger.refresh()
    same = [encoded(task) for task in third.tasks().values()]
    require(
        same == [encoded(task) for task in play.worlds[0].tasks().values()],
        "another order, another state",
        "",
    )


def finish(world: FakeLedger, name: str) -> None:
    """Brings a task to its end by what its people may ask, without giving it up."""
    for _ in range(12):
        task = world.task(name)
        if task.is_terminal or task.status == Status.DECOMPOSED:
            return
        moves = next_moves(task)
        if not any(
            isinstance(world.ledger.ask(Request(command=ask, actor=who)), Acceptance) for ask, who in moves
        ):
            world.clock.advance(8 * 24 * 3600)
            world.ledger.ask_all([])
    raise Broken(f"a task could not be brought to its end: {world.task(name)}")


def next_moves(task: Task) -> Iterator[tuple[c.Command, str]]:
    """What brings a task nearer to done from where it is."""
    if task.claim is not None:
        holder = task.claim.agent
        if task.claim.read < task.reviews.feedback:
            yield c.FetchFeedback(task_id=task.id, agent=holder), holder
        yield c.SubmitTask(task_id=task.id, agent=holder, commit="last", branch=BRANCH), holder
    elif task.status == Status.PROVISIONAL and task.submission is not None:
        for name in (OWNER, "Lea"):
            yield c.ApproveReview(task_id=task.id, commit=task.submission.commit), name
        yield c.EscalateTask(task_id=task.id, reason="Nobody may approve it"), OWNER
    elif task.status == Status.ESCALATED:
        yield c.AnswerEscalation(task_id=task.id, option="fix"), OWNER
    elif task.status in CLAIMABLE:
        for name in (*(offer.target for offer in task.claims.offers), *AUTHORS, "Lea"):
            yield c.ClaimTask(agent=name, task_id=task.id), name
        yield c.EscalateTask(task_id=task.id, reason="Nobody may take it"), OWNER
    else:
        yield c.ReopenTask(task_id=task.id), OWNER
