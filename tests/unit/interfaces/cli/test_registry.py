"""Every command has its row in the registry and its declaration in one module, and a call loads no other."""

import re
import subprocess
import sys
from random import Random

import pytest

from remand.app.errors import UsageError
from remand.domain.access.agent_calls import PERMITTED_COMMANDS
from remand.domain.hosts import HOSTS
from remand.interfaces.cli.context import SPECS, Argument, parse_usual
from remand.interfaces.cli.main import command_parser, help_text
from remand.interfaces.cli.registry import COMMANDS, COMMON_COMMANDS, parse_call

LOADED = (
    "import sys; from remand.interfaces.cli.main import command_parser; command_parser(sys.argv[1]); "
    "print(*sorted(name for name in sys.modules if name.startswith(('remand.', 'rich')) and type(sys.modules[name]) is type(sys)))"
)
CORE = {"argument_parser", "context", "main", "output", "registry"}


def test_every_row_is_declared_in_the_module_that_it_names_and_every_declaration_has_a_row() -> None:
    for name, entry in COMMANDS.items():
        spec, _ = command_parser(name)
        assert spec.run.__module__ == entry.module_name, name

    assert set(SPECS) == set(COMMANDS)


def test_every_command_is_found_by_its_words() -> None:
    for name in COMMANDS:
        assert parse_call([*name.split(), "rest"]).command in (name, f"{name} rest")
        assert parse_call(name.split()).command == name


def test_what_an_agent_may_call_are_commands() -> None:
    assert set(PERMITTED_COMMANDS) <= set(COMMANDS)


def test_a_claim_loads_no_other_command_and_nothing_that_shows() -> None:
    for name in ("task add", "task claim"):
        run = subprocess.run([sys.executable, "-c", LOADED, name], capture_output=True, text=True, check=True)
        loaded = run.stdout.split()
        own = {
            m.removeprefix("remand.interfaces.cli.") for m in loaded if m.startswith("remand.interfaces.cli.")
        }

        assert own == CORE | {"tasks", "tasks.changes"}
        assert not {
            "rich",
            "remand.app.prompts",
            "remand.app.gates",
            "remand.domain.validation.validator",
        } & set(loaded)


def test_no_help_line_begins_with_its_values_and_the_hosts_are_named() -> None:
    """Break: an argument with values and no help line of its own."""
    texts = {name: command_parser(name)[1].format_help() for name in COMMANDS}

    assert not [name for name, text in texts.items() if re.search(r"\s: ", text)]
    assert all(host in texts[name] for host in HOSTS for name in ("init", "hook"))


def test_every_argument_of_every_command_has_a_help_line_with_its_values() -> None:
    missing = []
    for name in COMMANDS:
        _, parser = command_parser(name)
        for action in parser._actions:
            values = [str(value) for value in action.choices or ()]
            text = f"{action.help or ''} {'' if action.metavar else ' '.join(values)}"
            if not action.help or not all(value in text for value in values):
                missing.append((name, action.dest))

    assert not missing


def test_the_short_help_names_every_group_and_the_common_commands_first() -> None:
    shown = help_text("")

    assert set(COMMON_COMMANDS) <= set(COMMANDS)
    assert len(COMMON_COMMANDS) == 10
    groups = {name.split(" ")[0] for name in COMMANDS}
    assert not [group for group in groups if f"\n  {group}" not in shown and f" {group}" not in shown]
    assert len(shown.splitlines()) < 45
    assert all(shown.index(f"  {name} ") < shown.index("More commands") for name in COMMON_COMMANDS)


def test_the_help_of_a_group_lists_its_commands_and_no_others() -> None:
    shown = help_text("task")

    listed = {name for name in COMMANDS if f"\n  {name} " in f"\n{shown}"}
    assert listed == {name for name in COMMANDS if name.startswith("task ")}


WORDS = (
    "T-1",
    "",
    "5",
    "a,b",
    "-",
    "--",
    "-5",
    "-x",
    "--no-such",
    "@file",
    "high",
    "BLOCKER",
    "a b",
    "--json=1",
)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_usual_way_to_parse_arguments_finds_what_the_parser_finds(name: str) -> None:
    """Every call that it takes is one that the parser takes, with the same values; what is wrong is left to the parser."""
    spec, parser = command_parser(name)
    options = [one for argument in spec.arguments for one in argument.names if one.startswith("-")]
    random = Random(name)
    for _ in range(400):
        named = [f"{option}={random.choice(WORDS)}" for option in options]
        words = random.choices([*WORDS, *options, *options, *named], k=random.randint(0, 6))
        if random.random() < 0.5:  # a call that is wrong in no more than one place
            words = _nearly_right(random, spec.arguments)
        try:
            found = parse_usual(spec.arguments, words)
        except UsageError:
            with pytest.raises(UsageError):
                parser.parse_args(words)
            continue
        if found is not None:
            assert vars(found) == vars(parser.parse_args(words)), words


def _nearly_right(random: Random, arguments: tuple[Argument, ...]) -> list[str]:
    """Every word and option that a command needs, with values that it takes, and one option more, in each way to write it."""

    def value(one: Argument) -> str:
        return str(random.choice([*one.options.get("choices", ()), "5"]))

    options = [one for one in arguments if one.names[0].startswith("-")]
    named = [one for one in arguments if one not in options]
    words = [value(one) for one in named if one.options.get("nargs") != "?"]
    chosen = [one for one in options if one.options.get("required")]
    chosen += random.sample(options, k=min(1, len(options)))
    written = []
    for one in chosen:
        name, first = random.choice(one.names), value(one)
        head = random.choice([[name], [name, first], [f"{name}={first}"]])
        written.append([*head, *(value(one) for _ in range(random.choice([0, 0, 1, 2])))])
    parts = random.choice([[words, *written], [*written, words]])
    return [word for part in parts for word in part]


def test_a_usual_call_loads_no_parser() -> None:
    code = (
        "import sys; from remand.interfaces.cli.main import command_spec, parse_usual; "
        "found = parse_usual(command_spec('task add').arguments, ['Roof', '--priority', 'high', '--depends-on', 'A', 'B']); "
        "print(found.title, found.priority, found.depends_on, found.alias, 'argparse' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.strip() == "Roof high ['A', 'B'] [] False"


def test_no_help_lists_an_empty_choice() -> None:
    assert [name for name in COMMANDS if re.search(r":\s+,", command_parser(name)[1].format_help())] == []
