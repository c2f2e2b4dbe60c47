"""Identity and access: the team, its members' names, trusted keys and tokens."""
