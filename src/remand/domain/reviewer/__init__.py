"""Agents that review and direct: what they are shown, and how their final message is read."""
