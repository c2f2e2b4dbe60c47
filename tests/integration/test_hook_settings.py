"""Hooks in the hosts' settings files: put in, taken out, and proven by calling them as the host would."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from remand.adapters.git.location import LedgerLocation
from remand.adapters.hosts import codex_settings, settings
from remand.adapters.hosts.checks import PROBE_TEXT, SECONDS
from remand.adapters.hosts.host import Setup
from remand.app import hook_calls as hook
from remand.app.errors import EnvironmentFault, UsageError
from remand.app.hook_calls import HookAnswer
from remand.app.ports import HookCheck
from remand.domain.hosts import HOSTS
from remand.wiring.setup import host_checks, host_files, host_worktrees
from remand.wiring.startup import load_host
from tests.integration.processes import LONGER, is_gone

TRUSTING = sorted(set(HOSTS) - {"codex"})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without settings of any host."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "my repo"
    path.mkdir()
    return path


def at(root: str) -> LedgerLocation:
    """A folder that is in no repository, where nothing is tracked or ignored."""
    return LedgerLocation(root=root, worktree=root)


def install_hosts(
    root: str, names: Sequence[str], executable: str, *, is_portable: bool = False
) -> list[str]:
    return host_files.install_hosts(
        host_worktrees(at(root)), names, executable, is_portable=is_portable
    ).hooks


def remove_hosts(root: str) -> list[str]:
    return host_files.remove_hosts(host_worktrees(at(root))).hooks


def prove(name: str, root: str, seconds: float = SECONDS) -> HookCheck:
    return host_checks.check_hook(name, root, host_worktrees(at(root))[root], seconds)


def program(folder: Path, script: str, mode: int = 0o755) -> str:
    """An executable that stands for ours."""
    path = folder / "bin" / "remand"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)
    return str(path)


def answering(name: str) -> str:
    """A hook that answers a probe as ours does, and anything else with nothing."""
    found = load_host(name)
    assert found is not None
    output, _, _ = found.render(hook.STOP, HookAnswer.block(PROBE_TEXT))
    return f'cat >/dev/null; test -z "$REMAND_HOOK_PROBE" || printf %s {shlex.quote(output)}'


def setup_of(name: str) -> Setup:
    found = load_host(name)
    assert found is not None
    return found.SETUP


def trust_all(root: Path, home: Path) -> None:
    """Trusts our hooks in Codex, as a person does with `/hooks`."""
    path = root / ".codex" / "hooks.json"
    rows = [
        f'[hooks.state."{codex_settings.trust_key(str(path), entry)}"]\n'
        f'trusted_hash = "{codex_settings.hook_identity(entry)}"\n'
        for entry in settings.find_hooks(setup_of("codex"), path.read_text())
    ]
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text("".join(rows))


class TestFiles:
    def test_all_hosts_are_installed_and_removed_again(self, root: Path) -> None:
        files = install_hosts(str(root), HOSTS, "/opt/remand")

        assert host_checks.installed_hosts(str(root)) == list(HOSTS)
        assert all(os.path.isfile(file) for file in files)
        assert install_hosts(str(root), HOSTS, "/opt/remand") == files
        assert remove_hosts(str(root)) == files
        assert list(root.iterdir()) == []
        assert host_checks.installed_hosts(str(root)) == []

    def test_nothing_is_written_when_one_file_is_unusable(self, root: Path) -> None:
        (root / ".qwen").mkdir()
        (root / ".qwen" / "settings.json").write_text("{ // mine\n}")
        with pytest.raises(EnvironmentFault, match=r"\.qwen/settings\.json was not changed: it is not JSON"):
            install_hosts(str(root), ["claude", "qwen"], "/opt/remand")

        assert not (root / ".claude").exists()
        assert (root / ".qwen" / "settings.json").read_text() == "{ // mine\n}"

    def test_a_file_keeps_its_mode_and_what_others_wrote(self, root: Path) -> None:
        file = root / ".claude" / "settings.local.json"
        file.parent.mkdir()
        file.write_text('{"model": "a-model"}')
        file.chmod(0o600)
        install_hosts(str(root), ["claude"], "/opt/remand")

        assert file.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_text())["model"] == "a-model"
        assert remove_hosts(str(root)) == [str(file)]
        assert json.loads(file.read_text()) == {"model": "a-model"}
        assert remove_hosts(str(root)) == []

    def test_a_link_out_of_the_repository_is_not_followed(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (root / ".claude").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(EnvironmentFault, match="leads out of the repository"):
            install_hosts(str(root), ["claude"], "/opt/remand")

        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.parametrize("kind", ["folder", "pipe", "latin"])
    def test_what_is_no_settings_file_is_named(self, root: Path, kind: str) -> None:
        path = root / ".claude" / "settings.json"
        path.parent.mkdir()
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.write_bytes(b'{"a": "\xfc"}')
        with pytest.raises(EnvironmentFault, match=r"settings\.json is not"):
            install_hosts(str(root), ["claude"], "/opt/remand")

    def test_an_unknown_host_is_named(self, root: Path) -> None:
        with pytest.raises(UsageError, match="no host 'vim'"):
            install_hosts(str(root), ["vim"], "/opt/remand")

    def test_a_portable_entry_has_no_path_of_this_machine(self, root: Path) -> None:
        install_hosts(str(root), ["claude"], program(root, ""), is_portable=True)
        text = (root / ".claude" / "settings.json").read_text()

        assert str(root) not in text
        assert json.loads(text)["hooks"]["Stop"][0]["hooks"][0]["command"] == (
            '"${CLAUDE_PROJECT_DIR}"/bin/remand hook --host claude stop'
        )


class TestProof:
    @pytest.mark.parametrize("name", TRUSTING)
    def test_a_hook_that_blocks_is_proven(self, name: str, root: Path, home: Path) -> None:
        trust_folder(home, root)
        (file,) = install_hosts(str(root), [name], program(root, answering(name)))

        assert prove(name, str(root)) == HookCheck(name, True, f"{file} blocks a stop")

    @pytest.mark.parametrize("name", ["claude", "cursor", "gemini", "openhands", "qwen"])
    def test_a_portable_hook_is_proven(self, name: str, root: Path, home: Path) -> None:
        trust_folder(home, root)
        install_hosts(str(root), [name], program(root, answering(name)), is_portable=True)

        assert prove(name, str(root)).ok

    @pytest.mark.parametrize("name", HOSTS)
    def test_a_host_without_our_hooks_is_found(self, name: str, root: Path) -> None:
        proof = prove(name, str(root))

        assert not proof.ok
        assert "has no Remand hook" in proof.detail
        assert proof.fix.startswith(f"Run `remand init --hosts {name}` here.")

    def test_a_missing_event_is_found(self, root: Path) -> None:
        (file,) = install_hosts(str(root), ["claude"], program(root, answering("claude")))
        left = json.loads(Path(file).read_text())
        del left["hooks"]["PreToolUse"]
        Path(file).write_text(json.dumps(left))

        assert "lacks the hook for PreToolUse" in prove("claude", str(root)).detail

    def test_a_wrong_path_is_found(self, root: Path) -> None:
        install_hosts(str(root), ["claude"], "/nowhere/remand")
        proof = prove("claude", str(root))

        assert (proof.ok, "is not there" in proof.detail) == (False, True)
        assert proof.fix.startswith("Run `remand init --hosts claude` here.")

    def test_a_file_that_is_not_executable_is_found(self, root: Path) -> None:
        install_hosts(str(root), ["claude"], program(root, answering("claude"), 0o644))

        assert "is not executable" in prove("claude", str(root)).detail

    @pytest.mark.parametrize(
        "script",
        ["exit 0", "echo hello", "exit 1", "echo 'warning: x'; exit 2", 'printf \'{"decision": "allow"}\''],
    )
    def test_a_hook_that_would_let_the_agent_go_is_found(self, root: Path, script: str) -> None:
        install_hosts(str(root), ["claude"], program(root, script))
        proof = prove("claude", str(root))

        assert (proof.ok, "answers a stop with" in proof.detail) == (False, True)

    def test_a_word_more_than_the_answer_is_found(self, root: Path) -> None:
        install_hosts(str(root), ["claude"], program(root, f"echo Loading; {answering('claude')}"))

        assert not prove("claude", str(root)).ok

    def test_a_hook_that_hangs_is_found_and_ended(self, root: Path, tmp_path: Path) -> None:
        script = f"sleep 1000 & echo $$ $! > '{tmp_path}/pids'; sleep 1000"
        install_hosts(str(root), ["claude"], program(root, script))
        pids = tmp_path / "pids"
        proofs = [prove("claude", str(root), seconds=seconds) for seconds in LONGER if not pids.exists()]

        assert all("does not answer" in proof.detail for proof in proofs)
        started = [int(number) for number in pids.read_text().split()]
        assert [is_gone(number) for number in started] == [True, True]

    @pytest.mark.parametrize(
        ("name", "switch"),
        [
            ("claude", {"disableAllHooks": True}),
            ("qwen", {"disableAllHooks": True}),
            ("copilot", {"disableAllHooks": True}),
            ("gemini", {"hooksConfig": {"enabled": False}}),
        ],
    )
    def test_hooks_that_are_turned_off_are_found(
        self, name: str, switch: dict[str, object], root: Path
    ) -> None:
        (file,) = install_hosts(str(root), [name], program(root, answering(name)))
        Path(file).write_text(json.dumps(json.loads(Path(file).read_text()) | switch))

        assert "hooks are turned off by" in prove(name, str(root)).detail

    def test_a_spoilt_file_is_found(self, root: Path) -> None:
        (file,) = install_hosts(str(root), ["claude"], program(root, answering("claude")))
        Path(file).write_text("{")

        assert "not JSON" in prove("claude", str(root)).detail

    def test_an_entry_in_the_home_folder_counts(self, root: Path, home: Path) -> None:
        (home / ".claude").mkdir()
        text = settings.install_hooks(setup_of("claude"), None, [program(root, answering("claude"))])
        (home / ".claude" / "settings.json").write_text(text)

        assert prove("claude", str(root)).ok


def trust_folder(home: Path, root: Path) -> None:
    """What Copilot and Gemini CLI write when the user trusts a folder."""
    for name, known in (
        (".copilot/config.json", {"trustedFolders": [str(root)]}),
        (".gemini/trustedFolders.json", {str(root): "TRUST_FOLDER"}),
    ):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(f"// managed by the host\n{json.dumps(known)}")


class TestTrustedFolders:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("COPILOT_HOME", "GEMINI_CLI_HOME", "GEMINI_CLI_TRUST_WORKSPACE"):
            monkeypatch.delenv(name, raising=False)

    @pytest.mark.parametrize("name", ["copilot", "gemini"])
    def test_a_folder_that_nobody_trusted_is_named(self, name: str, root: Path, home: Path) -> None:
        install_hosts(str(root), [name], program(root, answering(name)))
        proof = prove(name, str(root))

        assert (proof.ok, f"does not name {root} as trusted" in proof.detail) == (False, True)
        assert f"Start `{name}` there once and trust the folder." in proof.fix
        hints = host_checks.setup_hints(name, "remand", str(root))
        assert any("as trusted" in hint and f"`{name}`" in hint for hint in hints)
        trust_folder(home, root)
        assert prove(name, str(root)).ok
        assert host_checks.setup_hints(name, "remand", str(root)) == []

    @pytest.mark.parametrize("name", ["copilot", "gemini"])
    def test_a_folder_above_is_enough(self, name: str, root: Path, home: Path) -> None:
        install_hosts(str(root), [name], program(root, answering(name)))
        trust_folder(home, root.parent)

        assert prove(name, str(root)).ok

    @pytest.mark.parametrize(
        ("rules", "is_trusted"),
        [
            ({".": "DO_NOT_TRUST"}, False),
            ({"..": "TRUST_FOLDER", ".": "DO_NOT_TRUST"}, False),
            ({"../other": "TRUST_PARENT"}, True),
            ({"../other": "TRUST_FOLDER"}, False),
            ({".": 7}, False),
        ],
    )
    def test_the_longest_rule_of_gemini_counts(
        self, rules: dict[str, object], is_trusted: bool, root: Path, home: Path
    ) -> None:
        install_hosts(str(root), ["gemini"], program(root, answering("gemini")))
        (home / ".gemini").mkdir()
        known = {os.path.normpath(root / name): level for name, level in rules.items()}
        (home / ".gemini" / "trustedFolders.json").write_text(json.dumps(known))

        assert prove("gemini", str(root)).ok is is_trusted

    @pytest.mark.parametrize("name", ["copilot", "gemini"])
    def test_a_spoilt_file_trusts_nothing(self, name: str, root: Path, home: Path) -> None:
        install_hosts(str(root), [name], program(root, answering(name)))
        trust_folder(home, root)
        (home / ".copilot" / "config.json").write_text("[")
        (home / ".gemini" / "trustedFolders.json").write_text("[")

        assert not prove(name, str(root)).ok

    def test_who_asks_for_no_trust_has_it(
        self, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install_hosts(str(root), ["gemini"], program(root, answering("gemini")))
        (home / ".gemini").mkdir()
        (home / ".gemini" / "settings.json").write_text('{"security": {"folderTrust": {"enabled": false}}}')

        assert prove("gemini", str(root)).ok
        (home / ".gemini" / "settings.json").unlink()
        assert not prove("gemini", str(root)).ok
        monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
        assert prove("gemini", str(root)).ok


class TestCodexTrust:
    def test_a_hook_that_nobody_trusted_is_found(self, root: Path) -> None:
        install_hosts(str(root), ["codex"], program(root, answering("codex")))
        proof = prove("codex", str(root))

        assert "is not trusted in Codex, which ignores it silently" in proof.detail
        assert "/hooks" in proof.fix

    def test_a_trusted_hook_is_proven(self, root: Path, home: Path) -> None:
        install_hosts(str(root), ["codex"], program(root, answering("codex")))
        trust_all(root, home)

        assert prove("codex", str(root)).ok

    def test_a_hook_that_changed_since_it_was_trusted_is_found(self, root: Path, home: Path) -> None:
        install_hosts(str(root), ["codex"], "/old/remand")
        trust_all(root, home)
        install_hosts(str(root), ["codex"], program(root, answering("codex")))

        assert "has changed since it was trusted" in prove("codex", str(root)).detail

    def test_a_hook_that_is_switched_off_is_found(self, root: Path, home: Path) -> None:
        install_hosts(str(root), ["codex"], program(root, answering("codex")))
        trust_all(root, home)
        config = home / ".codex" / "config.toml"
        config.write_text(config.read_text().replace("trusted_hash", "enabled = false\ntrusted_hash", 1))

        assert "is switched off in Codex" in prove("codex", str(root)).detail

    @pytest.mark.parametrize("config", ["[", "hooks = 7", "[hooks]\nstate = []", "hooks = {state = {a = 1}}"])
    def test_no_settings_of_codex_stop_the_proof(self, root: Path, home: Path, config: str) -> None:
        install_hosts(str(root), ["codex"], program(root, answering("codex")))
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(config)

        assert not prove("codex", str(root)).ok
