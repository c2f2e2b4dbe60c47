"""Use cases: what is done with commands and queries, over ports."""
