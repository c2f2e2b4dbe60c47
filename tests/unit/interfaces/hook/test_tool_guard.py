"""What the hook keeps from agents' tools, and what it leaves alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from remand.interfaces.hook.session import SessionCall
from remand.interfaces.hook.tool_guard import find_guarded, is_read_only
from remand.wiring.startup import LedgerLocation

PLACE = LedgerLocation(root="/repo", worktree="/repo", git_dir="/repo/.git", common_dir="/repo/.git")


def touched(command: str = "", *paths: str) -> list[str]:
    return find_guarded(
        SessionCall(event="pre_tool", host="claude", command=command, paths=paths), PLACE, "main"
    )


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .got",
        "rm -f .got/ledger.db",
        "find .got -name '*.jsonl' -delete",
        "sqlite3 .got/ledger.db 'delete from events'",
        "echo x > remand.toml",
        "echo '[gates]' >>remand.toml",
        "sed -i s/0/99/ remand.toml",
        "sed --in-place s/0/99/ remand.toml",
        "cp lax.toml remand.toml",
        "curl http://x -o remand.toml",
        "python -c \"open('remand.toml','w').write('')\"",
        "node -e \"require('fs').appendFileSync('remand.toml','')\"",
        "git checkout HEAD~3 -- remand.toml",
        "git stash -- .qwen/settings.json",
        "git --no-pager add .qwen/settings.json",
        "git -C . --no-pager add .qwen/settings.json",
        "/usr/bin/git add .qwen/settings.json",
        "GIT_X=1 git add .qwen/settings.json",
        "git commit -q -m x .qwen/settings.json",
        "git stash push -q .qwen/settings.json",
        "git add src/a.py .qwen/settings.json && git commit -q -m x",
        "git -C . add ./remand.toml",
        "git add -n . > remand.toml",
        "git config core.hooksPath /dev/null",
        "git -c core.hooksPath=/dev/null commit -m x",
        "git update-ref refs/heads/main HEAD",
        "git branch -f main work",
        "git branch -m main old",
        "git commit --no-verify -m x",
        "git push . work:main",
        "rm .claude/settings.json",
        "remand gate override T-1 --gate tests --reason x",
        "cd /x && remand pause --for 7d --reason x",
        "env -u REMAND_TASK remand review approve T-1 --reviewer user --commit HEAD",
        "unset REMAND_TASK; remand task list",
        "git fetch . work:main",
        "git checkout -B main",
        "git switch -C main",
        "git commit -n -m x",
        "git fetch . HEAD:refs/remotes/origin/main",
        "git fetch . +work2:refs/remotes/origin/main",
        "git fetch . 'HEAD:refs/remotes/origin/main'",
        "git fetch . main:refs/remotes/origin/main",
        "git fetch origin work2:refs/remotes/origin/main",
        "git fetch /tmp/other main:refs/remotes/origin/main",
        "git fetch . '+refs/heads/*:refs/remotes/origin/*'",
        "git fetch --refmap=+refs/heads/work2:refs/remotes/origin/main origin work2",
        "git fetch --upload-pack=/tmp/mine origin",
        "git pull . work2:main",
        "git push origin work2:main",
        'git push origin "work2:main"',
        "git push -u origin HEAD:refs/heads/main",
        "git push origin main",
        "git push origin :main",
        "git push --mirror origin",
        "git remote set-url origin /tmp/other",
        "git remote set-head origin work2",
        "git remote add origin /tmp/other",
        "git config remote.origin.url /tmp/other",
        "git -c remote.origin.url=/tmp/other fetch origin",
        "git branch --force main work2",
        "git branch -D main",
        "git branch -rd origin/main",
        "git checkout -Bmain work2",
        "git switch --force-create=main work2",
        "git worktree add -B main ../x work2",
        "git 'update-ref' refs/remotes/origin/main HEAD",
        "X=$(git update-ref refs/remotes/origin/main HEAD)",
        "bash -c 'git push . work:main'",
        "cd .got && rm -rf events",
        "cd .got; rm -rf *",
        "cd .got/events && cd .. && rm -rf events",
        "cd .git/refs/remotes/origin && echo 0123 > main",
        "cd src && rm ../x/../.g*/ledger.db",
        "cd .g?t && rm -rf events",
        "(cd .got && rm -rf events)",
        "cd .got && echo $(date) && rm -rf events",
        "rm -rf 'a\x00b' '\ud800' .got",
        "rm -rf 'a\x00b' '\ud800'; cd .got && rm -rf events",
        "bash -c 'cd .got && rm -rf events'",
        'bash -c "rm -rf .g*"',
        'sh -ec "rm -rf .g*"',
        "eval 'rm -rf .g*'",
        "rm -rf .g*",
        "rm -rf .g''ot",
        "rm -rf .{got,x}",
        "rm -rf .[g]ot",
        "cp /tmp/a remand.to?l",
        "echo x > remand.to?l",
        "mv /repo/rem*.toml /tmp",
        "rm -rf *",
    ],
)
def test_what_steers_the_judgement_is_kept_from_a_shell(command: str) -> None:
    assert touched(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat remand.toml",
        "grep max remand.toml 2>/dev/null",
        "git diff -- remand.toml > /tmp/diff.txt",
        "git commit -m 'explain how remand works'",
        "git add -A && git commit -m 'work' && git push origin work",
        "git add .github/workflows/ci.yml .claude/skills/a/SKILL.md",
        "git commit -q -m 'say what remand.toml is for' src/a.py",
        "git stash push -m 'before remand.toml is read'",
        "git checkout -b feature",
        "git branch --list",
        "ls .got > /tmp/list",
        "pytest -q tests > out.txt 2>&1",
        "rm -rf build dist",
        "cp a.py b.py",
        "remand task submit T-1 --agent A --commit HEAD",
        "remand handoff reject H-1 --agent A --from rejection.json",
        "remand gate wait T-1",
        "echo .gitignore >> notes.txt",
        "echo dist >> .gitignore",
        "sed -i s/a/b/ src/app.py",
        "remand handoff reject H-1 --agent A --summary 'no API keys' --blocker 'the keys are missing'",
        "remand task wait T-1 --agent A --for 'the API keys'",
        "remand task add 'Resume uploads after a pause'",
        "git branch -d my-old-feature",
        "git config core.autocrlf input",
        "git commit -m 'explain why --no-verify is bad'",
        "export REMAND_COLOR=1",
        "rm -rf build && cat remand.toml",
        "git stash && pytest && git stash pop; grep x remand.toml",
        "git fetch origin && git rebase origin/main",
        "git fetch origin main:refs/remotes/origin/main",
        "git fetch origin '+refs/heads/*:refs/remotes/origin/*'",
        "git pull origin main",
        "git push origin HEAD",
        "git push -u origin work:work",
        "git push origin main-menu",
        "git branch -f work origin/main",
        "git branch --contains main",
        "git branch -D main-menu",
        "git checkout -B work origin/main",
        "git switch main",
        "git remote -v",
        "git remote add upstream /srv/x.git",
        "git config --get remote.origin.url",
        "git config remote.origin.url",
        "git commit -m 'git push origin work:main is denied'",
        "cd .got && ls && cd .. && rm -rf build",
        "(cd .got && ls); rm -rf build",
        "cd .got && ls > /tmp/list",
        "cd src && rm -rf *",
        "rm -f *.pyc build/*",
        "cat *.toml > all.txt",
        "find . -name '*' -newer x -exec grep x {} +",
        "sed -i 's/.g.*/x/' src/app.py",
        "bash -c 'pytest -q'",
    ],
)
def test_ordinary_work_is_left_alone(command: str) -> None:
    assert touched(command) == []


def test_where_a_session_is_counts_for_what_its_command_reaches() -> None:
    words = SessionCall(event="pre_tool", host="claude", command="rm -rf events", cwd="/repo/.got")
    assert find_guarded(words, PLACE, "main") == ["events"]
    assert find_guarded(replace(words, cwd="/repo/src"), PLACE, "main") == []


@pytest.mark.parametrize(
    "path",
    [
        "remand.toml",
        "/repo/remand.toml",
        "/repo/./.got/x",
        ".git/config",
        ".codex/hooks.json",
        "~/.claude/settings.json",
    ],
)
def test_guarded_files_are_known_by_any_path(path: str) -> None:
    assert touched("", path) == [path]


@pytest.mark.parametrize(
    "path", ["src/a.py", "docs/remand.toml.md", ".gitignore", ".github/workflows/ci.yml"]
)
def test_other_files_are_an_agents_to_write(path: str) -> None:
    assert touched("", path) == []


@pytest.mark.parametrize(
    "command",
    [
        "cat a.txt",
        "ls -la src | head -5",
        "git log --oneline && git diff HEAD~1",
        "grep -rn 'a > b' src",
        "cd src; wc -l a.py",
        "remand task claim --agent Fenster",
        "/usr/bin/remand why Fenster",
    ],
)
def test_looking_around_and_calling_us_is_reading(command: str) -> None:
    assert is_read_only(SessionCall(event="pre_tool", host="claude", tool="Bash", command=command))


@pytest.mark.parametrize(
    "command",
    [
        "cp /tmp/x a.txt",
        "tee a.txt < x",
        "python -c \"open('a.txt', 'w')\"",
        "mv a b; rm a.txt",
        "patch -p1 -i x",
        "git checkout other -- a.txt",
        "git stash pop",
        "git reset --hard HEAD~1",
        "git commit -am x",
        "git push",
        "gh pr comment 5 -b hello",
        "cat x > a.txt",
        "echo $(rm a.txt)",
        "ls `rm a.txt`",
        "cat a.txt && rm a.txt",
        "sort -o a.txt b.txt",
        "git diff --output=a.txt",
        "git grep -Orm x",
        "rg --pre rm x",
        "cat a\nrm a",
        "remand task show T > a.txt",
        "env rm a.txt",
        "sh -c 'rm a'",
    ],
)
def test_whatever_may_change_something_is_not_reading(command: str) -> None:
    assert not is_read_only(SessionCall(event="pre_tool", host="claude", tool="Bash", command=command))


@pytest.mark.parametrize(
    ("tool", "reads"), [("Read", True), ("Grep", True), ("Task", False), ("mcp__x", False)]
)
def test_tools_that_change_nothing_are_known_by_name(tool: str, reads: bool) -> None:
    assert is_read_only(SessionCall(event="pre_tool", host="claude", tool=tool)) is reads


def test_a_tool_that_names_a_file_it_writes_is_not_reading() -> None:
    assert not is_read_only(SessionCall(event="pre_tool", host="claude", tool="Read", paths=("a.txt",)))


STATE = "/home/somebody/state"
STARTED = LedgerLocation(
    root="/repo",
    worktree=f"{STATE}/remand/20261116-080000-00000001/worktrees/T-1",
    git_dir="/repo/.git/worktrees/T-1",
    common_dir="/repo/.git",
)


@pytest.mark.parametrize(
    ("command", "path", "is_touched"),
    [
        ("", "calc.py", False),
        ("", f"{STARTED.worktree}/src/calc.py", False),
        ("printf x > calc.py && git add calc.py && git commit -q -m x", "", False),
        (f"cp a.py {STARTED.worktree}/calc.py", "", False),
        (f"cd {STARTED.worktree} && rm old.py", "", False),
        (f"rm -rf {STARTED.worktree}/build", "", False),
        ("", "remand.toml", True),
        (f"rm {STARTED.worktree}/remand.toml", "", True),
        ("", f"{STATE}/remand/keys/machine.key", True),
        ("", "../../ledger.mark", True),
        ("rm ../T-2/calc.py", "", True),
        (f"rm -rf {STATE}/remand/20261116-080000-00000001/worktrees/T-2", "", True),
        (f"cp x {STATE}/remand/keys/machine.key", "", True),
    ],
)
def test_an_agent_that_we_started_works_in_our_state_folder_and_touches_its_own_place_alone(
    monkeypatch: pytest.MonkeyPatch, command: str, path: str, is_touched: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", STATE)
    words = SessionCall(event="pre_tool", host="claude", command=command, paths=(path,) if path else ())

    assert bool(find_guarded(words, STARTED, "main")) is is_touched
