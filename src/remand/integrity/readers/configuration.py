"""The settings of checkers and test runners, in any file and format that contains them."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from remand.domain.text.words import word_set
from remand.integrity.readers.source import SourceFile

SettingValue = str | float | bool | tuple[str, ...]
ToolSettings = dict[str, SettingValue]
"""Settings by tool and key, such as `pytest.testpaths`."""
MAX_DEPTH = 12

_BY_NAME: tuple[tuple[str, str], ...] = (
    (r"\.?ruff\.toml", "ruff"),
    (r"\.?mypy\.ini", "mypy"),
    (r"\.?pytest\.(ini|toml)", "pytest"),
    (r"\.coveragerc", "coverage"),
    (r"\.flake8", "flake8"),
    (r"\.?pylintrc(\.toml)?", "pylint"),
    (r"pyrightconfig\.json", "pyright"),
    (r"(jest|vitest|vite)\.config\.\w+", "jest"),
    (r"\.eslintrc(\.\w+)?|eslint\.config\.\w+", "eslint"),
    (r"\.(nycrc|c8rc)(\.\w+)?", "nyc"),
    (r"\.mocharc(\.\w+)?", "mocha"),
    (r"biome\.jsonc?", "biome"),
    (r"playwright\.config\.\w+", "playwright"),
    (r"karma\.conf\.\w+", "karma"),
    (r"\.?codecov\.ya?ml", "codecov"),
    (r"\.golangci\.(ya?ml|toml)", "golangci"),
    (r"\.stylelintrc(\.\w+)?", "stylelint"),
    (r"cargo\.toml", "cargo"),
    (r"\.?clippy\.toml", "clippy"),
    (r"\.pre-commit-config\.yaml", "pre_commit"),
    (r"sonar-project\.properties", "sonar"),
    (r"\.rubocop\.yml", "rubocop"),
)
_COMPILED = [(re.compile(pattern, re.IGNORECASE), tool) for pattern, tool in _BY_NAME]
_PACKAGE_KEYS = ("jest", "eslintConfig", "nyc", "c8", "mocha", "ava", "vitest", "stylelint")
_SECTIONS = {
    "pytest": "pytest",
    "tool:pytest": "pytest",
    "flake8": "flake8",
    "run": "coverage.run",
    "report": "coverage.report",
}
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|,(?=\s*[\]}])')


def configured_tool(path: str) -> str:
    """The tool that a file configures; empty if it is no known tool."""
    name = path.rpartition("/")[2]
    if name in ("pyproject.toml", "setup.cfg", "tox.ini", "package.json"):
        return name
    if re.fullmatch(r"[jt]sconfig[\w.-]*\.json", name):
        return name.removesuffix(".json").replace(".", "_")
    return next((tool for pattern, tool in _COMPILED if pattern.fullmatch(name)), "")


def read_settings(source: SourceFile) -> ToolSettings:
    tool = configured_tool(source.path)
    found: ToolSettings = {}
    for key, value in _setting_pairs(source, tool):
        found[_canonical_key(key)] = value
    return found


def _setting_pairs(source: SourceFile, tool: str) -> Iterator[tuple[str, SettingValue]]:
    name = source.path.rpartition("/")[2]
    if not tool:
        return
    if name == "pyproject.toml":
        yield from _flatten(_parse_toml(source.text).get("tool", {}), "")
    elif name == "package.json":
        whole = _parse_json(source.text)
        for key in _PACKAGE_KEYS:
            yield from _flatten(whole.get(key, {}), key.removesuffix("Config"))
    elif name.endswith(".toml"):
        yield from _flatten(_parse_toml(source.text), tool)
    elif name.endswith((".cfg", ".ini", ".properties", ".coveragerc", ".flake8", "pylintrc")):
        yield from _ini_settings(source.text, tool)
    elif name.endswith((".json", ".jsonc", "rc")):
        yield from _flatten(_parse_json(source.text), tool)
    elif name.endswith((".yml", ".yaml")):
        yield from ((f"{tool}.{key}", value) for key, value in yaml_settings(source.text))
    elif source.language == "script":
        yield from _script_settings(source, tool)


def _parse_toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _parse_json(text: str) -> Mapping[str, Any]:
    try:
        whole = json.loads(_COMMENT.sub(lambda match: match[1] or "", text))
    except (ValueError, RecursionError):
        return {}
    return whole if isinstance(whole, dict) else {}


def _ini_settings(text: str, tool: str) -> Iterator[tuple[str, SettingValue]]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    try:
        parser.read_string(text if re.search(r"^\s*\[", text, re.MULTILINE) else f"[{tool}]\n{text}")
    except (configparser.Error, ValueError, AttributeError):
        # The last of them is a fault of configparser before Python 3.13: a key without a value and a
        # continued line.
        return
    for section in parser.sections():
        for prefix in _section_prefixes(section, tool):
            for key, value in parser.items(section):
                yield f"{prefix}.{key}", _parse_ini_value(key, value or "")


def _section_prefixes(section: str, tool: str) -> list[str]:
    """The tool, and the parts of it, that a section configures."""
    if section.startswith("mypy-"):
        return [f"mypy.overrides[{name.strip()}]" for name in section[5:].split(",")]
    return [_section_prefix(section, tool)]


def _section_prefix(section: str, tool: str) -> str:
    if section.startswith("coverage:"):
        return f"coverage.{section[9:]}"
    if tool == "coverage":
        return f"coverage.{section}"
    if tool == "pylint":
        return "pylint"
    return _SECTIONS.get(section, section) if section not in ("run", "report") else f"{tool}.{section}"


_LISTED = word_set("""
ignore extend-ignore extend_ignore select extend-select exclude extend-exclude disable enable omit testpaths
per-file-ignores exclude_lines exclude_also norecursedirs source files include filterwarnings python_files
python_functions python_classes disable_error_code enable_error_code sonar.exclusions
sonar.coverage.exclusions sonar.test.exclusions markers
""")


def _parse_ini_value(key: str, text: str) -> SettingValue:
    if key in _LISTED:
        by_line = key in ("filterwarnings", "markers", "exclude_lines", "exclude_also")
        return tuple(part for part in re.split(r"\n" if by_line else r"[\s,]+", text.strip()) if part)
    return _parse_scalar(text.strip())


def _parse_scalar(text: str) -> SettingValue:
    if text.lower() in ("true", "yes", "on"):
        return True
    if text.lower() in ("false", "no", "off"):
        return False
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        return text


def _flatten(value: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, SettingValue]]:
    """Nested settings as dotted keys."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for place, item in enumerate(value):
            for name in _entry_names(item, place):
                yield from _flatten(item, f"{prefix}[{name}]", depth + 1)
    elif isinstance(value, list):
        yield prefix, tuple(str(item) for item in value)
    elif isinstance(value, bool):
        yield prefix, value
    elif isinstance(value, int | float):
        yield prefix, float(value) if abs(value) < 1e300 else 1e300
    elif isinstance(value, str):
        yield prefix, value


def _entry_names(item: Any, place: int) -> list[str]:
    """The names of an entry of a list, one for each of its modules or files; else its position."""
    for name in ("module", "files"):
        if isinstance(item, dict) and name in item:
            return [str(one) for one in item[name]] if isinstance(item[name], list) else [str(item[name])]
    return [str(place)]


def _script_settings(source: SourceFile, tool: str) -> Iterator[tuple[str, SettingValue]]:
    """The settings of a configuration script, as far as they are written literally."""
    code = source.code
    scopes: list[tuple[int, str]] = []
    projects = -1
    """Where a list of projects ends: what each of them includes is compared for all together."""
    for place, token in enumerate(code.tokens):
        while scopes and place >= scopes[-1][0]:
            scopes.pop()
        if token.text != ":" or code.kind(place - 1) not in ("name", "string", "number"):
            continue
        key = ".".join((tool, *(name for _, name in scopes), code.text(place - 1).strip("'\"`")))
        opening = place + 1
        if code.text(opening) == "{":
            scopes.append((code.closing_place(opening), code.text(place - 1).strip("'\"`")))
        elif code.text(opening) == "[":
            items = [
                code.text_between(*item).strip("'\"`").removeprefix("...") for item in code.arguments(opening)
            ]
            name = code.text(place - 1)
            projects = max(projects, code.closing_place(opening)) if name == "projects" else projects
            if place > projects or name not in ("include", "exclude"):
                yield key, tuple(items)
        elif code.kind(opening) in ("string", "number", "name", "pattern") and code.text(opening + 1) in (
            ",",
            "}",
            "",
        ):
            yield key, _parse_scalar(code.text(opening).strip("'\"`"))


def _canonical_key(key: str) -> str:
    """A setting's canonical name, which is the same for all places."""
    key = key.replace("-", "_").lower()
    for old, new in (
        ("pytest.ini_options.", "pytest."),
        ("ruff.lint.", "ruff."),
        ("jest.test.", "jest."),
        ("jest.coverage.", "jest."),
        ("jest.coveragethreshold.global.", "jest.thresholds."),
    ):
        key = key.replace(old, new)
    return key


_ITEM = re.compile(r"(\s*)((?:- +)*)(?:([\w@./*\"'-][^:#]*?)\s*:(?:\s+|$))?(.*)")
MAX_LINES = 20_000
MAX_LINE = 1_000


def yaml_settings(text: str) -> Iterator[tuple[str, SettingValue]]:
    """The settings of a YAML text as dotted keys."""
    scopes: list[tuple[int, str]] = []
    lists: dict[str, list[str]] = {}
    for line in text.split("\n")[:MAX_LINES]:
        match = _ITEM.match(line[:MAX_LINE])
        if not line.strip() or line.lstrip().startswith("#") or match is None:
            continue
        indent = len(match[1]) + len(match[2])
        while scopes and scopes[-1][0] >= indent:
            scopes.pop()
        key, value = (match[3] or "").strip("\"'"), re.sub(r"\s+#.*$", "", match[4]).strip()
        path = ".".join((*(name for _, name in scopes), key) if key else (name for _, name in scopes))
        if key and not value:
            scopes.append((indent, key))
        elif key:
            yield path, _parse_yaml_scalar(value)
        elif match[2] and value:
            lists.setdefault(path, []).append(value.strip("\"'"))
    yield from ((path, tuple(items)) for path, items in lists.items())


def _parse_yaml_scalar(text: str) -> SettingValue:
    if text.startswith("[") and text.endswith("]"):
        return tuple(part.strip().strip("\"'") for part in text[1:-1].split(",") if part.strip())
    bare = text.strip("\"'")
    if bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    try:
        return float(bare.removesuffix("%"))
    except ValueError:
        return bare
