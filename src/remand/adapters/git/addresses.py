"""Where a remote is, and how it is reached: nothing but what is plainly an address, and no program."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from remand.adapters.git.place import Place
from remand.adapters.git.repository import git
from remand.app.forges.ports import ForgeFault, Trouble

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SSH = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!:)(?!//)[^\s]+")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Address(NamedTuple):
    """Where to push to."""

    url: str
    protocol: str
    """`https`, `http`, `ssh` or `file`, as git calls them."""
    origin: str = ""
    """Scheme, host and port; empty when it is no web address."""


def remote_address(place: Place, remote: str) -> Address:
    """The address of a remote, by its name in the repository or as it is written in the configuration."""
    if not _NAME.fullmatch(remote):
        return address(remote, place.root)
    config = os.path.join(place.common_dir, "config")
    for key in ("pushurl", "url"):
        named = ("config", "--file", config, "--no-includes", "--get", f"remote.{remote}.{key}")
        found = git(place.worktree, *named).stdout.decode(errors="replace").strip()
        if found:
            return address(found, place.root)
    raise ForgeFault(
        Trouble.MISSING,
        f"There is no remote {remote} to push to. Add it (`git remote add {remote} ADDRESS`), or set `forge.remote`.",
    )


def address(text: str, folder: str = "/") -> Address:
    """An address read strictly: the web over TLS or on this machine, ssh, or a folder."""
    if text.isprintable() and not text.startswith("-"):
        if text.startswith(("https://", "http://")):
            return _on_the_web(text)
        if text.startswith("ssh://") and (urlsplit(text).hostname or "-")[0] != "-":
            return Address(text, "ssh")
        if text.startswith(("/", "./", "../")):
            return Address(os.path.normpath(os.path.join(folder, text)), "file")
        if text.startswith("file:///"):
            return Address(text, "file")
        if "://" not in text and _SSH.fullmatch(text):
            return Address(text, "ssh")
    raise _unusable(text)


def _on_the_web(text: str) -> Address:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _unusable(text) from None
    is_safe = parts.scheme == "https" or host in _LOOPBACK
    if not host or not is_safe or parts.password or parts.query or parts.fragment:
        raise _unusable(text)
    named = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{named}{f':{port}' if port else ''}"
    return Address(f"{origin}{parts.path}", parts.scheme, origin)


def _unusable(text: str) -> ForgeFault:
    shown = re.sub(r"//[^/@\s]*@", "//…@", text)[:80]
    return ForgeFault(
        Trouble.REFUSED,
        f"{shown!r} is no address to push to. Write `forge.remote` as https://…, ssh://…, user@host:path or a folder, "
        "without a password in it.",
    )
