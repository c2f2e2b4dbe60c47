"""Our entries in a host's settings file: put in, found again, taken out; all else there is left as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from shlex import quote

from remand.adapters.hosts import jsonc
from remand.adapters.hosts.hook import ENDINGS
from remand.adapters.hosts.setup import SECONDS, Setup

SECTION = "hooks"
Table = dict[str, object]


class UnusableSettings(Exception):  # noqa: N818 - it is the settings that are unusable
    """The settings file cannot be written again without losing something."""


class Installed:
    """One of our entries, as it stands in a settings file."""

    __slots__ = ("command", "event", "matcher", "place", "timeout")

    def __init__(self, *, event: str, place: str, matcher: object, command: str, timeout: object) -> None:
        self.event = event
        """The host's own name of the event."""
        self.place = place
        """Which group of that event, and which hook in it: `0:0` is the first."""
        self.matcher = matcher
        self.command = command
        """The line that the host hands to a shell."""
        self.timeout = timeout


def install(setup: Setup, text: str | None, program: Sequence[str]) -> str:
    """The settings with our entries in them, once each, whatever program older ones of ours name."""
    settings = _loaded(setup, text)
    table = _table(setup, settings)
    for event, name in setup.events.items():
        own_name = _spelling(setup, table, name)
        table[own_name] = _replaced(setup, _listed(table, own_name), _entry(setup, event, program))
    return dump(settings, text)


def uninstall(setup: Setup, text: str) -> str | None:
    """The settings without our entries; None when nothing else is in the file."""
    settings = _loaded(setup, text)
    table = _table(setup, settings)
    for own_name, groups in list(table.items()):
        if not isinstance(groups, list):
            continue
        table[own_name] = _without(setup, groups)
        if groups and not table[own_name]:
            del table[own_name]
    if table is not settings and not table:
        del settings[SECTION]
    others = [name for name in settings if name not in setup.host_keys]
    has_more = any(settings[name] != setup.base.get(name) for name in others)
    return dump(settings, text) if has_more else None


def find(setup: Setup, text: str) -> list[Installed]:
    """Our entries in the settings."""
    table = _table(setup, _loaded(setup, text))
    return [found for own_name, groups in table.items() for found in _found(setup, own_name, groups)]


def is_off(setup: Setup, text: str) -> bool:
    """Whether the settings turn all hooks off."""
    value: object = load(text) if setup.switch else None
    for name in setup.switch:
        value = value.get(name) if isinstance(value, dict) else None
    return value is (not setup.is_on_switch)


def names_machine(command: str) -> bool:
    """Whether a line names our program by its path on one machine, which is another one elsewhere."""
    return command.strip("\"'").startswith(("/", "~")) or " /" in command or " '/" in command


def line(setup: Setup, program: Sequence[str], event: str) -> str:
    """The line that the host hands to a shell when an event fires.

    A relative program lies in the project, whose folder the host tells in a variable of its own.
    """
    is_in_project = bool(setup.project) and "/" in program[0] and not program[0].startswith("/")
    first = f'"${{{setup.project}}}"/{quote(program[0])}' if is_in_project else quote(program[0])
    return " ".join([first, *map(quote, program[1:]), "hook", "--host", setup.host, event])


def load(text: str) -> Table:
    """Reads a settings file, which may have comments; raises `UnusableSettings` where it cannot be read."""
    try:
        settings = _strictly(text)
    except RecursionError:
        raise UnusableSettings("it is nested too deeply") from None
    except ValueError as error:
        try:
            settings = jsonc.parse(text).value
        except jsonc.NotJsonError:
            raise UnusableSettings(f"it is not JSON ({error})") from None
    if not isinstance(settings, dict):
        raise UnusableSettings("it is not a JSON object")
    return settings


def _strictly(text: str) -> object:
    return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> Table:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnusableSettings(f"the key {twice!r} stands there twice")
    return fields


def _loaded(setup: Setup, text: str | None) -> Table:
    if text is None or not text.strip("\ufeff \t\r\n"):
        return dict(setup.base)
    return load(text)


def _table(setup: Setup, settings: Table) -> Table:
    """Where the events stand: under a key of their own, or at the top where a host allows that."""
    spellings = {*setup.other_names, *setup.other_names.values()}
    if SECTION not in settings and spellings & set(settings):
        return settings
    table = settings.setdefault(SECTION, {})
    if not isinstance(table, dict):
        raise UnusableSettings(f"{SECTION!r} is not an object")
    return table


def _spelling(setup: Setup, table: Table, name: str) -> str:
    """The name of an event as the file spells it already: two spellings of one event are an error to the host."""
    other = setup.other_names.get(name, "")
    return other if other in table else name


def _listed(table: Table, name: str) -> list[object]:
    groups = table.get(name, [])
    if not isinstance(groups, list):
        raise UnusableSettings(f"{name!r} is not a list")
    return groups


def _entry(setup: Setup, event: str, program: Sequence[str]) -> Table:
    matcher: Table = {"matcher": setup.matchers[event]} if event in setup.matchers else {}
    entry: Table = {
        **setup.extras,
        **(setup.ending_extras if event in ENDINGS else {}),
        setup.command_key: line(setup, program, event),
        setup.timeout_key: SECONDS[event] * setup.timeout_factor,
    }
    return {**matcher, "hooks": [entry]} if setup.is_grouped else {**matcher, **entry}


def _replaced(setup: Setup, groups: list[object], entry: Table) -> list[object]:
    """The groups of one event with our entry where it was before, or at the end."""
    for place, group in enumerate(groups):
        if _is_all_ours(setup, group):
            return [*_without(setup, groups[:place]), entry, *_without(setup, groups[place + 1 :])]
    return [*_without(setup, groups), entry]


def _without(setup: Setup, groups: list[object]) -> list[object]:
    return [_rid(setup, group) for group in groups if not _is_all_ours(setup, group)]


def _rid(setup: Setup, group: object) -> object:
    """A group without the entries of ours that stand among others."""
    if not setup.is_grouped or not isinstance(group, dict):
        return group
    hooks = _hooks(setup, group)
    others = [one for one in hooks if not _is_ours(setup, one)]
    return {**group, "hooks": others} if len(others) < len(hooks) else group


def _is_all_ours(setup: Setup, group: object) -> bool:
    hooks = _hooks(setup, group)
    return bool(hooks) and all(_is_ours(setup, one) for one in hooks)


def _hooks(setup: Setup, group: object) -> list[object]:
    if not setup.is_grouped:
        return [group]
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def _is_ours(setup: Setup, entry: object) -> bool:
    before, found, _ = _line_of(setup, entry).partition(f" hook --host {setup.host} ")
    return bool(found) and "remand" in before


def _line_of(setup: Setup, entry: object) -> str:
    """The command of an entry, in whichever of a host's forms someone has written it."""
    if not isinstance(entry, dict):
        return ""
    command, words = str(entry.get(setup.command_key, "")), entry.get("args")
    if not isinstance(words, list):
        return command
    return " ".join(map(quote, [command, *map(str, words)]))


def _found(setup: Setup, own_name: str, groups: object) -> Iterator[Installed]:
    for first, group in enumerate(groups if isinstance(groups, list) else []):
        for second, entry in enumerate(_hooks(setup, group)):
            if isinstance(entry, dict) and _is_ours(setup, entry):
                yield Installed(
                    event=own_name,
                    place=f"{first}:{second}",
                    matcher=group.get("matcher") if isinstance(group, dict) else None,
                    command=_line_of(setup, entry),
                    timeout=entry.get(setup.timeout_key),
                )


def dump(settings: Table, before: str | None) -> str:
    """A settings file: changed in place where that is enough, else written anew and indented as it was before.

    Raises `UnusableSettings` where the latter would lose comments.
    """
    edited = jsonc.edit(before, settings) if before else None
    if edited is not None:
        return edited
    if before and before.strip("\ufeff \t\r\n"):
        try:
            _strictly(before)
        except ValueError as error:
            raise UnusableSettings(
                f"it is not JSON ({error}), and its comments would be lost if it were written anew"
            ) from None
    return json.dumps(settings, indent=_indent(before or ""), ensure_ascii=False) + "\n"


def _indent(text: str) -> str:
    """What the file is indented with already; two spaces for a new one."""
    for row in text.splitlines()[1:]:
        start = row[: len(row) - len(row.lstrip(" \t"))]
        if start and row.strip():
            return start
    return "  "
