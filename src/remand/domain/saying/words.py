"""Small lists of words that turn a sentence: what denies, limits, doubts or reports a wish."""

from __future__ import annotations

_NEGATIONS = """
not don't dont never no nobody cannot can't won't shouldn't mustn't needn't wouldn't doesn't didn't without stop avoid
refuse neither nor refrain hardly
"""
_CONDITIONS = """
if unless until till when whenever once after before provided assuming only except should would could might maybe
perhaps otherwise else later tomorrow tonight depending whether suppose supposing pending while
"""
_SPEECH = """
said says say saying wrote writes told tells asked asks wants wanted thinks thought claims claimed suggests suggested
according quote quoting commented begged insists
"""
_TURNS = """
not don't dont never but or and then though although however wait nevermind just lol actually rather sorry oops
correction instead denied refused forbidden from hypothetically theoretically supposedly allegedly
"""
_ORDERS = """
unlock reassign re-assign escalate give hand move transfer assign let allow ask tell lift clear remove approve reject
retract override accept cancel reopen claim submit answer merge close
"""
_LIMITS = "if unless until provided assuming otherwise only too also likewise kidding joking jk"
_PLAIN = "and or then also too both but i you we he she they it"

NEGATIONS = frozenset(_NEGATIONS.split())
CONDITIONS = frozenset(_CONDITIONS.split())
SPEECH = frozenset(_SPEECH.split())
TURNS = CONDITIONS | SPEECH | frozenset(_TURNS.split()) | frozenset(_ORDERS.split())
"""Words that turn a sentence, or begin another wish, when its reason begins with them."""
LIMITS = frozenset(_LIMITS.split())
"""Words that limit or take back a wish wherever they stand in its reason."""
TURNING = TURNS | NEGATIONS | LIMITS | frozenset(_PLAIN.split())
"""Words that are never the name of somebody unknown."""
