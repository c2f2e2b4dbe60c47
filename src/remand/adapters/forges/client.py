"""What the clients of all forges share: conditional REST requests, pagination, and actions built on each forge's own calls."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from remand.adapters.forges.transport import (
    ForgeReply,
    HttpTransport,
    RateLimits,
    Transport,
    error_text,
    is_rate_limited,
    printable_text,
    status_fault,
)
from remand.app.forge.ports import AnswerCache, CachedAnswer, ForgeFault, ForgeFaultKind, ForgeIssue, Usage
from remand.app.ports import Clock
from remand.domain.forge import ForgeComment, ReviewState
from remand.domain.instant import Instant, parse_instant

MAX_PAGES = 200
MAX_LISTED = 64 << 20
MAX_TEXT = 65_000
MAX_TITLE = 250
CHECK_NAME = "remand"
_UNREAD = ("_links", "reactions", "diff_hunk", "repository", "body_html", "body_text")
_KEPT_ADDRESSES = ("html_url", "pull_request_url", "web_url")

Shape = TypeVar("Shape")


class HasId(Protocol):
    """An item that a list may contain only once."""

    @property
    def id(self) -> int | str: ...


Item = TypeVar("Item", bound=HasId)


class ForgeService(NamedTuple):
    """A forge's address, and what every request to it needs."""

    forge: str
    """Its name in messages."""
    api: str
    token: str
    token_name: str
    headers: Mapping[str, str]
    """The headers of every request, including the token."""
    page_parameter: str
    page_size: int


class RestClient:
    """The REST API of one forge, used with one token. Every failure is a `ForgeFault`.

    Every GET is conditional on the cached answer: unchanged content is not sent again, and does not count against GitHub's rate limit.
    """

    def __init__(
        self, service: ForgeService, clock: Clock, memory: AnswerCache, transport: Transport | None = None
    ) -> None:
        if not service.token:
            # Without a token no forge reveals who may write.
            raise ForgeFault(
                ForgeFaultKind.DENIED, f"There is no token for {service.api}. Set {service.token_name}."
            )
        self.usage = Usage()
        self.limits = RateLimits(clock, memory, service.api)
        self._service, self._memory = service, memory
        self._transport = transport or HttpTransport(service.api)

    def get(self, path: str, shape: type[Shape]) -> Shape:
        return self.read(self.fetch(path), shape)

    def get_if_present(self, path: str, shape: type[Shape]) -> Shape | None:
        """Like `get`, but None if the forge answers that it does not exist."""
        try:
            return self.get(path, shape)
        except ForgeFault as fault:
            if fault.kind is ForgeFaultKind.MISSING:
                return None
            raise

    def list_if_allowed(self, path: str, shape: type[Item]) -> list[Item]:
        """Every item of a list; empty if the server has no such list or the token may not read it."""
        try:
            return self.list_all(path, shape)
        except ForgeFault as fault:
            if fault.kind in (ForgeFaultKind.DENIED, ForgeFaultKind.MISSING, ForgeFaultKind.REFUSED):
                return []
            raise

    def fetch(self, path: str) -> ForgeReply:
        """The answer to a GET. An unchanged one has the status 304, with body and links from the cache."""
        url = self._service.api + path
        known = self._memory.get(url)
        if known is not None and not (known.etag and _is_json(known.body)):
            known = None
        reply = self._request("GET", url, {"if-none-match": known.etag} if known is not None else {})
        if known is not None and reply.status == 304:
            self.usage = self.usage._replace(not_modified=self.usage.not_modified + 1)
            return ForgeReply(304, {"link": known.next_page, **reply.headers}, known.body.encode())
        if etag := reply.headers.get("etag", ""):
            body = msgspec.json.encode(_without_unread(self.read(reply, object))).decode()
            link = reply.headers.get("link", "")
            self._memory.put(url, CachedAnswer(etag=etag, body=body, next_page=link))
        return reply

    def list_all(self, path: str, shape: type[Item]) -> list[Item]:
        """Every item of a list, in the order of the forge.

        A list that grows while it is read repeats some items; each is returned once. A list that never ends, or repeats
        the same page, is a fault.
        """
        found: dict[int | str, Item] = {}
        left, join, service = MAX_LISTED, "&" if "?" in path else "?", self._service
        for number in range(1, MAX_PAGES + 1):
            reply = self.fetch(f"{path}{join}{service.page_parameter}={service.page_size}&page={number}")
            items: list[Item] = self.read(reply, list[shape])  # type: ignore[valid-type]
            before, left = len(found), left - len(reply.body)
            found.update((item.id, item) for item in items)
            if left < 0:
                raise self.garbled_fault(f"lists more than {MAX_LISTED >> 20} MB at once")
            # A full page keeps its ETag when another page is added after it, so its cached link to a next page may be outdated.
            is_old_full_page = reply.status == 304 and len(items) >= service.page_size
            if not is_old_full_page and not has_more(reply, len(found), len(items)):
                return list(found.values())
            if len(found) == before and items:
                raise self.garbled_fault("returns the same page of a list again and again")
        raise self.garbled_fault(f"has more than {MAX_PAGES} pages of one list")

    def send(self, path: str, data: object, method: str = "POST") -> ForgeReply:
        """Creates or changes something; the path may be a full URL of the same origin."""
        url = path if "://" in path else self._service.api + path
        reply = self._request(method, url, {"content-type": "application/json"}, msgspec.json.encode(data))
        if reply.body:
            self.read(reply, object)
        return reply

    def close(self) -> None:
        self._transport.close()

    def read(self, reply: ForgeReply, shape: type[Shape]) -> Shape:
        """Decodes an answer's body into a given shape; unknown fields are ignored."""
        try:
            return msgspec.json.decode(reply.body, type=shape)
        except (ValueError, RecursionError) as error:
            raise self.garbled_fault(
                f"gave an answer that cannot be read ({printable_text(str(error), self._service.token)})"
            ) from None

    def garbled_fault(self, what: str) -> ForgeFault:
        return ForgeFault(ForgeFaultKind.GARBLED, f"{self._service.forge} {what}.")

    def _request(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> ForgeReply:
        """Sends a request unless a rate limit is in force; anything but a successful JSON answer is a fault."""
        service = self._service
        self.limits.check()
        self.usage = self.usage._replace(requests=self.usage.requests + 1)
        sent = {"accept": "application/json", "user-agent": "remand", **service.headers, **headers}
        reply = self._transport.send(method, url, sent, body)
        message = error_text(reply, service.token) if reply.status >= 400 else ""
        if is_rate_limited(reply, message):
            raise self.limits.note_limit(reply)
        self.limits.note_reply(reply)
        # GitHub does not count a 304 against its limit.
        is_counted = "x-ratelimit-remaining" in reply.headers and reply.status != 304
        if is_counted or "ratelimit-remaining" in reply.headers:
            self.usage = self.usage._replace(points=self.usage.points + 1)
        path = printable_text(url.removeprefix(service.api).partition("?")[0], service.token)
        fault = status_fault(reply, service.forge, service.token_name, message, path)
        if fault is not None:
            raise fault
        is_expected = 200 <= reply.status < 300 or (reply.status == 304 and "if-none-match" in headers)
        if not is_expected or (reply.body and "json" not in reply.headers.get("content-type", "")):
            raise self.garbled_fault(f"does not answer in JSON ({reply.status})")
        return reply


def has_more(reply: ForgeReply, read_so_far: int, on_page: int) -> bool:
    """True if another page follows, according to the link header or else the total count.

    A total may include items that the token may not see, so an empty page ends a list too.
    """
    if not on_page:
        return False
    if "link" in reply.headers or "x-next-page" in reply.headers:
        return 'rel="next"' in reply.headers.get("link", "") or bool(reply.headers.get("x-next-page"))
    total = reply.headers.get("x-total-count", "")
    return total.isdecimal() and read_so_far < int(total[:9])


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _without_unread(data: object) -> object:
    """An answer without the fields that are never read, which are most of it."""
    if isinstance(data, list):
        return [_without_unread(item) for item in data]
    if not isinstance(data, dict):
        return data
    repository = data.get("repo")
    own_name = {"repo": {"full_name": repository.get("full_name")}} if isinstance(repository, dict) else {}
    return {
        name: _without_unread(value)
        for name, value in data.items()
        if name not in _UNREAD and (not name.endswith("_url") or name in _KEPT_ADDRESSES)
    } | own_name


class ForgeClient(ABC):
    """What the clients of all forges do the same way."""

    _rest: RestClient

    @property
    def usage(self) -> Usage:
        """The number of requests so far."""
        return self._rest.usage

    def close(self) -> None:
        self._rest.close()

    def request_review(self, number: int, names: Sequence[str]) -> None:
        """Requests reviews from accounts: all at once, or one by one if the forge refuses some of them."""
        if not names:
            return
        refusals: list[ForgeFault] = []
        for some in [names, *([name] for name in names if len(names) > 1)]:
            try:
                self._ask_reviewers(number, some)
            except ForgeFault as fault:
                if fault.kind is not ForgeFaultKind.REFUSED:
                    raise
                refusals.append(fault)
            else:
                if some is names:
                    return
        if len(refusals) > len(names) or len(names) == 1:
            raise refusals[0]

    def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label. A forge may return all issues for a label that it does not know."""
        return [issue for issue in self._issues(label) if issue.is_open and label in issue.labels]

    def close_issue(self, number: int, text: str, *, is_done: bool) -> None:
        """Closes an issue with a comment, which is posted only once."""
        first = text.partition("\n")[0]
        if text and not any(first in comment for comment in self._issue_comments(number)):
            self._comment_on_issue(number, text)
        self._close_issue(number, is_done=is_done)

    @abstractmethod
    def _ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Requests reviews from all of these accounts, or from none."""

    @abstractmethod
    def _issues(self, label: str) -> Iterable[ForgeIssue]:
        """The open issues; those with the label are certainly included."""

    @abstractmethod
    def _issue_comments(self, number: int) -> list[str]: ...

    @abstractmethod
    def _comment_on_issue(self, number: int, text: str) -> None: ...

    @abstractmethod
    def _close_issue(self, number: int, *, is_done: bool) -> None: ...


def try_each(methods: Sequence[str], merge: Callable[[str], object], not_allowed: str) -> None:
    """Merges by the first method that the repository allows; `not_allowed` is the message of a refusal that means it is not."""
    *most, last = methods
    for method in most:
        try:
            merge(method)
        except ForgeFault as fault:
            if fault.kind is not ForgeFaultKind.REFUSED or not_allowed not in str(fault).casefold():
                raise
        else:
            return
    merge(last)


def submit_review(
    comments: Sequence[ForgeComment], submit: Callable[[str, Sequence[ForgeComment]], object]
) -> ReviewState:
    """Submits a review that requests changes, with comments on lines.

    Forges refuse comments on lines outside the diff, and change requests on one's own work. A refused review is
    submitted again without line comments, then as a plain comment.
    """
    placed = [comment for comment in comments if is_placed(comment)]
    states = {"REQUEST_CHANGES": ReviewState.CHANGES_REQUESTED, "COMMENT": ReviewState.COMMENTED}
    *attempts, (event, lines) = [
        (event, lines) for event in states for lines in ([placed, []] if placed else [[]])
    ]
    for first_event, first_lines in attempts:
        try:
            submit(first_event, first_lines)
        except ForgeFault as fault:
            if fault.kind is not ForgeFaultKind.REFUSED:
                raise
        else:
            return states[first_event]
    submit(event, lines)
    return states[event]


def review_text(text: str, comments: Iterable[ForgeComment]) -> str:
    """A review's text, followed by the comments that are not on a line."""
    parts = [text]
    for comment in comments:
        line = f":{comment.line}" if comment.line else ""
        parts.append(f"`{comment.path}{line}`: {comment.text}" if comment.path else comment.text)
    return "\n\n".join(part for part in parts if part) or "Changes requested."


def is_placed(comment: ForgeComment) -> bool:
    """True if a comment is about a line."""
    return bool(comment.path) and comment.line > 0


def without_draft_prefix(title: str, prefix: re.Pattern[str]) -> str:
    """A title without its draft prefixes, however many."""
    while (match := prefix.match(title)) is not None:
        title = title[match.end() :]
    return title


def parse_time(text: str | None) -> Instant:
    """Parses a timestamp; empty if there is none or it is invalid."""
    return parse_instant(text or "") or ""
