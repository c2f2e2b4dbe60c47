"""What agents' tools may not change or call: the files by which work is judged, the hooks, and a person's commands."""

from __future__ import annotations

import os
import re

from remand.bootstrap import hooking, hosts
from remand.bootstrap.hosts import Answer
from remand.bootstrap.quick import Place, state_folder
from remand.interfaces.hook.words import Words

_WRITERS = re.compile(
    r"(?:^|[\s;&|(`'\"/])(?:rm|mv|cp|tee|dd|ln|chmod|chown|truncate|unlink|shred|install|rsync|sqlite3|patch|"
    r"sed\s+(?:-\S*i|--in-place)|perl\s+-\S*i|awk\s+-i|find\b.*-delete|curl\b.*\s-[oO]|wget\b.*\s-O|"
    r"git\s+(?:-\S+\s+\S+\s+)*(?:checkout|restore|rm|mv|apply|am|update-index|config|stash|reset|clean))\b"
    r"|\bopen\([^)]*['\"][wax+]|write_text|write_bytes|writeFile|appendFile|unlinkSync|rmSync"
)
_REDIRECTED = re.compile(r"(?<![0-9&])(?:>>?|>\|)\s*['\"]?([^\s'\";&|]+)")
_MOVES_THE_BASE = re.compile(
    r"\bgit\s+(?:-\S+\s+\S+\s+)*(?:update-ref|symbolic-ref|branch\s+(?:-f|-M|-m|-D|-d|--force|--move|--delete)"
    r"|push\s+\.\s|replace\b|config\b.*(?:core\.|include|filter\.|url\.))|core\.hooksPath|--no-verify\b"
)
_PERSONS = re.compile(
    r"\bremand\b[^|;&\n]*\b(?:pause|resume|keys|unlock|init\b[^|;&\n]*--remove|gate\s+(?:accept|refuse|override)|"
    r"review\s+(?:approve|reject|retract)|task\s+(?:cancel|reopen|edit)|lockout)\b"
    r"|\b(?:unset|env\s+-u|export)\s+REMAND_|\bREMAND_(?:TASK|ACTOR|HANDOFF)=|\benv\s+-i\b[^|;&\n]*\bremand\b"
)
PERSONS_ONLY = "commands that are a person's (approving, overriding, unlocking, pausing)"


def guarded(words: Words, place: Place) -> list[str]:
    """The guarded things that a tool is about to touch, as far as its input shows."""
    found = [path for path in words.paths if _is_guarded_path(path, place)]
    command = words.command
    if not command:
        return found
    named = [mark for mark in _marks() if re.search(rf"(?<![\w.-]){re.escape(mark)}(?![\w.-])", command)]
    if named and (_WRITERS.search(command) or _is_redirected_to(command, named)):
        found += named
    if _MOVES_THE_BASE.search(command):
        found.append("git's own settings, refs and hooks")
    if _PERSONS.search(command):
        found.append(PERSONS_ONLY)
    return list(dict.fromkeys(found))


def settings_answer(words: Words, root: str) -> Answer:
    """Keeps a change of the host's settings from taking hold that would take our hooks out."""
    if words.config_source in ("policy_settings", "skills"):
        return Answer.allow()
    lost = hooking.loss(words.host, root)
    if not lost:
        return Answer.allow()
    return Answer.block(
        f"This change would take Remand's hooks out of {words.host}: {lost}. It stays as it was."
    )


def is_guarded(path: str) -> bool:
    """True for a file, relative to a worktree, that steers how work is judged."""
    return path in _files() or path.split("/", 1)[0] in (".got", ".git")


def _is_guarded_path(path: str, place: Place) -> bool:
    """True for a path that is guarded, whatever links lead to it."""
    whole = os.path.normpath(os.path.join(place.worktree, os.path.expanduser(path)))
    wheres = {whole, os.path.realpath(whole)}
    home = {os.path.realpath(os.path.expanduser(name)) for name in hosts.settings_files() if name[0] == "~"}
    if wheres & home or any(where.startswith(os.path.realpath(state_folder()) + os.sep) for where in wheres):
        return True
    roots = {place.worktree, place.root, os.path.realpath(place.worktree), os.path.realpath(place.root)}
    return any(
        is_guarded(os.path.relpath(where, root))
        for where in wheres
        for root in roots
        if where.startswith(root + os.sep)
    )


def _is_redirected_to(command: str, marks: list[str]) -> bool:
    return any(mark in target for target in _REDIRECTED.findall(command) for mark in marks)


def _files() -> frozenset[str]:
    return frozenset({"remand.toml", *(name for name in hosts.settings_files() if name[0] != "~")})


def _marks() -> tuple[str, ...]:
    return (
        *sorted(_files()),
        ".got",
        ".git",
        os.path.join("remand", "keys"),
        state_folder(),
        "disableAllHooks",
    )
