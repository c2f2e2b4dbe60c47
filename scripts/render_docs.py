"""Writes the pages of docs/ that follow from the code: the references, and who may call what of a server."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from remand import config
from remand.domain.access.tokens import CALLS, TokenRole
from remand.domain.decide import RULES
from remand.domain.events.catalogue import NATIVE
from remand.domain.reasons import DecisionType, RejectionReason
from remand.domain.refusals import MEANINGS
from remand.domain.task import TERMINAL, TRANSITIONS, Status
from remand.interfaces.cli.main import command_parser
from remand.interfaces.cli.registry import COMMANDS
from remand.interfaces.http.commands import remote_commands

DOCS = Path(__file__).parent.parent / "docs"
MADE = "<!-- Made by scripts/render_docs.py from the code; change the code, then run it. -->\n\n"


def lifecycle() -> str:
    """The transition table, and who may ask what."""
    rows = [
        "# Lifecycle",
        "",
        MADE.strip(),
        "",
        _PICTURE,
        "",
        "## What each event needs, and where it leads",
        "",
    ]
    rows += ["| event | from | to |", "|---|---|---|"]
    for event, step in TRANSITIONS.items():
        sources = ", ".join(status for status in Status if status in step.sources)
        rows.append(f"| `{event}` | {sources} | {step.target or 'the queue it came from'} |")
    ends = ", ".join(status for status in Status if status in TERMINAL)
    rows += ["", f"Terminal: {ends}. A decomposed task ends when its sub-tasks have.", ""]
    rows += [
        "An `escalation.answer` that accepts a merge leads to provisional; its approval comes with it.",
        "",
    ]
    rows += ["## Who may give which command", "", "| command | roles |", "|---|---|"]
    for command, roles in {kind: rule.roles for kind, rule in RULES.items() if rule.roles}.items():
        rows.append(f"| {command.__name__} | {', '.join(sorted(roles))} |")
    rows += [
        "",
        "AddTask is open to all. A command that is not listed is for the agent that holds the claim or handoff;",
        "EscalateTask is also open to the user, directors and reviewers.",
        "",
        "## Undo",
        "",
        "`remand task reopen` also reopens a cancelled task, for the member who cancelled it or the user, while nothing rests on",
        "its end. `remand inbox retract` takes back an answer, for the member who gave it, while nobody has acted on it. The pages",
        "offer both where they would be accepted ([what can be undone](adr/0036-undo.md)).",
    ]
    return "\n".join(rows) + "\n"


_PICTURE = """```
incoming → claimed → provisional → done
              ↑  │        │
              │  └ task.continue → needs_continuation ┐
              └─ rejected ←┘ review.reject            │
              └────────────────────────────────────────┘
also: failed, blocked, deferred, decomposed, infeasible, escalated, cancelled
```"""


def commands() -> str:
    """Every command with its options."""
    rows = ["# Commands", "", MADE.strip(), ""]
    rows += ["Every command takes `--json`, `-C DIR`, `--as NAME`, `--key KEY` and `--help`.", ""]
    for name, entry in COMMANDS.items():
        _, parser = command_parser(name)
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        rows += [
            f"## `remand {name}`",
            "",
            f"{entry.help[0].upper()}{entry.help[1:]}.",
            "",
            f"    {usage}",
            "",
        ]
    return "\n".join(rows)


def refusals() -> str:
    """Every refusal."""
    rows = ["# Refusals", "", MADE.strip(), "", "`remand explain CODE` says the same.", ""]
    rows += ["| code | what is so | what to do |", "|---|---|---|"]
    rows += [f"| `{code}` | {meaning} | {remedy} |" for code, (meaning, remedy) in sorted(MEANINGS.items())]
    return "\n".join(rows) + "\n"


_TABLE_START, _TABLE_END = "<!-- table of calls -->\n", "<!-- end of the table -->\n"


def tokens() -> str:
    """The page about tokens, its table made anew."""
    before, _, rest = _text(DOCS / "tokens.md").partition(_TABLE_START)
    after = rest.partition(_TABLE_END)[2]
    roles = [role.value for role in TokenRole]
    rows = ["", f"| call | {' | '.join(roles)} |", f"|---|{'---|' * len(roles)}"]
    for name in sorted(name for name, allowed in CALLS.items() if allowed):
        marks = " | ".join("yes" if role in CALLS[name] else "" for role in TokenRole)
        rows.append(f"| `{name}` | {marks} |")
    alone = ", ".join(f"`{name}`" for name in sorted(CALLS) if not CALLS[name])
    rows += ["", f"On the machine itself alone, and by no token: {alone}.", ""]
    return f"{before}{_TABLE_START}{chr(10).join(rows)}{_TABLE_END}{after}"


def schema_file() -> str:
    """The JSON Schema of remand.toml, for the site."""
    return _text(Path(config.__file__).with_name("remand.schema.json"))


def configuration() -> str:
    """Every key of remand.toml, from its JSON Schema."""
    schema = json.loads(schema_file())
    rows = ["# remand.toml", "", MADE.strip(), "", _CONFIGURATION, ""]
    for path, table in _tables(schema, ""):
        rows += [
            f"## {path}",
            "",
            table["description"],
            "",
            "| key | value | default | meaning |",
            "|---|---|---|---|",
        ]
        needed = table.get("required", ())
        for key, row in table["properties"].items():
            if row.get("type") == "object" and "properties" in row:
                continue  # it has a table of its own
            default = (
                "needed" if key in needed else f"`{json.dumps(row['default'])}`" if "default" in row else ""
            )
            rows.append(f"| `{key}` | {_value(row)} | {default} | {row['description']} |")
        rows.append("")
    return "\n".join(rows)


_CONFIGURATION = """The rules of a project, committed on its base branch: those count, never the ones on an agent's branch. An unknown key, or a
value of the wrong kind, is an error that names the key. Durations are written `"90s"`, `"10m"`, `"2h"` or `"7d"`.

Editors complete and check the file with its [JSON Schema](remand.schema.json). In VS Code with Even Better TOML, in Zed,
Helix or Neovim with taplo, put a copy beside the file and this line at its top:

    #:schema ./remand.schema.json"""


def _tables(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table that has keys of its own, with its heading."""
    for key, row in schema["properties"].items():
        name = f"{path}{key}"
        forms = [row, row.get("items", {}), *row.get("oneOf", ()), *row.get("items", {}).get("oneOf", ())]
        for form in forms:
            if "patternProperties" in form and "properties" in form:
                for gate in form["patternProperties"].values():
                    yield f"`[{name}.NAME]`", gate
                    yield from _tables(gate, f"{name}.NAME.")
            elif "properties" in form:
                yield f"`[{name}]`" if form is row else f"`{name}`", form
            if "properties" in form:
                yield from _tables(form, f"{name}.")


def _value(row: dict[str, Any]) -> str:
    """What may stand behind a key, in words."""
    if "enum" in row:
        return ", ".join(f"`{json.dumps(word)}`" for word in row["enum"])
    if "oneOf" in row:
        return " or ".join(map(_value, row["oneOf"]))
    if row.get("type") == "array":
        return f"list of {_value(row['items'])}"
    if row.get("type") == "integer":
        most = f" to {row['maximum']}" if "maximum" in row else " or more"
        return f"{row['minimum']}{most}"
    names = {"string": "text", "boolean": "true or false", "number": "number", "object": "table"}
    return "duration" if str(row.get("pattern", "")).endswith("(s|m|h|d)$") else names[row["type"]]


def events() -> str:
    """Every event of the log, with its fields."""
    rows = ["# Events", "", MADE.strip(), "", _EVENTS, ""]
    for kind in sorted(NATIVE, key=lambda kind: str(kind.__struct_config__.tag)):
        said = (kind.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        rows += [f"## `{kind.__struct_config__.tag}`", "", " ".join(said.split()), ""]
        fields = [field for field in msgspec.structs.fields(kind) if field.name not in ("ts", "meta")]
        rows += [f"Fields: {', '.join(f'`{field.encode_name}`' for field in fields)}.", ""] if fields else []
    return "\n".join(rows)


_EVENTS = """The log is one JSON object a line: `event` (its name), `ts` (when), the fields below, and `meta` (its id, session, number, actor, how the actor was
known, and the id before it). Events are written in groups that the writing machine signs; see [keys](keys.md). An event of a name that
this version does not know is kept, carried on, and has no effect."""


def reasons() -> str:
    """Why an agent may reject a task, and what a director answers."""
    rows = ["# Reasons and decisions", "", MADE.strip(), ""]
    rows += ["What each reason has to prove: [rejections](rejections.md).", ""]
    for title, kind in (("Reasons of agents", RejectionReason), ("Decisions of directors", DecisionType)):
        docs = _member_docs(kind.__name__)
        rows += [f"## {title}", "", "| name | meaning |", "|---|---|"]
        rows += [f"| `{member.name}` | {docs[member.name]} |" for member in kind]
        rows.append("")
    return "\n".join(rows)


def _member_docs(name: str) -> dict[str, str]:
    """The text below each member of an enumeration of domain/reasons.py."""
    tree = ast.parse(_text(DOCS.parent / "src" / "remand" / "domain" / "reasons.py"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    found = {}
    for before, after in pairwise(body):
        if (
            isinstance(before, ast.Assign)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[ast.unparse(before.targets[0])] = str(after.value.value)
    return found


def http() -> str:
    """Every address of the server's interface."""
    rows = [
        "# HTTP",
        "",
        MADE.strip(),
        "",
        _HTTP,
        "",
        "| call | what it does | parameters |",
        "|---|---|---|",
    ]
    for command in remote_commands().values():
        names = ", ".join(f"`{one.name}`" for one in command.parameters)
        rows.append(f"| `{command.method} {command.path}` | {command.help} | {names} |")
    return "\n".join(rows) + "\n"


_HTTP = """`remand serve` answers these calls. `GET /api/openapi.json` describes them as OpenAPI 3.1, with every parameter and answer. A caller shows a
token (`authorization: Bearer …`, see [tokens](tokens.md)) or has a page's session. A refusal is a problem document (RFC 9457) whose `code` is one of
the [refusals](refusals.md). Repeat a call with the same `idempotency-key` and you get the first answer."""

PAGES = {
    "remand.schema.json": schema_file,
    "configuration.md": configuration,
    "events.md": events,
    "http.md": http,
    "reasons.md": reasons,
    "lifecycle.md": lifecycle,
    "commands.md": commands,
    "refusals.md": refusals,
    "tokens.md": tokens,
}


def main() -> int:
    """Writes the pages; with --check only says which are out of date."""
    stale = [name for name, page in PAGES.items() if _text(DOCS / name) != page()]
    if "--check" not in sys.argv:
        for name in stale:
            (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
    for name in stale:
        print(f"docs/{name} {'is out of date' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv else 0


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
