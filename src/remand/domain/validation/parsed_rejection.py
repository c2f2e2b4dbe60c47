"""A rejection and its task in parsed form, whatever the fields contain, with names, durations and counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from itertools import islice
from math import isfinite
from typing import Any

from remand.domain.reasons import RejectionReason
from remand.domain.record import Record
from remand.domain.rejection import TaskRejection
from remand.domain.validation.lexicon import is_placeholder, is_readable
from remand.domain.validation.tokens import (
    EMPTY_TEXT,
    Text,
    checkable_marks,
    new_thing_count,
    shared_word_count,
    tokenise_text,
)

TEXT_LIMIT = 4000
ITEM_TEXT_LIMIT = 1000
ITEM_LIMIT = 12
DEPTH_LIMIT = 5
PIECE_LIMIT = 200
_LARGEST = 10**18


def plain_text(value: Any) -> str:
    """The text of a value: a string as it is, a mapping as `key: value`, a list joined by commas."""
    if isinstance(value, str):
        return value[:TEXT_LIMIT].strip()
    pieces = islice(_text_pieces(value, DEPTH_LIMIT), PIECE_LIMIT)
    return ", ".join(piece for piece in pieces if piece)[:TEXT_LIMIT]


def _text_pieces(value: Any, depth: int) -> Iterator[str]:
    """The texts inside a value. Every container yields a piece, even if empty, so that parsing terminates."""
    if isinstance(value, Mapping) and depth:
        yield ""
        for key, item in islice(value.items(), ITEM_LIMIT):
            name = _leaf_text(key)
            if isinstance(item, Mapping | list | tuple):
                yield name
                yield from _text_pieces(item, depth - 1)
            else:
                yield f"{name}: {_leaf_text(item)}".strip(": ")
    elif isinstance(value, list | tuple) and depth:
        yield ""
        for item in islice(value, ITEM_LIMIT):
            yield from _text_pieces(item, depth - 1)
    else:
        yield _leaf_text(value)


def _leaf_text(value: Any) -> str:
    if isinstance(value, str):
        return value[:TEXT_LIMIT].strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number_text(value) if isinstance(value, int | float) else ""


def short_text(value: Any) -> str:
    """The text of a list item, with a shorter limit."""
    return plain_text(value)[:ITEM_TEXT_LIMIT].strip()


def text_items(value: Any) -> tuple[str, ...]:
    """The nonblank texts of a list; a single text counts as a list of one."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        return ()
    return tuple(text for text in (short_text(item) for item in islice(value, ITEM_LIMIT)) if text)


def mapping_items(value: Any) -> tuple[Mapping[Any, Any], ...]:
    """The nonempty mappings of a list; a single mapping counts as a list of one."""
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in islice(value, ITEM_LIMIT) if isinstance(item, Mapping) and plain_text(item))


def parse_number(value: Any) -> float | None:
    """A finite number, possibly given as text; otherwise None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = _parse_number_text(value)
    if not isinstance(value, int | float) or abs(value) > _LARGEST or not isfinite(value):
        return None
    return float(value)


def _parse_number_text(text: str) -> float | None:
    try:
        return float(text[:40].strip().removesuffix("x"))
    except ValueError:
        return None


def _number_text(value: float) -> str:
    """Empty for a number that is not finite, or too long to be read."""
    if not abs(value) <= _LARGEST:
        return ""
    return str(int(value)) if value == int(value) else str(value)


_ID = re.compile(
    r"(?<![\w./#-])(?:"
    r"(?:task:|decision:|handoff:)?[TDH]-(?=[A-Z0-9]|[a-z]*[0-9])[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
    r"|(?:[A-Za-z][\w.-]{0,60}/[A-Za-z][\w.-]{0,60})?#[0-9]{1,12}"
    r"|[0-9a-f]{40}(?:[0-9a-f]{24})?|(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,16}"
    r")(?![\w#])",
    re.ASCII,
)
_TRACKER_KEY = re.compile(
    r"(?<![\w./#-])(?!(?:UTF|SHA|ISO|RFC|HTTP|CVE|TLS|AES|RSA|USB|GPT)-)(?:[A-Z]-[0-9]{2}|[A-Z][A-Z0-9]{1,9}-[0-9])[0-9]{0,6}[a-z]?(?![\w-])",
    re.ASCII,
)
"""Ids of other trackers: `NET-2207`."""
_DEPENDENCY_ID = re.compile(r"(?:task:|decision:)?[TD]-|[^#]*#[0-9]")


def names_in(text: str) -> tuple[str, ...]:
    """The distinct ids in a text, in order."""
    return tuple(dict.fromkeys(_ID.findall(text)))


def tracker_keys_in(text: str) -> tuple[str, ...]:
    """The ids of other trackers that a text names."""
    return tuple(dict.fromkeys(_TRACKER_KEY.findall(text)))


def mentioned_names(rejection: TaskRejection) -> tuple[str, ...]:
    """The ids named in any field of the record."""
    return names_in("\n".join(plain_text(value) for value in _field_values(rejection)))


def dependency_names(rejection: TaskRejection) -> tuple[str, ...]:
    """The tasks and decisions that the record depends on; if none, the keys of another tracker."""
    factor = _dependency_names_in(plain_text(rejection.blocking_factor))
    return factor or _dependency_names_in(
        f"{plain_text(rejection.reason_summary)}\n{plain_text(rejection.reason_detail)}"
    )


def bare_name(name: str) -> str:
    """A name without its kind: `task:T-8` and `T-8` are the same task."""
    return name.rpartition(":")[2]


def is_task_name(name: str) -> bool:
    """True for the name of a task, by id or by forge number."""
    return bare_name(name).startswith("T-") or "#" in name


def _dependency_names_in(text: str) -> tuple[str, ...]:
    own = tuple(name for name in names_in(text) if _DEPENDENCY_ID.match(name))
    return own or tracker_keys_in(text)


def _field_values(rejection: TaskRejection) -> tuple[Any, ...]:
    return (
        rejection.reason_summary,
        rejection.reason_detail,
        rejection.what_attempted,
        rejection.blocking_factor,
        rejection.evidence,
        rejection.suggested_alternative,
        rejection.alternative_tasks,
        rejection.task_original_scope,
    )


DAY = 8.0
ENDING_LENGTH = 40
TAIL_LENGTH = 3
"""How many characters, such as a full stop or bracket, may follow a final estimate."""
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
_NUMBER_WORDS = {
    "half": 0.5, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "eight": 8.0, "ten": 10.0,
    "ein": 1.0, "eine": 1.0, "einen": 1.0, "zwei": 2.0, "drei": 3.0, "un": 1.0, "una": 1.0, "une": 1.0, "dos": 2.0,
    "deux": 2.0, "trois": 3.0, "dois": 2.0, "um": 1.0,
}  # fmt: skip
_UNIT_NAMES = "|".join(sorted(map(re.escape, HOURS), key=len, reverse=True))
_DURATION = re.compile(
    rf"(?<![\w.])([0-9]{{1,6}}(?:[.,][0-9]{{1,3}})?)(?:\s?[-–—~to]{{1,2}}\s?([0-9]{{1,6}}(?:[.,][0-9]{{1,3}})?))?"
    rf"[\s-]?({_UNIT_NAMES})(?![a-zà-ÿ])",
    re.IGNORECASE,
)
_SPELT = re.compile(rf"\b({'|'.join(_NUMBER_WORDS)})\s(?:an?\s)?({_UNIT_NAMES})\b", re.IGNORECASE)
_UNIT_OF_KEY = re.compile(
    r"(?:^|_)(h|hrs?|hours?|std|stunden|horas?|heures?|ore|d|days?|tage?|d[ií]as?|jours?|min|minutes?|weeks?|wochen|小时|天)(?:_|$)"
)


def hours_in(text: str) -> tuple[float, ...]:
    """All durations in a text, in hours; for a range, its middle."""
    found = []
    for low, high, unit in _DURATION.findall(text):
        value = _parse_decimal(low) if not high else (_parse_decimal(low) + _parse_decimal(high)) / 2
        found.append(value * HOURS[unit.lower()])
    found += [_NUMBER_WORDS[word.lower()] * HOURS[unit.lower()] for word, unit in _SPELT.findall(text)]
    return tuple(found)


def range_hours_in(text: str) -> tuple[float, ...]:
    """All durations in a text, in hours, with both ends of each range."""
    found = []
    for low, high, unit in _DURATION.findall(text):
        found += [_parse_decimal(end) * HOURS[unit.lower()] for end in (low, high) if end]
    return (*found, *hours_in(text))


def final_hours(text: str) -> float | None:
    """The duration at the end of a text, as in estimates; None if there is none."""
    ending = text[-ENDING_LENGTH:]
    matches = [match for pattern in (_DURATION, _SPELT) for match in pattern.finditer(ending)]
    last = max(matches, key=lambda match: match.end(), default=None)
    if last is None or len(ending) - last.end() > TAIL_LENGTH:
        return None
    return hours_in(last.group())[0]


def hours_of(data: Any) -> tuple[tuple[str, float], ...]:
    """The durations in a piece of evidence by key, in hours, if the key names a unit."""
    if not isinstance(data, Mapping):
        return ()
    found = []
    for key, item in islice(data.items(), ITEM_LIMIT):
        name = str(key).lower() if isinstance(key, str) else ""
        unit = _UNIT_OF_KEY.search(name)
        value = parse_number(item)
        if value is not None and unit:
            found.append((name, value * HOURS.get(unit.group(1), 1.0)))
        elif isinstance(item, str):
            found += [(name, hours) for hours in hours_in(item[:200])]
    return tuple(found)


def counts_of(data: Any) -> tuple[tuple[str, float], ...]:
    """The plain numbers in a piece of evidence by key."""
    if not isinstance(data, Mapping):
        return ()
    pairs = (
        (key, parse_number(item)) for key, item in islice(data.items(), ITEM_LIMIT) if isinstance(key, str)
    )
    return tuple((key.lower(), value) for key, value in pairs if value is not None)


def _parse_decimal(text: str) -> float:
    whole, comma, part = text.partition(",")
    is_thousands = bool(comma) and len(part) == 3 and whole != "0"
    return float(whole + part if is_thousands else text.replace(",", "."))


_MONTHS = (
    "Jan January Januar enero janvier janeiro gennaio stycznia января",
    "Feb February Februar febrero février fevereiro febbraio lutego февраля",
    "Mar March März marzo mars março marca марта",
    "Apr April abril avril aprile kwietnia апреля",
    "May Mai mayo mai maio maggio maja мая",
    "Jun June Juni junio juin junho giugno czerwca июня",
    "Jul July Juli julio juillet julho luglio lipca июля",
    "Aug August agosto août sierpnia августа",
    "Sep Sept September septiembre septembre setembro settembre września сентября",
    "Oct Okt October Oktober octubre octobre outubro ottobre października октября",
    "Nov November noviembre novembre novembro listopada ноября",
    "Dec Dez December Dezember diciembre décembre dezembro dicembre grudnia декабря",
)
_MONTH = {name: number for number, names in enumerate(_MONTHS, start=1) for name in names.split()}
_MONTH_NAME = rf"({'|'.join(sorted(_MONTH, key=len, reverse=True))})"
_ISO = re.compile(r"(?<!\d)(20\d\d)-(\d\d)-(\d\d)(?!\d)")
_DAY_FIRST = re.compile(
    rf"(?<![\d.,:])(\d{{1,2}})(?:\.|st|nd|rd|th)?\s(?:de\s)?{_MONTH_NAME}\b(?:\s(?:de\s)?(20\d\d))?"
)
_MONTH_FIRST = re.compile(rf"\b{_MONTH_NAME}\s(\d{{1,2}})(?![\d:%])(?:,?\s(20\d\d))?")
_CHINESE = re.compile(r"(?:(20\d\d)年)?(\d{1,2})月(\d{1,2})日?")


def days_before(text: str, today: date) -> tuple[int, ...]:
    """How many days before today each date in a text is; dates without a year are the nearest."""
    found = (_days_before(today, *parts) for parts in _dates(text))
    return tuple(days for days in found if days is not None)


def _dates(text: str) -> Iterator[tuple[str, int, str]]:
    for year, month, day in _ISO.findall(text):
        yield year, int(month), day
    for day, name, year in _DAY_FIRST.findall(text):
        yield year, _MONTH[name], day
    for name, day, year in _MONTH_FIRST.findall(text):
        yield year, _MONTH[name], day
    for year, month, day in _CHINESE.findall(text):
        yield year, int(month), day


def _days_before(today: date, year: str, month: int, day: str) -> int | None:
    years = (int(year),) if year else (today.year - 1, today.year, today.year + 1)
    found = []
    for number in years:
        try:
            found.append((today - date(number, month, int(day))).days)
        except ValueError:
            continue
    return min(found, key=abs, default=None)


class ParsedEvidence(Record, kw_only=True):
    kind: str = ""
    data: Text = EMPTY_TEXT
    source: Text = EMPTY_TEXT
    hours: tuple[tuple[str, float], ...] = ()
    counts: tuple[tuple[str, float], ...] = ()


class ParsedSubTask(Record, kw_only=True):
    title: Text = EMPTY_TEXT
    scope: Text = EMPTY_TEXT
    hours: float | None = None


NEW_THINGS, SHOWN_THINGS = 2, 1
"""How many things a dependency without id must name beyond the task's title, and how many must be shown."""


class ParsedRejection(Record, kw_only=True):
    """Everything that is judged."""

    reason: RejectionReason | None = None
    task_id: str = ""
    agent: str = ""
    summary: Text = EMPTY_TEXT
    detail: Text = EMPTY_TEXT
    attempts: tuple[Text, ...] = ()
    factor: Text = EMPTY_TEXT
    evidence: tuple[ParsedEvidence, ...] = ()
    alternative: Text = EMPTY_TEXT
    sub_tasks: tuple[ParsedSubTask, ...] = ()
    sub_task_count: int = 0
    """The total number, including those too far down the list to be parsed."""
    original_scope: Text = EMPTY_TEXT
    growth: float | None = None
    has_growth: bool = False
    dependencies: tuple[str, ...] = ()
    """The ids it depends on, as written."""
    title: Text = EMPTY_TEXT
    scope: Text = EMPTY_TEXT
    rejected_on: date | None = None

    @property
    def claim(self) -> tuple[Text, Text, Text]:
        """The claim: summary, detail and blocking factor."""
        return (self.summary, self.detail, self.factor)

    @property
    def evidence_and_sources(self) -> tuple[Text, ...]:
        """The content of the evidence and its sources."""
        return tuple(text for item in self.evidence for text in (item.data, item.source))

    @property
    def task(self) -> tuple[Text, Text]:
        """The task as it is written down."""
        return (self.title, self.scope)

    @property
    def is_readable(self) -> bool:
        """True if it is written in a language that the rules know, so that a missing word is significant."""
        texts = (*self.claim, *self.attempts, self.alternative)
        return is_readable(tuple(word for text in texts for word in text.words))

    @property
    def names_dependency(self) -> bool:
        """True if the blocking factor says in words what is missing, and attempts or evidence mention it too."""
        own = new_thing_count(self.factor, self.title)
        return (
            own >= NEW_THINGS
            and shared_word_count(self.factor, *self.attempts, *self.evidence_and_sources) >= SHOWN_THINGS
        )

    @property
    def is_self_dependent(self) -> bool:
        """True if it depends on itself and nothing else."""
        names = {bare_name(name) for name in self.dependencies}
        return bool(names) and names == {bare_name(self.task_id)}


def parse_rejection(rejection: TaskRejection, context: Any) -> ParsedRejection:
    """Parses a rejection and the context of its task."""
    task = context if isinstance(context, Mapping) else {}
    described = (
        plain_text(task.get(name)) for name in ("scope", "description", "acceptance", "requirements")
    )
    return ParsedRejection(
        reason=rejection.reason,
        task_id=plain_text(rejection.task_id),
        agent=plain_text(rejection.agent_id),
        summary=_parse_field(rejection.reason_summary),
        detail=_parse_field(rejection.reason_detail),
        attempts=tuple(
            tokenise_text(text) for text in text_items(rejection.what_attempted) if not is_placeholder(text)
        ),
        factor=_parse_field(rejection.blocking_factor),
        evidence=tuple(_parse_evidence(item) for item in mapping_items(rejection.evidence)),
        alternative=_parse_field(rejection.suggested_alternative),
        sub_tasks=tuple(_parse_sub_task(item) for item in mapping_items(rejection.alternative_tasks)),
        sub_task_count=len(rejection.alternative_tasks)
        if isinstance(rejection.alternative_tasks, list | tuple)
        else 0,
        original_scope=_parse_field(rejection.task_original_scope),
        growth=parse_number(rejection.scope_growth_factor),
        has_growth=rejection.scope_growth_factor is not None,
        dependencies=dependency_names(rejection),
        title=tokenise_text(plain_text(task.get("title"))),
        scope=tokenise_text("\n".join(text for text in described if text)),
        rejected_on=rejection.rejected_at.date() if isinstance(rejection.rejected_at, datetime) else None,
    )


def _parse_field(value: Any) -> Text:
    """A parsed field of the record; filler text counts as nothing."""
    text = plain_text(value)
    return EMPTY_TEXT if is_placeholder(text) else tokenise_text(text)


def _parse_evidence(item: Mapping[Any, Any]) -> ParsedEvidence:
    data = item.get("data")
    source = tokenise_text(short_text(item.get("source")))
    text = short_text(data) or short_text(item.get("probe"))
    return ParsedEvidence(
        kind=short_text(item.get("type")),
        data=EMPTY_TEXT if is_placeholder(text) and not checkable_marks(source) else tokenise_text(text),
        source=source,
        hours=hours_of(data),
        counts=counts_of(data),
    )


def _parse_sub_task(item: Mapping[Any, Any]) -> ParsedSubTask:
    estimate = hours_in(short_text(item.get("estimate")))
    return ParsedSubTask(
        title=tokenise_text(short_text(item.get("title"))),
        scope=tokenise_text(short_text(item.get("scope"))),
        hours=sum(estimate) if estimate else None,
    )
