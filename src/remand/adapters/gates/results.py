"""Gate results: reported through a pipe by plugins of test runners, stored in a sealed cache, and written as reports."""

from __future__ import annotations

import hmac
import os
import re
import shlex
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from hashlib import sha256
from secrets import token_hex
from typing import NamedTuple

import msgspec

from remand.adapters.system.files import atomic_write
from remand.app.gates.ports import MIB, ResultWatch
from remand.integrity import result_records
from remand.startup import lazy_pattern

_OWN = os.path.dirname(__file__)
_COMMON = "from remand.adapters.gates import python_results as sender\n"
"""The import by which our own tools see the common module; at run time it is loaded differently."""
_LOADED = """import types
sender = types.ModuleType("sender")
for _name, _space in (("sender", sender.__dict__), ("plugin", globals())):
    with open(f"{__file__}.{_name}", encoding="utf-8") as _file:
        exec(compile(_file.read(), "<results>", "exec"), _space)
"""
"""Coverage tools ignore code that belongs to no file."""
VARIABLE = "REMAND_RESULTS"
"""The path of the pipe, for plugins that are not loaded from the same folder."""
_ISOLATED = ("-I", "-E")
_PYTHON = lazy_pattern(r"(?:python|pypy)[\d.]*")
_HARMLESS = ("-B", "-E", "-s", "-S", "-u", "-b", "-bb", "-O", "-Werror", "-Wd", "-X", "dev", "utf8")
"""Python options that do not change how a script is found and run, compared with a module."""

PluginLoader = Callable[[Sequence[str], str], tuple[tuple[str, ...], dict[str, str]]]
"""Writes a runner's plugin next to the pipe, and returns the command that loads it and the environment it needs."""


def find_plugin_loader(command: Sequence[str]) -> PluginLoader | None:
    """The plugin loader for a command's runner; None if it cannot report results."""
    if _is_pytest(command):
        return _load_pytest
    if _unittest_place(command):
        return _load_unittest
    if options := _read_go_options(command):
        return partial(_load_go, options)
    if _is_cargo_test(command):
        return _load_cargo
    return next((partial(_load_reporter, one) for one in _REPORTERS if one.find_places(command)), None)


def _is_pytest(command: Sequence[str]) -> bool:
    """True for pytest, by name or as a module of a Python that accepts our plugin."""
    for place, word in enumerate(command):
        name = os.path.basename(word)
        if name in ("pytest", "py.test"):
            return place == 0 or command[place - 1] == "-m" or command[place - 1] in ("run", "--")
        if name in _ISOLATED or name in ("sh", "bash", "make", "tox", "nox", "unittest"):
            return False
    return False


def _load_pytest(command: Sequence[str], place: str) -> tuple[tuple[str, ...], dict[str, str]]:
    name = _write_python_plugin(place, "pytest_results.py")
    pipe = os.path.join(place, "pipe")
    return tuple(command), {VARIABLE: pipe, "PYTEST_PLUGINS": name, "PYTHONPATH": place}


def _write_python_plugin(place: str, plugin: str) -> str:
    """Writes a plugin next to the pipe, under a name that no project file can have; returns that name."""
    name = f"remand_results_{token_hex(8)}"
    path = os.path.join(place, f"{name}.py")
    _write_new(path, _LOADED)
    _write_new(f"{path}.sender", _plugin_text("python_results.py"))
    _write_new(f"{path}.plugin", _plugin_text(plugin).replace(_COMMON, ""))
    return name


def _unittest_place(command: Sequence[str]) -> int:
    """The index of `-m unittest` after a Python whose options allow our script instead; 0 if there is none."""
    for place in range(1, len(command) - 1):
        if (command[place], command[place + 1]) == ("-m", "unittest"):
            before = command[:place]
            at = next(
                (at for at, word in enumerate(before) if _PYTHON.fullmatch(os.path.basename(word))), None
            )
            options = before[at + 1 :] if at is not None else ("",)
            return place if all(word in _HARMLESS for word in options) else 0
    return 0


def _load_unittest(command: Sequence[str], place: str) -> tuple[tuple[str, ...], dict[str, str]]:
    script = os.path.join(place, f"{_write_python_plugin(place, 'unittest_results.py')}.py")
    at = _unittest_place(command)
    return (*command[:at], script, *command[at + 2 :]), {VARIABLE: os.path.join(place, "pipe")}


_GO_BUILD = ("-C", "-mod", "-modfile", "-tags")
"""Options of `go test` that decide which files belong to a package."""
_GO_VALUES = (
    *_GO_BUILD,
    *(
        "-asmflags",
        "-bench",
        "-benchtime",
        "-count",
        "-covermode",
        "-coverpkg",
        "-coverprofile",
        "-cpu",
        "-fuzz",
        "-gcflags",
    ),
    *(
        "-ldflags",
        "-o",
        "-outputdir",
        "-p",
        "-parallel",
        "-pkgdir",
        "-run",
        "-shuffle",
        "-skip",
        "-timeout",
        "-vet",
    ),
)
_GO_PACKAGES = (
    '{{if or .TestGoFiles .XTestGoFiles}}{"kind":"package","names_all":NAMES_ALL,"id":{{printf "%q" .ImportPath}},'
    '"ids":[{{printf "%q" .Dir}}{{range .TestGoFiles}},{{printf "%q" .}}{{end}}'
    '{{range .XTestGoFiles}},{{printf "%q" .}}{{end}}]}{{"\\n"}}{{end}}'
)
"""One record per package with tests: its folder, and its test files under the build's constraints."""


class _GoOptions(NamedTuple):
    """The options of a `go test -json` command."""

    place: int
    """The index of `test`."""
    build: tuple[str, ...]
    """The options that select the files of a package."""
    packages: tuple[str, ...]
    runs_all: bool


def _read_go_options(command: Sequence[str]) -> _GoOptions | None:
    """The options if a command is `go test -json`, possibly behind `env`; otherwise None."""
    places = [
        at
        for at in range(1, len(command))
        if command[at] == "test" and os.path.basename(command[at - 1]) == "go"
    ]
    if not places or any(os.path.basename(word) in ("sh", "bash") for word in command[: places[0]]):
        return None
    words = iter(command[places[0] + 1 :])
    build: list[str] = []
    packages: list[str] = []
    has_json, runs_all = False, True
    for word in words:
        name, separator, _ = f"-{word.lstrip('-')}".partition("=") if word.startswith("-") else ("", "", "")
        if name in ("-exec", "-c", "-i", "-list"):
            return None
        if name == "-args":
            break
        value = (next(words, ""),) if name in _GO_VALUES and not separator else ()
        has_json |= word in ("-json", "--json")
        runs_all &= name not in ("-run", "-skip", "-failfast", "-bench", "-fuzz")
        if not name:
            packages.append(word)
        elif name in _GO_BUILD:
            build += (word, *value)
    return _GoOptions(places[0], tuple(build), tuple(packages), runs_all) if has_json else None


def _load_go(
    options: _GoOptions, command: Sequence[str], place: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    at, pipe = options.place, shlex.quote(os.path.join(place, "pipe"))
    template = _GO_PACKAGES.replace("NAMES_ALL", "true" if options.runs_all else "false")
    listing = (*command[:at], "list", *options.build, "-e", "-f", template, *options.packages)
    script = f"""echo '{{"kind":"unfit"}}' >{pipe}; {shlex.join(listing)} >{pipe} 2>/dev/null; exec "$@\""""
    tested = (*command[: at + 1], "-exec", _write_program(place, "go_results.sh"), *command[at + 1 :])
    return ("/bin/sh", "-c", script, "sh", *tested), {}


_CARGO_STOPS = ("--no-run", "--target", "--doc", "--config", "--list", "--logfile", "--format")


def _is_cargo_test(command: Sequence[str]) -> bool:
    """True for `cargo test`, possibly behind `env` and with a toolchain, that runs what it builds on this machine."""
    for at, word in enumerate(command):
        if os.path.basename(word) in ("sh", "bash"):
            return False
        if os.path.basename(word) == "cargo":
            rest = [one for one in command[at + 1 :] if not one.startswith("+")]
            return rest[:1] in (["test"], ["t"]) and not any(
                one.split("=")[0] in _CARGO_STOPS for one in rest
            )
    return False


def _load_cargo(command: Sequence[str], place: str) -> tuple[tuple[str, ...], dict[str, str]]:
    return (_write_program(place, "cargo_results.sh"), *command), {}


def _write_program(place: str, name: str) -> str:
    path = os.path.join(place, name)
    _write_new(path, _plugin_text(name))
    os.chmod(path, 0o700)
    return path


class _Reporter(NamedTuple):
    """How to add our reporter to a JavaScript runner's command line, alongside the existing one."""

    runner: re.Pattern[str]
    option: re.Pattern[str]
    """The option that sets the existing reporter: ours must not replace the reporters in the project's settings."""
    name: str
    files: tuple[str, ...]
    """The files written next to the pipe, the reporter first."""

    def find_places(self, command: Sequence[str]) -> list[int]:
        """The indexes of the words with the option, either as a word of its own or inside a shell line."""
        if not any(self.runner.search(word) for word in command):
            return []
        words = (*command, "")
        places = range(len(command))
        return [
            at
            for at in places
            if self.option.search(words[at]) or self.option.fullmatch(f"{words[at]} {words[at + 1]}")
        ]


_REPORTERS = (
    _Reporter(
        lazy_pattern(r"(?:^|[\s/])vitest(?:\.m?js)?(?=\s|$)"),
        lazy_pattern(r"""(?:^|(?<=\s))--reporter[= ]["']?junit["']?(?=\s|$)"""),
        "--reporter",
        ("vitest_results.mjs", "vitest_assertions.mjs", "assertion_notes.cjs"),
    ),
    _Reporter(
        lazy_pattern(r"(?:^|[\s/])(?:jest(?:\.js)?(?=\s|$)|react-scripts\s+test)"),
        lazy_pattern(r"""(?:^|(?<=\s))--reporters[= ]["']?[^\s"']*\bjest-junit["']?(?=\s|$)"""),
        "--reporters",
        ("jest_results.cjs", "jest_assertions.cjs", "assertion_notes.cjs"),
    ),
)


def _load_reporter(
    reporter: _Reporter, command: Sequence[str], place: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    for name in reporter.files:
        _write_new(os.path.join(place, name), _plugin_text(name))
    option = f"{reporter.name}={os.path.join(place, reporter.files[0])}"
    words, at = list(command), reporter.find_places(command)[0]
    found = reporter.option.search(words[at])
    if found is None or found[0] == words[at]:
        words.insert(at, option)
    else:
        words[at] = f"{words[at][: found.start()]}{shlex.quote(option)} {words[at][found.start() :]}"
    return tuple(words), {}


def _write_new(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)


@cache
def _plugin_text(name: str) -> str:
    with open(os.path.join(_OWN, name), encoding="utf-8") as file:
        return file.read()


KEPT_RESULTS = 2000
_RESULT_KEY = lazy_pattern(r"[0-9a-f]{64}")
_SEAL = 32


class FileCache:
    """A cache with one file per result. Damaged entries, and those with a foreign seal, count as missing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._secret = b""

    def get(self, key: str) -> bytes | None:
        try:
            with open(self._path(key), "rb") as file:
                content = file.read()
        except OSError:
            return None
        seal, value = content[:_SEAL], content[_SEAL:]
        return value if hmac.compare_digest(seal, self._seal(key, value)) else None

    def put(self, key: str, value: bytes) -> None:
        """Stores a value under a key, atomically. If the disk is full, it is not stored."""
        path = self._path(key)
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._make_room()
            atomic_write(path, self._seal(key, value) + value)

    def _path(self, key: str) -> str:
        if not _RESULT_KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a result")
        return os.path.join(self._folder, key)

    def _seal(self, key: str, value: bytes) -> bytes:
        return hmac.digest(self._own_secret(), key.encode() + b"\0" + value, sha256)

    def _own_secret(self) -> bytes:
        """This folder's secret, created once; of concurrent creators, the first one wins."""
        if not self._secret:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            path = os.path.join(self._folder, "secret")
            if not os.path.exists(path):
                draft = f"{path}.{os.urandom(4).hex()}.draft"
                handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(os.urandom(32))
                with suppress(FileExistsError):
                    os.link(draft, path)
                os.unlink(draft)
            with open(path, "rb") as file:
                self._secret = file.read()
        return self._secret

    def _make_room(self) -> None:
        """Removes the oldest results when there are too many."""
        names = [name for name in os.listdir(self._folder) if _RESULT_KEY.fullmatch(name)]
        if len(names) < KEPT_RESULTS:
            return
        paths = sorted((os.path.join(self._folder, name) for name in names), key=os.path.getmtime)
        for path in paths[: KEPT_RESULTS // 4]:
            with suppress(OSError):
                os.unlink(path)


MAX_REPORT = 128 << 20
KEPT_REPORTS = 200
OUTPUT_PREFIX = "output-"
"""The file-name prefix of a command's output, which is stored next to the reports of verdicts."""


class FileReports:
    """Reports in a folder of ours, and short-lived ones in the system's temporary folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def folder(self) -> Iterator[str]:
        from tempfile import TemporaryDirectory  # loaded only when something is measured

        with TemporaryDirectory(prefix="remand-report-", ignore_cleanup_errors=True) as path:
            yield path

    def read(self, path: str) -> bytes | None:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_REPORT:
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read(MAX_REPORT)

    def write(self, name: str, content: str) -> str:
        path = os.path.join(self._folder, f"{name}.md")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._make_room(name.startswith(OUTPUT_PREFIX))
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)
        except OSError:
            return ""
        return name

    def _make_room(self, is_output: bool) -> None:
        """Removes the oldest reports or outputs, which are counted separately because there are more of the latter."""
        every = [entry for entry in os.scandir(self._folder) if entry.name.endswith(".md")]
        paths = [entry.path for entry in every if entry.name.startswith(OUTPUT_PREFIX) == is_output]
        for path in sorted(paths, key=os.path.getmtime)[:-KEPT_REPORTS]:
            with suppress(OSError):
                os.unlink(path)


FILES_VARIABLE = "REMAND_TEST_FILES"
MAX_RECORDS, MAX_LINE = 64 * MIB, MIB


@cache
def _decoder() -> Callable[[bytes], result_records.ResultRecord]:
    """Created at first use: a hook that answers from the cache reads no record."""
    return msgspec.json.Decoder(result_records.ResultRecord).decode


@contextmanager
def watch_results(
    command: Sequence[str], folder: str, files: Sequence[str] = ()
) -> Iterator[ResultWatch | None]:
    """What a command needs in order to report its results; None if its runner cannot report them."""
    load = find_plugin_loader(command)
    if load is None:
        yield None
        return
    place = os.path.join(folder, "results")
    os.mkdir(place, 0o700)
    pipe = os.path.join(place, "pipe")
    os.mkfifo(pipe, 0o600)
    watched_command, environment = load(command, place)
    if files and VARIABLE in environment:
        environment[FILES_VARIABLE] = "\n".join(files)
    reader = _PipeReader(pipe)
    try:
        yield ResultWatch(watched_command, environment, lambda: (*reader.records(), *_closed_runs(place)))
    finally:
        reader.records()


_CLOSING = "closing-"
_BLOCK = 4096


def _closed_runs(folder: str) -> Iterator[result_records.ResultRecord]:
    """The programs whose closing record is present in a file that names their process.

    Go writes the file in blocks of a fixed size and the rest when all tests have ended.
    """
    for entry in os.scandir(folder):
        pid = entry.name.removeprefix(_CLOSING)
        if (
            not entry.name.startswith(_CLOSING)
            or not entry.is_file(follow_symlinks=False)
            or not pid.isdecimal()
        ):
            continue
        size = entry.stat(follow_symlinks=False).st_size
        if size and (size % _BLOCK or _ends_a_line(entry.path)):
            yield result_records.ResultRecord(kind="end", pid=int(pid))


def _ends_a_line(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


class _PipeReader:
    """Reads a pipe in its own thread until it is told that all writers are done."""

    def __init__(self, path: str) -> None:
        # Holding a write end ourselves prevents an end of file, however often others open and close the pipe.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._lines: list[bytes] = []
        self._size = 0
        self._is_open = True
        self._thread = threading.Thread(target=self._read, name="remand-results", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        rest = b""
        while not (rest.endswith(_LAST) and not self._is_open):
            # An overlong line without an end is not one of our records, so buffering it stops.
            rest = self._keep(rest[-MAX_LINE:] + os.read(self._descriptor, 1 << 16))

    def _keep(self, content: bytes) -> bytes:
        *lines, rest = content.split(b"\n")
        self._size += sum(map(len, lines))
        if self._size <= MAX_RECORDS:
            self._lines += lines
        return rest

    def records(self) -> tuple[result_records.ResultRecord, ...]:
        """All records that arrived, in order; closes the pipe."""
        if self._is_open:
            self._is_open = False
            os.write(self._descriptor, _LAST)
            self._thread.join()
            os.close(self._descriptor)
        found: list[result_records.ResultRecord] = []
        begun = result_records.ResultRecord(kind="start")
        for line in self._lines:
            try:
                record = _decoder()(line)
            except (msgspec.DecodeError, ValueError):
                found += _read_libtest_line(line, begun)
                continue
            begun = record if record.kind == "start" else begun
            found.append(record)
        return tuple(found)


_LIBTEST = lazy_pattern(r"(ok|failed|ignored)(?:[:(, ].*)? (\S+)")
_LIBTEST_OUTCOMES = {"ok": "passed", "failed": "failed", "ignored": "skipped"}


def _read_libtest_line(
    line: bytes, begun: result_records.ResultRecord
) -> Iterator[result_records.ResultRecord]:
    """The result in a line of Rust's libtest harness, for the program that started last."""
    match = _LIBTEST.fullmatch(line.decode("utf-8", "replace"))
    if match:
        test_id, outcome = f"{begun.id}::{match[2]}", _LIBTEST_OUTCOMES[match[1]]
        yield result_records.ResultRecord(
            kind="result", when="call", pid=begun.pid, id=test_id, outcome=outcome
        )


_LAST = b"\0end\0"
"""Written by ourselves after the command has ended, so that the reader ends."""
