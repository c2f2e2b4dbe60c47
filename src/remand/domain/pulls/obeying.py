"""Which comments of a pull request may command."""

from __future__ import annotations

from remand.domain.instant import Instant, plus
from remand.domain.pulls.accounts import is_same
from remand.domain.pulls.ours import is_left
from remand.domain.pulls.shapes import Comment, PullRequest

OBEYED_SECONDS = 24 * 3600.0
"""How old a command may be. A machine that polls for the first time obeys nothing of long ago."""


def may_command(remark: Comment, pull: PullRequest, now: Instant) -> bool:
    """True for a fresh comment in its author's own words, if not by who opened the pull request.

    Whoever may write can edit the comments of others, what we leave there may repeat what others said, and agents may
    share the account that opened it.
    """
    is_fresh = bool(remark.updated_at) and remark.updated_at >= plus(now, -OBEYED_SECONDS)
    is_own_word = not remark.is_edited and not is_left(remark.text)
    return is_fresh and is_own_word and not is_same(remark.author, pull.author)
