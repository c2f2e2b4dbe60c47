"""OpenHands: hooks in its folder of settings, which is put in the run's own.

It gives an MCP server nothing of its environment, so that ours would not know whose it is: there are no tools.
"""

from __future__ import annotations

from remand.adapters.hosts.openhands import SETUP
from remand.adapters.hosts.outfit import Outfit, Run, hooks, lent, passed

FOLDERS = ("OPENHANDS_PERSISTENCE_DIR", "OH_PERSISTENCE_DIR")
"""What its terminal program and what its library calls the same folder."""
READ = ("agent_settings.json", "cli_config.json", "mcp.json", "profiles", "skills", "microagents")
VARIABLES = ("OH_SECRET_KEY",)
PREFIXES = ("LLM_", "OPENHANDS_API_", "LITELLM_")


def outfit(run: Run) -> Outfit:
    """What OpenHands is started with. It reads what to do from a file, never from its input."""
    is_told = run.is_placed or run.has("-t", "--task", "-f", "--file")
    own = Outfit(
        arguments=(
            *(() if is_told else ("--file", run.prompt_file)),
            *(("--json",) if run.has("--headless") and not run.has("--json") else ()),
        ),
        environment={**passed(run, VARIABLES, PREFIXES), **dict.fromkeys(FOLDERS, run.state)},
        files={f"{run.state}/hooks.json": hooks(SETUP, run), run.prompt_file: run.prompt},
        has_prompt=not is_told,
    )
    return own.joined(lent(run.own_folder(FOLDERS[0], ".openhands"), run.state, links=READ))
