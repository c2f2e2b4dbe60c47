"""The agent hosts, as their hooks are answered. Loads nothing heavy."""

from __future__ import annotations

from remand.adapters.hosts import checks
from remand.adapters.hosts.host import READERS
from remand.adapters.hosts.table import guarded_files, load_host, server_files, settings_files

__all__ = ["READERS", "checks", "guarded_files", "load_host", "server_files", "settings_files"]
