"""Review comments: severity and commands; and which comments on a pull request are ours, may give commands, or are findings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum

from msgspec.structs import replace

from remand.domain.events.reviews import Finding
from remand.domain.feedback.markup import split_code
from remand.domain.feedback.sanitiser import sanitise, sanitise_findings
from remand.domain.forge import (
    Account,
    ForgeComment,
    ForgeReview,
    PullRequest,
    ReviewState,
    is_same_account,
)
from remand.domain.instant import Instant, add_seconds
from remand.domain.preconditions import MAX_FINDINGS
from remand.domain.record import Record
from remand.domain.task import Task
from remand.domain.text.words import word_set

BLOCKING_LABELS = word_set("blocking blocker must must-fix mustfix critical required")
"""Labels at the start of a comment that mark it as blocking."""
LENIENT_LABELS = word_set(
    "nit nits nitpick suggestion suggest optional question praise thought minor polish quibble fyi "
    "non-blocking nonblocking not-blocking"
)
"""Labels at the start of a comment that mark it as not blocking."""

_LABEL = r"[A-Za-z]+(?:[ \-](?:fix|blocking|blocker))?"
_PREFIX = re.compile(
    rf"(?:[-+*][ \t]+|\d+[.)][ \t]+|\#+[ \t]+)?[^\w\s>`(\[*]*\s*[*_`]*(?:"
    rf"(?P<open>[\[(])(?P<framed>{_LABEL})[\])][*_`]*(?=[\s:\-–—]|$)"
    rf"|(?P<label>{_LABEL})[*_`]*[ \t]*(?:\((?P<decoration>[^()\n]{{1,60}})\))?[*_`]*[ \t]*"
    rf"(?::|[ \t][-–—](?=[ \t])|(?<=\))[ \t]*$))"
)
REMAND_MARK = "Left here by remand"
"""Begins a line in everything that Remand posts, so that it is not taken for a reviewer's comment."""
_MARK_LINE = re.compile(rf"^{REMAND_MARK}(?:: (\S+))?\.[ \t\r]*$", re.MULTILINE)


def is_blocking(text: str, default: bool = True) -> bool:
    """True if a comment blocks: a line's label says so, or its first line's label does not deny it.

    Labels in quotes and code do not count. A comment without a known label gets the default.
    """
    severities = [
        _line_severity(line)
        for piece in split_code(text)
        if not piece.is_code
        for line in map(str.strip, piece.lines)
        if line and not line.startswith(">")
    ]
    if True in severities:
        return True
    return severities[0] if severities and severities[0] is not None else default


def build_finding(text: str, path: str = "", line: int = 0, *, default: bool = True) -> Finding:
    """A comment as a finding with its full text."""
    return Finding(text=text, path=path, line=max(line, 0), is_blocking=is_blocking(text, default))


def review_findings(body: str, comments: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of a review that requests changes: if no comment blocks, its text does.

    Beside blocking comments its text is a suggestion, unless its label says that it blocks.
    """
    if not body.strip():
        return tuple(comments)
    if any(comment.is_blocking for comment in comments):
        return (*comments, build_finding(body, default=False))
    return (replace(build_finding(body), is_blocking=True), *comments)


_MARK_LABELS = {True: word_set("blocking blocker"), False: word_set("suggestion")}
"""Labels that only repeat the displayed severity."""


def remove_label(text: str, *, is_blocking: bool) -> str:
    """A finding's text without a leading label that only repeats its severity."""
    first, newline, rest = text.partition("\n")
    match = _PREFIX.match(first)
    if match is None or match["decoration"] or _severity_label(match) not in _MARK_LABELS[is_blocking]:
        return text
    left = first[match.end() :].lstrip(" \t:-–—*_`")
    return f"{left}{newline}{rest}" if left else text


def _line_severity(line: str) -> bool | None:
    """The severity in a line's label; None without a known label."""
    match = _PREFIX.match(line)
    if match is None:
        return None
    decorations = {part.strip().lower() for part in (match["decoration"] or "").split(",")}
    if decorations & {"blocking", "blocker"}:
        return True
    if decorations & {"non-blocking", "nonblocking", "not blocking", "optional", "nit", "if-minor"}:
        return False
    label = _severity_label(match)
    return True if label in BLOCKING_LABELS else False if label in LENIENT_LABELS else None


def _severity_label(match: re.Match[str]) -> str:
    return "-".join((match["framed"] or match["label"]).lower().split())


MENTION = "@remand "
MAX_COMMANDS = 20
_OPENS = re.compile(r"^\s*(?:>|[-+*]\s|\d+[.)]\s|\|)|[`\[<]|~~")
_HIDING = frozenset({"HTML tags", "hidden elements"})


def parse_comment_commands(text: str, repository: str = "") -> tuple[str, ...]:
    """The commands in a comment: the rest of each line that begins with `@remand `.

    A line does not count if a quote, list or code starts above it in its paragraph, which may include it. A comment
    with HTML tags has no commands, as these may quote, too.
    """
    clean = sanitise(text, repository, keeps_links=True)
    if MENTION not in clean.text or not _HIDING.isdisjoint(clean.removed):
        return ()
    found: list[str] = []
    for piece in split_code(clean.text):
        is_free = not piece.is_code
        for line in piece.lines if is_free else ():
            command = line.removeprefix(MENTION).strip() if is_free and line.startswith(MENTION) else ""
            found += [command] if command else []
            is_free = not line.strip() or (is_free and not _OPENS.search(line))
    return tuple(found[:MAX_COMMANDS])


def is_from_remand(text: str) -> bool:
    """True for a text posted by Remand. No command in it is run."""
    return _MARK_LINE.search(text) is not None


def find_reported_rejections(text: str) -> list[str]:
    """The ids of the rejections reported in a text by Remand."""
    return [name for name in _MARK_LINE.findall(text) if name]


def is_own_review(review: ForgeReview, task: Task) -> bool:
    """True if everything in a review was posted by Remand about rejections of this task."""
    known = {given.id for one in task.reviews.rounds for given in one.reviews}
    texts = [text for text in (review.text, *(comment.text for comment in review.comments)) if text.strip()]
    return bool(texts) and all(known & set(find_reported_rejections(text)) for text in texts)


MAX_COMMAND_AGE = 24 * 3600.0
"""The greatest age of a command. A machine that polls for the first time must not run long-settled ones."""


def may_command(remark: ForgeComment, pull: PullRequest, now: Instant) -> bool:
    """True for a recent, unedited comment not posted by Remand, unless the pull request's author wrote it.

    Anybody with write access can edit others' comments, Remand's posts may quote others, and agents may share the
    account that opened the pull request.
    """
    is_recent = bool(remark.updated_at) and remark.updated_at >= add_seconds(now, -MAX_COMMAND_AGE)
    is_genuine = not remark.is_edited and not is_from_remand(remark.text)
    return is_recent and is_genuine and not is_same_account(remark.author, pull.author)


MAX_PATH = 4096
REST_TEXT = "{count} more comments are omitted; see the pull request."


class CommentPlace(StrEnum):
    """The place of a comment on a pull request."""

    REVIEW = "review"
    """The text of a review."""
    LINE = "comment"
    """A comment of a review on a line, a file or the whole."""
    DISCUSSION = "remark"
    """The discussion outside reviews."""


class PullComment(Record, kw_only=True):
    """A comment on a pull request, or the text of a review."""

    id: str
    """Prefixed with the kind of forge and the place, as forges number each kind of comment separately."""
    author: Account
    place: CommentPlace
    text: str
    at: Instant = ""
    path: str = ""
    line: int = 0
    reply_to: str = ""
    """The id of its thread's first comment; empty for that comment itself."""
    review: ForgeReview | None = None
    """Its review; None in the discussion."""

    def is_blocking(self, text: str, *, has_rejected: bool) -> bool:
        """Whether it blocks, by its displayed text; replies and the discussion block only if they say so."""
        is_aside = bool(self.reply_to) or self.place is CommentPlace.DISCUSSION
        return is_blocking(text, default=has_rejected and not is_aside)


def is_rejecting_review(review: ForgeReview, *, is_own: bool) -> bool:
    """True if a review rejects: it requests changes, or is a blocking comment on one's own work.

    A forge lets nobody request changes of their own pull request, and agents may share its account.
    """
    if review.state is ReviewState.CHANGES_REQUESTED:
        return True
    if review.state is not ReviewState.COMMENTED or not is_own:
        return False
    texts = (review.text, *(comment.text for comment in _own_comments(review)))
    return any(is_blocking(sanitise(text).text, default=False) for text in texts if text)


def countable_comments(
    pull: PullRequest, kind: str, known: Collection[str], home: str = ""
) -> list[PullComment]:
    """All comments on a pull request that may be passed on.

    Excluded are dismissed reviews, the text of approvals, commands to Remand, and Remand's own posts: `known` are the
    ids of the rejections that it may have reported.
    """
    comments = [
        comment
        for review in pull.reviews
        if review.state not in (ReviewState.DISMISSED, ReviewState.PENDING)
        for comment in _review_comments(review, kind)
    ]
    for remark in pull.remarks:
        is_command = is_from_remand(remark.text) or parse_comment_commands(remark.text, home)
        if remark.author is not None and not is_command:
            comments.append(_make_comment(remark, remark.author, kind, CommentPlace.DISCUSSION))
    return [comment for comment in comments if not set(find_reported_rejections(comment.text)) & set(known)]


def findings_from_comments(
    comments: Sequence[PullComment], home: str = "", *, has_rejected: bool = True
) -> tuple[Finding, ...]:
    """One reviewer's comments as sanitised findings; those without visible text are dropped.

    If the reviewer has requested changes (`has_rejected`), a comment blocks unless it says otherwise; if not, only if
    it says so. Replies and the discussion block only if they say so.
    """
    texts = {comment.id: text for comment in comments if (text := sanitise(comment.text, home).text.strip())}
    shown = [comment for comment in comments if comment.id in texts]
    blocking = {
        comment.id for comment in shown if comment.is_blocking(texts[comment.id], has_rejected=has_rejected)
    }
    opinions = sorted({one.submitted_at for comment in shown if (one := comment.review) and _is_opinion(one)})
    # Compared with comments that block by themselves, regardless of other reviews' texts.
    blocking_comments = [comment for comment in shown if comment.id in blocking]
    for comment in shown:
        if comment.place is CommentPlace.REVIEW and comment.review is not None:
            others = [one for one in blocking_comments if one is not comment]
            text, review = texts[comment.id], comment.review
            before = max((at for at in opinions if at < review.submitted_at), default="")
            if any(_covers_comment(review, one, before) for one in others):
                is_text_blocking = is_blocking(text, default=False)
            else:
                is_request = review.state is ReviewState.CHANGES_REQUESTED
                is_text_blocking = is_request or is_blocking(text, default=has_rejected)
            (blocking.add if is_text_blocking else blocking.discard)(comment.id)
    findings = [
        Finding(
            text=texts[comment.id],
            path=comment.path,
            line=comment.line,
            comment=comment.id,
            reply_to=comment.reply_to,
            at=comment.at,
            is_blocking=comment.id in blocking,
        )
        for comment in shown
    ]
    return sanitise_findings(findings, home)


def findings_from_review(review: ForgeReview, kind: str = "", home: str = "") -> tuple[Finding, ...]:
    """The findings of a single review: as many as fit an event, blocking ones first."""
    own = [] if review.author is None else list(_review_comments(review, kind, is_own=True))
    whole = findings_from_comments(own, home)
    left = len(whole) - MAX_FINDINGS
    if left <= 0:
        return whole
    rest = Finding(text=REST_TEXT.format(count=left + 1), is_blocking=False)
    return (*select_findings(whole, MAX_FINDINGS - 1), rest)


def select_findings(findings: Sequence[Finding], count: int = MAX_FINDINGS) -> tuple[Finding, ...]:
    """At most `count` findings in order; blocking ones are kept first."""
    if len(findings) <= count:
        return tuple(findings)
    kept = sorted(range(len(findings)), key=lambda at: not findings[at].is_blocking)[:count]
    return tuple(findings[at] for at in sorted(kept))


def _own_comments(review: ForgeReview) -> list[ForgeComment]:
    """The comments made by the reviewer with the review, without replies and others' comments."""
    return [
        comment
        for comment in review.comments
        if not comment.is_reply and is_same_account(comment.author, review.author)
    ]


def _review_comments(review: ForgeReview, kind: str, *, is_own: bool = False) -> Iterator[PullComment]:
    """The comments of a review and, unless it approves, its text; with `is_own` only the reviewer's own, with the text."""
    for comment in _own_comments(review) if is_own else review.comments:
        if comment.author is not None:
            yield _make_comment(comment, comment.author, kind, CommentPlace.LINE, review)
    if (
        review.author is not None
        and review.text.strip()
        and (is_own or review.state is not ReviewState.APPROVED)
    ):
        yield PullComment(
            id=f"{kind}:{CommentPlace.REVIEW}-{review.id}",
            author=review.author,
            place=CommentPlace.REVIEW,
            text=review.text,
            at=review.submitted_at,
            review=review,
        )


def _make_comment(
    comment: ForgeComment, author: Account, kind: str, place: CommentPlace, review: ForgeReview | None = None
) -> PullComment:
    at = comment.created_at or (review.submitted_at if review is not None else "")
    return PullComment(
        id=f"{kind}:{place}-{comment.id}",
        author=author,
        place=place,
        text=comment.text,
        at=at or comment.updated_at,
        path=comment.path[:MAX_PATH],
        line=max(comment.line, 0),
        reply_to=f"{kind}:{place}-{comment.reply_to}" if comment.is_reply else "",
        review=review,
    )


def _covers_comment(review: ForgeReview, comment: PullComment, before: Instant) -> bool:
    """True for a comment of the review, and for a single one by its reviewer since the opinion `before`."""
    forge_review = comment.review
    if forge_review is None or comment.reply_to:
        return False
    is_single = _is_opinion(review) and not _is_opinion(forge_review)
    return forge_review.id == review.id or (is_single and before < comment.at <= review.submitted_at)


def _is_opinion(review: ForgeReview) -> bool:
    return review.state is not ReviewState.COMMENTED
