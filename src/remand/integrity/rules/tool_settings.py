"""Settings of checkers, test runners and builds that require less than on the base."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from remand.domain.text.words import word_set
from remand.integrity.changeset import Changeset
from remand.integrity.paths import is_collected_path
from remand.integrity.readers.configuration import SettingValue, ToolSettings, configured_tool, read_settings
from remand.integrity.readers.source import SourceFile
from remand.integrity.suspicions import Suspicion, shorten, suspicion

_FAMILIES = (
    frozenset(("flake8", "pylint", "ruff", "eslint", "biome", "stylelint", "tslint")),
    frozenset(("jest", "vitest", "mocha", "ava", "nyc", "c8", "karma")),
    frozenset(("mypy", "pyright", "ty", "pytype")),
)
_LEAST = re.compile(
    r"(fail_?under|cov_fail_under|minimum\w*|min_\w+|target|statements|branches|functions|lines|score)$"
)
_THRESHOLDS = re.compile(r"threshold|check|fail|nyc|c8|coverage|codecov|minimum|min_|jest|target|pylint")
_MOST = re.compile(
    r"(max_(warnings|complexity|line_length|args|locals|branches|statements|returns|attributes|nested_blocks|bool_expr|parents"
    r"|positional\w*|public_methods|module_lines)|line_length|threshold|retries|retry|reruns|\w+_threshold|complexity)$"
)
_ON = re.compile(
    r"(strict\w*|warn_\w+|disallow_\w+|check_untyped_defs|no_?implicit\w*|no_?unused\w*|no_?fall\w*|xfail_strict|always_?strict"
    r"|branch|exact_?optional\w*|no_?unchecked\w*|use_?unknown\w*|fail_?on\w*|fail_on_\w+|forbid_?only|extra_checks"
    r"|local_partial_types|check_?js|check_coverage|enabled|recommended|all)$"
)
_OFF = re.compile(
    r"(?:^|[._])(ignore_errors|ignore_missing_imports|allow_\w+|pass_?with_?no_?tests|exit_zero|suppress\w*|skip_?tests|no_?emit_?on\w*false"
    r"|implicit_optional|disable_all|dangerously_?ignore\w*|allow_?only|allowunreachablecode|informational|only_pulls|require_ci_to_pass_off)$"
)
_GROWS = re.compile(
    r"((extend_)?ignore|(extend_)?exclude|omit|disable(_error_code)?|ignore_?patterns|exclude_(lines|also|dirs)|ignores|skips"
    r"|(test|coverage|module)path_?ignore_?patterns|norecursedirs|exclusions|unit_test_ignore|coverage_?ignore\w*|exclude_?rules?"
    r"|per_file_ignores(\..+)?|extend_per_file_ignores(\..+)?|watch_?ignore|test_?ignore)$"
)
_SHRINKS = re.compile(
    r"((extend_)?select|strict|enable|enable_error_code|testpaths|test_?match|test_?regex|include|files|source(_pkgs)?|roots|extends|spec"
    r"|collect_?coverage_?from|python_(files|functions|classes)|plugins|filterwarnings|test_?dir|projects)$"
)
_PICKS = re.compile(r"\.(f?grep|grep_?invert|invert|test_?name_?pattern|only_?changed|filter)$")
"""Settings that make a runner run only tests with certain names."""
_VERSION = re.compile(r"version|python|(^|[._])(go|rust|node|edition|msrv)$")
"""Numbers that are versions: 3.10 is more than 3.9."""
_RETRIES = re.compile(r"(^|[._])(retries|retry|reruns|retry_?times)$")
_MANIFEST = re.compile(r"(^|/)(package\.json|pyproject\.toml|setup\.cfg|[\w-]*requirements[\w-]*\.(txt|in))$")
_BUNDLERS = re.compile(r"^(jest|vitest|vite)\.plugins$")
"""What these load to build the code under test, written as calls."""
_NEEDED = re.compile(r"(select|enable|enable_error_code|extends|plugins)$")
"""Lists that require less if removed; without any other list, everything is included."""
_HARMLESS = re.compile(
    r"(^|[/*])\.?(build|dist|node_modules|venv|_?vendor(ed)?|third_party|generated|__generated__|migrations|__pycache__|coverage|out|target"
    r"|docs?|examples?|git|tox|nox|eggs|_build|static|public|storybook-static|typings|scratch)([/*]|$)|_pb2|\.min\.|\.d\.ts|\.gen(erated)?\."
)
_UNCOVERED = re.compile(
    _HARMLESS.pattern
    + r"|\.stories\.|\.(test|spec)\.|__mocks__|__tests__|/types?\.ts|/(main|index)\.[jt]sx?$"
)
"""What most projects exclude from coverage."""
_USUAL_LINES = re.compile(
    r"TYPE_CHECKING|NotImplementedError|__main__|overload|abstractmethod|abc\.|pytest\\?\.|pragma: no cover|\.\.\.|^[:\s^(]*(?:\\\.){3}|^[:\s^(]*\\?\.\{3\}|assert_never|def __repr__|Protocol"
)
_TEST_CODES = re.compile(
    r"S101|S10[5-8]|D\d*|ANN\d*|PLR2004|ARG\d*|INP001|SLF001|PLR0\d+|E501|F811|S|(?:TRY|EM|FBT|PERF)\d{3}"
)
_IMPORT_CODES = re.compile(r"F40[135]|E402|I001")
"""Rules that a module of re-exports cannot follow."""
_REPORTS = re.compile(r"right\.report\w+$")
_RANKS = {
    "off": 0.0,
    "0": 0.0,
    "allow": 0.0,
    "warn": 1.0,
    "none": 0.0,
    "warning": 1.0,
    "information": 0.5,
    "1": 1.0,
    "error": 2.0,
    "2": 2.0,
    "deny": 2.0,
    "forbid": 3.0,
}
_FLAGS = re.compile(
    r"--deselect|--ignore(?:-glob)?\b|(?:^|\s)-k\b|-m [\"']?not |-p no:\w+|--no-cov\b|--last-failed|--lf\b|--reruns|--continue-on-"
    r"collection-errors|--collect-only|--noconftest|--maxfail=0|-p \w+|--snapshot-update|--inline-snapshot=(?:fix|create)"
)
_STRICT_FLAGS = re.compile(
    r"--strict\S*|--cov-fail-under\S*|-W ?error\S*|--cov(?![\w-])\S*|--forbid\S*|--doctest-modules|--runslow"
)


_NO_CHECKERS = re.compile(
    r"(flit|hatch|setuptools|poetry|pdm|uv|maturin|scikit_build|cibuildwheel|towncrier|bumpversion|commitizen|semantic_release"
    r"|check_manifest|codespell|interrogate|black|isort|tox|testenv|coverage\.paths|check_wheel_contents|typos|pre_commit\.repos"
    r"|cargo\.(?:package|features|(?:workspace\.|target\.\S+\.)?(?:dev_|build_)?dependencies))\b"
)
"""Tables that package, format or describe the project; tox's commands and hooks are read by themselves."""
_IGNORED_OUTCOME = re.compile(r"\.ignore_(errors|outcome)$")
_RETIRED = word_set("""
deadcode gas golint gosimple gofmt goimports gofumpt gci interfacer maligned megacheck nosnakecase scopelint structcheck
stylecheck varcheck exportloopref ifshort exhaustivestruct vet vetshadow typecheck
""")
"""Checkers that were discontinued or merged into another: golangci-lint refuses their names."""


def find_lowered_settings(changeset: Changeset) -> Iterator[Suspicion]:
    """Every setting of a known tool that requires less, over all files of the change together."""
    before, after, places = _collect_settings(changeset)
    gone = _replaced_tools(before, after) | _uninstalled_tools(changeset, before, after)
    reformed = _reformatted_tools(changeset)
    for key in sorted({*before, *after}):
        tool = _tool_name(key)
        if _NO_CHECKERS.match(key) and not _IGNORED_OUTCOME.search(key):
            continue
        if tool in gone or (
            not any(_tool_name(other) == tool for other in before) and not _is_weak_by_itself(key)
        ):
            continue
        if key.endswith(("extends", "plugins")) and tool in reformed:
            continue
        old, new = _value_for(key, before), _with_extension(key, after)
        code = _setting_code(key, old, new, before, after)
        if (
            code in ("tests_left_out", "rule_switched_off")
            and (_SHRINKS.search(key) or _GROWS.search(key))
            and _are_places_renamed(changeset, before.get(key), after.get(key))
        ):
            continue
        if (
            code == "tests_left_out"
            and _SHRINKS.search(key)
            and _are_places_empty(changeset, before.get(key), after.get(key))
        ):
            continue
        if code == "tests_left_out" and _GROWS.search(key) and _have_no_tests(changeset, old, new):
            continue
        if code:
            path = places.get(key, "")
            found = f"`{key}`: {_value_text(before.get(key))} became {_value_text(after.get(key))}"
            yield suspicion(code, path, _setting_line(changeset, path, key), found)


_ENTRY = re.compile(r"(.*\boverrides)\[(.*)\](.*)")
"""A setting for certain modules or files."""


def _value_for(key: str, settings: ToolSettings) -> SettingValue | None:
    """A setting's value; for certain modules also where it is set for a pattern of them."""
    asked = None if key in settings else _ENTRY.fullmatch(key)
    for other in settings if asked else ():
        wide = _ENTRY.fullmatch(other)
        if asked and wide and wide[1] == asked[1] and wide[3] == asked[3] and fnmatchcase(asked[2], wide[2]):
            return settings[other]
    return settings.get(key)


def _with_extension(key: str, after: ToolSettings) -> SettingValue | None:
    """A setting of the head; a list of rules includes those of an `extend-…` beside it."""
    value = _value_for(key, after)
    tool, _, name = key.rpartition(".")
    extension = after.get(f"{tool}.extend_{name}")
    if name not in ("select", "enable") or extension is None or (value is None and "select" not in name):
        return value
    return (*_value_items(value), *_value_items(extension))


def _collect_settings(changeset: Changeset) -> tuple[ToolSettings, ToolSettings, dict[str, str]]:
    before: ToolSettings = {}
    after: ToolSettings = {}
    places: dict[str, str] = {}
    for view in changeset.views:
        if not configured_tool(view.path) and not configured_tool(view.change.base_path):
            continue
        old = read_settings(view.before) if view.before else {}
        new = read_settings(view.after) if view.after else {}
        before |= old
        after |= new
        places |= dict.fromkeys([*old, *new], view.path)
    return before, after, places


def _reformatted_tools(changeset: Changeset) -> set[str]:
    """Tools whose settings moved to another file, which may write lists in another form."""
    old = {configured_tool(view.path) for view in changeset.views if view.after is None}
    return old & {configured_tool(view.path) for view in changeset.views if view.before is None}


def _tool_name(key: str) -> str:
    return re.split(r"[.\[]", key, maxsplit=1)[0]


def _is_weak_by_itself(key: str) -> bool:
    """True for settings that weaken even a tool that was not configured before."""
    return key in ("pytest.addopts", "mypy.ignore_errors") or key.startswith(
        ("pytest.python_", "coverage.run.omit")
    )


def _replaced_tools(before: ToolSettings, after: ToolSettings) -> set[str]:
    """The tools that were removed and replaced by another of the same kind."""
    old, new = {_tool_name(key) for key in before}, {_tool_name(key) for key in after}
    return {
        tool
        for tool in old - new
        for family in _FAMILIES
        if tool in family and (family & new) - (family & old)
    }


def _uninstalled_tools(changeset: Changeset, before: ToolSettings, after: ToolSettings) -> set[str]:
    """The tools that the project no longer uses: without settings, and not among what it installs."""
    gone = {_tool_name(key) for key in before} - {_tool_name(key) for key in after}
    manifests = [view for view in changeset.views if _MANIFEST.search(view.path)]
    return {
        tool
        for tool in gone
        for view in manifests
        if view.before and view.after and _installs(view.before, tool) and not _installs(view.after, tool)
    }


def _installs(source: SourceFile, tool: str) -> bool:
    return (
        re.search(
            rf"(?m)^\s*[\"']?{re.escape(tool)}[\"']?\s*(?:[:=<>~!\[]|$)|[\"']{re.escape(tool)}\b", source.text
        )
        is not None
    )


def _are_places_empty(changeset: Changeset, old: SettingValue | None, new: SettingValue | None) -> bool:
    """True if all files have left the places where tests are no longer searched for."""
    lost = [item.strip("./").partition("*")[0] for item in _value_items(old) if item not in _value_items(new)]
    left = [view.change.base_path for view in changeset.views]
    return all(
        any(_lies_in(path, item) for path in left)
        and not any(_lies_in(path, item) for path in changeset.comparison.paths)
        for item in lost
    )


def _have_no_tests(changeset: Changeset, old: SettingValue | None, new: SettingValue | None) -> bool:
    """True if no test lies in the places that a list of what is left out gained."""
    had, paths = _value_items(old), changeset.comparison.paths
    tests = [path for path in paths if is_collected_path(path, changeset.comparison.test_patterns)]
    gained = [item.strip("./") for item in _value_items(new) if item not in had]
    is_plain = all(re.fullmatch(r"[\w-]+(/[\w-]+)+", item) for item in gained)
    return bool(tests) and is_plain and not any(_lies_in(path, item) for path in tests for item in gained)


def _are_places_renamed(changeset: Changeset, old: SettingValue | None, new: SettingValue | None) -> bool:
    """True if a list names as many new places as it lost."""
    had, has = _value_items(old), _value_items(new)
    lost, gained = [item for item in had if item not in has], [item for item in has if item not in had]
    if not lost or len(lost) != len(gained) or not changeset.comparison.paths:
        return False
    places = [item.strip("./").partition("*")[0] for item in (*lost, *gained)]
    is_there = [
        any(_lies_in(path, place) for path in changeset.comparison.paths) for place in places if place
    ]
    return len(is_there) == 2 * len(lost) and is_there == [False] * len(lost) + [True] * len(lost)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _setting_code(
    key: str, old: SettingValue | None, new: SettingValue | None, before: ToolSettings, after: ToolSettings
) -> str:
    """The code of the suspicion for a changed setting; empty if there is none."""
    if old == new:
        return ""
    if key.endswith("addopts"):
        kept = _value_words(new) + (
            " --strict-markers --strict-config" if after.get("pytest.strict") is True else ""
        )
        return _options_code(_value_words(old), kept)
    if ".rules." in key or "lints." in key or _REPORTS.search(key):
        if "lints.clippy." in key and old is None and _is_choice_of_new_group(before, after):
            return ""
        return (
            "rule_switched_off"
            if _severity_rank(new) < _severity_rank(old)
            and any(_severity(value) in _RANKS for value in (old, new) if value is not None)
            else ""
        )
    if _PICKS.search(key) and new not in (None, "", False):
        return "tests_left_out"
    if key.endswith("disable_all") and after.get(f"{key.rpartition('.')[0]}.default") == "none":
        return ""
    if key.endswith("follow_imports"):
        return "rule_switched_off" if new in ("skip", "silent") else ""
    if isinstance(old, bool) or isinstance(new, bool):
        if old is None and new is False and _is_implied_by_wider(key, before):
            return "rule_switched_off"
        return "" if new is None and _is_implied_by_wider(key, after) else _switch_code(key, old, new)
    if _GROWS.search(key):
        return _growth_code(key, _value_items(old), _value_items(new), before, after)
    if _SHRINKS.search(key) and not _BUNDLERS.search(key):
        return _shrink_code(key, old, new)
    return _number_code(key, old, new)


def _is_choice_of_new_group(before: ToolSettings, after: ToolSettings) -> bool:
    """True if clippy's restrictions are switched on, which are all off, so that those left out stay as they were."""
    group = "cargo.lints.clippy.restriction"
    return any(
        key.startswith(group) and _severity_rank(value) > 0 and key not in before
        for key, value in after.items()
    )


def _is_implied_by_wider(key: str, after: ToolSettings) -> bool:
    """True for a switch that a wider one implies: a strict mode, or the same for all modules."""
    wide = re.sub(r"\.overrides\[[^\]]*\]", "", key)
    strict = [
        name
        for name in (f"{wide.rpartition('.')[0]}.strict", f"{_tool_name(key)}.strict")
        if after.get(name) is True
    ]
    is_part = re.search(
        r"(warn_\w+|disallow_\w+|check_untyped_defs|no_?implicit\w*|strict\w+|always_?strict|xfail_strict)$",
        key,
    )
    return bool(strict and is_part) or (wide != key and after.get(wide) is True)


def _number_code(key: str, old: SettingValue | None, new: SettingValue | None) -> str:
    if _RETRIES.search(key) and old is None and isinstance(new, float):
        return "test_retried" if new > 0 else ""
    if not isinstance(old, float) or isinstance(old, bool) or _VERSION.search(key) or isinstance(new, str):
        return ""
    is_number = isinstance(new, float)
    if _LEAST.search(key) and _THRESHOLDS.search(key):
        return "threshold_lowered" if not is_number or new < old else ""  # type: ignore[operator]  # a number by then
    if _MOST.search(key) and is_number and isinstance(new, float):
        room = 1.5 if "line_length" in key else 1.0
        return "threshold_lowered" if new > old * room and new > old else ""
    return ""


def _switch_code(key: str, old: SettingValue | None, new: SettingValue | None) -> str:
    if _ON.search(key) and old is True and new is not True:
        return "rule_switched_off"
    if _OFF.search(key) and new is True and old is not True:
        return "" if "ignore_missing_imports" in key and "overrides[" in key else "rule_switched_off"
    return ""


def _options_code(old: str, new: str) -> str:
    flags_old, flags_new = set(_FLAGS.findall(old)), set(_FLAGS.findall(new))
    if flags_new - flags_old or len(_FLAGS.findall(new)) > len(_FLAGS.findall(old)):
        return "tests_left_out"
    lost = set(_STRICT_FLAGS.findall(old)) - set(_STRICT_FLAGS.findall(new))
    measured = [flag.partition("=")[2] for flag in _STRICT_FLAGS.findall(new) if flag.startswith("--cov=")]
    renamed = {
        flag for flag in lost if flag.startswith("--cov=") and _is_elsewhere(flag.partition("=")[2], measured)
    }
    return "threshold_lowered" if lost - renamed else ""


def _is_elsewhere(old: str, measured: list[str]) -> bool:
    """True if coverage of another package is measured, not of a part of the same one."""
    return bool(measured) and not any(re.match(rf"{re.escape(old)}[./]", name) for name in measured)


def _value_words(value: SettingValue | None) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return value if isinstance(value, str) else ""


def _value_items(value: SettingValue | None) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (
        tuple(part for part in re.split(r"[\s,|]+", str(value)) if part)
        if isinstance(value, str | float)
        else ()
    )


def _growth_code(
    key: str, old: tuple[str, ...], new: tuple[str, ...], before: ToolSettings, after: ToolSettings
) -> str:
    added = [item for item in new if item not in old]
    if re.search(r"coverage|omit|codecov", key):
        added = [
            item for item in added if not re.search(r"(^|[/*])tests?[/*]|conftest|__main__|setup\.py", item)
        ]
    added = [
        item
        for item in added
        if not _HARMLESS.search(item) and not _is_newly_selected(key, item, before, after)
    ]
    if "exclude_lines" in key or "exclude_also" in key:
        added = [item for item in added if not _USUAL_LINES.search(item)]
    if "per_file_ignores" in key:
        added = _unusual_codes(key, added) if not _is_moved(key, new, before, after) else []
    is_left_out = re.search(r"test\w*ignore|norecursedirs", key)
    return ("tests_left_out" if is_left_out else "rule_switched_off") if added else ""


def _is_moved(key: str, codes: tuple[str, ...], before: ToolSettings, after: ToolSettings) -> bool:
    """True if another entry had the same codes and was removed."""
    gone = (
        _value_items(before[other]) for other in before if "per_file_ignores" in other and other not in after
    )
    return key not in before and any(set(codes) <= set(had) for had in gone)


def _unusual_codes(key: str, codes: list[str]) -> list[str]:
    if re.search(
        r"(^|[./*_])(docs?|examples?|bench\w*|typing|scripts?|tools|\w*_?examples?|typing_\w+)([/*_.]|$)",
        key.partition("ignores.")[2],
    ):
        return []  # Code that is not shipped to anybody.
    if re.search(r"test(s|ing)?[/*]|test_|conftest", key):
        return [code for code in codes if not _TEST_CODES.fullmatch(code)]
    return [code for code in codes if not ("__init__" in key and _IMPORT_CODES.fullmatch(code))]


def _is_newly_selected(key: str, item: str, before: ToolSettings, after: ToolSettings) -> bool:
    """True for a rule of a family that is newly selected, or that was not selected before."""
    tool = _tool_name(key)
    chosen = [*_value_items(after.get(f"{tool}.select")), *_value_items(after.get(f"{tool}.extend_select"))]
    had = {*_value_items(before.get(f"{tool}.select")), *_value_items(before.get(f"{tool}.extend_select"))}
    was_off = bool(before.get(f"{tool}.select")) and not any(_covers_item(code, item) for code in had)
    return was_off or any((item.startswith(code) or code == "ALL") and code not in had for code in chosen)


def _shrink_code(key: str, old: SettingValue | None, new: SettingValue | None) -> str:
    had, has = _value_items(old), _value_items(new)
    if key.endswith("projects") and all(item.startswith("{") for item in (*had, *has)):
        return "tests_left_out" if len(has) < len(had) or _leaves_out_more(had, has) else ""
    if key.endswith("filterwarnings"):
        is_wide = any(re.fullmatch(r"ignore(::\w*Warning)?", item) for item in has if item not in had)
        return "rule_switched_off" if is_wide or ("error" in had and "error" not in has) else ""
    if re.search(r"python_(files|functions|classes)$", key):
        usual = {
            "test_*.py",
            "*_test.py",
            "test_*",
            "test",
            "Test*",
            "Test",
            "test*.py",
            "tests.py",
            "*Test",
            "*Tests",
        }
        lost = [item for item in had if item not in has]
        return "tests_left_out" if lost or (not had and not usual & set(has)) else ""
    if not had:
        return ""
    if any(item.startswith("!") and item not in had and not _UNCOVERED.search(item) for item in has):
        return "rule_switched_off"
    lost = [
        item
        for item in had
        if item not in has
        and item not in _RETIRED
        and not any(_covers_item(other, item) for other in has)
        and not any(_is_respelt(item, other) for other in has if other not in had)
    ]
    if not lost or (new is None and not _NEEDED.search(key)):
        return ""
    return "tests_left_out" if re.search(r"test|roots|spec|^jest\.", key) else "rule_switched_off"


_LISTED = r"(?<!\w){}\s*:\s*\[([^\]]*)"


def _leaves_out_more(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """True if a project of a runner leaves out tests that no other project includes, or includes fewer than before."""
    (had_out, had_in), (has_out, has_in) = (
        tuple(
            set(re.findall(r"['\"]([^'\"]+)", ",".join(re.findall(_LISTED.format(word), ",".join(items)))))
            for word in ("exclude", "include")
        )
        for items in (old, new)
    )
    return bool(has_out - had_out - has_in or had_in - has_in)


def _is_respelt(old: str, new: str) -> bool:
    """True for a name in letters alone of which one letter went or came: a rule of that name was never there."""
    is_word = len(old) > 6 and old.isalpha() and new.isalpha()
    short, long = sorted((old, new), key=len)
    return (
        is_word
        and len(long) - len(short) == 1
        and any(long[:at] + long[at + 1 :] == short for at in range(len(long)))
    )


def _covers_item(wide: str, narrow: str) -> bool:
    """True if a pattern, folder or code includes another."""
    return wide in ("ALL", ".", "**") or narrow.startswith(wide.rstrip("/*") or "\0")


def _severity(value: SettingValue | None) -> str:
    first = value[0] if isinstance(value, tuple) and value else value
    if isinstance(first, bool):
        return "off" if not first else "error"
    return f"{first:g}" if isinstance(first, float) else str(first).strip("'\"").lower()


def _severity_rank(value: SettingValue | None) -> float:
    return _RANKS.get(_severity(value), 1.0) if value is not None else 1.0


def _value_text(value: SettingValue | None) -> str:
    if value is None:
        return "not set"
    return f"`{shorten(', '.join(value) if isinstance(value, tuple) else f'{value:g}' if type(value) is float else str(value))}`"


def _setting_line(changeset: Changeset, path: str, key: str) -> int:
    source: SourceFile | None = next((view.after for view in changeset.views if view.path == path), None)
    name = re.split(r"[.\]]", key)[-1]
    flat = re.compile(re.escape(name).replace("_", "[-_]?"), re.IGNORECASE)
    lines = source.lines if source else []
    return next((at for at, line in enumerate(lines, 1) if flat.search(line)), 0)
