"""The assertions of the contract suites that need more than `assert`, without a test runner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def assert_raises(kind: type[Exception]) -> Iterator[None]:
    """Fails unless the block ends in this error."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")
