"""Reads calendar days out of text, in the ways people write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

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
_NAME = rf"({'|'.join(sorted(_MONTH, key=len, reverse=True))})"
_ISO = re.compile(r"(?<!\d)(20\d\d)-(\d\d)-(\d\d)(?!\d)")
_DAY_FIRST = re.compile(
    rf"(?<![\d.,:])(\d{{1,2}})(?:\.|st|nd|rd|th)?\s(?:de\s)?{_NAME}\b(?:\s(?:de\s)?(20\d\d))?"
)
_MONTH_FIRST = re.compile(rf"\b{_NAME}\s(\d{{1,2}})(?![\d:%])(?:,?\s(20\d\d))?")
_CHINESE = re.compile(r"(?:(20\d\d)年)?(\d{1,2})月(\d{1,2})日?")


def days_before(text: str, today: date) -> tuple[int, ...]:
    """How many days before today each date of a text lies; dates without a year are the nearest such."""
    found = (_distance(today, *parts) for parts in _dates(text))
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


def _distance(today: date, year: str, month: int, day: str) -> int | None:
    years = (int(year),) if year else (today.year - 1, today.year, today.year + 1)
    found = []
    for number in years:
        try:
            found.append((today - date(number, month, int(day))).days)
        except ValueError:
            continue
    return min(found, key=abs, default=None)
