"""Prepare steps: the folders in which they leave what gates need, and their reuse."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from hashlib import sha256

import msgspec

from remand.app.gates.ports import MIB, GateEnvironment, Job, JobLimits
from remand.app.gates.runner import CACHE, GateRunner, fill_placeholders, keep_output, render_output
from remand.domain.gate.gate import Gate, GatePolicy, GatePreparation
from remand.domain.record import NamedTuple

MAX_FOLDERS = 8
"""How many folders are kept: for the base and for branches with lock files of their own. One may take a gigabyte."""

LOCK_SUFFIX, DONE_SUFFIX = ".lock", ".done"
"""The suffixes of files beside a folder, where the step that fills it cannot write."""


class PreparedFolders:
    """Folders by name; removes the least recently used."""

    def __init__(self, root: str, kept: int = MAX_FOLDERS) -> None:
        self._root, self._kept = root, kept

    @contextmanager
    def lend(self, name: str, make: Callable[[str], None]) -> Iterator[str]:
        """A folder that `make` has filled, now or before; it is kept while it is lent."""
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        folder = os.path.join(self._root, name)
        lock = _lock_if_ready(folder)
        try:
            while lock is None:
                _fill_folder(folder, make)
                lock = _lock_if_ready(folder)
                self._remove_unused()
            yield folder
        finally:
            if lock is not None:
                os.close(lock)

    def _remove_unused(self) -> None:
        names = {os.path.splitext(name)[0] for name in os.listdir(self._root)}
        folders = [os.path.join(self._root, name) for name in names]
        there = sorted(filter(os.path.isdir, folders), key=_last_used, reverse=True)
        for folder in {*folders} - {*there[: self._kept]}:
            with suppress(BlockingIOError):
                lock = _lock_folder(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    if _remove_folder(folder):
                        os.unlink(folder + LOCK_SUFFIX)
                finally:
                    os.close(lock)


def _lock_if_ready(folder: str) -> int | None:
    """A shared lock on a finished folder; None if it has to be made."""
    lock = _lock_folder(folder, fcntl.LOCK_SH)
    try:
        os.utime(folder + DONE_SUFFIX)
    except FileNotFoundError:
        os.close(lock)
        return None
    return lock


def _fill_folder(folder: str, make: Callable[[str], None]) -> None:
    """Makes a folder, one process at a time; removes what a killed process left of it."""
    lock = _lock_folder(folder, fcntl.LOCK_EX)
    try:
        if not os.path.exists(folder + DONE_SUFFIX):
            _remove_folder(folder)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            make(folder)
            with open(folder + DONE_SUFFIX, "wb"):
                pass
    finally:
        if not os.path.exists(folder + DONE_SUFFIX):
            _remove_folder(folder)
        os.close(lock)


def _lock_folder(folder: str, how: int) -> int:
    """Locks a folder's name, whether or not the folder exists; raises BlockingIOError if it should not wait."""
    while True:
        lock = os.open(folder + LOCK_SUFFIX, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, how)
            if os.path.samestat(os.fstat(lock), os.stat(folder + LOCK_SUFFIX)):
                return lock
        except FileNotFoundError:
            pass
        except OSError:
            os.close(lock)
            raise
        # The lock file was removed before we got the lock.
        os.close(lock)


def _last_used(folder: str) -> float:
    """When a folder was last used; for an unfinished one, when it was begun."""
    for path in (folder + DONE_SUFFIX, folder):
        with suppress(OSError):
            return os.stat(path).st_mtime
    return 0.0


def _remove_folder(folder: str) -> bool:
    """Removes a folder, which counts as not made from then on; False if some of it remains."""
    with suppress(FileNotFoundError):
        os.unlink(folder + DONE_SUFFIX)
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.lexists(folder):
            _make_writable(folder)
            shutil.rmtree(folder, ignore_errors=True)
    return not os.path.lexists(folder)


def _make_writable(folder: str) -> None:
    """Makes all folders below one writable: some tools remove that permission."""
    os.chmod(folder, stat.S_IRWXU)
    for at, names, _ in os.walk(folder):
        for path in (os.path.join(at, name) for name in names):
            if not os.path.islink(path):
                os.chmod(path, stat.S_IRWXU)


SCRIPTS = "{scripts}"
PINS = "pins"
"""A folder whose content is restored when a prepared folder is recreated, such as chosen versions."""
MAX_PINS, MAX_PIN = 16, 16 * MIB
_encode_step = msgspec.json.Encoder().encode


class PreparationFault(Exception):  # noqa: N818 - a state of the dependencies
    """The dependencies could not be prepared."""


class PreparationBase(NamedTuple):
    """The tree from which prepare steps take everything but their key files."""

    tree: str = ""
    """Empty if there is none: then a step sees the measured tree."""
    is_shared: bool = False
    """True if the base branch has it, so that other commits may reuse the folder by the key files alone."""
    may_have_secrets: bool = False
    """True if the user decided what the step does; it still gets no secrets if the key files differ from the base's."""


class Preparation:
    """Runs prepare steps, and reuses their results."""

    def __init__(self, environment: GateEnvironment, policy: GatePolicy, runner: GateRunner) -> None:
        self._environment = environment
        self._policy = policy
        self._path = runner.path

    @contextmanager
    def folders(self, gates: Iterable[Gate], tree: str, base: PreparationBase) -> Iterator[dict[str, str]]:
        """The prepared folder of each gate that has one; a text that begins with `!` says why there is none.

        A step sees the base with the head's key files: a branch's other changes must not get into a folder
        that other commits will reuse. A base that is not on the base branch, and a tree without a base, may
        be an agent's: their folders are reused only for exactly the same files.
        """
        found: dict[str, str] = {}
        users: dict[bytes, tuple[GatePreparation, list[str]]] = {}
        for gate in gates:
            if gate.prepare is not None:
                users.setdefault(_encode_step(gate.prepare), (gate.prepare, []))[1].append(gate.name)
        with ExitStack() as lent:
            for prepare, names in users.values():
                try:
                    folder = lent.enter_context(self._prepared_folder(prepare, tree, base, names))
                except PreparationFault as why:
                    folder = f"!{why}"
                found.update(dict.fromkeys(names, folder))
            yield found

    def _prepared_folder(
        self, prepare: GatePreparation, tree: str, base: PreparationBase, gates: Sequence[str]
    ) -> AbstractContextManager[str]:
        mirror = self._environment.mirror
        files = [mirror.file(tree, path) for path in prepare.key]
        content = [b"-" if content is None else sha256(content).digest() for content in files]
        seen = mirror.compose(base.tree, tree, prepare.key) if base.tree else tree
        # Its values alone: an encoded record distinguishes a default from the same value read from a file.
        parts = (prepare.command, prepare.key, content, self._path, self._scripts_digest(prepare))
        own = () if base.is_shared else (seen,)
        name = sha256(_encode_step((*parts, *own))).hexdigest()[:24]
        # Whoever changes what is installed could have it read the user's passwords and send them away.
        has_secrets = base.may_have_secrets and seen == base.tree

        def make(folder: str) -> None:
            label, begun = ", ".join(gates), time.monotonic()
            self._environment.progress(label, "prepare")
            pins = os.path.join(f"{self._environment.prepared}-{PINS}", name)
            try:
                copy_pins(pins, os.path.join(folder, PINS))
                self._run_step(prepare, seen, folder, has_secrets=has_secrets)
                copy_pins(os.path.join(folder, PINS), pins)
            finally:
                self._environment.progress(label, "prepare", time.monotonic() - begun)

        return PreparedFolders(self._environment.prepared).lend(name, make)

    def _scripts_digest(self, prepare: GatePreparation) -> str:
        """A value that changes with those of Remand's scripts that a step runs."""
        digest = sha256()
        for word in prepare.command:
            if word.startswith(f"{SCRIPTS}/"):
                with suppress(OSError), open(self._fill(word), "rb") as file:
                    digest.update(file.read())
        return digest.hexdigest()

    def _fill(self, word: str) -> str:
        return word.replace(SCRIPTS, self._environment.scripts)

    def _run_step(self, prepare: GatePreparation, tree: str, folder: str, *, has_secrets: bool) -> None:
        environment, fill = self._environment, {CACHE: folder, SCRIPTS: self._environment.scripts}
        with environment.checkouts.lend(tree) as checkout, environment.reports.folder() as settings:
            registry = environment.registry(settings, has_secrets=has_secrets)
            ended = environment.sandbox.run(
                Job(
                    command=fill_placeholders(prepare.command, fill),
                    folder=checkout,
                    report=settings,
                    cache=folder,
                    may_write_cache=True,
                    has_network=True,
                    read=(*self._policy.read, *registry.read, *filter(None, [environment.scripts])),
                    hide=environment.hide,
                    path=self._path,
                    environment=dict(registry.environment),
                    limits=JobLimits(seconds=prepare.timeout),
                )
            )
        if ended.how != "exited" or ended.status:
            kept = keep_output(environment.reports, "the prepare step", ended)
            happened = ended.detail or (f"status {ended.status}" if ended.how == "exited" else ended.how)
            raise PreparationFault(f"The prepare step failed: {happened}. {render_output(ended, kept)}")


def copy_pins(source: str, target: str) -> None:
    """Copies the plain files of one folder into another; skips links, which a step could point anywhere."""
    with suppress(OSError):
        if os.path.islink(source):
            return
        names = [entry.name for entry in os.scandir(source) if entry.is_file(follow_symlinks=False)]
        for name in sorted(names)[:MAX_PINS]:
            descriptor = os.open(os.path.join(source, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                content = file.read(MAX_PIN + 1)
            if len(content) <= MAX_PIN:
                os.makedirs(target, mode=0o700, exist_ok=True)
                with open(os.path.join(target, name), "wb") as copy:
                    copy.write(content)
