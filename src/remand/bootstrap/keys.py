"""The machine's key and the project's id, as `remand.toml` has them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from remand import config
from remand.adapters.git.place import Place
from remand.adapters.git.publish import GitPublisher
from remand.adapters.system.clock import RandomIds
from remand.app.errors import EnvironmentFault
from remand.app.trusting import with_end, with_key
from remand.bootstrap.ledger import Opened, machine_keys
from remand.domain.key_requests import KeyRequest
from remand.domain.keys import ChainEnd, PublicKey
from remand.ledger import signatures
from remand.ledger.problems import BadLine
from remand.ledger.signatures import Group, is_group


class Identity(NamedTuple):
    """What a new `remand.toml` names: a random id for the project, and the machine's public key."""

    project: str
    key: str


def new_identity() -> Identity:
    """An id for a new project, and the machine's key as a trusted one; the key is made when there is none."""
    ids = RandomIds()
    return Identity(ids.hex() + ids.hex(), machine_keys().made().entry)


def missing_lines(opened: Opened) -> list[str]:
    """What to add to a configuration so that what this machine writes counts for others.

    Where others are trusted already, one of them adds the key: `request_for_trust` is for them.
    """
    settings, identity = opened.settings.settings(), new_identity()
    lines = [] if settings.project else [f'`id = "{identity.project}"` to `[project]`']
    is_listed = machine_keys().made().id in {key.id for key in settings.trusted}
    if not is_listed and not request_for_trust(opened):
        lines.append(f'`"{identity.key}",` to `trusted = [ … ]` in `[keys]`')
    return lines


def request_for_trust(opened: Opened) -> str:
    """What another machine needs to trust this one's key, where the base does not; empty where it does."""
    own = opened.ledger.keys.made()
    if not opened.settings.rules().untrusted(own):
        return ""
    return KeyRequest(project=opened.settings.settings().project, key=own).text


def listed_in(place: Place) -> tuple[PublicKey, ...]:
    """The keys that the working tree's configuration trusts, whether the base branch does or not."""
    try:
        return config.parse(_read(place), source="working tree").trusted
    except config.ConfigError:
        return ()


def write_trusted(place: Place, key: PublicKey) -> bool:
    """Adds a key to the working tree's configuration; False when that takes a human."""
    return _rewrite(place, with_key(_sound(place), key))


def write_end(place: Place, key: PublicKey, ends: Sequence[ChainEnd]) -> bool:
    """Ends the trust in a key in the working tree's configuration; False when that takes a human."""
    return _rewrite(place, with_end(_sound(place), key, ends))


def published_groups(opened: Opened) -> list[Group]:
    """The signed groups in the event files of the base branch."""
    commit = opened.settings.tip()
    lines = GitPublisher(opened.place).lines_at(commit) if commit else ()
    return [group for line in lines if is_group(line) for group in _read_group(line.rstrip(b"\r"))]


def _read_group(line: bytes) -> tuple[Group, ...]:
    """The group of a line; nothing when it is damaged."""
    try:
        return (signatures.read(line),)
    except BadLine:
        return ()


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
