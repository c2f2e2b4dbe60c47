"""The server of a team, seen from a host: one HTTP request for each call."""
