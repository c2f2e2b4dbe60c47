"""Log-in through an OpenID Connect provider: Authorization Code with PKCE, and a verified ID token."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from authlib.integrations.base_client import OAuthError  # type: ignore[import-untyped]  # it comes without types
from authlib.integrations.httpx_client import OAuth2Client  # type: ignore[import-untyped]  # as above
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from remand.app.errors import EnvironmentFault
from remand.app.tokens import LogInAttempt
from remand.domain.access.tokens import OpenIdAccount

SECONDS = 10.0
MAX_ANSWER = 1 << 20
KEEP_SECONDS = 3600.0
"""How long the provider's description and keys are cached."""
LEEWAY_SECONDS = 60
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
"""The accepted signature algorithms of an ID token: only with keys that the provider alone has."""
SCOPE = "openid email"
_FAILED = "The log-in through {issuer} failed: {why}."


class ProviderDescription(msgspec.Struct, frozen=True):
    """The parts of a provider's discovery document that are used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class OpenIdProvider:
    """The OpenID provider that the base's configuration names. Every failure is an `EnvironmentFault` without secrets."""

    def __init__(self, issuer: str, client_id: str, client_secret: str = "") -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._lock = threading.Lock()
        self._description: ProviderDescription | None = None
        self._keys: KeySet | None = None
        self._read_at = float("-inf")

    def authorization_url(self, attempt: LogInAttempt) -> str:
        with self._client(attempt.redirect_uri) as client:
            url, _ = client.create_authorization_url(
                self._current().authorization_endpoint,
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
                response_type="code",
            )
        return str(url)

    def account(self, code: str, attempt: LogInAttempt) -> OpenIdAccount:
        try:
            with self._client(attempt.redirect_uri) as client:
                answer = client.fetch_token(
                    self._current().token_endpoint,
                    code=code,
                    code_verifier=attempt.verifier,
                    grant_type="authorization_code",
                )
        except (OAuthError, httpx2.HTTPError, ValueError) as error:
            raise self._fault(f"the code was not accepted ({type(error).__name__})") from None
        text = answer.get("id_token") if isinstance(answer, Mapping) else None
        if not isinstance(text, str) or len(text) > MAX_ANSWER:
            raise self._fault("the answer has no ID token")
        return self._verified_account(text, attempt.nonce)

    def _client(self, redirect_uri: str) -> OAuth2Client:
        return OAuth2Client(
            client_id=self._client_id,
            client_secret=self._client_secret or None,
            token_endpoint_auth_method="client_secret_basic" if self._client_secret else "none",
            scope=SCOPE,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            timeout=SECONDS,
            follow_redirects=False,
        )

    def _verified_account(self, text: str, nonce: str) -> OpenIdAccount:
        claims = self._claims(text)
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        is_ours = self._client_id in audiences and (
            len(audiences) == 1 or claims.get("azp") == self._client_id
        )
        if claims.get("iss") != self._issuer or not is_ours or claims.get("nonce") != nonce:
            raise self._fault("the ID token is for another issuer, client or log-in")
        subject, email = claims.get("sub"), claims.get("email")
        if not isinstance(subject, str) or not subject:
            raise self._fault("the ID token names nobody")
        is_verified = claims.get("email_verified") is True and isinstance(email, str)
        return OpenIdAccount(subject=subject, email=str(email) if is_verified else "")

    def _claims(self, text: str) -> dict[str, Any]:
        """The claims of an ID token with valid signature and times. For an unknown key, reads the keys again once."""
        for is_last in (False, True):
            self._current()
            try:
                token = jwt.decode(text, self._keys or KeySet([]), algorithms=ALGORITHMS)
                jwt.JWTClaimsRegistry(
                    leeway=LEEWAY_SECONDS, exp={"essential": True}, iat={"essential": True}
                ).validate(token.claims)
            except (JoseError, ValueError) as error:
                if is_last or not self._may_read_again():
                    raise self._fault(f"the ID token is not valid ({type(error).__name__})") from None
            else:
                return dict(token.claims)
        raise AssertionError("the last try returns or raises")

    def _may_read_again(self) -> bool:
        """True at most once a minute, because anybody can send a token with an unknown key."""
        with self._lock:
            is_old = time.monotonic() - self._read_at > LEEWAY_SECONDS
            self._read_at = float("-inf") if is_old else self._read_at
            return is_old

    def _current(self) -> ProviderDescription:
        """The provider's description, refreshed now and then."""
        with self._lock:
            if self._description is None or time.monotonic() - self._read_at > KEEP_SECONDS:
                found = self._get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
                try:
                    description = msgspec.convert(found, ProviderDescription)
                    addresses = (
                        description.authorization_endpoint,
                        description.token_endpoint,
                        description.jwks_uri,
                    )
                    is_usable = description.issuer == self._issuer and all(map(is_private_address, addresses))
                    self._keys = KeySet.import_key_set(self._get(description.jwks_uri)) if is_usable else None
                except (msgspec.MsgspecError, JoseError, ValueError, TypeError, KeyError):
                    is_usable = False
                if not is_usable:
                    raise self._fault("its description cannot be used, or is of another issuer")
                self._description, self._read_at = description, time.monotonic()
            return self._description

    def _get(self, url: str) -> Any:
        """Fetches a JSON document from the provider."""
        try:
            with (
                httpx2.Client(timeout=SECONDS, follow_redirects=False) as client,
                client.stream("GET", url, headers={"accept": "application/json"}) as answer,
            ):
                body = b""
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > MAX_ANSWER:
                        raise self._fault("its answer is too long")
                if answer.status_code != httpx2.codes.OK:
                    raise self._fault(f"{urlsplit(url).path} answers {answer.status_code}")
                return msgspec.json.decode(body)
        except (httpx2.HTTPError, msgspec.MsgspecError) as error:
            raise self._fault(f"it does not answer ({type(error).__name__})") from None

    def _fault(self, why: str) -> EnvironmentFault:
        return EnvironmentFault(_FAILED.format(issuer=self._issuer, why=why))


def is_private_address(url: str) -> bool:
    """True for an address whose traffic nobody can read: https, or this machine."""
    parts = urlsplit(url)
    is_here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_here))
