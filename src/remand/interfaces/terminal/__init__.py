"""The live view on a terminal: what the team is doing, with answers by one key."""
