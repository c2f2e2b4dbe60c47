"""The live view on a terminal: shows what the team is doing, and takes answers by one key."""
