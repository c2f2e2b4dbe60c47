"""The tables of services: `[forge]`, where reviews happen, and `[server]`, where the team finds the ledger and logs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from remand.config.values import NAME, ConfigError, require_known_keys, seconds, text, texts
from remand.domain.record import Record
from remand.domain.text.words import word_list
from remand.startup import lazy_pattern

if TYPE_CHECKING:
    from urllib.parse import SplitResult

from remand.config.values import count, table

KINDS = ("github", "gitea", "gitlab")
TOKENS = {"github": "GITHUB_TOKEN", "gitea": "GITEA_TOKEN", "gitlab": "GITLAB_TOKEN"}
"""The environment variable with the token of each kind of forge."""
REPORTS = ("status", "review", "comment")
SOURCES = ("writers", "anyone")
LABEL = "remand"
"""The default label of issues that become tasks."""
_KEYS = word_list("kind repository api report interval remote import_label import_from")
_PART = r"[A-Za-z0-9_.-]+"
_REPOSITORIES = {
    "github": (lazy_pattern(f"{_PART}/{_PART}"), '"owner/name"'),
    "gitea": (lazy_pattern(f"{_PART}/{_PART}"), '"owner/name"'),
    "gitlab": (lazy_pattern(f"{_PART}(?:/{_PART})+"), '"group/name"'),
}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_STANDARD = {"github": "https://api.github.com", "gitea": "", "gitlab": "https://gitlab.com"}
MIN_INTERVAL_SECONDS = 5.0
_SERVER = ("url", "calls_per_second", "oidc")
_OIDC = ("issuer", "client_id")
MAX_RATE = 100_000


class ForgeSettings(Record, kw_only=True):
    """Where reviews happen on a forge, and what may be written there. An empty kind means no forge."""

    kind: str = ""
    repository: str = ""
    api: str = ""
    report: tuple[str, ...] = ()
    """What is written there: a status on the commit, a review, comments; by default nothing."""
    interval_seconds: float = 60.0
    """How often it is polled when no webhook triggers a poll."""
    remote: str = "origin"
    """Where work is pushed to: a remote's name, or its address."""
    import_label: str = ""
    """Issues with this label become tasks; if empty, only those imported by command."""
    import_from: str = "writers"
    """Whose issues become tasks: `writers`, accounts that may write, or anyone's."""

    def find_token(self, environment: Mapping[str, str]) -> str:
        """The forge's token from the environment; empty if it has none."""
        return environment.get(TOKENS[self.kind], "").strip()

    @property
    def home(self) -> str:
        """The address of the repository's web page; empty without a forge."""
        if not self.kind:
            return ""
        parts = _split(self.api)
        host = parts.netloc.removeprefix("api.") if self.kind == "github" else parts.netloc
        return f"{parts.scheme}://{host}/{self.repository}"


def parse_forge(table: dict[str, Any]) -> ForgeSettings:
    """Parses the repository's forge."""
    if "token" in table:
        raise ConfigError(
            f"{NAME}: `forge.token` would be readable by everyone there; remove it, and set GITHUB_TOKEN, GITEA_TOKEN "
            "or GITLAB_TOKEN in the environment."
        )
    require_known_keys(table, _KEYS, "forge.")
    if not table:
        return ForgeSettings()
    kind = text(table.get("kind", "github"), "forge.kind")
    if kind not in KINDS:
        raise ConfigError(f"{NAME}: `forge.kind` is `{kind}`; use one of {', '.join(KINDS)}.")
    report = texts(table.get("report", []), "forge.report")
    wrong = next((name for name in report if name not in REPORTS), None)
    if wrong is not None:
        raise ConfigError(f"{NAME}: `forge.report` holds `{wrong}`; use any of {', '.join(REPORTS)}.")
    return ForgeSettings(
        kind=kind,
        repository=_repository(kind, text(table.get("repository", ""), "forge.repository")),
        api=_api(text(table.get("api", _STANDARD[kind]), "forge.api")),
        report=report,
        interval_seconds=_interval(table.get("interval", "60s")),
        remote=_line(table.get("remote", "origin"), "forge.remote"),
        import_label=_line(table.get("import_label", ""), "forge.import_label", may_be_empty=True),
        import_from=_source(text(table.get("import_from", "writers"), "forge.import_from")),
    )


def _line(value: Any, key: str, *, may_be_empty: bool = False) -> str:
    """A short text on one line."""
    found = text(value, key)
    if len(found) > 500 or (found and not found.isprintable()) or not (found.strip() or may_be_empty):
        raise ConfigError(f"{NAME}: `{key}` must be one short line of text.")
    return found


def _source(value: str) -> str:
    if value not in SOURCES:
        raise ConfigError(f"{NAME}: `forge.import_from` is `{value}`; use one of {', '.join(SOURCES)}.")
    return value


def _repository(kind: str, name: str) -> str:
    pattern, form = _REPOSITORIES[kind]
    if not pattern.fullmatch(name) or {".", ".."} & set(name.split("/")):
        raise ConfigError(f"{NAME}: `forge.repository` must be written {form}.")
    return name


def _interval(value: Any) -> float:
    """How often the forge is polled, within what it can bear and once a day."""
    found = seconds(value, "forge.interval")
    if not MIN_INTERVAL_SECONDS <= found <= 86400:
        raise ConfigError(f'{NAME}: `forge.interval` must be between "{MIN_INTERVAL_SECONDS:g}s" and "1d".')
    return found


def _api(address: str) -> str:
    """The server's address: encrypted, or on this machine, because the token goes along with every request."""
    try:
        parts = _split(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or not address.isprintable() or "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(f'{NAME}: `forge.api` must be an address such as "https://git.example.org/api/v1".')
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise ConfigError(
            f"{NAME}: `forge.api` must begin with https; http is allowed only for this machine."
        )
    return address.rstrip("/")


def _split(address: str) -> SplitResult:
    from urllib.parse import urlsplit  # Imported only if there is a forge.

    return urlsplit(address)


class OpenIdSettings(Record, kw_only=True):
    """The OpenID Connect provider. Its client secret comes from the environment (`REMAND_OIDC_SECRET`)."""

    issuer: str
    client_id: str


class ServerSettings(Record, kw_only=True):
    """The base's settings for the server."""

    url: str = ""
    """Its address as browsers see it; if empty, as they call it."""
    calls_per_second: int = 100
    """Rate limit of a member's token. Hosts, workers and the user have twenty times as much."""
    oidc: OpenIdSettings | None = None


def parse_server(data: dict[str, Any]) -> ServerSettings:
    """Parses the table. Raises `ConfigError`."""
    require_known_keys(data, _SERVER, "server.")
    return ServerSettings(
        url=_address(data.get("url", ""), "server.url") if "url" in data else "",
        calls_per_second=count(data.get("calls_per_second", 100), "server.calls_per_second", most=MAX_RATE),
        oidc=_openid(table(data, "oidc", "server.")) if "oidc" in data else None,
    )


def _openid(data: dict[str, Any]) -> OpenIdSettings:
    require_known_keys(data, _OIDC, "server.oidc.")
    client_id = text(data.get("client_id", ""), "server.oidc.client_id")
    if not client_id:
        raise ConfigError(f"{NAME}: `server.oidc.client_id` is missing; the provider gives one for Remand.")
    return OpenIdSettings(issuer=_address(data.get("issuer", ""), "server.oidc.issuer"), client_id=client_id)


def _address(value: Any, key: str) -> str:
    found = text(value, key)
    scheme, has_mark, rest = found.partition("://")
    host = rest.partition("/")[0]
    is_here = host.partition(":")[0] in ("localhost", "127.0.0.1") or host.startswith("[::1]")
    is_plain = found.isascii() and found.isprintable() and not set("@?#\\ ") & set(found)
    if not (has_mark and host and is_plain and (scheme == "https" or (scheme == "http" and is_here))):
        raise ConfigError(
            f"{NAME}: `{key}` must be an address with https://; http:// is for this machine alone."
        )
    return found.rstrip("/") if key == "server.url" else found
