"""What agents' tools may not change or call: the files by which work is judged, the hooks, and a person's commands."""

from __future__ import annotations

import os
import re

from remand.bootstrap import hooking, hosts
from remand.bootstrap.hosts import Answer
from remand.bootstrap.quick import Place, state_folder
from remand.domain.patterns import Pattern, matches_name
from remand.interfaces.hook.refs import is_moving
from remand.interfaces.hook.shell import SIMPLE, Simple, is_pattern, simple_commands
from remand.interfaces.hook.words import Words

_WRITERS = re.compile(
    r"(?:^|[\s(`'\"/])(?:rm|mv|cp|tee|dd|ln|chmod|chown|truncate|unlink|shred|install|rsync|sqlite3|patch|"
    r"sed\s+(?:-\S*i|--in-place)|perl\s+-\S*i|awk\s+-i|find\b.*-delete|curl\b.*\s-[oO]|wget\b.*\s-O|"
    r"git\s+(?:-\S+\s+\S+\s+)*(?:checkout|restore|rm|mv|apply|am|update-index|clean))\b"
    r"|\bopen\([^)]*['\"][wax+]|write_text|write_bytes|writeFile|appendFile|unlinkSync|rmSync"
)
_REDIRECTED = re.compile(r"(?<![0-9&])(?:>>?|>\|)\s*['\"]?([^\s'\";&|]+)")
_GIT = r"\bgit\s+(?:-\S+\s+\S+\s+)*"
_MOVES = re.compile(
    rf"{_GIT}config\b.*(?:core\.(?:hooks|fsmonitor|worktree|attributes)|include|filter\.)"
    rf"|core\.hooksPath|{_GIT}commit\b.*(?:--no-verify\b|\s-n\b)"
)
_PERSONS = re.compile(
    r"\bremand(?:\s+(?:--json|-C\s+\S+|--as\s+\S+|--key\s+\S+))*\s+(?:pause|resume|keys|unlock|lockout|init\b.*--remove|"
    r"gate\s+(?:accept|refuse|override)|review\s+(?:approve|reject|retract)|task\s+(?:cancel|reopen|edit)|"
    r"inbox\s+(?:answer|ack)|reject-task|reassign)\b"
    r"|\b(?:unset|export|env\s+-u)\s+REMAND_(?:TASK|ACTOR|HANDOFF)\b|\bREMAND_(?:TASK|ACTOR|HANDOFF)="
    r"|\benv\s+-i\b.*\bremand\b"
)
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
PERSONS_ONLY = "commands that are a person's (approving, overriding, unlocking, pausing)"
GITS_OWN = "git's own settings, refs and hooks"
MANY_WORDS = 200


_READING = frozenset(
    [
        "basename",
        "cat",
        "cd",
        "cut",
        "date",
        "diff",
        "dirname",
        "du",
        "echo",
        "egrep",
        "fgrep",
        "file",
        "grep",
        "head",
        "jq",
        "ls",
        "nl",
        "pwd",
        "rg",
        "sort",
        "stat",
        "tail",
        "tree",
        "true",
        "type",
        "uniq",
        "wc",
        "whereis",
        "which",
    ]
)
"""Programs that only look around."""
_GITS_READING = frozenset(
    [
        "blame",
        "cat-file",
        "describe",
        "diff",
        "grep",
        "log",
        "ls-files",
        "ls-tree",
        "rev-parse",
        "shortlog",
        "show",
        "status",
    ]
)
_NESTED = re.compile(r"[<>`]|\$\(")
_MORE = re.compile(r"(?<!\S)(?:-[oO]|--(?:output|ext-diff|textconv|pre|open)\b\S*)")
"""Options by which such a program writes, or runs another."""


def is_reading(words: Words) -> bool:
    """True for a use of a tool that only looks around, or calls us; what cannot be told is not."""
    if words.paths:
        return False
    if not words.command:
        return hosts.is_reading_tool(words.tool)
    return all(_reads(command.split()) for command in SIMPLE.split(words.command) if command.strip())


def _reads(words: list[str]) -> bool:
    """True for one simple command that changes nothing."""
    program, rest = os.path.basename(words[0]), " ".join(words[1:])
    if _NESTED.search(_QUOTED.sub(" ", rest)) or "$(" in rest or "`" in rest:
        return False
    if program == "remand":
        return True
    is_known = program in _READING or (program == "git" and words[1:2] != [] and words[1] in _GITS_READING)
    return is_known and not _MORE.search(rest)


def guarded(words: Words, place: Place, base: str = "", protected: tuple[str, ...] = ()) -> list[str]:
    """The guarded things that a tool is about to touch, as far as its input shows."""
    patterns = [Pattern(text) for text in protected]
    found = [path for path in words.paths if _is_guarded_path(path, place, patterns)]
    for command in simple_commands(words.command, words.cwd or place.worktree):
        found += _touched(command, place, base)
    return list(dict.fromkeys(found))


def _touched(command: Simple, place: Place, base: str) -> list[str]:
    """What one simple command is about to touch. Quoted text is looked at for files, not for commands."""
    bare = _QUOTED.sub(" ", command.text)
    moves = _MOVES.search(bare) or is_moving(command.words, base)
    return [
        *_written(command, place),
        *([GITS_OWN] if moves else []),
        *([PERSONS_ONLY] if _PERSONS.search(bare) else []),
    ]


def _written(command: Simple, place: Place) -> list[str]:
    """The guarded things that a simple command may write: by their names, from where it runs, or by a pattern."""
    text = _from_own_place(f"{command.text}\n{' '.join(command.words)}", place)
    named = [mark for mark in _marks() if re.search(rf"(?<![\w.-]){re.escape(mark)}(?![\w.-])", text)]
    aims = command.words[1:]
    patterns = aims if is_pattern(command.folder) else command.patterns
    if not _WRITERS.search(text):
        aims = tuple(_REDIRECTED.findall(command.text))
        named = [mark for mark in named if any(mark in aim for aim in aims)]
        patterns = tuple(one for one in patterns if one in aims)
    meant = [mark for one in patterns for mark in _meant(one, command.folder, place)]
    return named or meant or [aim for aim in aims[:MANY_WORDS] if _is_reached(aim, command.folder, place)]


def _from_own_place(text: str, place: Place) -> str:
    """A command with the paths of its own worktree as they are from there, wherever that lies."""
    for own in (place.worktree, os.path.realpath(place.worktree)):
        text = text.replace(own + os.sep, "./")
    return text


def _is_reached(aim: str, folder: str, place: Place) -> bool:
    """True for a word that means a guarded path where its command runs."""
    return not aim.startswith("-") and _is_guarded_path(
        os.path.join(folder, os.path.expanduser(aim)), place, []
    )


def _meant(pattern: str, folder: str, place: Place) -> list[str]:
    """The guarded things that a pattern stands for, or leads into."""
    whole = os.path.normpath(os.path.join(folder, pattern))
    for root in (place.worktree, place.root):
        if whole.startswith(root + os.sep):
            parts = whole[len(root) + 1 :].split("/")
            return [mark for mark in _marks() if _fits(parts, mark.split("/"))]
    return []


def _fits(parts: list[str], names: list[str]) -> bool:
    """True when a pattern reaches a name. A star does not stand for the dot that a name begins with."""
    return len(parts) >= len(names) and all(
        matches_name(part, name) and (part[:1] == name[:1] or name[:1] != ".")
        for part, name in zip(parts, names, strict=False)
    )


def settings_answer(words: Words, place: Place) -> Answer:
    """Keeps a change of the host's settings from taking hold that would take our hooks out."""
    if words.config_source in ("policy_settings", "skills"):
        return Answer.allow()
    lost = hooking.loss(words.host, (place.worktree, place.root))
    if not lost:
        return Answer.allow()
    return Answer.block(
        f"This change would take Remand's hooks out of {words.host}: {lost}. It stays as it was."
    )


def is_guarded(path: str) -> bool:
    """True for a file, relative to a worktree, that steers how work is judged."""
    return path in _files() or path.split("/", 1)[0] in (".got", ".git")


def _is_guarded_path(path: str, place: Place, patterns: list[Pattern]) -> bool:
    """True for a path that is guarded, whatever links lead to it."""
    whole = os.path.normpath(os.path.join(place.worktree, os.path.expanduser(path)))
    wheres = {whole, _real(whole)}
    home = {os.path.realpath(os.path.expanduser(name)) for name in hosts.settings_files() if name[0] == "~"}
    roots = {place.worktree, place.root, os.path.realpath(place.worktree), os.path.realpath(place.root)}
    names = {
        os.path.relpath(where, root) for where in wheres for root in roots if where.startswith(root + os.sep)
    }
    return (
        bool(wheres & home)
        or any(_is_in_state(where, place) for where in wheres)
        or any(is_guarded(name) or any(one.matches(name) for one in patterns) for name in names)
    )


def _is_in_state(where: str, place: Place) -> bool:
    """True for what we keep outside repositories. The worktree of an agent that we started lies there, and is its own."""
    own = (place.worktree + os.sep, os.path.realpath(place.worktree) + os.sep)
    return where.startswith(os.path.realpath(state_folder()) + os.sep) and not where.startswith(own)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # no file can be called that
        return path


def _files() -> frozenset[str]:
    return frozenset(hosts.guarded_files())


def _marks() -> tuple[str, ...]:
    folders = {os.path.dirname(name) for name in _files()} - {""}
    return (*sorted(_files() | folders), ".got", ".git", "remand/keys", state_folder(), "disableAllHooks")
