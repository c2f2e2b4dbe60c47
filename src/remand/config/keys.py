"""The `[keys]` table, and the id of the project that signatures are bound to."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from remand.config.values import NAME, ConfigError, known, text
from remand.domain.keys import ChainEnd, PublicKey, public_key

_PROJECT = re.compile(r"[0-9a-f]{16}")
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_CHAIN = re.compile(r"[0-9a-f]{32}")
_MAX_NUMBER = 1 << 40


def project_id(project: dict[str, Any]) -> str:
    """The project's own id; empty when it has none."""
    found = text(project.get("id", ""), "project.id")
    if "id" in project and not _PROJECT.fullmatch(found):
        raise ConfigError(
            f"{NAME}: `project.id` must be 16 hex digits; put back the one that `remand init` wrote."
        )
    return found


def trusted_keys(keys: dict[str, Any]) -> tuple[PublicKey, ...]:
    """The keys whose signatures count."""
    known(keys, ("trusted",), "keys.")
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
    """A key as a text, or as a table that may say where its trust ends."""
    if isinstance(entry, str):
        return _key(entry, where)
    if not isinstance(entry, dict):
        raise ConfigError(f'{NAME}: `{where}` is no key; write it as "ed25519:BASE64 name".')
    known(entry, ("key", "name", "until"), f"{where}.")
    written = f"{text(entry.get('key', 0), f'{where}.key')} {text(entry.get('name', ''), f'{where}.name')}"
    key = _key(written, f"{where}.key")
    return replace(key, until=_until(entry["until"], f"{where}.until", key)) if "until" in entry else key


def _until(places: Any, where: str, key: PublicKey) -> tuple[ChainEnd, ...]:
    if not isinstance(places, list) or not all(isinstance(place, dict) for place in places):
        raise _wrong_end(where, "must be a list of places in sessions", key)
    found = tuple(_end(place, f"{where}[{number}]", key) for number, place in enumerate(places))
    if len({end.session for end in found}) < len(found):
        raise _wrong_end(where, "names a session twice", key)
    return found


def _end(place: dict[str, Any], where: str, key: PublicKey) -> ChainEnd:
    known(place, ("session", "number", "chain"), f"{where}.")
    session, number, chain = (place.get(name) for name in ("session", "number", "chain"))
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
        raise _wrong_end(f"{where}.session", "must be the name of a session", key)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < _MAX_NUMBER:
        raise _wrong_end(f"{where}.number", "must be the number of an event", key)
    if not isinstance(chain, str) or not _CHAIN.fullmatch(chain):
        raise _wrong_end(f"{where}.chain", "must be the chain's value there, 32 hex digits", key)
    return ChainEnd(session=session, number=number, chain=chain)


def _wrong_end(where: str, what: str, key: PublicKey) -> ConfigError:
    name = f"{key.id} ({key.name})" if key.name else key.id
    return ConfigError(
        f"{NAME}: `{where}` {what}. It says where the trust in key {name} ends; "
        f"`remand keys revoke {key.id}` prints it as it should be."
    )


def _key(entry: str, where: str) -> PublicKey:
    key = public_key(entry)
    if key is None:
        raise ConfigError(
            f'{NAME}: `{where}` is no key; write it as "ed25519:BASE64 name", as `remand keys` prints it '
            "on the machine it belongs to."
        )
    return key
