"""A host's access to its team's server: one HTTP request for each call."""
