"""Who is who: the team, the names of its members, and the keys that are trusted."""
