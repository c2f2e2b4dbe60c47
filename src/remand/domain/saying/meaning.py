"""Who and what a pattern's slots name, and the wishes that follow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from remand.domain.record import Record
from remand.domain.roles import USER, Role
from remand.domain.saying import wishes as w
from remand.domain.saying.patterns import Pattern
from remand.domain.saying.reading import Sentence
from remand.domain.saying.vocabulary import Vocabulary

_MISSING = {
    "task": "Say for which task.",
    "agent": "Say which agent.",
    "reviewer": "Say who should review it.",
    "target": "Say who should take it over.",
}
_REQUIRED: dict[type[w.Wish], tuple[str, ...]] = {
    w.ReviewWish: ("reviewer", "task"),
    w.UnlockWish: ("agent", "task"),
    w.ReassignWish: ("target", "task"),
    w.EscalateWish: ("task",),
    w.StatusWish: ("task",),
    w.AnswerWish: ("task", "option"),
}


class Slots:
    """What a pattern found: slot by slot the shape that stands there, and the sentence it stands in."""

    def __init__(self, names: dict[str, str], sentence: Sentence) -> None:
        self.names = names
        self.sentence = sentence


class Meaning(Record, kw_only=True):
    """The wishes a sentence may mean, and what is doubtful about it."""

    wishes: tuple[w.Wish, ...] = ()
    doubt: str = ""
    is_loose: bool = False


def mean(
    pattern: Pattern,
    slots: Slots,
    vocabulary: Vocabulary,
    *,
    reason: str = "",
    guidance: str = "",
    doubt: str = "",
) -> Meaning:
    """The wishes that a pattern's slots lead to."""
    reading = _Reading(slots, vocabulary)
    known = {slot: reading.known(slot) for slot in slots.names}
    known = reading.completed(pattern.wish, known)
    told = {"reason": reason, "guidance": guidance}
    made = tuple(_wishes(pattern.wish, known, told))
    if "human" in known and not reading.is_user(known["human"]):
        made += tuple(
            w.ReassignWish(task=task, target=name) for task in known["task"] for name in known["human"]
        )
        reading.doubts.append("Escalations go to the user, and to nobody else.")
    if pattern.is_loose:
        reading.doubts.append("That may mean more than one thing.")
    every = [doubt, *reading.doubts]
    return Meaning(wishes=made, doubt=next((one for one in every if one), ""), is_loose=pattern.is_loose)


class _Reading:
    """Looks up what slots name, and notes what is not certain about it."""

    def __init__(self, slots: Slots, vocabulary: Vocabulary) -> None:
        self._slots = slots
        self._vocabulary = vocabulary
        self.doubts: list[str] = []

    def known(self, slot: str) -> tuple[Any, ...]:
        """Everything a slot may name."""
        shape = self._slots.names[slot]
        if slot == "option":
            return (shape,)
        if shape in ("i", "me", "myself"):
            return (self._vocabulary.speaker,)
        token = self._slots.sentence.tokens[int(shape[1:])]
        said = self._slots.sentence.text[token.start : token.end]
        if token.reference is not None:
            tasks = self._vocabulary.tasks.find(token.reference)
            self._doubt_unless_one(tasks, said, f"There is no task {said} here.")
            return tasks
        if token.names:
            self._doubt_unless_one(token.names, said, "")
            return token.names
        return self._nearly(said)

    def _doubt_unless_one(self, found: tuple[Any, ...], said: str, none: str) -> None:
        if len(found) != 1:
            meant = " or ".join(one if isinstance(one, str) else one.label for one in found)
            self.doubts.append(f"{said} may mean {meant}." if found else none)

    def _nearly(self, said: str) -> tuple[str, ...]:
        near = self._vocabulary.near(said)
        everyone = ", ".join(self._vocabulary.having(*Role))
        self.doubts.append(
            f"There is no {said}. Did you mean {' or '.join(near)}?"
            if near
            else f"There is no {said} here; there are {everyone or 'no members yet'}."
        )
        return near

    def completed(self, wish: type[w.Wish], known: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        """Puts what may be meant where nothing was named."""
        if wish is w.AnswerWish:
            ways = {"unlock": known.get("agent", ()), "reassign": known.get("target", ())}
            known = {
                "option": tuple(f"{way}:{name}" for way, names in ways.items() for name in names),
                **known,
            }
        for slot in _REQUIRED.get(wish, ()):
            if slot not in known:
                self.doubts.insert(0, _MISSING[slot])
                known = known | {slot: tuple(dict.fromkeys(self._possible(slot, known)))}
        return known

    def _possible(self, slot: str, known: dict[str, tuple[Any, ...]]) -> Iterator[Any]:
        tasks = self._vocabulary.tasks
        match slot:
            case "task":
                for agent in known.get("agent", ()):
                    yield from tasks.locking_out(agent)
            case "agent":
                for task in known.get("task", ()):
                    yield from tasks.locked_out_of(task.id)
            case "reviewer":
                yield from self._vocabulary.having(Role.LEAD, Role.TESTER)
            case _:
                barred = {name for task in known.get("task", ()) for name in tasks.locked_out_of(task.id)}
                barred.update(known.get("source", ()))
                yield from (name for name in self._vocabulary.having(Role.AGENT) if name not in barred)

    def is_user(self, names: tuple[str, ...]) -> bool:
        """True when one of the names is the user's."""
        return any(name == USER or name in self._vocabulary.having(Role.USER) for name in names)


def _wishes(wish: type[w.Wish], known: dict[str, tuple[Any, ...]], told: dict[str, str]) -> Iterator[w.Wish]:
    """One wish for each way the slots can be filled."""
    fields = [field for field in known if field in wish.__struct_fields__]
    texts = {name: text for name, text in told.items() if name in wish.__struct_fields__}
    if wish is w.AnswerWish:
        texts = {"guidance": told["guidance"] or told["reason"]}
    for values in product(*(known[field] for field in fields)):
        yield wish(**dict(zip(fields, values, strict=True)), **texts)
