"""Hockney: steady, and knows accessibility. Once, the scheduler is killed in the middle of its work."""

from __future__ import annotations

import signal

from remand.interfaces.demo.agents.session import DemoAgent, deliver

FILE = "web/button.html"
HALF_WAY = "A real button stands. Next: its name for screen readers."
BEGUN = '<button type="button" class="signin">Sign in</button>\n'
BUTTON = '<button type="button" class="signin" aria-label="Sign in">Sign in</button>\n'


def main() -> None:
    """Mends what a colleague left, whatever comes between."""
    agent = DemoAgent.from_stdin()
    if agent.title != "Sign-in button":
        deliver(agent)
        return
    with open(FILE, encoding="utf-8") as file:
        is_begun = "<button" in file.read()
    if not is_begun:
        agent.write({FILE: BEGUN})
        agent.say(HALF_WAY)
        signal.pause()
    agent.say("My earlier work is still here, uncommitted. I continue from there.")
    agent.write({FILE: BUTTON})
    agent.commit("Make the sign-in button one")
    agent.submit()
    agent.end("A real button, with a name.")


if __name__ == "__main__":
    main()
