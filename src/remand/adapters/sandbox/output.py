"""Keeps the head and the tail of what a job writes."""

from __future__ import annotations

LEFT_OUT = b"\n[... output left out here ...]\n"


class Kept:
    """What one stream said, in memory bounded by three halves of the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = bytearray()
        self._head_size = limit // 2
        self._tail = bytearray()
        self._tail_size = limit - self._head_size
        self._length = 0

    def add(self, part: bytes) -> None:
        """Takes the next bytes in."""
        self._length += len(part)
        room = self._head_size - len(self._head)
        if room:
            self._head += part[:room]
            part = part[room:]
        self._tail += part
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    @property
    def is_cut(self) -> bool:
        """True when more was said than is kept."""
        return self._length > self._limit

    def content(self) -> bytes:
        """All of it; when it is too much, its head, a line that says so, and its tail."""
        if not self.is_cut:
            return bytes(self._head + self._tail)
        room = self._tail_size - len(LEFT_OUT)
        if room <= 0:
            return bytes(self._head)
        return bytes(self._head) + LEFT_OUT + bytes(self._tail[-room:])
