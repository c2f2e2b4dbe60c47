"""One thing the doctor has looked at."""

from __future__ import annotations

from typing import NamedTuple


class Check(NamedTuple):
    """How something is, and what to do when it is not well."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
