"""The routes of the web pages: pages, forms, live updates and static files."""

from __future__ import annotations

import asyncio
import gzip
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote

from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from remand.app.errors import RemandError, UsageError
from remand.app.history.undo import PossibleUndo, undo_of_task
from remand.domain.access.tokens import Caller, require_call
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.interfaces.http.authentication import (
    CSRF,
    IS_KNOWN,
    RequestFacts,
    cookie_text,
    read_cookie,
    request_facts,
)
from remand.interfaces.http.calls import AskQuery
from remand.interfaces.http.commands import remote_commands
from remand.interfaces.http.pages import (
    activity,
    agents,
    board,
    gates,
    graph,
    inbox,
    patterns,
    settings,
    task,
)
from remand.interfaces.http.pages.live import (
    BEAT,
    NOTE,
    STALE,
    WAITING,
    Fragments,
    LiveUpdates,
    event_text,
    send_stream,
)
from remand.interfaces.http.pages.page import (
    MEDIA_TYPES,
    PageAddress,
    PageQuery,
    WebPage,
    command_text,
    escaped_text,
    may_call,
    parse_address,
    parse_query,
    render_fragments,
    render_page,
    stale_text,
    static_files,
    waiting_text,
)
from remand.interfaces.http.problems import (
    BAD_REQUEST,
    NOT_FOUND,
    UNAUTHENTICATED,
    HttpProblem,
    problem_document,
    problem_of_answer,
    refusal_document,
)
from remand.interfaces.http.routes import (
    HttpAnswer,
    RequestError,
    ServerContext,
    make_route,
    problem_of_error,
    read_body,
    send_answer,
)
from remand.interfaces.http.sessions import ExpiringSecrets
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.scheduler import make_watch

PAGES: tuple[WebPage, ...] = (
    *inbox.PAGES,
    *board.PAGES,
    *task.PAGES,
    *gates.PAGES,
    *agents.PAGES,
    *patterns.PAGES,
    *graph.PAGES,
    *activity.PAGES,
    *settings.PAGES,
)
"""All pages. Modules that add pages are listed here."""
ACTIONS = frozenset({*inbox.ACTIONS, *board.ACTIONS, *task.ACTIONS, *agents.ACTIONS, *settings.ACTIONS})
"""The commands that forms may call; the rules and the caller's role decide who may."""

UNDONE = ("inbox answer", "gate accept", "gate refuse", "handoff rejection-response", "task cancel")
"""The commands after which the page offers to undo."""
HTML = "text/html; charset=utf-8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
MAX_FORM = 1 << 18
COMPRESSED_FROM = 1000
THEMES = ("light", "dark")
_CSRF_MARK, _KEY_MARK = (f"~{secrets.token_hex(16)}~" for _ in range(2))
"""Placeholders for values of one session and one response, random so that no foreign text contains them."""
_YEAR = 31_536_000
Shown = TypeVar("Shown")


class FormProblem(NamedTuple):
    """Why a form did nothing."""

    form: str
    """The form's id."""
    problem: Mapping[str, Any]
    values: Mapping[str, str]
    """The values of its fields."""


class FormNote(NamedTuple):
    """The result of the last form."""

    text: str
    secret: str = ""
    """A token that it created, shown only once."""
    undo: PossibleUndo | None = None
    """How to undo it."""


class Visit(NamedTuple):
    """An authenticated request for a page."""

    caller: Caller
    csrf: str
    facts: RequestFacts
    theme: str


class Site:
    """The pages of a server."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._access = context.authenticator
        self._notes: ExpiringSecrets[FormNote] = ExpiringSecrets(60.0, 1000, most_each=20)
        """The result of each last form until its page has shown it."""
        self._counts: dict[Caller, tuple[str, int]] = {}
        self._live = LiveUpdates(self._read_mark, context.is_ending)

    def routes(self) -> list[ASGIRouteHandler]:
        """All routes of the site."""
        return [
            *(self._route(path, "GET", self._open, is_mount=path != "/") for path in self._page_roots()),
            self._route("/do", "POST", self._act, is_mount=True),
            self._route("/theme", "POST", self._choose_theme),
            self._route("/logout", "POST", self._log_out),
            self._route("/static", "GET", _serve_file, is_mount=True),
            asgi("/live", copy_scope=False)(self._stream),
        ]

    # ------------------------------------------------------------------------------------------ pages

    def _page_roots(self) -> list[str]:
        """The first path segments of the pages."""
        return list(dict.fromkeys(f"/{page.path.split('/')[1]}" for page in PAGES))

    def _route(
        self, path: str, method: str, handle: Callable[[Scope, Receive], Any], *, is_mount: bool = False
    ) -> ASGIRouteHandler:
        """A route whose refusals and errors are HTML pages as well."""
        return make_route(self._context, path, method, handle, is_mount=is_mount, refuse=self._refuse)

    async def _open(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        """Shows the page at an address."""
        visit = await self._visit(request_facts(scope))
        addresses = _find_page(f"{request_path(scope)}?{scope['query_string'].decode('latin-1')}")
        if addresses is None:
            raise HttpProblem(NOT_FOUND, "not_found", "There is no such page.")
        scope["path_template"] = addresses[0].path  # metrics use one route name for all tasks
        return await self._show(*addresses, visit)

    async def _visit(self, facts: RequestFacts) -> Visit:
        caller, session = await self._access.caller(facts), self._access.session(facts.headers)
        return Visit(caller, session.csrf if session else "", facts, self._theme(facts))

    def _theme(self, facts: RequestFacts) -> str:
        found = read_cookie(facts.headers, f"{self._access.options.name}_theme")
        return found if found in THEMES else ""

    async def _show(
        self, page: WebPage, address: PageAddress, visit: Visit, failed: FormProblem | None = None
    ) -> HttpAnswer:
        require_call(visit.caller, page.command)
        mark = await self._read_mark() if page.is_live or page.is_watched else ""
        secret = read_cookie(visit.facts.headers, self._note_cookie)
        note = self._notes.find(secret)

        def show(view: Any, waiting: int) -> HttpAnswer:
            if not page.template:
                return _text_answer(view, address)
            values = self._values(page, address, visit.caller, view) | {
                "waiting": waiting,
                "theme": visit.theme,
                "note": note,
                "failed": failed,
                "mark": mark,
            }
            text = render_page(page.template, values)
            if failed is not None and f'id="{failed.form}"' not in text:
                # The subject of the form no longer exists; the page itself says so.
                text = render_page(page.template, values | {"failed": failed._replace(form="")})
            status = failed.problem["status"] if failed else 200
            gone = cookie_text(self._note_cookie, "", is_secure=False, seconds=0)
            return html_answer(
                _personal(text, visit.csrf), status, {"set-cookie": gone} if note else {}, visit.facts
            )

        answer = await self._read(page, address, visit.caller, show)
        self._notes.take(secret)
        return answer

    async def _read(
        self, page: WebPage, address: PageAddress, caller: Caller, show: Callable[[Any, int], Shown]
    ) -> Shown:
        """Reads a page's record and the number of waiting items in a thread; long pages do not block others."""

        def read(opened: OpenLedger, ask: AskQuery) -> tuple[Any, int]:
            query = PageQuery(opened, ask, caller, address)
            view = page.read(query)
            is_counted = bool(page.template) and may_call(caller, "inbox")
            if isinstance(view, inbox.InboxView):
                return view, view.total
            return view, inbox.count_waiting(query) if is_counted else 0

        def show_both(found: tuple[Any, int]) -> Shown:
            return show(*found)

        return await self._context.runner.read(read, caller, show_both, is_long=page.is_long)

    async def _count_waiting(self, caller: Caller, mark: str) -> int:
        """The number of waiting items at a ledger position, counted once for all pages of a member."""
        known = self._counts.get(caller)
        if known is None or known[0] != mark:

            def count(opened: OpenLedger, ask: AskQuery) -> int:
                query = PageQuery(opened, ask, caller, PageAddress("/"))
                return inbox.count_waiting(query) if may_call(caller, "inbox") else 0

            known = mark, await self._context.runner.read(count, caller, int)
            self._counts[caller] = known
        return known[1]

    def _values(self, page: WebPage, address: PageAddress, caller: Caller, view: Any) -> dict[str, Any]:
        """The template's values, except those of a single visit."""
        return {
            "page": page,
            "pages": [one for one in PAGES if one.nav and may_call(caller, one.command)],
            "address": address,
            "caller": caller,
            "view": view,
            "csrf": _CSRF_MARK,
            "key": _KEY_MARK,
            "theme": "",
            "note": None,
            "failed": None,
            "mark": "",
            "waiting": 0,
        }

    async def _read_mark(self) -> str:
        """A text that changes with the ledger."""

        def mark(opened: OpenLedger) -> str:
            return sha256(repr(make_watch(opened).mark()).encode()).hexdigest()[:16]

        return await self._context.runner.read_ledger(mark)

    @property
    def _note_cookie(self) -> str:
        return f"{self._access.options.name}_note"

    # ---------------------------------------------------------------------------------------- actions

    async def _act(self, scope: Scope, receive: Receive) -> HttpAnswer:
        """Runs a form's command and redirects to its page; a refusal is shown there instead."""
        facts, fields = await self._read_form(scope, receive)
        visit = await self._visit(facts)
        name = request_path(scope).removeprefix("/do/").replace("/", " ")
        if name not in ACTIONS:
            raise HttpProblem(NOT_FOUND, "not_found", "No form posts to this address.")
        values = dict(fields)
        page, address = _return_page(values.get("page", ""))
        problem, note = await self._carry_out(name, fields, visit.caller)
        if problem is not None:
            failed = FormProblem(values.get("form", ""), problem, values)
            return await self._show(page, address, visit, failed)
        cookie = cookie_text(
            self._note_cookie, self._notes.add(note, visit.caller.member), is_secure=False, seconds=60
        )
        place = values.get("place", "")
        target = f"{address.text}#{quote(place)}" if place else address.text
        return HttpAnswer(303, b"", {"location": target, "set-cookie": cookie})

    async def _carry_out(
        self, name: str, fields: Iterable[tuple[str, str]], caller: Caller
    ) -> tuple[Mapping[str, Any] | None, FormNote]:
        """Runs a command with a form's values and returns the result or the problem."""
        command, key = remote_commands()[name], dict(fields).get("key", "")
        try:
            given = command.read_form(fields)
            values, text = command.read_values(given)
            code, data = await self._context.runner.answer(command, values, text, caller, key)
        except Refused as refused:
            return refusal_document(refused.code, refused.message), FormNote("")
        except UsageError as error:
            return problem_document(BAD_REQUEST, "bad_request", str(error)), FormNote("")
        self._access.note_words(name.split(" "))
        problem = problem_of_answer(data, name)
        if problem is not None:
            self._context.metrics.refusals[problem["code"]] += 1
            return problem, FormNote("")
        note = _outcome(command_text(name, given), data, code)
        return None, note._replace(undo=await self._find_undo(name, data, caller))

    async def _find_undo(self, name: str, data: Any, caller: Caller) -> PossibleUndo | None:
        """How to undo a form's command, if the rules allow it now."""
        if name not in UNDONE or not isinstance(data, dict):
            return None

        def find(opened: OpenLedger, ask: AskQuery) -> PossibleUndo | None:
            query = PageQuery(opened, ask, caller, PageAddress("/"))
            with opened.store.read() as view:
                task = view.tasks.get(data.get("task_id", ""))
                return undo_of_task(view, task, query.actor) if task else None

        return await self._context.runner.read(find, caller, lambda found: found, is_long=False)

    async def _read_form(self, scope: Scope, receive: Receive) -> tuple[RequestFacts, list[tuple[str, str]]]:
        """The fields of a form, and the request with its CSRF token in the usual header."""
        facts = request_facts(scope)
        body = await read_body(receive, facts.headers, MAX_FORM)
        try:
            fields = parse_qsl(
                body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=200
            )
        except ValueError as error:
            raise UsageError(f"The form cannot be read: {error}.") from None
        # Browsers submit CRLF line endings.
        fields = [(name, value.replace("\r\n", "\n")) for name, value in fields]
        headers = {**facts.headers, CSRF: dict(fields).get("csrf", "")}
        return facts._replace(headers=headers), fields

    async def _choose_theme(self, scope: Scope, receive: Receive) -> HttpAnswer:
        facts, fields = await self._read_form(scope, receive)
        await self._visit(facts)
        theme = dict(fields).get("theme", "")
        cookie = cookie_text(
            f"{self._access.options.name}_theme",
            theme if theme in THEMES else "",
            is_secure=scope.get("scheme") == "https",
            seconds=_YEAR if theme in THEMES else 0,
        )
        _, address = _return_page(dict(fields).get("page", ""))
        return HttpAnswer(303, b"", {"location": address.text, "set-cookie": cookie})

    async def _log_out(self, scope: Scope, receive: Receive) -> HttpAnswer:
        facts, _ = await self._read_form(scope, receive)
        await self._visit(facts)
        await self._access.close_session(facts.headers)
        gone = cookie_text(self._access.cookie, "", is_secure=scope.get("scheme") == "https", seconds=0)
        return HttpAnswer(303, b"", {"location": "/login", "set-cookie": gone})

    # ------------------------------------------------------------------------------------------- live

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streams the changes of an open page as server-sent events until the browser disconnects."""
        IS_KNOWN.set(False)
        try:
            facts = request_facts(scope)
            self._access.require_own_host(facts.headers)
            visit = await self._visit(facts)
            query = parse_query(scope["query_string"].decode("latin-1"))
            page, address = _live_page(query.get("page", ""))
            require_call(visit.caller, page.command)
            self._live.require_room(lambda key: key[0] == visit.caller)  # type: ignore[index]
        except (HttpProblem, Refused, RemandError) as error:
            await send_answer(send, self._refuse(error, request_facts(scope)))
            return
        parts = self._stream_parts(page, address, visit, query.get("since", ""))
        stream = asyncio.create_task(send_stream(send, parts))
        left = asyncio.create_task(_wait_until_left(receive))
        await asyncio.wait({stream, left}, return_when=asyncio.FIRST_COMPLETED)
        stream.cancel()
        left.cancel()
        await asyncio.gather(stream, left, return_exceptions=True)

    async def _stream_parts(
        self, page: WebPage, address: PageAddress, visit: Visit, since: str
    ) -> AsyncIterator[bytes]:
        caller = visit.caller

        def show(view: Any, waiting: int) -> Fragments:
            found = render_fragments(page.template, self._values(page, address, caller, view))
            note = escaped_text(getattr(view, "summary", ""))
            return found | {NOTE: note, WAITING: waiting_text(waiting)}

        async def render(mark: str) -> Fragments:
            if page.is_live:
                return await self._read(page, address, caller, show)
            waiting = waiting_text(await self._count_waiting(caller, mark))
            return {NOTE: "", WAITING: waiting, STALE: stale_text(address.text, mark)}

        async for news in self._live.changes((caller, page.path, address.text), render, since):
            try:
                await self._visit(visit.facts)
            except HttpProblem:
                return  # the session or its token has ended
            yield (
                b"".join(event_text(name, _personal(text, visit.csrf)) for name, text in news.items()) or BEAT
            )

    # --------------------------------------------------------------------------------------- problems

    def problem_page(self, problem: Mapping[str, Any], facts: RequestFacts) -> HttpAnswer:
        """An error page."""
        text = render_page("problem.html", {"problem": problem, "theme": self._theme(facts)})
        return html_answer(text, problem["status"], {}, facts)

    def _refuse(self, error: RequestError, facts: RequestFacts) -> HttpAnswer:
        """An error page, or the log-in page."""
        problem, headers = problem_of_error(error), error.headers if isinstance(error, HttpProblem) else {}
        if problem["status"] == UNAUTHENTICATED:
            return self.log_in_page(facts, UNAUTHENTICATED)
        answer = self.problem_page(problem, facts)
        return answer._replace(headers={**answer.headers, **headers})

    def log_in_page(self, facts: RequestFacts, status: int = 200, problem: str = "") -> HttpAnswer:
        """The log-in page."""
        options = self._access.options
        values = {
            "theme": self._theme(facts),
            "takes_sessions": self._access.takes_sessions(facts.headers),
            "has_provider": options.provider is not None,
            "problem": problem,
        }
        return html_answer(render_page("login.html", values), status, {}, facts)


def html_answer(text: str, status: int, headers: Mapping[str, str], facts: RequestFacts) -> HttpAnswer:
    """An HTML response, compressed if accepted, with a content security policy that allows only the server's own files."""
    body = text.encode("utf-8", "backslashreplace")
    more = {"content-security-policy": POLICY, "vary": "accept-encoding, cookie", **headers}
    if "gzip" in facts.headers.get("accept-encoding", "") and len(body) >= COMPRESSED_FROM:
        body, more = gzip.compress(body, 5, mtime=0), more | {"content-encoding": "gzip"}
    return HttpAnswer(status, body, more, HTML)


def _text_answer(text: str, address: PageAddress) -> HttpAnswer:
    """A text as a download, so that no browser renders it."""
    name = "".join(
        char for char in address.path.strip("/").replace("/", "-") if char.isalnum() or char in "-."
    )
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-security-policy": POLICY}
    return HttpAnswer(200, text.encode("utf-8", "backslashreplace"), headers, "text/plain; charset=utf-8")


def _personal(text: str, csrf: str) -> str:
    """A rendered page with the values of one session and one response filled in."""
    return text.replace(_CSRF_MARK, csrf).replace(_KEY_MARK, secrets.token_urlsafe(12))


def request_path(scope: Scope) -> str:
    """The full path of a request, including that of a mount."""
    raw = scope.get("raw_path")
    return unquote(raw.decode("latin-1").partition("?")[0]) if raw else str(scope["path"])


def _find_page(target: str) -> tuple[WebPage, PageAddress] | None:
    """The page at a path with a query; None if there is none."""
    return next(((page, found) for page in PAGES if (found := parse_address(page, target))), None)


def _return_page(target: str) -> tuple[WebPage, PageAddress]:
    """The page that contains a form; the first page if it names none."""
    return _find_page(target) or (PAGES[0], PageAddress(PAGES[0].path))


def _live_page(target: str) -> tuple[WebPage, PageAddress]:
    """The page to stream; refuses pages that never change."""
    page, address = _return_page(target)
    if not (page.is_live or page.is_watched):
        raise HttpProblem(NOT_FOUND, "not_found", "This page does not update while it is open.")
    return page, address


def _outcome(command: str, data: Any, code: int) -> FormNote:
    """The result of a form in one sentence."""
    found = data if isinstance(data, dict) else {}
    task_id, status = found.get("task_id"), found.get("status")
    what = f"{task_id} is {status}." if task_id and status else "Done."
    more = f" {found['reassigned_to']} takes over." if found.get("reassigned_to") else ""
    failed = f" It ended with exit code {code}." if code else ""
    return FormNote(f"{what}{more}{failed} In a shell: {command}", found.get("token") or "")


async def _wait_until_left(receive: Receive) -> None:
    message: Any = None
    while message is None or message["type"] != "http.disconnect":
        message = await receive()


@cache
def _compress_file(name: str) -> bytes:
    return gzip.compress(static_files()[name], 9, mtime=0)


async def _serve_file(scope: Scope, _receive: Receive) -> HttpAnswer:
    name = request_path(scope).removeprefix("/static/")
    found = static_files().get(name)
    if found is None:
        raise HttpProblem(NOT_FOUND, "not_found", "There is no such file.")
    headers = {"cache-control": f"public, max-age={_YEAR}, immutable"}
    if "gzip" in request_facts(scope).headers.get("accept-encoding", ""):
        found, headers = (
            _compress_file(name),
            headers | {"content-encoding": "gzip", "vary": "accept-encoding"},
        )
    return HttpAnswer(200, found, headers, MEDIA_TYPES[f".{name.rpartition('.')[2]}"])
