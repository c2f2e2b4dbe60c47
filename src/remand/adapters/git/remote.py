"""Commits that leave this machine: pushed to the forge, or sent between a host and its server as a push or a
pack.

Addresses are parsed strictly, the git configuration is our own, and only the forge receives its token.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from remand.adapters.git import command
from remand.adapters.git.bare_repository import COSMETIC, BareRepository
from remand.adapters.git.command import git_error, one_per_line, run_git
from remand.adapters.git.commit_import import stage_commit
from remand.adapters.git.location import LedgerLocation, read_ref
from remand.adapters.git.refs import Branches
from remand.adapters.git.repository import GitRepository
from remand.app.errors import EnvironmentFault
from remand.app.forge.ports import ForgeFault, ForgeFaultKind
from remand.app.ports import SharedData
from remand.domain.ids import is_commit
from remand.domain.instant import Instant, add_seconds
from remand.domain.record import Record

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SSH = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!:)(?!//)[^\s]+")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
SUBMITTED = "refs/remand/submitted/"
"""Where a host pushes the commit of a done claim, on the remote and on the server."""
REMOTE = "origin"
SUBMISSION_SECONDS = 60.0
MAX_PACK = 64 << 20
"""Largest pack that a host may send."""
PACKS = "pack"
"""The kind under which servers and workers share packs in the database."""
MAX_SHARED = 3
"""How many commits of a task are shared; later ones replace earlier ones."""
SHARED_SECONDS = 14 * 86_400.0
FETCH_SECONDS = 20.0
FRESH_SECONDS = 10.0
"""The base may be at most this old when a decision uses it."""
EARLY_SECONDS = 5.0
"""From this age on, it is fetched in the background."""
_TASK = re.compile(r"T-[0-9]{8}-[0-9]{6}-[0-9a-f]{4,8}")


class RemoteAddress(NamedTuple):
    """Where to push to."""

    url: str
    protocol: str
    """`https`, `http`, `ssh` or `file`, as git calls them."""
    origin: str = ""
    """Scheme, host and port; empty if it is no web address."""


def remote_address(place: LedgerLocation, remote: str) -> RemoteAddress:
    """The address of a remote, given by its name in the repository or written out in the configuration."""
    if not _NAME.fullmatch(remote):
        return parse_address(remote, place.root)
    config = os.path.join(place.common_dir, "config")
    for key in ("pushurl", "url"):
        named = ("config", "--file", config, "--no-includes", "--get", f"remote.{remote}.{key}")
        found = command.run_git(place.worktree, *named).stdout.decode(errors="replace").strip()
        if found:
            return parse_address(found, place.root)
    raise ForgeFault(
        ForgeFaultKind.MISSING,
        f"There is no remote {remote} to push to. Add it (`git remote add {remote} ADDRESS`), or set `forge.remote`.",
    )


def parse_address(text: str, folder: str = "/") -> RemoteAddress:
    """Parses an address strictly: the web over TLS or on this machine, ssh, or a folder."""
    if text.isprintable() and not text.startswith("-"):
        if text.startswith(("https://", "http://")):
            return _web_address(text)
        if text.startswith("ssh://") and (urlsplit(text).hostname or "-")[0] != "-":
            return RemoteAddress(text, "ssh")
        if text.startswith(("/", "./", "../")):
            return RemoteAddress(os.path.normpath(os.path.join(folder, text)), "file")
        if text.startswith("file:///"):
            return RemoteAddress(text, "file")
        if "://" not in text and _SSH.fullmatch(text):
            return RemoteAddress(text, "ssh")
    raise _unusable_address(text)


def _web_address(text: str) -> RemoteAddress:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _unusable_address(text) from None
    is_safe = parts.scheme == "https" or host in _LOOPBACK
    if not host or not is_safe or parts.password or parts.query or parts.fragment:
        raise _unusable_address(text)
    named = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{named}{f':{port}' if port else ''}"
    return RemoteAddress(f"{origin}{parts.path}", parts.scheme, origin)


def _unusable_address(text: str) -> ForgeFault:
    shown = re.sub(r"//[^/@\s]*@", "//…@", text)[:80]
    return ForgeFault(
        ForgeFaultKind.REFUSED,
        f"{shown!r} is not an address to push to. Write `forge.remote` as https://…, ssh://…, user@host:path or a folder, "
        "without a password in it.",
    )


SECONDS = 120.0
INHERITED_VARIABLES = (
    *("HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "USER"),
    *("ALL_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "https_proxy", "no_proxy"),
    "XDG_CONFIG_HOME",
)
"""The environment variables that git and ssh get."""
SSH = "ssh -oBatchMode=yes -oConnectTimeout=20"
NOTHING = "0" * 40
_PUSH = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-recurse-submodules")
_FETCH = (
    "fetch",
    "-q",
    "--no-tags",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
)
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DENIED = (
    "authentication failed",
    "could not read username",
    "could not read password",
    "permission denied",
    " 401",
    " 403",
    "access denied",
)
_MISSING = ("not found", "does not appear to be a git repository", "does not exist", " 404")


class Access(Record, kw_only=True):
    """The credentials for a push."""

    origin: str = ""
    """The forge's origin; the token is sent only there."""
    user: str = "x-access-token"
    """The user name for the token; forges accept any, or this one."""
    token: str = ""

    @classmethod
    def to_forge(cls, kind: str, home: str, token: str) -> Access:
        """The credentials for a forge, by its web address."""
        parts = urlsplit(home)
        user = "x-access-token" if kind == "github" else "oauth2"
        return cls(origin=f"{parts.scheme}://{parts.netloc}", user=user, token=token)


class GitRemote:
    """Implements `Remote`."""

    def __init__(
        self,
        place: LedgerLocation,
        remote: str,
        access: Access,
        environment: Mapping[str, str],
        seconds: float = SECONDS,
    ) -> None:
        self._place, self._remote, self._access = place, remote, access
        self._environment, self._seconds = environment, seconds
        self._main = ""
        self._known: RemoteAddress | None = None

    def tip(self, branch: str) -> str:
        ref = self._ref(branch)
        done = self._run(NOTHING, "ls-remote", "--symref", self._address.url, "HEAD", ref)
        if done.returncode:
            raise self._fault(done)
        rows = [row.split("\t") for row in done.stdout.decode("utf-8", "replace").splitlines()]
        heads = [row[0] for row in rows if row[1:] == ["HEAD"] and row[0].startswith("ref: ")]
        self._main = heads[0].removeprefix("ref: refs/heads/") if heads else ""
        return next((row[0] for row in rows if row[1:] == [ref] and _SHA.fullmatch(row[0])), "")

    def is_main(self, branch: str) -> bool:
        return bool(branch) and branch == self._main

    def is_ahead(self, commit: str, tip: str) -> bool:
        """True if a commit is a descendant of the remote's tip. False if the tip is not here."""
        if not _SHA.fullmatch(commit) or not _SHA.fullmatch(tip):
            return False
        return not self._run(commit, "merge-base", "--is-ancestor", tip, commit).returncode

    def push(self, commit: str, branch: str, over: str) -> None:
        """Moves a remote branch, if the remote finds it where it is expected to be."""
        ref = self._ref(branch)
        if not _SHA.fullmatch(commit) or (over and not _SHA.fullmatch(over)):
            raise ForgeFault(ForgeFaultKind.REFUSED, f"{commit[:12]!r} or {over[:12]!r} is not a commit id.")
        done = self._run(
            commit,
            *_PUSH,
            f"--force-with-lease={ref}:{over}",
            self._address.url,
            f"{commit}:{ref}",
        )
        if done.returncode:
            raise self._fault(done)

    def push_ref(self, commit: str, ref: str) -> None:
        """Sets a ref of our own on the remote, whatever it was."""
        done = self._run(commit, *_PUSH, self._address.url, f"+{commit}:{ref}")
        if done.returncode:
            raise self._fault(done)

    def fetch(self, ref: str, into: str) -> None:
        """Fetches a remote ref into a local one. Raises ForgeFault; verifies every object."""
        done = self._run(NOTHING, *_FETCH, self._address.url, f"+{ref}:{into}")
        if done.returncode:
            raise self._fault(done)

    @property
    def _address(self) -> RemoteAddress:
        if self._known is None:
            self._known = remote_address(self._place, self._remote)
        return self._known

    def _ref(self, branch: str) -> str:
        """The branch's full ref name; raises if it is not a valid branch name."""
        ref = f"refs/heads/{branch}"
        if not branch or "\0" in ref or self._run(NOTHING, "check-ref-format", ref).returncode:
            raise ForgeFault(ForgeFaultKind.REFUSED, f"{branch[:80]!r} is not a branch name.")
        return ref

    def _run(self, commit: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        shallow = os.path.join(self._place.common_dir, "shallow")
        with command.temporary_git_folder(commit) as folder:
            own = {
                "GIT_DIR": folder,
                "GIT_OBJECT_DIRECTORY": os.path.join(self._place.common_dir, "objects"),
                "GIT_NO_REPLACE_OBJECTS": "1",
                "GIT_SSH_COMMAND": SSH,
                **({"GIT_SHALLOW_FILE": shallow} if os.path.exists(shallow) else {}),
            }
            kept = {
                name: self._environment[name] for name in INHERITED_VARIABLES if name in self._environment
            }
            # What the repository has, and where its history ends, is not fetched again.
            if arguments[0] == "fetch":
                own["GIT_DIR"] = self._place.common_dir
            is_far = arguments[0] in ("ls-remote", "push", "fetch")
            given = self._settings() if is_far else {}
            whole = kept | command.SAFE | own | given
            try:
                process = command.start_process(["git", *arguments], folder, whole, has_own_session=True)
                return command.finish_process(process, f"git {arguments[0]}", seconds=self._seconds)
            except EnvironmentFault as fault:
                raise ForgeFault(ForgeFaultKind.UNREACHABLE, str(fault)) from None

    def _settings(self) -> dict[str, str]:
        """The configuration of one call, passed so that other processes cannot see it in argument lists."""
        address, access = self._address, self._access
        pairs = [
            ("protocol.allow", "never"),
            (f"protocol.{address.protocol}.allow", "always"),
            ("http.followRedirects", "false"),
            ("http.lowSpeedLimit", "1000"),
            ("http.lowSpeedTime", "30"),
            ("credential.helper", ""),
            ("core.hooksPath", os.devnull),
            ("fetch.fsckObjects", "true"),
            *((f"fetch.fsck.{name}", "ignore") for name in COSMETIC),
        ]
        if access.token and address.origin and address.origin == access.origin:
            word = b64encode(f"{access.user}:{access.token}".encode()).decode()
            pairs.append((f"http.{address.origin}/.extraHeader", f"Authorization: Basic {word}"))
        named = {f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in enumerate(pairs)}
        values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(pairs)}
        return {"GIT_CONFIG_COUNT": str(len(pairs)), **named, **values}

    def _fault(self, done: subprocess.CompletedProcess[bytes]) -> ForgeFault:
        """The fault by kind: a refusal stands in the remote's answer, anything else was a failure on the way."""
        rows = done.stdout.decode("utf-8", "replace").splitlines()
        refused = next((row.rpartition("\t")[2] for row in rows if row.startswith("!\t")), "")
        words = command.git_error(f"{refused} ".encode() + done.stderr)
        if self._access.token:
            words = words.replace(self._access.token, "…")
        where = self._address.url
        if refused:
            return ForgeFault(ForgeFaultKind.REFUSED, f"{where} rejects the commit: {words}")
        low = words.lower()
        if any(one in low for one in _DENIED):
            return ForgeFault(ForgeFaultKind.DENIED, f"{where} denies access ({words}). {self._remedy()}")
        if any(one in low for one in _MISSING):
            return ForgeFault(
                ForgeFaultKind.MISSING, f"{where} was not found, or access to it is denied ({words})."
            )
        return ForgeFault(ForgeFaultKind.UNREACHABLE, f"{where} could not be reached ({words}).")

    def _remedy(self) -> str:
        if self._address.protocol == "ssh":
            return "Give ssh a key that may push."
        if self._address.origin != self._access.origin:
            return "The token is for the forge alone; set `forge.remote` to the repository there."
        return "Give the token the right to push."


def submission_ref(task_id: str, commit: str) -> str:
    """The ref of a task's submitted commit; without a task, the ref is named by the commit's id."""
    return SUBMITTED + (task_id if _TASK.fullmatch(task_id) else commit)


class CloneCommits:
    """The commits of a host's clone that go to a server."""

    def __init__(self, place: LedgerLocation, environment: Mapping[str, str]) -> None:
        self._place = place
        self._environment = environment

    def push(self, task_id: str, commit: str) -> bool:
        """Pushes a commit to the project's remote; False if there is none, or it refuses."""
        try:
            remote = GitRemote(self._place, REMOTE, Access(), self._environment, SUBMISSION_SECONDS)
            remote.push_ref(commit, submission_ref(task_id, commit))
        except (ForgeFault, EnvironmentFault):
            return False
        return True

    def pack(self, commit: str, known: Sequence[str]) -> bytes:
        """Packs a commit and all it needs besides the known ones that are here. Raises EnvironmentFault."""
        return pack_commit(self._place, commit, known)


def pack_commit(place: LedgerLocation, commit: str, known: Sequence[str]) -> bytes:
    """Packs a commit and all it needs besides the known ones that are here. Raises EnvironmentFault."""
    here = Branches(place.common_dir, place.root).existing_commits(known)
    asked = one_per_line([commit, "--not", *here])
    packed = run_git(
        place.common_dir, "pack-objects", "--revs", "--stdout", "-q", stdin=asked, seconds=SUBMISSION_SECONDS
    )
    if packed.returncode:
        raise EnvironmentFault(f"Commit {commit[:12]} cannot be packed: {git_error(packed.stderr)}.")
    if len(packed.stdout) > MAX_PACK:
        raise EnvironmentFault(
            f"Commit {commit[:12]} takes {len(packed.stdout) >> 20} MiB; a server takes {MAX_PACK >> 20}. "
            f"Push it to the project's remote as {SUBMITTED}TASK."
        )
    return packed.stdout


class SubmissionStore:
    """The submitted commits of a clone, and those that the servers and workers of a database share."""

    def __init__(
        self,
        place: LedgerLocation,
        folder: str,
        environment: Mapping[str, str],
        shared: SharedData | None = None,
        now: Callable[[], Instant] = str,
    ) -> None:
        """`folder` is a private one, for packs that are being verified."""
        self._place = place
        self._shared = shared
        self._now = now
        self._folder = folder
        self._branches = Branches(place.common_dir, place.root)
        self._remote = GitRemote(place, REMOTE, Access(), environment, SUBMISSION_SECONDS)

    def has(self, commit: str) -> bool:
        """True if the clone has a commit."""
        return self._branches.has_commit(commit)

    def fetch(self, task_id: str, commit: str) -> str:
        """Fetches a commit, unless it is here, from another server or the remote; returns why that failed."""
        if self.has(commit) or self.take_shared(commit):
            return ""
        ref, reason = submission_ref(task_id, commit), ""
        for wanted in (ref, commit):
            try:
                self._remote.fetch(wanted, ref)
            except (ForgeFault, EnvironmentFault) as fault:
                reason = reason or str(fault)
            if self.has(commit):
                return ""
        return reason or f"{ref} on the remote leads to another commit"

    def receive(self, task_id: str, commit: str, pack: bytes, known: Sequence[str]) -> None:
        """Imports a commit from a pack after verifying everything in it. Raises EnvironmentFault."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pack-", dir=self._folder) as scratch:
            offered = BareRepository(os.path.join(scratch, "git"))
            offered.make(len(commit))
            indexed = offered.run(
                *("index-pack", "--stdin", f"--max-input-size={MAX_PACK}"),
                stdin=pack,
                seconds=SUBMISSION_SECONDS,
            )
            if indexed.returncode:
                raise EnvironmentFault(f"This pack is not self-contained: {git_error(indexed.stderr)}.")
            here = self._branches.existing_commits(known)
            with stage_commit(offered.path, self._place.common_dir, commit, here, scratch) as stage:
                stage.store_objects()
        updated = run_git(self._place.common_dir, "update-ref", submission_ref(task_id, commit), commit)
        if updated.returncode:
            raise EnvironmentFault(f"Commit {commit[:12]} cannot be kept: {git_error(updated.stderr)}.")

    def share(self, task_id: str, commit: str, base: str) -> None:
        """Shares a commit that no remote has with all servers and workers until its task ends. Raises
        EnvironmentFault.

        `base` is an ancestor that the remote has, so that its objects are left out.
        """
        if self._shared is None:
            return
        now, pack = self._now(), pack_commit(self._place, commit, [base] if base else [])
        until, owner = add_seconds(now, SHARED_SECONDS), task_id or commit
        self._shared.put(PACKS, commit, pack, owner=owner, until=until, now=now, most=MAX_SHARED)

    def take_shared(self, commit: str) -> bool:
        """Imports a commit that another server shared; False if none did, or it does not fit what is here."""
        pack = self._shared.get(PACKS, commit, self._now()) if self._shared is not None else None
        if pack is None:
            return False
        tips = run_git(self._place.common_dir, "rev-parse", "--branches", "--remotes").stdout.decode().split()
        try:
            self.receive("", commit, pack, tips)
        except EnvironmentFault:
            return False
        return True


class BaseFetcher:
    """Keeps the remote's base branch fresh in a clone. Any thread may call it."""

    def __init__(
        self,
        place: LedgerLocation,
        branch: Callable[[], str],
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._branch = branch
        self._remote = GitRemote(place, REMOTE, Access(), environment, FETCH_SECONDS)
        self._has_remote = GitRepository(place).has_remote
        self._clock = clock
        self._lock = threading.Lock()
        self._fetched_at = self._alone_at = float("-inf")
        """When the base was last fetched, and when the clone was last seen to have no remote."""
        self.trouble = ""
        """Why the base could not be fetched; empty when it could. The last one that was had is decided by meanwhile."""

    def refresh(self) -> None:
        """Fetches the base, and waits if it is too old to decide by; otherwise fetches in the background."""
        now = self._clock()
        age = now - self._fetched_at
        if age < EARLY_SECONDS or now - self._alone_at < EARLY_SECONDS:
            return
        if not self._has_remote():
            self._alone_at = now
            return
        if age < FRESH_SECONDS or self.trouble:  # An unreachable remote must not stop work.
            if self._lock.acquire(blocking=False):
                threading.Thread(target=self._fetch_and_release, name="base", daemon=True).start()
            return
        with self._lock:
            if self._clock() - self._fetched_at >= FRESH_SECONDS:  # Unless somebody else just fetched it.
                self._fetch()

    def fetch_until(self, commit: str) -> str:
        """Fetches the base unless it contains a commit; returns why it does not. Without a commit, refreshes it."""
        if not is_commit(commit) or not self._has_remote() or self._holds(commit):
            self.refresh()
            return ""
        with self._lock:
            self._fetch()
        if self._holds(commit):
            return ""
        return (
            self.trouble or f"the base of the remote does not hold {commit[:12]}, which the server decided by"
        )

    def _holds(self, commit: str) -> bool:
        tip = read_ref(self._place.common_dir, f"refs/remotes/{REMOTE}/{self._branch()}")
        return bool(tip) and Branches(self._place.common_dir, self._place.root).is_ancestor(commit, tip)

    def _fetch_and_release(self) -> None:
        try:
            self._fetch()
        finally:
            self._lock.release()

    def _fetch(self) -> None:
        branch = self._branch()
        ref = f"refs/remotes/{REMOTE}/{branch}"
        try:
            tip = self._remote.tip(branch)
            if tip and tip != read_ref(self._place.common_dir, ref):
                self._remote.fetch(f"refs/heads/{branch}", ref)
            self.trouble = ""
        except (ForgeFault, EnvironmentFault) as fault:
            self.trouble = str(fault)
        self._fetched_at = self._clock()
