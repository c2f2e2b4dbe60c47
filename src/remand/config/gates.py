"""The `[gates]` and `[sandbox]` tables."""

from __future__ import annotations

from typing import Any

from remand.config.values import (
    NAME,
    ConfigError,
    count,
    flag,
    require_known_keys,
    seconds,
    table,
    text,
    texts,
)
from remand.domain.gate.gate import Gate, GateMode, GatePolicy, GatePreparation, RunCheck
from remand.domain.gate.verdict import INTEGRITY_GATE
from remand.domain.text.words import format_count, word_list
from remand.startup import lazy_pattern

_GATE = word_list("command parser require timeout mode paths required prepare ratchet retries enabled labels")
_GATE_NAME = lazy_pattern(r"[a-z][a-z0-9_-]{0,31}")
_LABEL = lazy_pattern(r"[a-z0-9][a-z0-9._-]{0,31}")
_THRESHOLD = lazy_pattern(r"(?:max|min)_[a-z][a-z_]{0,40}")
_PLACEHOLDER = lazy_pattern(r"\{([a-z_]+)\}")
MAX_TIMEOUT = 6 * 3600.0
MAX_GATES = 32
MAX_LABELS = 8
LOCK_FILES = word_list("""
uv.lock poetry.lock requirements.txt package-lock.json pnpm-lock.yaml yarn.lock Cargo.lock go.sum
""")


def parse_gate_policy(data: dict[str, Any]) -> GatePolicy:
    """Parses all gates, and the settings for all of them."""
    integrity = table(table(data, "gates"), INTEGRITY_GATE, "gates.")
    require_known_keys(integrity, ("enabled", "protected", "runs", "max_suppressions"), "gates.integrity.")
    sandbox = table(data, "sandbox")
    require_known_keys(sandbox, ("read", "path", "probes", "hosts"), "sandbox.")
    return GatePolicy(
        gates=_gates(data),
        integrity=flag(integrity.get("enabled", True), "gates.integrity.enabled"),
        protected=_patterns(integrity.get("protected", []), "gates.integrity.protected"),
        runs=_run_checks(integrity),
        max_suppressions=_max_suppressions(integrity),
        enforce=flag(table(data, "policy").get("enforce", True), "policy.enforce"),
        read=texts(sandbox.get("read", []), "sandbox.read"),
        path=texts(sandbox.get("path", []), "sandbox.path"),
        probes=_probes(sandbox.get("probes", [])),
        hosts=texts(sandbox.get("hosts", []), "sandbox.hosts"),
    )


def _max_suppressions(integrity: dict[str, Any]) -> int | None:
    name = "max_suppressions"
    return count(integrity[name], f"gates.integrity.{name}", 0) if name in integrity else None


def _run_checks(integrity: dict[str, Any]) -> tuple[RunCheck, ...]:
    """The enabled checks by runs, in a fixed order, so that their order in the file does not change the rules."""
    if "runs" not in integrity:
        return tuple(RunCheck)
    named = texts(integrity["runs"], "gates.integrity.runs")
    unknown = next((name for name in named if name not in tuple(RunCheck)), "")
    if unknown:
        known = ", ".join(RunCheck)
        raise ConfigError(f"{NAME}: `gates.integrity.runs` has `{unknown}`; use any of {known}.")
    return tuple(check for check in RunCheck if check in named)


def _gates(data: dict[str, Any]) -> tuple[Gate, ...] | None:
    if "gates" not in data:
        return None
    gates = table(data, "gates")
    rows = {name: table(gates, name, "gates.") for name in gates if name != INTEGRITY_GATE}
    if len(rows) > MAX_GATES:
        raise ConfigError(f"{NAME}: there are {format_count(len(rows), 'gate')}; keep at most {MAX_GATES}.")
    found = {name: _gate(name, row) for name, row in rows.items()}
    return tuple(
        gate for name, gate in found.items() if flag(rows[name].get("enabled", True), f"gates.{name}.enabled")
    )


def _gate(name: str, row: dict[str, Any]) -> Gate:
    where = f"gates.{name}."
    if not _GATE_NAME.fullmatch(name):
        raise ConfigError(
            f"{NAME}: `gates.{name}` is not a gate name: use up to 32 small letters, digits, - or _"
        )
    require_known_keys(row, _GATE, where)
    command = _command(row.get("command", []), f"{where}command", has_cache="prepare" in row)
    if not command or not command[0].strip():
        raise ConfigError(f'{NAME}: `{where}command` is empty; write it as a list, as in ["make", "test"].')
    return Gate(
        name=name,
        command=command,
        parser=text(row.get("parser", "exit"), f"{where}parser"),
        require=_thresholds(row.get("require", {}), f"{where}require"),
        timeout=_timeout(row.get("timeout", "10m"), f"{where}timeout"),
        mode=_mode(row, where),
        paths=_patterns(row.get("paths", []), f"{where}paths"),
        required=flag(row.get("required", True), f"{where}required"),
        prepare=_prepare(row["prepare"], f"{where}prepare") if "prepare" in row else None,
        retries=count(row.get("retries", 0), f"{where}retries", least=0, most=5),
        labels=parse_labels(texts(row.get("labels", []), f"{where}labels"), f"{NAME}: `{where}labels`"),
    )


def parse_labels(words: tuple[str, ...], place: str) -> tuple[str, ...]:
    """Labels of workers, in order and without duplicates; `place` names their key in errors."""
    bad = next((word for word in words if not _LABEL.fullmatch(word)), None)
    if bad is not None:
        raise ConfigError(f"{place} holds {bad!r}; use up to 32 small letters, digits, -, _ or . each.")
    if len(set(words)) > MAX_LABELS:
        raise ConfigError(f"{place} has {len(set(words))} labels; keep at most {MAX_LABELS}.")
    return tuple(sorted(set(words)))


def _command(value: Any, key: str, *, has_cache: bool, has_scripts: bool = False) -> tuple[str, ...]:
    """A command's words; refuses placeholders that nothing would fill."""
    words = texts(value, key)
    for word in words:
        if "\0" in word:
            raise ConfigError(f"{NAME}: `{key}` contains a NUL character; remove it.")
        for name in _PLACEHOLDER.findall(word):
            if name == "scripts" and has_scripts:
                continue
            if name != "report" and not (name == "cache" and has_cache):
                hint = "it takes a `prepare` step." if name == "cache" else "there are {report} and {cache}."
                raise ConfigError(f"{NAME}: `{key}` holds {{{name}}}, which has no value; {hint}")
    return words


def _patterns(value: Any, key: str) -> tuple[str, ...]:
    """Patterns of files in the repository."""
    found = texts(value, key)
    for text_ in found:
        if not text_.strip() or text_.startswith("/") or ".." in text_.split("/") or "\0" in text_:
            raise ConfigError(f"{NAME}: `{key}` holds {text_!r}; name files from the repository's root on.")
    return found


def _thresholds(value: Any, key: str) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ConfigError(f"{NAME}: `{key}` must be a table such as {{max_errors = 0}}.")
    for name, limit in value.items():
        if not _THRESHOLD.fullmatch(name):
            raise ConfigError(f"{NAME}: `{key}.{name}` must begin with max_ or min_ and name a figure.")
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if not is_number or not 0 <= limit < 1e12:
            raise ConfigError(f"{NAME}: `{key}.{name}` must be a number of at least 0.")
    return {name: float(limit) for name, limit in value.items()}


def _timeout(value: Any, key: str) -> float:
    lasts = seconds(value, key)
    if lasts > MAX_TIMEOUT:
        raise ConfigError(f'{NAME}: `{key}` is {value}; a gate lasts at most 6 hours ("6h").')
    return lasts


def _mode(row: dict[str, Any], where: str) -> GateMode:
    if "ratchet" in row and "mode" in row:
        raise ConfigError(f"{NAME}: `{where}mode` and `{where}ratchet` are both set; keep one.")
    if flag(row.get("ratchet", False), f"{where}ratchet"):
        return GateMode.RATCHET
    value = text(row.get("mode", GateMode.DELTA.value), f"{where}mode")
    if value not in tuple(GateMode):
        raise ConfigError(f"{NAME}: `{where}mode` is `{value}`; use one of {', '.join(GateMode)}.")
    return GateMode(value)


def _prepare(value: Any, key: str) -> GatePreparation:
    row = value if isinstance(value, dict) else {"command": value}
    require_known_keys(row, ("command", "key", "timeout"), f"{key}.")
    command = _command(row.get("command", []), f"{key}.command", has_cache=True, has_scripts=True)
    if not command or not command[0].strip():
        raise ConfigError(f"{NAME}: `{key}` is empty; write it as a list of words, or leave it out.")
    return GatePreparation(
        command=command,
        key=_patterns(row.get("key", list(LOCK_FILES)), f"{key}.key"),
        timeout=_timeout(row.get("timeout", "15m"), f"{key}.timeout"),
    )


def _probes(value: Any) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list):
        raise ConfigError(f'{NAME}: `sandbox.probes` must be a list of commands, as in [["pytest"]].')
    found = tuple(texts(row, f"sandbox.probes[{at}]") for at, row in enumerate(value))
    if not all(found):
        raise ConfigError(f"{NAME}: `sandbox.probes` contains an empty command; remove it.")
    return found
