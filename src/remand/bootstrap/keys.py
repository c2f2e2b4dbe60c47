"""The machine's key and the project's id, as `remand.toml` has them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from remand import config
from remand.adapters.git.place import Place
from remand.adapters.system.clock import RandomIds
from remand.app.errors import EnvironmentFault
from remand.app.trusting import with_key, without_key
from remand.bootstrap.ledger import machine_keys
from remand.domain.keys import PublicKey


class Identity(NamedTuple):
    """What a new `remand.toml` names: a random id for the project, and the machine's public key."""

    project: str
    key: str


def new_identity() -> Identity:
    """An id for a new project, and the machine's key as a trusted one; the key is made when there is none."""
    ids = RandomIds()
    return Identity(ids.hex() + ids.hex(), machine_keys().made().entry)


def missing_lines(settings: config.Settings) -> list[str]:
    """What to add to a configuration so that what this machine writes counts for others."""
    identity = new_identity()
    lines = [] if settings.project else [f'`id = "{identity.project}"` to `[project]`']
    if machine_keys().made().id not in {key.id for key in settings.trusted}:
        lines.append(f'`"{identity.key}",` to `trusted = [ … ]` in `[keys]`')
    return lines


def listed_in(place: Place) -> tuple[PublicKey, ...]:
    """The keys that the working tree's configuration trusts, whether the base branch does or not."""
    try:
        return config.parse(_read(place), source="working tree").trusted
    except config.ConfigError:
        return ()


def write_trusted(place: Place, key: PublicKey) -> bool:
    """Adds a key to the working tree's configuration; False when that takes a human."""
    return _rewrite(place, with_key(_sound(place), key))


def write_revoked(place: Place, key: PublicKey) -> bool:
    """Takes a key out of the working tree's configuration; False when that takes a human."""
    return _rewrite(place, without_key(_sound(place), key))


def _sound(place: Place) -> str:
    text = _read(place)
    try:
        config.parse(text)
    except config.ConfigError as error:
        raise EnvironmentFault(str(error)) from None
    return text


def _read(place: Place) -> str:
    try:
        return Path(place.root, config.NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFault(f"{config.NAME} cannot be read ({error}). Mend that, then repeat.") from None


def _rewrite(place: Place, text: str | None) -> bool:
    if text is None:
        return False
    path = Path(place.root, config.NAME)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise EnvironmentFault(
            f"{path} cannot be written ({error.strerror}). Mend that, then repeat."
        ) from None
    return True
