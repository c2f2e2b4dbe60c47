"""Which programs the gates would run, where they are, and how the user of this machine reaches package registries."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

import msgspec

from remand.adapters.system.files import atomic_write
from remand.app.gates.ports import RegistrySettings
from remand.domain.record import Record
from remand.startup import lazy_pattern

_NOTE = "user.json"
_VARIABLES = lazy_pattern(
    r"(?:https?|no|all)_proxy|(?:HTTPS?|NO|ALL)_PROXY|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
    r"|GIT_SSL_CAINFO|PIP_[A-Z_]+|UV_[A-Z0-9_]+|(?:npm|NPM)_(?:config|CONFIG)_\w+|NPM_TOKEN|NODE_AUTH_TOKEN|YARN_[A-Z_]+"
    r"|GO(?:PROXY|PRIVATE|NOPROXY|NOSUMDB|SUMDB|INSECURE|VCS)|CARGO_(?:HTTP|NET|REGISTRIES|REGISTRY)_[A-Z0-9_]+"
)
"""Variables that configure certificates, proxies and registries."""
_FILES = {
    "PIP_CONFIG_FILE": (".config/pip/pip.conf", ".pip/pip.conf"),
    "NPM_CONFIG_USERCONFIG": (".npmrc",),
    "UV_CONFIG_FILE": (".config/uv/uv.toml",),
    "GOENV": (".config/go/env",),
}
"""Settings files in a home folder, each with the variable that overrides its path."""
_HARMFUL = lazy_pattern(r"\w+_(?:CACHE\w*|TARGET|PREFIX|USER|PROJECT_ENVIRONMENT|ENV_FILE)", re.IGNORECASE)
"""Variables that name output locations on the user's machine: they could only break a step."""
_PUBLISHING = lazy_pattern(
    r"\w+_PUBLISH_\w+|CARGO_REGISTRY_TOKEN|CARGO_REGISTRIES_CRATES_IO_TOKEN|npm_config_otp", re.IGNORECASE
)
"""Variables that are needed only to publish packages, never to install them."""
_CERTIFICATE_FILE = lazy_pattern(
    r"SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|GIT_SSL_CAINFO|PIP_CERT|npm_config_cafile"
    r"|YARN_HTTPS_CA_FILE_PATH|CARGO_HTTP_CAINFO",
    re.IGNORECASE,
)
_WITHOUT_SECRETS = lazy_pattern(
    r"(?:https?|no|all)_proxy|SSL_CERT_DIR|UV_(?:SYSTEM_CERTS|NATIVE_TLS|HTTP_TIMEOUT|INDEX_STRATEGY|INSECURE_HOST)"
    r"|(?:PIP|UV)_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX)|PIP_(?:TRUSTED_HOST|PROXY|TIMEOUT|RETRIES)"
    r"|UV_(?:DEFAULT_)?INDEX|npm_config_(?:ca|registry|proxy|https?_proxy|noproxy|strict_ssl)"
    r"|YARN_(?:REGISTRY|NPM_REGISTRY_SERVER|HTTPS?_PROXY)|GO(?:PROXY|PRIVATE|NOPROXY|NOSUMDB|SUMDB|INSECURE)"
    r"|CARGO_HTTP_(?:PROXY|TIMEOUT)|CARGO_NET_RETRY|CARGO_REGISTRIES_\w+_INDEX",
    re.IGNORECASE,
)
"""The subset that a step controlled by a branch receives, besides certificates and settings files."""
_KEYS_WITHOUT_SECRETS = lazy_pattern(
    r"(?:@[\w.-]+:)?registry|(?:extra-)?index-url|index-strategy|index|name|url|default|explicit|find-links|no-index"
    r"|trusted-host|allow-insecure-host|timeout|retries|(?:https?-)?proxy|no-?proxy|cafile|ca(?:\[\])?|cert|strict-ssl"
    r"|native-tls|system-certs|go(?:proxy|private|noproxy|nosumdb|sumdb|insecure)"
)
"""The same for the keys of settings files."""
_KEY = lazy_pattern(r"""\s*["']?([^\s="'\[{]+(?:\[\])?)["']?\s*=""")
_SECTION = lazy_pattern(r"\[+[\w.-]+\]+\s*$")
_MORE_VALUES = lazy_pattern(r"""\s*["'\]{}]|\s+(?:\[|/|\w+://|[\w.*-]+(?::\d+)?\s*$)""")
_COMMENT = lazy_pattern(r"\s[#;].*")
_URL_USER = lazy_pattern(r"""(?:(?<=://)|(?<![^\s=,|"'\[])(?=[^"'\[]))[^/\s]*@""")
"""Greedy because a password may contain `@`; a proxy's address may lack a scheme."""
_CERTIFICATE = lazy_pattern(r"-----BEGIN (?:\w+ )?CERTIFICATE-----[^-]*-----END (?:\w+ )?CERTIFICATE-----")
_PRIVATE_KEY = lazy_pattern(r"-----BEGIN [^-]*PRIVATE KEY.*?-----END [^-]*-----", re.DOTALL)
_MAX_FILE = 1 << 20


class UserSettings(Record, kw_only=True):
    """What `remand init` recorded about the user who called it: where programs are, and how registries are reached."""

    path: tuple[str, ...] = ()
    variables: dict[str, str] = msgspec.field(default_factory=dict)


def note_user_settings(folder: str, environment: Mapping[str, str], root: str) -> UserSettings:
    """Records the user's PATH and registry settings in a folder of this machine, except paths inside the project."""
    home, own = os.path.expanduser("~"), os.path.join(os.path.realpath(root), "")
    variables = {
        name: value
        for name, value in environment.items()
        if value and _VARIABLES.fullmatch(name) and not _PUBLISHING.fullmatch(name)
    }
    for name, places in _FILES.items():
        found = next((path for place in places if os.path.isfile(path := os.path.join(home, place))), "")
        if found:
            variables.setdefault(name, found)
    folders = (
        os.path.realpath(name)
        for name in environment.get("PATH", "").split(os.pathsep)
        if os.path.isabs(name)
    )
    real = (
        place for name in dict.fromkeys(folders) for place in (*_behind_shims(name, environment, root), name)
    )
    kept = tuple(name for name in dict.fromkeys(real) if _is_private(name) and not f"{name}/".startswith(own))
    settings = UserSettings(path=kept, variables=variables)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    atomic_write(os.path.join(folder, _NOTE), msgspec.json.encode(settings), mode=0o600)
    return settings


_SHIM_FOLDER = lazy_pattern(r".*/(?:shims|\.volta/bin)")
"""Where volta, asdf, mise, pyenv and nodenv put shims, which look up in the home folder which version to run."""
_REAL_PROGRAMS = {
    "node": ("-p", "process.execPath"),
    "python3": ("-c", "import sys; print(sys.executable)"),
    "go": ("env", "GOROOT"),
}
"""The arguments that make a program print its real path."""
_SHIM_SECONDS = 10.0


def _behind_shims(folder: str, environment: Mapping[str, str], root: str) -> Iterator[str]:
    """The folders of the programs behind shims, in the versions that the user chose; gates do not see the home folder."""
    if not _SHIM_FOLDER.fullmatch(folder):
        return
    for name, words in _REAL_PROGRAMS.items():
        program = os.path.join(folder, name)
        if not os.access(program, os.X_OK):
            continue
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [program, *words],
                env=dict(environment),
                cwd=root,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SHIM_SECONDS,
                check=False,
            )
            found = done.stdout.strip()
            place = os.path.join(found, "bin") if name == "go" else os.path.dirname(os.path.realpath(found))
            if not done.returncode and os.path.isabs(found) and os.path.isdir(place):
                yield place


def _is_private(folder: str) -> bool:
    """True for a folder that not every user can write to."""
    try:
        status = os.stat(folder)
    except OSError:
        return False
    return os.path.isdir(folder) and not status.st_mode & 0o002


def read_user_settings(folder: str) -> UserSettings:
    """The recorded settings; empty if `remand init` has not been called on this machine."""
    try:
        with open(os.path.join(folder, _NOTE), "rb") as file:
            return msgspec.json.decode(file.read(_MAX_FILE), type=UserSettings)
    except (OSError, msgspec.DecodeError):
        return UserSettings()


class UserRegistries:
    """Passes the recorded settings to prepare steps."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, folder: str, *, has_secrets: bool) -> RegistrySettings:
        noted = read_user_settings(self._folder).variables
        refused = (_HARMFUL, _PUBLISHING)
        kept = {
            name: value for name, value in noted.items() if not any(one.fullmatch(name) for one in refused)
        }
        if not has_secrets:
            kept = dict(_without_secrets(kept))
        environment = dict(kept)
        for name, value in kept.items():
            is_copied = has_secrets or _is_certificate_or_settings(name)
            if is_copied and os.path.isabs(value) and os.path.isfile(value):
                environment[name] = os.path.join(folder, name)
                with suppress(OSError):
                    _copy_settings(value, environment[name], name, has_secrets=has_secrets)
        folders = tuple(_folders(kept.values()))
        return RegistrySettings(environment, folders)


def _is_certificate_or_settings(name: str) -> bool:
    return name.upper() in _FILES or _CERTIFICATE_FILE.fullmatch(name) is not None


def _without_secrets(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that are known to hold no secret, with user names removed from URLs."""
    for name, value in variables.items():
        if _is_certificate_or_settings(name):
            yield name, value
        elif _WITHOUT_SECRETS.fullmatch(name) and _is_open(cleaned := _URL_USER.sub("", value)):
            yield name, cleaned


def _is_open(value: str) -> bool:
    """False for a value that may still contain a password or a key."""
    return "@" not in value and "PRIVATE KEY" not in value


def _folders(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        yield from (name for name in value.split() if os.path.isabs(name) and os.path.isdir(name))


def _copy_settings(source: str, target: str, name: str, *, has_secrets: bool) -> None:
    """Copies the file that a variable names; without secrets, only certificates or settings known to hold none."""
    with open(source, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read(_MAX_FILE)
    if not has_secrets:
        is_settings = name.upper() in _FILES
        rows = _open_rows(text) if is_settings else (found[0] for found in _CERTIFICATE.finditer(text))
        text = "".join(f"{row}\n" for row in rows)
    atomic_write(target, text.encode("utf-8", "surrogateescape"), mode=0o600)


def _open_rows(text: str) -> Iterator[str]:
    """The lines of a settings file that are known to hold no secret: sections, known keys and their continuation lines."""
    is_kept = False
    for raw in _PRIVATE_KEY.sub("", text).splitlines():
        row = _COMMENT.sub("", raw)
        if _SECTION.match(row):
            is_kept = False
            yield row
            continue
        key = _KEY.match(row)
        start = key.end() if key else 0
        cleaned = _URL_USER.sub("", row[start:])
        is_known = (
            _KEYS_WITHOUT_SECRETS.fullmatch(key[1].lower().replace("_", "-")) is not None
            if key
            else is_kept and _MORE_VALUES.match(row) is not None
        )
        is_kept = is_known and _is_open(cleaned)
        if is_kept:
            yield row[:start] + cleaned


class SystemTools:
    """Identifies programs by their files, without running them."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        """The folder in which `remand init` recorded the user's settings; empty if there is none."""

    def digest(self, commands: Sequence[Sequence[str]], path: Sequence[str]) -> str:
        """A digest that changes when one of the commands' programs changes, or a package installed next to it."""
        search = os.pathsep.join(path)
        found = sorted({_identity(_program(command), search) for command in commands if command})
        return sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def missing_program(self, command: Sequence[str], path: Sequence[str]) -> str:
        program = _program(command)
        if "{" in program:
            return ""
        where = _find_program(program, os.pathsep.join(path))
        return "" if os.access(where, os.X_OK) else program

    def note_user(self, environment: Mapping[str, str], root: str) -> None:
        """Records the user's own environment; the caller has verified that it is the user's."""
        note_user_settings(self._folder, environment, root)

    def standard_path(self) -> tuple[str, ...]:
        """The default search path for programs if the configuration sets none; it never uses the caller's PATH.

        The caller may be an agent. The PATH recorded at `remand init` comes first, then the folder of this interpreter,
        then the system's folders, then the default folders of toolchains.
        """
        home = _home()
        own = os.path.dirname(os.path.abspath(sys.executable))
        local = (os.path.join(home, ".cargo", "bin"), os.path.join(home, ".local", "bin"))
        toolchains = (*_rust_toolchain(home), *local, "/usr/local/go/bin")
        noted = read_user_settings(self._folder).path if self._folder else ()
        # rustup's proxies in the user's PATH need a home folder that gates do not see.
        noted = tuple(name for name in noted if not os.path.exists(os.path.join(name, "rustup")))
        folders = (*noted, own, "/usr/local/bin", "/usr/bin", "/bin", *toolchains)
        return tuple(folder for folder in dict.fromkeys(folders) if os.path.isdir(folder))


def _home() -> str:
    """The user's home folder according to the system; in a container the system may not know the user."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _rust_toolchain(home: str) -> tuple[str, ...]:
    """The programs of rustup's default toolchain: rustup's proxies need a home folder that gates do not see."""
    rustup = os.path.join(home, ".rustup")
    try:
        with open(os.path.join(rustup, "settings.toml"), encoding="utf-8") as file:
            rows = [row.partition("=") for row in file.read(65536).splitlines()]
    except (OSError, UnicodeDecodeError):
        return ()
    named = [value.strip().strip('"') for key, _, value in rows if key.strip() == "default_toolchain"]
    return tuple(os.path.join(rustup, "toolchains", name, "bin") for name in named if "/" not in name)


def _program(command: Sequence[str]) -> str:
    """The program of a command; skips an `env` that sets variables or a folder for it."""
    words = list(command)
    if words[:2] == ["env", "-C"]:
        words = words[3:]
    words = [word for word in words if word != "env" and "=" not in word]
    return words[0] if words else command[0]


def _identity(program: str, search: str) -> str:
    where = _find_program(program, search)
    real = os.path.realpath(where)
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(where)))
    return " ".join([program, real, *(_stamp(path) for path in (real, *_packages(prefix)))])


def _packages(prefix: str) -> list[str]:
    """The package folders of the Pythons under a prefix."""
    library = os.path.join(prefix, "lib")
    try:
        names = [name for name in os.listdir(library) if name.startswith("python")]
    except OSError:
        return []
    paths = (os.path.join(library, name, "site-packages") for name in names)
    return sorted(path for path in paths if os.path.lexists(path))


def _find_program(program: str, search: str) -> str:
    """The path of a program, found the way the system does."""
    if os.sep in program:
        return program
    places = (os.path.join(folder, program) for folder in search.split(os.pathsep))
    return next((path for path in places if os.access(path, os.X_OK) and os.path.isfile(path)), program)


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"
