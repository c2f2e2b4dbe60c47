"""The routes for hosts and workers: upload and download of commits, and the questions that a host's scheduler asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import parse_qs

import msgspec
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope

from remand.app.errors import UsageError
from remand.app.scheduler.host_calls import HostAnswer, HostQuestion, answer_question
from remand.app.settings import SettingsSource
from remand.app.tasks.lookup import resolve_handoff_id, resolve_task_id, task_of_handoff
from remand.config import inherited_environment
from remand.domain.access.tokens import Caller, require_call, require_held_task
from remand.domain.refusals import require_task
from remand.domain.task import Task
from remand.interfaces.http.authentication import request_facts
from remand.interfaces.http.calls import TRANSFERS
from remand.interfaces.http.problems import UNAVAILABLE, HttpProblem
from remand.interfaces.http.routes import HttpAnswer, ServerContext, make_route, read_body
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.scheduler import hosted_runs, scheduler_ledger
from remand.wiring.startup import LedgerLocation, remote, repository

UPLOAD, FETCH = "commit upload", "commit fetch"
SCHEDULE = "run members"
"""The name of this right in the access table."""
UPLOAD_SECONDS = 600.0
SLOWEST_UPLOAD = 16 << 10
"""The slowest accepted upload in bytes per second: a slower one would occupy a slot that others wait for."""
MAX_UPLOADS = 4
"""How many packs are received at once, as each is held in memory; one per token."""
MAX_KNOWN = 50
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class OfferedCommit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A commit that a host is about to submit."""

    commit: str
    kind: Literal["task", "handoff"] = "task"
    name: str = ""
    """The task or handoff, by any of its names; empty for a commit that belongs to neither."""
    is_pushed: bool = False
    """Whether the host has pushed it to the project's remote."""


_decode_offer = msgspec.json.Decoder(OfferedCommit).decode
_decode_question = msgspec.json.Decoder(HostQuestion).decode


def commit_routes(context: ServerContext) -> list[ASGIRouteHandler]:
    """The routes for uploading and downloading commits."""
    senders: set[str] = set()

    async def offer(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        headers, caller = facts.headers, await context.authenticator.caller(facts)
        require_call(caller, UPLOAD)
        try:
            offered = _decode_offer(await read_body(receive, headers))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"The body does not fit: {error}.") from None
        _require_id(offered.commit)
        answered = await context.runner.in_thread(
            lambda opened: _offer(opened, caller, offered), is_long=True, group=TRANSFERS, caller=caller
        )
        return HttpAnswer(200, msgspec.json.encode(answered))

    async def upload(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        headers, caller = facts.headers, await context.authenticator.caller(facts)
        require_call(caller, UPLOAD)
        name, commit, _ = _query(scope)
        await context.runner.in_thread(
            lambda opened: _own_task(opened, caller, "task", name), is_long=False, caller=caller
        )
        with _place(senders, caller):
            pack = await read_body(receive, headers, remote.MAX_PACK, UPLOAD_SECONDS, SLOWEST_UPLOAD)
            await context.runner.in_thread(
                lambda opened: _receive(opened, caller, name, commit, pack),
                is_long=True,
                group=TRANSFERS,
                caller=caller,
            )
        return HttpAnswer(200, b'{"is_there": true}')

    async def fetch(scope: Scope, _receive: Receive) -> HttpAnswer:
        caller = await context.authenticator.caller(request_facts(scope))
        require_call(caller, FETCH)
        _, commit, known = _query(scope)
        pack = await context.runner.in_thread(
            lambda opened: remote.pack_commit(opened.place, commit, known),
            is_long=True,
            group=TRANSFERS,
            caller=caller,
        )
        return HttpAnswer(200, pack, media_type="application/octet-stream")

    return [
        make_route(context, "/api/commits", "POST", offer),
        make_route(context, "/api/commits/upload", "POST", upload),
        make_route(context, "/api/commits/fetch", "GET", fetch),
    ]


@contextmanager
def _place(senders: set[str], caller: Caller) -> Iterator[None]:
    """Reserves one of the upload slots for the caller. Raises `HttpProblem` if there is none."""
    name = caller.token_id or caller.member
    if name in senders or len(senders) >= MAX_UPLOADS:
        whose = "Another upload of yours is" if name in senders else "Too many uploads are"
        raise HttpProblem(UNAVAILABLE, "unavailable", f"{whose} under way.", {"retry-after": "2"})
    senders.add(name)
    try:
        yield
    finally:
        senders.discard(name)


def base_refresh(place: LedgerLocation) -> Callable[[], None]:
    """A function that fetches the base branch into the server's clone, for `CallRunner`."""
    settings = SettingsSource(repository.GitRepository(place), place.root, place.common_dir)
    return remote.BaseFetcher(place, settings.base_branch, inherited_environment("REMAND_")).refresh


def _query(scope: Scope) -> tuple[str, str, list[str]]:
    """The task, the commit and the client's known commits from a query string."""
    try:
        found = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=MAX_KNOWN + 2)
    except ValueError as error:
        raise UsageError(
            f"The query cannot be read: {error}. It names {MAX_KNOWN} known commits at most."
        ) from None
    known = found.get("known", [])
    commit = found.get("commit", [""])[0]
    for one in (commit, *known):
        _require_id(one)
    return found.get("task", [""])[0], commit, known


def _require_id(commit: str) -> None:
    if not _COMMIT.fullmatch(commit):
        raise UsageError("Name each commit by its full id.")


def _offer(opened: OpenLedger, caller: Caller, offered: OfferedCommit) -> dict[str, object]:
    """Whether the server has a commit or could fetch it, and the commits that a pack can omit."""
    task = _own_task(opened, caller, offered.kind, offered.name)
    store, commit = opened.submissions, offered.commit
    is_there = store.has(commit) or store.take_shared(commit)
    if not is_there and offered.is_pushed:
        is_there = not store.fetch(task.id if task else "", commit)
    return {"task_id": task.id if task else "", "is_there": is_there, "known": _known_commits(opened, task)}


def _receive(opened: OpenLedger, caller: Caller, name: str, commit: str, pack: bytes) -> None:
    task = _own_task(opened, caller, "task", name)
    store, task_id = opened.submissions, task.id if task else ""
    store.receive(task_id, commit, pack, _known_commits(opened, task))
    base = task.claim.base if task and task.claim else opened.settings.rules().base
    store.share(task_id, commit, base)


def _own_task(opened: OpenLedger, caller: Caller, kind: str, name: str) -> Task | None:
    """The task that a commit is for; refuses a task that the caller does not hold."""
    opened.ledger.refresh()
    with opened.store.read() as view:
        if kind == "handoff":
            task_id = task_of_handoff(view, resolve_handoff_id(view, name))
        else:
            task_id = resolve_task_id(view, name) if name else ""
        task = view.tasks.get(task_id) if task_id else None
    if name:
        task = require_task(task, name)
    require_held_task(caller, task.id if task else "no task", task.claim.agent if task and task.claim else "")
    return task


def _known_commits(opened: OpenLedger, task: Task | None) -> list[str]:
    """Commits that the server has and the host probably has as well."""
    found = [opened.settings.rules().base]
    if task is not None:
        found += [task.claim.base if task.claim else "", task.submission.commit if task.submission else ""]
    return [commit for commit in dict.fromkeys(found) if commit]


def scheduler_routes(context: ServerContext) -> list[ASGIRouteHandler]:
    """The route for a host's scheduler."""

    async def answer(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        caller = await context.authenticator.caller(facts)
        require_call(caller, SCHEDULE)
        try:
            question = _decode_question(await read_body(receive, facts.headers))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"The body does not fit: {error}.") from None
        # A reviewer's prompt contains the whole change, which git may take long to read.
        answered = await context.runner.in_thread(
            lambda opened: _answer_host(opened, caller, question),
            is_long=bool(question.run_id),
            caller=caller,
        )
        return HttpAnswer(200, msgspec.json.encode(answered))

    return [make_route(context, "/api/scheduler", "POST", answer)]


def _answer_host(opened: OpenLedger, caller: Caller, question: HostQuestion) -> HostAnswer:
    opened.ledger.refresh()
    return answer_question(scheduler_ledger(opened), hosted_runs(opened), caller, question)
