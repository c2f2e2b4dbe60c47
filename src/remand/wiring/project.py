"""What `remand.toml` names for a project: its id, trusted keys and proposed gates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from remand import config
from remand.adapters.git.event_publisher import GitPublisher
from remand.adapters.git.location import LedgerLocation
from remand.adapters.projects import go, javascript, project, python, rust
from remand.adapters.projects.project import Project, Propose, project_in
from remand.adapters.system.clock import RandomIds
from remand.app.errors import EnvironmentFault
from remand.app.log.keys import add_trusted_key, end_key_trust
from remand.domain.access.keys import ChainEnd, KeyRequest, PublicKey
from remand.domain.gate.gate import GateProposal, GateProposals
from remand.ledger import signatures
from remand.ledger.problems import BadLine
from remand.ledger.signatures import EventGroup, is_group
from remand.wiring.ledger import machine_keys
from remand.wiring.open_ledger import OpenLedger

_ECOSYSTEMS: dict[str, Propose] = {
    "python": python.propose,
    "js": javascript.propose,
    "rust": rust.propose,
    "go": go.propose,
}


def propose_gates(root: str, paths: list[str]) -> GateProposals:
    """What the tracked files of a main worktree speak for. Nothing is run."""
    return propose_project_gates(project_in(root, paths))


def propose_project_gates(project: Project) -> GateProposals:
    """What a project's files speak for; gates of the same name get their ecosystem's name added."""
    gates: dict[str, GateProposal] = {}
    path: list[str] = []
    for ecosystem, found in _proposals(project):
        path += found.path
        for one in found.gates:
            name = one.name if one.name not in gates else f"{ecosystem}-{one.name}"
            gates[name] = replace(one, name=name, gate=replace(one.gate, name=name))
    return GateProposals(gates=tuple(gates.values()), path=tuple(path))


def as_toml(proposed: GateProposals) -> str:
    """Proposed gates as tables of `remand.toml`."""
    return project.render_toml(proposed)


def _proposals(project: Project) -> Iterator[tuple[str, GateProposals]]:
    for ecosystem, look in _ECOSYSTEMS.items():
        yield ecosystem, look(project)


class ProjectIdentity(NamedTuple):
    """What a new `remand.toml` names: a random id for the project, and the machine's public key."""

    project: str
    key: str


def new_identity() -> ProjectIdentity:
    """An id for a new project, and the machine's key as a trusted one; the key is made when there is none."""
    ids = RandomIds()
    return ProjectIdentity(ids.hex() + ids.hex(), machine_keys().ensure_key().entry)


def missing_lines(opened: OpenLedger) -> list[str]:
    """What to add to a configuration so that what this machine writes counts for others.

    Where others are trusted already, one of them adds the key: `request_for_trust` is for them.
    """
    settings, identity = opened.settings.settings(), new_identity()
    lines = [] if settings.project else [f'`id = "{identity.project}"` to `[project]`']
    is_listed = machine_keys().ensure_key().id in {key.id for key in settings.trusted}
    if not is_listed and not request_for_trust(opened):
        lines.append(f'`"{identity.key}",` to `trusted = [ … ]` in `[keys]`')
    return lines


def request_for_trust(opened: OpenLedger) -> str:
    """What another machine needs to trust this one's key, where the base does not; empty where it does."""
    own = opened.ledger.keys.ensure_key()
    if not opened.settings.rules().untrusted_key_id(own):
        return ""
    return KeyRequest(project=opened.settings.settings().project, key=own).text


def trusted_in_working_tree(place: LedgerLocation) -> tuple[PublicKey, ...]:
    """The keys that the working tree's configuration trusts, whether the base branch does or not."""
    try:
        return config.parse(_read_config(place), source="working tree").trusted
    except config.ConfigError:
        return ()


def write_trusted(place: LedgerLocation, key: PublicKey) -> bool:
    """Adds a key to the working tree's configuration; False when that takes a human."""
    return _replace_config(place, add_trusted_key(_read_valid_config(place), key))


def write_end(place: LedgerLocation, key: PublicKey, ends: Sequence[ChainEnd]) -> bool:
    """Ends the trust in a key in the working tree's configuration; False when that takes a human."""
    return _replace_config(place, end_key_trust(_read_valid_config(place), key, ends))


def published_groups(opened: OpenLedger) -> list[EventGroup]:
    """The signed groups in the event files of the base branch."""
    commit = opened.settings.tip()
    lines = GitPublisher(opened.place).lines_at(commit) if commit else ()
    return [group for line in lines if is_group(line) for group in _read_group(line.rstrip(b"\r"))]


def _read_group(line: bytes) -> tuple[EventGroup, ...]:
    """The group of a line; nothing when it is damaged."""
    try:
        return (signatures.decode_group(line),)
    except BadLine:
        return ()


def _read_valid_config(place: LedgerLocation) -> str:
    text = _read_config(place)
    try:
        config.parse(text)
    except config.ConfigError as error:
        raise EnvironmentFault(str(error)) from None
    return text


def _read_config(place: LedgerLocation) -> str:
    try:
        return Path(place.root, config.NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFault(f"{config.NAME} cannot be read ({error}). Mend that, then repeat.") from None


def _replace_config(place: LedgerLocation, text: str | None) -> bool:
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
