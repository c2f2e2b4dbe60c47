"""GitHub's API through gidgethub: conditional requests, pages, GraphQL, faults by kind, and the conversions that both of its APIs need."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from gidgethub import abc, sansio
from msgspec import field
from msgspec.structs import replace

from remand.adapters.forges.transport import (
    ForgeReply,
    RateLimits,
    Transport,
    error_text,
    is_rate_limited,
    printable_text,
    status_fault,
)
from remand.app.forge.ports import AnswerCache, CachedAnswer, ForgeFault, ForgeFaultKind, Usage
from remand.domain.instant import Instant, parse_instant
from remand.domain.pull_request.records import Account, ForgeComment, ForgeReview, PullState, ReviewState
from remand.domain.record import Record

KIND = "github:"
BOT = "[bot]"


class ReviewLineComment(NamedTuple):
    """A line comment, and the review it belongs to; empty when it belongs to none."""

    comment: ForgeComment
    review: str


def account(id: int | None, login: str, *, is_bot: bool) -> Account:  # noqa: A002 - what it is called there
    """An account; without an id it is nobody who could be authorised."""
    name = login if not is_bot or login.endswith(BOT) else login + BOT
    return Account(id=f"{KIND}{id}" if id is not None else "", login=f"{KIND}{name}", is_bot=is_bot)


def parse_time(text: str | None) -> Instant:
    """A time as told; empty when none is, or it is none."""
    return (parse_instant(text) or "") if text else ""


def comment_line(subject: str, line: int | None, original_line: int | None) -> int:
    """The line a comment is about, or was when it is gone; 0 for a comment on the file."""
    return 0 if subject.lower() == "file" else line or original_line or 0


def review_state(text: str) -> ReviewState:
    """What a review says, in upper or lower case; what GitHub may say one day is a comment."""
    try:
        return ReviewState(text.lower())
    except ValueError:
        return ReviewState.COMMENTED


def pull_state(text: str, *, is_merged: bool) -> PullState:
    """Where a pull request is."""
    if is_merged:
        return PullState.MERGED
    try:
        return PullState(text.lower())
    except ValueError:
        raise ForgeFault(
            ForgeFaultKind.GARBLED, "GitHub returned an unknown state of a pull request."
        ) from None


def with_comments(
    reviews: Iterable[ForgeReview], said: Iterable[ReviewLineComment]
) -> tuple[ForgeReview, ...]:
    """Reviews that were submitted, each with its own line comments."""
    own: dict[str, list[ForgeComment]] = defaultdict(list)
    for one in said:
        own[one.review].append(one.comment)
    return tuple(
        replace(review, comments=tuple(own[review.id]))
        for review in reviews
        if review.state is not ReviewState.PENDING
    )


def without_review(said: Iterable[ReviewLineComment]) -> tuple[ForgeComment, ...]:
    """Line comments that belong to no review."""
    return tuple(one.comment for one in said if not one.review)


TOKEN_NAME = "GITHUB_TOKEN"  # noqa: S105 - the name of the variable
VERSION = "2022-11-28"
PER_PAGE = 100
MAX_PAGES = 200
ANSWERS = (200, 201, 202, 204)
NOTHING = ForgeReply(0, {}, b"")
BULK = ("_links", "reactions", "diff_hunk", "repository", "body_html", "body_text")
KEPT_ADDRESSES = ("html_url", "pull_request_url")

Shape = TypeVar("Shape")


class GitHubRepository(NamedTuple):
    """One repository on one GitHub."""

    api: str
    owner: str
    name: str

    @property
    def graphql(self) -> str:
        """Where GraphQL is spoken: beside `/api/v3` on Enterprise servers."""
        return f"{self.api.removesuffix('/v3')}/graphql"

    @property
    def full_name(self) -> str:
        """The repository as people write it."""
        return f"{self.owner}/{self.name}"

    @property
    def names(self) -> dict[str, str]:
        """What addresses are filled in with."""
        return {"owner": self.owner, "name": self.name}


class GraphqlMissing(Exception):  # noqa: N818 - nothing is wrong: there is another way
    """This GitHub has no GraphQL, or not for this token, or an older one."""


class GraphError(Record, kw_only=True):
    """One thing GraphQL could not answer."""

    message: str = ""
    type: str = ""
    path: tuple[str | int, ...] = ()
    extensions: dict[str, Any] = field(default_factory=dict)

    @property
    def is_absence(self) -> bool:
        """True when what was asked about is not there; something missing within it is another matter."""
        return self.type == "NOT_FOUND" and len(self.path) <= 2

    @property
    def is_of_the_schema(self) -> bool:
        """True when the server does not know the field."""
        return self.extensions.get("code") in ("undefinedField", "argumentNotAccepted", "undefinedType")


class GraphAnswer(Record, kw_only=True):
    """What GraphQL answers; data and errors may come together."""

    data: dict[str, Any] | None = None
    errors: tuple[GraphError, ...] = ()


class GitHubAnswerCache(MutableMapping[str, Any]):
    """The memory in the form gidgethub keeps answers in, without what nobody reads."""

    def __init__(self, memory: AnswerCache) -> None:
        self._memory = memory

    def __getitem__(self, url: str) -> tuple[str | None, str | None, Any, str | None]:
        """ETag, no date, content and next page; a `KeyError` when there is none, or it cannot be read."""
        kept = self._memory.get(url)
        if kept is None:
            raise KeyError(url)
        try:
            return kept.etag, None, msgspec.json.decode(kept.body), kept.next_page or None
        except (msgspec.DecodeError, RecursionError):
            raise KeyError(url) from None

    def __setitem__(self, url: str, value: tuple[str | None, str | None, Any, str | None]) -> None:
        """Keeps an answer."""
        etag, _, data, more = value
        body = msgspec.json.encode(without_bulk(data)).decode()
        self._memory.put(url, CachedAnswer(etag=etag or "", body=body, next_page=more or ""))

    def __delitem__(self, url: str) -> None:
        """Answers are only ever replaced."""
        raise KeyError(url)

    def __iter__(self) -> Iterator[str]:
        """Nobody asks what there is."""
        return iter(())

    def __len__(self) -> int:
        """Nor how much."""
        return 0


class GitHubApi(abc.GitHubAPI):
    """One repository's API. Whatever goes wrong is a `ForgeFault`."""

    def __init__(
        self,
        place: GitHubRepository,
        transport: Transport,
        limits: RateLimits,
        memory: AnswerCache,
        token: str,
    ) -> None:
        super().__init__(
            "remand", oauth_token=token or None, cache=GitHubAnswerCache(memory), base_url=place.api
        )
        self.place, self.usage = place, Usage()
        self._transport, self._limits, self._token = transport, limits, token
        self._last = NOTHING
        self._used: dict[str, str] = {}

    async def sleep(self, seconds: float) -> None:
        """Waits; nothing here does, since whoever polls comes back."""
        await asyncio.sleep(seconds)

    async def get(self, path: str, shape: type[Shape], **names: str) -> Shape:
        """What is at a path, asked for on condition that it has changed."""
        data, _ = await self._call("GET", path, b"", names)
        return convert_answer(data, shape)

    async def pages(self, path: str, shape: type[list[Shape]], **names: str) -> list[Shape]:
        """Everything in a list. A page that is full may have a successor, whatever an older answer said."""
        found: list[Shape] = []
        for number in range(1, MAX_PAGES + 1):
            mark = "&" if "?" in path else "?"
            data, more = await self._call("GET", f"{path}{mark}per_page={PER_PAGE}&page={number}", b"", names)
            items = convert_answer(data, shape)
            found += items
            if not more and len(items) < PER_PAGE:
                return found
        raise ForgeFault(ForgeFaultKind.GARBLED, f"GitHub has more than {MAX_PAGES} pages of one list.")

    async def send(self, path: str, data: object, *, method: str = "POST", **names: str) -> object:
        """Leaves or changes something there; gives what is answered."""
        content, _ = await self._call(method, path, data, names)
        return content

    async def query_graphql(self, document: str, variables: Mapping[str, object]) -> dict[str, Any]:
        """What GraphQL answers. Things that are not there are left out; any other error is a fault."""
        question = {"query": document, "variables": dict(variables)}
        try:
            data, _ = await self._call("POST", self.place.graphql, question, {})
        except ForgeFault as fault:
            if self._last.status in (403, 404, 410) and fault.trouble is not ForgeFaultKind.LIMITED:
                raise GraphqlMissing from None
            raise
        answer = convert_answer(data, GraphAnswer)
        self._count_points(answer)
        if answer.errors:
            self._raise_for_errors(answer.errors)
        if answer.data is None:
            raise ForgeFault(ForgeFaultKind.GARBLED, "GitHub's GraphQL answers without data.")
        return answer.data

    async def close(self) -> None:
        """Lets go of connections."""
        await self._transport.close()

    async def _call(self, method: str, path: str, data: object, names: Mapping[str, str]) -> tuple[Any, str]:
        try:
            content, more, _ = await self._make_request(
                method, path, {**self.place.names, **names}, data, sansio.accept_format()
            )
        except (ValueError, RecursionError):
            raise ForgeFault(
                ForgeFaultKind.GARBLED, "GitHub's answer is not JSON, or is incomplete."
            ) from None
        return content, more or ""

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Sends a request unless a limit forbids it, and lets only answers through."""
        self._limits.check()
        self._last = NOTHING
        self.usage = self.usage._replace(requests=self.usage.requests + 1)
        reply = await self._transport.send(method, url, {**headers, "x-github-api-version": VERSION}, body)
        self._last = reply
        said = error_text(reply, self._token) if reply.status >= 400 else ""
        if is_rate_limited(reply, said):
            raise self._limits.note_limit(reply)
        self._limits.note_reply(reply)
        self._count(reply, is_graphql=url == self.place.graphql)
        fault = status_fault(reply, "GitHub", TOKEN_NAME, said)
        if fault is not None:
            raise fault
        is_awaited = reply.status in ANSWERS or (reply.status == 304 and "if-none-match" in headers)
        if not is_awaited or (reply.body and "json" not in reply.headers.get("content-type", "")):
            raise ForgeFault(ForgeFaultKind.GARBLED, f"GitHub's answer is not JSON ({reply.status}).")
        kept = {name: reply.headers[name] for name in ("etag", "link") if name in reply.headers}
        return reply.status, {**kept, "content-type": "application/json"}, reply.body

    def _count(self, reply: ForgeReply, *, is_graphql: bool) -> None:
        """Counts a point, except for what did not change; GraphQL tells its own cost."""
        resource = reply.headers.get("x-ratelimit-resource", "core")
        used = reply.headers.get("x-ratelimit-used", "")
        is_free = reply.status == 304 and self._used.get(resource, used) == used
        self._used[resource] = used
        self.usage = self.usage._replace(
            not_modified=self.usage.not_modified + (reply.status == 304),
            points=self.usage.points + (not is_free and not is_graphql),
        )

    def _count_points(self, answer: GraphAnswer) -> None:
        told = (answer.data or {}).get("rateLimit")
        cost = told.get("cost") if isinstance(told, dict) else None
        self.usage = self.usage._replace(points=self.usage.points + (cost if isinstance(cost, int) else 1))

    def _raise_for_errors(self, errors: tuple[GraphError, ...]) -> None:
        """Raises for errors that are more than something not being there."""
        kinds = {error.type for error in errors}
        words = printable_text(errors[0].message, self._token)
        if kinds & {"RATE_LIMITED", "RATE_LIMIT"} or is_rate_limited(ForgeReply(403, {}, b""), words):
            raise self._limits.note_limit(self._last)
        if any(error.is_of_the_schema for error in errors):
            raise GraphqlMissing
        if kinds & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
            raise ForgeFault(
                ForgeFaultKind.DENIED,
                f"GitHub does not allow this ({words}). Give the token of {TOKEN_NAME} the right to read it.",
            )
        if not all(error.is_absence for error in errors):
            raise ForgeFault(
                ForgeFaultKind.UNREACHABLE, f"GitHub could not answer ({words}); it is asked again later."
            )


def convert_answer(data: object, shape: type[Shape]) -> Shape:
    """An answer's content in the shape it must have."""
    try:
        return msgspec.convert(data, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ForgeFault(
            ForgeFaultKind.GARBLED, f"GitHub's answer has another shape: {printable_text(str(error))}"
        ) from None


def without_bulk(data: object) -> object:
    """An answer without what nobody reads and most of it consists of."""
    if isinstance(data, list):
        return [without_bulk(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {
        name: _only_full_name(value) if name == "repo" else without_bulk(value)
        for name, value in data.items()
        if name not in BULK and (not name.endswith("_url") or name in KEPT_ADDRESSES)
    }


def _only_full_name(repository: object) -> object:
    """A repository by its name alone."""
    return {"full_name": repository.get("full_name")} if isinstance(repository, dict) else None
