"""The exit status alone."""

from remand.app.gates.ports import Ran
from tests.unit.adapters.parsers.recorded import parse


def test_a_command_that_succeeds_has_no_errors_whatever_it_says() -> None:
    found = parse("exit", Ran(status=0, output=b"error: everything", is_cut=True))

    assert (found.figures, found.findings) == ({"errors": 0}, ())


def test_a_command_that_fails_is_one_error_with_its_last_words() -> None:
    (finding,) = parse("exit", Ran(status=3, output=b"out", errors=b"first\nlast\x1b[0m\n")).findings

    assert (finding.code, finding.text) == ("exit status 3", "first\nlast")


def test_a_command_that_fails_without_a_word_is_an_error_too() -> None:
    assert parse("exit", Ran(status=1)).findings[0].text == "The command said nothing."
