"""A host is known by its program's name, whatever starts that."""

from __future__ import annotations

import pytest

from remand.adapters.hosts.launch import has_option, option_value
from remand.adapters.hosts.launcher import find_host


@pytest.mark.parametrize(
    ("command", "host", "at"),
    [
        ("claude -p", "claude", 0),
        ("codex exec", "codex", 0),
        ("copilot --allow-all-tools", "copilot", 0),
        ("gemini --yolo", "gemini", 0),
        ("qwen", "qwen", 0),
        ("cursor-agent -p", "cursor", 0),
        ("openhands --headless", "openhands", 0),
        ("/home/a/.local/bin/claude -p", "claude", 0),
        ("./node_modules/.bin/codex exec", "codex", 0),
        ("env claude -p", "claude", 1),
        ("/usr/bin/env -i -u HOME A=1 B= claude -p", "claude", 6),
        ("env -C /tmp codex exec", "codex", 3),
        ("nice -n 5 timeout -k 5 30m claude -p", "claude", 7),
        ("npx claude", "claude", 1),
        ("npx -y @anthropic-ai/claude-code@2.1.197 -p", "claude", 2),
        ("npx --package @openai/codex codex exec", "codex", 3),
        ("npm exec -- @google/gemini-cli", "gemini", 3),
        ("pnpm dlx @qwen-code/qwen-code", "qwen", 2),
        ("bunx @github/copilot", "copilot", 1),
        ("uvx --python 3.12 openhands --headless", "openhands", 3),
        ("uv tool run openhands", "openhands", 3),
        ("node /opt/lib/node_modules/@anthropic-ai/claude-code/cli.js -p", "claude", 1),
        ("node --no-warnings /opt/lib/node_modules/@google/gemini-cli/bundle/gemini.js", "gemini", 2),
        ("node -r ./hook.js ./gemini.js", "gemini", 3),
    ],
)
def test_a_host_is_found_where_it_stands(command: str, host: str, at: int) -> None:
    assert find_host(command.split()) == (host, at)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "./work.sh",
        "./work.sh claude",
        "claude.sh -p",
        "my-claude -p",
        "python review.py --with claude",
        "node work.js claude",
        "env",
        "env A=1",
        "env -u claude",
        "npx some-tool claude",
        "timeout 10",
        "agent -p",
    ],
)
def test_anything_else_is_a_plain_script(command: str) -> None:
    assert find_host(command.split()).host == ""


def test_a_command_line_for_a_shell_is_a_plain_script() -> None:
    assert find_host(["sh", "-c", "claude -p < prompt"]).host == ""


def test_options_are_those_before_the_dashes() -> None:
    words = ["-p", "--output-format=json", "--model", "a", "--", "--json", "--model", "b"]

    assert has_option(words, "--output-format")
    assert has_option(words, "--print", "-p")
    assert not has_option(words, "--json")
    assert not has_option(words, "--output")
    assert option_value(words, "--model", "-m") == "a"
    assert option_value(words, "--output-format") == "json"
    assert option_value(["--model"], "--model") == ""
