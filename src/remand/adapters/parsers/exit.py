"""The exit status alone: 0 is well, anything else is one error."""

from __future__ import annotations

import re

from remand.adapters.parsers.results import last_text
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import GateFinding, Measurement, UnreadableReport

FIGURES = ("errors",)
DEFAULTS = {"max_errors": 0.0}
_NOT_STARTED = (126, 127)
"""The statuses by which shells and `env` say that they could not start a program."""
_MISSING = re.compile(
    r"(?:^|[/\\])python[\w.]*: No module named \S|^make(?:\[\d+\])?: \*\*\* .*\bError 12[67]$", re.MULTILINE
)
"""What `python -m` says of a module that is not installed (a failed import in the work reads differently), and make."""


def parse(ran: ToolOutput) -> Measurement:
    """One error when the command failed, with the last it said."""
    if ran.status == 0:
        return Measurement(figures={"errors": 0.0})
    text = last_text(ran.errors) or last_text(ran.output)
    # An error here would be excused by the same error on the base, and a check that never ran would pass.
    if ran.status in _NOT_STARTED or _MISSING.search(text):
        raise UnreadableReport(f"the command ended with status {ran.status}: a program could not be started")
    finding = GateFinding(code=f"exit status {ran.status}", text=text or "The command printed nothing.")
    return Measurement(figures={"errors": 1.0}, findings=(finding,))
