"""The second best sandbox: the kernel's own rules about files, without any program to install."""

from __future__ import annotations

from remand.adapters.sandbox.launched import Confinement, Private, run_launched
from remand.adapters.sandbox.masks import sockets
from remand.adapters.sandbox.view import Sight, view_of
from remand.app.gates.ports import Ended, Job

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


class Landlock:
    """Runs jobs under rules about files; apart in processes and network too, where namespaces are to be had."""

    tier = "landlock"

    def __init__(self, *, has_namespaces: bool, detail: str = "") -> None:
        self.detail = detail
        self._has_namespaces = has_namespaces

    def run(self, job: Job) -> Ended:
        """Runs a job to its end."""
        return run_launched(job, self._confine)

    def _confine(self, job: Job, program: str, private: Private) -> Confinement:
        view = view_of(job, program, own=(private.home, private.temporary))
        # Whole disks are devices, and root may read them.
        view.show("/dev", Sight.HIDDEN)
        for name in DEVICES:
            view.show(f"/dev/{name}", Sight.WRITE)
        return Confinement(
            has_namespaces=self._has_namespaces,
            rules=tuple((path, sight is Sight.WRITE) for path, sight in view.parts()),
            sockets=tuple(sockets()) if self._has_namespaces else (),
        )
