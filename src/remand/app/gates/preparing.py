"""Making the gates' dependencies ready, once for each state of the lock files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from hashlib import sha256

import msgspec

from remand.app.gates.ports import Job, Limits
from remand.app.gates.prepared import PreparedFolders
from remand.app.gates.running import CACHE, Runner, filled
from remand.app.gates.workshop import Workshop
from remand.domain.gates.gate import Gate, GatePolicy, Prepare
from remand.domain.secrets import redacted
from remand.domain.visible import visible

_HEAD, _TAIL = 300, 500
_encode = msgspec.json.Encoder().encode


class Unprepared(Exception):  # noqa: N818 - a state of the dependencies
    """The dependencies could not be made ready."""


class Preparing:
    """Runs prepare steps, and finds again what they left."""

    def __init__(self, workshop: Workshop, policy: GatePolicy, runner: Runner) -> None:
        self._workshop = workshop
        self._policy = policy
        self._path = runner.path

    @contextmanager
    def folders(self, gates: Iterable[Gate], tree: str, base_tree: str) -> Iterator[dict[str, str]]:
        """The prepared folder of each gate that has one; a text that begins with `!` says why there is none.

        A step sees the base with the key files of the head: what else a branch changes has no part in a folder
        that other commits will find again.
        """
        made: dict[bytes, str] = {}
        found: dict[str, str] = {}
        with ExitStack() as lent:
            for gate in gates:
                if gate.prepare is None:
                    continue
                key = _encode(gate.prepare)
                if key not in made:
                    try:
                        made[key] = lent.enter_context(self._folder(gate.prepare, tree, base_tree))
                    except Unprepared as why:
                        made[key] = f"!{why}"
                found[gate.name] = made[key]
            yield found

    def _folder(self, prepare: Prepare, tree: str, base_tree: str) -> AbstractContextManager[str]:
        files = [self._workshop.mirror.file(tree, path) for path in prepare.key]
        content = [b"-" if content is None else sha256(content).digest() for content in files]
        name = sha256(_encode((prepare, content, self._path))).hexdigest()[:24]

        def make(folder: str) -> None:
            seen = self._workshop.mirror.compose(base_tree, tree, prepare.key) if base_tree else tree
            self._make(prepare, seen, folder)

        return PreparedFolders(self._workshop.prepared).lend(name, make)

    def _make(self, prepare: Prepare, tree: str, folder: str) -> None:
        fill = {CACHE: folder}
        with self._workshop.checkouts.lend(tree) as checkout:
            ended = self._workshop.sandbox.run(
                Job(
                    command=filled(prepare.command, fill),
                    folder=checkout,
                    cache=folder,
                    may_write_cache=True,
                    has_network=True,
                    read=self._policy.read,
                    hide=self._workshop.hide,
                    path=self._path,
                    limits=Limits(seconds=prepare.timeout),
                )
            )
        if ended.how != "exited" or ended.status:
            said = _said(ended.errors or ended.output) or ended.detail or ended.how
            raise Unprepared(f"The prepare step `{' '.join(prepare.command)[:120]}` failed: {said}")


def _said(output: bytes) -> str:
    """The beginning and the end of what a step said, without advertisements."""
    rows = [row for row in output.decode("utf-8", "replace").splitlines() if not row.startswith("npm notice")]
    text = redacted(visible("\n".join(rows))).strip()
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]} … {text[-_TAIL:]}"
