"""Commands on keys: which signatures count, and up to which event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.errors import UsageError
from remand.app.log import keys
from remand.app.log.keys import ProjectFile
from remand.domain.access.keys import (
    ID_DIGITS,
    KEY_PREFIX,
    MAX_KEY_NAME,
    KeyRequest,
    PublicKey,
    is_key_request,
    parse_key_request,
    parse_public_key,
)
from remand.domain.preconditions import require_key_manager
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, table
from remand.ledger.signatures import decode_groups
from remand.wiring.ledger import event_publisher

if TYPE_CHECKING:
    from rich.console import Console

from remand.app import tokens
from remand.domain.access.team import Role
from remand.domain.access.tokens import Token, TokenRole, parse_token_role
from remand.domain.instant import Instant, add_seconds, format_time, parse_local_instant
from remand.interfaces.cli.tasks.verdicts import acting_member

_COMMIT_HINT = "Commit that on the base branch, and push it if the base is a remote branch. It takes effect with the next command."
MOST_LINES = 100
MOST_SESSIONS = 20
MOST_SHOWN = 40
_WHERE = {
    "base": "the events that the base branch has",
    "ledger": "the events of this ledger, because the base has none of them",
}


def _require_user(context: Context) -> None:
    team = context.opened_ledger.settings.rules().team
    require_key_manager(context.limit(team.actor(context.actor(), confined=context.is_confined)))


@command("keys")
def _keys(context: Context) -> Result:
    _require_user(context)
    opened = context.opened_ledger
    settings, own = opened.settings.settings(), opened.ledger.keys.ensure_key()
    with opened.store.read() as view:
        withheld = view.unconfirmed.every()
        lines = keys.unconfirmed_lines(view, opened.ledger.exchange, MOST_LINES)
    data: dict[str, Any] = {
        "project": settings.project or None,
        "own": _plain(own),
        "trusted": [_plain(key) | {"until": msgspec.to_builtins(key.until)} for key in settings.trusted],
        "signers": [_row(signer) for signer in keys.unconfirmed_signers(withheld, MOST_SESSIONS)],
        "unconfirmed": [_row(line) for line in lines],
        "unconfirmed_count": len(withheld),
    }
    rows = [(own.id, "this machine", own.name or "", own.text)]
    rows += [
        (key.id, "trusted" if key.until is None else "revoked", key.name or "", key.text)
        for key in settings.trusted
    ]
    doubted = [
        (row["signer"] or "nobody", row["events"], row["why"].replace("_", " "), " ".join(row["sessions"]))
        for row in data["signers"]
    ]

    def show(out: Console) -> None:
        out.print(f"project {settings.project or 'without an id (`remand init` shows what to add)'}")
        table(("id", "", "name", "key"), rows, "")(out)
        if doubted:
            table(("unconfirmed, signed by", "events", "why", "sessions"), doubted, "")(out)

    return Result(data, show)


def _row(found: msgspec.Struct) -> dict[str, Any]:
    """A record as JSON; unknown values are null."""
    row = msgspec.structs.asdict(found)
    return row | {name: row[name] or None for name in ("task_id", "signer", "session") if name in row}


def _plain(key: PublicKey) -> dict[str, Any]:
    return {"id": key.id, "name": key.name or None, "key": key.text}


@command("keys request")
def _request(context: Context) -> Result:
    _require_user(context)
    own = context.opened_ledger.ledger.keys.ensure_key()
    project = context.opened_ledger.settings.settings().project
    text = KeyRequest(project=project, key=own).text
    return Result(_plain(own) | {"project": project or None, "text": text}, text)


@command(
    "keys trust",
    argument(
        "key",
        metavar="TEXT",
        help="the output of `remand keys request`, the key as ed25519:…, or the id of a known key",
    ),
    argument("--name", default="", metavar="N", help="a name for the key"),
    argument("--write", action="store_true", help="change remand.toml in the working tree"),
)
def _trust(context: Context) -> Result:
    _require_user(context)
    options = context.arguments
    key = (
        _parse_key_request(context, options.key)
        if is_key_request(options.key)
        else _find_key(context, options.key)
    )
    named = parse_public_key(f"{key.text} {options.name or key.name}")
    if named is None:
        raise UsageError(f"--name must be printable and at most {MAX_KEY_NAME} characters long.")
    data = {**_plain(named), "line": f'"{named.entry}",', "written": False}
    here = {other.id: other for other in ProjectFile(context.place.root).trusted_keys()}
    known = {other.id: other for other in context.opened_ledger.settings.settings().trusted}
    for listed in (known.get(key.id), here.get(key.id)):
        if listed and listed.until is not None:
            raise UsageError(
                f"Key {key.id} was revoked. Create a new key on its machine and trust that one; only you can remove `until` from its entry in remand.toml."
            )
    if key.id in known:
        return Result(data, f"The base branch already trusts key {key.id}.")
    if options.write and key.id not in here:
        data["written"] = ProjectFile(context.place.root).add_trusted(named)
        _require_written(data)
    how = (
        "is in remand.toml now"
        if options.write
        else "belongs in `trusted = [ … ]` in `[keys]` of remand.toml"
    )
    return Result(data, f"{data['line']}\nThis line {how}. {_COMMIT_HINT}")


def _parse_key_request(context: Context, text: str) -> PublicKey:
    """The key from another machine's request for trust in this project."""
    request = parse_key_request(text)
    if request is None:
        raise UsageError("That text is damaged. Copy the whole line that `remand keys request` prints.")
    project = context.opened_ledger.settings.settings().project
    if request.project != project:
        theirs, ours = (
            f"project {name}" if name else "one without an id" for name in (request.project, project)
        )
        raise UsageError(
            f"That text belongs to another project ({theirs}); this is {ours}. "
            "Run `remand keys request` in a clone of this project, with its base branch fetched."
        )
    return request.key


@command(
    "keys revoke",
    argument("key", metavar="KEY", help="the key, or its id"),
    argument(
        "--from",
        dest="start",
        default="",
        metavar="SESSION:N",
        help="for a stolen key: the first event that its owner did not write",
    ),
    argument("--write", action="store_true", help="change remand.toml in the working tree"),
)
def _revoke(context: Context) -> Result:
    _require_user(context)
    opened, options = context.opened_ledger, context.arguments
    key = _find_key(context, options.key)
    listed = {other.id: other for other in opened.settings.settings().trusted}
    here = {other.id: other for other in ProjectFile(context.place.root).trusted_keys()}
    key = here.get(key.id) or listed.get(key.id) or key
    if key.id not in listed and key.id not in here:
        data = {**_plain(key), "line": "", "written": False}
        return Result(data, f"No configuration here trusts key {key.id}; there is nothing to revoke.")
    tip = opened.settings.tip()
    published = decode_groups(event_publisher.GitPublisher(context.place).lines_at(tip)) if tip else []
    with opened.store.read() as view:
        revocation = keys.plan_revocation(
            view, key, published, verifier=opened.ledger.verifier(view), start=options.start
        )
    data = {
        **_plain(key),
        "line": f"{keys.trusted_entry_text(key, revocation.ends)},",
        "written": False,
        "until": msgspec.to_builtins(revocation.ends),
        "source": revocation.source,
        **_change_data(revocation.change),
    }
    if options.write and key.id in here:
        data["written"] = ProjectFile(context.place.root).end_trust(key, revocation.ends)
        _require_written(data)
    where = _WHERE[revocation.source]
    rows = [f"Key {key.id} counts up to {where}, and no further."]
    if options.start:
        session = options.start.rpartition(":")[0]
        rows = [
            f"Session {session} counts up to the event before {options.start}; other sessions up to {where}."
        ]
    rows += _change_rows(revocation.change)
    how = "is in remand.toml now" if options.write else "replaces the key's entry in `[keys]` of remand.toml"
    rows += [data["line"], f"This {how}. {_COMMIT_HINT}"]
    own = opened.ledger.keys.own()
    if own and own.id == key.id:
        rows.append(
            "It is this machine's own key, which counts here while it is in use. Move its file away (docs/keys.md says where it is), and Remand creates a new one."
        )
    return Result(data, "\n".join(rows))


def _change_data(change: keys.TrustChange) -> dict[str, Any]:
    counts = {
        name: [{"task_id": row.task_id or None, "event": row.event, "events": row.count} for row in rows]
        for name, rows in (("lost", change.lost), ("gained", change.gained))
    }
    tasks = [
        {"task_id": row.task_id, "before": row.before or None, "after": row.after or None}
        for row in change.tasks
    ]
    return {**counts, "tasks": tasks}


def _change_rows(change: keys.TrustChange) -> list[str]:
    """The changes as text rows."""
    rows = []
    for verb, counts in (("lose", change.lost), ("gain", change.gained)):
        total = sum(row.count for row in counts)
        if total:
            rows.append(
                f"1 event {verb}s its effect:" if total == 1 else f"{total} events {verb} their effect:"
            )
        rows += [
            f"  {row.count} × {row.event}{f' of {row.task_id}' if row.task_id else ''}" for row in counts
        ]
    rows += [
        f"  {row.task_id} is {row.before or 'not there'} and becomes {row.after or 'unknown'}"
        for row in change.tasks
    ]
    if not rows:
        return ["No event gains or loses its effect."]
    more = len(rows) - MOST_SHOWN
    return [*rows[:MOST_SHOWN], *([f"  … and {more} more, see --json"] if more > 0 else [])]


@command(
    "keys adopt",
    argument(
        "sessions", metavar="SESSION", nargs="+", help="a session, or SESSION:N for its events up to number N"
    ),
    argument("--reason", default="", metavar="T", help="why you vouch for it; with --yes"),
    argument("--yes", action="store_true", help="do it; without this, only show what would change"),
)
def _adopt(context: Context) -> Result:
    actor = context.user()
    opened, options = context.opened_ledger, context.arguments
    reason = context.text(options.reason).strip()
    if options.yes and not reason:
        raise UsageError("Give the reason why you vouch for these events: --reason TEXT. It is recorded.")
    with opened.store.read() as view:
        events = [keys.find_adoptable(view, name) for name in dict.fromkeys(options.sessions)]
        change = keys.preview_trust_change(view, gained=[event for one in events for event in one.events])
    adopted = keys.adopt_sessions(opened.ledger, options.sessions, reason, actor) if options.yes else []
    data = {
        "sessions": [
            {"session": one.session, "events": len(one.events), "number": one.last or None} for one in events
        ],
        "adopted": bool(adopted),
        "reason": reason or None,
        **_change_data(change),
    }
    if adopted:
        rows = ["These events count from now on, here and wherever this machine's key is trusted."]
    elif any(one.events for one in events):
        rows = [
            "Nothing was changed. Repeat with --yes --reason TEXT to vouch for these events with your key."
        ]
    else:
        return Result(data, "There is nothing to adopt: all events of these sessions count, or are void.")
    return Result(data, "\n".join([*_change_rows(change), *rows]))


def _require_written(data: dict[str, Any]) -> None:
    if not data["written"]:
        raise UsageError(
            f"Remand cannot edit remand.toml as it is written; change it yourself. The line to change: {data['line']}"
        )


def _find_key(context: Context, text: str) -> PublicKey:
    """The key that the text means: a full key, or the id of a known one."""
    if text.startswith(KEY_PREFIX):
        key = parse_public_key(text)
        if key is None:
            raise UsageError("That is not a key. `remand keys` on its machine prints it as ed25519:…")
        return key
    own = context.opened_ledger.ledger.keys.own()
    known: list[PublicKey] = [
        *context.opened_ledger.settings.settings().trusted,
        *ProjectFile(context.place.root).trusted_keys(),
        *((own,) if own else ()),
    ]
    public_key = next((key for key in known if key.id == text), None)
    if public_key is None:
        is_id = len(text) == ID_DIGITS and all(digit in "0123456789abcdef" for digit in text)
        what = f"No key with the id {text} is known here" if is_id else "That is neither a key nor an id"
        raise UsageError(
            f"{what}. Give the whole key, or the line that `remand keys request` prints on its machine."
        )
    return public_key


ROLES = (*TokenRole, Role.LEAD, Role.TESTER)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MAX_DIGITS = 9


@command(
    "token create",
    argument("--member", required=True, metavar="NAME", help="the member; for a worker or a host, the machine's name"),
    argument("--role", default="", choices=ROLES, metavar="R", help="the token's role; by default the member's only role, otherwise one of"),
    argument("--expires", default="90d", metavar="D", help="how long the token is valid, such as 12h or 90d, or until when, such as 2027-01-31; 90d by default"),
    argument("--starts", action="extend", nargs="+", metavar="NAME", help="for a host: the members that it may start and act for, or '*' for all but the user"),
)  # fmt: skip
def _create_token(context: Context) -> Result:
    actor, options, opened = context.user(), context.arguments, context.opened_ledger
    token = tokens.create_token(
        opened.ledger,
        opened.settings.rules(),
        actor,
        member=options.member,
        role=parse_token_role(options.role),
        starts=tuple(options.starts or ()),
        expires_at=_expiry(options.expires, opened.ledger.clock.now()),
        known_by=context.known_by(actor.name),
    )
    data = {
        "token_id": token.token_id,
        "token": token.text,
        "member": options.member,
        "role": token.role,
        "expires_at": token.expires_at,
    }
    text = f"{token.text}\nThis token is valid as {token.role} until {format_time(token.expires_at)}. It is not shown again."
    return Result(data, text)


def _expiry(text: str, now: Instant) -> Instant:
    """When a token ends to count: after a duration, or at a time."""
    number, unit = text[:-1], text[-1:]
    if unit in _SECONDS and number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS:
        return add_seconds(now, int(number) * _SECONDS[unit])
    found = parse_local_instant(text)
    if found is None:
        raise UsageError(
            f"--expires {text[:40]!r} is neither a duration such as 12h or 90d nor a date such as 2027-01-31."
        )
    return found


@command("token list")
def _list_tokens(context: Context) -> Result:
    opened = context.opened_ledger
    now = opened.ledger.clock.now()
    found = tokens.visible_tokens(opened.ledger, acting_member(context))
    rows = [
        (token.id, token.member, token.role, " ".join(token.starts), _token_state(token, now), format_time(token.expires_at))
        for token in found
    ]  # fmt: skip
    show = table(
        ("id", "member", "role", "may start", "", "expires"),
        rows,
        "No tokens. `remand token create` creates one.",
    )
    return Result([_token_row(token, now) for token in found], show)


def _token_row(token: Token, now: Instant) -> dict[str, Any]:
    return {
        "token_id": token.id,
        "member": token.member,
        "role": token.role,
        "starts": list(token.starts),
        "status": _token_state(token, now),
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at or None,
    }


def _token_state(token: Token, now: Instant) -> str:
    if token.revoked_at:
        return "revoked"
    return "valid" if token.is_valid(now) else "expired"


@command(
    "token revoke",
    argument("token_id", metavar="ID", help="the token's id, as `remand token list` shows it"),
    argument("--reason", default="", metavar="T"),
)
def _revoke_token(context: Context) -> Result:
    token_id, actor = context.arguments.token_id, acting_member(context)
    reason = context.text(context.arguments.reason)
    known_by = context.known_by(actor.name)
    tokens.revoke_token(context.opened_ledger.ledger, actor, token_id, reason, known_by)
    return Result({"token_id": token_id, "revoked": True}, f"Token {token_id} is revoked permanently.")
