"""Reads durations out of text and evidence, as hours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from remand.domain.validation.text import ITEM_LIMIT, number

DAY = 8.0
ENDING = 40
TAIL = 3
"""How many characters, such as a full stop or a bracket, may follow a closing estimate."""
_UNITS = {
    1 / 60: "min mins minute minutes minuten minuto minutos minuti minut minuty 分钟 分 мин",
    1.0: (
        "h hr hrs hour hours std stunde stunden hora horas heure heures ora ore godz godzin godziny godzina ч час часа часов"
        " 小时 小時 個小時 个小时 時間"
    ),
    DAY: (
        "d day days pd tag tage tagen día días dia dias jour jours giorno giorni dzień dni день дня дней 天 日 人天"
    ),
    5 * DAY: (
        "w wk wks week weeks woche wochen semana semanas semaine semaines settimana settimane tydzień tygodnie tygodni"
        " неделя недели недель 周 週間 個星期 星期"
    ),
}
HOURS = {word: hours for hours, words in _UNITS.items() for word in words.split()}
_WORDS = {
    "half": 0.5, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "eight": 8.0, "ten": 10.0,
    "ein": 1.0, "eine": 1.0, "einen": 1.0, "zwei": 2.0, "drei": 3.0, "un": 1.0, "una": 1.0, "une": 1.0, "dos": 2.0,
    "deux": 2.0, "trois": 3.0, "dois": 2.0, "um": 1.0,
}  # fmt: skip
_NAMES = "|".join(sorted(map(re.escape, HOURS), key=len, reverse=True))
_DURATION = re.compile(
    rf"(?<![\w.])([0-9]{{1,6}}(?:[.,][0-9]{{1,3}})?)(?:\s?[-–—~to]{{1,2}}\s?([0-9]{{1,6}}(?:[.,][0-9]{{1,3}})?))?"
    rf"[\s-]?({_NAMES})(?![a-zà-ÿ])",
    re.IGNORECASE,
)
_SPELT = re.compile(rf"\b({'|'.join(_WORDS)})\s(?:an?\s)?({_NAMES})\b", re.IGNORECASE)
_UNIT_OF_KEY = re.compile(
    r"(?:^|_)(h|hrs?|hours?|std|stunden|horas?|heures?|ore|d|days?|tage?|d[ií]as?|jours?|min|minutes?|weeks?|wochen|小时|天)(?:_|$)"
)


def hours_in(text: str) -> tuple[float, ...]:
    """Every duration a text states, in hours; of a range its middle."""
    found = []
    for low, high, unit in _DURATION.findall(text):
        value = _value(low) if not high else (_value(low) + _value(high)) / 2
        found.append(value * HOURS[unit.lower()])
    found += [_WORDS[word.lower()] * HOURS[unit.lower()] for word, unit in _SPELT.findall(text)]
    return tuple(found)


def range_in(text: str) -> tuple[float, ...]:
    """Every duration a text states, in hours, with both ends of each range."""
    found = []
    for low, high, unit in _DURATION.findall(text):
        found += [_value(end) * HOURS[unit.lower()] for end in (low, high) if end]
    return (*found, *hours_in(text))


def final_hours(text: str) -> float | None:
    """The duration a text ends on, as estimates do; None when it ends on something else."""
    ending = text[-ENDING:]
    found = [match for pattern in (_DURATION, _SPELT) for match in pattern.finditer(ending)]
    last = max(found, key=lambda match: match.end(), default=None)
    if last is None or len(ending) - last.end() > TAIL:
        return None
    return hours_in(last.group())[0]


def hours_of(data: Any) -> tuple[tuple[str, float], ...]:
    """The durations in a piece of evidence by key, in hours, where the key names a unit."""
    if not isinstance(data, Mapping):
        return ()
    found = []
    for key, item in islice(data.items(), ITEM_LIMIT):
        name = str(key).lower() if isinstance(key, str) else ""
        unit = _UNIT_OF_KEY.search(name)
        value = number(item)
        if value is not None and unit:
            found.append((name, value * HOURS.get(unit.group(1), 1.0)))
        elif isinstance(item, str):
            found += [(name, hours) for hours in hours_in(item[:200])]
    return tuple(found)


def counts_of(data: Any) -> tuple[tuple[str, float], ...]:
    """The plain numbers in a piece of evidence by key."""
    if not isinstance(data, Mapping):
        return ()
    pairs = ((key, number(item)) for key, item in islice(data.items(), ITEM_LIMIT) if isinstance(key, str))
    return tuple((key.lower(), value) for key, value in pairs if value is not None)


def _value(text: str) -> float:
    whole, comma, part = text.partition(",")
    is_thousands = bool(comma) and len(part) == 3 and whole != "0"
    return float(whole + part if is_thousands else text.replace(",", "."))
