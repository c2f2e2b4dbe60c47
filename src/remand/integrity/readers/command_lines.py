"""Command lines in scripts, make files, pipelines and package scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from remand.domain.gate.gate import Gate
from remand.integrity.readers.source import SourceFile

MAX_LINE = 4_000
_TESTS = (
    r"pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|ava|karma|playwright test|cypress run|node --test|bun test"
    r"|deno test|rspec|phpunit|bats|ctest|cargo nextest|cargo test|go test|dotnet test|mix test"
    r"|(?:npm|yarn|pnpm)(?: run)? (?:test|t)\b[\w:-]*|(?:gradlew?|mvnw?)\b[^&|;]{0,200}\b(?:test|check|verify)\b"
    r"|(?:npm|yarn|pnpm) run (?:verify|check|ci|validate|qa)\b[\w:-]*|(?:yarn|pnpm) (?:verify|check|validate)\b"
    r"|(?:make|just) (?:test|check|verify|ci|qa)\b"
)
_LINT = (
    r"ruff(?:-check|-format)?|flake8|pylint|black --check|isort --check\S*|eslint|biome|prettier --check|stylelint|golangci-lint(?:-action)?|go vet|oxfmt"
    r"|staticcheck|cargo clippy|cargo fmt|shellcheck|hadolint|bandit|rubocop|oxlint|(?:pre-commit|prek) run"
    r"|(?:npm|yarn|pnpm)(?: run)? lint[\w:-]*|make lint\b"
)
_TYPES = (
    r"mypy|pyright|basedpyright|pyrefly check|ty check|pytype|tsc|vue-tsc|flow check"
    r"|(?:npm|yarn|pnpm)(?: run)? (?:typecheck|type-check|types|tsc)\b"
)
_COVERAGE = r"coverage (?:report|run|xml)|--cov\b\S*|nyc|c8|codecov\S*|tarpaulin|llvm-cov|diff-cover"
_BUILD = r"cargo build|go build|npm run build|dotnet build|python -m build|make build\b"
_CATEGORIES = (
    ("tests", _TESTS),
    ("lint", _LINT),
    ("types", _TYPES),
    ("coverage", _COVERAGE),
    ("build", _BUILD),
    ("gates", r"remand (?:gate|hook|serve)"),
)
_TOOLS = [
    (category, re.compile(rf"(?<![\w./-])(?:[\w./-]*/)?(?:{pattern})(?![\w/-]|\.\w)"))
    for category, pattern in _CATEGORIES
]
_ANY_TOOL = re.compile("|".join(f"(?:{pattern.pattern})" for _, pattern in _TOOLS))
_INSTALLS = re.compile(
    r"\b(?:pip|pip3|uv pip|pipx|npm|yarn|pnpm|apt|apt-get|brew|cargo|go|poetry|uv|gem|conda) (?:-\S+ )*(?:install|add|i|ci|get|sync|remove)\b"
)
_COLLECTS = re.compile(
    r"(?:^|(?<=\s))(?:make|tox|nox|just|task|hatch run|pre-commit run|(?:npm|yarn|pnpm) run|\./\S+\.sh|bash \S+\.sh|uses: *\./)\b"
    r"[^&|;]{0,200}"
)
_INSTALLED = re.compile(
    r"^(?:deps|extras|requires|env_?list|dependency_groups)[ \t]*=.*(?:\n[ \t]+\S.*)*", re.MULTILINE
)
"""What tox installs or names without running it."""
_PREFIX = re.compile(
    r"^\s*(?:-\s+)?(?:(?:run|script|command|cmd|entry|commands|before_script|RUN|CMD)\s*[:=]?\s+)?(?:\[?[\"'])?"
)


class ShellCommand(NamedTuple):
    """One line that runs something."""

    line: int
    text: str

    @property
    def tools(self) -> frozenset[tuple[str, str]]:
        """The checks that it runs, each with its category."""
        return check_tools_in(self.text)


def check_tools_in(text: str) -> frozenset[tuple[str, str]]:
    """The checks that a text runs, without those it only installs."""
    text = text.lstrip("@-+ ")
    if _INSTALLS.search(text) or not _ANY_TOOL.search(text):
        return frozenset()
    found = ((category, match[0]) for category, pattern in _TOOLS for match in pattern.finditer(text))
    return frozenset(
        (category, name.rpartition("/")[2] if " " not in name else name) for category, name in found
    )


def collecting_commands(text: str) -> frozenset[str]:
    """The commands in a text that run other commands: a make target, a package script."""
    return frozenset(" ".join(match[0].split()).strip("\"',") for match in _COLLECTS.finditer(text))


def without_tools(text: str) -> str:
    """A command without the names of the checks that it runs."""
    return _ANY_TOOL.sub("", text)


def has_commands(source: SourceFile) -> bool:
    """True for a file whose lines are commands."""
    name = source.path.rpartition("/")[2].lower()
    if source.language in ("shell", "make", "docker") or name in (
        "package.json",
        "tox.ini",
        "justfile",
        "procfile",
    ):
        return True
    return is_pipeline_path(source.path) or (
        name in ("taskfile.yml", "lefthook.yml", "pyproject.toml", "noxfile.py", "composer.json")
    )


def is_pipeline_path(path: str) -> bool:
    """True for the configuration of a pipeline."""
    name = path.rpartition("/")[2].lower()
    return bool(
        re.search(
            r"(^|/)\.(github/(workflows|actions)|circleci|gitlab|buildkite|woodpecker|forgejo/workflows|gitea/workflows)/",
            path,
        )
        or name
        in (
            ".gitlab-ci.yml",
            "azure-pipelines.yml",
            ".travis.yml",
            "bitbucket-pipelines.yml",
            "jenkinsfile",
            "action.yml",
        )
        or name
        in ("cloudbuild.yaml", ".drone.yml", ".woodpecker.yml", "appveyor.yml", ".pre-commit-config.yaml")
    )


def read_commands(source: SourceFile) -> tuple[ShellCommand, ...]:
    """The lines of a file that may run something, without comments, with continued lines joined."""
    if source.path.endswith("package.json"):
        return tuple(_script_commands(source))
    if source.path.endswith("tox.ini"):
        return tuple(_line_commands(_INSTALLED.sub(lambda match: "\n" * match[0].count("\n"), source.text)))
    return tuple(_line_commands(source.text))


def _line_commands(text: str) -> Iterator[ShellCommand]:
    number = 1
    pending = ""
    start = 1
    for line in text.split("\n"):
        start = start if pending else number
        number += 1
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1].rstrip() + " "
            continue
        whole = (pending + line.strip()) if pending else line
        pending = ""
        stripped = whole.strip()
        if stripped and not stripped.startswith(
            ("#", "//", "name:", "- name:", "echo ", "@echo ", "description:")
        ):
            yield ShellCommand(start, stripped[:MAX_LINE])


def _script_commands(source: SourceFile) -> Iterator[ShellCommand]:
    scripts = package_scripts(source.text)
    for name, text in scripts.items():
        line = next((at for at, row in enumerate(source.lines, 1) if f'"{name}"' in row and ":" in row), 0)
        yield ShellCommand(line, f"{name}: {text}"[:MAX_LINE])


def package_scripts(text: str) -> dict[str, str]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    scripts = whole.get("scripts") if isinstance(whole, dict) else None
    if not isinstance(scripts, dict):
        return {}
    return {str(name): value for name, value in scripts.items() if isinstance(value, str)}


_COVERAGE_PARSERS = ("cobertura", "coverage-json", "lcov")
_SUITE_PARSERS = ("junit", "tap", "cargo-test")


def measured_categories(gates: Sequence[Gate]) -> tuple[str, ...]:
    """The categories that gates measure, by their parsers and by the checks in their commands."""
    found = {category for gate in gates for category, _ in check_tools_in(" ".join(gate.command))}
    for gate in gates:
        if gate.parser in _COVERAGE_PARSERS:
            found.add("coverage")
        elif gate.parser in ("mypy", "tsc"):
            found.add("types")
        elif gate.parser not in (*_SUITE_PARSERS, "exit"):
            found.add("lint")
    return tuple(sorted(found))
