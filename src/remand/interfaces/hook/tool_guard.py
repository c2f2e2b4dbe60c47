"""What agents' tools may not change or call:

files that control how work is judged, git's refs, and commands for people.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from remand.app.hook_calls import HookAnswer
from remand.domain.access.tool_calls import (
    COMMAND_SEPARATOR,
    find_forbidden,
    is_guarded_file,
    is_read_only_command,
    may_stage_files,
    may_write_files,
    redirect_targets,
)
from remand.domain.text.path_patterns import PathPattern, matches_name
from remand.interfaces.hook.session import SessionCall
from remand.wiring import startup
from remand.wiring.startup import LedgerLocation, state_folder

_QUOTED_OR_BETWEEN = re.compile(rf"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|({COMMAND_SEPARATOR.pattern})", re.DOTALL)
_WORD = re.compile(r"(?:\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s'\"\\])+", re.DOTALL)
_PIECE = re.compile(r"\\(.)|'([^']*)'|\"((?:\\.|[^\"\\])*)\"|([^'\"\\]+)", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_CLASS = re.compile(r"\[[^\]/]+\]")
_RUNS_TEXT = re.compile(r"-[a-zA-Z]*c")
_SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh"])
_DEEPEST = 3
_MANY = 64
_QUOTED_LETTER = "\x01"
"""The placeholder in a pattern for a quoted letter that has no special meaning."""


class SimpleCommand(NamedTuple):
    """One simple command."""

    text: str
    words: tuple[str, ...]
    """The words as the program gets them, except what only a shell can fill in."""
    patterns: tuple[str, ...]
    """Patterns for words that may match several files: only `*` and `?` have a special meaning."""
    folder: str
    """Where it runs."""


def simple_commands(command: str, folder: str, depth: int = 0) -> Iterator[SimpleCommand]:
    """The simple commands of a line, including those in text for another shell.

    A line is also split inside quotes, because a quote in a comment opens none.
    """
    at = folder
    for text in COMMAND_SEPARATOR.split(command):
        read = [_read_word(word) for word in _WORD.findall(text)]
        words = tuple(word for word, _ in read)
        patterns = tuple(
            one for _, given in read for one in _expand_braces(given) if "{" in given or is_pattern(one)
        )
        yield SimpleCommand(text, words, patterns, at)
        at = _next_folder(words, patterns, at, folder)
    for text in _unquoted_parts(command) if depth < _DEEPEST else ():
        inner = _inner_command([_read_word(word)[0] for word in _WORD.findall(text)])
        if inner:
            yield from simple_commands(inner, folder, depth + 1)


def is_pattern(text: str) -> bool:
    """True for a word that may match other names than itself."""
    return "*" in text or "?" in text


def _unquoted_parts(command: str) -> Iterator[str]:
    """A line's simple commands, split outside quotes."""
    begin = 0
    for found in _QUOTED_OR_BETWEEN.finditer(command):
        if found[1]:
            yield command[begin : found.start()]
            begin = found.end()
    yield command[begin:]


def _read_word(word: str) -> tuple[str, str]:
    """A word without its quotes, and its pattern."""
    plain = pattern = ""
    for escaped, single, double, bare in _PIECE.findall(word):
        kept = escaped or single or re.sub(r"\\(.)", r"\1", double)
        plain += kept or bare
        pattern += re.sub(r"[*?\[{]", _QUOTED_LETTER, kept) or bare
    return plain, pattern


def _expand_braces(pattern: str) -> list[str]:
    """A pattern for each reading of its braces, with `?` for a choice of letters."""
    found = [pattern]
    while len(found) < _MANY:
        at = next(filter(None, map(_BRACES.search, found)), None)
        if at is None:
            break
        found.remove(at.string)
        found += [at.string[: at.start()] + way + at.string[at.end() :] for way in at[1].split(",")]
    return [_CLASS.sub("?", one) for one in found]


def _inner_command(words: list[str]) -> str:
    """The text that a simple command passes to a shell; empty if there is none."""
    names = [os.path.basename(word.lstrip("($`{")) for word in words]
    if "eval" in names:
        return " ".join(words[names.index("eval") + 1 :])
    at = next((index for index, name in enumerate(names) if name in _SHELLS), len(names))
    flag = next((i for i in range(at + 1, len(words)) if _RUNS_TEXT.fullmatch(words[i])), len(words))
    return next(iter(words[flag + 1 :]), "")


def _next_folder(words: tuple[str, ...], patterns: tuple[str, ...], folder: str, start: str) -> str:
    """Where the next simple command runs."""
    bare = [word.lstrip("({") for word in words if word.lstrip("({")]
    if sum(word.count(")") - word.count("(") for word in words) > 0:
        return start
    if not bare or bare[0] not in ("cd", "pushd", "popd"):
        return folder
    target = next((word for word in [*patterns, *bare[1:]] if not word.startswith("-")), "")
    if not target or "$" in target or "`" in target:
        return start
    return os.path.normpath(os.path.join(folder, os.path.expanduser(target)))


MANY_WORDS = 200


def is_read_only(call: SessionCall) -> bool:
    """True for a tool use that only reads, or calls Remand; false if that cannot be determined."""
    if call.paths:
        return False
    if not call.command:
        return call.tool in startup.READERS
    return all(
        is_read_only_command(command.split())
        for command in COMMAND_SEPARATOR.split(call.command)
        if command.strip()
    )


def find_guarded(
    call: SessionCall, place: LedgerLocation, base: str = "", protected: tuple[str, ...] = ()
) -> list[str]:
    """The guarded things that a tool is about to touch, as far as its input shows."""
    patterns = [PathPattern(text) for text in protected]
    found = [path for path in call.paths if _is_guarded_path(path, place, patterns)]
    for command in simple_commands(call.command, call.cwd or place.worktree):
        found += _find_touched(command, place, base)
    return list(dict.fromkeys(found))


def guard_answer(found: list[str], *, is_enforced: bool) -> HookAnswer:
    """The answer to a tool that is about to touch guarded things."""
    text = f"Agents may not change what controls how their work is judged: {', '.join(found[:5])}. Leave it as it is; if the task requires the change, say so in a rejection or ask the user."
    return deny(text, is_enforced=is_enforced)


def deny(text: str, *, is_enforced: bool) -> HookAnswer:
    """Denies a tool use; without enforcement, tells the user instead."""
    return HookAnswer.deny(text) if is_enforced else HookAnswer.allow(f"Would have been denied: {text}")


def _find_touched(command: SimpleCommand, place: LedgerLocation, base: str) -> list[str]:
    """The guarded things that one simple command is about to touch.

    Quoted text is searched for files, not for commands.
    """
    return [*_find_written(command, place), *find_forbidden(command.text, command.words, base)]


def _find_written(command: SimpleCommand, place: LedgerLocation) -> list[str]:
    """The guarded things that a simple command may write: by name, relative to its folder, or by a pattern."""
    # By the very file: folders of settings hold what an agent may commit, too.
    words = command.words[:MANY_WORDS] if may_stage_files(command.words) else ()
    staged = [word for word in words if _is_setting(word, command.folder, place)]
    text = _with_relative_paths(f"{command.text}\n{' '.join(command.words)}", place)
    named = [mark for mark in _guarded_names() if re.search(rf"(?<![\w.-]){re.escape(mark)}(?![\w.-])", text)]
    aims = command.words[1:]
    patterns = aims if is_pattern(command.folder) else command.patterns
    if not may_write_files(text):
        aims = redirect_targets(command.text)
        named = [mark for mark in named if any(mark in aim for aim in aims)]
        patterns = tuple(one for one in patterns if one in aims)
    meant = [mark for one in patterns for mark in _match_pattern(one, command.folder, place)]
    return (
        staged
        or named
        or meant
        or [aim for aim in aims[:MANY_WORDS] if _is_reached(aim, command.folder, place)]
    )


def _with_relative_paths(text: str, place: LedgerLocation) -> str:
    """A command with the paths of its own worktree made relative, wherever the worktree is."""
    for own in (place.worktree, os.path.realpath(place.worktree)):
        text = text.replace(own + os.sep, "./")
    return text


def _is_reached(aim: str, folder: str, place: LedgerLocation) -> bool:
    """True for a word that names a guarded path where its command runs."""
    return not aim.startswith("-") and _is_guarded_path(
        os.path.join(folder, os.path.expanduser(aim)), place, []
    )


def _is_setting(aim: str, folder: str, place: LedgerLocation) -> bool:
    """True for a word that names a project file that controls how work is judged."""
    whole = os.path.normpath(os.path.join(folder, aim))
    return any(
        whole == os.path.join(root, name) for root in (place.worktree, place.root) for name in _files()
    )


def _match_pattern(pattern: str, folder: str, place: LedgerLocation) -> list[str]:
    """The guarded things that a pattern matches, or leads into."""
    whole = os.path.normpath(os.path.join(folder, pattern))
    for root in (place.worktree, place.root):
        if whole.startswith(root + os.sep):
            parts = whole[len(root) + 1 :].split("/")
            return [mark for mark in _guarded_names() if _matches_parts(parts, mark.split("/"))]
    return []


def _matches_parts(parts: list[str], names: list[str]) -> bool:
    """True if a pattern matches a name. A star does not match the dot at the beginning of a name."""
    return len(parts) >= len(names) and all(
        matches_name(part, name) and (part[:1] == name[:1] or name[:1] != ".")
        for part, name in zip(parts, names, strict=False)
    )


def settings_answer(call: SessionCall, place: LedgerLocation) -> HookAnswer:
    """Blocks a change to the host's settings that would remove Remand's hooks."""
    if call.config_source in ("policy_settings", "skills"):
        return HookAnswer.allow()
    lost = startup.checks.missing_hooks(call.host, (place.worktree, place.root))
    if not lost:
        return HookAnswer.allow()
    return HookAnswer.block(
        f"This change would remove Remand's hooks from {call.host}: {lost}. Remand did not allow it."
    )


def _is_guarded_path(path: str, place: LedgerLocation, patterns: list[PathPattern]) -> bool:
    """True for a guarded path, whatever links lead to it."""
    whole = os.path.normpath(os.path.join(place.worktree, os.path.expanduser(path)))
    wheres = {whole, _real(whole)}
    home = {os.path.realpath(os.path.expanduser(name)) for name in startup.settings_files() if name[0] == "~"}
    roots = {place.worktree, place.root, os.path.realpath(place.worktree), os.path.realpath(place.root)}
    names = {
        os.path.relpath(where, root) for where in wheres for root in roots if where.startswith(root + os.sep)
    }
    return (
        bool(wheres & home)
        or any(_is_in_state(where, place) for where in wheres)
        or any(
            is_guarded_file(name, _files()) or any(one.matches(name) for one in patterns) for name in names
        )
    )


def _is_in_state(where: str, place: LedgerLocation) -> bool:
    """True for Remand's state outside repositories.

    The worktree of an agent that Remand started is there, but belongs to the agent.
    """
    own = (place.worktree + os.sep, os.path.realpath(place.worktree) + os.sep)
    return where.startswith(os.path.realpath(state_folder()) + os.sep) and not where.startswith(own)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # no file can be called that
        return path


def _files() -> frozenset[str]:
    return frozenset(startup.guarded_files())


def _guarded_names() -> tuple[str, ...]:
    folders = {os.path.dirname(name) for name in _files()} - {""}
    return (*sorted(_files() | folders), ".got", ".git", "remand/keys", state_folder(), "disableAllHooks")
