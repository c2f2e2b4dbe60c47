"""The configuration that holds: on the protected base branch, or in the working tree while the base has none."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Protocol

from remand import config
from remand.app.errors import EnvironmentFault
from remand.app.ports import Commit
from remand.app.requests import Rules
from remand.config.project import missing_base_message, unknown_base_message
from remand.domain.gate.gate import policy_digest
from remand.domain.record import NamedTuple
from remand.domain.task import Task

DEFAULT_BASES = ("main", "master")
"""What a base is called where nothing else says it."""
LOOK_AGAIN_SECONDS = 0.01
WORKING_TREE = "working tree"
"""The source of a configuration that no commit has."""


class BranchReader(Protocol):
    """The branches of a repository."""

    def branch(self) -> str:
        """The branch checked out where we were called; empty when there is none."""

    def default_branch(self, usual: tuple[str, ...]) -> str:
        """The remote's default branch, else the first of the usual ones that is there; empty when none is."""

    def tip(self, branch: str) -> str:
        """The commit at the tip of a branch; empty when there is none."""

    def origin_tip(self, branch: str) -> str:
        """The same of the branch that `origin` has."""

    def file(self, commit: str, path: str) -> bytes | None:
        """A file's content at a commit; None when it is not there."""


class RemoteReader(Protocol):
    """Where a repository fetches from."""

    def remotes(self) -> tuple[str, ...]:
        """Their names."""

    def has_remote(self) -> bool:
        """True when there is one."""

    def has_fetched(self) -> bool:
        """True when something here came from another repository."""

    def commit(self, name: str) -> Commit | None:
        """The commit behind a name; None when there is none."""


class WrittenSettings(NamedTuple):
    """The configuration that holds, as it is written."""

    text: str
    branch: str
    """The branch that has it; empty when it stands in the working tree alone, or nowhere."""
    commit: str


class SettingsRepository(BranchReader, RemoteReader, Protocol):
    """What the configuration is read from."""


class SettingsSource:
    """Reads the configuration again whenever the base branch or the working file has moved."""

    def __init__(self, repository: SettingsRepository, root: str, common_dir: str) -> None:
        self._repository = repository
        self._path = os.path.join(root, config.NAME)
        self._common_dir = common_dir
        self._marks: tuple[object, ...] = ()
        self._settings = config.Settings()
        self._rules = Rules()
        self._watched = self._watch("main")
        self._looked = float("-inf")
        self._has_file: dict[str, bool] = {}

    def rules(self) -> Rules:
        """The team and its policy."""
        self.settings()
        return self._rules

    def written_settings(self) -> WrittenSettings:
        """The file that `settings` were read from."""
        source = self.settings().source
        if source in ("", WORKING_TREE):
            return WrittenSettings(self._working_text() if source else "", "", "")
        commit = self.tip(source)
        content = self._repository.file(commit, config.NAME) or b""
        return WrittenSettings(_decode_config(content), source, commit)

    def has_base_moved(self, task: Task) -> bool:
        """True when the base is at another commit than when a task was claimed; raises when it is gone."""
        before, now = task.claim.base if task.claim is not None else "", self.rules().base
        if before in ("", now):
            return False
        if not now:
            raise EnvironmentFault(
                "The base branch was there when this task was claimed, and is gone. Bring it back, then repeat."
            )
        return True

    def settings(self) -> config.Settings:
        """The configuration as it is now."""
        now = time.monotonic()
        if now - self._looked < LOOK_AGAIN_SECONDS:
            return self._settings
        self._looked = now
        if tuple(map(_file_mark, self._watched)) != self._marks:
            try:
                self._settings = self._read()
            except config.ConfigError as error:
                self._looked = float("-inf")
                raise EnvironmentFault(str(error)) from None
            base = self._settings.base or self.usual_base()
            has_remote = self._repository.has_remote()
            self._rules = _rules_of(self._settings, self.tip(base), base, has_remote=has_remote)
            self._watched = self._watch(base)
            self._marks = tuple(map(_file_mark, self._watched))
        return self._settings

    def run_seconds(self) -> float:
        """How long a run of an agent may take."""
        return self.settings().run.seconds

    def _watch(self, base: str) -> tuple[str, ...]:
        refs = (f"refs/heads/{base}", f"refs/remotes/origin/{base}", "packed-refs")
        return (self._path, *(os.path.join(self._common_dir, name) for name in refs))

    def _read(self) -> config.Settings:
        default = self._repository.default_branch(DEFAULT_BASES)
        if not default or not self.tip(default):
            self._require_base(default)
        base = default or self._repository.branch()
        settings = self._at(base)
        if settings is None:
            return self._from_working_tree(base)
        if settings.base and settings.base != base:
            if not self.tip(settings.base):
                raise _missing_base_error(settings.base, self._repository.remotes())
            settings = self._at(settings.base) or settings
        return settings

    def _require_base(self, default: str) -> None:
        """Raises where the base is elsewhere: a clone without it holds the rules of a change at most.

        Whatever is checked out there would be measured by its own rules. A repository that has no remote, or no
        commit yet, is its own beginning; so is one on a branch of its own that never had anything from its remote.
        """
        remotes = self._repository.remotes()
        if not remotes or self._repository.commit("HEAD") is None:
            return
        if self._repository.branch() and not self._repository.has_fetched():
            return
        named = default
        with suppress(config.ConfigError):
            named = named or self._read_working_tree().base
        if default or named in ("", *DEFAULT_BASES):
            raise _missing_base_error(named or DEFAULT_BASES[0], remotes)
        raise config.ConfigError(unknown_base_message(named, remotes, is_there=bool(self.tip(named))))

    def _at(self, branch: str) -> config.Settings | None:
        return self.at_commit(self.tip(branch), branch)

    def tip(self, branch: str = "") -> str:
        """The commit at the tip of a branch, by default of the base; empty when there is none."""
        branch = branch or self.base_branch()
        protected = self.protected_tip(branch)
        return protected or self._repository.tip(branch) or self._repository.origin_tip(branch)

    def base_ref(self) -> tuple[str, str]:
        """Which branch of that name is the base, here or of the remote, and its tip; empty when there is none."""
        branch = self.base_branch()
        protected = self.protected_tip(branch)
        if protected:
            return f"origin/{branch}", protected
        own = self._repository.tip(branch)
        return (branch, own) if own else (f"origin/{branch}", self._repository.origin_tip(branch))

    def protected_tip(self, branch: str = "") -> str:
        """The tip of the remote's own branch, which outranks the local one once it has a configuration.

        Whoever works here can commit to a local branch; to the remote's only those whom the forge lets.
        """
        tip = self._repository.origin_tip(branch or self.base_branch())
        if tip and tip not in self._has_file:
            self._has_file[tip] = self._repository.file(tip, config.NAME) is not None
        return tip if tip and self._has_file[tip] else ""

    def at_commit(self, commit: str, source: str = "") -> config.Settings | None:
        """The configuration as a commit has it; None when it has none."""
        content = self._repository.file(commit, config.NAME) if commit else None
        return None if content is None else config.parse(_decode_config(content), source=source or commit)

    def base_at(self, commit: str) -> str:
        """The base that the configuration of a commit names, else the usual one."""
        settings = self.at_commit(commit)
        return (settings.base if settings else "") or DEFAULT_BASES[0]

    def is_same(self, commit: str, other: str) -> bool:
        """True when two commits have the very same configuration."""
        one = self._repository.file(commit, config.NAME)
        return one is not None and one == self._repository.file(other, config.NAME)

    def _from_working_tree(self, base: str) -> config.Settings:
        settings = self._read_working_tree()
        if not settings.source:
            return config.Settings(base=base)
        if settings.base in ("", base):
            return settings
        remotes = () if self.tip(settings.base) else self._repository.remotes()
        if remotes:
            raise _missing_base_error(settings.base, remotes)
        return self._at(settings.base) or settings

    def _read_working_tree(self) -> config.Settings:
        """The main worktree's own configuration, without a source when there is none."""
        try:
            return config.parse(self._working_text(), source=WORKING_TREE)
        except FileNotFoundError:
            return config.Settings()

    def _working_text(self) -> str:
        with open(self._path, "rb") as file:
            return _decode_config(file.read())

    def base_branch(self) -> str:
        """The name of the base branch: the configuration's, else the usual one."""
        return self.settings().base or self.usual_base()

    def usual_base(self) -> str:
        """The base where no configuration names one: the remote's default branch, else main, master, or the current."""
        return self._repository.default_branch(DEFAULT_BASES) or self._repository.branch()


def _rules_of(settings: config.Settings, tip: str = "", base: str = "", *, has_remote: bool = False) -> Rules:
    """What the ledger decides by, out of a configuration."""
    return Rules(
        team=settings.as_team(),
        policy=settings.policy,
        gates=settings.gates,
        gates_digest=policy_digest(settings.gate_policy),
        is_enforced=settings.gate_policy.enforce,
        base=tip,
        base_branch=base,
        project=settings.project,
        trusted=settings.trusted,
        has_keys=settings.has_keys,
        has_remote=has_remote,
    )


def _missing_base_error(base: str, remotes: tuple[str, ...]) -> config.ConfigError:
    return config.ConfigError(missing_base_message(base, remotes))


def _file_mark(path: str) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _decode_config(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise config.ConfigError(
            f"{config.NAME} is not UTF-8 (byte {error.start}). Save it as UTF-8."
        ) from None
