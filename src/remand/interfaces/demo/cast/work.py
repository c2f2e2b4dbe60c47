"""What good work on each task of the story is, and doing it."""

from __future__ import annotations

from remand.interfaces.demo.cast.acting import Agent

WORK: dict[str, dict[str, str]] = {
    "Extract a provider interface": {
        "auth/provider.py": (
            'class Provider:\n    """A way to sign in."""\n\n'
            "    def sign_in(self, user, proof):\n        raise NotImplementedError\n"
        )
    },
    "OAuth provider": {
        "auth/oauth.py": (
            'class OAuth:\n    """Signs in by another site\'s word."""\n\n'
            "    def sign_in(self, user, proof):\n        return proof.site_vouches_for(user)\n"
        )
    },
    "OAuth button": {"web/oauth.html": '<button type="button" class="oauth">Sign in with …</button>\n'},
    "Footer links": {"web/footer.html": '<a href="/imprint">Imprint</a>\n<a href="/privacy">Privacy</a>\n'},
    "Write the FAQ": {"docs/faq.md": "# Questions\n\nHow do I pay? By card.\n"},
    "Resolve blocker": {
        "ops/sandbox.md": "# The payment sandbox\n\nIt is started, and its key is renewed.\n"
    },
    "Run the checkout tests": {"docs/checkout.md": "# Checkout\n\nThree of three runs went through.\n"},
}


def deliver(agent: Agent) -> None:
    """Does what the task asks for, and hands it in."""
    files = next((files for title, files in WORK.items() if agent.title.startswith(title)), {})
    agent.write(files or {"NOTES.md": f"{agent.title}\n"})
    agent.commit(agent.title[:72])
    agent.submit()
    agent.end("Done.")
