"""Trust in keys: changes of `remand.toml`, previews, and events that no trusted key covers."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from remand import config
from remand.app.errors import EnvironmentFault, UsageError
from remand.app.events.signatures import Signer, Subjects, Verifier, Voucher, last_counted_number
from remand.app.events.task_folds import task_events
from remand.app.ledger import Ledger
from remand.app.ports import Exchange
from remand.app.requests import Rules
from remand.domain.access.keys import ChainEnd, KeyRequest, PublicKey, parse_public_key
from remand.domain.access.team import Actor
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.log import SessionAdopted
from remand.domain.evolve import replay
from remand.domain.record import Record
from remand.ledger import codec
from remand.ledger.event_tables import UnconfirmedEvent
from remand.ledger.order import order_key
from remand.ledger.problems import LEDGER, BadLine
from remand.ledger.signatures import (
    MAX_ADOPTED_NAME,
    MAX_SEQ,
    VOID,
    Doubt,
    EventGroup,
    GroupedEvent,
    adoption_session,
    chain_start,
)
from remand.ledger.store import Transaction


class ProjectFile:
    """The configuration in the main worktree, whether or not the base branch has it."""

    def __init__(self, root: str) -> None:
        self._path = Path(root, config.NAME)

    def trusted_keys(self) -> tuple[PublicKey, ...]:
        """The keys that it trusts."""
        try:
            return config.parse(self._read(), source="working tree").trusted
        except config.ConfigError:
            return ()

    def add_trusted(self, key: PublicKey) -> bool:
        """Adds a key; False if only a person can make the change."""
        return self._replace(add_trusted_key(self._read_valid(), key))

    def end_trust(self, key: PublicKey, ends: Sequence[ChainEnd]) -> bool:
        """Ends the trust in a key; False if only a person can make the change."""
        return self._replace(end_key_trust(self._read_valid(), key, ends))

    def _read(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise EnvironmentFault(
                f"{config.NAME} cannot be read ({error}). Fix that, then repeat."
            ) from None

    def _read_valid(self) -> str:
        text = self._read()
        try:
            config.parse(text)
        except config.ConfigError as error:
            raise EnvironmentFault(str(error)) from None
        return text

    def _replace(self, text: str | None) -> bool:
        if text is None:
            return False
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.draft")
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(self._path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise EnvironmentFault(
                f"{self._path} cannot be written ({error.strerror}). Fix that, then repeat."
            ) from None
        return True


def request_for_trust(rules: Rules, own: PublicKey) -> str:
    """The text with which another machine can trust this one's key; empty if the base already does."""
    return KeyRequest(project=rules.project, key=own).text if rules.untrusted_key_id(own) else ""


def missing_lines(rules: Rules, own: PublicKey, fresh_id: str) -> list[str]:
    """What to add to a configuration so that this machine's events count for others.

    If others are already trusted, one of them adds the key, with the text of `request_for_trust`.
    """
    lines = [] if rules.project else [f'`id = "{fresh_id}"` to `[project]`']
    is_listed = own.id in {key.id for key in rules.trusted}
    if not is_listed and not request_for_trust(rules, own):
        lines.append(f'`"{own.entry}",` to `trusted = [ … ]` in `[keys]`')
    return lines


_TABLE = re.compile(r"^\[keys\][^\S\n]*(?:#[^\n]*)?$", re.MULTILINE)
_LIST = re.compile(r"^trusted\s*=\s*\[", re.MULTILINE)
_WITHIN = r"(?:[^{}]|\{[^{}]*\})*"
"""The rest of an inline table around a text in it."""


def add_trusted_key(text: str, key: PublicKey) -> str | None:
    """A configuration that trusts one more key; None if only a person can make the change."""
    listed = _trusted_entries(text)
    line = f'  "{key.entry}",\n'
    table = _TABLE.search(text)
    if table is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{gap}\n[keys]\ntrusted = [\n{line}]\n"
    elif match := _LIST.search(text, table.end()):
        rest = text[match.end() :]
        changed = f"{text[: match.end()]}\n{line}{rest.lstrip() if rest.startswith(chr(10)) else rest}"
    else:
        changed = f"{text[: table.end()]}\ntrusted = [\n{line}]{text[table.end() :]}"
    return changed if _has_only_key_changes(changed, text, [key.entry, *listed]) else None


def end_key_trust(text: str, key: PublicKey, ends: Sequence[ChainEnd]) -> str | None:
    """A configuration that trusts a key up to these places; None if only a person can make the change."""
    listed = _trusted_entries(text)
    written = next((entry for entry in listed if _is_entry_of(entry, key)), None)
    if written is None:
        return None
    is_text = isinstance(written, str)
    name = re.escape(written if is_text else str(written["key"]))
    quoted = rf"""(["']){name}\1"""
    pattern = quoted if is_text else rf"\{{{_WITHIN}?{quoted}{_WITHIN}\}}"
    named = (
        parse_public_key(written)
        if is_text
        else parse_public_key(f"{written['key']} {written.get('name', '')}")
    )
    entry = trusted_entry_text(named or key, ends)
    changed = re.sub(pattern, lambda _: entry, text, count=1)
    entry_value = tomllib.loads(f"x = {entry}")["x"]
    return (
        changed
        if _has_only_key_changes(changed, text, [entry_value if one is written else one for one in listed])
        else None
    )


def trusted_entry_text(key: PublicKey, ends: Sequence[ChainEnd]) -> str:
    """A key and the end of its trust as an entry of `trusted`."""
    rows = "".join(
        f'    {{ session = "{end.session}", number = {end.number}, chain = "{end.chain}" }},\n'
        for end in ends
    )
    until = f"[\n{rows}  ]" if rows else "[]"
    return f'{{ key = "{key.entry}", until = {until} }}'


def _is_entry_of(entry: Any, key: PublicKey) -> bool:
    public_key = parse_public_key(entry if isinstance(entry, str) else str(entry.get("key", "")))
    return public_key is not None and public_key.id == key.id


def _trusted_entries(text: str) -> list[Any]:
    entries = tomllib.loads(text).get("keys", {}).get("trusted", [])
    return list(entries)


def _has_only_key_changes(changed: str, text: str, entries: list[Any]) -> bool:
    """True if a changed configuration lists these keys and is otherwise unchanged."""
    try:
        after, before = tomllib.loads(changed), tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    listed = after.pop("keys", {}).pop("trusted", [])
    return sorted(map(_entry_json, listed)) == sorted(map(_entry_json, entries)) and _other_tables(
        after
    ) == _other_tables(before)


def _entry_json(entry: Any) -> str:
    return json.dumps(entry, sort_keys=True)


def _other_tables(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "keys"}


class EventCount(Record, kw_only=True):
    """The number of affected events of a kind and task."""

    task_id: str
    event: str
    count: int


class StatusChange(Record, kw_only=True):
    """A task whose status would change; empty if the task does not, or would not, exist."""

    task_id: str
    before: str
    after: str


class TrustChange(Record, kw_only=True):
    """The effects of a change of trust."""

    lost: tuple[EventCount, ...] = ()
    gained: tuple[EventCount, ...] = ()
    tasks: tuple[StatusChange, ...] = ()


class AffectedEvents(NamedTuple):
    """The events that would lose or gain effect."""

    lost: list[Event]
    gained: list[Event]


def find_affected_events(view: Transaction, verifier: Verifier, key: str) -> AffectedEvents:
    """The events whose effect depends on how far a key is trusted, under the verifier's trust."""
    groups = list(view.groups.every())
    after = verifier.doubts(one.group for one in groups if one.group.key == key)
    concerned = {name.id for group in after for name in group.events}
    counted = {
        event_id
        for one in groups
        if not (after.get(one.group, one.doubt))
        for event_id in _counted_event_ids(one.group, verifier)
        if event_id in concerned
    }
    doubts = {one.event_id: one.doubt for one in view.unconfirmed.every()}
    events = AffectedEvents([], [])
    for line in view.events.lines() if concerned else ():
        event = codec.decode_stored_line(line)
        doubt = doubts.get(event.meta.id, Doubt.NONE)
        if event.meta.id not in concerned or doubt is Doubt.VOID:
            continue
        if not doubt and event.meta.id not in counted:
            events.lost.append(event)
        elif doubt and event.meta.id in counted:
            events.gained.append(event)
    return events


def _counted_event_ids(group: EventGroup, verifier: Verifier) -> Iterable[str]:
    last = last_counted_number(group, verifier.trust)
    return (name.id for seq, name in group.numbered_events() if seq <= last and name.task != VOID)


def preview_trust_change(
    view: Transaction, *, lost: Sequence[Event] = (), gained: Sequence[Event] = ()
) -> TrustChange:
    """The effects of events losing or gaining effect."""
    subjects = Subjects(view)
    less = _by_task(lost, subjects)
    more = _by_task(gained, subjects)
    tasks = []
    for task_id in sorted({*less, *more} - {""}):
        gone = {event.meta.id for event in less.get(task_id, ())}
        events = [event for event in task_events(view, task_id) if event.meta.id not in gone]
        task, then = view.tasks.get(task_id), replay(sorted([*events, *more.get(task_id, ())], key=order_key))
        before, after = (str(one.status) if one else "" for one in (task, then))
        if before != after:
            tasks.append(StatusChange(task_id=task_id, before=before, after=after))
    return TrustChange(lost=_event_counts(less), gained=_event_counts(more), tasks=tuple(tasks))


def _by_task(events: Iterable[Event], subjects: Subjects) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[subjects.task_of(event)].append(event)
    return found


def _event_counts(events: dict[str, list[Event]]) -> tuple[EventCount, ...]:
    counts = Counter((task_id, event.name) for task_id, own in events.items() for event in own)
    return tuple(
        EventCount(task_id=task_id, event=name, count=count)
        for (task_id, name), count in sorted(counts.items())
    )


_MOST_NAMED = 20


class Revocation(NamedTuple):
    """Where the trust in a key would end, the source of that (`base` or `ledger`), and the effects."""

    ends: tuple[ChainEnd, ...]
    source: str
    change: TrustChange


def plan_revocation(
    view: Transaction,
    key: PublicKey,
    published: Iterable[EventGroup],
    *,
    verifier: Verifier,
    start: str = "",
) -> Revocation:
    """Ends the trust in a key after what the base has published; if the base has nothing of the key, after what is here.

    `start` names, as SESSION:N, the first event of a session that somebody else wrote with the key.
    """
    trust = verifier.trust
    whole = verifier.with_trust(replace(trust, keys=(replace(key, until=None),)))
    base = _groups_signed_by(published, key, whole)
    here = _groups_signed_by((one.group for one in view.groups.every()), key, whole)
    ends = _last_chain_ends(base or here)
    if start:
        session, number = _parse_place(start)
        ends.pop(session, None)
        if number > 1 or not _groups_of_session(session, [*base, *here]):
            ends[session] = _end_before(session, number, base, here)
    until = tuple(end for _, end in sorted(ends.items()))
    others = tuple(other for other in trust.keys if other.id != key.id)
    after = verifier.with_trust(replace(trust, keys=(*others, replace(key, until=until))))
    moved = find_affected_events(view, after, key.id)
    change = preview_trust_change(view, lost=moved.lost, gained=moved.gained)
    return Revocation(until, "base" if base else "ledger", change)


def _groups_signed_by(groups: Iterable[EventGroup], key: PublicKey, verifier: Verifier) -> list[EventGroup]:
    """The groups signed by the key."""
    found = verifier.doubts(group for group in groups if group.key == key.id)
    return [group for group, doubt in found.items() if not doubt]


def _last_chain_ends(groups: Iterable[EventGroup]) -> dict[str, ChainEnd]:
    """The last place of each session; for a forked one, that of the longest branch."""
    found: dict[str, ChainEnd] = {}
    for group in sorted(groups, key=lambda group: (group.last, group.after)):
        found[group.session] = ChainEnd(session=group.session, number=group.last, chain=group.after)
    return found


def _parse_place(start: str) -> tuple[str, int]:
    session, _, number = start.rpartition(":")
    if not session or not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise UsageError(
            f"{start!r} names no event. Write SESSION:N: the session, and the number of its first event that does not count."
        )
    return session, int(number)


def _groups_of_session(session: str, groups: Iterable[EventGroup]) -> list[EventGroup]:
    return [group for group in groups if group.session == session]


def _end_before(
    session: str, number: int, base: Sequence[EventGroup], here: Sequence[EventGroup]
) -> ChainEnd:
    """The place before an event, from the base's part of its session, else from the local one."""
    known = _groups_of_session(session, [*base, *here])
    if not known:
        names = sorted({group.session for group in [*base, *here]})
        listed = ", ".join(names[:_MOST_NAMED]) or "none"
        raise UsageError(f"The key has signed no session {session!r}. It has signed: {listed}.")
    at = number - 1
    chains = _chains_at(at, _groups_of_session(session, base)) or _chains_at(at, known)
    if not chains:
        reach = max(group.last for group in known)
        raise UsageError(
            f"No group that names event {at} of session {session} is here; it reaches event {reach}."
        )
    if len(chains) > 1:
        raise UsageError(
            f"Event {at} of session {session}, or one before it, is here in two versions, both signed by the key. "
            "Name an earlier event."
        )
    return ChainEnd(session=session, number=at, chain=chains.pop())


def _chains_at(number: int, groups: Iterable[EventGroup]) -> set[str]:
    return {chain for group in groups if (chain := group.chain_at(number))}


class UnconfirmedLine(Record, kw_only=True):
    """An event without effect and its place."""

    file: str
    line: int
    event: str
    task_id: str
    why: str
    signer: str
    session: str
    number: int


class UnconfirmedSigner(Record, kw_only=True):
    """The number, sessions and doubts of the ineffective events that a key supposedly signed."""

    signer: str
    why: str
    events: int
    sessions: tuple[str, ...]


def unconfirmed_signers(withheld: Iterable[UnconfirmedEvent], most: int) -> list[UnconfirmedSigner]:
    """The ineffective events by signer and reason, with their first sessions."""
    found: dict[tuple[str, Doubt], list[str]] = defaultdict(list)
    for unconfirmed_event in withheld:
        event = codec.decode_stored_line(unconfirmed_event.line)
        found[unconfirmed_event.signer, unconfirmed_event.doubt].append(
            "" if event.is_legacy else event.meta.session
        )
    return [
        UnconfirmedSigner(
            signer=signer,
            why=doubt.value,
            events=len(sessions),
            sessions=tuple(sorted({*sessions} - {""})[:most]),
        )
        for (signer, doubt), sessions in sorted(found.items())
    ]


def unconfirmed_lines(view: Transaction, exchange: Exchange, most: int) -> list[UnconfirmedLine]:
    """The first ineffective events by file and line; those in no file come last."""
    withheld = {one.line: one for one in view.unconfirmed.every()}
    lines: list[UnconfirmedLine] = []
    for path, number, event in _find_in_files(exchange, withheld) if withheld else ():
        lines.append(_unconfirmed_line(event, path, number))
        if len(lines) == most:
            return lines
    return lines + [_unconfirmed_line(one, LEDGER, 0) for one in list(withheld.values())[: most - len(lines)]]


def _find_in_files(
    exchange: Exchange, withheld: dict[bytes, UnconfirmedEvent]
) -> Iterator[tuple[str, int, UnconfirmedEvent]]:
    """Removes and yields the events that are in a file."""
    for mark in sorted(exchange.files()):
        for number, line in exchange.read(mark.path):
            event = withheld.pop(line.rstrip(b"\r"), None) if isinstance(line, bytes) else None
            if event is not None:
                yield mark.path, number, event


def _unconfirmed_line(unconfirmed_event: UnconfirmedEvent, path: str, number: int) -> UnconfirmedLine:
    event = codec.decode_stored_line(unconfirmed_event.line)
    return UnconfirmedLine(
        file=path,
        line=number,
        event=event.name,
        task_id=unconfirmed_event.task,
        why=unconfirmed_event.doubt.value,
        signer=unconfirmed_event.signer,
        session="" if event.is_legacy else event.meta.session,
        number=event.meta.seq,
    )


class AdoptableEvents(NamedTuple):
    """A session's ineffective events that could be vouched for."""

    session: str
    events: list[Event]

    @property
    def last(self) -> int:
        """The number of the last one; 0 if there is none."""
        return self.events[-1].meta.seq if self.events else 0


def adopt_sessions(ledger: Ledger, names: Sequence[str], reason: str, actor: Actor) -> list[SessionAdopted]:
    """Makes sessions count whose events are here. Each is named as SESSION, or as SESSION:N up to a number."""

    def choose(tx: Transaction, signer: Signer) -> Voucher:
        groups: list[EventGroup] = []
        events: list[Event] = []
        for name in dict.fromkeys(names):
            adoptable_events = find_adoptable(tx, name)
            named = [GroupedEvent(event.meta.id, event_task_id(event)) for event in adoptable_events.events]
            signed = sign_adoption(tx, adoptable_events.session, named, signer, ledger.clock.now())
            if signed:
                groups += signed
                events.append(
                    SessionAdopted(
                        session=adoptable_events.session,
                        number=adoptable_events.last,
                        count=len(adoptable_events.events),
                        chain=signed[-1].after,
                        reason=reason,
                    )
                )
        return Voucher(groups, events)

    return [event for event in ledger.vouch(choose, actor) if isinstance(event, SessionAdopted)]


def sign_adoption(
    tx: Transaction, adopted: str, named: Sequence[GroupedEvent], signer: Signer, now: str
) -> list[EventGroup]:
    """The groups that name events of an adopted session, continuing those that this key signed before."""
    session = adoption_session(adopted)
    before = [
        one.group for one in tx.groups.of_session(session) if one.group.key == signer.key and not one.doubt
    ]
    last = max(before, key=lambda group: group.last, default=None)
    first, chain = (last.last + 1, last.after) if last else (1, chain_start(session, signer.key))
    return list(signer.sign(session, first, chain, named, now))


def find_adoptable(tx: Transaction, name: str) -> AdoptableEvents:
    """The events of a session that can be adopted. Raises `UsageError` if that cannot be determined.

    Their lines are here, their ids match their lines, and each follows the previous one. Events in the place of an
    effective one, and events voided by their owner, are excluded.
    """
    session, has_number, number = name.partition(":")
    if has_number and not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise UsageError(
            f"{name!r} is not a place in a session. Write SESSION, or SESSION:N for its first N events."
        )
    doubts = {one.event_id: one.doubt for one in tx.unconfirmed.every()}
    versions: dict[int, list[Event]] = defaultdict(list)
    for event in _session_events(tx, session, int(number or 0)):
        versions[event.meta.seq].append(event)
    if not versions:
        raise UsageError(
            f"No event of a session {session!r} is here. `remand keys` lists what is unconfirmed."
        )
    found: list[Event] = []
    for seq, events in sorted(versions.items()):
        if all(doubts.get(event.meta.id, Doubt.NONE) not in (Doubt.NONE, Doubt.VOID) for event in events):
            if len(events) > 1:
                raise _ambiguity_error(session, seq, "is here in two versions")
            before = {event.meta.id for event in versions.get(seq - 1, ())}
            if before and events[0].meta.prev not in before:
                raise _ambiguity_error(session, seq, "does not follow the one before it")
            found += events
    return AdoptableEvents(session, found)


def _session_events(tx: Transaction, session: str, most: int) -> list[Event]:
    """A session's intact events in all versions, up to a number."""
    events = []
    mark = f'"session":"{session}"'.encode()
    for line in tx.events.lines() if 0 < len(session) <= MAX_ADOPTED_NAME else ():
        try:
            event = codec.decode_line(line) if mark in line else None
        except BadLine:
            continue
        if event and event.meta.session == session and 0 < event.meta.seq <= (most or MAX_SEQ):
            events.append(event)
    return events


def _ambiguity_error(session: str, seq: int, what: str) -> UsageError:
    rest = (
        f"Adopt what comes before it: remand keys adopt {session}:{seq - 1}"
        if seq > 1
        else "Adopt none of it"
    )
    return UsageError(f"event {seq} of session {session} {what}, and nobody can tell which is true. {rest}.")
