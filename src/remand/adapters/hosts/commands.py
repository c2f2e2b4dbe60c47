"""Which agent host a command starts, and where in it the host's own words begin."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

PROGRAMS = {
    "claude": "claude",
    "codex": "codex",
    "copilot": "copilot",
    "cursor-agent": "cursor",
    "gemini": "gemini",
    "openhands": "openhands",
    "qwen": "qwen",
}
PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@github/copilot": "copilot",
    "@google/gemini-cli": "gemini",
    "@openai/codex": "codex",
    "@qwen-code/qwen-code": "qwen",
}
SUFFIXES = (".js", ".mjs", ".cjs", ".exe", ".cmd")

STARTERS = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "nice": ("-n", "--adjustment"),
    "nohup": (),
    "setsid": (),
    "stdbuf": ("-i", "-o", "-e"),
    "time": (),
    "timeout": ("-k", "--kill-after", "-s", "--signal"),
    "bun": (),
    "bunx": ("-p", "--package"),
    "npm": ("-p", "--package"),
    "npx": ("-p", "--package"),
    "pnpm": ("--package",),
    "yarn": ("-p", "--package"),
    "node": ("-r", "--require", "--import", "--loader"),
    "pipx": ("--spec", "--python"),
    "uv": ("--from", "--with", "-p", "--python"),
    "uvx": ("--from", "--with", "-p", "--python"),
}
"""Programs that start another one, and those of their options that a value follows."""
SUBCOMMANDS = frozenset({"dlx", "exec", "run", "tool", "x"})
"""What may stand between such a program and the one that it starts."""
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_DURATION = re.compile(r"[\d.]+[smhd]?")


class Found(NamedTuple):
    """A host in a command."""

    host: str = ""
    """Empty for a plain script."""
    at: int = -1
    """Which word of the command is the host's program."""


def find(command: Sequence[str]) -> Found:
    """The host that a command starts, by the name of its program, whatever starts that."""
    place = 0
    while place < len(command):
        host = _named(command[place])
        if host:
            return Found(host, place)
        starter = os.path.basename(command[place])
        if starter not in STARTERS:
            break
        place = _started(command, place, STARTERS[starter])
    return Found()


def host_of(command: Sequence[str]) -> str:
    """The host that a command starts; empty for a plain script."""
    return find(command).host


def _started(command: Sequence[str], place: int, valued: tuple[str, ...]) -> int:
    """Where the program stands that another one starts."""
    is_value = False
    for number, word in enumerate(command[place + 1 :], place + 1):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in valued
        elif not (word in SUBCOMMANDS or _VARIABLE.match(word) or _DURATION.fullmatch(word)):
            return number
    return len(command)


def _named(word: str) -> str:
    """The host whose program or package a word names."""
    for package, host in PACKAGES.items():
        if word == package or word.startswith(f"{package}@") or f"/{package}/" in word:
            return host
    name, suffix = os.path.splitext(os.path.basename(word))
    known = name if suffix in SUFFIXES else name + suffix
    return PROGRAMS.get(known.partition("@")[0], "")


def has_option(words: Sequence[str], *names: str) -> bool:
    """Whether an option is among the words of a host, before those that are no options any more."""
    return any(word == name or word.startswith(f"{name}=") for word in options(words) for name in names)


def option(words: Sequence[str], *names: str) -> str:
    """The value of an option, the last one where it is given several times; empty when it has none."""
    found, given = "", list(options(words))
    for place, word in enumerate(given):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else "".join(given[place + 1 : place + 2])
    return found


def options(words: Sequence[str]) -> Sequence[str]:
    """The words up to a `--`."""
    return words[: list(words).index("--")] if "--" in words else words
