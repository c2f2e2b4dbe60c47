"""What agents' tools may not change or call: files by which work is judged, git's refs, and commands for people."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from remand.domain.text.path_patterns import PathPattern, matches_name
from remand.interfaces.hook.session import SessionCall
from remand.wiring.hosts import checks, registry
from remand.wiring.hosts.registry import HookAnswer
from remand.wiring.startup import LedgerLocation, state_folder

COMMAND_SEPARATOR = re.compile(r"&&|\|\||[;|\n]|(?<![>&])&(?![>&])")
"""What stands between simple commands."""
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
"""Stands in a pattern for a letter that quotes keep from meaning more than itself."""


class SimpleCommand(NamedTuple):
    """One simple command."""

    text: str
    words: tuple[str, ...]
    """As the program is given them, but for what only a shell can fill in."""
    patterns: tuple[str, ...]
    """What words that may stand for several files look like: `*` and `?` alone mean more than themselves."""
    folder: str
    """Where it runs."""


def simple_commands(command: str, folder: str, depth: int = 0) -> Iterator[SimpleCommand]:
    """The simple commands of a line, those in the text that another shell is given included.

    A line is cut within quotes, too: what a quote in a comment begins is none.
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
    """True for what may stand for other names than itself."""
    return "*" in text or "?" in text


def _unquoted_parts(command: str) -> Iterator[str]:
    """A line's simple commands, cut where no quotes are around."""
    begin = 0
    for found in _QUOTED_OR_BETWEEN.finditer(command):
        if found[1]:
            yield command[begin : found.start()]
            begin = found.end()
    yield command[begin:]


def _read_word(word: str) -> tuple[str, str]:
    """A word without its quotes, and the pattern it is."""
    plain = pattern = ""
    for escaped, single, double, bare in _PIECE.findall(word):
        kept = escaped or single or re.sub(r"\\(.)", r"\1", double)
        plain += kept or bare
        pattern += re.sub(r"[*?\[{]", _QUOTED_LETTER, kept) or bare
    return plain, pattern


def _expand_braces(pattern: str) -> list[str]:
    """A pattern for each way that its braces can be read, with `?` for a choice of letters."""
    found = [pattern]
    while len(found) < _MANY:
        at = next(filter(None, map(_BRACES.search, found)), None)
        if at is None:
            break
        found.remove(at.string)
        found += [at.string[: at.start()] + way + at.string[at.end() :] for way in at[1].split(",")]
    return [_CLASS.sub("?", one) for one in found]


def _inner_command(words: list[str]) -> str:
    """The text that a simple command has a shell read again; empty when there is none."""
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


_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env")
_AROUND = "$(){}`"
"""What can stand around a word of a call within a call."""
_PLUMBING = frozenset(
    ["fast-import", "filter-branch", "filter-repo", "replace", "symbolic-ref", "update-ref"]
)
_REMOTES = frozenset(["remove", "rename", "rm", "set-branches", "set-head", "set-url"])
_READS_SETTINGS = frozenset(["get", "list", "--get", "--get-all", "--get-regexp", "--list", "-l"])


def changes_base(words: Sequence[str], base: str) -> bool:
    """True when a simple command calls git to set the base, or where the base is fetched from."""
    bare = [re.split(r"[(`]", word.rstrip(_AROUND))[-1].strip(_AROUND) for word in words]
    at = next((index for index, word in enumerate(bare) if os.path.basename(word) == "git"), len(bare))
    rest = bare[at + 1 :]
    while rest and rest[0].startswith("-"):
        taken = 2 if rest[0] in _WITH_VALUE else 1
        if any(_is_of_remote(word) for word in rest[:taken]):
            return True
        rest = rest[taken:]
    if not rest:
        return False
    rule = _RULES.get(rest[0])
    return rest[0] in _PLUMBING or (rule is not None and rule(rest[1:], base))


def _pushes(words: list[str], base: str) -> bool:
    """A push is held to what it sets there, in this repository or another."""
    if any(word in ("--all", "--branches", "--mirror") for word in words):
        return True
    return any(_is_base(word.rpartition(":")[2], base) for word in _plain(words)[1:])


def _fetches(words: list[str], base: str) -> bool:
    """The base may be fetched from where it is, and from nowhere else."""
    if any(word.startswith(("--upload-pack", "--refmap")) for word in words):
        return True
    source, *specs = [*_plain(words), ""]
    own = {base: base, f"refs/heads/{base}": base, "refs/heads/*": "refs/remotes/origin/*"}
    for spec in specs:
        there, colon, here = spec.lstrip("+").rpartition(":")
        is_own = source == "origin" and there in own and (there != "refs/heads/*" or here == own[there])
        if colon and _is_base(here, base) and not is_own:
            return True
    return False


def _names_remote(words: list[str], base: str) -> bool:  # noqa: ARG001 - whatever the base is called
    named = _plain(words)
    return named[:1] != [] and (named[0] in _REMOTES or (named[0] == "add" and "origin" in named))


def _sets_branch(words: list[str], base: str) -> bool:
    """Moving and deleting touches every branch that is named; forcing and copying one of them."""
    named = _plain(words)
    if _has(words, "dDmM", "--delete", "--move"):
        return any(_is_base(word, base) for word in named)
    if _has(words, "cC", "--copy"):
        return any(_is_base(word, base) for word in named[-1:])
    return _has(words, "f", "--force") and any(_is_base(word, base) for word in named[:1])


def _creates(words: list[str], base: str) -> bool:
    """Making a branch anew sets it, when there is one by that name."""
    named = (
        (word[2:] or following) if word[:2] in ("-B", "-C") else word.partition("=")[2] or following
        for word, following in zip(words, [*words[1:], ""], strict=True)
        if word[:2] in ("-B", "-C") or word.startswith("--force-create")
    )
    return any(_is_base(name, base) for name in named)


def _configures(words: list[str], base: str) -> bool:  # noqa: ARG001 - whatever the base is called
    if any(word in _READS_SETTINGS for word in words) or not any(map(_is_of_remote, words)):
        return False
    return len(_plain(words)) > 1 or any(
        word.startswith(("--unset", "--remove", "--rename")) for word in words
    )


_RULES: dict[str, Callable[[list[str], str], bool]] = {
    "branch": _sets_branch,
    "checkout": _creates,
    "config": _configures,
    "fetch": _fetches,
    "fetch-pack": _fetches,
    "pull": _fetches,
    "push": _pushes,
    "remote": _names_remote,
    "send-pack": _pushes,
    "switch": _creates,
    "worktree": _creates,
}


def _is_of_remote(word: str) -> bool:
    return word.lower().startswith(("remote.", "url.", "--config-env=remote.", "--config-env=url."))


def _is_base(ref: str, base: str) -> bool:
    """True for a name that means the base, or what is kept of the remote's."""
    wanted = ref.lstrip("+")
    heads = (base, f"heads/{base}", f"refs/heads/{base}")
    kept = [
        f"{folder}origin/{name}" for folder in ("", "remotes/", "refs/remotes/") for name in (base, "HEAD")
    ]
    return bool(base) and bool(wanted) and any(matches_name(wanted, name) for name in (*heads, *kept))


def _has(words: list[str], letters: str, *names: str) -> bool:
    short = {letter for word in words if word[:1] == "-" != word[1:2] for letter in word[1:]}
    return bool(short & set(letters)) or any(word in names for word in words)


def _plain(words: list[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


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
USER_COMMANDS = "commands that are a person's (approving, overriding, unlocking, pausing)"
GIT_INTERNALS = "git's own settings, refs and hooks"
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


def is_read_only(words: SessionCall) -> bool:
    """True for a use of a tool that only looks around, or calls us; what cannot be told is not."""
    if words.paths:
        return False
    if not words.command:
        return registry.is_reading_tool(words.tool)
    return all(
        _is_read_only_command(command.split())
        for command in COMMAND_SEPARATOR.split(words.command)
        if command.strip()
    )


def _is_read_only_command(words: list[str]) -> bool:
    """True for one simple command that changes nothing."""
    program, rest = os.path.basename(words[0]), " ".join(words[1:])
    if _NESTED.search(_QUOTED.sub(" ", rest)) or "$(" in rest or "`" in rest:
        return False
    if program == "remand":
        return True
    is_known = program in _READING or (program == "git" and words[1:2] != [] and words[1] in _GITS_READING)
    return is_known and not _MORE.search(rest)


def find_guarded(
    words: SessionCall, place: LedgerLocation, base: str = "", protected: tuple[str, ...] = ()
) -> list[str]:
    """The guarded things that a tool is about to touch, as far as its input shows."""
    patterns = [PathPattern(text) for text in protected]
    found = [path for path in words.paths if _is_guarded_path(path, place, patterns)]
    for command in simple_commands(words.command, words.cwd or place.worktree):
        found += _find_touched(command, place, base)
    return list(dict.fromkeys(found))


def _find_touched(command: SimpleCommand, place: LedgerLocation, base: str) -> list[str]:
    """What one simple command is about to touch. Quoted text is looked at for files, not for commands."""
    bare = _QUOTED.sub(" ", command.text)
    moves = _MOVES.search(bare) or changes_base(command.words, base)
    return [
        *_find_written(command, place),
        *([GIT_INTERNALS] if moves else []),
        *([USER_COMMANDS] if _PERSONS.search(bare) else []),
    ]


def _find_written(command: SimpleCommand, place: LedgerLocation) -> list[str]:
    """The guarded things that a simple command may write: by their names, from where it runs, or by a pattern."""
    text = _with_relative_paths(f"{command.text}\n{' '.join(command.words)}", place)
    named = [mark for mark in _guarded_names() if re.search(rf"(?<![\w.-]){re.escape(mark)}(?![\w.-])", text)]
    aims = command.words[1:]
    patterns = aims if is_pattern(command.folder) else command.patterns
    if not _WRITERS.search(text):
        aims = tuple(_REDIRECTED.findall(command.text))
        named = [mark for mark in named if any(mark in aim for aim in aims)]
        patterns = tuple(one for one in patterns if one in aims)
    meant = [mark for one in patterns for mark in _match_pattern(one, command.folder, place)]
    return named or meant or [aim for aim in aims[:MANY_WORDS] if _is_reached(aim, command.folder, place)]


def _with_relative_paths(text: str, place: LedgerLocation) -> str:
    """A command with the paths of its own worktree as they are from there, wherever that lies."""
    for own in (place.worktree, os.path.realpath(place.worktree)):
        text = text.replace(own + os.sep, "./")
    return text


def _is_reached(aim: str, folder: str, place: LedgerLocation) -> bool:
    """True for a word that means a guarded path where its command runs."""
    return not aim.startswith("-") and _is_guarded_path(
        os.path.join(folder, os.path.expanduser(aim)), place, []
    )


def _match_pattern(pattern: str, folder: str, place: LedgerLocation) -> list[str]:
    """The guarded things that a pattern stands for, or leads into."""
    whole = os.path.normpath(os.path.join(folder, pattern))
    for root in (place.worktree, place.root):
        if whole.startswith(root + os.sep):
            parts = whole[len(root) + 1 :].split("/")
            return [mark for mark in _guarded_names() if _matches_parts(parts, mark.split("/"))]
    return []


def _matches_parts(parts: list[str], names: list[str]) -> bool:
    """True when a pattern reaches a name. A star does not stand for the dot that a name begins with."""
    return len(parts) >= len(names) and all(
        matches_name(part, name) and (part[:1] == name[:1] or name[:1] != ".")
        for part, name in zip(parts, names, strict=False)
    )


def settings_answer(words: SessionCall, place: LedgerLocation) -> HookAnswer:
    """Keeps a change of the host's settings from taking hold that would take our hooks out."""
    if words.config_source in ("policy_settings", "skills"):
        return HookAnswer.allow()
    lost = checks.missing_hooks(words.host, (place.worktree, place.root))
    if not lost:
        return HookAnswer.allow()
    return HookAnswer.block(
        f"This change would take Remand's hooks out of {words.host}: {lost}. It stays as it was."
    )


def is_guarded(path: str) -> bool:
    """True for a file, relative to a worktree, that steers how work is judged."""
    return path in _files() or path.split("/", 1)[0] in (".got", ".git")


def _is_guarded_path(path: str, place: LedgerLocation, patterns: list[PathPattern]) -> bool:
    """True for a path that is guarded, whatever links lead to it."""
    whole = os.path.normpath(os.path.join(place.worktree, os.path.expanduser(path)))
    wheres = {whole, _real(whole)}
    home = {
        os.path.realpath(os.path.expanduser(name)) for name in registry.settings_files() if name[0] == "~"
    }
    roots = {place.worktree, place.root, os.path.realpath(place.worktree), os.path.realpath(place.root)}
    names = {
        os.path.relpath(where, root) for where in wheres for root in roots if where.startswith(root + os.sep)
    }
    return (
        bool(wheres & home)
        or any(_is_in_state(where, place) for where in wheres)
        or any(is_guarded(name) or any(one.matches(name) for one in patterns) for name in names)
    )


def _is_in_state(where: str, place: LedgerLocation) -> bool:
    """True for what we keep outside repositories. The worktree of an agent that we started lies there, and is its own."""
    own = (place.worktree + os.sep, os.path.realpath(place.worktree) + os.sep)
    return where.startswith(os.path.realpath(state_folder()) + os.sep) and not where.startswith(own)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # no file can be called that
        return path


def _files() -> frozenset[str]:
    return frozenset(registry.guarded_files())


def _guarded_names() -> tuple[str, ...]:
    folders = {os.path.dirname(name) for name in _files()} - {""}
    return (*sorted(_files() | folders), ".got", ".git", "remand/keys", state_folder(), "disableAllHooks")
