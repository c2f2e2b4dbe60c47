"""Clean checkouts of a tree, each lent for one run: folders from a pool, or overlays on a shared checkout."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Self

import msgspec

from remand.adapters.git import files
from remand.adapters.git.bare_repository import differences, entry_at, require_id
from remand.adapters.git.mirror import GitMirror
from remand.adapters.system.files import acquire_lock, hold_lock, lock_handle
from remand.app.errors import EnvironmentFault


class CheckoutSlot:
    """One folder of the pool, with a record of its content. It belongs to whoever holds its lock."""

    def __init__(self, folder: str, handle: int, mirror: GitMirror, trash: files.Trash) -> None:
        self.folder = folder
        self.path = os.path.join(folder, "tree")
        self._note = contents_path(folder)
        self._handle = handle
        self._mirror = mirror
        self._trash = trash

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._handle)

    def share(self) -> None:
        lock_handle(self._handle, is_shared=True)

    def switch_to(self, tree: str, *, is_untouched: bool = False) -> None:
        """Switches the folder to a tree; if that fails, recreates it.

        Verifies the current content first, unless nobody else has written to the folder since the last
        verification.
        """
        reason = self._failure(tree, is_untouched=is_untouched)
        if reason:
            reason = self._failure(tree, is_anew=True)
        if reason and self._mirror.repair():
            reason = self._failure(tree, is_anew=True)
        if reason:
            raise EnvironmentFault(f"Tree {tree[:12]} cannot be checked out in {self.path}: {reason}")

    def sweep(self) -> None:
        """Removes files that the borrower added; what cannot be removed now is removed next time."""
        contents = files.load_contents(self._note)
        if contents is not None:
            with suppress(OSError):
                files.Inspection(self.path, contents, self._trash, is_brief=True).run()

    def _failure(self, tree: str, *, is_untouched: bool = False, is_anew: bool = False) -> str:
        """Tries to switch the folder to a tree; returns why it failed, or an empty string."""
        try:
            contents = None if is_anew else files.load_contents(self._note)
            if contents is None:
                self._change(self._empty(), tree, [])
            elif is_untouched:
                self._change(contents, tree, [])
            else:
                self._change(contents, tree, self._find_missing(contents))
        except (OSError, EnvironmentFault) as error:
            return str(error)
        return ""

    def _find_missing(self, contents: files.CheckoutContents) -> list[bytes]:
        """Removes from the folder everything that we did not write. Returns which of our files are missing."""
        now = self._now()
        inspection = files.Inspection(self.path, contents, self._trash)
        inspection.run()
        for path in inspection.young:
            if not files.has_content(self.path, path, entry_at(self._mirror.objects, contents.tree, path)):
                self._trash.throw(os.path.join(os.fsencode(self.path), path))
                inspection.missing.append(path)
        if inspection.young:  # Files verified now need no verification next time.
            files.save_contents(self._note, msgspec.structs.replace(contents, seen=now))
        return inspection.missing

    def _change(self, contents: files.CheckoutContents, tree: str, missing: list[bytes]) -> None:
        """Changes the folder from its current tree to another. Until that is done, it counts as holding no tree."""
        changed = list(differences(self._mirror.objects, contents.tree, tree))
        if not changed and not missing:
            return
        with suppress(FileNotFoundError):
            os.unlink(self._note)
        writing = files.CheckoutWriter(self.path, contents.folders, self._mirror.objects)
        for path in missing:
            writing.remove(path)
        for path, before, after in changed:
            if before and not (before.is_file and after and after.is_file):
                writing.remove(path)
        wanted = {path: entry_at(self._mirror.objects, tree, path) for path in missing}
        wanted |= {path: after for path, _, after in changed}
        writing.put((path, entry) for path, entry in wanted.items() if entry is not None)
        files.save_contents(
            self._note, files.CheckoutContents(tree=tree, folders=writing.folders, seen=self._now())
        )

    def _now(self) -> int:
        """The time by the clock that stamps files on this file system."""
        os.utime(self._handle)
        return os.fstat(self._handle).st_mtime_ns

    def _empty(self) -> files.CheckoutContents:
        """Discards all content and starts with an empty folder."""
        with suppress(FileNotFoundError):
            os.unlink(self._note)
        if os.path.lexists(self.path):
            self._trash.throw(self.path)
        os.mkdir(self.path)
        os.chmod(self.path, files.FOLDER_MODE)
        return files.CheckoutContents(tree="", folders={b"": {}}, seen=0)


class CheckoutSlots:
    """A limited pool of folders. A new one is created when all others are in use."""

    def __init__(self, mirror: GitMirror, folder: str, limit: int) -> None:
        self._mirror = mirror
        self._folder = os.path.join(folder, "slots")
        self._limit = limit
        self.trash = files.Trash(os.path.join(folder, "trash"))
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def acquire(self, tree: str) -> CheckoutSlot:
        """A slot for exclusive use: one that holds the tree if possible, else the least recently used."""
        for folder in self._candidates(tree):
            handle = acquire_lock(os.path.join(folder, "lock"))
            if handle >= 0:
                return CheckoutSlot(folder, handle, self._mirror, self.trash)
        number = (os.getpid() + threading.get_ident()) % self._limit
        folder = os.path.join(self._folder, str(number))
        return CheckoutSlot(
            folder, acquire_lock(os.path.join(folder, "lock"), waits=True), self._mirror, self.trash
        )

    def find_shared(self, tree: str) -> CheckoutSlot | None:
        """A slot that holds the tree and may be read by several processes; None if there is none."""
        for folder in self._by_use(tree):
            if files.recorded_tree(contents_path(folder)) != tree:
                return None
            handle = acquire_lock(os.path.join(folder, "lock"), is_shared=True)
            if handle >= 0 and files.recorded_tree(contents_path(folder)) == tree:
                os.utime(contents_path(folder))
                return CheckoutSlot(folder, handle, self._mirror, self.trash)
            if handle >= 0:
                os.close(handle)
        return None

    def _candidates(self, tree: str) -> Iterator[str]:
        """The existing folders, then new ones up to the limit."""
        yield from self._by_use(tree)
        for number in range(self._limit):
            folder = os.path.join(self._folder, str(number))
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
                yield folder

    def _by_use(self, tree: str) -> list[str]:
        """The folders that hold the tree, then folders with other trees, then empty ones."""
        folders = [os.path.join(self._folder, name) for name in os.listdir(self._folder) if name.isdecimal()]
        notes = {folder: contents_path(folder) for folder in folders}
        return sorted(
            folders,
            key=lambda folder: (
                files.recorded_tree(notes[folder]) != tree,
                not files.recorded_tree(notes[folder]),
                _last_used(notes[folder]),
            ),
        )


def contents_path(folder: str) -> str:
    return os.path.join(folder, "contents")


def _last_used(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


OVERLAY_LIMIT = 8
"""How many trees stay checked out."""
_CHOICES = ("volatile,redirect_dir=on,index=off,metacopy=off", "redirect_dir=on,index=off", "")
"""Mount options, best first: nothing here needs syncing, and folders of the tree may be renamed."""
_NOSUID, _NODEV = 2, 4
_DETACH, _NOFOLLOW = 2, 8
_LAYERS = ("upper", "work", "merged")


class OverlayCheckouts:
    """Lends overlays on shared checkouts. The checkouts are never lent, so each process verifies them once."""

    def __init__(self, mirror: GitMirror, folder: str, options: str = "", limit: int = OVERLAY_LIMIT) -> None:
        base = os.path.join(os.path.abspath(folder), "overlay")
        self._options = options
        self._slots = CheckoutSlots(mirror, base, limit)
        self._making = os.path.join(base, "making")
        self._leases = os.path.join(base, "leases")
        self._proven: set[str] = set()
        os.makedirs(self._leases, mode=0o700, exist_ok=True)
        self._recover()

    @contextmanager
    def lend(self, tree: str) -> Iterator[str]:
        with self._proven_checkout(require_id(tree)) as slot, self._lease() as lease:
            merged = _mount_overlay(slot.path, lease, self._options)
            try:
                yield merged
            finally:
                unmount(merged)

    def _proven_checkout(self, tree: str) -> CheckoutSlot:
        """A verified checkout of the tree to which nobody writes. Only one process at a time creates any."""
        checkout_slot = self._find_proven(tree)
        if checkout_slot is not None:
            return checkout_slot
        with hold_lock(self._making):
            checkout_slot = self._find_proven(tree)
            if checkout_slot is not None:
                return checkout_slot
            with ExitStack() as stack:
                slot = stack.enter_context(self._slots.acquire(tree))
                self._change(slot, tree)
                stack.pop_all()
            return slot

    def _find_proven(self, tree: str) -> CheckoutSlot | None:
        slot = self._slots.find_shared(tree)
        if slot is None or slot.folder in self._proven:
            return slot
        slot.close()
        return None

    def _change(self, slot: CheckoutSlot, tree: str) -> None:
        slot.switch_to(tree, is_untouched=slot.folder in self._proven)
        self._proven.add(slot.folder)
        slot.share()

    @contextmanager
    def _lease(self) -> Iterator[str]:
        """A locked folder for one borrower's overlay layers, for as long as the borrower needs it."""
        folder = os.path.join(self._leases, secrets.token_hex(6))
        with hold_lock(f"{self._leases}.lock"):
            os.mkdir(folder, 0o700)
            handle = acquire_lock(os.path.join(folder, "lock"))
        try:
            for name in _LAYERS:
                os.mkdir(os.path.join(folder, name))
                os.chmod(os.path.join(folder, name), files.FOLDER_MODE)
            yield folder
        finally:
            with suppress(OSError):
                self._slots.trash.throw(folder)
            os.close(handle)
            self._slots.trash.empty_soon()

    def _recover(self) -> None:
        """Unmounts and removes what killed processes left."""
        with hold_lock(f"{self._leases}.lock"):
            for name in os.listdir(self._leases):
                folder = os.path.join(self._leases, name)
                handle = acquire_lock(os.path.join(folder, "lock"))
                if handle >= 0:
                    unmount(os.path.join(folder, "merged"))
                    with suppress(OSError):
                        self._slots.trash.throw(folder)
                    os.close(handle)
        self._slots.trash.empty_soon()


def overlay_options(folder: str) -> str | None:
    """The best options with which overlays work under a folder; None if they do not work at all."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with hold_lock(os.path.join(folder, "probe.lock")):
        place = os.path.join(folder, "probe")
        for options in _CHOICES:
            _clear(place)
            works = _works(place, options)
            _clear(place)
            if works:
                return options
    return None


def unmount(path: str) -> None:
    """Unmounts at once, even if in use; does nothing if nothing is mounted."""
    if sys.platform == "linux":
        _c_library().umount2(os.fsencode(path), _DETACH | _NOFOLLOW)


def _clear(place: str) -> None:
    """Removes the files of this probe, and of one that was killed."""
    if os.path.lexists(place):
        unmount(os.path.join(place, "merged"))
        shutil.rmtree(place, ignore_errors=True)


def _works(place: str, options: str) -> bool:
    """Changes a file through an overlay; True if the change shows in the overlay but not below it."""
    for name in ("below", *_LAYERS):
        os.makedirs(os.path.join(place, name))
    below = os.path.join(place, "below", "file")
    _write(below, "before")
    try:
        merged = _mount_overlay(os.path.dirname(below), place, options)
    except EnvironmentFault:
        return False
    try:
        _write(os.path.join(merged, "file"), "after")
        return _read(os.path.join(merged, "file")) == "after" and _read(below) == "before"
    except OSError:
        return False


def _mount_overlay(below: str, lease: str, options: str) -> str:
    """Mounts a lease's layers above a folder and returns the path of the result."""
    if sys.platform != "linux":
        raise EnvironmentFault("Overlays are available only on Linux.")
    upper, work, merged = (os.path.join(lease, name) for name in _LAYERS)
    layers = f"lowerdir={_escape_path(below)},upperdir={_escape_path(upper)},workdir={_escape_path(work)}"
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


def _escape_path(path: str) -> str:
    for letter in ("\\", ":", ","):
        path = path.replace(letter, f"\\{letter}")
    return path


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


POOL_LIMIT = 16


class PooledCheckouts:
    """Lends folders of its own, one to each borrower, switched from their last tree to the wanted one."""

    def __init__(self, mirror: GitMirror, folder: str, limit: int = POOL_LIMIT) -> None:
        self._slots = CheckoutSlots(mirror, os.path.join(os.path.abspath(folder), "pooled"), limit)

    @contextmanager
    def lend(self, tree: str) -> Iterator[str]:
        with self._slots.acquire(require_id(tree)) as slot:
            slot.switch_to(tree)
            try:
                yield slot.path
            finally:
                slot.sweep()
                self._slots.trash.empty_soon()


def best_checkouts(mirror: GitMirror, folder: str) -> PooledCheckouts | OverlayCheckouts:
    """Overlay checkouts if the kernel and our permissions allow them, else pooled ones."""
    options = overlay_options(folder)
    return PooledCheckouts(mirror, folder) if options is None else OverlayCheckouts(mirror, folder, options)
