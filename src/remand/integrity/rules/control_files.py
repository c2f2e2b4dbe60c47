"""Files that only the base may change, because they say how work is judged; files that shadow a tool."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from remand.domain.gate.control_files import is_nested_control_path
from remand.domain.text.words import word_list, word_set
from remand.integrity.changeset import ChangedFile, Changeset
from remand.integrity.paths import matches_any
from remand.integrity.readers.command_lines import is_pipeline_path, package_scripts
from remand.integrity.readers.source import SourceFile
from remand.integrity.suspicions import Suspicion, quote_names, suspicion

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
            yield from _find_pre_commit_changes(view)


def _runs_anything(source: SourceFile | None) -> bool:
    lines = (line.strip() for line in source.lines) if source else ()
    return any(line and not line.startswith(("#", "exit 0", '. "$(dirname', "true")) for line in lines)


def _find_pre_commit_changes(view: ChangedFile) -> Iterator[Suspicion]:
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
        if added:
            message = f"the hook `{name}` is limited by {quote_names(added)}"
            yield suspicion("check_removed", view.path, 0, message, f"{name}\n" + "\n".join(added))


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
        reason = _shadowing_reason(change.path)
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
