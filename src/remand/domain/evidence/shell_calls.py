"""Splits a command line into its calls as a shell would, and finds the program that a command runs, through whatever
starts it (`env`, `npx`, a shell, an interpreter). Text that is not executed is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from remand.domain.text.words import word_set

_KNOWN = word_set("""
actionlint act alembic ansible ansible-lint ansible-playbook apk apt apt-get aptitude autopep8 awk aws az babel bandit
bash bazel biome black bmake brew buf buildah bun bundle bundler bunx bzip cabal cargo ccache chmod chown clang
clang-format clang-tidy clippy cmake codecept composer conan conda coverage cpan ctest curl cypress dart dbt deno dig
django-admin docker docker-compose dotnet dpkg dune dvc elixir erlc esbuild eslint fd ffmpeg fish flake8 flask flutter
flyway fmt gcc gcloud gdb gem gh ghc git gitleaks glab go gofmt golangci-lint govulncheck gpg gradle gradlew grep gsutil
gunicorn gunzip gzip hadolint hatch helm heroku hexdump htop http httpie hyperfine iconv ifconfig iperf iptables isort
jasmine java javac jest jq julia jupyter just k9s karma kind kotlinc kubectl kustomize lcov ldd lighthouse
liquibase lldb locust ls lsof lua make markdownlint maturin maven mbsync meson mise mix mkdocs mocha mongo mongodump
mongosh msbuild mvn mvnw mypy mysql mysqldump mysqladmin nc ncat netcat netlify netstat newman next nginx ng ninja nix
nm nmap node nodemon nosetests npm npx nslookup nuget nx nyc objdump ocaml opam openssl oxlint parcel patch pdm perl
pg_dump pg_restore pgbench php phpstan phpunit ping pio pip pipenv pipx pkill playwright pnpm podman poetry powershell
pprof pre-commit prettier prisma prove psalm psql pulumi pwsh pylint pyright pytest python pyupgrade qemu rabbitmqctl
rails rake rebar redis-cli rg rollup rsync rspec rubocop ruby ruff rustc rustup rye sbt scala scons scp sed semgrep
serverless sh shellcheck skopeo snyk sops sox spack sphinx-build sqlfluff sqlite ss ssh ssh-keygen standard strace
stylelint sudo svn swift swiftc swiftlint syft systemctl tar tcpdump telnet terraform terragrunt tesseract tflint tilt
tmux tofu tox traceroute trivy ts-node tsc tsx turbo twine uglifyjs unittest unzip uv uvicorn uvx vagrant valgrind vault
vendor vercel virtualenv vite vitest vue-cli-service vulture webpack wget wrangler xcodebuild xmllint xz yamllint yarn
yq zig zip zsh
""")
_PLAIN = word_set("""
act ant at bash bat black brew bundle cat cd check composer cp coverage cut dart date dd df diff dig dir du dune
edit elixir env find fish flask fmt fold gem glob go gradle hatch head heroku helm http id install java join julia just
karma kill kind lark last less link ln locate look lua make man maven meson mix mocha mongo more mount mv mysql netlify
next nginx nix node open pack parcel paste patch perl php ping prisma prove python rails rake read rm ruby run rye say
scala script search seq serverless service sh sort sox split standard stat strings swift tail task tee terraform test
tilt time top touch tr tree true turbo type uniq unittest vault vendor vercel vi view vite w watch wc webpack which who
write xxd yes zip
""")

KNOWN_PROGRAMS = _KNOWN | _PLAIN
"""Names of programs that stand for a call when written as one."""
UNAMBIGUOUS = _KNOWN - _PLAIN
"""Program names that are not everyday words."""
SUBCOMMANDS = word_set("""
add annotate apply attach audit bench bisect blame branch build bundle cat-file checkout cherry-pick ci clean clippy
clone commit compile compose config console cp create deploy describe destroy diff doc down download exec explain export
fetch fmt format fsck generate get grep history import init inspect install isready link lint list log login logs
ls-files ls-remote ls-tree merge merge-base migrate mount outdated pack plan port prune ps publish pull push rebase
reflog release remote remove repair reset restore revert rm rollback rollout run scale search seed serve set setup show
stash start stats status stop submodule switch sync tag test tidy top tree uninstall unlink up update upgrade validate
verify version vet view why worktree
""")
"""Second words of calls, which are English in texts of any language."""
COMMON_WORDS = SUBCOMMANDS | {"tests", "main", "master", "origin", "head", "error", "errors", "check", "file"}
"""Words that occur in many calls and attempts."""
WITH_SUBCOMMANDS = word_set("""
apt apt-get aws az bash bun bundle cargo composer conda deno docker docker-compose dotnet gcloud gem gh git glab go gradle
helm heroku java kubectl make maven mix mvn node npm pdm perl pip pipenv pnpm podman poetry python rails ruby rustup sh
ssh sudo systemctl terraform tofu uv vault yarn
""")
"""Programs with many functions: that one was run says little without its arguments."""
PREFIX_WORDS = word_set("""
sudo doas env time timeout nice nohup xargs command exec stdbuf setsid ionice unbuffer strace watch flock chronic npx
bunx uvx pipx busybox then do else if while until ! {
""")
"""Words before the actual program."""
RUNNERS = frozenset(
    {
        *(
            (name, "run")
            for name in ("uv", "poetry", "pipenv", "hatch", "pdm", "rye", "pixi", "conda", "mise")
        ),
        *((name, "exec") for name in ("bundle", "pnpm", "yarn", "npm", "mise", "direnv")),
        *(("pnpm", "dlx"), ("yarn", "dlx"), ("coverage", "run"), ("pipx", "run"), ("yarn", "run")),
    }
)
"""Pairs of words that start another program."""
REMOTE_RUNNERS = word_set("docker docker-compose podman kubectl nerdctl ssh vagrant lxc")
"""Programs that run another one elsewhere, named later in the call."""
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish", "eval"})
INTERPRETERS = word_set("""
awk bun clickhouse-client cypher-shell deno duckdb elixir gdb ghci groovy iex jq julia kubectl lldb lua mongo mongosh mysql
node ocaml perl php psql python r redis-cli rscript ruby scala sed sqlite yq
""")
"""Programs that execute a text they are given."""
NO_EFFECT = word_set("""
: [ [[ alias banner bg case cd clear cowsay declare done echo esac exit export false fg fi figlet for function hash history
in jobs local logger print printf pwd read readonly remand return say select seq set shift sleep tee test trap true type
typeset unalias unset wait wall yes
""")
"""Programs without effect on the task: they print, write down their input, wait, or belong to this system."""
HELP_OPTIONS = frozenset({"--help", "--version"})
"""Options with which a program only describes itself."""


MAX_DEPTH = 4
MAX_CALLS = 60
_VERSION = re.compile(r"(?<=[a-z])-?[0-9][0-9.]*$")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_REDEFINED = re.compile(r"(?:^|[\s;&|])(?:alias\s+\w|function\s+\w|[\w.-]+\s*\(\)\s*[{(])")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_CODE_OPTION = re.compile(r"-[a-z]{0,3}[ceE]|--(?:eval|command|execute)")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_PIECE = re.compile(
    r"""
      (?P<space>[ \t\r]+|\\\n)
    | (?P<comment>(?<!\S)\#[^\n]*)
    | (?P<redirect>[0-9]*(?:>>?|<)(?:&[0-9-]*)?|&>>?)
    | (?P<operator>&&|\|\||[;&|\n()])
    | (?P<single>\$?'[^']*'?)
    | (?P<double>"(?:\\.|[^"\\])*"?)
    | (?P<inner>`[^`]*`?|[<>$]\((?P<nested>(?:[^()]|\([^()]*\))*)\)?)
    | (?P<escaped>\\.)
    | (?P<plain>(?:(?!\d*[<>])[^\s;&|()<>'"`\\$])+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
STARTERS = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "chrt": (),
    "chroot": (),
    "direnv": (),
    "doas": ("-u", "-C"),
    "flock": ("-w", "--timeout", "-E", "--conflict-exit-code"),
    "ionice": ("-c", "--class", "-n", "--classdata"),
    "nice": ("-n", "--adjustment"),
    "nohup": (),
    "setsid": (),
    "stdbuf": ("-i", "-o", "-e"),
    "sudo": ("-u", "--user", "-g", "--group", "-D", "--chdir", "-h", "-p", "-C", "-T"),
    "systemd-run": ("-p", "--property", "-E", "--setenv", "-u", "--unit", "--slice"),
    "taskset": (),
    "time": ("-f", "--format", "-o", "--output"),
    "timeout": ("-k", "--kill-after", "-s", "--signal"),
    "xvfb-run": ("-n", "--server-num", "-s", "--server-args", "-e", "-f"),
    "bun": (),
    "bunx": ("-p", "--package"),
    "deno": ("--config", "-c", "--import-map"),
    "npm": ("-p", "--package"),
    "npx": ("-p", "--package"),
    "pnpm": ("--package",),
    "yarn": ("-p", "--package"),
    "node": ("-r", "--require", "--import", "--loader"),
    "conda": ("-n", "--name", "-p", "--prefix"),
    "hatch": ("-e", "--env"),
    "mise": (),
    "pdm": (),
    "pipenv": (),
    "pipx": ("--spec", "--python"),
    "poetry": (),
    "uv": (
        "--from",
        "--with",
        "-p",
        "--python",
        "--extra",
        "--group",
        "--env-file",
        "--directory",
        "--project",
    ),
    "uvx": ("--from", "--with", "-p", "--python"),
}
"""Programs that start another one, with those of their options that take a value."""
_OPERANDS = {"chroot": 1, "direnv": 1, "flock": 1, "taskset": 1}
"""The number of operands between such a program and the one it starts."""
_SUBCOMMANDS = frozenset({"dlx", "exec", "run", "tool", "x"})
"""Words that may come between such a program and the one it starts."""
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_INTERPRETERS = frozenset({"python", "ruby", "perl", "php"})
PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "@github/copilot": "copilot",
    "@google/gemini-cli": "gemini",
    "@qwen-code/qwen-code": "qwen",
}
"""Packages of agent hosts, with the program of each."""
_HOST_PROGRAMS = frozenset({*PACKAGES.values(), "cursor-agent", "openhands"})
_SUFFIXES = (".js", ".mjs", ".cjs", ".exe", ".cmd")
_DURATION = re.compile(r"[\d.]+[smhd]?")
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")
_SPLIT_OPTION = re.compile(r"-[a-z]*S|--split-string")
_CODE_OPTIONS = ("-c", "-e", "-")


class ShellCall(NamedTuple):
    """One program call with its words."""

    programs: tuple[str, ...]
    """The program and the one that it starts: `python -m pytest` is both."""
    words: tuple[str, ...]
    """The words after the program's name, without texts of several words, and the path of a local program."""
    code: str = ""
    """The text that an interpreter was given to execute."""


class _Word(NamedTuple):
    text: str
    is_text: bool = False
    """Whether it is several words in quotes: a message, a pattern, a program's code."""


def parse_calls(command: str, depth: int = 0) -> list[ShellCall]:
    """The calls of a command line; none if a program's name is redefined in it."""
    command, documents = _without_documents(command)
    if depth > MAX_DEPTH or _REDEFINED.search(_QUOTED.sub("''", command)):
        return []
    calls: list[ShellCall] = []
    for words, inner in split_statements(command):
        for text in inner:
            calls += parse_calls(text, depth + 1)
        own = [word for word in words if word.text != _MARK]
        document = documents.pop(0) if documents and len(own) < len(words) else ""
        calls += _statement_calls(own, document, depth)
        if len(calls) > MAX_CALLS:
            break
    return calls[:MAX_CALLS]


_MARK = "\0document"


def _without_documents(command: str) -> tuple[str, list[str]]:
    """A command line without its here-documents, and these texts."""
    documents: list[str] = []
    while (match := _HEREDOC.search(command)) and len(documents) < MAX_CALLS:
        line_end = command.find("\n", match.end())
        body = command[line_end + 1 :] if line_end >= 0 else ""
        rest = re.split(rf"(?m)^\s*{match[2]}[ \t]*$", body, maxsplit=1)
        documents.append(rest[0])
        head = command[: match.start()] + f" {_MARK} " + command[match.end() : max(line_end, match.end())]
        command = f"{head}\n{rest[1] if len(rest) > 1 else ''}"
    return command, documents


def split_statements(command: str) -> list[tuple[list[_Word], list[str]]]:
    """The words of each statement that was certainly reached, with nested command lines."""
    found: list[tuple[list[_Word], list[str]]] = []
    reader = _StatementReader()
    for piece in _PIECE.finditer(command):
        kind = piece.lastgroup if piece.lastgroup != "nested" else "inner"
        if kind == "operator":
            reader.end(piece[0])
            found += reader.take_statements()
        else:
            reader.take(kind or "plain", piece)
    reader.end("")
    return [*found, *reader.take_statements()]


class _StatementReader:
    """Assembles pieces into words, and words into statements."""

    def __init__(self) -> None:
        self._words: list[_Word] = []
        self._inner: list[str] = []
        self._word: list[str] | None = None
        self._is_quoted = False
        self._drops_next = False
        self._is_skipped = False
        self._ready: list[tuple[list[_Word], list[str]]] = []

    def take(self, kind: str, piece: re.Match[str]) -> None:
        text = piece[0]
        if kind in ("space", "comment", "redirect"):
            self._end_word()
            if kind == "redirect" and ">" in text and "&" not in text[1:]:
                self._drops_next = True
        elif kind == "inner":
            self._inner.append(piece["nested"] if piece["nested"] is not None else text.strip("`"))
            self._add("$()", is_quoted=False)
        elif kind == "single":
            self._add(text.removeprefix("$")[1:].removesuffix("'"), is_quoted=True)
        elif kind == "double":
            self._inner += re.findall(r"\$\(([^()]*)\)", text)
            self._add(re.sub(r"\\(.)", r"\1", text[1:].removesuffix('"')), is_quoted=True)
        else:
            self._add(text[1:] if kind == "escaped" else text, is_quoted=False)

    def end(self, operator: str) -> None:
        """Ends a statement. What follows `||` or `false &&` may not have been reached."""
        self._end_word()
        is_false = [word.text for word in self._words][-1:] == ["false"]
        if self._words and not self._is_skipped:
            self._ready.append((self._words, self._inner))
        if operator and (self._words or operator == "||"):
            self._is_skipped = operator == "||" or (is_false and operator in ("&&", ";", "\n"))
        self._words, self._inner, self._drops_next = [], [], False

    def take_statements(self) -> list[tuple[list[_Word], list[str]]]:
        """The statements completed since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def _add(self, text: str, *, is_quoted: bool) -> None:
        self._word = [*(self._word or []), text]
        self._is_quoted = self._is_quoted or is_quoted

    def _end_word(self) -> None:
        if self._word is not None:
            text = "".join(self._word)
            is_text = self._is_quoted and any(char.isspace() for char in text)
            if not self._drops_next:
                self._words.append(_Word(text, is_text))
            self._drops_next = False
        self._word, self._is_quoted = None, False


def _statement_calls(words: list[_Word], document: str, depth: int) -> list[ShellCall]:
    """The calls of one statement: its own, and those of a command line passed to a shell."""
    programs, rest = _programs(words)
    if not programs or programs[0] in NO_EFFECT or programs[-1] in NO_EFFECT:
        return []
    code = "\n".join([*_texts(rest, programs[-1]), document]).strip()
    handed = code if programs[-1] in SHELLS or programs[0] in REMOTE_RUNNERS else ""
    inner = [
        call._replace(programs=(*programs, *call.programs))
        for call in (parse_calls(handed, depth + 1) if handed else [])
    ]
    if handed and programs[-1] in SHELLS:
        return inner
    if programs[-1] == "cat" and (
        document or not any((not word.is_text and not word.text.startswith("-")) for word in rest)
    ):
        return []
    arguments = tuple(word.text.casefold() for word in rest if not word.is_text)
    return [ShellCall(programs, arguments, code if programs[-1] in INTERPRETERS else ""), *inner]


def _texts(words: list[_Word], program: str) -> list[str]:
    """The texts among the words: several words in quotes, and an interpreter's argument after -c or -e."""
    takes_code = program in INTERPRETERS or program in SHELLS
    return [
        word.text
        for before, word in zip([_Word(""), *words], words, strict=False)
        if word.is_text or (takes_code and _CODE_OPTION.fullmatch(before.text))
    ]


def _programs(words: list[_Word]) -> tuple[tuple[str, ...], list[_Word]]:
    """The programs of a statement, from the first to the one that finally runs, and the remaining words."""
    found: list[str] = []
    at = _find_first_name(words, 0)
    settings = words[:at]
    while at < len(words):
        name = program_name(words[at].text)
        found.append(name)
        if "/" in words[at].text and name not in KNOWN_PROGRAMS:
            settings = [*settings, words[at]]
        at += 1
        following = program_name(words[at].text) if at < len(words) else ""
        if name == "python" and following == "-m":
            at += 1
        elif name in PREFIX_WORDS or (name, following) in RUNNERS:
            at = _find_started_program(words, at + (name not in PREFIX_WORDS))
        elif name in REMOTE_RUNNERS and any(_is_known(word, name) for word in words[at:]):
            inner = next(n for n in range(at, len(words)) if _is_known(words[n], name))
            settings = [*settings, *words[at:inner]]
            at = inner
        else:
            break
    return tuple(found), [*settings, *words[at:]]


def _find_first_name(words: list[_Word], at: int) -> int:
    """The position of the name after assignments such as `LANG=C`."""
    return next((n for n in range(at, len(words)) if not _ASSIGNMENT.match(words[n].text)), len(words))


def _find_started_program(words: list[_Word], at: int) -> int:
    """The position of the program that a starter runs: after its options, their values, numbers and assignments."""
    is_value = False
    for n in range(_find_first_name(words, at), len(words)):
        text = words[n].text
        if text.startswith("-"):
            is_value = "=" not in text
        elif not text[:1].isdigit() and not _ASSIGNMENT.match(text):
            follows = n + 1 < len(words) and _is_known(words[n + 1], "")
            if not (is_value and follows and not _is_known(words[n], "")):
                return n
            is_value = False
    return len(words)


def _is_known(word: _Word, outer: str) -> bool:
    name = program_name(word.text)
    return not word.is_text and name in KNOWN_PROGRAMS and name != outer and not word.text.startswith("-")


def program_name(word: str) -> str:
    """A program's name without folder and version: `/usr/bin/python3.11` is `python`."""
    return strip_version(word.rstrip("/").rpartition("/")[2].casefold())


def strip_version(name: str) -> str:
    """A program's name without its version; a name with a suffix, such as a script's, has none."""
    return _VERSION.sub("", name) if name[:1].isalpha() and "." not in name.rstrip("0123456789.") else name


@lru_cache(maxsize=256)
def find_program(command: tuple[str, ...]) -> str:
    """The name of the program that a command runs, without folder and version; empty without a command."""
    return _find_program(command, 0)


def _find_program(command: Sequence[str], depth: int) -> str:
    at, name = 0, ""
    while at < len(command) and depth < MAX_DEPTH:
        name, plain = program_of(command[at]), _plain_name(command[at])
        script = _script(command[at + 1 :], plain)
        if script:
            return _find_script_program(script, depth + 1) or name
        if plain in STARTERS:
            at = find_started(command, at)
        elif plain in _SHELLS or plain in _INTERPRETERS:
            at = _find_script_file(command, at)
        else:
            return name
    return name


def find_started(command: Sequence[str], at: int) -> int:
    """The position of the program started by the one at a position; past the last word if it starts none."""
    starter = _plain_name(command[at])
    if starter not in STARTERS:
        return len(command)
    valued, operands = STARTERS[starter], _OPERANDS.get(starter, 0)
    is_value = False
    for number, word in enumerate(command[at + 1 :], at + 1):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in valued
        elif word in _SUBCOMMANDS or _ASSIGNMENT.match(word) or _DURATION.fullmatch(word):
            continue
        elif operands:
            operands -= 1
        else:
            return number
    return len(command)


def program_of(word: str) -> str:
    """The program named by a word, without folder and suffix; for a package's name, the package's program."""
    for package, program in PACKAGES.items():
        if word == package or word.startswith(f"{package}@") or f"/{package}/" in word:
            return program
    name = word.rstrip("/").rpartition("/")[2]
    suffix = next((one for one in _SUFFIXES if name.endswith(one)), "")
    return name.removesuffix(suffix).partition("@")[0] or word


def _plain_name(word: str) -> str:
    """A program's name without its version: `python` for `python3.11`."""
    return strip_version(program_of(word))


def _script(words: Sequence[str], starter: str) -> str:
    """The command line that a shell or `env -S` is given as one word."""
    is_given = {"env": _SPLIT_OPTION}.get(starter, _SCRIPT_OPTION if starter in _SHELLS else None)
    if is_given is None:
        return ""
    before = ""
    for option, text in pairwise(words):
        if is_given.fullmatch(option):
            return text
        if not option.startswith("-") and before != "-o":
            break
        before = option
    return ""


def _find_script_program(text: str, depth: int) -> str:
    """The program that a command line runs: an agent host if it starts one, else the last one started."""
    found = []
    for words, _ in split_statements(text):
        own = [word.text for word in words]
        while own and (_ASSIGNMENT.match(own[0]) or own[0] in ("exec", "command", "then", "do", "{")):
            own = own[1:]
        name = _find_program(own, depth)
        if name and name not in NO_EFFECT:
            found.append(name)
    return next((name for name in found if name in _HOST_PROGRAMS), found[-1] if found else "")


def _find_script_file(command: Sequence[str], at: int) -> int:
    """The position of the file or module that an interpreter runs."""
    for number, word in enumerate(command[at + 1 :], at + 1):
        if word in _CODE_OPTIONS:
            break
        if word == "-m" and number + 1 < len(command):
            return number + 1
        if not word.startswith("-"):
            return number
    return len(command)
