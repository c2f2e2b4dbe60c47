"""The `[project]`, `[keys]`, `[team]` and `[policy]` tables: the project's id, base and hosts, its keys, members and policy."""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from remand.config.values import NAME, ConfigError, count, flag, require_known_keys, seconds, text, texts
from remand.domain.access.keys import ChainEnd, PublicKey, parse_public_key
from remand.domain.access.team import Member, Role, fold_name
from remand.domain.hosts import HOSTS
from remand.domain.ids import is_agent_name, is_branch
from remand.domain.instant import OLD_BOUND_SECONDS
from remand.domain.policy import ALL, ASK, IGNORE, TASKS, Policy, SoloPolicy
from remand.domain.run import Budget
from remand.domain.task import MAX_LEASE_SECONDS
from remand.domain.text.words import word_list
from remand.startup import lazy_pattern


def parse_project_hosts(project: dict[str, Any]) -> tuple[str, ...]:
    """The agent hosts that the project names."""
    found = texts(project.get("hosts", []), "project.hosts")
    wrong = next((name for name in found if name not in HOSTS), None)
    if wrong is not None:
        raise ConfigError(f"{NAME}: `project.hosts` holds `{wrong}`; use any of {', '.join(HOSTS)}.")
    return tuple(dict.fromkeys(found))


_PROJECT = lazy_pattern(r"[0-9a-f]{16}")
_SESSION = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_CHAIN = lazy_pattern(r"[0-9a-f]{32}")
_MAX_NUMBER = 1 << 40


def parse_project_id(project: dict[str, Any]) -> str:
    """The project's id; empty if it has none."""
    found = text(project.get("id", ""), "project.id")
    if "id" in project and not _PROJECT.fullmatch(found):
        raise ConfigError(
            f"{NAME}: `project.id` must be 16 hex digits; put back the one that `remand init` wrote."
        )
    return found


def parse_trusted_keys(keys: dict[str, Any]) -> tuple[PublicKey, ...]:
    """The keys whose signatures count."""
    require_known_keys(keys, ("trusted",), "keys.")
    entries = keys.get("trusted", [])
    if not isinstance(entries, list):
        raise ConfigError(f'{NAME}: `keys.trusted` must be a list of keys, as in `["ed25519:… laptop"]`.')
    found = tuple(_entry(entry, f"keys.trusted[{number}]") for number, entry in enumerate(entries))
    names = [key.id for key in found]
    double = next((key for key in found if names.count(key.id) > 1), None)
    if double is not None:
        raise ConfigError(f"{NAME}: `keys.trusted` holds the key {double.text} twice; keep one.")
    return found


def _entry(entry: Any, where: str) -> PublicKey:
    """A key, as text or as a table that may say where its trust ends."""
    if isinstance(entry, str):
        return _key(entry, where)
    if not isinstance(entry, dict):
        raise ConfigError(f'{NAME}: `{where}` is not a key; write it as "ed25519:BASE64 name".')
    require_known_keys(entry, ("key", "name", "until"), f"{where}.")
    written = f"{text(entry.get('key', 0), f'{where}.key')} {text(entry.get('name', ''), f'{where}.name')}"
    key = _key(written, f"{where}.key")
    return replace(key, until=_until(entry["until"], f"{where}.until", key)) if "until" in entry else key


def _until(places: Any, where: str, key: PublicKey) -> tuple[ChainEnd, ...]:
    if not isinstance(places, list) or not all(isinstance(place, dict) for place in places):
        raise _end_error(where, "must be a list of places in sessions", key)
    ends = tuple(_end(place, f"{where}[{number}]", key) for number, place in enumerate(places))
    if len({end.session for end in ends}) < len(ends):
        raise _end_error(where, "names a session twice", key)
    return ends


def _end(place: dict[str, Any], where: str, key: PublicKey) -> ChainEnd:
    require_known_keys(place, ("session", "number", "chain"), f"{where}.")
    session, number, chain = (place.get(name) for name in ("session", "number", "chain"))
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
        raise _end_error(f"{where}.session", "must be the name of a session", key)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < _MAX_NUMBER:
        raise _end_error(f"{where}.number", "must be the number of an event", key)
    if not isinstance(chain, str) or not _CHAIN.fullmatch(chain):
        raise _end_error(f"{where}.chain", "must be the chain's value there, 32 hex digits", key)
    return ChainEnd(session=session, number=number, chain=chain)


def _end_error(where: str, what: str, key: PublicKey) -> ConfigError:
    name = f"{key.id} ({key.name})" if key.name else key.id
    return ConfigError(
        f"{NAME}: `{where}` {what}. It says where the trust in key {name} ends; "
        f"`remand keys revoke {key.id}` prints it as it should be."
    )


def _key(entry: str, where: str) -> PublicKey:
    key = parse_public_key(entry)
    if key is None:
        raise ConfigError(
            f'{NAME}: `{where}` is not a key; write it as "ed25519:BASE64 name", as `remand keys` prints it '
            "on the machine it belongs to."
        )
    return key


_MEMBER = ("name", "role", "roles", "skills", "aliases", "accounts", "paths", "command", "capacity")
_ROLES = (Role.AGENT, Role.LEAD, Role.TESTER, Role.DIRECTOR, Role.USER)


def parse_former_names(team: dict[str, Any]) -> tuple[str, ...]:
    """The names of members who left the team."""
    names = texts(team.get("former", []), "team.former")
    taken = {fold_name(name): member.name for member in parse_members(team) for name in _member_names(member)}
    for name in names:
        if not is_agent_name(name):
            raise ConfigError(f"{NAME}: `team.former` has {name[:80]!r}, which is not a member's name.")
        if fold_name(name) in taken:
            raise ConfigError(
                f"{NAME}: `team.former` has `{name}`, which is {taken[fold_name(name)]}'s name; it is one or the other."
            )
    return names


def _member_names(member: Member) -> tuple[str, ...]:
    return (member.name, *member.aliases, *member.accounts)


def parse_members(team: dict[str, Any]) -> tuple[Member, ...]:
    """The members of the team."""
    require_known_keys(team, ("members", "former"), "team.")
    rows = team.get("members", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(
            f'{NAME}: `team.members` must be a list of tables such as {{name = "A", role = "agent"}}.'
        )
    members = tuple(_member(row, f"team.members[{number}].") for number, row in enumerate(rows))
    names = [name for member in members for name in _member_names(member)]
    if not all(map(is_agent_name, names)):
        raise ConfigError(
            f"{NAME}: a member's alias or account is not a valid name: use up to 64 letters, digits or @ . + - _ / :"
        )
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise ConfigError(
            f"{NAME}: two members go by the name `{double}`; every name and alias is one member's."
        )
    owners: dict[str, tuple[str, str]] = {}
    for member in members:
        for name in _member_names(member):
            other, own = owners.setdefault(fold_name(name), (member.name, name))
            if other != member.name:
                raise ConfigError(
                    f"{NAME}: `{name}` of {member.name} and `{own}` of {other} differ only in case, width or "
                    "spaces, so they are the same name. Change one of them."
                )
    return members


def _member(row: dict[str, Any], where: str) -> Member:
    require_known_keys(row, _MEMBER, where)
    name = text(row.get("name", ""), f"{where}name")
    if not is_agent_name(name):
        raise ConfigError(
            f"{NAME}: `{where}name` must be a name of up to 64 letters, digits or @ . + - _ / :"
        )
    if "role" in row and "roles" in row:
        raise ConfigError(f"{NAME}: `{where}role` and `{where}roles` are both set; keep one.")
    roles = (
        texts(row["roles"], f"{where}roles")
        if "roles" in row
        else (text(row.get("role", "agent"), f"{where}role"),)
    )
    for role in roles:
        if role not in _ROLES:
            raise ConfigError(f"{NAME}: `{where}role` is `{role}`; use one of {', '.join(_ROLES)}.")
    return Member(
        name=name,
        roles=tuple(Role(role) for role in roles),
        skills=texts(row.get("skills", []), f"{where}skills"),
        aliases=texts(row.get("aliases", []), f"{where}aliases"),
        accounts=texts(row.get("accounts", []), f"{where}accounts"),
        paths=texts(row.get("paths", []), f"{where}paths"),
        command=_command(row.get("command", []), f"{where}command"),
        capacity=count(row.get("capacity", 1), f"{where}capacity"),
    )


def _command(value: Any, key: str) -> tuple[str, ...]:
    """A member's command. Refuses files of the working tree, which the author of a change controls."""
    words = texts(value, key)
    if not words:
        return ()
    program = os.path.expanduser(words[0])
    if not program or ("/" in program and not os.path.isabs(program)):
        raise ConfigError(
            f"{NAME}: `{key}` names a file in the working tree, which agents write; give its full path, outside of it."
        )
    return (program, *words[1:])


def missing_base_message(base: str, remotes: tuple[str, ...]) -> str:
    """The message if a base has to be fetched, or there is no remote to fetch it from."""
    if not remotes:
        return (
            f"{NAME} names the base `{base}`, and there is no such branch. "
            "Create it again; nothing else replaces it."
        )
    if not is_branch(base):
        return f"{NAME} names the base {base!r}, which is not a valid branch name. Set the name of the base's branch."
    return (
        f"The base `{base}` is not in this clone, and nothing else replaces it. "
        f"Fetch it: `{_fetch_command(base, remotes)}` (with actions/checkout: `fetch-depth: 0`)."
    )


def unknown_base_message(named: str, remotes: tuple[str, ...], *, is_there: bool) -> str:
    """The message if only the checkout itself says which branch is its base."""
    if not is_branch(named):
        return missing_base_message("main", remotes)
    from shlex import quote  # Imported only if the base is missing.

    note = f"git symbolic-ref refs/remotes/origin/HEAD {quote(f'refs/remotes/origin/{named}')}"
    steps = note if is_there else f"{_fetch_command(named, remotes)} && {note}"
    return (
        f"Which branch is the base is not known in this clone: it has neither main nor master, and a "
        f"checkout's own {NAME} does not say by which rules it is judged. "
        f"If the base is `{named}`, note that: `{steps}`."
    )


def _fetch_command(base: str, remotes: tuple[str, ...]) -> str:
    """The command that fetches a base to where it is looked for."""
    from shlex import quote  # Imported only if the base is missing.

    remote = "origin" if "origin" in remotes else remotes[0]
    return f"git fetch {quote(remote)} {quote(f'{base}:refs/remotes/origin/{base}')}"


MIN_CLOCK_SKEW_SECONDS = 1.0
_POLICY = word_list("""
lockout escalate_after_reviews alert_after_gates escalate_after_gates max_invalid_rejections lease escalation_deadline
director adviser auto_reformulate budget max_faults max_waiting_reviews open_pr request_review merge_on_approve
close_issue enforce unconfirmed_no clock_skew sessions solo_blocks
""")


def parse_policy(table: dict[str, Any]) -> Policy:
    """Parses the settings of decisions."""
    require_known_keys(table, _POLICY, "policy.")
    standard = Policy()
    director = table.get("director", "auto")
    if not director:
        raise ConfigError(f'{NAME}: `policy.director` is empty; use "auto", "human" or a command.')

    def number(key: str, least: int = 1, most: int = 1 << 31) -> int:
        return count(table.get(key, getattr(standard, key)), f"policy.{key}", least, most)

    def switch(key: str) -> bool:
        return flag(table.get(key, getattr(standard, key)), f"policy.{key}")

    return Policy(
        lockout_after=_lockout(table.get("lockout", "strict")),
        escalate_after_reviews=number("escalate_after_reviews"),
        alert_after_gates=number("alert_after_gates"),
        escalate_after_gates=number("escalate_after_gates"),
        max_invalid_rejections=number("max_invalid_rejections", most=100),
        lease_seconds=_lease(table.get("lease", "30m")),
        deadline_seconds=seconds(table.get("escalation_deadline", "24h"), "policy.escalation_deadline"),
        director=_director(director),
        adviser=_program(table.get("adviser", []), "policy.adviser"),
        auto_reformulate=switch("auto_reformulate"),
        open_pr=switch("open_pr"),
        request_review=switch("request_review"),
        merge_on_approve=switch("merge_on_approve"),
        close_issue=switch("close_issue"),
        unconfirmed_no=_unconfirmed_no(table.get("unconfirmed_no", standard.unconfirmed_no)),
        budget=_budget(table.get("budget", {})),
        max_faults=number("max_faults", most=100),
        max_waiting_reviews=number("max_waiting_reviews", 0),
        solo=SoloPolicy(
            sessions=_sessions(table.get("sessions", standard.solo.sessions)),
            blocks=count(table.get("solo_blocks", standard.solo.blocks), "policy.solo_blocks", 0, 100),
        ),
        clock_skew_seconds=_clock_skew(table.get("clock_skew", "10m")),
    )


def _budget(value: Any) -> Budget:
    """The limits on the runs of one task: `{runs = 20, turns = 400, time = "4h", cost = 20.0}`, each optional."""
    if not isinstance(value, dict):
        raise ConfigError(
            f'{NAME}: `policy.budget` must be a table such as {{turns = 400, time = "4h", cost = 20.0}}.'
        )
    require_known_keys(value, ("runs", "turns", "time", "cost"), "policy.budget.")
    cost = value.get("cost", 0.0)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < 1e9:
        raise ConfigError(f"{NAME}: `policy.budget.cost` must be a number of US dollars.")
    return Budget(
        runs=count(value.get("runs", 0), "policy.budget.runs", 0),
        turns=count(value.get("turns", 0), "policy.budget.turns", 0),
        seconds=seconds(value["time"], "policy.budget.time") if "time" in value else 0.0,
        cost=float(cost),
    )


def _director(value: Any) -> tuple[str, ...]:
    """Who answers rejections: `auto`, `human`, or a command, as a list or as typed in a shell."""
    if not isinstance(value, str):
        return _program(value, "policy.director")
    if value in ("auto", "human"):
        return (value,)
    if value.lower() in ("auto", "human"):
        raise ConfigError(f'{NAME}: `policy.director` is written "{value.lower()}".')
    from shlex import split  # Imported only if a command is written as a string.

    try:
        return _program(split(value), "policy.director")
    except ValueError as error:
        raise ConfigError(
            f"{NAME}: `policy.director` is not a command ({error}); write it as a list."
        ) from None


def _program(value: Any, key: str) -> tuple[str, ...]:
    """A command. Refuses a program in the working tree, because any agent could change it."""
    words = texts(value, key)
    if words and "/" in words[0] and not words[0].startswith("/"):
        raise ConfigError(
            f"{NAME}: `{key}` names a file in the working tree; give its full path, outside of it."
        )
    return words


def _unconfirmed_no(value: Any) -> str:
    if value not in (ASK, IGNORE):
        raise ConfigError(f'{NAME}: `policy.unconfirmed_no` must be "{ASK}" or "{IGNORE}".')
    return str(value)


def _sessions(value: Any) -> str:
    if value not in (TASKS, ALL):
        raise ConfigError(f'{NAME}: `policy.sessions` must be "{TASKS}" or "{ALL}".')
    return str(value)


def _lease(value: Any) -> float:
    lasts = seconds(value, "policy.lease")
    if lasts > MAX_LEASE_SECONDS:
        raise ConfigError(f'{NAME}: `policy.lease` is {value}; a lease lasts at most 7 days ("7d").')
    return lasts


def _clock_skew(value: Any) -> float:
    skew = seconds(value, "policy.clock_skew")
    if not MIN_CLOCK_SKEW_SECONDS <= skew <= OLD_BOUND_SECONDS:
        raise ConfigError(
            f'{NAME}: `policy.clock_skew` is {value}; it must be from 1 second ("1s") to 24 hours ("24h").'
        )
    return skew


def _lockout(value: Any) -> int:
    if value == "strict":
        return 1
    if value == "off":
        return 0
    if isinstance(value, dict) and set(value) == {"after"}:
        return count(value["after"], "policy.lockout.after")
    raise ConfigError(f'{NAME}: `policy.lockout` must be "strict", "off" or {{after = 2}}.')
