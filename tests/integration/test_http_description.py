"""The OpenAPI document holds: whatever is sent, the answer is one that it names, and never a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from remand.interfaces.http.routes import document
from tests.integration.http_client import RunningServer, run_server
from tests.integration.machine import Machine

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TEAM = """
[team]
members = [{name = "Alice", role = "agent"}, {name = "Lead", role = "lead"}]
[gates]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    machine = Machine()
    repository = machine.repository(config=TEAM)
    for title in ("First", "Second"):
        repository.add(title)
    with run_server(repository) as started:
        yield started
    machine.close()


@pytest.mark.parametrize(
    "mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fits", "does not fit"]
)
def test_every_answer_is_one_that_the_document_names(
    server: RunningServer, mode: GenerationMode, campaign: Callable[[int, int], int]
) -> None:
    wrong = []
    for found in schemathesis.openapi.from_dict(document()).get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=campaign(2, 300),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: schemathesis.Case) -> None:
            headers = server.headers
            if case.path in ("/api/login", "/api/logout"):
                headers = {"host": headers["host"]}  # the others need the session
            reply = case.call(base_url=server.address["url"], headers=headers)
            # Without a forge there is none to ask, which the command line calls a fault of its environment.
            checks = CHECKS[1:] if case.path in ("/api/sync", "/api/task/import") else CHECKS
            case.validate_response(reply, checks=checks, headers=headers)

        try:
            send()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - all of them are told at the end
            wrong.append(f"{operation.label}: {str(error)[:600]}")
    assert not wrong, "\n".join(wrong)
    assert server.process.poll() is None
