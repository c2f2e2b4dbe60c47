"""Work is pushed with git itself, past whatever the repository configures, and the token goes to the forge alone."""

from __future__ import annotations

import os
import shutil
from base64 import b64encode
from typing import Any

import pytest

from remand.adapters.git.location import locate
from remand.adapters.git.remote import Access, GitRemote, parse_address
from remand.app.forge.ports import ForgeFault, ForgeFaultKind
from tests.integration.git_over_http import git_server
from tests.integration.machine import Machine, Repository

TOKEN = "a-token-of-the-tests"
BRANCH = "work/roof"


class Site:
    """A repository with work in it, and a bare one where it is pushed to."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.repository: Repository = machine.repository()
        self.bare = machine.folder / "hub" / "demo.git"
        self.bare.parent.mkdir()
        machine.git(machine.folder, "clone", "-q", "--bare", str(self.repository.path), str(self.bare))
        self.repository.git("checkout", "-q", "-b", BRANCH)
        self.first = self.repository.commit("roof.txt", "first")
        self.second = self.repository.commit("roof.txt", "second")

    def remote(self, name: str = "", **fields: Any) -> GitRemote:
        place = locate(str(self.repository.path))
        assert place is not None
        seconds = fields.pop("seconds", 60.0)
        environment = fields.pop("environment", self.machine.environment)
        return GitRemote(place, name or str(self.bare), Access(**fields), environment, seconds)

    def there(self, branch: str = BRANCH) -> str:
        return self.machine.git(
            self.bare, "rev-parse", "-q", "--verify", f"refs/heads/{branch}", check=False
        ).strip()


@pytest.fixture
def site(near_machine: Machine) -> Site:
    return Site(near_machine)


def fault(remote: GitRemote, *asked: str) -> ForgeFault:
    with pytest.raises(ForgeFault) as raised:
        remote.push(*asked)
    return raised.value


class TestBranches:
    def test_a_branch_is_made_then_moved_from_where_it_is(self, site: Site) -> None:
        remote = site.remote()
        before = remote.tip(BRANCH)
        remote.push(site.first, BRANCH, "")
        between = remote.tip(BRANCH)
        remote.push(site.second, BRANCH, site.first)

        assert (before, between, site.there()) == ("", site.first, site.second)
        assert (remote.is_main("main"), remote.is_main(BRANCH)) == (True, False)

    def test_what_we_pushed_is_replaced_by_what_does_not_follow_it(self, site: Site) -> None:
        site.remote().push(site.second, BRANCH, "")
        site.remote().push(site.first, BRANCH, site.second)

        assert site.there() == site.first

    @pytest.mark.parametrize("over", ["", "0" * 39 + "1"])
    def test_a_branch_that_is_elsewhere_by_now_is_left_alone(self, site: Site, over: str) -> None:
        site.remote().push(site.first, BRANCH, "")

        assert fault(site.remote(), site.second, BRANCH, over).kind is ForgeFaultKind.REFUSED
        assert site.there() == site.first

    def test_what_comes_after_what_is_told_from_the_commits(self, site: Site) -> None:
        remote = site.remote()

        assert remote.is_ahead(site.second, site.first)
        assert not remote.is_ahead(site.first, site.second)
        assert not remote.is_ahead(site.first, "0" * 39 + "1")

    def test_a_shallow_clone_can_push(self, site: Site) -> None:
        site.remote().push(site.first, BRANCH, "")
        clone = Repository(site.machine, site.machine.folder / "shallow")
        asked = ("clone", "-q", "--depth", "1", "--no-local", "-b", BRANCH, str(site.bare), str(clone.path))
        site.machine.git(site.machine.folder, *asked)
        onward = clone.commit("roof.txt", "onward")
        place = locate(str(clone.path))
        assert place is not None
        GitRemote(place, "origin", Access(), site.machine.environment).push(onward, BRANCH, site.first)

        assert site.there() == onward

    @pytest.mark.parametrize("branch", ["", "-x..y", "a b", "a:b", "../a", "a\nb", "@{u}", "a\0b", "+x~"])
    def test_what_is_no_name_of_a_branch_is_pushed_nowhere(self, site: Site, branch: str) -> None:
        assert fault(site.remote(), site.first, branch, "").kind is ForgeFaultKind.REFUSED
        assert site.machine.git(site.bare, "for-each-ref", "refs/heads").count("\n") == 1

    @pytest.mark.parametrize("commit", ["HEAD", "main", "", "--all", ":refs/heads/main"])
    def test_only_a_commits_whole_id_is_pushed(self, site: Site, commit: str) -> None:
        assert fault(site.remote(), commit, BRANCH, "").kind is ForgeFaultKind.REFUSED

    def test_a_remote_that_is_not_there_is_missing_and_a_name_too(self, site: Site) -> None:
        for name in (str(site.bare.parent / "gone.git"), "upstream"):
            assert fault(site.remote(name), site.first, BRANCH, "").kind is ForgeFaultKind.MISSING

    def test_a_hook_that_declines_is_a_refusal_with_its_words(self, site: Site) -> None:
        hook = site.bare / "hooks" / "pre-receive"
        hook.write_text("#!/bin/sh\necho 'Frozen until Monday' >&2\nexit 1\n")
        hook.chmod(0o755)
        found = fault(site.remote(), site.first, BRANCH, "")

        assert (found.kind, "Frozen until Monday" in str(found)) == (ForgeFaultKind.REFUSED, True)

    def test_a_remote_that_never_answers_is_unreachable(self, site: Site) -> None:
        hook = site.bare / "hooks" / "pre-receive"
        hook.write_text("#!/bin/sh\nexec sleep 600\n")
        hook.chmod(0o755)

        assert fault(site.remote(seconds=1.0), site.first, BRANCH, "").kind is ForgeFaultKind.UNREACHABLE


HOSTILE = {
    "core.hooksPath": "{evil}",
    "core.sshCommand": "{evil}/run",
    "core.fsmonitor": "{evil}/run",
    "core.askPass": "{evil}/run",
    "core.gitProxy": "{evil}/run",
    "credential.helper": "!{evil}/run",
    "remote.hub.receivepack": "{evil}/run",
    "remote.hub.uploadpack": "{evil}/run",
    "remote.hub.proxy": "http://127.0.0.1:1/",
    "http.proxy": "http://127.0.0.1:1/",
    "url.ext::{evil}/run.insteadOf": "{bare}",
    "push.gpgSign": "true",
    "gpg.program": "{evil}/run",
    "push.recurseSubmodules": "check",
    "include.path": "{evil}/config",
    "alias.push": "!{evil}/run",
    "protocol.ext.allow": "always",
}


class TestTheRepositorysConfiguration:
    def test_nothing_that_it_names_is_run(self, site: Site) -> None:
        evil = site.machine.folder / "evil"
        evil.mkdir()
        canary = evil / "was-run"
        for name in ("run", "pre-push", "reference-transaction", "post-update"):
            (evil / name).write_text(f"#!/bin/sh\ntouch {canary}\n")
            (evil / name).chmod(0o755)
        hooks = site.repository.path / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        shutil.copy(evil / "run", hooks / "pre-push")
        (evil / "config").write_text(f"[core]\n\tsshCommand = {evil}/run\n")
        site.repository.git("remote", "add", "hub", str(site.bare))
        for key, value in HOSTILE.items():
            words = {"evil": evil, "bare": site.bare}
            site.repository.git("config", key.format(**words), value.format(**words))
        remote = site.remote("hub")
        remote.push(site.first, BRANCH, remote.tip(BRANCH))

        assert site.there() == site.first
        assert not canary.exists()

    @pytest.mark.parametrize(
        "url",
        [
            "ext::sh -c 'touch {canary}'",
            "--upload-pack=touch {canary}",
            "ssh://-oProxyCommand=touch%20{canary}/x",
            "git://127.0.0.1/x",
            "http://git.example.org/x",
            "fd::1",
            "foo::{canary}",
            "https://user:word@git.example.org/x",
            "https://[::1/x",
            "https:///x",
        ],
    )
    def test_an_address_that_could_be_anything_else_is_none(self, site: Site, url: str) -> None:
        canary = site.machine.folder / "was-run"
        site.repository.git("remote", "add", "hub", "x")
        site.repository.git("config", "remote.hub.url", url.format(canary=canary))
        found = fault(site.remote("hub"), site.first, BRANCH, "")

        assert (found.kind, "forge.remote" in str(found)) == (ForgeFaultKind.REFUSED, True)
        assert not canary.exists()
        assert "word" not in str(found).replace("password", "")

    def test_addresses_of_every_kind_are_read(self) -> None:
        read = {
            "https://me@git.example.org:8443/o/r.git": "https",
            "http://127.0.0.1:3000/o/r.git": "http",
            "git@github.com:o/r.git": "ssh",
            "ssh://git@git.example.org:22/o/r.git": "ssh",
            "/srv/git/r.git": "file",
            "file:///srv/git/r.git": "file",
            "../r.git": "file",
        }

        assert {text: parse_address(text, "/srv/repo").protocol for text in read} == read
        assert (
            parse_address("https://me@git.example.org:8443/o/r.git").url
            == "https://git.example.org:8443/o/r.git"
        )
        assert parse_address("../r.git", "/srv/repo").url == "/srv/r.git"


class TestTheToken:
    def word(self) -> str:
        return f"Basic {b64encode(f'x-access-token:{TOKEN}'.encode()).decode()}"

    def test_it_goes_to_the_forge_and_stands_in_no_argument(self, site: Site) -> None:
        seen = site.machine.folder / "seen"
        wrapper = site.machine.folder / "bin" / "git"
        wrapper.parent.mkdir()
        real = shutil.which("git")
        wrapper.write_text(f'#!/bin/sh\necho "$0 $*" >> {seen}\nexec {real} "$@"\n')
        wrapper.chmod(0o755)
        path = f"{wrapper.parent}:{os.environ['PATH']}"
        with git_server(site.bare.parent, self.word()) as server:
            environment = {**site.machine.environment, "PATH": path}
            remote = site.remote(
                f"{server.url}/demo.git", origin=server.url, token=TOKEN, environment=environment
            )
            remote.push(site.first, BRANCH, remote.tip(BRANCH))

            assert site.there() == site.first
            assert set(server.authorizations) == {self.word()}
        assert "push --porcelain" in seen.read_text()
        assert TOKEN not in seen.read_text()
        assert self.word().split()[1] not in seen.read_text()

    def test_another_server_is_not_shown_it(self, site: Site) -> None:
        with git_server(site.bare.parent, self.word()) as thief:
            remote = site.remote(f"{thief.url}/demo.git", origin="https://forge.example.org", token=TOKEN)
            found = fault(remote, site.first, BRANCH, "")

            assert found.kind is ForgeFaultKind.DENIED
            assert set(thief.authorizations) == {""}
            assert TOKEN not in str(found)

    def test_a_redirect_does_not_take_it_along(self, site: Site) -> None:
        with git_server(site.bare.parent) as thief, git_server(site.bare.parent, "nobody") as forge:
            site.repository.git("config", f"url.{thief.url}/.insteadOf", f"{forge.url}/")
            remote = site.remote(f"{forge.url}/demo.git", origin=forge.url, token=TOKEN)
            found = fault(remote, site.first, BRANCH, "")

            assert (found.kind, thief.paths) == (ForgeFaultKind.DENIED, [])
