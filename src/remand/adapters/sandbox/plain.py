"""The last resort: limits, a clean environment and an end to everything, but nothing that a job could not get round."""

from __future__ import annotations

from remand.adapters.sandbox.launched import Confinement, Private, run_launched
from remand.app.gates.ports import Ended, Job


class Plain:
    """Runs jobs as what they are: programs of this user."""

    tier = "plain"

    def __init__(self, *, detail: str = "") -> None:
        self.detail = detail

    def run(self, job: Job) -> Ended:
        """Runs a job to its end."""
        return run_launched(job, _unconfined)


def _unconfined(job: Job, program: str, private: Private) -> Confinement:  # noqa: ARG001 - as Landlock's
    return Confinement()
