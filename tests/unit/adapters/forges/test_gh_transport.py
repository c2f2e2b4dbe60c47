"""What `gh api` is called with, and what is read of its output."""

import asyncio
from collections.abc import Sequence

import pytest

from remand.adapters.forges.transport import NOT_LOGGED_IN, GhTransport, ProgramResult, parse_printed_reply
from remand.app.forge.ports import ForgeFault, ForgeFaultKind

API = "https://api.github.com"


class Recorded:
    def __init__(self, ran: ProgramResult | None) -> None:
        self.ran, self.commands = ran, list[tuple[Sequence[str], bytes]]()

    async def run(self, command: Sequence[str], given: bytes) -> ProgramResult | None:
        self.commands.append((command, given))
        return self.ran


def sent(runner: Recorded, url: str, api: str = API, body: bytes = b"") -> Sequence[str]:
    headers = {"authorization": "token x", "user-agent": "remand", "accept": "a/b", "if-none-match": 'W/"1"'}
    asyncio.run(GhTransport(api, runner).send("GET", url, headers, body))
    return runner.commands[-1][0]


OK = ProgramResult(0, b'HTTP/2.0 200 OK\nEtag: W/"1"\nContent-Type: application/json; charset=utf-8\n\n[1]')


def test_a_request_is_made_with_its_own_headers_and_the_token_left_to_gh() -> None:
    command = sent(Recorded(OK), f"{API}/repos/o/r/pulls?state=all&page=2")

    assert command[:4] == ["gh", "api", "repos/o/r/pulls?state=all&page=2", "--include"]
    assert list(command[4:8]) == ["--method", "GET", "--hostname", "github.com"]
    assert command[8:] == ["--header", "accept: a/b", "--header", 'if-none-match: W/"1"']


def test_graphql_goes_to_the_host_s_own_place_with_its_question_on_the_input() -> None:
    runner = Recorded(OK)
    command = sent(runner, "https://git.example/api/graphql", "https://git.example/api/v3", b"{}")

    assert command[2] == "graphql"
    assert "git.example" in command
    assert command[-2:] == ["--input", "-"]
    assert runner.commands[-1][1] == b"{}"


def test_another_host_is_not_asked() -> None:
    with pytest.raises(ForgeFault) as raised:
        sent(Recorded(OK), "https://thief.example/repos/o/r/pulls")

    assert raised.value.trouble is ForgeFaultKind.GARBLED


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_status_headers_and_body_are_read_from_what_is_printed(newline: bytes) -> None:
    head = [b"HTTP/2.0 304 Not Modified", b'Etag: W/"1"', b"X-Ratelimit-Used: 7", b"", b""]
    reply = parse_printed_reply(newline.join(head) + b'{"a": "1\r\n\r\n2"}')

    assert reply.status == 304
    assert reply.headers == {"etag": 'W/"1"', "x-ratelimit-used": "7"}
    assert reply.body.endswith(b'2"}')


@pytest.mark.parametrize("output", [b"", b"gh: not found", b"HTTP/2.0", b"HTTP/2.0 abc\n\n", b"\xff\xfe\n\n"])
def test_output_that_is_no_answer_is_a_fault(output: bytes) -> None:
    with pytest.raises(ForgeFault) as raised:
        parse_printed_reply(output)

    assert raised.value.trouble is ForgeFaultKind.UNREACHABLE


@pytest.mark.parametrize(
    ("ran", "trouble"),
    [(None, ForgeFaultKind.UNREACHABLE), (ProgramResult(NOT_LOGGED_IN, b""), ForgeFaultKind.DENIED)],
)
def test_a_program_that_cannot_answer_is_a_fault(ran: ProgramResult | None, trouble: ForgeFaultKind) -> None:
    with pytest.raises(ForgeFault) as raised:
        sent(Recorded(ran), f"{API}/x")

    assert raised.value.trouble is trouble
