"""Holds which program a command is about, whatever starts it."""

import pytest

from remand.domain.evidence.shell_calls import find_program


@pytest.mark.parametrize(
    "command",
    [
        ("claude", "-p"),
        ("/opt/claude/bin/claude", "-p"),
        ("env", "A=1", "-u", "B", "claude", "-p"),
        ("env", "-S", "A=1 claude -p"),
        ("npx", "-y", "@anthropic-ai/claude-code@2.1", "-p"),
        ("pnpm", "dlx", "@anthropic-ai/claude-code"),
        ("node", "/home/me/node_modules/@anthropic-ai/claude-code/cli.js"),
        ("sh", "-c", 'exec claude -p "$@"', "sh"),
        ("bash", "-lc", "source ~/.profile && cd work && LANG=C claude -p | tee log"),
        ("bash", "-o", "pipefail", "-c", "env A=1 npx @anthropic-ai/claude-code | jq ."),
        ("nice", "-n", "10", "ionice", "-c", "3", "claude"),
        ("timeout", "-k", "5", "10m", "stdbuf", "-o", "L", "claude"),
        ("taskset", "-c", "0,1", "claude"),
        ("sudo", "-u", "bob", "env", "X=1", "claude"),
        ("uv", "run", "--with", "x", "claude"),
        ("mise", "exec", "--", "claude"),
    ],
)
def test_a_program_is_found_behind_whatever_starts_it(command: tuple[str, ...]) -> None:
    assert find_program(command) == "claude"


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (("python3.11", "-u", "tools/agent.py"), "agent.py"),
        (("python", "-m", "openhands", "run"), "openhands"),
        (("bash", "agent.sh"), "agent.sh"),
        (("python", "-c", "print(1)"), "python"),
        (("env",), "env"),
        (("sh", "-c", "cd work && my-agent --fast"), "my-agent"),
        (("sh", "-c", "echo $(("), "sh"),
        ((), ""),
    ],
)
def test_a_script_is_its_own_program_and_what_starts_nothing_is_itself(
    command: tuple[str, ...], program: str
) -> None:
    assert find_program(command) == program
