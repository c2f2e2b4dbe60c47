"""Which program a command starts, whatever starts that: `env`, `npx`, a shell, an interpreter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from remand.domain.evidence.shell_calls import NO_EFFECT, split_statements, strip_version

STARTERS = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "chrt": (),
    "chroot": (),
    "direnv": (),
    "doas": ("-u", "-C"),
    "flock": ("-w", "--timeout", "-E", "--conflict-exit-code"),
    "ionice": ("-c", "--class", "-n", "--classdata"),
    "nice": ("-n", "--adjustment"),
    "nohup": (),
    "setsid": (),
    "stdbuf": ("-i", "-o", "-e"),
    "sudo": ("-u", "--user", "-g", "--group", "-D", "--chdir", "-h", "-p", "-C", "-T"),
    "systemd-run": ("-p", "--property", "-E", "--setenv", "-u", "--unit", "--slice"),
    "taskset": (),
    "time": ("-f", "--format", "-o", "--output"),
    "timeout": ("-k", "--kill-after", "-s", "--signal"),
    "xvfb-run": ("-n", "--server-num", "-s", "--server-args", "-e", "-f"),
    "bun": (),
    "bunx": ("-p", "--package"),
    "deno": ("--config", "-c", "--import-map"),
    "npm": ("-p", "--package"),
    "npx": ("-p", "--package"),
    "pnpm": ("--package",),
    "yarn": ("-p", "--package"),
    "node": ("-r", "--require", "--import", "--loader"),
    "conda": ("-n", "--name", "-p", "--prefix"),
    "hatch": ("-e", "--env"),
    "mise": (),
    "pdm": (),
    "pipenv": (),
    "pipx": ("--spec", "--python"),
    "poetry": (),
    "uv": (
        "--from",
        "--with",
        "-p",
        "--python",
        "--extra",
        "--group",
        "--env-file",
        "--directory",
        "--project",
    ),
    "uvx": ("--from", "--with", "-p", "--python"),
}
"""Programs that start another one, and those of their options that a value follows."""
_OPERANDS = {"chroot": 1, "direnv": 1, "flock": 1, "taskset": 1}
"""How many words stand between such a program and the one that it starts."""
_SUBCOMMANDS = frozenset({"dlx", "exec", "run", "tool", "x"})
"""What may stand between such a program and the one that it starts."""
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_INTERPRETERS = frozenset({"python", "ruby", "perl", "php"})
PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "@github/copilot": "copilot",
    "@google/gemini-cli": "gemini",
    "@qwen-code/qwen-code": "qwen",
}
"""Packages of agent hosts, and the program that each brings."""
_HOST_PROGRAMS = frozenset({*PACKAGES.values(), "cursor-agent", "openhands"})
_SUFFIXES = (".js", ".mjs", ".cjs", ".exe", ".cmd")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_DURATION = re.compile(r"[\d.]+[smhd]?")
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")
_SPLIT_OPTION = re.compile(r"-[a-z]*S|--split-string")
_CODE_OPTIONS = ("-c", "-e", "-")
_MAX_DEPTH = 4


@lru_cache(maxsize=256)
def find_program(command: tuple[str, ...]) -> str:
    """The name of the program that a command is about, without folder and version; empty for no command."""
    return _find_program(command, 0)


def _find_program(command: Sequence[str], depth: int) -> str:
    at, name = 0, ""
    while at < len(command) and depth < _MAX_DEPTH:
        name, plain = program_of(command[at]), _plain_name(command[at])
        script = _script(command[at + 1 :], plain)
        if script:
            return _find_script_program(script, depth + 1) or name
        if plain in STARTERS:
            at = find_started(command, at)
        elif plain in _SHELLS or plain in _INTERPRETERS:
            at = _find_script_file(command, at)
        else:
            return name
    return name


def find_started(command: Sequence[str], at: int) -> int:
    """Where the program stands that the one at that place starts; beyond the last word when it starts none."""
    starter = _plain_name(command[at])
    if starter not in STARTERS:
        return len(command)
    valued, operands = STARTERS[starter], _OPERANDS.get(starter, 0)
    is_value = False
    for number, word in enumerate(command[at + 1 :], at + 1):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in valued
        elif word in _SUBCOMMANDS or _VARIABLE.match(word) or _DURATION.fullmatch(word):
            continue
        elif operands:
            operands -= 1
        else:
            return number
    return len(command)


def program_of(word: str) -> str:
    """The program that a word names: without folder and suffix, and by its own name where the word names its package."""
    for package, program in PACKAGES.items():
        if word == package or word.startswith(f"{package}@") or f"/{package}/" in word:
            return program
    name = word.rstrip("/").rpartition("/")[2]
    suffix = next((one for one in _SUFFIXES if name.endswith(one)), "")
    return name.removesuffix(suffix).partition("@")[0] or word


def _plain_name(word: str) -> str:
    """A program's name without its version: `python` for `python3.11`."""
    return strip_version(program_of(word))


def _script(words: Sequence[str], starter: str) -> str:
    """The command line that a shell, or `env -S`, is given as one word."""
    is_given = {"env": _SPLIT_OPTION}.get(starter, _SCRIPT_OPTION if starter in _SHELLS else None)
    if is_given is None:
        return ""
    before = ""
    for option, text in pairwise(words):
        if is_given.fullmatch(option):
            return text
        if not option.startswith("-") and before != "-o":
            break
        before = option
    return ""


def _find_script_program(text: str, depth: int) -> str:
    """The program that a command line is about: an agent host if it starts one, else what it starts last."""
    found = []
    for words, _ in split_statements(text):
        own = [word.text for word in words]
        while own and (_VARIABLE.match(own[0]) or own[0] in ("exec", "command", "then", "do", "{")):
            own = own[1:]
        name = _find_program(own, depth)
        if name and name not in NO_EFFECT:
            found.append(name)
    return next((name for name in found if name in _HOST_PROGRAMS), found[-1] if found else "")


def _find_script_file(command: Sequence[str], at: int) -> int:
    """Where the file or the module stands that an interpreter runs."""
    for number, word in enumerate(command[at + 1 :], at + 1):
        if word in _CODE_OPTIONS:
            break
        if word == "-m" and number + 1 < len(command):
            return number + 1
        if not word.startswith("-"):
            return number
    return len(command)
