"""Holds that a contract's assertion about errors can fail."""

import pytest

from remand.testing.builders import assert_raises


def test_the_error_that_is_named_is_taken() -> None:
    with assert_raises(ZeroDivisionError):
        raise ZeroDivisionError


def test_a_block_without_an_error_fails() -> None:
    with (
        pytest.raises(AssertionError, match="no ZeroDivisionError was raised"),
        assert_raises(ZeroDivisionError),
    ):
        pass


def test_another_error_is_not_taken() -> None:
    with pytest.raises(KeyError), assert_raises(ZeroDivisionError):
        raise KeyError
