"""How the body of a request arrives, or does not."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from remand.interfaces.http import routes
from remand.interfaces.http.problems import HttpProblem


def read(parts: Iterable[bytes], pause: float, slowest: int) -> bytes:
    """What is read of a body whose parts come so many seconds apart."""
    left = list(parts)

    async def receive() -> Any:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return asyncio.run(routes.read_body(receive, {}, seconds=5.0, slowest=slowest))


def test_a_body_that_arrives_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "FIRST_SECONDS", 0.1)

    assert read([b"x" * 100] * 4, 0.05, slowest=1000) == b"x" * 400
    assert read([b"x"] * 8, 0.05, slowest=0) == b"x" * 8
    with pytest.raises(HttpProblem) as raised:
        read([b"x"] * 80, 0.05, slowest=1000)
    assert raised.value.status == 408
