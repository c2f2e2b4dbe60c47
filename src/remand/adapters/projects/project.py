"""A project's files, the gates proposed for it, and their tables in `remand.toml`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

from remand.domain.gate.gate import Gate, GatePreparation, GateProposal, GateProposals
from remand.domain.text.toml import toml_value
from remand.domain.text.words import remove_invisible

MAX_BYTES = 1 << 20


def read_text(root: str, path: str) -> str:
    """A plain file's text; empty if there is none, or it is too large for a configuration."""
    try:
        descriptor = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return ""
    try:
        seen = os.fstat(descriptor)
        is_plain = stat.S_ISREG(seen.st_mode) and seen.st_size <= MAX_BYTES
        return os.read(descriptor, MAX_BYTES).decode("utf-8", "replace") if is_plain else ""
    finally:
        os.close(descriptor)


def has_program(root: str, path: str) -> bool:
    """True if the folder has such a program."""
    place = os.path.join(root, path)
    return os.path.isfile(place) and os.access(place, os.X_OK)


class Project(NamedTuple):
    """A repository's files. Nothing in it is executed."""

    paths: frozenset[str]
    """All tracked files, relative to the repository's root."""
    read: Callable[[str], str]
    """Reads a tracked file; empty if it is missing or unreadable."""
    has_program: Callable[[str], bool]
    """Tells whether the main worktree has a program, tracked or not."""
    uses_lock: bool = True
    """False if the packages in a lock file cannot be installed; then the project's declarations are used."""

    def below(self, folder: str) -> Project:
        """The project in a subfolder of this one."""
        if not folder:
            return self
        return Project(
            paths=frozenset(path[len(folder) + 1 :] for path in self.paths if path.startswith(f"{folder}/")),
            read=lambda path: self.read(f"{folder}/{path}"),
            has_program=lambda path: self.has_program(f"{folder}/{path}"),
            uses_lock=self.uses_lock,
        )

    def text(self, path: str) -> str:
        """A file's text; empty if it is not tracked."""
        return self.read(path) if path in self.paths else ""

    def first(self, *names: str) -> str:
        """The first of these files that is tracked; empty if none is."""
        return next((name for name in names if name in self.paths), "")

    def paths_matching(self, pattern: re.Pattern[str]) -> list[str]:
        """The tracked files whose whole path matches, in order."""
        return sorted(path for path in self.paths if pattern.fullmatch(path))


class Propose(Protocol):
    """Proposes gates for a project, for one ecosystem."""

    def __call__(self, project: Project) -> GateProposals:
        """The gates for the project; none if it does not use this ecosystem."""


def project_in(root: str, paths: list[str], *, uses_lock: bool = True) -> Project:
    """The project whose main worktree is that folder."""
    return Project(
        paths=frozenset(paths),
        read=partial(read_text, root),
        has_program=partial(has_program, root),
        uses_lock=uses_lock,
    )


def proposal(
    name: str,
    command: tuple[str, ...],
    parser: str,
    why: str,
    *,
    require: dict[str, float] | None = None,
    prepare: GatePreparation | None = None,
    timeout: float = 600.0,
) -> GateProposal:
    """Builds a gate proposal with its reason."""
    gate = Gate(
        name=name, command=command, parser=parser, require=require or {}, prepare=prepare, timeout=timeout
    )
    return GateProposal(name=name, gate=gate, why=why)


LEFT_OUT_MARK = "# Once it does, run `remand init` again, or remove the # below."
_LEFT_OUT = re.compile(
    rf"(?:^# [^\n]*\n)?^{re.escape(LEFT_OUT_MARK)}\n# \[gates\.([^\]\n]+)\]\n(?:^# [^\n]*\n)*", re.MULTILINE
)
_STEP = {"h": 3600, "m": 60, "s": 1}


def render_toml(proposed: GateProposals, left_out: Mapping[str, str] = MappingProxyType({})) -> str:
    """The gates as TOML, each below a comment with its reason; empty if there is none.

    Gates that were left out become comments below the reason why.
    """
    parts = [_gate(one, left_out.get(one.name, "")) for one in proposed.gates]
    if proposed.path:
        parts.insert(0, f"[sandbox]\npath = {toml_value(proposed.path)}\n")
    return "\n".join(parts)


def _gate(one: GateProposal, fault: str) -> str:
    why = remove_invisible(one.why).replace("\n", " ")
    rows = [f"[gates.{one.name}]", *_rows(one.gate)]
    if not fault:
        return f"# {why}\n" + "".join(f"{row}\n" for row in rows)
    cause = " ".join(remove_invisible(fault).split())
    note = f"# {why}. Left out, as it does not work yet: {cause}\n{LEFT_OUT_MARK}\n"
    return note + "".join(f"# {row}\n" for row in rows)


def left_out_gates(text: str) -> tuple[str, ...]:
    """The gates that a `remand.toml` has as comments because they did not work."""
    return tuple(_LEFT_OUT.findall(text))


def replace_left_out(text: str, proposed: GateProposals, left_out: Mapping[str, str]) -> str:
    """The same `remand.toml`, in which commented-out gates that work now are enabled."""
    gates = {one.name: _gate(one, left_out.get(one.name, "")) for one in proposed.gates}
    return _LEFT_OUT.sub(lambda found: gates.get(found[1], found[0]), text)


def _rows(gate: Gate) -> Iterator[str]:
    default = Gate(name="", command=())
    yield f"command = {toml_value(gate.command)}"
    yield f"parser = {toml_value(gate.parser)}"
    if gate.require:
        limits = ", ".join(f"{name} = {limit:g}" for name, limit in gate.require.items())
        yield f"require = {{{limits}}}"
    if gate.timeout != default.timeout:
        yield f'timeout = "{_duration(gate.timeout)}"'
    if gate.prepare is not None:
        yield f"prepare = {_prepare(gate.prepare)}"


def _prepare(prepare: GatePreparation) -> str:
    return toml_value({"command": prepare.command, "key": prepare.key})


def _duration(seconds: float) -> str:
    for unit, size in _STEP.items():
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
