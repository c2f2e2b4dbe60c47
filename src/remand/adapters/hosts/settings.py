"""Our entries in hosts' settings files, hooks and MCP server: adds, finds and removes them without changing anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import NamedTuple

from remand.adapters.hosts.host import SERVER_NAME, McpEntry, Setup
from remand.app.hook_calls import ENDINGS, SECONDS
from remand.domain.text.toml import toml_value

MAX_DEPTH = 100
_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')
_CLOSING = {"{": "}", "[": "]"}

TextEdit = tuple[int, int, str]
"""A replacement in a text: start, end, new text."""


class NotJsonError(ValueError):
    """The text is not JSON, not even with comments."""


class JsonNode(NamedTuple):
    """A value and its position in the text."""

    value: object
    start: int
    end: int
    items: list[JsonItem]
    """The members of an object or the elements of a list, in order."""


class JsonItem(NamedTuple):
    """A member of an object, or an element of a list."""

    key: str
    node: JsonNode
    start: int
    """The position of its key, or of its value if it has none."""
    comma: int = -1
    """The position of the comma after it; -1 if there is none."""


def parse_jsonc(text: str) -> JsonNode:
    """Parses a text; raises `NotJsonError`, also for a duplicate key in an object."""
    begin = 1 if text.startswith("\ufeff") else 0
    node = _value(text, _skip(text, begin), 0)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise NotJsonError(f"there is more after its end at character {rest}")
    return node


def edit_jsonc(text: str, wanted: object) -> str | None:
    """Edits a text so that its value is `wanted`, leaving the rest as it was.

    Only removes members and elements and replaces plain values; None if more would be needed.
    """
    try:
        changed = text
        for start, end, new in sorted(_text_edits(text, parse_jsonc(text), wanted), reverse=True):
            changed = changed[:start] + new + changed[end:]
        return changed if parse_jsonc(changed).value == wanted else None
    except NotJsonError:
        return None


def _text_edits(text: str, node: JsonNode, wanted: object) -> Iterator[TextEdit]:
    if node.value == wanted:
        return
    if isinstance(node.value, dict) and isinstance(wanted, dict):
        kept = {id(item): wanted[item.key] for item in node.items if item.key in wanted}
    elif isinstance(node.value, list) and isinstance(wanted, list):
        kept = _align_elements(node.items, wanted)
    else:
        yield node.start, node.end, json.dumps(wanted, ensure_ascii=False)
        return
    for item in node.items:
        if id(item) in kept:
            yield from _text_edits(text, item.node, kept[id(item)])
    yield from _removals(text, node.items, {id(item) for item in node.items} - set(kept))


def _align_elements(items: list[JsonItem], wanted: list[object]) -> dict[int, object]:
    """Assigns the wanted elements to existing ones, preferring equal ones; the others are removed."""
    kept: dict[int, object] = {}
    rest = list(wanted)
    for place, item in enumerate(items):
        spare = len(items) - place - len(rest)
        if rest and (item.node.value == rest[0] or spare <= 0 or _is_part(rest[0], item.node.value)):
            kept[id(item)] = rest.pop(0)
    return kept


def _is_part(wanted: object, value: object) -> bool:
    """True if `wanted` is `value` without some of its members or elements."""
    if isinstance(wanted, dict) and isinstance(value, dict):
        return all(key in value and _is_part(one, value[key]) for key, one in wanted.items())
    if isinstance(wanted, list) and isinstance(value, list):
        rest = iter(value)
        return all(any(_is_part(one, other) for other in rest) for one in wanted)
    return wanted == value


def _removals(text: str, items: list[JsonItem], gone: set[int]) -> Iterator[TextEdit]:
    """The edits that remove items with their commas; comments stay, and so does the indentation of what follows."""
    kept_before: JsonItem | None = None
    for place, item in enumerate(items):
        if id(item) not in gone:
            kept_before = item
            continue
        has_kept_behind = any(id(other) not in gone for other in items[place + 1 :])
        end = item.comma + 1 if item.comma >= 0 else item.node.end
        if has_kept_behind:
            yield item.start, end + len(text[end:]) - len(text[end:].lstrip(" \t\r\n")), ""
            continue
        begin = len(text[: item.start].rstrip(" \t\r\n"))
        if kept_before is not None and kept_before.comma >= 0:
            yield kept_before.comma, kept_before.comma + 1, ""
            kept_before = None
        yield begin, end, ""


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> JsonNode:
    if depth > MAX_DEPTH:
        raise NotJsonError("it is nested too deeply")
    if text[at : at + 1] in _CLOSING:
        return _container(text, at, depth)
    found = _SCALAR.match(text, at)
    if found is None:
        raise NotJsonError(f"there is no value at character {at}")
    try:
        return JsonNode(json.loads(found[0]), at, found.end(), [])
    except ValueError as error:
        raise NotJsonError(str(error)) from None


def _container(text: str, start: int, depth: int) -> JsonNode:
    closing, is_object = _CLOSING[text[start]], text[start] == "{"
    items: list[JsonItem] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        if items and items[-1].comma < 0:
            raise NotJsonError(f"a comma is missing at character {at}")
        item = _member(text, at, depth) if is_object else JsonItem("", _value(text, at, depth + 1), at)
        at = _skip(text, item.node.end)
        if text[at : at + 1] == ",":
            item = item._replace(comma=at)
            at = _skip(text, at + 1)
        items.append(item)
    if not is_object:
        return JsonNode([item.node.value for item in items], start, at + 1, items)
    members = {item.key: item.node.value for item in items}
    if len(members) < len(items):
        raise NotJsonError(_repeated_key([item.key for item in items]))
    return JsonNode(members, start, at + 1, items)


def _repeated_key(keys: list[str]) -> str:
    """The error message for an object with a duplicate key."""
    return f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice"


def _member(text: str, at: int, depth: int) -> JsonItem:
    key = _SCALAR.match(text, at)
    if key is None or text[at] != '"':
        raise NotJsonError(f"there is no key at character {at}")
    colon = _skip(text, key.end())
    if text[colon : colon + 1] != ":":
        raise NotJsonError(f"a colon is missing at character {colon}")
    try:
        name = str(json.loads(key[0]))
    except ValueError as error:
        raise NotJsonError(str(error)) from None
    return JsonItem(name, _value(text, _skip(text, colon + 1), depth + 1), at)


SECTION = "hooks"
Table = dict[str, object]


class UnusableSettings(Exception):  # noqa: N818 - it is the settings that are unusable
    """The settings file cannot be rewritten without losing something."""


class HookEntry(NamedTuple):
    """One of our entries in a settings file."""

    event: str
    """The host's name of the event."""
    place: str
    """The indexes of the group and of the hook in it: `0:0` is the first."""
    matcher: object
    command: str
    """The command line that the host passes to a shell."""
    timeout: object


def install_hooks(setup: Setup, text: str | None, program: Sequence[str]) -> str:
    """The settings with our entries, each once, replacing older ones whatever program they name."""
    settings = _load_or_new(setup, text)
    table = _table(setup, settings)
    for event, name in setup.events.items():
        # Two spellings of one event are an error for the host, so the existing one is kept.
        other = setup.other_names.get(name, "")
        own_name = other if other in table else name
        groups = table.get(own_name, [])
        if not isinstance(groups, list):
            raise UnusableSettings(f"{own_name!r} is not a list")
        table[own_name] = _replace_group(setup, groups, _entry(setup, event, program))
    return dump_settings(settings, text)


def uninstall_hooks(setup: Setup, text: str) -> str | None:
    """The settings without our entries; None if nothing else is in the file."""
    settings = _load_or_new(setup, text)
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
    return dump_settings(settings, text) if has_more else None


def find_hooks(setup: Setup, text: str) -> list[HookEntry]:
    """Our entries in the settings."""
    table = _table(setup, _load_or_new(setup, text))
    return [found for own_name, groups in table.items() for found in _hook_entries(setup, own_name, groups)]


def are_hooks_off(setup: Setup, text: str) -> bool:
    """True if the settings disable all hooks."""
    value: object = load_settings(text) if setup.switch else None
    for name in setup.switch:
        value = value.get(name) if isinstance(value, dict) else None
    return value is (not setup.is_on_switch)


def names_machine(command: str) -> bool:
    """True if a command line names our program by an absolute path, which is only valid on one machine."""
    return command.strip("\"'").startswith(("/", "~")) or " /" in command or " '/" in command


def hook_command(setup: Setup, program: Sequence[str], event: str) -> str:
    """The command line that the host passes to a shell when an event fires.

    A relative program is inside the project, whose folder the host provides in a variable.
    """
    is_in_project = bool(setup.project) and "/" in program[0] and not program[0].startswith("/")
    first = f'"${{{setup.project}}}"/{quote(program[0])}' if is_in_project else quote(program[0])
    return " ".join([first, *map(quote, program[1:]), "hook", "--host", setup.host, event])


def load_settings(text: str) -> Table:
    """Parses a settings file, which may contain comments; raises `UnusableSettings` if it is invalid."""
    try:
        settings = _parse_strict_json(text)
    except RecursionError:
        raise UnusableSettings("it is nested too deeply") from None
    except ValueError as error:
        try:
            settings = parse_jsonc(text).value
        except NotJsonError:
            raise UnusableSettings(f"it is not JSON ({error})") from None
    if not isinstance(settings, dict):
        raise UnusableSettings("it is not a JSON object")
    return settings


def _parse_strict_json(text: str) -> object:
    return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> Table:
    if len(dict(pairs)) < len(pairs):
        raise UnusableSettings(_repeated_key([name for name, _ in pairs]))
    return dict(pairs)


def _load_or_new(setup: Setup, text: str | None) -> Table:
    if text is None or not text.strip("\ufeff \t\r\n"):
        return dict(setup.base)
    return load_settings(text)


def _table(setup: Setup, settings: Table) -> Table:
    """The table of events: under its own key, or at the top level if the host allows that."""
    spellings = {*setup.other_names, *setup.other_names.values()}
    if SECTION not in settings and spellings & set(settings):
        return settings
    table = settings.setdefault(SECTION, {})
    if not isinstance(table, dict):
        raise UnusableSettings(f"{SECTION!r} is not an object")
    return table


def _entry(setup: Setup, event: str, program: Sequence[str]) -> Table:
    matcher: Table = {"matcher": setup.matchers[event]} if event in setup.matchers else {}
    entry: Table = {
        **setup.extras,
        **(setup.ending_extras if event in ENDINGS else {}),
        setup.command_key: hook_command(setup, program, event),
        setup.timeout_key: SECONDS[event] * setup.timeout_factor,
    }
    return {**matcher, "hooks": [entry]} if setup.is_grouped else {**matcher, **entry}


def _replace_group(setup: Setup, groups: list[object], entry: Table) -> list[object]:
    """The groups of one event with our entry in its previous place or at the end."""
    for place, group in enumerate(groups):
        if _is_all_ours(setup, group):
            return [*_without(setup, groups[:place]), entry, *_without(setup, groups[place + 1 :])]
    return [*_without(setup, groups), entry]


def _without(setup: Setup, groups: list[object]) -> list[object]:
    return [_without_own(setup, group) for group in groups if not _is_all_ours(setup, group)]


def _without_own(setup: Setup, group: object) -> object:
    """A group without our entries."""
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
    """The command of an entry, in any of the forms that a host accepts."""
    if not isinstance(entry, dict):
        return ""
    command, words = str(entry.get(setup.command_key, "")), entry.get("args")
    if not isinstance(words, list):
        return command
    return " ".join(map(quote, [command, *map(str, words)]))


def _hook_entries(setup: Setup, own_name: str, groups: object) -> Iterator[HookEntry]:
    for first, group in enumerate(groups if isinstance(groups, list) else []):
        for second, entry in enumerate(_hooks(setup, group)):
            if isinstance(entry, dict) and _is_ours(setup, entry):
                yield HookEntry(
                    event=own_name,
                    place=f"{first}:{second}",
                    matcher=group.get("matcher") if isinstance(group, dict) else None,
                    command=_line_of(setup, entry),
                    timeout=entry.get(setup.timeout_key),
                )


def dump_settings(settings: Table, before: str | None) -> str:
    """Writes settings: edits the existing text if that is enough, otherwise rewrites it with the same indentation.

    Raises `UnusableSettings` if the latter would lose comments.
    """
    edited = edit_jsonc(before, settings) if before else None
    if edited is not None:
        return edited
    if before and before.strip("\ufeff \t\r\n"):
        try:
            _parse_strict_json(before)
        except ValueError as error:
            raise UnusableSettings(
                f"it is not JSON ({error}), and its comments would be lost if Remand wrote it"
            ) from None
    return json.dumps(settings, indent=_indent(before or ""), ensure_ascii=False) + "\n"


def _indent(text: str) -> str:
    """The existing indentation of the file; two spaces for a new one."""
    for row in text.splitlines()[1:]:
        start = row[: len(row) - len(row.lstrip(" \t"))]
        if start and row.strip():
            return start
    return "  "


_SECTION = "mcpServers"
_CODEX_SECTION = "mcp_servers"
_OWN = f"{_CODEX_SECTION}.{SERVER_NAME}"
_END = "\n"


def install_server(entry: McpEntry, text: str | None, program: str) -> str:
    """The settings with our entry. Fields that somebody added to an existing entry are kept."""
    return _install_toml(entry, text or "", program) if entry.is_toml else _install_json(entry, text, program)


def uninstall_server(entry: McpEntry, text: str) -> str | None:
    """The settings without our entry; None if nothing else is in the file."""
    return _uninstall_toml(text) if entry.is_toml else _uninstall_json(entry, text)


def installed_programs(entry: McpEntry, text: str) -> list[str]:
    """The program named by our entry in the settings; empty if there is no entry."""
    data = _toml(text) if entry.is_toml else load_settings(text)
    server = _servers(data, _CODEX_SECTION if entry.is_toml else _SECTION).get(SERVER_NAME)
    return [str(server["command"])] if isinstance(server, dict) and _is_our_server(server) else []


def _install_json(entry: McpEntry, text: str | None, program: str) -> str:
    settings = load_settings(text) if text and text.strip("\ufeff \t\r\n") else dict(entry.base)
    servers = _servers(settings, _SECTION)
    known = servers.get(SERVER_NAME)
    _require_our_server(known)
    settings[_SECTION] = {
        **servers,
        SERVER_NAME: {**known, "command": program} if isinstance(known, dict) else _fresh(entry, program),
    }
    return dump_settings(settings, text)


def _uninstall_json(entry: McpEntry, text: str) -> str | None:
    settings = load_settings(text)
    servers = _servers(settings, _SECTION)
    if not _is_our_server(servers.get(SERVER_NAME)):
        return text
    left = {name: server for name, server in servers.items() if name != SERVER_NAME}
    if left:
        settings[_SECTION] = left
    else:
        del settings[_SECTION]
    return dump_settings(settings, text) if settings not in ({}, entry.base) else None


def _fresh(entry: McpEntry, program: str) -> Table:
    kind: Table = {name: value for name, value in entry.extras.items() if name == "type"}
    return {**kind, "command": program, "args": entry.arguments, **entry.extras}


def _servers(settings: Table, section: str) -> Table:
    servers = settings.get(section, {})
    if not isinstance(servers, dict):
        raise UnusableSettings(f"{section!r} is not a table of servers")
    return servers


def _is_our_server(server: object) -> bool:
    if not isinstance(server, dict):
        return False
    words = server.get("args")
    return "remand" in str(server.get("command", "")) and isinstance(words, list) and words[:1] == ["mcp"]


def _require_our_server(server: object) -> None:
    if server is not None and not _is_our_server(server):
        raise UnusableSettings(f"its server {SERVER_NAME!r} is another one; give that another name")


def _install_toml(entry: McpEntry, text: str, program: str) -> str:
    before = _toml(text)
    known = _servers(before, _CODEX_SECTION).get(SERVER_NAME)
    _require_our_server(known)
    if isinstance(known, dict):
        wanted: Table = {**known, "command": program}
        made = _with_command(text, program)
    else:
        wanted = _fresh(entry, program)
        rows = [
            f"[{_CODEX_SECTION}.{SERVER_NAME}]",
            *(f"{name} = {toml_value(value)}" for name, value in wanted.items()),
        ]
        first = f"{text.removesuffix(_END)}{_END}{_END}" if text.strip() else ""
        made = first + _END.join([*rows, ""])
    after = {**before, _CODEX_SECTION: {**_servers(before, _CODEX_SECTION), SERVER_NAME: wanted}}
    _require_same(_toml(made), after)
    return made


def _uninstall_toml(text: str) -> str | None:
    before = _toml(text)
    servers = _servers(before, _CODEX_SECTION)
    if not _is_our_server(servers.get(SERVER_NAME)):
        return text
    made = _END.join(_other_rows(_mark_own_rows(text)))
    left = {name: server for name, server in servers.items() if name != SERVER_NAME}
    others = {name: value for name, value in before.items() if name != _CODEX_SECTION}
    _require_same(_toml(made), {**others, _CODEX_SECTION: left} if left else others)
    return made if made.strip() else None


def _with_command(text: str, program: str) -> str:
    """The text with another program in our table and all other lines unchanged."""
    rows = [
        f"command = {toml_value(program)}" if is_own and row.split("=")[0].strip() == "command" else row
        for row, is_own in _mark_own_rows(text)
    ]
    return _END.join(rows)


def _mark_own_rows(text: str) -> list[tuple[str, bool]]:
    """Each line, with whether it belongs to our table or a subtable. Mistakes are found by parsing the result."""
    rows, is_own = [], False
    for row in text.split(_END):
        if row.startswith("["):
            name = row.strip("[ \t").partition("]")[0].rstrip()
            is_own = name == _OWN or name.startswith(f"{_OWN}.")
        rows.append((row, is_own))
    return rows


def _other_rows(marked: list[tuple[str, bool]]) -> list[str]:
    """The lines outside our table. Comments after the table stay with what follows, the blank lines before it go with it."""
    kept: list[str] = []
    held: list[str] = []
    was_own = False
    for row, is_own in marked:
        if is_own and not row.startswith("[") and (not row.strip() or row.startswith("#")):
            held.append(row)
            continue
        if is_own and not was_own and kept and not kept[-1].strip():
            kept.pop()
        kept += [] if is_own else [*held, row]
        held, was_own = [], is_own
    return [*kept, *held]


def _toml(text: str) -> Table:
    # Imported here: every hook call loads this module's neighbours and does not need it.
    import tomllib

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnusableSettings(f"it is not TOML ({error})") from None


def _require_same(found: Table, wanted: Table) -> None:
    """Raises if a text does not parse to the wanted settings."""
    if {_CODEX_SECTION: {}} | found != {_CODEX_SECTION: {}} | wanted:
        raise UnusableSettings(f"Remand's table [{_OWN}] cannot be identified in it")
