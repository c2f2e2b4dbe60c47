"""Use cases: commands and queries, carried out through ports."""
