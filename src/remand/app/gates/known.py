"""Verdicts that are known already: an unchanged tree is answered at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from remand.app.gates.ports import Cache, Tools
from remand.domain.gates.gate import GatePolicy, digest
from remand.domain.gates.verdict import UNMEASURED, Verdict
from remand.domain.record import Record

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Verdict).decode


class Terms(Record, kw_only=True):
    """What a commit is measured by: its base, and the rules that base has."""

    commit: str
    base: str = ""
    policy: GatePolicy = GatePolicy()
    claimed_under: GatePolicy | None = None
    """The rules at the claim, where the base has others now."""
    has_base_rules: bool = False
    """The commit has the configuration that the base has now, however it came to that."""


class Judged(NamedTuple):
    """A verdict, and whether it was known before."""

    verdict: Verdict
    is_cached: bool = False


class Question(NamedTuple):
    """All that a verdict depends on, and the name it is kept under."""

    key: str
    tree: str
    base_tree: str
    tools: str


class KnownVerdicts:
    """The verdicts of one policy, by code tree, base, rules and tools."""

    def __init__(
        self,
        tree: Callable[[str], str],
        cache: Cache,
        tools: Tools,
        path: tuple[str, ...],
        policy: GatePolicy,
    ) -> None:
        self._tree = tree
        self._cache = cache
        self._tools = tools
        self._path = path
        self._policy = policy

    def question(self, terms: Terms) -> Question:
        """What is asked about a commit."""
        tree = self._tree(terms.commit)
        base_tree = self._tree(terms.base) if terms.base else ""
        commands = [gate.command for gate in self._policy.gates or ()]
        tools = self._tools.digest(commands, self._path)
        parts = ("verdict 3", tree, base_tree, digest(self._policy), tools)
        return Question(sha256(_encode(parts)).hexdigest(), tree, base_tree, tools)

    def answer(self, asked: Question, terms: Terms) -> Judged | None:
        """The verdict, if there is one."""
        known = self._cache.get(asked.key)
        if known is None:
            return None
        return Judged(replace(_decode(known), commit=terms.commit, base=terms.base), is_cached=True)

    def keep(self, asked: Question, verdict: Verdict) -> None:
        """Keeps a verdict; what could not be measured is measured again next time."""
        if not any(gate.status in UNMEASURED for gate in verdict.gates):
            self._cache.put(asked.key, _encode(verdict))


def search_path(root: str, standard: tuple[str, ...], policy: GatePolicy) -> tuple[str, ...]:
    """The folders in which the gates' programs are found: those the configuration names come first."""
    return (*(os.path.join(root, name) for name in policy.path), *standard)
