"""An OpenID Connect provider on loopback: it logs in whom the test says, and can be made to lie."""

from __future__ import annotations

import secrets
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import msgspec
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT_ID, CLIENT_SECRET = "remand", "the client's secret"


class OpenIdServer:
    """A provider with one client, one key and one person who logs in."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.described_issuer = self.issuer
        self.key = _new_key()
        self.claims: dict[str, Any] = {
            "sub": "1234",
            "email": "lee@example.org",
            "email_verified": True,
        }
        """What the ID token says of the person."""
        self.changes: dict[str, Any] = {}
        """What the ID token says instead of the truth; None leaves a claim out."""
        self.signs_with: RSAKey | None = None
        """Another key than the one that it publishes."""
        self.algorithm = "RS256"
        self.grants: dict[str, dict[str, str]] = {}
        """What each code that was given out is for."""
        self.problems: list[str] = []
        """What was wrong with requests."""
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def rotate_key(self) -> None:
        """Has another key from now on."""
        self.key = _new_key()

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.described_issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def keys(self) -> dict[str, Any]:
        return dict(KeySet([self.key]).as_dict(private=False))

    def authorize(self, query: dict[str, str]) -> str:
        """Logs the person in at once; gives the address that the browser is sent back to."""
        expected = {"client_id": CLIENT_ID, "response_type": "code", "code_challenge_method": "S256"}
        wrong = [name for name, value in expected.items() if query.get(name) != value]
        wrong += [
            name for name in ("state", "nonce", "code_challenge", "redirect_uri") if not query.get(name)
        ]
        if wrong or "openid" not in query.get("scope", "").split():
            self.problems.append(f"the request has no good {', '.join(wrong) or 'scope'}")
        code = secrets.token_urlsafe(16)
        self.grants[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """The answer to a code, which works once; None when it is refused."""
        grant = self.grants.pop(form.get("code", ""), None)
        challenge = _challenge(form.get("code_verifier", ""))
        if (
            grant is None
            or form.get("redirect_uri") != grant["redirect_uri"]
            or challenge != grant["code_challenge"]
            or _basic(authorization) != (CLIENT_ID, CLIENT_SECRET)
        ):
            return None
        return {"access_token": "x", "token_type": "Bearer", "id_token": self._id_token(grant["nonce"])}

    def _id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        claims = {**claims, **self.claims, **self.changes}
        said = {name: value for name, value in claims.items() if value is not None}
        key = self.signs_with or self.key
        header = {"alg": self.algorithm, "kid": self.key.kid}
        if self.algorithm == "none":
            return f"{_part(header)}.{_part(said)}."
        return jwt.encode(header, said, key, algorithms=[self.algorithm])


def _part(value: object) -> str:
    return urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def _new_key() -> RSAKey:
    return RSAKey.generate_key(
        2048, {"kid": secrets.token_hex(4), "use": "sig", "alg": "RS256"}, private=True
    )


def _challenge(verifier: str) -> str:
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _basic(authorization: str) -> tuple[str, ...]:
    kind, _, text = authorization.partition(" ")
    return tuple(map(unquote, b64decode(text).decode().split(":"))) if kind == "Basic" else ()


def _handler_of(provider: OpenIdServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Writes nothing."""

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            if address.path == "/.well-known/openid-configuration":
                self._answer(200, provider.description())
            elif address.path == "/keys":
                self._answer(200, provider.keys())
            elif address.path == "/authorize":
                leads_to = provider.authorize(dict(parse_qsl(address.query)))
                self._answer(303, {}, {"Location": leads_to})
            else:
                self._answer(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            answer = provider.token(form, self.headers.get("Authorization", ""))
            self._answer(200 if answer else 400, answer or {"error": "invalid_grant"})

        def _answer(self, status: int, data: object, headers: dict[str, str] | None = None) -> None:
            body = msgspec.json.encode(data)
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextmanager
def run_provider() -> Iterator[OpenIdServer]:
    """A provider that runs."""
    provider = OpenIdServer()
    try:
        yield provider
    finally:
        provider.close()
