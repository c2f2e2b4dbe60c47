"""Addresses in text: the project's own stay, of any other only the domain is told."""

from __future__ import annotations

import re

REMOVED = "[link removed]"
MAX_DOMAIN = 100

_ADDRESS = re.compile(
    r"(?i)(?<![a-z0-9+.\-])(?:[a-z][a-z0-9+.\-]{1,15}://|www\.|javascript:(?=\S)|vbscript:(?=\S)|data:(?=[a-z0-9/+.\-]*[;,]))"
    r"[^\s<>\"'`]+"
)
_HINTS = ("://", "www.", "pt:", "data:")
"""One of these is in every address, once it is in small letters: an `s` or an `i` of a script may be another letter."""
_PARTS = re.compile(
    r"(?i)(?:(?P<scheme>[a-z][a-z0-9+.\-]*):)?(?://)?(?P<place>[^/?#\\]*)(?P<rest>.*)", re.DOTALL
)
_LOCAL = re.compile(r"(?i)(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?")
_NAME = re.compile(r"[A-Za-z0-9._\-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?")
_WWW = re.compile(r"(?i)(?:www\.)+")
_TRAILING = ".,;:!?)]}*_"
_WORDLESS = re.compile(r"(?i)\.\.|%2e|%5c|\\")


def without_links(text: str, repository: str) -> tuple[str, int]:
    """The text with foreign addresses reduced to their domain, and how many there were."""
    lower = text.lower()
    if not any(map(lower.__contains__, _HINTS)):
        return text, 0
    removed = 0

    def told(match: re.Match[str]) -> str:
        nonlocal removed
        address = match[0].rstrip(_TRAILING)
        if "(" in address:
            address = match[0].rstrip(_TRAILING.replace(")", ""))
        shown = shown_address(address, repository)
        removed += shown != address
        return shown + match[0][len(address) :]

    return _ADDRESS.sub(told, text), removed


def shown_address(address: str, repository: str) -> str:
    """An address that is the project's own, or of this machine, as it is; of any other its domain."""
    if _is_own(address, repository):
        return address
    parts = _PARTS.fullmatch(address)
    scheme = (parts["scheme"] or "").lower() if parts else ""
    if parts is None or scheme in ("javascript", "vbscript", "data", "file"):
        return f"{scheme or 'address'} {REMOVED}"
    if scheme in ("http", "https", "ws", "wss") and _LOCAL.fullmatch(parts["place"]):
        return address
    return f"{_domain(parts['place'])} {REMOVED}".lstrip()


def _is_own(address: str, repository: str) -> bool:
    """True for an address inside the repository that leads nowhere else."""
    own = repository.rstrip("/").removesuffix(".git").lower()
    if not own or not address.lower().startswith(own) or _WORDLESS.search(address):
        return False
    return address[len(own) : len(own) + 1] in ("", "/", "#", "?") and address.isascii()


def _domain(place: str) -> str:
    """The name of a server, in letters that no other name can imitate."""
    name = _WWW.sub("", place.rpartition("@")[2][: MAX_DOMAIN + 1])
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            return "unreadable name"
    return name[:MAX_DOMAIN] if _NAME.fullmatch(name) else ""
