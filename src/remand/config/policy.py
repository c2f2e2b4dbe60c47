"""The `[policy]` table."""

from __future__ import annotations

from typing import Any

from remand.config.values import NAME, ConfigError, count, flag, require_known_keys, seconds, texts
from remand.domain.instant import OLD_BOUND_SECONDS
from remand.domain.policy import ALL, ASK, IGNORE, TASKS, Policy, SoloPolicy
from remand.domain.run import Budget
from remand.domain.task import MAX_LEASE_SECONDS
from remand.domain.text.words import word_list

MIN_CLOCK_SKEW_SECONDS = 1.0
_POLICY = word_list("""
lockout escalate_after_reviews alert_after_gates escalate_after_gates max_invalid_rejections lease escalation_deadline
director adviser auto_reformulate budget max_faults max_waiting_reviews open_pr request_review merge_on_approve
close_issue enforce unconfirmed_no clock_skew sessions solo_blocks
""")


def parse_policy(table: dict[str, Any]) -> Policy:
    """What may be set about decisions."""
    require_known_keys(table, _POLICY, "policy.")
    standard = Policy()
    director = table.get("director", "auto")
    if not director:
        raise ConfigError(f'{NAME}: `policy.director` is empty; use "auto", "human" or a command.')

    def number(key: str, least: int = 1, most: int = 1 << 31) -> int:
        return count(table.get(key, getattr(standard, key)), f"policy.{key}", least, most)

    def switch(key: str) -> bool:
        return flag(table.get(key, getattr(standard, key)), f"policy.{key}")

    return Policy(
        lockout_after=_lockout(table.get("lockout", "strict")),
        escalate_after_reviews=number("escalate_after_reviews"),
        alert_after_gates=number("alert_after_gates"),
        escalate_after_gates=number("escalate_after_gates"),
        max_invalid_rejections=number("max_invalid_rejections", most=100),
        lease_seconds=_lease(table.get("lease", "30m")),
        deadline_seconds=seconds(table.get("escalation_deadline", "24h"), "policy.escalation_deadline"),
        director=_director(director),
        adviser=_program(table.get("adviser", []), "policy.adviser"),
        auto_reformulate=switch("auto_reformulate"),
        open_pr=switch("open_pr"),
        request_review=switch("request_review"),
        merge_on_approve=switch("merge_on_approve"),
        close_issue=switch("close_issue"),
        unconfirmed_no=_unconfirmed_no(table.get("unconfirmed_no", standard.unconfirmed_no)),
        budget=_budget(table.get("budget", {})),
        max_faults=number("max_faults", most=100),
        max_waiting_reviews=number("max_waiting_reviews", 0),
        solo=SoloPolicy(
            sessions=_sessions(table.get("sessions", standard.solo.sessions)),
            blocks=count(table.get("solo_blocks", standard.solo.blocks), "policy.solo_blocks", 0, 100),
        ),
        clock_skew_seconds=_clock_skew(table.get("clock_skew", "10m")),
    )


def _budget(value: Any) -> Budget:
    """What the runs of one task may cost: `{runs = 20, turns = 400, time = "4h", cost = 20.0}`, each if wanted."""
    if not isinstance(value, dict):
        raise ConfigError(
            f'{NAME}: `policy.budget` must be a table such as {{turns = 400, time = "4h", cost = 20.0}}.'
        )
    require_known_keys(value, ("runs", "turns", "time", "cost"), "policy.budget.")
    cost = value.get("cost", 0.0)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < 1e9:
        raise ConfigError(f"{NAME}: `policy.budget.cost` must be a number of US dollars.")
    return Budget(
        runs=count(value.get("runs", 0), "policy.budget.runs", 0),
        turns=count(value.get("turns", 0), "policy.budget.turns", 0),
        seconds=seconds(value["time"], "policy.budget.time") if "time" in value else 0.0,
        cost=float(cost),
    )


def _director(value: Any) -> tuple[str, ...]:
    """Who answers rejections: `auto`, `human`, or a command, as a list or as one would type it."""
    if not isinstance(value, str):
        return _program(value, "policy.director")
    if value in ("auto", "human"):
        return (value,)
    if value.lower() in ("auto", "human"):
        raise ConfigError(f'{NAME}: `policy.director` is written "{value.lower()}".')
    from shlex import split  # loaded where a command is written as one would type it

    try:
        return _program(split(value), "policy.director")
    except ValueError as error:
        raise ConfigError(
            f"{NAME}: `policy.director` is not a command ({error}); write it as a list."
        ) from None


def _program(value: Any, key: str) -> tuple[str, ...]:
    """A command. One in the working tree could be changed by any agent, and is none."""
    words = texts(value, key)
    if words and "/" in words[0] and not words[0].startswith("/"):
        raise ConfigError(
            f"{NAME}: `{key}` names a file in the working tree; give its full path, outside of it."
        )
    return words


def _unconfirmed_no(value: Any) -> str:
    if value not in (ASK, IGNORE):
        raise ConfigError(f'{NAME}: `policy.unconfirmed_no` must be "{ASK}" or "{IGNORE}".')
    return str(value)


def _sessions(value: Any) -> str:
    if value not in (TASKS, ALL):
        raise ConfigError(f'{NAME}: `policy.sessions` must be "{TASKS}" or "{ALL}".')
    return str(value)


def _lease(value: Any) -> float:
    lasts = seconds(value, "policy.lease")
    if lasts > MAX_LEASE_SECONDS:
        raise ConfigError(f'{NAME}: `policy.lease` is {value}; a lease lasts at most 7 days ("7d").')
    return lasts


def _clock_skew(value: Any) -> float:
    skew = seconds(value, "policy.clock_skew")
    if not MIN_CLOCK_SKEW_SECONDS <= skew <= OLD_BOUND_SECONDS:
        raise ConfigError(
            f'{NAME}: `policy.clock_skew` is {value}; it must be from 1 second ("1s") to 24 hours ("24h").'
        )
    return skew


def _lockout(value: Any) -> int:
    if value == "strict":
        return 1
    if value == "off":
        return 0
    if isinstance(value, dict) and set(value) == {"after"}:
        return count(value["after"], "policy.lockout.after")
    raise ConfigError(f'{NAME}: `policy.lockout` must be "strict", "off" or {{after = 2}}.')
