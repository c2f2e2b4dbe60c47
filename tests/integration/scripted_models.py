"""Models of agents and a command that needs them, where nothing but this machine can be reached.

Run as a program inside a network namespace of its own, it starts a model for each script, then the command, and ends that
when its own input ends. It prints what each model has heard.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

from tests.acceptance.real_agents.endpoint import Model, raise_loopback, refuse_the_world

PATIENCE = 600.0


def main() -> None:
    """Runs the command that the first line of the input tells of."""
    raise_loopback()
    refuse_the_world()
    plan: dict[str, Any] = json.loads(sys.stdin.readline())
    models = {name: Model(script) for name, script in plan["scripts"].items()}
    text = json.dumps(plan)
    for name, model in models.items():
        threading.Thread(target=model.serve_forever, daemon=True).start()
        text = text.replace(address_of(name), model.address)
    plan = json.loads(text)
    for path, content in plan["files"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    with open(plan["log"], "wb") as log:
        command = subprocess.Popen(
            plan["command"],
            cwd=plan["folder"],
            env=plan["environment"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    sys.stdin.read()
    command.send_signal(signal.SIGTERM)
    try:
        code: int | None = command.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        command.kill()
        code = None
    heard = {name: {"heard": model.heard, "left": model.script} for name, model in models.items()}
    json.dump({"code": code, "models": heard}, sys.stdout)


def address_of(name: str) -> str:
    """Stands for a model's address in a command, an environment or a file."""
    return f"THE-ADDRESS-OF-{name}"


if __name__ == "__main__":
    main()
