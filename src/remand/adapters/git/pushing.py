"""Putting a commit on a branch of the forge, so that nothing the repository configures is run, sent or believed.

Git runs in a folder of our own that has the repository's objects to read and no other configuration. The token goes
by the environment, and only to the forge's own origin.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress

from remand.adapters.git.addresses import Address, remote_address
from remand.adapters.git.bare import said
from remand.adapters.git.place import Place
from remand.adapters.git.repository import SAFE
from remand.adapters.git.worktree import bare_look
from remand.app.forges.ports import ForgeFault, Trouble
from remand.domain.record import Record

SECONDS = 120.0
KEPT = (
    *("HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "USER"),
    *("ALL_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "https_proxy", "no_proxy"),
    "XDG_CONFIG_HOME",
)
"""What git and ssh are told of the environment."""
SSH = "ssh -oBatchMode=yes -oConnectTimeout=20"
NOTHING = "0" * 40
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
    helper: str = ""
    """A program that has a token where we have none: `gh`."""


class GitRemote:
    """Implements `Remote`."""

    def __init__(
        self,
        place: Place,
        remote: str,
        access: Access,
        environment: Mapping[str, str],
        seconds: float = SECONDS,
    ) -> None:
        self._place, self._remote, self._access = place, remote, access
        self._environment, self._seconds = environment, seconds
        self._main = ""
        self._known: Address | None = None

    def tip(self, branch: str) -> str:
        """The commit that a branch is at there."""
        ref = self._ref(branch)
        done = self._run(NOTHING, "ls-remote", "--symref", self._address.url, "HEAD", ref)
        if done.returncode:
            raise self._fault(done)
        rows = [row.split("\t") for row in done.stdout.decode("utf-8", "replace").splitlines()]
        heads = [row[0] for row in rows if row[1:] == ["HEAD"] and row[0].startswith("ref: ")]
        self._main = heads[0].removeprefix("ref: refs/heads/") if heads else ""
        return next((row[0] for row in rows if row[1:] == [ref] and _SHA.fullmatch(row[0])), "")

    def is_main(self, branch: str) -> bool:
        """True for the branch that is checked out by default, by the last look there."""
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
            raise ForgeFault(Trouble.REFUSED, f"{commit[:12]!r} or {over[:12]!r} is no commit's id.")
        done = self._run(
            commit,
            *("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-recurse-submodules"),
            f"--force-with-lease={ref}:{over}",
            self._address.url,
            f"{commit}:{ref}",
        )
        if done.returncode:
            raise self._fault(done)

    @property
    def _address(self) -> Address:
        if self._known is None:
            self._known = remote_address(self._place, self._remote)
        return self._known

    def _ref(self, branch: str) -> str:
        """The branch's whole name, when it can be one."""
        ref = f"refs/heads/{branch}"
        if not branch or "\0" in ref or self._run(NOTHING, "check-ref-format", ref).returncode:
            raise ForgeFault(Trouble.REFUSED, f"{branch[:80]!r} is no name of a branch.")
        return ref

    def _run(self, commit: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Runs git where it knows our configuration alone."""
        shallow = os.path.join(self._place.common_dir, "shallow")
        with bare_look(commit, "") as folder:
            own = {
                "GIT_DIR": folder,
                "GIT_OBJECT_DIRECTORY": os.path.join(self._place.common_dir, "objects"),
                "GIT_NO_REPLACE_OBJECTS": "1",
                "GIT_SSH_COMMAND": SSH,
                **({"GIT_SHALLOW_FILE": shallow} if os.path.exists(shallow) else {}),
            }
            kept = {name: self._environment[name] for name in KEPT if name in self._environment}
            is_far = arguments[0] in ("ls-remote", "push")
            given = self._settings() if is_far else {}
            return run_bounded(["git", *arguments], folder, kept | SAFE | own | given, self._seconds)

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
        ]
        if address.origin and address.origin == access.origin:
            if access.token:
                word = b64encode(f"{access.user}:{access.token}".encode()).decode()
                pairs.append((f"http.{address.origin}/.extraHeader", f"Authorization: Basic {word}"))
            elif access.helper:
                program = f"!{shlex.quote(access.helper)} auth git-credential"
                pairs.append((f"credential.{address.origin}.helper", program))
        named = {f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in enumerate(pairs)}
        values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(pairs)}
        return {"GIT_CONFIG_COUNT": str(len(pairs)), **named, **values}

    def _fault(self, done: subprocess.CompletedProcess[bytes]) -> ForgeFault:
        """What went wrong, in its kind: the remote's own no stands in the answer, anything else was on the way."""
        rows = done.stdout.decode("utf-8", "replace").splitlines()
        refused = next((row.rpartition("\t")[2] for row in rows if row.startswith("!\t")), "")
        words = said(f"{refused} ".encode() + done.stderr)
        if self._access.token:
            words = words.replace(self._access.token, "…")
        where = self._address.url
        if refused:
            return ForgeFault(Trouble.REFUSED, f"{where} does not take the commit: {words}")
        low = words.lower()
        if any(one in low for one in _DENIED):
            return ForgeFault(Trouble.DENIED, f"{where} does not let us in ({words}). {self._remedy()}")
        if any(one in low for one in _MISSING):
            return ForgeFault(Trouble.MISSING, f"{where} is not there, or not for us ({words}).")
        return ForgeFault(Trouble.UNREACHABLE, f"{where} could not be reached ({words}).")

    def _remedy(self) -> str:
        if self._address.protocol == "ssh":
            return "Give ssh a key that may push."
        if self._address.origin != self._access.origin:
            return "The token is for the forge alone; set `forge.remote` to the repository there."
        return "Give the token the right to push."


def run_bounded(
    command: Sequence[str], folder: str, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """Runs a program to its end, or ends it and what it started."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ForgeFault(
            Trouble.UNREACHABLE, f"git cannot be started: {error.strerror}. Is it installed, on PATH?"
        ) from None
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ForgeFault(
            Trouble.UNREACHABLE, f"git {command[1]} did not end within {seconds:.0f} s."
        ) from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
