"""The steps of our GitHub action and GitLab job, run as their runners are documented to run them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.integration.machine import PATIENCE, Machine

ROOT = Path(__file__).parents[2]
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")


class Job(NamedTuple):
    """How a job ended."""

    code: int
    out: str


def evaluate(text: str, contexts: Mapping[str, Any]) -> str:
    """A text of a workflow with its expressions evaluated: names in contexts, and `||` between them."""

    def value(match: re.Match[str]) -> str:
        for name in match[1].split("||"):
            found: Any = contexts
            for part in name.strip().split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            if found:
                return str(found)
        return ""

    return _EXPRESSION.sub(value, text)


def run_action(
    machine: Machine, server: Path, event: Mapping[str, Any], inputs: Mapping[str, str], workspace: Path
) -> Job:
    """Runs the composite action, step by step, for an event; as on GitHub, bash runs with `-e` and `pipefail`."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    temp = machine.folder / "runner-temp"
    temp.mkdir(exist_ok=True)
    github = {"event": event, "sha": "0" * 40, "token": "a-token"}
    contexts: dict[str, Any] = {"github": github, "runner": {"temp": str(temp)}}
    given = {name: evaluate(spec.get("default", ""), contexts) for name, spec in action["inputs"].items()}
    contexts["inputs"] = given | dict(inputs)
    (machine.folder / "event.json").write_text(json.dumps(event))
    environment = machine.environment | {
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(machine.folder / "event.json"),
        "GITHUB_REPOSITORY": "acme/roof",
        "GITHUB_SERVER_URL": f"file://{server}",
        "GITHUB_WORKSPACE": str(workspace),
        "RUNNER_TEMP": str(temp),
        "CI": "true",
    }
    said = ""
    for step in action["runs"]["steps"]:
        if step.get("if") == "inputs.remand == ''" and contexts["inputs"]["remand"]:
            continue
        own = {name: evaluate(value, contexts) for name, value in step.get("env", {}).items()}
        folder = evaluate(step.get("working-directory", str(workspace)), contexts)
        assert step["shell"] == "bash"
        done = _bash(step["run"], folder, environment | own, "-eo", "pipefail")
        said += done.out
        if done.code:
            return Job(done.code, said)
    return Job(0, said)


def run_gitlab_job(
    machine: Machine,
    server: Path,
    variables: Mapping[str, str],
    workspace: Path,
    inputs: Mapping[str, str],
    *,
    name: str = "remand-verdict",
) -> Job:
    """Runs the template's job; as on GitLab, the lines of its script are one script of bash, and inputs are put into its text."""
    header, _, text = (ROOT / "ci" / "gitlab.yml").read_text().partition("\n---\n")
    for key, declared in yaml.safe_load(header)["spec"]["inputs"].items():
        value = inputs.get(key, declared["default"])
        assert re.fullmatch(declared["regex"], value)
        text = text.replace(f"$[[ inputs.{key} ]]", value)
    assert "$[[" not in text
    job = yaml.safe_load(text)[name]
    environment = machine.environment | {
        "CI": "true",
        "CI_JOB_TOKEN": "a-token",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_PROJECT_PATH": "acme/roof",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_SERVER_URL": f"file://{server}",
    }
    return _bash(
        "\n".join(job["script"]), str(workspace), environment | job["variables"] | dict(variables), "-e"
    )


def _bash(script: str, folder: str, environment: Mapping[str, str], *options: str) -> Job:
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", *options, "-c", script],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Job(done.returncode, done.stdout)
