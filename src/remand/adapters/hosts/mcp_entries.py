"""Our MCP server in a host's project settings: added and removed without changing anything else."""

from __future__ import annotations

from remand.adapters.hosts.host import SERVER_NAME, McpEntry
from remand.adapters.hosts.settings import Table, UnusableSettings, dump_settings, load_settings, toml_value

_SECTION = "mcpServers"
_CODEX_SECTION = "mcp_servers"
_OWN = f"{_CODEX_SECTION}.{SERVER_NAME}"
_END = "\n"


def install_server(entry: McpEntry, text: str | None, program: str) -> str:
    """The settings with our entry in them. One of ours keeps what somebody has added to it: a name, say."""
    return _install_toml(entry, text or "", program) if entry.is_toml else _install_json(entry, text, program)


def uninstall_server(entry: McpEntry, text: str) -> str | None:
    """The settings without our entry; None when nothing else is in the file."""
    return _uninstall_toml(text) if entry.is_toml else _uninstall_json(entry, text)


def installed_programs(entry: McpEntry, text: str) -> list[str]:
    """The program that our entry in the settings names; nothing when there is none."""
    data = _toml(text) if entry.is_toml else load_settings(text)
    server = _servers(data, _CODEX_SECTION if entry.is_toml else _SECTION).get(SERVER_NAME)
    return [str(server["command"])] if isinstance(server, dict) and _is_ours(server) else []


def _install_json(entry: McpEntry, text: str | None, program: str) -> str:
    settings = load_settings(text) if text and text.strip("\ufeff \t\r\n") else dict(entry.base)
    servers = _servers(settings, _SECTION)
    known = servers.get(SERVER_NAME)
    _require_ours(known)
    settings[_SECTION] = {
        **servers,
        SERVER_NAME: {**known, "command": program} if isinstance(known, dict) else _fresh(entry, program),
    }
    return dump_settings(settings, text)


def _uninstall_json(entry: McpEntry, text: str) -> str | None:
    settings = load_settings(text)
    servers = _servers(settings, _SECTION)
    if not _is_ours(servers.get(SERVER_NAME)):
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
        raise UnusableSettings(f"{section!r} is no table of servers")
    return servers


def _is_ours(server: object) -> bool:
    if not isinstance(server, dict):
        return False
    words = server.get("args")
    return "remand" in str(server.get("command", "")) and isinstance(words, list) and words[:1] == ["mcp"]


def _require_ours(server: object) -> None:
    if server is not None and not _is_ours(server):
        raise UnusableSettings(f"its server {SERVER_NAME!r} is another one; give that another name")


def _install_toml(entry: McpEntry, text: str, program: str) -> str:
    before = _toml(text)
    known = _servers(before, _CODEX_SECTION).get(SERVER_NAME)
    _require_ours(known)
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
    if not _is_ours(servers.get(SERVER_NAME)):
        return text
    made = _END.join(_other_rows(_mark_own_rows(text)))
    left = {name: server for name, server in servers.items() if name != SERVER_NAME}
    others = {name: value for name, value in before.items() if name != _CODEX_SECTION}
    _require_same(_toml(made), {**others, _CODEX_SECTION: left} if left else others)
    return made if made.strip() else None


def _with_command(text: str, program: str) -> str:
    """The text with another program in our table, and every other line as it was."""
    rows = [
        f"command = {toml_value(program)}" if is_own and row.split("=")[0].strip() == "command" else row
        for row, is_own in _mark_own_rows(text)
    ]
    return _END.join(rows)


def _mark_own_rows(text: str) -> list[tuple[str, bool]]:
    """Each line, and whether it is of our table or one inside it. What this misreads is found by reading again."""
    rows, is_own = [], False
    for row in text.split(_END):
        if row.startswith("["):
            name = row.strip("[ \t").partition("]")[0].rstrip()
            is_own = name == _OWN or name.startswith(f"{_OWN}.")
        rows.append((row, is_own))
    return rows


def _other_rows(marked: list[tuple[str, bool]]) -> list[str]:
    """The lines that are not of our table. Comments behind it belong to what follows, the gap before it to it."""
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
    # Loaded here: hooks start with this module's neighbours, and have no use for it.
    import tomllib

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnusableSettings(f"it is not TOML ({error})") from None


def _require_same(found: Table, wanted: Table) -> None:
    """Refuses a text that says anything else than it should."""
    if {_CODEX_SECTION: {}} | found != {_CODEX_SECTION: {}} | wanted:
        raise UnusableSettings(f"our table [{_OWN}] cannot be told apart in it")
