"""Holds what must be so of agents at work against the event files alone. Knows none of the product's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

Event = dict[str, Any]
CLAIMS = ("task.claim", "handoff.accept", "handoff.resume")
HANDS_IN = ("task.submit", "handoff.complete")
GIVES_UP = (
    "task.release",
    "task.continue",
    "task.fail",
    "task.return",
    "task.expire",
    "task.cancel",
    "task.block",
    "task.defer",
    "task.decompose",
    "task.infeasible",
    "handoff.reject",
    "escalation.open",
    "gate.error",
)
"""After these nobody holds the task."""
FINISHED = ("done", "cancelled", "infeasible")
STATUSES = {
    "task.cancel": "cancelled",
    "task.infeasible": "infeasible",
    "escalation.open": "escalated",
    "task.defer": "deferred",
    "task.decompose": "decomposed",
    "task.block": "blocked",
    "task.fail": "failed",
}
"""Where a task is that was given up; the others are open."""
ASKED = ("escalated", "blocked")
"""Where a task is whose question stands in the user's inbox, as no agent directs."""
WAITS = {"task.defer": "waits_for", "task.decompose": "children"}
"""The events after which a task waits for others, and where each names them."""
WAITING = tuple(STATUSES[name] for name in WAITS)
GOES_ON = ("review.reject", "escalation.answer", "task.reopen", "task.wake")


class Story:
    """One task, followed event by event."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.status = "open"
        self.holder: tuple[str, str] | None = None
        """The handoff and the agent of the claim that stands."""
        self.claims: set[str] = set()
        self.locked: set[str] = set()
        self.passed: set[str] = set()
        self.work: Event = {}
        self.runs: dict[str, Event] = {}
        self.waits_for: set[str] = set()
        """The tasks that have to be finished before this one goes on."""
        self.depends_on: set[str] = set()
        self.ended: Counter[str] = Counter()
        self.broken: list[str] = []
        self.told: list[Event] = []
        self._rules: dict[str, Callable[[Event], None]] = {
            **dict.fromkeys(CLAIMS, self._claimed),
            **dict.fromkeys(HANDS_IN, self._handed_in),
            **dict.fromkeys(GIVES_UP, self._given_up),
            **dict.fromkeys(GOES_ON, self._goes_on),
            "gate.pass": lambda event: self.passed.add(event["verdict"]["tree"]),
            "lockout.set": self._locked_out,
            "lockout.clear": lambda event: self.locked.discard(event["agent"]),
            "review.approve": self._approved,
            "task.settle": self._settled,
            "run.start": self._started,
            "run.end": self._ended,
        }

    def note(self, event: Event) -> None:
        """Takes in one event."""
        self.told.append(event)
        follow = self._rules.get(event["event"])
        if follow is not None:
            follow(event)

    def require(self, holds: bool, what: str, event: Event) -> None:
        """Keeps what is broken, with the story so far."""
        if not holds:
            story = "\n".join(
                str({**one, "meta": one["meta"]["seq"]} if "meta" in one else one)[:400] for one in self.told
            )
            self.broken.append(f"{self.task_id}: {what}: {event}\n{story}")

    def _claimed(self, event: Event) -> None:
        handoff, agent = event["handoff_id"], event["agent"]
        is_new = event["event"] == "handoff.resume" or handoff not in self.claims
        self.require(is_new, "a claim was won twice", event)
        self.require(self.holder is None, f"claimed while {self.holder} holds it", event)
        self.require(agent not in self.locked, "claimed by an agent that is locked out", event)
        self.claims.add(handoff)
        self.holder, self.status = (handoff, agent), "open"

    def _handed_in(self, event: Event) -> None:
        own = (event["handoff_id"], event["agent"])
        self.require(own == self.holder, f"handed in while {self.holder} holds it", event)
        self.require(event["agent"] not in self.locked, "handed in by an agent that is locked out", event)
        self.require(event["tree"] in self.passed, "handed in what the gates have not let through", event)
        self.holder, self.work, self.status = None, event, "provisional"

    def _given_up(self, event: Event) -> None:
        name = event["event"]
        if name in ("task.return", "task.release", "task.continue", "task.expire"):
            is_own = self.holder is not None and event["handoff_id"] == self.holder[0]
            self.require(is_own, f"given back while {self.holder} holds it", event)
        self.holder = None
        self.status = STATUSES.get(name, "open")
        self.waits_for = set(event[WAITS[name]]) if name in WAITS else set()

    def _locked_out(self, event: Event) -> None:
        self.locked.add(event["agent"])
        if self.holder is not None and self.holder[1] == event["agent"]:
            self.holder = None

    def _goes_on(self, _: Event) -> None:
        self.status, self.waits_for = "open", set()

    def _settled(self, event: Event) -> None:
        self.status, self.waits_for = event["status"], set()

    def _approved(self, event: Event) -> None:
        if event["commit"] != self.work.get("commit"):
            return
        self.require(event["tree"] in self.passed, "approved what the gates have not let through", event)
        self.require(event["reviewer"] != self.work["agent"], "approved by its author", event)
        self.require(self.status == "provisional", f"approved while {self.status}", event)
        self.status = "done"

    def _started(self, event: Event) -> None:
        purpose = event.get("purpose", "work")
        same = [one for one in self.runs.values() if one.get("purpose", "work") == purpose]
        self.require(not same, f"started while {same} is at work", event)
        if purpose == "work":
            own = (event["handoff_id"], event["agent"])
            self.require(own == self.holder, f"started while {self.holder} holds it", event)
        self.runs[event["run_id"]] = event

    def _ended(self, event: Event) -> None:
        self.require(event["run_id"] in self.runs, "ended a run that was not under way", event)
        self.runs.pop(event["run_id"], None)
        self.ended[event["how"]] += 1


class Audit:
    """Every task of a log."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.stories: dict[str, Story] = {}
        self.unknown: list[Event] = []
        for event in events:
            self._note(event)

    def _note(self, event: Event) -> None:
        if event["event"] == "node.create" and event.get("type") == "TASK":
            task_id = event["id"].removeprefix("task:")
            self.stories[task_id] = Story(task_id)
        elif event["event"] in ("edge.create", "edge.delete"):
            self._link(event)
        elif "task_id" in event:
            story = self.stories.get(event["task_id"])
            if story is None:
                self.unknown.append(event)
            else:
                story.note(event)

    def _link(self, event: Event) -> None:
        """Notes that one task waits for another, or no longer does."""
        ends = [event[key].removeprefix("task:") for key in ("src", "tgt")]
        if event["type"] == "BLOCKS":
            ends.reverse()
        if event["type"] not in ("DEPENDS_ON", "BLOCKS") or ends[0] not in self.stories:
            return
        change = set.add if event["event"] == "edge.create" else set.discard
        change(self.stories[ends[0]].depends_on, ends[1])

    def waits_for_user(self, task_id: str) -> bool:
        """True when nothing but an answer of the user brings a task on: to its own question, or to one it waits behind."""
        seen, found = set(), [task_id]
        for name in found:
            story = self.stories.get(name)
            if story is None or story.status in FINISHED or name in seen:
                continue
            if story.status in ASKED:
                return True
            seen.add(name)
            found += self._blockers(story)
        return False

    def _blockers(self, story: Story) -> list[str]:
        """The unfinished tasks that one waits for; a dependency keeps it from being claimed, and from nothing else."""
        is_unclaimed = story.status == "open" and story.holder is None
        named = story.depends_on if is_unclaimed else story.waits_for
        return [name for name in sorted(named & self.stories.keys()) if not self.is_finished(name)]

    def is_finished(self, task_id: str) -> bool:
        """True when nothing is to come of a task any more."""
        return self.stories[task_id].status in FINISHED

    @property
    def unended(self) -> dict[str, str]:
        """The tasks that have not come to an end, with where they are: neither finished, nor waiting for the user."""
        return {
            name: story.status
            for name, story in self.stories.items()
            if not self.is_finished(name) and not self.waits_for_user(name)
        }

    @property
    def is_stuck(self) -> bool:
        """True when tasks have not come to an end, and none of them can be brought on by anybody but the user."""
        unended = self.unended
        return bool(unended) and not any(self._may_move(self.stories[name]) for name in unended)

    def _may_move(self, story: Story) -> bool:
        """True when somebody works on a task, may take it, is to look at it, or it is due to wake or to be settled."""
        if story.runs or story.status == "provisional":
            return True
        return story.status in ("open", *WAITING) and not self._blockers(story)

    @property
    def broken(self) -> list[str]:
        """What does not hold."""
        found = [row for story in self.stories.values() for row in story.broken]
        return found + [f"about a task that was never written down: {event}" for event in self.unknown]

    @property
    def open_runs(self) -> list[str]:
        """Runs that have begun and not ended."""
        return [run for story in self.stories.values() for run in story.runs]

    @property
    def statuses(self) -> dict[str, str]:
        """Every task with what became of it."""
        return {story.task_id: story.status for story in self.stories.values()}

    @property
    def ends(self) -> Counter[str]:
        """How runs ended."""
        return sum((story.ended for story in self.stories.values()), Counter())
