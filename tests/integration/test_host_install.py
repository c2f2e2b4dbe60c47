"""`remand init --hosts`: what holds for one machine stays on it, in every clone, worktree and state of the files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.hosts import settings
from remand.adapters.hosts.installation import HostHooks, HostServer
from remand.adapters.hosts.settings import names_machine
from remand.adapters.hosts.table import HOSTS as HOST_TABLE
from remand.domain.hosts import HOSTS
from remand.interfaces.hook.session import SessionCall
from remand.interfaces.hook.tool_guard import find_guarded
from remand.wiring.startup import guarded_files, load_host, locate
from tests.integration.conftest import near_machine
from tests.integration.machine import Machine, Repository

__all__ = ["near_machine"]

ALL = ",".join(HOSTS)
OLD = "/home/someone/.venv/bin/remand"
FILES = sorted({name for one in HOSTS for part in (HostHooks(one), HostServer(one)) for name in part.files})
OTHERS = """{
  // what this team allows
  "permissions": {"allow": ["Bash(ls)", "Bash(cat)"]},
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "./ours.sh"}]}]
  }
}
"""


@pytest.fixture
def place(near_machine: Machine) -> Repository:
    return near_machine.repository()


def setup_of(name: str) -> Any:
    found = load_host(name)
    assert found is not None
    return found.SETUP


def write_as_before(root: Path, names: Sequence[str], before: str | None = None) -> None:
    """The files that a version wrote which put the machine's path into the project's files."""
    for name in names:
        setup, entry = setup_of(name), HOST_TABLE[name].SETUP.server
        file = root / setup.path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text() if file.exists() else before
        file.write_text(settings.install_hooks(setup, text, [OLD]))
        if entry.path:
            server = root / entry.path
            server.parent.mkdir(parents=True, exist_ok=True)
            server.write_text(
                settings.install_server(entry, server.read_text() if server.exists() else None, OLD)
            )


def commit_all(repository: Repository, message: str = "Set up") -> None:
    repository.git("add", "-A")
    repository.git("commit", "-q", "--allow-empty", "-m", message)


def tracked_texts(repository: Repository) -> str:
    """Everything that the last commit holds besides the ledger."""
    names = repository.git("ls-files", "-z").split("\0")
    return "\n".join(
        repository.git("show", f"HEAD:{name}") for name in names if name and not name.startswith(".got")
    )


def host_checks(repository: Repository) -> dict[str, dict[str, Any]]:
    said = repository.call("doctor").data
    return {
        check["name"].removeprefix("host "): check
        for check in said["checks"]
        if check["name"].startswith("host ")
    }


class TestFreshClone:
    def test_nothing_that_git_tracks_holds_a_path_of_the_machine(self, place: Repository) -> None:
        done = place.ok("init", "--hosts", ALL)
        commit_all(place)

        assert place.git("ls-files", *FILES) == ""
        assert str(place.machine.folder) not in tracked_texts(place)
        assert "/bin/remand" not in tracked_texts(place)
        assert place.git("status", "--porcelain") == ""
        assert all(os.path.isfile(file) for file in [*done["hooks"], *done["mcp"]])
        assert done["commit"] == []
        assert (place.path / ".claude" / "settings.local.json").exists()
        assert not (place.path / ".claude" / "settings.json").exists()

    def test_a_colleague_is_told_what_is_missing_and_the_command_that_mends_it(
        self, place: Repository
    ) -> None:
        place.ok("init", "--hosts", "claude,gemini")
        commit_all(place)
        clone = place.machine.clone(place, "colleague")
        before = host_checks(clone)

        assert {name: check["ok"] for name, check in before.items()} == {"claude": False, "gemini": False}
        assert "no Remand hook for gemini" in before["gemini"]["detail"]
        assert "remand init --hosts gemini" in before["gemini"]["fix"]
        clone.ok("init", "--hosts", "claude,gemini")
        (place.machine.home / ".gemini").mkdir()
        trusted = {str(clone.path): "TRUST_FOLDER"}
        (place.machine.home / ".gemini" / "trustedFolders.json").write_text(json.dumps(trusted))
        assert all(check["ok"] for check in host_checks(clone).values())
        assert clone.git("status", "--porcelain") == ""

    def test_plain_init_sets_up_the_hosts_that_the_project_names(self, place: Repository) -> None:
        place.ok("init", "--hosts", "cursor")
        commit_all(place)
        clone = place.machine.clone(place, "colleague")

        assert clone.ok("init")["hooks"] == [str(clone.path / ".cursor" / "hooks.json")]

    def test_the_message_says_to_repeat_it_and_not_to_commit_local_files(self, place: Repository) -> None:
        said = place.people("init", "--hosts", "claude,codex").out
        to_commit = next(row for row in said.splitlines() if row.startswith("Next: commit"))

        assert "In every other clone, run `remand init --hosts claude,codex` once." in said
        assert "settings.local.json (this machine's; git ignores it)" in said
        assert not any(name in to_commit for name in ("settings", "hooks.json", "config.toml", ".mcp.json"))

    def test_repeating_it_changes_nothing(self, place: Repository) -> None:
        first = place.ok("init", "--hosts", ALL)
        texts = {name: (place.path / name).read_text() for name in FILES if (place.path / name).exists()}
        excluded = (place.path / ".git" / "info" / "exclude").read_text()
        config = (place.path / "remand.toml").read_text()

        assert place.ok("init", "--hosts", ALL) | {"missing": []} == first | {"missing": []}
        assert texts == {
            name: (place.path / name).read_text() for name in FILES if (place.path / name).exists()
        }
        assert (place.path / ".git" / "info" / "exclude").read_text() == excluded
        assert (place.path / "remand.toml").read_text() == config

    def test_a_host_that_is_added_later_is_named_beside_the_others(self, place: Repository) -> None:
        place.ok("init", "--hosts", "claude")
        place.ok("init", "--hosts", "codex")

        assert 'hosts = ["claude", "codex"]' in (place.path / "remand.toml").read_text()

    def test_a_configuration_that_cannot_be_changed_safely_is_left_with_a_line_to_add(
        self, near_machine: Machine
    ) -> None:
        odd = 'project.base = "main"\n[gates]\n'
        place = near_machine.repository(config=odd)
        done = place.ok("init", "--hosts", "claude")

        assert (place.path / "remand.toml").read_text() == odd
        assert '`hosts = ["claude"]` to `[project]`' in done["missing"]

    def test_what_is_taken_out_leaves_nothing_behind(self, place: Repository) -> None:
        excluded = (place.path / ".git" / "info" / "exclude").read_text()
        place.ok("init", "--hosts", ALL)
        place.ok("init", "--remove")

        assert not any((place.path / name).exists() for name in FILES)
        assert (place.path / ".git" / "info" / "exclude").read_text() == excluded


class TestLinkedWorktree:
    def test_it_has_hooks_of_its_own_and_the_main_one_too(self, place: Repository) -> None:
        place.git("worktree", "add", "-q", "../linked", "-b", "task")
        linked = Repository(place.machine, place.machine.folder / "linked")
        place.ok("init", "--hosts", "claude,cursor")
        commit_all(place)
        assert not any(check["ok"] for check in host_checks(linked).values())
        linked.ok("init", "--hosts", "claude,cursor")

        assert all(check["ok"] for check in host_checks(linked).values())
        assert all(check["ok"] for check in host_checks(place).values())
        shown = [one.git("status", "--porcelain", "--", ":!.got") for one in (place, linked)]
        assert shown == ["", ""]


class TestUpgrade:
    @pytest.mark.parametrize("name", HOSTS)
    def test_tracked_entries_with_a_path_are_moved_to_this_machines_files(
        self, place: Repository, name: str
    ) -> None:
        write_as_before(place.path, [name])
        commit_all(place)
        assert not host_checks(place)[name]["ok"]
        done = place.ok("init", "--hosts", name)
        commit_all(place, "Take them out")

        assert OLD not in tracked_texts(place)
        assert set(done["commit"]) == {str(place.path / one) for one in _files_of(name)}
        assert place.git("ls-files", *FILES) == ""
        proof = host_checks(place)[name]
        assert proof["ok"] or "trusted" in proof["detail"]
        clone = place.machine.clone(place, "colleague")
        assert not any((clone.path / one).exists() for one in FILES)

    def test_every_host_at_once_and_without_naming_them(self, place: Repository) -> None:
        write_as_before(place.path, HOSTS)
        commit_all(place)
        said = place.people("init").out
        commit_all(place, "Take them out")

        assert OLD not in tracked_texts(place)
        assert "removed a machine's path from" in said
        assert ".claude/settings.json" in next(row for row in said.splitlines() if "Next: commit" in row)
        assert place.ok("init")["commit"] == []

    def test_comments_and_formatting_of_the_users_own_content_stay(self, place: Repository) -> None:
        file = place.path / ".claude" / "settings.json"
        file.parent.mkdir()
        stop = f"{OLD} hook --host claude stop"
        ours = json.dumps({"hooks": [{"type": "command", "command": stop, "timeout": 300}]})
        file.write_text(OTHERS.replace('"./ours.sh"}]}]', '"./ours.sh"}]},\n      ' + ours + "]"))
        commit_all(place)
        place.ok("init", "--hosts", "claude")

        assert file.read_text() == OTHERS
        assert (
            len(settings.find_hooks(setup_of("claude"), (file.parent / "settings.local.json").read_text()))
            == 9
        )

    def test_a_tracked_file_with_other_content_names_the_program_alone(self, place: Repository) -> None:
        mine = '{\n  "ui": {"theme": "x"},\n  "mcpServers": {"other": {"command": "npx"}}\n}\n'
        write_as_before(place.path, ["gemini"], before=mine)
        commit_all(place)
        done = place.ok("init", "--hosts", "gemini")
        text = (place.path / ".gemini" / "settings.json").read_text()

        assert [str(place.path / ".gemini" / "settings.json")] == done["commit"]
        assert OLD not in text
        assert '"command": "remand hook --host gemini stop"' in text
        assert (
            '"ui": {"theme": "x"}' in text.replace("\n    ", "").replace("\n  ", "") or '"theme": "x"' in text
        )
        assert json.loads(text)["mcpServers"]["remand"]["command"] == "remand"
        assert json.loads(text)["mcpServers"]["other"] == {"command": "npx"}

    def test_a_program_that_is_not_on_path_is_said_to_be(
        self, place: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (place.path / ".gemini").mkdir()
        (place.path / ".gemini" / "settings.json").write_text('{"ui": {}}')
        commit_all(place)
        place.ok("init", "--hosts", "gemini")
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        found = host_checks(place)["gemini"]

        assert "calls `remand`, which is not on PATH" in found["detail"]
        assert "Install Remand" in found["fix"]

    def test_no_event_is_hooked_twice_when_a_tracked_and_a_local_entry_meet(self, place: Repository) -> None:
        place.ok("init", "--hosts", "claude")
        write_as_before(place.path, ["claude"])
        place.git("add", "-f", ".claude/settings.json")
        place.git("commit", "-q", "-m", "An older colleague's")
        assert not host_checks(place)["claude"]["ok"]
        place.ok("init", "--hosts", "claude")

        assert host_checks(place)["claude"]["ok"]
        assert not (place.path / ".claude" / "settings.json").exists()

    def test_a_file_of_the_users_own_that_git_does_not_track_yet_is_not_hidden_from_git(
        self, place: Repository
    ) -> None:
        file = place.path / ".cursor" / "hooks.json"
        file.parent.mkdir()
        file.write_text('{"version": 1, "hooks": {"stop": [{"command": "./mine.sh"}]}}')
        place.ok("init", "--hosts", "cursor")

        assert ".cursor/hooks.json" in place.git("status", "--porcelain", "--untracked-files=all")
        assert not any(names_machine(line) for line in HostHooks("cursor").commands(file.read_text()))

    def test_what_qwen_adds_to_the_file_is_nobodys_content(self, place: Repository) -> None:
        write_as_before(place.path, ["qwen"])
        file = place.path / ".qwen" / "settings.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "$version": 4}))
        commit_all(place)
        place.ok("init", "--hosts", "qwen")
        commit_all(place, "Take it out")

        assert place.git("ls-files", ".qwen") == ""
        assert host_checks(place)["qwen"]["ok"]


class TestFilesThatCannotBeChanged:
    @pytest.mark.parametrize(
        ("content", "problem"),
        [("{", "is not JSON"), ("[]", "is not a JSON object"), ('{"hooks": 7}', "is not an object")],
    )
    def test_an_invalid_file_is_named_and_nothing_is_written(
        self, place: Repository, content: str, problem: str
    ) -> None:
        file = place.path / ".claude" / "settings.local.json"
        file.parent.mkdir()
        file.write_text(content)
        said = place.call("init", "--hosts", "cursor,claude")

        assert (said.code, said.data["error"]) == (3, "environment")
        assert "settings.local.json" in said.data["message"]
        assert problem in said.data["message"]
        assert file.read_text() == content
        assert not (place.path / ".cursor").exists()

    def test_comments_that_would_be_lost_keep_a_file_from_being_written(self, place: Repository) -> None:
        file = place.path / ".claude" / "settings.local.json"
        file.parent.mkdir()
        file.write_text("{\n  // mine\n}\n")
        said = place.call("init", "--hosts", "claude")

        assert "comments would be lost" in said.data["message"]
        assert file.read_text() == "{\n  // mine\n}\n"

    @pytest.mark.parametrize("is_folder", [False, True])
    def test_what_is_read_only_is_named_and_nothing_is_written(
        self, place: Repository, is_folder: bool
    ) -> None:
        file = place.path / ".claude" / "settings.local.json"
        file.parent.mkdir()
        file.write_text("{}")
        protected = file.parent if is_folder else file
        protected.chmod(0o555 if is_folder else 0o444)
        said = place.call("init", "--hosts", "cursor,claude")
        protected.chmod(0o755)

        assert said.code == 3
        assert "settings.local.json" in said.data["message"]
        assert file.read_text() == "{}"
        assert not (place.path / ".cursor").exists()

    def test_a_link_inside_the_project_is_followed_and_stays_a_link(self, place: Repository) -> None:
        real = place.path / "settings" / "mine.json"
        real.parent.mkdir()
        real.write_text('{"model": "m"}')
        link = place.path / ".claude" / "settings.local.json"
        link.parent.mkdir()
        link.symlink_to("../settings/mine.json")
        place.ok("init", "--hosts", "claude")

        assert link.is_symlink()
        assert json.loads(real.read_text())["model"] == "m"

    def test_a_link_out_of_the_project_is_not_followed(self, place: Repository) -> None:
        elsewhere = place.machine.folder / "elsewhere.json"
        elsewhere.write_text("{}")
        link = place.path / ".claude" / "settings.local.json"
        link.parent.mkdir()
        link.symlink_to(elsewhere)
        said = place.call("init", "--hosts", "claude")

        assert "leads out of the repository" in said.data["message"]
        assert elsewhere.read_text() == "{}"

    def test_an_unreadable_file_of_a_host_nobody_asked_for_is_no_obstacle(self, place: Repository) -> None:
        (place.path / ".gemini").mkdir()
        (place.path / ".gemini" / "settings.json").write_text("{")
        commit_all(place)

        place.ok("init", "--hosts", "claude")


def _files_of(name: str) -> set[str]:
    entry = HOST_TABLE[name].SETUP.server
    return {setup_of(name).path, *([entry.path] if entry.path else [])}


@pytest.mark.parametrize("name", HOSTS)
def test_no_agent_may_change_a_file_that_holds_our_hooks(near_machine: Machine, name: str) -> None:
    place = near_machine.repository()
    done = place.ok("init", "--hosts", name)
    written = {os.path.relpath(file, place.path) for file in done["hooks"]}

    assert written <= set(guarded_files())
    located = locate(str(place.path))
    assert located is not None
    for file in written:
        for words in (
            SessionCall(host=name, event="pre_tool", tool="Edit", paths=(file,)),
            SessionCall(host=name, event="pre_tool", tool="Bash", command=f"rm -f ./{file}"),
        ):
            assert find_guarded(words, located)
