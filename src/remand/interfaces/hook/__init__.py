"""The hook: what a host of agents calls, and is answered in its own form."""
