"""Files that only the base may change, because they say how work is judged; files that shadow a tool; forbidden lines."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from remand.domain.gate.control_files import is_nested_control_path
from remand.domain.text.words import word_list, word_set
from remand.integrity.changeset import ChangedFile, Changeset
from remand.integrity.paths import is_generated_path, is_test_path, matches_any
from remand.integrity.readers.command_lines import is_pipeline_path, package_scripts
from remand.integrity.readers.source import SourceFile
from remand.integrity.rules.missing_tests import has_twin, is_for_old_go
from remand.integrity.suspicions import Suspicion, quote_names, shorten, suspicion

ALWAYS_PROTECTED = word_list("""
remand.toml */remand.toml .git-hooks/* .githooks/* .openhands/hooks* .github/hooks/*
""")
_SETTINGS = re.compile(
    r"(^|/)\.(claude|codex|cursor|gemini|qwen|openhands|copilot)/[\w./-]*(settings|hooks|config)[\w.-]*\.(json|toml|ya?ml)$"
)
_HOOKS = re.compile(r"(^|/)\.husky/[\w-]+$|(^|/)(\.?lefthook|\.overcommit)\.ya?ml$")
_HOOK_LINE = re.compile(r"\s*(?:- )?\s*(id|files|exclude|stages):\s*(\S.*)")
_PROSE = re.compile(r"\.(md|rst|txt|adoc|png|svg)$|^docs?/|LICENSE|CHANGELOG|\.github/|\.vscode/|^examples?/")
_HOOK_WORDS = ("hook", "permission", "deny", "sandbox", "trust", "allow")


def find_protected_changes(changeset: Changeset) -> Iterator[Suspicion]:
    """Any change to the gate policy, hooks, nested ledgers, and the policy's protected files."""
    patterns = (*ALWAYS_PROTECTED, *changeset.comparison.protected)
    for view in changeset.views:
        change = view.change
        names = [name for name in (change.path, change.old_path) if name]
        if any(matches_any(name, patterns) or is_nested_control_path(name) for name in names):
            done = {"A": "added", "D": "deleted", "R": "renamed"}.get(change.status, "changed")
            content = (change.after or "") + change.signature
            yield suspicion(
                "control_changed", change.path, 0, f"`{change.path}` was {done}", f"{done}\n{content}"
            )


def find_host_setting_changes(changeset: Changeset) -> Iterator[Suspicion]:
    """Changes to hooks or permissions in an agent host's settings."""
    for view in changeset.views:
        if _SETTINGS.search(view.path) or _SETTINGS.search(view.change.base_path):
            old, new = _guarding_settings(view.before), _guarding_settings(view.after)
            if old != new and (old or view.before is None or "hook" in new):
                yield suspicion(
                    "control_changed", view.path, 0, "hooks or permissions of the agent's host changed", new
                )


def _guarding_settings(source: SourceFile | None) -> str:
    """The hooks and permissions in a host's settings, as one text."""
    if source is None:
        return ""
    try:
        whole: Any = json.loads(source.text)
    except (ValueError, RecursionError):
        lines = (line.strip() for line in source.lines)
        return "\n".join(line for line in lines if any(word in line.lower() for word in _HOOK_WORDS))
    kept = (
        {key: whole[key] for key in whole if any(word in key.lower() for word in _HOOK_WORDS)}
        if isinstance(whole, dict)
        else {}
    )
    return json.dumps(kept, sort_keys=True) if kept else ""


def find_removed_hooks(changeset: Changeset) -> Iterator[Suspicion]:
    for view in changeset.views:
        if (
            _HOOKS.search(view.change.base_path)
            and _runs_anything(view.before)
            and not _runs_anything(view.after)
        ):
            yield suspicion(
                "control_changed", view.path, 0, f"the git hook `{view.change.base_path}` is gone or empty"
            )
        if view.path.endswith("package.json") and view.before and view.after:
            old = " ".join(package_scripts(view.before.text).values())
            new = " ".join(package_scripts(view.after.text).values())
            for tool in ("husky", "lefthook", "simple-git-hooks", "lint-staged"):
                if re.search(rf"\b{tool}\b", old) and not re.search(rf"\b{tool}\b", new):
                    yield suspicion("control_changed", view.path, 0, f"no script sets up `{tool}` any more")
        if view.path.endswith(".pre-commit-config.yaml"):
            yield from _find_pre_commit_changes(view, changeset)


def _runs_anything(source: SourceFile | None) -> bool:
    lines = (line.strip() for line in source.lines) if source else ()
    return any(line and not line.startswith(("#", "exit 0", '. "$(dirname', "true")) for line in lines)


def _find_pre_commit_changes(view: ChangedFile, changeset: Changeset) -> Iterator[Suspicion]:
    found = re.compile(r"^\s*- id:\s*([\w-]+)", re.MULTILINE)
    old = found.findall(view.before.text) if view.before else []
    new = found.findall(view.after.text) if view.after else []
    lost = sorted(set(old) - set(new))
    gained = set(new) - set(old)
    is_run_elsewhere = all(
        any(name.partition("-")[0] == other.partition("-")[0] for other in new) for name in lost
    )
    if lost and not gained and not is_run_elsewhere:
        yield suspicion("check_removed", view.path, 0, f"hooks {quote_names(lost)} are gone", "\n".join(lost))
    before, after = (_hook_limits(side) for side in (view.before, view.after))
    for name in sorted(set(old) & set(new)):
        added = sorted(after.get(name, set()) - before.get(name, set()))
        if added and not (before.get(name) and all(_names_moved_tests(one, changeset) for one in added)):
            message = f"the hook `{name}` is limited by {quote_names(added)}"
            yield suspicion("check_removed", view.path, 0, message, f"{name}\n" + "\n".join(added))


def _names_moved_tests(limit: str, changeset: Changeset) -> bool:
    """True for an exclusion of nothing but files beside tests that came with the change."""
    pattern = re.fullmatch(r"exclude: *['\"]?\^?([\w./-]+/)(?:\.\*)?\$?['\"]?", limit)
    if pattern is None:
        return False
    moved = {
        view.path for view in changeset.views if view.before is None or view.path != view.change.base_path
    }
    left_out = [path for path in changeset.comparison.paths if path.startswith(pattern[1])]
    return bool(left_out) and all(path in moved and is_test_path(path) for path in left_out)


def _hook_limits(source: SourceFile | None) -> dict[str, set[str]]:
    """For each hook, the settings that exclude product files or automatic runs."""
    found: dict[str, set[str]] = {}
    name = ""
    for line in source.lines if source else ():
        match = _HOOK_LINE.match(line)
        if match and match[1] == "id":
            name = match[2].strip("\"'")
        elif match and name and _is_limit(match[1], match[2]):
            found.setdefault(name, set()).add(f"{match[1]}: {match[2]}"[:200])
    return found


def _is_limit(key: str, value: str) -> bool:
    if key == "files":
        return not re.search(r"py|src|lib|test|[jt]sx?\b|\.\*\$?$", value)
    if key == "exclude":
        return not re.search(
            r"doc|vendor|generated|migrations|fixtures?|data|snap|\.min|lock|\^\$|third_party|CHANGELOG",
            value,
        )
    return "manual" in value


def find_narrowed_triggers(changeset: Changeset) -> Iterator[Suspicion]:
    """Pipelines that no longer run for what they ran for."""
    for view in changeset.views:
        if not is_pipeline_path(view.path) or view.before is None or ".github/workflows" not in view.path:
            continue
        if "uses:" in view.before.text and not re.search(r"\brun:|checkout", view.before.text):
            continue  # It has no code to check.
        old, new = _trigger_events(view.before), _trigger_events(view.after)
        lost = sorted((old - new) & {"push", "pull_request", "pull_request_target", "merge_group"})
        if lost == ["push"] and "pull_request" in new:
            lost = []  # Pull requests are still checked.
        ignored = sorted(
            path
            for path in _ignored_paths(view.after) - _ignored_paths(view.before)
            if not _PROSE.search(path)
        )
        if ignored:
            yield suspicion(
                "check_removed", view.path, 0, f"does not run on changes of {quote_names(ignored)}"
            )
        if lost and view.after is not None:
            yield suspicion(
                "check_removed",
                view.path,
                0,
                f"does not run on {quote_names(lost)} any more",
                "\n".join(lost),
            )


def _trigger_events(source: SourceFile | None) -> set[str]:
    match = (
        re.search(r"^(?:on|\"on\"|'on'|true):(.*(?:\n(?:[ \t]+.*|[ \t]*))*)", source.text, re.MULTILINE)
        if source
        else None
    )
    return (
        set(
            re.findall(
                r"\b(push|pull_request_target|pull_request|merge_group|schedule|workflow_dispatch)\b",
                match[1],
            )
        )
        if match
        else set()
    )


def _ignored_paths(source: SourceFile | None) -> set[str]:
    """The paths whose changes start no run."""
    if source is None:
        return set()
    blocks = re.findall(r"paths-ignore:[ \t]*(\[[^\]]*\]|(?:\n[ \t]*-[^\n]*)+)", source.text)
    return {path for block in blocks for path in re.findall(r"[\w*./-]{1,200}", block)}


_TOOLS = word_set("""
pytest _pytest unittest mypy ruff coverage flake8 pylint black tox nox jest vitest mocha eslint tsc node npm
npx cargo rustc go python python3 git make remand pluggy hypothesis pytest_cov xdist typescript prettier
curl golangci-lint bash sh env
""")
_LIBRARIES = word_set("""
numpy pandas requests httpx django flask sqlalchemy pydantic attr attrs yaml scipy torch msgspec click rich
jinja2 cryptography redis boto3 typing_extensions freezegun mock sklearn
""")
_STARTUP = re.compile(r"(^|/)(sitecustomize|usercustomize)\.py$|\.pth$|(^|/)PYTHONSTARTUP")
_PLACED = re.compile(r"(^|/)(node_modules|\.venv|venv|site-packages|__pycache__|\.tox)/")
_ROOTS = ("", "src", "tests", "test", "lib", "python")


def find_shadowed_tools(changeset: Changeset) -> Iterator[Suspicion]:
    """Added files that are found before the tool or module of the same name."""
    for view in changeset.views:
        change = view.change
        if change.status not in ("A", "R", "T"):
            continue
        folder = change.path.removesuffix("/__init__.py").rpartition("/")[0]
        is_in_package = bool(folder) and f"{folder}/__init__.py" in changeset.comparison.paths
        reason = "" if is_in_package else _shadowing_reason(change.path)
        if reason:
            yield suspicion(
                "tool_shadowed", change.path, 0, f"`{change.path}` {reason}", change.after or change.signature
            )


def _shadowing_reason(path: str) -> str:
    if _STARTUP.search(path):
        return "is run whenever Python starts"
    if _PLACED.search(path):
        return "is what an installer puts there"
    folders, _, name = path.rpartition("/")
    module, _, suffix = name.partition(".")
    if (
        not suffix
        and module in _TOOLS
        and re.search(r"(^|/)(bin|\.bin|scripts|tools|\.local/bin)$|^$", folders)
    ):
        return f"is found as `{module}`"
    if suffix == "py":
        return _module_reason(folders, module)
    return ""


def _module_reason(folders: str, module: str) -> str:
    if module == "__init__":
        folders, _, module = folders.rpartition("/")
    known = module in _TOOLS or module in _LIBRARIES or module in sys.stdlib_module_names
    is_own = module in ("test", "tests", "__main__", "site") or module.startswith("__")
    return f"is imported as `{module}`" if known and folders in _ROOTS and not is_own else ""


class _ForbiddenLine(NamedTuple):
    """A line that must not be added to files of a certain name."""

    files: re.Pattern[str]
    line: re.Pattern[str]
    code: str


def _forbid(files: str, line: str, code: str) -> _ForbiddenLine:
    return _ForbiddenLine(re.compile(files), re.compile(line), code)


_BUILDS = r"(pom\.xml|\.gradle(\.kts)?|gradle\.properties|\.(cs|vb|fs)proj|Directory\.Build\.props|CMakeLists\.txt|build\.sbt|mix\.exs)$"
_FORBIDDEN_LINES = (
    _forbid(_BUILDS, r"<(skipTests|maven\.test\.skip|skipITs)>\s*true|<testFailureIgnore>\s*true", "failure_ignored"),
    _forbid(_BUILDS, r"ignoreFailures\s*(=|\(|\s)\s*true|haltOnFailure\s*=\s*false|<failOnViolation>\s*false",
        "failure_ignored"),
    _forbid(_BUILDS, r"<(failOnError|failsOnError|haltOnFailure)>\s*false|-DskipTests|isIgnoreFailures\s*=\s*true",
        "failure_ignored"),
    _forbid(_BUILDS, r"<NoWarn>|<WarningLevel>\s*0|TreatWarningsAsErrors>\s*false|allWarningsAsErrors\s*=\s*false",
        "rule_switched_off"),
    _forbid(_BUILDS, r"abortOnError\s*(=\s*)?false|-Wno-\w+|-Xlint:none|<RunAnalyzers>\s*false", "rule_switched_off"),
    _forbid(_BUILDS, r"excludeTestsMatching|<exclude>.*Test|tests?\.enabled\s*=\s*false|enabled\s*=\s*false",
        "tests_left_out"),
    _forbid(r"(^|/)\.(eslint|stylelint|pylint|mypy|flake8|coverage|sonar|oxlint|jshint)ignore$", r"^(?!#)\S",
        "rule_switched_off"),
    _forbid(r"\.py$", r"#\s*doctest:\s*\+SKIP", "test_skipped"),
    _forbid(r"_test\.go$", r"^//\s*(go:build|\+build)\s+(?!(linux|darwin|windows|unix|amd64|arm64)\b)",
        "test_uncollected"),
    _forbid(r"\.rs$", r"#!?\[cfg\(any\(\)\)\]", "test_uncollected"),
)  # fmt: skip
_LEAST_COVERAGE = re.compile(r"(?:minimum|minValue|Threshold)\W{1,6}(0?\.\d+|\d+)", re.IGNORECASE)
_HARMLESS_PATHS = re.compile(
    r"dist|build|node_modules|vendor|coverage|generated|\.min\.|docs?(/|$)|third_party|\.venv"
)


def find_switched_off_checks(changeset: Changeset) -> Iterator[Suspicion]:
    """New lines that switch a check off, in files that existed."""
    for view in changeset.views:
        if view.after is None or is_generated_path(view.path):
            continue
        for row in _FORBIDDEN_LINES:
            if row.files.search(view.path) and not (view.before is None and row.code == "test_uncollected"):
                has_twins = (
                    row.code == "test_uncollected"
                    and is_for_old_go(view.after)
                    and _have_twins(changeset, view)
                )
                yield from () if has_twins else _find_forbidden_line(view, view.after, row)


def _have_twins(changeset: Changeset, view: ChangedFile) -> bool:
    """True if newer versions of Go have every test of a file under its name."""
    tests = [placed for placed in changeset.base_tests if placed.view is view and placed.case.is_collected]
    return all(has_twin(changeset, placed) for placed in tests)


def _find_forbidden_line(view: ChangedFile, after: SourceFile, row: _ForbiddenLine) -> Iterator[Suspicion]:
    had = {line.strip() for line in view.before.lines} if view.before else set()
    for number, line in enumerate(after.lines, 1):
        is_new = row.line.search(line) and line.strip() not in had and not _is_harmless(line, view.path)
        if is_new and not (_BUILD_LINE.match(line) and _is_built_as_before(line, had)):
            yield suspicion(row.code, view.path, number, f"`{shorten(line)}`")
            return


_BUILD_LINE = re.compile(r"//\s*(?:go:build|\+build)\s")
_BUILD_TAG = re.compile(r"!?\w[\w.]*")
_OTHER_BUILDS = frozenset(
    ("!tinygo", "!js", "!wasm", "!wasip1", "!windows", "!plan9", "!appengine", "!gopherjs")
)


def _is_built_as_before(line: str, had: set[str]) -> bool:
    """True for a build constraint of Go that leaves the file out only of builds for other platforms than the gates'."""
    known = " ".join(one for one in had if _BUILD_LINE.match(one))
    asked = set(_BUILD_TAG.findall(_BUILD_LINE.sub("", line)))
    return bool(known) and asked <= {*_BUILD_TAG.findall(known), *_OTHER_BUILDS}


def _is_harmless(line: str, path: str) -> bool:
    """True for generated files in an exclusion list."""
    return path.endswith("ignore") and _HARMLESS_PATHS.search(line) is not None


def find_lowered_coverage(changeset: Changeset) -> Iterator[Suspicion]:
    """A lower minimum of coverage in a build file."""
    for view in changeset.views:
        if view.before is None or view.after is None or not re.search(_BUILDS, view.path):
            continue
        old, new = (
            list(map(float, _LEAST_COVERAGE.findall(side.text))) for side in (view.before, view.after)
        )
        if old and (not new or min(new) < min(old)):
            found = f"a coverage of {min(new, default=0):g} is asked for, was {min(old):g}"
            yield suspicion("threshold_lowered", view.path, 0, found)
