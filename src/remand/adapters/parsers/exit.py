"""The exit status alone: 0 is well, anything else is one error."""

from __future__ import annotations

from remand.adapters.parsers.texts import shown_end
from remand.app.gates.ports import Ran
from remand.domain.gates.figures import GateFinding, Measurement

FIGURES = ("errors",)
DEFAULTS = {"max_errors": 0.0}


def parse(ran: Ran) -> Measurement:
    """One error when the command failed, with the last it said."""
    if ran.status == 0:
        return Measurement(figures={"errors": 0.0})
    text = shown_end(ran.errors) or shown_end(ran.output) or "The command said nothing."
    finding = GateFinding(code=f"exit status {ran.status}", text=text)
    return Measurement(figures={"errors": 1.0}, findings=(finding,))
