"""A git server over HTTP on loopback, with git's own backend behind it; it keeps what it was asked with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit


class GitServer(ThreadingHTTPServer):
    """Serves the bare repositories of a folder to whoever has the word; asks others for it."""

    daemon_threads = True

    def __init__(self, folder: Path, word: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.word = folder, word
        self.authorizations: list[str] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: GitServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the standard library has it
        """Says nothing."""

    def do_GET(self) -> None:
        """Hands the request on to git."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.paths.append(self.path)
        given = self.headers.get("authorization", "")
        self.server.authorizations.append(given)
        if self.server.word and given != self.server.word:
            self.send_response(401)
            self.send_header("www-authenticate", 'Basic realm="git"')
            self.send_header("content-length", "0")
            self.end_headers()
            return
        head, _, content = self._backend(body).partition(b"\r\n\r\n")
        rows = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((value for name, value in rows if name == "Status"), "200 OK")
        self.send_response(int(status.split()[0]))
        for name, value in rows:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - as the standard library has it

    def _backend(self, body: bytes) -> bytes:
        parts = urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "somebody",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
        )
        return done.stdout


@contextmanager
def git_server(folder: Path, word: str = "") -> Iterator[GitServer]:
    """A server that runs for as long as it is needed."""
    server = GitServer(folder, word)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
