"""Agents that review and direct: what they are shown, and what they say in the end."""
