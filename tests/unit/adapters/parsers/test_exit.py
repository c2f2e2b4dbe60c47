"""The exit status alone."""

import pytest

from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import UnreadableReport
from tests.unit.adapters.parsers.recorded_runs import parse


def test_a_command_that_succeeds_has_no_errors_whatever_it_says() -> None:
    found = parse("exit", ToolOutput(status=0, output=b"error: everything", is_cut=True))

    assert (found.figures, found.findings) == ({"errors": 0}, ())


def test_a_command_that_fails_is_one_error_with_its_last_words() -> None:
    (finding,) = parse("exit", ToolOutput(status=3, output=b"out", errors=b"first\nlast\x1b[0m\n")).findings

    assert (finding.code, finding.text) == ("exit status 3", "first\nlast")


def test_a_command_that_fails_without_a_word_is_an_error_too() -> None:
    assert parse("exit", ToolOutput(status=1)).findings[0].text == "The command printed nothing."


@pytest.mark.parametrize(
    "ran",
    [
        ToolOutput(status=127, errors=b"sh: 1: checker: not found\n"),
        ToolOutput(status=126, errors=b"sh: 1: ./checker: Permission denied\n"),
        ToolOutput(status=1, errors=b"/usr/bin/python3: No module named checker\n"),
        ToolOutput(
            status=1,
            errors=b"/opt/venv/bin/python3.13: No module named checker.__main__; 'checker' is a package\n",
        ),
        ToolOutput(status=1, output=b"python: No module named checker\n"),
        ToolOutput(status=2, errors=b"make: checker: No such file\nmake: *** [Makefile:2: test] Error 127\n"),
        ToolOutput(status=2, errors=b"make[1]: *** [check] Error 126\nmake: *** [Makefile:9: all] Error 2\n"),
    ],
    ids=[
        "not found",
        "not executable",
        "no module",
        "no main module",
        "on standard output",
        "make",
        "make below make",
    ],
)
def test_a_command_whose_program_is_missing_has_measured_nothing(ran: ToolOutput) -> None:
    with pytest.raises(UnreadableReport, match="could not be started"):
        parse("exit", ran)


def test_a_module_that_the_work_itself_imports_is_an_error_of_the_work() -> None:
    said = b"Traceback (most recent call last):\nModuleNotFoundError: No module named 'checker'\n"

    assert parse("exit", ToolOutput(status=1, errors=said)).figures == {"errors": 1}
