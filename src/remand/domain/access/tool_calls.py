"""What agents' tools must not do, judged by the words of a command: move the base, change git, act as a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import dropwhile

from remand.domain.text.path_patterns import matches_name
from remand.domain.text.words import word_set

COMMAND_SEPARATOR = re.compile(r"&&|\|\||[;|\n]|(?<![>&])&(?![>&])")
"""Separates simple commands."""
_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env")
_AROUND = "$(){}`"
"""Characters around words in nested commands."""
_PLUMBING = frozenset(
    ["fast-import", "filter-branch", "filter-repo", "replace", "symbolic-ref", "update-ref"]
)
_REMOTES = frozenset(["remove", "rename", "rm", "set-branches", "set-head", "set-url"])
_READS_SETTINGS = frozenset(["get", "list", "--get", "--get-all", "--get-regexp", "--list", "-l"])


def changes_base(words: Sequence[str], base: str) -> bool:
    """True if a simple git command moves the base, or changes where it is fetched from."""
    bare = [re.split(r"[(`]", word.rstrip(_AROUND))[-1].strip(_AROUND) for word in words]
    at = next((index for index, word in enumerate(bare) if word.rpartition("/")[2] == "git"), len(bare))
    rest = bare[at + 1 :]
    while rest and rest[0].startswith("-"):
        count = 2 if rest[0] in _WITH_VALUE else 1
        if any(_is_of_remote(word) for word in rest[:count]):
            return True
        rest = rest[count:]
    if not rest:
        return False
    rule = _RULES.get(rest[0])
    return rest[0] in _PLUMBING or (rule is not None and rule(rest[1:], base))


def _pushes(words: list[str], base: str) -> bool:
    """A push is judged by the refs it updates, in this repository or another."""
    if any(word in ("--all", "--branches", "--mirror") for word in words):
        return True
    return any(_is_base(word.rpartition(":")[2], base) for word in _plain(words)[1:])


def _fetches(words: list[str], base: str) -> bool:
    """The base may only be fetched from its own remote."""
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


def _names_remote(words: list[str], base: str) -> bool:
    named = _plain(words)
    return named[:1] != [] and (named[0] in _REMOTES or (named[0] == "add" and "origin" in named))


def _sets_branch(words: list[str], base: str) -> bool:
    """Moving and deleting affect every named branch; forcing and copying affect one."""
    named = _plain(words)
    if _has(words, "dDmM", "--delete", "--move"):
        return any(_is_base(word, base) for word in named)
    if _has(words, "cC", "--copy"):
        return any(_is_base(word, base) for word in named[-1:])
    return _has(words, "f", "--force") and any(_is_base(word, base) for word in named[:1])


def _creates(words: list[str], base: str) -> bool:
    """Creating a branch with force moves an existing one."""
    named = (
        (word[2:] or following) if word[:2] in ("-B", "-C") else word.partition("=")[2] or following
        for word, following in zip(words, [*words[1:], ""], strict=True)
        if word[:2] in ("-B", "-C") or word.startswith("--force-create")
    )
    return any(_is_base(name, base) for name in named)


def _configures(words: list[str], base: str) -> bool:
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
    """True for any name of the base, including its remote-tracking branch."""
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
_STAGERS = frozenset(["add", "commit", "stage", "stash"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_REDIRECTED = re.compile(r"(?<![0-9&])(?:>>?|>\|)\s*['\"]?([^\s'\";&|]+)")
_GIT = r"\bgit\s+(?:-\S+\s+\S+\s+)*"
_MOVES = re.compile(
    rf"{_GIT}config\b.*(?:core\.(?:hooks|fsmonitor|worktree|attributes)|include|filter\.)"
    rf"|core\.hooksPath|{_GIT}commit\b.*(?:--no-verify\b|\s-n\b)"
)
_PERSONS = re.compile(
    r"\bremand(?:\s+(?:--json|-C\s+\S+|--as\s+\S+|--key\s+\S+))*\s+(?:pause|resume|keys|unlock|lockout|init\b.*--remove|"
    r"gate\s+(?:accept|refuse|override)|review\s+(?:approve|reject|retract)|task\s+(?:cancel|reopen|edit)|"
    r"inbox\s+(?:answer|retract|ack)|reject-task|reassign)\b"
    r"|\b(?:unset|export|env\s+-u)\s+REMAND_(?:TASK|ACTOR|HANDOFF)\b|\bREMAND_(?:TASK|ACTOR|HANDOFF)="
    r"|\benv\s+-i\b.*\bremand\b"
)
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
USER_COMMANDS = "commands that only a person may use (approving, overriding, unlocking, pausing)"
GIT_INTERNALS = "git's own settings, refs and hooks"
_READING = word_set("""
basename cat cd cut date diff dirname du echo egrep fgrep file grep head jq ls nl pwd rg sort stat tail tree true type
uniq wc whereis which
""")
"""Programs that only read."""
_GITS_READING = word_set("""
blame cat-file describe diff grep log ls-files ls-tree rev-parse shortlog show status
""")
_NESTED = re.compile(r"[<>`]|\$\(")
_MORE = re.compile(r"(?<!\S)(?:-[oO]|--(?:output|ext-diff|textconv|pre|open)\b\S*)")
"""Options with which such a program writes, or runs another."""


def find_forbidden(text: str, words: Sequence[str], base: str) -> list[str]:
    """What a simple command does that agents must not do. Quoted text is not searched for commands."""
    bare = _QUOTED.sub(" ", text)
    moves = _MOVES.search(bare) or changes_base(words, base)
    return [*([GIT_INTERNALS] if moves else []), *([USER_COMMANDS] if _PERSONS.search(bare) else [])]


def may_write_files(text: str) -> bool:
    """True for a command that writes, moves or deletes files."""
    return _WRITERS.search(text) is not None


def may_stage_files(words: Sequence[str]) -> bool:
    """True for a simple command that stages, commits or reverts changes of files."""
    called = [*dropwhile(_ASSIGNMENT.match, words)]
    if not called or called[0].rpartition("/")[2] != "git":
        return False
    rest = called[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in _WITH_VALUE else 1 :]
    return rest[:1] != [] and rest[0] in _STAGERS


def redirect_targets(text: str) -> tuple[str, ...]:
    """The files to which a command's output is redirected."""
    return tuple(_REDIRECTED.findall(text))


def is_read_only_command(words: list[str]) -> bool:
    """True for a simple command that changes nothing."""
    program, rest = words[0].rpartition("/")[2], " ".join(words[1:])
    if _NESTED.search(_QUOTED.sub(" ", rest)) or "$(" in rest or "`" in rest:
        return False
    if program == "remand":
        return True
    is_known = program in _READING or (program == "git" and words[1:2] != [] and words[1] in _GITS_READING)
    return is_known and not _MORE.search(rest)


def is_guarded_file(path: str, guarded: Collection[str]) -> bool:
    """True for a file (relative to the worktree) that affects how work is judged: guarded ones, the ledger's and git's own."""
    return path in guarded or path.split("/", 1)[0] in (".got", ".git")
