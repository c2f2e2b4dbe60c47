"""Checkouts as overlays: every borrower writes into a layer of its own above one untouched checkout."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from remand.adapters.git.contents import FOLDER_MODE
from remand.adapters.git.locks import locked, taken
from remand.adapters.git.mirror import GitMirror
from remand.adapters.git.objects import require_id
from remand.adapters.git.slots import Slot, Slots
from remand.app.errors import EnvironmentFault

LIMIT = 8
"""How many trees are kept checked out."""
_CHOICES = ("volatile,redirect_dir=on,index=off,metacopy=off", "redirect_dir=on,index=off", "")
"""Options, best first: nothing is worth being synced here, and folders of the tree may be renamed."""
_NOSUID, _NODEV = 2, 4
_DETACH, _NOFOLLOW = 2, 8
_LAYERS = ("upper", "work", "merged")


class OverlayCheckouts:
    """Lends overlays. The folders below are never lent themselves, so they are proven once a process and then kept."""

    def __init__(self, mirror: GitMirror, folder: str, options: str = "", limit: int = LIMIT) -> None:
        base = os.path.join(os.path.abspath(folder), "overlay")
        self._options = options
        self._slots = Slots(mirror, base, limit)
        self._making = os.path.join(base, "making")
        self._leases = os.path.join(base, "leases")
        self._proven: set[str] = set()
        os.makedirs(self._leases, mode=0o700, exist_ok=True)
        self._recover()

    @contextmanager
    def lend(self, tree: str) -> Iterator[str]:
        """A writable folder that holds the tree and nothing else; what is written there is gone afterwards."""
        with self._below(require_id(tree)) as slot, self._lease() as lease:
            merged = _mounted(slot.path, lease, self._options)
            try:
                yield merged
            finally:
                unmount(merged)

    def _below(self, tree: str) -> Slot:
        """A checkout of the tree that nobody writes to. Only one process at a time makes any."""
        found = self._known(tree)
        if found is not None:
            return found
        with locked(self._making):
            found = self._known(tree)
            if found is not None:
                return found
            with ExitStack() as stack:
                slot = stack.enter_context(self._slots.alone(tree))
                self._change(slot, tree)
                stack.pop_all()
            return slot

    def _known(self, tree: str) -> Slot | None:
        slot = self._slots.shared(tree)
        if slot is None or slot.folder in self._proven:
            return slot
        slot.close()
        return None

    def _change(self, slot: Slot, tree: str) -> None:
        slot.become(tree, is_untouched=slot.folder in self._proven)
        self._proven.add(slot.folder)
        slot.share()

    @contextmanager
    def _lease(self) -> Iterator[str]:
        """A folder for the layers of one borrower, locked for as long as it lives."""
        folder = os.path.join(self._leases, secrets.token_hex(6))
        with locked(f"{self._leases}.lock"):
            os.mkdir(folder, 0o700)
            handle = taken(os.path.join(folder, "lock"))
        try:
            for name in _LAYERS:
                os.mkdir(os.path.join(folder, name))
                os.chmod(os.path.join(folder, name), FOLDER_MODE)
            yield folder
        finally:
            with suppress(OSError):
                self._slots.trash.throw(folder)
            os.close(handle)
            self._slots.trash.empty_soon()

    def _recover(self) -> None:
        """Unmounts and removes what killed processes have left."""
        with locked(f"{self._leases}.lock"):
            for name in os.listdir(self._leases):
                folder = os.path.join(self._leases, name)
                handle = taken(os.path.join(folder, "lock"))
                if handle >= 0:
                    unmount(os.path.join(folder, "merged"))
                    with suppress(OSError):
                        self._slots.trash.throw(folder)
                    os.close(handle)
        self._slots.trash.empty_soon()


def overlay_options(folder: str) -> str | None:
    """The best options with which overlays really work under a folder; None when they do not."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with locked(os.path.join(folder, "probe.lock")):
        place = os.path.join(folder, "probe")
        for options in _CHOICES:
            _clear(place)
            works = _works(place, options)
            _clear(place)
            if works:
                return options
    return None


def unmount(path: str) -> None:
    """Takes a mount away at once, whoever still uses it; where there is none, nothing happens."""
    if sys.platform == "linux":
        _c_library().umount2(os.fsencode(path), _DETACH | _NOFOLLOW)


def _clear(place: str) -> None:
    """Takes away what a probe needed, and what one that was killed has left."""
    if os.path.lexists(place):
        unmount(os.path.join(place, "merged"))
        shutil.rmtree(place, ignore_errors=True)


def _works(place: str, options: str) -> bool:
    """Changes a file through an overlay; True when the change shows there, and not below."""
    for name in ("below", *_LAYERS):
        os.makedirs(os.path.join(place, name))
    below = os.path.join(place, "below", "file")
    _write(below, "before")
    try:
        merged = _mounted(os.path.dirname(below), place, options)
    except EnvironmentFault:
        return False
    try:
        _write(os.path.join(merged, "file"), "after")
        return _read(os.path.join(merged, "file")) == "after" and _read(below) == "before"
    except OSError:
        return False


def _mounted(below: str, lease: str, options: str) -> str:
    """Mounts the layers of a lease above a folder and returns where they are seen as one."""
    if sys.platform != "linux":
        raise EnvironmentFault("Overlays are to be had on Linux alone.")
    upper, work, merged = (os.path.join(lease, name) for name in _LAYERS)
    layers = f"lowerdir={_escaped(below)},upperdir={_escaped(upper)},workdir={_escaped(work)}"
    data = f"{layers},{options}" if options else layers
    code = _c_library().mount(
        b"overlay", os.fsencode(merged), b"overlay", _NOSUID | _NODEV, os.fsencode(data)
    )
    if code:
        reason = os.strerror(ctypes.get_errno())
        raise EnvironmentFault(f"An overlay cannot be mounted on {merged}: {reason}.")
    return merged


def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _escaped(path: str) -> str:
    for letter in ("\\", ":", ","):
        path = path.replace(letter, f"\\{letter}")
    return path


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
