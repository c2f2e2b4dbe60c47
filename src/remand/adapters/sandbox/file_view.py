"""Which files a job or an agent sees, and which it may write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import Enum

from remand.adapters.sandbox.job_setup import (
    CREDENTIALS,
    NEVER_WHOLE,
    RequiredPaths,
    Trails,
    hidden_paths,
    homes,
    search_path,
    shared_folders,
)
from remand.app.gates.ports import Job

RESOLVER = "/etc/resolv.conf"


class Visibility(Enum):
    """How a path and everything below it is seen, up to the next path that is named."""

    HIDDEN = "hidden"
    FRESH = "fresh"
    """Empty at first, and its own to write."""
    READ = "read"
    WRITE = "write"


MASKED = (Visibility.HIDDEN, Visibility.FRESH)


class FileView:
    """Paths and how they are seen; of two that hold for a file, the longer one decides."""

    def __init__(self) -> None:
        self._places: dict[str, Visibility] = {"/": Visibility.READ}
        self._links: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self.trails = Trails()

    def show(self, path: str, visibility: Visibility) -> None:
        """Says how a path is seen; links on the way to it are kept, should what holds them be masked."""
        if not os.path.isabs(path):
            return
        links, real = self.trails.follow(path)
        if not os.path.exists(real):
            return
        self._links.update(links)
        self._places[real] = visibility

    def cover(self, path: str, source: str, visibility: Visibility) -> None:
        """Puts something else in a path's place: rules for anything below it are dropped."""
        links, real = self.trails.follow(path)
        self._links.update(links)
        below = real + "/"
        for inner in [place for place in self._places if place.startswith(below)]:
            del self._places[inner]
        self._places[real] = visibility
        self._sources[real] = source

    def source(self, path: str) -> str:
        return self._sources.get(path, path)

    def at(self, path: str) -> Visibility:
        while path not in self._places:
            path = os.path.dirname(path)
        return self._places[path]

    def covers(self, path: str) -> bool:
        """True when something is masked at or below a path."""
        below = path.rstrip("/") + "/"
        return any(
            (place == path or place.startswith(below)) and visibility in MASKED
            for place, visibility in self._places.items()
        )

    def places(self) -> list[tuple[str, Visibility]]:
        """Every path that is seen otherwise than what holds it, outer ones first."""
        found = []
        for path, visibility in sorted(self._places.items()):
            outer = self.at(os.path.dirname(path))
            # What is masked already need not be hidden in it.
            is_same = visibility is outer or (visibility is Visibility.HIDDEN and outer in MASKED)
            if path in self._sources or (path != "/" and not is_same):
                found.append((path, visibility))
        return found

    def links(self) -> list[tuple[str, str]]:
        """The links that have to be made again, as what holds them is masked."""
        return sorted(
            (path, target)
            for path, target in self._links.items()
            if path not in self._places and self.at(os.path.dirname(path)) in MASKED
        )

    def parts(self) -> Iterator[tuple[str, Visibility]]:
        """The files and folders that together are what is seen, for rules that can only add."""
        inner: dict[str, set[str]] = {}
        for path, _ in self.places():
            names = path[1:].split("/")
            for depth, name in enumerate(names):
                inner.setdefault("/" + "/".join(names[:depth]), set()).add(name)
        yield from self._parts("/", Visibility.READ, inner)

    def _parts(
        self, path: str, visibility: Visibility, inner: dict[str, set[str]]
    ) -> Iterator[tuple[str, Visibility]]:
        visibility = self._places.get(path, visibility)
        is_seen = visibility not in MASKED
        if path not in inner:
            if is_seen:
                yield path, visibility
            return
        for name in sorted(inner[path].union(_names(path) if is_seen else ())):
            yield from self._parts(f"{path.rstrip('/')}/{name}", visibility, inner)


def _names(folder: str) -> list[str]:
    """The entries of a folder that are no links: those lead to what has rules of its own."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_symlink()]
    except OSError:
        return []


def job_file_view(job: Job, program: str, *, own: Iterable[str] = (), hide: Iterable[str] = ()) -> FileView:
    """What a job sees. `own` are further folders it may write, `hide` further paths that are masked."""
    view = FileView()
    for path in hidden_paths():
        view.show(path, Visibility.HIDDEN)
    for path in shared_folders():
        view.show(path, Visibility.FRESH)
    for path in _readable(view, job, program):
        view.show(path, Visibility.READ)
    for path in (*job.hide, *hide):
        view.show(path, Visibility.HIDDEN)
    view.show(job.cache, Visibility.READ)
    for path in (*own, *_writable(job)):
        view.show(path, Visibility.WRITE)
    return view


def _writable(job: Job) -> list[str]:
    given = (job.folder, job.report, job.cache if job.may_write_cache else "")
    return [path for path in given if path]


def _readable(view: FileView, job: Job, program: str) -> list[str]:
    """What is asked for, and what the job's programs need, but for secrets that lie among it."""
    of_many = [os.path.join(home, name) for home in homes() for name in NEVER_WHOLE]
    needs = RequiredPaths(view.trails, lambda path: not view.covers(path) and path not in of_many)
    own = tuple(os.path.join(view.trails.follow(path).real, "") for path in _writable(job))
    # Tools in a folder of the job's own stay writable with it.
    needed = [
        path
        for path in needs.of(job, program, search_path(job))
        if not view.trails.follow(path).real.startswith(own)
    ]
    for path in needed:
        for name in CREDENTIALS:
            secret = os.path.join(path, name)
            if view.at(view.trails.follow(path).real) is not Visibility.READ and os.path.isfile(secret):
                view.show(secret, Visibility.HIDDEN)
    return [*needed, *job.read, *((RESOLVER,) if job.has_network else ())]
