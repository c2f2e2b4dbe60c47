"""What gates are measured with, put together; loaded when something has to be measured."""

from __future__ import annotations

import os
from collections.abc import Callable

from remand.adapters.git.checkouts import best_checkouts
from remand.adapters.git.mirror import GitMirror
from remand.adapters.measuring.cache import FileCache
from remand.adapters.measuring.reports import FileReports
from remand.adapters.measuring.tools import SystemTools, standard_path
from remand.adapters.sandbox import choose
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.app.errors import EnvironmentFault
from remand.app.gates.known import Judged, Terms
from remand.app.gates.measuring import Measuring
from remand.app.gates.workshop import Workshop
from remand.bootstrap import parsers
from remand.bootstrap.quick import Place


def furnished(
    place: Place, folder: str, mirror: GitMirror, tree: Callable[[str], str], cache: FileCache
) -> Workshop:
    """The workshop of a ledger, its checkouts and sandbox tried out."""
    return Workshop(
        mirror=mirror,
        tree=tree,
        checkouts=best_checkouts(mirror, os.path.join(folder, "checkouts")),
        sandbox=choose.best(),
        parser=parsers.parser,
        cache=cache,
        tools=SystemTools(),
        reports=FileReports(os.path.join(folder, "reports")),
        prepared=os.path.join(folder, "prepared"),
        root=place.root,
        path=standard_path(),
        hide=(place.got, state_folder(), runtime_folder()),
    )


def measured(workshop: Workshop, terms: Terms) -> Judged:
    """Measures a commit, once every gate is known to be one that can be."""
    for gate in terms.policy.gates or ():
        fault = parsers.fault(gate)
        if fault:
            raise EnvironmentFault(f"remand.toml: {fault}")
    return Measuring(workshop, terms.policy).verdict(terms)
