"""Channels that tell the user of open questions."""
