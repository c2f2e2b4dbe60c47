"""Commands for newcomers: the meaning of a refusal, the current actor, plain English, and shell completion."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from remand.app.errors import UsageError
from remand.app.requests import Answer
from remand.app.tasks.lookup import People
from remand.app.text_commands import TextCommandResult, TextCommands
from remand.domain import commands as c
from remand.domain.refusals import MEANINGS, Refused
from remand.domain.validation import assessment
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.main import command_parser
from remand.interfaces.cli.output import Result, table
from remand.interfaces.cli.registry import COMMANDS as ALL


@command(
    "explain",
    argument(
        "code", nargs="?", default="", help="a refusal code or an issue of a rejection; without one, all"
    ),
)
def _explain(context: Context) -> Result:
    code = context.arguments.code
    known = dict(MEANINGS) | {
        name: (assessment.MEANINGS[name], assessment.REMEDIES[name]) for name in assessment.MEANINGS
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


@command("whoami")
def _whoami(context: Context) -> Result:
    team = context.opened_ledger.settings.rules().team
    with context.opened_ledger.store.read() as view:
        name = People(view, team).recorded_name(context.actor())
    actor = context.limit(team.actor(name, confined=context.is_confined))
    roles = sorted(role.value for role in actor.roles)
    data = {
        "name": actor.name,
        "roles": roles,
        "has_team": team.has_members,
        "confined": actor.confined,
        "task": context.origin.environment.get("REMAND_TASK") or None,
    }
    place = ", inside an agent's environment" if actor.confined else ""
    return Result(data, f"{actor.name} ({', '.join(roles) or 'not on the team'}){place}")


SHELLS = ("bash", "zsh", "fish")
_COMMON = ("--json", "-C", "--as", "--key", "--help")


def options_of(name: str) -> list[str]:
    _, parser = command_parser(name)
    actions = parser._actions  # noqa: SLF001 - argparse has no other way to list them
    return sorted({flag for action in actions for flag in action.option_strings if flag.startswith("--")})


def _words() -> tuple[list[str], dict[str, list[str]]]:
    first = sorted({name.split(" ")[0] for name in ALL})
    groups = {
        word: sorted(name.split(" ")[1] for name in ALL if name.startswith(f"{word} ")) for word in first
    }
    return first, {word: names for word, names in groups.items() if names}


@command("completion", argument("shell", choices=SHELLS, help="the shell that completes"))
def _complete(context: Context) -> Result:
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[context.arguments.shell]()
    return Result({"shell": context.arguments.shell, "script": text}, text)


def _bash() -> str:
    first, groups = _words()
    cases = [f"    '{name}') words='{' '.join(options_of(name))}' ;;" for name in ALL]
    inner = [f"    {word}) words='{' '.join(names)}' ;;" for word, names in groups.items()]
    return "\n".join(
        [
            "# remand completion for bash: source <(remand completion bash)",
            "_remand() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" words=""',
            '  case "$COMP_CWORD" in',
            f"  1) words='{' '.join(first)}' ;;",
            '  2) case "${COMP_WORDS[1]}" in',
            *inner,
            "    esac ;;",
            "  esac",
            '  if [[ "$current" == -* ]]; then',
            '    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in',
            *cases,
            "    esac",
            '    case "${COMP_WORDS[1]}" in',
            *(case for case, name in zip(cases, ALL, strict=True) if " " not in name),
            "    esac",
            f'    words="$words {" ".join(_COMMON)}"',
            "  fi",
            '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            "complete -o default -F _remand remand",
        ]
    )


def _zsh() -> str:
    return f"""#compdef remand
# remand completion for zsh: source <(remand completion zsh)
autoload -U +X bashcompinit && bashcompinit
{_bash()}"""


def _fish() -> str:
    first, groups = _words()
    rows = ["# remand completion for fish: remand completion fish | source", "complete -c remand -f"]
    for word in first:
        help_text = ALL[word].help if word in ALL else f"commands on {word}s"
        rows.append(f"complete -c remand -n __fish_use_subcommand -a {word} -d {_quote(help_text)}")
    for word, names in groups.items():
        for name in names:
            condition = (
                f"__fish_seen_subcommand_from {word}; and not __fish_seen_subcommand_from {' '.join(names)}"
            )
            help_text = ALL[f"{word} {name}"].help
            rows.append(f"complete -c remand -n {_quote(condition)} -a {name} -d {_quote(help_text)}")
    for name in ALL:
        condition = "; and ".join(f"__fish_seen_subcommand_from {part}" for part in name.split(" "))
        rows += [f"complete -c remand -n {_quote(condition)} -l {flag[2:]}" for flag in options_of(name)]
    rows += [f"complete -c remand -l {flag[2:]}" for flag in _COMMON if flag.startswith("--")]
    return "\n".join(rows)


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@command(
    "say",
    argument(
        "text",
        nargs="+",
        help="such as 'Why is Fenster locked out?' or 'Unlock Fenster for issue #42' (@file, -)",
    ),
)
def _run_text(context: Context) -> Result:
    actor = context.actor()
    team = context.opened_ledger.settings.rules().team
    speaker = context.limit(team.actor(actor, confined=context.is_confined))

    def ask(command: c.Command) -> Answer:
        try:
            return context.ask(command, actor)
        except Refused as refusal:
            return refusal

    result = TextCommands(context.opened_ledger.store, team, speaker, ask).run(_text(context))
    return Result(_data(result), _render_reply(result), 1 if result.refused else 0)


def _text(context: Context) -> str:
    """The words; a single one may name a file or standard input."""
    words: list[str] = context.arguments.text
    is_alone = len(words) == 1 and len(words[0].split()) == 1
    return context.text(words[0]) if is_alone else " ".join(words)


def _data(result: TextCommandResult) -> dict[str, Any]:
    if not result.refused:
        plain: dict[str, Any] = msgspec.to_builtins(result)
        return {name: value for name, value in plain.items() if name not in ("refused", "choices")}
    return {
        "refused": result.refused,
        "message": result.done,
        "understood": result.understood or None,
        "choices": list(result.choices),
    }


def _render_reply(result: TextCommandResult) -> str:
    rows = [f"understood: {result.understood}"] if result.understood else []
    rows.append(f"refused ({result.refused}): {result.done}" if result.refused else result.done)
    if result.choices:
        rows.append("Possible meanings:")
    return "\n".join([*rows, *(f"  {choice}" for choice in result.choices)])
