"""Forged lines of every kind, made from a real log by somebody who can write files and has no trusted key.

Every kind of event and every field of it has its turn. A forgery starts from a real event of its kind, or from a likely
one, and changes that field; then it is written in one of several ways: unsigned, signed by a stranger, with a signature
that was made for another project or another place, in the form of earlier versions, or as a line of a GoT tool.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from remand.app.events.signatures import Signer
from remand.app.ports import Keys
from remand.domain.events.catalogue import NATIVE, event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.instant import add_seconds
from remand.domain.record import Record
from remand.ledger import codec, signatures
from remand.ledger.legacy import _READERS
from remand.ledger.signatures import GroupedEvent, chain_start
from remand.testing.fakes import FakeKeys

STRANGER = FakeKeys("a stranger")
OTHER_PROJECT = "fedcba9876543210"
LEGACY_NAMES = tuple(_READERS)
META = tuple(name for name in Meta.__struct_fields__ if name != "id")
TARGETS = tuple(
    (kind, field)
    for kind in NATIVE
    for field in (
        *(name for name in kind.__struct_fields__ if name != "meta"),
        *(f"meta.{name}" for name in META),
    )
)
"""Every kind of event with every field of it, and of its origin."""
_ODD = (
    "",
    "something",
    "#1",
    "user",
    "\x00\u2028\N{RIGHT-TO-LEFT OVERRIDE}",
    '","meta":{"id":"',
    "🏚" * 10,
    "-",
)
_HINTS = {kind: get_type_hints(kind) for kind in NATIVE}


class Forgery(NamedTuple):
    """Lines that somebody forged, and how."""

    way: str
    kind: str
    field: str
    lines: list[bytes]

    def __str__(self) -> str:
        return f"{self.way}: {self.kind}, {self.field}\n" + "\n".join(map(repr, self.lines))


class Forger:
    """Makes forgeries against one log, whose lines it has read."""

    def __init__(self, rng: random.Random, lines: Iterable[bytes], trusted: Keys, project: str) -> None:
        self._rng = rng
        self._trusted = trusted
        self._project = project
        self._real: dict[type[Event], list[Event]] = defaultdict(list)
        self._texts: dict[str, set[str]] = defaultdict(set)
        self._groups: list[signatures.EventGroup] = []
        self._lines = [line for line in lines if line]
        for line in self._lines:
            if signatures.is_group(line):
                self._groups.append(signatures.decode_group(line))
                continue
            event = codec.decode_line(line)
            if event.is_legacy:
                continue
            self._real[type(event)].append(event)
            self._learn("", msgspec.to_builtins(event))
        self._events = [event for events in self._real.values() for event in events]
        self._pools = {name: sorted(found) for name, found in self._texts.items()}
        self._ways: dict[str, Callable[[Event], list[bytes]]] = {
            "unsigned": self._unsigned,
            "signed by a stranger": self._by_a_stranger,
            "signed in the name of a trusted key": self._in_the_name_of_another,
            "signed for another project": self._for_another_project,
            "in the place of a signed event": self._in_the_place_of_another,
            "behind a true signature": self._behind_a_true_signature,
            "in the form of earlier versions": self._in_the_old_form,
            "as a line of a GoT tool": self._as_a_tool,
            "true lines, shuffled and doubled": self._shuffled,
        }

    def forge(self, count: int) -> Iterator[Forgery]:
        """So many forgeries: every kind and field in turn, from another place each time, in every way."""
        names = list(self._ways)
        start = self._rng.randrange(len(TARGETS))
        for number in range(count):
            kind, field = TARGETS[(start + number) % len(TARGETS)]
            way = names[(number + number // len(TARGETS)) % len(names)]
            lines = self._ways[way](self._event(kind, field))
            yield Forgery(way, str(kind.__struct_config__.tag), field, lines)

    # What is forged.

    def _event(self, kind: type[Event], field: str) -> Event:
        """An event of a kind with a stamp, in which one field is not what it was."""
        real = self._real.get(kind)
        event = self._rng.choice(real) if real and self._rng.random() < 0.8 else self._likely(kind)
        like = self._rng.choice(self._events)
        meta = replace(
            like.meta,
            id="",
            **self._rng.choice(
                [
                    {"session": f"20261115-080000-{self._rng.randrange(1 << 32):08x}", "seq": 1, "prev": ""},
                    {},
                    {"seq": like.meta.seq + 1, "prev": like.meta.id},
                    {"seq": like.meta.seq + self._rng.choice([100, 1 << 20])},
                ]
            ),
        )
        ts = self._rng.choice(
            [like.ts, add_seconds(like.ts, 1), add_seconds(like.ts, -60), self._events[-1].ts]
        )
        event = replace(event, ts=ts, meta=meta)
        if field.startswith("meta."):
            name = field.removeprefix("meta.")
            return replace(event, meta=replace(meta, **{name: self._of_origin(name)}))
        if field == "ts":
            return replace(
                event, ts=add_seconds(ts, self._rng.choice([-1e6, -1e-6, 1e-6, 3600, 90_000, 1e7]))
            )
        return replace(event, **{field: self._value(field, _HINTS[kind][field])})

    def _likely(self, kind: type[Event]) -> Event:
        names = (name for name in kind.__struct_fields__ if name not in ("ts", "meta"))
        return kind(**{name: self._value(name, _HINTS[kind][name]) for name in names})

    def _of_origin(self, name: str) -> Any:
        if name in ("seq", "more"):
            return self._rng.choice([1, 2, 3, 10_000, (1 << 40) - 1])
        if name == "session":
            return self._rng.choice([*self._pools["session"], "import-" + "0" * 32, "s", "-"[:0] or "x"])
        return self._rng.choice([*self._pools.get(name, ()), self._trusted.ensure_key().id, "", "A" * 86])

    def _value(self, name: str, hint: Any) -> Any:
        """A value of a type: one that the log has under that name, where it has any, or an odd one."""
        if hint is str:
            return self._rng.choice([*self._pools.get(name, ()), *self._rng.sample(_ODD, 2)])
        if hint is bool:
            return self._rng.random() < 0.5
        if hint is int:
            return self._rng.choice([-1, 0, 1, 2, 3, 1 << 40])
        if hint is float:
            return self._rng.choice([0.0, 1.0, 99.5])
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self._rng.choice(list(hint))
        if isinstance(hint, type) and issubclass(hint, Record):
            hints = get_type_hints(hint)
            return hint(**{field: self._value(field, hints[field]) for field in hint.__struct_fields__})
        return self._container(name, hint)

    def _container(self, name: str, hint: Any) -> Any:
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (tuple, list):
            return origin(self._value(name, inner[0]) for _ in range(self._rng.randrange(3)))
        if origin is dict:
            return {key: self._value(name, inner[1]) for key in self._rng.sample(["tests", "meta", "id"], 2)}
        if origin in (Union, UnionType):
            one = self._rng.choice(inner)
            return None if one is type(None) else self._value(name, one)
        return self._rng.choice(["something", 1, None, {"type": "HARD"}])

    def _learn(self, name: str, value: Any) -> None:
        """Remembers the texts of a real event by the names of their fields."""
        if isinstance(value, dict):
            for key, item in value.items():
                self._learn(key, item)
        elif isinstance(value, list):
            for item in value:
                self._learn(name, item)
        elif isinstance(value, str) and len(self._texts[name]) < 50:
            self._texts[name].add(value)

    # How it is written.

    def _written(self, event: Event) -> tuple[Event, bytes]:
        return codec.encode_event(event, event.meta)

    def _signed(self, event: Event, keys: Keys, project: str) -> list[bytes]:
        written, line = self._written(event)
        meta = written.meta
        start = self._rng.choice([chain_start(meta.session, keys.ensure_key().id), self._before(meta)])
        named = [GroupedEvent(meta.id, event_task_id(written))]
        groups = Signer(keys, project).sign(meta.session, meta.seq, start, named, written.ts)
        return [*map(signatures.encode_group, groups), line]

    def _before(self, meta: Meta) -> str:
        """The chain's value where the session's real groups end before an event, if they do."""
        return next(
            (
                group.after
                for group in self._groups
                if (group.session, group.last) == (meta.session, meta.seq - 1)
            ),
            "0" * 32,
        )

    def _unsigned(self, event: Event) -> list[bytes]:
        return [self._written(event)[1]]

    def _by_a_stranger(self, event: Event) -> list[bytes]:
        return self._signed(event, STRANGER, self._project)

    def _in_the_name_of_another(self, event: Event) -> list[bytes]:
        group, line = self._signed(event, STRANGER, self._project)
        return [
            signatures.encode_group(
                replace(signatures.decode_group(group), key=self._trusted.ensure_key().id)
            ),
            line,
        ]

    def _for_another_project(self, event: Event) -> list[bytes]:
        return self._signed(event, self._trusted, OTHER_PROJECT)

    def _in_the_place_of_another(self, event: Event) -> list[bytes]:
        """A real group, changed so that it names the forged event, with the signature it had."""
        group = self._rng.choice(self._groups)
        at = self._rng.randrange(len(group.events))
        place = {"session": group.session, "seq": group.first + at}
        written, line = self._written(replace(event, meta=replace(event.meta, **place)))
        names = list(group.events)
        names[at] = GroupedEvent(written.meta.id, event_task_id(written))
        shorter = self._rng.choice([names, names[: at + 1]])
        return [signatures.encode_group(replace(group, events=tuple(shorter))), line]

    def _behind_a_true_signature(self, event: Event) -> list[bytes]:
        group = self._rng.choice(self._groups)
        place = {"session": group.session, "seq": self._rng.randint(group.first, group.last + 1)}
        return [
            signatures.encode_group(group),
            self._written(replace(event, meta=replace(event.meta, **place)))[1],
        ]

    def _in_the_old_form(self, event: Event) -> list[bytes]:
        signed = {"signer": self._trusted.ensure_key().id, "signature": "A" * 86}
        return [self._written(replace(event, meta=replace(event.meta, **signed)))[1]]

    def _as_a_tool(self, event: Event) -> list[bytes]:
        """The same fields without id, number and chain, sometimes under a name that GoT tools use."""
        fields = msgspec.to_builtins(event)
        fields["meta"] = {"session": event.meta.session, "branch": "main"}
        if self._rng.random() < 0.5:
            fields["event"] = self._rng.choice(LEGACY_NAMES)
        return [json.dumps(fields).encode()]

    def _shuffled(self, event: Event) -> list[bytes]:
        true = self._rng.sample(self._lines, min(len(self._lines), 20))
        return self._rng.sample([*true, *true[:5], self._written(event)[1]], len(true) + 6)


def spread(rng: random.Random, forgeries: Sequence[Forgery], most: int = 40) -> list[tuple[str, list[bytes]]]:
    """The forgeries' lines in files of several, under names that sort before, between and behind real ones."""
    files: list[tuple[str, list[bytes]]] = []
    rest = list(forgeries)
    while rest:
        size = rng.randint(1, most)
        name = f"{rng.choice(['0', '2026', '20261115-09', 'part', 'z'])}-{rng.randrange(1 << 40):010x}"
        files.append((f"/events/{name}.jsonl", [line for forgery in rest[:size] for line in forgery.lines]))
        rest = rest[size:]
    return files
