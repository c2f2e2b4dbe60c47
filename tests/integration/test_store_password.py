"""A database's password is refused where every process of the machine could read it."""

from __future__ import annotations

import pytest

from tests.integration.machine import Repository


@pytest.mark.parametrize(
    "words", [("serve", "--store"), ("worker", "--store"), ("log", "move", "--to")], ids=" ".join
)
@pytest.mark.parametrize(
    "address",
    ["postgresql://remand:swordfish@127.0.0.1:1/x", "postgresql://remand@127.0.0.1:1/x?pass%77ord=swordfish"],
)
def test_no_option_takes_a_password(repository: Repository, words: tuple[str, ...], address: str) -> None:
    done = repository.call(*words, address)

    assert done.code == 2, done
    assert ".pgpass" in done.data["message"]
    assert "swordfish" not in done.data["message"]
