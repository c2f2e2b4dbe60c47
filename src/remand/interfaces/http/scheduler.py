"""What the schedulers of hosts ask the server: the ledger's queue, tasks and runs, as far as a host's token goes."""

from __future__ import annotations

import msgspec
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope

from remand.app.errors import UsageError
from remand.app.scheduler.host_calls import HostAnswer, HostQuestion, answer_question
from remand.domain.access.tokens import Caller, require_call
from remand.interfaces.http.authentication import request_facts
from remand.interfaces.http.routes import HttpAnswer, ServerContext, make_route, read_body
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.scheduler import hosted_runs, scheduler_ledger

SCHEDULE = "run members"
"""What it is called in the table of who may call what."""
_decode = msgspec.json.Decoder(HostQuestion).decode


def scheduler_routes(context: ServerContext) -> list[ASGIRouteHandler]:
    """The one route that a host's scheduler uses."""

    async def answer(scope: Scope, receive: Receive) -> HttpAnswer:
        facts = request_facts(scope)
        caller = await context.authenticator.caller(facts)
        require_call(caller, SCHEDULE)
        try:
            question = _decode(await read_body(receive, facts.headers))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"The body does not fit: {error}.") from None
        # What a reviewer is told holds the whole change, which git may take long to read.
        answered = await context.runner.in_thread(
            lambda opened: _answer(opened, caller, question), is_long=bool(question.run_id), caller=caller
        )
        return HttpAnswer(200, msgspec.json.encode(answered))

    return [make_route(context, "/api/scheduler", "POST", answer)]


def _answer(opened: OpenLedger, caller: Caller, question: HostQuestion) -> HostAnswer:
    opened.ledger.refresh()
    return answer_question(scheduler_ledger(opened), hosted_runs(opened), caller, question)
