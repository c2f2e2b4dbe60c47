"""What a refusal, or an issue of a rejection, means."""

from __future__ import annotations

import difflib
from argparse import ArgumentParser

from remand.app.errors import UsageError
from remand.domain.refusals import MEANINGS
from remand.domain.validation import catalogue as issues
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, table


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", default="")


def _explain(context: Context) -> Result:
    code = context.arguments.code
    known = dict(MEANINGS) | {
        name: (issues.MEANINGS[name], issues.REMEDIES[name]) for name in issues.MEANINGS
    }
    if not code:
        rows = [(name, meaning) for name, (meaning, _) in sorted(known.items())]
        return Result(dict(rows), table(("code", "meaning"), rows, "", wraps=True))
    if code not in known:
        close = difflib.get_close_matches(code, known, 1)
        hint = f"did you mean {close[0]}?" if close else "`remand explain` lists them all."
        raise UsageError(f"There is no refusal or issue {code!r}; {hint}")
    meaning, remedy = known[code]
    return Result({"code": code, "meaning": meaning, "remedy": remedy}, f"{code}: {meaning}\n  {remedy}")


COMMANDS = {"explain": Command(_arguments, _explain)}
