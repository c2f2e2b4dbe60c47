"""Fenster: hands in what looks right, and rejects what looks like work."""

from __future__ import annotations

from remand.interfaces.demo.agents.session import LAZY_REJECTION, DemoAgent, deliver

BUTTON = '<div class="signin" onclick="signIn()">Sign in</div>\n'


def main() -> None:
    """A button that is none; no to whatever is left."""
    agent = DemoAgent.from_stdin()
    match agent.title:
        case "Sign-in button":
            agent.write({"web/button.html": BUTTON})
            agent.commit("Add the sign-in button")
            agent.submit()
            agent.end("Done.")
        case "Footer links":
            reject_twice(agent)
        case _:
            deliver(agent)


def reject_twice(agent: DemoAgent) -> None:
    """Gives up with empty words, is told what is missing, and says the same again."""
    answer = agent.reject(LAZY_REJECTION)
    agent.say(f"They want to know more: {', '.join(issue['field'] for issue in answer['issues'])}.")
    agent.reject(LAZY_REJECTION)
    agent.end("It is too complex.")


if __name__ == "__main__":
    main()
