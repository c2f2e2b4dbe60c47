"""Settings: the effective configuration with its sources, tokens, and patches with which a person changes the base."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from remand import config
from remand.app.errors import UsageError
from remand.app.history.activity import ActivityEntry, activity_entry
from remand.app.log import keys
from remand.config.changes import parse_value, with_member, with_value
from remand.domain.access.keys import KEY_PREFIX, PublicKey, parse_key_request, parse_public_key
from remand.domain.access.team import Member, Role
from remand.domain.access.tokens import CALLS, TokenRole, require_call
from remand.domain.gate.gate import Gate
from remand.domain.record import NamedTuple
from remand.domain.text.redaction import redact
from remand.domain.text.toml import toml_value
from remand.interfaces.http.pages.page import PageQuery, WebPage
from remand.ledger import codec
from remand.ledger.signatures import decode_groups
from remand.wiring.ledger import event_publisher

MAX_UNCONFIRMED, MAX_SESSIONS = 50, 20
ACTIONS = ("token create", "token revoke")
_BY_HAND = "Remand cannot edit remand.toml as it is written. Change it yourself"


class PolicyRow(NamedTuple):
    """One value of the policy."""

    name: str
    value: str
    meaning: str
    is_default: bool


class ConfiguredGate(NamedTuple):
    gate: Gate
    thresholds: str
    is_required_by_default: bool


class KeysView(NamedTuple):
    """The trusted keys, and the events without effect."""

    own: PublicKey | None
    """The key of the server's machine."""
    trusted: tuple[PublicKey, ...]
    signers: tuple[keys.UnconfirmedSigner, ...]
    unconfirmed: tuple[ActivityEntry, ...]
    """The first unconfirmed events."""
    unconfirmed_count: int


class SettingsView(NamedTuple):
    branch: str
    """The branch whose remand.toml is in effect; empty if no commit has one."""
    commit: str
    has_file: bool
    members: tuple[Member, ...]
    former: tuple[str, ...]
    gates: tuple[ConfiguredGate, ...] | None
    policy: tuple[PolicyRow, ...]
    keys: KeysView | None
    """None if the caller may not see them."""
    tokens: tuple[Mapping[str, Any], ...]
    may: frozenset[str]
    roles: tuple[str, ...] = (Role.AGENT, Role.LEAD, Role.TESTER, Role.DIRECTOR, Role.USER)
    token_roles: tuple[str, ...] = tuple(TokenRole)

    @property
    def summary(self) -> str:
        return "The settings have changed."


def read_settings(query: PageQuery) -> SettingsView:
    """All effective settings with their sources."""
    source = query.opened.settings
    settings, written = source.settings(), source.written_settings()
    data = tomllib.loads(written.text)
    rows = tuple(_gate_rows(settings.gate_policy.gates, data.get("gates", {})))
    return SettingsView(
        branch=written.branch,
        commit=written.commit,
        has_file=bool(written.text),
        members=settings.team,
        former=settings.former,
        gates=None if settings.gate_policy.gates is None else rows,
        policy=tuple(_policy_rows(data.get("policy", {}))),
        keys=_read_keys(query) if query.caller.role in CALLS["keys"] else None,
        tokens=tuple(query.ask("token list")),
        may=frozenset(name for name in ACTIONS if query.caller.role in CALLS[name]),
    )


def _read_keys(query: PageQuery) -> KeysView:
    with query.opened.store.read() as view:
        withheld = list(view.unconfirmed.every())
    events = (codec.decode_stored_line(one.line) for one in withheld[:MAX_UNCONFIRMED])
    return KeysView(
        own=query.opened.ledger.keys.own(),
        trusted=query.rules.trusted,
        signers=tuple(keys.unconfirmed_signers(withheld, MAX_SESSIONS)),
        unconfirmed=tuple(activity_entry(event, is_unconfirmed=True) for event in events),
        unconfirmed_count=len(withheld),
    )


@cache
def _schema() -> Mapping[str, Any]:
    """The JSON Schema of the configuration, which describes each value."""
    found: Mapping[str, Any] = json.loads(Path(config.__file__).with_name("remand.schema.json").read_bytes())
    return found


def _policy_rows(written: Mapping[str, Any]) -> Iterator[PolicyRow]:
    for name, row in _schema()["properties"]["policy"]["properties"].items():
        is_default = name not in written
        value = toml_value(row.get("default", {}) if is_default else written[name])
        yield PolicyRow(name, value, row["description"], is_default)


def _gate_rows(gates: tuple[Gate, ...] | None, written: Mapping[str, Any]) -> Iterator[ConfiguredGate]:
    for gate in gates or ():
        thresholds = ", ".join(f"{name} = {value:g}" for name, value in gate.require.items())
        yield ConfiguredGate(gate, thresholds, "required" not in written.get(gate.name, {}))


# -------------------------------------------------------------------------------------------------- patches


class PatchView(NamedTuple):
    """A change of the base for a person to commit."""

    title: str
    branch: str
    commit: str
    patch: str = ""
    lines: tuple[tuple[str, str], ...] = ()
    """Each line with its kind: `add`, `cut`, `hunk` or `same`."""
    notes: tuple[str, ...] = ()
    download: str = ""
    problem: str = ""
    """Why there is no patch, and what to do."""


class SettingsChange(NamedTuple):
    """A change of remand.toml, as the whole file."""

    title: str
    text: str | None
    """The whole changed file; None if only a person can make the change."""
    by_hand: str
    notes: tuple[str, ...] = ()


def read_patch(query: PageQuery) -> PatchView:
    """The patch named in the address, or why there is none."""
    written = query.opened.settings.written_settings()
    view = PatchView("Change the settings", written.branch, written.commit)
    try:
        change = _change(query, written.text)
        view = view._replace(title=change.title, notes=change.notes)
        patch = make_patch(written.text, change)
    except (UsageError, config.ConfigError) as error:
        return view._replace(problem=str(error))
    lines = tuple((_line_kind(line), line) for line in patch.splitlines())
    download = query.address._replace(path="/settings/change.patch").text
    return view._replace(patch=patch, lines=lines, download=download)


def read_patch_text(query: PageQuery) -> str:
    """The patch alone, as `git apply` expects it."""
    found = read_patch(query)
    if found.problem:
        raise UsageError(found.problem)
    return found.patch


def make_patch(before: str, change: SettingsChange) -> str:
    """The difference as `git apply` expects it. Raises `UsageError` or `ConfigError` if the result would be invalid."""
    if change.text is None:
        raise UsageError(f"{_BY_HAND}: {change.by_hand}")
    if change.text == before:
        raise UsageError("The base already has this value.")
    config.parse(change.text)
    old = f"a/{config.NAME}" if before else "/dev/null"
    lines = difflib.unified_diff(_lines(before), _lines(change.text), old, f"b/{config.NAME}")
    head = f"diff --git a/{config.NAME} b/{config.NAME}\n" + ("" if before else "new file mode 100644\n")
    patch = head + "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    if redact(patch) != patch:
        raise UsageError(
            f"A line beside it looks like a secret, which no page shows. Change it yourself: {change.by_hand}"
        )
    return patch


def _lines(text: str) -> list[str]:
    """Lines as git counts them: only a newline ends one."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + (
        [last] if (last := text.rpartition("\n")[2]) else []
    )


def _line_kind(line: str) -> str:
    if line.startswith(("diff ", "--- ", "+++ ", "@@", "new file", "\\")):
        return "hunk"
    return {"+": "add", "-": "cut"}.get(line[:1], "same")


def _change(query: PageQuery, text: str) -> SettingsChange:
    """The change named in the address. Raises `UsageError`."""
    asked = query.address.query
    match asked.get("change", ""):
        case "member":
            return _add_member(text, asked)
        case "gate":
            return _require_gate(text, asked.get("gate", ""), is_required=asked.get("required") == "true")
        case "policy":
            return _set_policy(text, asked.get("name", ""), asked.get("value", ""))
        case "trust":
            require_call(query.caller, "keys")
            return _trust_key(query, text, asked.get("key", "").strip())
        case "revoke":
            require_call(query.caller, "keys")
            return _revoke_key(query, text, asked.get("key", ""))
        case _:
            raise UsageError("Choose a change on the settings page.")


def _add_member(text: str, asked: Mapping[str, str]) -> SettingsChange:
    name, role = asked.get("name", "").strip(), asked.get("role", Role.AGENT)
    skills = [word for word in asked.get("skills", "").replace(",", " ").split() if word]
    if not name:
        raise UsageError("Name the member.")
    member: dict[str, Any] = {"name": name, "role": role, **({"skills": skills} if skills else {})}
    by_hand = f"{toml_value(member)} in `members` of `[team]`."
    return SettingsChange(f"Add {name} as {role}", with_member(text, member), by_hand)


def _require_gate(text: str, gate: str, *, is_required: bool) -> SettingsChange:
    if gate not in tomllib.loads(text).get("gates", {}):
        raise UsageError("The base has no gate of that name.")
    changed = with_value(text, ("gates", gate, "required"), is_required)
    notes = () if is_required else ("Its results are then shown, but reject nothing.",)
    title = f"Make the gate {gate} {'required' if is_required else 'optional'}"
    return SettingsChange(title, changed, f"required = {toml_value(is_required)} of gate {gate}.", notes)


def _set_policy(text: str, name: str, value: str) -> SettingsChange:
    rows = _schema()["properties"]["policy"]["properties"]
    if name not in rows:
        raise UsageError("The policy has no value of that name.")
    meant = parse_value(value.strip())
    by_hand = f"{name} = {toml_value(meant)} in `[policy]`."
    title = f"Set {name} to {toml_value(meant)}"
    return SettingsChange(
        title, with_value(text, ("policy", name), meant), by_hand, (rows[name]["description"],)
    )


def _trust_key(query: PageQuery, text: str, asked: str) -> SettingsChange:
    """Trusts a key, given as the text that its machine printed or spelled out."""
    if asked.startswith(KEY_PREFIX):
        key = parse_public_key(asked)
    else:
        request = parse_key_request(asked)
        if request is not None and request.project != query.rules.project:
            raise UsageError("That key requests trust in another project.")
        key = request.key if request else None
    if key is None:
        raise UsageError("Paste the complete line that `remand keys request` prints on the key's machine.")
    if any(known.id == key.id for known in query.rules.trusted):
        raise UsageError(f"The base has key {key.id} already; one that was revoked is not trusted again.")
    notes = (
        "Ask its owner through another channel whether this is their key: whoever has it can act in their name.",
        f"Its id is {key.id}.",
    )
    changed = keys.add_trusted_key(text, key)
    return SettingsChange(
        f"Trust the key {key.name or key.id}", changed, f'"{key.entry}" in `[keys] trusted`.', notes
    )


def _revoke_key(query: PageQuery, text: str, key_id: str) -> SettingsChange:
    """Revokes a key that the base trusts."""
    key: PublicKey | None = next((one for one in query.rules.trusted if one.id == key_id), None)
    if key is None or key.until is not None:
        raise UsageError("The base trusts no key with that id.")
    opened = query.opened
    published = event_publisher.GitPublisher(opened.place).lines_at(opened.settings.tip())
    with opened.store.read() as view:
        found = keys.plan_revocation(
            view, key, decode_groups(published), verifier=opened.ledger.verifier(view)
        )
    lost = sum(row.count for row in found.change.lost)
    notes = (
        "Signed events that the base already has keep their effect; later ones have none.",
        f"{lost:,} events of this ledger lose their effect." if lost else "No event loses its effect.",
        f"For a stolen key, `remand keys revoke {key.id} --from SESSION:N` says since when it was stolen.",
    )
    by_hand = f"{keys.trusted_entry_text(key, found.ends)} in place of its entry."
    return SettingsChange(
        f"Revoke the key {key.name or key.id}", keys.end_key_trust(text, key, found.ends), by_hand, notes
    )


PAGES = (
    WebPage("/settings", "settings.html", "Settings", "token list", read_settings, nav="Settings", key="s"),
    WebPage(
        "/settings/patch",
        "settings_patch.html",
        "Change the settings",
        "token list",
        read_patch,
        is_long=True,
        is_live=False,
        is_lasting=True,
    ),
    WebPage(
        "/settings/change.patch", "", "Change", "token list", read_patch_text, is_long=True, is_live=False
    ),
)
