"""The live view: what the team is doing, on a terminal, with answers by one key."""
