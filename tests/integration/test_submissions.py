"""Commits on their way to a server, and the server's base: what is taken, what is refused, and how often it is fetched."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from remand.adapters.git.location import find_place
from remand.adapters.git.remote import (
    FRESH_SECONDS,
    MAX_SHARED,
    PACKS,
    BaseFetcher,
    CloneCommits,
    SubmissionStore,
    pack_commit,
)
from remand.adapters.git.repository import GitRepository
from remand.adapters.stores.shared_data import EmbeddedSharedData
from remand.app.errors import EnvironmentFault
from remand.testing.builders import NOW
from tests.integration.machine import Machine, Repository, wait_for

TASK = "T-20260101-000000-abcd"


class Site:
    """A project's remote, the server's clone of it, and a host's."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.source = machine.repository("source")
        machine.git(machine.folder, "clone", "-q", "--bare", str(self.source.path), "remote.git")
        self.remote = machine.folder / "remote.git"
        self.server, self.host = (self._clone(name) for name in ("server", "host"))
        self.store = SubmissionStore(
            find_place(str(self.server.path)), str(machine.folder / "checked"), machine.environment
        )

    def _clone(self, name: str) -> Repository:
        self.machine.git(self.machine.folder, "clone", "-q", str(self.remote), name)
        return Repository(self.machine, self.machine.folder / name)

    def pack(self, commit: str, *known: str) -> bytes:
        return pack_commit(find_place(str(self.host.path)), commit, known)


@pytest.fixture
def site() -> Iterator[Site]:
    machine = Machine()
    yield Site(machine)
    machine.close()


def test_a_pack_brings_a_commit_and_what_is_known_is_left_out(site: Site) -> None:
    base, commit = site.host.head(), site.host.commit()
    assert len(site.pack(commit, base, "0" * 40)) < len(site.pack(commit))
    site.store.receive(TASK, commit, site.pack(commit, base), [base])
    assert site.server.head(f"refs/remand/submitted/{TASK}") == commit
    assert site.server.git("show", f"{commit}:work.txt") == "work\n"


def test_a_pack_that_is_none_or_lacks_its_commit_leaves_nothing_behind(site: Site) -> None:
    base, commit = site.host.head(), site.host.commit()
    later = site.host.commit("later.txt")
    whole = site.pack(commit, base)
    for bad in (b"", b"PACK", whole[:-30], whole[:40] + b"\xff" + whole[41:], site.pack(later, commit)):
        with pytest.raises(EnvironmentFault):
            site.store.receive(TASK, later, bad, [base])
    assert not site.store.has(commit)
    assert not site.store.has(later)
    refs = site.server.git("for-each-ref", "refs/remand")
    assert refs == ""


def test_objects_that_a_confined_agent_may_not_bring_come_in_no_pack_either(site: Site) -> None:
    blob = site.host.git("hash-object", "-w", "remand.toml").strip()
    tree = _write(site.host.path, "tree", b"100644 .git\0" + bytes.fromhex(blob))
    who = b"A <a@example.org> 1700000000 +0000"
    content = b"tree %b\nparent %b\nauthor %b\ncommitter %b\n\nhostile\n"
    commit = _write(site.host.path, "commit", content % (tree.encode(), site.host.head().encode(), who, who))
    with pytest.raises(EnvironmentFault):
        site.store.receive(TASK, commit, site.pack(commit, site.host.head()), [site.host.head()])
    assert not site.store.has(commit)


def _write(folder: Path, kind: str, content: bytes) -> str:
    command = ["git", "hash-object", "-w", "-t", kind, "--literally", "--stdin"]
    done = subprocess.run(command, cwd=folder, input=content, capture_output=True, check=True, timeout=600)
    return done.stdout.decode().strip()


def test_a_commit_that_was_sent_to_one_server_is_found_by_every_other_of_the_database(site: Site) -> None:
    values: dict[str, str] = {}
    shared = EmbeddedSharedData(lambda key: values.get(key, ""), values.__setitem__)
    base, first, second = site.host.head(), site.host.commit(), site.host.commit("more.txt")
    server, other = (
        SubmissionStore(
            find_place(str(clone.path)),
            str(site.machine.folder / f"checked {clone.path.name}"),
            site.machine.environment,
            shared,
            lambda: NOW,
        )
        for clone in (site.server, site._clone("other"))
    )
    repository = GitRepository(find_place(str(site.machine.folder / "other")))
    repository.fetch_missing = other.take_shared
    server.receive(TASK, first, site.pack(first, base), [base])
    server.receive(TASK, second, site.pack(second, first), [base, first])
    assert (repository.commit(second), repository.difference(base, second)) == (None, None)
    assert other.fetch(TASK, second) != ""

    server.share(TASK, second, base)
    difference = repository.difference(base, second)
    assert difference is not None
    assert set(difference.paths) == {"work.txt", "more.txt"}, "also what was sent before"
    assert repository.commit(second) is not None
    assert other.fetch(TASK, second) == ""
    for number in range(MAX_SHARED):
        server.share(TASK, site.server.commit(f"{number}.txt"), base)
    assert shared.get(PACKS, second, NOW) is None, "later ones stand for it"


def test_a_commit_on_the_remote_is_fetched_by_its_task_or_by_its_id(site: Site) -> None:
    first, second = site.host.commit("a.txt"), site.host.commit("b.txt")
    clone = CloneCommits(find_place(str(site.host.path)), site.machine.environment)
    assert site.store.fetch(TASK, first)
    assert clone.push(TASK, second)
    assert site.store.fetch(TASK, second) == ""
    assert site.store.fetch("", first) == ""
    third = site.host.commit("c.txt")
    assert clone.push("", third)
    assert site.store.fetch("", third) == ""
    assert site.store.fetch(TASK, "1" * 40)


def test_the_base_is_fetched_before_it_is_ten_seconds_old_and_no_more_often(site: Site) -> None:
    now = [100.0]
    place = find_place(str(site.server.path))
    fetches: list[float] = []

    def base_branch() -> str:
        fetches.append(now[0])
        return "main"

    fetcher = BaseFetcher(place, base_branch, site.machine.environment, lambda: now[0])

    def move_base(name: str) -> str:
        commit = site.host.commit(name)
        site.host.git("push", "-q", "origin", "HEAD:main")
        return commit

    def known() -> str:
        return site.server.head("refs/remotes/origin/main")

    first = move_base("one.txt")
    fetcher.refresh()
    assert known() == first
    second = move_base("two.txt")
    fetcher.refresh()
    for thread in threading.enumerate():
        if thread.name == "base":
            thread.join()
    assert (fetches, known()) == ([100.0], first), "it is young enough"
    now[0] += FRESH_SECONDS
    fetcher.refresh()
    assert known() == second
    third = move_base("three.txt")
    now[0] += FRESH_SECONDS - 1
    fetcher.refresh()
    wait_for(lambda: known() == third, "the base, which nobody waits for")


def test_a_base_that_lacks_a_commit_is_fetched_however_young_it_is(site: Site) -> None:
    fetcher = BaseFetcher(
        find_place(str(site.server.path)), lambda: "main", site.machine.environment, lambda: 100.0
    )
    fetcher.refresh()
    commit = site.host.commit("one.txt")
    site.host.git("push", "-q", "origin", "HEAD:main")

    assert fetcher.fetch_until(commit) == ""
    assert site.server.head("refs/remotes/origin/main") == commit
    assert "does not hold" in fetcher.fetch_until("1" * 40)
    assert fetcher.fetch_until("--help") == ""
    site.remote.rename(site.machine.folder / "away")
    assert fetcher.fetch_until(commit) == "", "it is here already"
    assert fetcher.fetch_until("1" * 40)


def test_a_remote_that_is_away_keeps_nobody_from_deciding_by_the_last_base(site: Site) -> None:
    now = [100.0]
    place = find_place(str(site.server.path))
    fetcher = BaseFetcher(place, lambda: "main", site.machine.environment, lambda: now[0])
    site.remote.rename(site.machine.folder / "away")
    fetcher.refresh()
    assert fetcher.trouble
    assert site.server.head("refs/remotes/origin/main")
    (site.machine.folder / "away").rename(site.remote)
    now[0] += 2 * FRESH_SECONDS

    def has_recovered() -> bool:
        fetcher.refresh()
        return not fetcher.trouble

    wait_for(has_recovered, "the remote to be found again")
