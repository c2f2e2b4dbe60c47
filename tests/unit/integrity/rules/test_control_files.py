"""Files that say how work is judged may only be changed by whoever judges."""

import pytest

from remand.integrity.comparison import Comparison, build_file_diff
from remand.integrity.examination import examine
from tests.unit.integrity.changes import added, deleted, held, modified

HOOKS = '{"hooks": {"Stop": [{"command": "remand hook"}]}, "model": "x"}'


@pytest.mark.parametrize(
    "path",
    [
        "remand.toml",
        "sub/remand.toml",
        ".githooks/pre-push",
        ".github/hooks/stop.json",
        "sub/.got/x",
        "sub/.GOT/ledger.db",
    ],
)
def test_any_change_of_the_policy_or_a_hook_is_found(path: str) -> None:
    assert held(modified(path, "a = 1\n", "a = 2\n")) == {"control_changed"}
    assert held(deleted(path, "a = 1\n")) == {"control_changed"}
    assert held(added(path, "a = 1\n")) == {"control_changed"}


def test_what_the_policy_protects_is_protected() -> None:
    change = build_file_diff("M", "infra/main.tf", b"a", b"b")

    assert not examine(Comparison(changes=(change,)))
    assert [item.code for item in examine(Comparison(changes=(change,), protected=("infra/*",)))] == [
        "control_changed"
    ]


def test_a_renamed_policy_is_found() -> None:
    change = build_file_diff("R", "old/policy.toml", b"a", b"a", old_path="remand.toml")

    assert [item.code for item in examine(Comparison(changes=(change,)))] == ["control_changed"]


@pytest.mark.parametrize("host", ["claude", "codex", "cursor", "gemini", "qwen"])
def test_hooks_of_a_host_may_not_go(host: str) -> None:
    path = f".{host}/settings.json"

    assert held(modified(path, HOOKS, '{"model": "x"}')) == {"control_changed"}
    assert held(modified(path, HOOKS, '{"disableAllHooks": true}')) == {"control_changed"}
    assert held(modified(path, HOOKS, HOOKS.replace('"x"', '"y"'))) == set()


def test_git_hooks_may_not_go() -> None:
    hook = "#!/bin/sh\nnpx lint-staged\n"

    assert held(deleted(".husky/pre-commit", hook)) == {"control_changed"}
    assert held(modified(".husky/pre-commit", hook, "#!/bin/sh\nexit 0\n")) == {"control_changed"}
    assert held(modified(".husky/pre-commit", hook, f"{hook}npm run check\n")) == set()
    assert "control_changed" in held(
        modified("package.json", '{"scripts": {"prepare": "husky"}}', '{"scripts": {"prepare": "true"}}')
    )


def test_hooks_of_pre_commit_may_not_go() -> None:
    before = "repos:\n  - repo: a\n    hooks:\n      - id: one\n      - id: two\n"

    assert held(modified(".pre-commit-config.yaml", before, before.replace("      - id: two\n", ""))) == {
        "check_removed"
    }
    assert held(modified(".pre-commit-config.yaml", before, before.replace("two", "three"))) == set()
