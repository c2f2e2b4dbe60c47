"""What a command left to be read: its report or its output, whole, in UTF-8 and of a bearable size."""

from __future__ import annotations

import io
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator

from remand.app.gates.ports import Ran
from remand.domain.gates.figures import Unreadable

MAX_BYTES = 64 << 20
MAX_LINE = 20_000


def report(ran: Ran) -> bytes:
    """The report file's content; without one nothing was measured, whatever the exit status says."""
    if ran.report is None:
        raise Unreadable(
            f"the command ended with status {ran.status} and left no report that can be read;"
            " it has to write one to {report}"
        )
    return _bearable(ran.report, "report")


def said(ran: Ran) -> bytes:
    """The report, and where the command left none, all it printed."""
    return printed(ran) if ran.report is None else report(ran)


def printed(ran: Ran) -> bytes:
    """All the command printed, which must not have been cut."""
    _require_whole(ran)
    return _bearable(ran.output, "output")


def complained(ran: Ran) -> bytes:
    """All the command printed as errors, which must not have been cut."""
    _require_whole(ran)
    return _bearable(ran.errors, "error output")


def lines(content: bytes) -> Iterator[str]:
    """The lines of a text; of a very long one the beginning."""
    for line in io.BytesIO(content):
        yield line[:MAX_LINE].decode("utf-8", "replace").rstrip("\r\n")


def require_known_status(ran: Ran, tool: str, known: range) -> None:
    """Raises when the tool's own exit status says that it could not do its work."""
    if ran.status not in known:
        raise Unreadable(f"{tool} ended with status {ran.status}, which says that it could not do its work")


def require_complaint(ran: Ran, tool: str, complaints: int) -> None:
    """Raises when the command failed and nothing it left behind says why."""
    if ran.status != 0 and not complaints:
        raise Unreadable(f"{tool} ended with status {ran.status}, but nothing that it reports explains why")


def _require_whole(ran: Ran) -> None:
    if ran.is_cut:
        raise Unreadable(
            "the command printed more than is kept; let it print less, or write to {report} where it can"
        )


def _bearable(content: bytes, what: str) -> bytes:
    if len(content) > MAX_BYTES:
        raise Unreadable(f"the {what} has {len(content)} bytes; at most {MAX_BYTES} are read")
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return content.decode("utf-16", "replace").encode("utf-8", "replace")
    return content.removeprefix(BOM_UTF8)
