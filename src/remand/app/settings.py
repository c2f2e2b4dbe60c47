"""The effective configuration: from the protected base branch, or from the working tree while the base has none."""

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
"""The usual names of the base branch."""
LOOK_AGAIN_SECONDS = 0.01
WORKING_TREE = "working tree"
"""The source of a configuration that is not committed."""


class BranchReader(Protocol):
    """The branches of a repository."""

    def branch(self) -> str:
        """The branch checked out in the caller's worktree; empty if there is none."""

    def default_branch(self, usual: tuple[str, ...]) -> str:
        """The remote's default branch, else the first existing one of the usual names; empty if there is none."""

    def tip(self, branch: str) -> str:
        """The commit at the tip of a branch; empty if there is none."""

    def origin_tip(self, branch: str) -> str:
        """The same for the branch on `origin`."""

    def file(self, commit: str, path: str) -> bytes | None:
        """A file's content at a commit; None if it does not exist."""


class RemoteReader(Protocol):
    """The remotes of a repository."""

    def remotes(self) -> tuple[str, ...]:
        """Their names."""

    def has_remote(self) -> bool:
        """True when there is one."""

    def has_fetched(self) -> bool:
        """True if anything here was fetched from another repository."""

    def commit(self, name: str) -> Commit | None:
        """The commit for a name; None if there is none."""


class WrittenSettings(NamedTuple):
    """The text of the effective configuration."""

    text: str
    branch: str
    """The branch that contains it; empty if it is only in the working tree, or missing."""
    commit: str


class SettingsRepository(BranchReader, RemoteReader, Protocol):
    """What the configuration is read from."""


class SettingsSource:
    """Rereads the configuration whenever the base branch or the file in the working tree changes."""

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
        """The file from which `settings` were read."""
        source = self.settings().source
        if source in ("", WORKING_TREE):
            return WrittenSettings(self._working_text() if source else "", "", "")
        commit = self.tip(source)
        content = self._repository.file(commit, config.NAME) or b""
        return WrittenSettings(_decode_config(content), source, commit)

    def has_base_moved(self, task: Task) -> bool:
        """True if the base has moved since a task was claimed; raises if the base is gone."""
        before, now = task.claim.base if task.claim is not None else "", self.rules().base
        if before in ("", now):
            return False
        if not now:
            raise EnvironmentFault(
                "The base branch was there when this task was claimed, and no longer exists. Restore it, then repeat."
            )
        return True

    def settings(self) -> config.Settings:
        """The current configuration."""
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
        """The time limit of an agent's run."""
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
        """Raises if the base is not in this clone, which then has at most the rules of a change.

        Otherwise the checked-out change would be measured by its own rules. A repository without a remote or without
        commits is its own base, and so is one on a branch that never received anything from its remote.
        """
        branch = self._repository.branch()
        if branch and not self._repository.tip(branch):
            return
        remotes = self._repository.remotes()
        if not remotes or self._repository.commit("HEAD") is None:
            return
        if branch and not self._repository.has_fetched():
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
        """The tip of a branch, by default of the base; empty if there is none."""
        branch = branch or self.base_branch()
        protected = self.protected_tip(branch)
        return protected or self._repository.tip(branch) or self._repository.origin_tip(branch)

    def base_ref(self) -> tuple[str, str]:
        """The base's ref (local or of the remote) and its tip; empty if there is none."""
        branch = self.base_branch()
        protected = self.protected_tip(branch)
        if protected:
            return f"origin/{branch}", protected
        own = self._repository.tip(branch)
        return (branch, own) if own else (f"origin/{branch}", self._repository.origin_tip(branch))

    def protected_tip(self, branch: str = "") -> str:
        """The tip of the remote's branch, which takes precedence over the local one once it has a configuration.

        Anybody working here can commit to a local branch; only those whom the forge permits can push to the remote's.
        """
        tip = self._repository.origin_tip(branch or self.base_branch())
        if tip and tip not in self._has_file:
            self._has_file[tip] = self._repository.file(tip, config.NAME) is not None
        return tip if tip and self._has_file[tip] else ""

    def at_commit(self, commit: str, source: str = "") -> config.Settings | None:
        """The configuration at a commit; None if it has none."""
        content = self._repository.file(commit, config.NAME) if commit else None
        return None if content is None else config.parse(_decode_config(content), source=source or commit)

    def base_at(self, commit: str) -> str:
        """The base named in the configuration at a commit, else the usual one."""
        settings = self.at_commit(commit)
        return (settings.base if settings else "") or DEFAULT_BASES[0]

    def is_same(self, commit: str, other: str) -> bool:
        """True if two commits have an identical configuration."""
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
        """The configuration in the main worktree; without a source if there is none."""
        try:
            return config.parse(self._working_text(), source=WORKING_TREE)
        except FileNotFoundError:
            return config.Settings()

    def _working_text(self) -> str:
        with open(self._path, "rb") as file:
            return _decode_config(file.read())

    def base_branch(self) -> str:
        """The name of the base branch: the configured one, else the usual one."""
        return self.settings().base or self.usual_base()

    def usual_base(self) -> str:
        """The base if none is configured: the remote's default branch, else main, master, or the current branch."""
        return self._repository.default_branch(DEFAULT_BASES) or self._repository.branch()


def _rules_of(settings: config.Settings, tip: str = "", base: str = "", *, has_remote: bool = False) -> Rules:
    """The rules that follow from a configuration."""
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
