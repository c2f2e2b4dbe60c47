"""`remand init`: sets Remand up in a repository, and removes its hooks again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from shutil import which
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from remand import config
from remand.app.errors import EnvironmentFault, UsageError
from remand.app.gates.measurement import GateTrial
from remand.app.log.keys import missing_lines, request_for_trust
from remand.app.ports import Installation
from remand.app.settings import SettingsSource
from remand.config import changes
from remand.domain.access.coordinator_start import AGENT_VARIABLES
from remand.domain.gate.gate import GatePolicy, GateProposals, gate_title, render_figures
from remand.domain.hosts import DIRECTOR_COMMANDS, HOSTS
from remand.interfaces.cli.context import Context, argument, command, split_commas
from remand.interfaces.cli.hosts import require_user, solo_state
from remand.interfaces.cli.output import Result, one_line
from remand.wiring import setup
from remand.wiring.ledger import machine_keys
from remand.wiring.startup import LedgerLocation, folders_of
from remand.wiring.startup import solo_sessions as notes

TEMPLATE = """\
# Remand reads this file from the base branch. `remand doctor` checks it.

[project]
base = "{base}"
id = "{project}"{hosts}

# Whose events count: the machines whose signatures are trusted.
[keys]
trusted = [
  "{key}",
]

# Who works here. Without members any agent name may claim, and only `user` may review.
# [team]
# members = [
#   {{name = "Fenster", role = "agent", skills = ["frontend"]}},
#   {{name = "Lead",    role = "lead"}},
# ]

# What a done claim must pass.{nothing}
{gates}

[policy]
lockout = "strict"                     # or {{after = 2}}, or "off"
lease = "30m"{director}
# enforce = false                      # everything is judged and recorded, but nothing is stopped
"""


@command(
    "init",
    argument(
        "--hosts",
        type=split_commas,
        default=(),
        metavar="claude,codex",
        help=f"agent hosts to hook into: {', '.join(HOSTS)}",
    ),
    argument(
        "--portable",
        action="store_true",
        help="write entries that can be committed: the path of the executable relative to the project",
    ),
    argument("--solo", action="store_true", help="measure every session here; nothing has to be committed"),
    argument("--no-trial", action="store_true", help="do not run the proposed gates once"),
    argument(
        "--credentials",
        action="store_true",
        help="pass your passwords for package registries to what the trial installs and runs",
    ),
    argument("--remove", action="store_true", help="remove the hooks; the ledger stays"),
)
def _init(context: Context) -> Result:
    options = context.arguments
    for host in options.hosts:
        if host not in HOSTS:
            raise UsageError(f"There is no host {host!r}; the hosts are {', '.join(HOSTS)}.")
    if options.remove and options.hosts:
        raise UsageError("--remove removes the hooks of every host. Omit --hosts.")
    if options.remove:
        return _remove(context)
    place = context.place
    if place.root == place.common_dir:
        raise EnvironmentFault(
            f"{place.root} is a bare repository, without files to commit. "
            "Run `remand init` in a clone of it, commit there, and push."
        )
    is_first = not os.path.isdir(place.got)
    setup.prepare_got(place)
    if options.solo:
        return _set_up_solo(context)
    setup.host_files.stop_ignoring(setup.host_worktrees(place))
    path = os.path.join(place.root, config.NAME)
    is_new = not os.path.exists(path)
    trials: list[GateTrial] = []
    if is_new:
        proposed = setup.detection.propose_gates(place.root, context.gateway.repository.tracked_files())
        config_lines = _Config(context, path)
        config_lines.write(proposed)
    noted = _note_user(context)
    if is_new and proposed.gates and not options.no_trial:
        proposed, trials = _try_gates(context, proposed)
        config_lines.write(proposed, {one.gate.name: one.fault for one in trials if one.fault})
    elif not is_new and not options.no_trial:
        trials = _try_left_out(context, path)
    # Those that were asked for, that the project names, and that an earlier version set up.
    named = context.opened_ledger.settings.settings().hosts
    hosts = list(
        dict.fromkeys([*options.hosts, *named, *setup.host_files.outdated_hosts(setup.host_worktrees(place))])
    )
    installation = Installation([], [], [], [])
    if hosts:
        installation = setup.host_files.install_hosts(
            setup.host_worktrees(place), hosts, _executable(), is_portable=options.portable
        )
    unnamed = "" if is_new else _add_hosts_to_config(path, hosts)
    settings = context.opened_ledger.settings.settings()
    rules, own = context.opened_ledger.settings.rules(), context.opened_ledger.ledger.keys.ensure_key()
    missing = [*missing_lines(rules, own, setup.new_project_id()), *([unnamed] if unnamed else [])]
    request = request_for_trust(rules, own)
    data: dict[str, Any] = {
        "root": place.root,
        "config": path,
        "gates": list(settings.gates or ()),
        "hooks": installation.hooks,
        "mcp": installation.servers,
        "commit": sorted({*installation.cleaned, *installation.shared}),
        "missing": missing,
        "request": request or None,
        "director": _director_offer(context, hosts) or None,
    }
    data["baseline"] = [_trial_data(one) for one in trials]
    rows = _page(context, is_new=is_new, is_first=is_first, missing=missing, hosts=hosts, done=installation)
    if trials:
        rows += "\n".join(["", "", "Measured on HEAD:", *_trial_rows(trials)])
    rows += f"\n\nnote  {noted}" if noted else ""
    return Result(data, rows + _trust_instructions(context, request))


SOLO_TEMPLATE = """\
# This machine's rules for Remand; git ignores this file. `remand doctor` checks it.

[policy]
sessions = "all"                       # every session is measured when it stops; `remand solo off` stops that
solo_blocks = 3                        # how often a session is sent back for each prompt

# What a session must not break.{nothing}
{gates}
"""


GOT_FILE = ".got/.gitignore"
"""Tracked by git if a team shares its ledger."""


def _set_up_solo(context: Context) -> Result:
    """Sets up measurement of every session with rules and hooks of this machine alone; nothing is committed."""
    place, options = context.place, context.arguments
    repository = context.gateway.repository
    path = os.path.join(place.root, config.NAME)
    is_new = not os.path.exists(path)
    worktrees = setup.host_worktrees(place)
    shared = worktrees[place.root].find_tracked([config.NAME, GOT_FILE])
    private = [*([config.NAME] if is_new else []), *([] if GOT_FILE in shared else [".got/"])]
    hosts = list(options.hosts) or setup.host_files.present_hosts()
    hooks = setup.host_files.install_private_hooks(worktrees, hosts, _executable(), private)
    noted = _note_user(context)
    trials: list[GateTrial] = []
    if is_new:
        proposed = setup.detection.propose_gates(place.root, repository.tracked_files())
        _write_solo_config(path, proposed)
        if proposed.gates and not options.no_trial:
            proposed, trials = _try_gates(context, proposed)
            _write_solo_config(path, proposed, {one.gate.name: one.fault for one in trials if one.fault})
    context.opened_ledger.ledger.refresh()
    notes.SoloSessions(folders_of(place).solo).set_switch(notes.ON)
    gates = list(context.opened_ledger.settings.settings().gates or ())
    data = {
        "root": place.root,
        "config": path,
        "gates": gates,
        "hooks": hooks,
        "hosts": hosts,
        "sessions": solo_state(context)[0],
        "baseline": [_trial_data(one) for one in trials],
    }
    hints = [text for host in hosts for text in [setup.host_files.find_setup(host).hint] if text]
    rows = [
        f"Every session in {place.root} is measured when it stops. Nothing has to be committed.",
        f"  {'wrote' if is_new else 'kept '} remand.toml{' (git ignores it)' if is_new else ''}; gates: {', '.join(gates) or 'none'}",
        *(f"  wrote {_short(file, place.root)} (hooks)" for file in hooks),
        *([] if hosts else [f"  note  no agent host was found; name yours: --hosts {','.join(HOSTS)}"]),
        *([] if gates else ["  note  no gate runs yet: nothing is measured until remand.toml has one"]),
        *(f"  note  {text}" for text in (*hints, noted) if text),
        *(["", "Measured on HEAD:", *_trial_rows(trials)] if trials else []),
        "",
        f"Start {' or '.join(hosts[:2]) or 'your agent'} as usual. A session that breaks something is sent back with the figures.",
        "  remand solo status             # what was measured",
        "  remand solo off --for 2h       # stop measuring sessions for a while",
    ]
    return Result(data, "\n".join(rows))


def _short(path: str, root: str) -> str:
    """A path relative to the project, or else to the home folder."""
    home = os.path.expanduser("~")
    if path.startswith(root + os.sep):
        return os.path.relpath(path, root)
    return path.replace(home, "~", 1) if path.startswith(home + os.sep) else path


def _write_solo_config(
    path: str, proposed: GateProposals, left_out: Mapping[str, str] = MappingProxyType({})
) -> None:
    gates = setup.project.render_toml(proposed, left_out).strip() if proposed.gates else ""
    has_gates = any(one.name not in left_out for one in proposed.gates)
    nothing = "" if has_gates else " Empty: there are no gates."
    text = SOLO_TEMPLATE.format(nothing=nothing, gates=gates if has_gates else f"[gates]\n{gates}".strip())
    setup.host_files.write_settings(path, text)


def _add_hosts_to_config(path: str, hosts: list[str]) -> str:
    """Adds the hosts to the working tree's configuration; returns the line to add if a person has to."""
    if not hosts:
        return ""
    text = setup.host_files.read_settings(path) or ""
    changed = changes.with_hosts(text, hosts)
    if changed is None:
        return f"`{changes.hosts_line(hosts)}` to `[project]`"
    if changed != text:
        setup.host_files.write_settings(path, changed)
    return ""


class _Config:
    """The new remand.toml: everything that does not depend on the gates is chosen once."""

    def __init__(self, context: Context, path: str) -> None:
        place = context.place
        self._path = path
        self._base = SettingsSource(context.gateway.repository, place.root, place.common_dir).usual_base()
        self._hosts = list(dict.fromkeys(context.arguments.hosts))
        self._director = _director_line(self._hosts)
        self._project = setup.new_project_id()

    def write(self, proposed: GateProposals, left_out: Mapping[str, str] = MappingProxyType({})) -> None:
        """Writes the file; gates that are left out become comments."""
        gates = setup.project.render_toml(proposed, left_out).strip() if proposed.gates else ""
        has_gates = any(one.name not in left_out for one in proposed.gates)
        text = TEMPLATE.format(
            base=self._base or "main",
            project=self._project,
            hosts=f"\n{changes.hosts_line(self._hosts)}" if self._hosts else "",
            director=f"\n# {self._director:<36} # an agent decides on rejections" if self._director else "",
            key=machine_keys().ensure_key().entry,
            nothing="" if has_gates else " Empty: there are no gates.",
            gates=gates if has_gates else f"[gates]\n{gates}".strip(),
        )
        with open(self._path, "w", encoding="utf-8") as file:
            file.write(text)


def _director_line(hosts: Sequence[str]) -> str:
    """The line of `[policy]` that makes an agent the director: a hooked host, else one on PATH, if any."""
    names = [host for host in hosts if host in DIRECTOR_COMMANDS]
    names += [host for host in DIRECTOR_COMMANDS if which(host)]
    return f"director = {DIRECTOR_COMMANDS[names[0]]}" if names else ""


def _director_offer(context: Context, hosts: Sequence[str]) -> str:
    """The same, if the automatic director decides now."""
    is_automatic = context.opened_ledger.settings.rules().policy.director == ("auto",)
    return _director_line(hosts) if is_automatic else ""


def _note_user(context: Context) -> str:
    """Records the user's PATH and registry settings for the gates; returns why not if an agent is calling."""
    environment = config.inherited_environment()
    agent = next((name for name in AGENT_VARIABLES if environment.get(name)), "")
    if agent:
        return f"PATH was not recorded for the gates: {agent} shows that an agent is calling. Run `remand init` in your own shell."
    context.gates.note_user(environment)
    return ""


def _try_gates(context: Context, proposed: GateProposals) -> tuple[GateProposals, list[GateTrial]]:
    """Runs the proposed gates once on HEAD; none if there is no commit yet.

    If a lock file names something that cannot be installed here, its gates are tried without it.
    """
    head = context.gateway.repository.commit("HEAD")
    if head is None:
        return proposed, []
    is_trusted = context.arguments.credentials
    with context.gate_progress():
        trials = context.gates.trial(_policy(proposed), head.sha, may_have_secrets=is_trusted)
        unprepared = {one.gate.name: one for one in trials if one.is_unprepared}
        paths = context.gateway.repository.tracked_files()
        free = setup.detection.propose_gates(context.place.root, paths, uses_lock=False)
        known = [one.gate for one in proposed.gates]
        others = tuple(one for one in free.gates if one.name in unprepared and one.gate not in known)
        if not others:
            return proposed, trials
        policy = _policy(GateProposals(gates=others, path=free.path))
        again = context.gates.trial(policy, head.sha, may_have_secrets=is_trusted)
    working = {one.gate.name: one for one in again if not one.fault}
    changed = {
        one.name: replace(one, why=f"{one.why}; without the lock file, which cannot be installed here")
        for one in others
        if one.name in working
    }
    gates = tuple(changed.get(one.name, one) for one in proposed.gates)
    return replace(proposed, gates=gates), [working.get(one.gate.name, one) for one in trials]


def _policy(proposed: GateProposals) -> GatePolicy:
    return GatePolicy(gates=tuple(one.gate for one in proposed.gates), path=proposed.path)


def _try_left_out(context: Context, path: str) -> list[GateTrial]:
    """Retries gates that are comments in remand.toml; those that work now become gates."""
    text = setup.host_files.read_settings(path) or ""
    names = setup.project.left_out_gates(text)
    if not names:
        return []
    proposed = setup.detection.propose_gates(context.place.root, context.gateway.repository.tracked_files())
    chosen = replace(proposed, gates=tuple(one for one in proposed.gates if one.name in names))
    if not chosen.gates:
        return []
    chosen, trials = _try_gates(context, chosen)
    faults = {one.gate.name: one.fault for one in trials if one.fault}
    setup.host_files.write_settings(path, setup.project.replace_left_out(text, chosen, faults))
    return trials


def _trial_data(trial: GateTrial) -> dict[str, Any]:
    measurement = trial.measured.found
    return {
        "gate": trial.gate.name,
        "status": str(trial.status),
        "line": _trial_line(trial),
        "figures": dict(measurement.figures) if measurement else {},
        "seconds": round(trial.measured.seconds, 1),
        "fault": trial.fault or None,
        "fix": trial.fix or None,
        "output": trial.measured.output or None,
    }


def _trial_rows(trials: Sequence[GateTrial]) -> Iterator[str]:
    """The gates' figures, and the cause for gates that could not be measured."""
    yield from (f"  {gate_title(one.gate.name):<8} {_trial_line(one)}" for one in trials)


def _trial_line(trial: GateTrial) -> str:
    if trial.fault or trial.measured.found is None:
        return f"commented out in remand.toml: {one_line(trial.fault, 700)}"
    figures = trial.measured.found.figures
    count = figures.get("failures", 0.0) + figures.get("errors", 0.0)
    excuse = "; the base has these, so only more of them count" if count else ""
    return f"{render_figures(figures, trial.gate.parser)}, {trial.measured.seconds:.0f} s{excuse}"


def _executable() -> str:
    """The program for hooks to call: the one that is running, or the one beside this interpreter."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "remand")
    return beside if os.path.exists(beside) else os.path.abspath(sys.argv[0])


def _page(
    context: Context,
    *,
    is_new: bool,
    is_first: bool,
    missing: list[str],
    hosts: list[str],
    done: Installation,
) -> str:
    place = context.place
    settings = context.opened_ledger.settings.settings()
    gates, offer = ", ".join(settings.gates or ()) or "none", _director_offer(context, hosts)
    source = f" (read from {settings.source})" if settings.source else ""
    local = [path for path in sorted({*done.hooks, *done.servers}) if path not in done.shared]
    rows = [
        f"Remand is set up in {place.root}.",
        f"  {'wrote' if is_new else 'kept '} remand.toml{source}; gates: {gates}",
        f"  {'made ' if is_first else 'kept '} .got/ (git tracks only its event files)",
        *(
            ["  note  no gate runs yet: every done claim passes until remand.toml has one"]
            if gates == "none"
            else []
        ),
        *(f"  wrote {path} (this machine's; git ignores it)" for path in local),
        *(f"  wrote {path} (the project's; it calls `remand` on PATH)" for path in sorted({*done.shared})),
        *(f"  removed a machine's path from {path}" for path in done.cleaned),
        *(
            f"  note  {text}"
            for host in hosts
            for text in setup.host_checks.setup_hints(host, _executable(), place.worktree)
        ),
        *([f"  offer `{offer}` in [policy] of remand.toml: an agent decides on rejections"] if offer else []),
        *(f"  add   {line} in remand.toml, so that other clones have it, too" for line in missing),
        "",
        f"Next: commit {_to_commit(place, done)} on the base, then",
        "  remand gate run                # runs the gates on HEAD; records nothing",
        "  remand task add 'First task'",
        "  remand task claim --agent NAME",
    ]
    if local:
        rows += ["", f"In every other clone, run `remand init --hosts {','.join(hosts)}` once."]
    return "\n".join(rows)


def _trust_instructions(context: Context, request: str) -> str:
    """What to do if the base does not trust this machine's key; empty if it does."""
    if not request:
        return ""
    base = context.opened_ledger.settings.rules().base_branch
    return "\n".join(
        [
            "",
            "",
            f"The base branch {base} does not trust this machine's key yet: events written here have no effect elsewhere.",
            "  1. Here, `remand keys request` prints this machine's key as one line of text.",
            "  2. In a clone whose key the base trusts:",
            f"       remand keys trust '{request}' --write",
            f"     Commit remand.toml on {base} and push it.",
            "  3. Here: `git fetch`, then `remand doctor`, which fails until the key is trusted.",
        ]
    )


def _to_commit(place: LedgerLocation, installation: Installation) -> str:
    """The files to commit."""
    changed = [
        os.path.relpath(path, place.worktree)
        for path in sorted({*installation.cleaned, *installation.shared})
    ]
    return f"{', '.join(['remand.toml', *changed, '.got/.gitignore'])} and .got/.gitattributes"


def _remove(context: Context) -> Result:
    require_user(context, "init --remove")
    place = context.place
    installation = setup.host_files.remove_hosts(setup.host_worktrees(place))
    notes.SoloSessions(folders_of(place).solo).clear_switch()
    lines = [f"  removed Remand's hooks from {path}" for path in installation.hooks] or [
        "  there were no Remand hooks"
    ]
    lines += [f"  removed Remand's MCP server from {path}" for path in installation.servers]
    lines += [f"  commit {path}" for path in installation.shared]
    named = context.opened_ledger.settings.settings().hosts
    if named:
        lines.append(f"  delete {changes.hosts_line(named)} in remand.toml if no clone should have them")
    rows = [*lines, "Kept: remand.toml and .got/. Delete them to forget everything."]
    data = {
        "root": place.root,
        "hooks": installation.hooks,
        "mcp": installation.servers,
        "commit": installation.shared,
    }
    return Result(data, "\n".join(rows))
