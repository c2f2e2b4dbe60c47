"""Values as TOML writes them: in proposed gates, in changes to `remand.toml`, and in settings of agent hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: object) -> str:
    """A value on one line. Texts are escaped as in JSON, and DEL besides; raises `TypeError` for what neither format has."""
    if isinstance(value, Mapping):
        rows = (f"{_key(str(name))} = {toml_value(one)}" for name, one in value.items())
        return f"{{{', '.join(rows)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)
