"""Files that say how work is judged, and that only the base may change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from remand.domain.control import is_nested_control
from remand.domain.integrity.catalogue import listed, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import matches
from remand.domain.integrity.reading.commands import is_pipeline, scripts_of
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import View

ALWAYS = (
    "remand.toml",
    "*/remand.toml",
    ".git-hooks/*",
    ".githooks/*",
    ".openhands/hooks*",
    ".github/hooks/*",
)
_SETTINGS = re.compile(
    r"(^|/)\.(claude|codex|cursor|gemini|qwen|openhands|copilot)/[\w./-]*(settings|hooks|config)[\w.-]*\.(json|toml|ya?ml)$"
)
_HOOKS = re.compile(r"(^|/)\.husky/[\w-]+$|(^|/)(\.?lefthook|\.overcommit)\.ya?ml$")
_HOOK_LINE = re.compile(r"\s*(?:- )?\s*(id|files|exclude|stages):\s*(\S.*)")
_PROSE = re.compile(r"\.(md|rst|txt|adoc|png|svg)$|^docs?/|LICENSE|CHANGELOG|\.github/|\.vscode/|^examples?/")
_HOOK_WORDS = ("hook", "permission", "deny", "sandbox", "trust", "allow")


def protected(scene: Scene) -> Iterator[Suspicion]:
    """Gate policy, hooks, ledgers below the top, and whatever the policy names, changed at all."""
    patterns = (*ALWAYS, *scene.comparison.protected)
    for view in scene.views:
        change = view.change
        names = [name for name in (change.path, change.old_path) if name]
        if any(matches(name, patterns) or is_nested_control(name) for name in names):
            done = {"A": "added", "D": "deleted", "R": "renamed"}.get(change.status, "changed")
            content = (change.after or "") + change.signature
            yield suspicion(
                "control_changed", change.path, 0, f"`{change.path}` was {done}", f"{done}\n{content}"
            )


def host_settings(scene: Scene) -> Iterator[Suspicion]:
    """Settings of an agent's host, where hooks or permissions in them differ."""
    for view in scene.views:
        if _SETTINGS.search(view.path) or _SETTINGS.search(view.change.base_path):
            old, new = _guards(view.before), _guards(view.after)
            if old != new and (old or view.before is None or "hook" in new):
                yield suspicion(
                    "control_changed", view.path, 0, "hooks or permissions of the agent's host changed", new
                )


def _guards(source: Source | None) -> str:
    """The parts of a host's settings that guard, as one text."""
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


def hooks_removed(scene: Scene) -> Iterator[Suspicion]:
    """Git hooks that no longer run."""
    for view in scene.views:
        if _HOOKS.search(view.change.base_path) and _ran(view.before) and not _ran(view.after):
            yield suspicion(
                "control_changed", view.path, 0, f"the git hook `{view.change.base_path}` is gone or empty"
            )
        if view.path.endswith("package.json") and view.before and view.after:
            yield from _package_hooks(view)
        if view.path.endswith(".pre-commit-config.yaml"):
            yield from _pre_commit(view)


def _ran(source: Source | None) -> bool:
    lines = (line.strip() for line in source.lines) if source else ()
    return any(line and not line.startswith(("#", "exit 0", '. "$(dirname', "true")) for line in lines)


def _package_hooks(view: View) -> Iterator[Suspicion]:
    old = " ".join(scripts_of(view.before.text).values()) if view.before else ""
    new = " ".join(scripts_of(view.after.text).values()) if view.after else ""
    for tool in ("husky", "lefthook", "simple-git-hooks", "lint-staged"):
        if re.search(rf"\b{tool}\b", old) and not re.search(rf"\b{tool}\b", new):
            yield suspicion("control_changed", view.path, 0, f"no script sets up `{tool}` any more")


def _pre_commit(view: View) -> Iterator[Suspicion]:
    found = re.compile(r"^\s*- id:\s*([\w-]+)", re.MULTILINE)
    old = found.findall(view.before.text) if view.before else []
    new = found.findall(view.after.text) if view.after else []
    lost = sorted(set(old) - set(new))
    is_replaced = len(set(new) - set(old)) > 0
    if lost and not is_replaced:
        yield suspicion("check_removed", view.path, 0, f"hooks {listed(lost)} are gone", "\n".join(lost))
    before, after = (_hook_limits(side) for side in (view.before, view.after))
    for name in sorted(set(old) & set(new)):
        added = sorted(after.get(name, set()) - before.get(name, set()))
        if added:
            told = f"the hook `{name}` is limited by {listed(added)}"
            yield suspicion("check_removed", view.path, 0, told, f"{name}\n" + "\n".join(added))


def _hook_limits(source: Source | None) -> dict[str, set[str]]:
    """By hook: the settings that keep it from files of the product, or from running by itself."""
    found: dict[str, set[str]] = {}
    name = ""
    for line in source.lines if source else ():
        match = _HOOK_LINE.match(line)
        if match and match[1] == "id":
            name = match[2].strip("\"'")
        elif match and name and _limits(match[1], match[2]):
            found.setdefault(name, set()).add(f"{match[1]}: {match[2]}"[:200])
    return found


def _limits(key: str, value: str) -> bool:
    if key == "files":
        return not re.search(r"py|src|lib|test|[jt]sx?\b|\.\*\$?$", value)
    if key == "exclude":
        return not re.search(
            r"doc|vendor|generated|migrations|fixtures?|data|snap|\.min|lock|\^\$|third_party|CHANGELOG",
            value,
        )
    return "manual" in value


def narrowed_triggers(scene: Scene) -> Iterator[Suspicion]:
    """Pipelines that no longer run on what they ran on."""
    for view in scene.views:
        if not is_pipeline(view.path) or view.before is None or ".github/workflows" not in view.path:
            continue
        old, new = _events(view.before), _events(view.after)
        lost = sorted((old - new) & {"push", "pull_request", "pull_request_target", "merge_group"})
        ignored = sorted(
            path for path in _ignored(view.after) - _ignored(view.before) if not _PROSE.search(path)
        )
        if ignored:
            yield suspicion("check_removed", view.path, 0, f"does not run on changes of {listed(ignored)}")
        if lost and view.after is not None:
            yield suspicion(
                "check_removed", view.path, 0, f"does not run on {listed(lost)} any more", "\n".join(lost)
            )


def _events(source: Source | None) -> set[str]:
    """The events a workflow runs on."""
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


def _ignored(source: Source | None) -> set[str]:
    """The paths whose changes start no run."""
    if source is None:
        return set()
    blocks = re.findall(r"paths-ignore:[ \t]*(\[[^\]]*\]|(?:\n[ \t]*-[^\n]*)+)", source.text)
    return {path for block in blocks for path in re.findall(r"[\w*./-]{1,200}", block)}
