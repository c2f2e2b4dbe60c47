"""Pushing a commit to the forge's repository: strict addresses, our own git configuration, and a token only for the forge."""

from __future__ import annotations

import os
import re
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from remand.adapters.git import command
from remand.adapters.git.bare_repository import COSMETIC
from remand.adapters.git.location import LedgerLocation
from remand.app.errors import EnvironmentFault
from remand.app.forge.ports import ForgeFault, ForgeFaultKind
from remand.domain.record import Record

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SSH = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!:)(?!//)[^\s]+")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class RemoteAddress(NamedTuple):
    """Where to push to."""

    url: str
    protocol: str
    """`https`, `http`, `ssh` or `file`, as git calls them."""
    origin: str = ""
    """Scheme, host and port; empty when it is no web address."""


def remote_address(place: LedgerLocation, remote: str) -> RemoteAddress:
    """The address of a remote, by its name in the repository or as it is written in the configuration."""
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
    """An address read strictly: the web over TLS or on this machine, ssh, or a folder."""
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
"""What git and ssh are told of the environment."""
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
    """By what right something is pushed."""

    origin: str = ""
    """The forge's own, which the token is for."""
    user: str = "x-access-token"
    """The name that goes with the token; forges take any, or this one."""
    token: str = ""

    @classmethod
    def to_forge(cls, kind: str, home: str, token: str) -> Access:
        """The right to push to a forge, by its web address."""
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
        """True when a commit comes after what is there. What we do not have here, nothing comes after."""
        if not _SHA.fullmatch(commit) or not _SHA.fullmatch(tip):
            return False
        return not self._run(commit, "merge-base", "--is-ancestor", tip, commit).returncode

    def push(self, commit: str, branch: str, over: str) -> None:
        """Moves a branch there, by the remote's own comparison with what it is expected to be at."""
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
        """Sets a ref of our own there, whatever it was at."""
        done = self._run(commit, *_PUSH, self._address.url, f"+{commit}:{ref}")
        if done.returncode:
            raise self._fault(done)

    def fetch(self, ref: str, into: str) -> None:
        """Takes what a ref there leads to into a ref of the repository. Raises ForgeFault; every object is checked."""
        done = self._run(NOTHING, *_FETCH, self._address.url, f"+{ref}:{into}")
        if done.returncode:
            raise self._fault(done)

    @property
    def _address(self) -> RemoteAddress:
        if self._known is None:
            self._known = remote_address(self._place, self._remote)
        return self._known

    def _ref(self, branch: str) -> str:
        """The branch's whole name, when it can be one."""
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
            if arguments[0] == "fetch":  # what the repository has, and where it ends, is not fetched again
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
        """The configuration of one call, which other processes' argument lists do not show."""
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
        """What went wrong, in its kind: the remote's own no stands in the answer, anything else was on the way."""
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
