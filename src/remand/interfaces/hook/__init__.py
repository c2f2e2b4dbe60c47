"""The hook: agent hosts call it, and it answers in each host's own format."""
