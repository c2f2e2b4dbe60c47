"""Proposed gates as tables of `remand.toml`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from remand.domain.gates.gate import Gate, Prepare
from remand.domain.gates.proposal import Proposal, Proposed
from remand.domain.visible import visible

_STEP = {"h": 3600, "m": 60, "s": 1}


def as_toml(proposed: Proposed) -> str:
    """The tables, each gate under a line that says why it is proposed; empty when nothing is."""
    parts = [_gate(one) for one in proposed.gates]
    if proposed.path:
        parts.insert(0, f"[sandbox]\npath = {_list(proposed.path)}\n")
    return "\n".join(parts)


def _gate(one: Proposal) -> str:
    why = visible(one.why).replace("\n", " ")
    return f"# {why}\n[gates.{one.name}]\n" + "".join(f"{row}\n" for row in _rows(one.gate))


def _rows(gate: Gate) -> Iterator[str]:
    default = Gate(name="", command=())
    yield f"command = {_list(gate.command)}"
    yield f"parser = {_text(gate.parser)}"
    if gate.require:
        limits = ", ".join(f"{name} = {limit:g}" for name, limit in gate.require.items())
        yield f"require = {{{limits}}}"
    if gate.timeout != default.timeout:
        yield f'timeout = "{_duration(gate.timeout)}"'
    if gate.prepare is not None:
        yield f"prepare = {_prepare(gate.prepare)}"


def _prepare(prepare: Prepare) -> str:
    return f"{{command = {_list(prepare.command)}, key = {_list(prepare.key)}}}"


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, words))}]"


def _text(word: str) -> str:
    """A TOML basic string, which escapes as JSON does, and DEL besides."""
    return json.dumps(word, ensure_ascii=False).replace("\x7f", "\\u007f")


def _duration(seconds: float) -> str:
    for unit, size in _STEP.items():
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
