"""A TCP proxy on loopback whose link can be cut and healed: what was under way is lost, and nobody gets through."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class CutProxy:
    """Forwards connections to a port while its link is whole."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        # A server on loopback answers to no name but its own.
        self._names = (f"Host: 127.0.0.1:{self.port}".encode(), f"Host: 127.0.0.1:{port}".encode())
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def heal(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.socket() as server:
            with self._lock:
                if self._is_cut:
                    return
                self._open |= {client, server}
            with suppress(OSError):
                server.connect(("127.0.0.1", self._target))
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server, self._names)
                back.join()
            with self._lock:
                self._open -= {client, server}


def _pump(source: socket.socket, target: socket.socket, names: tuple[bytes, bytes] = (b" ", b" ")) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part.replace(*names))
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
