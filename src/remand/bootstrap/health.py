"""Versions of what the system stands on."""

from __future__ import annotations

import os
import tempfile

import apsw

from remand.adapters.git.repository import git
from remand.app.errors import EnvironmentFault


def sqlite_version() -> str:
    """The version of SQLite in use."""
    return apsw.sqlite_lib_version()


def git_version() -> str:
    """The version of git; empty when there is none."""
    try:
        answer = git(tempfile.gettempdir(), "--version")
    except (EnvironmentFault, OSError):
        return ""
    return os.fsdecode(answer.stdout).strip().removeprefix("git version ")
