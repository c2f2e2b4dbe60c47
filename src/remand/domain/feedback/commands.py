"""Commands in comments: whole lines that a person wrote there to be obeyed, and nothing that only looks like one."""

from __future__ import annotations

import re

from remand.domain.feedback.code import pieces
from remand.domain.feedback.sanitise import sanitise

MENTION = "@remand "
MAX_COMMANDS = 20
_OPENS = re.compile(r"^\s*(?:>|[-+*]\s|\d+[.)]\s|\|)|[`\[<]|~~")
_HIDING = frozenset({"HTML tags", "hidden elements"})


def commands_in(text: str, repository: str = "") -> tuple[str, ...]:
    """What a comment asks of us: the rest of each line that begins with `@remand `.

    What stands above such a line in its paragraph is plain words: a quote, a list or code that begins there may
    include it. A comment with HTML tags has no command: they may quote, too.
    """
    clean = sanitise(text, repository, keeps_links=True)
    if MENTION not in clean.text or any(removal.kind in _HIDING for removal in clean.removed):
        return ()
    found: list[str] = []
    for piece in pieces(clean.text):
        is_free = not piece.is_code
        for line in piece.lines if is_free else ():
            asked = line.removeprefix(MENTION).strip() if is_free and line.startswith(MENTION) else ""
            found += [asked] if asked else []
            is_free = not line.strip() or (is_free and not _OPENS.search(line))
    return tuple(found[:MAX_COMMANDS])
