"""What agents' tools may not change: the files by which their work is judged, and the hooks themselves."""

from __future__ import annotations

import os
import re

from remand.bootstrap import hooking, hosts
from remand.bootstrap.hosts import Answer
from remand.bootstrap.quick import Place
from remand.interfaces.hook.words import Words

_WRITES = re.compile(
    r">|\b(?:rm|mv|cp|tee|dd|ln|chmod|chown|truncate|unlink|shred|install|sed\s+-i|perl\s+-\S*i|"
    r"git\s+(?:checkout|restore|rm|mv|apply|am|update-index|config))\b|\bopen\(|write_text|writeFile"
)


def guarded_paths(words: Words, place: Place) -> list[str]:
    """The guarded files that a tool is about to write, as far as its input shows."""
    named = [_relative(path, place) for path in words.paths]
    found = [path for path in named if is_guarded(path)]
    command = words.command
    if command and _WRITES.search(command):
        found += [mark for mark in _MARKS if mark in command]
    return list(dict.fromkeys(found))


def is_guarded(path: str) -> bool:
    """True for a file, relative to a worktree, that steers how work is judged."""
    return path in _FILES or path.startswith(_FOLDERS)


def settings_answer(words: Words, root: str) -> Answer:
    """Keeps a change of the host's settings from taking hold that would take our hooks out."""
    host = words.host
    if words.config_source in ("policy_settings", "skills"):
        return Answer.allow()
    lost = hooking.loss(host, root)
    if not lost:
        return Answer.allow()
    return Answer.block(f"This change would take Remand's hooks out of {host}: {lost}. It stays as it was.")


def _relative(path: str, place: Place) -> str:
    whole = os.path.normpath(os.path.join(place.worktree, path))
    real = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
    for root in (place.worktree, place.root):
        if real.startswith(os.path.realpath(root) + os.sep):
            return os.path.relpath(real, os.path.realpath(root))
    return real


_FILES = frozenset({"remand.toml", *hosts.settings_files()})
_FOLDERS = (".got/", ".git/")
_MARKS = (*sorted(_FILES), ".got/", ".git/hooks", ".git/config", "core.hooksPath", "disableAllHooks")
