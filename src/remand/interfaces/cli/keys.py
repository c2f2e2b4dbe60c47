"""Commands on keys: whose events count."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import TYPE_CHECKING, Any

from remand.app.errors import UsageError
from remand.bootstrap.keys import listed_in, write_revoked, write_trusted
from remand.domain.keys import ID_DIGITS, MAX_NAME, PREFIX, PublicKey, public_key
from remand.domain.refusals import Refused
from remand.domain.roles import Role
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, table

if TYPE_CHECKING:
    from rich.console import Console

_HOW = (
    "Commit that on the base branch. What the key has signed then counts, or counts no more, from the next "
    "command on."
)


def _nothing(parser: ArgumentParser) -> None:
    """Takes no arguments."""


def _require_user(context: Context) -> None:
    team = context.opened.settings.rules().team
    actor = team.actor(context.actor(), confined=context.is_confined)
    if actor.confined or not actor.has(Role.USER):
        raise Refused("user_only", f"Only the user may see to keys; {actor.name} asks.")


def _keys(context: Context) -> Result:
    _require_user(context)
    opened = context.opened
    settings, own = opened.settings.settings(), opened.ledger.keys.made()
    with opened.store.read() as view:
        counts = Counter((found.signer, found.doubt) for found in view.unconfirmed.every())
    data = {
        "project": settings.project or None,
        "own": _plain(own),
        "trusted": [_plain(key) for key in settings.trusted],
        "unconfirmed": [
            {"signer": signer or None, "why": doubt.value, "events": count}
            for (signer, doubt), count in sorted(counts.items())
        ],
    }
    return Result(data, _page(data))


def _plain(key: PublicKey) -> dict[str, Any]:
    return {"id": key.id, "name": key.name or None, "key": key.text}


def _page(data: dict[str, Any]) -> Any:
    own = data["own"]
    rows = [(own["id"], "this machine", own["name"] or "", own["key"])]
    rows += [(key["id"], "trusted", key["name"] or "", key["key"]) for key in data["trusted"]]
    doubted = [
        (row["signer"] or "nobody", row["events"], row["why"].replace("_", " "))
        for row in data["unconfirmed"]
    ]

    def show(out: Console) -> None:
        out.print(f"project {data['project'] or 'without an id (`remand init` says what to add)'}")
        table(("id", "", "name", "key"), rows, "")(out)
        if doubted:
            table(("unconfirmed, signed by", "events", "why"), doubted, "")(out)

    return show


def _trust_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "key", metavar="KEY", help="ed25519:…, as `remand keys` prints it there; or a known id"
    )
    parser.add_argument("--name", default="", metavar="N", help="what to call it")
    parser.add_argument("--write", action="store_true", help="change remand.toml in the working tree")


def _trust(context: Context) -> Result:
    _require_user(context)
    options = context.arguments
    key = _named(context, options.key)
    named = public_key(f"{key.text} {options.name or key.name}")
    if named is None:
        raise UsageError(f"--name must be printable and at most {MAX_NAME} characters long.")
    trusted = context.opened.settings.settings().trusted
    data = {**_plain(named), "line": f'"{named.entry}",', "written": False}
    if key.id in {other.id for other in trusted}:
        return Result(data, f"The base branch trusts key {key.id} already.")
    if options.write and key.id not in {other.id for other in listed_in(context.place)}:
        data["written"] = write_trusted(context.place, named)
        _require_written(data)
    told = (
        "is in remand.toml now" if options.write else "goes into `trusted = [ … ]` in `[keys]` of remand.toml"
    )
    return Result(data, f"{data['line']}\nThis line {told}. {_HOW}")


def _revoke_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="the key, or its id")
    parser.add_argument("--write", action="store_true", help="change remand.toml in the working tree")


def _revoke(context: Context) -> Result:
    _require_user(context)
    key = _named(context, context.arguments.key)
    listed = {other.id: other for other in context.opened.settings.settings().trusted}
    here = {other.id: other for other in listed_in(context.place)}
    entry = (here.get(key.id) or listed.get(key.id) or key).entry
    data = {**_plain(key), "line": f'"{entry}",', "written": False}
    if key.id not in listed and key.id not in here:
        return Result(data, f"No configuration here trusts key {key.id}; there is nothing to revoke.")
    if context.arguments.write and key.id in here:
        data["written"] = write_revoked(context.place, key)
        _require_written(data)
    told = "is out of remand.toml now" if context.arguments.write else "goes out of `[keys]` of remand.toml"
    own = context.opened.ledger.keys.own()
    note = " Here the key still counts: it is this machine's own." if own and own.id == key.id else ""
    return Result(data, f"{data['line']}\nThis line {told}. {_HOW}{note}")


def _require_written(data: dict[str, Any]) -> None:
    if not data["written"]:
        raise UsageError(
            f"remand.toml is written in a way that only you can change. The line in question: {data['line']}"
        )


def _named(context: Context, text: str) -> PublicKey:
    """The key that is meant: written out, or by the id of one that is known here."""
    if text.startswith(PREFIX):
        key = public_key(text)
        if key is None:
            raise UsageError("That is no key. `remand keys` on its machine prints it as ed25519:…")
        return key
    own = context.opened.ledger.keys.own()
    known: list[PublicKey] = [
        *context.opened.settings.settings().trusted,
        *listed_in(context.place),
        *((own,) if own else ()),
    ]
    found = next((key for key in known if key.id == text), None)
    if found is None:
        is_id = len(text) == ID_DIGITS and all(digit in "0123456789abcdef" for digit in text)
        what = f"No key with the id {text} is known here" if is_id else "That is neither a key nor an id"
        raise UsageError(f"{what}. An id does not tell the key: take it from `remand keys` on its machine.")
    return found


COMMANDS = {
    "keys": Command(_nothing, _keys),
    "keys trust": Command(_trust_arguments, _trust),
    "keys revoke": Command(_revoke_arguments, _revoke),
}
