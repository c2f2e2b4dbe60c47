"""The working tree's `remand.toml`: which keys it trusts, changes to that, and what it lacks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from remand import config
from remand.app.errors import EnvironmentFault
from remand.app.log.keys import add_trusted_key, end_key_trust
from remand.app.requests import Rules
from remand.domain.access.keys import ChainEnd, KeyRequest, PublicKey


class ProjectFile:
    """The configuration in a main worktree, whether the base branch has it or not."""

    def __init__(self, root: str) -> None:
        self._path = Path(root, config.NAME)

    def trusted_keys(self) -> tuple[PublicKey, ...]:
        """The keys that it trusts."""
        try:
            return config.parse(self._read(), source="working tree").trusted
        except config.ConfigError:
            return ()

    def add_trusted(self, key: PublicKey) -> bool:
        """Adds a key; False when that takes a human."""
        return self._replace(add_trusted_key(self._read_valid(), key))

    def end_trust(self, key: PublicKey, ends: Sequence[ChainEnd]) -> bool:
        """Ends the trust in a key; False when that takes a human."""
        return self._replace(end_key_trust(self._read_valid(), key, ends))

    def _read(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise EnvironmentFault(
                f"{config.NAME} cannot be read ({error}). Fix that, then repeat."
            ) from None

    def _read_valid(self) -> str:
        text = self._read()
        try:
            config.parse(text)
        except config.ConfigError as error:
            raise EnvironmentFault(str(error)) from None
        return text

    def _replace(self, text: str | None) -> bool:
        if text is None:
            return False
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.draft")
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(self._path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise EnvironmentFault(
                f"{self._path} cannot be written ({error.strerror}). Fix that, then repeat."
            ) from None
        return True


def request_for_trust(rules: Rules, own: PublicKey) -> str:
    """What another machine needs to trust this one's key, where the base does not; empty where it does."""
    return KeyRequest(project=rules.project, key=own).text if rules.untrusted_key_id(own) else ""


def missing_lines(rules: Rules, own: PublicKey, fresh_id: str) -> list[str]:
    """What to add to a configuration so that what this machine writes counts for others.

    Where others are trusted already, one of them adds the key: `request_for_trust` is for them.
    """
    lines = [] if rules.project else [f'`id = "{fresh_id}"` to `[project]`']
    is_listed = own.id in {key.id for key in rules.trusted}
    if not is_listed and not request_for_trust(rules, own):
        lines.append(f'`"{own.entry}",` to `trusted = [ … ]` in `[keys]`')
    return lines
